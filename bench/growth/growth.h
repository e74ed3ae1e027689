/* SPDX-License-Identifier: MIT */
/* bench/growth/growth.h: one case of bench/growth.c: something done n times, or to n things,
 * whose cost is drawn against n. */
#ifndef BENCH_GROWTH_GROWTH_H
#define BENCH_GROWTH_GROWTH_H
#include "host/timing.h"
#include <stdlib.h>

/* What the cases share, made anew for each n. */
typedef struct growth_world {
    ph_device *device;
    ph_stream *stream, *other;
    ph_kernel *kernel;
    float *x[64];
    size_t n;
    ph_graph *graph, *second;
    void **things; /* n of them, NULL at first */
    ph_pool *pool;
    char path[64];       /* of a file for the case */
    volatile int opened; /* lets a busy stream go */
} growth_world;

typedef struct growth_case {
    const char *name; /* one word */
    size_t first, last;
    void (*prepare)(growth_world *w); /* NULL: nothing */
    void (*work)(growth_world *w);    /* what is measured */
    void (*finish)(growth_world *w);  /* NULL: nothing */
} growth_case;

/* each up to one without a name */
extern const growth_case growth_nodes[], growth_graphs[], growth_blocks[];

/* A kernel, which the software libcuda of the tests, where it is the driver, is given too. */
ph_kernel *growth_kernel(ph_device *device, const ph_kernel_source *source);
/* A launch of the shared kernel, which adds one of the arrays to another. */
ph_status growth_launch(growth_world *w, ph_stream *stream, size_t i);
/* Holds `other` until growth_open. */
void growth_shut(growth_world *w);
void growth_open(growth_world *w);
/* Something in no order: 0 to n - 1, each once, as i goes through them. */
size_t growth_shuffled(size_t i, size_t n);
#endif
