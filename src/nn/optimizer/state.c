/* SPDX-License-Identifier: MIT */
/* nn/optimizer/state.c: an optimizer's state to and from safetensors. For every parameter: its
 * state tensors, of shape [0] where it has made no step, and its steps where the kind counts
 * them; and "steps", of the optimizer. */
#include "nn/optimizer/state.h"
#include "base/alloc.h"
#include "base/status.h"
#include "nn/module/layers.h"
#include "nn/module/state.h"
#include "nn/optimizer/optimizer.h"
#include "tensor/core/tensor.h"
#include "tensor/files/safetensors.h"
#include "tensor/tape/tape.h"
#include <string.h>

static char *join(const char *name, const char *suffix)
{
    ph__text text = {.at = NULL};
    ph__text_format(&text, "%s.%s", name, suffix);
    return ph__text_take(&text);
}

/* ---- names ---- of everything, in a fixed order: the optimizer's steps; then for each
 * parameter its states, and its steps. */
typedef struct names {
    size_t per_param, count;
    char **at;
} names;

static void names_free(names *n)
{
    for (size_t i = 0; n->at && i < n->count; i++)
        ph__free(n->at[i]);
    ph__free(n->at);
}

static ph_status names_of(names *n, const ph_optimizer *o, const char *call)
{
    n->per_param = o->state_count + o->kind->counts;
    n->count = 1 + o->params.count * n->per_param;
    n->at = ph__calloc(n->count, sizeof *n->at);
    bool whole = n->at && (n->at[0] = ph__strdup("steps"));
    for (size_t i = 0; whole && i + 1 < n->count; i++) {
        size_t k = i % n->per_param;
        const char *suffix = k < o->state_count ? o->kind->state_names[k] : "step";
        n->at[i + 1] = join(o->params.at[i / n->per_param].name, suffix);
        whole = n->at[i + 1] != NULL;
    }
    if (whole)
        return PH_OK;
    names_free(n);
    return ph__fail_host_memory(call, "the names of an optimizer's state");
}

/* ---- steps of the parameters ---- as the host counts them, or the device. */
static ph_status read_steps(uint64_t *steps, ph_tape *tape, const ph_optimizer *o)
{
    size_t count = o->params.count, bytes = o->counters ? ph_tensor_bytes(o->counters) : 0;
    for (size_t i = 0; i < count; i++)
        steps[i] = o->params.at[i].steps;
    if (!o->counters)
        return PH_OK;
    double *counters = ph__alloc(bytes ? bytes : 1);
    if (!counters)
        return ph__fail_host_memory("ph_optimizer_save", "the step counters");
    ph_status status = ph_tensor_read(tape, o->counters, counters, bytes);
    for (size_t i = 0; status == PH_OK && i < count; i++)
        steps[i] = (uint64_t)counters[i * PH__OPTIMIZER_COUNTER];
    ph__free(counters);
    return status;
}

/* ---- saving ---- */
static void list_param(ph_named_tensor *out, ph_tape *tape, const ph_optimizer *o,
                       const ph__trained *p, uint64_t steps)
{
    int64_t signed_steps = (int64_t)steps;
    /* the first step of a kind that does not count may have been skipped on the device */
    bool has = p->started && (o->kind->counts || !o->counters || steps > 0);
    for (size_t k = 0; k < o->state_count; k++)
        out[k].tensor = has ? p->state[k] : ph_empty(tape, ph_tensor_dtype(p->param), PH_SHAPE(0));
    if (o->kind->counts)
        out[o->state_count].tensor = ph_from_memory(tape, PH_DTYPE_I64, PH_SCALAR, &signed_steps);
}

static ph_status save(ph_tape *tape, const ph_optimizer *o, const names *n, const char *path)
{
    static const char call[] = "ph_optimizer_save";
    ph_named_tensor *all = ph__calloc(n->count, sizeof *all);
    uint64_t *steps = ph__calloc(o->params.count + 1, sizeof *steps);
    ph_status status = all && steps
                           ? read_steps(steps, tape, o)
                           : ph__fail_host_memory(call, "the list of an optimizer's state");
    if (status == PH_OK) {
        for (size_t i = 0; i < n->count; i++)
            all[i].name = n->at[i];
        all[0].tensor = o->steps;
        for (size_t i = 0; i < o->params.count; i++)
            list_param(&all[1 + i * n->per_param], tape, o, &o->params.at[i], steps[i]);
        status = ph_tape_status(tape);
    }
    if (status == PH_OK)
        status = ph_safetensors_write(tape, path, all, n->count);
    ph__free(all);
    ph__free(steps);
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
    names n;
    ph_tape *tape;
    PH_TRY(check_call(optimizer, path, call));
    PH_TRY(names_of(&n, optimizer, call));
    ph_status status = ph__state_begin(&tape, optimizer->device, call);
    if (status == PH_OK)
        status = ph__layer_finish(tape, save(tape, optimizer, &n, path), call);
    names_free(&n);
    return status;
}

/* ---- loading ---- first all that can fail without a trace; then the state changes. */
typedef struct ph__optimizer_load load;
struct ph__optimizer_load {
    ph_optimizer *optimizer;
    names own, *names; /* NULL: not made */
    ph_safetensors *file;
    const char *path, *call;
    ph_tape *tape;    /* NULL: not begun, or over */
    uint64_t *steps;  /* of each parameter */
    double *counters; /* room for those of the device */
    bool *started;    /* whether the file has contents for it */
};

static ph_status check_names(const load *l)
{
    const ph_optimizer *o = l->optimizer;
    ph__wanted *wanted = ph__calloc(l->names->count, sizeof *wanted);
    if (!wanted)
        return ph__fail_host_memory(l->call, "the names of an optimizer's state");
    wanted[0] = (ph__wanted){l->names->at[0], PH_DTYPE_I64, PH_SCALAR, false};
    for (size_t i = 1; i < l->names->count; i++) {
        const ph__trained *p = &o->params.at[(i - 1) / l->names->per_param];
        bool is_state = (i - 1) % l->names->per_param < o->state_count;
        wanted[i] = is_state ? (ph__wanted){l->names->at[i], ph_tensor_dtype(p->param),
                                            ph_tensor_shape(p->param), true}
                             : (ph__wanted){l->names->at[i], PH_DTYPE_I64, PH_SCALAR, false};
    }
    ph_status status = ph__state_check(wanted, l->names->count, l->file, l->path, true, l->call);
    if (status == PH_ERROR_MISMATCH)
        ph__error_suffix(
            "; the file must come from an optimizer of the same module, kind and options "
            "(momentum, amsgrad)");
    ph__free(wanted);
    return status;
}

static bool has_contents(const load *l, const ph__trained *p, const char *name)
{
    ph_dtype dtype;
    ph_shape shape, want = ph_tensor_shape(p->param);
    return ph__state_find(l->file, name, &dtype, &shape) && ph_shape_equal(&shape, &want);
}

static ph_status read_count(uint64_t *out, const load *l, const char *name)
{
    ph_tensor *x;
    int64_t value = 0;
    PH_TRY(ph_safetensors_read(&x, l->tape, l->file, name));
    ph_status status = ph_tensor_read(l->tape, x, &value, sizeof value);
    ph_tensor_release(x);
    if (status == PH_OK && (value < 0 || value > (int64_t)1 << 53))
        status = ph_fail(PH_ERROR_ARGUMENT, "%s: %s: %s is %lld, which is no number of steps",
                         l->call, l->path, name, (long long)value);
    *out = (uint64_t)value;
    return status;
}

static ph_status look_at_param(const load *l, size_t i)
{
    const ph_optimizer *o = l->optimizer;
    ph__trained *p = &o->params.at[i];
    char *const *name = &l->names->at[1 + i * l->names->per_param];
    for (size_t k = 0; k < o->state_count; k++) {
        bool has = has_contents(l, p, name[k]);
        if (k > 0 && has != l->started[i])
            return ph_fail(PH_ERROR_MISMATCH,
                           "%s: %s: parameter %s has %s but not %s, and nothing was loaded",
                           l->call, l->path, p->name, o->kind->state_names[has ? k : 0],
                           o->kind->state_names[has ? 0 : k]);
        l->started[i] = has;
    }
    if (l->started[i])
        PH_TRY(ph__optimizer_make_state(o, p, l->tape));
    l->steps[i] = l->started[i];
    return o->kind->counts ? read_count(&l->steps[i], l, name[o->state_count]) : PH_OK;
}

/* Memory that graphs address keeps its place. */
static ph_status take_param(const load *l, size_t i)
{
    const ph_optimizer *o = l->optimizer;
    ph__trained *p = &o->params.at[i];
    char *const *name = &l->names->at[1 + i * l->names->per_param];
    p->started = l->started[i];
    for (size_t k = 0; k < o->state_count; k++) {
        if (l->started[i])
            PH_TRY(ph_safetensors_read_into(l->tape, p->state[k], l->file, name[k]));
        else if (p->state[k])
            ph_tensor_fill(l->tape, p->state[k], 0);
    }
    return ph_tape_status(l->tape);
}

/* The next step computes again the values that Adam derives from them. */
static ph_status write_steps(const load *l)
{
    ph_optimizer *o = l->optimizer;
    for (size_t i = 0; i < o->params.count && o->counters; i++)
        l->counters[i * PH__OPTIMIZER_COUNTER] = (double)l->steps[i];
    if (o->counters) {
        PH_TRY(ph_tensor_write(l->tape, o->counters, l->counters, ph_tensor_bytes(o->counters)));
        PH_TRY(ph_stream_synchronize(ph_tape_stream(l->tape)));
    }
    for (size_t i = 0; i < o->params.count; i++)
        o->params.at[i].steps = o->on_host ? l->steps[i] : 0;
    return PH_OK;
}

static ph_status look_at_all(load *l)
{
    uint64_t steps;
    size_t bytes = l->optimizer->counters ? ph_tensor_bytes(l->optimizer->counters) : 0;
    l->counters = ph__calloc(bytes + 1, 1);
    l->steps = ph__calloc(l->optimizer->params.count + 1, sizeof *l->steps);
    l->started = ph__calloc(l->optimizer->params.count + 1, sizeof *l->started);
    if (!l->steps || !l->started || !l->counters)
        return ph__fail_host_memory(l->call, "what a file holds");
    PH_TRY(check_names(l));
    PH_TRY(ph__state_begin(&l->tape, l->optimizer->device, l->call));
    PH_TRY(read_count(&steps, l, l->names->at[0]));
    for (size_t i = 0; i < l->optimizer->params.count; i++)
        PH_TRY(look_at_param(l, i));
    return ph__safetensors_look_up(l->file, l->tape, l->call);
}

static ph_status take_all(const load *l)
{
    PH_TRY(write_steps(l));
    PH_TRY(ph_safetensors_read_into(l->tape, l->optimizer->steps, l->file, l->names->at[0]));
    for (size_t i = 0; i < l->optimizer->params.count; i++)
        PH_TRY(take_param(l, i));
    return PH_OK;
}

ph_status ph__optimizer_load_begin(ph__optimizer_load **out, ph_optimizer *optimizer,
                                   const char *path, const char *call)
{
    *out = NULL;
    PH_TRY(check_call(optimizer, path, call));
    load *l = ph__calloc(1, sizeof *l);
    if (!l)
        return ph__fail_host_memory(call, "the load of an optimizer");
    l->optimizer = optimizer;
    l->path = path;
    l->call = call;
    ph_status status = names_of(&l->own, optimizer, call);
    if (status == PH_OK) {
        l->names = &l->own;
        status = ph_safetensors_open(&l->file, path);
    }
    if (status == PH_OK)
        status = look_at_all(l);
    if (status == PH_OK)
        *out = l;
    else
        ph__optimizer_load_end(l);
    return status;
}

ph_status ph__optimizer_load_apply(ph__optimizer_load *l)
{
    ph_tape *tape = l->tape;
    ph_status status = take_all(l);
    l->tape = NULL;
    return ph__layer_finish(tape, status, l->call);
}

void ph__optimizer_load_end(ph__optimizer_load *l)
{
    if (!l)
        return;
    ph_tape_destroy(l->tape);
    ph_safetensors_close(l->file);
    if (l->names)
        names_free(l->names);
    ph__free(l->steps);
    ph__free(l->started);
    ph__free(l->counters);
    ph__free(l);
}

ph_status ph_optimizer_load(ph_optimizer *optimizer, const char *path)
{
    ph__optimizer_load *l;
    PH_TRY(ph__optimizer_load_begin(&l, optimizer, path, "ph_optimizer_load"));
    ph_status status = ph__optimizer_load_apply(l);
    ph__optimizer_load_end(l);
    return status;
}
