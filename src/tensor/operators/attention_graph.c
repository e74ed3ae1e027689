/* SPDX-License-Identifier: MIT */
/* tensor/operators/attention_graph.c: attention as graphs of cuDNN's operations: those that its
 * documentation names for scaled dot product attention, which one fused kernel does. */
#include "tensor/operators/attention_graph.h"
#include "tensor/cudnn/cudnn_graph.h"
#include <phonograph/dtype.h>

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
    int64_t tq = w[PH__ATTENTION_ROWS], tk = w[PH__ATTENTION_KEYS], h = w[PH__ATTENTION_HEADS];
    return (sizes){
        .graph = graph,
        .key = key,
        .dtype = w[PH__ATTENTION_DTYPE] == PH_DTYPE_F16 ? PH__CUDNN_F16 : PH__CUDNN_BF16,
        .q = {w[PH__ATTENTION_BATCH], h, tq, w[PH__ATTENTION_WIDTH]},
        .k = {w[PH__ATTENTION_BATCH], w[PH__ATTENTION_KV_HEADS], tk, w[PH__ATTENTION_WIDTH]},
        .scores = {w[PH__ATTENTION_BATCH], h, tq, tk},
        .turned = {w[PH__ATTENTION_BATCH], h, tk, tq},
        .turned_stride = {h * tq * tk, tq * tk, 1, tk},
        .row = {w[PH__ATTENTION_BATCH], h, tq, 1}};
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
    if (!s->key->word[PH__ATTENTION_CAUSAL])
        return *scores;
    ph__cudnn_tensor row = ph__cudnn_between(g, PH__CUDNN_I32, s->scores, NULL),
                     column = ph__cudnn_between(g, PH__CUDNN_I32, s->scores, NULL),
                     seen = ph__cudnn_between(g, PH__CUDNN_BOOL, s->scores, NULL),
                     y = ph__cudnn_between(g, PH__CUDNN_F32, s->scores, NULL),
                     hidden = ph__cudnn_number(g, PH__ATTENTION_HIDDEN);
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
    ph__cudnn_tensor q = describe_operand(s, PH__ATTENTION_Q, s->q, PH__ATTENTION_Q_STRIDES),
                     k = describe_turned(s, PH__ATTENTION_K, PH__ATTENTION_K_STRIDES),
                     v = describe_operand(s, PH__ATTENTION_V, s->k, PH__ATTENTION_V_STRIDES),
                     o = describe_operand(s, PH__ATTENTION_O, s->q, PH__ATTENTION_O_STRIDES),
                     lse = ph__cudnn_memory(g, PH__ATTENTION_LSE, PH__CUDNN_F32, s->row, NULL),
                     scale = ph__cudnn_number(g, PH__ATTENTION_SCALE);
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

/* out = x^T y, where x is of the scores' shape; summed over the heads that share a key. Out's
 * strides begin at word `from`. */
static void multiply_turned(const sizes *s, const ph__cudnn_tensor *x, const ph__cudnn_tensor *y,
                            int64_t out, int from)
{
    ph__cudnn_graph *g = s->graph;
    const int64_t all[4] = {s->k[0], s->q[1], s->k[2], s->k[3]};
    ph__cudnn_tensor turned = ph__cudnn_between(g, s->dtype, s->turned, s->turned_stride),
                     to = describe_operand(s, out, s->k, from);
    ph__cudnn_transpose(g, x, &turned);
    if (s->q[1] == s->k[1]) {
        ph__cudnn_matmul(g, &turned, y, &to);
        return;
    }
    ph__cudnn_tensor each = ph__cudnn_between(g, s->dtype, all, NULL);
    ph__cudnn_matmul(g, &turned, y, &each);
    ph__cudnn_reduce(g, PH__CUDNN_SUM, &each, &to);
}

/* dq = ds keys. A dq in f32 that has memory, and is converted, is cuDNN's word for atomic
 * additions; it clears that memory itself. One of the operands' type has a fixed order. */
static void multiply_keys(const sizes *s, const ph__cudnn_tensor *ds, const ph__cudnn_tensor *keys,
                          const ph__cudnn_tensor *dq)
{
    ph__cudnn_graph *g = s->graph;
    if (s->key->word[PH__ATTENTION_PASS] != PH__ATTENTION_ATOMIC) {
        ph__cudnn_matmul(g, ds, keys, dq);
        return;
    }
    ph__cudnn_tensor sum = ph__cudnn_memory(g, PH__ATTENTION_DQ_SUM, PH__CUDNN_F32, s->q, NULL);
    ph__cudnn_matmul(g, ds, keys, &sum);
    ph__cudnn_pointwise(g, PH__CUDNN_IDENTITY, PH__CUDNN_F32, &sum, NULL, dq);
}

/* delta = rows of o g summed; p = exp(q k^T * scale - lse); dv = p^T g;
 * ds = p (g v^T - delta) * scale; dk = ds^T q; dq = ds k. */
static void describe_backward(const sizes *s)
{
    ph__cudnn_graph *g = s->graph;
    const int64_t *w = s->key->word + PH__ATTENTION_K_STRIDES, rows_of_k[4] = {w[0], w[1], w[2], 1};
    ph__cudnn_tensor q = describe_operand(s, PH__ATTENTION_Q, s->q, PH__ATTENTION_Q_STRIDES),
                     k = describe_turned(s, PH__ATTENTION_K, PH__ATTENTION_K_STRIDES),
                     v = describe_turned(s, PH__ATTENTION_V, PH__ATTENTION_V_STRIDES),
                     grad = describe_operand(s, PH__ATTENTION_G, s->q, PH__ATTENTION_G_STRIDES),
                     o = describe_operand(s, PH__ATTENTION_O, s->q, PH__ATTENTION_O_STRIDES),
                     dq = describe_operand(s, PH__ATTENTION_DQ, s->q, PH__ATTENTION_DQ_STRIDES),
                     lse = ph__cudnn_memory(g, PH__ATTENTION_LSE, PH__CUDNN_F32, s->row, NULL),
                     delta = ph__cudnn_memory(g, PH__ATTENTION_DELTA, PH__CUDNN_F32, s->row, NULL),
                     scale = ph__cudnn_number(g, PH__ATTENTION_SCALE),
                     one = ph__cudnn_number(g, PH__ATTENTION_ONE);
    ph__cudnn_tensor both = apply_operation(s, PH__CUDNN_MULTIPLY, &grad, &o),
                     sum = reduce_rows(s, PH__CUDNN_SUM, &both);
    ph__cudnn_pointwise(g, PH__CUDNN_MULTIPLY, PH__CUDNN_F32, &sum, &one, &delta);
    ph__cudnn_tensor scaled = scale_scores(s, &q, &k, &scale),
                     below = apply_operation(s, PH__CUDNN_SUBTRACT, &scaled, &lse),
                     seen = hide_scores(s, &below),
                     p = apply_operation(s, PH__CUDNN_EXP, &seen, NULL);
    multiply_turned(s, &p, &grad, PH__ATTENTION_DV, PH__ATTENTION_DV_STRIDES);
    ph__cudnn_tensor dp = ph__cudnn_between(g, PH__CUDNN_F32, s->scores, NULL);
    ph__cudnn_matmul(g, &grad, &v, &dp);
    ph__cudnn_tensor off = apply_operation(s, PH__CUDNN_SUBTRACT, &dp, &delta),
                     weighed = apply_operation(s, PH__CUDNN_MULTIPLY, &off, &p),
                     ds = apply_operation(s, PH__CUDNN_MULTIPLY, &weighed, &scale);
    multiply_turned(s, &ds, &q, PH__ATTENTION_DK, PH__ATTENTION_DK_STRIDES);
    ph__cudnn_tensor keys = ph__cudnn_between(g, s->dtype, s->k, rows_of_k);
    ph__cudnn_transpose(g, &k, &keys);
    multiply_keys(s, &ds, &keys, &dq);
}

void ph__attention_describe(ph__cudnn_graph *graph, const ph__cudnn_key *key)
{
    const sizes s = sizes_of(graph, key);
    if (key->word[PH__ATTENTION_PASS] == PH__ATTENTION_FORWARD)
        describe_forward(&s);
    else
        describe_backward(&s);
}
