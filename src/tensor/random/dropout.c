/* SPDX-License-Identifier: MIT */
/* tensor/random/dropout.c: dropout. Backward needs one bit an element, which says what was kept. */
#include "base/half.h"
#include "tensor/backend/kernels.h"
#include "tensor/backend/texts.h"
#include "tensor/core/tensor.h"
#include "tensor/generator/draw.h"
#include "tensor/random/op_draw.h"
#include "tensor/random/random_rules.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"

typedef struct dropout_args {
    void *y;
    const void *x;
    uint8_t *mask; /* a byte for eight elements; NULL: nobody asks */
    PH__DRAW_MEMBERS;
    uint64_t count, threshold;
    double scale;
} dropout_args;
typedef struct gradient_args {
    void *dx;
    const void *dy;
    const uint8_t *mask;
    uint64_t count;
    double scale;
} gradient_args;
static const ph_param dropout_params[] = {PH_PARAM(dropout_args, y, PH_PARAM_ADDRESS),
                                          PH_PARAM(dropout_args, x, PH_PARAM_ADDRESS),
                                          PH_PARAM(dropout_args, mask, PH_PARAM_ADDRESS),
                                          PH_PARAM(dropout_args, seed_cell, PH_PARAM_ADDRESS),
                                          PH_PARAM(dropout_args, offset_cell, PH_PARAM_ADDRESS)};
static const ph_param gradient_params[] = {PH_PARAM(gradient_args, dx, PH_PARAM_ADDRESS),
                                           PH_PARAM(gradient_args, dy, PH_PARAM_ADDRESS),
                                           PH_PARAM(gradient_args, mask, PH_PARAM_ADDRESS)};

/* A thread of a GPU's does eight elements. */
enum {
    THREADS = PH__DRAW_ELEMENTS / 8
};

#define SAME(x) (x)
#define DEFINE(NAME, KIND, T, F, PARAMS, ARGS)                                                     \
    static ph__kernel_def def_##NAME = {                                                           \
        .name = "ph_" #NAME,                                                                       \
        .cuda = (const char *const[]){"#define KERNEL ph_" #NAME "\n#define " #KIND                \
                                      "\n#define T " #T "\n#define F " #F "\n",                    \
                                      ph__text_draws, ph__text_random, NULL},                      \
        .host = NAME,                                                                              \
        .args_size = sizeof(ARGS),                                                                 \
        .params = PARAMS,                                                                          \
        .param_count = sizeof PARAMS / sizeof *PARAMS};

#define DROPOUT(T, STORE, F, get, put)                                                             \
    PH__HOST_KERNEL(dropout_##T)                                                                   \
    {                                                                                              \
        const dropout_args *p = args;                                                              \
        const u64 seed = PH__DRAW_SEED(p), from = PH__DRAW_BLOCK(p), threshold = p->threshold;     \
        const F scale = (F)p->scale;                                                               \
        u32 word[PH__DRAW_ELEMENTS];                                                               \
        u64 first;                                                                                 \
        for (u64 block = range->begin; block < range->end; block++) {                              \
            size_t n = ph__draw_part(&first, block, p->count);                                     \
            STORE *y = (STORE *)p->y + first;                                                      \
            const STORE *x = (const STORE *)p->x + first;                                          \
            ph__words_u32(word, seed, from, first / 4, (n + 7) / 8 * 2);                           \
            for (size_t i = 0; i < n; i++)                                                         \
                y[i] = word[i] >= threshold ? put(get(x[i]) * scale) : (STORE)0;                   \
            if (p->mask)                                                                           \
                put_mask(p->mask + first / 8, word, (n + 7) / 8, threshold);                       \
        }                                                                                          \
    }                                                                                              \
    DEFINE(dropout_##T, DROPOUT, T, F, dropout_params, dropout_args)                               \
    PH__HOST_KERNEL(dropout_gradient_##T)                                                          \
    {                                                                                              \
        const gradient_args *p = args;                                                             \
        const F scale = (F)p->scale;                                                               \
        u64 first;                                                                                 \
        for (u64 block = range->begin; block < range->end; block++) {                              \
            size_t n = ph__draw_part(&first, block, p->count);                                     \
            STORE *dx = (STORE *)p->dx + first;                                                    \
            const STORE *dy = (const STORE *)p->dy + first;                                        \
            const u8 *mask = p->mask + first / 8;                                                  \
            for (size_t i = 0; i < n; i++)                                                         \
                dx[i] = mask[i / 8] >> i % 8 & 1 ? put(get(dy[i]) * scale) : (STORE)0;             \
        }                                                                                          \
    }                                                                                              \
    DEFINE(dropout_gradient_##T, DROPOUT_GRADIENT, T, F, gradient_params, gradient_args)

PH_FN void put_mask(u8 *mask, const u32 *word, size_t bytes, u64 threshold)
{
    for (size_t i = 0; i < bytes; i++) {
        u32 kept = 0;
        for (u32 j = 0; j < 8; j++)
            kept |= (u32)(word[8 * i + j] >= threshold) << j;
        mask[i] = (u8)kept;
    }
}

DROPOUT(f32, f32, f32, SAME, SAME)
DROPOUT(f64, f64, f64, SAME, SAME)
DROPOUT(f16, u16, f32, ph__f16_get, ph__f16_put)
DROPOUT(bf16, u16, f32, ph__bf16_get, ph__bf16_put)

/* In the order of the dtypes' numbers, which begin with 1. */
PH__KERNEL_FAMILY(dropout) = {
    &def_dropout_f32,          &def_dropout_f64,           &def_dropout_f16,
    &def_dropout_bf16,         &def_dropout_gradient_f32,  &def_dropout_gradient_f64,
    &def_dropout_gradient_f16, &def_dropout_gradient_bf16, NULL};
_Static_assert(PH_DTYPE_F32 == 1 && PH_DTYPE_F64 == 2 && PH_DTYPE_F16 == 3 && PH_DTYPE_BF16 == 4,
               "order of ph__dropout_kernels");

/* ---- backward ---- */
typedef struct dropout_state {
    double scale;
} dropout_state;

static void dropout_backward(ph__grad_call *call)
{
    ph__op op;
    const dropout_state *state = call->state;
    ph_tensor *dy = ph_contiguous(call->tape, call->out_grads[0]);
    if (!ph__op_begin(&op, call->tape, "dropout", &dy, 1, 1))
        return;
    ph_tensor *dx = ph__op_output(&op, dy->dtype, &dy->shape);
    if (!dx)
        return;
    const gradient_args args = {.dx = dx->data,
                                .dy = dy->data,
                                .mask =
                                    call->saved[0] ? (const uint8_t *)call->saved[0]->data : NULL,
                                .count = (uint64_t)dy->count,
                                .scale = state->scale};
    if (ph__op_launch(&op, ph__dropout_kernels[4 + dy->dtype - 1], ph__random_blocks(dy), THREADS,
                      0, &args))
        call->in_grads[0] = ph__op_done(&op, dx);
}
static const ph__grad_def gradient = {
    .name = "dropout", .state_bytes = sizeof(dropout_state), .backward = dropout_backward};

/* ---- forward ---- */
static ph_tensor *run_dropout(ph__op *op, const ph_tensor *x, double p)
{
    ph__draw draw;
    const double scale = p < 1 ? 1 / (1 - p) : 0;
    const bool any = x->count > 0;
    ph_tensor *y = ph__op_output(op, x->dtype, &x->shape);
    ph_tensor *mask = op->tracked && any ? ph__op_scratch(op, ((size_t)x->count + 7) / 8) : NULL;
    if (!y || (any && !ph__op_draw(&draw, op, 1)))
        return NULL;
    if (any) {
        const dropout_args args = {.y = y->data,
                                   .x = x->data,
                                   .mask = mask ? (uint8_t *)mask->data : NULL,
                                   PH__DRAW_VALUES(draw),
                                   .count = (uint64_t)x->count,
                                   .threshold = (uint64_t)ceil(p * 0x1p32),
                                   .scale = scale};
        if (!ph__op_launch(op, ph__dropout_kernels[x->dtype - 1], ph__random_blocks(x), THREADS, 0,
                           &args))
            return NULL;
    }
    if (op->tracked) {
        dropout_state *state = ph__op_track(op, &gradient, 1);
        if (!state)
            return NULL;
        state->scale = scale;
        ph__op_save(op, 0, mask);
    }
    return ph__op_done(op, y);
}

ph_tensor *ph_dropout(ph_tape *tape, ph_tensor *x, double p)
{
    ph__op op;
    if (!ph__op_begin(&op, tape, "dropout", &x, 1, 1))
        return NULL;
    if (!ph_dtype_is_floating(x->dtype))
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "the operand must be of a floating dtype");
    if (!(p >= 0 && p <= 1))
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "the probability is %g; it must be from 0 to 1",
                           p);
    if (p == 0)
        return x;
    const ph_tensor *dense = ph__random_dense(&op, x, &x->shape);
    return dense ? run_dropout(&op, dense, p) : NULL;
}
