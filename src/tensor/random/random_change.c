/* SPDX-License-Identifier: MIT */
/* tensor/random/random_change.c: random numbers in place: drawn for dst's elements in the order
 * of its indices, whatever its strides are. */
#include "tensor/core/shape.h"
#include "tensor/core/tensor.h"
#include "tensor/operators/copy.h"
#include "tensor/random/random.h"
#include "tensor/random/random_rules.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"

static bool begin_change(ph__op *op, ph_tape *tape, const char *name, ph_tensor **dst)
{
    return ph__op_change_begin(op, tape, name, dst, 1);
}

static void change_tensor(ph__op *op, ph_tensor *dst, ph__random_launch launch, const void *user)
{
    if (!ph__op_change(op, dst))
        return;
    ph_tensor *y = dst->contiguous ? dst : ph__op_output(op, dst->dtype, &dst->shape);
    if (y && launch(op, y, user) && (y == dst || ph__elementwise_copy(op, dst, y)))
        (void)ph__op_done_n(op, NULL, 0);
}

void ph_tensor_uniform(ph_tape *tape, ph_tensor *dst, double low, double high)
{
    ph__op op;
    ph__draw_numbers n;
    if (begin_change(&op, tape, "tensor_uniform", &dst) &&
        ph__random_uniform(&n, &op, dst->dtype, low, high))
        change_tensor(&op, dst, ph__random_fill, &n);
}

void ph_tensor_normal(ph_tape *tape, ph_tensor *dst, double mean, double deviation)
{
    ph__op op;
    ph__draw_numbers n;
    if (begin_change(&op, tape, "tensor_normal", &dst) &&
        ph__random_normal(&n, &op, dst->dtype, mean, deviation))
        change_tensor(&op, dst, ph__random_fill, &n);
}

void ph_tensor_exponential(ph_tape *tape, ph_tensor *dst, double rate)
{
    ph__op op;
    ph__draw_numbers n;
    if (begin_change(&op, tape, "tensor_exponential", &dst) &&
        ph__random_exponential(&n, &op, dst->dtype, rate))
        change_tensor(&op, dst, ph__random_fill, &n);
}

void ph_tensor_log_normal(ph_tape *tape, ph_tensor *dst, double mean, double deviation)
{
    ph__op op;
    ph__draw_numbers n;
    if (!begin_change(&op, tape, "tensor_log_normal", &dst) ||
        !ph__random_normal(&n, &op, dst->dtype, mean, deviation))
        return;
    n.distribution = PH__LOG_NORMAL;
    change_tensor(&op, dst, ph__random_fill, &n);
}

void ph_tensor_cauchy(ph_tape *tape, ph_tensor *dst, double median, double scale)
{
    ph__op op;
    const ph__draw_numbers n = {PH__CAUCHY, median, scale};
    if (begin_change(&op, tape, "tensor_cauchy", &dst) && ph__random_floats(&op, dst->dtype) &&
        ph__random_check(&op, scale > 0, "the scale", scale, "above 0"))
        change_tensor(&op, dst, ph__random_fill, &n);
}

void ph_tensor_geometric(ph_tape *tape, ph_tensor *dst, double p)
{
    ph__op op;
    if (!begin_change(&op, tape, "tensor_geometric", &dst) || !ph__random_floats(&op, dst->dtype) ||
        !ph__random_check(&op, p > 0 && p <= 1, "the probability", p, "above 0, and at most 1"))
        return;
    const ph__draw_numbers n = {PH__GEOMETRIC, p < 1 ? -1 / log1p(-p) : 0, 0};
    change_tensor(&op, dst, ph__random_fill, &n);
}

void ph_tensor_random(ph_tape *tape, ph_tensor *dst, int64_t low, int64_t high)
{
    ph__op op;
    ph__span span;
    if (begin_change(&op, tape, "tensor_random", &dst) &&
        ph__random_span(&span, &op, dst->dtype, low, high))
        change_tensor(&op, dst, ph__random_integers, &span);
}

void ph_tensor_bernoulli(ph_tape *tape, ph_tensor *dst, double p)
{
    ph__op op;
    if (begin_change(&op, tape, "tensor_bernoulli", &dst) &&
        ph__random_check(&op, p >= 0 && p <= 1, "the probability", p, "from 0 to 1"))
        change_tensor(&op, dst, ph__random_events, &p);
}

void ph_tensor_bernoulli_of(ph_tape *tape, ph_tensor *dst, ph_tensor *p)
{
    ph_tensor *in[] = {dst, p};
    ph__op op;
    ph_shape shape;
    if (!ph__op_change_begin(&op, tape, "tensor_bernoulli_of", in, 2) ||
        !ph__random_floats(&op, p->dtype))
        return;
    if (!ph__shape_broadcast(&shape, &dst->shape, &p->shape) ||
        !ph_shape_equal(&shape, &dst->shape)) {
        ph__op_fail(&op, PH_ERROR_ARGUMENT, "the probabilities do not broadcast to what changes");
        return;
    }
    /* Written while it is read, p would be something else. */
    const bool apart =
        p->contiguous && ph_shape_equal(&p->shape, &shape) && !ph__tensors_overlap(dst, p);
    ph_tensor *dense = apart ? p : ph__op_output(&op, p->dtype, &shape);
    if (dense && (apart || ph__elementwise_copy(&op, dense, p)))
        change_tensor(&op, dst, ph__random_bernoulli, dense);
}
