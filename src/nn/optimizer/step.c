/* SPDX-License-Identifier: MIT */
/* nn/optimizer/step.c: one step: all parameters that have a gradient, as few launches as they
 * fit in. */
#include "base/status.h"
#include "nn/module/layers.h"
#include "nn/optimizer/optimizer.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include <math.h>
#include <string.h>

/* A step under way. */
typedef struct step {
    ph_tape *tape;
    ph_optimizer *optimizer;
    ph__op op;
    uint64_t capture; /* 0: eager */
    uint64_t *lr_at;  /* in a capture */
    /* scalars of the device in f32, or NULL */
    ph_tensor *grad_scale, *found_inf;
    bool counted; /* a launch has counted the step */
} step;

/* ---- who takes part ---- with the gradient that the user sees; it is made contiguous later. */
static bool choose(ph_optimizer *o)
{
    bool any = false;
    for (size_t i = 0; i < o->params.count; i++) {
        ph__trained *p = &o->params.at[i];
        p->grad = p->param->count > 0 ? ph_tensor_grad(p->param) : NULL;
        any |= p->grad != NULL;
    }
    return any;
}

static void forget(ph_optimizer *o)
{
    for (size_t i = 0; i < o->params.count; i++)
        o->params.at[i].grad = NULL;
}

/* Before anything is launched. */
static bool check_capture(const step *s)
{
    const ph_optimizer *o = s->optimizer;
    if (o->on_host) {
        ph_tape_fail(
            s->tape, PH_ERROR_STATE,
            "ph_optimizer_step: %s counts its steps on the host (not_capturable), which a replay "
            "could not do: it cannot be captured; create it without not_capturable",
            o->kind->name);
        return false;
    }
    for (size_t i = 0; o->state_count > 0 && i < o->params.count; i++)
        if (o->params.at[i].grad && !o->params.at[i].started) {
            ph_tape_fail(
                s->tape, PH_ERROR_STATE,
                "ph_optimizer_step: %s has no state for parameter %s yet, and it cannot be made in "
                "a capture; make one eager step first, in which this parameter has a gradient",
                o->kind->name, o->params.at[i].name);
            return false;
        }
    return true;
}

/* The device alone knows whether the first step of a parameter is skipped, so that its state has
 * contents from here on: zeros, which are what every kind begins with but SGD, whose counters
 * tell its kernel which step is the first. */
static bool fill_state(const step *s, ph__trained *p)
{
    const ph_optimizer *o = s->optimizer;
    for (size_t k = 0; k < o->state_count; k++)
        ph_tensor_fill(s->tape, p->state[k], 0);
    p->started = !ph__tape_failed(s->tape);
    return p->started;
}

static bool make_states(const step *s)
{
    ph_optimizer *o = s->optimizer;
    for (size_t i = 0; i < o->params.count; i++) {
        ph__trained *p = &o->params.at[i];
        bool fills = p->grad && s->found_inf && o->state_count > 0 && !p->started;
        ph_status status = p->grad ? ph__optimizer_make_state(o, p, s->tape) : PH_OK;
        if (status == PH_OK && fills && !o->on_host)
            status = ph__optimizer_make_counters(o, s->tape);
        if (status != PH_OK) {
            ph_tape_check(s->tape, status);
            return false;
        }
        if (fills && !fill_state(s, p))
            return false;
    }
    return true;
}

static bool begin(step *s)
{
    ph_optimizer *o = s->optimizer;
    size_t count = 0;
    for (size_t i = 0; i < o->params.count; i++) {
        ph__trained *p = &o->params.at[i];
        if (!p->grad)
            continue;
        o->operands[count++] = p->param;
        o->operands[count++] = p->grad;
        for (size_t k = 0; k < o->state_count; k++)
            o->operands[count++] = p->state[k];
    }
    o->operands[count++] = o->steps;
    if (o->counters)
        o->operands[count++] = o->counters;
    if (s->grad_scale)
        o->operands[count++] = s->grad_scale;
    if (s->found_inf)
        o->operands[count++] = s->found_inf;
    if (!ph__op_begin(&s->op, s->tape, o->kind->name, o->operands, count, count))
        return false;
    for (size_t i = 0; i < o->params.count; i++) {
        ph__trained *p = &o->params.at[i];
        if (p->grad && p->param->storage->read_only) {
            ph__op_fail(&s->op, PH_ERROR_STATE, "the memory of parameter %s is read-only", p->name);
            return false;
        }
        if (p->grad && !p->grad->contiguous && !(p->grad = ph_contiguous(s->tape, p->grad)))
            return false;
    }
    return true;
}

static const float *scalar_at(const ph_tensor *x)
{
    return x ? (const float *)(const void *)x->data : NULL;
}

/* ---- counters ---- */
static bool advance(step *s)
{
    enum {
        MOST = 64 * PH__OPTIMIZER_MASK,
        THREADS = 128
    };
    ph_optimizer *o = s->optimizer;
    for (size_t base = 0; o->counters && base < o->params.count; base += MOST) {
        size_t count = o->params.count - base < MOST ? o->params.count - base : MOST;
        ph__advance_args args = {.counters = (double *)(void *)o->counters->data +
                                             base * PH__OPTIMIZER_COUNTER,
                                 .found_inf = scalar_at(s->found_inf),
                                 .beta1 = o->beta1,
                                 .beta2 = o->beta2,
                                 .count = (int64_t)count};
        for (size_t i = 0; i < count; i++)
            args.mask[i / 64] |= (uint64_t)(o->params.at[base + i].grad != NULL) << i % 64;
        if (!ph__op_launch(&s->op, &ph__optimizer_advance, (count + THREADS - 1) / THREADS, THREADS,
                           0, &args))
            return false;
    }
    return true;
}

/* ---- updates ---- what one launch can take has these in common. */
typedef struct group {
    ph_dtype dtype;
    bool fresh;
    uint64_t steps; /* counted on the host */
} group;

static group group_of(const ph_optimizer *o, const ph__trained *p)
{
    return (group){p->param->dtype, o->state_count > 0 && !p->started, p->steps};
}

static bool in_group(const ph_optimizer *o, const ph__trained *p, const group *g)
{
    group own = group_of(o, p);
    return own.dtype == g->dtype && own.fresh == g->fresh && own.steps == g->steps;
}

static void set_numbers(ph__update_args *a, const step *s, const group *g)
{
    const ph_optimizer *o = s->optimizer;
    a->lr_at = s->lr_at;
    a->lr = ph_optimizer_lr(o);
    a->weight_decay = o->weight_decay;
    a->momentum = o->momentum;
    a->undampened = 1 - o->dampening;
    a->beta1 = o->beta1;
    a->beta2 = o->beta2;
    a->eps = o->eps;
    a->counters = o->counters ? (const double *)(const void *)o->counters->data : NULL;
    a->grad_scale = scalar_at(s->grad_scale);
    a->found_inf = scalar_at(s->found_inf);
    a->bias1 = 1 - pow(o->beta1, (double)g->steps + 1);
    a->bias2 = sqrt(1 - pow(o->beta2, (double)g->steps + 1));
    a->flags = o->flags | (g->fresh ? PH__UPDATE_FRESH : 0);
}

/* From *next on the members of g that fit; *next moves behind them. Gives the number of blocks. */
static uint64_t fill(ph__update_args *a, const ph_optimizer *o, const group *g, size_t *next)
{
    uint64_t blocks = 0;
    for (; *next < o->params.count && a->tensors < PH__OPTIMIZER_TENSORS; ++*next) {
        const ph__trained *p = &o->params.at[*next];
        uint32_t i = a->tensors;
        if (!p->grad || !in_group(o, p, g))
            continue;
        a->param[i] = p->param->data;
        a->grad[i] = p->grad->data;
        a->state0[i] = p->state[0] ? p->state[0]->data : NULL;
        a->state1[i] = p->state[1] ? p->state[1]->data : NULL;
        a->state2[i] = p->state[2] ? p->state[2]->data : NULL;
        a->count[i] = p->param->count;
        a->first[i] = (uint32_t)blocks;
        a->counter[i] = (uint32_t)*next;
        blocks += ((uint64_t)p->param->count + PH__OPTIMIZER_CHUNK - 1) / PH__OPTIMIZER_CHUNK;
        a->tensors++;
    }
    return blocks;
}

/* They take no further part. */
static void mark_done(const step *s, const ph__update_args *a)
{
    ph_optimizer *o = s->optimizer;
    for (uint32_t i = 0; i < a->tensors; i++) {
        ph__trained *p = &o->params.at[a->counter[i]];
        ph__storage_changed(p->param->storage, s->capture, ph__tape_key(s->tape));
        p->grad = NULL;
        p->started = true;
        p->steps += o->on_host;
    }
}

static bool launch_group(step *s, const group *g, size_t first)
{
    ph_optimizer *o = s->optimizer;
    bool amsgrad = o->flags & PH__UPDATE_AMSGRAD;
    ph__kernel_def *def = (amsgrad ? o->kind->amsgrad : o->kind->update)[g->dtype == PH_DTYPE_F64];
    while (first < o->params.count) {
        ph__update_args args;
        memset(&args, 0, sizeof args);
        set_numbers(&args, s, g);
        uint64_t blocks = fill(&args, o, g, &first);
        if (blocks == 0)
            break;
        if (!s->counted)
            args.steps = (int64_t *)(void *)o->steps->data;
        if (!ph__op_launch(&s->op, def, blocks, PH__OPTIMIZER_THREADS, 0, &args))
            return false;
        s->counted = true;
        mark_done(s, &args);
    }
    return true;
}

static bool launch_all(step *s)
{
    const ph_optimizer *o = s->optimizer;
    for (size_t i = 0; i < o->params.count; i++) {
        if (!o->params.at[i].grad)
            continue;
        group g = group_of(o, &o->params.at[i]);
        if (!launch_group(s, &g, i))
            return false;
    }
    return true;
}

/* ---- the step ---- */
/* Steps that the host counts are skipped by the host: waits. */
static bool host_skips(const step *s, const char *call)
{
    float found = 0;
    if (!s->optimizer->on_host || !s->found_inf)
        return false;
    ph_status status = ph_tensor_read(s->tape, s->found_inf, &found, sizeof found);
    if (status != PH_OK)
        ph_tape_check(s->tape, ph__layer_waited(status, call));
    return status != PH_OK || found != 0;
}

static bool prepare(step *s, const char *call)
{
    ph_stream *stream = ph_tape_stream(s->tape);
    ph_capture_info info = {0};
    ph_tape_check(s->tape, ph_stream_get_capture_info(&info, stream));
    s->capture = info.id;
    if (info.status == PH_CAPTURE_NONE)
        return !host_skips(s, call) && make_states(s) && begin(s);
    return check_capture(s) && begin(s) &&
           ph__op_check(&s->op, ph__optimizer_cell(&s->lr_at, s->optimizer, stream, s->capture));
}

void ph__optimizer_step(ph_tape *tape, ph_optimizer *optimizer, ph_tensor *grad_scale,
                        ph_tensor *found_inf, const char *call)
{
    step s = {
        .tape = tape, .optimizer = optimizer, .grad_scale = grad_scale, .found_inf = found_inf};
    bool enabled = ph_tape_set_grad_enabled(tape, false);
    if (choose(optimizer) && prepare(&s, call) && advance(&s) && launch_all(&s))
        ph__op_done_n(&s.op, NULL, 0);
    forget(optimizer);
    ph_tape_set_grad_enabled(tape, enabled);
}

void ph_optimizer_step(ph_tape *tape, ph_optimizer *optimizer)
{
    static const char call[] = "ph_optimizer_step";
    if (!tape)
        return;
    if (ph__tape_failed(tape)) {
        ph__tape_skip(tape);
        return;
    }
    if (!optimizer) {
        ph_tape_fail(tape, PH_ERROR_ARGUMENT, "%s: optimizer is NULL, and must not be", call);
        return;
    }
    ph__optimizer_step(tape, optimizer, optimizer->scales ? optimizer->grad_scale : NULL, NULL,
                       call);
}

void ph_optimizer_set_grad_scale(ph_tape *tape, ph_optimizer *optimizer, ph_tensor *grad_scale)
{
    static const char call[] = "ph_optimizer_set_grad_scale";
    if (!tape)
        return;
    if (ph__tape_failed(tape)) {
        ph__tape_skip(tape);
        return;
    }
    if (!optimizer) {
        ph_tape_fail(tape, PH_ERROR_ARGUMENT, "%s: optimizer is NULL, and must not be", call);
        return;
    }
    if (!grad_scale) {
        optimizer->scales = false;
        return;
    }
    if (grad_scale->dtype != PH_DTYPE_F32 || grad_scale->count != 1) {
        ph_tape_fail(tape, PH_ERROR_ARGUMENT,
                     "%s: grad_scale is %s of %lld elements, and must be "
                     "an f32 scalar",
                     call, ph_dtype_name(grad_scale->dtype), (long long)grad_scale->count);
        return;
    }
    if (!optimizer->grad_scale && ph_stream_is_capturing(ph_tape_stream(tape))) {
        ph_tape_fail(tape, PH_ERROR_STATE,
                     "%s: the memory of a grad_scale cannot be made in a "
                     "capture; call it once before",
                     call);
        return;
    }
    if (!optimizer->grad_scale)
        ph_tape_check(tape, ph_tensor_create(&optimizer->grad_scale, optimizer->device,
                                             PH_DTYPE_F32, PH_SCALAR));
    bool enabled = ph_tape_set_grad_enabled(tape, false);
    if (!ph__tape_failed(tape))
        ph_tensor_copy(tape, optimizer->grad_scale, ph_reshape(tape, grad_scale, PH_SCALAR));
    ph_tape_set_grad_enabled(tape, enabled);
    optimizer->scales |= !ph__tape_failed(tape);
}
