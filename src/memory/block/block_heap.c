/* SPDX-License-Identifier: MIT */
/* memory/block/block_heap.c: a heap's own memory: block records, free sets, segments. */
#include "memory/block/block_heap.h"
#include "base/alloc.h"
#include "memory/block/heap_state.h"

ph__heap *ph__heap_create(const ph__heap_options *options)
{
    ph__heap *heap = ph__calloc(1, sizeof *heap);
    if (heap == NULL)
        return NULL;
    heap->max_split_size =
        options != NULL && options->max_split_size != 0 ? options->max_split_size : SIZE_MAX;
    heap->no_split = options != NULL && options->no_split;
    return heap;
}

void ph__heap_destroy(ph__heap *heap)
{
    if (heap == NULL)
        return;
    while (heap->first_segment != NULL) {
        ph__segment *segment = heap->first_segment;
        heap->first_segment = segment->next;
        ph__free(segment);
    }
    for (size_t i = 0; i < 2 * (size_t)PH__SET_BUCKETS; i++) {
        while (heap->sets[i / PH__SET_BUCKETS][i % PH__SET_BUCKETS] != NULL) {
            ph__free_set *set = heap->sets[i / PH__SET_BUCKETS][i % PH__SET_BUCKETS];
            heap->sets[i / PH__SET_BUCKETS][i % PH__SET_BUCKETS] = set->next;
            ph__free(set);
        }
    }
    while (heap->slabs != NULL) {
        ph__slab *slab = heap->slabs;
        heap->slabs = slab->next;
        ph__free(slab);
    }
    ph__index_free(&heap->index);
    ph__range_map_free(&heap->ranges);
    ph__free(heap);
}

bool ph__records_grow(ph__heap *heap)
{
    if (!ph__index_reserve(&heap->index, (heap->slab_count + 1) * PH__SLAB_BLOCKS))
        return false;
    ph__slab *slab = ph__alloc(sizeof *slab);
    if (slab == NULL)
        return false;
    slab->next = heap->slabs;
    heap->slabs = slab;
    heap->slab_count++;
    for (size_t i = PH__SLAB_BLOCKS; i-- > 0;) {
        slab->blocks[i] = (ph__block){
            .free = true, .priority = (uint32_t)ph__rng_next(&heap->rng), .link[0] = heap->spare};
        heap->spare = &slab->blocks[i];
    }
    return true;
}

/* Finds or creates the set and counts one segment more for it. */
static ph__free_set *set_retain(ph__heap *heap, unsigned half, uint64_t stream)
{
    ph__free_set *set = ph__set_find(heap, half, stream);
    if (set == NULL) {
        set = ph__calloc(1, sizeof *set);
        if (set == NULL)
            return NULL;
        ph__free_set **bucket = ph__set_bucket(heap, half, stream);
        set->stream = stream;
        set->small = half == 0;
        set->counts = &heap->counts[half];
        set->next = *bucket;
        *bucket = set;
    }
    set->segments++;
    return set;
}

static void set_release(ph__heap *heap, ph__free_set *set)
{
    unsigned half = set->small ? 0 : 1;
    if (--set->segments > 0)
        return;
    ph__free_set **at = ph__set_bucket(heap, half, set->stream);
    while (*at != set)
        at = &(*at)->next;
    *at = set->next;
    if (heap->recent[half] == set)
        heap->recent[half] = NULL;
    ph__free(set);
}

static void segment_link(ph__heap *heap, ph__segment *segment)
{
    segment->previous = heap->last_segment;
    if (heap->last_segment != NULL)
        heap->last_segment->next = segment;
    else
        heap->first_segment = segment;
    heap->last_segment = segment;
}

static void segment_unlink(ph__heap *heap, ph__segment *segment)
{
    if (segment->previous != NULL)
        segment->previous->next = segment->next;
    else
        heap->first_segment = segment->next;
    if (segment->next != NULL)
        segment->next->previous = segment->previous;
    else
        heap->last_segment = segment->previous;
}

ph__segment *ph__heap_add_segment(ph__heap *heap, uintptr_t address, size_t size, uint64_t stream,
                                  bool small)
{
    unsigned half = small ? 0 : 1;
    if (address == 0 || size == 0 || size % PH__BLOCK_MIN != 0 || size > UINTPTR_MAX - address)
        return NULL;
    size_t lowest;
    size_t words = ph__starts_words(size, &lowest);
    ph__segment *segment = ph__calloc(1, sizeof *segment + words * sizeof segment->starts[0]);
    if (segment == NULL)
        return NULL;
    ph__free_set *set = set_retain(heap, half, stream);
    if (set == NULL)
        goto no_set;
    if (!ph__records_reserve(heap, 1) || !ph__range_map_add(&heap->ranges, address, size, segment))
        goto no_range;
    segment->address = address;
    segment->size = size;
    segment->stream = stream;
    segment->number = ++heap->segment_number;
    segment->small = small;
    segment->heap = heap;
    segment->set = set;
    segment->start_words = lowest;
    segment->first = ph__block_start(heap, segment, address, size);
    segment->first->previous = segment->first->next = NULL;
    ph__free_set_insert(set, segment->first);
    segment_link(heap, segment);
    set->counts->segments++;
    set->counts->segment_bytes += size;
    set->counts->empty_segments++;
    set->counts->empty_bytes += size;
    return segment;
no_range:
    set_release(heap, set);
no_set:
    ph__free(segment);
    return NULL;
}

void ph__heap_remove_segment(ph__heap *heap, ph__segment *segment)
{
    ph__free_set *set = segment->set;
    if (segment->used_blocks != 0)
        return;
    ph__free_set_remove(set, segment->first);
    ph__block_end(heap, segment->first);
    set->counts->segments--;
    set->counts->segment_bytes -= segment->size;
    set->counts->empty_segments--;
    set->counts->empty_bytes -= segment->size;
    (void)ph__range_map_remove(&heap->ranges, segment->address);
    set_release(heap, set);
    segment_unlink(heap, segment);
    ph__free(segment);
}
