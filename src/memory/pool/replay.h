/* SPDX-License-Identifier: MIT */
/* memory/pool/replay.h: the order of replays that share a pool, and of eager work on its memory. */
#ifndef PH_MEMORY_POOL_REPLAY_H
#define PH_MEMORY_POOL_REPLAY_H
#include "device/handles/device.h"
#include "device/handles/stream.h"
#include "memory/state/pool_state.h"

typedef struct ph__memory ph__memory;

/* - begin orders the replay on `stream` behind earlier replays of graphs of the pool on other
 *   streams, and holds the replay lock of the pool until end.
 * - end: launched says whether the launch succeeded; gives the epoch of the replay (0: not
 *   launched).
 * Several pools: begin in ascending order of address. No driver call when the last replay was on
 * the same stream. */
ph_status ph__pool_replay_begin(ph_pool *pool, ph_stream *stream);
uint64_t ph__pool_replay_end(ph_pool *pool, ph_stream *stream, bool launched);
/* The same for a replay that needs no call of the driver but its launch, as the last one from the
 * pool was on that stream, no default one, and nothing was ordered behind it since. False: begin
 * has to be called. */
static inline bool ph__pool_replay_begin_again(ph_pool *pool, const ph_stream *stream)
{
    ph__mutex_lock(&pool->replay_lock);
    if (pool->last_replay == stream && !pool->replay_marked && pool->before.count == 0 &&
        !stream->is_default)
        return true;
    ph__mutex_unlock(&pool->replay_lock);
    return false;
}
static inline uint64_t ph__pool_replay_end_again(ph_pool *pool, bool launched)
{
    uint64_t epoch = 0;
    if (launched) {
        epoch = atomic_load_explicit(&pool->epoch, memory_order_relaxed) + 1;
        atomic_store_explicit(&pool->epoch, epoch, memory_order_release);
    }
    ph__mutex_unlock(&pool->replay_lock);
    return epoch;
}
uint64_t ph__pool_epoch(const ph_pool *pool);

ph_status ph__replays_before_capture(ph__attachment *attachment, ph_stream *stream);
/* Whoever used the handle of a stream under a pool's replay lock is done with it. */
void ph__replays_wait_idle(ph__memory *memory, ph_stream *stream);
/* Orders the stream behind the replays from the pool so far: eager work is given memory that
 * they write. */
ph_status ph__replays_before_use(ph_pool *pool, ph_stream *stream, const char *call);
/* The opposite: replays from now on come behind the work of the stream so far, which used memory
 * that they write, unless the stream is in a capture. false: they do not. The error record is not
 * touched. */
bool ph__replays_behind_use(ph_pool *pool, ph_stream *stream);
#endif
