/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/nested.c: replays that become nodes of one capture. Outside of a capture,
 * replays of graphs that share a pool are ordered, and memory that is in use is no memory of a
 * replay's. In a capture the edges must say the one, and a refusal the other. */
#include "graph/lifecycle/nested.h"
#include "base/fork.h"
#include "base/vec.h"
#include "device/capture/culprit.h"
#include "device/handles/hold.h"
#include "memory/capture/ranges.h"
#include <pthread.h>

/* ---- memory ---- */
static uintptr_t live_in_writer(size_t *bytes, const ph__writer *writer, uint64_t capture_id)
{
    uintptr_t live = 0;
    if (writer->updated) /* the executable's alone */
        return 0;
    if (writer->anywhere)
        live = ph__capture_live_block(bytes, writer->pool, capture_id, NULL);
    for (size_t i = 0; !live && i < writer->sets.count; i++)
        live = ph__capture_live_block(bytes, writer->pool, capture_id, &writer->sets.at[i]);
    return live;
}

uintptr_t ph__nested_live(size_t *bytes, const ph_graph *graph, uint64_t capture_id)
{
    uintptr_t live = 0;
    *bytes = 0;
    for (size_t i = 0; !live && i < graph->pools.count; i++)
        live = live_in_writer(bytes, graph->pools.at[i], capture_id);
    return live;
}

ph_status ph__nested_check(const ph_graph *graph, uint64_t capture_id, const char *call)
{
    size_t bytes;
    const uintptr_t live = ph__nested_live(&bytes, graph, capture_id);
    if (!live)
        return PH_OK;
    return ph_fail(PH_ERROR_STATE,
                   "%s: the stream is capturing, and graph %llu writes memory that this capture "
                   "uses: %zu bytes at %p, which it was given by the pool that both share, and has "
                   "not freed; capture one of them into another pool, or free the memory before",
                   call, (unsigned long long)graph->id, bytes, (const void *)live);
}

/* ---- order ---- */
/* Two threads of one capture would each see no node of the other's. */
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
PH__FORK_LOCK(PH__FORK_NESTED, order)

static ph__nested *find_pool(ph_graph *outer, const ph_pool *pool)
{
    for (size_t i = 0; i < outer->nested.count; i++)
        if (outer->nested.at[i].pool == pool)
            return &outer->nested.at[i];
    return NULL;
}

/* The node behind which the stream's next one must come for the pool; NULL: none, or it does. Makes
 * the pool's place. False: no host memory. */
static bool find_before(ph__drv_node **out, const ph_pool *pool, const ph_stream *stream,
                        uint64_t capture_id)
{
    *out = NULL;
    pthread_mutex_lock(&stream->device->capture_lock);
    ph_graph *outer = ph__capture_owner_locked(stream->device, capture_id);
    const ph__nested *there = outer ? find_pool(outer, pool) : NULL;
    if (there && there->stream != stream->id)
        *out = there->node;
    const bool made = !outer || there || ph__vec_push(&outer->nested, ((ph__nested){.pool = pool}));
    pthread_mutex_unlock(&stream->device->capture_lock);
    return made;
}

static int depend_on(const ph__driver *driver, const ph_stream *stream, ph__drv_node *node)
{
    return node ? driver->capture_depend(stream->handle, node) : PH__R_OK;
}

/* Behind the ends that the other stream has in the capture, if it is in it. */
static int depend_on_stream(const ph_stream *stream, const ph_stream *on, uint64_t capture_id)
{
    const ph__driver *driver = stream->device->driver;
    PH__VEC(ph__drv_node *) ends = {0};
    ph__drv_capture capture = {0};
    ph__stream_hold(on);
    ph__mutex_lock(&stream->device->ending);
    int result = driver->capture_get(&capture, on->handle);
    const bool in =
        result == PH__R_OK && capture.status == PH_CAPTURE_ACTIVE && capture.id == capture_id;
    if (in && !ph__vec_reserve(&ends, capture.dependency_count))
        result = PH__R_OUT_OF_MEMORY;
    for (size_t i = 0; in && result == PH__R_OK && i < capture.dependency_count; i++)
        ends.at[ends.count++] = capture.dependencies[i];
    ph__mutex_unlock(&stream->device->ending);
    ph__stream_unhold(on);
    for (size_t i = 0; result == PH__R_OK && i < ends.count; i++)
        result = depend_on(driver, stream, ends.at[i]);
    ph__vec_free(&ends);
    return result;
}

/* Memory of the capture's pool that its other streams were given or have used, and that is freed,
 * may be in use by their work so far. */
static int depend_on_memory(const ph_stream *stream, ph_pool *pool, uint64_t capture_id,
                            const ph__ranges *ranges)
{
    int result = PH__R_OK;
    uint64_t after = 0;
    ph_stream *on;
    while (result == PH__R_OK &&
           (on = ph__capture_next_stream(pool, capture_id, ranges, after)) != NULL) {
        after = on->id;
        if (on->id != stream->id)
            result = depend_on_stream(stream, on, capture_id);
        ph__stream_release(on);
    }
    return result;
}

static int depend_on_writer(const ph_stream *stream, const ph__writer *writer, uint64_t capture_id)
{
    int result = PH__R_OK;
    if (writer->updated) /* the executable's alone */
        return result;
    if (writer->anywhere)
        result = depend_on_memory(stream, writer->pool, capture_id, NULL);
    for (size_t i = 0; result == PH__R_OK && i < writer->sets.count; i++)
        result = depend_on_memory(stream, writer->pool, capture_id, &writer->sets.at[i]);
    return result;
}

ph_status ph__nested_begin(const ph_graph *graph, ph_stream *stream, uint64_t capture_id,
                           const char *call)
{
    pthread_mutex_lock(&order);
    for (size_t i = 0; i < graph->pools.count; i++) {
        ph__drv_node *before;
        const ph__writer *writer = graph->pools.at[i];
        if (!find_before(&before, writer->pool, stream, capture_id))
            return ph__fail_host_memory(call, "the order of graphs that share a pool");
        int result = depend_on(stream->device->driver, stream, before);
        if (result == PH__R_OK)
            result = depend_on_writer(stream, writer, capture_id);
        if (ph__result_is_host_memory(result))
            return ph__fail_host_memory(call, "the order of graphs that share a pool");
        if (result != PH__R_OK)
            return ph__stream_fail(result, stream, PH__NAME_STREAM_UPDATE_CAPTURE_DEPENDENCIES,
                                   "%s: behind another graph that shares a pool", call);
    }
    return PH_OK;
}

/* The node that the stream has just made; NULL: another thread has ended the capture. */
static ph__drv_node *last_node(const ph_stream *stream, uint64_t capture_id)
{
    ph__drv_capture capture = {0};
    ph__drv_node *node = NULL;
    ph__mutex_lock(&stream->device->ending);
    if (stream->device->driver->capture_get(&capture, stream->handle) == PH__R_OK &&
        capture.id == capture_id && capture.dependency_count == 1)
        node = capture.dependencies[0];
    ph__mutex_unlock(&stream->device->ending);
    return node;
}

void ph__nested_end(const ph_graph *graph, ph_stream *stream, uint64_t capture_id, bool made)
{
    ph__drv_node *node = made ? last_node(stream, capture_id) : NULL;
    if (node) {
        pthread_mutex_lock(&stream->device->capture_lock);
        ph_graph *outer = ph__capture_owner_locked(stream->device, capture_id);
        for (size_t i = 0; outer && i < graph->pools.count; i++) {
            ph__nested *place = find_pool(outer, graph->pools.at[i]->pool);
            if (place)
                *place = (ph__nested){place->pool, node, stream->id};
        }
        pthread_mutex_unlock(&stream->device->capture_lock);
    }
    pthread_mutex_unlock(&order);
}
