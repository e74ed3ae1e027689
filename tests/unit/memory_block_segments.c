/* SPDX-License-Identifier: MIT */
/* tests/unit/memory_block_segments.c: the block core: segments, addresses, statistics, host
 * memory failures. */
#include "memory/block/block_heap.h"
#include "memory_block.h"

#include "base/alloc.h"
#include "support/test.h"

TEST(test_take_at)
{
    ph__heap *heap = new_heap(0, false);
    bool no_memory;
    ph__segment *segment = add(heap, 2 * MIB, 1, true);
    uintptr_t base = segment->address;
    ph__block *middle = ph__heap_acquire_at(heap, base + 4096, 8192, 8000, 1, &no_memory);
    assert_non_null(middle);
    check(heap);
    assert_int_equal(middle->address, base + 4096);
    assert_int_equal(middle->size, 8192);
    assert_int_equal(middle->requested, 8000);
    ph__block *front = ph__heap_acquire_at(heap, base, 512, 1, 1, &no_memory);
    ph__block *back = ph__heap_acquire_at(heap, base + 2 * MIB - 512, 512, 512, 1, &no_memory);
    ph__block *whole = ph__heap_acquire_at(heap, base + 512, 4096 - 512, 1, 1, &no_memory);
    assert_non_null(front);
    assert_non_null(back);
    assert_non_null(whole);
    assert_ptr_equal(front->next, whole);
    assert_ptr_equal(whole->next, middle);
    check(heap);

    const uintptr_t free_start = base + 4096 + 8192;
    assert_null(ph__heap_acquire_at(heap, base + 4096, 512, 1, 1, &no_memory)); /* in use */
    /* partly in use */
    assert_null(ph__heap_acquire_at(heap, free_start - 512, 1024, 1, 1, &no_memory));
    /* runs out of the block */
    assert_null(ph__heap_acquire_at(heap, free_start, 2 * MIB, 1, 1, &no_memory));
    /* wraps around */
    assert_null(ph__heap_acquire_at(heap, free_start, SIZE_MAX - 511, 1, 1, &no_memory));
    /* not aligned */
    assert_null(ph__heap_acquire_at(heap, free_start + 256, 512, 1, 1, &no_memory));
    /* not a multiple */
    assert_null(ph__heap_acquire_at(heap, free_start, 100, 1, 1, &no_memory));
    assert_null(ph__heap_acquire_at(heap, free_start, 0, 0, 1, &no_memory)); /* nothing */
    /* another stream's */
    assert_null(ph__heap_acquire_at(heap, free_start, 512, 1, 2, &no_memory));
    assert_null(ph__heap_acquire_at(heap, base + 2 * MIB, 512, 1, 1, &no_memory)); /* outside */
    assert_null(ph__heap_acquire_at(heap, base - 512, 512, 1, 1, &no_memory));
    assert_false(no_memory);
    check(heap);
    give(heap, middle);
    give(heap, back);
    give(heap, front);
    give(heap, whole);
    assert_int_equal(segment->first->size, 2 * MIB);
    finish(heap);
}

TEST(an_address_finds_the_block_that_holds_it)
{
    ph__heap *heap = new_heap(0, false);
    bool no_memory;
    ph__segment *segment = add(heap, 20 * MIB, 1, false);
    uintptr_t base = segment->address;
    ph__block *first = ph__heap_acquire_at(heap, base, 512, 512, 1, &no_memory);
    ph__block *far = ph__heap_acquire_at(heap, base + 10 * MIB, 7 * MIB, 512, 1, &no_memory);
    assert_non_null(first);
    assert_non_null(far);
    assert_ptr_equal(ph__heap_find(heap, base), first);
    assert_ptr_equal(ph__heap_find(heap, base + 511), first);
    assert_null(ph__heap_find(heap, base + 512));
    assert_null(ph__heap_find(heap, base + 10 * MIB - 1));
    assert_ptr_equal(ph__heap_find(heap, base + 10 * MIB), far);
    assert_ptr_equal(ph__heap_find(heap, base + 10 * MIB + 1), far);
    assert_ptr_equal(ph__heap_find(heap, base + 17 * MIB - 1), far);
    assert_null(ph__heap_find(heap, base + 17 * MIB));
    assert_null(ph__heap_find(heap, base + 20 * MIB));
    assert_null(ph__heap_find(heap, base - 1));
    assert_null(ph__heap_find(heap, 0));
    assert_null(ph__heap_find(heap, UINTPTR_MAX));
    give(heap, first);
    give(heap, far);
    assert_null(ph__heap_find(heap, base));
    finish(heap);
}

TEST(test_odd_segments)
{
    ph__heap *heap = new_heap(0, false);
    assert_null(ph__heap_add_segment(heap, 0, 2 * MIB, 1, true));
    assert_null(ph__heap_add_segment(heap, BASE, 0, 1, true));
    assert_null(ph__heap_add_segment(heap, BASE, 1000, 1, true));
    assert_null(ph__heap_add_segment(heap, UINTPTR_MAX - 1023, 2 * MIB, 1, true));
    check(heap);
    ph__segment *segment = ph__heap_add_segment(heap, BASE + 16, 2 * MIB, 1, true);
    assert_non_null(segment);
    assert_null(ph__heap_add_segment(heap, BASE, 2 * MIB, 2, true));
    assert_null(ph__heap_add_segment(heap, BASE + 16, 512, 1, true));
    assert_null(ph__heap_add_segment(heap, BASE + 2 * MIB, 2 * MIB, 1, true));
    check(heap);
    ph__block *a = take(heap, 512, 1), *b = take(heap, 512, 1);
    assert_int_equal(a->address, BASE + 16);
    assert_int_equal(b->address, BASE + 16 + 512);
    assert_ptr_equal(ph__heap_find(heap, BASE + 600), b);
    ph__heap_remove_segment(heap, segment); /* in use: stays */
    assert_ptr_equal(ph__heap_first_segment(heap), segment);
    give(heap, a);
    give(heap, b);
    finish(heap);
}

TEST(test_segment_order)
{
    ph__heap *heap = new_heap(0, false);
    ph__segment *a = ph__heap_add_segment(heap, BASE + 8 * MIB, 2 * MIB, 1, true);
    ph__segment *b = ph__heap_add_segment(heap, BASE, 2 * MIB, 2, true);
    ph__segment *c = ph__heap_add_segment(heap, BASE + 4 * MIB, 2 * MIB, 1, false);
    assert_ptr_equal(ph__heap_first_segment(heap), a);
    assert_ptr_equal(a->next, b);
    assert_ptr_equal(b->next, c);
    assert_null(c->next);
    ph__heap_remove_segment(heap, b);
    check(heap);
    assert_ptr_equal(a->next, c);
    assert_ptr_equal(c->previous, a);
    assert_int_equal(c->size, 2 * MIB);
    assert_ptr_equal(c->heap, heap);
    finish(heap);
}

TEST(statistics_count_used_free_and_split_blocks)
{
    ph__heap *heap = new_heap(0, false);
    ph__heap_stats s;
    add(heap, 2 * MIB, 1, true);
    add(heap, 20 * MIB, 1, false);
    ph__block *a = take(heap, 1000, 1), *b = take(heap, 4 * MIB - 1, 1);
    ph__heap_get_stats(heap, &s);
    const ph__heap_stats want = {.segments = {1, 1},
                                 .segment_bytes = {2 * MIB, 20 * MIB},
                                 .used_blocks = {1, 1},
                                 .used_bytes = {1024, 4 * MIB},
                                 .requested_bytes = {1000, 4 * MIB - 1},
                                 .free_blocks = {1, 1},
                                 .free_bytes = {2 * MIB - 1024, 16 * MIB},
                                 .split_blocks = {1, 1},
                                 .split_bytes = {2 * MIB - 1024, 16 * MIB}};
    assert_memory_equal(&s, &want, sizeof s);
    give(heap, a);
    ph__heap_get_stats(heap, &s);
    assert_int_equal(s.free_blocks[0], 1);
    assert_int_equal(s.free_bytes[0], 2 * MIB);
    assert_int_equal(s.split_blocks[0], 0); /* a whole segment is not a split block */
    assert_int_equal(s.split_bytes[0], 0);
    assert_int_equal(s.used_bytes[0] + s.requested_bytes[0] + s.used_blocks[0], 0);
    assert_int_equal(s.used_bytes[1], 4 * MIB);
    give(heap, b);
    finish(heap);
}

TEST(test_user_fields)
{
    ph__heap *heap = new_heap(0, false);
    add(heap, 2 * MIB, 1, true);
    ph__block *wall = take(heap, 512, 1), *a = take(heap, 512, 1), *end = take(heap, 512, 1);
    a->user = heap;
    a->generation = 42;
    give(heap, a);
    a = take(heap, 512, 1);
    assert_null(a->user);
    assert_int_equal(a->generation, 0);
    assert_ptr_equal(a->next, end);
    a->user = heap;
    give(heap, a);
    give(heap, wall);
    give(heap, end);
    finish(heap);
}

/* Makes the n-th host allocation fail, n = 0, 1, 2 ... until all of a heap's life goes well. */
TEST(test_host_memory_failures)
{
    int64_t live = ph__alloc_live();
    bool done = false;
    for (int64_t n = 0; !done; n++) {
        assert_true(n < 100);
        ph__alloc_fail_after(n);
        ph__heap *heap = ph__heap_create(NULL);
        ph__segment *segment = NULL;
        bool no_memory = false, failed = heap == NULL;
        if (heap != NULL) {
            segment = ph__heap_add_segment(heap, BASE, 2 * MIB, 1, true);
            check(heap);
            failed = segment == NULL;
        }
        ph__heap_stats before, after;
        for (int i = 0; segment != NULL && !failed && i < 300; i++) {
            ph__heap_get_stats(heap, &before);
            ph__block *block = i % 3 != 0
                                   ? ph__heap_acquire(heap, 512, 5, 1, &no_memory)
                                   : ph__heap_acquire_at(heap, BASE + MIB + (uintptr_t)i * 2048,
                                                         512, 5, 1, &no_memory);
            failed = block == NULL;
            assert_true(failed == no_memory);
            if (failed) {
                ph__heap_get_stats(heap, &after);
                assert_memory_equal(&before, &after, sizeof before);
                check(heap);
            }
        }
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (segment != NULL && failed) { /* and the heap goes on once there is memory again */
            assert_non_null(ph__heap_acquire(heap, 512, 5, 1, &no_memory));
            assert_non_null(ph__heap_add_segment(heap, BASE + 4 * MIB, 2 * MIB, 2, true));
            check(heap);
        }
        done = !failed;
        for (uintptr_t at = BASE; segment != NULL && at < BASE + 2 * MIB; at += 512) {
            ph__block *block = ph__heap_find(heap, at);
            if (block != NULL)
                (void)ph__heap_give(heap, block);
        }
        if (heap != NULL)
            finish(heap);
        assert_int_equal(ph__alloc_live(), live);
    }
}

/* A block that fits exactly is taken, here and there, even when not one block record more can be
 * had. */
TEST(test_whole_blocks_need_no_memory)
{
    ph__heap *heap = new_heap(0, false);
    bool no_memory = false;
    ph__segment *segment = add(heap, 2 * MIB, 1, true);
    ph__alloc_fail_after(0);
    while (!no_memory)
        (void)ph__heap_acquire(heap, 512, 512, 1, &no_memory);
    uintptr_t wanted = segment->address + 1024;
    for (int i = 0; i < 2; i++) {
        give(heap, ph__heap_find(heap, wanted));
        ph__block *block = i == 0 ? ph__heap_acquire(heap, 512, 512, 1, &no_memory)
                                  : ph__heap_acquire_at(heap, wanted, 512, 512, 1, &no_memory);
        assert_false(no_memory);
        assert_int_equal(block->address, wanted);
        check(heap);
    }
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    while (segment->used_blocks > 0)
        give(heap, segment->first->free ? segment->first->next : segment->first);
    finish(heap);
}

TEST(test_steady_state_allocates_nothing)
{
    ph__heap *heap = new_heap(0, false);
    ph__block *blocks[50];
    int64_t count = 0;
    add(heap, 2 * MIB, 1, true);
    for (int round = 0; round < 20; round++) {
        if (round == 1)
            count = ph__alloc_count();
        for (int i = 0; i < 50; i++)
            blocks[i] = take(heap, 512 * (size_t)(1 + (i + round) % 50), 1);
        for (int i = 0; i < 50; i++)
            give(heap, blocks[(i * 7 + round) % 50]);
    }
    assert_int_equal(ph__alloc_count(), count);
    finish(heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_take_at),
        cmocka_unit_test(an_address_finds_the_block_that_holds_it),
        cmocka_unit_test(test_odd_segments),
        cmocka_unit_test(test_segment_order),
        cmocka_unit_test(statistics_count_used_free_and_split_blocks),
        cmocka_unit_test(test_user_fields),
        cmocka_unit_test(test_host_memory_failures),
        cmocka_unit_test(test_whole_blocks_need_no_memory),
        cmocka_unit_test(test_steady_state_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
