/* SPDX-License-Identifier: MIT */
/* graph/inputs/inputs_report.c: what is said of inputs that are gone. The error record has who
 * reads them, the log where they were allocated and freed, where that is known. */
#include "graph/inputs/inputs_report.h"
#include "base/demangle.h"
#include "base/line.h"
#include "base/log.h"
#include "graph/inputs/input_state.h"
#include "graph/object/graph.h"
#include "memory/observe/labels.h"
#include "memory/observe/sites.h"
#include <phonograph/annotation.h>
#include <string.h>

typedef struct words {
    char *at;
    size_t size, used;
} words;

PH_PRINTF(2, 3) static void say(words *to, const char *format, ...)
{
    va_list args;
    if (to->used + 4 > to->size)
        return;
    va_start(args, format);
    ph__line_vformat(to->at + to->used, to->size - to->used, format, args);
    va_end(args);
    to->used += strlen(to->at + to->used);
}

/* Of the scopes around a node the name, or what else the first pair says. */
static void say_scope(words *to, const ph_graph *graph, size_t node)
{
    const ph_annotation_pair *pairs = NULL, *best = NULL;
    size_t count = 0;
    if (node >= graph->record->node_count ||
        ph_record_annotation(&pairs, &count, graph->record, node) != PH_OK || count == 0)
        return;
    for (size_t i = 0; i < count && !best; i++)
        if (strcmp(pairs[i].key, "name") == 0)
            best = &pairs[i];
    best = best ? best : &pairs[0];
    if (best->type == PH_ANNOTATION_TEXT)
        say(to, ", in \"%s\"", best->text);
    else if (best->type == PH_ANNOTATION_REAL)
        say(to, ", in %s %g", best->key, best->real);
    else
        say(to, ", in %s %lld", best->key,
            best->type == PH_ANNOTATION_BOOL ? (long long)best->boolean : (long long)best->integer);
}

/* Cut names cannot be read any more: the record has them whole. */
static const char *name_of_input(char room[PH__READABLE], const ph_graph *graph,
                                 const ph__input *input)
{
    bool there = !input->nested && input->node < graph->record->node_count;
    return ph__readable_name(room, there ? graph->record->nodes[input->node].info.name
                                         : input->node_name);
}

/* The first line of its label. */
static void say_announced(words *to, const ph_graph *graph, const ph__input *input)
{
    char label[128];
    (void)ph__labels_copy(label, NULL, sizeof label, graph->device, input->base, input->generation);
    label[strcspn(label, "\n")] = '\0';
    say(to, " of another allocator%s%s%s", label[0] ? " (" : "", label, label[0] ? ")" : "");
    if (ph__input_state(graph, input) == PH_INPUT_REPLACED)
        say(to, ", replaced");
}

/* "node 3 (saxpy) x = 0x7f..., +16 in 4096 bytes, in "layer 3"". */
static void say_input(words *to, const ph_graph *graph, const ph__input *input)
{
    char room[PH__READABLE];
    if (input->node == SIZE_MAX)
        say(to, "%s: %s", input->node_name, input->word_name);
    else
        say(to, "node %zu (%.100s) %s", input->node, name_of_input(room, graph, input),
            input->word_name);
    say(to, " = 0x%llx", (unsigned long long)input->value);
    uint64_t offset = input->value - (uintptr_t)input->base;
    size_t bytes = input->requested && offset <= input->requested ? input->requested : input->bytes;
    if (bytes && offset)
        say(to, ", +%llu in %zu bytes", (unsigned long long)offset, bytes);
    else if (bytes)
        say(to, ", %zu bytes", bytes);
    if (input->foreign)
        say(to, " of other code's, %s",
            input->foreign->state == PH_INPUT_REPLACED ? "replaced" : "freed");
    else if (input->announced)
        say_announced(to, graph, input);
    else if (input->generation == 0)
        say(to, ", not allocated at the capture's end");
    say_scope(to, graph, input->node);
}

static void say_site(words *to, const char *what, const ph__site *site)
{
    char frames[440];
    if (site->before)
        say(to, "; %s before ph_memory_record_sites", what);
    if (site->count == 0)
        return;
    ph__site_describe(frames, sizeof frames, site);
    say(to, "; %s at %s", what, frames);
}

/* The owner's texts of an announced block, as far as they fit. false: there are none. */
static bool say_places(words *to, const ph_graph *graph, const ph__input *input)
{
    char label[360], ended[360];
    if (!ph__labels_copy(label, ended, sizeof label, graph->device, input->base,
                         input->generation) ||
        (!label[0] && !ended[0]))
        return false;
    if (ended[0])
        say(to, "; freed at %s", ended);
    if (label[0])
        say(to, "; allocated at %s", label);
    return true;
}

/* Each input once, however often the graph is replayed. */
static void log_sites(ph_graph *graph, const ph__dead *dead, const char *call)
{
    ph__site allocated, freed, here;
    ph__site_capture(&here);
    for (size_t i = 0; i < dead->count && i < PH__DEAD_LISTED; i++) {
        const ph__input *input = &dead->at[i];
        char text[960];
        words to = {text, sizeof text, 0};
        bool sites = !input->announced && ph__sites_find(&allocated, &freed, input->generation);
        if (input->warned || (!sites && !input->announced))
            continue;
        say(&to, "dead input %zu of %zu: ", i + 1, dead->count);
        say_input(&to, graph, input);
        if (sites) {
            say_site(&to, "freed", &freed);
            say_site(&to, "allocated", &allocated);
        } else if (!say_places(&to, graph, input)) {
            continue;
        }
        if (i == 0)
            say_site(&to, "replayed", &here);
        ph__log(PH_LOG_WARNING, "%s: %s", call, text);
    }
    for (size_t n = 0; n < graph->inputs.count; n++)
        for (size_t i = 0; i < dead->count && i < PH__DEAD_LISTED; i++)
            if (dead->at[i].generation && graph->inputs.at[n].generation == dead->at[i].generation)
                graph->inputs.at[n].warned = true;
}

/* The first of the dead inputs, and what is to be done: what had no allocation to keep needs
 * another capture. */
static void say_dead(words *to, const ph_graph *graph, const ph__dead *dead)
{
    bool kept = false;
    for (size_t i = 0; i < dead->count && i < PH__DEAD_LISTED; i++)
        kept = kept || dead->at[i].foreign || dead->at[i].generation;
    say(to, "%zu dead input%s: ", dead->count, dead->count == 1 ? "" : "s");
    say(to, "%s capture again, or name other memory by a slot: ",
        kept
            ? "memory freed since the capture began; keep it allocated while the graph is replayed,"
            : "memory that was not allocated when the capture ended (freed earlier?): allocate it, "
              "then");
    for (size_t i = 0; i < dead->count && i < PH__DEAD_LISTED; i++) {
        say(to, "%s", i ? "; " : "");
        say_input(to, graph, &dead->at[i]);
    }
}

void ph__dead_add(ph__dead *dead, const ph__input *input)
{
    for (size_t i = 0; i < dead->count && i < PH__DEAD_LISTED; i++)
        if (dead->at[i].generation == input->generation && dead->at[i].base == input->base)
            return;
    if (dead->count < PH__DEAD_LISTED)
        dead->at[dead->count] = *input;
    dead->count++;
}

ph_status ph__fail_stale(ph_graph *graph, const ph__dead *dead, bool refused, const char *call)
{
    char text[512];
    words to = {text, sizeof text, 0};
    say_dead(&to, graph, dead);
    log_sites(graph, dead, call);
    return ph_fail(PH_ERROR_STALE_INPUT, "%s: %s%s", call, refused ? "refused, " : "", text);
}

void ph__warn_stale(ph_graph *graph, const ph__dead *dead, const char *call)
{
    char text[720];
    words to = {text, sizeof text, 0};
    say_dead(&to, graph, dead);
    ph__log(PH_LOG_WARNING, "%s: replays will be refused, %s", call, text);
}

/* Of one allocation once, however many words look like addresses in it. */
void ph__warn_suspected(ph_graph *graph, ph__input *input, const char *call)
{
    char text[320];
    words to = {text, sizeof text, 0};
    size_t more = 0, unproved = 0;
    if (input->warned)
        return;
    say_input(&to, graph, input);
    for (size_t i = 0; i < graph->inputs.count; i++) {
        ph__input *other = &graph->inputs.at[i];
        unproved += !ph__input_is_proved(graph, other);
        if (other->base != input->base || other->generation != input->generation ||
            other->foreign != input->foreign || other->proved)
            continue;
        other->warned = true;
        more += other != input;
    }
    if (more)
        say(&to, " (and %zu more word%s there)", more, more == 1 ? "" : "s");
    ph__log(PH_LOG_WARNING,
            "%s: %s: looks like an address in memory that is gone since the capture, and nothing "
            "proves that it "
            "is one: the replay is not refused; of the graph's %zu addresses %zu are not proved: "
            "give kernels "
            "typed parameters, prove the words by further captures (ph_graph_slot_prove), or call "
            "ph_stream_declare_use in the capture",
            call, text, graph->inputs.count, unproved);
}
