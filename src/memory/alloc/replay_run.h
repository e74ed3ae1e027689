/* SPDX-License-Identifier: MIT */
/* memory/alloc/replay_run.h: a replay allocator, which serves another run of the work of a capture.
 * */
#ifndef PH_MEMORY_ALLOC_REPLAY_RUN_H
#define PH_MEMORY_ALLOC_REPLAY_RUN_H
#include "memory/state/allocation.h"
#include <phonograph/memory.h>

typedef struct ph__replay_allocator ph__replay_allocator;

/* Begins to answer requests to `pool` with the blocks of an allocation log of `home`, in whose
 * memory they are.
 * - A request gets the next block that was asked for on the same stream (`from` stands for `to`)
 *   with the same size, whoever may have it now. Where none fits, it is served as any.
 * - Such blocks are no allocations of the allocator: all calls take them for live until they are
 *   freed, which changes nothing.
 * - Freeing what lies at an address of the log, on the thread that began, is put off to the end.
 * For work that is done once more while nobody uses that memory. The graph of the log is held
 * meanwhile. */
ph_status ph__replay_allocator_begin(ph__replay_allocator **out, ph_pool *pool, ph_pool *home,
                                     const ph__layout *log, uint64_t from, uint64_t to,
                                     const char *call);
/* Before its first request: requests are answered in the order of the log, each where it asks for
 * the same size on the same stream, until one does not. An entry with address 0 is served as any.
 * All others lie in the arena, a block of `home`, which goes back at the end: what the run has left
 * in it are allocations then. */
void ph__replay_allocator_order(ph__replay_allocator *allocator, void *arena);
/* The run is over: it answers no more requests, and still knows what it gave. */
void ph__replay_allocator_stop(ph__replay_allocator *allocator);
/* Of one that has stopped, and has an order: requests are answered again, from that entry of the
 * log on. */
void ph__replay_allocator_resume(ph__replay_allocator *allocator, size_t next);
/* At which request the order ended; SIZE_MAX: it did not. */
size_t ph__replay_allocator_ended_at(const ph__replay_allocator *allocator);
/* From the beginning again. skip_held: without the blocks that somebody still has from the capture,
 * as where the work asks for them the first time alone. */
void ph__replay_allocator_rewind(ph__replay_allocator *allocator, bool skip_held);
/* Requests since then that found none, and the bytes of the first. */
size_t ph__replay_allocator_missed(size_t *bytes, const ph__replay_allocator *allocator);
size_t ph__replay_allocator_unused(
    const ph__replay_allocator *allocator); /* blocks, but for those that are held */
size_t ph__replay_allocator_steps(
    const ph__replay_allocator *allocator); /* at how many blocks its requests since then */
/* Ends it. A block that is left of the last run is an allocation of `home`, of the generation that
 * it had, as far as nobody has one there. false: of some it is none, for want of host memory. Takes
 * NULL. */
bool ph__replay_allocator_end(ph__replay_allocator *allocator);
#endif
