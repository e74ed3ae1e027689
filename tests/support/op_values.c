/* SPDX-License-Identifier: MIT */
/* tests/support/op_values.c: arrays of doubles, random shapes, and conversions for op_check. */
#include "support/op_check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void op_array_make(op_array *out, const ph_shape *shape)
{
    out->shape = *shape;
    out->count = ph_shape_count(shape);
    assert_true(out->count >= 0);
    out->at = calloc((size_t)out->count + 1, sizeof *out->at);
    assert_non_null(out->at);
}

bool op_next(int64_t index[PH_MAX_RANK], const ph_shape *shape)
{
    for (size_t i = shape->rank; i-- > 0;) {
        if (++index[i] < shape->dim[i])
            return true;
        index[i] = 0;
    }
    return false;
}

int64_t op_at(const op_array *a, const int64_t index[PH_MAX_RANK], size_t rank)
{
    int64_t at = 0;
    for (size_t i = 0; i < a->shape.rank; i++) {
        int64_t step = a->shape.dim[i] == 1 ? 0 : index[rank - a->shape.rank + i];
        at = at * a->shape.dim[i] + step;
    }
    return at;
}

int64_t op_random(op_trial *trial, int64_t low, int64_t high)
{
    return low + (int64_t)ph__rng_below(&trial->rng, (uint64_t)(high - low) + 1);
}

ph_shape op_random_shape(op_trial *trial, size_t low_rank, size_t high_rank)
{
    ph_shape shape = {.rank = (size_t)op_random(trial, (int64_t)low_rank, (int64_t)high_rank)};
    int64_t count = 1;
    for (size_t i = 0; i < shape.rank; i++) {
        int64_t most = count > 100 ? 3 : count > 20 ? 6 : 33;
        shape.dim[i] = op_random(trial, 0, 4) == 0 ? 1 : op_random(trial, 2, most);
        count *= shape.dim[i];
    }
    if (trial->index % 6 == 5 && shape.rank > 0)
        shape.dim[op_random(trial, 0, (int64_t)shape.rank - 1)] = 0;
    return shape;
}

ph_shape op_random_broadcast(op_trial *trial, const ph_shape *shape)
{
    size_t dropped = shape->rank > 0 && op_random(trial, 0, 2) == 0
                         ? (size_t)op_random(trial, 1, (int64_t)shape->rank)
                         : 0;
    ph_shape out = {.rank = shape->rank - dropped};
    for (size_t i = 0; i < out.rank; i++)
        out.dim[i] = op_random(trial, 0, 2) == 0 ? 1 : shape->dim[dropped + i];
    return out;
}

void op_shapes_same(op_trial *trial)
{
    trial->shape[0] = op_random_shape(trial, 0, 5);
    for (size_t i = 1; i < trial->spec->in_count; i++)
        trial->shape[i] = trial->shape[0];
}

void op_shapes_broadcast(op_trial *trial)
{
    ph_shape whole = op_random_shape(trial, 0, 5);
    for (size_t i = 0; i < trial->spec->in_count; i++)
        trial->shape[i] = op_random_broadcast(trial, &whole);
    trial->shape[op_random(trial, 0, (int64_t)trial->spec->in_count - 1)] = whole;
}

/* ---- conversions ---- */
static uint16_t half_of(double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double x = fabs(value);
    if (isnan(value))
        return (uint16_t)(sign | 0x7e00);
    if (x >= 65520.0)
        return (uint16_t)(sign | 0x7c00);
    int exponent = 0;
    if (x > 0)
        (void)frexp(x, &exponent);
    int step = exponent - 11 < -24 ? -24 : exponent - 11;
    double units = nearbyint(ldexp(x, -step)); /* ties to even, in the default rounding mode */
    x = ldexp(units, step);
    if (x < ldexp(1.0, -14))
        return (uint16_t)(sign | (uint16_t)ldexp(x, 24));
    double mantissa = frexp(x, &exponent);
    return (uint16_t)(sign | (uint16_t)((exponent + 14) << 10) |
                      (uint16_t)(ldexp(mantissa, 11) - 1024));
}

static double half_to(uint16_t bits)
{
    int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    double x = exponent == 31  ? (mantissa ? (double)NAN : (double)INFINITY)
               : exponent == 0 ? ldexp(mantissa, -24)
                               : ldexp(1024 + mantissa, exponent - 25);
    return bits & 0x8000 ? -x : x;
}

/* Through f32, rounded once: what is rounded to f32 first could differ only on exact ties of 16
 * bits. */
static uint16_t bf16_of(double value)
{
    float x = (float)value;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(value))
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static double bf16_to(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

void op_encode(void *to, ph_dtype dtype, const double *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double x = from[i];
        switch (dtype) {
        case PH_DTYPE_F32:
            ((float *)to)[i] = (float)x;
            break;
        case PH_DTYPE_F64:
            ((double *)to)[i] = x;
            break;
        case PH_DTYPE_F16:
            ((uint16_t *)to)[i] = half_of(x);
            break;
        case PH_DTYPE_BF16:
            ((uint16_t *)to)[i] = bf16_of(x);
            break;
        case PH_DTYPE_I32:
            ((int32_t *)to)[i] = (int32_t)x;
            break;
        case PH_DTYPE_I64:
            ((int64_t *)to)[i] = (int64_t)x;
            break;
        case PH_DTYPE_U8:
            ((uint8_t *)to)[i] = (uint8_t)x;
            break;
        case PH_DTYPE_BOOL:
            ((uint8_t *)to)[i] = x != 0;
            break;
        }
    }
}

void op_decode(double *to, ph_dtype dtype, const void *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        switch (dtype) {
        case PH_DTYPE_F32:
            to[i] = (double)((const float *)from)[i];
            break;
        case PH_DTYPE_F64:
            to[i] = ((const double *)from)[i];
            break;
        case PH_DTYPE_F16:
            to[i] = half_to(((const uint16_t *)from)[i]);
            break;
        case PH_DTYPE_BF16:
            to[i] = bf16_to(((const uint16_t *)from)[i]);
            break;
        case PH_DTYPE_I32:
            to[i] = ((const int32_t *)from)[i];
            break;
        case PH_DTYPE_I64:
            to[i] = (double)((const int64_t *)from)[i];
            break;
        case PH_DTYPE_U8:
        case PH_DTYPE_BOOL:
            to[i] = ((const uint8_t *)from)[i];
            break;
        }
    }
}
