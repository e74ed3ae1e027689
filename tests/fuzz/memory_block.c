/* SPDX-License-Identifier: MIT */
/* tests/fuzz/memory_block.c: random operations on a heap beside a slow model of it, compared
 * after each step. PH_TEST_SEED=n runs the one round whose seed a failure printed. */
#include "memory_block.h"
#include "memory/block/block_heap.h"
#include "support/test.h"

static void failing_start(round *r)
{
    if (r->failing != 0 && below(r, r->failing) == 0)
        ph__alloc_fail_after(0);
}

static void failing_stop(void)
{
    ph__alloc_fail_after(PH__ALLOC_NEVER);
}

static size_t draw_size(round *r)
{
    switch (r->profile) {
    case 0: /* small blocks of few sizes: many equals */
        return 512 * (1 + below(r, 4));
    case 1:
        return 1 + below(r, 40000);
    case 2:
        return 1 + below(r, 24 * MIB);
    case 3:
        return MIB / 2 * (1 + below(r, 60));
    default: /* every magnitude up to 32 MiB */
        return 1 + below(r, (size_t)1 << (1 + below(r, 25)));
    }
}

static void check_taken(round *r, area *a, size_t at, size_t size, size_t requested,
                        ph__block *block)
{
    CHECK(r, !block->free && block->user == NULL && block->generation == 0);
    block->user = a;
    block->generation = ph__rng_next(&r->rng);
    span used = {block->address, size, requested, block, block->generation};
    CHECK(r, block->address >= a->spans[at].address);
    model_use(a, at, block->address, size, &used);
    compare_block(r, a, span_of(a, block->address));
}

static void add_area(round *r, size_t rounded, uint64_t stream)
{
    size_t slot = below(r, r->slots), size = 0;
    area *a = &r->areas[slot];
    if (a->segment != NULL)
        return;
    CHECK(r, ph__segment_size(&r->options, rounded, &size));
    uintptr_t address = SLOT_BASE + slot * SLOT_BYTES;
    address += below(r, 2) == 0 ? 0 : SLOT_BYTES - size; /* may touch its neighbours */
    failing_start(r);
    ph__segment *segment =
        ph__heap_add_segment(r->heap, address, size, stream, ph__block_is_small(rounded));
    failing_stop();
    if (segment == NULL) {
        CHECK(r, r->failing != 0);
        seen.no_memory++;
        compare_all(r);
        return;
    }
    CHECK(r, ph__heap_add_segment(r->heap, address + size - 512, 1024, stream, true) == NULL);
    *a = (area){segment,  address, size,        stream,    ph__block_is_small(rounded),
                a->spans, 0,       a->capacity, seen.added};
    span_insert(a, 0, (span){.address = address, .size = size});
    seen.added++;
}

static void do_take(round *r)
{
    size_t requested = draw_size(r), rounded = 0, at = 0;
    uint64_t stream = below(r, r->streams);
    bool no_memory = false;
    area *a = NULL;
    CHECK(r, ph__block_round(requested, &rounded));
    CHECK(r, rounded % 512 == 0 && rounded >= requested && rounded < requested + 512);
    bool fits = model_best(r, rounded, stream, &a, &at);
    failing_start(r);
    ph__block *block = ph__heap_acquire(r->heap, rounded, requested, stream, &no_memory);
    failing_stop();
    if (!fits) {
        CHECK(r, block == NULL && !no_memory);
        seen.refused += a != NULL ? 1U : 0U;
        add_area(r, rounded, stream);
        return;
    }
    bool split = model_splits(r, a->spans[at].size, rounded);
    if (no_memory) {
        CHECK(r, block == NULL && split && r->failing != 0);
        seen.no_memory++;
        compare_all(r);
        return;
    }
    CHECK(r, block != NULL && block->address == a->spans[at].address);
    seen.takes++;
    seen.splits += split ? 1U : 0U;
    seen.exact += a->spans[at].size == rounded ? 1U : 0U;
    seen.oversize +=
        r->options.max_split_size != 0 && a->spans[at].size >= r->options.max_split_size ? 1U : 0U;
    check_taken(r, a, at, split ? rounded : a->spans[at].size, requested, block);
}

static area *draw_area(round *r)
{
    size_t first = below(r, r->slots);
    for (size_t i = 0; i < r->slots; i++) {
        area *a = &r->areas[(first + i) % r->slots];
        if (a->segment != NULL)
            return a;
    }
    return NULL;
}

static void do_give(round *r)
{
    area *a = draw_area(r);
    if (a == NULL)
        return;
    size_t at = below(r, a->count), tried = 0;
    while (a->spans[at].block == NULL && tried++ < a->count)
        at = (at + 1) % a->count;
    if (a->spans[at].block == NULL)
        return;
    compare_block(r, a, at);
    CHECK(r, ph__heap_find(r->heap, a->spans[at].address) == a->spans[at].block);
    int64_t allocations = ph__alloc_count();
    CHECK(r, ph__heap_give(r->heap, a->spans[at].block) == a->segment);
    CHECK(r, ph__alloc_count() == allocations);
    model_give(a, at);
    seen.given++;
}

static void do_take_at(round *r)
{
    area *a = draw_area(r);
    if (a == NULL)
        return;
    const span *s = &a->spans[below(r, a->count)];
    size_t offset = 512 * below(r, s->size / 512),
           rounded = 512 * (1 + below(r, (s->size - offset) / 512));
    uint64_t stream = below(r, 8) != 0 ? a->stream : below(r, r->streams);
    bool no_memory = false;
    if (below(r, 4) == 0)
        offset = 0;
    if (below(r, 4) == 0)
        rounded = s->size - offset;
    if (below(r, 16) == 0)
        rounded += 512 * below(r, 100);
    uintptr_t address = s->address + offset + (below(r, 16) == 0 ? 1 + below(r, 511) : 0);
    bool fits = s->block == NULL && stream == a->stream && (address - a->address) % 512 == 0 &&
                rounded <= s->size - offset && (!r->options.no_split || rounded == s->size);
    failing_start(r);
    ph__block *block =
        ph__heap_acquire_at(r->heap, address, rounded, rounded - 5, stream, &no_memory);
    failing_stop();
    CHECK(r, (block != NULL || no_memory) == fits);
    if (no_memory) {
        CHECK(r, block == NULL && r->failing != 0 && rounded != s->size);
        seen.no_memory++;
        compare_all(r);
    } else if (fits) {
        CHECK(r, block->address == address);
        check_taken(r, a, (size_t)(s - a->spans), rounded, rounded - 5, block);
        seen.at++;
    } else {
        seen.at_refused++;
    }
}

static void do_remove(round *r)
{
    area *a = draw_area(r);
    if (a == NULL || a->segment->used_blocks != 0)
        return;
    CHECK(r, a->count == 1 && a->spans[0].block == NULL);
    ph__heap_remove_segment(r->heap, a->segment);
    a->segment = NULL;
    a->count = 0;
    seen.removed++;
}

static void do_find(round *r)
{
    uintptr_t address = SLOT_BASE - MIB + below(r, r->slots * SLOT_BYTES + 2 * MIB);
    area *a = draw_area(r);
    if (a != NULL && below(r, 8) != 0)
        address = a->spans[below(r, a->count)].address +
                  (below(r, 2) == 0 ? 0 : below(r, a->size / a->count));
    a = area_of(r, address);
    ph__block *want = a != NULL ? a->spans[span_of(a, address)].block : NULL;
    CHECK(r, ph__heap_find(r->heap, address) == want);
    seen.found += want != NULL ? 1U : 0U;
}

/* ---- rounds ---- */

static void run_steps(round *r)
{
    size_t appetite = 50; /* percent of takes; drifts, so that the heap fills and drains */
    for (r->step = 0; r->step < r->steps; r->step++) {
        if (r->step % 250 == 0)
            appetite = 25 + below(r, 50);
        size_t dice = below(r, 100);
        if (dice < 8)
            do_take_at(r);
        else if (dice < 10)
            do_remove(r);
        else if (below(r, 100) < appetite)
            do_take(r);
        else
            do_give(r);
        do_find(r);
        if (r->step % r->check_every == 0)
            compare_all(r);
    }
}

static void run_end(round *r)
{
    for (size_t i = 0; i < r->slots; i++) {
        area *a = &r->areas[i];
        for (size_t k = 0; a->segment != NULL && k < a->count;) {
            if (a->spans[k].block == NULL) {
                k++;
                continue;
            }
            CHECK(r, ph__heap_give(r->heap, a->spans[k].block) == a->segment);
            model_give(a, k);
        }
    }
    compare_all(r);
    for (size_t i = 0; i < r->slots; i++) {
        if (r->areas[i].segment != NULL)
            ph__heap_remove_segment(r->heap, r->areas[i].segment);
        r->areas[i].segment = NULL;
        free(r->areas[i].spans);
    }
    compare_all(r);
    ph__heap_destroy(r->heap);
}

static void run_round(uint64_t seed)
{
    static const size_t limits[] = {0, 0, 0, 20 * MIB + 512, 24 * MIB, 32 * MIB, 3 * MIB, 512};
    int64_t live = ph__alloc_live();
    round r = {.seed = seed, .rng = {seed}};
    bool tiny = below(&r, 4) == 0;
    r.options.max_split_size = limits[below(&r, sizeof limits / sizeof limits[0])];
    r.options.no_split = below(&r, 6) == 0;
    r.slots = tiny ? 1 + below(&r, 3) : 4 + below(&r, SLOTS - 3);
    r.streams = tiny ? 1 + below(&r, 2) : 1 + below(&r, STREAMS);
    r.check_every = tiny ? 1 : 64;
    r.steps = below(&r, 10) == 0 ? 5 * (size_t)STEPS : (size_t)STEPS;
    r.profile = (unsigned)below(&r, 5);
    r.failing = below(&r, 3) == 0 ? 2 : 0;
    r.heap = ph__heap_create(&r.options);
    assert_non_null(r.heap);
    seen.steps += r.steps;
    run_steps(&r);
    run_end(&r);
    CHECK(&r, ph__alloc_live() == live);
}

TEST(test_random_operations)
{
    const char *tier = getenv("PH_TEST_TIER"), *one = getenv("PH_TEST_SEED");
    if (one != NULL) {
        run_round(strtoull(one, NULL, 10));
        return;
    }
    uint64_t rounds = tier != NULL && strcmp(tier, "nightly") == 0 ? 1200 : 50;
    for (uint64_t seed = 1; seed <= rounds; seed++)
        run_round(seed);
    print_message("%zu operations: %zu takes (%zu split, %zu exact, %zu oversize), %zu refused, "
                  "%zu gives (%zu "
                  "merges), %zu of %zu taken at, %zu found, %zu without memory, segments %zu added "
                  "%zu removed\n",
                  seen.steps, seen.takes, seen.splits, seen.exact, seen.oversize, seen.refused,
                  seen.given, seen.merged, seen.at, seen.at + seen.at_refused, seen.found,
                  seen.no_memory, seen.added, seen.removed);
    assert_true(seen.takes > rounds * 100 && seen.splits > rounds * 50 &&
                seen.merged > rounds * 50);
    assert_true(seen.exact > 0 && seen.oversize > 0 && seen.refused > 0 && seen.no_memory > 0);
    assert_true(seen.at > 0 && seen.at_refused > 0 && seen.found > 0 && seen.removed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
