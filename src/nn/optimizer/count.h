/* SPDX-License-Identifier: MIT */
/* nn/optimizer/count.h: the counters of parameters' steps: numbers on the device, or on the host
 * (not_capturable), from which an update takes what depends on the step. One launch derives that
 * before the updates, and changes nothing else; each update counts its own parameters on. A step
 * that fails in between has not counted. */
#ifndef PH_NN_OPTIMIZER_COUNT_H
#define PH_NN_OPTIMIZER_COUNT_H
#include "tensor/backend/kernels.h"

enum {
    PH__COUNT_SIZE = 8, /* numbers of one counter; optimizer_count.cu says which */
    PH__COUNT_KEPT = 2, /* of them kept beside the steps, from [1] on; the next ones behind them */
    PH__COUNT_DERIVED = 3,
    PH__COUNT_AT_NEXT = 1 + PH__COUNT_KEPT,
    PH__COUNT_AT_DERIVED = PH__COUNT_AT_NEXT + PH__COUNT_KEPT,
    PH__COUNT_NUMBERS = 5, /* of an optimizer's options */
    PH__COUNT_MASK = 32,   /* words of 64 parameters of one launch */
    PH__COUNT_THREADS = 128
};

/* Rules of the derived numbers; the CUDA text knows them by these values. */
typedef enum ph__count_rule {
    PH__COUNT_NOTHING,
    PH__COUNT_ADAM,
    PH__COUNT_NADAM,
    PH__COUNT_RADAM,
    PH__COUNT_ADAMAX,
    PH__COUNT_ASGD,
    PH__COUNT_ADAGRAD,
    PH__COUNT_FIRST
} ph__count_rule;

/* One thread a counter: those whose bit is set. */
typedef struct ph__count_args {
    double *counters;
    const uint64_t *lr_at; /* a cell with the bits of a double, or NULL: lr */
    double lr, number[PH__COUNT_NUMBERS];
    int64_t count;
    uint64_t mask[PH__COUNT_MASK];
    uint32_t rule;
} ph__count_args;
extern ph__kernel_def ph__count_kernel;
extern ph__kernel_def *const ph__count_kernels[]; /* NULL-terminated */

/* The same on the host. */
void ph__count_derive(double *counter, const double *number, double lr, ph__count_rule rule);
/* One step more, after its update. */
void ph__count_on(double *counter);
#endif
