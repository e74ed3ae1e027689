/* SPDX-License-Identifier: MIT */
/* tests/fuzz/memory_block.h: a slow model of a heap, and its comparison with the real one. */
#ifndef PH_TESTS_FUZZ_MEMORY_BLOCK_H
#define PH_TESTS_FUZZ_MEMORY_BLOCK_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "memory/block/block.h"
#include "memory/block/block_check.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

enum {
    SLOTS = 24,
    STREAMS = 5,
    STEPS = 2000
};
#define SLOT_BYTES (64 * MIB)
#define SLOT_BASE  ((uintptr_t)0x100000000000)

typedef struct span {
    uintptr_t address;
    size_t size, requested;
    ph__block *block; /* NULL: free */
    uint64_t tag;     /* what the block carries as generation */
} span;

typedef struct area {     /* a segment, as the model sees it */
    ph__segment *segment; /* NULL: the slot is unused */
    uintptr_t address;
    size_t size;
    uint64_t stream;
    bool small;
    span *spans;
    size_t count, capacity;
    uint64_t age; /* the later it was added the larger */
} area;

typedef struct round {
    uint64_t seed;
    size_t step;
    ph__rng rng;
    ph__heap *heap;
    ph__heap_options options;
    area areas[SLOTS];
    size_t slots, streams, steps, check_every;
    unsigned profile; /* how sizes are drawn */
    unsigned failing; /* one in so many operations finds no host memory; 0: none */
} round;

/* How often the events that the test is about happened in all rounds. */
static struct {
    size_t steps, takes, splits, exact, oversize, refused, no_memory, given, merged, at, at_refused,
        found, added, removed;
} seen;

#define CHECK(r, condition)                                                                        \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            ph__alloc_fail_after(PH__ALLOC_NEVER);                                                 \
            fail_msg("PH_TEST_SEED=%" PRIu64 " step %zu: %s", (r)->seed, (r)->step, #condition);   \
        }                                                                                          \
    } while (0)

static inline size_t below(round *r, size_t n)
{
    return (size_t)ph__rng_below(&r->rng, n);
}

static inline void span_insert(area *a, size_t at, span s)
{
    if (a->count == a->capacity) {
        a->capacity = a->capacity != 0 ? 2 * a->capacity : 16;
        a->spans = realloc(a->spans, a->capacity * sizeof *a->spans);
        assert_non_null(a->spans);
    }
    memmove(&a->spans[at + 1], &a->spans[at], (a->count - at) * sizeof *a->spans);
    a->spans[at] = s;
    a->count++;
}

static inline void span_remove(area *a, size_t at)
{
    a->count--;
    memmove(&a->spans[at], &a->spans[at + 1], (a->count - at) * sizeof *a->spans);
}

/* Among equals: the older segment, then the lower address. */
static inline bool older(const area *a, const span *s, const area *than, const span *found)
{
    return a != than ? a->age < than->age : s->address < found->address;
}

static inline bool model_best(round *r, size_t rounded, uint64_t stream, area **best_area,
                              size_t *best)
{
    const span *found = NULL;
    for (size_t i = 0; i < r->slots; i++) {
        area *a = &r->areas[i];
        if (a->segment == NULL || a->stream != stream || a->small != (rounded <= MIB))
            continue;
        for (size_t k = 0; k < a->count; k++) {
            const span *s = &a->spans[k];
            if (s->block != NULL || s->size < rounded)
                continue;
            if (found == NULL || s->size < found->size ||
                (s->size == found->size && older(a, s, *best_area, found))) {
                found = s;
                *best_area = a;
                *best = k;
            }
        }
    }
    size_t limit = r->options.max_split_size, fresh = 0;
    if (found == NULL || limit == 0 || found->size < limit)
        return found != NULL;
    if (rounded >= limit)
        return found->size < rounded + 20 * MIB;
    fresh = rounded <= MIB       ? 2 * MIB
            : rounded < 10 * MIB ? 20 * MIB
                                 : (rounded + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
    return found->size <= fresh;
}

static inline bool model_splits(const round *r, size_t size, size_t rounded)
{
    size_t limit = r->options.max_split_size;
    if (r->options.no_split || size == rounded)
        return false;
    return rounded <= MIB || (size - rounded > MIB && (limit == 0 || rounded < limit));
}

/* Makes [address, address + size) of a free span used; the rest stays free. */
static inline void model_use(area *a, size_t at, uintptr_t address, size_t size, const span *used)
{
    span whole = a->spans[at];
    size_t before = address - whole.address, after = whole.size - before - size;
    a->spans[at] = *used;
    if (after != 0)
        span_insert(a, at + 1, (span){.address = address + size, .size = after});
    if (before != 0)
        span_insert(a, at, (span){.address = whole.address, .size = before});
}

static inline void model_give(area *a, size_t at)
{
    a->spans[at].block = NULL;
    a->spans[at].requested = 0;
    if (at + 1 < a->count && a->spans[at + 1].block == NULL) {
        a->spans[at].size += a->spans[at + 1].size;
        span_remove(a, at + 1);
        seen.merged++;
    }
    if (at > 0 && a->spans[at - 1].block == NULL) {
        a->spans[at - 1].size += a->spans[at].size;
        span_remove(a, at);
        seen.merged++;
    }
}

static inline area *area_of(round *r, uintptr_t address)
{
    for (size_t i = 0; i < r->slots; i++) {
        area *a = &r->areas[i];
        if (a->segment != NULL && address >= a->address && address - a->address < a->size)
            return a;
    }
    return NULL;
}

static inline size_t span_of(const area *a, uintptr_t address)
{
    size_t at = 0;
    while (address - a->spans[at].address >= a->spans[at].size)
        at++;
    return at;
}

static inline void compare_block(const round *r, const area *a, size_t at)
{
    const span *s = &a->spans[at];
    const ph__block *b = s->block;
    CHECK(r, b->address == s->address && b->size == s->size && b->requested == s->requested);
    CHECK(r, b->segment == a->segment && !b->free && b->generation == s->tag && b->user == a);
    CHECK(r, (b->previous == NULL) == (at == 0) && (b->next == NULL) == (at + 1 == a->count));
    if (b->previous != NULL)
        CHECK(r,
              b->previous->address == s[-1].address && b->previous->free == (s[-1].block == NULL));
    if (b->next != NULL)
        CHECK(r, b->next->size == s[1].size && b->next->free == (s[1].block == NULL));
}

static inline void compare_all(round *r)
{
    ph__heap_stats want, have;
    memset(&want, 0, sizeof want);
    for (size_t i = 0; i < r->slots; i++) {
        const area *a = &r->areas[i];
        size_t half = a->small ? 0 : 1, used = 0;
        if (a->segment == NULL)
            continue;
        want.segments[half]++;
        want.segment_bytes[half] += a->size;
        for (size_t k = 0; k < a->count; k++) {
            const span *s = &a->spans[k];
            if (s->block != NULL) {
                compare_block(r, a, k);
                used++;
                want.used_bytes[half] += s->size;
                want.requested_bytes[half] += s->requested;
            } else {
                want.free_blocks[half]++;
                want.free_bytes[half] += s->size;
                want.split_blocks[half] += s->size != a->size ? 1U : 0U;
                want.split_bytes[half] += s->size != a->size ? s->size : 0U;
            }
        }
        want.used_blocks[half] += used;
        CHECK(r, a->segment->used_blocks == used);
    }
    ph__heap_get_stats(r->heap, &have);
    CHECK(r, memcmp(&want, &have, sizeof want) == 0);
    const char *broken = ph__heap_check(r->heap);
    if (broken != NULL)
        fail_msg("PH_TEST_SEED=%" PRIu64 " step %zu: %s", r->seed, r->step, broken);
}
#endif
