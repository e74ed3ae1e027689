/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_floats.h: included by elementwise_level.h: the loops of
 * elementwise.def over floats. */
#define PH__ELEMENTWISE(...) LOOP(__VA_ARGS__)
#define SCALAR(s)            ((T)(s).f)
#define ADD(p, q)            ((p) + (q))
#define SUB(p, q)            ((p) - (q))
#define MUL(p, q)            ((p) * (q))
#define DIV(p, q)            ((p) / (q))
#define NEG(p)               (-(p))
#define IS_NAN(p)            ((p) != (p))

#define T          float
#define TYPE_NAME  f32
#define ABS(p)     ph__absf(p)
#define EXP(p)     PH__LEVEL_MATH(expf)(p)
#define LOG(p)     PH__LEVEL_MATH(logf)(p)
#define SQRT(p)    sqrtf(p)
#define RSQRT(p)   (1.0f / sqrtf(p))
#define TANH(p)    PH__LEVEL_MATH(tanhf)(p)
#define SIGMOID(p) PH__LEVEL_MATH(sigmoidf)(p)
/* Expressions that use it also multiply by the operand: of NaN they are NaN. */
#define NORMAL_CDF(p) PH__LEVEL_MATH(normal_cdff)(p)
/* Roots are roots: of -inf NaN, of -0 what sqrt and rsqrt give; pow has inf and 0 there. */
#define POW(p, q) ((q) == 0.5f ? sqrtf(p) : (q) == -0.5f ? 1.0f / sqrtf(p) : powf(p, q))
#include "tensor/kernels/elementwise.def"
#undef T
#undef TYPE_NAME
#undef ABS
#undef EXP
#undef LOG
#undef SQRT
#undef RSQRT
#undef TANH
#undef SIGMOID
#undef NORMAL_CDF
#undef POW

#define T             double
#define TYPE_NAME     f64
#define ABS(p)        fabs(p)
#define EXP(p)        exp(p)
#define LOG(p)        log(p)
#define SQRT(p)       sqrt(p)
#define RSQRT(p)      (1.0 / sqrt(p))
#define TANH(p)       tanh(p)
#define SIGMOID(p)    (1.0 / (1.0 + exp(-(p))))
#define NORMAL_CDF(p) (0.5 * (1.0 + erf((p)*0.70710678118654752440)))
#define POW(p, q)     ((q) == 0.5 ? sqrt(p) : (q) == -0.5 ? 1.0 / sqrt(p) : pow(p, q))
#include "tensor/kernels/elementwise.def"
#undef T
#undef TYPE_NAME
#undef ABS
#undef EXP
#undef LOG
#undef SQRT
#undef RSQRT
#undef TANH
#undef SIGMOID
#undef NORMAL_CDF
#undef POW
#undef PH__ELEMENTWISE
#undef SCALAR
#undef ADD
#undef SUB
#undef MUL
#undef DIV
#undef NEG
#undef IS_NAN
