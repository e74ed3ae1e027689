/* SPDX-License-Identifier: MIT */
/* memory/block/heap_state.h: the inside of a heap, for the files of the core; nobody else
 * includes it. */
#ifndef PH_MEMORY_BLOCK_HEAP_STATE_H
#define PH_MEMORY_BLOCK_HEAP_STATE_H
#include "base/range_map.h"
#include "base/rng.h"
#include "memory/block/block.h"
#include "memory/block/block_heap.h"
#include "memory/block/block_index.h"
#include "memory/block/block_tree.h"

#define PH__SLAB_BLOCKS ((size_t)64)
#define PH__SET_BUCKETS 64

typedef struct ph__slab {
    struct ph__slab *next;
    ph__block blocks[PH__SLAB_BLOCKS];
} ph__slab;

/* Halves are indexed as in ph__heap_stats: [0] small, [1] large. Every block record that exists
 * fits the index, so that a record from the spare list is all that a split needs. */
struct ph__heap {
    size_t max_split_size; /* SIZE_MAX when unlimited */
    bool no_split;
    ph__block *spare;        /* linked by link[0]; each is free, without request and user */
    ph__free_set *recent[2]; /* used last, or NULL */
    ph__index index;
    ph__half_counts counts[2];
    ph__free_set *sets[2][PH__SET_BUCKETS]; /* by hash of the stream */
    ph__segment *first_segment, *last_segment;
    uint64_t segment_number; /* of the last one that was added */
    ph__range_map ranges;    /* of the segments, by address */
    ph__slab *slabs;
    size_t slab_count;
    ph__rng rng; /* of the priorities */
};

/* Makes count records (0 to 2) available, each with a place in the index. */
static inline bool ph__records_reserve(ph__heap *heap, unsigned count)
{
    bool enough =
        count == 0 || (heap->spare != NULL && (count == 1 || heap->spare->link[0] != NULL));
    return enough || ph__records_grow(heap);
}

static inline ph__free_set **ph__set_bucket(ph__heap *heap, unsigned half, uint64_t stream)
{
    uint64_t hash = (stream ^ stream >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return &heap->sets[half][hash >> 58];
}

/* The free set of a stream; NULL when it has no segment in that half. */
static inline ph__free_set *ph__set_find(ph__heap *heap, unsigned half, uint64_t stream)
{
    ph__free_set *set = heap->recent[half];
    if (set != NULL && set->stream == stream)
        return set;
    for (set = *ph__set_bucket(heap, half, stream); set != NULL; set = set->next) {
        if (set->stream == stream) {
            heap->recent[half] = set;
            return set;
        }
    }
    return NULL;
}

/* A record for [address, address + size), free, known to the index, in no set; its neighbours
 * are not set. A record must be spare. */
static inline ph__block *ph__block_start(ph__heap *heap, ph__segment *segment, uintptr_t address,
                                         size_t size)
{
    ph__block *block = heap->spare;
    heap->spare = block->link[0];
    block->address = address;
    block->size = size;
    block->segment = segment;
    ph__index_put(&heap->index, block);
    ph__starts_set(segment, address);
    segment->set->counts->blocks++;
    return block;
}

/* The end of a free block that is in no set. */
static inline void ph__block_end(ph__heap *heap, ph__block *block)
{
    ph__index_remove(&heap->index, block);
    block->segment->set->counts->blocks--;
    block->link[0] = heap->spare;
    heap->spare = block;
}
#endif
