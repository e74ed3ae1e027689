/* SPDX-License-Identifier: MIT */
/* bench/graph_annotate.c: what annotations add to a capture on the host device, from begin to
 * end: 1,000 kernels in scopes of several shapes, beside the same kernels without scopes. */
#include "annotate.h"
#include "clock.h"
#include "host/timing.h"
#include <malloc.h>

enum {
    MOST_ROUNDS = 10000
};
static const double limit = 1.15;
static int rounds = 301;

static void empty(const ph_block_range *range, const void *args)
{
    (void)range;
    (void)args;
}

typedef struct bench {
    ph_device *device;
    ph_stream *stream;
    ph_kernel *kernel;
    ph_graph *graph;
} bench;

static ph_status launch(void *user, int i)
{
    const bench *b = user;
    uint64_t argument = (uint64_t)i;
    return ph_launch(b->stream, b->kernel, NULL, &argument, sizeof argument);
}

static double time_plain(bench *b)
{
    double start = clock_now();
    OK(ph_graph_capture_begin(b->graph, b->stream, NULL));
    for (int i = 0; i < ANNOTATE_NODES; i++)
        OK(launch(b, i));
    OK(ph_graph_capture_end(b->graph, PH_OK));
    double took = clock_now() - start;
    OK(ph_graph_reset(b->graph));
    return took;
}

static double time_annotated(bench *b, annotate_shape shape)
{
    ph_capture_options options = {.enable_annotations = true};
    double start = clock_now();
    OK(ph_graph_capture_begin(b->graph, b->stream, &options));
    OK(annotate_work(b->stream, shape, launch, b));
    OK(ph_graph_capture_end(b->graph, PH_OK));
    double took = clock_now() - start;
    OK(ph_graph_reset(b->graph));
    return took;
}

/* 0, or 1 when a shape takes more than it may. */
static int measure(bench *b, bool keep)
{
    static double plain[MOST_ROUNDS], annotated[ANNOTATE_SHAPES][MOST_ROUNDS];
    ph_graph_options options = {.keep_graph = keep};
    int missed = 0;
    OK(ph_graph_create(&b->graph, &options));
    (void)time_plain(b);
    for (int round = 0; round < rounds; round++) {
        plain[round] = time_plain(b);
        for (int shape = 0; shape < ANNOTATE_SHAPES; shape++)
            annotated[shape][round] = time_annotated(b, (annotate_shape)shape);
    }
    double without = timing_median(plain, rounds);
    printf("%-22s %-14s %10.1f\n", keep ? "begin to end" : "and instantiated", "no scope",
           without / 1e3);
    for (int shape = 0; shape < ANNOTATE_SHAPES; shape++) {
        double with = timing_median(annotated[shape], rounds);
        bool over = with > limit * without;
        missed |= over;
        printf("%-22s %-14s %10.1f %8.3f%s\n", "", annotate_names[shape], with / 1e3,
               with / without, over ? "  more than 1.15" : "");
    }
    ph_graph_destroy(b->graph);
    return missed;
}

int main(int argc, char **argv)
{
    rounds = timing_rounds("graph_annotate", rounds, MOST_ROUNDS, argc, argv);
    /* Pages that are given back to the system between two captures, and faulted in again, would
     * be most of what is measured. */
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 30);
    bench b = {0};
    ph_kernel_source source = {.name = "empty", .host = empty, .args_size = sizeof(uint64_t)};
    OK(ph_device_open(&b.device, "host", NULL));
    OK(ph_stream_create(&b.stream, b.device, NULL));
    OK(ph_kernel_create(&b.kernel, b.device, &source));
    printf("captures of %d kernels, medians of %d rounds, all in turn\n%-22s %-14s %10s %8s\n",
           ANNOTATE_NODES, rounds, "from", "scopes", "us", "ratio");
    int missed = measure(&b, true);
    missed |= measure(&b, false);
    ph_kernel_release(b.kernel);
    ph_stream_destroy(b.stream);
    ph_device_release(b.device);
    return missed;
}
