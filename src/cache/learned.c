/* SPDX-License-Identifier: MIT */
/* cache/learned.c: what a call differs in from the captured one, and which slots it needs set. */
#include "cache/learned.h"
#include "base/alloc.h"
#include "base/line.h"
#include <string.h>

enum {
    PAGE = 4096
};

unsigned ph__learned_low_zeros(const ph_graph_cache_value *value)
{
    const unsigned char *at = value->data;
    unsigned bits = 0, all = (unsigned)value->bytes * 8;
    if (value->bytes > 8 || (value->bytes & (value->bytes - 1)))
        return 0;
    while (bits < all && !(at[bits / 8] >> bits % 8 & 1)) /* every host of a GPU is little-endian */
        bits++;
    return bits;
}

static bool reserve_pointers(ph__learned *learned, const ph_graph_cache_call *call)
{
    size_t count = call->pointer_count;
    learned->pointer_count = count;
    learned->first = ph__calloc(count + 1, sizeof *learned->first);
    learned->current = ph__calloc(count + 1, sizeof *learned->current);
    learned->bits = ph__calloc(count + 1, sizeof *learned->bits);
    learned->group = ph__calloc(count + 1, sizeof *learned->group);
    learned->members = ph__calloc(count + 1, sizeof *learned->members);
    learned->movers = ph__calloc(count + 1, sizeof *learned->movers);
    learned->moved = ph__calloc(count + 1, sizeof *learned->moved);
    if (!learned->first || !learned->current || !learned->bits || !learned->group ||
        !learned->members || !learned->movers || !learned->moved ||
        !ph__vec_push(&learned->groups,
                      ((ph__moved_group){.end = (uint32_t)count, .slot = PH_SLOT_NONE})))
        return false;
    for (size_t i = 0; i < count; i++) {
        learned->first[i] = learned->current[i] = call->pointers[i];
        learned->members[i] = (uint32_t)i;
    }
    return true;
}

static bool reserve_values(ph__learned *learned, const ph_graph_cache_call *call)
{
    size_t count = call->value_count;
    learned->value_count = count;
    learned->value_at = ph__calloc(count + 1, sizeof *learned->value_at);
    learned->value_sizes = ph__calloc(count + 1, sizeof *learned->value_sizes);
    learned->low_zeros = ph__calloc(count + 1, sizeof *learned->low_zeros);
    if (!learned->value_at || !learned->value_sizes || !learned->low_zeros)
        return false;
    for (size_t i = 0; i < count; i++) {
        learned->low_zeros[i] = ph__learned_low_zeros(&call->values[i]);
        learned->value_at[i] = learned->value_bytes;
        learned->value_sizes[i] = call->values[i].bytes;
        learned->value_bytes += call->values[i].bytes;
    }
    learned->first_values = ph__calloc(1, learned->value_bytes + 1);
    learned->current_values = ph__calloc(1, learned->value_bytes + 1);
    learned->varied_bytes = ph__calloc(1, learned->value_bytes + 1);
    if (!learned->first_values || !learned->current_values || !learned->varied_bytes)
        return false;
    for (size_t i = 0; i < count; i++)
        memcpy(learned->first_values + learned->value_at[i], call->values[i].data,
               call->values[i].bytes);
    memcpy(learned->current_values, learned->first_values, learned->value_bytes);
    return true;
}

ph__learned *ph__learned_create(const ph_graph_cache_call *call)
{
    ph__learned *learned = ph__calloc(1, sizeof *learned);
    if (learned && reserve_pointers(learned, call) && reserve_values(learned, call))
        return learned;
    ph__learned_destroy(learned);
    return NULL;
}

void ph__learned_destroy(ph__learned *learned)
{
    if (!learned)
        return;
    ph__free(learned->first);
    ph__free(learned->current);
    ph__free(learned->bits);
    ph__free(learned->group);
    ph__free(learned->members);
    ph__free(learned->movers);
    ph__free(learned->moved);
    ph__free(learned->first_values);
    ph__free(learned->current_values);
    ph__free(learned->varied_bytes);
    ph__free(learned->value_at);
    ph__free(learned->value_sizes);
    ph__free(learned->low_zeros);
    ph__vec_free(&learned->groups);
    ph__vec_free(&learned->words);
    ph__vec_free(&learned->places);
    ph__vec_free(&learned->value_slots);
    ph__vec_free(&learned->due);
    ph__vec_free(&learned->touched);
    ph__free(learned);
}

static bool has_values(const ph__learned *learned, const unsigned char *values,
                       const ph_graph_cache_call *call)
{
    for (size_t i = 0; i < call->value_count; i++)
        if (memcmp(values + learned->value_at[i], call->values[i].data, call->values[i].bytes) != 0)
            return false;
    return true;
}

static bool has_pointers(const ph__learned *learned, const void **pointers,
                         const ph_graph_cache_call *call)
{
    return learned->pointer_count == 0 ||
           memcmp((const void *)pointers, (const void *)call->pointers,
                  learned->pointer_count * sizeof *pointers) == 0;
}

bool ph__learned_is_first(const ph__learned *learned, const ph_graph_cache_call *call)
{
    return has_pointers(learned, learned->first, call) &&
           has_values(learned, learned->first_values, call);
}

/* ---- a look ---- each answers false when it has put into the reason what is not known. */
#define UNKNOWN(reason, size, ...) (ph__line_format((reason), (size), __VA_ARGS__), false)

static bool name_moved(const ph__learned *learned, const ph_graph_cache_call *call, size_t i,
                       char *reason, size_t size)
{
    while (call->pointers[i] == learned->first[i])
        i++;
    return UNKNOWN(reason, size, "pointer %zu%s%s%s is %p, and was %p in all captures", i,
                   call->pointer_names ? " (" : "",
                   call->pointer_names ? call->pointer_names[i] : "",
                   call->pointer_names ? ")" : "", call->pointers[i], learned->first[i]);
}

static void touch_moved(ph__learned *learned, uint32_t i)
{
    uint32_t g = learned->group[i];
    learned->moved[learned->moved_count++] = i;
    if (learned->groups.at[g].touched == learned->matches)
        return;
    learned->groups.at[g].touched = learned->matches;
    learned->touched.at[learned->touched.count++] = g;
}

/* The pointers between two that may move are compared at once. */
static bool touch_moved_pointers(ph__learned *learned, const ph_graph_cache_call *call,
                                 char *reason, size_t size)
{
    const void *const *now = call->pointers;
    size_t from = 0;
    ph__vec_clear(&learned->touched);
    for (size_t m = 0; m <= learned->mover_count; m++) {
        size_t to = m < learned->mover_count ? learned->movers[m] : learned->pointer_count;
        if (to > from && memcmp((const void *)(now + from), (const void *)(learned->first + from),
                                (to - from) * sizeof *now) != 0)
            return name_moved(learned, call, from, reason, size);
        if (m < learned->mover_count && now[to] != learned->current[to])
            touch_moved(learned, (uint32_t)to);
        from = to + 1;
    }
    return true;
}

/* All of it moved alike, and to an alignment that captures have shown. */
static bool check_group(ph__learned *learned, uint32_t g, const ph_graph_cache_call *call,
                        char *reason, size_t size)
{
    const ph__moved_group *group = &learned->groups.at[g];
    uint32_t one = learned->members[group->begin];
    uint64_t by = (uintptr_t)call->pointers[one] - (uintptr_t)learned->first[one];
    for (uint32_t m = group->begin; m < group->end; m++) {
        uint32_t i = learned->members[m];
        uintptr_t from = (uintptr_t)learned->first[i], to = (uintptr_t)call->pointers[i];
        if (to - from != by)
            return UNKNOWN(reason, size,
                           "pointers %u and %u moved by equal distances in all captures, and do "
                           "not now",
                           one, i);
        if (group->words && ((from ^ to) & (PAGE - 1) & ~(uintptr_t)learned->bits[i]))
            return UNKNOWN(reason, size,
                           "pointer %u is %p: address bits differ from %p that no capture has "
                           "changed, as the choice of kernels may depend on them",
                           i, call->pointers[i], learned->first[i]);
    }
    if (group->slot != PH_SLOT_NONE)
        learned->due.at[learned->due.count++] = (ph_slot_value){group->slot, call->pointers[one]};
    return group->slot == PH_SLOT_NONE || call->pointers[one]
               ? true
               : UNKNOWN(reason, size, "pointer %u is NULL", one);
}

static bool check_pointers(ph__learned *learned, const ph_graph_cache_call *call, char *reason,
                           size_t size)
{
    if (learned->all_due) {
        ph__vec_clear(&learned->touched);
        for (size_t g = 1; g < learned->groups.count; g++)
            learned->touched.at[learned->touched.count++] = (uint32_t)g;
    }
    for (size_t t = 0; t < learned->touched.count; t++)
        if (!check_group(learned, learned->touched.at[t], call, reason, size))
            return false;
    return true;
}

/* The host may give a part of a value to a fill, or compute with it: what a byte does that was the
 * same in all captures is not known. */
static bool has_known_bytes(const ph__learned *learned, size_t i, const ph_graph_cache_value *value)
{
    const unsigned char *now = value->data, *first = learned->first_values + learned->value_at[i],
                        *varied = learned->varied_bytes + learned->value_at[i];
    for (size_t b = 0; b < value->bytes; b++)
        if (now[b] != first[b] && !varied[b])
            return false;
    return true;
}

static bool find_changed_values(uint64_t *changed, const ph__learned *learned,
                                const ph_graph_cache_call *call, char *reason, size_t size)
{
    for (size_t i = 0; i < learned->value_count; i++) {
        if (memcmp(learned->current_values + learned->value_at[i], call->values[i].data,
                   call->values[i].bytes) == 0)
            continue;
        if (!(learned->varied >> i & 1))
            return UNKNOWN(reason, size, "value %zu differs, and was the same in all captures", i);
        if (!has_known_bytes(learned, i, &call->values[i]))
            return UNKNOWN(reason, size,
                           "value %zu differs in bytes that were the same in all captures", i);
        if (ph__learned_low_zeros(&call->values[i]) < learned->low_zeros[i])
            return UNKNOWN(reason, size,
                           "value %zu was a multiple of 2 to the %uth in all captures, and is not "
                           "now: what is rounded up from it looked like itself",
                           i, learned->low_zeros[i]);
        *changed |= UINT64_C(1) << i;
    }
    return true;
}

static bool check_value_slot(ph__learned *learned, const ph__value_slot *slot,
                             const ph_graph_cache_call *call, char *reason, size_t size)
{
    const ph_graph_cache_value *one = NULL;
    for (size_t i = 0; i < learned->value_count; i++) {
        const ph_graph_cache_value *value = &call->values[i];
        if (!(slot->candidates >> i & 1))
            continue;
        if (one && memcmp(one->data, value->data, value->bytes) != 0)
            return UNKNOWN(reason, size,
                           "values %zu and %zu were equal in all captures, and are not now",
                           (size_t)(one - call->values), i);
        one = value;
    }
    learned->due.at[learned->due.count++] = (ph_slot_value){slot->slot, one ? one->data : NULL};
    return one != NULL;
}

static bool check_values(ph__learned *learned, const ph_graph_cache_call *call, char *reason,
                         size_t size)
{
    uint64_t changed = learned->all_due ? learned->varied : 0;
    if (!find_changed_values(&changed, learned, call, reason, size))
        return false;
    for (size_t i = 0; changed && i < learned->value_slots.count; i++)
        if (learned->value_slots.at[i].candidates & changed &&
            !check_value_slot(learned, &learned->value_slots.at[i], call, reason, size))
            return false;
    return true;
}

bool ph__learned_match(ph__learned *learned, const ph_graph_cache_call *call, char *reason,
                       size_t size)
{
    ph__vec_clear(&learned->due);
    learned->matches++;
    learned->moved_count = 0;
    if (learned->pointer_count && !touch_moved_pointers(learned, call, reason, size))
        return false;
    bool moved = learned->all_due || learned->moved_count;
    learned->differs = moved || !has_values(learned, learned->current_values, call);
    if (moved && !check_pointers(learned, call, reason, size))
        return false;
    return !learned->differs || check_values(learned, call, reason, size);
}

void ph__learned_was_set(ph__learned *learned, const ph_graph_cache_call *call)
{
    learned->all_due = false;
    for (size_t m = 0; m < learned->moved_count; m++)
        learned->current[learned->moved[m]] = call->pointers[learned->moved[m]];
    for (size_t i = 0; i < learned->value_count; i++)
        memcpy(learned->current_values + learned->value_at[i], call->values[i].data,
               call->values[i].bytes);
}
