/* SPDX-License-Identifier: MIT */
/* tensor/operators/attention_cudnn.c: attention as graphs of cuDNN's operations: those that its
 * documentation names for scaled dot product attention, which one fused kernel does. */
#include "tensor/operators/attention_cudnn.h"
#include "base/status.h"
#include "tensor/cudnn/cudnn.h"
#include "tensor/cudnn/cudnn_plan.h"
#include "tensor/tape/tape.h"
#include <math.h>
#include <phonograph/cuda.h>

/* ---- what a plan depends on ---- */
enum {
    BATCH,
    HEADS,
    KV_HEADS,
    ROWS, /* queries */
    KEYS,
    WIDTH,
    Q_STRIDES,                 /* of batch, heads, rows */
    K_STRIDES = Q_STRIDES + 3, /* and so on */
    V_STRIDES = K_STRIDES + 3,
    G_STRIDES = V_STRIDES + 3,
    DTYPE = G_STRIDES + 3,
    CAUSAL,
    BACKWARD
};
_Static_assert((int)BACKWARD < (int)PH__CUDNN_KEY_WORDS, "all of it is in the key");

/* ---- operands ---- the ids of memory and numbers. */
enum {
    Q = 1,
    K,
    V,
    O,
    LSE,
    G,
    DQ,
    DK,
    DV,
    DELTA,
    SCALE,
    HIDDEN, /* the score of what is not seen: -infinity */
    ONE
};

/* Shapes in the graphs of one key. */
typedef struct sizes {
    ph__cudnn_graph *graph;
    const ph__cudnn_key *key;
    int dtype;
    int64_t q[4], k[4], scores[4], turned[4], turned_stride[4], row[4];
} sizes;

static sizes sizes_of(ph__cudnn_graph *graph, const ph__cudnn_key *key)
{
    const int64_t *w = key->word;
    int64_t tq = w[ROWS], tk = w[KEYS], h = w[HEADS];
    return (sizes){.graph = graph,
                   .key = key,
                   .dtype = w[DTYPE] == PH_DTYPE_F16 ? PH__CUDNN_F16 : PH__CUDNN_BF16,
                   .q = {w[BATCH], h, tq, w[WIDTH]},
                   .k = {w[BATCH], w[KV_HEADS], tk, w[WIDTH]},
                   .scores = {w[BATCH], h, tq, tk},
                   .turned = {w[BATCH], h, tk, tq},
                   .turned_stride = {h * tq * tk, tq * tk, 1, tk},
                   .row = {w[BATCH], h, tq, 1}};
}

/* Memory of the operator's operand whose strides begin at word `from`. */
static ph__cudnn_tensor describe_operand(const sizes *s, int64_t id, const int64_t *dim, int from)
{
    const int64_t *w = s->key->word + from, stride[4] = {w[0], w[1], w[2], 1};
    return ph__cudnn_memory(s->graph, id, s->dtype, dim, stride);
}

/* The same of keys or values, as [batch, heads, d, rows]. */
static ph__cudnn_tensor describe_turned(const sizes *s, int64_t id, int from)
{
    const int64_t *w = s->key->word + from, stride[4] = {w[0], w[1], 1, w[2]},
                  dim[4] = {s->k[0], s->k[1], s->k[3], s->k[2]};
    return ph__cudnn_memory(s->graph, id, s->dtype, dim, stride);
}

/* A new tensor of f32: x (mode) b. */
static ph__cudnn_tensor apply_operation(const sizes *s, int mode, const ph__cudnn_tensor *x,
                                        const ph__cudnn_tensor *b)
{
    ph__cudnn_tensor y = ph__cudnn_between(s->graph, PH__CUDNN_F32, x->dim, NULL);
    ph__cudnn_pointwise(s->graph, mode, PH__CUDNN_F32, x, b, &y);
    return y;
}

static ph__cudnn_tensor reduce_rows(const sizes *s, int how, const ph__cudnn_tensor *x)
{
    ph__cudnn_tensor y = ph__cudnn_between(s->graph, PH__CUDNN_F32, s->row, NULL);
    ph__cudnn_reduce(s->graph, how, x, &y);
    return y;
}

/* Scores that the causal mask hides become -infinity. */
static ph__cudnn_tensor hide_scores(const sizes *s, const ph__cudnn_tensor *scores)
{
    ph__cudnn_graph *g = s->graph;
    if (!s->key->word[CAUSAL])
        return *scores;
    ph__cudnn_tensor row = ph__cudnn_between(g, PH__CUDNN_I32, s->scores, NULL),
                     column = ph__cudnn_between(g, PH__CUDNN_I32, s->scores, NULL),
                     seen = ph__cudnn_between(g, PH__CUDNN_BOOL, s->scores, NULL),
                     y = ph__cudnn_between(g, PH__CUDNN_F32, s->scores, NULL),
                     hidden = ph__cudnn_number(g, HIDDEN);
    ph__cudnn_index(g, 2, scores, &row);
    ph__cudnn_index(g, 3, scores, &column);
    ph__cudnn_pointwise(g, PH__CUDNN_GREATER_EQUAL, PH__CUDNN_BOOL, &row, &column, &seen);
    ph__cudnn_select(g, scores, &hidden, &seen, &y);
    return y;
}

/* q k^T * scale. */
static ph__cudnn_tensor scale_scores(const sizes *s, const ph__cudnn_tensor *q,
                                     const ph__cudnn_tensor *k, const ph__cudnn_tensor *scale)
{
    ph__cudnn_tensor raw = ph__cudnn_between(s->graph, PH__CUDNN_F32, s->scores, NULL);
    ph__cudnn_matmul(s->graph, q, k, &raw);
    return apply_operation(s, PH__CUDNN_MULTIPLY, &raw, scale);
}

/* p = softmax(q k^T * scale); o = p v; lse = max + log(sum). */
static void describe_forward(const sizes *s)
{
    ph__cudnn_graph *g = s->graph;
    ph__cudnn_tensor q = describe_operand(s, Q, s->q, Q_STRIDES),
                     k = describe_turned(s, K, K_STRIDES),
                     v = describe_operand(s, V, s->k, V_STRIDES),
                     o = ph__cudnn_memory(g, O, s->dtype, s->q, NULL),
                     lse = ph__cudnn_memory(g, LSE, PH__CUDNN_F32, s->row, NULL),
                     scale = ph__cudnn_number(g, SCALE);
    ph__cudnn_tensor scaled = scale_scores(s, &q, &k, &scale), seen = hide_scores(s, &scaled),
                     most = reduce_rows(s, PH__CUDNN_MAX, &seen),
                     below = apply_operation(s, PH__CUDNN_SUBTRACT, &seen, &most),
                     weight = apply_operation(s, PH__CUDNN_EXP, &below, NULL),
                     total = reduce_rows(s, PH__CUDNN_SUM, &weight),
                     log = apply_operation(s, PH__CUDNN_LOG, &total, NULL),
                     p = ph__cudnn_between(g, s->dtype, s->scores, NULL);
    ph__cudnn_pointwise(g, PH__CUDNN_ADD, PH__CUDNN_F32, &most, &log, &lse);
    ph__cudnn_pointwise(g, PH__CUDNN_DIVIDE, PH__CUDNN_F32, &weight, &total, &p);
    ph__cudnn_matmul(g, &p, &v, &o);
}

/* out = x^T y, where x is of the scores' shape; summed over the heads that share a key. */
static void multiply_turned(const sizes *s, const ph__cudnn_tensor *x, const ph__cudnn_tensor *y,
                            int64_t out)
{
    ph__cudnn_graph *g = s->graph;
    const int64_t all[4] = {s->k[0], s->q[1], s->k[2], s->k[3]};
    ph__cudnn_tensor turned = ph__cudnn_between(g, s->dtype, s->turned, s->turned_stride),
                     to = ph__cudnn_memory(g, out, s->dtype, s->k, NULL);
    ph__cudnn_transpose(g, x, &turned);
    if (s->q[1] == s->k[1]) {
        ph__cudnn_matmul(g, &turned, y, &to);
        return;
    }
    ph__cudnn_tensor each = ph__cudnn_between(g, s->dtype, all, NULL);
    ph__cudnn_matmul(g, &turned, y, &each);
    ph__cudnn_reduce(g, PH__CUDNN_SUM, &each, &to);
}

/* delta = rows of o g summed; p = exp(q k^T * scale - lse); dv = p^T g;
 * ds = p (g v^T - delta) * scale; dk = ds^T q; dq = ds k. A dq of the operands' type, not of f32
 * that is converted, has no atomic additions. */
static void describe_backward(const sizes *s)
{
    ph__cudnn_graph *g = s->graph;
    const int64_t *w = s->key->word + K_STRIDES, rows_of_k[4] = {w[0], w[1], w[2], 1};
    ph__cudnn_tensor q = describe_operand(s, Q, s->q, Q_STRIDES),
                     k = describe_turned(s, K, K_STRIDES), v = describe_turned(s, V, V_STRIDES),
                     grad = describe_operand(s, G, s->q, G_STRIDES),
                     o = ph__cudnn_memory(g, O, s->dtype, s->q, NULL),
                     dq = ph__cudnn_memory(g, DQ, s->dtype, s->q, NULL),
                     lse = ph__cudnn_memory(g, LSE, PH__CUDNN_F32, s->row, NULL),
                     delta = ph__cudnn_memory(g, DELTA, PH__CUDNN_F32, s->row, NULL),
                     scale = ph__cudnn_number(g, SCALE), one = ph__cudnn_number(g, ONE);
    ph__cudnn_tensor both = apply_operation(s, PH__CUDNN_MULTIPLY, &grad, &o),
                     sum = reduce_rows(s, PH__CUDNN_SUM, &both);
    ph__cudnn_pointwise(g, PH__CUDNN_MULTIPLY, PH__CUDNN_F32, &sum, &one, &delta);
    ph__cudnn_tensor scaled = scale_scores(s, &q, &k, &scale),
                     below = apply_operation(s, PH__CUDNN_SUBTRACT, &scaled, &lse),
                     seen = hide_scores(s, &below),
                     p = apply_operation(s, PH__CUDNN_EXP, &seen, NULL);
    multiply_turned(s, &p, &grad, DV);
    ph__cudnn_tensor dp = ph__cudnn_between(g, PH__CUDNN_F32, s->scores, NULL);
    ph__cudnn_matmul(g, &grad, &v, &dp);
    ph__cudnn_tensor off = apply_operation(s, PH__CUDNN_SUBTRACT, &dp, &delta),
                     weighed = apply_operation(s, PH__CUDNN_MULTIPLY, &off, &p),
                     ds = apply_operation(s, PH__CUDNN_MULTIPLY, &weighed, &scale);
    multiply_turned(s, &ds, &q, DK);
    ph__cudnn_tensor keys = ph__cudnn_between(g, s->dtype, s->k, rows_of_k);
    ph__cudnn_transpose(g, &k, &keys);
    ph__cudnn_matmul(g, &ds, &keys, &dq);
}

static void describe_pass(ph__cudnn_graph *graph, const ph__cudnn_key *key)
{
    const sizes s = sizes_of(graph, key);
    if (key->word[BACKWARD])
        describe_backward(&s);
    else
        describe_forward(&s);
}

/* ---- the choice ---- */

/* Where cuDNN was measured to be faster (docs/measurements/tensors.md). */
enum {
    CAPABILITY = 90,
    ROWS_STEP = 128,
    MOST_WORKSPACE = 256 << 20
};

static bool has_aligned_operands(const ph__attention_args *a)
{
    uint64_t all = 0;
    const void *const at[] = {a->q, a->k, a->v, a->g, a->o, a->lse, a->delta, a->dq, a->dk, a->dv};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        all |= (uint64_t)(uintptr_t)at[i];
    return all % 16 == 0 && a->vectors;
}

/* cuDNN keeps dS of all heads for its deterministic backward, and some bytes. */
static bool has_small_workspace(const ph__attention_args *a, int64_t batch)
{
    return 2.0 * (double)batch * a->heads * a->tq * a->tk < MOST_WORKSPACE;
}

static bool is_faster(const ph__backend *backend, const ph__attention_args *a, ph_dtype dtype,
                      int64_t batch, bool backward)
{
    bool low = dtype == PH_DTYPE_F16 || dtype == PH_DTYPE_BF16;
    return backend->cuda && backend->info.compute_capability == CAPABILITY && low && batch > 0 &&
           batch <= INT32_MAX && (a->d == 64 || a->d == 128) && a->tq > 0 && a->tk > 0 &&
           a->tq % ROWS_STEP == 0 && a->tk % ROWS_STEP == 0 && (!a->causal || a->tq == a->tk) &&
           (!backward || (a->dq && a->dk && a->dv && has_small_workspace(a, batch))) &&
           has_aligned_operands(a);
}

/* A dimension of one element has any stride: that of dense ones, which is never 0. */
static void put_strides(int64_t *out, int64_t batch, int64_t heads, const ph__attention_args *a,
                        int64_t rows, const int64_t stride[3])
{
    out[2] = rows > 1 ? stride[2] : a->d;
    out[1] = heads > 1 ? stride[1] : rows * out[2];
    out[0] = batch > 1 ? stride[0] : heads * out[1];
}

static ph__cudnn_key attention_key_of(const ph__attention_args *a, ph_dtype dtype, int64_t batch,
                                      bool backward)
{
    ph__cudnn_key key = {{[BATCH] = batch,
                          [HEADS] = a->heads,
                          [KV_HEADS] = a->kv_heads,
                          [ROWS] = a->tq,
                          [KEYS] = a->tk,
                          [WIDTH] = a->d,
                          [DTYPE] = dtype,
                          [CAUSAL] = a->causal,
                          [BACKWARD] = backward}};
    const int64_t q[3] = {a->q_b, a->q_h, a->q_t}, k[3] = {a->k_b, a->k_h, a->k_t},
                  v[3] = {a->v_b, a->v_h, a->v_t}, g[3] = {a->g_b, a->g_h, a->g_t};
    put_strides(key.word + Q_STRIDES, batch, a->heads, a, a->tq, q);
    put_strides(key.word + K_STRIDES, batch, a->kv_heads, a, a->tk, k);
    put_strides(key.word + V_STRIDES, batch, a->kv_heads, a, a->tk, v);
    if (backward)
        put_strides(key.word + G_STRIDES, batch, a->heads, a, a->tq, g);
    return key;
}

/* ---- calls ---- */
static void name_operand(ph__cudnn_operands *all, int64_t id, const void *address)
{
    all->id[all->count] = id;
    all->address[all->count++] = (void *)(uintptr_t)address;
}

static ph__cudnn_operands operands_of(const ph__attention_args *a, const float numbers[3],
                                      bool backward)
{
    ph__cudnn_operands all = {.count = 0};
    name_operand(&all, Q, a->q);
    name_operand(&all, K, a->k);
    name_operand(&all, V, a->v);
    name_operand(&all, O, a->o);
    name_operand(&all, LSE, a->lse);
    if (backward) {
        name_operand(&all, G, a->g);
        name_operand(&all, DQ, a->dq);
        name_operand(&all, DK, a->dk);
        name_operand(&all, DV, a->dv);
        name_operand(&all, DELTA, a->delta);
        name_operand(&all, ONE, &numbers[2]);
    }
    name_operand(&all, SCALE, &numbers[0]);
    if (a->causal)
        name_operand(&all, HIDDEN, &numbers[1]);
    return all;
}

/* cuDNN's kernels do not say which of their words are addresses. */
static bool use_attention_operands(ph__op *op, const ph__attention_args *a)
{
    const void *const at[] = {a->q, a->k, a->v, a->g, a->o, a->lse, a->delta, a->dq, a->dk, a->dv};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        if (!ph__op_uses(op, at[i]))
            return false;
    return true;
}

static ph__attention_outcome submit_plan(ph__op *op, ph__cudnn *cudnn, ph__cudnn_plan *plan,
                                         const ph__attention_args *args, bool backward)
{
    const float numbers[3] = {(float)args->scale, -INFINITY, 1};
    const ph__cudnn_operands operands = operands_of(args, numbers, backward);
    const ph_tensor *scratch =
        plan->workspace > 0 ? ph__op_scratch(op, (size_t)plan->workspace) : NULL;
    if ((plan->workspace > 0 && !scratch) || !use_attention_operands(op, args) ||
        !ph__op_check(op, ph__cudnn_submit(cudnn, plan, &operands, scratch ? scratch->data : NULL,
                                           op->tape->stream)))
        return PH__ATTENTION_FAILED;
    return PH__ATTENTION_DONE;
}

ph__attention_outcome ph__attention_by_cudnn(ph__op *op, const ph__attention_args *args,
                                             ph_dtype dtype, int64_t batch, bool backward)
{
    ph__backend *backend = op->tape->backend;
    if (!is_faster(backend, args, dtype, batch, backward))
        return PH__ATTENTION_ELSEWHERE;
    ph__cudnn *cudnn = ph__cudnn_of(backend);
    if (cudnn && !cudnn->handle)
        return PH__ATTENTION_ELSEWHERE;
    if (!ph__op_check(op, cudnn ? ph_context_push_cuda(backend->device) : ph_error_last()->status))
        return PH__ATTENTION_FAILED;
    const ph__cudnn_key key = attention_key_of(args, dtype, batch, backward);
    ph__cudnn_plan *plan = ph__cudnn_plan_of(cudnn, &key, describe_pass, MOST_WORKSPACE);
    ph__attention_outcome outcome = PH__ATTENTION_ELSEWHERE;
    if (!plan)
        outcome = ph__op_check(op, ph_error_last()->status) ? outcome : PH__ATTENTION_FAILED;
    else if (plan->plan)
        outcome = submit_plan(op, cudnn, plan, args, backward);
    ph_context_pop_cuda(backend->device);
    return outcome;
}
