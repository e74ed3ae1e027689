/* SPDX-License-Identifier: MIT */
/* bench/graph_replay.c: what a replay costs through the public calls: ph_graph_replay and
 * ph_stream_synchronize of captured graphs, beside the same kernels launched eagerly and beside a bare list
 * of function calls; and how often a replay allocates. */
#include "base/alloc.h"
#include <phonograph/phonograph.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_ROUNDS = 1000,
    LANES = 4
};

static int rounds = 21;

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != PH_OK) {                                                                               \
            (void)fprintf(stderr, "%s: %s\n", #call, ph_error_last()->message);                              \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static double median(double values[])
{
    qsort(values, (size_t)rounds, sizeof values[0], compare);
    return values[rounds / 2];
}

static void empty(const ph_block_range *range, const void *args)
{
    (void)range;
    (void)args;
}

typedef struct bench {
    ph_device *device;
    ph_stream *main, *side[LANES];
    ph_kernel *kernel;
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
    double start = now_ns();
    for (int r = 0; r < repeats; r++)
        for (int i = 0; i < nodes; i++)
            fn(&range, &argument);
    return (now_ns() - start) / repeats;
}

static double time_eager(bench *b, int repeats)
{
    double start = now_ns();
    for (int r = 0; r < repeats; r++) {
        OK(work(b->main, b));
        OK(ph_stream_synchronize(b->main));
    }
    return (now_ns() - start) / repeats;
}

static double time_replay(bench *b, ph_graph *graph, int repeats)
{
    double start = now_ns();
    for (int r = 0; r < repeats; r++) {
        OK(ph_graph_replay(graph, b->main));
        OK(ph_stream_synchronize(b->main));
    }
    return (now_ns() - start) / repeats;
}

static void measure(bench *b, const char *shape, int nodes, int lanes)
{
    double list[MOST_ROUNDS], eager[MOST_ROUNDS], replay[MOST_ROUNDS];
    ph_graph *graph;
    b->nodes = nodes;
    b->lanes = lanes;
    OK(ph_graph_create(&graph, NULL));
    double start = now_ns();
    OK(ph_graph_capture(graph, b->main, NULL, work, b));
    double capture = now_ns() - start;
    int repeats = 20000 / nodes + 1, eager_repeats = 2000 / nodes + 1;
    (void)time_replay(b, graph, 100);
    int64_t allocations = ph__alloc_count();
    (void)time_replay(b, graph, 100);
    allocations = ph__alloc_count() - allocations;
    for (int round = 0; round < rounds; round++) {
        list[round] = time_list(nodes, repeats);
        eager[round] = time_eager(b, eager_repeats);
        replay[round] = time_replay(b, graph, repeats);
    }
    double l = median(list), e = median(eager), r = median(replay);
    printf("%-10s %6d %10.0f %10.1f %12.0f %10.1f %10.1f %9.1fx %10lld\n", shape, nodes, l, capture / 1e3, e,
           r, r / nodes, e / r, (long long)allocations);
    ph_graph_destroy(graph);
}

static void print_machine(void)
{
    struct utsname system;
    char line[256], model[128] = "unknown processor";
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0)
            (void)sscanf(line, "model name : %127[^\n]", model);
    if (file)
        (void)fclose(file);
    (void)uname(&system);
    printf("%s, %ld processors; %s %s\n", model, sysconf(_SC_NPROCESSORS_ONLN), system.sysname,
           system.release);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        rounds = atoi(argv[1]);
    if (rounds < 1 || rounds > MOST_ROUNDS) {
        (void)fprintf(stderr, "usage: graph_replay [rounds, 1 to %d]\n", MOST_ROUNDS);
        return 2;
    }
    static const int sizes[] = {1, 10, 100, 1000, 10000};
    bench b = {0};
    ph_kernel_source source = {.name = "empty", .host = empty, .args_size = sizeof(uint64_t)};
    OK(ph_device_open(&b.device, "host", NULL));
    OK(ph_stream_create(&b.main, b.device, NULL));
    for (int i = 0; i < LANES; i++)
        OK(ph_stream_create(&b.side[i], b.device, NULL));
    OK(ph_kernel_create(&b.kernel, b.device, &source));
    print_machine();
    printf("medians of %d rounds, all sides in turn; ns but for capture; empty kernels; eager and replay "
           "each with one synchronize\n",
           rounds);
    printf("%-10s %6s %10s %10s %12s %10s %10s %10s %10s\n", "shape", "nodes", "list", "capture us", "eager",
           "replay", "a node", "eager/", "allocated");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        measure(&b, "chain", sizes[i], 1);
    for (size_t i = 1; i < sizeof sizes / sizeof sizes[0]; i++)
        measure(&b, "4 lanes", sizes[i], LANES);
    ph_kernel_release(b.kernel);
    for (int i = 0; i < LANES; i++)
        ph_stream_destroy(b.side[i]);
    ph_stream_destroy(b.main);
    ph_device_release(b.device);
    return 0;
}
