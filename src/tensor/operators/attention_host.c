/* SPDX-License-Identifier: MIT */
/* tensor/operators/attention_host.c: attention on the host device: blocks of queries or keys, after
 * "FlashAttention-2" (Dao 2023), in C. */
#include "tensor/operators/attention_host.h"
#include "base/half.h"
#include "tensor/kernels/math.h"
#include "tensor/operators/attention.h"
#include "tensor/products/products_plain.h"
#include <math.h>

enum {
    STEP = 64,   /* keys of a piece, and so the most rows of a block by keys */
    QUERIES = 32 /* of a piece of a block by keys */
};

/* ---- where a block is ---- */
typedef struct place {
    ph__view q, k, v, g;  /* from the block's first row, of what it has; else of the whole head */
    int64_t first, count; /* of its queries or keys */
    int64_t row;          /* of lse and delta: of its first query */
    ph__view o;           /* from the block's first row */
    char *dq, *dk, *dv;
    int64_t batch, kv_head;
} place;

/* Empty tensors have no address. */
static const char *move_address(const void *at, int64_t bytes)
{
    return at ? (const char *)at + bytes : NULL;
}

static ph__view view_at(const void *at, ph_dtype dtype, int64_t offset, int64_t row)
{
    return (ph__view){move_address(at, offset * (int64_t)ph_dtype_size(dtype)), dtype, row, 1};
}

/* The same to be written; NULL stays NULL. */
static char *place_at(void *at, ph_dtype dtype, int64_t offset)
{
    return at ? (char *)at + offset * (int64_t)ph_dtype_size(dtype) : NULL;
}

static ph__view view_part(const ph__view *x, int64_t row, int64_t column)
{
    ph__view part = *x;
    part.at =
        move_address(x->at, (row * x->row + column * x->column) * (int64_t)ph_dtype_size(x->dtype));
    return part;
}

static double view_element(const ph__view *x, int64_t row, int64_t column)
{
    int64_t at = row * x->row + column * x->column;
    switch (x->dtype) {
    case PH_DTYPE_F64:
        return ((const double *)x->at)[at];
    case PH_DTYPE_F16:
        return (double)ph__f16_get(((const uint16_t *)x->at)[at]);
    case PH_DTYPE_BF16:
        return (double)ph__bf16_get(((const uint16_t *)x->at)[at]);
    default:
        return (double)((const float *)x->at)[at];
    }
}

/* The last key that a query sees where it is causal; -1: none. */
static int64_t last_key(const ph__attention_args *p, int64_t query)
{
    int64_t last = query + (int64_t)p->tk - (int64_t)p->tq;
    return last < -1 ? -1 : last;
}

/* How many of the keys [from, from + n) a query sees: the first so many. */
static int64_t seen_keys(const ph__attention_args *p, int64_t query, int64_t from, int64_t n)
{
    int64_t seen = p->causal ? last_key(p, query) + 1 - from : n;
    return seen < 0 ? 0 : seen < n ? seen : n;
}

/* The first query that sees a key. */
static int64_t first_query(const ph__attention_args *p, int64_t key)
{
    int64_t first = p->causal ? key - ((int64_t)p->tk - (int64_t)p->tq) : 0;
    return first < 0 ? 0 : first;
}

static void find_place(place *out, const ph__attention_args *p, ph_dtype dtype,
                       const ph_block_range *range, uint64_t block)
{
    int64_t tiles = ((int64_t)p->tq + p->rows - 1) / p->rows,
            groups = (int64_t)range->grid[0] / tiles;
    int64_t tile = tiles - 1 - (int64_t)block / groups, index = (int64_t)block % groups;
    int64_t head = index % p->heads, batch = index / p->heads,
            kv_head = head / (p->heads / p->kv_heads);
    out->first = tile * p->rows;
    out->count = (int64_t)p->tq - out->first < p->rows ? (int64_t)p->tq - out->first : p->rows;
    out->row = index * p->tq + out->first;
    out->o = view_at(p->o, dtype, batch * p->o_s[0] + head * p->o_s[1] + out->first * p->o_s[2],
                     p->o_s[2]);
    out->dq =
        place_at(p->dq, dtype, batch * p->dq_s[0] + head * p->dq_s[1] + out->first * p->dq_s[2]);
    out->q = view_at(p->q, dtype, batch * p->q_s[0] + head * p->q_s[1] + out->first * p->q_s[2],
                     p->q_s[2]);
    out->k = view_at(p->k, dtype, batch * p->k_s[0] + kv_head * p->k_s[1], p->k_s[2]);
    out->v = view_at(p->v, dtype, batch * p->v_s[0] + kv_head * p->v_s[1], p->v_s[2]);
    if (p->g)
        out->g = view_at(p->g, dtype, batch * p->g_s[0] + head * p->g_s[1] + out->first * p->g_s[2],
                         p->g_s[2]);
}

static void find_key_place(place *out, const ph__attention_args *p, ph_dtype dtype,
                           const ph_block_range *range, uint64_t block)
{
    int64_t tiles = ((int64_t)p->tk + p->rows - 1) / p->rows,
            groups = (int64_t)range->grid[0] / tiles;
    int64_t tile = (int64_t)block / groups, index = (int64_t)block % groups;
    out->kv_head = index % p->kv_heads;
    out->batch = index / p->kv_heads;
    out->first = tile * p->rows;
    out->count = (int64_t)p->tk - out->first < p->rows ? (int64_t)p->tk - out->first : p->rows;
    out->dk =
        place_at(p->dk, dtype,
                 out->batch * p->dk_s[0] + out->kv_head * p->dk_s[1] + out->first * p->dk_s[2]);
    out->dv =
        place_at(p->dv, dtype,
                 out->batch * p->dv_s[0] + out->kv_head * p->dv_s[1] + out->first * p->dv_s[2]);
    out->k = view_at(p->k, dtype,
                     out->batch * p->k_s[0] + out->kv_head * p->k_s[1] + out->first * p->k_s[2],
                     p->k_s[2]);
    out->v = view_at(p->v, dtype,
                     out->batch * p->v_s[0] + out->kv_head * p->v_s[1] + out->first * p->v_s[2],
                     p->v_s[2]);
}

/* The member-th of the heads that share the block's keys: all of its queries. */
static void find_queries(place *at, const ph__attention_args *p, ph_dtype dtype, uint32_t member)
{
    int64_t head = at->kv_head * (p->heads / p->kv_heads) + member;
    at->q = view_at(p->q, dtype, at->batch * p->q_s[0] + head * p->q_s[1], p->q_s[2]);
    at->g = view_at(p->g, dtype, at->batch * p->g_s[0] + head * p->g_s[1], p->g_s[2]);
    at->row = (at->batch * p->heads + head) * p->tq;
}

/* ---- exponentials ---- x[j] = exp(x[j] - shift). */
static void exp_row_f32(float *x, float shift, int64_t n)
{
    PH__VECTOR_LOOP
    for (int64_t j = 0; j < n; j++)
        x[j] = ph__expf(x[j] - shift);
}

static void exp_row_f64(double *x, double shift, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        x[j] = exp(x[j] - shift);
}

#define C       float
#define NAME(x) x##_in_f32
#define EXP     ph__expf
#define LOG     logf
#define EXP_ROW exp_row_f32
#define COMPUTE PH_DTYPE_F32
#include "tensor/operators/attention_pieces.h"

#include "tensor/operators/attention_blocks.h"
#undef C
#undef NAME
#undef EXP
#undef LOG
#undef EXP_ROW
#undef COMPUTE
#define C       double
#define NAME(x) x##_in_f64
#define EXP     exp
#define LOG     log
#define EXP_ROW exp_row_f64
#define COMPUTE PH_DTYPE_F64
#include "tensor/operators/attention_pieces.h"

#include "tensor/operators/attention_blocks.h"

size_t ph__attention_host_scratch(bool f64, uint32_t rows, uint32_t d)
{
    size_t size = f64 ? 8 : 4, pieces = rows > QUERIES ? rows : QUERIES;
    return size * (2 * (size_t)rows * d + 2 * pieces * STEP + 2 * (size_t)rows) +
           ph__plain_scratch(f64 ? PH_DTYPE_F64 : PH_DTYPE_F32);
}

#define KERNEL(name, type, dtype, place_of, body)                                                  \
    void ph__attention_##name##_##type(const ph_block_range *range, const void *args)              \
    {                                                                                              \
        for (uint64_t block = range->begin; block < range->end; block++) {                         \
            place at = {.first = 0};                                                               \
            place_of(&at, args, dtype, range, block);                                              \
            body(args, &at, dtype, range->shared);                                                 \
        }                                                                                          \
    }
#define KERNELS(type, dtype, computed)                                                             \
    KERNEL(forward, type, dtype, find_place, forward_in_##computed)                                \
    KERNEL(queries, type, dtype, find_place, queries_in_##computed)                                \
    KERNEL(keys, type, dtype, find_key_place, keys_in_##computed)
KERNELS(f32, PH_DTYPE_F32, f32)
KERNELS(f64, PH_DTYPE_F64, f64)
KERNELS(f16, PH_DTYPE_F16, f32)
KERNELS(bf16, PH_DTYPE_BF16, f32)
