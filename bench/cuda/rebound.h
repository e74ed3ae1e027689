/* SPDX-License-Identifier: MIT */
/* bench/cuda/rebound.h: a chain whose input is another one at every replay, in the library's
 * form and in the driver's. */
#ifndef BENCH_CUDA_REBOUND_H
#define BENCH_CUDA_REBOUND_H
#include "cuda/bench.h"

typedef struct rebound {
    bench *bench;
    ph_graph *graph;
    int32_t *inputs[2];
    unsigned turn;
    raw_graph native;
    raw_exec exec;
    raw_node node; /* the first one of native */
} rebound;

void rebound_open(rebound *r, bench *b, int nodes);
void rebound_close(rebound *r);
/* The other input each time. */
int32_t *rebound_next(rebound *r);

/* ---- for sides ---- whose user is a rebound, or begins with one. */
/* cuGraphExecKernelNodeSetParams with the next input, then cuGraphLaunch. */
void rebound_raw_set_and_launch(void *user);
void rebound_wait(void *user);
#endif
