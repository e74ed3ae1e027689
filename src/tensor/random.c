/* SPDX-License-Identifier: MIT */
/* tensor/random.c: tensors of random numbers, new ones and in place. */
#include "tensor/elementwise.h"
#include "tensor/random_kernels.h"

/* ---- launches ---- y: contiguous. Nothing is drawn for empty ones. */
static uint64_t blocks_of(const ph_tensor *y)
{
    return ((uint64_t)y->count + PH__DRAW_ELEMENTS - 1) / PH__DRAW_ELEMENTS;
}

/* Two numbers, and what they mean: cuda/draws.cu. */
typedef struct numbers {
    ph__distribution distribution;
    double a, b;
} numbers;

static bool fill(ph__op *op, ph_tensor *y, const void *user)
{
    const numbers *n = user;
    ph__draw draw;
    if (y->count == 0)
        return true;
    if (!ph__op_draw(&draw, op, y->dtype == PH_DTYPE_F64 ? 2 : 1))
        return false;
    const ph__fill_args args = {
        .out = y->data, PH__DRAW_VALUES(draw), .count = (uint64_t)y->count, .a = n->a, .b = n->b};
    return ph__op_launch(op, ph__fill_kernel(n->distribution, y->dtype), blocks_of(y), PH__DRAW_THREADS, 0,
                         &args);
}

/* What 1 looks like. */
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

static bool events(ph__op *op, ph_tensor *y, const void *user)
{
    const double *p = user;
    ph__draw draw;
    if (y->count == 0)
        return true;
    if (!ph__op_draw(&draw, op, 1))
        return false;
    const ph__events_args args = {.out = y->data,
                                  PH__DRAW_VALUES(draw),
                                  .count = (uint64_t)y->count,
                                  .threshold = (uint64_t)ceil(*p * 0x1p32),
                                  .one = one_of(y->dtype)};
    return ph__op_launch(op, ph__events_kernel(y->dtype), blocks_of(y), PH__DRAW_THREADS, 0, &args);
}

/* ---- what may be asked for ---- */
static bool check_float(ph__op *op, ph_dtype dtype)
{
    return ph_dtype_is_floating(dtype) ||
           ph__op_fail(op, PH_ERROR_ARGUMENT, "%s: a floating dtype is needed", ph_dtype_name(dtype));
}

static bool check(ph__op *op, bool good, const char *what, double value, const char *rule)
{
    return good || ph__op_fail(op, PH_ERROR_ARGUMENT, "%s is %g; it must be %s", what, value, rule);
}

static bool check_probability(ph__op *op, double p)
{
    return check(op, p >= 0 && p <= 1, "the probability", p, "from 0 to 1");
}

/* As a number of the dtype. */
static double rounded(ph_dtype dtype, double x)
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

/* What the largest uniform of the dtype becomes. */
static double largest(ph_dtype dtype, double low, double width)
{
    switch (dtype) {
    case PH_DTYPE_F64:
        return low + (1 - 0x1p-53) * width;
    case PH_DTYPE_F32:
        return (float)low + (1 - 0x1p-24f) * (float)width;
    case PH_DTYPE_F16:
        return rounded(dtype, (float)low + (1 - 0x1p-11f) * (float)width);
    default:
        return rounded(dtype, (float)low + (1 - 0x1p-8f) * (float)width);
    }
}

/* Rounding must not give high itself: where the full width would, the largest that does not. */
static bool set_range(numbers *out, ph__op *op, ph_dtype dtype, double low, double high)
{
    if (!check_float(op, dtype))
        return false;
    low = rounded(dtype, low);
    high = rounded(dtype, high);
    double width = rounded(dtype == PH_DTYPE_F64 ? dtype : PH_DTYPE_F32, high - low);
    if (!(low <= high) || !isfinite(width))
        return ph__op_fail(op, PH_ERROR_ARGUMENT, "from %g to %g is no range of %s", low, high,
                           ph_dtype_name(dtype));
    if (low < high && largest(dtype, low, width) >= high) {
        double good = 0, bad = width;
        for (int i = 0; i < 64; i++) {
            double middle = rounded(dtype == PH_DTYPE_F64 ? dtype : PH_DTYPE_F32, good + (bad - good) / 2);
            if (largest(dtype, low, middle) >= high)
                bad = middle;
            else
                good = middle;
        }
        width = good;
    }
    *out = (numbers){PH__UNIFORM, low, width};
    return true;
}

static bool set_normal(numbers *out, ph__op *op, ph_dtype dtype, double mean, double deviation)
{
    *out = (numbers){PH__NORMAL, mean, deviation};
    return check_float(op, dtype) && check(op, deviation >= 0, "the deviation", deviation, "0 or more");
}

static bool set_exponential(numbers *out, ph__op *op, ph_dtype dtype, double rate)
{
    *out = (numbers){PH__EXPONENTIAL, rate, 0};
    return check_float(op, dtype) && check(op, rate > 0, "the rate", rate, "above 0");
}

/* ---- new tensors ---- */
static ph_tensor *make(ph__op *op, ph_dtype dtype, const ph_shape *shape,
                       bool (*launch)(ph__op *op, ph_tensor *y, const void *user), const void *user)
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
    const numbers n = {PH__UNIFORM, 0, 1};
    if (!ph__op_begin(&op, tape, "rand", NULL, 0, 0) || !check_float(&op, dtype))
        return NULL;
    return make(&op, dtype, &shape, fill, &n);
}

ph_tensor *ph_uniform(ph_tape *tape, ph_dtype dtype, ph_shape shape, double low, double high)
{
    ph__op op;
    numbers n;
    if (!ph__op_begin(&op, tape, "uniform", NULL, 0, 0) || !set_range(&n, &op, dtype, low, high))
        return NULL;
    return make(&op, dtype, &shape, fill, &n);
}

ph_tensor *ph_randn(ph_tape *tape, ph_dtype dtype, ph_shape shape)
{
    ph__op op;
    const numbers n = {PH__NORMAL, 0, 1};
    if (!ph__op_begin(&op, tape, "randn", NULL, 0, 0) || !check_float(&op, dtype))
        return NULL;
    return make(&op, dtype, &shape, fill, &n);
}

ph_tensor *ph_normal(ph_tape *tape, ph_dtype dtype, ph_shape shape, double mean, double deviation)
{
    ph__op op;
    numbers n;
    if (!ph__op_begin(&op, tape, "normal", NULL, 0, 0) || !set_normal(&n, &op, dtype, mean, deviation))
        return NULL;
    return make(&op, dtype, &shape, fill, &n);
}

ph_tensor *ph_exponential(ph_tape *tape, ph_dtype dtype, ph_shape shape, double rate)
{
    ph__op op;
    numbers n;
    if (!ph__op_begin(&op, tape, "exponential", NULL, 0, 0) || !set_exponential(&n, &op, dtype, rate))
        return NULL;
    return make(&op, dtype, &shape, fill, &n);
}

static bool bernoulli(ph__op *op, ph_tensor *y, const void *user)
{
    const ph_tensor *p = user;
    ph__draw draw;
    if (y->count == 0)
        return true;
    if (!ph__op_draw(&draw, op, y->dtype == PH_DTYPE_F64 ? 2 : 1))
        return false;
    const ph__bernoulli_args args = {
        .out = y->data, .p = p->data, PH__DRAW_VALUES(draw), .count = (uint64_t)y->count};
    return ph__op_launch(op, ph__bernoulli_kernel(y->dtype), blocks_of(y), PH__DRAW_THREADS, 0, &args);
}

ph_tensor *ph_bernoulli(ph_tape *tape, ph_tensor *p)
{
    ph__op op;
    if (!ph__op_begin(&op, tape, "bernoulli", &p, 1, 1) || !check_float(&op, p->dtype))
        return NULL;
    const ph_tensor *dense = ph_contiguous(tape, p);
    return dense ? make(&op, p->dtype, &p->shape, bernoulli, dense) : NULL;
}

typedef struct integers_of {
    int64_t low, high;
} integers_of;

static bool integers(ph__op *op, ph_tensor *y, const void *user)
{
    const integers_of *of = user;
    ph__draw draw;
    if (y->count == 0)
        return true;
    if (!ph__op_draw(&draw, op, 2))
        return false;
    const ph__integers_args args = {.out = y->data,
                                    PH__DRAW_VALUES(draw),
                                    .count = (uint64_t)y->count,
                                    .low = (uint64_t)of->low,
                                    .range = (uint64_t)of->high - (uint64_t)of->low};
    return ph__op_launch(op, ph__integers_kernel(y->dtype), blocks_of(y), PH__DRAW_THREADS, 0, &args);
}

ph_tensor *ph_randint(ph_tape *tape, ph_dtype dtype, ph_shape shape, int64_t low, int64_t high)
{
    ph__op op;
    const integers_of of = {low, high};
    const int64_t least = dtype == PH_DTYPE_U8 ? 0 : dtype == PH_DTYPE_I32 ? INT32_MIN : INT64_MIN;
    const int64_t most = dtype == PH_DTYPE_U8 ? UINT8_MAX : dtype == PH_DTYPE_I32 ? INT32_MAX : INT64_MAX;
    if (!ph__op_begin(&op, tape, "randint", NULL, 0, 0))
        return NULL;
    if (!ph__integers_kernel(dtype))
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "%s: i32, i64 or u8 is needed", ph_dtype_name(dtype));
    if (low >= high || low < least || high - 1 > most)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "from %lld to below %lld is no range of %s",
                           (long long)low, (long long)high, ph_dtype_name(dtype));
    return make(&op, dtype, &shape, integers, &of);
}

/* ---- in place ---- numbers are drawn for dst's elements in the order of its indices, whatever its strides are. */
static bool begin(ph__op *op, ph_tape *tape, const char *name, ph_tensor **dst)
{
    return ph__op_change_begin(op, tape, name, dst, 1);
}

static void change(ph__op *op, ph_tensor *dst, bool (*launch)(ph__op *op, ph_tensor *y, const void *user),
                   const void *user)
{
    if (!ph__op_change(op, dst))
        return;
    ph_tensor *y = dst->contiguous ? dst : ph__op_output(op, dst->dtype, &dst->shape);
    if (y && launch(op, y, user) && (y == dst || ph__map_copy(op, dst, y)))
        (void)ph__op_done_n(op, NULL, 0);
}

void ph_tensor_uniform(ph_tape *tape, ph_tensor *dst, double low, double high)
{
    ph__op op;
    numbers n;
    if (begin(&op, tape, "tensor_uniform", &dst) && set_range(&n, &op, dst->dtype, low, high))
        change(&op, dst, fill, &n);
}

void ph_tensor_normal(ph_tape *tape, ph_tensor *dst, double mean, double deviation)
{
    ph__op op;
    numbers n;
    if (begin(&op, tape, "tensor_normal", &dst) && set_normal(&n, &op, dst->dtype, mean, deviation))
        change(&op, dst, fill, &n);
}

void ph_tensor_exponential(ph_tape *tape, ph_tensor *dst, double rate)
{
    ph__op op;
    numbers n;
    if (begin(&op, tape, "tensor_exponential", &dst) && set_exponential(&n, &op, dst->dtype, rate))
        change(&op, dst, fill, &n);
}

void ph_tensor_log_normal(ph_tape *tape, ph_tensor *dst, double mean, double deviation)
{
    ph__op op;
    numbers n;
    if (!begin(&op, tape, "tensor_log_normal", &dst) || !set_normal(&n, &op, dst->dtype, mean, deviation))
        return;
    n.distribution = PH__LOG_NORMAL;
    change(&op, dst, fill, &n);
}

void ph_tensor_cauchy(ph_tape *tape, ph_tensor *dst, double median, double scale)
{
    ph__op op;
    const numbers n = {PH__CAUCHY, median, scale};
    if (begin(&op, tape, "tensor_cauchy", &dst) && check_float(&op, dst->dtype) &&
        check(&op, scale > 0, "the scale", scale, "above 0"))
        change(&op, dst, fill, &n);
}

void ph_tensor_geometric(ph_tape *tape, ph_tensor *dst, double p)
{
    ph__op op;
    if (!begin(&op, tape, "tensor_geometric", &dst) || !check_float(&op, dst->dtype) ||
        !check(&op, p > 0 && p <= 1, "the probability", p, "above 0, and at most 1"))
        return;
    const numbers n = {PH__GEOMETRIC, p < 1 ? -1 / log1p(-p) : 0, 0};
    change(&op, dst, fill, &n);
}

void ph_tensor_bernoulli(ph_tape *tape, ph_tensor *dst, double p)
{
    ph__op op;
    if (begin(&op, tape, "tensor_bernoulli", &dst) && check_probability(&op, p))
        change(&op, dst, events, &p);
}
