/* SPDX-License-Identifier: MIT */
/* nn/graphed/frozen.c: numbers of the host that change between captures of one pass. */
#include "nn/graphed/frozen.h"
#include "base/line.h"
#include "nn/graphed/callable.h"
#include "tensor/tape/sightings.h"
#include <phonograph/breaks.h>
#include <phonograph/inspect/record.h>
#include <phonograph/log.h>
#include <string.h>

typedef struct finding {
    const ph__sightings *seen; /* NULL: all numbers count */
    bool maybe;                /* the number may follow from an address, too */
    char text[260];            /* "": nothing was found */
} finding;

/* Numbers, or words that the driver knows as addresses in other code's memory, which the captures'
 * own memory never is. */
static bool is_number(const finding *out, const ph_word *word)
{
    return word->kind == PH_WORD_VALUE ||
           (!out->seen && word->kind == PH_WORD_SUSPECTED && word->foreign);
}

static ph_status compare_number_words(finding *out, const ph_record *a, const ph_record *b,
                                      const ph_node_info *mine, const ph_node_info *theirs)
{
    ph_word x, y;
    bool ours = !out->seen || ph__sightings_have_kernel(out->seen, mine->name);
    for (size_t k = 0; k < mine->word_count && !out->text[0]; k++) {
        PH_TRY(ph_record_word(&x, a, mine->index, k));
        PH_TRY(ph_record_word(&y, b, theirs->index, k));
        if (is_number(out, &x) && is_number(out, &y) && x.value != y.value &&
            (ours || x.name[0] != '+')) {
            out->maybe = !ours || !out->seen;
            ph__line_format(
                out->text, sizeof out->text,
                "word %s of node %zu (%.80s) is 0x%llx in one, and 0x%llx in the other%s", x.name,
                mine->index, mine->name, (unsigned long long)x.value, (unsigned long long)y.value,
                x.foreign ? ", addresses in other code's memory, as the driver says" : "");
        }
    }
    return PH_OK;
}

static bool has_same_args(const ph_node_info *a, const ph_node_info *b)
{
    return a->args && b->args && memcmp(a->args, b->args, a->args_size) == 0;
}

static ph_status compare_numbers(finding *out, const ph_record *a, const ph_record *b, size_t node)
{
    ph_node_info mine, theirs;
    PH_TRY(ph_record_node(&mine, a, node));
    PH_TRY(ph_record_node(&theirs, b, node));
    if (mine.kind != theirs.kind || strcmp(mine.name, theirs.name) != 0)
        return PH_OK;
    if (mine.kind == PH_NODE_MEMSET && mine.value != theirs.value)
        ph__line_format(out->text, sizeof out->text,
                        "the value of node %zu (memset) is 0x%x in one, and 0x%x in the other",
                        node, (unsigned)mine.value, (unsigned)theirs.value);
    if (mine.kind != PH_NODE_KERNEL || mine.word_count != theirs.word_count ||
        mine.args_size != theirs.args_size || has_same_args(&mine, &theirs))
        return PH_OK;
    return compare_number_words(out, a, b, &mine, &theirs);
}

ph_status ph__frozen_report(const ph__trial *real, const ph__trial *probe, bool backward,
                            bool moved, const char *call)
{
    const ph_record *a, *b;
    ph__callable *callable = real->callable;
    ph_graph *graph = backward ? real->backward : real->forward,
             *other = backward ? probe->backward : probe->forward;
    finding found = {.seen = moved ? &real->seen[backward] : NULL};
    if (callable->frozen_reported || ph_graph_segment_count(graph) > 1 ||
        ph_graph_segment_count(other) > 1)
        return PH_OK;
    PH_TRY(ph_graph_record(&a, graph));
    PH_TRY(ph_graph_record(&b, other));
    size_t count = ph_record_node_count(a);
    if (count != ph_record_node_count(b)) /* other work: not numbers */
        return PH_OK;
    for (size_t i = 0; i < count && !found.text[0]; i++)
        PH_TRY(compare_numbers(&found, a, b, i));
    if (!found.text[0])
        return PH_OK;
    callable->frozen_reported = true;
    char text[600];
    ph__line_format(
        text, sizeof text,
        "%s: callable '%s': two captures of its %s differ in a number of the host: %s; replays "
        "keep the one of the capture: bring it as an input, a buffer or a cell (cells.h)%s",
        call, callable->original->name, backward ? "backward" : "forward", found.text,
        found.maybe ? ", unless it follows from an address, is padding, or is scratch that is "
                      "written before it is read"
                    : "");
    ph_log_write(PH_LOG_WARNING, text);
    return PH_OK;
}
