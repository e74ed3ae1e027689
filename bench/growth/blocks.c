/* SPDX-License-Identifier: MIT */
/* bench/growth/blocks.c: n blocks: alive, waiting for a busy stream, deferred in a capture,
 * pinned, each with a segment of its own. */
#include "growth/growth.h"

enum {
    SMALL = 512,
    LARGE = 12 << 20 /* gets a segment of its own */
};

static void make(growth_world *w, size_t bytes)
{
    for (size_t i = 0; i < w->n; i++)
        OK(ph_malloc(&w->things[i], 1, bytes, w->stream));
}

static void work_malloc(growth_world *w)
{
    make(w, SMALL);
}

static void work_segments(growth_world *w)
{
    make(w, LARGE);
}

static void work_free(growth_world *w)
{
    for (size_t i = 0; i < w->n; i++)
        ph_free(w->things[growth_shuffled(i, w->n)], w->stream);
}

static void work_free_anywhere(growth_world *w)
{
    for (size_t i = 0; i < w->n; i++)
        ph_free(w->things[growth_shuffled(i, w->n)], NULL);
}

static void free_and_trim(growth_world *w)
{
    work_free(w);
    OK(ph_memory_trim(w->device));
}

/* ---- waiting for a stream that is busy ---- */
static void work_wait(growth_world *w)
{
    for (size_t i = 0; i < w->n; i++) {
        void *block;
        OK(ph_malloc(&block, 1, SMALL, w->stream));
        OK(ph_record_stream(block, w->other));
        ph_free(block, w->stream);
    }
}

static void shut_and_wait(growth_world *w)
{
    growth_shut(w);
    work_wait(w);
}

static void work_beside(growth_world *w)
{
    void *block;
    for (size_t i = 0; i < w->n; i++) {
        OK(ph_malloc(&block, 1, SMALL, w->stream));
        ph_free(block, w->stream);
    }
}

static void shut_wait_and_open(growth_world *w)
{
    shut_and_wait(w);
    growth_open(w);
    OK(ph_stream_synchronize(w->other));
}

static void work_trim(growth_world *w)
{
    OK(ph_memory_trim(w->device));
}

static void open_and_trim(growth_world *w)
{
    growth_open(w);
    OK(ph_stream_synchronize(w->other));
    OK(ph_memory_trim(w->device));
}

/* ---- deferred in a capture: a forked stream uses each, and is joined at the end ---- */
static ph_status defer(ph_stream *stream, void *user)
{
    growth_world *w = user;
    float *block;
    PH_TRY(growth_launch(w, stream, 0));
    PH_TRY(ph_stream_wait_stream(w->other, stream));
    for (size_t i = 0; i < w->n; i++) {
        PH_TRY(PH_NEW(&block, 16, stream));
        PH_TRY(ph_memset(block, 0, 64, w->other));
        PH_TRY(ph_record_stream(block, w->other));
        ph_free(block, stream);
    }
    return ph_stream_wait_stream(stream, w->other);
}

static void make_graph(growth_world *w)
{
    OK(ph_graph_create(&w->graph, NULL));
}

static void work_defer(growth_world *w)
{
    OK(ph_graph_capture(w->graph, w->stream, NULL, defer, w));
}

static void finish_graph(growth_world *w)
{
    ph_graph_destroy(w->graph);
}

/* ---- pinned ---- */
static void work_pinned(growth_world *w)
{
    for (size_t i = 0; i < w->n; i++)
        OK(ph_malloc_pinned(&w->things[i], 1, SMALL, w->stream));
    for (size_t i = 0; i < w->n; i++)
        ph_free_pinned(w->things[growth_shuffled(i, w->n)], w->stream);
}

const growth_case growth_blocks[] = {
    {"malloc", 1000, 100000, NULL, work_malloc, work_free},
    {"free", 1000, 100000, work_malloc, work_free, NULL},
    {"free-anywhere", 1000, 100000, work_malloc, work_free_anywhere, NULL},
    {"segments", 1000, 31623, NULL, work_segments, free_and_trim},
    {"segments-trim", 1000, 31623, work_segments, free_and_trim, NULL},
    {"wait", 1000, 100000, growth_shut, work_wait, open_and_trim},
    {"beside-waiting", 1000, 100000, shut_and_wait, work_beside, open_and_trim},
    {"wait-over", 1000, 100000, shut_wait_and_open, work_trim, NULL},
    {"deferred", 1000, 100000, make_graph, work_defer, finish_graph},
    {"pinned", 1000, 100000, NULL, work_pinned, work_trim},
    {NULL, 0, 0, NULL, NULL, NULL},
};
