/* SPDX-License-Identifier: MIT */
/* tensor/operators/matmul.c: matrix products of tensors, and how leading dimensions, vectors and
 * strides become batches of matrices. */
#include "tensor/core/shape.h"
#include "tensor/core/tensor.h"
#include "tensor/operators/autocast_operands.h"
#include "tensor/operators/reductions.h"
#include "tensor/products/products.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include <string.h>

/* ---- operands as matrices ---- */

/* The last two dimensions of x, as a product takes them. */
typedef struct matrix {
    bool transposed;
    int64_t ld;
} matrix;

/* False: neither rows nor columns lie densely, and x must be copied. */
static bool matrix_of(matrix *out, const ph_tensor *x)
{
    size_t last = x->shape.rank - 1;
    int64_t rows = x->shape.dim[last - 1], columns = x->shape.dim[last];
    int64_t row = rows > 1 ? x->stride[last - 1] : columns,
            column = columns > 1 ? x->stride[last] : 1;
    if (column == 1 && row >= columns) {
        *out = (matrix){false, row > 1 ? row : 1};
        return true;
    }
    row = rows > 1 ? row : 1;
    *out = (matrix){true, column};
    return row == 1 && column >= rows;
}

/* x itself, or a copy that is a matrix. Nothing of it is remembered: the product's own gradient
 * is for x. */
static ph_tensor *as_matrix(ph__op *op, matrix *out, ph_tensor *x)
{
    if (matrix_of(out, x))
        return x;
    bool before = ph_tape_set_grad_enabled(op->tape, false);
    ph_tensor *copy = ph_contiguous(op->tape, x);
    (void)ph_tape_set_grad_enabled(op->tape, before);
    return copy && matrix_of(out, copy) ? copy : NULL;
}

/* A vector as a matrix of one row (of a) or one column (of b): another view. */
static ph_tensor *with_matrix(ph__op *op, ph_tensor *x, bool row)
{
    if (x->shape.rank != 1)
        return x;
    int64_t count = x->shape.dim[0], stride = x->stride[0];
    ph_shape shape = {2, {row ? 1 : count, row ? count : 1}};
    int64_t strides[PH_MAX_RANK] = {row ? count : stride, row ? stride : 1};
    return ph__op_view(op, x, &shape, strides, 0);
}

/* ---- batches ---- */

/* The dimensions beside the last two: strides in elements of a, b and c. The last dimension is a
 * product's batch. */
typedef struct batches {
    size_t rank;
    int64_t dims[PH_MAX_RANK], stride[3][PH_MAX_RANK];
} batches;

static void lead_strides(int64_t out[PH_MAX_RANK], const ph_tensor *x, const ph_shape *lead)
{
    size_t missing = lead->rank - (x->shape.rank - 2);
    for (size_t i = 0; i < lead->rank; i++)
        out[i] = i < missing || x->shape.dim[i - missing] == 1 ? 0 : x->stride[i - missing];
}

static void batches_of(batches *out, const ph_shape *lead, ph_tensor *const operands[3])
{
    out->rank = lead->rank;
    memcpy(out->dims, lead->dim, sizeof out->dims);
    for (size_t i = 0; i < 3; i++)
        lead_strides(out->stride[i], operands[i], lead);
    out->rank = ph__shape_coalesce(out->dims, out->stride, 3, out->rank);
}

/* Rows of all batches as one matrix, where b is the same for all and a's rows lie evenly. */
static void fold_rows(ph__product *p)
{
    if (p->batch < 2 || p->stride_b != 0 || p->transpose_a || p->stride_a != p->m * p->lda ||
        p->stride_c != p->m * p->ldc)
        return;
    p->m *= p->batch;
    p->batch = 1;
}

/* One product for each index of the outer dimensions; usually there are none. */
static bool multiply_batches(ph__op *op, ph__product *p, const batches *batch,
                             ph_tensor *const operands[3])
{
    size_t inner = batch->rank - 1;
    int64_t index[PH_MAX_RANK] = {0}, size = (int64_t)ph_dtype_size(p->dtype);
    p->batch = batch->dims[inner];
    p->stride_a = batch->stride[0][inner];
    p->stride_b = batch->stride[1][inner];
    p->stride_c = batch->stride[2][inner];
    fold_rows(p);
    for (;;) {
        int64_t offset[3] = {0, 0, 0};
        for (size_t o = 0; o < 3; o++)
            for (size_t i = 0; i < inner; i++)
                offset[o] += index[i] * batch->stride[o][i];
        p->a = operands[0]->data + offset[0] * size;
        p->b = operands[1]->data + offset[1] * size;
        p->c = operands[2]->data + offset[2] * size;
        if (!ph__op_product(op, p))
            return false;
        size_t i = inner;
        while (i > 0 && ++index[i - 1] == batch->dims[i - 1])
            index[--i] = 0;
        if (i == 0)
            return true;
    }
}

/* The sum of nothing, plus the bias. */
static bool empty_product(ph__op *op, ph_tensor *out, ph_tensor *bias)
{
    bool before = ph_tape_set_grad_enabled(op->tape, false);
    if (bias)
        ph_tensor_copy(op->tape, out, bias);
    else
        ph_tensor_fill(op->tape, out, 0);
    (void)ph_tape_set_grad_enabled(op->tape, before);
    return !ph__tape_failed(op->tape);
}

/* out = a * b (+ bias) for operands of at least two dimensions; out is contiguous, with leading
 * dimensions `lead`, and so is bias, or NULL. */
static bool product_into(ph__op *op, ph_tensor *out, ph_tensor *a, ph_tensor *b, ph_tensor *bias,
                         const ph_shape *lead)
{
    if (out->count == 0)
        return true;
    int64_t k = a->shape.dim[a->shape.rank - 1];
    if (k == 0)
        return empty_product(op, out, bias);
    matrix ma, mb;
    a = as_matrix(op, &ma, a);
    b = a ? as_matrix(op, &mb, b) : NULL;
    if (!b)
        return false;
    ph_tensor *const operands[3] = {a, b, out};
    batches batch;
    batches_of(&batch, lead, operands);
    int64_t n = out->shape.dim[out->shape.rank - 1];
    ph__product product = {.dtype = a->dtype,
                           .wide = out->dtype != a->dtype,
                           .transpose_a = ma.transposed,
                           .transpose_b = mb.transposed,
                           .m = out->shape.dim[out->shape.rank - 2],
                           .n = n,
                           .k = k,
                           .bias = bias ? bias->data : NULL,
                           .lda = ma.ld,
                           .ldb = mb.ld,
                           .ldc = n};
    return multiply_batches(op, &product, &batch, operands);
}

/* ---- matmul ---- */

/* As [rows, last], all dimensions but the last together. */
static ph_tensor *rows_of(ph_tape *tape, ph_tensor *x)
{
    int64_t rows = 1;
    for (int i = 0; i + 1 < (int)ph_tensor_rank(x); i++)
        rows *= ph_tensor_dim(x, i);
    return x ? ph_reshape(tape, x, PH_SHAPE(rows, ph_tensor_dim(x, -1))) : NULL;
}

/* A gradient without dimensions that repeat an element: copied once for both products, in the order
 * of its own dimensions. Products then are those of a gradient that lies in memory, to the bit: a
 * library of products sums in another order where an operand lies otherwise. */
static ph_tensor *lie_in_memory(ph_tape *tape, ph_tensor *g)
{
    for (size_t i = 0; i < g->shape.rank; i++)
        if (g->shape.dim[i] > 1 && g->stride[i] == 0)
            return ph_contiguous(tape, g);
    return g;
}

static ph_tensor *make_matmul(ph_tape *tape, ph_tensor *a, ph_tensor *b, bool wide);

static void matmul_backward(ph__grad_call *call)
{
    ph_tape *tape = call->tape;
    ph_tensor *a = call->saved[0], *b = call->saved[1],
              *g = lie_in_memory(tape, call->out_grads[0]);
    if (!g)
        return;
    bool vector_a = ph_tensor_rank(a) == 1, vector_b = ph_tensor_rank(b) == 1;
    if (vector_b)
        g = ph_unsqueeze(tape, g, -1);
    if (vector_a)
        g = ph_unsqueeze(tape, g, -2);
    a = vector_a ? ph_unsqueeze(tape, a, 0) : a;
    b = vector_b ? ph_unsqueeze(tape, b, 1) : b;
    if (call->needed[0]) {
        ph_tensor *da = make_matmul(tape, g, ph_transpose(tape, b, -1, -2), call->wide[0]);
        call->in_grads[0] = vector_a ? ph_squeeze(tape, da, -2) : da;
    }
    if (!call->needed[1])
        return;
    if (ph_tensor_rank(b) == 2 && ph_tensor_rank(a) > 2) {
        a = rows_of(tape, a);
        g = rows_of(tape, g);
    }
    ph_tensor *db = make_matmul(tape, ph_transpose(tape, a, -1, -2), g, call->wide[1]);
    call->in_grads[1] = vector_b ? ph_squeeze(tape, db, -1) : db;
}

static const ph__grad_def matmul_grad = {.name = "matmul", .backward = matmul_backward};

/* Leading dimensions of the result; false: they do not broadcast. */
static bool lead_of(ph_shape *out, const ph_tensor *a, const ph_tensor *b)
{
    ph_shape la = a->shape, lb = b->shape;
    la.rank -= 2;
    lb.rank -= 2;
    return ph__shape_broadcast(out, &la, &lb);
}

/* The dimensions of the result as its caller sees it: those of vectors are left out. */
static ph_shape shape_of_result(const ph_shape *lead, ph_tensor *const in[2], int64_t m, int64_t n)
{
    ph_shape shape = *lead;
    if (in[0]->shape.rank > 1)
        shape.dim[shape.rank++] = m;
    if (in[1]->shape.rank > 1)
        shape.dim[shape.rank++] = n;
    return shape;
}

/* wide: the product of half types is of f32, and has no history. */
static ph_tensor *make_matmul(ph_tape *tape, ph_tensor *a, ph_tensor *b, bool wide)
{
    ph__op op;
    ph_tensor *in[2] = {a, b};
    if (!ph__op_begin(&op, tape, "matmul", in, 2, 2))
        return NULL;
    if (!ph_dtype_is_floating(a->dtype) || a->dtype != b->dtype)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT,
                           "both operands must be of one floating dtype; ph_cast one of them");
    if (a->shape.rank == 0 || b->shape.rank == 0)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "operands have at least one dimension");
    ph_tensor *ma = with_matrix(&op, a, true), *mb = ma ? with_matrix(&op, b, false) : NULL;
    if (!mb)
        return NULL;
    ph_shape lead;
    int64_t m = ma->shape.dim[ma->shape.rank - 2], n = mb->shape.dim[mb->shape.rank - 1];
    if (ma->shape.dim[ma->shape.rank - 1] != mb->shape.dim[mb->shape.rank - 2])
        return ph__op_fail(
            &op, PH_ERROR_ARGUMENT,
            "the last dimension of the first operand must be the last but one of the second");
    if (!lead_of(&lead, ma, mb))
        return ph__op_fail(&op, PH_ERROR_ARGUMENT,
                           "the dimensions before the last two do not broadcast");
    ph_shape shape = shape_of_result(&lead, in, m, n), full = lead;
    full.dim[full.rank++] = m;
    full.dim[full.rank++] = n;
    ph_tensor *out = ph__op_output(&op, wide ? PH_DTYPE_F32 : a->dtype, &shape);
    int64_t strides[PH_MAX_RANK];
    ph__shape_strides(strides, &full);
    ph_tensor *as_full =
        out && shape.rank != full.rank ? ph__op_view(&op, out, &full, strides, 0) : out;
    if (!as_full || !product_into(&op, as_full, ma, mb, NULL, &lead))
        return NULL;
    if (op.tracked && !wide && ph__op_track(&op, &matmul_grad, 2)) {
        ph__op_save(&op, 0, a);
        ph__op_save(&op, 1, b);
    }
    return ph__op_done(&op, out);
}

ph_tensor *ph_matmul(ph_tape *tape, ph_tensor *a, ph_tensor *b)
{
    ph__autocast cast;
    ph_tensor *in[2] = {a, b};
    if (ph__autocast_begin(&cast, tape, PH__AUTOCAST_LOW, in, 2))
        return ph__autocast_end(&cast, make_matmul(tape, in[0], in[1], false));
    return make_matmul(tape, a, b, false);
}

/* ---- linear ---- saved: x, weight. */
static void linear_backward(ph__grad_call *call)
{
    ph_tape *tape = call->tape;
    ph_tensor *x = call->saved[0], *weight = call->saved[1],
              *g = lie_in_memory(tape, call->out_grads[0]);
    if (!g)
        return;
    if (call->needed[0])
        call->in_grads[0] = make_matmul(tape, g, weight, call->wide[0]);
    if (call->needed[1])
        call->in_grads[1] = make_matmul(tape, ph_transpose(tape, rows_of(tape, g), 0, 1),
                                        rows_of(tape, x), call->wide[1]);
    if (call->needed[2])
        call->in_grads[2] =
            ph__sum_rows(tape, g, call->wide[2] ? PH_DTYPE_F32 : ph_tensor_dtype(g));
}

static const ph__grad_def linear_grad = {.name = "linear", .backward = linear_backward};

/* The fault of the operands; NULL: none. */
static const char *linear_fault(const ph_tensor *x, const ph_tensor *weight, const ph_tensor *bias)
{
    if (!ph_dtype_is_floating(x->dtype) || weight->dtype != x->dtype ||
        (bias && bias->dtype != x->dtype))
        return "all operands must be of one floating dtype; ph_cast those of another";
    if (weight->shape.rank != 2 || x->shape.rank == 0)
        return "the weight must have two dimensions, and x at least one";
    if (x->shape.dim[x->shape.rank - 1] != weight->shape.dim[1])
        return "the last dimension of x must be the weight's last one";
    if (bias && (bias->shape.rank != 1 || bias->shape.dim[0] != weight->shape.dim[0]))
        return "the bias must have one dimension, the weight's first one";
    return NULL;
}

static ph_tensor *contiguous_bias(ph__op *op, ph_tensor *bias)
{
    bool before = ph_tape_set_grad_enabled(op->tape, false);
    bias = ph_contiguous(op->tape, bias);
    (void)ph_tape_set_grad_enabled(op->tape, before);
    return bias;
}

/* The weight as the product takes it. A matrix is only read by product_into: *view, which is no
 * handle, is enough for it. */
static ph_tensor *turned_weight(ph__op *op, ph_tensor *view, ph_tensor *weight)
{
    matrix unused;
    *view = (ph_tensor){.dtype = weight->dtype,
                        .shape = {2, {weight->shape.dim[1], weight->shape.dim[0]}},
                        .stride = {weight->stride[1], weight->stride[0]},
                        .count = weight->count,
                        .data = weight->data};
    return matrix_of(&unused, view) ? view : ph__op_view(op, weight, &view->shape, view->stride, 0);
}

static bool linear_into(ph__op *op, ph_tensor *out, ph_tensor *x, ph_tensor *weight,
                        ph_tensor *bias)
{
    ph_shape full = out->shape;
    int64_t full_strides[PH_MAX_RANK];
    ph_tensor view, *b = turned_weight(op, &view, weight), *a = b ? with_matrix(op, x, true) : NULL;
    if (!a || (bias && !(bias = contiguous_bias(op, bias))))
        return false;
    if (x->shape.rank == 1) {
        full = (ph_shape){2, {1, out->count}};
        ph__shape_strides(full_strides, &full);
        out = ph__op_view(op, out, &full, full_strides, 0);
    }
    ph_shape lead = full;
    lead.rank -= 2;
    return out && product_into(op, out, a, b, bias, &lead);
}

ph_tensor *ph_linear(ph_tape *tape, ph_tensor *x, ph_tensor *weight, ph_tensor *bias)
{
    ph__op op;
    ph__autocast cast;
    ph_tensor *in[3] = {x, weight, bias};
    if (ph__autocast_begin(&cast, tape, PH__AUTOCAST_LOW, in, 3))
        return ph__autocast_end(&cast, ph_linear(tape, in[0], in[1], in[2]));
    if (!ph__op_begin(&op, tape, "linear", in, 3, 2))
        return NULL;
    const char *fault = linear_fault(x, weight, bias);
    if (fault)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "%s", fault);
    ph_shape shape = x->shape;
    shape.dim[shape.rank - 1] = weight->shape.dim[0];
    ph_tensor *out = ph__op_output(&op, x->dtype, &shape);
    if (!out || !linear_into(&op, out, x, weight, bias))
        return NULL;
    if (op.tracked && ph__op_track(&op, &linear_grad, 2)) {
        ph__op_save(&op, 0, x);
        ph__op_save(&op, 1, weight);
    }
    return ph__op_done(&op, out);
}
