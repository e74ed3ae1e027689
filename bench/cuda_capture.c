/* SPDX-License-Identifier: MIT */
/* bench/cuda_capture.c: what capturing a hundred launches costs beside the driver's own capture
 * of the same, and what making the executable costs. */
#include "cuda/bench.h"

enum {
    LAUNCHES = 100
};
static const double limit = 2;

typedef struct state {
    bench *bench;
    ph_graph *graph;
    raw_graph native;
    raw_exec exec;
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
    ph_graph_destroy(s.graph);
    return bench_close(&b);
}
