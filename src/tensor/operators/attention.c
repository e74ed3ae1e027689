/* SPDX-License-Identifier: MIT */
/* tensor/operators/attention.c: the operator: shapes and strides of its operands, which kernels
 * take them, and its gradient. */
#include "tensor/operators/attention.h"
#include "base/option.h"
#include "base/status.h"
#include "tensor/backend/kernels.h"
#include "tensor/backend/texts.h"
#include "tensor/core/shape.h"
#include "tensor/core/tensor.h"
#include "tensor/operators/attention_cudnn.h"
#include "tensor/operators/attention_host.h"
#include "tensor/operators/attention_operands.h"
#include "tensor/operators/autocast_operands.h"
#include "tensor/products/products.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include <math.h>
#include <string.h>

/* ---- kernels ---- on a GPU, tiles of 64 rows in shared memory, on tensor cores for f16, bf16
 * and, where it is allowed, TF32; for TF32 on Hopper, for d of 33 to 64, the form whose products
 * are of whole warpgroups; and a simple form for the rest: f64, d beyond 128, GPUs with little
 * shared memory. The host forms are the same for all, but for the rows of a block. */
typedef struct kernel_pass {
    ph__kernel_def *def;
    uint32_t rows, threads; /* of a block */
    size_t shared_bytes;    /* on a GPU */
} kernel_pass;
typedef struct kernel_form {
    kernel_pass forward, queries, keys;
} kernel_form;

enum {
    SIMPLE_ROWS = 8,
    TILE_ROWS = 64,
    STATIC_BYTES = 1024, /* of shared memory, beside a launch's own */
    THREADS = 128,
    WARPGROUP_ROWS = 128,
    WARPGROUP_THREADS = 384,
    WARPGROUP_TILE = 64 * 64 * 4 /* bytes */
};

#define A(member) PH_PARAM(ph__attention_args, member, PH_PARAM_ADDRESS)
static const ph_param params[] = {A(q),   A(k),     A(v),  A(g),  A(o),
                                  A(lse), A(delta), A(dq), A(dk), A(dv)};
#undef A

#define DEF(pass, PASS, type, variant, element, defines, options, ...)                             \
    static ph__kernel_def pass##_##type##_##variant = {                                            \
        .name = "ph_attention_" #pass "_" #type "_" #variant,                                      \
        .cuda = (const char *const[]){"#define KERNEL ph_attention_" #pass "_" #type "_" #variant  \
                                      "\n#define " #PASS "\n#define T " #element "\n" defines,     \
                                      __VA_ARGS__, NULL},                                          \
        .host = ph__attention_##pass##_##element,                                                  \
        .args_size = sizeof(ph__attention_args),                                                   \
        .params = params,                                                                          \
        .param_count = sizeof params / sizeof *params,                                             \
        .cuda_options = options};
#define SIMPLE(type)                                                                               \
    DEF(forward, FORWARD, type, simple, type, "", NULL, ph__text_attention_simple)                 \
    DEF(queries, QUERIES, type, simple, type, "", NULL, ph__text_attention_simple)                 \
    DEF(keys, KEYS, type, simple, type, "", NULL, ph__text_attention_simple)
#define TILED_DEF(pass, PASS, type, variant, element, defines, text)                               \
    DEF(pass, PASS, type, variant, element, "#define MATH_" #type "\n" defines, NULL,              \
        ph__text_attention_products, ph__text_attention_tiles, text)
#define TILED_D(type, element, variant, defines)                                                   \
    TILED_DEF(forward, FORWARD, type, variant, element, defines, ph__text_attention)               \
    TILED_DEF(queries, QUERIES, type, variant, element, defines, ph__text_attention)               \
    TILED_DEF(keys, KEYS, type, variant, element, defines, ph__text_attention_keys)
#define TILED(type, element)                                                                       \
    TILED_D(type, element, 32, "#define D 32\n")                                                   \
    TILED_D(type, element, 64, "#define D 64\n") TILED_D(type, element, 128, "#define D 128\n")
SIMPLE(f32)
SIMPLE(f64)
SIMPLE(f16)
SIMPLE(bf16)
TILED(f32, f32)
TILED(tf32, f32)
TILED(f16, f16)
TILED(bf16, bf16)

/* wgmma is of the architecture of Hopper alone. */
#define WARPGROUPS_DEF(pass, PASS, text)                                                           \
    DEF(pass, PASS, tf32, 64_warpgroups, f32, "#define MATH_tf32\n#define D 64\n",                 \
        "--gpu-architecture=sm_90a", ph__text_attention_products, ph__text_attention_tiles,        \
        ph__text_attention_warpgroups, text)
WARPGROUPS_DEF(forward, FORWARD, ph__text_attention_warpgroups_queries)
WARPGROUPS_DEF(queries, QUERIES, ph__text_attention_warpgroups_queries)
WARPGROUPS_DEF(keys, KEYS, ph__text_attention_warpgroups_keys)

#define THREE(type, variant)                                                                       \
    &forward_##type##_##variant, &queries_##type##_##variant, &keys_##type##_##variant
#define FOUR(type) THREE(type, 32), THREE(type, 64), THREE(type, 128)
ph__kernel_def *const ph__attention_kernels[] = {THREE(f32, simple),
                                                 THREE(f64, simple),
                                                 THREE(f16, simple),
                                                 THREE(bf16, simple),
                                                 FOUR(f32),
                                                 FOUR(tf32),
                                                 FOUR(f16),
                                                 FOUR(bf16),
                                                 THREE(tf32, 64_warpgroups),
                                                 NULL};

/* Shared memory of the tiles in cuda/attention*.cu: `stay` tiles of the block's rows, two pieces of
 * two in flight, rows of 16 bytes more than they have, and numbers. */
#define BYTES(stay, rows, piece, width, size)                                                      \
    (((stay) * (rows) + 4 * (piece)) * ((width) * (size) + 16) + 4 * (piece) * sizeof(float))
#define PASS(pass, type, variant, rows, bytes)                                                     \
    {                                                                                              \
        &pass##_##type##_##variant, rows, THREADS, bytes                                           \
    }
#define FORM(type, variant, rows, stays, two_stay)                                                 \
    {                                                                                              \
        PASS(forward, type, variant, rows, stays), PASS(queries, type, variant, rows, two_stay),   \
            PASS(keys, type, variant, rows, two_stay)                                              \
    }
#define SIMPLE_FORM(type)  FORM(type, simple, SIMPLE_ROWS, 0, 0)
#define PIECE(size, width) ((size) == 2 && (width) <= 64 ? 64 : 32)
#define TILED_FORM(type, width, size)                                                              \
    FORM(type, width, TILE_ROWS, BYTES(1, TILE_ROWS, PIECE(size, width), width, size),             \
         BYTES(2, TILE_ROWS, PIECE(size, width), width, size))
#define TILED_FORMS(type, size)                                                                    \
    {                                                                                              \
        TILED_FORM(type, 32, size), TILED_FORM(type, 64, size), TILED_FORM(type, 128, size)        \
    }
static const kernel_form simple_f32 = SIMPLE_FORM(f32), simple_f64 = SIMPLE_FORM(f64),
                         simple_f16 = SIMPLE_FORM(f16), simple_bf16 = SIMPLE_FORM(bf16);
static const kernel_form tiled_f32[] = TILED_FORMS(f32, 4), tiled_tf32[] = TILED_FORMS(tf32, 4),
                         tiled_f16[] = TILED_FORMS(f16, 2), tiled_bf16[] = TILED_FORMS(bf16, 2);
/* Tiles of two pieces, or three where the product comes later, then of the block's own rows, from a
 * multiple of 1024 bytes on. */
#define WARPGROUPS_PASS(pass, tiles)                                                               \
    {                                                                                              \
        &pass##_tf32_64_warpgroups, WARPGROUP_ROWS, WARPGROUP_THREADS,                             \
            1024 + (tiles)*WARPGROUP_TILE                                                          \
    }
static const kernel_form warpgroups_tf32 = {
    WARPGROUPS_PASS(forward, 5 + 2), WARPGROUPS_PASS(queries, 7 + 4), WARPGROUPS_PASS(keys, 8 + 4)};

static bool device_accepts(const ph__backend *backend, const kernel_form *form)
{
    return !backend->cuda ||
           (backend->info.compute_capability >= 80 &&
            form->keys.shared_bytes + STATIC_BYTES <= backend->info.shared_bytes_per_block_max);
}

/* By sizes and device alone, so that each call does the same. A host form has room for 64 rows. */
static bool is_for_warpgroups(const ph__backend *backend, int64_t d)
{
    return backend->cuda && !ph__kernel_stand_in && d > 32 && d <= 64 &&
           backend->info.compute_capability == 90 && device_accepts(backend, &warpgroups_tf32);
}

static const kernel_form *kernel_form_of(const ph__backend *backend, ph_dtype dtype, int64_t d)
{
    const kernel_form *simple = dtype == PH_DTYPE_F16    ? &simple_f16
                                : dtype == PH_DTYPE_BF16 ? &simple_bf16
                                                         : &simple_f32;
    const kernel_form *tiled = dtype == PH_DTYPE_F16    ? tiled_f16
                               : dtype == PH_DTYPE_BF16 ? tiled_bf16
                               : ph_tf32()              ? tiled_tf32
                                                        : tiled_f32;
    if (dtype == PH_DTYPE_F64)
        return &simple_f64;
    if (tiled == tiled_tf32 && is_for_warpgroups(backend, d))
        return &warpgroups_tf32;
    tiled += d <= 32 ? 0 : d <= 64 ? 1 : 2;
    return d <= 128 && device_accepts(backend, tiled) ? tiled : simple;
}

/* One block for each tile of each of `groups` heads, `rows` of them a tile. */
static bool launch_attention(ph__op *op, const kernel_pass *pass, ph__attention_args *args,
                             int64_t rows, int64_t groups)
{
    bool tiles_in_shared = op->tape->backend->cuda && !ph__kernel_stand_in;
    size_t scratch = tiles_in_shared ? pass->shared_bytes
                                     : ph__attention_host_scratch(op->in[0]->dtype == PH_DTYPE_F64,
                                                                  pass->rows, args->d);
    args->rows = pass->rows;
    int64_t tiles = (rows + pass->rows - 1) / pass->rows;
    return ph__op_launch(op, pass->def, (uint64_t)tiles * (uint64_t)groups, pass->threads, scratch,
                         args);
}

/* ---- gradient ---- saved: q, k, v as the kernels take them, o, lse. */
typedef struct attention_state {
    bool causal;
    double scale;
} attention_state;

static bool prepare_operands(ph__op *op, ph__attention_operand out[3], ph_tensor *const in[3])
{
    for (int i = 0; i < 3; i++)
        if (!ph__attention_operand_of(op, &out[i], in[i]))
            return false;
    return true;
}

static void launch_backward(ph__op *op, const attention_state *state, ph_tensor *const grads[3])
{
    ph__attention_operand x[3], g, out[4];
    ph_tensor *o = op->in[3], *lse = op->in[4];
    ph_tensor *delta = ph__op_scratch(op, ph_tensor_bytes(lse));
    if (!delta || !prepare_operands(op, x, op->in) ||
        !ph__attention_operand_of(op, &g, op->in[5]) || !ph__attention_operand_of(op, &out[3], o))
        return;
    ph__attention_args args =
        ph__attention_args_of(&x[0], &x[1], &x[2], &g, state->causal, state->scale);
    args.o = o->data;
    memcpy(args.o_s, out[3].stride, sizeof args.o_s);
    args.lse = lse->data;
    args.delta = delta->data;
    void **address[3] = {&args.dq, &args.dk, &args.dv};
    int64_t *stride[3] = {args.dq_s, args.dk_s, args.dv_s};
    for (int i = 0; i < 3; i++) {
        if (grads[i] && !ph__attention_operand_of(op, &out[i], grads[i]))
            return;
        *address[i] = grads[i] ? grads[i]->data : NULL;
        if (grads[i])
            memcpy(stride[i], out[i].stride, sizeof args.dq_s);
    }
    if (ph__attention_by_cudnn(op, &args, o->dtype, x[0].batch, true) != PH__ATTENTION_ELSEWHERE)
        return;
    const kernel_form *form = kernel_form_of(op->tape->backend, o->dtype, args.d);
    if (o->count > 0 &&
        !launch_attention(op, &form->queries, &args, args.tq, x[0].batch * args.heads))
        return;
    if (grads[1] && grads[1]->count > 0)
        (void)launch_attention(op, &form->keys, &args, args.tk, x[1].batch * args.kv_heads);
}

static void attention_backward(ph__grad_call *call)
{
    ph__op op;
    const attention_state *state = call->state;
    ph_tensor *const in[6] = {call->saved[0], call->saved[1], call->saved[2],
                              call->saved[3], call->saved[4], call->out_grads[0]};
    if (!ph__op_begin(&op, call->tape, "attention's gradient", in, 6, 6))
        return;
    bool keys = call->needed[1] || call->needed[2];
    ph_tensor *grads[3] = {NULL, NULL, NULL};
    if (keys && call->needed[0] && !ph__attention_packed_gradients(&op, grads, in))
        return;
    for (int i = 0; i < 3; i++)
        if (!grads[i] && (i == 0 ? call->needed[0] : keys))
            if (!(grads[i] = ph__op_output(&op, in[i]->dtype, &in[i]->shape)))
                return;
    launch_backward(&op, state, grads);
    if (ph__op_done_n(&op, grads, 3))
        for (int i = 0; i < 3; i++)
            call->in_grads[i] = call->needed[i] ? grads[i] : NULL;
}

static const ph__grad_def attention_grad = {
    .name = "attention", .state_bytes = sizeof(attention_state), .backward = attention_backward};

/* ---- the operator ---- */

/* The fault of the operands; NULL: none. */
static const char *fault_of(const ph_tensor *q, const ph_tensor *k, const ph_tensor *v)
{
    size_t rank = q->shape.rank;
    if (!ph_dtype_is_floating(q->dtype) || k->dtype != q->dtype || v->dtype != q->dtype)
        return "all operands must be of one floating dtype; ph_cast those of another";
    if (rank < 3 || k->shape.rank != rank)
        return "all operands must have as many dimensions, [.., heads, t, d]";
    if (!ph_shape_equal(&k->shape, &v->shape))
        return "k and v must be of one shape";
    for (size_t i = 0; i + 3 < rank; i++)
        if (q->shape.dim[i] != k->shape.dim[i])
            return "the dimensions before heads must be the same";
    int64_t heads = q->shape.dim[rank - 3], kv_heads = k->shape.dim[rank - 3],
            d = q->shape.dim[rank - 1];
    if (d != k->shape.dim[rank - 1] || d > 256)
        return "the last dimension must be the same in all, and at most 256";
    if (kv_heads == 0 ? heads != 0 : heads % kv_heads != 0)
        return "the heads of k and v must divide those of q";
    for (size_t i = rank - 3; i < rank; i++)
        if (q->shape.dim[i] > INT32_MAX || k->shape.dim[i] > INT32_MAX)
            return "heads and rows are limited to 2^31 - 1";
    return NULL;
}

/* batch 0: nothing is to be done. */
static bool launch_forward(ph__op *op, ph__attention_args *args, ph_dtype dtype, int64_t batch)
{
    const kernel_form *form = kernel_form_of(op->tape->backend, dtype, args->d);
    ph__attention_outcome outcome = ph__attention_by_cudnn(op, args, dtype, batch, false);
    if (outcome != PH__ATTENTION_ELSEWHERE || batch == 0)
        return outcome != PH__ATTENTION_FAILED;
    return launch_attention(op, &form->forward, args, args->tq, batch * args->heads);
}

static ph_tensor *attention_forward(ph__op *op, ph_tensor *const in[3],
                                    const attention_state *state)
{
    ph__attention_operand x[3], out;
    ph_tensor *q = in[0], *o = ph__attention_result(op, q);
    ph_shape rows = q->shape;
    rows.rank--;
    ph_tensor *lse =
        o ? ph__op_output(op, q->dtype == PH_DTYPE_F64 ? PH_DTYPE_F64 : PH_DTYPE_F32, &rows) : NULL;
    if (!lse || !prepare_operands(op, x, in) || !ph__attention_operand_of(op, &out, o))
        return NULL;
    ph__attention_args args =
        ph__attention_args_of(&x[0], &x[1], &x[2], NULL, state->causal, state->scale);
    args.o = o->data;
    memcpy(args.o_s, out.stride, sizeof args.o_s);
    args.lse = lse->data;
    if (!launch_forward(op, &args, q->dtype, o->count > 0 ? x[0].batch : 0))
        return NULL;
    attention_state *kept = op->tracked ? ph__op_track(op, &attention_grad, 5) : NULL;
    if (kept) {
        *kept = *state;
        for (size_t i = 0; i < 3; i++)
            ph__op_save(op, i, x[i].x);
        ph__op_save(op, 3, o);
        ph__op_save(op, 4, lse);
    }
    return o;
}

ph_tensor *ph_attention(ph_tape *tape, ph_tensor *q, ph_tensor *k, ph_tensor *v,
                        const ph_attention_options *options)
{
    ph__op op;
    ph__autocast cast;
    ph_tensor *in[3] = {q, k, v};
    if (ph__autocast_begin(&cast, tape, PH__AUTOCAST_LOW, in, 3))
        return ph__autocast_end(&cast, ph_attention(tape, in[0], in[1], in[2], options));
    if (!ph__op_begin(&op, tape, "attention", in, 3, 3))
        return NULL;
    const char *fault = fault_of(q, k, v);
    if (fault)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "%s", fault);
    if (options && !ph__reserved_ok(options->reserved, 4))
        return ph__op_fail(&op, PH_ERROR_ARGUMENT,
                           "reserved words of ph_attention_options must be 0");
    int64_t d = q->shape.dim[q->shape.rank - 1];
    attention_state state = {.causal = options && options->causal,
                             .scale = options ? options->scale : 0};
    state.scale = ph__option_real(state.scale, d > 0 ? 1 / sqrt((double)d) : 1);
    return ph__op_done(&op, attention_forward(&op, in, &state));
}
