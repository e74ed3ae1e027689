/* SPDX-License-Identifier: MIT */
/* cache/learn.c: two captures of one work, with other pointers and values: each difference between
 * them must be the distance of pointers, or the bytes of values.
 *
 * Pointers are divided into groups that moved alike (partition refinement: each capture divides the
 * groups that there are by the distances in it), and each word belongs to a group: that of the
 * pointers without a move, or the one whose distance it has had in every capture. */
#include "cache/learn.h"
#include "base/alloc.h"
#include "base/line.h"
#include "cache/follows.h"
#include "cache/lesson_slots.h"
#include "graph/memory/cells.h"
#include "graph/object/graph.h"
#include "graph/slots/slots.h"
#include "graph/slots/slots_same.h"
#include "record/sparse.h"
#include "record/words.h"
#include <stdlib.h>
#include <string.h>

enum {
    PAGE = 4096
};

/* Each comparison answers false when it has put a difference into the reason, or has no memory. */
#define UNEXPLAINED(l, ...) (ph__line_format((l)->reason, (l)->size, __VA_ARGS__), false)

static bool has_no_memory(ph__lesson *l)
{
    l->no_memory = true;
    return false;
}

/* ---- words that follow pointers ---- */
static const ph__moved_word *next_known_word(ph__lesson *l, size_t node, size_t offset)
{
    const ph__learned *learned = l->learned;
    while (l->word < learned->words.count &&
           (learned->words.at[l->word].node < node || (learned->words.at[l->word].node == node &&
                                                       learned->words.at[l->word].offset < offset)))
        l->word++;
    return l->word < learned->words.count && learned->words.at[l->word].node == node &&
                   learned->words.at[l->word].offset == offset
               ? &learned->words.at[l->word]
               : NULL;
}

static bool keep_moved_word(ph__lesson *l, size_t node, size_t offset, uint32_t group)
{
    return ph__vec_push(&l->words, ((ph__moved_word){node, offset, group})) || has_no_memory(l);
}

static bool compare_known_word(ph__lesson *l, const ph_node_info *info, const ph_word *mine,
                               const ph_word *theirs, const ph__moved_word *known)
{
    uint32_t group;
    if (!ph__partition_find(&group, &l->parts, known->group, theirs->value - mine->value))
        return UNEXPLAINED(l,
                           "node %zu (%s): word %s followed pointer %u, and is 0x%llx and 0x%llx, "
                           "which is not its distance",
                           info->index, info->name, mine->name,
                           l->learned->members[l->learned->groups.at[known->group].begin],
                           (unsigned long long)mine->value, (unsigned long long)theirs->value);
    return keep_moved_word(l, info->index, mine->offset, group);
}

/* The allocation of the word has one of the pointers, as where the caller shares the pool. */
static bool is_callers_word(const ph_word *word, const void *const *pointers, size_t count)
{
    for (size_t i = 0; word->base && i < count; i++)
        if ((uintptr_t)pointers[i] - (uintptr_t)word->base < word->allocation_bytes)
            return true;
    return false;
}

static bool is_own_word(const ph_graph *graph, const ph_word *word, const void *const *pointers,
                        size_t count)
{
    return word->internal ||
           ((ph__slot_is_captures(graph, word) || ph__slot_is_pools(graph, word)) &&
            !is_callers_word(word, pointers, count));
}

/* *done: explained, or the reason says why not. */
static bool compare_addresses(ph__lesson *l, const ph_node_info *info, const ph_word *mine,
                              const ph_word *theirs, bool *done)
{
    uint32_t group;
    uint64_t by = theirs->value - mine->value;
    size_t count = l->learned->pointer_count;
    bool own = is_own_word(l->graph, mine, l->learned->first, count),
         own_theirs = is_own_word(l->other, theirs, l->call->pointers, count);
    *done = true;
    if (own && own_theirs && ph__slot_is_same_place(mine, theirs))
        return true;
    if (by == 0 && (own || own_theirs))
        return UNEXPLAINED(l,
                           "node %zu (%s): word %s is 0x%llx in both captures, memory that one of "
                           "them was given",
                           info->index, info->name, mine->name, (unsigned long long)mine->value);
    if (by == 0)
        return true;
    if (!own && !own_theirs && ph__partition_find(&group, &l->parts, 0, by) &&
        ph__lesson_may_follow(l, mine, group))
        return keep_moved_word(l, info->index, mine->offset, group);
    *done = false;
    return true;
}

/* ---- bytes of values ---- */
/* Values of 8 bytes lie at a multiple of 8, and so on, as in every struct of C. */
static size_t natural_alignment(size_t bytes)
{
    size_t alignment = 8;
    while (bytes % alignment)
        alignment /= 2;
    return alignment;
}

static bool has_value(const ph__lesson *l, size_t i, const unsigned char *mine,
                      const unsigned char *theirs)
{
    const ph__learned *learned = l->learned;
    size_t bytes = learned->value_sizes[i];
    return memcmp(mine, learned->first_values + learned->value_at[i], bytes) == 0 &&
           memcmp(theirs, l->call->values[i].data, bytes) == 0;
}

/* The values that end or begin around the byte at `at`, which differs; false: they disagree. */
static bool find_candidates(const ph__lesson *l, const ph_node_info *info,
                            const ph_node_info *theirs, size_t at, ph__value_place *place)
{
    const ph__learned *learned = l->learned;
    const unsigned char *a = info->args, *b = theirs->args;
    for (size_t i = 0; i < learned->value_count; i++) {
        size_t bytes = learned->value_sizes[i], step = natural_alignment(bytes);
        size_t first = at < bytes ? 0 : at - bytes + 1;
        if (!(l->changed >> i & 1) || (learned->varied >> i & 1))
            continue;
        for (size_t begin = (first + step - 1) / step * step;
             begin <= at && begin + bytes <= info->args_size; begin += step) {
            if (!has_value(l, i, a + begin, b + begin))
                continue;
            if (place->candidates && (place->offset != begin || place->bytes != bytes))
                return false;
            place->offset = begin;
            place->bytes = bytes;
            place->candidates |= UINT64_C(1) << i;
        }
    }
    return place->candidates != 0;
}

/* The places that are known, up to the byte at `end`. */
static bool compare_known_places(ph__lesson *l, const ph_node_info *info,
                                 const ph_node_info *theirs, size_t end)
{
    const ph__learned *learned = l->learned;
    for (; l->place < learned->places.count; l->place++) {
        ph__value_place place = learned->places.at[l->place];
        if (place.node > info->index || (place.node == info->index && place.offset >= end))
            break;
        for (size_t i = 0; i < learned->value_count; i++)
            if ((place.candidates >> i & 1) && memcmp((const char *)theirs->args + place.offset,
                                                      l->call->values[i].data, place.bytes) != 0)
                place.candidates &= ~(UINT64_C(1) << i);
        if (!place.candidates)
            return UNEXPLAINED(l,
                               "node %zu (%s): the %zu bytes at %zu of its parameters held a "
                               "value, and do not hold it now",
                               info->index, info->name, place.bytes, place.offset);
        if (!ph__vec_push(&l->places, place))
            return has_no_memory(l);
    }
    return true;
}

static bool is_in_place(const ph__lesson *l, size_t node, size_t at)
{
    for (size_t p = l->places.count; p > 0 && l->places.at[p - 1].node == node; p--)
        if (at >= l->places.at[p - 1].offset &&
            at - l->places.at[p - 1].offset < l->places.at[p - 1].bytes)
            return true;
    return false;
}

static bool compare_value_bytes(ph__lesson *l, const ph_node_info *info, const ph_node_info *theirs,
                                const ph__word_slot *slot, const char *name)
{
    const unsigned char *a = info->args, *b = theirs->args;
    if (info->kind != PH_NODE_KERNEL)
        return UNEXPLAINED(l, "node %zu (%s): its %s is another address, which no pointer explains",
                           info->index, info->name, name);
    if (!compare_known_places(l, info, theirs, slot->offset + slot->size))
        return false;
    for (size_t at = slot->offset; at < slot->offset + slot->size; at++) {
        ph__value_place place = {.node = info->index};
        if (a[at] == b[at] || is_in_place(l, info->index, at))
            continue;
        if (!find_candidates(l, info, theirs, at, &place))
            return UNEXPLAINED(l,
                               "node %zu (%s): byte %zu of its parameters, in word %s, is 0x%02x "
                               "and 0x%02x, which no pointer and no value explains",
                               info->index, info->name, at, name, a[at], b[at]);
        if (!ph__vec_push(&l->places, place))
            return has_no_memory(l);
    }
    return true;
}

/* ---- nodes ---- */
/* Most words of vendor kernels are equal, and no addresses: one comparison each. */
static bool is_equal_number(const ph__record_node *mine, const ph__record_node *theirs, size_t w)
{
    return mine->info.kind == PH_NODE_KERNEL && !mine->kernel && !theirs->kernel &&
           ph__record_untyped_value(mine, w) == ph__record_untyped_value(theirs, w) &&
           ph__record_untyped_value(mine, w) <= UINT32_MAX;
}

static bool has_known_place(const ph__lesson *l, size_t node, size_t end)
{
    const ph__value_places *places = &l->learned->places;
    return l->place < places->count && places->at[l->place].node == node &&
           places->at[l->place].offset < end;
}

static bool compare_word(ph__lesson *l, const ph__record_node *mine, const ph__record_node *theirs,
                         size_t w, const ph__word_slot *slot)
{
    const ph_node_info *info = &mine->info;
    ph_word rooms[2];
    const ph_word *a = ph__record_word(&rooms[0], mine, w),
                  *b = ph__record_word(&rooms[1], theirs, w);
    bool done = false;
    if (a->offset != b->offset)
        return UNEXPLAINED(l, "node %zu (%s): it has other parameters", info->index, info->name);
    const ph__moved_word *known = next_known_word(l, info->index, a->offset);
    if (known)
        return compare_known_word(l, info, a, b, known);
    /* a word with a value follows no pointer, also where both moved by one distance */
    bool has_value = has_known_place(l, info->index, slot->offset + slot->size);
    if (!has_value && slot->size == sizeof a->value && !compare_addresses(l, info, a, b, &done))
        return false;
    if (!has_value && (done || a->value == b->value))
        return true;
    return compare_value_bytes(l, info, &theirs->info, slot, a->name);
}

static bool compare_words(ph__lesson *l, const ph__record_node *mine, const ph__record_node *theirs)
{
    const ph_node_info *info = &mine->info;
    ph__words words = {mine->kernel, info->args_size, 0, 0};
    if (info->word_count != theirs->info.word_count)
        return UNEXPLAINED(l, "node %zu (%s): it has other parameters", info->index, info->name);
    if (ph__cells_are_written_by(l->graph, info->index) &&
        ph__cells_are_written_by(l->other, info->index))
        return true;
    for (size_t w = 0; w < info->word_count; w++) {
        ph__word_slot slot = {.size = sizeof(uint64_t)};
        bool kernel = info->kind == PH_NODE_KERNEL;
        if (kernel && !ph__words_next(&words, &slot))
            return UNEXPLAINED(l, "node %zu (%s): it has other parameters", info->index,
                               info->name);
        if (is_equal_number(mine, theirs, w) &&
            !has_known_place(l, info->index, slot.offset + slot.size))
            continue;
        if (!compare_word(l, mine, theirs, w, &slot))
            return false;
    }
    return true;
}

static ph_status compare_nodes(bool *same, ph__lesson *l, const char *call)
{
    const ph_record *mine = l->graph->record, *theirs = l->other->record;
    *same = mine->node_count == theirs->node_count ||
            UNEXPLAINED(l, "the work has %zu nodes, the captured one %zu", theirs->node_count,
                        mine->node_count);
    for (size_t n = 0; *same && n < mine->node_count; n++) {
        const char *why;
        PH_TRY(ph__slot_other_in(&why, l->graph, &mine->nodes[n], &theirs->nodes[n], call));
        *same = why ? UNEXPLAINED(l, "node %zu (%s): %s; what decides that belongs into the key", n,
                                  mine->nodes[n].info.name, why)
                    : compare_words(l, &mine->nodes[n], &theirs->nodes[n]);
    }
    return PH_OK;
}

/* A value that differs is in a parameter, or takes a way that the library cannot see. */
static bool all_values_have_places(ph__lesson *l)
{
    uint64_t seen = 0;
    for (size_t p = 0; p < l->places.count; p++)
        seen |= l->places.at[p].candidates;
    for (size_t i = 0; i < l->learned->value_count; i++)
        if ((l->changed >> i & 1) && !(seen >> i & 1))
            return UNEXPLAINED(l, "value %zu differs, and no parameter of the graph does", i);
    return true;
}

static uint64_t changed_values(const ph__learned *learned, const ph_graph_cache_call *call)
{
    uint64_t changed = 0;
    for (size_t i = 0; i < learned->value_count; i++)
        if (memcmp(learned->first_values + learned->value_at[i], call->values[i].data,
                   call->values[i].bytes) != 0)
            changed |= UINT64_C(1) << i;
    return changed;
}

/* ---- the result ---- */
static int compare_places(const void *left, const void *right)
{
    const ph__value_place *a = left, *b = right;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

#define EXCHANGE(a, b)                                                                             \
    do {                                                                                           \
        __typeof__(a) before_ = (a);                                                               \
        (a) = (b);                                                                                 \
        (b) = before_;                                                                             \
    } while (0)

static void adopt_lesson(ph__learned *learned, ph__lesson *l)
{
    EXCHANGE(learned->groups, l->parts.groups);
    EXCHANGE(learned->group, l->parts.group);
    EXCHANGE(learned->members, l->parts.members);
    learned->mover_count = 0;
    for (size_t i = 0; i < learned->pointer_count; i++)
        if (learned->group[i] != 0)
            learned->movers[learned->mover_count++] = (uint32_t)i;
    EXCHANGE(learned->words, l->words);
    EXCHANGE(learned->places, l->places);
    EXCHANGE(learned->value_slots, l->value_slots);
    for (size_t i = 0; i < learned->pointer_count; i++)
        learned->bits[i] |=
            (uint16_t)(((uintptr_t)learned->first[i] ^ (uintptr_t)l->call->pointers[i]) &
                       (PAGE - 1));
    for (size_t i = 0; i < learned->value_count; i++)
        for (size_t b = 0; b < learned->value_sizes[i]; b++)
            learned->varied_bytes[learned->value_at[i] + b] |=
                learned->first_values[learned->value_at[i] + b] ^
                ((const unsigned char *)l->call->values[i].data)[b];
    for (size_t i = 0; i < learned->value_count; i++) {
        unsigned zeros = ph__learned_low_zeros(&l->call->values[i]);
        if (zeros < learned->low_zeros[i])
            learned->low_zeros[i] = zeros;
    }
    learned->varied |= l->changed;
    learned->all_due = true;
    learned->matches = 0;
}

static ph_status learn_from(bool *learned_it, ph__learned *learned, ph__lesson *l, const char *call)
{
    PH_TRY(compare_nodes(learned_it, l, call));
    *learned_it = *learned_it && all_values_have_places(l);
    if (l->no_memory)
        return ph__fail_host_memory(call, "what differs");
    if (!*learned_it)
        return PH_OK;
    if (l->places.count)
        qsort(l->places.at, l->places.count, sizeof *l->places.at, compare_places);
    if (!ph__vec_reserve(&learned->due, l->parts.groups.count + learned->value_count) ||
        !ph__vec_reserve(&learned->touched, l->parts.groups.count))
        return ph__fail_host_memory(call, "the slots");
    PH_TRY(ph__lesson_make_slots(l, call));
    adopt_lesson(learned, l);
    return PH_OK;
}

ph_status ph__learned_compare(bool *learned_it, ph__learned *learned, ph_graph *graph,
                              ph_graph *other, const ph_graph_cache_call *call, char *reason,
                              size_t size)
{
    static const char name[] = "ph_graph_cache_run";
    ph__lesson l = {.learned = learned,
                    .graph = graph,
                    .other = other,
                    .call = call,
                    .reason = reason,
                    .size = size,
                    .changed = changed_values(learned, call)};
    *learned_it = false;
    PH_TRY(ph__graph_check(graph, PH__CALL_SLOT_PROVE));
    PH_TRY(ph__graph_check(other, PH__CALL_SLOT_PROVE_SHIFTED));
    ph_status status = ph__partition_divide(&l.parts, learned, call->pointers)
                           ? learn_from(learned_it, learned, &l, name)
                           : ph__fail_host_memory(name, "the groups of pointers");
    ph__partition_free(&l.parts);
    ph__vec_free(&l.words);
    ph__vec_free(&l.places);
    ph__vec_free(&l.value_slots);
    return status;
}
