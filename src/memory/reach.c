/* SPDX-License-Identifier: MIT */
/* memory/reach.c: reuse inside a capture: a block that other streams used may be handed out again on its own
 * stream once the captured graph orders that stream's next node behind their work. No node is inserted for
 * it. */
#include "base/map.h"
#include "memory/state.h"

/* The nodes that the stream's next node is ordered behind, as far as walked; grows with the capture. */
struct ph__walk {
    ph__walk *next;
    uint64_t stream_id;
    ph__map seen;
};

typedef PH__VEC(ph__drv_node *) node_list;

static void walk_free(ph__walk *walk)
{
    ph__map_free(&walk->seen);
    ph__free(walk);
}

void ph__walks_free(ph__walk *walk)
{
    while (walk) {
        ph__walk *next = walk->next;
        walk_free(walk);
        walk = next;
    }
}

/* Adds the nodes that the stream's next one would depend on; false when it is not in the capture, or without
 * memory. */
static bool add_ends(ph__drv_node ***at, size_t *count, size_t *capacity, ph__memory *memory,
                     const ph_stream *stream, uint64_t capture_id)
{
    ph__drv_capture capture;
    ph__stream_hold(stream);
    bool ok = memory->driver->capture_get(&capture, stream->handle) == PH__R_OK &&
              capture.status == PH_CAPTURE_ACTIVE && capture.id == capture_id &&
              (capture.dependency_count <= *capacity - *count ||
               ph__vec_grow((void **)at, capacity, *count, capture.dependency_count, sizeof **at));
    for (size_t i = 0; ok && i < capture.dependency_count; i++)
        (*at)[(*count)++] = capture.dependencies[i];
    ph__stream_unhold(stream);
    return ok;
}

bool ph__reach_mark(ph__memory *memory, ph__uses *uses, ph_stream *freed_on)
{
    if (!uses->block || memory->device->options.no_reuse_in_capture)
        return false;
    const ph__mseg *mseg = ph__mseg_of(uses->block);
    uint64_t capture_id = ph__stream_capture_id(mseg->stream);
    ph__spin_lock(&memory->lock);
    bool ours = capture_id != 0 && uses->pool->capture_id == capture_id;
    ph__spin_unlock(&memory->lock);
    if (!ours)
        return false;
    uses->markers.count = 0;
    uses->marker_capture = capture_id;
    bool all = add_ends(&uses->markers.at, &uses->markers.count, &uses->markers.capacity, memory,
                        freed_on ? freed_on : mseg->stream, capture_id);
    for (size_t i = 0; i < uses->list.count && all; i++)
        all = uses->list.at[i].capture_id == capture_id &&
              add_ends(&uses->markers.at, &uses->markers.count, &uses->markers.capacity, memory,
                       uses->list.at[i].stream, capture_id);
    return all;
}

static bool waits_for(const ph__uses *uses, const ph__request *request)
{
    return uses->marked && uses->marker_capture == request->capture_id && uses->pool == request->pool &&
           uses->block->segment->stream == request->stream->id;
}

/* Takes the stream's walk away from the pool, so that no other thread extends it at the same time. */
static ph__walk *walk_detach(ph__memory *memory, ph_pool *pool, uint64_t stream_id)
{
    ph__walk *walk = NULL;
    ph__spin_lock(&memory->lock);
    for (ph__walk **at = &pool->walks; *at; at = &(*at)->next) {
        if ((*at)->stream_id != stream_id)
            continue;
        walk = *at;
        *at = walk->next;
        break;
    }
    ph__spin_unlock(&memory->lock);
    if (!walk && (walk = ph__calloc(1, sizeof *walk)))
        walk->stream_id = stream_id;
    return walk;
}

/* Visits what is not seen yet, from the ends backwards. A node is seen before its own dependencies are, so
 * that a walk which fails half way must be thrown away. */
static bool walk_back(ph__walk *walk, ph__memory *memory, const ph__request *request)
{
    node_list stack = {0};
    bool ok =
        add_ends(&stack.at, &stack.count, &stack.capacity, memory, request->stream, request->capture_id);
    while (ok && stack.count > 0) {
        ph__drv_node *node = stack.at[--stack.count];
        ph__drv_node_info info;
        if (ph__map_get(&walk->seen, (uint64_t)(uintptr_t)node))
            continue;
        ok = ph__map_put(&walk->seen, (uint64_t)(uintptr_t)node, node) &&
             memory->driver->node_info(&info, node) == PH__R_OK &&
             ph__vec_reserve(&stack, info.dependency_count);
        for (size_t i = 0; ok && i < info.dependency_count; i++)
            stack.at[stack.count++] = info.dependencies[i];
    }
    ph__vec_free(&stack);
    return ok;
}

static bool all_seen(const ph__walk *walk, const ph__uses *uses)
{
    for (size_t i = 0; i < uses->markers.count; i++)
        if (!ph__map_get(&walk->seen, (uint64_t)(uintptr_t)uses->markers.at[i]))
            return false;
    return true;
}

/* Unlinks the deferred blocks that the walk covers; puts the walk back. */
static ph__uses *take_covered(ph__memory *memory, const ph__request *request, ph__walk *walk)
{
    ph__uses *covered = NULL;
    ph__spin_lock(&memory->lock);
    for (ph__uses **at = &memory->deferred; *at;) {
        ph__uses *uses = *at;
        if (waits_for(uses, request) && all_seen(walk, uses)) {
            *at = uses->next;
            uses->ordered = true;
            uses->next = covered;
            covered = uses;
        } else {
            at = &uses->next;
        }
    }
    if (request->pool->capture_id == request->capture_id) {
        walk->next = request->pool->walks;
        request->pool->walks = walk;
        walk = NULL;
    }
    ph__spin_unlock(&memory->lock);
    if (walk)
        walk_free(walk);
    return covered;
}

void ph__reach_reclaim(ph__memory *memory, const ph__request *request)
{
    bool wanted = false;
    ph__spin_lock(&memory->lock);
    if (request->pool->marked > 0)
        for (const ph__uses *uses = memory->deferred; uses && !wanted; uses = uses->next)
            wanted = waits_for(uses, request);
    ph__spin_unlock(&memory->lock);
    ph__walk *walk = wanted ? walk_detach(memory, request->pool, request->stream->id) : NULL;
    if (!walk)
        return;
    if (!walk_back(walk, memory, request)) {
        walk_free(walk);
        return;
    }
    ph__uses *covered = take_covered(memory, request, walk);
    while (covered) {
        ph__uses *next = covered->next;
        ph__uses_finish(memory, covered);
        covered = next;
    }
}
