/* SPDX-License-Identifier: MIT */
/* tensor/operators/attention_cudnn.c: which attention cuDNN does, and its calls. */
#include "tensor/operators/attention_cudnn.h"
#include "base/status.h"
#include "tensor/backend/benchmark.h"
#include "tensor/cudnn/cudnn.h"
#include "tensor/cudnn/cudnn_plan.h"
#include "tensor/operators/attention_graph.h"
#include "tensor/tape/tape.h"
#include <math.h>
#include <phonograph/cuda.h>
#include <phonograph/operators.h>

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

/* cuDNN keeps dS of all heads for its backward in a fixed order, and some bytes. */
static bool has_small_workspace(const ph__attention_args *a, int64_t batch)
{
    return 2.0 * (double)batch * a->heads * a->tq * a->tk < MOST_WORKSPACE;
}

static bool is_faster(const ph__backend *backend, const ph__attention_args *a, ph_dtype dtype,
                      int64_t batch, ph__attention_pass pass)
{
    bool low = dtype == PH_DTYPE_F16 || dtype == PH_DTYPE_BF16;
    return backend->cuda && backend->info.compute_capability == CAPABILITY && low && batch > 0 &&
           batch <= INT32_MAX && (a->d == 64 || a->d == 128) && a->tq > 0 && a->tk > 0 &&
           a->tq % ROWS_STEP == 0 && a->tk % ROWS_STEP == 0 && (!a->causal || a->tq == a->tk) &&
           (pass == PH__ATTENTION_FORWARD || (a->dq && a->dk && a->dv)) &&
           (pass != PH__ATTENTION_ORDERED || has_small_workspace(a, batch)) &&
           has_aligned_operands(a);
}

/* The one of cuDNN's proposals that was measured to be the fastest (docs/measurements/tensors.md):
 * for forward its second where keys are few, or all rows, else its first. */
static int fastest_as_measured(const ph__cudnn_key *key)
{
    enum {
        FEW_KEYS = 256,
        FEW_KEYS_CAUSAL = 1536,
        FEW_ROWS = 4096
    };
    const int64_t *w = key->word;
    int64_t most = w[PH__ATTENTION_CAUSAL] ? FEW_KEYS_CAUSAL : FEW_KEYS;
    if (w[PH__ATTENTION_PASS] != PH__ATTENTION_FORWARD)
        return 0;
    if (w[PH__ATTENTION_WIDTH] == 64)
        return w[PH__ATTENTION_KEYS] <= most ? 1 : 0;
    return w[PH__ATTENTION_ROWS] <= FEW_ROWS / w[PH__ATTENTION_HEADS] / w[PH__ATTENTION_BATCH] ? 1
                                                                                               : 0;
}

static ph__cudnn_search search_of(const ph__cudnn_key *key, int wanted)
{
    return (ph__cudnn_search){.most = MOST_WORKSPACE,
                              .wanted = wanted,
                              .preferred = fastest_as_measured(key),
                              .any_order = wanted > 1 &&
                                           key->word[PH__ATTENTION_PASS] == PH__ATTENTION_ATOMIC};
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
                                      ph__attention_pass pass)
{
    ph__cudnn_key key = {{[PH__ATTENTION_BATCH] = batch,
                          [PH__ATTENTION_HEADS] = a->heads,
                          [PH__ATTENTION_KV_HEADS] = a->kv_heads,
                          [PH__ATTENTION_ROWS] = a->tq,
                          [PH__ATTENTION_KEYS] = a->tk,
                          [PH__ATTENTION_WIDTH] = a->d,
                          [PH__ATTENTION_DTYPE] = dtype,
                          [PH__ATTENTION_CAUSAL] = a->causal,
                          [PH__ATTENTION_PASS] = pass}};
    put_strides(key.word + PH__ATTENTION_Q_STRIDES, batch, a->heads, a, a->tq, a->q_s);
    put_strides(key.word + PH__ATTENTION_K_STRIDES, batch, a->kv_heads, a, a->tk, a->k_s);
    put_strides(key.word + PH__ATTENTION_V_STRIDES, batch, a->kv_heads, a, a->tk, a->v_s);
    put_strides(key.word + PH__ATTENTION_O_STRIDES, batch, a->heads, a, a->tq, a->o_s);
    if (pass == PH__ATTENTION_FORWARD)
        return key;
    put_strides(key.word + PH__ATTENTION_G_STRIDES, batch, a->heads, a, a->tq, a->g_s);
    put_strides(key.word + PH__ATTENTION_DQ_STRIDES, batch, a->heads, a, a->tq, a->dq_s);
    put_strides(key.word + PH__ATTENTION_DK_STRIDES, batch, a->kv_heads, a, a->tk, a->dk_s);
    put_strides(key.word + PH__ATTENTION_DV_STRIDES, batch, a->kv_heads, a, a->tk, a->dv_s);
    return key;
}

/* ---- operands ---- */
static void name_operand(ph__cudnn_operands *all, int64_t id, const void *address)
{
    all->id[all->count] = id;
    all->address[all->count++] = (void *)(uintptr_t)address;
}

/* dq_sum: of the atomic pass. */
static ph__cudnn_operands operands_of(const ph__attention_args *a, const float numbers[3],
                                      ph__attention_pass pass, const void *dq_sum)
{
    ph__cudnn_operands all = {.count = 0};
    name_operand(&all, PH__ATTENTION_Q, a->q);
    name_operand(&all, PH__ATTENTION_K, a->k);
    name_operand(&all, PH__ATTENTION_V, a->v);
    name_operand(&all, PH__ATTENTION_O, a->o);
    name_operand(&all, PH__ATTENTION_LSE, a->lse);
    if (pass != PH__ATTENTION_FORWARD) {
        name_operand(&all, PH__ATTENTION_G, a->g);
        name_operand(&all, PH__ATTENTION_DQ, a->dq);
        name_operand(&all, PH__ATTENTION_DK, a->dk);
        name_operand(&all, PH__ATTENTION_DV, a->dv);
        name_operand(&all, PH__ATTENTION_DELTA, a->delta);
        name_operand(&all, PH__ATTENTION_ONE, &numbers[2]);
    }
    if (pass == PH__ATTENTION_ATOMIC)
        name_operand(&all, PH__ATTENTION_DQ_SUM, dq_sum);
    name_operand(&all, PH__ATTENTION_SCALE, &numbers[0]);
    if (a->causal)
        name_operand(&all, PH__ATTENTION_HIDDEN, &numbers[1]);
    return all;
}

/* Of scratch of the atomic pass. */
static int64_t dq_sum_bytes(const ph__cudnn_key *key, ph__attention_pass pass)
{
    const int64_t *w = key->word, count = w[PH__ATTENTION_BATCH] * w[PH__ATTENTION_HEADS] *
                                          w[PH__ATTENTION_ROWS] * w[PH__ATTENTION_WIDTH];
    return pass == PH__ATTENTION_ATOMIC ? count * (int64_t)sizeof(float) : 0;
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

/* *out: the address of scratch; NULL where no bytes are asked for. */
static bool acquire_scratch(ph__op *op, void **out, int64_t bytes)
{
    const ph_tensor *scratch = bytes > 0 ? ph__op_scratch(op, (size_t)bytes) : NULL;
    *out = scratch ? scratch->data : NULL;
    return scratch || bytes == 0;
}

/* ---- the fastest ---- */
typedef struct contest {
    ph__cudnn *cudnn;
    ph__cudnn_plan *plan; /* no other thread has it yet */
    ph__cudnn_operands operands;
    ph_stream *stream;
    void *workspace;
    int64_t workspace_bytes; /* 0: there is none */
} contest;

static bool try_proposal(void *user, int i)
{
    contest *c = user;
    ph__cudnn_plan_use(c->plan, i);
    return c->plan->workspace <= c->workspace_bytes &&
           ph__cudnn_submit(c->cudnn, c->plan, &c->operands,
                            c->plan->workspace > 0 ? c->workspace : NULL, c->stream) == PH_OK;
}

static int64_t widest_workspace(const ph__cudnn_plan *plan)
{
    int64_t most = 0;
    for (int i = 0; i < plan->built_count; i++)
        most = plan->built[i].workspace > most ? plan->built[i].workspace : most;
    return most;
}

/* Results are written once more when the choice has been made. Without memory for it, what needs it
 * does not compete. -1: nothing was timed. */
static int fastest_proposal(contest *c, const ph__attention_args *a, ph__attention_pass pass)
{
    const float numbers[3] = {(float)a->scale, -INFINITY, 1};
    int64_t bytes = widest_workspace(c->plan), sum_bytes = dq_sum_bytes(&c->plan->key, pass);
    void *sum = sum_bytes > 0 ? ph__benchmark_memory(c->stream, (size_t)sum_bytes) : NULL;
    c->workspace = bytes > 0 ? ph__benchmark_memory(c->stream, (size_t)bytes) : NULL;
    c->workspace_bytes = c->workspace ? bytes : 0;
    c->operands = operands_of(a, numbers, pass, sum);
    int fastest = sum || sum_bytes == 0
                      ? ph__benchmark_fastest(c->stream, c->plan->built_count, try_proposal, c)
                      : -1;
    ph__benchmark_release(c->workspace, c->stream);
    ph__benchmark_release(sum, c->stream);
    return fastest;
}

static ph__cudnn_plan *timed_plan(ph__cudnn *cudnn, const ph__cudnn_key *key, ph_stream *stream,
                                  const ph__attention_args *a, ph__attention_pass pass)
{
    const ph__cudnn_search search = search_of(key, PH__BENCHMARK_LIMIT);
    contest c = {.cudnn = cudnn, .stream = stream};
    c.plan = ph__cudnn_plan_make(cudnn, key, ph__attention_describe, &search);
    if (!c.plan)
        return NULL;
    if (c.plan->built_count > 1) {
        int fastest = fastest_proposal(&c, a, pass);
        ph__cudnn_plan_use(c.plan, fastest < 0 ? 0 : fastest);
        if (fastest < 0)
            atomic_store(&c.plan->captured, true);
    }
    return ph__cudnn_plan_keep(cudnn, c.plan);
}

static ph__cudnn_plan *attention_plan_of(ph__cudnn *cudnn, const ph__cudnn_key *key,
                                         ph_stream *stream, const ph__attention_args *a,
                                         ph__attention_pass pass)
{
    ph__cudnn_plan *found = ph_benchmark() ? ph__cudnn_plan_find(cudnn, key) : NULL;
    if (!found && ph__benchmark_wanted(stream))
        found = timed_plan(cudnn, key, stream, a, pass);
    const ph__cudnn_search search = search_of(key, 1);
    return found ? found : ph__cudnn_plan_of(cudnn, key, ph__attention_describe, &search);
}

/* ---- calls ---- */
static ph__attention_outcome submit_plan(ph__op *op, ph__cudnn *cudnn, ph__cudnn_plan *plan,
                                         const ph__attention_args *a, ph__attention_pass pass)
{
    const float numbers[3] = {(float)a->scale, -INFINITY, 1};
    void *workspace, *dq_sum;
    if (!acquire_scratch(op, &workspace, plan->workspace) ||
        !acquire_scratch(op, &dq_sum, dq_sum_bytes(&plan->key, pass)) ||
        !use_attention_operands(op, a))
        return PH__ATTENTION_FAILED;
    const ph__cudnn_operands operands = operands_of(a, numbers, pass, dq_sum);
    return ph__op_check(op, ph__cudnn_submit(cudnn, plan, &operands, workspace, op->tape->stream))
               ? PH__ATTENTION_DONE
               : PH__ATTENTION_FAILED;
}

ph__attention_outcome ph__attention_by_cudnn(ph__op *op, const ph__attention_args *args,
                                             ph_dtype dtype, int64_t batch, bool backward)
{
    ph__backend *backend = op->tape->backend;
    ph__attention_pass pass = !backward                       ? PH__ATTENTION_FORWARD
                              : ph_deterministic_algorithms() ? PH__ATTENTION_ORDERED
                                                              : PH__ATTENTION_ATOMIC;
    if (!is_faster(backend, args, dtype, batch, pass))
        return PH__ATTENTION_ELSEWHERE;
    ph__cudnn *cudnn = ph__cudnn_of(backend);
    if (cudnn && !cudnn->handle)
        return PH__ATTENTION_ELSEWHERE;
    if (!ph__op_check(op, cudnn ? ph_context_push_cuda(backend->device) : ph_error_last()->status))
        return PH__ATTENTION_FAILED;
    const ph__cudnn_key key = attention_key_of(args, dtype, batch, pass);
    ph__cudnn_plan *plan = attention_plan_of(cudnn, &key, op->tape->stream, args, pass);
    ph__attention_outcome outcome = PH__ATTENTION_ELSEWHERE;
    if (!plan)
        outcome = ph__op_check(op, ph_error_last()->status) ? outcome : PH__ATTENTION_FAILED;
    else if (plan->plan)
        outcome = submit_plan(op, cudnn, plan, args, pass);
    ph_context_pop_cuda(backend->device);
    return outcome;
}
