/* SPDX-License-Identifier: MIT */
/* tensor/operators/attention_operands.c: how attention's operands and results lie in memory. */
#include "tensor/operators/attention_operands.h"
#include "tensor/core/shape.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include <string.h>

/* All dimensions before the last three as one; false: their strides are not those of one
 * dimension. */
static bool join_batch(ph__attention_operand *out, ph_tensor *x)
{
    size_t rank = x->shape.rank, lead = rank - 3;
    int64_t dims[PH_MAX_RANK], strides[1][PH_MAX_RANK];
    memcpy(dims, x->shape.dim, sizeof dims);
    memcpy(strides[0], x->stride, sizeof strides[0]);
    *out = (ph__attention_operand){x, 1, {0, x->stride[rank - 3], x->stride[rank - 2]}};
    for (size_t i = 0; i < lead; i++)
        out->batch *= dims[i];
    if (out->batch <= 1)
        return true;
    bool joined = ph__shape_coalesce(dims, strides, 1, lead) == 1;
    out->stride[0] = strides[0][0];
    return joined;
}

bool ph__attention_operand_of(ph__op *op, ph__attention_operand *out, ph_tensor *x)
{
    bool dense = x->shape.dim[x->shape.rank - 1] <= 1 || x->stride[x->shape.rank - 1] == 1;
    if (dense && join_batch(out, x))
        return true;
    bool before = ph_tape_set_grad_enabled(op->tape, false);
    ph_tensor *copy = ph_clone(op->tape, x);
    (void)ph_tape_set_grad_enabled(op->tape, before);
    return copy && join_batch(out, copy);
}

/* A stride counts where there is a second element. */
static bool has_vectors(const ph__attention_operand *x)
{
    const int64_t *dim = x->x->shape.dim + x->x->shape.rank - 3;
    uint64_t size = ph_dtype_size(x->x->dtype), all = (uint64_t)(uintptr_t)x->x->data;
    all |= (uint64_t)x->stride[0] * size;
    for (int i = 0; i < 2; i++)
        all |= dim[i] > 1 ? (uint64_t)x->stride[i + 1] * size : 0;
    return (all | (uint64_t)dim[2] * size) % 16 == 0;
}

static void copy_strides(int64_t out[3], const ph__attention_operand *x)
{
    for (int i = 0; x && i < 3; i++)
        out[i] = x->stride[i];
}

ph__attention_args ph__attention_args_of(const ph__attention_operand *q,
                                         const ph__attention_operand *k,
                                         const ph__attention_operand *v,
                                         const ph__attention_operand *g, bool causal, double scale)
{
    size_t rank = q->x->shape.rank;
    const int64_t *dims = q->x->shape.dim + rank - 3, *key_dims = k->x->shape.dim + rank - 3;
    ph__attention_args args = {.q = q->x->data,
                               .k = k->x->data,
                               .v = v->x->data,
                               .g = g ? g->x->data : NULL,
                               .scale = scale,
                               .heads = (uint32_t)dims[0],
                               .kv_heads = (uint32_t)key_dims[0],
                               .tq = (uint32_t)dims[1],
                               .tk = (uint32_t)key_dims[1],
                               .d = (uint32_t)dims[2],
                               .causal = causal,
                               .vectors = has_vectors(q) && has_vectors(k) && has_vectors(v) &&
                                          (!g || has_vectors(g))};
    copy_strides(args.q_s, q);
    copy_strides(args.k_s, k);
    copy_strides(args.v_s, v);
    copy_strides(args.g_s, g);
    return args;
}

/* ---- results ---- */
/* A new tensor of x's shape in which heads and rows lie in memory as in x: so that what takes
 * heads apart and puts them together again needs no copy. */
ph_tensor *ph__attention_result(ph__op *op, const ph_tensor *x)
{
    size_t heads = x->shape.rank - 3, rows = heads + 1;
    bool turned =
        x->shape.dim[heads] > 1 && x->shape.dim[rows] > 1 && x->stride[heads] < x->stride[rows];
    if (!turned)
        return ph__op_output(op, x->dtype, &x->shape);
    ph_shape shape = x->shape;
    int64_t strides[PH_MAX_RANK];
    shape.dim[heads] = x->shape.dim[rows];
    shape.dim[rows] = x->shape.dim[heads];
    ph_tensor *memory = ph__op_output(op, x->dtype, &shape);
    if (!memory)
        return NULL;
    ph__shape_strides(strides, &shape);
    int64_t between = strides[heads];
    strides[heads] = strides[rows];
    strides[rows] = between;
    return ph__op_view(op, memory, &x->shape, strides, 0);
}

/* One tensor's queries, keys and values, [.., rows, 3, heads, d], which lies densely. */
static bool are_packed(ph_tensor *const x[3])
{
    size_t rank = x[0]->shape.rank;
    const int64_t *dims = x[0]->shape.dim + rank - 3, *strides = x[0]->stride + rank - 3;
    int64_t part = dims[0] * dims[2] * (int64_t)ph_dtype_size(x[0]->dtype), dense = dims[1];
    bool packed = strides[2] == 1 && strides[0] == dims[2] && strides[1] == 3 * dims[0] * dims[2];
    for (size_t i = rank - 3; packed && i-- > 0; dense *= x[0]->shape.dim[i])
        packed = x[0]->stride[i] == dense * strides[1];
    for (int i = 1; packed && i < 3; i++)
        packed = x[i] && x[i]->storage == x[0]->storage && x[i]->dtype == x[0]->dtype &&
                 x[i]->data == x[0]->data + i * part &&
                 ph_shape_equal(&x[i]->shape, &x[0]->shape) &&
                 memcmp(x[i]->stride, x[0]->stride, rank * sizeof *strides) == 0;
    return packed;
}

/* The shape of what they are packed in. */
static ph_shape packed_shape(const ph_tensor *x)
{
    ph_shape shape = x->shape;
    size_t last = shape.rank;
    shape.rank++;
    shape.dim[last] = x->shape.dim[last - 1];
    shape.dim[last - 1] = x->shape.dim[last - 3];
    shape.dim[last - 3] = x->shape.dim[last - 2];
    shape.dim[last - 2] = 3;
    return shape;
}

bool ph__attention_packed_gradients(ph__op *op, ph_tensor *out[3], ph_tensor *const x[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = NULL;
    if (x[0]->shape.rank == PH_MAX_RANK || x[0]->count == 0 || !are_packed(x))
        return true;
    ph_shape shape = packed_shape(x[0]);
    ph_tensor *memory = ph__op_output(op, x[0]->dtype, &shape);
    int64_t part = x[0]->shape.dim[x[0]->shape.rank - 3] * x[0]->shape.dim[x[0]->shape.rank - 1];
    for (int i = 0; memory && i < 3; i++)
        if (!(out[i] = ph__op_view(op, memory, &x[0]->shape, x[0]->stride, i * part)))
            return false;
    return memory;
}

ph_tensor *ph__attention_unpacked(ph__op *op, ph_tensor *const x[3])
{
    int64_t strides[PH_MAX_RANK];
    if (!x[0] || !x[1] || !x[2] || x[0]->shape.rank == PH_MAX_RANK || x[0]->count == 0 ||
        !are_packed(x))
        return NULL;
    ph_shape shape = packed_shape(x[0]);
    ph__shape_strides(strides, &shape);
    return ph__op_view(op, x[0], &shape, strides, 0);
}
