/* SPDX-License-Identifier: MIT */
/* driver/host/exec/params.c: the parameters of executables, and images: a compiled plan with the
 * parameters that it runs with. */
#include "driver/host/exec/params.h"
#include "base/checked.h"
#include "driver/host/exec/event_node.h"
#include "driver/host/resource/body.h"
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
    default:
        return ph__host_empty_fn;
    }
}

static bool is_event(const ph__exec_slot *slot)
{
    return slot->kind == PH_NODE_EVENT_RECORD || slot->kind == PH_NODE_EVENT_WAIT;
}

static ph__host_event_args *event_args(const ph__exec_slot *slot)
{
    return slot->args;
}

/* A caller's kernel is what its source declares; copies, fills and event records never wait. */
static bool is_inline(const ph__host_work *work)
{
    switch (work->kind) {
    case PH_NODE_KERNEL:
        return work->kernel->is_inline;
    case PH_NODE_HOST:
    case PH_NODE_EVENT_WAIT:
        return false;
    default:
        return true;
    }
}

/* ---- parameters ---- */

void ph__exec_slot_view(ph__exec_slot *out, const ph__host_node *node, size_t slot)
{
    const ph__host_work *work = &node->work;
    *out = (ph__exec_slot){.index = (uint32_t)slot,
                           .kind = work->kind,
                           .enabled = true,
                           .is_inline = is_inline(work),
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

bool ph__exec_each_slot(const ph__host_graph *graph, size_t first, ph__exec_visit *visit,
                        void *context)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const ph__host_node *node = ph__host_node_of(graph->nodes.at[i]);
        const ph__host_graph *body = node->work.body;
        if (body) {
            size_t before = first + node->slot - body->slot_count - 1;
            if (!visit(context, node, before) ||
                !ph__exec_each_slot(body, before + 1, visit, context))
                return false;
        }
        if (!visit(context, node, first + node->slot))
            return false;
    }
    return true;
}

static ph__exec_params *params_alloc(size_t count)
{
    size_t bytes;
    if (count > UINT32_MAX || !ph__mul(count, sizeof(ph__exec_slot), &bytes) ||
        !ph__add(bytes, sizeof(ph__exec_params), &bytes))
        return NULL;
    ph__exec_params *params = ph__alloc(bytes);
    if (params)
        *params = (ph__exec_params){.count = count, .bytes = bytes};
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
    params->bytes += bytes;
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

static bool view_slot(void *context, const ph__host_node *node, size_t slot)
{
    ph__exec_params *params = context;
    ph__exec_slot_view(&params->slots[slot], node, slot);
    return true;
}

ph__exec_params *ph__exec_params_of_graph(const ph__host_graph *graph)
{
    ph__exec_params *params = params_alloc(graph->slot_count);
    if (!params)
        return NULL;
    (void)ph__exec_each_slot(graph, 0, view_slot, params); /* view_slot always goes on */
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

bool ph__exec_slot_accepts(const ph__exec_slot *to, const ph__exec_slot *from)
{
    if (is_event(to))
        return event_args(to)->event == event_args(from)->event;
    return from->args_size <= to->args_capacity;
}

void ph__exec_slot_assign(ph__exec_slot *to, const ph__exec_slot *from)
{
    to->enabled = from->enabled;
    to->is_inline = from->is_inline;
    to->fn = from->fn;
    memcpy(to->grid, from->grid, sizeof to->grid);
    memcpy(to->block, from->block, sizeof to->block);
    to->shared_bytes = from->shared_bytes;
    to->args_size = from->args_size;
    if (from->args_size > 0 && !is_event(to))
        memcpy(to->args, from->args, from->args_size);
}

/* ---- images ---- */

/* As the plan sees a slot; args: where that plan reads the arguments. What is switched off keeps
 * its shared memory, so that switching it on again needs none. */
static ph__plan_node plan_node(const ph__exec_slot *slot, const void *args)
{
    ph__plan_node node = {.fn = ph__host_empty_fn,
                          .args = args,
                          .grid = {1, 1, 1},
                          .block = {1, 1, 1},
                          .shared_bytes = slot->shared_bytes};
    node.may_block = slot->kind == PH_NODE_HOST || slot->kind == PH_NODE_EVENT_WAIT;
    node.is_inline = slot->is_inline || !slot->enabled;
    if (!slot->enabled)
        return node;
    node.fn = slot->fn;
    memcpy(node.grid, slot->grid, sizeof node.grid);
    memcpy(node.block, slot->block, sizeof node.block);
    return node;
}

/* The nodes of a body that no other waits for. */
static size_t end_count(const ph__host_graph *body)
{
    size_t ends = 0;
    for (size_t i = 0; i < body->nodes.count; i++)
        ends += !ph__host_node_of(body->nodes.at[i])->has_dependents;
    return ends;
}

/* Edges between slots; write_edges says what they are. */
static size_t edge_count(const ph__host_graph *graph)
{
    size_t edges = 0;
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const ph__host_node *node = ph__host_node_of(graph->nodes.at[i]);
        const ph__host_graph *body = node->work.body;
        edges += node->dependency_count ? node->dependency_count : 1;
        if (body)
            edges += edge_count(body) + 1 + end_count(body);
    }
    return edges;
}

/* A child graph begins with a slot that waits for what its node depends on, and ends with one
 * that waits for its last nodes; the first ones of a body wait for the former (`before`;
 * SIZE_MAX: this is no body). So there is an edge for each dependency, and not for each pair of
 * what lies on both sides. Returns where the next edge goes. */
static uint32_t *write_edges(const ph__host_graph *graph, size_t first, size_t before,
                             ph__plan_node *nodes, uint32_t *next)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const ph__host_node *node = ph__host_node_of(graph->nodes.at[i]);
        const ph__host_graph *body = node->work.body;
        size_t slot = first + node->slot, begin = body ? slot - body->slot_count - 1 : slot;
        nodes[begin].dependencies = next;
        for (size_t k = 0; k < node->dependency_count; k++)
            *next++ = (uint32_t)(first + ph__host_node_of(node->dependencies[k])->slot);
        if (node->dependency_count == 0 && before != SIZE_MAX)
            *next++ = (uint32_t)before;
        nodes[begin].dependency_count = (uint32_t)(next - nodes[begin].dependencies);
        if (!body)
            continue;
        next = write_edges(body, begin + 1, begin, nodes, next);
        nodes[slot].dependencies = next;
        if (body->nodes.count == 0)
            *next++ = (uint32_t)begin;
        for (size_t k = 0; k < body->nodes.count; k++) {
            const ph__host_node *last = ph__host_node_of(body->nodes.at[k]);
            if (!last->has_dependents)
                *next++ = (uint32_t)(begin + 1 + last->slot);
        }
        nodes[slot].dependency_count = (uint32_t)(next - nodes[slot].dependencies);
    }
    return next;
}

static ph__plan *compile_plan(const ph__host_exec *exec, const ph__exec_params *params)
{
    ph__plan_node *nodes = ph__calloc(params->count, sizeof *nodes);
    uint32_t *dependencies = ph__calloc(edge_count(exec->graph), sizeof *dependencies);
    ph__plan *plan = NULL;
    if (nodes && dependencies) {
        for (size_t i = 0; i < params->count; i++)
            nodes[i] = plan_node(&params->slots[i], params->slots[i].args);
        (void)write_edges(exec->graph, 0, SIZE_MAX, nodes, dependencies);
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
        image->shared_max = params->slots[i].shared_bytes > image->shared_max
                                ? params->slots[i].shared_bytes
                                : image->shared_max;
    image->params = ph__exec_params_clone(params);
    image->plan = image->params ? compile_plan(exec, image->params) : NULL;
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
    return a->fn == b->fn && a->is_inline == b->is_inline && a->shared_bytes == b->shared_bytes &&
           memcmp(a->grid, b->grid, sizeof a->grid) == 0 &&
           memcmp(a->block, b->block, sizeof a->block) == 0;
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
