/* SPDX-License-Identifier: MIT */
/* bench/cuda_replay.c: ph_graph_replay beside a bare cuGraphLaunch: of the very same executable,
 * and of one that the driver alone captured; the launch by itself, and with waiting for its end. */
#include "cuda/bench.h"

static const double launch_limit = 1.1, end_limit = 1.01;

typedef struct state {
    bench *bench;
    ph_graph *graph;
    raw_exec same, own;
} state;

static void replay(void *user)
{
    const state *s = user;
    OK(ph_graph_replay(s->graph, s->bench->stream));
}

static void launch_same(void *user)
{
    const state *s = user;
    RAW_OK(raw.graph_launch(s->same, s->bench->native));
}

static void launch_own(void *user)
{
    const state *s = user;
    RAW_OK(raw.graph_launch(s->own, s->bench->native));
}

static void wait(void *user)
{
    const state *s = user;
    bench_wait(s->bench);
}

static void replay_and_wait(void *user)
{
    const state *s = user;
    replay(user);
    OK(ph_stream_synchronize(s->bench->stream));
}

static void launch_same_and_wait(void *user)
{
    const state *s = user;
    launch_same(user);
    RAW_OK(raw.stream_synchronize(s->bench->native));
}

static void launch_own_and_wait(void *user)
{
    const state *s = user;
    launch_own(user);
    RAW_OK(raw.stream_synchronize(s->bench->native));
}

static void measure(bench *b, int nodes, const char *what, const char *end)
{
    state s = {.bench = b};
    raw_graph graph;
    ph_graph_options options = {.keep_graph = true};
    OK(ph_graph_create(&s.graph, &options));
    OK(ph_graph_capture_begin(s.graph, b->stream, NULL));
    OK(ph_graph_capture_end(s.graph, bench_chain(b, nodes)));
    OK(ph_graph_instantiate(s.graph));
    OK(ph_graph_exec_cuda(&s.same, s.graph));
    bench_raw_chain(b, nodes, &graph, &s.own);
    bench_side launches[] = {
        {.name = "ph_graph_replay", .run = replay, .after = wait, .user = &s},
        {.name = "cuGraphLaunch, the same",
         .run = launch_same,
         .after = wait,
         .user = &s,
         .limit = launch_limit},
        {.name = "cuGraphLaunch, its own",
         .run = launch_own,
         .after = wait,
         .user = &s,
         .limit = launch_limit},
    };
    bench_compare(b, what, nodes, launches, 3, 1);
    bench_side ends[] = {
        {.name = "ph_graph_replay", .run = replay_and_wait, .user = &s},
        {.name = "cuGraphLaunch, the same",
         .run = launch_same_and_wait,
         .user = &s,
         .limit = end_limit},
        {.name = "cuGraphLaunch, its own",
         .run = launch_own_and_wait,
         .user = &s,
         .limit = end_limit},
    };
    bench_compare(b, end, nodes, ends, 3, 1);
    RAW_OK(raw.exec_destroy(s.own));
    RAW_OK(raw.graph_destroy(graph));
    ph_graph_destroy(s.graph);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {1, 10, 100, 1000};
    bench b;
    bench_open(&b, "cuda_replay", 1001, argc, argv);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        measure(&b, sizes[i], "launch", "launch and wait");
    /* Who has the stream's handle may capture on it: from here on the library asks the driver
     * each time. */
    raw_stream lent;
    OK(ph_stream_cuda(&lent, b.stream));
    for (size_t i = 0; i < 2; i++)
        measure(&b, sizes[2 * i], "launch, stream lent", "and wait, lent");
    return bench_close(&b);
}
