/* SPDX-License-Identifier: MIT */
/* inspect/verify/verdict.c: whether a graph is worth having: the same work eagerly and by
 * replay, in turns. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/line.h"
#include "base/option.h"
#include "base/unwind.h"
#include "device/capture/capture.h"
#include "device/capture/refuse.h"
#include "graph/lifecycle/graph.h"
#include "graph/object/graph.h"
#include <phonograph/inspect/profile.h>
#include <stdlib.h>

static const char call[] = "ph_graph_verdict";

enum {
    ROUNDS = 10,
    /* The cost of a graph launch itself, which an eager run of a few nodes does not have. */
    LAUNCH_NS = 10000
};

/* One way of doing the work. */
typedef struct work {
    ph_graph *graph;
    ph_stream *stream;
    ph_capture_fn body; /* NULL: a replay */
    void *user;
} work;

typedef struct sample {
    uint64_t host_ns, total_ns;
} sample;

static void end_scopes(void *depth)
{
    ph_annotation_unwind(*(const size_t *)depth);
}

static ph_status submit_round(const work *w)
{
    if (w->body == NULL)
        return ph_graph_replay(w->graph, w->stream);
    /* Scopes that it leaves open, a failed one too, would pile up round by round. */
    size_t depth = ph_annotation_depth();
    PH__UNWIND unwind = {end_scopes, &depth};
    ph_status status = w->body(w->stream, w->user);
    unwind.undo = NULL;
    ph_annotation_unwind(depth);
    return status;
}

/* A failure of the library names its call; the body's own words stay as they are. */
static ph_status measure_sample(sample *out, const work *w)
{
    uint64_t start = ph__now_ns();
    ph_status status = submit_round(w);
    uint64_t submitted = ph__now_ns();
    if (status != PH_OK) {
        if (!w->body)
            ph__error_prefix("%s", call);
        return status;
    }
    status = ph_stream_synchronize(w->stream);
    if (status != PH_OK)
        ph__error_prefix("%s", call);
    *out = (sample){submitted - start, ph__now_ns() - start};
    return status;
}

/* Replays behind each other: the device has the next one before it is done with the last, where
 * it can. */
static ph_status measure_device(uint64_t *out, const work *replays, unsigned rounds)
{
    uint64_t start = ph__now_ns();
    for (unsigned i = 0; i < rounds; i++) {
        ph_status status = submit_round(replays);
        if (status != PH_OK) {
            ph__error_prefix("%s", call);
            return status;
        }
    }
    PH_TRY(ph_stream_synchronize(replays->stream));
    *out = (ph__now_ns() - start) / rounds;
    return PH_OK;
}

static int compare_times(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t median_of(uint64_t *values, unsigned count)
{
    qsort(values, count, sizeof *values, compare_times);
    return values[(count - 1) / 2];
}

/* Rounds of both in turns, so that what disturbs one disturbs the other. values: room for four
 * times the rounds. */
static ph_status measure_both(ph_verdict *out, const work *eager, const work *replays,
                              unsigned rounds, uint64_t *values)
{
    uint64_t *eager_total = values, *eager_host = values + rounds,
             *total = values + 2 * (size_t)rounds, *host = values + 3 * (size_t)rounds;
    sample one;
    PH_TRY(measure_sample(&one, eager)); /* the cost of a first run does not count */
    PH_TRY(measure_sample(&one, replays));
    for (unsigned i = 0; i < rounds; i++) {
        PH_TRY(measure_sample(&one, eager));
        eager_total[i] = one.total_ns;
        eager_host[i] = one.host_ns;
        PH_TRY(measure_sample(&one, replays));
        total[i] = one.total_ns;
        host[i] = one.host_ns;
    }
    PH_TRY(measure_device(&out->device_ns, replays, rounds));
    out->eager_ns = median_of(eager_total, rounds);
    out->eager_host_ns = median_of(eager_host, rounds);
    out->replay_ns = median_of(total, rounds);
    out->replay_host_ns = median_of(host, rounds);
    return PH_OK;
}

/* ---- words ---- */

static void put_time(char out[32], uint64_t ns)
{
    if (ns < 10000)
        ph__line_format(out, 32, "%.2f us", (double)ns / 1e3);
    else if (ns < 1000000)
        ph__line_format(out, 32, "%.0f us", (double)ns / 1e3);
    else if (ns < 1000000000)
        ph__line_format(out, 32, "%.2f ms", (double)ns / 1e6);
    else
        ph__line_format(out, 32, "%.2f s", (double)ns / 1e9);
}

static void put_bytes(char out[32], size_t bytes)
{
    if (bytes < 1024)
        ph__line_format(out, 32, "%zu bytes", bytes);
    else if (bytes < (size_t)1 << 20)
        ph__line_format(out, 32, "%.1f KiB", (double)bytes / 1024);
    else if (bytes < (size_t)1 << 30)
        ph__line_format(out, 32, "%.1f MiB", (double)bytes / (1 << 20));
    else
        ph__line_format(out, 32, "%.2f GiB", (double)bytes / (1 << 30));
}

/* The work of the graph; of two measurements, the one with less disturbance. */
static uint64_t work_of(const ph_verdict *v)
{
    return v->device_ns < v->replay_ns ? v->device_ns : v->replay_ns;
}

/* No eager run of that work is over so much sooner than the work itself. */
static bool is_other_work(const ph_verdict *v)
{
    return v->eager_ns < work_of(v) / 2 && work_of(v) - v->eager_ns > LAUNCH_NS;
}

static void put_first(char *out, size_t size, const ph_verdict *v)
{
    char eager[32], replay[32];
    put_time(eager, v->eager_ns);
    put_time(replay, v->replay_ns);
    double ratio = (double)v->eager_ns / (double)(v->replay_ns ? v->replay_ns : 1);
    if (v->replay_ns < v->eager_ns)
        ph__line_format(out, size, "replaying takes %s instead of %s eager (%.*f times as fast)",
                        replay, eager, ratio < 1.095 ? 2 : 1, ratio);
    else
        ph__line_format(out, size, "replaying takes %s, no less than the eager run's %s", replay,
                        eager);
}

/* A device that needs longer than the host may still gain: between small kernels it waits,
 * launched one by one. */
static void put_why(char *out, size_t size, const ph_verdict *v)
{
    char eager[32], host[32], device[32], done[32];
    put_time(eager, v->eager_ns);
    put_time(host, v->eager_host_ns);
    put_time(device, v->device_ns);
    put_time(done, work_of(v));
    if (v->bound == PH_BOUND_LAUNCH)
        ph__line_format(
            out, size,
            "the eager run is launch-bound: the host needs %s to submit what the device does in %s",
            host, device);
    else if (v->worth)
        ph__line_format(out, size,
                        "the host submits in %s, so that it is not what the eager run waits for; "
                        "launched one by "
                        "one the device needs %s for what it replays in %s",
                        host, eager, done);
    else
        ph__line_format(
            out, size,
            "the eager run is device-bound: the device needs %s for what the host submits in %s",
            device, host);
}

static void put_sentence(ph_verdict *v)
{
    char eager[32], device[32], bytes[32], first[120], why[200];
    if (is_other_work(v)) {
        put_time(eager, v->eager_ns);
        put_time(device, work_of(v));
        ph__line_format(
            v->sentence, sizeof v->sentence,
            "the eager run takes %s, but the graph's work %s: body does not do what was captured "
            "(ph_graph_verify shows where)",
            eager, device);
        return;
    }
    put_bytes(bytes, v->bytes);
    put_first(first, sizeof first, v);
    put_why(why, sizeof why, v);
    ph__line_format(v->sentence, sizeof v->sentence, "%s: %s; the graph takes %s, which is %s",
                    first, why, bytes,
                    v->worth ? "worth it where it is replayed often" : "not worth it");
}

/* ---- the call ---- */

static ph_status check_verdict(unsigned *rounds, const ph_graph *graph, const ph_stream *stream,
                               ph_capture_fn body, const ph_verdict_options *options)
{
    if (options && !PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_verdict_options");
    *rounds = options && options->rounds ? options->rounds : ROUNDS;
    PH_TRY(ph__option_no_zero(*rounds, "rounds", call));
    PH_TRY(ph__graph_check(graph, PH__CALL_VERDICT));
    PH_TRY(ph__stream_check(stream, call));
    if (stream->device != graph->device)
        return ph__fail_devices(call, "the graph", graph->device, "the stream", stream->device);
    if (body == NULL)
        return ph__fail_null(call, "body");
    PH_TRY(ph__capture_check_free(stream, call));
    return ph__rule_check(graph->device, PH__RULE_STREAM_SYNC_OTHER);
}

static ph_status count_bytes(ph_verdict *out, ph_graph *graph)
{
    ph_graph_memory memory;
    PH_TRY(ph_graph_get_memory(&memory, graph));
    out->bytes = memory.pool_reserved + memory.executable + memory.executable_host +
                 memory.template_host + memory.cells;
    return PH_OK;
}

/* The graph keeps it, for the record that is written later. */
static ph_status judge_profile(ph_verdict *v, ph_graph *graph)
{
    v->bound = v->eager_host_ns >= v->device_ns ? PH_BOUND_LAUNCH : PH_BOUND_DEVICE;
    v->worth = !is_other_work(v) && v->eager_ns > v->replay_ns &&
               v->eager_ns - v->replay_ns > v->eager_ns / 20;
    put_sentence(v);
    if (graph->verdict == NULL)
        graph->verdict = ph__calloc(1, sizeof *graph->verdict);
    if (graph->verdict == NULL)
        return ph__fail_host_memory(call, "the verdict");
    *graph->verdict = *v;
    return PH_OK;
}

typedef struct measuring {
    ph_graph *graph;
    uint64_t *values;
} measuring;

/* A function of the user's did not return. */
static void abandon_verdict(void *what)
{
    const measuring *m = what;
    ph__free(m->values);
    m->graph->bodies--;
    ph__graph_leave(m->graph);
}

ph_status ph_graph_verdict(ph_verdict *out, ph_graph *graph, ph_stream *stream, ph_capture_fn body,
                           void *user, const ph_verdict_options *options)
{
    unsigned rounds = 0;
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = (ph_verdict){0};
    PH_TRY(check_verdict(&rounds, graph, stream, body, options));
    const work eager = {graph, stream, body, user}, replays = {graph, stream, NULL, NULL};
    uint64_t *values = ph__calloc(rounds, 4 * sizeof *values);
    if (values == NULL)
        return ph__fail_host_memory(call, "the times of the rounds");
    ph_verdict v = {0};
    graph->bodies++; /* a destroy inside body, or inside a hook, waits */
    measuring m = {graph, values};
    PH__UNWIND unwind = {abandon_verdict, &m};
    ph_status status = measure_both(&v, &eager, &replays, rounds, values);
    unwind.undo = NULL;
    ph__free(values);
    if (status == PH_OK)
        status = count_bytes(&v, graph);
    if (status == PH_OK)
        status = judge_profile(&v, graph);
    graph->bodies--;
    ph__graph_leave(graph);
    if (status == PH_OK)
        *out = v;
    return status;
}
