/* SPDX-License-Identifier: MIT */
/* nn/parallel/backward.c: the pass that reduces buckets as they become whole. */
#include "nn/parallel/backward.h"
#include "base/status.h"
#include "tensor/tape/tape_error.h"
#include <phonograph/collectives.h>
#include <phonograph/operators.h>

/* All ranks reduce in the same order, whatever arrives first. */
static void reduce_whole_buckets(ph_tape *tape, ph_data_parallel *parallel)
{
    while (!ph__tape_failed(tape) && parallel->next < parallel->buckets.count) {
        const ph__bucket *bucket = &parallel->buckets.at[parallel->next];
        void *memory = ph_tensor_data(bucket->memory);
        if (bucket->missing > 0)
            return;
        ph_status status = ph_stream_wait_stream(parallel->stream, ph_tape_stream(tape));
        if (status == PH_OK)
            status = ph_all_reduce(parallel->comm, memory, memory, (size_t)bucket->count,
                                   bucket->dtype, PH_REDUCE_MEAN, parallel->stream);
        ph_tape_check(tape, status);
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

static void take_part(ph_tape *tape, ph__bucket_part *part, ph_tensor *grad)
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
    if (!part->parallel->active || part->arrived)
        return grad;
    take_part(tape, part, grad);
    ph_tape_check(tape, ph_tensor_set_grad(part->parameter, NULL));
    return grad;
}

static void begin_pass(ph_data_parallel *parallel)
{
    for (size_t i = 0; i < parallel->parts.count; i++)
        parallel->parts.at[i].arrived = false;
    for (size_t i = 0; i < parallel->buckets.count; i++)
        parallel->buckets.at[i].missing = parallel->buckets.at[i].parts;
    parallel->next = 0;
    parallel->active = true;
}

static void end_pass(ph_tape *tape, ph_data_parallel *parallel)
{
    bool grad_enabled = ph_tape_set_grad_enabled(tape, false);
    for (size_t i = parallel->parts.count; i-- > 0 && !ph__tape_failed(tape);)
        if (!parallel->parts.at[i].arrived)
            take_part(tape, &parallel->parts.at[i], NULL);
    parallel->active = false;
    ph_tape_set_grad_enabled(tape, grad_enabled);
    if (ph__tape_failed(tape) || parallel->buckets.count == 0)
        return;
    ph_tape_check(tape, ph_stream_wait_stream(ph_tape_stream(tape), parallel->stream));
    for (size_t i = 0; i < parallel->parts.count && !ph__tape_failed(tape); i++)
        ph_tape_check(
            tape, ph_tensor_set_grad(parallel->parts.at[i].parameter, parallel->parts.at[i].view));
}

static bool check_call(ph_tape *tape, const ph_data_parallel *parallel)
{
    static const char call[] = "ph_data_parallel_backward";
    if (ph__tape_failed(tape)) {
        ph__tape_skip(tape);
        return false;
    }
    if (parallel == NULL)
        ph_tape_check(tape, ph__fail_null(call, "parallel"));
    else if (parallel->active)
        ph_tape_fail(tape, PH_ERROR_STATE, "%s: called from inside of its own pass", call);
    else if (ph_tape_device(tape) != ph_module_device(parallel->module))
        ph_tape_fail(tape, PH_ERROR_WRONG_DEVICE, "%s: the tape is of another device than %s", call,
                     ph_module_name(parallel->module));
    return !ph__tape_failed(tape);
}

void ph_data_parallel_backward(ph_tape *tape, ph_data_parallel *parallel, ph_tensor *loss)
{
    if (tape == NULL || !check_call(tape, parallel))
        return;
    if (parallel->local) {
        ph_backward(tape, loss);
        return;
    }
    begin_pass(parallel);
    ph_backward(tape, loss);
    end_pass(tape, parallel);
}
