/* SPDX-License-Identifier: MIT */
/* memory/pool/routing.c: which pool a request goes to: captures by stream, then the thread's
 * scopes, then the default pool. */
#include "memory/pool/routing.h"
#include "device/handles/captures.h"
#include "memory/pool/scopes.h"
#include "memory/reclaim/pool_lifetime.h"
#include "memory/state/memory_state.h"
#include "memory/state/request.h"
#include "memory/state/short_cycle.h"

/* Kept, since another thread may end the capture meanwhile. */
static ph_pool *pool_of_capture(ph__memory *memory, uint64_t capture_id)
{
    ph__memory_lock(memory);
    ph_pool *pool = memory->routes;
    while (pool && pool->capture_id != capture_id)
        pool = pool->next_route;
    if (pool)
        pool->keeps++;
    ph__spin_unlock(&memory->lock);
    return pool;
}

/* A capture that is only beginning has no id yet. */
static ph_stream *own_capture_stream(ph_device *device)
{
    ph_stream *stream = NULL;
    uint64_t thread = ph__thread_id();
    size_t open = 0;
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count; i++) {
        const ph__capture *capture = device->captures.at[i];
        if (capture->id == 0 || capture->owner_thread != thread)
            continue;
        stream = capture->stream;
        open++;
    }
    pthread_mutex_unlock(&device->capture_lock);
    return open == 1 ? stream : NULL;
}

ph_stream *ph_memory_stream(ph_device *device)
{
    if (!device)
        return NULL;
    ph_stream *own = atomic_load_explicit(&device->open_captures, memory_order_acquire)
                         ? own_capture_stream(device)
                         : NULL;
    return own ? own : &device->default_stream;
}

/* The graph of such a capture could be replayed long after the memory has gone to somebody else,
 * and nothing here would know. */
static ph_status fail_foreign(const ph__request *request, uint64_t capture_id)
{
    return ph__fail_native(
        PH_ERROR_CAPTURE, PH__R_CAPTURE_UNSUPPORTED, PH__NAME_MEM_CREATE,
        "%s: the stream is in a capture that this library did not begin (id %llu), so that no "
        "pool keeps the memory for its graph; the call did not touch that capture; give it a pool "
        "(ph_pool_capture_begin), capture with ph_graph_capture, or allocate before the capture "
        "begins",
        request->call, (unsigned long long)capture_id);
}

ph_status ph__route(ph__memory *memory, ph__request *request)
{
    uint64_t capture_id;
    request->pool = &memory->default_pool;
    request->capture_id = 0;
    if (!ph__slow_path_has(memory, PH__SLOW_SCOPES | PH__SLOW_ROUTES) &&
        !atomic_load(&memory->device->foreign))
        return PH_OK;
    PH_TRY(ph__stream_find_capture(&capture_id, request->stream, request->call));
    ph_pool *pool = capture_id ? pool_of_capture(memory, capture_id) : ph__scope_innermost(memory);
    if (!pool && ph__capture_is_foreign(request->stream, capture_id))
        return fail_foreign(request, capture_id);
    /* The query above read the list of captures: a capture that was just beginning has its pool
     * now. */
    if (!pool && capture_id)
        pool = pool_of_capture(memory, capture_id);
    if (!pool)
        return PH_OK;
    request->pool = pool;
    request->capture_id = capture_id;
    return PH_OK;
}

void ph__unroute(ph__memory *memory, const ph__request *request)
{
    ph_pool *dead = NULL;
    if (request->capture_id == 0)
        return;
    ph__memory_lock(memory);
    ph__pool_unkeep(request->pool, &dead);
    ph__spin_unlock(&memory->lock);
    ph__pool_bury(dead);
}
