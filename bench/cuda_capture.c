/* SPDX-License-Identifier: MIT */
/* bench/cuda_capture.c: what capturing a hundred launches costs beside the driver's own capture
 * of the same, and what making the executable costs; of kernels that the library did not load, the
 * end of a capture and an update. */
#include "cuda/bench.h"

enum {
    LAUNCHES = 100,
    FOREIGN = 203 /* kernels of one token of a decoder of ten layers */
};
static const double limit = 1.4;

typedef struct state {
    bench *bench;
    ph_graph *graph;
    raw_graph native;
    raw_exec exec;
    ph_graph *updated; /* whose executable takes what `graph` captures */
    raw_exec raw_updated;
    raw_stream ours; /* the library's stream, in the driver's form */
} state;

/* ---- begin to end ---- */
static void capture(void *user)
{
    const state *s = user;
    OK(ph_graph_capture_begin(s->graph, s->bench->stream, NULL));
    OK(ph_graph_capture_end(s->graph, bench_chain(s->bench, LAUNCHES)));
}

static void reset(void *user)
{
    const state *s = user;
    bench_wait(s->bench);
    OK(ph_graph_reset(s->graph));
}

static void raw_capture(void *user)
{
    state *s = user;
    const bench *b = s->bench;
    RAW_OK(raw.capture_begin(b->native, RAW_CAPTURE_GLOBAL));
    for (int i = 0; i < LAUNCHES; i++) {
        bench_args args = bench_link(b, i);
        bench_raw_launch(b, &args, b->native);
    }
    RAW_OK(raw.capture_end(b->native, &s->native));
}

static void raw_destroy(void *user)
{
    const state *s = user;
    RAW_OK(raw.graph_destroy(s->native));
}

/* ---- the executable ---- uploaded too, as the library does. */
static void instantiate(void *user)
{
    const state *s = user;
    OK(ph_graph_instantiate(s->graph));
}

static void raw_instantiate(void *user)
{
    state *s = user;
    RAW_OK(raw.instantiate(&s->exec, s->native, RAW_INSTANTIATE_FLAGS));
    RAW_OK(raw.upload(s->exec, s->bench->native));
}

static void raw_destroy_both(void *user)
{
    const state *s = user;
    bench_wait(s->bench);
    RAW_OK(raw.exec_destroy(s->exec));
    raw_destroy(user);
}

/* ---- kernels of other libraries ---- */
static void launch_foreign(const bench *b, raw_stream stream)
{
    for (int i = 0; i < FOREIGN; i++) {
        bench_args args = bench_link(b, i);
        bench_raw_launch(b, &args, stream);
    }
}

static void begin_foreign(void *user)
{
    const state *s = user;
    OK(ph_graph_capture_begin(s->graph, s->bench->stream, NULL));
    launch_foreign(s->bench, s->ours);
}

static void end_foreign(void *user)
{
    const state *s = user;
    OK(ph_graph_capture_end(s->graph, PH_OK));
}

static void raw_begin_foreign(void *user)
{
    const state *s = user;
    RAW_OK(raw.capture_begin(s->bench->native, RAW_CAPTURE_GLOBAL));
    launch_foreign(s->bench, s->bench->native);
}

static void raw_end_foreign(void *user)
{
    state *s = user;
    RAW_OK(raw.capture_end(s->bench->native, &s->native));
}

static void capture_foreign(void *user)
{
    begin_foreign(user);
    end_foreign(user);
}

static void raw_capture_foreign(void *user)
{
    raw_begin_foreign(user);
    raw_end_foreign(user);
}

static void update(void *user)
{
    const state *s = user;
    OK(ph_graph_update(s->updated, s->graph, NULL));
}

static void raw_update(void *user)
{
    const state *s = user;
    raw_update_result result;
    RAW_OK(raw.exec_update(s->raw_updated, s->native, &result));
}

static void open_foreign(state *s)
{
    OK(ph_stream_cuda(&s->ours, s->bench->stream));
    OK(ph_graph_create(&s->updated, NULL));
    OK(ph_graph_capture_begin(s->updated, s->bench->stream, NULL));
    launch_foreign(s->bench, s->ours);
    OK(ph_graph_capture_end(s->updated, PH_OK));
    raw_capture_foreign(s);
    RAW_OK(raw.instantiate(&s->raw_updated, s->native, RAW_INSTANTIATE_FLAGS));
    RAW_OK(raw.upload(s->raw_updated, s->bench->native));
    bench_wait(s->bench);
    raw_destroy(s);
}

static void measure_foreign(bench *b, state *s)
{
    open_foreign(s);
    bench_side ends[] = {
        {.name = "ph_graph_capture_end",
         .before = begin_foreign,
         .run = end_foreign,
         .after = reset,
         .user = s},
        {.name = "the driver",
         .before = raw_begin_foreign,
         .run = raw_end_foreign,
         .after = raw_destroy,
         .user = s},
    };
    bench_compare(b, "capture end, others'", FOREIGN, ends, 2, 1);
    bench_side updates[] = {
        {.name = "ph_graph_update",
         .before = capture_foreign,
         .run = update,
         .after = reset,
         .user = s},
        {.name = "the driver",
         .before = raw_capture_foreign,
         .run = raw_update,
         .after = raw_destroy,
         .user = s},
    };
    bench_compare(b, "update, others'", FOREIGN, updates, 2, 1);
    RAW_OK(raw.exec_destroy(s->raw_updated));
    ph_graph_destroy(s->updated);
}

int main(int argc, char **argv)
{
    bench b;
    state s = {.bench = &b};
    ph_graph_options options = {.keep_graph = true};
    bench_open(&b, "cuda_capture", 501, argc, argv);
    OK(ph_graph_create(&s.graph, &options));
    bench_side captures[] = {
        {.name = "phonograph, keep_graph", .run = capture, .after = reset, .user = &s},
        {.name = "the driver",
         .run = raw_capture,
         .after = raw_destroy,
         .user = &s,
         .limit = limit},
    };
    bench_compare(&b, "begin to end", LAUNCHES, captures, 2, 1);
    bench_side executables[] = {
        {.name = "ph_graph_instantiate",
         .before = capture,
         .run = instantiate,
         .after = reset,
         .user = &s},
        {.name = "the driver, with upload",
         .before = raw_capture,
         .run = raw_instantiate,
         .after = raw_destroy_both,
         .user = &s},
    };
    bench_compare(&b, "instantiate", LAUNCHES, executables, 2, 1);
    measure_foreign(&b, &s);
    ph_graph_destroy(s.graph);
    return bench_close(&b);
}
