/* SPDX-License-Identifier: MIT */
/* record/diff/addresses.c: whether two records address the same memory, node by node. */
#include "record/diff/addresses.h"
#include "record/foreign.h"
#include "record/sparse.h"
#include <string.h>

static size_t offset_of_kept(const ph__record_node *node, size_t i)
{
    return node->places ? node->places[i].offset : node->kept[i].offset;
}

/* Of the words that are kept the next one, from `at` on, that addresses memory which is there
 * before the captures; kept_count: there is none. Of other code's memory proved addresses count. */
static size_t next_earlier(const ph__record_node *node, size_t at, uint64_t generation)
{
    for (; at < node->kept_count; at++) {
        const ph_word *word = ph__record_kept_word(node, at);
        if (word->base && !word->internal &&
            (word->foreign ? word->kind == PH_WORD_PROVED : word->generation <= generation))
            break;
    }
    return at;
}

/* Words that may address other code's memory, though nothing proves it, are the same numbers in the
 * other node, whether or not that one's record knows so. */
static bool has_same_unproved(const ph__record_node *a, const ph__record_node *b)
{
    const char *mine = a->info.args, *theirs = b->info.args;
    for (size_t i = 0; i < a->kept_count; i++) {
        const ph_word *word = ph__record_kept_word(a, i);
        if (!word->base || !word->foreign || word->kind == PH_WORD_PROVED)
            continue;
        const size_t offset = offset_of_kept(a, i);
        if (!mine || !theirs || offset + sizeof word->value > a->info.args_size ||
            ph__word_at(mine, offset) != ph__word_at(theirs, offset))
            return false;
    }
    return true;
}

static bool have_same_words(const ph__record_node *a, const ph__record_node *b, uint64_t generation)
{
    if (!has_same_unproved(a, b) || !has_same_unproved(b, a))
        return false;
    for (size_t i = 0, k = 0;; i++, k++) {
        i = next_earlier(a, i, generation);
        k = next_earlier(b, k, generation);
        if (i == a->kept_count || k == b->kept_count)
            return i == a->kept_count && k == b->kept_count;
        const ph_word *mine = ph__record_kept_word(a, i), *theirs = ph__record_kept_word(b, k);
        if (mine->value != theirs->value || offset_of_kept(a, i) != offset_of_kept(b, k) ||
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
