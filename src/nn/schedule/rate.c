/* SPDX-License-Identifier: MIT */
/* nn/schedule/rate.c: the rate of each step of a piece, and which pieces mean something. */
#include "nn/schedule/rate.h"
#include "base/option.h"
#include "base/status.h"
#include <math.h>

static const double pi = 3.141592653589793238462643383279502884;

/* ---- what is allowed ---- */
static const char *const kind_names[] = {
    [PH_LR_CONSTANT] = "CONSTANT", [PH_LR_LINEAR] = "LINEAR",       [PH_LR_COSINE] = "COSINE",
    [PH_LR_STEP] = "STEP",         [PH_LR_ONE_CYCLE] = "ONE_CYCLE",
};

typedef struct member {
    const char *name;
    double value;
    bool named; /* the kind has it */
} member;

static ph_status check_members(const ph_lr_piece *p, size_t which, const char *call)
{
    bool cycle = p->kind == PH_LR_ONE_CYCLE, linear = p->kind == PH_LR_LINEAR;
    const member members[] = {
        {"start_factor", p->start_factor, linear || p->kind == PH_LR_CONSTANT},
        {"end_factor", p->end_factor, linear},
        {"eta_min", p->eta_min, p->kind == PH_LR_COSINE},
        {"gamma", p->gamma, p->kind == PH_LR_STEP},
        {"max_lr", p->max_lr, cycle},
        {"pct_start", p->pct_start, cycle},
        {"div_factor", p->div_factor, cycle},
        {"final_div_factor", p->final_div_factor, cycle},
        {"linear_anneal", p->linear_anneal, cycle},
        {"three_phase", p->three_phase, cycle},
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const member *m = &members[i];
        if (!m->named && m->value != 0)
            return ph_fail(PH_ERROR_ARGUMENT, "%s: piece %zu is PH_LR_%s, which has no %s", call,
                           which, kind_names[p->kind], m->name);
        if (!(m->value >= 0) || !isfinite(m->value))
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: %s of piece %zu is %g, and must be finite and not negative", call,
                           m->name, which, m->value);
    }
    return PH_OK;
}

static ph_status check_cycle(const ph_lr_piece *p, size_t which, const char *call)
{
    if (!(p->max_lr > 0) || !(p->div_factor > 0) || !(p->final_div_factor > 0))
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: max_lr, div_factor and final_div_factor of piece %zu are %g, %g and "
                       "%g, and must be above 0",
                       call, which, p->max_lr, p->div_factor, p->final_div_factor);
    if (p->pct_start > 1)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: pct_start of piece %zu is %g, and must be from 0 to 1 (0.3: 30 %%)",
                       call, which, p->pct_start);
    return PH_OK;
}

static void set_defaults(ph_lr_piece *p)
{
    bool factor = p->kind == PH_LR_LINEAR || p->kind == PH_LR_CONSTANT;
    p->start_factor = factor ? ph__option_real(p->start_factor, 1.0 / 3) : 0;
    p->end_factor = ph__option_real(p->end_factor, p->kind == PH_LR_LINEAR ? 1 : 0);
    p->eta_min = ph__option_real(p->eta_min, 0);
    p->gamma = ph__option_real(p->gamma, p->kind == PH_LR_STEP ? 0.1 : 0);
    p->max_lr = ph__option_real(p->max_lr, 0);
    p->pct_start = ph__option_real(p->pct_start, 0.3);
    p->div_factor = ph__option_real(p->div_factor, 25);
    p->final_div_factor = ph__option_real(p->final_div_factor, 1e4);
}

ph_status ph__lr_piece_complete(ph_lr_piece *out, const ph_lr_piece *from, size_t which, bool last,
                                const char *call)
{
    *out = *from;
    if (!PH__RESERVED_OK(from))
        return ph__fail_reserved(call, "ph_lr_piece");
    if (from->kind < PH_LR_CONSTANT || from->kind > PH_LR_ONE_CYCLE)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: the kind of piece %zu is %u, and none of ph_lr_kind",
                       call, which, (unsigned)from->kind);
    if ((from->steps | from->length) >> 53)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: steps or length of piece %zu are beyond 2^53", call,
                       which);
    if (from->steps == 0 || from->steps == PH_ZERO || from->length == PH_ZERO)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %s of piece %zu must be at least 1", call,
                       from->length == PH_ZERO ? "length" : "steps", which);
    if (last && from->length != 0)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: piece %zu is the last, and goes on for ever: its length must be 0",
                       call, which);
    PH_TRY(check_members(from, which, call));
    out->length = last ? 0 : from->length ? from->length : from->steps;
    set_defaults(out);
    return out->kind == PH_LR_ONE_CYCLE ? check_cycle(out, which, call) : PH_OK;
}

/* ---- the formulas ---- */
static double anneal_rate(const ph_lr_piece *p, double start, double end, double part)
{
    if (p->linear_anneal)
        return (end - start) * part + start;
    return end + (start - end) / 2 * (cos(pi * part) + 1);
}

/* Up to max_lr at the step `top`; down, to the first rate or to the last one at once. A cycle whose
 * top or `low` is not before its end ends there, at no last rate. */
static double one_cycle(const ph_lr_piece *p, double t)
{
    double first = p->max_lr / p->div_factor, last = first / p->final_div_factor;
    double total = (double)p->steps, end = total - 1, top = p->pct_start * total - 1;
    double low = p->three_phase ? 2 * p->pct_start * total - 2 : top;
    t = t < end ? t : end;
    if (t <= top)
        return top > 0 ? anneal_rate(p, first, p->max_lr, t / top) : p->max_lr;
    if (p->three_phase && t <= low)
        return anneal_rate(p, p->max_lr, first, (t - top) / (low - top));
    return anneal_rate(p, p->three_phase ? first : p->max_lr, last, (t - low) / (end - low));
}

double ph__lr_piece_rate(const ph_lr_piece *p, double base, uint64_t t)
{
    double part = (double)(t < p->steps ? t : p->steps) / (double)p->steps;
    switch (p->kind) {
    case PH_LR_CONSTANT:
        return t < p->steps ? base * p->start_factor : base;
    case PH_LR_LINEAR:
        return base * (p->start_factor + (p->end_factor - p->start_factor) * part);
    case PH_LR_COSINE: /* its period is two times `steps`: no large number goes into cos */
        part = (double)(t % (2 * p->steps)) / (double)p->steps;
        return p->eta_min + (base - p->eta_min) * (1 + cos(pi * part)) / 2;
    case PH_LR_STEP:
        return base * pow(p->gamma, (double)(t / p->steps));
    case PH_LR_ONE_CYCLE:
        return one_cycle(p, (double)t);
    }
    return base;
}
