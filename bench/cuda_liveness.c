/* SPDX-License-Identifier: MIT */
/* bench/cuda_liveness.c: what check_input_liveness adds to a replay of 1,000 nodes with an input
 * each: of the library's own memory, and of memory from cuMemAlloc, which the driver is asked
 * about at every 64th replay. */
#include "cuda/bench.h"
#include "graph/object/graph.h"
#include <stdlib.h>

enum {
    NODES = 1000
};
static const double limit_ns = 20;

typedef struct state {
    bench *bench;
    ph_graph *graph;
    int32_t *inputs[NODES];
    bool foreign;
} state;

static ph_status work(ph_stream *stream, void *user)
{
    const state *s = user;
    for (int i = 0; i < NODES; i++) {
        const bench_args args = {s->inputs[i], s->bench->cells[0], BENCH_ITEMS};
        PH_TRY(ph_launch(stream, s->bench->kernel, &s->bench->config, &args, sizeof args));
    }
    return PH_OK;
}

static void replay(void *user)
{
    const state *s = user;
    OK(ph_graph_replay(s->graph, s->bench->stream));
}

static void check(void *user)
{
    ((state *)user)->graph->liveness = true;
}

static void leave(void *user)
{
    ((state *)user)->graph->liveness = false;
}

static void wait(void *user)
{
    bench_wait(((state *)user)->bench);
}

static int32_t *take(const state *s)
{
    void *at = NULL;
    if (!s->foreign)
        OK(ph_malloc(&at, BENCH_ITEMS, sizeof(int32_t), s->bench->stream));
    else if (s->bench->device->driver->plain_alloc(&at, s->bench->device->handle,
                                                   BENCH_ITEMS * sizeof(int32_t)))
        exit(1);
    return at;
}

static void give(const state *s, int32_t *at)
{
    if (!s->foreign)
        ph_free(at, s->bench->stream);
    else if (s->bench->device->driver->plain_free(s->bench->device->handle, at))
        exit(1);
}

static bool measure(bench *b, bool foreign, const char *what)
{
    const ph_capture_options options = {.check_input_liveness = true};
    state s = {.bench = b, .foreign = foreign};
    for (int i = 0; i < NODES; i++)
        s.inputs[i] = take(&s);
    OK(ph_graph_create(&s.graph, NULL));
    OK(ph_graph_capture(s.graph, b->stream, &options, work, &s));
    /* One graph, so that the sides differ in nothing else. */
    bench_side sides[] = {
        {.name = "with the check", .before = check, .run = replay, .after = wait, .user = &s},
        {.name = "without", .before = leave, .run = replay, .after = wait, .user = &s},
    };
    bench_compare(b, what, NODES, sides, 2, 1);
    double added = sides[0].median - sides[1].median;
    printf("%s: the check adds %.1f ns; limit %.0f: %s\n", what, added, limit_ns,
           added <= limit_ns ? "kept" : "NOT kept");
    bench_wait(b);
    ph_graph_destroy(s.graph);
    for (int i = 0; i < NODES; i++)
        give(&s, s.inputs[i]);
    return added <= limit_ns;
}

int main(int argc, char **argv)
{
    bench b;
    bench_open(&b, "cuda_liveness", 4001, argc, argv);
    bool kept = measure(&b, false, "own memory");
    kept = measure(&b, true, "from cuMemAlloc") && kept;
    int status = bench_close(&b);
    return status ? status : !kept;
}
