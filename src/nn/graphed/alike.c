/* SPDX-License-Identifier: MIT */
/* nn/graphed/alike.c: two captures of one pass, most of whose nodes have the same parameters: the
 * words that differ are looked at alone. */
#include "nn/graphed/alike.h"
#include "base/status.h"
#include <phonograph/breaks.h>
#include <phonograph/inspect/record.h>
#include <string.h>

/* A pass. */
typedef struct side {
    const ph_record *record;
    ph_node_info info; /* of the node under comparison */
} side;

/* Of other code's memory a proved address counts alone. */
static bool is_number_or_young(const ph_word *word, uint64_t generation)
{
    if (word->internal)
        return true;
    return word->base && !word->foreign ? word->generation > generation
                                        : word->kind != PH_WORD_PROVED;
}

static ph_status compare_words(bool *same, const side *a, const side *b, size_t node,
                               uint64_t generation)
{
    ph_word mine, theirs;
    *same = true;
    for (size_t w = 0; *same && w < a->info.word_count; w++) {
        PH_TRY(ph_record_word(&mine, a->record, node, w));
        PH_TRY(ph_record_word(&theirs, b->record, node, w));
        *same = mine.value == theirs.value ||
                (is_number_or_young(&mine, generation) && is_number_or_young(&theirs, generation));
    }
    return PH_OK;
}

static ph_status compare_nodes(bool *same, side *a, side *b, size_t node, uint64_t generation)
{
    PH_TRY(ph_record_node(&a->info, a->record, node));
    PH_TRY(ph_record_node(&b->info, b->record, node));
    const ph_node_info *mine = &a->info, *theirs = &b->info;
    *same = mine->kind == theirs->kind && !mine->body && !theirs->body &&
            mine->args_size == theirs->args_size && mine->word_count == theirs->word_count;
    if (!*same || (mine->kind == PH_NODE_KERNEL && mine->args && theirs->args &&
                   memcmp(mine->args, theirs->args, mine->args_size) == 0))
        return PH_OK;
    return compare_words(same, a, b, node, generation);
}

ph_status ph__graphs_are_alike(bool *out, ph_graph *a, ph_graph *b, uint64_t generation)
{
    side mine, theirs;
    *out = false;
    if (ph_graph_segment_count(a) > 1 || ph_graph_segment_count(b) > 1)
        return PH_OK;
    PH_TRY(ph_graph_record(&mine.record, a));
    PH_TRY(ph_graph_record(&theirs.record, b));
    size_t count = ph_record_node_count(mine.record);
    *out = count == ph_record_node_count(theirs.record);
    for (size_t i = 0; *out && i < count; i++)
        PH_TRY(compare_nodes(out, &mine, &theirs, i, generation));
    return PH_OK;
}
