/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_exec.c: executables of the software libcuda. */
#include "cuda_inside.h"
#include "driver/host/exec/changes.h"
#include <pthread.h>
#include <string.h>
#include <time.h>

static const ph__driver *const host = &ph__driver_host;

/* What an executable takes of its GPU. */
enum {
    EXEC_BYTES = 64 << 10,
    NODE_BYTES = 512,
    FAKE_FIRST_EXEC_ID = 1000
};

static ph__host_graph *template_of(ph__cu_exec exec)
{
    return ((ph__host_exec *)exec->exec)->graph;
}

static ph__cu_function function_at(const ph__host_graph *graph, size_t index)
{
    return fake_function_of(
        (ph__drv_kernel *)ph__host_node_of(graph->nodes.at[index])->work.kernel);
}

static int exec_create(ph__cu_exec *out, fake_graph *graph, ph__drv_exec *made)
{
    static atomic_uint last_id;
    ph__host_graph *template = ph__host_graph_of(graph->graph);
    ph__cu_exec exec = ph__calloc(1, sizeof *exec);
    if (exec) {
        exec->exec = made;
        exec->id = FAKE_FIRST_EXEC_ID + atomic_fetch_add(&last_id, 1);
        exec->count = template->nodes.count;
        exec->functions = ph__calloc(exec->count + 1, sizeof exec->functions[0]);
        exec->device_bytes = EXEC_BYTES + exec->count * NODE_BYTES;
    }
    if (!exec || !exec->functions) {
        if (exec)
            ph__free(exec->functions);
        ph__free(exec);
        return PH__R_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < exec->count; i++)
        exec->functions[i] = function_at(template, i);
    if (!fake_add(&exec->object, FAKE_EXEC, graph->object.context, exec))
        return PH__R_OUT_OF_MEMORY;
    *out = exec;
    return 0;
}

/* Its memory is taken once, by whatever uploads it. */
static int upload_once(ph__cu_exec exec)
{
    if (exec->uploaded)
        return 0;
    exec->uploaded = fake_take(exec->object.context, exec->device_bytes);
    return exec->uploaded ? 0 : PH__R_OUT_OF_MEMORY;
}

/* NVIDIA's driver crashes on a node whose event was destroyed (seen on driver 580). */
static bool has_gone_event(const ph__host_graph *graph)
{
    bool found = false;
    for (size_t i = 0; i < graph->nodes.count && !found; i++) {
        const ph__host_node *node = ph__host_node_of(graph->nodes.at[i]);
        if (node->work.kind == PH_NODE_EVENT_RECORD || node->work.kind == PH_NODE_EVENT_WAIT)
            found = fake_event_is_gone(((const ph__host_event_args *)node->work.args)->event);
        found = found || (node->work.body && has_gone_event(node->work.body));
    }
    return found;
}

FAKE(GraphInstantiateWithParams,
     (ph__cu_exec * out, ph__cu_graph graph, ph__cu_instantiate_params *params),
     (out, graph, params))
{
    static const uint64_t known =
        PH__INSTANTIATE_AUTO_FREE_ON_LAUNCH | PH__INSTANTIATE_USE_NODE_PRIORITY | 2;
    ph__drv_node *failed = NULL;
    ph__drv_exec *made;
    fake_graph *object = fake_find(FAKE_GRAPH, graph);
    if (!out || !object || !params || (params->flags & ~known))
        return PH__R_INVALID_VALUE;
    int result = fake_expect(object->object.context, "cuGraphInstantiateWithParams");
    if (has_gone_event(ph__host_graph_of(object->graph))) {
        fake_misuse("cuGraphInstantiateWithParams: the event of a node was destroyed");
        return PH__R_INVALID_VALUE;
    }
    if (!result)
        result =
            host->instantiate(&made, object->graph,
                              (int)(params->flags & PH__INSTANTIATE_USE_NODE_PRIORITY), &failed);
    params->failed = (ph__cu_node)failed;
    params->result = result ? 1 : 0;
    if (result)
        return result;
    result = exec_create(out, object, made);
    if (result)
        host->exec_destroy(made);
    return result;
}

void fake_exec_end(ph__cu_exec exec)
{
    host->exec_destroy(exec->exec);
    if (exec->uploaded)
        fake_give(exec->object.context, exec->device_bytes);
    ph__free(exec->functions);
    ph__free(exec);
}

/* As NVIDIA's driver may (580 was seen to, of a launch behind a host function): until no launch
 * of it is in flight. */
void fake_wait_for_launches(ph__cu_exec exec)
{
    ph__host_exec *one = (ph__host_exec *)exec->exec;
    for (bool busy = true; busy;) {
        pthread_mutex_lock(&one->lock);
        busy = one->in_flight != 0;
        pthread_mutex_unlock(&one->lock);
        if (busy)
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}

FAKE(GraphExecDestroy, (ph__cu_exec exec), (exec))
{
    if (!fake_find(FAKE_EXEC, exec))
        return PH__R_INVALID_VALUE;
    int result = fake_unsafe(exec->object.context, "cuGraphExecDestroy");
    if (result)
        return result;
    (void)fake_remove(FAKE_EXEC, exec);
    fake_wait_for_launches(exec);
    fake_exec_end(exec);
    return 0;
}

/* ---- names for tools ---- the graph's is no part of what is compared here. */
FAKE(GraphExecGetId, (ph__cu_exec exec, unsigned *id), (exec, id))
{
    if (!id || !fake_find(FAKE_EXEC, exec))
        return PH__R_INVALID_VALUE;
    *id = exec->id;
    return 0;
}

FAKE(GraphNodeGetToolsId, (ph__cu_node node, unsigned long long *id), (node, id))
{
    if (!id || !node)
        return PH__R_INVALID_VALUE;
    *id = 1ULL << 32 | ph__host_node_of((ph__drv_node *)node)->index;
    return 0;
}

FAKE(GraphUpload, (ph__cu_exec exec, ph__cu_stream stream), (exec, stream))
{
    fake_target target;
    int result = fake_find(FAKE_EXEC, exec) ? fake_target_of(&target, stream, "cuGraphUpload")
                                            : PH__R_INVALID_VALUE;
    if (!result)
        result = host->exec_upload(&exec->exec, 1, target.stream);
    return result ? result : upload_once(exec);
}

/* ---- demotion ---- */
static atomic_int_least64_t demoted_launches;

int64_t fake_demoted_launches(void)
{
    return atomic_load(&demoted_launches);
}

static bool has_other_shape(const ph__exec_slot *slot, const uint32_t *grid, const uint32_t *block)
{
    return memcmp(slot->grid, grid, sizeof slot->grid) != 0 ||
           memcmp(slot->block, block, sizeof slot->block) != 0;
}

/* Whether an update brings a grid or block that the executable has not. */
static bool brings_other_shape(ph__cu_exec exec, ph__drv_graph *from)
{
    const ph__host_graph *mine = template_of(exec), *theirs = ph__host_graph_of(from);
    const ph__exec_params *params = ((ph__host_exec *)exec->exec)->params;
    for (size_t i = 0; i < mine->nodes.count && i < theirs->nodes.count; i++) {
        const ph__host_node *node = ph__host_node_of(mine->nodes.at[i]);
        const ph__host_work *work = &ph__host_node_of(theirs->nodes.at[i])->work;
        if (node->work.kind == PH_NODE_KERNEL && work->kind == PH_NODE_KERNEL &&
            has_other_shape(&params->slots[node->slot], work->grid, work->block))
            return true;
    }
    return false;
}

FAKE(GraphLaunch, (ph__cu_exec exec, ph__cu_stream stream), (exec, stream))
{
    fake_target target;
    int result = fake_find(FAKE_EXEC, exec) ? fake_target_of(&target, stream, "cuGraphLaunch")
                                            : PH__R_INVALID_VALUE;
    for (size_t i = 0; !result && i < exec->count; i++) {
        if (!exec->functions[i] || !exec->functions[i]->unloaded)
            continue;
        fake_misuse("cuGraphLaunch: the module of %s was unloaded", exec->functions[i]->entry.name);
        result = PH__R_INVALID_HANDLE;
    }
    if (!result)
        result = upload_once(exec);
    if (!result && exec->demoted)
        atomic_fetch_add(&demoted_launches, 1);
    if (!result && fake_is_watched())
        return fake_launch_watched(exec, &target);
    return result ? result : fake_submitted(&target, host->exec_launch(exec->exec, target.stream));
}

/* NVIDIA's driver takes it, and then replays it slower for good. */
static void expect_uploaded(ph__cu_exec exec, const char *call)
{
    if (!exec->uploaded)
        fake_misuse("%s: the executable is changed before its first upload", call);
}

FAKE(GraphExecUpdate, (ph__cu_exec exec, ph__cu_graph graph, ph__cu_update_result *out),
     (exec, graph, out))
{
    ph__drv_update why = {0};
    fake_graph *object = fake_find(FAKE_GRAPH, graph);
    if (!fake_find(FAKE_EXEC, exec) || !object)
        return PH__R_INVALID_VALUE;
    int result = fake_expect(exec->object.context, "cuGraphExecUpdate");
    expect_uploaded(exec, "cuGraphExecUpdate");
    bool demotes = brings_other_shape(exec, object->graph);
    if (!result)
        result = host->exec_update(exec->exec, object->graph, &why);
    exec->demoted = exec->demoted || (demotes && !result);
    if (out)
        *out = (ph__cu_update_result){.result = result ? (int)why.reason : 0,
                                      .node = (ph__cu_node)why.from_node};
    for (size_t i = 0; !result && i < exec->count; i++)
        exec->functions[i] = function_at(ph__host_graph_of(object->graph), i);
    return result;
}

/* ---- single nodes ---- */
static int check_node(ph__cu_exec exec, ph__cu_node node, const void *params, const char *call)
{
    if (!fake_find(FAKE_EXEC, exec) || !node || !params ||
        ph__host_node_of((ph__drv_node *)node)->graph != template_of(exec))
        return PH__R_INVALID_VALUE;
    expect_uploaded(exec, call);
    return fake_expect(exec->object.context, call);
}

/* The host driver keeps a node's kernel; here the caller says which. Under the executable's
 * lock. */
static int set_slot(ph__host_exec *exec, const ph__host_node *node,
                    const ph__cu_kernel_params *params, const unsigned char *args)
{
    const ph__host_kernel *kernel = (const ph__host_kernel *)params->function->kernel;
    ph__exec_slot *slot = &exec->params->slots[node->slot];
    if (kernel->args_size > slot->args_capacity)
        return PH__R_INVALID_VALUE;
    slot->fn = kernel->fn;
    slot->args_size = kernel->args_size;
    slot->shared_bytes = params->shared_bytes;
    memcpy(slot->grid, params->grid, sizeof slot->grid);
    memcpy(slot->block, params->block, sizeof slot->block);
    if (kernel->args_size)
        memcpy(slot->args, args, kernel->args_size);
    ph__exec_note(exec, slot->index);
    return 0;
}

static int set_kernel(ph__cu_exec exec, const ph__host_node *node,
                      const ph__cu_kernel_params *params)
{
    unsigned char args[FAKE_ARGS];
    ph__host_exec *inner = (ph__host_exec *)exec->exec;
    ph__drv_launch limits = {.shared_bytes = params->shared_bytes, .args = args};
    memcpy(limits.grid, params->grid, sizeof limits.grid);
    memcpy(limits.block, params->block, sizeof limits.block);
    int result = fake_args(args, params->function, params->params, params->extra);
    if (!result)
        result = fake_check_shared(params->function, params->shared_bytes);
    if (!result)
        result = ph__host_check_launch((const ph__host_kernel *)params->function->kernel, &limits);
    if (!result)
        result = ph__host_rule(inner->device, PH__RULE_EXEC_SET);
    if (result)
        return result;
    pthread_mutex_lock(&inner->lock);
    exec->demoted = exec->demoted ||
                    has_other_shape(&inner->params->slots[node->slot], params->grid, params->block);
    result = set_slot(inner, node, params, args);
    if (!result)
        exec->functions[node->index] = params->function;
    pthread_mutex_unlock(&inner->lock);
    return result;
}

FAKE(GraphExecKernelNodeSetParams,
     (ph__cu_exec exec, ph__cu_node node, const ph__cu_kernel_params *params), (exec, node, params))
{
    int result = check_node(exec, node, params, "cuGraphExecKernelNodeSetParams");
    const ph__host_node *inner = result ? NULL : ph__host_node_of((ph__drv_node *)node);
    if (result)
        return result;
    if (inner->work.kind != PH_NODE_KERNEL || params->kernel)
        return PH__R_INVALID_VALUE;
    if (!fake_find(FAKE_FUNCTION, params->function) ||
        params->function->object.context != exec->object.context)
        return PH__R_INVALID_HANDLE;
    return set_kernel(exec, inner, params);
}

static bool is_plain_side(int type)
{
    return type == PH__CU_MEMORY_HOST || type == PH__CU_MEMORY_DEVICE ||
           type == PH__CU_MEMORY_UNIFIED;
}

FAKE(GraphExecMemcpyNodeSetParams,
     (ph__cu_exec exec, ph__cu_node node, const ph__cu_copy_params *params, ph__cu_context context),
     (exec, node, params, context))
{
    int result = check_node(exec, node, params, "cuGraphExecMemcpyNodeSetParams");
    if (result)
        return result;
    if (!fake_is_context(context))
        return PH__R_INVALID_CONTEXT;
    if (!is_plain_side(params->src_type) || !is_plain_side(params->dst_type) ||
        params->height != 1 || params->depth != 1)
        return PH__R_INVALID_VALUE;
    ph__drv_memcpy copy = {
        .dst = params->dst_type == PH__CU_MEMORY_HOST ? params->dst_host
                                                      : (void *)(uintptr_t)params->dst_device,
        .src = params->src_type == PH__CU_MEMORY_HOST ? params->src_host
                                                      : (const void *)(uintptr_t)params->src_device,
        .bytes = params->width_bytes};
    return host->exec_set_copy(exec->exec, (ph__drv_node *)node, &copy);
}

FAKE(GraphExecMemsetNodeSetParams,
     (ph__cu_exec exec, ph__cu_node node, const ph__cu_fill_params *params, ph__cu_context context),
     (exec, node, params, context))
{
    int result = check_node(exec, node, params, "cuGraphExecMemsetNodeSetParams");
    if (result)
        return result;
    if (!fake_is_context(context))
        return PH__R_INVALID_CONTEXT;
    if (params->height != 1)
        return PH__R_INVALID_VALUE;
    ph__drv_memset fill = {.dst = (void *)(uintptr_t)params->dst,
                           .value = params->value,
                           .value_size = params->element_bytes,
                           .count = params->width};
    return host->exec_set_fill(exec->exec, (ph__drv_node *)node, &fill);
}

FAKE(GraphExecHostNodeSetParams,
     (ph__cu_exec exec, ph__cu_node node, const ph__cu_host_params *params), (exec, node, params))
{
    int result = check_node(exec, node, params, "cuGraphExecHostNodeSetParams");
    if (result)
        return result;
    return host->exec_set_host(exec->exec, (ph__drv_node *)node,
                               &(ph__drv_host){.fn = params->fn, .user = params->user});
}

FAKE(GraphNodeSetEnabled, (ph__cu_exec exec, ph__cu_node node, unsigned enabled),
     (exec, node, enabled))
{
    if (!fake_find(FAKE_EXEC, exec) || !node)
        return PH__R_INVALID_VALUE;
    expect_uploaded(exec, "cuGraphNodeSetEnabled");
    return host->exec_set_enabled(exec->exec, (ph__drv_node *)node, enabled != 0);
}

FAKE(GraphNodeGetEnabled, (ph__cu_exec exec, ph__cu_node node, unsigned *enabled),
     (exec, node, enabled))
{
    bool is_enabled;
    if (!fake_find(FAKE_EXEC, exec) || !node || !enabled)
        return PH__R_INVALID_VALUE;
    int result = host->exec_get_enabled(&is_enabled, exec->exec, (ph__drv_node *)node);
    if (!result)
        *enabled = is_enabled;
    return result;
}
