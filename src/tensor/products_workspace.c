/* SPDX-License-Identifier: MIT */
/* tensor/products_workspace.c: workspaces of captured products: outside the graph's pool, kept by the graph. */
#include "tensor/products_workspace.h"
#include "base/status.h"

enum {
    MADE_BYTES = PH__WORKSPACES * PH__WORKSPACE_BYTES
};

void ph__workspaces_init(ph__workspaces *workspaces, ph_device *device)
{
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&workspaces->turn, &recursive);
    pthread_mutexattr_destroy(&recursive);
    pthread_mutex_init(&workspaces->lock, NULL);
    workspaces->device = device;
}

/* Graphs that are left keep the pool, and with it the memory. */
void ph__workspaces_free(ph__workspaces *workspaces)
{
    for (size_t i = 0; i < workspaces->made.count; i++)
        ph_free(workspaces->made.at[i], NULL);
    ph__vec_free(&workspaces->made);
    ph__vec_free(&workspaces->streams);
    ph_pool_release(workspaces->pool);
    pthread_mutex_destroy(&workspaces->lock);
    pthread_mutex_destroy(&workspaces->turn);
}

/* On the default stream, which is in no capture: so the calling thread's scope says where it comes from. The turn is the caller's. */
static ph_status allocate(void **out, const ph__workspaces *workspaces, size_t bytes)
{
    PH_TRY(ph_pool_begin(workspaces->pool));
    ph_status status = ph_malloc(out, bytes, 1, ph_device_default_stream(workspaces->device));
    ph_error failure;
    ph__error_save(&failure);
    ph_ignore(ph_pool_end(workspaces->pool));
    ph__error_restore(&failure);
    return status;
}

/* The turn is the caller's. */
static ph_status make_pool(ph__workspaces *workspaces)
{
    return workspaces->pool ? PH_OK : ph_pool_create(&workspaces->pool, workspaces->device, NULL);
}

/* A block that is given back at once leaves its segment, of 2 MiB, with the pool: the next request has it without a call of the driver. The least
 * block: it is seen in the peak of what was allocated. */
static ph_status reserve(ph__workspaces *workspaces)
{
    void *made;
    ph_memory_stats stats;
    PH_TRY(make_pool(workspaces));
    PH_TRY(ph_pool_stats(&stats, workspaces->pool));
    if (stats.reserved - stats.allocated >= MADE_BYTES)
        return PH_OK;
    PH_TRY(allocate(&made, workspaces, 1));
    ph_free(made, NULL);
    return PH_OK;
}

ph_status ph__workspaces_prepare(ph__workspaces *workspaces)
{
    pthread_mutex_lock(&workspaces->turn);
    ph_status status = reserve(workspaces);
    pthread_mutex_unlock(&workspaces->turn);
    return status;
}

static ph_status add(ph__workspaces *workspaces)
{
    void *made;
    PH_TRY(make_pool(workspaces));
    PH_TRY(allocate(&made, workspaces, MADE_BYTES));
    pthread_mutex_lock(&workspaces->lock);
    bool kept = ph__vec_push(&workspaces->made, made);
    pthread_mutex_unlock(&workspaces->lock);
    if (!kept)
        ph_free(made, NULL);
    return kept ? PH_OK : ph__fail_host_memory("a matrix product", "a workspace");
}

/* For so many streams. Another thread may have made them meanwhile. */
static ph_status make_more(ph__workspaces *workspaces, size_t streams)
{
    pthread_mutex_lock(&workspaces->turn);
    pthread_mutex_lock(&workspaces->lock);
    bool enough = workspaces->made.count * PH__WORKSPACES >= streams;
    pthread_mutex_unlock(&workspaces->lock);
    ph_status status = enough ? PH_OK : add(workspaces);
    pthread_mutex_unlock(&workspaces->turn);
    return status;
}

/* The stream's block, or one that was free; *out NULL: all are taken. Lock held. */
static ph_status take(void **out, ph__workspaces *workspaces, const ph_stream *stream, const char *call)
{
    size_t i = 0;
    while (i < workspaces->streams.count && workspaces->streams.at[i] != stream)
        i++;
    *out = NULL;
    if (i >= workspaces->made.count * PH__WORKSPACES)
        return PH_OK;
    if (i == workspaces->streams.count && !ph__vec_push(&workspaces->streams, stream))
        return ph__fail_host_memory(call, "a workspace");
    *out = (char *)workspaces->made.at[i / PH__WORKSPACES] + i % PH__WORKSPACES * PH__WORKSPACE_BYTES;
    return PH_OK;
}

ph_status ph__workspace_of(void **out, ph__workspaces *workspaces, ph_stream *stream, const char *call)
{
    ph_graph *graph;
    *out = NULL;
    PH_TRY(ph_stream_capturing_graph(&graph, stream));
    ph_status status = PH_OK;
    while (graph && !*out && status == PH_OK) {
        pthread_mutex_lock(&workspaces->lock);
        status = take(out, workspaces, stream, call);
        size_t streams = workspaces->streams.count + 1;
        pthread_mutex_unlock(&workspaces->lock);
        if (status == PH_OK && !*out)
            status = make_more(workspaces, streams);
    }
    if (status == PH_OK && *out)
        status = ph_graph_retain_pool(graph, workspaces->pool);
    if (status != PH_OK)
        *out = NULL;
    return status;
}
