/* SPDX-License-Identifier: MIT */
/* memory/block/block.h: the block core of the caching allocator: sizes, splits, merges, best fit.
 * - The core knows no device, no stream, no lock and no time: addresses are numbers, streams are
 *   keys, and segments come from the caller. Deterministic; fuzzed alone.
 * - Source of the rules: PyTorch's CUDA caching allocator, as described in its documentation and
 *   papers.
 * - Requests are rounded to 512 bytes. Those up to 1 MiB come from 2 MiB segments, those below 10
 *   MiB from 20 MiB segments. Larger ones get their own segment, rounded to 2 MiB.
 * - Best fit among free blocks of the same stream: by size, then by the age of their segment, then
 *   by address. */
#ifndef PH_MEMORY_BLOCK_BLOCK_H
#define PH_MEMORY_BLOCK_BLOCK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PH__BLOCK_MIN     ((size_t)512)
#define PH__SMALL_MAX     ((size_t)1 << 20) /* requests up to this come from the small pool */
#define PH__SMALL_SEGMENT ((size_t)2 << 20)
#define PH__LARGE_SEGMENT ((size_t)20 << 20)
/* Requests from this on get a segment of their own. */
#define PH__LARGE_OWN       ((size_t)10 << 20)
#define PH__SEGMENT_UNIT    ((size_t)2 << 20)
#define PH__NON_SPLIT_SLACK ((size_t)20 << 20) /* see max_split_size */

typedef struct ph__heap ph__heap;       /* the blocks of one pool: a small and a large half */
typedef struct ph__segment ph__segment; /* one piece of memory from the provider */

/* One block. Owned by its heap; valid from ph__heap_acquire until ph__heap_give has merged it away.
 * The fields up to `user` are the core's and read-only to others. */
typedef struct ph__block {
    uintptr_t address;
    size_t size;      /* of the block: a multiple of 512 */
    size_t requested; /* bytes of the caller's request; 0 when free */
    ph__segment *segment;
    struct ph__block *previous, *next; /* neighbours in the segment, by address */
    bool free;
    /* the caller's: eager work was given it where replays write; false when taken */
    bool shared;
    uint32_t thread;     /* the caller's: which one allocated it, where it says so */
    uint64_t generation; /* the caller's: which allocation this is; 0 when taken */
    /* the caller's: what it hangs on a block that is in use; NULL when taken and when free */
    void *user;
    /* the core's: place in the free tree, or in the list of spare blocks */
    struct ph__block *link[2];
    struct ph__block *parent; /* the core's: what it hangs from in the free tree; NULL: the root */
    uint32_t priority, bin;   /* the core's: its place in the free tree, and which tree that is */
} ph__block;

struct ph__segment {
    uintptr_t address;
    size_t size;
    uint64_t stream; /* the key that all its blocks carry */
    uint64_t number; /* ascending in the order in which segments were added to the heap */
    bool small;
    ph__heap *heap;
    ph__block *first;             /* lowest block */
    ph__segment *previous, *next; /* all segments of the heap, in order of creation */
    size_t used_blocks;           /* blocks not free: 0 means that the segment can be removed */
    void *user;                   /* the caller's */
    struct ph__free_set *set;     /* the core's: the free blocks of its stream and half */
    size_t start_words;           /* the core's: words of the lowest level of starts */
    uint64_t starts[];            /* the core's: where blocks start, see block_index.h */
};

typedef struct ph__heap_options {
    /* Requests of at least this size are never split from a block, and take one only when it is
     * less than PH__NON_SPLIT_SLACK larger; blocks of at least this size do not serve smaller
     * requests, unless a new segment for the request would be as large (so that taking again
     * after adding a segment always works). 0: unlimited. */
    size_t max_split_size;
    bool no_split; /* blocks are never split */
} ph__heap_options;

/* Counters that never need recounting. bytes and blocks, [0] small, [1] large. */
typedef struct ph__heap_stats {
    size_t segments[2], segment_bytes[2];
    size_t used_blocks[2], used_bytes[2], requested_bytes[2];
    size_t free_blocks[2], free_bytes[2]; /* cached: in segments, not in use */
    /* Free blocks that are only a part of their segment (PyTorch's inactive_split). */
    size_t split_blocks[2], split_bytes[2];
} ph__heap_stats;

/* The block size for a request of bytes (>= 1): a multiple of 512; false on overflow. And the
 * segment size to ask the provider for when a request of that rounded size finds no block. */
bool ph__block_round(size_t bytes, size_t *rounded);
bool ph__segment_size(const ph__heap_options *options, size_t rounded, size_t *segment_bytes);
bool ph__block_is_small(size_t rounded);
/* Whether a request that takes a free block of that size leaves the rest of it free. */
bool ph__block_splits(const ph__heap_options *options, size_t size, size_t rounded);

/* Takes the best fitting free block of this stream key for rounded bytes. rounded comes from
 * ph__block_round, and requested <= rounded.
 * - The block is split, and its lower part taken, by the rules: small half: when at least 512 bytes
 *   remain; large half: when more than 1 MiB remains and the request is below max_split_size.
 * - NULL: no block fits. The caller then adds a segment and calls again.
 * - NULL with *no_memory = true: a split needs a block record, and there is no host memory. Nothing
 *   changed. */
ph__block *ph__heap_acquire(ph__heap *heap, size_t rounded, size_t requested, uint64_t stream,
                            bool *no_memory);

/* A block that is in use, for another request of the same rounded size. */
void ph__block_reuse(ph__block *block, size_t requested);

/* Takes exactly [address, address + rounded) out of a free block of this heap that contains it
 * (for restoring layouts and for allocation at a wanted address), whatever the thresholds say;
 * under no_split only a block's whole extent can be taken. NULL: not free, not whole, another
 * stream's, not a multiple of 512 from the start of its segment. */
ph__block *ph__heap_acquire_at(ph__heap *heap, uintptr_t address, size_t rounded, size_t requested,
                               uint64_t stream, bool *no_memory);

/* Gives a block back: coalesces with free neighbours. Never fails, allocates nothing. Returns
 * the segment, whose used_blocks may now be 0. */
ph__segment *ph__heap_give(ph__heap *heap, ph__block *block);

/* The block that is in use and starts at address, in O(1), or else contains it, in O(log
 * segments), plus once what merged blocks have left behind in the search bitmap, which a search
 * tidies: it is no mere read for other threads. NULL: no such block. */
ph__block *ph__heap_find(const ph__heap *heap, uintptr_t address);

ph__segment *ph__heap_first_segment(const ph__heap *heap);
bool ph__heap_has_stream(ph__heap *heap, uint64_t stream); /* any segment of it */
void ph__heap_get_stats(const ph__heap *heap, ph__heap_stats *out);
#endif
