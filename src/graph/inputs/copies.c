/* SPDX-License-Identifier: MIT */
/* graph/inputs/copies.c: the memory of captured copies and fills, whoever submitted them: pinned
 * blocks are kept from reuse, pageable memory is told of. */
#include "graph/inputs/copies.h"
#include "base/log.h"
#include "base/mapping.h"
#include "graph/object/graph.h"
#include "memory/observe/lookup.h"
#include "memory/reclaim/pinned_holders.h"
#include <stdio.h>

enum {
    NAMED = 8,       /* copies that are named, of one capture */
    LINE_BYTES = 160 /* of a mapping's line */
};

typedef struct search {
    ph_graph *graph;
    const char *call;
    const ph_record *record; /* the graph's own, not that of a body */
    size_t outer;            /* of its nodes, the one whose body is looked at */
    bool nested;
    size_t found; /* copies with a pageable side */
} search;

/* Memory that the graph's own nodes give is known to CUDA once it was launched. */
static bool is_given(const ph_record *record, const void *address)
{
    for (size_t i = 0; i < record->node_count; i++) {
        const ph_node_info *info = &record->nodes[i].info;
        if (info->kind == PH_NODE_MEM_ALLOC &&
            (uintptr_t)address - (uintptr_t)info->dst < info->bytes)
            return true;
        if (info->body && is_given(info->body, address))
            return true;
    }
    return false;
}

static ph_status is_pageable(bool *out, const search *s, const void *address)
{
    ph_device *device = s->graph->device;
    ph__drv_pointer where;
    *out = false;
    if (address == NULL || ph__memory_is_reserved(device, address)) /* NULL: an array's */
        return PH_OK;
    int result = device->driver->pointer_info(&where, device->handle, address);
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_POINTER_GET_ATTRIBUTE, "%s: address %p", s->call,
                               address);
    *out = where.kind == PH__MEMORY_PAGEABLE && !is_given(s->record, address);
    return PH_OK;
}

/* "node 3 (memcpy of 64 bytes, scope "load")" and the side of it. */
static void describe_node_side(char *out, size_t size, const search *s, const ph__record_node *node,
                               bool reads)
{
    char where[48] = "", mapping[LINE_BYTES];
    const void *address = reads ? node->info.src : node->info.dst;
    const char *scope = ph__annotation_name(node->annotation);
    if (s->nested)
        (void)snprintf(where, sizeof where, " of the graph in node %zu", s->outer);
    ph__mapping_describe(mapping, sizeof mapping, address);
    (void)snprintf(out, size, "node %zu%s (%s of %zu bytes%s%s%s) %s %s at %p (%s)",
                   node->info.index, where, node->info.name, node->info.bytes,
                   scope[0] ? ", scope \"" : "", scope, scope[0] ? "\"" : "",
                   reads ? "reads" : "writes",
                   ph__device_others_have(s->graph->device, address)
                       ? "memory of another device, which is pageable here,"
                       : "pageable host memory",
                   address, mapping);
}

static ph_status report_copy(search *s, const ph__record_node *node, bool reads)
{
    char what[320];
    if (++s->found > NAMED)
        return PH_OK;
    describe_node_side(what, sizeof what, s, node, reads);
    if (s->graph->strict)
        return ph__fail_native(PH_ERROR_UNPINNED, PH__R_CAPTURE_UNSUPPORTED, PH__NAME_MEMCPY_ASYNC,
                               "%s: the capture is strict, and %s, which other code submitted",
                               s->call, what);
    ph__log(
        PH_LOG_WARNING,
        "%s: %s; other code submitted it, and every replay %s whatever lies there then: use pinned "
        "memory (ph_malloc_pinned, cudaHostAlloc), or copy outside the capture; "
        "ph_capture_options.strict makes such a capture fail",
        s->call, what, reads ? "reads" : "overwrites");
    return PH_OK;
}

static ph_status inspect_copy(search *s, const ph__record_node *node)
{
    bool src, dst;
    ph__memory_pin_used(s->graph->own->pool, node->info.dst);
    ph__memory_pin_used(s->graph->own->pool, node->info.src);
    PH_TRY(is_pageable(&src, s, node->info.src));
    PH_TRY(is_pageable(&dst, s, node->info.dst));
    return src || dst ? report_copy(s, node, src) : PH_OK;
}

/* A fill is recorded with any address. */
static ph_status inspect_fill(search *s, const ph__record_node *node)
{
    bool dst;
    PH_TRY(is_pageable(&dst, s, node->info.dst));
    return dst ? report_copy(s, node, false) : PH_OK;
}

static ph_status inspect_record(search *s, const ph_record *record)
{
    bool nested = s->nested;
    for (size_t i = 0; i < record->node_count; i++) {
        const ph__record_node *node = &record->nodes[i];
        if (node->info.kind == PH_NODE_MEMCPY)
            PH_TRY(inspect_copy(s, node));
        if (node->info.kind == PH_NODE_MEMSET)
            PH_TRY(inspect_fill(s, node));
        if (!node->info.body)
            continue;
        s->outer = nested ? s->outer : i;
        s->nested = true;
        PH_TRY(inspect_record(s, node->info.body));
        s->nested = nested;
    }
    return PH_OK;
}

/* ---- without a record ---- */
static ph_status fail_scan(int result, const char *call)
{
    if (result == PH__R_OUT_OF_MEMORY)
        return ph__fail_host_memory(call, "the captured graph");
    return ph__driver_fail(result, PH__NAME_GRAPH_KERNEL_NODE_GET_PARAMS,
                           "%s: a node of the captured graph could not be read back", call);
}

static ph_status scan_graph(bool *odd, const search *s, ph__drv_graph *template);

/* Memory that memory nodes give is told from pageable memory by the record. */
static ph_status scan_sides(bool *odd, const search *s, const void *dst, const void *src)
{
    const void *const sides[] = {dst, src};
    for (int i = 0; i < 2 && !*odd; i++) {
        ph__drv_pointer where;
        if (sides[i] == NULL || ph__memory_is_reserved(s->graph->device, sides[i]))
            continue;
        int result =
            s->graph->device->driver->pointer_info(&where, s->graph->device->handle, sides[i]);
        if (result != PH__R_OK)
            return ph__driver_fail(result, PH__NAME_POINTER_GET_ATTRIBUTE, "%s: address %p",
                                   s->call, sides[i]);
        *odd = where.kind == PH__MEMORY_PAGEABLE;
    }
    return PH_OK;
}

static ph_status scan_copied(bool *odd, const search *s, const ph__drv_copied *copied)
{
    if (copied->kind == PH_NODE_GRAPH)
        return copied->body ? scan_graph(odd, s, copied->body) : PH_OK;
    if (copied->kind == PH_NODE_MEMCPY) {
        ph__memory_pin_used(s->graph->own->pool, copied->dst);
        ph__memory_pin_used(s->graph->own->pool, copied->src);
    }
    return scan_sides(odd, s, copied->dst, copied->src);
}

static ph_status scan_graph(bool *odd, const search *s, ph__drv_graph *template)
{
    size_t at = 0;
    for (ph__drv_copied copied = {.found = true}; copied.found && !*odd;) {
        int result = s->graph->device->driver->graph_next_copy(&copied, &at, template);
        if (result != PH__R_OK)
            return fail_scan(result, s->call);
        if (copied.found)
            PH_TRY(scan_copied(odd, s, &copied));
    }
    return PH_OK;
}

ph_status ph__graph_scan_copies(bool *odd, ph_graph *graph, const char *call)
{
    search s = {.graph = graph, .call = call};
    *odd = false;
    return scan_graph(odd, &s, graph->template);
}

/* ---- by the record ---- */
ph_status ph__graph_acquire_copies(ph_graph *graph, const char *call)
{
    search s = {.graph = graph, .call = call, .record = graph->record};
    PH_TRY(inspect_record(&s, graph->record));
    if (s.found > NAMED)
        ph__log(PH_LOG_WARNING,
                "%s: %zu more copies and fills of the graph are of pageable host memory", call,
                s.found - NAMED);
    return PH_OK;
}
