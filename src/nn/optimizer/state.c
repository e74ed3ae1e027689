/* SPDX-License-Identifier: MIT */
/* nn/optimizer/state.c: an optimizer's state from safetensors, in two halves: first all that can
 * fail without a trace, with all the host memory that the rest needs; then the state changes. */
#include "nn/optimizer/state.h"
#include "base/alloc.h"
#include "base/status.h"
#include "nn/module/layers.h"
#include "nn/module/state.h"
#include "nn/optimizer/optimizer.h"
#include "nn/optimizer/state_entries.h"
#include "tensor/core/tensor.h"
#include "tensor/files/safetensors.h"
#include "tensor/tape/tape.h"
#include <math.h>
#include <string.h>

typedef struct ph__optimizer_load load;
struct ph__optimizer_load {
    ph_optimizer *optimizer;
    const ph__state_place *places; /* NULL: parameters have their own names, whole */
    ph__state_entries entries;
    ph_safetensors *file;
    const char *path, *call;
    ph_tape *tape;      /* NULL: not begun, or over */
    double *counters;   /* of each parameter */
    const char **has;   /* of each parameter: a state that the file has contents for */
    const char **lacks; /* and one that it has none for */
};

static ph_status check_call(const ph_optimizer *optimizer, const char *path, const char *call)
{
    if (!optimizer)
        return ph__fail_null(call, "optimizer");
    return path ? PH_OK : ph__fail_null(call, "path");
}

static ph_shape shape_of(const load *l, size_t param)
{
    return l->places ? l->places[param].shape
                     : ph_tensor_shape(l->optimizer->params.at[param].param);
}

static ph__wanted wanted_of(const load *l, const ph__state_entry *e)
{
    if (e->kind != PH__STATE_TENSOR)
        return (ph__wanted){e->name, e->kind == PH__STATE_KEPT ? PH_DTYPE_F64 : PH_DTYPE_I64,
                            PH_SCALAR, false};
    const ph_tensor *param = l->optimizer->params.at[e->param].param;
    return (ph__wanted){e->name, ph_tensor_dtype(param), shape_of(l, e->param), true};
}

/* Of a file that has other parameters, too. */
static ph_status check_there(const load *l)
{
    ph_dtype dtype;
    ph_shape shape;
    for (size_t i = 0; i < l->entries.count; i++)
        if (!ph__state_find(l->file, l->entries.at[i].name, &dtype, &shape))
            return ph_fail(PH_ERROR_MISMATCH,
                           "%s: %s does not fit, and nothing was loaded: %s is missing", l->call,
                           l->path, l->entries.at[i].name);
    return PH_OK;
}

/* State of one of these parameters that the optimizer does not have. */
static bool is_unexpected(const load *l, const char *name)
{
    const char *dot = strrchr(name, '.');
    size_t length = dot ? (size_t)(dot - name) : 0;
    for (size_t i = 0; i < l->entries.count; i++)
        if (strcmp(l->entries.at[i].name, name) == 0)
            return false;
    for (size_t i = 0; dot && i < l->optimizer->params.count; i++) {
        const char *of = l->places[i].name;
        if (strlen(of) == length && memcmp(of, name, length) == 0)
            return true;
    }
    return false;
}

static ph_status check_unexpected(const load *l)
{
    const char *name;
    ph_dtype dtype;
    ph_shape shape;
    for (size_t i = 0; i < ph_safetensors_count(l->file); i++) {
        PH_TRY(ph_safetensors_entry(&name, &dtype, &shape, l->file, i));
        if (is_unexpected(l, name))
            return ph_fail(PH_ERROR_MISMATCH,
                           "%s: %s does not fit, and nothing was loaded: %s is unexpected", l->call,
                           l->path, name);
    }
    return PH_OK;
}

static ph_status check_names(const load *l)
{
    const ph__state_entries *all = &l->entries;
    ph__wanted *wanted = ph__calloc(all->count, sizeof *wanted);
    if (!wanted)
        return ph__fail_host_memory(l->call, "the names of an optimizer's state");
    for (size_t i = 0; i < all->count; i++)
        wanted[i] = wanted_of(l, &all->at[i]);
    ph_status status =
        ph__state_check(wanted, all->count, l->file, l->path, l->places == NULL, l->call);
    if (status == PH_OK && l->places)
        status = check_there(l);
    if (status == PH_OK && l->places)
        status = check_unexpected(l);
    if (status == PH_ERROR_MISMATCH)
        ph__error_suffix(
            "; the file must come from an optimizer of the same module, kind and options "
            "(momentum, amsgrad, centered)");
    ph__free(wanted);
    return status;
}

static ph_status read_scalar(void *out, size_t size, const load *l, const char *name)
{
    ph_tensor *x;
    PH_TRY(ph_safetensors_read(&x, l->tape, l->file, name));
    ph_status status = ph_tensor_read(l->tape, x, out, size);
    ph_tensor_release(x);
    return status;
}

static ph_status read_count(double *out, const load *l, const char *name)
{
    int64_t value = 0;
    PH_TRY(read_scalar(&value, sizeof value, l, name));
    if (value < 0 || value > (int64_t)1 << 53)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %s: %s is %lld, which is no number of steps",
                       l->call, l->path, name, (long long)value);
    *out = (double)value;
    return PH_OK;
}

static ph_status read_kept(double *out, const load *l, const char *name)
{
    double value = 0;
    PH_TRY(read_scalar(&value, sizeof value, l, name));
    if (!(value >= 0 && isfinite(value)))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %s: %s is %g, and must be finite and not negative",
                       l->call, l->path, name, value);
    *out = value;
    return PH_OK;
}

static void inspect_state(const load *l, const ph__state_entry *e)
{
    ph_dtype dtype;
    ph_shape shape, want = shape_of(l, e->param);
    bool has = ph__state_find(l->file, e->name, &dtype, &shape) && ph_shape_equal(&shape, &want);
    const char **first = &(has ? l->has : l->lacks)[e->param];
    if (!*first)
        *first = l->optimizer->kind->state_names[e->number];
}

static ph_status inspect_entry(const load *l, const ph__state_entry *e)
{
    double *counter = l->counters + e->param * PH__COUNT_SIZE, steps;
    if (e->kind == PH__STATE_OPTIMIZER_STEPS)
        return read_count(&steps, l, e->name);
    if (e->kind == PH__STATE_STEP)
        return read_count(&counter[0], l, e->name);
    if (e->kind == PH__STATE_KEPT)
        return read_kept(&counter[1 + e->number], l, e->name);
    inspect_state(l, e);
    return PH_OK;
}

/* A file has no contents where the first step is to come and has a formula of its own, whether the
 * state had memory or not. With counters, which say that it is the first, it can be captured. */
static bool is_made_ahead(const load *l, size_t i)
{
    const ph__trained *p = &l->optimizer->params.at[i];
    return !l->has[i] && ph__group_of(l->optimizer, p)->settings.odd_first &&
           ph_tensor_requires_grad(p->param) && p->param->count > 0;
}

/* After everything has been looked at. */
static ph_status inspect_param(const load *l, size_t i)
{
    ph_optimizer *o = l->optimizer;
    if (l->has[i] && l->lacks[i])
        return ph_fail(PH_ERROR_MISMATCH,
                       "%s: %s: parameter %s has %s but not %s, and nothing was loaded", l->call,
                       l->path, o->params.at[i].name, l->has[i], l->lacks[i]);
    if (!o->kind->counts)
        l->counters[i * PH__COUNT_SIZE] = l->has[i] != NULL;
    if (!l->has[i] && !is_made_ahead(l, i))
        return PH_OK;
    if (ph__group_of(o, &o->params.at[i])->settings.odd_first)
        PH_TRY(ph__optimizer_make_counters(o, l->tape));
    return ph__optimizer_make_state(o, &o->params.at[i], l->tape, NULL);
}

static ph_status read_part(const load *l, const ph__state_entry *e, ph_tensor *state)
{
    int64_t begin = l->places[e->param].begin, count = ph_tensor_count(state);
    ph_tensor *whole;
    PH_TRY(ph_safetensors_read(&whole, l->tape, l->file, e->name));
    ph_tensor *flat = ph_reshape(l->tape, whole, PH_SHAPE(ph_tensor_count(whole)));
    ph_tensor_copy(l->tape, state, ph_slice(l->tape, flat, 0, begin, begin + count));
    ph_tensor_release(whole);
    return ph_tape_clear(l->tape);
}

/* Memory that graphs address keeps its place. Where the file has no contents, their next replay is
 * the first step. */
static ph_status load_state(const load *l, const ph__state_entry *e)
{
    ph__trained *p = &l->optimizer->params.at[e->param];
    const bool has = l->has[e->param] != NULL;
    p->started = has || is_made_ahead(l, e->param);
    if (has && l->places)
        PH_TRY(read_part(l, e, p->state[e->number]));
    else if (has)
        PH_TRY(ph_safetensors_read_into(l->tape, p->state[e->number], l->file, e->name));
    else if (p->state[e->number])
        ph_tensor_fill(l->tape, p->state[e->number],
                       ph__optimizer_first_content(l->optimizer, p, e->number,
                                                   ph_optimizer_group_lr(l->optimizer, p->group)));
    return ph_tape_status(l->tape);
}

/* The next step computes again the numbers that are derived from them. */
static ph_status write_counters(ph_tape *tape, ph_optimizer *o, const double *counters)
{
    size_t bytes = o->counters ? ph_tensor_bytes(o->counters) : 0;
    if (bytes > 0) {
        PH_TRY(ph_tensor_write(tape, o->counters, counters, bytes));
        PH_TRY(ph_stream_synchronize(ph_tape_stream(tape)));
    }
    for (size_t i = 0; i < o->params.count; i++)
        memcpy(o->params.at[i].counter, counters + i * PH__COUNT_SIZE,
               sizeof o->params.at[i].counter);
    return PH_OK;
}

static ph_status inspect_all(load *l)
{
    ph_optimizer *o = l->optimizer;
    size_t count = o->params.count + 1;
    l->counters = ph__calloc(count * PH__COUNT_SIZE, sizeof *l->counters);
    l->has = ph__calloc(count, sizeof *l->has);
    l->lacks = ph__calloc(count, sizeof *l->lacks);
    if (!l->counters || !l->has || !l->lacks)
        return ph__fail_host_memory(l->call, "what a file holds");
    PH_TRY(check_names(l));
    PH_TRY(ph__state_begin(&l->tape, o->device, l->call));
    for (size_t i = 0; i < l->entries.count; i++)
        PH_TRY(inspect_entry(l, &l->entries.at[i]));
    for (size_t i = 0; i < o->params.count; i++)
        PH_TRY(inspect_param(l, i));
    return ph__safetensors_look_up(l->file, l->tape, l->call);
}

static ph_status apply_all(const load *l)
{
    PH_TRY(write_counters(l->tape, l->optimizer, l->counters));
    PH_TRY(ph_safetensors_read_into(l->tape, l->optimizer->steps, l->file, l->entries.at[0].name));
    for (size_t i = 0; i < l->entries.count; i++)
        if (l->entries.at[i].kind == PH__STATE_TENSOR)
            PH_TRY(load_state(l, &l->entries.at[i]));
    return PH_OK;
}

ph_status ph__optimizer_load_begin(ph__optimizer_load **out, ph_optimizer *optimizer,
                                   const ph__state_place *places, const char *path,
                                   const char *call)
{
    *out = NULL;
    PH_TRY(check_call(optimizer, path, call));
    load *l = ph__calloc(1, sizeof *l);
    if (!l)
        return ph__fail_host_memory(call, "the load of an optimizer");
    l->optimizer = optimizer;
    l->places = places;
    l->path = path;
    l->call = call;
    ph_status status = ph__state_entries_of(&l->entries, optimizer, places, call);
    if (status == PH_OK)
        status = ph_safetensors_open(&l->file, path);
    if (status == PH_OK)
        status = inspect_all(l);
    if (status == PH_OK)
        *out = l;
    else
        ph__optimizer_load_end(l);
    return status;
}

ph_status ph__optimizer_load_apply(ph__optimizer_load *l)
{
    ph_tape *tape = l->tape;
    ph_status status = apply_all(l);
    l->tape = NULL;
    return ph__layer_finish(tape, status, l->call);
}

void ph__optimizer_load_end(ph__optimizer_load *l)
{
    if (!l)
        return;
    ph_tape_destroy(l->tape);
    ph_safetensors_close(l->file);
    ph__state_entries_free(&l->entries);
    ph__free(l->counters);
    ph__free(l->has);
    ph__free(l->lacks);
    ph__free(l);
}

ph_status ph_optimizer_load(ph_optimizer *optimizer, const char *path)
{
    ph__optimizer_load *l;
    PH_TRY(ph__optimizer_load_begin(&l, optimizer, NULL, path, "ph_optimizer_load"));
    ph_status status = ph__optimizer_load_apply(l);
    ph__optimizer_load_end(l);
    return status;
}
