/* SPDX-License-Identifier: MIT */
/* tensor/products_workspace.c: workspaces of captured products: outside the graph's pool, kept by the graph. */
#include "tensor/products_workspace.h"
#include "base/status.h"

void ph__workspaces_init(ph__workspaces *workspaces, ph_device *device)
{
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
}

/* On the default stream, which is in no capture: so the calling thread's scope says where it comes from. */
static ph_status allocate(void **out, ph_pool *pool, ph_device *device)
{
    PH_TRY(ph_pool_begin(pool));
    ph_status status =
        ph_malloc(out, PH__WORKSPACES * PH__WORKSPACE_BYTES, 1, ph_device_default_stream(device));
    ph_error failure;
    ph__error_save(&failure);
    ph_ignore(ph_pool_end(pool));
    ph__error_restore(&failure);
    return status;
}

/* Another thread may have made one meanwhile: the first stays. */
static ph_status make_pool(ph__workspaces *workspaces)
{
    ph_pool *made = NULL;
    pthread_mutex_lock(&workspaces->lock);
    bool there = workspaces->pool != NULL;
    pthread_mutex_unlock(&workspaces->lock);
    if (there)
        return PH_OK;
    PH_TRY(ph_pool_create(&made, workspaces->device, NULL));
    pthread_mutex_lock(&workspaces->lock);
    if (!workspaces->pool) {
        workspaces->pool = made;
        made = NULL;
    }
    pthread_mutex_unlock(&workspaces->lock);
    ph_pool_release(made);
    return PH_OK;
}

/* Room for one more stream than there are. The memory is made with no lock held, and given back where another thread was faster. */
static ph_status make_more(ph__workspaces *workspaces, size_t streams)
{
    void *made;
    PH_TRY(make_pool(workspaces));
    PH_TRY(allocate(&made, workspaces->pool, workspaces->device));
    pthread_mutex_lock(&workspaces->lock);
    bool wanted = workspaces->made.count * PH__WORKSPACES <= streams;
    bool kept = wanted && ph__vec_push(&workspaces->made, made);
    pthread_mutex_unlock(&workspaces->lock);
    if (!kept)
        ph_free(made, NULL);
    return kept || !wanted ? PH_OK : ph__fail_host_memory("a matrix product", "a workspace");
}

ph_status ph__workspaces_prepare(ph__workspaces *workspaces)
{
    pthread_mutex_lock(&workspaces->lock);
    bool there = workspaces->made.count > 0;
    pthread_mutex_unlock(&workspaces->lock);
    return there ? PH_OK : make_more(workspaces, 0);
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
        size_t streams = workspaces->streams.count;
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
