/* SPDX-License-Identifier: MIT */
/* tensor/random/random.c: new tensors of random numbers, and the launches that all random operators
 * share. */
#include "tensor/random/random.h"
#include "tensor/core/shape.h"
#include "tensor/core/tensor.h"
#include "tensor/generator/draw.h"
#include "tensor/random/op_draw.h"
#include "tensor/random/random_rules.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"

/* ---- launches ---- */
bool ph__random_fill(ph__op *op, ph_tensor *y, const void *numbers)
{
    const ph__draw_numbers *n = numbers;
    ph__draw draw;
    if (y->count == 0)
        return true;
    if (!ph__op_draw(&draw, op, y->dtype == PH_DTYPE_F64 ? 2 : 1))
        return false;
    const ph__fill_args args = {
        .out = y->data, PH__DRAW_VALUES(draw), .count = (uint64_t)y->count, .a = n->a, .b = n->b};
    return ph__op_launch(op, ph__fill_kernel(n->distribution, y->dtype), ph__random_blocks(y),
                         PH__DRAW_THREADS, 0, &args);
}

bool ph__random_integers(ph__op *op, ph_tensor *y, const void *span)
{
    const ph__span *of = span;
    ph__draw draw;
    if (y->count == 0)
        return true;
    if (!ph__op_draw(&draw, op, 2))
        return false;
    const ph__integers_args args = {.out = y->data,
                                    PH__DRAW_VALUES(draw),
                                    .count = (uint64_t)y->count,
                                    .low = of->low,
                                    .range = of->range};
    return ph__op_launch(op, ph__integers_kernel(y->dtype), ph__random_blocks(y), PH__DRAW_THREADS,
                         0, &args);
}

/* The bits of 1. */
static uint64_t one_of(ph_dtype dtype)
{
    switch (dtype) {
    case PH_DTYPE_F32:
        return 0x3F800000u;
    case PH_DTYPE_F64:
        return UINT64_C(0x3FF0000000000000);
    case PH_DTYPE_F16:
        return 0x3C00u;
    case PH_DTYPE_BF16:
        return 0x3F80u;
    default:
        return 1;
    }
}

bool ph__random_events(ph__op *op, ph_tensor *y, const void *p)
{
    ph__draw draw;
    if (y->count == 0)
        return true;
    if (!ph__op_draw(&draw, op, 1))
        return false;
    const ph__events_args args = {.out = y->data,
                                  PH__DRAW_VALUES(draw),
                                  .count = (uint64_t)y->count,
                                  .threshold = (uint64_t)ceil(*(const double *)p * 0x1p32),
                                  .one = one_of(y->dtype)};
    return ph__op_launch(op, ph__events_kernel(y->dtype), ph__random_blocks(y), PH__DRAW_THREADS, 0,
                         &args);
}

bool ph__random_bernoulli(ph__op *op, ph_tensor *y, const void *p)
{
    const ph_tensor *of = p;
    ph__draw draw;
    if (y->count == 0)
        return true;
    if (!ph__op_draw(&draw, op, of->dtype == PH_DTYPE_F64 ? 2 : 1))
        return false;
    const ph__bernoulli_args args = {.out = y->data,
                                     .p = of->data,
                                     PH__DRAW_VALUES(draw),
                                     .count = (uint64_t)y->count,
                                     .one = one_of(y->dtype)};
    return ph__op_launch(op, ph__bernoulli_kernel(of->dtype, y->dtype), ph__random_blocks(y),
                         PH__DRAW_THREADS, 0, &args);
}

/* ---- new tensors ---- */
static ph_tensor *make_random(ph__op *op, ph_dtype dtype, const ph_shape *shape,
                              ph__random_launch launch, const void *user)
{
    size_t bytes;
    if (!ph__op_check(op, ph__shape_check(&bytes, dtype, shape, op->name)))
        return NULL;
    ph_tensor *y = ph__op_output(op, dtype, shape);
    return y && launch(op, y, user) ? ph__op_done(op, y) : NULL;
}

ph_tensor *ph_rand(ph_tape *tape, ph_dtype dtype, ph_shape shape)
{
    ph__op op;
    const ph__draw_numbers n = {PH__UNIFORM, 0, 1};
    if (!ph__op_begin(&op, tape, "rand", NULL, 0, 0) || !ph__random_floats(&op, dtype))
        return NULL;
    return make_random(&op, dtype, &shape, ph__random_fill, &n);
}

ph_tensor *ph_uniform(ph_tape *tape, ph_dtype dtype, ph_shape shape, double low, double high)
{
    ph__op op;
    ph__draw_numbers n;
    if (!ph__op_begin(&op, tape, "uniform", NULL, 0, 0) ||
        !ph__random_uniform(&n, &op, dtype, low, high))
        return NULL;
    return make_random(&op, dtype, &shape, ph__random_fill, &n);
}

ph_tensor *ph_randn(ph_tape *tape, ph_dtype dtype, ph_shape shape)
{
    ph__op op;
    const ph__draw_numbers n = {PH__NORMAL, 0, 1};
    if (!ph__op_begin(&op, tape, "randn", NULL, 0, 0) || !ph__random_floats(&op, dtype))
        return NULL;
    return make_random(&op, dtype, &shape, ph__random_fill, &n);
}

ph_tensor *ph_normal(ph_tape *tape, ph_dtype dtype, ph_shape shape, double mean, double deviation)
{
    ph__op op;
    ph__draw_numbers n;
    if (!ph__op_begin(&op, tape, "normal", NULL, 0, 0) ||
        !ph__random_normal(&n, &op, dtype, mean, deviation))
        return NULL;
    return make_random(&op, dtype, &shape, ph__random_fill, &n);
}

ph_tensor *ph_exponential(ph_tape *tape, ph_dtype dtype, ph_shape shape, double rate)
{
    ph__op op;
    ph__draw_numbers n;
    if (!ph__op_begin(&op, tape, "exponential", NULL, 0, 0) ||
        !ph__random_exponential(&n, &op, dtype, rate))
        return NULL;
    return make_random(&op, dtype, &shape, ph__random_fill, &n);
}

ph_tensor *ph_randint(ph_tape *tape, ph_dtype dtype, ph_shape shape, int64_t low, int64_t high)
{
    ph__op op;
    ph__span span;
    if (!ph__op_begin(&op, tape, "randint", NULL, 0, 0))
        return NULL;
    if (dtype != PH_DTYPE_I32 && dtype != PH_DTYPE_I64 && dtype != PH_DTYPE_U8)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "%s: i32, i64 or u8 is needed",
                           ph_dtype_name(dtype));
    if (!ph__random_span(&span, &op, dtype, low, high))
        return NULL;
    return make_random(&op, dtype, &shape, ph__random_integers, &span);
}
