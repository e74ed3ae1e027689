/* SPDX-License-Identifier: MIT */
/* driver/host/host_params.c: the parameters of executables, and images: a compiled plan with the parameters
 * that it runs with. */
#include "base/checked.h"
#include "driver/host/host_exec.h"
#include <string.h>

enum {
    ARGS_ALIGNMENT = _Alignof(max_align_t)
};

static ph_host_kernel_fn function_of(const ph__host_work *work)
{
    switch (work->kind) {
    case PH_NODE_KERNEL:
        return work->kernel->fn;
    case PH_NODE_MEMCPY:
        return ph__host_copy_fn;
    case PH_NODE_MEMSET:
        return ph__host_fill_fn;
    case PH_NODE_HOST:
        return ph__host_host_fn;
    case PH_NODE_EVENT_WAIT:
        return ph__host_event_wait_fn;
    case PH_NODE_EVENT_RECORD:
        return ph__host_event_record_fn;
    case PH_NODE_GRAPH:
    case PH_NODE_EMPTY:
        break;
    }
    return ph__host_empty_fn;
}

static bool is_event(const ph__exec_slot *slot)
{
    return slot->kind == PH_NODE_EVENT_RECORD || slot->kind == PH_NODE_EVENT_WAIT;
}

static ph__host_event_args *event_args(const ph__exec_slot *slot)
{
    return slot->args;
}

/* ---- parameters ---- */

void ph__exec_slot_view(ph__exec_slot *out, const ph__host_node *node)
{
    const ph__host_work *work = &node->work;
    *out = (ph__exec_slot){.index = (uint32_t)node->index,
                           .kind = work->kind,
                           .enabled = true,
                           .fn = function_of(work),
                           .grid = {1, 1, 1},
                           .block = {1, 1, 1},
                           .shared_bytes = work->shared_bytes,
                           .args = (void *)(uintptr_t)work->args, /* only read through a view */
                           .args_size = work->args_size,
                           .args_capacity = work->args_size};
    if (work->kind == PH_NODE_KERNEL) {
        memcpy(out->grid, work->grid, sizeof out->grid);
        memcpy(out->block, work->block, sizeof out->block);
    }
}

static ph__exec_params *params_alloc(size_t count)
{
    size_t bytes;
    if (count > UINT32_MAX || !ph__mul(count, sizeof(ph__exec_slot), &bytes) ||
        !ph__add(bytes, sizeof(ph__exec_params), &bytes))
        return NULL;
    ph__exec_params *params = ph__alloc(bytes);
    if (params)
        *params = (ph__exec_params){.count = count};
    return params;
}

/* Slots whose arguments are somebody else's get copies of their own; on failure params is freed. */
static ph__exec_params *params_own(ph__exec_params *params)
{
    size_t bytes = 0;
    for (size_t i = 0; i < params->count; i++) {
        size_t padded;
        if (!ph__round_up(params->slots[i].args_capacity, ARGS_ALIGNMENT, &padded) ||
            !ph__add(bytes, padded, &bytes)) {
            ph__free(params);
            return NULL;
        }
    }
    params->arena = ph__alloc(bytes);
    if (!params->arena) {
        ph__free(params);
        return NULL;
    }
    unsigned char *at = params->arena;
    for (size_t i = 0; i < params->count; i++) {
        ph__exec_slot *slot = &params->slots[i];
        if (slot->args_size > 0)
            memcpy(at, slot->args, slot->args_size);
        slot->args = at;
        slot->dirty = false;
        at += (slot->args_capacity + ARGS_ALIGNMENT - 1) / ARGS_ALIGNMENT * ARGS_ALIGNMENT;
        if (is_event(slot))
            ph__host_event_retain(event_args(slot)->event);
        params->event_count += is_event(slot);
    }
    return params;
}

ph__exec_params *ph__exec_params_of_graph(const ph__host_graph *graph)
{
    ph__exec_params *params = params_alloc(graph->nodes.count);
    if (!params)
        return NULL;
    for (size_t i = 0; i < params->count; i++)
        ph__exec_slot_view(&params->slots[i], ph__host_node_of(graph->nodes.at[i]));
    return params_own(params);
}

ph__exec_params *ph__exec_params_clone(const ph__exec_params *from)
{
    ph__exec_params *params = params_alloc(from->count);
    if (!params)
        return NULL;
    memcpy(params->slots, from->slots, from->count * sizeof from->slots[0]);
    return params_own(params);
}

void ph__exec_params_free(ph__exec_params *params)
{
    if (!params)
        return;
    for (size_t i = 0; i < params->count; i++) {
        if (is_event(&params->slots[i]))
            ph__host_event_release(event_args(&params->slots[i])->event);
    }
    ph__free(params->arena);
    ph__free(params);
}

bool ph__exec_slot_takes(const ph__exec_slot *to, const ph__exec_slot *from)
{
    if (is_event(to))
        return event_args(to)->event == event_args(from)->event;
    return from->args_size <= to->args_capacity;
}

void ph__exec_slot_assign(ph__exec_slot *to, const ph__exec_slot *from)
{
    to->enabled = from->enabled;
    to->fn = from->fn;
    memcpy(to->grid, from->grid, sizeof to->grid);
    memcpy(to->block, from->block, sizeof to->block);
    to->shared_bytes = from->shared_bytes;
    to->args_size = from->args_size;
    if (from->args_size > 0 && !is_event(to))
        memcpy(to->args, from->args, from->args_size);
}

/* ---- images ---- */

/* As the plan sees a slot; args: where that plan reads the arguments. What is switched off keeps its shared
 * memory, so that switching it on again needs none. */
static ph__plan_node plan_node(const ph__exec_slot *slot, const void *args)
{
    ph__plan_node node = {.fn = ph__host_empty_fn,
                          .args = args,
                          .grid = {1, 1, 1},
                          .block = {1, 1, 1},
                          .shared_bytes = slot->shared_bytes};
    node.may_block = slot->kind == PH_NODE_HOST || slot->kind == PH_NODE_EVENT_WAIT;
    if (!slot->enabled)
        return node;
    node.fn = slot->fn;
    memcpy(node.grid, slot->grid, sizeof node.grid);
    memcpy(node.block, slot->block, sizeof node.block);
    return node;
}

static size_t edge_count(const ph__host_graph *graph)
{
    size_t edges = 0;
    for (size_t i = 0; i < graph->nodes.count; i++)
        edges += ph__host_node_of(graph->nodes.at[i])->dependency_count;
    return edges;
}

static ph__plan *compile(const ph__host_exec *exec, const ph__exec_params *params)
{
    const ph__host_graph *graph = exec->graph;
    ph__plan_node *nodes = ph__calloc(params->count, sizeof *nodes);
    uint32_t *dependencies = ph__calloc(edge_count(graph), sizeof *dependencies);
    ph__plan *plan = NULL;
    if (nodes && dependencies) {
        uint32_t *next = dependencies;
        for (size_t i = 0; i < params->count; i++) {
            const ph__host_node *node = ph__host_node_of(graph->nodes.at[i]);
            nodes[i] = plan_node(&params->slots[i], params->slots[i].args);
            nodes[i].dependencies = next;
            nodes[i].dependency_count = (uint32_t)node->dependency_count;
            for (size_t k = 0; k < node->dependency_count; k++)
                *next++ = (uint32_t)ph__host_node_of(node->dependencies[k])->index;
        }
        plan = ph__plan_create(nodes, params->count, exec->device->workers);
    }
    ph__free(nodes);
    ph__free(dependencies);
    return plan;
}

ph__exec_image *ph__exec_image_create(const ph__host_exec *exec, const ph__exec_params *params)
{
    ph__exec_image *image = ph__calloc(1, sizeof *image);
    if (!image)
        return NULL;
    image->references = 1;
    for (size_t i = 0; i < params->count; i++)
        image->shared_max = params->slots[i].shared_bytes > image->shared_max ? params->slots[i].shared_bytes
                                                                              : image->shared_max;
    image->params = ph__exec_params_clone(params);
    image->plan = image->params ? compile(exec, image->params) : NULL;
    if (!image->plan) {
        ph__exec_image_free(image);
        return NULL;
    }
    return image;
}

void ph__exec_image_free(ph__exec_image *image)
{
    if (!image)
        return;
    ph__plan_destroy(image->plan);
    ph__exec_params_free(image->params);
    ph__free(image);
}

static bool same_to_the_plan(const ph__plan_node *a, const ph__plan_node *b)
{
    return a->fn == b->fn && a->shared_bytes == b->shared_bytes &&
           memcmp(a->grid, b->grid, sizeof a->grid) == 0 && memcmp(a->block, b->block, sizeof a->block) == 0;
}

/* The plan reads the arguments where they are, so new ones alone are no change to it. */
bool ph__exec_image_apply(ph__exec_image *image, const ph__exec_slot *from)
{
    ph__exec_slot *to = &image->params->slots[from->index];
    ph__plan_node before = plan_node(to, to->args), after = plan_node(from, to->args);
    if (!same_to_the_plan(&before, &after) && !ph__plan_set(image->plan, from->index, &after))
        return false;
    ph__exec_slot_assign(to, from);
    return true;
}
