/* SPDX-License-Identifier: MIT */
/* nn/optimizer/step.c: one step: all parameters that have a gradient, as few launches as they
 * fit in. */
#include "nn/optimizer/step.h"
#include "base/status.h"
#include "nn/module/layers.h"
#include "nn/optimizer/state_memory.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include <string.h>

/* A step under way. */
typedef struct step {
    ph_tape *tape;
    ph_optimizer *optimizer;
    ph__op op;
    uint64_t capture; /* 0: eager */
    /* scalars of the device in f32, or NULL */
    ph_tensor *grad_scale, *found_inf;
    bool counted; /* a launch has counted the step */
} step;

/* The states whose contents a kernel makes, not the host: a bit for each; none once p has begun. */
static uint32_t begins_unfilled(const ph_optimizer *o, const ph__trained *p)
{
    return p->started ? 0 : ph__group_of(o, p)->settings.states & ~o->kind->filled;
}

/* ---- who takes part ---- with the gradient that the user sees; it is made contiguous later. */
static bool choose_params(ph_optimizer *o)
{
    bool any = false;
    for (size_t i = 0; i < o->params.count; i++) {
        ph__trained *p = &o->params.at[i];
        p->grad = p->param->count > 0 ? ph_tensor_grad(p->param) : NULL;
        any |= p->grad != NULL;
    }
    return any;
}

static void forget_gradients(ph_optimizer *o)
{
    for (size_t i = 0; i < o->params.count; i++)
        o->params.at[i].grad = NULL;
}

/* As PyTorch does, every group that has parameters, whether they take part or not. */
static const ph__optimizer_group *counts_on_host(const ph_optimizer *o)
{
    for (size_t i = 0; i < o->group_count; i++)
        if (o->groups[i].settings.on_host && o->groups[i].param_count > 0)
            return &o->groups[i];
    return NULL;
}

/* Before anything is launched. */
static bool check_capture(const step *s)
{
    const ph_optimizer *o = s->optimizer;
    const ph__optimizer_group *group = counts_on_host(o);
    if (group) {
        ph_tape_fail(
            s->tape, PH_ERROR_STATE,
            "ph_optimizer_step: %s counts its steps on the host (not_capturable, group %zu), which "
            "a replay could not do: it cannot be captured; create it without not_capturable",
            o->kind->name, (size_t)(group - o->groups));
        return false;
    }
    for (size_t i = 0; i < o->params.count; i++) {
        const ph__trained *p = &o->params.at[i];
        if (!p->grad || p->started || ph__group_of(o, p)->settings.states == 0)
            continue;
        ph_tape_fail(
            s->tape, PH_ERROR_STATE,
            "ph_optimizer_step: %s has no state for parameter %s yet, and it cannot be made in "
            "a capture; make one eager step first, in which this parameter has a gradient",
            o->kind->name, p->name);
        return false;
    }
    return true;
}

/* The learning rates of this step: what set_lr does meanwhile is for the next one. */
static void acquire_rates(const ph_optimizer *o)
{
    for (size_t i = 0; i < o->group_count; i++)
        o->groups[i].step_lr = ph_optimizer_group_lr(o, i);
}

/* The device alone knows whether it skips a first step: the state has contents from here on, zeros,
 * or -0 of SGD: later steps make the bits of a first one of it. With dampening, counters tell. */
static bool fill_state(const step *s, ph__trained *p)
{
    double zero = s->optimizer->kind->rule == PH__COUNT_FIRST ? -0.0 : 0;
    for (size_t k = 0; k < PH__OPTIMIZER_STATES; k++)
        if (begins_unfilled(s->optimizer, p) >> k & 1)
            ph_tensor_fill(s->tape, p->state[k], zero);
    p->started = !ph__tape_failed(s->tape);
    return p->started;
}

static bool make_states_in(const step *s, ph__tensor_batch *batch)
{
    ph_optimizer *o = s->optimizer;
    for (size_t i = 0; i < o->params.count; i++) {
        ph__trained *p = &o->params.at[i];
        bool fills = p->grad && s->found_inf && begins_unfilled(o, p);
        ph_status status = p->grad ? ph__optimizer_make_state(o, p, s->tape, batch) : PH_OK;
        bool counts = fills || (p->grad && ph__group_of(o, p)->settings.odd_first);
        if (status == PH_OK && counts && !ph__group_of(o, p)->settings.on_host)
            status = ph__optimizer_make_counters(o, s->tape);
        ph_tape_check(s->tape, status);
        if (ph__tape_failed(s->tape) || (fills && !fill_state(s, p)))
            return false;
    }
    return true;
}

static bool make_states(const step *s)
{
    ph__tensor_batch *batch;
    ph_tape_check(s->tape, ph__optimizer_reserve_states(&batch, s->optimizer, s->tape));
    bool made = !ph__tape_failed(s->tape) && make_states_in(s, batch);
    ph__tensor_batch_end(batch);
    return made;
}

static bool begin_step(step *s)
{
    ph_optimizer *o = s->optimizer;
    size_t count = 0;
    for (size_t i = 0; i < o->params.count; i++) {
        ph__trained *p = &o->params.at[i];
        if (!p->grad)
            continue;
        o->operands[count++] = p->param;
        o->operands[count++] = p->grad;
        for (size_t k = 0; k < PH__OPTIMIZER_STATES; k++)
            if (ph__group_of(o, p)->settings.states >> k & 1)
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

static bool rate_of(const uint64_t **lr_at, step *s, size_t group)
{
    uint64_t *at = NULL;
    if (s->capture != 0 &&
        !ph__op_check(&s->op, ph__optimizer_cell(&at, s->optimizer, group, ph_tape_stream(s->tape),
                                                 s->capture)))
        return false;
    *lr_at = at;
    return true;
}

/* ---- counters ---- */
enum {
    MOST_COUNTERS = 64 * PH__COUNT_MASK /* of one launch */
};

static bool derive_some(step *s, size_t group, size_t base)
{
    const ph_optimizer *o = s->optimizer;
    const ph__optimizer_group *g = &o->groups[group];
    size_t count = o->params.count - base < MOST_COUNTERS ? o->params.count - base : MOST_COUNTERS;
    ph__count_args args = {.counters = ph__optimizer_counters(o, g) + base * PH__COUNT_SIZE,
                           .lr = g->step_lr,
                           .count = (int64_t)count,
                           .rule = o->kind->rule};
    bool any = false;
    memcpy(args.number, g->settings.number, sizeof args.number);
    for (size_t i = 0; i < count; i++) {
        bool participates = o->params.at[base + i].grad && o->params.at[base + i].group == group;
        args.mask[i / 64] |= (uint64_t)participates << i % 64;
        any |= participates;
    }
    return !any || (rate_of(&args.lr_at, s, group) &&
                    ph__op_launch(&s->op, &ph__count_kernel,
                                  (count + PH__COUNT_THREADS - 1) / PH__COUNT_THREADS,
                                  PH__COUNT_THREADS, 0, &args));
}

/* The numbers that the updates take from the counters. */
static bool derive_factors(step *s)
{
    const ph_optimizer *o = s->optimizer;
    if (o->kind->rule == PH__COUNT_NOTHING)
        return true;
    for (size_t i = 0; i < o->params.count; i++) {
        ph__trained *p = &o->params.at[i];
        const ph__optimizer_group *g = ph__group_of(o, p);
        if (p->grad && g->settings.on_host)
            ph__count_derive(p->counter, g->settings.number, g->step_lr, o->kind->rule);
    }
    for (size_t group = 0; group < o->group_count; group++)
        for (size_t base = 0;
             ph__optimizer_counters(o, &o->groups[group]) && base < o->params.count;
             base += MOST_COUNTERS)
            if (!derive_some(s, group, base))
                return false;
    return true;
}

/* ---- updates ---- what one launch can take has these in common. */
typedef struct batch {
    size_t group;
    ph_dtype dtype;
    bool fresh;
    double derived[PH__COUNT_DERIVED]; /* on the host */
} batch;

static batch batch_of(const ph_optimizer *o, const ph__trained *p)
{
    const ph__optimizer_group *g = ph__group_of(o, p);
    batch b;
    memset(&b, 0, sizeof b);
    b.group = p->group;
    b.dtype = p->param->dtype;
    b.fresh = begins_unfilled(o, p);
    if (g->settings.on_host)
        memcpy(b.derived, p->counter + PH__COUNT_AT_DERIVED, sizeof b.derived);
    return b;
}

static bool in_batch(const ph_optimizer *o, const ph__trained *p, const batch *b)
{
    batch own = batch_of(o, p);
    return own.group == b->group && own.dtype == b->dtype && own.fresh == b->fresh &&
           memcmp(own.derived, b->derived, sizeof own.derived) == 0;
}

static const float *scalar_at(const ph_tensor *x)
{
    return x ? (const float *)(const void *)x->data : NULL;
}

static void set_numbers(ph__update_args *a, const step *s, const batch *b)
{
    const ph_optimizer *o = s->optimizer;
    const ph__optimizer_group *g = &o->groups[b->group];
    a->lr = g->step_lr;
    a->counters = ph__optimizer_counters(o, g);
    a->grad_scale = scalar_at(s->grad_scale);
    a->found_inf = scalar_at(s->found_inf);
    memcpy(a->number, g->settings.number, sizeof a->number);
    memcpy(a->derived, b->derived, sizeof a->derived);
    a->flags = g->settings.flags | (b->fresh ? PH__UPDATE_FRESH : 0);
}

/* From *next on the members of b that fit; *next moves behind them. Gives the number of blocks. */
static uint64_t fill_batch(ph__update_args *a, const ph_optimizer *o, const batch *b, size_t *next)
{
    uint64_t blocks = 0;
    for (; *next < o->params.count && a->tensors < PH__OPTIMIZER_TENSORS; ++*next) {
        const ph__trained *p = &o->params.at[*next];
        uint32_t i = a->tensors;
        if (!p->grad || !in_batch(o, p, b))
            continue;
        a->param[i] = p->param->data;
        a->grad[i] = p->grad->data;
        for (size_t k = 0; k < PH__OPTIMIZER_STATES; k++)
            a->state[k][i] = p->state[k] ? p->state[k]->data : NULL;
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
        if (o->kind->counts && ph__group_of(o, p)->settings.on_host)
            ph__count_on(p->counter);
    }
}

static ph__kernel_def *kernel_of(const ph_optimizer *o, const batch *b)
{
    bool amsgrad = o->groups[b->group].settings.flags & PH__UPDATE_AMSGRAD;
    return (amsgrad ? o->kind->amsgrad : o->kind->update)[b->dtype == PH_DTYPE_F64];
}

static bool launch_batch(step *s, const batch *b, size_t first)
{
    ph_optimizer *o = s->optimizer;
    while (first < o->params.count) {
        ph__update_args args;
        memset(&args, 0, sizeof args);
        set_numbers(&args, s, b);
        uint64_t blocks = fill_batch(&args, o, b, &first);
        if (blocks == 0)
            break;
        if (!s->counted)
            args.steps = (int64_t *)(void *)o->steps->data;
        if (!rate_of(&args.lr_at, s, b->group) ||
            !ph__op_launch(&s->op, kernel_of(o, b), blocks, PH__OPTIMIZER_THREADS, 0, &args))
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
        batch b = batch_of(o, &o->params.at[i]);
        if (!launch_batch(s, &b, i))
            return false;
    }
    return true;
}

/* ---- the step ---- */
/* Steps that the host counts are skipped by the host: waits. */
static bool host_skips(const step *s, const char *call)
{
    float found = 0;
    if (!s->found_inf || !counts_on_host(s->optimizer))
        return false;
    ph_status status = ph_tensor_read(s->tape, s->found_inf, &found, sizeof found);
    if (status != PH_OK)
        ph_tape_check(s->tape, ph__layer_waited(status, call));
    return status != PH_OK || found != 0;
}

static bool prepare_step(step *s, const char *call)
{
    ph_capture_info info = {0};
    ph_tape_check(s->tape, ph_stream_get_capture_info(&info, ph_tape_stream(s->tape)));
    acquire_rates(s->optimizer);
    s->capture = info.id;
    if (info.status == PH_CAPTURE_NONE)
        return !host_skips(s, call) && make_states(s) && begin_step(s);
    return check_capture(s) && begin_step(s);
}

void ph__optimizer_step(ph_tape *tape, ph_optimizer *optimizer, ph_tensor *grad_scale,
                        ph_tensor *found_inf, const char *call)
{
    step s = {
        .tape = tape, .optimizer = optimizer, .grad_scale = grad_scale, .found_inf = found_inf};
    bool enabled = ph_tape_set_grad_enabled(tape, false);
    ph_tape_check(tape, ph__optimizer_check_parts(optimizer, call));
    if (!ph__tape_failed(tape) && choose_params(optimizer) && prepare_step(&s, call) &&
        derive_factors(&s) && launch_all(&s))
        ph__op_done_n(&s.op, NULL, 0);
    forget_gradients(optimizer);
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
