/* SPDX-License-Identifier: MIT */
/* tests/unit/memory_block.h: what the tests of the block core share. */
#ifndef PH_TESTS_UNIT_MEMORY_BLOCK_H
#define PH_TESTS_UNIT_MEMORY_BLOCK_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "memory/block/block.h"
#include "memory/block/block_check.h"
#include "memory/block/block_heap.h"
#include <string.h>

#define KIB  ((size_t)1 << 10)
#define MIB  ((size_t)1 << 20)
#define BASE ((uintptr_t)0x7f0000000000)

static uintptr_t next_address = BASE;

static inline ph__heap *new_heap(size_t max_split_size, bool no_split)
{
    ph__heap_options options = {.max_split_size = max_split_size, .no_split = no_split};
    ph__heap *heap = ph__heap_create(&options);
    assert_non_null(heap);
    return heap;
}

static inline void check(const ph__heap *heap)
{
    const char *broken = ph__heap_check(heap);
    if (broken != NULL)
        fail_msg("%s", broken);
}

static inline ph__segment *add(ph__heap *heap, size_t size, uint64_t stream, bool small)
{
    ph__segment *segment = ph__heap_add_segment(heap, next_address, size, stream, small);
    assert_non_null(segment);
    next_address += size + PH__SEGMENT_UNIT;
    return segment;
}

static inline ph__block *try_take(ph__heap *heap, size_t bytes, uint64_t stream)
{
    size_t rounded;
    bool no_memory = true;
    assert_true(ph__block_round(bytes, &rounded));
    ph__block *block = ph__heap_acquire(heap, rounded, bytes, stream, &no_memory);
    assert_false(no_memory);
    check(heap);
    if (block != NULL) {
        assert_false(block->free);
        assert_int_equal(block->requested, bytes);
        assert_true(block->size >= rounded);
        assert_null(block->user);
        assert_int_equal(block->segment->stream, stream);
    }
    return block;
}

static inline ph__block *take(ph__heap *heap, size_t bytes, uint64_t stream)
{
    ph__block *block = try_take(heap, bytes, stream);
    assert_non_null(block);
    return block;
}

static inline ph__segment *give(ph__heap *heap, ph__block *block)
{
    ph__segment *segment = ph__heap_give(heap, block);
    check(heap);
    return segment;
}

/* Every block must have been given back. */
static inline void finish(ph__heap *heap)
{
    while (ph__heap_first_segment(heap) != NULL) {
        assert_int_equal(ph__heap_first_segment(heap)->used_blocks, 0);
        ph__heap_remove_segment(heap, ph__heap_first_segment(heap));
        check(heap);
    }
    ph__heap_stats stats, none;
    memset(&none, 0, sizeof none);
    ph__heap_get_stats(heap, &stats);
    assert_memory_equal(&stats, &none, sizeof stats);
    ph__heap_destroy(heap);
}

#endif
