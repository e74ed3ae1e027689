/* SPDX-License-Identifier: MIT */
/* nn/graphed/alike.c: two captures of one pass, node by node: those with the same parameters are
 * passed over. */
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

/* The next word, from *at on, that addresses memory of the program's; base NULL: there is none. Of
 * other code's memory a proved address counts alone. */
static ph_status next_outside_word(ph_word *out, size_t *at, const side *of, size_t node,
                                   uint64_t generation)
{
    for (;; ++*at) {
        PH_TRY(ph_record_next_address(out, at, of->record, node));
        if (!out->base)
            return PH_OK;
        if (!out->internal &&
            (out->foreign ? out->kind == PH_WORD_PROVED : out->generation <= generation))
            return PH_OK;
    }
}

static ph_status compare_addresses(bool *same, const side *a, const side *b, size_t node,
                                   uint64_t generation)
{
    ph_word mine, theirs;
    size_t at = 0, other_at = 0;
    do {
        PH_TRY(next_outside_word(&mine, &at, a, node, generation));
        PH_TRY(next_outside_word(&theirs, &other_at, b, node, generation));
        at++;
        other_at++;
        *same = !mine.base == !theirs.base && mine.value == theirs.value;
    } while (*same && mine.base);
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
    return compare_addresses(same, a, b, node, generation);
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
