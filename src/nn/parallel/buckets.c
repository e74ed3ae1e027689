/* SPDX-License-Identifier: MIT */
/* nn/parallel/buckets.c: which gradient is where in which bucket. */
#include "nn/parallel/buckets.h"
#include "base/status.h"
#include <phonograph/operators.h>

enum {
    ALIGNED = 64,    /* elements, so that kernels may load several at once */
    ALIGNED_PART = 8 /* of a rank: 16 bytes or more, so that collectives may */
};
static const uint64_t default_bytes = 25u << 20, default_first_bytes = 1u << 20;

/* The open bucket of that type: the last one, unless it is full. *out: its number. */
static bool find_open(size_t *out, const ph_data_parallel *parallel, ph_dtype dtype, uint64_t bytes,
                      uint64_t first_bytes)
{
    for (size_t i = parallel->buckets.count; i-- > 0;) {
        const ph__bucket *bucket = &parallel->buckets.at[i];
        if (bucket->dtype != dtype)
            continue;
        *out = i;
        return (uint64_t)bucket->count * ph_dtype_size(dtype) < (i == 0 ? first_bytes : bytes);
    }
    return false;
}

static bool place_part(ph_data_parallel *parallel, ph__bucket_part *part, uint64_t bytes,
                       uint64_t first_bytes)
{
    ph_dtype dtype = ph_tensor_dtype(part->parameter);
    if (!find_open(&part->bucket, parallel, dtype, bytes, first_bytes)) {
        const ph__bucket empty = {.dtype = dtype};
        part->bucket = parallel->buckets.count;
        if (!ph__vec_push(&parallel->buckets, empty))
            return false;
    }
    ph__bucket *bucket = &parallel->buckets.at[part->bucket];
    part->at = bucket->count;
    bucket->count += (ph_tensor_count(part->parameter) + ALIGNED - 1) / ALIGNED * ALIGNED;
    bucket->parts++;
    bucket->last = (size_t)(part - parallel->parts.at);
    return true;
}

static ph_status make_view(ph_tape *tape, const ph_data_parallel *parallel, ph__bucket_part *part)
{
    const ph_tensor *p = part->parameter;
    ph_tensor *view = ph_slice(tape, parallel->buckets.at[part->bucket].memory, 0, part->at,
                               part->at + ph_tensor_count(p));
    part->view = ph_tensor_retain(ph_reshape(tape, view, ph_tensor_shape(p)));
    return ph_tape_status(tape);
}

/* Buckets of shards are of as many equal parts as there are ranks, without what is behind the last
 * gradient, so that each rank has elements. */
static void divide_buckets(ph_data_parallel *parallel)
{
    int64_t size = ph_comm_size(parallel->comm);
    for (size_t i = 0; i < parallel->parts.count; i++) {
        const ph__bucket_part *part = &parallel->parts.at[i];
        int64_t each = (part->at + ph_tensor_count(part->parameter) + size - 1) / size;
        int64_t count = (each + ALIGNED_PART - 1) / ALIGNED_PART * ALIGNED_PART * size;
        ph__bucket *bucket = &parallel->buckets.at[part->bucket];
        if (bucket->last == i)
            bucket->count = count;
    }
}

static ph_tensor *own_part(ph_tape *tape, const ph_data_parallel *parallel, ph_tensor *x,
                           bool sharded)
{
    if (!x || !sharded)
        return ph_tensor_retain(x);
    int64_t each = ph_tensor_count(x) / ph_comm_size(parallel->comm),
            begin = each * ph_comm_rank(parallel->comm);
    return ph_tensor_retain(ph_slice(tape, x, 0, begin, begin + each));
}

static ph_status make_memory(ph_tape *tape, ph_data_parallel *parallel, ph_dtype reduce_dtype,
                             bool sharded)
{
    ph_device *device = ph_module_device(parallel->module);
    for (size_t i = 0; i < parallel->buckets.count; i++) {
        ph__bucket *bucket = &parallel->buckets.at[i];
        PH_TRY(ph_tensor_create(&bucket->memory, device, bucket->dtype, PH_SHAPE(bucket->count)));
        ph_tensor_fill(tape, bucket->memory, 0);
        if (reduce_dtype && bucket->dtype == PH_DTYPE_F32)
            PH_TRY(
                ph_tensor_create(&bucket->reduced, device, reduce_dtype, PH_SHAPE(bucket->count)));
        bucket->own = own_part(tape, parallel, bucket->memory, sharded);
        bucket->own_reduced = own_part(tape, parallel, bucket->reduced, sharded);
    }
    for (size_t i = 0; i < parallel->parts.count; i++)
        PH_TRY(make_view(tape, parallel, &parallel->parts.at[i]));
    return ph_tape_clear(tape);
}

ph_status ph__buckets_make(ph_data_parallel *parallel, const ph_data_parallel_options *options,
                           const char *call)
{
    uint64_t bytes = options && options->bucket_bytes ? options->bucket_bytes : default_bytes;
    uint64_t first = options && options->first_bucket_bytes ? options->first_bucket_bytes
                     : bytes < default_first_bytes          ? bytes
                                                            : default_first_bytes;
    ph_tape *tape;
    for (size_t i = parallel->parts.count; i-- > 0;)
        if (!place_part(parallel, &parallel->parts.at[i], bytes, first))
            return ph__fail_host_memory(call, "the buckets");
    bool sharded = options && options->shard_optimizer;
    if (sharded)
        divide_buckets(parallel);
    PH_TRY(ph_tape_create(&tape, parallel->stream, NULL));
    ph_status status = make_memory(tape, parallel, options ? options->reduce_dtype : 0, sharded);
    ph_tape_destroy(tape);
    return status;
}
