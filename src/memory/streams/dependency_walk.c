/* SPDX-License-Identifier: MIT */
/* memory/streams/dependency_walk.c: reuse inside a capture: a block that other streams used may be
 * handed out again on its own stream once the captured graph orders that stream's next node behind
 * their work. No node is inserted for it. */
#include "memory/streams/dependency_walk.h"
#include "base/alloc.h"
#include "base/map.h"
#include "base/vec.h"
#include "device/handles/hold.h"
#include "memory/state/memory_state.h"
#include "memory/state/request.h"
#include "memory/state/segment.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"
#include "memory/streams/deferred.h"

/* The nodes that the stream's next node is ordered behind, as far as walked; grows with the
 * capture. And the freed blocks of the stream that wait for it to grow. Of a block one node is
 * watched that has not been seen: only when the walk comes to that one is the block looked at
 * again. */
struct ph__dependency_walk {
    ph__dependency_walk *next;
    uint64_t stream_id;
    /* a thread extends it, which owns all but `blocks` and `fresh`; these and next are under the
     * lock */
    bool busy;
    bool over; /* the capture has ended meanwhile: that thread ends the walk */
    ph__map seen;
    ph__map watched;         /* node -> ph__stream_uses, and those beside it */
    ph__stream_uses *blocks; /* all */
    ph__stream_uses *fresh;  /* the uses that watch nothing yet */
};

typedef PH__VEC(ph__drv_node *) node_list;

static void walk_free(ph__dependency_walk *walk)
{
    ph__map_free(&walk->seen);
    ph__map_free(&walk->watched);
    ph__free(walk);
}

void ph__dependency_walks_free(ph__dependency_walk *walk)
{
    while (walk) {
        ph__dependency_walk *next = walk->next;
        walk_free(walk);
        walk = next;
    }
}

/* Lock held. */
static ph__dependency_walk *walk_find(const ph_pool *pool, uint64_t stream_id)
{
    ph__dependency_walk *walk = pool->walks;
    while (walk && walk->stream_id != stream_id)
        walk = walk->next;
    return walk;
}

static void unlink_block(ph__dependency_walk *walk, ph__stream_uses *uses)
{
    if (uses->previous)
        uses->previous->next = uses->next;
    else
        walk->blocks = uses->next;
    if (uses->next)
        uses->next->previous = uses->previous;
}

/* All blocks of the walk wait as others do. Lock held. */
static void defer_blocks(ph__memory *memory, ph__dependency_walk *walk)
{
    while (walk->blocks) {
        ph__stream_uses *uses = walk->blocks;
        walk->blocks = uses->next;
        uses->previous = NULL;
        uses->next = memory->deferred;
        memory->deferred = uses;
        ph__set_slow_path(memory, PH__SLOW_DEFERRED, true);
    }
}

ph__dependency_walk *ph__dependency_walks_end(ph__memory *memory, ph_pool *pool)
{
    ph__dependency_walk *ended = NULL, *next;
    for (ph__dependency_walk *walk = pool->walks; walk; walk = next) {
        next = walk->next;
        walk->over = true;
        if (walk->busy)
            continue;
        defer_blocks(memory, walk);
        walk->next = ended;
        ended = walk;
    }
    pool->walks = NULL;
    return ended;
}

void ph__dependency_walks_end_capture(ph__memory *memory, uint64_t capture_id)
{
    ph__dependency_walk *ended = NULL;
    ph__memory_lock(memory);
    ph_pool *pool = memory->routes;
    while (pool && pool->capture_id != capture_id)
        pool = pool->next_route;
    if (pool)
        ended = ph__dependency_walks_end(memory, pool);
    ph__spin_unlock(&memory->lock);
    ph__dependency_walks_free(ended);
}

/* Adds the nodes that the stream's next one would depend on; false when it is not in the
 * capture, or without memory. */
static bool add_ends(ph__drv_node ***at, size_t *count, size_t *capacity, ph__memory *memory,
                     const ph_stream *stream, uint64_t capture_id)
{
    ph__drv_capture capture;
    ph__stream_hold(stream);
    ph__mutex_lock(&memory->device->ending);
    bool ok = memory->driver->capture_get(&capture, stream->handle) == PH__R_OK &&
              capture.status == PH_CAPTURE_ACTIVE && capture.id == capture_id &&
              (capture.dependency_count <= *capacity - *count ||
               ph__vec_grow((void **)at, capacity, *count, capture.dependency_count, sizeof **at));
    for (size_t i = 0; ok && i < capture.dependency_count; i++)
        (*at)[(*count)++] = capture.dependencies[i];
    ph__mutex_unlock(&memory->device->ending);
    ph__stream_unhold(stream);
    return ok;
}

/* There is a walk for the stream; false: the capture is not the pool's, or no host memory. */
static bool walk_make(ph__memory *memory, ph_pool *pool, uint64_t capture_id, uint64_t stream_id)
{
    ph__dependency_walk *fresh = NULL;
    for (;;) {
        ph__memory_lock(memory);
        bool ours = capture_id != 0 && pool->capture_id == capture_id;
        bool there = ours && walk_find(pool, stream_id);
        if (ours && !there && fresh) {
            fresh->next = pool->walks;
            pool->walks = fresh;
            fresh = NULL;
            there = true;
        }
        ph__spin_unlock(&memory->lock);
        bool again = ours && !there;
        if (!again && fresh)
            walk_free(fresh);
        if (!again)
            return there;
        fresh = ph__calloc(1, sizeof *fresh);
        if (!fresh)
            return false;
        fresh->stream_id = stream_id;
    }
}

bool ph__dependency_walk_mark(ph__memory *memory, ph__stream_uses *uses, ph_stream *freed_on)
{
    if (!uses->block || memory->device->options.no_reuse_in_capture)
        return false;
    const ph__mseg *mseg = ph__mseg_of(uses->block);
    uint64_t capture_id = ph__stream_capture_id(mseg->stream);
    if (!walk_make(memory, uses->pool, capture_id, mseg->stream->id))
        return false;
    uses->markers.count = 0;
    uses->marker_capture = capture_id;
    bool all = add_ends(&uses->markers.at, &uses->markers.count, &uses->markers.capacity, memory,
                        freed_on ? freed_on : mseg->stream, capture_id);
    for (size_t i = 0; i < uses->list.count && all; i++)
        all = uses->list.at[i].capture_id == capture_id && !uses->list.at[i].older &&
              add_ends(&uses->markers.at, &uses->markers.count, &uses->markers.capacity, memory,
                       uses->list.at[i].stream, capture_id);
    return all;
}

bool ph__dependency_walk_wait(ph__memory *memory, ph__stream_uses *uses)
{
    ph__dependency_walk *walk = uses->pool->capture_id == uses->marker_capture
                                    ? walk_find(uses->pool, uses->block->segment->stream)
                                    : NULL;
    (void)memory;
    if (!walk)
        return false;
    uses->previous = NULL;
    uses->next = walk->blocks;
    if (uses->next)
        uses->next->previous = uses;
    walk->blocks = uses;
    uses->beside = walk->fresh;
    walk->fresh = uses;
    return true;
}

/* The walk of the request, where blocks wait for it, and what has come to it since; it is the
 * caller's then, until walk_leave. */
static ph__dependency_walk *walk_enter(ph__memory *memory, const ph__request *request,
                                       ph__stream_uses **fresh)
{
    ph__memory_lock(memory);
    ph__dependency_walk *walk = request->pool->capture_id == request->capture_id
                                    ? walk_find(request->pool, request->stream->id)
                                    : NULL;
    if (walk && (walk->busy || !walk->blocks))
        walk = NULL;
    if (walk) {
        walk->busy = true;
        *fresh = walk->fresh;
        walk->fresh = NULL;
    }
    ph__spin_unlock(&memory->lock);
    return walk;
}

/* Watches a node of the block's that has not been seen; *covered: there is none, and it is put
 * there. *lost: no host memory. */
static void watch_block(ph__dependency_walk *walk, ph__memory *memory, ph__stream_uses *uses,
                        ph__stream_uses **covered, ph__stream_uses **lost)
{
    for (size_t i = 0; i < uses->markers.count; i++) {
        const uint64_t key = (uintptr_t)uses->markers.at[i];
        ph__step(memory);
        if (ph__map_get(&walk->seen, key))
            continue;
        uses->beside = ph__map_get(&walk->watched, key);
        if (!ph__map_put(&walk->watched, key, uses)) {
            uses->beside = *lost;
            *lost = uses;
        }
        return;
    }
    uses->beside = *covered;
    *covered = uses;
}

static void watch_blocks(ph__dependency_walk *walk, ph__memory *memory, ph__stream_uses *uses,
                         ph__stream_uses **covered, ph__stream_uses **lost)
{
    while (uses) {
        ph__stream_uses *next = uses->beside;
        watch_block(walk, memory, uses, covered, lost);
        uses = next;
    }
}

/* Visits what is not seen yet, from the ends backwards. A node is seen before its own
 * dependencies are, so that a walk which fails half way must begin anew. */
static bool walk_back(ph__dependency_walk *walk, ph__memory *memory, const ph__request *request,
                      ph__stream_uses **covered, ph__stream_uses **lost)
{
    node_list stack = {0};
    bool ok = add_ends(&stack.at, &stack.count, &stack.capacity, memory, request->stream,
                       request->capture_id);
    while (ok && stack.count > 0) {
        ph__drv_node *node = stack.at[--stack.count];
        ph__drv_node_info info;
        ph__step(memory);
        if (ph__map_get(&walk->seen, (uint64_t)(uintptr_t)node))
            continue;
        ok = ph__map_put(&walk->seen, (uint64_t)(uintptr_t)node, node) &&
             memory->driver->node_info(&info, node) == PH__R_OK &&
             ph__vec_reserve(&stack, info.dependency_count);
        for (size_t i = 0; ok && i < info.dependency_count; i++)
            stack.at[stack.count++] = info.dependencies[i];
        watch_blocks(walk, memory, ph__map_remove(&walk->watched, (uint64_t)(uintptr_t)node),
                     covered, lost);
    }
    ph__vec_free(&stack);
    return ok;
}

/* Nothing is seen, and all blocks come anew. Lock held. */
static void begin_anew(ph__dependency_walk *walk)
{
    walk->fresh = NULL;
    for (ph__stream_uses *uses = walk->blocks; uses; uses = uses->next) {
        uses->beside = walk->fresh;
        walk->fresh = uses;
    }
}

/* Gives the walk back, without the covered blocks. */
static void walk_leave(ph__dependency_walk *walk, ph__memory *memory, ph__stream_uses *covered,
                       ph__stream_uses *lost, bool ok)
{
    if (!ok) {
        ph__map_free(&walk->seen);
        ph__map_free(&walk->watched);
    }
    ph__memory_lock(memory);
    for (; covered; covered = covered->beside) {
        covered->ordered = true;
        unlink_block(walk, covered);
    }
    while (lost) {
        ph__stream_uses *next = lost->beside;
        lost->beside = walk->fresh;
        walk->fresh = lost;
        lost = next;
    }
    if (!ok)
        begin_anew(walk);
    walk->busy = false;
    bool over = walk->over;
    if (over)
        defer_blocks(memory, walk);
    ph__spin_unlock(&memory->lock);
    if (over)
        walk_free(walk);
}

void ph__dependency_walk_reclaim(ph__memory *memory, const ph__request *request)
{
    ph__stream_uses *fresh = NULL, *covered = NULL, *lost = NULL;
    ph__dependency_walk *walk = walk_enter(memory, request, &fresh);
    if (!walk)
        return;
    watch_blocks(walk, memory, fresh, &covered, &lost);
    bool ok = walk_back(walk, memory, request, &covered, &lost);
    walk_leave(walk, memory, covered, lost, ok);
    while (covered) {
        ph__stream_uses *next = covered->beside;
        ph__stream_uses_finish(memory, covered);
        covered = next;
    }
}
