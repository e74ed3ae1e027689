/* SPDX-License-Identifier: MIT */
/* record/diff/addresses.c: whether two records address the same memory, node by node. */
#include "record/diff/addresses.h"
#include "record/foreign.h"
#include "record/sparse.h"
#include <string.h>

/* The next word, from *at on, that addresses memory which is there before the captures; NULL: there
 * is none. Of other code's memory a proved address counts. */
static const ph_word *next_earlier(ph_word *room, size_t *at, const ph__record_node *node,
                                   uint64_t generation)
{
    for (; *at < node->kept_count; ++*at) {
        const ph_word *word = ph__record_kept(room, node, *at);
        if (word->base && !word->internal &&
            (word->foreign ? word->kind == PH_WORD_PROVED : word->generation <= generation))
            return word;
    }
    return NULL;
}

/* Words that may address other code's memory, though nothing proves it, are the same numbers in the
 * other node, whether or not that one's record knows so. */
static bool has_same_unproved(const ph__record_node *a, const ph__record_node *b)
{
    const char *mine = a->info.args, *theirs = b->info.args;
    for (size_t i = 0; i < a->kept_count; i++) {
        ph_word room;
        const ph_word *word = ph__record_kept(&room, a, i);
        if (!word->base || !word->foreign || word->kind == PH_WORD_PROVED)
            continue;
        if (!mine || !theirs || word->offset + sizeof word->value > a->info.args_size ||
            ph__word_at(mine, word->offset) != ph__word_at(theirs, word->offset))
            return false;
    }
    return true;
}

static bool have_same_words(const ph__record_node *a, const ph__record_node *b, uint64_t generation)
{
    if (!has_same_unproved(a, b) || !has_same_unproved(b, a))
        return false;
    for (size_t at = 0, other_at = 0;; at++, other_at++) {
        ph_word rooms[2];
        const ph_word *mine = next_earlier(&rooms[0], &at, a, generation),
                      *theirs = next_earlier(&rooms[1], &other_at, b, generation);
        if (!mine || !theirs)
            return mine == theirs;
        if (mine->value != theirs->value || mine->offset != theirs->offset ||
            mine->generation != theirs->generation)
            return false;
    }
}

static bool nodes_have_same_addresses(const ph__record_node *a, const ph__record_node *b,
                                      uint64_t generation)
{
    const ph_node_info *mine = &a->info, *theirs = &b->info;
    if (mine->kind != theirs->kind || mine->body || theirs->body ||
        mine->args_size != theirs->args_size || mine->word_count != theirs->word_count)
        return false;
    return have_same_words(a, b, generation);
}

bool ph__records_have_same_addresses(const ph_record *a, const ph_record *b,
                                     const ph_device *device, uint64_t generation)
{
    bool same = a->node_count == b->node_count && !ph__record_may_prove_foreign(a, device) &&
                !ph__record_may_prove_foreign(b, device);
    for (size_t i = 0; same && i < a->node_count; i++)
        same = nodes_have_same_addresses(&a->nodes[i], &b->nodes[i], generation);
    return same;
}
