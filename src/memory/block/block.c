/* SPDX-License-Identifier: MIT */
/* memory/block/block.c: the block core: taking, splitting, giving back and coalescing blocks of
 * segments. */
#include "memory/block/block.h"
#include "memory/block/heap_state.h"

bool ph__block_round(size_t bytes, size_t *rounded)
{
    if (bytes > SIZE_MAX - (PH__BLOCK_MIN - 1))
        return false;
    size_t up = (bytes + (PH__BLOCK_MIN - 1)) / PH__BLOCK_MIN * PH__BLOCK_MIN;
    *rounded = up != 0 ? up : PH__BLOCK_MIN;
    return true;
}

bool ph__block_is_small(size_t rounded)
{
    return rounded <= PH__SMALL_MAX;
}

bool ph__block_splits(const ph__heap_options *options, size_t size, size_t rounded)
{
    size_t rest = size - rounded;
    if (options->no_split)
        return false;
    if (ph__block_is_small(rounded))
        return rest >= PH__BLOCK_MIN;
    return rest > PH__SMALL_MAX &&
           (options->max_split_size == 0 || rounded < options->max_split_size);
}

/* No option changes the sizes: a heap that does not split leaves the rest of its segments unused
 * by choice. */
bool ph__segment_size(const ph__heap_options *options, size_t rounded, size_t *segment_bytes)
{
    (void)options;
    if (ph__block_is_small(rounded)) {
        *segment_bytes = PH__SMALL_SEGMENT;
    } else if (rounded < PH__LARGE_OWN) {
        *segment_bytes = PH__LARGE_SEGMENT;
    } else {
        if (rounded > SIZE_MAX - (PH__SEGMENT_UNIT - 1))
            return false;
        *segment_bytes = (rounded + (PH__SEGMENT_UNIT - 1)) / PH__SEGMENT_UNIT * PH__SEGMENT_UNIT;
    }
    return true;
}

/* Makes [address, end of block) a free block of its own, in no set; block keeps its size as yet,
 * so that it can still be found in its set. A record must be spare. */
static inline ph__block *block_cut(ph__heap *heap, ph__block *block, uintptr_t address)
{
    size_t size = block->size - (size_t)(address - block->address);
    ph__block *rest = ph__block_start(heap, block->segment, address, size);
    rest->previous = block;
    rest->next = block->next;
    if (block->next != NULL)
        block->next->previous = rest;
    block->next = rest;
    return rest;
}

/* Drops the block behind block, which takes its place, but not yet its bytes. */
static inline void block_drop_next(ph__heap *heap, ph__block *block)
{
    ph__block *next = block->next;
    block->next = next->next;
    if (next->next != NULL)
        next->next->previous = block;
    ph__block_end(heap, next);
}

static inline ph__block *block_use(ph__block *block, size_t requested)
{
    ph__segment *segment = block->segment;
    ph__half_counts *counts = segment->set->counts;
    block->free = false;
    block->requested = requested;
    block->generation = 0;
    block->shared = false;
    counts->used_blocks++;
    counts->used_bytes += block->size;
    counts->requested_bytes += requested;
    if (segment->used_blocks++ == 0) {
        counts->empty_segments--;
        counts->empty_bytes -= segment->size;
    }
    return block;
}

/* Whether max_split_size, which the block is not below, lets it serve the request. */
static bool oversize_fits(const ph__heap *heap, const ph__block *block, size_t rounded)
{
    size_t fresh;
    if (rounded >= heap->max_split_size)
        return block->size - rounded < PH__NON_SPLIT_SLACK;
    return ph__segment_size(NULL, rounded, &fresh) && block->size <= fresh;
}

static bool wants_split(const ph__heap *heap, const ph__block *block, size_t rounded, bool small)
{
    size_t rest = block->size - rounded;
    if (heap->no_split)
        return false;
    return small ? rest >= PH__BLOCK_MIN : rest > PH__SMALL_MAX && rounded < heap->max_split_size;
}

ph__block *ph__heap_acquire(ph__heap *heap, size_t rounded, size_t requested, uint64_t stream,
                            bool *no_memory)
{
    bool small = rounded <= PH__SMALL_MAX;
    *no_memory = false;
    ph__free_set *set = ph__set_find(heap, small ? 0 : 1, stream);
    if (set == NULL)
        return NULL;
    ph__block *block = ph__free_set_best(set, rounded);
    if (block == NULL)
        return NULL;
    if (block->size >= heap->max_split_size && !oversize_fits(heap, block, rounded))
        return NULL;
    bool split = wants_split(heap, block, rounded, small);
    if (split && heap->spare == NULL && !ph__records_grow(heap)) {
        *no_memory = true;
        return NULL;
    }
    if (split) {
        ph__free_set_replace(set, block, block_cut(heap, block, block->address + rounded));
        block->size = rounded;
    } else {
        ph__free_set_remove(set, block);
    }
    return block_use(block, requested);
}

void ph__block_reuse(ph__block *block, size_t requested)
{
    block->segment->set->counts->requested_bytes += requested - block->requested;
    block->requested = requested;
}

ph__block *ph__heap_acquire_at(ph__heap *heap, uintptr_t address, size_t rounded, size_t requested,
                               uint64_t stream, bool *no_memory)
{
    *no_memory = false;
    const ph__range *range = ph__range_map_find(&heap->ranges, address);
    ph__segment *segment = range != NULL ? range->value : NULL;
    if (segment == NULL || segment->stream != stream || rounded == 0 ||
        rounded % PH__BLOCK_MIN != 0 || (address - segment->address) % PH__BLOCK_MIN != 0)
        return NULL;
    ph__block *block = ph__starts_find(&heap->index, segment, address);
    size_t before = address - block->address;
    if (!block->free || rounded > block->size - before)
        return NULL;
    size_t after = block->size - before - rounded;
    if (heap->no_split && (before != 0 || after != 0))
        return NULL;
    if (!ph__records_reserve(heap, (before != 0 ? 1U : 0U) + (after != 0 ? 1U : 0U))) {
        *no_memory = true;
        return NULL;
    }
    ph__free_set *set = segment->set;
    if (before != 0) {
        ph__block *wanted = block_cut(heap, block, address);
        ph__free_set_resize(set, block, before);
        block = wanted;
    } else {
        ph__free_set_remove(set, block);
    }
    if (after != 0) {
        ph__free_set_insert(set, block_cut(heap, block, address + rounded));
        block->size = rounded;
    }
    return block_use(block, requested);
}

ph__segment *ph__heap_give(ph__heap *heap, ph__block *block)
{
    ph__segment *segment = block->segment;
    ph__free_set *set = segment->set;
    ph__half_counts *counts = set->counts;
    counts->used_blocks--;
    counts->used_bytes -= block->size;
    counts->requested_bytes -= block->requested;
    if (--segment->used_blocks == 0) {
        counts->empty_segments++;
        counts->empty_bytes += segment->size;
    }
    block->free = true;
    block->requested = 0;
    block->user = NULL;
    ph__block *previous = block->previous, *next = block->next;
    bool merge_next = next != NULL && next->free;
    size_t size = block->size + (merge_next ? next->size : 0);
    if (previous != NULL && previous->free) {
        if (merge_next) {
            ph__free_set_remove(set, next);
            block_drop_next(heap, block);
        }
        block_drop_next(heap, previous);
        ph__free_set_resize(set, previous, previous->size + size);
    } else if (merge_next) {
        block->size = size;
        ph__free_set_replace(set, next, block);
        block_drop_next(heap, block);
    } else {
        ph__free_set_insert(set, block);
    }
    return segment;
}

ph__segment *ph__heap_first_segment(const ph__heap *heap)
{
    return heap->first_segment;
}

bool ph__heap_has_stream(ph__heap *heap, uint64_t stream)
{
    return ph__set_find(heap, 0, stream) != NULL || ph__set_find(heap, 1, stream) != NULL;
}

ph__block *ph__heap_find(const ph__heap *heap, uintptr_t address)
{
    ph__block *block = ph__index_get(&heap->index, address);
    if (block == NULL) {
        const ph__range *range = ph__range_map_find(&heap->ranges, address);
        if (range == NULL)
            return NULL;
        block = ph__starts_find(&heap->index, range->value, address);
    }
    return block->free ? NULL : block;
}

void ph__heap_get_stats(const ph__heap *heap, ph__heap_stats *out)
{
    for (unsigned half = 0; half < 2; half++) {
        const ph__half_counts *counts = &heap->counts[half];
        out->segments[half] = counts->segments;
        out->segment_bytes[half] = counts->segment_bytes;
        out->used_blocks[half] = counts->used_blocks;
        out->used_bytes[half] = counts->used_bytes;
        out->requested_bytes[half] = counts->requested_bytes;
        out->free_blocks[half] = counts->blocks - counts->used_blocks;
        out->free_bytes[half] = counts->segment_bytes - counts->used_bytes;
        out->split_blocks[half] = out->free_blocks[half] - counts->empty_segments;
        out->split_bytes[half] = out->free_bytes[half] - counts->empty_bytes;
    }
}
