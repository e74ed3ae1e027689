/* SPDX-License-Identifier: MIT */
/* bench/cuda/bench.h: what the GPU benchmarks share: a device with a kernel in the library's and
 * in the driver's form, sides that are timed in turn, tables and JSON lines. */
#ifndef BENCH_CUDA_BENCH_H
#define BENCH_CUDA_BENCH_H
#include "cuda/raw.h"
#include <phonograph/phonograph.h>
#include <stdio.h>

enum {
    BENCH_NO_GPU = 77, /* exit status */
    BENCH_MOST_SIDES = 4,
    BENCH_BLOCKS = 4,
    BENCH_THREADS = 256,
    BENCH_ITEMS = BENCH_BLOCKS * BENCH_THREADS
};

#define OK(call) bench_check((call), #call)
void bench_check(ph_status status, const char *call);

/* The kernel: y[i] = x[i] + 1. */
typedef struct bench_args {
    const int32_t *x;
    int32_t *y;
    uint32_t n;
} bench_args;

typedef struct bench {
    const char *name;
    int rounds;
    FILE *json;      /* NULL: not asked for */
    bool headed;     /* the table's head was printed */
    double clock_ns; /* what two looks at the clock take: taken off every sample */
    ph_device *device;
    ph_stream *stream;
    ph_kernel *kernel;
    ph_launch_config config;
    int32_t *cells[2]; /* BENCH_ITEMS each */
    /* The driver's side: a stream of its own, the same text loaded once more. The primary
     * context is current. */
    raw_context context;
    raw_stream native;
    raw_module module;
    raw_function function;
} bench;

/* name [rounds] [file that JSON lines are appended to]. Ends the program with 77 and one line
 * where there is no GPU. */
void bench_open(bench *b, const char *name, int rounds, int argc, char **argv);
int bench_close(bench *b); /* the exit status */

/* The i-th launch of a chain that goes to and fro between the cells. */
bench_args bench_link(const bench *b, int i);
ph_status bench_chain(const bench *b, int nodes);
void bench_raw_launch(const bench *b, const bench_args *args, raw_stream stream);
/* A captured and instantiated chain of the driver's own; graph is the caller's, as the exec. */
void bench_raw_chain(const bench *b, int nodes, raw_graph *graph, raw_exec *exec);
void bench_wait(const bench *b);

/* ---- sides ---- run is timed; before and after may be NULL. The first side is the library's;
 * limit: the most that the first one may take, as a multiple of this one (of the first itself:
 * in nanoseconds); 0: none. */
typedef struct bench_side {
    const char *name;
    void (*before)(void *user), (*run)(void *user), (*after)(void *user);
    void *user;
    double limit;
    double low, median, high; /* nanoseconds: the 10th, 50th and 90th of 100 samples */
} bench_side;
/* All sides in turn, each round beginning with another one; `count` runs of what is counted are
 * in one run. Prints a line a side. */
void bench_compare(bench *b, const char *what, int nodes, bench_side *sides, size_t side_count,
                   int count);
#endif
