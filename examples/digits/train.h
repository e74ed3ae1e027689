/* SPDX-License-Identifier: MIT */
/* digits/train.h: the network on a device, one training step, and whole runs of it: eager, or
 * captured once and replayed. */
#ifndef DIGITS_TRAIN_H
#define DIGITS_TRAIN_H
#include "kernels.h"
#include "spread.h"
#include <phonograph/phonograph.h>

/* What a step is made of: launches of this program's kernels, or operators, modules and an
 * optimizer. */
enum form {
    FORM_KERNELS,
    FORM_MODULES
};

typedef struct trainer {
    enum form form;
    ph_device *device;
    ph_stream *main, *side;
    ph_event *loss_ready, *weights_read, *side_done;
    ph_kernel *kernels[KERNELS];
    /* net.h: of the form on modules, which has no kernels, weights and second stream here */
    struct net *net;
    ph_graph *graph; /* the captured step; NULL until the replayed run */

    size_t epochs, steps_per_epoch, steps;
    size_t train_count, test_count;
    float *test_pixels; /* host memory, as uploaded: for the report's pictures */
    uint32_t *test_labels;
    float *first_w1, *first_w2; /* host memory: what both runs start from */

    /* device memory */
    float *pixels, *held_out;
    uint32_t *labels, *order, *predicted;
    uint64_t *step;
    float *losses;
    float *w1, *w2, *velocity1, *velocity2;
} trainer;

/* Shuffles by seed, holds a quarter out, uploads everything. On failure nothing is left. */
ph_status trainer_create(trainer *t, enum form form, const char *device, const digits *data,
                         size_t epochs, uint64_t seed);
void trainer_destroy(trainer *t);

/* Back to the first weights and the first batch. */
ph_status trainer_reset(trainer *t);

/* What a run gives; all arrays are host memory. */
typedef struct run {
    const char *name;
    float *losses;        /* trainer.steps */
    float *weights;       /* WEIGHTS1, then WEIGHTS2 */
    uint32_t *predicted;  /* trainer.test_count */
    size_t right;         /* of them */
    double step_us;       /* the median over the rounds of compare_in_turns */
    double capture_us;    /* capture and instantiation; 0 for the eager run */
    uint64_t allocations; /* device allocations that its steps made */
    size_t pool_bytes,
        /* of the graph's private pool: taken, most in use; eager: of the whole device */
        pool_peak;
    size_t nodes, edges; /* of the captured graph; 0 for the eager run */
} run;

/* Called after each epoch with the mean loss of its batches. */
typedef void (*epoch_fn)(const run *r, size_t epoch, size_t epochs, float loss);

/* From the same start: a reset, then every step. On failure *out is empty. */
ph_status train_eagerly(run *out, trainer *t, epoch_fn progress);
ph_status train_replayed(run *out, trainer *t, epoch_fn progress);
/* Times of both runs' steps, measured in turns once both are over: on a busy machine what disturbs
 * one disturbs the other. ratio: eager, divided by replayed. */
ph_status compare_in_turns(spread *ratio, run *eager, run *replayed, trainer *t);
void run_free(run *r);
double run_accuracy(const run *r, const trainer *t); /* percent */

/* PH_OK when all losses and the final weights are the same bits; else says which step differs
 * first. */
ph_status runs_equal(const run *a, const run *b, const trainer *t);
#endif
