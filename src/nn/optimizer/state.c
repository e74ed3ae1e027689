/* SPDX-License-Identifier: MIT */
/* nn/optimizer/state.c: an optimizer's state to and from safetensors. For every parameter: its
 * state tensors, of shape [0] where it has made no step, its steps where the kind counts them,
 * and what is kept beside those; and "steps", of the optimizer. */
#include "nn/module/state.h"
#include "base/alloc.h"
#include "base/status.h"
#include "nn/module/layers.h"
#include "nn/optimizer/optimizer.h"
#include "tensor/core/tensor.h"
#include "tensor/files/safetensors.h"
#include "tensor/tape/tape.h"
#include <math.h>
#include <string.h>

static char *join(const char *name, const char *suffix)
{
    ph__text text = {.at = NULL};
    ph__text_format(&text, "%s.%s", name, suffix);
    return ph__text_take(&text);
}

/* ---- entries ---- all that a file has, in a fixed order: the optimizer's steps; then for each
 * parameter its states, its steps, and what its counter keeps beside them. */
typedef enum entry_kind {
    OPTIMIZER_STEPS,
    STATE,
    STEP,
    KEPT
} entry_kind;
typedef struct entry {
    char *name;
    entry_kind kind;
    size_t param, number; /* of the state, or of what is kept */
} entry;
typedef PH__VEC(entry) entries;

static void entries_free(entries *all)
{
    for (size_t i = 0; i < all->count; i++)
        ph__free(all->at[i].name);
    ph__vec_free(all);
}

static bool add_entry(entries *all, const ph_optimizer *o, entry_kind kind, size_t param,
                      size_t number, const char *suffix)
{
    char *name =
        kind == OPTIMIZER_STEPS ? ph__strdup(suffix) : join(o->params.at[param].name, suffix);
    if (name && ph__vec_push(all, ((entry){name, kind, param, number})))
        return true;
    ph__free(name);
    return false;
}

static bool add_param(entries *all, const ph_optimizer *o, size_t i)
{
    const ph__optimizer_group *group = ph__group_of(o, &o->params.at[i]);
    bool whole = true;
    for (size_t k = 0; k < PH__OPTIMIZER_STATES; k++)
        if (group->settings.states >> k & 1)
            whole = whole && add_entry(all, o, STATE, i, k, o->kind->state_names[k]);
    if (o->kind->counts)
        whole = whole && add_entry(all, o, STEP, i, 0, "step");
    for (size_t k = 0; k < PH__COUNT_KEPT; k++)
        if (o->kind->kept_names[k])
            whole = whole && add_entry(all, o, KEPT, i, k, o->kind->kept_names[k]);
    return whole;
}

static ph_status entries_of(entries *all, const ph_optimizer *o, const char *call)
{
    *all = (entries){.at = NULL};
    bool whole = add_entry(all, o, OPTIMIZER_STEPS, 0, 0, "steps");
    for (size_t i = 0; whole && i < o->params.count; i++)
        whole = add_param(all, o, i);
    if (whole)
        return PH_OK;
    entries_free(all);
    return ph__fail_host_memory(call, "the names of an optimizer's state");
}

/* ---- counters ---- as the device has them, or the host: PH__COUNT_SIZE numbers for each
 * parameter. */
static ph_status read_counters(double *counters, ph_tape *tape, const ph_optimizer *o)
{
    if (o->counters)
        PH_TRY(ph_tensor_read(tape, o->counters, counters, ph_tensor_bytes(o->counters)));
    for (size_t i = 0; i < o->params.count; i++)
        if (ph__group_of(o, &o->params.at[i])->settings.on_host)
            memcpy(counters + i * PH__COUNT_SIZE, o->params.at[i].counter,
                   sizeof o->params.at[i].counter);
    return PH_OK;
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

/* ---- saving ---- */
static ph_tensor *state_of(ph_tape *tape, const ph_optimizer *o, const ph__trained *p, size_t k,
                           double steps)
{
    /* the first step of a kind that does not count may have been skipped on the device */
    bool has = p->started && (o->kind->counts || !o->counters || steps > 0);
    return has ? p->state[k] : ph_empty(tape, ph_tensor_dtype(p->param), PH_SHAPE(0));
}

static double kept_of(const ph_optimizer *o, const ph__trained *p, const double *counter, size_t k)
{
    if (counter[0] > 0)
        return counter[1 + k];
    return o->kind->kept_with_lr >> k & 1 ? ph_optimizer_group_lr(o, p->group) : 1;
}

static ph_tensor *tensor_of(ph_tape *tape, const ph_optimizer *o, const entry *e,
                            const double *counters)
{
    const double *counter = counters + e->param * PH__COUNT_SIZE;
    if (e->kind == OPTIMIZER_STEPS)
        return o->steps;
    const ph__trained *p = &o->params.at[e->param];
    if (e->kind == STATE)
        return state_of(tape, o, p, e->number, counter[0]);
    if (e->kind == STEP) {
        int64_t steps = (int64_t)counter[0];
        return ph_from_memory(tape, PH_DTYPE_I64, PH_SCALAR, &steps);
    }
    double kept = kept_of(o, p, counter, e->number);
    return ph_from_memory(tape, PH_DTYPE_F64, PH_SCALAR, &kept);
}

static ph_status save(ph_tape *tape, const ph_optimizer *o, const entries *n, const char *path)
{
    static const char call[] = "ph_optimizer_save";
    ph_named_tensor *all = ph__calloc(n->count, sizeof *all);
    double *counters = ph__calloc((o->params.count + 1) * PH__COUNT_SIZE, sizeof *counters);
    ph_status status = all && counters
                           ? read_counters(counters, tape, o)
                           : ph__fail_host_memory(call, "the list of an optimizer's state");
    if (status == PH_OK) {
        for (size_t i = 0; i < n->count; i++)
            all[i] = (ph_named_tensor){.name = n->at[i].name,
                                       .tensor = tensor_of(tape, o, &n->at[i], counters)};
        status = ph_tape_status(tape);
    }
    if (status == PH_OK)
        status = ph_safetensors_write(tape, path, all, n->count);
    ph__free(all);
    ph__free(counters);
    return status;
}

static ph_status check_call(const ph_optimizer *optimizer, const char *path, const char *call)
{
    if (!optimizer)
        return ph__fail_null(call, "optimizer");
    return path ? PH_OK : ph__fail_null(call, "path");
}

ph_status ph_optimizer_save(ph_optimizer *optimizer, const char *path)
{
    static const char call[] = "ph_optimizer_save";
    entries n;
    ph_tape *tape;
    PH_TRY(check_call(optimizer, path, call));
    PH_TRY(entries_of(&n, optimizer, call));
    ph_status status = ph__state_begin(&tape, optimizer->device, call);
    if (status == PH_OK)
        status = ph__layer_finish(tape, save(tape, optimizer, &n, path), call);
    entries_free(&n);
    return status;
}

/* ---- loading ---- first all that can fail without a trace; then the state changes. */
typedef struct load {
    ph_optimizer *optimizer;
    const entries *entries;
    ph_safetensors *file;
    const char *path, *call;
    ph_tape *tape;
    double *counters;   /* of each parameter */
    const char **has;   /* of each parameter: a state that the file has contents for */
    const char **lacks; /* and one that it has none for */
} load;

static ph__wanted wanted_of(const ph_optimizer *o, const entry *e)
{
    if (e->kind != STATE)
        return (ph__wanted){e->name, e->kind == KEPT ? PH_DTYPE_F64 : PH_DTYPE_I64, PH_SCALAR,
                            false};
    const ph_tensor *param = o->params.at[e->param].param;
    return (ph__wanted){e->name, ph_tensor_dtype(param), ph_tensor_shape(param), true};
}

static ph_status check_names(const load *l)
{
    const entries *all = l->entries;
    ph__wanted *wanted = ph__calloc(all->count, sizeof *wanted);
    if (!wanted)
        return ph__fail_host_memory(l->call, "the names of an optimizer's state");
    for (size_t i = 0; i < all->count; i++)
        wanted[i] = wanted_of(l->optimizer, &all->at[i]);
    ph_status status = ph__state_check(wanted, all->count, l->file, l->path, true, l->call);
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

static void look_at_state(const load *l, const entry *e)
{
    const ph__trained *p = &l->optimizer->params.at[e->param];
    ph_dtype dtype;
    ph_shape shape, want = ph_tensor_shape(p->param);
    bool has = ph__state_find(l->file, e->name, &dtype, &shape) && ph_shape_equal(&shape, &want);
    const char **first = &(has ? l->has : l->lacks)[e->param];
    if (!*first)
        *first = l->optimizer->kind->state_names[e->number];
}

static ph_status look_at(const load *l, const entry *e)
{
    double *counter = l->counters + e->param * PH__COUNT_SIZE, steps;
    if (e->kind == OPTIMIZER_STEPS)
        return read_count(&steps, l, e->name);
    if (e->kind == STEP)
        return read_count(&counter[0], l, e->name);
    if (e->kind == KEPT)
        return read_kept(&counter[1 + e->number], l, e->name);
    look_at_state(l, e);
    return PH_OK;
}

/* After everything has been looked at. */
static ph_status look_at_param(const load *l, size_t i)
{
    ph_optimizer *o = l->optimizer;
    if (l->has[i] && l->lacks[i])
        return ph_fail(PH_ERROR_MISMATCH,
                       "%s: %s: parameter %s has %s but not %s, and nothing was loaded", l->call,
                       l->path, o->params.at[i].name, l->has[i], l->lacks[i]);
    if (!o->kind->counts)
        l->counters[i * PH__COUNT_SIZE] = l->has[i] != NULL;
    return l->has[i] ? ph__optimizer_make_state(o, &o->params.at[i], l->tape) : PH_OK;
}

/* Memory that graphs address keeps its place. */
static ph_status take_state(const load *l, const entry *e)
{
    ph__trained *p = &l->optimizer->params.at[e->param];
    p->started = l->has[e->param] != NULL;
    if (p->started)
        PH_TRY(ph_safetensors_read_into(l->tape, p->state[e->number], l->file, e->name));
    else if (p->state[e->number])
        ph_tensor_fill(l->tape, p->state[e->number], 0);
    return ph_tape_status(l->tape);
}

static ph_status load_all(const load *l)
{
    ph_optimizer *o = l->optimizer;
    const entries *all = l->entries;
    ph_status status = PH_OK;
    for (size_t i = 0; i < all->count && status == PH_OK; i++)
        status = look_at(l, &all->at[i]);
    for (size_t i = 0; i < o->params.count && status == PH_OK; i++)
        status = look_at_param(l, i);
    if (status == PH_OK)
        status = ph__safetensors_look_up(l->file, l->tape, l->call);
    if (status == PH_OK)
        status = write_counters(l->tape, o, l->counters);
    if (status == PH_OK)
        status = ph_safetensors_read_into(l->tape, o->steps, l->file, all->at[0].name);
    for (size_t i = 0; i < all->count && status == PH_OK; i++)
        if (all->at[i].kind == STATE)
            status = take_state(l, &all->at[i]);
    return status;
}

static ph_status open_and_load(load *l)
{
    size_t count = l->optimizer->params.count + 1;
    ph_safetensors *file;
    PH_TRY(ph_safetensors_open(&file, l->path));
    l->file = file;
    l->counters = ph__calloc(count * PH__COUNT_SIZE, sizeof *l->counters);
    l->has = ph__calloc(count, sizeof *l->has);
    l->lacks = ph__calloc(count, sizeof *l->lacks);
    ph_status status = l->counters && l->has && l->lacks
                           ? check_names(l)
                           : ph__fail_host_memory(l->call, "what a file holds");
    if (status == PH_OK)
        status = ph__state_begin(&l->tape, l->optimizer->device, l->call);
    if (status == PH_OK)
        status = ph__layer_finish(l->tape, load_all(l), l->call);
    ph__free(l->counters);
    ph__free(l->has);
    ph__free(l->lacks);
    ph_safetensors_close(file);
    return status;
}

ph_status ph_optimizer_load(ph_optimizer *optimizer, const char *path)
{
    static const char call[] = "ph_optimizer_load";
    entries n;
    PH_TRY(check_call(optimizer, path, call));
    PH_TRY(entries_of(&n, optimizer, call));
    load l = {.optimizer = optimizer, .entries = &n, .path = path, .call = call};
    ph_status status = open_and_load(&l);
    entries_free(&n);
    return status;
}
