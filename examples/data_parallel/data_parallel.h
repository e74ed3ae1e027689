/* SPDX-License-Identifier: MIT */
/* data_parallel/data_parallel.h: the training of one rank, and what it left. */
#ifndef DATA_PARALLEL_H
#define DATA_PARALLEL_H
#include "../graphed/common/common.h"
#include <phonograph/collectives.h>

enum {
    BATCH = 64, /* images of a step, over all ranks */
    STEPS = 120,
    WARM_UP = 1,              /* eager steps before the capture */
    BUCKET_BYTES = 32 * 1024, /* of gradients: several buckets in so small a network */
    MOST_VALUES = 32768       /* of the weights */
};

/* What a run left: the losses are those of whole batches. */
struct result {
    double losses[STEPS], right;
    float weights[MOST_VALUES];
    size_t values; /* weights */
};

struct run {
    common *c;
    ph_comm *comm;             /* one rank: it trains on whole batches */
    bool graphed;              /* the step is one graph; else it runs eagerly */
    int failing_step;          /* before which the last rank gives up; -1: in none */
    size_t nodes, collectives; /* of the graph; those of them that sum over the ranks */
    char collective[256];      /* the name of the last one */
};

/* ---- train.c ---- all ranks of the communicator call it. */
ph_status train(struct run *run, struct result *result);
#endif
