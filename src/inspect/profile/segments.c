/* SPDX-License-Identifier: MIT */
/* inspect/profile/segments.c: the profile of a graph with breaks: events on the stream, around the
 * launch of each segment. A break takes the time between two segments, in which the device runs
 * what its function submits, or waits for the host. */
#include "inspect/profile/segments.h"
#include "base/alloc.h"
#include "base/unwind.h"
#include "graph/lifecycle/graph.h"
#include "inspect/profile/make.h"

#define MOST_BYTES ((size_t)1 << 30) /* of the times of all nodes */

typedef struct run {
    ph_graph *graph;
    ph_event **events; /* two for each segment */
    size_t count;
    ph__profile_times times;
} run;

static ph_status record_mark(void *user, ph_stream *stream, size_t place)
{
    const run *r = user;
    return ph_event_record(r->events[place], stream);
}

static ph_status make_events(run *r, unsigned replays, const char *call)
{
    size_t segments = r->graph->segments->list.count;
    r->times.nodes = 2 * segments - 1;
    r->times.replays = replays;
    if (replays > MOST_BYTES / (r->times.nodes * sizeof *r->times.at))
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: the times of %u replays of %zu segments take more than 1 GiB; ask for "
                       "fewer",
                       call, replays, segments);
    r->events = ph__calloc(2 * segments, sizeof *r->events);
    r->times.at = ph__calloc(r->times.nodes * replays, sizeof *r->times.at);
    if (!r->events || !r->times.at)
        return ph__fail_host_memory(call, "the times of the segments");
    for (; r->count < 2 * segments; r->count++)
        PH_TRY(ph_event_create(&r->events[r->count], r->graph->device,
                               &(ph_event_options){.timing = true}));
    return PH_OK;
}

static ph_status replay_segments(const run *r, ph_stream *stream)
{
    PH_TRY(ph_graph_replay(r->graph, stream));
    return ph_stream_synchronize(stream);
}

/* Of the last replay: place i of the marks begins node i and ends the one before. The clock of one
 * replay begins 1 ns after nothing, as two zeros mean that a time is not known. */
static ph_status read_times(const run *r, ph__profile_time *into)
{
    uint64_t before = 1;
    for (size_t i = 0; i < r->times.nodes; i++) {
        float milliseconds;
        PH_TRY(ph_event_elapsed(&milliseconds, r->events[0], r->events[i + 1]));
        uint64_t now = 1 + (uint64_t)((double)milliseconds * 1e6);
        into[i] = (ph__profile_time){before, now > before ? now : before};
        before = into[i].end_ns;
    }
    return PH_OK;
}

static ph_status measure_segments(run *r, ph_stream *stream, const ph_profile_options *options,
                                  const char *call)
{
    PH_TRY(make_events(r, options->replays, call));
    for (unsigned i = 0; i < options->warmup; i++)
        PH_TRY(replay_segments(r, stream));
    r->graph->segments->mark_user = r;
    r->graph->segments->mark = record_mark;
    for (unsigned i = 0; i < options->replays; i++) {
        PH_TRY(replay_segments(r, stream));
        PH_TRY(read_times(r, r->times.at + i * r->times.nodes));
    }
    return PH_OK;
}

static void finish_run(void *what)
{
    run *r = what;
    if (r->graph->segments)
        r->graph->segments->mark = NULL;
    while (r->count)
        ph_event_destroy(r->events[--r->count]);
    ph__free(r->events);
    ph__free(r->times.at);
    r->graph->bodies--;
    ph__graph_leave(r->graph);
}

ph_status ph__profile_segments(ph_profile **out, ph_graph *graph, ph_stream *stream,
                               const ph_profile_options *options, const char *call)
{
    run r = {.graph = graph};
    if (options->source == PH_PROFILE_DEVICE || options->source == PH_PROFILE_CUPTI)
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: the graph has breaks, and its segments are measured by events; use "
                       "PH_PROFILE_EVENTS, or profile a graph of ph_graph_segment alone",
                       call);
    graph->bodies++; /* a destroy inside a function waits */
    PH__UNWIND unwind = {finish_run, &r};
    ph_status status = measure_segments(&r, stream, options, call);
    unwind.undo = NULL;
    if (status == PH_OK)
        status = ph__profile_make(out, graph->record, &r.times, PH_PROFILE_EVENTS, call);
    else
        ph__error_prefix("%s", call);
    finish_run(&r);
    return status;
}
