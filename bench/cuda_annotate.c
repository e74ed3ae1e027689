/* SPDX-License-Identifier: MIT */
/* bench/cuda_annotate.c: what annotations add to a capture on the GPU, from begin to end: 1,000
 * kernels in scopes of several shapes, beside the same kernels without scopes. */
#include "annotate.h"
#include "cuda/bench.h"

static const double limit = 1.15;

typedef struct state {
    bench *bench;
    ph_graph *graph;
    annotate_shape shape;
} state;

static ph_status launch(void *user, int i)
{
    const bench *b = user;
    bench_args args = bench_link(b, i);
    return ph_launch(b->stream, b->kernel, &b->config, &args, sizeof args);
}

static void plain(void *user)
{
    const state *s = user;
    OK(ph_graph_capture_begin(s->graph, s->bench->stream, NULL));
    for (int i = 0; i < ANNOTATE_NODES; i++)
        OK(launch(s->bench, i));
    OK(ph_graph_capture_end(s->graph, PH_OK));
}

static void annotated(void *user)
{
    const state *s = user;
    ph_capture_options options = {.enable_annotations = true};
    OK(ph_graph_capture_begin(s->graph, s->bench->stream, &options));
    OK(ph_graph_capture_end(s->graph, annotate_work(s->bench->stream, s->shape, launch, s->bench)));
}

static void reset(void *user)
{
    const state *s = user;
    bench_wait(s->bench);
    OK(ph_graph_reset(s->graph));
}

int main(int argc, char **argv)
{
    bench b;
    state s = {.bench = &b};
    ph_graph_options options = {.keep_graph = true};
    bench_open(&b, "cuda_annotate", 301, argc, argv);
    OK(ph_graph_create(&s.graph, &options));
    for (int shape = 0; shape < ANNOTATE_SHAPES; shape++) {
        s.shape = (annotate_shape)shape;
        bench_side sides[] = {
            {.name = "annotated", .run = annotated, .after = reset, .user = &s},
            {.name = "without scopes", .run = plain, .after = reset, .user = &s, .limit = limit},
        };
        bench_compare(&b, annotate_names[shape], ANNOTATE_NODES, sides, 2, 1);
    }
    ph_graph_destroy(s.graph);
    return bench_close(&b);
}
