/* SPDX-License-Identifier: MIT */
/* nn/parallel/parallel.c: create, destroy, and the first values. */
#include "nn/parallel/parallel.h"
#include "base/option.h"
#include "base/status.h"
#include "nn/parallel/backward.h"
#include "nn/parallel/buckets.h"
#include "nn/parallel/check.h"
#include "nn/parallel/shards.h"
#include "tensor/tape/hooks.h"
#include <phonograph/collectives.h>

/* ---- parameters and buffers ---- */
typedef struct visit {
    ph_data_parallel *parallel;
    const char *call;
    ph_status status;
} visit;

static ph_status check_tensor(const visit *v, const char *name, const ph_tensor *x)
{
    if (ph_tensor_device(x) != ph_module_device(v->parallel->module))
        return ph_fail(PH_ERROR_WRONG_DEVICE, "%s: %s is on another device than %s", v->call, name,
                       ph_module_name(v->parallel->module));
    if (!ph_tensor_is_contiguous(x))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %s is not contiguous; give the module a copy",
                       v->call, name);
    return PH_OK;
}

/* Rank 0's, on all ranks. */
static bool share_tensor(const char *name, ph_tensor *x, void *user)
{
    visit *v = user;
    v->status = check_tensor(v, name, x);
    if (v->status == PH_OK)
        v->status =
            ph_broadcast(v->parallel->comm, ph_tensor_data(x), ph_tensor_data(x),
                         (size_t)ph_tensor_count(x), ph_tensor_dtype(x), 0, v->parallel->stream);
    return v->status == PH_OK;
}

static bool add_part(const char *name, ph_tensor *x, void *user)
{
    visit *v = user;
    const ph__bucket_part part = {.parallel = v->parallel, .parameter = x};
    (void)name;
    if (!ph_tensor_requires_grad(x) || ph__map_get(&v->parallel->trained, (uintptr_t)x))
        return true;
    if (!ph__map_put(&v->parallel->trained, (uintptr_t)x, x) ||
        !ph__vec_push(&v->parallel->parts, part)) {
        v->status = ph__fail_host_memory(v->call, "the parameters");
        return false;
    }
    (void)ph_tensor_retain(x);
    return true;
}

/* ---- create ---- */
static ph_status check_choices(const ph_data_parallel_options *options, const char *call)
{
    ph_dtype dtype = options->reduce_dtype;
    if (dtype && dtype != PH_DTYPE_F16 && dtype != PH_DTYPE_BF16)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: reduce_dtype is %s, and must be f16, bf16, or 0 for the gradients' own",
                       call, ph_dtype_name(dtype));
    if (options->divide_by_active && !options->uneven_inputs)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: divide_by_active is set and uneven_inputs is not: all ranks are active",
                       call);
    return PH_OK;
}

static ph_status check_arguments(const ph_module *module, const ph_comm *comm,
                                 const ph_data_parallel_options *options, const char *call)
{
    if (module == NULL)
        return ph__fail_null(call, "module");
    if (comm == NULL)
        return ph__fail_null(call, "comm");
    if (options && !PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_data_parallel_options");
    if (options) {
        PH_TRY(ph__option_no_zero(options->bucket_bytes, "bucket_bytes", call));
        PH_TRY(ph__option_no_zero(options->first_bucket_bytes, "first_bucket_bytes", call));
        PH_TRY(check_choices(options, call));
    }
    PH_TRY(ph_comm_check(comm));
    return ph__parallel_check_group(comm, call);
}

/* The parts stay where they are from here on: hooks have their addresses. */
static ph_status add_hooks(ph_data_parallel *parallel)
{
    for (size_t i = 0; i < parallel->parts.count; i++) {
        ph__bucket_part *part = &parallel->parts.at[i];
        PH_TRY(
            ph__tensor_hook_add_last(&part->hook, part->parameter, ph__bucket_part_arrives, part));
    }
    return PH_OK;
}

static ph_status build_parallel(ph_data_parallel *parallel, const ph_data_parallel_options *options,
                                const char *call)
{
    visit v = {parallel, call, PH_OK};
    ph_device *device = ph_module_device(parallel->module);
    PH_TRY(ph_device_synchronize(device));
    PH_TRY(ph_stream_create(&parallel->stream, device, NULL));
    ph_module_parameters(parallel->module, share_tensor, &v);
    if (v.status == PH_OK)
        ph_module_buffers(parallel->module, share_tensor, &v);
    if (v.status == PH_OK)
        ph_module_parameters(parallel->module, add_part, &v);
    if (v.status != PH_OK)
        return v.status;
    PH_TRY(ph__buckets_make(parallel, options, call));
    if (options && options->uneven_inputs)
        PH_TRY(ph_tensor_create(&parallel->active, device, PH_DTYPE_F32, PH_SHAPE(1)));
    if (options && options->shard_optimizer)
        PH_TRY(ph__shards_make(parallel, call));
    parallel->divide_by_active = options && options->divide_by_active;
    PH_TRY(ph_stream_synchronize(parallel->stream));
    return add_hooks(parallel);
}

ph_status ph_data_parallel_create(ph_data_parallel **out, ph_module *module, ph_comm *comm,
                                  const ph_data_parallel_options *options)
{
    static const char call[] = "ph_data_parallel_create";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    PH_TRY(check_arguments(module, comm, options, call));
    ph_data_parallel *parallel = ph__calloc(1, sizeof *parallel);
    if (parallel == NULL)
        return ph__fail_host_memory(call, "the data-parallel network");
    parallel->module = ph_module_retain(module);
    parallel->comm = ph_comm_retain(comm);
    ph_status status = build_parallel(parallel, options, call);
    if (status != PH_OK) {
        ph_data_parallel_destroy(parallel);
        return status;
    }
    *out = parallel;
    return PH_OK;
}

static void free_parts(ph_data_parallel *parallel)
{
    ph__shards_free(parallel);
    for (size_t i = 0; i < parallel->parts.count; i++) {
        ph__bucket_part *part = &parallel->parts.at[i];
        ph_tensor_hook_remove(part->hook);
        ph_tensor_release(part->view);
        ph_tensor_release(part->parameter);
    }
    for (size_t i = 0; i < parallel->buckets.count; i++) {
        ph__bucket *bucket = &parallel->buckets.at[i];
        ph_tensor_release(bucket->memory);
        ph_tensor_release(bucket->reduced);
        ph_tensor_release(bucket->own);
        ph_tensor_release(bucket->own_reduced);
    }
    ph_tensor_release(parallel->active);
    ph__map_free(&parallel->trained);
    ph__vec_free(&parallel->parts);
    ph__vec_free(&parallel->buckets);
}

void ph_data_parallel_destroy(ph_data_parallel *parallel)
{
    ph_error saved;
    if (parallel == NULL)
        return;
    ph__error_save(&saved);
    if (parallel->stream)
        ph_ignore(ph_stream_synchronize(parallel->stream));
    free_parts(parallel);
    ph_stream_destroy(parallel->stream);
    ph_comm_release(parallel->comm);
    ph_module_release(parallel->module);
    ph__free(parallel);
    ph__error_restore(&saved);
}

/* ---- queries ---- */
bool ph_data_parallel_set_sync(ph_data_parallel *parallel, bool sync)
{
    bool before = parallel && !parallel->local;
    if (parallel)
        parallel->local = !sync;
    return before;
}

ph_status ph_data_parallel_get_info(ph_data_parallel_info *out, const ph_data_parallel *parallel)
{
    static const char call[] = "ph_data_parallel_get_info";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = (ph_data_parallel_info){.buckets = 0};
    if (parallel == NULL)
        return ph__fail_null(call, "parallel");
    out->buckets = parallel->buckets.count;
    out->parameters = parallel->parts.count;
    for (size_t i = 0; i < parallel->buckets.count; i++) {
        const ph__bucket *bucket = &parallel->buckets.at[i];
        const ph_tensor *reduced = bucket->reduced ? bucket->reduced : bucket->memory;
        out->bytes += ph_tensor_bytes(bucket->memory);
        out->reduced_bytes += ph_tensor_bytes(reduced);
    }
    return PH_OK;
}
