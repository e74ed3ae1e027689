/* SPDX-License-Identifier: MIT */
/* nn/gradients/scaler_step.c: a gradient scaler's calls in a step: unscale, step, update. */
#include "nn/gradients/gradients.h"
#include "nn/gradients/kernels.h"
#include "nn/gradients/scaler.h"
#include "nn/gradients/scaler_capture.h"
#include "nn/optimizer/step.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include <float.h>

/* ---- optimizers of a scaler ---- */
static ph__scaled_optimizer *find_optimizer(ph_grad_scaler *scaler, const ph_optimizer *optimizer)
{
    for (size_t i = 0; i < PH_GRAD_SCALER_OPTIMIZERS; i++)
        if (scaler->optimizers[i].optimizer == optimizer)
            return &scaler->optimizers[i];
    return NULL;
}

/* One that nobody else has any more, whose flag is 0, makes room. */
static ph__scaled_optimizer *find_place(ph_grad_scaler *scaler)
{
    ph__scaled_optimizer *place = find_optimizer(scaler, NULL);
    for (size_t i = 0; !place && i < PH_GRAD_SCALER_OPTIMIZERS; i++) {
        ph__scaled_optimizer *o = &scaler->optimizers[i];
        if (atomic_load(&o->optimizer->references) > 1 || o->stage != PH__SCALER_READY || o->dirty)
            continue;
        ph_optimizer_destroy(o->optimizer);
        o->optimizer = NULL;
        place = o;
    }
    return place;
}

static ph__scaled_optimizer *optimizer_of(ph_tape *tape, ph_grad_scaler *scaler,
                                          ph_optimizer *optimizer, const char *call)
{
    const ph_shape scalar = PH_SCALAR;
    ph__scaled_optimizer *o = find_optimizer(scaler, optimizer);
    if (o)
        return o;
    if (!(o = find_place(scaler))) {
        ph_tape_fail(tape, PH_ERROR_STATE,
                     "%s: the scaler has %d optimizers, and takes no more; make another scaler",
                     call, PH_GRAD_SCALER_OPTIMIZERS);
        return NULL;
    }
    size_t offset = (size_t)(o - scaler->optimizers) * sizeof(float);
    if (!o->found_inf)
        o->found_inf =
            ph__tensor_make(scaler->found_inf->storage, PH_DTYPE_F32, &scalar, NULL, offset);
    if (!o->found_inf) {
        ph__tape_fail_host_memory(tape, call, "the flag of an optimizer");
        return NULL;
    }
    o->optimizer = ph__optimizer_retain(optimizer);
    o->stage = PH__SCALER_READY;
    o->checked = false;
    return o;
}

/* The begin of all calls with an optimizer; NULL: the tape has failed, or (disabled) there is
 * nothing to do. */
static ph__scaled_optimizer *begin_with_optimizer(ph_tape *tape, ph_grad_scaler *scaler,
                                                  ph_optimizer *optimizer, const char *call)
{
    if (optimizer->device != scaler->device) {
        ph_tape_fail(tape, PH_ERROR_WRONG_DEVICE,
                     "%s: optimizer %s, and with it its gradients, is of another device than the "
                     "scaler; each device has a scaler of its own",
                     call, optimizer->kind->name);
        return NULL;
    }
    if (!scaler->scaled) {
        ph_tape_fail(tape, PH_ERROR_STATE,
                     "%s: nothing was scaled yet; multiply the loss by the scale first "
                     "(ph_grad_scaler_scale), and go backward from that",
                     call);
        return NULL;
    }
    ph__scaled_optimizer *o = optimizer_of(tape, scaler, optimizer, call);
    return o && ph__scaler_capture_begin(tape, scaler, o, call) ? o : NULL;
}

static void set_stage(ph_grad_scaler *scaler, ph__scaled_optimizer *o, ph__scaler_stage stage)
{
    ph__spin_lock(&scaler->lock);
    o->stage = stage;
    ph__spin_unlock(&scaler->lock);
}

/* ---- gradients ---- */
typedef struct division {
    ph_tensor *scale, *scale2; /* NULL: 1 */
    ph_tensor *found_inf;      /* NULL: nothing is looked for */
    bool writes;
    bool any; /* there was a gradient */
} division;

static float *address_of(const ph_tensor *x)
{
    return x ? (float *)(void *)x->data : NULL;
}

static void divide_gradients(ph_tape *tape, ph_optimizer *optimizer, division *d, const char *call)
{
    ph__gradients g = {.writes = d->writes};
    ph__kernel_def *const defs[] = {&ph__unscale_f32, &ph__unscale_f64};
    ph_tensor *more[] = {d->scale, d->scale2, d->found_inf};
    const ph__gradients_args args = {.scale = address_of(d->scale),
                                     .scale2 = address_of(d->scale2),
                                     .found_inf = address_of(d->found_inf),
                                     .flags = d->writes ? PH__GRADIENTS_WRITE : 0};
    bool runs = ph__gradients_begin(&g, tape, NULL, optimizer, more, 3, call);
    d->any = g.list.count > 0;
    if (runs)
        ph__gradients_run(&g, defs, &args, d->writes);
    ph__gradients_end(&g, d->writes, NULL);
}

/* Looks at all gradients, for infinities, and divides them where it writes. */
static void check_gradients(ph_tape *tape, ph_grad_scaler *scaler, ph__scaled_optimizer *o,
                            bool writes, ph_tensor *grad_scale, const char *call)
{
    division d = {
        .scale = scaler->scale, .scale2 = grad_scale, .found_inf = o->found_inf, .writes = writes};
    if (o->dirty) {
        bool enabled = ph_tape_set_grad_enabled(tape, false);
        ph_tensor_fill(tape, o->found_inf, 0);
        ph_tape_set_grad_enabled(tape, enabled);
    }
    if (ph__tape_failed(tape))
        return;
    bool was_dirty = o->dirty && ph_stream_is_capturing(ph_tape_stream(tape));
    o->dirty = true;
    divide_gradients(tape, o->optimizer, &d, call);
    if (ph__tape_failed(tape))
        return;
    o->dirty = was_dirty;
    ph__spin_lock(&scaler->lock);
    o->checked = d.any;
    ph__spin_unlock(&scaler->lock);
}

/* ---- unscale ---- */
void ph_grad_scaler_unscale(ph_tape *tape, ph_grad_scaler *scaler, ph_optimizer *optimizer)
{
    static const char call[] = "ph_grad_scaler_unscale";
    if (!ph__grad_scaler_check(tape, scaler, optimizer, "optimizer", call) || scaler->disabled)
        return;
    ph__scaled_optimizer *o = begin_with_optimizer(tape, scaler, optimizer, call);
    if (!o)
        return;
    if (o->stage != PH__SCALER_READY) {
        ph_tape_fail(tape, PH_ERROR_STATE,
                     o->stage != PH__SCALER_STEPPED
                         ? "%s: it has already been called for optimizer %s since the last update; "
                           "ph_grad_scaler_update ends a step"
                         : "%s: called after ph_grad_scaler_step for optimizer %s; unscale before "
                           "the step, and call ph_grad_scaler_update behind it",
                     call, optimizer->kind->name);
        return;
    }
    check_gradients(tape, scaler, o, true, NULL, call);
    if (!ph__tape_failed(tape))
        set_stage(scaler, o, PH__SCALER_UNSCALED);
}

/* ---- step ---- */
static bool check_step(ph_tape *tape, const ph__scaled_optimizer *o, const char *call)
{
    if (o->stage != PH__SCALER_STEPPED)
        return true;
    ph_tape_fail(tape, PH_ERROR_STATE,
                 "%s: it has already been called for optimizer %s since the last update; "
                 "ph_grad_scaler_update ends a step",
                 call, o->optimizer->kind->name);
    return false;
}

/* Whether a step has to look at the gradients itself: also where a call before it found none. */
static bool is_new(const ph__scaled_optimizer *o)
{
    return o->stage == PH__SCALER_READY || !o->checked;
}

/* The gradients are divided here, and looked at, unless ph_grad_scaler_unscale has done it; by the
 * optimizer's grad_scale too. Never twice, be the step refused. */
static void prepare_gradients(ph_tape *tape, ph_grad_scaler *scaler, ph__scaled_optimizer *o,
                              const char *call)
{
    ph_optimizer *optimizer = o->optimizer;
    ph_tensor *own = optimizer->scales ? optimizer->grad_scale : NULL;
    if (is_new(o)) {
        bool writes = !scaler->fused || own;
        check_gradients(tape, scaler, o, writes, own, call);
        if (writes && !ph__tape_failed(tape))
            set_stage(scaler, o, own ? PH__SCALER_DIVIDED : PH__SCALER_UNSCALED);
    } else if (own && o->stage == PH__SCALER_UNSCALED) {
        division d = {.scale = own, .writes = true};
        divide_gradients(tape, optimizer, &d, call);
        if (!ph__tape_failed(tape))
            set_stage(scaler, o, PH__SCALER_DIVIDED);
    }
}

void ph_grad_scaler_step(ph_tape *tape, ph_grad_scaler *scaler, ph_optimizer *optimizer)
{
    static const char call[] = "ph_grad_scaler_step";
    if (!ph__grad_scaler_check(tape, scaler, optimizer, "optimizer", call))
        return;
    if (scaler->disabled) {
        ph_optimizer_step(tape, optimizer);
        return;
    }
    ph__scaled_optimizer *o = begin_with_optimizer(tape, scaler, optimizer, call);
    if (!o || !check_step(tape, o, call))
        return;
    bool divides = scaler->fused && is_new(o) && !optimizer->scales;
    prepare_gradients(tape, scaler, o, call);
    if (ph__tape_failed(tape))
        return;
    if (!o->checked) {
        ph_tape_fail(
            tape, PH_ERROR_STATE,
            "%s: no infinities were looked for in optimizer %s: none of its parameters has "
            "a gradient; ph_backward makes them",
            call, optimizer->kind->name);
        return;
    }
    ph__optimizer_step(tape, optimizer, divides ? scaler->scale : NULL, o->found_inf, call);
    if (!ph__tape_failed(tape))
        set_stage(scaler, o, PH__SCALER_STEPPED);
}

/* ---- update ---- */
static bool meet_all(ph_tape *tape, ph_grad_scaler *scaler, bool *checked, const char *call)
{
    bool any = ph__scaler_capture_begin(tape, scaler, NULL, call);
    for (size_t i = 0; any && i < PH_GRAD_SCALER_OPTIMIZERS; i++) {
        const ph__scaled_optimizer *o = &scaler->optimizers[i];
        if (!o->optimizer)
            continue;
        any = ph__scaler_capture_begin(tape, scaler, o, call);
        *checked |= o->checked;
    }
    return any;
}

static void forget_all(ph_grad_scaler *scaler, bool in_capture)
{
    ph__spin_lock(&scaler->lock);
    for (size_t i = 0; i < PH_GRAD_SCALER_OPTIMIZERS; i++) {
        scaler->optimizers[i].stage = PH__SCALER_READY;
        scaler->optimizers[i].checked = false;
        scaler->optimizers[i].dirty &= in_capture;
    }
    ph__spin_unlock(&scaler->lock);
}

static void launch_update(ph_tape *tape, ph_grad_scaler *scaler, bool sets, double value,
                          ph_tensor *from, const char *call)
{
    ph__op op;
    ph_tensor *in[] = {scaler->scale, scaler->tracker, scaler->found_inf, from};
    ph__scaler_args args = {.scale = address_of(scaler->scale),
                            .tracker = (int64_t *)(void *)scaler->tracker->data,
                            .found_inf = address_of(scaler->found_inf),
                            .growth_factor = scaler->growth_factor,
                            .backoff_factor = scaler->backoff_factor,
                            .value = value,
                            .growth_interval = scaler->growth_interval,
                            .count = PH_GRAD_SCALER_OPTIMIZERS,
                            .sets = sets};
    if (!ph__op_begin(&op, tape, call, in, 4, 3))
        return;
    if (from && (from->dtype != PH_DTYPE_F32 || from->count != 1)) {
        ph__op_fail(&op, PH_ERROR_ARGUMENT, "the new scale must be a scalar in f32");
        return;
    }
    args.from = address_of(from);
    if (ph__op_launch(&op, &ph__scaler_update, 1, 32, 0, &args) &&
        ph__op_change(&op, scaler->scale) && ph__op_done_n(&op, NULL, 0))
        forget_all(scaler, ph_stream_is_capturing(ph_tape_stream(tape)));
}

static void update_scale(ph_tape *tape, ph_grad_scaler *scaler, bool sets, double value,
                         ph_tensor *from, const char *call)
{
    bool checked = false, enabled = ph_tape_set_grad_enabled(tape, false);
    if (!scaler->scaled)
        ph_tape_fail(tape, PH_ERROR_STATE,
                     "%s: nothing was scaled yet; ph_grad_scaler_scale comes first", call);
    else if (meet_all(tape, scaler, &checked, call) && !sets && !checked)
        ph_tape_fail(tape, PH_ERROR_STATE,
                     "%s: no infinities were looked for since the last update; "
                     "ph_grad_scaler_unscale or ph_grad_scaler_step does that",
                     call);
    if (!ph__tape_failed(tape))
        launch_update(tape, scaler, sets, value, from, call);
    ph_tape_set_grad_enabled(tape, enabled);
}

void ph_grad_scaler_update(ph_tape *tape, ph_grad_scaler *scaler)
{
    static const char call[] = "ph_grad_scaler_update";
    if (ph__grad_scaler_check(tape, scaler, scaler, "scaler", call) && !scaler->disabled)
        update_scale(tape, scaler, false, 0, NULL, call);
}

void ph_grad_scaler_update_to(ph_tape *tape, ph_grad_scaler *scaler, double scale)
{
    static const char call[] = "ph_grad_scaler_update_to";
    if (!ph__grad_scaler_check(tape, scaler, scaler, "scaler", call) || scaler->disabled)
        return;
    if (!(scale >= (double)FLT_MIN && scale <= (double)FLT_MAX)) {
        ph_tape_fail(tape, PH_ERROR_ARGUMENT,
                     "%s: scale is %g, and must be from 2^-126 to the largest f32", call, scale);
        return;
    }
    update_scale(tape, scaler, true, scale, NULL, call);
}

void ph_grad_scaler_update_from(ph_tape *tape, ph_grad_scaler *scaler, ph_tensor *scale)
{
    static const char call[] = "ph_grad_scaler_update_from";
    if (ph__grad_scaler_check(tape, scaler, scale, "scale", call) && !scaler->disabled)
        update_scale(tape, scaler, true, 0, scale, call);
}
