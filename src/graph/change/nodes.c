/* SPDX-License-Identifier: MIT */
/* graph/change/nodes.c: changing single nodes of an executable. */
#include "device/copies.h"
#include "device/launch.h"
#include "graph/change/changes.h"
#include "graph/inputs/brought.h"
#include "graph/inputs/inputs.h"
#include "graph/inputs/liveness.h"
#include "graph/inputs/rebind.h"
#include "graph/inputs/replace.h"
#include "graph/locate/probes.h"
#include "graph/memory/cells.h"
#include "graph/object/collectives.h"
#include "graph/object/graph.h"
#include "graph/slots/slots_life.h"
#include "memory/reclaim/pinned_holders.h"
#include "record/words.h"
#include <string.h>

static const char *article_of(ph_node_kind kind)
{
    return strchr("aeiou", ph_node_kind_name(kind)[0]) ? "an" : "a";
}

/* The checks of every setter: the state, the index, the kind (-1: any that can be disabled). */
static ph_status find_node(const ph__record_node **out, ph_graph *graph, size_t node, int kind,
                           ph__graph_call which)
{
    PH_TRY(ph__graph_check(graph, which));
    const char *call = ph__graph_calls[which].name;
    if (node >= graph->record->node_count)
        return ph_fail(
            PH_ERROR_NOT_FOUND,
            "%s: node %zu does not exist; the graph has %zu node%s, numbered from 0 as in its "
            "record",
            call, node, graph->record->node_count, graph->record->node_count == 1 ? "" : "s");
    *out = &graph->record->nodes[node];
    const ph_node_info *info = &(*out)->info;
    if (kind >= 0 && info->kind != (ph_node_kind)kind)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: node %zu (%s) is %s %s node, not a %s node", call,
                       node, info->name, article_of(info->kind), ph_node_kind_name(info->kind),
                       ph_node_kind_name((ph_node_kind)kind));
    if (kind < 0 && info->kind > PH_NODE_MEMSET)
        return ph_fail(
            PH_ERROR_UNSUPPORTED,
            "%s: node %zu is %s %s node; only kernel, memcpy and memset nodes can be disabled",
            call, node, article_of(info->kind), ph_node_kind_name(info->kind));
    if (which != PH__CALL_NODE_GET_ENABLED && ph__cells_are_written_by(graph, node))
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: node %zu (%s) writes the graph's cells, at each replay with the values "
                       "that their sources "
                       "give (ph_cells_create); let a source give other ones",
                       call, node, info->name);
    if (which != PH__CALL_NODE_GET_ENABLED && ph__collective_is_node(graph, node))
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: node %zu (%s) is a collective, which all ranks run as they captured "
                       "it; capture again, or give an update",
                       call, node, info->name);
    const char *switched_by = kind >= 0 ? ph__locate_call_of(graph, node) : NULL;
    if (switched_by)
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: node %zu (%s) watches the graph's replays; it is switched with %s",
                       call, node, info->name, switched_by);
    if (kind >= 0)
        PH_TRY(ph__slots_refuse_set(graph, node, call));
    return ph__rule_check(graph->device, kind < 0 ? PH__RULE_EXEC_ENABLE : PH__RULE_EXEC_SET);
}

static ph_status fail_node_change(const ph_graph *graph, size_t node, int result,
                                  const char *driver_call, const char *call)
{
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the parameters");
    return ph__driver_fail(result, driver_call, "%s: node %zu (%s) was not changed", call, node,
                           graph->record->nodes[node].info.name);
}

/* Carries the driver's answer out: on success the node's new inputs take the place of the old
 * ones. */
static ph_status finish_set(ph_graph *graph, size_t node, int result, ph__inputs *inputs,
                            const char *driver_call, const char *call)
{
    if (result == PH__R_OK) {
        bool is_host = graph->record->nodes[node].info.kind == PH_NODE_HOST;
        graph->changed = graph->changed || !is_host;
        graph->hosts_changed = graph->hosts_changed || is_host;
        ph__graph_replace_inputs(graph, node, inputs);
        return PH_OK;
    }
    ph__inputs_free(inputs, graph);
    return fail_node_change(graph, node, result, driver_call, call);
}

/* ---- kernels ---- */
/* All checks of a set but those of its arguments. */
__attribute__((noinline)) static ph_status prepare_set(ph__set_launch **out, ph_graph *graph,
                                                       size_t node)
{
    static const char call[] = "ph_graph_node_set_launch";
    const ph__record_node *found = NULL;
    PH_TRY(find_node(&found, graph, node, PH_NODE_KERNEL, PH__CALL_NODE_SET_LAUNCH));
    PH_TRY(ph__brought_kernels(graph, call));
    const ph_kernel *kernel = graph->node_kernels[node];
    if (kernel == NULL)
        return ph_fail(
            PH_ERROR_UNSUPPORTED,
            "%s: the kernel of node %zu (%s) was not loaded by this library, or was released "
            "before the capture "
            "ended, so that its parameters are unknown",
            call, node, found->info.name);
    *out = ph__graph_prepare_set(graph, node, kernel);
    return *out && ph__changes_reserve(graph) ? PH_OK
                                              : ph__fail_host_memory(call, "the parameters");
}

/* A node that was set before passed all of them, and nothing has come since that they look at. */
static inline ph__set_launch *find_known_set(const ph_graph *graph, size_t node)
{
    if (!graph || graph->state != PH_GRAPH_READY || graph->busy || !graph->changes ||
        graph->slots || graph->locate || graph->brought || graph->device->forked ||
        atomic_load_explicit(&graph->device->open_captures, memory_order_acquire) != 0)
        return NULL;
    return ph__graph_known_set(graph, node);
}

ph_status ph_graph_node_set_launch(ph_graph *graph, size_t node, const ph_launch_config *config,
                                   const void *args, size_t args_size)
{
    static const char call[] = "ph_graph_node_set_launch";
    ph__drv_launch launch;
    ph__set_launch *set = find_known_set(graph, node);
    if (!set)
        PH_TRY(prepare_set(&set, graph, node));
    PH_TRY(ph__launch_prepare(&launch, graph->node_kernels[node], config, args, args_size, call));
    const ph__record_node *found = &graph->record->nodes[node];
    int result = graph->device->driver->exec_set_kernel(graph->exec, found->handle, &launch);
    if (result != PH__R_OK)
        return fail_node_change(graph, node, result, PH__NAME_GRAPH_EXEC_KERNEL_NODE_SET_PARAMS,
                                call);
    graph->changed = true;
    ph__changes_launched(graph, found->created, &launch);
    ph__graph_note_set(graph, set, args);
    return PH_OK;
}

/* ---- copies and fills ---- */
static ph_status inputs_of_fields(ph__inputs *out, ph_graph *graph, size_t node, const void *dst,
                                  const void *src, const char *call)
{
    const char *name = graph->record->nodes[node].info.name;
    ph_word words[2];
    PH_TRY(ph__graph_collect_inputs(graph, call));
    ph__word_address(&words[0], graph->device, NULL, "dst", 0, dst);
    if (src)
        ph__word_address(&words[1], graph->device, NULL, "src", sizeof src, src);
    ph_status status = ph__inputs_of_words(out, graph, node, name, words, src ? 2 : 1, call);
    if (status == PH_OK && !ph__graph_reserve_inputs(graph, out->count))
        status = ph__fail_host_memory(call, "the inputs of the graph");
    if (status != PH_OK)
        ph__inputs_free(out, graph);
    return status;
}

ph_status ph_graph_node_set_memcpy(ph_graph *graph, size_t node, void *dst, const void *src,
                                   size_t bytes)
{
    static const char call[] = "ph_graph_node_set_memcpy";
    const ph__record_node *found = NULL;
    const ph__drv_memcpy copy = {dst, src, bytes};
    ph__inputs inputs = {0};
    PH_TRY(find_node(&found, graph, node, PH_NODE_MEMCPY, PH__CALL_NODE_SET_MEMCPY));
    if (bytes == 0)
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: 0 bytes; to skip the copy, disable node %zu with ph_graph_node_set_enabled", call,
            node);
    PH_TRY(ph__copy_check(NULL, graph->device, &copy, call));
    PH_TRY(inputs_of_fields(&inputs, graph, node, dst, src, call));
    int result = graph->device->driver->exec_set_copy(graph->exec, found->handle, &copy);
    PH_TRY(
        finish_set(graph, node, result, &inputs, PH__NAME_GRAPH_EXEC_MEMCPY_NODE_SET_PARAMS, call));
    ph__memory_pin_used(graph->own->pool, dst);
    ph__memory_pin_used(graph->own->pool, src);
    return PH_OK;
}

ph_status ph_graph_node_set_memset(ph_graph *graph, size_t node, void *dst, uint32_t value,
                                   size_t count)
{
    static const char call[] = "ph_graph_node_set_memset";
    const ph__record_node *found = NULL;
    ph__inputs inputs = {0};
    PH_TRY(find_node(&found, graph, node, PH_NODE_MEMSET, PH__CALL_NODE_SET_MEMSET));
    const ph__drv_memset fill = {dst, value, found->info.value_size, count};
    if (count == 0)
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: 0 elements; to skip the fill, disable node %zu with ph_graph_node_set_enabled",
            call, node);
    if (fill.value_size == 1 && value > UINT8_MAX)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: 0x%x does not fit the 1-byte elements of node %zu",
                       call, value, node);
    PH_TRY(ph__fill_check(graph->device, &fill, call));
    PH_TRY(inputs_of_fields(&inputs, graph, node, dst, NULL, call));
    int result = graph->device->driver->exec_set_fill(graph->exec, found->handle, &fill);
    return finish_set(graph, node, result, &inputs, PH__NAME_GRAPH_EXEC_MEMSET_NODE_SET_PARAMS,
                      call);
}

/* ---- host functions ---- */
ph_status ph_graph_node_set_host(ph_graph *graph, size_t node, ph_host_fn fn, void *user)
{
    static const char call[] = "ph_graph_node_set_host";
    const ph__record_node *found = NULL;
    const ph__drv_host host = {fn, user};
    ph__inputs none = {0};
    PH_TRY(find_node(&found, graph, node, PH_NODE_HOST, PH__CALL_NODE_SET_HOST));
    if (fn == NULL)
        return ph__fail_null(call, "fn");
    int result = graph->device->driver->exec_set_host(graph->exec, found->handle, &host);
    return finish_set(graph, node, result, &none, PH__NAME_GRAPH_EXEC_HOST_NODE_SET_PARAMS, call);
}

/* ---- on and off ---- */
ph_status ph_graph_node_set_enabled(ph_graph *graph, size_t node, bool enabled)
{
    static const char call[] = "ph_graph_node_set_enabled";
    const ph__record_node *found = NULL;
    PH_TRY(find_node(&found, graph, node, -1, PH__CALL_NODE_SET_ENABLED));
    int result = graph->device->driver->exec_set_enabled(graph->exec, found->handle, enabled);
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the change");
    return result == PH__R_OK
               ? PH_OK
               : ph__driver_fail(result, PH__NAME_GRAPH_NODE_SET_ENABLED,
                                 "%s: node %zu (%s) was not changed", call, node, found->info.name);
}

ph_status ph_graph_node_get_enabled(bool *out, ph_graph *graph, size_t node)
{
    static const char call[] = "ph_graph_node_get_enabled";
    const ph__record_node *found = NULL;
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = false;
    PH_TRY(find_node(&found, graph, node, -1, PH__CALL_NODE_GET_ENABLED));
    int result = graph->device->driver->exec_get_enabled(out, graph->exec, found->handle);
    return result == PH__R_OK ? PH_OK
                              : ph__driver_fail(result, PH__NAME_GRAPH_NODE_GET_ENABLED,
                                                "%s: node %zu (%s)", call, node, found->info.name);
}
