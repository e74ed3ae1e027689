/* SPDX-License-Identifier: MIT */
/* nn/parallel/shard_state.c: an optimizer of shards from a file of whole parameters. */
#include "nn/parallel/shard_state.h"
#include "base/alloc.h"
#include "base/status.h"
#include "nn/module/layers.h"
#include "nn/optimizer/state.h"
#include "nn/parallel/backward.h"
#include "nn/parallel/check.h"
#include <phonograph/tensor_file.h>
#include <string.h>

/* ---- places ---- */
static bool find_segment(size_t *out, const ph_data_parallel *parallel, const ph_tensor *values)
{
    for (*out = 0; *out < parallel->segments.count; ++*out)
        if (parallel->segments.at[*out].values == values)
            return true;
    return false;
}

/* Behind "shard_<rank>_of_<size>.". */
static const char *whole_name(const char *name)
{
    const char *dot = strchr(name, '.');
    return dot ? dot + 1 : name;
}

ph_status ph__shard_places_make(ph__shard_places *out, const ph_data_parallel *parallel,
                                const ph_optimizer *optimizer, const char *call)
{
    size_t count = optimizer->params.count;
    *out = (ph__shard_places){ph__calloc(count + 1, sizeof *out->segments),
                              ph__calloc(count + 1, sizeof *out->at)};
    if (!out->segments || !out->at)
        return ph__fail_host_memory(call, "the places of an optimizer's state");
    for (size_t i = 0; i < count; i++) {
        const ph__trained *p = &optimizer->params.at[i];
        if (!find_segment(&out->segments[i], parallel, p->param))
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: the optimizer's parameter %s is no shard of this network; create "
                           "the optimizer of ph_data_parallel_shards",
                           call, p->name);
        const ph__shard_segment *s = &parallel->segments.at[out->segments[i]];
        out->at[i] = (ph__state_place){
            whole_name(p->name), ph_tensor_shape(parallel->parts.at[s->part].parameter), s->begin};
    }
    return PH_OK;
}

void ph__shard_places_free(ph__shard_places *places)
{
    ph__free(places->segments);
    ph__free(places->at);
}

/* ---- agreement ---- */
/* *out: the rank that has failed, counted from 1; 0: none. */
static ph_status reduce_failures(double *out, const ph_data_parallel *parallel, bool failed,
                                 const char *call)
{
    ph_tape *tape;
    PH_TRY(ph__layer_begin(&tape, ph_module_device(parallel->module), NULL));
    double own = failed ? ph_comm_rank(parallel->comm) + 1.0 : 0;
    ph_tensor *x = ph_full(tape, PH_DTYPE_I32, PH_SHAPE(1), own);
    ph_status status = ph_tape_status(tape);
    if (status == PH_OK) {
        ph__parallel_all_reduce(tape, parallel, x, PH_REDUCE_MAX);
        ph__parallel_wait(tape, parallel);
        status = ph_tape_status(tape);
    }
    if (status == PH_OK)
        status = ph_tensor_item(out, tape, x);
    return ph__layer_finish(tape, status, call);
}

ph_status ph__parallel_agree(const ph_data_parallel *parallel, ph_status status, const char *call)
{
    ph_error why;
    double rank = 0;
    ph__error_save(&why);
    ph_status reduced = reduce_failures(&rank, parallel, status != PH_OK, call);
    if (status != PH_OK) {
        ph__error_restore(&why);
        return status;
    }
    PH_TRY(reduced);
    if (rank > 0)
        return ph_fail(PH_ERROR_PEER, "%s: rank %u failed; its own error says why", call,
                       (unsigned)rank - 1);
    return PH_OK;
}

ph_status ph__shard_state_check(const ph_data_parallel *parallel, const ph_optimizer *optimizer,
                                const char *path, const char *call)
{
    if (parallel == NULL)
        return ph__fail_null(call, "parallel");
    if (optimizer == NULL)
        return ph__fail_null(call, "optimizer");
    if (path == NULL)
        return ph__fail_null(call, "path");
    PH_TRY(ph_comm_check(parallel->comm));
    PH_TRY(ph__parallel_check_group(parallel->comm, call));
    return ph__layer_waited(ph_device_synchronize(ph_module_device(parallel->module)), call);
}

/* ---- loading ---- */
static bool is_of_network(const ph_data_parallel *parallel, const char *name)
{
    char of[1024];
    const char *dot = strrchr(name, '.');
    size_t length = dot ? (size_t)(dot - name) : 0;
    if (!dot || length >= sizeof of)
        return strcmp(name, "steps") == 0;
    memcpy(of, name, length);
    of[length] = '\0';
    return ph_module_parameter(parallel->module, of) != NULL;
}

/* Other ranks have the parameters that this one has no part of. */
static ph_status check_file(const ph_data_parallel *parallel, const char *path, const char *call)
{
    ph_safetensors *file;
    const char *name;
    ph_dtype dtype;
    ph_shape shape;
    PH_TRY(ph_safetensors_open(&file, path));
    ph_status status = PH_OK;
    for (size_t i = 0; i < ph_safetensors_count(file) && status == PH_OK; i++) {
        status = ph_safetensors_entry(&name, &dtype, &shape, file, i);
        if (status == PH_OK && !is_of_network(parallel, name))
            status = ph_fail(PH_ERROR_MISMATCH,
                             "%s: %s does not fit, and nothing was loaded: %s is unexpected", call,
                             path, name);
    }
    ph_safetensors_close(file);
    return status;
}

ph_status ph_data_parallel_load_optimizer(ph_data_parallel *parallel, ph_optimizer *optimizer,
                                          const char *path)
{
    static const char call[] = "ph_data_parallel_load_optimizer";
    ph__shard_places places = {.at = NULL};
    ph__optimizer_load *load = NULL;
    PH_TRY(ph__shard_state_check(parallel, optimizer, path, call));
    ph_status status = PH_OK;
    if (parallel->shards)
        status = ph__shard_places_make(&places, parallel, optimizer, call);
    if (status == PH_OK && parallel->shards)
        status = check_file(parallel, path, call);
    if (status == PH_OK)
        status = ph__optimizer_load_begin(&load, optimizer, places.at, path, call);
    status = ph__parallel_agree(parallel, status, call);
    if (status == PH_OK)
        status = ph__optimizer_load_apply(load);
    ph__optimizer_load_end(load);
    ph__shard_places_free(&places);
    return status;
}
