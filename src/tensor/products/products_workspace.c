/* SPDX-License-Identifier: MIT */
/* tensor/products/products_workspace.c: workspaces of captured products: outside the graph's
 * pool, kept by the graph. */
#include "tensor/products/products_workspace.h"
#include "base/alloc.h"
#include "base/status.h"

enum {
    MADE_BYTES = PH__WORKSPACES * PH__WORKSPACE_BYTES
};

ph__workspaces *ph__workspaces_create(ph_device *device)
{
    ph__workspaces *workspaces = ph__calloc(1, sizeof *workspaces);
    if (!workspaces)
        return NULL;
    pthread_mutex_init(&workspaces->lock, NULL);
    workspaces->device = device;
    return workspaces;
}

/* Graphs that are left keep their pools, and with them the memory. */
void ph__workspaces_destroy(ph__workspaces *workspaces)
{
    if (!workspaces)
        return;
    for (size_t i = 0; i < workspaces->made.count; i++) {
        ph_free(workspaces->made.at[i].blocks, NULL);
        ph_pool_release(workspaces->made.at[i].pool);
    }
    for (size_t i = 0; i < workspaces->idle.count; i++)
        ph_pool_release(workspaces->idle.at[i]);
    ph__vec_free(&workspaces->made);
    ph__vec_free(&workspaces->idle);
    ph__vec_free(&workspaces->streams);
    pthread_mutex_destroy(&workspaces->lock);
    ph__free(workspaces);
}

/* ---- pools ---- */
static ph_status acquire_pool(ph_pool **out, ph__workspaces *workspaces)
{
    *out = NULL;
    pthread_mutex_lock(&workspaces->lock);
    if (workspaces->idle.count > 0)
        *out = workspaces->idle.at[--workspaces->idle.count];
    workspaces->allocating++;
    pthread_mutex_unlock(&workspaces->lock);
    return *out ? PH_OK : ph_pool_create(out, workspaces->device, NULL);
}

/* NULL: none could be made. */
static void return_pool(ph__workspaces *workspaces, ph_pool *pool)
{
    pthread_mutex_lock(&workspaces->lock);
    bool kept = pool && ph__vec_push(&workspaces->idle, pool);
    workspaces->allocating--;
    pthread_mutex_unlock(&workspaces->lock);
    if (!kept)
        ph_pool_release(pool);
}

/* On the default stream, which is in no capture: so the calling thread's scope says where it
 * comes from. */
static ph_status allocate_blocks(void **out, const ph__workspaces *workspaces, ph_pool *pool,
                                 size_t bytes)
{
    PH_TRY(ph_pool_begin(pool));
    ph_status status = ph_malloc(out, bytes, 1, ph_device_default_stream(workspaces->device));
    ph_error failure;
    ph__error_save(&failure);
    ph_ignore(ph_pool_end(pool));
    ph__error_restore(&failure);
    return status;
}

/* ---- before captures ---- */
/* The i-th idle pool, retained; NULL: there are not so many. */
static ph_pool *idle_pool(bool *busy, ph__workspaces *workspaces, size_t i)
{
    pthread_mutex_lock(&workspaces->lock);
    *busy = workspaces->allocating > 0;
    ph_pool *pool = i < workspaces->idle.count ? ph_pool_retain(workspaces->idle.at[i]) : NULL;
    pthread_mutex_unlock(&workspaces->lock);
    return pool;
}

/* Statistics reclaim what was freed, and with it free functions of the program may run: so no
 * lock is held. */
static bool has_room(ph__workspaces *workspaces)
{
    bool room = false, busy = false;
    for (size_t i = 0; !room && !busy; i++) {
        ph_memory_stats stats;
        ph_pool *pool = idle_pool(&busy, workspaces, i);
        if (!pool)
            break;
        room =
            ph_pool_stats(&stats, pool) == PH_OK && stats.reserved - stats.allocated >= MADE_BYTES;
        ph_pool_release(pool);
    }
    return room || busy;
}

/* A block that is given back at once leaves its segment, of 2 MiB, with the pool: the next
 * request has it without a call of the driver. The least block: it is seen in the peak of what
 * was allocated. */
ph_status ph__workspaces_prepare(ph__workspaces *workspaces)
{
    void *made = NULL;
    ph_pool *pool;
    if (has_room(workspaces))
        return PH_OK;
    ph_status status = acquire_pool(&pool, workspaces);
    if (status == PH_OK)
        status = allocate_blocks(&made, workspaces, pool, 1);
    ph_free(made, NULL);
    return_pool(workspaces, pool);
    return status;
}

/* ---- in captures ---- */
static ph_status keep_blocks(ph__workspaces *workspaces, void *blocks, ph_pool *pool)
{
    const ph__made_workspaces made = {blocks, ph_pool_retain(pool)};
    pthread_mutex_lock(&workspaces->lock);
    bool kept = ph__vec_push(&workspaces->made, made);
    pthread_mutex_unlock(&workspaces->lock);
    if (kept)
        return PH_OK;
    ph_free(blocks, NULL);
    ph_pool_release(pool);
    return ph__fail_host_memory("a matrix product", "a workspace");
}

/* Where another thread makes some meanwhile, both are kept: streams to come have them. */
static ph_status make_more(ph__workspaces *workspaces)
{
    void *made = NULL;
    ph_pool *pool;
    ph_status status = acquire_pool(&pool, workspaces);
    if (status == PH_OK)
        status = allocate_blocks(&made, workspaces, pool, MADE_BYTES);
    if (status == PH_OK)
        status = keep_blocks(workspaces, made, pool);
    return_pool(workspaces, pool);
    return status;
}

/* The stream's block, or one that was free, and its pool; *out NULL: all are taken. Lock held. */
static ph_status acquire_block(void **out, ph_pool **pool, ph__workspaces *workspaces,
                               const ph_stream *stream, const char *call)
{
    size_t i = 0;
    while (i < workspaces->streams.count && workspaces->streams.at[i] != stream)
        i++;
    *out = NULL;
    if (i >= workspaces->made.count * PH__WORKSPACES)
        return PH_OK;
    if (i == workspaces->streams.count && !ph__vec_push(&workspaces->streams, stream))
        return ph__fail_host_memory(call, "a workspace");
    const ph__made_workspaces *made = &workspaces->made.at[i / PH__WORKSPACES];
    *out = (char *)made->blocks + i % PH__WORKSPACES * PH__WORKSPACE_BYTES;
    *pool = made->pool;
    return PH_OK;
}

ph_status ph__workspace_of(void **out, ph__workspaces *workspaces, ph_stream *stream,
                           const char *call)
{
    ph_graph *graph;
    ph_pool *pool = NULL;
    *out = NULL;
    PH_TRY(ph_stream_capturing_graph(&graph, stream));
    ph_status status = PH_OK;
    while (graph && !*out && status == PH_OK) {
        pthread_mutex_lock(&workspaces->lock);
        status = acquire_block(out, &pool, workspaces, stream, call);
        pthread_mutex_unlock(&workspaces->lock);
        if (status == PH_OK && !*out)
            status = make_more(workspaces);
    }
    if (status == PH_OK && *out)
        status = ph_graph_retain_pool(graph, pool);
    if (status == PH_OK && *out)
        status =
            ph_graph_hold_memory(graph, *out); /* replays need it when the last tape has gone */
    if (status != PH_OK)
        *out = NULL;
    return status;
}
