/* SPDX-License-Identifier: MIT */
/* tests/unit/memory_block.c: the rules of memory/block/block.h for sizes, splitting, coalescing and
 * best fit. */
#include "memory_block.h"
#include "memory/block/block_heap.h"
#include "support/test.h"

TEST(sizes_are_rounded_to_512_bytes_without_overflow)
{
    static const size_t cases[][2] = {{0, 512},
                                      {1, 512},
                                      {511, 512},
                                      {512, 512},
                                      {513, 1024},
                                      {1024, 1024},
                                      {MIB - 1, MIB},
                                      {MIB, MIB},
                                      {MIB + 1, MIB + 512},
                                      {3 * MIB, 3 * MIB},
                                      {SIZE_MAX - 511, SIZE_MAX - 511}};
    size_t rounded = 7;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(ph__block_round(cases[i][0], &rounded));
        assert_int_equal(rounded, cases[i][1]);
    }
    assert_false(ph__block_round(SIZE_MAX, &rounded));
    assert_false(ph__block_round(SIZE_MAX - 510, &rounded));
}

TEST(test_segment_sizes)
{
    static const size_t cases[][2] = {{512, 2 * MIB},        {MIB, 2 * MIB},
                                      {MIB + 512, 20 * MIB}, {10 * MIB - 512, 20 * MIB},
                                      {10 * MIB, 10 * MIB},  {10 * MIB + 512, 12 * MIB},
                                      {12 * MIB, 12 * MIB},  {100 * MIB + 1024, 102 * MIB}};
    static const ph__heap_options options[] = {
        {0}, {.no_split = true}, {.max_split_size = 32 * MIB}};
    size_t bytes = 7;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t k = 0; k < 3; k++) {
            assert_true(ph__segment_size(&options[k], cases[i][0], &bytes));
            assert_int_equal(bytes, cases[i][1]);
        }
        assert_true(ph__segment_size(NULL, cases[i][0], &bytes));
        assert_int_equal(bytes, cases[i][1]);
        assert_true(ph__block_is_small(cases[i][0]) == (cases[i][1] == 2 * MIB));
    }
    assert_false(ph__segment_size(NULL, SIZE_MAX - 511, &bytes));
}

TEST(test_miss_without_segment)
{
    ph__heap *heap = new_heap(0, false);
    assert_null(try_take(heap, 1, 0));
    assert_null(ph__heap_find(heap, BASE));
    assert_null(ph__heap_first_segment(heap));
    finish(heap);
    ph__heap_destroy(NULL);
}

TEST(test_small_split_threshold)
{
    ph__heap *heap = new_heap(0, false);
    ph__segment *segment = add(heap, 2 * MIB, 1, true);
    ph__block *a = take(heap, 1, 1);
    assert_int_equal(a->address, segment->address);
    assert_int_equal(a->size, 512);
    ph__block *b = take(heap, MIB, 1);
    assert_int_equal(b->address, segment->address + 512);
    ph__block *c = take(heap, MIB - 1024, 1);
    assert_int_equal(c->size, MIB - 1024); /* 512 remain, which is enough */
    ph__block *d = take(heap, 100, 1);
    assert_int_equal(d->size, 512);
    assert_null(try_take(heap, 1, 1));
    assert_int_equal(segment->used_blocks, 4);
    give(heap, c);
    c = take(heap, MIB - 1024, 1);
    assert_int_equal(c->size, MIB - 1024);
    give(heap, a);
    give(heap, b);
    give(heap, c);
    assert_ptr_equal(give(heap, d), segment);
    assert_int_equal(segment->used_blocks, 0);
    finish(heap);
}

TEST(test_large_split_threshold)
{
    ph__heap *heap = new_heap(0, false);
    ph__segment *segment = add(heap, 20 * MIB, 1, false);
    ph__block *a = take(heap, 9 * MIB, 1);
    assert_int_equal(a->size, 9 * MIB);
    ph__block *b = take(heap, 10 * MIB, 1); /* exactly 1 MiB remains: not split */
    assert_int_equal(b->size, 11 * MIB);
    assert_null(b->next);
    give(heap, b);
    b = take(heap, 10 * MIB - 512, 1); /* 1 MiB and 512 bytes remain: split */
    assert_int_equal(b->size, 10 * MIB - 512);
    assert_non_null(b->next);
    assert_true(b->next->free);
    assert_int_equal(b->next->size, MIB + 512);
    give(heap, a);
    give(heap, b);
    assert_int_equal(segment->first->size, 20 * MIB);
    finish(heap);
}

TEST(test_coalescing_in_every_order)
{
    static const int orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3},
                                    {1, 3, 2, 0}, {1, 2, 0, 3}, {2, 0, 3, 1}};
    for (size_t o = 0; o < sizeof orders / sizeof orders[0]; o++) {
        ph__heap *heap = new_heap(0, false);
        ph__segment *segment = add(heap, 2 * MIB, 1, true);
        ph__block *blocks[4];
        for (int i = 0; i < 4; i++)
            blocks[i] = take(heap, 512 * KIB, 1);
        assert_null(blocks[3]->next);
        for (int i = 0; i < 4; i++) {
            assert_ptr_equal(give(heap, blocks[orders[o][i]]), segment);
            assert_int_equal(segment->used_blocks, 3 - i);
        }
        assert_true(segment->first->free);
        assert_int_equal(segment->first->size, 2 * MIB);
        assert_null(segment->first->next);
        finish(heap);
    }
}

TEST(test_used_neighbours_stay_apart)
{
    ph__heap *heap = new_heap(0, false);
    add(heap, 2 * MIB, 1, true);
    ph__block *a = take(heap, 1024, 1), *b = take(heap, 2048, 1), *c = take(heap, 4096, 1);
    give(heap, b);
    assert_true(a->next->free);
    assert_int_equal(a->next->size, 2048);
    assert_ptr_equal(a->next->next, c);
    give(heap, a);
    give(heap, c);
    finish(heap);
}

TEST(test_adjacent_segments_do_not_merge)
{
    ph__heap *heap = new_heap(0, false);
    ph__segment *low = ph__heap_add_segment(heap, BASE, 2 * MIB, 1, true);
    ph__segment *high = ph__heap_add_segment(heap, BASE + 2 * MIB, 2 * MIB, 1, true);
    assert_non_null(low);
    assert_non_null(high);
    ph__block *a = take(heap, MIB, 1), *b = take(heap, MIB, 1), *c = take(heap, MIB, 1);
    assert_ptr_equal(b->segment, low);
    assert_ptr_equal(c->segment, high);
    give(heap, b);
    give(heap, c);
    give(heap, a);
    assert_int_equal(low->first->size, 2 * MIB);
    assert_int_equal(high->first->size, 2 * MIB);
    finish(heap);
}

TEST(test_best_fit_by_size)
{
    static const size_t sizes[] = {40 * KIB, 8 * KIB, 24 * KIB, 9 * KIB, 200 * KIB, 8 * KIB + 512};
    ph__heap *heap = new_heap(0, false);
    add(heap, 2 * MIB, 1, true);
    ph__block *holes[6], *walls[6];
    for (int i = 0; i < 6; i++) {
        holes[i] = take(heap, sizes[i], 1);
        walls[i] = take(heap, 512, 1);
    }
    uintptr_t at[6];
    for (int i = 0; i < 6; i++) {
        at[i] = holes[i]->address;
        give(heap, holes[i]);
    }
    static const struct {
        size_t bytes;
        int hole;
    } wants[] = {{8 * KIB + 1, 5}, {8 * KIB, 1},   {8 * KIB, 3},
                 {10 * KIB, 2},    {100 * KIB, 4}, {40 * KIB, 0}};
    ph__block *taken[6];
    for (int i = 0; i < 6; i++) {
        taken[i] = take(heap, wants[i].bytes, 1);
        assert_int_equal(taken[i]->address, at[wants[i].hole]);
    }
    for (int i = 0; i < 6; i++) {
        give(heap, taken[i]);
        give(heap, walls[i]);
    }
    finish(heap);
}

TEST(test_best_fit_lowest_address)
{
    enum {
        HOLES = 64
    };
    ph__heap *heap = new_heap(0, false);
    add(heap, 2 * MIB, 1, true);
    ph__block *holes[HOLES], *walls[HOLES];
    for (int i = 0; i < HOLES; i++) {
        holes[i] = take(heap, 4096, 1);
        walls[i] = take(heap, 512, 1);
    }
    uintptr_t first = holes[0]->address;
    for (int i = 0; i < HOLES; i++)
        give(heap, holes[i * 37 % HOLES]); /* 37 is odd: every hole once, out of order */
    for (int i = 0; i < HOLES; i++) {
        holes[i] = take(heap, 4096, 1);
        assert_int_equal(holes[i]->address, first + (uintptr_t)i * (4096 + 512));
    }
    for (int i = 0; i < HOLES; i++) {
        give(heap, holes[i]);
        give(heap, walls[i]);
    }
    finish(heap);
}

TEST(test_streams_never_mix)
{
    static const uint64_t streams[] = {0, 1, 2, UINT64_MAX, UINT64_C(1) << 32, 0xdeadbeef};
    ph__heap *heap = new_heap(0, false);
    ph__block *blocks[6];
    add(heap, 2 * MIB, streams[0], true);
    for (int i = 0; i < 6; i++) {
        if (i > 0) {
            assert_null(try_take(heap, 512, streams[i]));
            add(heap, 2 * MIB, streams[i], true);
        }
        blocks[i] = take(heap, 512, streams[i]);
    }
    give(heap, blocks[2]);
    ph__segment *second = blocks[2]->segment;
    ph__heap_remove_segment(heap, second);
    check(heap);
    assert_null(try_take(heap, 512, streams[2]));
    for (int i = 0; i < 6; i++) {
        if (i != 2)
            give(heap, blocks[i]);
    }
    finish(heap);
}

TEST(test_many_streams)
{
    enum {
        STREAMS = 300
    };
    ph__heap *heap = new_heap(0, false);
    ph__block *blocks[STREAMS];
    for (uint64_t i = 0; i < STREAMS; i++) {
        add(heap, 2 * MIB, i * 64, true);
        blocks[i] = take(heap, 512, i * 64);
    }
    for (uint64_t i = 0; i < STREAMS; i++) {
        assert_int_equal(blocks[i]->segment->stream, i * 64);
        assert_int_equal(ph__heap_give(heap, blocks[i])->used_blocks, 0);
    }
    check(heap);
    while (ph__heap_first_segment(heap) != NULL)
        ph__heap_remove_segment(heap, ph__heap_first_segment(heap));
    finish(heap);
}

TEST(test_halves_never_mix)
{
    ph__heap *heap = new_heap(0, false);
    add(heap, 20 * MIB, 1, false);
    assert_null(try_take(heap, MIB, 1));
    ph__block *large = take(heap, MIB + 1, 1);
    assert_false(large->segment->small);
    give(heap, large);
    ph__heap_remove_segment(heap, ph__heap_first_segment(heap));
    add(heap, 2 * MIB, 1, true);
    assert_null(try_take(heap, MIB + 1, 1));
    ph__block *small = take(heap, MIB, 1);
    assert_true(small->segment->small);
    give(heap, small);
    finish(heap);
}

TEST(test_no_split)
{
    ph__heap *heap = new_heap(0, true);
    bool no_memory;
    ph__segment *small = add(heap, 2 * MIB, 1, true);
    ph__segment *large = add(heap, 20 * MIB, 1, false);
    ph__block *a = take(heap, 512, 1), *b = take(heap, 4 * MIB, 1);
    assert_int_equal(a->size, 2 * MIB);
    assert_int_equal(b->size, 20 * MIB);
    assert_null(try_take(heap, 512, 1));
    assert_null(try_take(heap, 4 * MIB, 1));
    give(heap, a);
    give(heap, b);
    assert_null(ph__heap_acquire_at(heap, small->address, 512, 512, 1, &no_memory));
    assert_null(ph__heap_acquire_at(heap, large->address + 2 * MIB, 18 * MIB, 1, 1, &no_memory));
    a = ph__heap_acquire_at(heap, small->address, 2 * MIB, 700, 1, &no_memory);
    assert_non_null(a);
    give(heap, a);
    finish(heap);
}

TEST(test_max_split_size)
{
    ph__heap *heap = new_heap(32 * MIB, false);
    ph__segment *big = add(heap, 60 * MIB, 1, false);
    /* a smaller request does not get an oversize block */
    assert_null(try_take(heap, 32 * MIB - 512, 1));
    assert_null(try_take(heap, 40 * MIB, 1));     /* 20 MiB more than asked for is too much */
    ph__block *a = take(heap, 40 * MIB + 512, 1); /* just below that is not, and is not split */
    assert_int_equal(a->size, 60 * MIB);
    give(heap, a);
    ph__heap_remove_segment(heap, big);
    add(heap, 32 * MIB - 512, 1, false); /* below the limit: split as ever */
    a = take(heap, 16 * MIB, 1);
    assert_int_equal(a->size, 16 * MIB);
    give(heap, a);
    finish(heap);
}

/* Just below max_split_size the new segment is as large as an oversize block; it must serve all
 * the same. */
TEST(test_max_split_size_always_ends)
{
    static const size_t limits[] = {1,        512,      MIB,      5 * MIB,
                                    20 * MIB, 25 * MIB, 26 * MIB, 26 * MIB + 512};
    static const size_t requests[] = {
        1, MIB, MIB + 1, 5 * MIB, 10 * MIB - 1, 10 * MIB, 25 * MIB - 512, 25 * MIB, 25 * MIB + 512};
    for (size_t l = 0; l < sizeof limits / sizeof limits[0]; l++) {
        for (size_t r = 0; r < sizeof requests / sizeof requests[0]; r++) {
            ph__heap *heap = new_heap(limits[l], false);
            size_t rounded, bytes;
            assert_true(ph__block_round(requests[r], &rounded));
            assert_true(ph__segment_size(NULL, rounded, &bytes));
            add(heap, bytes, 1, ph__block_is_small(rounded));
            give(heap, take(heap, requests[r], 1));
            give(heap, take(heap, requests[r], 1)); /* and the cached block serves the next one */
            finish(heap);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_rounded_to_512_bytes_without_overflow),
        cmocka_unit_test(test_segment_sizes),
        cmocka_unit_test(test_miss_without_segment),
        cmocka_unit_test(test_small_split_threshold),
        cmocka_unit_test(test_large_split_threshold),
        cmocka_unit_test(test_coalescing_in_every_order),
        cmocka_unit_test(test_used_neighbours_stay_apart),
        cmocka_unit_test(test_adjacent_segments_do_not_merge),
        cmocka_unit_test(test_best_fit_by_size),
        cmocka_unit_test(test_best_fit_lowest_address),
        cmocka_unit_test(test_streams_never_mix),
        cmocka_unit_test(test_many_streams),
        cmocka_unit_test(test_halves_never_mix),
        cmocka_unit_test(test_no_split),
        cmocka_unit_test(test_max_split_size),
        cmocka_unit_test(test_max_split_size_always_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
