/* SPDX-License-Identifier: MIT */
/* driver/host/exec/exec.c: executables: instantiate, destroy, and what they take. */
#include "driver/host/exec/exec.h"
#include "driver/host/exec/launch.h"
#include "driver/host/resource/rules.h"
#include "driver/host/stream/entries.h"

void ph__exec_free(ph__host_exec *exec)
{
    ph__exec_image_free(exec->image);
    ph__exec_params_free(exec->params);
    while (exec->spare) {
        ph__exec_launch *launch = exec->spare;
        exec->spare = launch->next;
        ph__exec_launch_free(launch);
    }
    ph__free(exec->dirty);
    pthread_mutex_destroy(&exec->lock);
    ph__free(exec);
}

static ph__host_exec *exec_create(ph__host_graph *graph)
{
    ph__host_exec *exec = ph__calloc(1, sizeof *exec);
    if (!exec)
        return NULL;
    if (pthread_mutex_init(&exec->lock, NULL) != 0) {
        ph__free(exec);
        return NULL;
    }
    exec->device = graph->device;
    exec->graph = graph;
    exec->params = ph__exec_params_of_graph(graph);
    exec->dirty = ph__calloc(graph->slot_count, sizeof exec->dirty[0]);
    exec->image = exec->params && exec->dirty ? ph__exec_image_create(exec, exec->params) : NULL;
    exec->spare = exec->image ? ph__exec_launch_acquire(exec) : NULL;
    if (!exec->spare) {
        ph__exec_free(exec);
        return NULL;
    }
    return exec;
}

int ph__host_instantiate(ph__drv_exec **out, ph__drv_graph *handle, int flags,
                         ph__drv_node **failed)
{
    ph__host_graph *graph = ph__host_graph_of(handle);
    if (failed)
        *failed = NULL;
    /* Priorities mean nothing here, there are no memory nodes whose memory a launch would have
     * to free first, and nothing is uploaded. */
    const int known = PH__INSTANTIATE_USE_NODE_PRIORITY | PH__INSTANTIATE_AUTO_FREE_ON_LAUNCH |
                      PH__INSTANTIATE_DEFER_UPLOAD;
    if (!out || !graph || (flags & ~known))
        return PH__R_INVALID_VALUE;
    if (ph__host_graph_is_capturing(graph)) {
        ph__driver_set_reason("the graph is still being captured");
        return PH__R_ILLEGAL_STATE;
    }
    int result = ph__host_rule(graph->device, PH__RULE_INSTANTIATE);
    if (result)
        return result;
    ph__host_exec *exec = exec_create(graph);
    if (!exec)
        return PH__R_OUT_OF_MEMORY;
    atomic_init(&exec->uploads, flags & PH__INSTANTIATE_DEFER_UPLOAD ? 0 : 1);
    atomic_fetch_add(&exec->device->live_handles, 1);
    *out = (ph__drv_exec *)exec;
    return PH__R_OK;
}

/* Launches in flight keep it; the last of them frees it. The rule of destroying allows it
 * always. */
void ph__host_exec_destroy(ph__drv_exec *handle)
{
    ph__host_exec *exec = (ph__host_exec *)handle;
    if (!exec)
        return;
    atomic_fetch_sub(&exec->device->live_handles, 1);
    pthread_mutex_lock(&exec->lock);
    exec->destroyed = true;
    bool idle = exec->in_flight == 0;
    pthread_mutex_unlock(&exec->lock);
    if (idle)
        ph__exec_free(exec);
}

/* No tool of any vendor looks at it. */
void ph__host_exec_tools_id(uint64_t *out, ph__drv_exec *exec, ph__drv_node *node)
{
    (void)exec;
    (void)node;
    *out = 0;
}

/* Bytes that later launches need. An older image goes with the last launch that has it, and is not
 * counted. */
void ph__host_exec_memory(ph__drv_memory *out, ph__drv_exec *handle)
{
    ph__host_exec *exec = (ph__host_exec *)handle;
    *out = (ph__drv_memory){0};
    if (!exec)
        return;
    pthread_mutex_lock(&exec->lock);
    const ph__exec_image *image = exec->image;
    out->host_bytes = sizeof *exec + exec->params->bytes +
                      exec->params->count * sizeof exec->dirty[0] + exec->launch_bytes +
                      sizeof *image + image->params->bytes + ph__plan_bytes(image->plan);
    pthread_mutex_unlock(&exec->lock);
}
