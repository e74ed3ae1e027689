/* SPDX-License-Identifier: MIT */
/* graph/memory/writes.c: whether replays of a graph may write some memory: what its captures were
 * given of its pools. */
#include "graph/memory/writes.h"
#include "graph/memory/cells.h"
#include "graph/object/segments.h"
#include "memory/observe/lookup.h"

static bool ranges_meet(const ph__ranges *ranges, uintptr_t base, size_t bytes)
{
    size_t low = 0, high = ranges->count; /* the first that ends behind base */
    if (high == 0 || base + bytes <= ranges->at[0].base ||
        base >= ranges->at[high - 1].base + ranges->at[high - 1].size)
        return false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->at[middle].base + ranges->at[middle].size <= base)
            low = middle + 1;
        else
            high = middle;
    }
    return low < ranges->count && ranges->at[low].base < base + bytes;
}

static __attribute__((noinline)) bool meets_anywhere(const ph_graph *graph,
                                                     const ph__writer *writer, const void *address)
{
    ph_allocation found;
    return ph__memory_find(&found, graph->device, address) && found.pool == writer->pool;
}

static bool writer_meets(const ph_graph *graph, const ph__writer *writer, const void *address,
                         size_t bytes)
{
    const ph__ranges *set = writer->sets.at, *end = set + writer->sets.count;
    for (; set < end; set++)
        if (ranges_meet(set, (uintptr_t)address, bytes))
            return true;
    return writer->anywhere && meets_anywhere(graph, writer, address);
}

static __attribute__((noinline)) bool segments_write(const ph_graph *graph, const void *address,
                                                     size_t bytes)
{
    for (size_t i = 0; i < graph->segments->list.count; i++)
        if (ph__graph_writes(graph->segments->list.at[i].graph, address, bytes))
            return true;
    return false;
}

bool ph__graph_writes(const ph_graph *graph, const void *address, size_t bytes)
{
    for (size_t i = 0; i < graph->pools.count; i++)
        if (writer_meets(graph, graph->pools.at[i], address, bytes))
            return true;
    return (graph->segments && segments_write(graph, address, bytes)) ||
           (graph->cells && ph__cells_meet(graph, address, bytes));
}

/* Most graphs are so: in a state in which every call may look, and with one set of ranges that
 * says all of what it writes. Calls of graphed callables ask for each input. */
static inline bool has_one_set(const ph_graph *graph)
{
    return graph && graph->state == PH_GRAPH_READY && !graph->viewed && !graph->segments &&
           !graph->whole && !graph->cells && graph->pools.count == 1 &&
           graph->pools.at[0]->sets.count == 1 && !graph->pools.at[0]->anywhere;
}

ph_status ph_graph_writes(bool *out, const ph_graph *graph, const void *address, size_t bytes)
{
    static const char call[] = "ph_graph_writes";
    if (out == NULL)
        return ph__fail_null(call, "out");
    if (has_one_set(graph) && bytes <= UINTPTR_MAX - (uintptr_t)address) {
        *out = false;
        PH_TRY(ph__device_check(graph->device, call));
        *out = bytes > 0 && ranges_meet(&graph->pools.at[0]->sets.at[0], (uintptr_t)address, bytes);
        return PH_OK;
    }
    *out = false;
    PH_TRY(ph__graph_check(graph, PH__CALL_WRITES));
    if (bytes > UINTPTR_MAX - (uintptr_t)address)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: %zu bytes at %p run beyond the end of the address space", call, bytes,
                       address);
    *out = bytes > 0 && ph__graph_writes(graph, address, bytes);
    return PH_OK;
}
