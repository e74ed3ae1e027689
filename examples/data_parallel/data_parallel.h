/* SPDX-License-Identifier: MIT */
/* data_parallel/data_parallel.h: what the processes share, the sum over all ranks, and the
 * training of one rank. */
#ifndef DATA_PARALLEL_H
#define DATA_PARALLEL_H
#include "../graphed/common/common.h"
#include "nccl.h"
#include <pthread.h>

enum {
    MOST_RANKS = 8, /* a power of two */
    BATCH = 64,     /* images of a step, over all ranks */
    STEPS = 120,
    WARM_UP = 3,         /* eager steps before the capture */
    MOST_VALUES = 32768, /* of the gradients, with the loss */
    SKIPPED = 77         /* exit status: it could not run here, and has said why */
};

/* What a run left: the losses are those of whole batches. */
struct result {
    double losses[STEPS], right;
    float weights[MOST_VALUES];
    size_t values, nodes; /* weights; nodes of the graph */
    char collective[256]; /* those of them that the sum over the ranks became */
};

/* Mapped before the fork, so that all processes see the same memory. */
struct shared {
    pthread_barrier_t barrier; /* of as many processes as the team has */
    struct nccl_id id;         /* rank 0 makes it */
    float slots[MOST_RANKS][MOST_VALUES];
    struct result results[MOST_RANKS][2]; /* eager, one graph */
    struct result whole;                  /* one rank, eager, whole batches */
    unsigned gpus;
    int nccl; /* its version, as NCCL writes it: 22809 for 2.28.9; 0: there is none */
};

struct team {
    struct shared *shared;
    int ranks;
    bool reference; /* the one rank that trains on whole batches, eagerly */
    bool gpus;      /* rank r has "cuda:r"; else each opens the host device */
    const char *device;
    const char *data; /* NULL: the digits of examples/digits */
    int failing_step; /* in which the last rank gives up; -1: in none */
};

/* ---- train.c ---- the whole life of the process of one rank: comes back, with 0, when all went
 * well. */
int train_rank(const struct team *team, int rank);

/* ---- reduce.c ---- sum[i] = mine[i] over all ranks, the same bits on each. The buffers are
 * device memory, and stay where they are: the host device's function is told of them once. open
 * is collective: all ranks of the team open. */
struct reduce {
    struct shared *shared;
    int ranks, rank;
    const float *mine;
    float *sum;
    size_t count;
    ph_device *cuda; /* with NCCL: its context is the thread's from open to close */
    struct nccl *nccl;
    void *communicator;
};
ph_status reduce_open(struct reduce *r, const struct team *team, int rank, ph_device *device,
                      const float *mine, float *sum, size_t count);
/* Submits it to the stream, or captures it. */
ph_status reduce_all(struct reduce *r, ph_stream *stream);
/* Once every graph that has the sum in it is destroyed. Takes one that failed to open, too. */
ph_status reduce_close(struct reduce *r);
/* The version of the NCCL that can be loaded, or 0. */
int reduce_nccl_version(void);
#endif
