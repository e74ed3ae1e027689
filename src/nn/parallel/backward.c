/* SPDX-License-Identifier: MIT */
/* nn/parallel/backward.c: the pass that reduces buckets as they become whole. */
#include "nn/parallel/backward.h"
#include "base/unwind.h"
#include "nn/parallel/check.h"
#include "nn/parallel/shards.h"
#include "tensor/tape/tape_error.h"
#include <phonograph/collectives.h>
#include <phonograph/graph.h>
#include <phonograph/operators.h>

static ph_status begin_collective(ph_tape *tape, const ph_data_parallel *parallel)
{
    PH_TRY(ph_tape_status(tape));
    return ph_stream_wait_stream(parallel->stream, ph_tape_stream(tape));
}

void ph__parallel_all_reduce(ph_tape *tape, const ph_data_parallel *parallel, const ph_tensor *x,
                             ph_reduce_op op)
{
    void *memory = ph_tensor_data(x);
    ph_status status = begin_collective(tape, parallel);
    if (status == PH_OK)
        status = ph_all_reduce(parallel->comm, memory, memory, (size_t)ph_tensor_count(x),
                               ph_tensor_dtype(x), op, parallel->stream);
    ph_tape_check(tape, status);
}

/* own: this rank's part of x. */
static void reduce_scatter(ph_tape *tape, const ph_data_parallel *parallel, const ph_tensor *x,
                           const ph_tensor *own, ph_reduce_op op)
{
    ph_status status = begin_collective(tape, parallel);
    if (status == PH_OK)
        status = ph_reduce_scatter(parallel->comm, ph_tensor_data(own), ph_tensor_data(x),
                                   (size_t)ph_tensor_count(own), ph_tensor_dtype(x), op,
                                   parallel->stream);
    ph_tape_check(tape, status);
}

/* Divided before it is rounded, as the sum of many ranks may be beyond f16. */
static void reduce_bucket(ph_tape *tape, const ph_data_parallel *parallel, const ph__bucket *bucket)
{
    const ph_tensor *x = bucket->reduced ? bucket->reduced : bucket->memory;
    ph_reduce_op op = bucket->reduced ? PH_REDUCE_SUM : PH_REDUCE_MEAN;
    if (bucket->reduced) {
        ph_tensor_scale(tape, bucket->memory, 1.0 / ph_comm_size(parallel->comm));
        ph_tensor_copy(tape, bucket->reduced, bucket->memory);
    }
    if (parallel->shards)
        reduce_scatter(tape, parallel, x, bucket->reduced ? bucket->own_reduced : bucket->own, op);
    else
        ph__parallel_all_reduce(tape, parallel, x, op);
}

/* ---- memory of graphs ---- */
static void release_tensor(void *tensor)
{
    ph_tensor_release(tensor);
}

static ph_status keep_tensor(ph_graph *graph, ph_tensor *x)
{
    if (x == NULL)
        return PH_OK;
    ph_status status = ph_graph_retain(graph, release_tensor, ph_tensor_retain(x), true);
    if (status != PH_OK)
        ph_tensor_release(x);
    return status;
}

static ph_status keep_in_graph(const ph_data_parallel *parallel, ph_graph *graph)
{
    for (size_t i = 0; i < parallel->buckets.count; i++) {
        PH_TRY(keep_tensor(graph, parallel->buckets.at[i].memory));
        PH_TRY(keep_tensor(graph, parallel->buckets.at[i].reduced));
    }
    return keep_tensor(graph, parallel->nonfinite);
}

void ph__parallel_keep(ph_tape *tape, const ph_data_parallel *parallel)
{
    ph_graph *graph;
    ph_status status = ph_tape_status(tape);
    if (status != PH_OK)
        return;
    status = ph_stream_capturing_graph(&graph, ph_tape_stream(tape));
    if (status == PH_OK && graph)
        status = keep_in_graph(parallel, graph);
    ph_tape_check(tape, status);
}

/* ---- a pass ---- */
/* All ranks reduce in the same order, whatever arrives first. */
static void reduce_whole_buckets(ph_tape *tape, ph_data_parallel *parallel)
{
    while (!ph__tape_failed(tape) && parallel->next < parallel->buckets.count) {
        const ph__bucket *bucket = &parallel->buckets.at[parallel->next];
        if (bucket->missing > 0)
            return;
        reduce_bucket(tape, parallel, bucket);
        parallel->next++;
    }
}

/* The sum of the gradient that the parameter has and the one of the pass; grad NULL: none. */
static void put_gradient(ph_tape *tape, const ph__bucket_part *part, ph_tensor *grad)
{
    ph_tensor *had = ph_tensor_grad(part->parameter);
    bool there = had && ph_tensor_data(had) == ph_tensor_data(part->view);
    if (had && !there)
        ph_tensor_copy(tape, part->view, had);
    if (had && grad)
        ph_tensor_add(tape, part->view, grad, 1);
    else if (grad)
        ph_tensor_copy(tape, part->view, grad);
    else if (!had)
        ph_tensor_fill(tape, part->view, 0);
}

static void accept_part(ph_tape *tape, ph__bucket_part *part, ph_tensor *grad)
{
    put_gradient(tape, part, grad);
    part->arrived = true;
    part->parallel->buckets.at[part->bucket].missing--;
    reduce_whole_buckets(tape, part->parallel);
}

/* The pass keeps the tensor as the gradient, without a launch, until it is over. */
ph_tensor *ph__bucket_part_arrives(ph_tape *tape, ph_tensor *grad, void *user)
{
    ph__bucket_part *part = user;
    if (!part->parallel->running || part->arrived)
        return grad;
    accept_part(tape, part, grad);
    ph_tape_check(tape, ph_tensor_set_grad(part->parameter, NULL));
    return grad;
}

/* A part that has not arrived counts as zero. */
static void accept_rest(ph_tape *tape, ph_data_parallel *parallel)
{
    for (size_t i = parallel->parts.count; i-- > 0 && !ph__tape_failed(tape);)
        if (!parallel->parts.at[i].arrived)
            accept_part(tape, &parallel->parts.at[i], NULL);
}

/* The means of all ranks become those of the active ones. */
static void rescale_bucket(ph_tape *tape, const ph_data_parallel *parallel,
                           const ph__bucket *bucket)
{
    ph_dtype wide = bucket->dtype == PH_DTYPE_F64 ? PH_DTYPE_F64 : PH_DTYPE_F32;
    ph_tensor *size = ph_full(tape, wide, PH_SHAPE(1), ph_comm_size(parallel->comm));
    ph_tensor *factor = ph_div(tape, size, ph_cast(tape, parallel->active, wide));
    ph_tensor *means = ph_cast(tape, bucket->own, wide);
    ph_tensor_copy(tape, bucket->own, ph_mul(tape, means, factor));
}

/* Behind the collectives. */
static void read_buckets(ph_tape *tape, const ph_data_parallel *parallel)
{
    for (size_t i = 0; i < parallel->buckets.count && !ph__tape_failed(tape); i++) {
        const ph__bucket *bucket = &parallel->buckets.at[i];
        size_t mark = ph_tape_scope_begin(tape);
        if (bucket->reduced)
            ph_tensor_copy(tape, bucket->own, bucket->own_reduced);
        if (parallel->divide_by_active)
            rescale_bucket(tape, parallel, bucket);
        ph_tape_scope_end(tape, mark, NULL, 0);
    }
}

void ph__parallel_wait(ph_tape *tape, const ph_data_parallel *parallel)
{
    ph_status status = ph_tape_status(tape);
    if (status == PH_OK)
        ph_tape_check(tape, ph_stream_wait_stream(ph_tape_stream(tape), parallel->stream));
}

void ph__parallel_pass_count_active(ph_tape *tape, ph_data_parallel *parallel, bool active)
{
    bool grad_enabled = ph_tape_set_grad_enabled(tape, false);
    ph_tensor_fill(tape, parallel->active, active);
    ph__parallel_all_reduce(tape, parallel, parallel->active, PH_REDUCE_SUM);
    ph__parallel_wait(tape, parallel);
    ph_tape_set_grad_enabled(tape, grad_enabled);
}

void ph__parallel_pass_begin(ph_data_parallel *parallel)
{
    for (size_t i = 0; i < parallel->parts.count; i++)
        parallel->parts.at[i].arrived = false;
    for (size_t i = 0; i < parallel->buckets.count; i++)
        parallel->buckets.at[i].missing = parallel->buckets.at[i].parts;
    parallel->next = 0;
    parallel->running = true;
}

void ph__parallel_pass_end(ph_tape *tape, ph_data_parallel *parallel)
{
    bool grad_enabled = ph_tape_set_grad_enabled(tape, false);
    accept_rest(tape, parallel);
    parallel->running = false;
    if (parallel->buckets.count > 0)
        ph__parallel_wait(tape, parallel);
    read_buckets(tape, parallel);
    if (parallel->shards)
        ph__shards_agree(tape, parallel);
    ph_tape_set_grad_enabled(tape, grad_enabled);
    for (size_t i = 0; i < parallel->parts.count && !ph__tape_failed(tape); i++) {
        const ph__bucket_part *part = &parallel->parts.at[i];
        ph_tape_check(tape,
                      ph_tensor_set_grad(part->parameter, parallel->shards ? NULL : part->view));
    }
}

/* The pass failed, or was left by an exception: this rank may have submitted fewer collectives than
 * others, whose next ones would meet those of another pass. A capture has submitted none. */
static void note_early_end(ph_data_parallel *parallel, const ph_tape *tape)
{
    bool alone = ph_comm_size(parallel->comm) == 1;
    parallel->running = false;
    parallel->broken = !alone && !ph_stream_is_capturing(ph_tape_stream(tape));
}

typedef struct running {
    ph_tape *tape;
    ph_data_parallel *parallel;
} running;

static void abandon_pass(void *what)
{
    const running *r = what;
    note_early_end(r->parallel, r->tape);
}

static void run_pass(ph_tape *tape, ph_data_parallel *parallel, ph_tensor *loss)
{
    running r = {tape, parallel};
    PH__UNWIND unwind = {abandon_pass, &r};
    ph__parallel_pass_begin(parallel);
    ph_backward(tape, loss);
    ph__parallel_pass_end(tape, parallel);
    unwind.undo = NULL;
    if (ph__tape_failed(tape))
        note_early_end(parallel, tape);
}

void ph_data_parallel_backward(ph_tape *tape, ph_data_parallel *parallel, ph_tensor *loss)
{
    if (tape == NULL)
        return;
    if (ph__tape_failed(tape)) {
        ph__tape_skip(tape);
        return;
    }
    if (!ph__parallel_pass_check(tape, parallel, "ph_data_parallel_backward"))
        return;
    if (parallel->local) {
        ph_backward(tape, loss);
        return;
    }
    if (parallel->active)
        ph__parallel_pass_count_active(tape, parallel, true);
    ph__parallel_keep(tape, parallel);
    run_pass(tape, parallel, loss);
}
