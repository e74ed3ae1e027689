/* SPDX-License-Identifier: MIT */
/* bench/cuda_slots.c: replaying a chain whose input is a slot, with another address each time and with the same one, beside
 * cuGraphExecKernelNodeSetParams and cuGraphLaunch, which look nothing up. */
#include "cuda/bench.h"
#include <stddef.h>
#include <stdlib.h>

static const double limit = 1.15;

typedef struct state {
    bench *bench;
    ph_graph *graph;
    size_t slot;
    int32_t *inputs[2];
    unsigned turn;
    raw_exec exec;
    raw_node node;
} state;

/* Another input each time. */
static int32_t *next(state *s)
{
    return s->inputs[s->turn++ % 2];
}

static void replay_with(void *user)
{
    state *s = user;
    const ph_slot_value value = {s->slot, next(s)};
    OK(ph_graph_replay_with(s->graph, s->bench->stream, &value, 1));
}

static void replay_unchanged(void *user)
{
    state *s = user;
    const ph_slot_value value = {s->slot, s->inputs[0]};
    OK(ph_graph_replay_with(s->graph, s->bench->stream, &value, 1));
}

static void raw_set_and_launch(void *user)
{
    state *s = user;
    bench_args args = bench_link(s->bench, 0);
    args.x = next(s);
    void *params[] = {&args.x, &args.y, &args.n};
    raw_kernel_params launch = {.function = s->bench->function,
                                .grid = {BENCH_BLOCKS, 1, 1},
                                .block = {BENCH_THREADS, 1, 1},
                                .params = params};
    RAW_OK(raw.exec_set_kernel(s->exec, s->node, &launch));
    RAW_OK(raw.graph_launch(s->exec, s->bench->native));
}

static void raw_launch(void *user)
{
    const state *s = user;
    RAW_OK(raw.graph_launch(s->exec, s->bench->native));
}

static void wait(void *user)
{
    const state *s = user;
    bench_wait(s->bench);
}

static raw_node first_node(raw_graph graph, int nodes)
{
    size_t count = (size_t)nodes;
    raw_node *all = calloc(count, sizeof(raw_node)), first;
    if (!all) {
        perror("cuda_slots");
        exit(1);
    }
    RAW_OK(raw.graph_nodes(graph, all, &count));
    first = all[0];
    free(all);
    return first;
}

static void measure(bench *b, int nodes)
{
    state s = {.bench = b};
    raw_graph graph;
    OK(PH_NEW(&s.inputs[0], BENCH_ITEMS, b->stream));
    OK(PH_NEW(&s.inputs[1], BENCH_ITEMS, b->stream));
    OK(ph_graph_create(&s.graph, NULL));
    OK(ph_graph_capture_begin(s.graph, b->stream, NULL));
    OK(ph_graph_capture_end(s.graph, bench_chain(b, nodes)));
    bench_raw_chain(b, nodes, &graph, &s.exec);
    s.node = first_node(graph, nodes);
    const ph_slot_place place = {0, offsetof(bench_args, x)};
    OK(ph_graph_slot_declare_address(&s.slot, s.graph, "x", bench_link(b, 0).x, BENCH_ITEMS * sizeof(int32_t),
                                     &place, 1, NULL));
    bench_side changed[] = {
        {.name = "phonograph", .run = replay_with, .after = wait, .user = &s},
        {.name = "the driver", .run = raw_set_and_launch, .after = wait, .user = &s, .limit = limit},
    };
    bench_compare(b, "another address", nodes, changed, 2, 1);
    bench_side same[] = {
        {.name = "phonograph", .run = replay_unchanged, .after = wait, .user = &s},
        {.name = "the driver, launch alone", .run = raw_launch, .after = wait, .user = &s, .limit = limit},
    };
    bench_compare(b, "the same address", nodes, same, 2, 1);
    RAW_OK(raw.exec_destroy(s.exec));
    RAW_OK(raw.graph_destroy(graph));
    ph_graph_destroy(s.graph);
    ph_free(s.inputs[0], NULL);
    ph_free(s.inputs[1], NULL);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {1, 10, 100};
    bench b;
    bench_open(&b, "cuda_slots", 1001, argc, argv);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        measure(&b, sizes[i]);
    return bench_close(&b);
}
