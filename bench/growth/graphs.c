/* SPDX-License-Identifier: MIT */
/* bench/growth/graphs.c: n graphs alive, each small, with pools of their own or in one pool; and
 * other things of which there are n. */
#include "growth/growth.h"

static ph_status body(ph_stream *stream, void *user)
{
    growth_world *w = user;
    if (w->pool) {
        float *scratch;
        PH_TRY(PH_NEW(&scratch, 64, stream));
        PH_TRY(ph_memset(scratch, 0, 256, stream));
        ph_free(scratch, stream);
    }
    return growth_launch(w, stream, 0);
}

static void work_capture(growth_world *w)
{
    const ph_capture_options options = {.pool = w->pool};
    for (size_t i = 0; i < w->n; i++) {
        ph_graph *graph;
        OK(ph_graph_create(&graph, NULL));
        OK(ph_graph_capture(graph, w->stream, &options, body, w));
        w->things[i] = graph;
    }
}

static void make_pool(growth_world *w)
{
    OK(ph_pool_create(&w->pool, w->device, NULL));
}

static void make_pool_and_capture(growth_world *w)
{
    make_pool(w);
    work_capture(w);
}

static void work_replay(growth_world *w)
{
    for (size_t i = 0; i < w->n; i++)
        OK(ph_graph_replay(w->things[i], w->stream));
    OK(ph_stream_synchronize(w->stream));
}

/* A capture and some memory between replays, as programs do that make graphs when they are first
 * needed. */
static void work_mixed(growth_world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        ph_graph *graph;
        void *block;
        OK(ph_graph_replay(w->things[i], w->stream));
        OK(ph_graph_create(&graph, NULL));
        OK(ph_graph_capture(graph, w->stream, NULL, body, w));
        ph_graph_destroy(graph);
        OK(ph_malloc(&block, 1, 4096, w->stream));
        ph_free(block, w->stream);
    }
}

static void work_destroy(growth_world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        ph_graph_destroy(w->things[growth_shuffled(i, w->n)]);
        w->things[growth_shuffled(i, w->n)] = NULL;
    }
}

static void finish_graphs(growth_world *w)
{
    for (size_t i = 0; i < w->n; i++)
        ph_graph_destroy(w->things[i]);
    if (w->pool)
        ph_pool_release(w->pool);
}

/* ---- pools ---- */
static void work_pools(growth_world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        ph_pool *pool;
        OK(ph_pool_create(&pool, w->device, NULL));
        w->things[i] = pool;
    }
    for (size_t i = 0; i < w->n; i++)
        ph_pool_release(w->things[growth_shuffled(i, w->n)]);
}

/* ---- hooks ---- */
static ph_status nothing(const ph_graph_hook_info *info, void *user)
{
    (void)info;
    (void)user;
    return PH_OK;
}

static void work_hooks(growth_world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        ph_hook *hook;
        OK(ph_graph_hook_add(&hook, NULL, PH_HOOK_DESTROY, nothing, NULL));
        w->things[i] = hook;
    }
    for (size_t i = 0; i < w->n; i++)
        ph_graph_hook_remove(w->things[growth_shuffled(i, w->n)]);
}

/* ---- distinct kernels of one graph ---- */
static void run_nothing(const ph_block_range *range, const void *args)
{
    (void)range;
    (void)args;
}

static void make_kernels(growth_world *w)
{
    const ph_kernel_source source = {.name = "kernel",
                                     .host = run_nothing,
                                     .cuda = "extern \"C\" __global__ void kernel(void) {}"};
    for (size_t i = 0; i < w->n; i++)
        w->things[i] = growth_kernel(w->device, &source);
    OK(ph_graph_create(&w->graph, NULL));
}

static ph_status launch_all(ph_stream *stream, void *user)
{
    const growth_world *w = user;
    for (size_t i = 0; i < w->n; i++)
        PH_TRY(ph_launch(stream, w->things[i], NULL, NULL, 0));
    return PH_OK;
}

static void work_kernels(growth_world *w)
{
    OK(ph_graph_capture(w->graph, w->stream, NULL, launch_all, w));
}

static void finish_kernels(growth_world *w)
{
    ph_graph_destroy(w->graph);
    for (size_t i = 0; i < w->n; i++)
        ph_kernel_release(w->things[i]);
}

/* ---- streams that fork from one and join it again ---- */
static void make_streams(growth_world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        ph_stream *stream;
        OK(ph_stream_create(&stream, w->device, NULL));
        w->things[i] = stream;
    }
    OK(ph_graph_create(&w->graph, NULL));
}

static ph_status fan(ph_stream *stream, void *user)
{
    growth_world *w = user;
    PH_TRY(growth_launch(w, stream, 0));
    for (size_t i = 0; i < w->n; i++) {
        PH_TRY(ph_stream_wait_stream(w->things[i], stream));
        PH_TRY(growth_launch(w, w->things[i], i));
    }
    for (size_t i = 0; i < w->n; i++)
        PH_TRY(ph_stream_wait_stream(stream, w->things[i]));
    return growth_launch(w, stream, 0);
}

static void work_fan(growth_world *w)
{
    OK(ph_graph_capture(w->graph, w->stream, NULL, fan, w));
}

static void finish_streams(growth_world *w)
{
    ph_graph_destroy(w->graph);
    for (size_t i = 0; i < w->n; i++)
        ph_stream_destroy(w->things[i]);
}

const growth_case growth_graphs[] = {
    {"graphs-capture", 1000, 100000, NULL, work_capture, finish_graphs},
    {"graphs-replay", 1000, 100000, work_capture, work_replay, finish_graphs},
    {"graphs-mixed", 1000, 100000, work_capture, work_mixed, finish_graphs},
    {"graphs-destroy", 1000, 100000, work_capture, work_destroy, finish_graphs},
    {"shared-capture", 1000, 100000, make_pool, work_capture, finish_graphs},
    {"shared-replay", 1000, 100000, make_pool_and_capture, work_replay, finish_graphs},
    {"shared-destroy", 1000, 100000, make_pool_and_capture, work_destroy, finish_graphs},
    {"pools", 1000, 100000, NULL, work_pools, NULL},
    {"hooks", 1000, 100000, NULL, work_hooks, NULL},
    {"kernels", 1000, 100000, make_kernels, work_kernels, finish_kernels},
    {"fan", 1000, 100000, make_streams, work_fan, finish_streams},
    {NULL, 0, 0, NULL, NULL, NULL},
};
