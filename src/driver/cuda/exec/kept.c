/* SPDX-License-Identifier: MIT */
/* driver/cuda/exec/kept.c: what an executable keeps of the kernels that updates brought. */
#include "driver/cuda/exec/kept.h"
#include "base/alloc.h"
#include "driver/cuda/exec/exec.h"

bool ph__cuda_exec_reserve_kernels(ph__drv_exec *exec, const ph__drv_graph *from)
{
    const ph__drv_graph *graph = exec->graph;
    bool differ = false;
    for (size_t i = 0; i < graph->nodes.count && !differ; i++)
        differ = graph->nodes.at[i]->info.kernel != from->nodes.at[i]->info.kernel;
    if (exec->kernels || !differ)
        return true;
    exec->kernels = ph__calloc(graph->nodes.count, sizeof *exec->kernels);
    if (!exec->kernels)
        return false;
    for (size_t i = 0; i < graph->nodes.count; i++)
        exec->kernels[i] = graph->nodes.at[i]->info.kernel;
    exec->memory.host_bytes += graph->nodes.count * sizeof *exec->kernels;
    return true;
}

/* The layout that a node of the executable needs from now on, where it is not the one that it
 * was captured with. */
static const ph__cuda_layout *find_new_layout(const ph__drv_node *mine, const ph__drv_node *theirs)
{
    const ph__cuda_layout *a = mine->layout, *b = theirs->layout;
    bool same = a && b && a->function == b->function && a->kernel == b->kernel;
    return theirs->info.kernel || same ? NULL : b;
}

bool ph__cuda_layouts_copy(ph__cuda_layout ***out, const ph__drv_graph *graph,
                           const ph__drv_graph *from)
{
    size_t count = graph->nodes.count;
    bool copied = true;
    *out = NULL;
    for (size_t i = 0; i < count && copied; i++) {
        const ph__cuda_layout *layout = find_new_layout(graph->nodes.at[i], from->nodes.at[i]);
        if (!layout)
            continue;
        if (!*out)
            *out = ph__calloc(count, sizeof **out);
        copied = *out != NULL;
        if (!copied)
            continue;
        (*out)[i] = (ph__cuda_layout *)(uintptr_t)layout;
        atomic_fetch_add_explicit(&(*out)[i]->holders, 1, memory_order_relaxed);
    }
    return copied;
}

void ph__cuda_layouts_free(ph__cuda_layout **layouts, size_t count)
{
    for (size_t i = 0; layouts && i < count; i++)
        ph__cuda_layout_release(layouts[i]);
    ph__free(layouts);
}

void ph__cuda_exec_drop_layouts(ph__drv_exec *exec)
{
    ph__cuda_layouts_free(exec->layouts, exec->graph->nodes.count);
    exec->layouts = NULL;
}
