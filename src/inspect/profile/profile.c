/* SPDX-License-Identifier: MIT */
/* inspect/profile/profile.c: replays a graph while the driver takes down when each node runs. */
#include "inspect/profile/profile.h"
#include "base/option.h"
#include "base/unwind.h"
#include "device/capture/capture.h"
#include "device/capture/refuse.h"
#include "graph/lifecycle/graph.h"
#include "graph/memory/cells_replay.h"
#include "graph/object/graph.h"
#include "graph/slots/slots_life.h"
#include "inspect/profile/make.h"
#include "inspect/profile/segments.h"

static const char call[] = "ph_graph_profile";

enum {
    REPLAYS = 10,
    WARMUP = 2
};
#define MOST_BYTES ((size_t)1 << 30) /* of the times of all nodes */

/* While it runs. */
typedef struct run {
    ph_graph *graph;
    ph_stream *stream;
    ph_profile_options options; /* zeros replaced */
    ph_profile_source source;   /* which one it came to be */
    ph__drv_profile *profile;
    ph__map index; /* ph__drv_node -> ph__record_node */
    ph__profile_times times;
    size_t timed; /* nodes that take time, as far as is known before */
    bool *off;    /* by node: disabled */
} run;

static ph_status read_options(ph_profile_options *out, const ph_profile_options *options)
{
    *out = options ? *options : (ph_profile_options){0};
    if (!PH__RESERVED_OK(out))
        return ph__fail_reserved(call, "ph_profile_options");
    if ((unsigned)out->source > PH_PROFILE_EVENTS)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: source %d is none; see ph_profile_source", call,
                       (int)out->source);
    PH_TRY(ph__option_no_zero(out->replays, "replays", call));
    out->replays = out->replays ? out->replays : REPLAYS;
    out->warmup = (unsigned)ph__option_count(out->warmup, WARMUP);
    return PH_OK;
}

static ph_status check_profile(const ph_graph *graph, const ph_stream *stream)
{
    PH_TRY(ph__graph_check(graph, PH__CALL_PROFILE));
    PH_TRY(ph__stream_check(stream, call));
    if (stream->device != graph->device)
        return ph__fail_devices(call, "the graph", graph->device, "the stream", stream->device);
    PH_TRY(ph__capture_check_free(stream, call));
    return ph__rule_check(graph->device, PH__RULE_INSTANTIATE);
}

/* ---- replays ---- */

static ph_status replay_measured(const run *r)
{
    ph_status status = ph_graph_replay(r->graph, r->stream);
    if (status == PH_OK)
        status = ph_stream_synchronize(r->stream);
    if (status != PH_OK)
        ph__error_prefix("%s", call);
    return status;
}

/* A hook, or a callback of the graph's own, may have done anything to it. */
static ph_status check_ready(const ph_graph *graph)
{
    if (graph->state == PH_GRAPH_READY && graph->exec)
        return PH_OK;
    return ph_fail(PH_ERROR_STATE,
                   "%s: the graph is %s after a replay: a hook or a callback has changed it", call,
                   ph__graph_state_name(graph->state));
}

/* The copy that event nodes are put into is made of the template, which has not what was set
 * since. */
static ph_status refuse_changed(const ph_graph *graph)
{
    if (!graph->changed && !graph->hosts_changed)
        return PH_OK;
    return ph_fail(PH_ERROR_UNSUPPORTED,
                   "%s: with event nodes (PH_PROFILE_EVENTS) a copy of the graph as it was "
                   "captured would run, and its "
                   "nodes were set or updated since; instantiate it again, capture it again, or "
                   "use PH_PROFILE_CUPTI",
                   call);
}

static ph_status open_source(run *r, ph_profile_source wanted)
{
    const ph__driver *driver = r->graph->device->driver;
    ph_capture_mode mode;
    r->source = wanted;
    ph__relaxed_begin(r->graph->device, &mode);
    int result = driver->profile_open(&r->profile, r->graph->exec, &r->source);
    ph__relaxed_end(r->graph->device, mode);
    if (result == PH__R_NOT_SUPPORTED) {
        ph_status status =
            ph_fail(PH_ERROR_UNSUPPORTED, "%s: the nodes of this graph cannot be measured here: %s",
                    call, ph__driver_reason());
        ph__driver_clear_reason();
        return status;
    }
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the measuring of the nodes");
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_GRAPH_LAUNCH, "%s: the nodes cannot be measured",
                               call);
    if (r->source != PH_PROFILE_EVENTS)
        return PH_OK;
    /* The copy gets the executable's values of slots and cells as well. */
    PH_TRY(refuse_changed(r->graph));
    ph__slots_renew(r->graph, r->graph->record);
    ph__cells_renew(r->graph);
    return PH_OK;
}

static void close_source(run *r)
{
    if (!r->profile)
        return;
    ph_capture_mode mode;
    ph__relaxed_begin(r->graph->device, &mode);
    r->graph->device->driver->profile_close(r->profile);
    ph__relaxed_end(r->graph->device, mode);
    r->profile = NULL;
    /* Cells remember what the copy has. */
    if (r->source == PH_PROFILE_EVENTS)
        ph__cells_renew(r->graph);
}

/* The spans of the last replay; into: NULL, or the times of each node. */
static ph_status read_spans(run *r, ph__profile_time *into, size_t *known)
{
    const ph__drv_span *spans;
    size_t count;
    int result = r->graph->device->driver->profile_read(&spans, &count, r->profile);
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the times of the nodes");
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_EVENT_ELAPSED_TIME,
                               "%s: the times of the nodes cannot be read", call);
    *known = 0;
    for (size_t i = 0; i < count; i++) {
        const ph__record_node *node = ph__map_get(&r->index, (uintptr_t)spans[i].node);
        if (!node || r->off[node->info.index])
            continue;
        ++*known;
        if (into)
            into[node->info.index] = (ph__profile_time){spans[i].start_ns, spans[i].end_ns};
    }
    return PH_OK;
}

/* A first replay of each source is not counted: what it needs is made then. A source that says
 * nothing of any node is none. */
static ph_status start_run(run *r)
{
    size_t known = 0;
    PH_TRY(open_source(r, r->options.source));
    PH_TRY(replay_measured(r));
    PH_TRY(read_spans(r, NULL, &known));
    if (known > 0 || r->timed == 0 || r->source != PH_PROFILE_CUPTI)
        return PH_OK;
    close_source(r);
    if (r->options.source != PH_PROFILE_AUTO)
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: CUPTI gives no record of the graph's nodes; use PH_PROFILE_EVENTS",
                       call);
    PH_TRY(open_source(r, PH_PROFILE_EVENTS));
    PH_TRY(replay_measured(r));
    return read_spans(r, NULL, &known);
}

/* ---- around them ---- */

/* Nodes that do nothing are not measured, whatever the source says of them. */
static ph_status inspect_nodes(run *r)
{
    const ph_record *record = r->graph->record;
    r->off = ph__calloc(record->node_count + 1, sizeof *r->off);
    if (!r->off || !ph__map_reserve(&r->index, record->node_count))
        return ph__fail_host_memory(call, "the nodes of the graph");
    for (size_t i = 0; i < record->node_count; i++) {
        ph__record_node *node = &record->nodes[i];
        bool enabled = true;
        (void)ph__map_put(&r->index, (uintptr_t)node->handle, node);
        if (node->info.kind <= PH_NODE_MEMSET)
            PH_TRY(ph_graph_node_get_enabled(&enabled, r->graph, i));
        r->off[i] = !enabled || node->info.kind == PH_NODE_EMPTY;
        r->timed += enabled && node->info.kind <= PH_NODE_MEMSET;
    }
    return PH_OK;
}

/* Of each replay the times of all nodes, and what sorts the replays. */
static ph_status check_room(const run *r)
{
    size_t nodes = r->graph->record->node_count, one = (nodes + 2) * sizeof *r->times.at;
    if (r->options.replays <= MOST_BYTES / one)
        return PH_OK;
    return ph_fail(PH_ERROR_ARGUMENT,
                   "%s: %u replays of %zu node%s need %.1f GiB of memory for their times; ask for "
                   "fewer (%zu at "
                   "most)",
                   call, r->options.replays, nodes, nodes == 1 ? "" : "s",
                   (double)one * r->options.replays / (1 << 30), MOST_BYTES / one);
}

static ph_status make_room(run *r)
{
    PH_TRY(check_room(r));
    size_t nodes = r->graph->record->node_count, cells = nodes * r->options.replays;
    r->times.at = ph__calloc(cells + (cells == 0), sizeof *r->times.at);
    if (!r->times.at)
        return ph__fail_host_memory(call, "the times of the nodes");
    r->times.nodes = nodes;
    r->times.replays = r->options.replays;
    return PH_OK;
}

static ph_status measure_nodes(run *r)
{
    PH_TRY(check_room(r));
    for (unsigned i = 0; i < r->options.warmup; i++)
        PH_TRY(replay_measured(r));
    PH_TRY(check_ready(r->graph));
    PH_TRY(inspect_nodes(r));
    PH_TRY(make_room(r));
    PH_TRY(start_run(r));
    for (unsigned i = 0; i < r->options.replays; i++) {
        size_t known;
        PH_TRY(replay_measured(r));
        PH_TRY(check_ready(r->graph));
        PH_TRY(read_spans(r, r->times.at + i * r->times.nodes, &known));
    }
    return PH_OK;
}

static void finish_run(run *r)
{
    ph__map_free(&r->index);
    ph__free(r->off);
    ph__free(r->times.at);
    r->graph->bodies--;
    ph__graph_leave(r->graph);
}

/* A hook of the replays did not return. */
static void abandon_profile(void *what)
{
    run *r = what;
    close_source(r);
    finish_run(r);
}

ph_status ph_graph_profile(ph_profile **out, ph_graph *graph, ph_stream *stream,
                           const ph_profile_options *options)
{
    run r = {.graph = graph, .stream = stream};
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    PH_TRY(read_options(&r.options, options));
    PH_TRY(check_profile(graph, stream));
    if (graph->segments)
        return ph__profile_segments(out, graph, stream, &r.options, call);
    graph->bodies++; /* a destroy inside a hook waits */
    PH__UNWIND unwind = {abandon_profile, &r};
    ph_status status = measure_nodes(&r);
    unwind.undo = NULL;
    close_source(&r);
    if (status == PH_OK)
        status = ph__profile_make(out, graph->record, &r.times, r.source, call);
    finish_run(&r);
    return status;
}
