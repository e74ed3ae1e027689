/* SPDX-License-Identifier: MIT */
/* bench/cuda_rebind.c: giving the first kernel of a chain another address and replaying, beside cuGraphExecKernelNodeSetParams and
 * cuGraphLaunch. The driver's call crashes where no context is current; the library's does not, and what that costs is shown too. */
#include "cuda/bench.h"
#include <stdlib.h>

static const double limit = 1.1;

typedef struct state {
    bench *bench;
    ph_graph *graph;
    int32_t *inputs[2];
    unsigned turn;
    raw_exec exec;
    raw_node node;
} state;

/* Another input each time. */
static bench_args next(state *s)
{
    bench_args args = bench_link(s->bench, 0);
    args.x = s->inputs[s->turn++ % 2];
    return args;
}

static void rebind(void *user)
{
    state *s = user;
    bench_args args = next(s);
    OK(ph_graph_node_set_launch(s->graph, 0, &s->bench->config, &args, sizeof args));
    OK(ph_graph_replay(s->graph, s->bench->stream));
}

static void raw_rebind(void *user)
{
    state *s = user;
    bench_args args = next(s);
    void *params[] = {&args.x, &args.y, &args.n};
    raw_kernel_params launch = {.function = s->bench->function,
                                .grid = {BENCH_BLOCKS, 1, 1},
                                .block = {BENCH_THREADS, 1, 1},
                                .params = params};
    RAW_OK(raw.exec_set_kernel(s->exec, s->node, &launch));
    RAW_OK(raw.graph_launch(s->exec, s->bench->native));
}

static void wait(void *user)
{
    const state *s = user;
    bench_wait(s->bench);
}

static void drop_context(void *user)
{
    (void)user;
    RAW_OK(raw.set_current(NULL));
}

static void restore_context(void *user)
{
    const state *s = user;
    RAW_OK(raw.set_current(s->bench->context));
    bench_wait(s->bench);
}

static raw_node first_node(raw_graph graph, int nodes)
{
    size_t count = (size_t)nodes;
    raw_node *all = calloc(count, sizeof(raw_node)), first;
    if (!all) {
        perror("cuda_rebind");
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
    bench_side sides[] = {
        {.name = "phonograph", .run = rebind, .after = wait, .user = &s},
        {.name = "the driver", .run = raw_rebind, .after = wait, .user = &s, .limit = limit},
        {.name = "phonograph, no context",
         .before = drop_context,
         .run = rebind,
         .after = restore_context,
         .user = &s},
    };
    bench_compare(b, "set one, launch", nodes, sides, 3, 1);
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
    bench_open(&b, "cuda_rebind", 1001, argc, argv);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        measure(&b, sizes[i]);
    return bench_close(&b);
}
