/* SPDX-License-Identifier: MIT */
/* bench/graph_replay.c: what a replay costs through the public calls: ph_graph_replay and
 * ph_stream_synchronize of captured graphs, of kernels that are declared inline and of others,
 * beside the latter launched eagerly and beside a bare list of function calls; and how often a
 * replay allocates. */
#include "base/alloc.h"
#include "clock.h"
#include "host/timing.h"

enum {
    MOST_ROUNDS = 1000,
    LANES = 4
};

static int rounds = 21;

static void empty(const ph_block_range *range, const void *args)
{
    (void)range;
    (void)args;
}

typedef struct bench {
    ph_device *device;
    ph_stream *main, *side[LANES];
    ph_kernel *kernel; /* that `work` launches: one of these */
    ph_kernel *inlined, *handed;
    int nodes, lanes;
} bench;

static ph_status launch(const bench *b, ph_stream *stream)
{
    uint64_t argument = 0;
    return ph_launch(stream, b->kernel, NULL, &argument, sizeof argument);
}

/* nodes kernels: one chain, or `lanes` chains that fork from the main stream and join it again. */
static ph_status work(ph_stream *stream, void *user)
{
    const bench *b = user;
    if (b->lanes == 1) {
        for (int i = 0; i < b->nodes; i++)
            PH_TRY(launch(b, stream));
        return PH_OK;
    }
    PH_TRY(launch(b, stream));
    for (int lane = 0; lane < b->lanes; lane++)
        PH_TRY(ph_stream_wait_stream(b->side[lane], stream));
    for (int i = 1; i < b->nodes; i++)
        PH_TRY(launch(b, b->side[i % b->lanes]));
    for (int lane = 0; lane < b->lanes; lane++)
        PH_TRY(ph_stream_wait_stream(stream, b->side[lane]));
    return PH_OK;
}

static double time_list(int nodes, int repeats)
{
    static const ph_block_range range = {{1, 1, 1}, {1, 1, 1}, 0, 1, NULL};
    ph_host_kernel_fn volatile fn = empty;
    uint64_t argument = 0;
    double start = clock_now();
    for (int r = 0; r < repeats; r++)
        for (int i = 0; i < nodes; i++)
            fn(&range, &argument);
    return (clock_now() - start) / repeats;
}

static double time_eager(bench *b, int repeats)
{
    double start = clock_now();
    for (int r = 0; r < repeats; r++) {
        OK(work(b->main, b));
        OK(ph_stream_synchronize(b->main));
    }
    return (clock_now() - start) / repeats;
}

static double time_replay(bench *b, ph_graph *graph, int repeats)
{
    double start = clock_now();
    for (int r = 0; r < repeats; r++) {
        OK(ph_graph_replay(graph, b->main));
        OK(ph_stream_synchronize(b->main));
    }
    return (clock_now() - start) / repeats;
}

/* `work` with that kernel. Returns what the capture took. */
static double capture_of(bench *b, ph_graph **graph, ph_kernel *kernel)
{
    b->kernel = kernel;
    OK(ph_graph_create(graph, NULL));
    double start = clock_now();
    OK(ph_graph_capture(*graph, b->main, NULL, work, b));
    return clock_now() - start;
}

static void measure(bench *b, const char *shape, int nodes, int lanes)
{
    double list[MOST_ROUNDS], eager[MOST_ROUNDS], replay[MOST_ROUNDS], inlined[MOST_ROUNDS];
    ph_graph *graph, *inlined_graph;
    b->nodes = nodes;
    b->lanes = lanes;
    (void)capture_of(b, &inlined_graph, b->inlined);
    double capture = capture_of(b, &graph, b->handed);
    int repeats = 20000 / nodes + 1, eager_repeats = 2000 / nodes + 1;
    (void)time_replay(b, inlined_graph, 100);
    (void)time_replay(b, graph, 100);
    int64_t allocations = ph__alloc_count();
    (void)time_replay(b, graph, 100);
    allocations = ph__alloc_count() - allocations;
    for (int round = 0; round < rounds; round++) {
        list[round] = time_list(nodes, repeats);
        eager[round] = time_eager(b, eager_repeats);
        replay[round] = time_replay(b, graph, repeats);
        inlined[round] = time_replay(b, inlined_graph, repeats);
    }
    double l = timing_median(list, rounds), e = timing_median(eager, rounds),
           r = timing_median(replay, rounds), f = timing_median(inlined, rounds);
    printf("%-10s %6d %10.0f %10.1f %12.0f %10.1f %10.1f %10.1f %9.1fx %10lld\n", shape, nodes, l,
           capture / 1e3, e, r, f, f / nodes, e / r, (long long)allocations);
    ph_graph_destroy(inlined_graph);
    ph_graph_destroy(graph);
}

int main(int argc, char **argv)
{
    rounds = timing_rounds("graph_replay", rounds, MOST_ROUNDS, argc, argv);
    static const int sizes[] = {1, 10, 100, 1000, 10000};
    bench b = {0};
    ph_kernel_source source = {.name = "empty", .host = empty, .args_size = sizeof(uint64_t)};
    OK(ph_device_open(&b.device, "host", NULL));
    OK(ph_stream_create(&b.main, b.device, NULL));
    for (int i = 0; i < LANES; i++)
        OK(ph_stream_create(&b.side[i], b.device, NULL));
    OK(ph_kernel_create(&b.handed, b.device, &source));
    source.host_inline = true;
    OK(ph_kernel_create(&b.inlined, b.device, &source));
    timing_print_machine(b.device);
    printf("medians of %d rounds, all sides in turn; ns but for capture; empty kernels; eager and "
           "replay "
           "each with one synchronize\n",
           rounds);
    printf("%-10s %6s %10s %10s %12s %10s %10s %10s %10s %10s\n", "shape", "nodes", "list",
           "capture us", "eager", "replay", "inline", "a node", "eager/", "allocated");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        measure(&b, "chain", sizes[i], 1);
    for (size_t i = 1; i < sizeof sizes / sizeof sizes[0]; i++)
        measure(&b, "4 lanes", sizes[i], LANES);
    ph_kernel_release(b.inlined);
    ph_kernel_release(b.handed);
    for (int i = 0; i < LANES; i++)
        ph_stream_destroy(b.side[i]);
    ph_stream_destroy(b.main);
    ph_device_release(b.device);
    return 0;
}
