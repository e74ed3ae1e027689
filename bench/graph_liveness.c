/* SPDX-License-Identifier: MIT */
/* bench/graph_liveness.c: what check_input_liveness adds to a replay of 1,000 nodes with an
 * input each, on the host device: the same graph with and without it, and after memory has died
 * that only another graph reads; and what it adds to a capture. */
#include "clock.h"
#include "graph/inputs/liveness.h"
#include "graph/object/graph.h"
#include "host/timing.h"
#include "memory/observe/track.h"
#include <stdlib.h>

enum {
    NODES = 1000,
    MOST_ROUNDS = 20001,
    REPLAYS = 10 /* in one sample */
};
static const double limit_ns = 20;
static int rounds = 2001;

typedef struct args {
    const void *x;
} args;

static void empty(const ph_block_range *range, const void *user)
{
    (void)range;
    (void)user;
}

typedef struct bench {
    ph_device *device;
    ph_stream *stream;
    ph_kernel *kernel;
    void *inputs[NODES];
    ph_graph *graph;
    ph__watch another;
} bench;

static ph_status work(ph_stream *stream, void *user)
{
    const bench *b = user;
    for (int i = 0; i < NODES; i++) {
        args a = {b->inputs[i]};
        PH_TRY(ph_launch(stream, b->kernel, NULL, &a, sizeof a));
    }
    return PH_OK;
}

static double time_replays(bench *b)
{
    double start = clock_now();
    for (int i = 0; i < REPLAYS; i++) {
        OK(ph_graph_replay(b->graph, b->stream));
        OK(ph_stream_synchronize(b->stream));
    }
    return (clock_now() - start) / REPLAYS;
}

/* Memory dies that some other graph tracks. */
static void let_die(bench *b)
{
    ph_allocation where;
    void *brief;
    OK(ph_malloc(&brief, 1, 512, b->stream));
    OK(ph_memory_lookup(&where, b->device, brief));
    if (ph__memory_track(b->device, where.base, where.generation, &b->another) != PH__TRACKS)
        exit(1);
    ph_free(brief, b->stream);
    ph__memory_untrack(b->device, where.base, where.generation, &b->another);
}

static double time_capture(bench *b, bool check)
{
    const ph_capture_options options = {.check_input_liveness = check};
    ph_graph *graph;
    OK(ph_graph_create(&graph, NULL));
    double start = clock_now();
    OK(ph_graph_capture(graph, b->stream, &options, work, b));
    double taken = clock_now() - start;
    ph_graph_destroy(graph);
    return taken;
}

static void measure(bench *b)
{
    static double samples[3][MOST_ROUNDS], captures[2][MOST_ROUNDS];
    for (int round = 0; round < rounds; round++)
        for (int k = 0; k < 3; k++) {
            int side = (round + k) % 3;
            /* One graph, so that the sides differ in nothing else. */
            b->graph->liveness = side != 0;
            if (side == 2)
                let_die(b);
            samples[side][round] = time_replays(b);
        }
    b->graph->liveness = true;
    int all = rounds;
    rounds = rounds / 20 + 1;
    for (int round = 0; round < rounds; round++)
        for (int side = 0; side < 2; side++)
            captures[side][round] = time_capture(b, side == 1);
    double without_capture = timing_median(captures[0], rounds),
           with_capture = timing_median(captures[1], rounds);
    rounds = all;
    double without = timing_median(samples[0], rounds), with = timing_median(samples[1], rounds),
           after = timing_median(samples[2], rounds);
    printf("%d nodes, %d inputs, medians of %d rounds, ns a replay with its end\n", NODES, NODES,
           rounds);
    printf("%-44s %10.1f\n", "without the check", without);
    printf("%-44s %10.1f %+8.1f\n", "with it", with, with - without);
    printf("%-44s %10.1f %+8.1f\n", "with it, another graph's input freed before", after,
           after - without);
    printf("capture, us: %.1f without, %.1f with\n", without_capture / 1e3, with_capture / 1e3);
    printf("limit: %.0f ns: %s\n", limit_ns, with - without <= limit_ns ? "kept" : "NOT kept");
}

/* The check alone, which the noise of a replay hides. */
static void measure_alone(bench *b)
{
    enum {
        TIMES = 10000000
    };
    ph_graph *volatile graph = b->graph;
    unsigned how, looks = 0;
    double start = clock_now();
    for (int i = 0; i < TIMES; i++)
        looks += graph->liveness && ph__graph_must_check_live(graph, &how);
    printf("the check alone: %.2f ns (%u looks)\n", (clock_now() - start) / TIMES, looks);
}

int main(int argc, char **argv)
{
    static bench b;
    ph_kernel_source source = {
        .name = "empty", .host = empty, .args_size = sizeof(args), .host_inline = true};
    const ph_capture_options options = {.check_input_liveness = true};
    rounds = timing_rounds("graph_liveness", rounds, MOST_ROUNDS, argc, argv);
    OK(ph_device_open(&b.device, "host", NULL));
    OK(ph_stream_create(&b.stream, b.device, NULL));
    OK(ph_kernel_create(&b.kernel, b.device, &source));
    for (int i = 0; i < NODES; i++)
        OK(ph_malloc(&b.inputs[i], 1, 512, b.stream));
    OK(ph_graph_create(&b.graph, NULL));
    OK(ph_graph_capture(b.graph, b.stream, &options, work, &b));
    (void)time_replays(&b);
    measure(&b);
    measure_alone(&b);
    ph_graph_destroy(b.graph);
    for (int i = 0; i < NODES; i++)
        ph_free(b.inputs[i], b.stream);
    ph_kernel_release(b.kernel);
    ph_stream_destroy(b.stream);
    ph_device_release(b.device);
    return 0;
}
