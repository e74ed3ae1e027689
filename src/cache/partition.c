/* SPDX-License-Identifier: MIT */
/* cache/partition.c: partition refinement: pointers stay together while they move alike. */
#include "cache/partition.h"
#include "base/alloc.h"
#include <stdlib.h>

typedef struct moved {
    struct ph__divided part;
    uint32_t pointer;
} moved;

static int compare_parts(const struct ph__divided *a, const struct ph__divided *b)
{
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->by == b->by ? 0 : a->by < b->by ? -1 : 1;
}

static int compare_moved(const void *left, const void *right)
{
    const moved *a = left, *b = right;
    int order = compare_parts(&a->part, &b->part);
    return order ? order : a->pointer < b->pointer ? -1 : 1;
}

static bool reserve_partition(ph__partition *out, size_t count)
{
    out->parts = ph__calloc(count + 1, sizeof *out->parts);
    out->group = ph__calloc(count + 1, sizeof *out->group);
    out->members = ph__calloc(count + 1, sizeof *out->members);
    return out->parts && out->group && out->members && ph__vec_reserve(&out->groups, count + 1);
}

/* Group 0 is there also without members: words that follow nothing. */
static void fill_partition(ph__partition *out, const moved *sorted, size_t count)
{
    out->groups.at[out->groups.count++] = (ph__moved_group){.slot = PH_SLOT_NONE};
    for (size_t i = 0; i < count; i++) {
        size_t last = out->groups.count - 1;
        if (compare_parts(&out->parts[last], &sorted[i].part) != 0) {
            last = out->groups.count++;
            out->parts[last] = sorted[i].part;
            out->groups.at[last] =
                (ph__moved_group){.begin = (uint32_t)i, .end = (uint32_t)i, .slot = PH_SLOT_NONE};
        }
        out->groups.at[last].end = (uint32_t)i + 1;
        out->group[sorted[i].pointer] = (uint32_t)last;
        out->members[i] = sorted[i].pointer;
    }
}

bool ph__partition_divide(ph__partition *out, const ph__learned *learned,
                          const void *const *pointers)
{
    size_t count = learned->pointer_count;
    moved *sorted = ph__calloc(count + 1, sizeof *sorted);
    bool done = sorted && reserve_partition(out, count);
    for (size_t i = 0; done && i < count; i++)
        sorted[i] =
            (moved){{learned->group[i], (uintptr_t)pointers[i] - (uintptr_t)learned->first[i]},
                    (uint32_t)i};
    if (done) {
        qsort(sorted, count, sizeof *sorted, compare_moved);
        fill_partition(out, sorted, count);
    }
    ph__free(sorted);
    return done;
}

void ph__partition_free(ph__partition *partition)
{
    ph__vec_free(&partition->groups);
    ph__free(partition->parts);
    ph__free(partition->group);
    ph__free(partition->members);
}

bool ph__partition_find(uint32_t *group, const ph__partition *partition, uint32_t from, uint64_t by)
{
    const struct ph__divided wanted = {from, by};
    size_t low = 0, high = partition->groups.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_parts(&partition->parts[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *group = (uint32_t)low;
    return low < partition->groups.count && compare_parts(&partition->parts[low], &wanted) == 0;
}
