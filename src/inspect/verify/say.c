/* SPDX-License-Identifier: MIT */
/* inspect/verify/say.c: what a verification found, in words. */
#include "inspect/verify/say.h"
#include "base/demangle.h"
#include "base/line.h"
#include "device/capture/outside.h"
#include "inspect/verify/blocks.h"
#include "inspect/verify/change.h"
#include "inspect/verify/compare.h"
#include "inspect/verify/held.h"
#include "inspect/verify/race.h"
#include "inspect/verify/written.h"
#include "record/foreign.h"
#include <string.h>

#define add ph__verify_add
void ph__verify_add(const ph__verify *verify, const char *format, ...)
{
    char *message = verify->out->message;
    size_t used = strlen(message), size = sizeof verify->out->message;
    va_list args;
    if (size - used < 8)
        return;
    va_start(args, format);
    ph__line_vformat(message + used, size - used, format, args);
    va_end(args);
}

/* ---- a node ---- */
static void add_pair(const ph__verify *verify, const ph_annotation_pair *pair)
{
    switch (pair->type) {
    case PH_ANNOTATION_INTEGER:
        add(verify, "%s: %lld", pair->key, (long long)pair->integer);
        break;
    case PH_ANNOTATION_REAL:
        add(verify, "%s: %g", pair->key, pair->real);
        break;
    case PH_ANNOTATION_BOOL:
        add(verify, "%s: %s", pair->key, pair->boolean ? "true" : "false");
        break;
    default:
        add(verify, "%s: %s", pair->key, pair->text ? pair->text : "");
        break;
    }
}

static void add_node(const ph__verify *verify, size_t node)
{
    const ph_annotation_pair *pairs = NULL;
    size_t count = 0;
    ph_error saved;
    ph__error_save(&saved);
    char room[PH__READABLE];
    add(verify, "node %zu (%.200s)", node,
        ph__readable_name(room, verify->graph->record->nodes[node].info.name));
    if (ph_record_annotation(&pairs, &count, verify->graph->record, node) != PH_OK)
        count = 0;
    for (size_t i = 0; i < count; i++) {
        add(verify, "%s", i ? ", " : " {");
        add_pair(verify, &pairs[i]);
    }
    if (count)
        add(verify, "}");
    ph__error_restore(&saved);
}

/* ---- a place ---- */
/* The node's parameter that the address is behind. */
static const char *parameter_of(const ph__verify *verify, size_t node,
                                const ph__difference *difference)
{
    const char *best = NULL;
    uint64_t highest = 0;
    if (node == SIZE_MAX)
        return NULL;
    const ph__record_node *at = &verify->graph->record->nodes[node];
    for (size_t i = 0; i < at->info.word_count; i++) {
        ph_word room;
        const ph_word *word = ph__record_look_up_foreign(&room, verify->graph->record, at, i);
        if (word->kind != PH_WORD_VALUE && word->value <= difference->address &&
            word->value >= difference->kept->base && (best == NULL || word->value > highest)) {
            best = word->name;
            highest = word->value;
        }
    }
    return best;
}

static void add_place(const ph__verify *verify, size_t node, const ph__difference *difference)
{
    ph_allocation block = {.base = NULL};
    const char *parameter = parameter_of(verify, node, difference);
    if (parameter)
        add(verify, "parameter %s, ", parameter);
    if (ph__verify_find_block(&block, verify, difference->address))
        add(verify, "byte %zu of the %zu %s at %p",
            (size_t)(difference->address - (uintptr_t)block.base), block.requested,
            difference->kept->own       ? "that the capture was given"
            : difference->kept->foreign ? "of other code's"
                                        : "allocated",
            block.base);
    else
        add(verify, "at %p", (void *)difference->address);
}

/* ---- values ---- */
/* guess: as a number of floating point too, where it looks like one. */
static void add_value(const ph__verify *verify, const ph__difference *difference,
                      const unsigned char *bytes, bool guess)
{
    const ph_verify_output *output = ph__verify_output_at(verify, difference->address);
    add(verify, "0x");
    for (size_t i = difference->size; i-- > 0;)
        add(verify, "%02x", bytes[i]);
    if (output && ph__number_size(output->type) == difference->size)
        add(verify, " (%.9g)", ph__number_value(bytes, output->type));
    else if (guess && output == NULL && difference->size == 4 &&
             ph__number_is_plausible(ph__number_value(bytes, PH_NUMBER_F32)))
        add(verify, " (%.9g)", ph__number_value(bytes, PH_NUMBER_F32));
}

static void add_output(const ph__verify *verify, const ph__difference *difference)
{
    const ph_verify_output *output = ph__verify_output_at(verify, difference->address);
    if (output == NULL)
        return;
    if (output->name)
        add(verify, "output \"%s\"", output->name);
    else
        add(verify, "output %zu", (size_t)(output - verify->options->outputs));
    add(verify, "[%zu], ",
        (difference->address - (uintptr_t)output->address) / ph__number_size(output->type));
}

static void add_values(const ph__verify *verify, size_t node, const ph__difference *difference,
                       const char *one, const char *two)
{
    bool guess = node == SIZE_MAX || /* a fill has bytes */
                 verify->graph->record->nodes[node].info.kind != PH_NODE_MEMSET;
    add_output(verify, difference);
    add_place(verify, node, difference);
    add(verify, ", is ");
    add_value(verify, difference, difference->a, guess);
    add(verify, " %s, ", one);
    add_value(verify, difference, difference->b, guess);
    add(verify, " %s (%zu of %zu %s%s differ%s)", two, difference->different, difference->compared,
        difference->output ? "number" : "byte", difference->compared == 1 ? "" : "s",
        difference->different == 1 ? "s" : "");
}

void ph__verify_say(const ph__verify *verify, ph_verify_verdict verdict, size_t node,
                    const ph__difference *difference, const ph__verify_words *words)
{
    ph_verify_result *out = verify->out;
    out->verdict = verdict;
    out->node = node;
    out->address = (const void *)difference->address;
    out->different = difference->different;
    out->compared = difference->compared;
    if (node != SIZE_MAX) {
        add_node(verify, node);
        add(verify, " %s: ", words->lead);
    } else {
        add(verify, "%s: ",
            verdict == PH_VERIFY_ORDER ? "replays are not the same each time"
            : verdict == PH_VERIFY_BODY_DIFFERS
                ? "an eager run changes what no node of the graph does"
                : "results differ, and no single node shows it");
    }
    add_values(verify, node, difference, words->one, words->two);
}

/* ---- eager runs that differ ---- */
void ph__verify_add_race(const ph__verify *verify, const ph__race *race)
{
    if (race->one == SIZE_MAX)
        return;
    add(verify, "; ");
    add_node(verify, race->one);
    add(verify, " %s and ", race->first);
    add_node(verify, race->two);
    add(verify, " %s both address the %zu bytes at %p, with no path between them in the record",
        race->second, race->block.requested, race->block.base);
    if (race->proved)
        add(verify, "; one after another, which of the two is first decides the result");
}

void ph__verify_say_certain(const ph__verify *verify, const ph_race *race)
{
    size_t certain = verify->races->certain;
    verify->out->verdict = PH_VERIFY_RACE;
    verify->out->node = race->second.node;
    verify->out->address = (const void *)(uintptr_t)race->address;
    add(verify, "%s", race->text);
    if (certain > 1)
        add(verify, "; and %zu more (ph_graph_find_races)", certain - 1);
}

void ph__verify_say_proved(const ph__verify *verify, const ph__race *race)
{
    verify->out->verdict = PH_VERIFY_RACE;
    verify->out->node = race->two;
    verify->out->address = race->block.base;
    add(verify, "a race (a missing ph_stream_wait_event)");
    ph__verify_add_race(verify, race);
}

void ph__verify_say_unsteady(const ph__verify *verify, const ph__race *race,
                             const ph__difference *difference, const ph__verify_words *words)
{
    ph_verify_result *out = verify->out;
    bool found = race->one != SIZE_MAX;
    out->verdict = race->proved ? PH_VERIFY_RACE
                   : found      ? PH_VERIFY_ORDER
                                : PH_VERIFY_EAGER_DIFFERS;
    out->node = race->two;
    out->address = (const void *)difference->address;
    out->different = difference->different;
    out->compared = difference->compared;
    add(verify, "%s: %s: ", words->lead,
        race->proved ? "a race (a missing ph_stream_wait_event)"
        : found ? "a race (a missing ph_stream_wait_event), or a body that is not deterministic"
                : "a body that is not deterministic, or a race (a missing ph_stream_wait_event)");
    add_values(verify, SIZE_MAX, difference, words->one, words->two);
    ph__verify_add_race(verify, race);
}

/* ---- other nodes ---- */
/* result: of that capture; "" where nothing is to be said of it. */
static void say_other_capture(const ph__verify *verify, size_t node,
                              const ph__difference *difference, const char *result)
{
    ph_verify_result *out = verify->out;
    size_t one = verify->graph->record->node_count, two = verify->second->record->node_count;
    ph_diff *diff = NULL;
    ph_change change;
    ph_error saved;
    out->verdict = PH_VERIFY_CAPTURE_DIFFERS;
    out->node = node;
    out->address = (const void *)difference->address;
    ph__error_save(&saved);
    add(verify,
        "a capture of body made now is not of the same work (%zu node%s, the graph has %zu)%s", two,
        two == 1 ? "" : "s", one, result);
    if (ph_record_diff(&diff, verify->graph->record, verify->second->record) == PH_OK)
        for (size_t i = 0, said = 0; i < ph_diff_count(diff) && said < 3; i++)
            if (ph_diff_at(&change, diff, i) == PH_OK && ph__verify_is_structural(change.kind)) {
                add(verify, "%s%s", said++ ? "; " : ": ", change.text);
                if (out->node == SIZE_MAX)
                    out->node = change.a;
            }
    ph_diff_destroy(diff);
    ph__error_restore(&saved);
}

void ph__verify_say_capture(const ph__verify *verify, size_t node, const ph__difference *difference)
{
    say_other_capture(verify, node, difference, "");
}

/* Behind the words for results that are equal. */
static void add_capture(const ph__verify *verify, const ph__difference *difference)
{
    static const char *const results[] = {
        [PH__SECOND_UNKNOWN] = ", and its result was not compared",
        [PH__SECOND_SAME] = ", with the same result from these contents",
        [PH__SECOND_OTHER] = ", and its replay gives another result"};
    bool same;
    add(verify, "; but ");
    say_other_capture(verify, ph__verify_first_change(&same, verify), difference,
                      results[verify->second_gives]);
}

/* ---- what may be behind it ---- */
void ph__verify_say_alternating(const ph__verify *verify, const ph__difference *difference)
{
    static const ph__verify_words words = {"a capture made now gives another result than the graph",
                                           "in that capture", "in an eager run"};
    static const ph__race none = {.one = SIZE_MAX, .two = SIZE_MAX};
    if (difference)
        ph__verify_say_unsteady(verify, &none, difference, &words);
    else if (verify->out->verdict == PH_VERIFY_NODE_DIFFERS)
        add(verify, "; an eager run gave what the graph gives: body does not do the same each "
                    "time, and its state is to be set by ph_verify_options.prepare");
}

/* A capture without its work succeeds. */
static void add_failed_call(const ph__verify *verify)
{
    const ph_graph *second = verify->second;
    if (second->call_failed)
        add(verify,
            "; a call of body failed while it was captured, and the graph may lack its work: "
            "return its status (PH_TRY), or do what its message says: %s",
            second->failed_call ? second->failed_call : "(no memory for the message)");
}

void ph__verify_add_hints(const ph__verify *verify)
{
    add_failed_call(verify);
    if (verify->missed)
        add(verify,
            "; the eager run asked for %zu block%s that the capture was not given, the first of "
            "%zu bytes",
            verify->missed, verify->missed == 1 ? "" : "s", verify->missed_bytes);
    if (!verify->prepared)
        add(verify, "; the graph has cells, such as states of generators: runs start from the same "
                    "ones only with "
                    "ph_verify_options.prepare");
}

/* ---- equal ---- */
/* Memory that is left out, and writes that nobody can see. */
static void add_missed(const ph__verify *verify, const ph__written *written)
{
    if (written->left.count) {
        add(verify, "; %zu byte%s of memory that is not this library's, as of ",
            written->bytes - written->compared, written->bytes - written->compared == 1 ? "" : "s");
        if (written->node != SIZE_MAX)
            add(verify, "node %zu (", written->node);
        add(verify, "%s%s %s at 0x%llx, %s", written->node_name,
            written->node == SIZE_MAX ? ":" : ")", written->word,
            (unsigned long long)written->address,
            verify->options->skip_foreign ? "are left out (ph_verify_options.skip_foreign)"
                                          : "cannot be read by the driver as a whole");
    }
    if (written->unseen)
        add(verify, "; %zu node%s, as node %zu (%s), %s no parameter that shows what %s",
            written->unseen, written->unseen == 1 ? "" : "s", written->first_unseen,
            verify->graph->record->nodes[written->first_unseen].info.name,
            written->unseen == 1 ? "has" : "have",
            written->unseen == 1 ? "it writes" : "they write");
}

void ph__verify_say_equal(const ph__verify *verify, const ph__difference *difference,
                          const ph__written *written)
{
    ph_verify_result *out = verify->out;
    char stray[160];
    bool strays = ph__outside_describe(stray, sizeof stray, &verify->second->capture),
         outputs = verify->options->output_count > 0,
         missed = !outputs && ph__written_is_missed(written),
         nothing = !missed && difference->compared == 0,
         lacks = !outputs && (strays || verify->second->call_failed);
    out->verdict = nothing           ? PH_VERIFY_NOTHING
                   : missed || lacks ? PH_VERIFY_PARTLY
                                     : PH_VERIFY_EQUAL;
    out->compared = difference->compared;
    if (nothing)
        add(verify,
            "nothing was compared, as no node of the graph (%zu node%s) writes memory: a "
            "replay that does nothing looks the same",
            verify->graph->record->node_count, verify->graph->record->node_count == 1 ? "" : "s");
    else if (missed)
        add(verify,
            "what was compared is the same, but that is %zu of the %zu bytes that the graph's "
            "nodes may write",
            written->compared, written->bytes);
    else
        add(verify, "a replay gives what an eager run gives: %zu %s%s%s compared",
            difference->compared, outputs ? "number" : "byte", difference->compared == 1 ? "" : "s",
            outputs ? " of the outputs" : "");
    if (verify->other_nodes)
        add_capture(verify, difference);
    if (missed)
        add_missed(verify, written);
    add_failed_call(verify);
    if (strays)
        add(verify,
            "; body submits work to a stream that is not in its capture, which no replay does "
            "(%s): "
            "submit it to the capture's stream, or to one that has joined it",
            stray);
    size_t held = outputs ? 0 : ph__verify_held_bytes(verify);
    if (held)
        add(verify,
            "; %zu bytes of pools that the graph holds beside its own (ph_graph_retain_pool) "
            "differ, "
            "and are taken for scratch, as the eager run writes nothing there",
            held);
    if (verify->other_parameters)
        ph__verify_add_changes(verify, SIZE_MAX);
    if (verify->graph->cells && !verify->prepared)
        add(verify, "; with one poison alone, as the graph has cells and ph_verify_options.prepare "
                    "is not set");
    if (written->hosts && !outputs)
        add(verify, "; what %zu host function%s %s is not seen", written->hosts,
            written->hosts == 1 ? "" : "s", written->hosts == 1 ? "writes" : "write");
}
