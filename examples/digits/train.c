/* SPDX-License-Identifier: MIT */
/* digits/train.c: whole training runs, timed and counted, and their comparison. */
#include "train.h"
#include "net.h"
#include "step.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ROUNDS = 11,      /* of a comparison */
    SAMPLE_US = 20000 /* a round measures each of the two for at least so long */
};

static double now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* In the form that the trainer has. */
static ph_status one_step(ph_stream *stream, void *user)
{
    return ((trainer *)user)->net ? net_step(stream, user) : train_step(stream, user);
}

static ph_status submit_epoch(trainer *t, bool replay)
{
    for (size_t step = 0; step < t->steps_per_epoch; step++)
        PH_TRY(replay ? ph_graph_replay(t->graph, t->main) : one_step(t->main, t));
    return ph_stream_synchronize(t->main);
}

static ph_status allocations_so_far(uint64_t *out, const trainer *t)
{
    ph_memory_stats stats;
    PH_TRY(ph_memory_get_stats(&stats, t->device));
    *out = stats.allocation[PH_MEMORY_ALL].added;
    return PH_OK;
}

/* The losses come back after each epoch. */
static ph_status train_epochs(run *r, trainer *t, epoch_fn progress)
{
    uint64_t before, after;
    for (size_t epoch = 0; epoch < t->epochs; epoch++) {
        size_t first = epoch * t->steps_per_epoch;
        PH_TRY(allocations_so_far(&before, t));
        PH_TRY(submit_epoch(t, t->graph != NULL));
        PH_TRY(allocations_so_far(&after, t));
        r->allocations += after - before;

        size_t bytes = t->steps_per_epoch * sizeof *r->losses;
        PH_TRY(ph_memcpy(r->losses + first, t->losses + first, bytes, t->main));
        float sum = 0;
        for (size_t step = 0; step < t->steps_per_epoch; step++)
            sum += r->losses[first + step];
        if (progress)
            progress(r, epoch + 1, t->epochs, sum / (float)t->steps_per_epoch);
    }
    return PH_OK;
}

static ph_status predict(run *r, trainer *t)
{
    struct predict_args args = {t->held_out, t->w1, t->w2, t->predicted};
    ph_launch_config config = {.grid = {(uint32_t)t->test_count},
                               .block = {kernel_threads[K_PREDICT]}};
    PH_TRY(ph_launch(t->main, t->kernels[K_PREDICT], &config, &args, sizeof args));
    PH_TRY(ph_memcpy(r->predicted, t->predicted, t->test_count * sizeof *r->predicted, t->main));
    PH_TRY(ph_memcpy(r->weights, t->w1, WEIGHTS1 * sizeof *r->weights, t->main));
    PH_TRY(ph_memcpy(r->weights + WEIGHTS1, t->w2, WEIGHTS2 * sizeof *r->weights, t->main));
    return ph_stream_synchronize(t->main);
}

/* On the images that no step has seen. */
static ph_status evaluate(run *r, trainer *t)
{
    PH_TRY(t->net ? net_evaluate(r, t) : predict(r, t));
    for (size_t i = 0; i < t->test_count; i++)
        r->right += r->predicted[i] == t->test_labels[i];
    return PH_OK;
}

static ph_status train(run *r, trainer *t, epoch_fn progress)
{
    r->losses = calloc(t->steps, sizeof *r->losses);
    r->weights = calloc(WEIGHTS1 + WEIGHTS2, sizeof *r->weights);
    r->predicted = calloc(t->test_count, sizeof *r->predicted);
    ph_status st = PH_OK;
    if (!r->losses || !r->weights || !r->predicted)
        st = ph_fail(PH_ERROR_HOST_MEMORY, "no memory for the results of %zu steps", t->steps);
    if (st == PH_OK)
        st = train_epochs(r, t, progress);
    return st == PH_OK ? evaluate(r, t) : st;
}

static ph_status describe_eager(run *r, trainer *t)
{
    ph_memory_stats stats;
    PH_TRY(ph_memory_get_stats(&stats, t->device));
    r->pool_bytes = stats.reserved;
    r->pool_peak = stats.allocated_peak;
    return PH_OK;
}

static ph_status describe_graph(run *r, trainer *t)
{
    ph_pool *pool = NULL;
    const ph_record *record = NULL;
    ph_memory_stats stats;
    PH_TRY(ph_graph_pool(&pool, t->graph));
    PH_TRY(ph_pool_stats(&stats, pool));
    PH_TRY(ph_graph_record(&record, t->graph));
    r->pool_bytes = stats.reserved;
    r->pool_peak = stats.allocated_peak;
    r->nodes = ph_record_node_count(record);
    r->edges = ph_record_edge_count(record);
    return PH_OK;
}

ph_status train_eagerly(run *out, trainer *t, epoch_fn progress)
{
    *out = (run){.name = "eager"};
    ph_status st = trainer_reset(t);
    if (st == PH_OK)
        st = train(out, t, progress);
    if (st == PH_OK)
        st = describe_eager(out, t);
    if (st != PH_OK)
        run_free(out);
    return st;
}

static ph_status capture_and_train(run *r, trainer *t, epoch_fn progress)
{
    PH_TRY(trainer_reset(t));
    PH_TRY(ph_graph_create(&t->graph, NULL));
    double start = now_us();
    PH_TRY(ph_graph_capture(t->graph, t->main, NULL, one_step, t));
    r->capture_us = now_us() - start;
    PH_TRY(describe_graph(r, t));
    return train(r, t, progress);
}

ph_status train_replayed(run *out, trainer *t, epoch_fn progress)
{
    *out = (run){.name = "replayed"};
    ph_status st = capture_and_train(out, t, progress);
    if (st != PH_OK)
        run_free(out);
    return st;
}

/* ---- times ---- after both runs, so that neither has the cost of a first one. */

/* The mean step of whole epochs, as many as take long enough for the clock and the scheduler. The
 * losses and weights that they leave are nobody's any more; the batches begin anew each time. */
static ph_status measure_steps(double *step_us, trainer *t, bool replay)
{
    double total = 0;
    size_t steps = 0;
    while (total < SAMPLE_US) {
        PH_TRY(ph_memset(t->step, 0, sizeof *t->step, t->main));
        PH_TRY(ph_stream_synchronize(t->main));
        double start = now_us();
        PH_TRY(submit_epoch(t, replay));
        total += now_us() - start;
        steps += t->steps_per_epoch;
    }
    *step_us = total / (double)steps;
    return PH_OK;
}

ph_status compare_in_turns(spread *ratio, run *eager, run *replayed, trainer *t)
{
    double times[2][ROUNDS], ratios[ROUNDS], first;
    PH_TRY(measure_steps(&first, t, false)); /* what the runs left cold does not count */
    PH_TRY(measure_steps(&first, t, true));
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t turn = 0; turn < 2; turn++) {
            size_t which = (round + turn) % 2; /* neither is always the first of a round */
            PH_TRY(measure_steps(&times[which][round], t, which == 1));
        }
        ratios[round] = times[0][round] / times[1][round];
    }
    *ratio = spread_of(ratios, ROUNDS);
    eager->step_us = spread_of(times[0], ROUNDS).median;
    replayed->step_us = spread_of(times[1], ROUNDS).median;
    return PH_OK;
}

void run_free(run *r)
{
    free(r->losses);
    free(r->weights);
    free(r->predicted);
    *r = (run){0};
}

double run_accuracy(const run *r, const trainer *t)
{
    return 100.0 * (double)r->right / (double)t->test_count;
}

/* Bits, not values: a comparison of floats would call +0 and -0 equal, and a NaN different from
 * itself. */
static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

ph_status runs_equal(const run *a, const run *b, const trainer *t)
{
    for (size_t step = 0; step < t->steps; step++)
        if (bits_of(a->losses[step]) != bits_of(b->losses[step]))
            return ph_fail(
                PH_ERROR_MISMATCH,
                "the losses differ first at step %zu of %zu: %s %.9g (0x%08x), %s %.9g (0x%08x)",
                step + 1, t->steps, a->name, (double)a->losses[step], bits_of(a->losses[step]),
                b->name, (double)b->losses[step], bits_of(b->losses[step]));
    for (size_t i = 0; i < WEIGHTS1 + WEIGHTS2; i++)
        if (bits_of(a->weights[i]) != bits_of(b->weights[i]))
            return ph_fail(PH_ERROR_MISMATCH,
                           "all losses agree, but weight %zu differs at the end: %s %.9g, %s %.9g",
                           i, a->name, (double)a->weights[i], b->name, (double)b->weights[i]);
    return PH_OK;
}
