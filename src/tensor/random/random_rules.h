/* SPDX-License-Identifier: MIT */
/* tensor/random/random_rules.h: the arguments that operators which draw accept, and their operands.
 * */
#ifndef PH_TENSOR_RANDOM_RANDOM_RULES_H
#define PH_TENSOR_RANDOM_RANDOM_RULES_H
#include "tensor/kernels/elementwise.h"
#include "tensor/random/random_kernels.h"

/* ---- rules ---- false: the tape has failed (ARGUMENT). */
/* A distribution of floats, and two numbers, whose meaning cuda/draws.cu gives. */
typedef struct ph__draw_numbers {
    ph__distribution distribution;
    double a, b;
} ph__draw_numbers;
bool ph__random_floats(ph__op *op, ph_dtype dtype);
/* "<what> is <value>; it must be <rule>", unless it is good. */
bool ph__random_check(ph__op *op, bool good, const char *what, double value, const char *rule);
/* [low, high): rounding never gives high itself, where low < high. */
bool ph__random_uniform(ph__draw_numbers *out, ph__op *op, ph_dtype dtype, double low, double high);
bool ph__random_normal(ph__draw_numbers *out, ph__op *op, ph_dtype dtype, double mean,
                       double deviation);
bool ph__random_exponential(ph__draw_numbers *out, ph__op *op, ph_dtype dtype, double rate);
/* Whole numbers of [low, high), all of which the dtype has. */
typedef struct ph__span {
    uint64_t low, range;
} ph__span;
bool ph__random_span(ph__span *out, ph__op *op, ph_dtype dtype, int64_t low, int64_t high);

/* ---- operands ---- x of this shape, contiguous: itself, or a copy that goes at the operator's
 * end. NULL: the tape has failed. */
ph_tensor *ph__random_dense(ph__op *op, ph_tensor *x, const ph_shape *shape);

static inline uint64_t ph__random_blocks(const ph_tensor *y)
{
    return ((uint64_t)y->count + PH__DRAW_ELEMENTS - 1) / PH__DRAW_ELEMENTS;
}
#endif
