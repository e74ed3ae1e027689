/* SPDX-License-Identifier: MIT */
/* tensor/random/random_operands.c: random numbers whose distributions are given by tensors: a
 * probability, a mean, a rate for each element. */
#include "tensor/core/shape.h"
#include "tensor/core/tensor.h"
#include "tensor/generator/draw.h"
#include "tensor/random/op_draw.h"
#include "tensor/random/random.h"
#include "tensor/random/random_rules.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"

ph_tensor *ph_bernoulli(ph_tape *tape, ph_tensor *p)
{
    ph__op op;
    if (!ph__op_begin(&op, tape, "bernoulli", &p, 1, 1) || !ph__random_floats(&op, p->dtype))
        return NULL;
    const ph_tensor *of = ph__random_dense(&op, p, &p->shape);
    ph_tensor *y = of ? ph__op_output(&op, p->dtype, &p->shape) : NULL;
    return y && ph__random_bernoulli(&op, y, of) ? ph__op_done(&op, y) : NULL;
}

/* ---- normals ---- */
static ph_tensor *draw_normals(ph__op *op, const ph_tensor *mean, const ph_tensor *deviation)
{
    ph__draw draw;
    ph_tensor *y = ph__op_output(op, mean->dtype, &mean->shape);
    if (!y || y->count == 0)
        return y;
    if (!ph__op_draw(&draw, op, y->dtype == PH_DTYPE_F64 ? 2 : 1))
        return NULL;
    const ph__normal_of_args args = {.out = y->data,
                                     .mean = mean->data,
                                     .deviation = deviation ? deviation->data : NULL,
                                     PH__DRAW_VALUES(draw),
                                     .count = (uint64_t)y->count};
    return ph__op_launch(op, ph__normal_of_kernel(y->dtype), ph__random_blocks(y), PH__DRAW_THREADS,
                         0, &args)
               ? y
               : NULL;
}

ph_tensor *ph_normal_of(ph_tape *tape, ph_tensor *mean, ph_tensor *deviation)
{
    ph_tensor *in[] = {mean, deviation};
    ph__op op;
    if (!ph__op_begin(&op, tape, "normal_of", in, 2, 1) || !ph__random_floats(&op, mean->dtype))
        return NULL;
    if (deviation && deviation->dtype != mean->dtype)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT,
                           "both must be of one dtype; ph_cast one of them");
    ph_shape shape = mean->shape;
    if (deviation && !ph__shape_broadcast(&shape, &mean->shape, &deviation->shape))
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "the shapes do not broadcast together");
    mean = ph__random_dense(&op, mean, &shape);
    if (mean && deviation) {
        deviation = ph__random_dense(&op, deviation, &shape);
        mean = deviation ? mean : NULL;
    }
    ph_tensor *y = mean ? draw_normals(&op, mean, deviation) : NULL;
    return y ? ph__op_done(&op, y) : NULL;
}

/* ---- Poisson ---- */
ph_tensor *ph_poisson(ph_tape *tape, ph_tensor *rates)
{
    ph__op op;
    ph__draw draw;
    if (!ph__op_begin(&op, tape, "poisson", &rates, 1, 1) || !ph__random_floats(&op, rates->dtype))
        return NULL;
    const ph_tensor *of = ph__random_dense(&op, rates, &rates->shape);
    ph_tensor *y = of ? ph__op_output(&op, rates->dtype, &rates->shape) : NULL;
    if (!y || y->count == 0)
        return y ? ph__op_done(&op, y) : NULL;
    if (!ph__op_draw(&draw, &op, PH_POISSON_WORDS))
        return NULL;
    const ph__poisson_args args = {
        .out = y->data, .rates = of->data, PH__DRAW_VALUES(draw), .count = (uint64_t)y->count};
    if (!ph__op_launch(&op, ph__poisson_kernel(y->dtype), ph__random_blocks(y), PH__DRAW_THREADS, 0,
                       &args))
        return NULL;
    return ph__op_done(&op, y);
}
