/* SPDX-License-Identifier: MIT */
/* tensor/products_workspace.c: workspaces of captured products: outside the graph's pool, kept by the graph. */
#include "tensor/products_workspace.h"
#include "base/status.h"

void ph__workspaces_init(ph__workspaces *workspaces)
{
    pthread_mutex_init(&workspaces->lock, NULL);
}

/* Graphs that are left keep the pool, and with it the memory. */
void ph__workspaces_free(ph__workspaces *workspaces)
{
    for (size_t i = 0; i < workspaces->blocks.count; i++)
        ph_free(workspaces->blocks.at[i].block, NULL);
    ph__vec_free(&workspaces->blocks);
    ph_pool_release(workspaces->pool);
    pthread_mutex_destroy(&workspaces->lock);
}

/* On the default stream, which is in no capture: so the calling thread's scope says where it comes from. */
static ph_status allocate(void **out, ph_pool *pool, ph_device *device)
{
    PH_TRY(ph_pool_begin(pool));
    ph_status status = ph_malloc(out, PH__WORKSPACE_BYTES, 1, ph_device_default_stream(device));
    ph_error failure;
    ph__error_save(&failure);
    ph_ignore(ph_pool_end(pool));
    ph__error_restore(&failure);
    return status;
}

static ph_status find(void **out, ph__workspaces *workspaces, ph_stream *stream, const char *call)
{
    ph_device *device = ph_stream_device(stream);
    for (size_t i = 0; i < workspaces->blocks.count; i++)
        if (workspaces->blocks.at[i].stream == stream) {
            *out = workspaces->blocks.at[i].block;
            return PH_OK;
        }
    if (!workspaces->pool)
        PH_TRY(ph_pool_create(&workspaces->pool, device, NULL));
    if (!ph__vec_reserve(&workspaces->blocks, 1))
        return ph__fail_host_memory(call, "a workspace");
    PH_TRY(allocate(out, workspaces->pool, device));
    workspaces->blocks.at[workspaces->blocks.count++] = (struct ph__workspace){stream, *out};
    return PH_OK;
}

ph_status ph__workspace_of(void **out, ph__workspaces *workspaces, ph_stream *stream, const char *call)
{
    ph_graph *graph;
    *out = NULL;
    PH_TRY(ph_stream_capturing_graph(&graph, stream));
    if (!graph)
        return PH_OK;
    pthread_mutex_lock(&workspaces->lock);
    ph_status status = find(out, workspaces, stream, call);
    if (status == PH_OK)
        status = ph_graph_retain_pool(graph, workspaces->pool);
    pthread_mutex_unlock(&workspaces->lock);
    if (status != PH_OK)
        *out = NULL;
    return status;
}
