/* SPDX-License-Identifier: MIT */
/* bench/cuda_breadcrumbs.c: replaying a chain of 1,000 nodes with 100 breadcrumbs in it,
 * switched off and on, beside the same chain with none; and a check of 256 MiB for NaN beside
 * reading them. */
#include "clock.h"
#include "cuda/bench.h"

enum {
    NODES = 1000,
    SCOPES = 50,
    NUMBERS = 64 << 20
};
static const double off_limit = 1.15;

typedef struct state {
    bench *bench;
    ph_graph *graph;
} state;

static void replay(void *user)
{
    const state *s = user;
    OK(ph_graph_replay(s->graph, s->bench->stream));
    OK(ph_stream_synchronize(s->bench->stream));
}

static void launch(void *user)
{
    const state *s = user;
    OK(ph_graph_replay(s->graph, s->bench->stream));
}

static void wait(void *user)
{
    const state *s = user;
    OK(ph_stream_synchronize(s->bench->stream));
}

static ph_status chain(const bench *b, bool scopes)
{
    for (int i = 0; i < NODES; i++) {
        bench_args args = bench_link(b, i);
        if (scopes && i % (NODES / SCOPES) == 0)
            PH_TRY(ph_annotation_push(b->stream, "layer", NULL));
        PH_TRY(ph_launch(b->stream, b->kernel, &b->config, &args, sizeof args));
        if (scopes && (i + 1) % (NODES / SCOPES) == 0)
            PH_TRY(ph_annotation_pop(b->stream));
    }
    return PH_OK;
}

static void capture(state *s, bench *b, bool breadcrumbs)
{
    const ph_capture_options options = {.enable_annotations = breadcrumbs,
                                        .breadcrumbs = breadcrumbs};
    *s = (state){.bench = b};
    OK(ph_graph_create(&s->graph, NULL));
    OK(ph_graph_capture_begin(s->graph, b->stream, &options));
    OK(ph_graph_capture_end(s->graph, chain(b, breadcrumbs)));
}

static void measure_breadcrumbs(bench *b)
{
    state with, without;
    capture(&with, b, true);
    capture(&without, b, false);
    bench_side launches[] = {
        {.name = "100 breadcrumbs, off", .run = launch, .after = wait, .user = &with},
        {.name = "none", .run = launch, .after = wait, .user = &without, .limit = off_limit},
    };
    bench_compare(b, "the launch", NODES, launches, 2, 1);
    bench_side off[] = {
        {.name = "100 breadcrumbs, off", .run = replay, .user = &with},
        {.name = "none", .run = replay, .user = &without, .limit = off_limit},
    };
    bench_compare(b, "to the end", NODES, off, 2, 1);
    OK(ph_graph_breadcrumbs_enable(with.graph, true));
    bench_side on[] = {
        {.name = "100 breadcrumbs, on", .run = replay, .user = &with},
        {.name = "none", .run = replay, .user = &without},
    };
    bench_compare(b, "to the end", NODES, on, 2, 1);
    double start = clock_now();
    OK(ph_graph_breadcrumbs_enable(with.graph, false));
    double off_ns = clock_now() - start;
    start = clock_now();
    OK(ph_graph_breadcrumbs_enable(with.graph, true));
    (void)printf("switching 100 breadcrumbs: off %.0f us, on %.0f us\n", off_ns / 1e3,
                 (clock_now() - start) / 1e3);
    ph_graph_destroy(with.graph);
    ph_graph_destroy(without.graph);
}

static void measure_check(bench *b)
{
    state s = {.bench = b}, copy = {.bench = b};
    float *x, *y;
    OK(PH_NEW(&x, NUMBERS, b->stream));
    OK(PH_NEW(&y, NUMBERS, b->stream));
    OK(ph_memset(x, 0, NUMBERS * sizeof *x, b->stream));
    OK(ph_graph_create(&s.graph, NULL));
    OK(ph_graph_create(&copy.graph, NULL));
    OK(ph_graph_capture_begin(s.graph, b->stream, NULL));
    OK(ph_graph_capture_end(s.graph, ph_finite_check(b->stream, x, PH_NUMBER_F32, NUMBERS, "x")));
    OK(ph_graph_capture_begin(copy.graph, b->stream, NULL));
    OK(ph_graph_capture_end(copy.graph, ph_memcpy(y, x, NUMBERS * sizeof *x, b->stream)));
    OK(ph_finite_enable(s.graph, true));
    bench_side sides[] = {
        {.name = "check of 256 MiB", .run = replay, .user = &s},
        {.name = "copy of them", .run = replay, .user = &copy},
    };
    bench_compare(b, "to the end", 1, sides, 2, 1);
    ph_graph_destroy(s.graph);
    ph_graph_destroy(copy.graph);
    ph_free(x, b->stream);
    ph_free(y, b->stream);
}

int main(int argc, char **argv)
{
    bench b;
    bench_open(&b, "cuda_breadcrumbs", 301, argc, argv);
    measure_breadcrumbs(&b);
    measure_check(&b);
    return bench_close(&b);
}
