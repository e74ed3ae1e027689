/* SPDX-License-Identifier: MIT */
/* tensor/random/rrelu.c: the randomized leaky ReLU. Backward needs the slopes, which are all
 * that is kept. */
#include "base/half.h"
#include "tensor/backend/kernels.h"
#include "tensor/backend/texts.h"
#include "tensor/core/tensor.h"
#include "tensor/generator/draw.h"
#include "tensor/kernels/elementwise_kernels.h"
#include "tensor/random/op_draw.h"
#include "tensor/random/random_rules.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"

typedef struct rrelu_args {
    void *y;
    const void *x;
    void *slopes; /* NULL: nobody asks */
    PH__DRAW_MEMBERS;
    uint64_t count;
    double low, width;
} rrelu_args;
static const ph_param params[] = {PH_PARAM(rrelu_args, y, PH_PARAM_ADDRESS),
                                  PH_PARAM(rrelu_args, x, PH_PARAM_ADDRESS),
                                  PH_PARAM(rrelu_args, slopes, PH_PARAM_ADDRESS),
                                  PH_PARAM(rrelu_args, seed_cell, PH_PARAM_ADDRESS),
                                  PH_PARAM(rrelu_args, offset_cell, PH_PARAM_ADDRESS)};

/* The slopes are rounded to the dtype first: backward finds those that forward had. */
#define SAME(x) (x)
#define RRELU(T, DRAW, STORE, F, W, get, put, words)                                               \
    PH__HOST_KERNEL(rrelu_##T)                                                                     \
    {                                                                                              \
        const rrelu_args *p = args;                                                                \
        const u64 seed = PH__DRAW_SEED(p), from = PH__DRAW_BLOCK(p);                               \
        const F low = (F)p->low, width = (F)p->width;                                              \
        W word[PH__DRAW_ELEMENTS];                                                                 \
        STORE slope[PH__DRAW_ELEMENTS];                                                            \
        u64 first;                                                                                 \
        for (u64 block = range->begin; block < range->end; block++) {                              \
            size_t n = ph__draw_part(&first, block, p->count), groups = (n + 3) / 4;               \
            STORE *y = (STORE *)p->y + first;                                                      \
            const STORE *x = (const STORE *)p->x + first;                                          \
            ph__words_##W(word, seed, from, first / 4, groups);                                    \
            for (size_t i = 0; i < 2 * groups; i++) {                                              \
                F even, odd;                                                                       \
                ph_##DRAW(&even, &odd, word[2 * i], word[2 * i + 1], low, width);                  \
                slope[2 * i] = put(even);                                                          \
                slope[2 * i + 1] = put(odd);                                                       \
            }                                                                                      \
            for (size_t i = 0; i < n; i++) {                                                       \
                slope[i] = get(x[i]) > 0 ? put((F)1) : slope[i];                                   \
                y[i] = put(get(x[i]) * get(slope[i]));                                             \
            }                                                                                      \
            if (p->slopes)                                                                         \
                memcpy((STORE *)p->slopes + first, slope, n * sizeof *slope);                      \
        }                                                                                          \
    }                                                                                              \
    static ph__kernel_def def_##T = {                                                              \
        .name = "ph_rrelu_" #T,                                                                    \
        .cuda = (const char *const[]){"#define KERNEL ph_rrelu_" #T "\n#define RRELU ph_" #DRAW    \
                                      "\n#define T " #T "\n#define F " #F                          \
                                      "\n#define WORDS " #words "\n",                              \
                                      ph__text_draws, ph__text_random, NULL},                      \
        .host = rrelu_##T,                                                                         \
        .args_size = sizeof(rrelu_args),                                                           \
        .params = params,                                                                          \
        .param_count = sizeof params / sizeof *params,                                             \
        .cuda_options = "--fmad=false"};
RRELU(f32, uniform_f32, f32, f32, u32, SAME, SAME, 1)
RRELU(f64, uniform_f64, f64, f64, u64, SAME, SAME, 2)
RRELU(f16, uniform_f16, u16, f32, u32, ph__f16_get, ph__f16_put, 1)
RRELU(bf16, uniform_bf16, u16, f32, u32, ph__bf16_get, ph__bf16_put, 1)

/* In the order of the dtypes' numbers, which begin with 1. */
PH__KERNEL_FAMILY(rrelu) = {&def_f32, &def_f64, &def_f16, &def_bf16, NULL};
_Static_assert(PH_DTYPE_F32 == 1 && PH_DTYPE_F64 == 2 && PH_DTYPE_F16 == 3 && PH_DTYPE_BF16 == 4,
               "order of ph__rrelu_kernels");

static void rrelu_backward(ph__grad_call *call)
{
    if (!call->saved[0]) {
        call->in_grads[0] = call->out_grads[0];
        return;
    }
    ph_tensor *in[] = {call->out_grads[0], call->saved[0]};
    call->in_grads[0] = ph__elementwise_call(call->tape, &ph__elementwise_mul, in, 0, 0);
}
static const ph__grad_def gradient = {.name = "rrelu", .backward = rrelu_backward};

static ph_tensor *run_rrelu(ph__op *op, const ph_tensor *x, const ph__draw_numbers *n)
{
    ph__draw draw;
    const bool any = x->count > 0;
    ph_tensor *y = ph__op_output(op, x->dtype, &x->shape);
    ph_tensor *slopes = op->tracked && any ? ph__op_output(op, x->dtype, &x->shape) : NULL;
    if (!y || (op->tracked && any && !slopes) ||
        (any && !ph__op_draw(&draw, op, x->dtype == PH_DTYPE_F64 ? 2 : 1)))
        return NULL;
    if (any) {
        const rrelu_args args = {.y = y->data,
                                 .x = x->data,
                                 .slopes = slopes ? slopes->data : NULL,
                                 PH__DRAW_VALUES(draw),
                                 .count = (uint64_t)x->count,
                                 .low = n->a,
                                 .width = n->b};
        if (!ph__op_launch(op, ph__rrelu_kernels[x->dtype - 1], ph__random_blocks(x),
                           PH__DRAW_THREADS, 0, &args))
            return NULL;
    }
    if (op->tracked && ph__op_track(op, &gradient, 1))
        ph__op_save(op, 0, slopes);
    return ph__op_done(op, y);
}

ph_tensor *ph_rrelu(ph_tape *tape, ph_tensor *x, double lower, double upper)
{
    ph__op op;
    ph__draw_numbers n;
    if (!ph__op_begin(&op, tape, "rrelu", &x, 1, 1) ||
        !ph__random_uniform(&n, &op, x->dtype, lower, upper))
        return NULL;
    const ph_tensor *dense = ph__random_dense(&op, x, &x->shape);
    return dense ? run_rrelu(&op, dense, &n) : NULL;
}
