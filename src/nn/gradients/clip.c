/* SPDX-License-Identifier: MIT */
/* nn/gradients/clip.c: gradients bounded by their norm, or each by itself. */
#include "nn/gradients/clip.h"
#include "base/option.h"
#include "base/status.h"
#include "nn/gradients/clip_failure.h"
#include "nn/gradients/gradients.h"
#include "nn/gradients/kernels.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include <math.h>
#include <phonograph/clip_grad.h>

/* Whose gradients; exactly one is not NULL. */
typedef struct owner {
    ph_module *module;
    ph_optimizer *optimizer;
} owner;

static bool check_call(ph_tape *tape, const owner *of, const char *what, const char *call)
{
    if (!tape)
        return false;
    if (ph__tape_failed(tape)) {
        ph__tape_skip(tape);
        return false;
    }
    if (of->module || of->optimizer)
        return true;
    ph_tape_fail(tape, PH_ERROR_ARGUMENT, "%s: %s is NULL, and must not be", call, what);
    return false;
}

static bool check_bound(ph_tape *tape, double bound, const char *what, const char *call)
{
    if (bound >= 0)
        return true;
    ph_tape_fail(tape, PH_ERROR_ARGUMENT, "%s: %s is %g, and must be at least 0", call, what,
                 bound);
    return false;
}

/* ---- by the norm ---- */
typedef struct norm {
    double p, most;
    uint32_t flags;
    ph_tensor *nonfinite; /* NULL: nobody asks */
    bool fails;
} norm;

static bool read_options(norm *n, ph_tape *tape, const ph_clip_grad_options *options,
                         const char *call)
{
    static const ph_clip_grad_options defaults = {.norm_type = 0};
    if (!options)
        options = &defaults;
    if (!PH__RESERVED_OK(options)) {
        ph_tape_check(tape, ph__fail_reserved(call, "ph_clip_grad_options"));
        return false;
    }
    n->p = ph__option_real(options->norm_type, 2);
    n->fails = options->error_if_nonfinite;
    n->flags = n->p == INFINITY ? PH__NORM_LARGEST
               : n->p == 1      ? PH__NORM_SUM
               : n->p == 2      ? PH__NORM_SQUARES
                                : 0;
    if (n->p > 0)
        return true;
    ph_tape_fail(tape, PH_ERROR_ARGUMENT, "%s: norm_type is %g, and must be above 0", call, n->p);
    return false;
}

static ph__kernel_def *const sums[] = {&ph__norm_f32, &ph__norm_f64},
                             *const products[] = {&ph__multiply_f32, &ph__multiply_f64},
                             *const ends[] = {&ph__norm_end_f32, &ph__norm_end_f64};

/* The norm; *factor: what the gradients are to be multiplied by. */
static ph_tensor *measure_norm(double **factor, ph__gradients *g, const norm *n)
{
    const ph_shape scalar = PH_SCALAR;
    ph_dtype dtype = g->all_wide ? PH_DTYPE_F64 : PH_DTYPE_F32;
    ph_tensor *total = ph__op_output(&g->op, dtype, &scalar);
    ph_tensor *scratch = ph__op_scratch(&g->op, (g->blocks + 1) * sizeof(double));
    if (!total || !scratch)
        return NULL;
    *factor = (double *)(void *)scratch->data;
    const ph__gradients_args each = {
        .partial = *factor + 1, .factor = *factor, .number = n->p, .flags = n->flags};
    const ph__norm_args end = {.partial = *factor + 1,
                               .norm = total->data,
                               .factor = *factor,
                               .nonfinite =
                                   n->nonfinite ? (int64_t *)(void *)n->nonfinite->data : NULL,
                               .count = (int64_t)g->blocks,
                               .p = n->p,
                               .max_norm = n->most,
                               .flags = n->flags};
    bool runs = ph__gradients_run(g, sums, &each, false) &&
                ph__op_launch(&g->op, ends[g->all_wide], 1, 1024, 0, &end);
    return runs ? total : NULL;
}

static ph_tensor *clip_begun(ph__gradients *g, const norm *n)
{
    double *factor = NULL;
    ph_tensor *total = ph__gradients_make(g, products) ? measure_norm(&factor, g, n) : NULL;
    const ph__gradients_args multiply = {.factor = factor};
    return total && ph__gradients_run(g, products, &multiply, true) ? total : NULL;
}

static ph_tensor *clip_norm(ph_tape *tape, const owner *of, ph_tensor **nonfinite, double max_norm,
                            const ph_clip_grad_options *options, const char *call)
{
    norm n = {.most = max_norm};
    ph__gradients g = {.writes = true, .whole = true};
    ph_tensor *total = NULL;
    if (!check_bound(tape, max_norm, "max_norm", call) || !read_options(&n, tape, options, call))
        return NULL;
    if (n.fails && !ph__clip_failure_begin(tape, nonfinite, call))
        return NULL;
    n.nonfinite = n.fails ? *nonfinite : NULL;
    if (ph__gradients_begin(&g, tape, of->module, of->optimizer, &n.nonfinite, 1, call))
        total = clip_begun(&g, &n);
    return ph__gradients_end(&g, true, total);
}

ph_tensor *ph_clip_grad_norm(ph_tape *tape, ph_module *module, double max_norm,
                             const ph_clip_grad_options *options)
{
    static const char call[] = "ph_clip_grad_norm";
    const owner of = {.module = module};
    if (!check_call(tape, &of, "module", call))
        return NULL;
    return clip_norm(tape, &of, &module->nonfinite, max_norm, options, call);
}

ph_tensor *ph_optimizer_clip_grad_norm(ph_tape *tape, ph_optimizer *optimizer, double max_norm,
                                       const ph_clip_grad_options *options)
{
    static const char call[] = "ph_optimizer_clip_grad_norm";
    const owner of = {.optimizer = optimizer};
    if (!check_call(tape, &of, "optimizer", call))
        return NULL;
    return clip_norm(tape, &of, &optimizer->nonfinite, max_norm, options, call);
}

/* ---- in two halves ---- */
ph_tensor *ph__clip_part_norm(ph_tape *tape, ph_module *module, const char *call)
{
    const norm n = {.p = 2, .most = 1, .flags = PH__NORM_SQUARES};
    double *factor = NULL;
    ph__gradients g = {.writes = false};
    ph_tensor *total = NULL;
    if (ph__gradients_begin(&g, tape, module, NULL, NULL, 0, call))
        total = measure_norm(&factor, &g, &n);
    return ph__gradients_end(&g, false, total);
}

void ph__clip_part_scale(ph_tape *tape, ph_module *module, ph_tensor *factor, const char *call)
{
    ph__gradients g = {.writes = true};
    if (ph__tape_failed(tape))
        return;
    const ph__gradients_args multiply = {.factor = (double *)(void *)factor->data};
    if (ph__gradients_begin(&g, tape, module, NULL, &factor, 1, call) &&
        ph__gradients_make(&g, products))
        ph__gradients_run(&g, products, &multiply, true);
    ph__gradients_end(&g, true, NULL);
}

/* ---- by value ---- */
static void clip_value(ph_tape *tape, const owner *of, double value, const char *what,
                       const char *call)
{
    static ph__kernel_def *const defs[] = {&ph__clamp_f32, &ph__clamp_f64};
    const ph__gradients_args args = {.number = value};
    ph__gradients g = {.writes = true};
    if (!check_call(tape, of, what, call) || !check_bound(tape, value, "value", call))
        return;
    if (ph__gradients_begin(&g, tape, of->module, of->optimizer, NULL, 0, call))
        ph__gradients_run(&g, defs, &args, true);
    ph__gradients_end(&g, true, NULL);
}

void ph_clip_grad_value(ph_tape *tape, ph_module *module, double value)
{
    const owner of = {.module = module};
    clip_value(tape, &of, value, "module", "ph_clip_grad_value");
}

void ph_optimizer_clip_grad_value(ph_tape *tape, ph_optimizer *optimizer, double value)
{
    const owner of = {.optimizer = optimizer};
    clip_value(tape, &of, value, "optimizer", "ph_optimizer_clip_grad_value");
}
