/* SPDX-License-Identifier: MIT */
/* memory/block/block_check.c: the whole consistency check of a heap, for tests. */
#include "memory/block/block_check.h"
#include "memory/block/heap_state.h"
#include <string.h>

static const char *check_block(const ph__heap *heap, const ph__segment *segment,
                               const ph__block *block)
{
    if (block->segment != segment)
        return "a block names another segment";
    if (block->size == 0 || block->size % PH__BLOCK_MIN != 0)
        return "a block's size is not a multiple of 512";
    if (block->free && (block->requested != 0 || block->user != NULL))
        return "a free block carries what belongs to its last user";
    if (block->free && block->next != NULL && block->next->free)
        return "two neighbouring blocks are free";
    if (!block->free && block->requested > block->size)
        return "a block is smaller than its request";
    if (ph__index_get(&heap->index, block->address) != block)
        return "the index does not know a block";
    return NULL;
}

static const char *check_segment(const ph__heap *heap, const ph__segment *segment,
                                 ph__half_counts *counts)
{
    uintptr_t at = segment->address;
    size_t blocks = 0, used = 0;
    const ph__block *previous = NULL;
    for (const ph__block *block = segment->first; block != NULL;
         previous = block, block = block->next) {
        if (block->address != at || block->previous != previous)
            return "the blocks of a segment do not follow each other";
        const char *broken = check_block(heap, segment, block);
        if (broken != NULL)
            return broken;
        at += block->size;
        blocks++;
        if (!block->free) {
            used++;
            counts->used_bytes += block->size;
            counts->requested_bytes += block->requested;
        }
    }
    if (at != segment->address + segment->size)
        return "the blocks do not fill their segment";
    if (used != segment->used_blocks)
        return "used_blocks of a segment is wrong";
    if (!ph__starts_check(segment))
        return "the bitmap of starts is wrong";
    const ph__range *range =
        ph__range_map_find(&heap->ranges, segment->address + segment->size - 1);
    if (range == NULL || range->value != segment || range->base != segment->address)
        return "the ranges do not know a segment";
    counts->segments++;
    counts->segment_bytes += segment->size;
    counts->blocks += blocks;
    counts->used_blocks += used;
    if (used == 0) {
        counts->empty_segments++;
        counts->empty_bytes += segment->size;
    }
    return NULL;
}

static const char *check_sets(const ph__heap *heap, unsigned half, const ph__half_counts *counts)
{
    size_t blocks = 0, bytes = 0, segments = 0;
    bool recent_known = heap->recent[half] == NULL;
    for (size_t i = 0; i < PH__SET_BUCKETS; i++) {
        for (const ph__free_set *set = heap->sets[half][i]; set != NULL; set = set->next) {
            const char *broken = ph__free_set_check(set, &blocks, &bytes);
            if (broken != NULL)
                return broken;
            if (set->small != (half == 0) || set->counts != &heap->counts[half] ||
                set->segments == 0)
                return "a free set is in the wrong place, or of no use";
            segments += set->segments;
            recent_known = recent_known || heap->recent[half] == set;
        }
    }
    if (!recent_known)
        return "the set used last does not exist";
    if (segments != counts->segments)
        return "the free sets do not count all segments";
    if (blocks != counts->blocks - counts->used_blocks ||
        bytes != counts->segment_bytes - counts->used_bytes)
        return "the free sets do not hold all free blocks";
    return NULL;
}

static const char *check_records(const ph__heap *heap)
{
    size_t live = heap->counts[0].blocks + heap->counts[1].blocks;
    size_t spare = 0, records = heap->slab_count * PH__SLAB_BLOCKS;
    for (const ph__block *block = heap->spare; block != NULL && spare <= records;
         block = block->link[0]) {
        if (!block->free || block->requested != 0 || block->user != NULL)
            return "a spare block record is not blank";
        spare++;
    }
    if (live + spare != records)
        return "block records were lost";
    if (ph__index_count(&heap->index) != live)
        return "the index holds a block that does not exist";
    if (records != 0 && records > (heap->index.mask + 1) / 2)
        return "the index is too small for all records";
    if (heap->ranges.count != heap->counts[0].segments + heap->counts[1].segments)
        return "the ranges hold a segment that does not exist";
    return NULL;
}

const char *ph__heap_check(const ph__heap *heap)
{
    ph__half_counts counts[2];
    const ph__segment *previous = NULL;
    memset(counts, 0, sizeof counts);
    for (const ph__segment *segment = heap->first_segment; segment != NULL;
         segment = segment->next) {
        if (segment->previous != previous || segment->heap != heap)
            return "the list of segments is broken";
        if (segment->set == NULL || segment->set->stream != segment->stream ||
            segment->set->small != segment->small)
            return "a segment is in the wrong free set";
        const char *broken = check_segment(heap, segment, &counts[segment->small ? 0 : 1]);
        if (broken != NULL)
            return broken;
        previous = segment;
    }
    if (heap->last_segment != previous)
        return "the list of segments is broken";
    if (memcmp(counts, heap->counts, sizeof counts) != 0)
        return "the statistics are wrong";
    for (unsigned half = 0; half < 2; half++) {
        const char *broken = check_sets(heap, half, &counts[half]);
        if (broken != NULL)
            return broken;
    }
    return check_records(heap);
}
