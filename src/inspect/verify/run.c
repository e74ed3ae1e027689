/* SPDX-License-Identifier: MIT */
/* inspect/verify/run.c: the runs of a verification: body captured again, body eagerly, replays
 * of all nodes or some. */
#include "inspect/verify/run.h"
#include "base/alloc.h"
#include "base/unwind.h"
#include "graph/memory/cells.h"
#include "inspect/verify/memory.h"
#include "memory/alloc/replay_run.h"
#include "memory/pool/scopes.h"

/* ---- body ---- it must leave the graph alone, as hooks do. */
/* A call that fails without a message must not show the message of an earlier failure. */
static void forget_error(ph_error *before)
{
    const ph_error none = {.status = PH_OK};
    ph__error_save(before);
    ph__error_restore(&none);
}

static ph_status say_whose(const ph__verify *verify, ph_status status, const ph_error *before,
                           const char *whose)
{
    if (status == PH_OK)
        ph__error_restore(before);
    if (status != PH_OK && ph_error_last()->status == status)
        ph__error_prefix("%s: %s", verify->call, whose);
    else if (status != PH_OK)
        ph__fail_given(status, "%s: %s", verify->call, whose);
    return status;
}

/* Scopes that a callback leaves open would be around all that this thread does from then on. */
static void enter_run(const ph__verify *verify, ph_error *before, size_t *depth)
{
    forget_error(before);
    *depth = ph_annotation_depth();
    verify->graph->busy++;
}

static void leave_run(const ph__verify *verify, size_t depth)
{
    verify->graph->busy--;
    ph_annotation_unwind(depth);
}

typedef struct inside {
    ph__verify *verify;
    size_t depth;
    bool scope; /* of the pool */
} inside;

/* A function of the user's did not return. The verification is put back by ph_graph_verify. */
static void abandon_run(void *what)
{
    const inside *in = what;
    leave_run(in->verify, in->depth);
    if (in->scope)
        ph__pool_leave(in->verify->pool);
}

static ph_status prepare_round(ph__verify *verify)
{
    if (verify->options->prepare == NULL)
        return PH_OK;
    ph_error before;
    size_t depth;
    enter_run(verify, &before, &depth);
    inside in = {verify, depth, false};
    PH__UNWIND unwind = {abandon_run, &in};
    ph_status status = verify->options->prepare(verify->stream, verify->user);
    unwind.undo = NULL;
    leave_run(verify, depth);
    return say_whose(verify, status, &before, "ph_verify_options.prepare");
}

static ph_status capture_again(ph__verify *verify)
{
    const ph_capture_options options = {.pool = verify->pool,
                                        .mode = verify->graph->capture.mode,
                                        .enable_annotations = verify->graph->marks != NULL,
                                        .breadcrumbs = verify->graph->breadcrumbs,
                                        .compared = true,
                                        .record_at_end = true};
    ph__replay_allocator_rewind(verify->replay_allocator, verify->skip_held);
    ph_graph_destroy(verify->second);
    verify->second = NULL;
    PH_TRY(prepare_round(verify));
    PH_TRY(ph_graph_create(&verify->second, NULL));
    ph_error before;
    size_t depth;
    enter_run(verify, &before, &depth);
    inside in = {verify, depth, false};
    PH__UNWIND unwind = {abandon_run, &in};
    ph_status status =
        ph_graph_capture(verify->second, verify->stream, &options, verify->body, verify->user);
    unwind.undo = NULL;
    leave_run(verify, depth);
    return say_whose(verify, status, &before, "capturing body again");
}

/* Nothing runs. A body that leaves blocks out may have kept them since the capture: then what it
 * still asks for is not to be given those. */
ph_status ph__verify_capture(ph__verify *verify)
{
    size_t bytes;
    PH_TRY(capture_again(verify));
    if (ph__replay_allocator_unused(verify->replay_allocator) == 0)
        return PH_OK;
    size_t missed = ph__replay_allocator_missed(&bytes, verify->replay_allocator);
    verify->skip_held = true;
    PH_TRY(capture_again(verify));
    if (ph__replay_allocator_missed(&bytes, verify->replay_allocator) <= missed)
        return PH_OK;
    verify->skip_held = false;
    return capture_again(verify);
}

static ph_status run_body(ph__verify *verify)
{
    ph_error before, failure;
    size_t depth;
    PH_TRY(ph_pool_begin(verify->pool));
    enter_run(verify, &before, &depth);
    inside in = {verify, depth, true};
    PH__UNWIND unwind = {abandon_run, &in};
    ph_status status = verify->body(verify->stream, verify->user);
    unwind.undo = NULL;
    leave_run(verify, depth);
    (void)say_whose(verify, status, &before, "running body eagerly");
    ph__error_save(&failure);
    /* not where body has left a scope of its own open */
    ph_status ended = ph_pool_end(verify->pool);
    ph__pool_leave(verify->pool);
    if (status == PH_OK)
        return ended;
    ph__error_restore(&failure);
    return status;
}

ph_status ph__verify_eager(ph__verify *verify, ph__image *to)
{
    PH_TRY(ph__verify_write(verify, PH__POISON_NAN));
    PH_TRY(prepare_round(verify));
    ph__replay_allocator_rewind(verify->replay_allocator, verify->skip_held);
    ph_status status = run_body(verify);
    verify->missed = ph__replay_allocator_missed(&verify->missed_bytes, verify->replay_allocator);
    if (status != PH_OK)
        return status;
    PH_TRY(ph_device_synchronize(verify->graph->device));
    return ph__verify_read(verify, to);
}

/* ---- replays ---- */
static ph_status replay_graph(ph__verify *verify, ph_graph *graph, ph__image *to,
                              ph__poison_pattern poison)
{
    PH_TRY(ph__verify_write(verify, poison));
    PH_TRY(prepare_round(verify));
    PH_TRY(ph_graph_replay(graph, verify->stream));
    PH_TRY(ph_stream_synchronize(verify->stream));
    return ph__verify_read(verify, to);
}

ph_status ph__verify_replay(ph__verify *verify, ph__image *to, ph__poison_pattern poison)
{
    return replay_graph(verify, verify->graph, to, poison);
}

ph_status ph__verify_replay_second(ph__verify *verify, ph__image *to)
{
    return replay_graph(verify, verify->second, to, PH__POISON_NAN);
}

/* ---- nodes on and off ---- */
static void do_nothing(void *user)
{
    (void)user;
}

static bool can_switch(const ph__switches *switches, size_t node)
{
    const ph_graph *graph = switches->graph;
    ph_node_kind kind = graph->record->nodes[node].info.kind;
    return kind == PH_NODE_HOST ? switches->hosts
                                : kind <= PH_NODE_MEMSET && !ph__cells_are_written_by(graph, node);
}

static ph_status fail_switch(const ph__switches *switches, size_t node, int result,
                             const char *call)
{
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "switching a node");
    return ph__driver_fail(result, PH__NAME_GRAPH_NODE_SET_ENABLED, "%s: switching node %zu (%s)",
                           call, node, switches->graph->record->nodes[node].info.name);
}

ph_status ph__switches_make(ph__switches *switches, ph_graph *graph, const char *call)
{
    size_t count = graph->record->node_count;
    const ph__driver *driver = graph->device->driver;
    switches->graph = graph;
    switches->on = ph__calloc(count + 1, sizeof *switches->on);
    switches->now = ph__calloc(count + 1, sizeof *switches->now);
    if (switches->on == NULL || switches->now == NULL)
        return ph__fail_host_memory(call, "the switches of the nodes");
    switches->hosts = !graph->changed && !graph->hosts_changed;
    switches->count = count;
    for (size_t i = 0; i < count; i++) {
        const ph__record_node *node = &graph->record->nodes[i];
        int result = PH__R_OK;
        switches->on[i] = true;
        if (can_switch(switches, i) && node->info.kind != PH_NODE_HOST)
            result = driver->exec_get_enabled(&switches->on[i], graph->exec, node->handle);
        switches->now[i] = switches->on[i];
        if (result != PH__R_OK)
            return fail_switch(switches, i, result, call);
    }
    return PH_OK;
}

void ph__switches_free(ph__switches *switches)
{
    ph__free(switches->on);
    ph__free(switches->now);
}

/* A host function is taken out by another one in its place. */
static int set_node_enabled(const ph__switches *switches, size_t at, bool on)
{
    const ph_graph *graph = switches->graph;
    const ph__driver *driver = graph->device->driver;
    const ph__record_node *node = &graph->record->nodes[at];
    if (node->info.kind != PH_NODE_HOST)
        return driver->exec_set_enabled(graph->exec, node->handle, on);
    ph__drv_node_info info;
    const ph__drv_host none = {do_nothing, NULL};
    int result = on ? driver->node_info(&info, node->handle) : PH__R_OK;
    return result == PH__R_OK
               ? driver->exec_set_host(graph->exec, node->handle, on ? &info.host : &none)
               : result;
}

static ph_status switch_node(ph__switches *switches, size_t node, bool on, const char *call)
{
    if (switches->now[node] == on || !can_switch(switches, node))
        return PH_OK;
    switches->touched = true;
    int result = set_node_enabled(switches, node, on);
    if (result != PH__R_OK)
        return fail_switch(switches, node, result, call);
    switches->now[node] = on;
    return PH_OK;
}

/* On: those of [first, end) that were. */
static ph_status select_nodes(ph__switches *switches, size_t first, size_t end, const char *call)
{
    for (size_t i = 0; i < switches->count; i++)
        PH_TRY(switch_node(switches, i, switches->on[i] && i >= first && i < end, call));
    return PH_OK;
}

ph_status ph__switches_restore(ph__switches *switches, const char *call)
{
    ph_status first = PH_OK;
    ph_error failure;
    for (size_t i = 0; i < switches->count && switches->touched; i++) {
        ph_status status = switch_node(switches, i, switches->on[i], call);
        if (status != PH_OK && first == PH_OK) {
            ph__error_save(&failure);
            first = status;
        }
    }
    if (first != PH_OK)
        ph__error_restore(&failure);
    return first;
}

/* ---- parts ---- */
static ph_status launch_nodes(ph__verify *verify, ph__switches *switches)
{
    PH_TRY(prepare_round(verify));
    return ph_graph_replay(switches->graph, verify->stream);
}

/* ---- one after another ---- order NULL: that of the record. */
static size_t node_at(const size_t *order, size_t i)
{
    return order ? order[i] : i;
}

/* Whether a node begins after another one has ended, also where one launch runs both. Behind an
 * edge that is programmatic it may not. */
static bool follows_node(const ph__switches *switches, size_t node, size_t before)
{
    const ph__record_node *at = &switches->graph->record->nodes[node];
    for (size_t d = at->info.dependency_count; d-- > 0;)
        if (at->dependencies[d] == before)
            return at->dependency_kinds[d] == PH_EDGE_FULL;
    return false;
}

/* Nodes that edges chain in this order run one after another in a single launch, so that those
 * of one stream need no more. */
static size_t end_of_chain(const ph__switches *switches, const size_t *order, size_t first)
{
    size_t end = first + 1;
    while (end < switches->count &&
           follows_node(switches, node_at(order, end), node_at(order, end - 1)))
        end++;
    return end;
}

/* From the first on, all nodes being off. Replays of one executable come one after another. What
 * cannot be switched runs with each launch. */
static ph_status one_by_one(ph__verify *verify, ph__switches *switches, const size_t *order,
                            size_t first)
{
    for (size_t end; first < switches->count; first = end) {
        bool any = false;
        end = end_of_chain(switches, order, first);
        for (size_t i = first; i < end; i++) {
            size_t node = node_at(order, i);
            any = any || (switches->on[node] && can_switch(switches, node));
            PH_TRY(switch_node(switches, node, switches->on[node], verify->call));
        }
        if (any)
            PH_TRY(launch_nodes(verify, switches));
        for (size_t i = first; i < end; i++)
            PH_TRY(switch_node(switches, node_at(order, i), false, verify->call));
    }
    return PH_OK;
}

ph_status ph__verify_part(ph__verify *verify, ph__switches *switches, size_t count, bool then_rest,
                          ph__poison_pattern poison, ph__image *to)
{
    PH_TRY(ph__verify_write(verify, poison));
    if (count > 0) {
        PH_TRY(select_nodes(switches, 0, count, verify->call));
        PH_TRY(launch_nodes(verify, switches));
    }
    if (then_rest && count < switches->count) {
        PH_TRY(select_nodes(switches, 0, 0, verify->call));
        PH_TRY(one_by_one(verify, switches, NULL, count));
    }
    PH_TRY(ph_stream_synchronize(verify->stream));
    return ph__verify_read(verify, to);
}

ph_status ph__verify_in_order(ph__verify *verify, ph__switches *switches, const size_t *order,
                              ph__image *to)
{
    PH_TRY(ph__verify_write(verify, PH__POISON_NAN));
    PH_TRY(select_nodes(switches, 0, 0, verify->call));
    PH_TRY(one_by_one(verify, switches, order, 0));
    PH_TRY(ph_stream_synchronize(verify->stream));
    return ph__verify_read(verify, to);
}
