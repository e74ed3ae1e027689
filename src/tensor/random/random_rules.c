/* SPDX-License-Identifier: MIT */
/* tensor/random/random_rules.c: what may be asked of operators that draw, and their operands. */
#include "tensor/random/random_rules.h"
#include "base/half.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/op.h"

bool ph__random_floats(ph__op *op, ph_dtype dtype)
{
    return ph_dtype_is_floating(dtype) ||
           ph__op_fail(op, PH_ERROR_ARGUMENT,
                       "%s: a floating dtype is needed; ph_cast gives a tensor one",
                       ph_dtype_name(dtype));
}

bool ph__random_check(ph__op *op, bool good, const char *what, double value, const char *rule)
{
    return good || ph__op_fail(op, PH_ERROR_ARGUMENT, "%s is %g; it must be %s", what, value, rule);
}

/* As a number of the dtype. */
static double round_to_dtype(ph_dtype dtype, double x)
{
    switch (dtype) {
    case PH_DTYPE_F16:
        return ph__f16_get(ph__f16_put((float)x));
    case PH_DTYPE_BF16:
        return ph__bf16_get(ph__bf16_put((float)x));
    case PH_DTYPE_F32:
        return (float)x;
    default:
        return x;
    }
}

/* The value that the largest uniform of the dtype becomes. */
static double largest_uniform(ph_dtype dtype, double low, double width)
{
    switch (dtype) {
    case PH_DTYPE_F64:
        return low + (1 - 0x1p-53) * width;
    case PH_DTYPE_F32:
        return (float)low + (1 - 0x1p-24f) * (float)width;
    case PH_DTYPE_F16:
        return round_to_dtype(dtype, (float)low + (1 - 0x1p-11f) * (float)width);
    default:
        return round_to_dtype(dtype, (float)low + (1 - 0x1p-8f) * (float)width);
    }
}

bool ph__random_uniform(ph__draw_numbers *out, ph__op *op, ph_dtype dtype, double low, double high)
{
    if (!ph__random_floats(op, dtype))
        return false;
    low = round_to_dtype(dtype, low);
    high = round_to_dtype(dtype, high);
    double width = round_to_dtype(dtype == PH_DTYPE_F64 ? dtype : PH_DTYPE_F32, high - low);
    if (!(low <= high) || !isfinite(width))
        return ph__op_fail(
            op, PH_ERROR_ARGUMENT, "from %g to %g is no range of %s: %s", low, high,
            ph_dtype_name(dtype),
            low > high ? "the lower end is above the upper one"
                       : "the ends, and what is between them, must be finite numbers of it");
    /* Where the full width would give high: the largest that does not. */
    if (low < high && largest_uniform(dtype, low, width) >= high) {
        double good = 0, bad = width;
        for (int i = 0; i < 64; i++) {
            double middle = round_to_dtype(dtype == PH_DTYPE_F64 ? dtype : PH_DTYPE_F32,
                                           good + (bad - good) / 2);
            if (largest_uniform(dtype, low, middle) >= high)
                bad = middle;
            else
                good = middle;
        }
        width = good;
    }
    *out = (ph__draw_numbers){PH__UNIFORM, low, width};
    return true;
}

bool ph__random_normal(ph__draw_numbers *out, ph__op *op, ph_dtype dtype, double mean,
                       double deviation)
{
    *out = (ph__draw_numbers){PH__NORMAL, mean, deviation};
    return ph__random_floats(op, dtype) &&
           ph__random_check(op, deviation >= 0, "the deviation", deviation, "0 or more");
}

bool ph__random_exponential(ph__draw_numbers *out, ph__op *op, ph_dtype dtype, double rate)
{
    *out = (ph__draw_numbers){PH__EXPONENTIAL, rate, 0};
    return ph__random_floats(op, dtype) &&
           ph__random_check(op, rate > 0, "the rate", rate, "above 0");
}

/* The ends of the whole numbers of which the dtype has every one. */
static void whole_number_ends(int64_t *least, int64_t *most, ph_dtype dtype)
{
    static const int64_t digits[] = {
        [PH_DTYPE_F32] = 24, [PH_DTYPE_F64] = 53, [PH_DTYPE_F16] = 11, [PH_DTYPE_BF16] = 8};
    switch (dtype) {
    case PH_DTYPE_BOOL:
    case PH_DTYPE_U8:
        *least = 0;
        *most = dtype == PH_DTYPE_U8 ? UINT8_MAX : 1;
        return;
    case PH_DTYPE_I32:
        *least = INT32_MIN;
        *most = INT32_MAX;
        return;
    case PH_DTYPE_I64:
        *least = INT64_MIN;
        *most = INT64_MAX;
        return;
    default:
        *most = INT64_C(1) << digits[dtype];
        *least = -*most;
    }
}

bool ph__random_span(ph__span *out, ph__op *op, ph_dtype dtype, int64_t low, int64_t high)
{
    int64_t least, most;
    whole_number_ends(&least, &most, dtype);
    if (low >= high || low < least || high - 1 > most)
        return ph__op_fail(
            op, PH_ERROR_ARGUMENT,
            "from %lld to below %lld is no range of %s: it must have a number, and %s has every "
            "whole number from %lld to %lld alone",
            (long long)low, (long long)high, ph_dtype_name(dtype), ph_dtype_name(dtype),
            (long long)least, (long long)most);
    *out = (ph__span){.low = (uint64_t)low, .range = (uint64_t)high - (uint64_t)low};
    return true;
}

ph_tensor *ph__random_dense(ph__op *op, ph_tensor *x, const ph_shape *shape)
{
    if (x->contiguous && ph_shape_equal(&x->shape, shape))
        return x;
    ph_tensor *y = ph__op_output(op, x->dtype, shape);
    return y && ph__elementwise_copy(op, y, x) ? y : NULL;
}
