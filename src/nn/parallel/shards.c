/* SPDX-License-Identifier: MIT */
/* nn/parallel/shards.c: the part of every parameter that this rank's optimizer steps: which it is,
 * its gradient, and how all ranks get what each has stepped. */
#include "nn/parallel/shards.h"
#include "base/status.h"
#include "nn/gradients/clip.h"
#include "nn/gradients/gradients.h"
#include "nn/parallel/backward.h"
#include "nn/parallel/check.h"
#include "nn/parallel/shard_module.h"
#include "tensor/tape/leaf.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape_error.h"
#include <phonograph/clip_grad.h>

/* ---- segments ---- */
static int64_t larger_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The elements of a bucket are of rank after rank, in equal parts. */
static bool add_segments(ph_data_parallel *parallel, size_t index)
{
    const ph__bucket_part *part = &parallel->parts.at[index];
    const uint32_t size = ph_comm_size(parallel->comm);
    int64_t each = parallel->buckets.at[part->bucket].count / size,
            count = ph_tensor_count(part->parameter);
    for (uint32_t rank = 0; rank < size; rank++) {
        int64_t begin = larger_of(each * rank - part->at, 0),
                end = smaller_of(each * (rank + 1) - part->at, count);
        const ph__shard_segment segment = {.part = index, .rank = rank, .begin = begin, .end = end};
        if (begin < end && !ph__vec_push(&parallel->segments, segment))
            return false;
    }
    return true;
}

static ph_status check_parameters(const ph_data_parallel *parallel, const char *call)
{
    for (size_t i = 0; i < parallel->parts.count; i++) {
        const ph_tensor *x = parallel->parts.at[i].parameter;
        ph_dtype dtype = ph_tensor_dtype(x);
        if (dtype != PH_DTYPE_F32 && dtype != PH_DTYPE_F64)
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: shard_optimizer: parameter %zu of %s is of %s; optimizers take f32 "
                           "and f64 (autocast computes with f32 parameters in f16 or bf16)",
                           call, i, ph_module_name(parallel->module), ph_dtype_name(dtype));
        if (ph__leaf_part_of(x) != PH__LEAF_WHOLE)
            return ph_fail(PH_ERROR_STATE,
                           "%s: shard_optimizer: parameter %zu of %s is sharded already; destroy "
                           "the data-parallel network that has it first",
                           call, i, ph_module_name(parallel->module));
    }
    return PH_OK;
}

static ph_status check_ranks(const ph_data_parallel *parallel, const char *call)
{
    const uint32_t size = ph_comm_size(parallel->comm);
    for (uint32_t rank = 0; rank < size; rank++) {
        size_t i = 0;
        while (i < parallel->segments.count && parallel->segments.at[i].rank != rank)
            i++;
        if (i == parallel->segments.count)
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: shard_optimizer: rank %u of %u would have no element of a "
                           "parameter; the network is too small, make it without",
                           call, rank, size);
    }
    return PH_OK;
}

/* Views of the parameter, and of its gradient in the bucket. */
static ph_status make_views(ph_tape *tape, const ph_data_parallel *parallel, ph__shard_segment *s)
{
    const ph__bucket_part *part = &parallel->parts.at[s->part];
    ph_tensor *flat = ph_reshape(tape, part->parameter, PH_SHAPE(ph_tensor_count(part->parameter)));
    ph_tensor *memory = parallel->buckets.at[part->bucket].memory;
    s->values = ph_tensor_retain(ph_detach(tape, ph_slice(tape, flat, 0, s->begin, s->end)));
    s->grad = ph_tensor_retain(ph_slice(tape, memory, 0, part->at + s->begin, part->at + s->end));
    PH_TRY(ph_tape_status(tape));
    PH_TRY(ph_tensor_set_requires_grad(s->values, true));
    s->values->leaf->part = PH__LEAF_SHARD;
    return PH_OK;
}

static ph_status make_own(ph_data_parallel *parallel)
{
    const uint32_t rank = ph_comm_rank(parallel->comm);
    ph_tape *tape;
    ph_status status = ph_tape_create(&tape, parallel->stream, NULL);
    if (status != PH_OK)
        return status;
    ph_tape_set_grad_enabled(tape, false);
    for (size_t i = 0; i < parallel->segments.count && status == PH_OK; i++)
        if (parallel->segments.at[i].rank == rank)
            status = make_views(tape, parallel, &parallel->segments.at[i]);
    if (status == PH_OK)
        status = ph_tape_clear(tape);
    ph_tape_destroy(tape);
    return status;
}

static void mark_parameters(const ph_data_parallel *parallel, ph__leaf_part part)
{
    for (size_t i = 0; i < parallel->parts.count; i++)
        parallel->parts.at[i].parameter->leaf->part = part;
}

/* Counts changes of the parameters. */
static uint64_t count_changes(const ph_data_parallel *parallel)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < parallel->parts.count; i++)
        sum += ph_tensor_version(parallel->parts.at[i].parameter);
    return sum;
}

ph_status ph__shards_make(ph_data_parallel *parallel, const char *call)
{
    ph_device *device = ph_module_device(parallel->module);
    PH_TRY(check_parameters(parallel, call));
    for (size_t i = 0; i < parallel->parts.count; i++)
        if (!add_segments(parallel, i))
            return ph__fail_host_memory(call, "the parts of the parameters");
    PH_TRY(check_ranks(parallel, call));
    PH_TRY(ph_tensor_create(&parallel->nonfinite, device, PH_DTYPE_F32, PH_SHAPE(1)));
    PH_TRY(make_own(parallel));
    PH_TRY(ph__shard_module_create(&parallel->shards, parallel, call));
    mark_parameters(parallel, PH__LEAF_SHARDED);
    parallel->gathered = count_changes(parallel);
    return PH_OK;
}

void ph__shards_free(ph_data_parallel *parallel)
{
    if (parallel->shards)
        mark_parameters(parallel, PH__LEAF_WHOLE);
    ph_module_release(parallel->shards);
    for (size_t i = 0; i < parallel->segments.count; i++) {
        ph_tensor_release(parallel->segments.at[i].values);
        ph_tensor_release(parallel->segments.at[i].grad);
    }
    ph__vec_free(&parallel->segments);
    ph_tensor_release(parallel->nonfinite);
}

ph_module *ph_data_parallel_shards(const ph_data_parallel *parallel)
{
    return parallel ? parallel->shards : NULL;
}

/* ---- a pass ---- */
void ph__shards_check(ph_tape *tape, const ph_data_parallel *parallel, const char *call)
{
    if (count_changes(parallel) != parallel->gathered) {
        ph_tape_fail(tape, PH_ERROR_STATE,
                     "%s: parameters were changed since the last ph_data_parallel_gather; all "
                     "ranks call it after each step of the optimizer",
                     call);
        return;
    }
    for (size_t i = 0; i < parallel->segments.count && !parallel->local; i++)
        if (parallel->segments.at[i].values && ph_tensor_grad(parallel->segments.at[i].values)) {
            ph_tape_fail(tape, PH_ERROR_STATE,
                         "%s: the shards still have the gradients of the last pass, and this one "
                         "would not add to them; call ph_optimizer_zero_grad before it, and sum "
                         "up micro-batches with ph_data_parallel_set_sync",
                         call);
            return;
        }
}

static void find_nonfinite(ph_tape *tape, const ph_data_parallel *parallel)
{
    ph__kernel_def *const defs[] = {&ph__unscale_f32, &ph__unscale_f64};
    const ph__gradients_args args = {.found_inf =
                                         (float *)(void *)ph_tensor_data(parallel->nonfinite)};
    ph_tensor *more[] = {parallel->nonfinite};
    ph__gradients g = {.writes = false};
    ph_tensor_fill(tape, parallel->nonfinite, 0);
    if (ph__tape_failed(tape))
        return;
    if (ph__gradients_begin(&g, tape, parallel->shards, NULL, more, 1, "ph_data_parallel_backward"))
        ph__gradients_run(&g, defs, &args, false);
    ph__gradients_end(&g, false, NULL);
}

/* 0 / (1 - found) is 0, or NaN. */
static void spoil_gradient(ph_tape *tape, const ph_data_parallel *parallel, ph_tensor *grad)
{
    ph_tensor *rest = ph_add_scalar(tape, ph_neg(tape, parallel->nonfinite), 1);
    ph_tensor *added = ph_div(tape, ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(1)), rest);
    ph_tensor *first = ph_slice(tape, grad, 0, 0, 1);
    if (!ph__tape_failed(tape))
        ph_tensor_add(tape, first, ph_cast(tape, added, ph_tensor_dtype(grad)), 1);
}

void ph__shards_agree(ph_tape *tape, const ph_data_parallel *parallel)
{
    ph_tensor *first = NULL;
    for (size_t i = 0; i < parallel->segments.count && !ph__tape_failed(tape); i++) {
        const ph__shard_segment *s = &parallel->segments.at[i];
        if (!s->values)
            continue;
        ph_tape_check(tape, ph_tensor_set_grad(s->values, s->grad));
        first = first ? first : s->grad;
    }
    if (!first || ph__tape_failed(tape))
        return;
    size_t mark = ph_tape_scope_begin(tape);
    find_nonfinite(tape, parallel);
    ph__parallel_all_reduce(tape, parallel, parallel->nonfinite, PH_REDUCE_MAX);
    ph__parallel_wait(tape, parallel);
    spoil_gradient(tape, parallel, first);
    ph_tape_scope_end(tape, mark, NULL, 0);
}

/* ---- gather ---- */
static ph_status send_segments(const ph_data_parallel *parallel)
{
    ph_status status = PH_OK;
    PH_TRY(ph_comm_group_begin(parallel->comm));
    for (size_t i = 0; i < parallel->segments.count && status == PH_OK; i++) {
        const ph__shard_segment *s = &parallel->segments.at[i];
        const ph_tensor *x = parallel->parts.at[s->part].parameter;
        char *at = (char *)ph_tensor_data(x) + (size_t)s->begin * ph_dtype_size(ph_tensor_dtype(x));
        status = ph_broadcast(parallel->comm, at, at, (size_t)(s->end - s->begin),
                              ph_tensor_dtype(x), s->rank, parallel->stream);
    }
    ph_error why;
    ph__error_save(&why);
    ph_status ended = ph_comm_group_end(parallel->comm);
    if (status != PH_OK)
        ph__error_restore(&why);
    return status != PH_OK ? status : ended;
}

/* For what has saved the parameters, or has casts of them. */
static void note_changes(ph_tape *tape, const ph_data_parallel *parallel)
{
    bool grad_enabled = ph_tape_set_grad_enabled(tape, false);
    for (size_t i = 0; i < parallel->parts.count; i++) {
        ph_tensor *in[] = {parallel->parts.at[i].parameter};
        ph__op op;
        if (ph__op_begin(&op, tape, "ph_data_parallel_gather", in, 1, 1) &&
            ph__op_change(&op, in[0]))
            (void)ph__op_done(&op, NULL);
    }
    ph_tape_set_grad_enabled(tape, grad_enabled);
}

static bool check_call(ph_tape *tape, const ph_data_parallel *parallel, const char *call)
{
    if (tape == NULL)
        return false;
    if (ph__tape_failed(tape)) {
        ph__tape_skip(tape);
        return false;
    }
    if (parallel == NULL)
        ph_tape_check(tape, ph__fail_null(call, "parallel"));
    else if (ph_tape_device(tape) != ph_module_device(parallel->module))
        ph_tape_fail(tape, PH_ERROR_WRONG_DEVICE, "%s: the tape is of another device than %s", call,
                     ph_module_name(parallel->module));
    return !ph__tape_failed(tape);
}

void ph_data_parallel_gather(ph_tape *tape, ph_data_parallel *parallel)
{
    if (!check_call(tape, parallel, "ph_data_parallel_gather") || !parallel->shards)
        return;
    ph_status status = ph_stream_wait_stream(parallel->stream, ph_tape_stream(tape));
    if (status == PH_OK)
        status = send_segments(parallel);
    ph_tape_check(tape, status);
    ph__parallel_wait(tape, parallel);
    note_changes(tape, parallel);
    if (!ph__tape_failed(tape))
        parallel->gathered = count_changes(parallel);
}

/* ---- clipping ---- */
static ph_dtype dtype_of_norm(const ph_data_parallel *parallel)
{
    for (size_t i = 0; i < parallel->buckets.count; i++)
        if (parallel->buckets.at[i].dtype != PH_DTYPE_F64)
            return PH_DTYPE_F32;
    return PH_DTYPE_F64;
}

static ph_tensor *clip_shards(ph_tape *tape, const ph_data_parallel *parallel, double max_norm,
                              const char *call)
{
    ph_tensor *norm = ph__clip_part_norm(tape, parallel->shards, call);
    ph_tensor *squares = ph_square(tape, ph_cast(tape, norm, PH_DTYPE_F64));
    if (ph__tape_failed(tape))
        return NULL;
    ph__parallel_all_reduce(tape, parallel, squares, PH_REDUCE_SUM);
    ph__parallel_wait(tape, parallel);
    ph_tensor *total = ph_sqrt(tape, squares);
    ph_tensor *bound = ph_full(tape, PH_DTYPE_F64, PH_SCALAR, max_norm);
    ph_tensor *factor = ph_div(tape, bound, ph_add_scalar(tape, total, 1e-6));
    factor = ph_minimum(tape, factor, ph_full(tape, PH_DTYPE_F64, PH_SCALAR, 1));
    ph__clip_part_scale(tape, parallel->shards, factor, call);
    return ph_cast(tape, total, dtype_of_norm(parallel));
}

ph_tensor *ph_data_parallel_clip_grad_norm(ph_tape *tape, ph_data_parallel *parallel,
                                           double max_norm)
{
    static const char call[] = "ph_data_parallel_clip_grad_norm";
    if (!check_call(tape, parallel, call))
        return NULL;
    if (!parallel->shards)
        return ph_clip_grad_norm(tape, parallel->module, max_norm, NULL);
    if (!(max_norm >= 0)) {
        ph_tape_fail(tape, PH_ERROR_ARGUMENT, "%s: max_norm is %g, and must be at least 0", call,
                     max_norm);
        return NULL;
    }
    ph_tape_check(tape, ph__parallel_check_group(parallel->comm, call));
    if (ph__tape_failed(tape))
        return NULL;
    bool grad_enabled = ph_tape_set_grad_enabled(tape, false);
    ph__parallel_keep(tape, parallel);
    size_t mark = ph_tape_scope_begin(tape);
    ph_tensor *total = clip_shards(tape, parallel, max_norm, call);
    ph_tape_scope_end(tape, mark, &total, 1);
    ph_tape_set_grad_enabled(tape, grad_enabled);
    return ph__tape_failed(tape) ? NULL : total;
}
