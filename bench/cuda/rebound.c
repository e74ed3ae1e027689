/* SPDX-License-Identifier: MIT */
/* bench/cuda/rebound.c: a chain whose input is another one at every replay. */
#include "cuda/rebound.h"
#include <stdlib.h>

static raw_node first_node(const bench *b, raw_graph graph, int nodes)
{
    size_t count = (size_t)nodes;
    raw_node *all = calloc(count, sizeof(raw_node)), first;
    if (!all) {
        perror(b->name);
        exit(1);
    }
    RAW_OK(raw.graph_nodes(graph, all, &count));
    first = all[0];
    free(all);
    return first;
}

void rebound_open(rebound *r, bench *b, int nodes)
{
    *r = (rebound){.bench = b};
    for (int i = 0; i < 2; i++)
        OK(PH_NEW(&r->inputs[i], BENCH_ITEMS, b->stream));
    OK(ph_graph_create(&r->graph, NULL));
    OK(ph_graph_capture_begin(r->graph, b->stream, NULL));
    OK(ph_graph_capture_end(r->graph, bench_chain(b, nodes)));
    bench_raw_chain(b, nodes, &r->native, &r->exec);
    r->node = first_node(b, r->native, nodes);
}

void rebound_close(rebound *r)
{
    RAW_OK(raw.exec_destroy(r->exec));
    RAW_OK(raw.graph_destroy(r->native));
    ph_graph_destroy(r->graph);
    for (int i = 0; i < 2; i++)
        ph_free(r->inputs[i], NULL);
}

int32_t *rebound_next(rebound *r)
{
    return r->inputs[r->turn++ % 2];
}

void rebound_raw_set_and_launch(void *user)
{
    rebound *r = user;
    bench_args args = bench_link(r->bench, 0);
    args.x = rebound_next(r);
    void *params[] = {&args.x, &args.y, &args.n};
    raw_kernel_params launch = {.function = r->bench->function,
                                .grid = {BENCH_BLOCKS, 1, 1},
                                .block = {BENCH_THREADS, 1, 1},
                                .params = params};
    RAW_OK(raw.exec_set_kernel(r->exec, r->node, &launch));
    RAW_OK(raw.graph_launch(r->exec, r->bench->native));
}

void rebound_wait(void *user)
{
    const rebound *r = user;
    bench_wait(r->bench);
}
