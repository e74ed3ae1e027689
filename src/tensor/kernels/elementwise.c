/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise.c: how a function is applied element by element: over which
 * dimensions, with which of its kernels. */
#include "tensor/kernels/elementwise.h"
#include "tensor/core/dtype.h"
#include "tensor/core/shape.h"
#include "tensor/core/tensor.h"
#include "tensor/kernels/elementwise_cast.h"
#include "tensor/kernels/elementwise_kernels.h"
#include "tensor/kernels/transpose.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include <math.h>
#include <string.h>

enum {
    MOST = 4 /* the result and three operands */
};

/* ---- scalars ---- */
ph__scalar ph__scalar_of(ph_dtype dtype, double value)
{
    if (ph_dtype_is_floating(dtype))
        return (ph__scalar){.f = value};
    if (dtype == PH_DTYPE_BOOL)
        return (ph__scalar){.i = value != 0};
    double low = dtype == PH_DTYPE_U8 ? 0 : dtype == PH_DTYPE_I32 ? INT32_MIN : -0x1p63;
    double high = dtype == PH_DTYPE_U8 ? UINT8_MAX : dtype == PH_DTYPE_I32 ? INT32_MAX : 0x1p63;
    if (isnan(value))
        return (ph__scalar){.i = 0};
    if (value >= high)
        return (ph__scalar){.i = dtype == PH_DTYPE_I64 ? INT64_MAX : (int64_t)high};
    return (ph__scalar){.i = value <= low ? (int64_t)low : (int64_t)value};
}

/* ---- any strides ---- */
/* Dimensions in the order of the result's memory, so that what is written last runs fastest. */
static void order_by_result(int64_t dims[PH_MAX_RANK], int64_t strides[MOST][PH_MAX_RANK],
                            size_t sides, size_t rank)
{
    for (size_t i = 1; i < rank; i++) {
        for (size_t k = i; k > 0 && strides[0][k - 1] < strides[0][k]; k--) {
            int64_t dim = dims[k];
            dims[k] = dims[k - 1];
            dims[k - 1] = dim;
            for (size_t o = 0; o < sides; o++) {
                int64_t stride = strides[o][k];
                strides[o][k] = strides[o][k - 1];
                strides[o][k - 1] = stride;
            }
        }
    }
}

/* Strides of x as an operand of that shape: 0 where it is broadcast. */
static void broadcast_strides(int64_t strides[PH_MAX_RANK], const ph_tensor *x,
                              const ph_shape *shape)
{
    size_t front = shape->rank - x->shape.rank;
    for (size_t i = 0; i < shape->rank; i++)
        strides[i] = i < front || x->shape.dim[i - front] == 1 ? 0 : x->stride[i - front];
}

static bool vectors_fit(const ph__elementwise_strided *m, ph_tensor *const *sides, size_t count,
                        int64_t vec)
{
    const size_t last = m->rank - 1;
    if (m->dim[last] % vec != 0)
        return false;
    for (size_t o = 0; o < count; o++) {
        const int64_t *stride = m->stride[o];
        if (stride[last] != 1 && (stride[last] != 0 || o == 0))
            return false;
        if ((uintptr_t)sides[o]->data % ((size_t)vec * ph_dtype_size(sides[o]->dtype)) != 0 &&
            stride[last] == 1)
            return false;
        for (size_t d = 0; d < last; d++)
            if (stride[last] == 1 && stride[d] % vec != 0)
                return false;
    }
    return true;
}

static void set_vectors(ph__elementwise_strided *m, ph_tensor *const *sides, size_t count)
{
    size_t widest = 1;
    for (size_t o = 0; o < count; o++)
        widest = ph_dtype_size(sides[o]->dtype) > widest ? ph_dtype_size(sides[o]->dtype) : widest;
    int64_t vec = widest == 1 ? 8 : 16 / (int64_t)widest;
    m->vec = 1;
    if (!vectors_fit(m, sides, count, vec))
        return;
    m->vec = (uint32_t)vec;
    m->dim[m->rank - 1] /= vec;
    m->n /= vec;
}

static void set_divisors(ph__elementwise_strided *m)
{
    m->small = m->n < INT32_MAX;
    for (size_t d = 0; m->small && d < m->rank; d++) {
        uint64_t dim = (uint64_t)m->dim[d];
        uint32_t shift = dim == 1 ? 0 : (uint32_t)(64 - __builtin_clzll(dim - 1));
        m->shift[d] = shift;
        m->magic[d] = (uint32_t)((((UINT64_C(1) << shift) - dim) << 32) / dim + 1);
    }
}

static uint64_t blocks_of(int64_t n)
{
    return ((uint64_t)n + PH__ELEMENTWISE_ITEMS - 1) / PH__ELEMENTWISE_ITEMS;
}

/* The addresses, and behind them the rest. */
static void set_args(char *args, ph_tensor *const *sides, size_t count, const void *rest,
                     size_t size)
{
    for (size_t o = 0; o < count; o++)
        memcpy(args + o * sizeof(char *), &sides[o]->data, sizeof(char *));
    memcpy(args + count * sizeof(char *), rest, size);
}

static bool launch_flat(ph__op *op, ph__kernel_def *def, ph_tensor *const *sides, size_t count,
                        const ph__elementwise_flat *flat)
{
    _Alignas(16) char args[MOST * sizeof(char *) + sizeof *flat];
    set_args(args, sides, count, flat, sizeof *flat);
    return ph__op_launch(op, def, blocks_of(flat->n), PH__ELEMENTWISE_THREADS, 0, args);
}

/* One dimension through which the result steps by 1 and the operands by 1 or 0. */
static bool is_flat(const ph__elementwise_strided *m, size_t count)
{
    bool flat = m->rank == 1 && (m->stride[0][0] == 1 || m->n == 1);
    for (size_t o = 1; o < count; o++)
        flat = flat && (m->stride[o][0] == 0 || m->stride[o][0] == 1 || m->n == 1);
    return flat;
}

static bool launch_strided(ph__op *op, ph__kernel_def *flat, ph__kernel_def *strided,
                           ph_tensor *const *sides, size_t count, ph__scalar a, ph__scalar b)
{
    const ph_tensor *out = sides[0];
    ph__elementwise_strided m = {.a = a, .b = b, .n = out->count};
    for (size_t d = 0; d < out->shape.rank; d++)
        m.dim[d] = out->shape.dim[d];
    for (size_t o = 0; o < count; o++)
        broadcast_strides(m.stride[o], sides[o], &out->shape);
    if (!out->contiguous)
        order_by_result(m.dim, m.stride, count, out->shape.rank);
    m.rank = (uint32_t)ph__shape_coalesce(m.dim, m.stride, count, out->shape.rank);
    if (is_flat(&m, count)) {
        ph__elementwise_flat f = {.a = a, .b = b, .n = m.n};
        for (size_t o = 0; o < count; o++)
            f.step[o] = o == 0 || m.stride[o][0] == 1;
        return launch_flat(op, flat, sides, count, &f);
    }
    set_vectors(&m, sides, count);
    set_divisors(&m);
    _Alignas(16) char args[MOST * sizeof(char *) + sizeof m];
    set_args(args, sides, count, &m, sizeof m);
    return ph__op_launch(op, strided, blocks_of(out->count), PH__ELEMENTWISE_THREADS, 0, args);
}

/* ---- launching ---- */
bool ph__elementwise_launch_kernels(ph__op *op, ph__kernel_def *flat, ph__kernel_def *strided,
                                    ph_tensor *out, ph_tensor *const *in, size_t arity,
                                    ph__scalar a, ph__scalar b)
{
    ph_tensor *sides[MOST] = {out};
    ph__elementwise_flat f = {.a = a, .b = b, .n = out->count, .step = {1}};
    bool simple = out->contiguous;
    if (out->count == 0)
        return true;
    for (size_t i = 0; i < arity; i++) {
        sides[i + 1] = in[i];
        f.step[i + 1] = in[i]->count == out->count;
        simple = simple && (in[i]->count == 1 || (in[i]->count == out->count && in[i]->contiguous));
    }
    return simple ? launch_flat(op, flat, sides, arity + 1, &f)
                  : launch_strided(op, flat, strided, sides, arity + 1, a, b);
}

/* The dtype of the operands that are not bool by the function's nature. */
static ph_dtype dtype_of_operands(const ph__elementwise *elementwise, const ph_tensor *out,
                                  ph_tensor *const *in)
{
    for (size_t i = 0; i < elementwise->arity; i++)
        if (!(elementwise->bools >> i & 1))
            return in[i]->dtype;
    return out->dtype;
}

/* A scalar that is written to a tensor, or bounds it, saturates; in sums and products of integers
 * it wraps around like the rest: -1 is 255 in u8. */
static ph_dtype scalar_dtype(const ph__elementwise *elementwise, ph_dtype dtype)
{
    bool wraps = elementwise == &ph__elementwise_add_scalar ||
                 elementwise == &ph__elementwise_mul_scalar ||
                 elementwise == &ph__elementwise_add_scaled;
    return wraps && !ph_dtype_is_floating(dtype) ? PH_DTYPE_I64 : dtype;
}

bool ph__elementwise_launch(ph__op *op, const ph__elementwise *elementwise, ph_tensor *out,
                            ph_tensor *const *in, double a, double b)
{
    const ph_dtype dtype = dtype_of_operands(elementwise, out, in),
                   as = scalar_dtype(elementwise, dtype);
    return ph__elementwise_launch_kernels(op, elementwise->flat[dtype], elementwise->strided[dtype],
                                          out, in, elementwise->arity, ph__scalar_of(as, a),
                                          ph__scalar_of(as, b));
}

/* ---- operators ---- */
static const char *accepted_dtypes(const ph__elementwise *elementwise)
{
    return elementwise->flat[PH_DTYPE_BOOL]  ? ""
           : elementwise->flat[PH_DTYPE_I32] ? "all dtypes but bool are taken"
                                             : "a floating dtype is wanted";
}

static bool check_dtypes(ph__op *op, const ph__elementwise *elementwise, ph_tensor *const *in)
{
    ph_dtype dtype = dtype_of_operands(elementwise, NULL, in);
    for (size_t i = 0; i < elementwise->arity; i++) {
        bool is_bool = elementwise->bools >> i & 1;
        if (is_bool && in[i]->dtype != PH_DTYPE_BOOL)
            return ph__op_fail(op, PH_ERROR_ARGUMENT, "the condition must be bool");
        if (!is_bool && in[i]->dtype != dtype)
            return ph__op_fail(op, PH_ERROR_ARGUMENT,
                               "the operands must be of one dtype; ph_cast one of them");
    }
    return elementwise->flat[dtype] ||
           ph__op_fail(op, PH_ERROR_ARGUMENT, "%s", accepted_dtypes(elementwise));
}

/* One dtype, one shape, and all contiguous: there is nothing to broadcast or to order. `to` gets
 * their addresses. */
static inline bool are_alike(char **to, ph_tensor *const *in, size_t arity)
{
    const ph_tensor *x = in[0];
    to[0] = x->data;
    for (size_t i = 1; i < arity; i++) {
        if (in[i] != x && (in[i]->dtype != x->dtype || !in[i]->contiguous ||
                           !ph__shape_same(&in[i]->shape, &x->shape)))
            return false;
        to[i] = in[i]->data;
    }
    return x->contiguous;
}

typedef struct flat_args {
    _Alignas(16) char bytes[MOST * sizeof(char *) + sizeof(ph__elementwise_flat)];
} flat_args;

/* args: the operands' addresses stand behind the place of the result's. */
static inline ph_tensor *new_of_alike(ph__op *op, const ph__elementwise *elementwise,
                                      ph_tensor *const *in, double a, double b, flat_args *args)
{
    const ph_dtype dtype = in[0]->dtype;
    ph_tensor *out = ph__op_output_like(op, elementwise->gives_bool ? PH_DTYPE_BOOL : dtype, in[0]);
    if (!out || out->count == 0)
        return out;
    char **at = (char **)(void *)args->bytes;
    ph__elementwise_flat *flat = (ph__elementwise_flat *)(void *)(at + elementwise->arity + 1);
    *at = out->data;
    *flat =
        (ph__elementwise_flat){.a = {.f = a}, .b = {.f = b}, .n = out->count, .step = {1, 1, 1, 1}};
    if (!ph__dtype_is_floating(dtype)) {
        flat->a = ph__scalar_of(scalar_dtype(elementwise, dtype), a);
        flat->b = ph__scalar_of(scalar_dtype(elementwise, dtype), b);
    }
    return ph__op_launch(op, elementwise->flat[dtype], blocks_of(out->count),
                         PH__ELEMENTWISE_THREADS, 0, args->bytes)
               ? out
               : NULL;
}

/* Out of line, so that what is usual saves few registers. */
static __attribute__((noinline)) ph_tensor *
new_of_any(ph__op *op, const ph__elementwise *elementwise, ph_tensor *const *in, double a, double b)
{
    if (!check_dtypes(op, elementwise, in))
        return NULL;
    const ph_shape *shape = &in[0]->shape;
    ph_shape broadcast;
    for (size_t i = 1; i < elementwise->arity; i++) {
        if (ph_shape_equal(shape, &in[i]->shape))
            continue;
        if (!ph__shape_broadcast(&broadcast, shape, &in[i]->shape))
            return ph__op_fail(op, PH_ERROR_ARGUMENT, "the shapes do not broadcast");
        shape = &broadcast;
    }
    ph_tensor *out = ph__op_output(
        op, elementwise->gives_bool ? PH_DTYPE_BOOL : dtype_of_operands(elementwise, NULL, in),
        shape);
    return out && ph__elementwise_launch(op, elementwise, out, in, a, b) ? out : NULL;
}

ph_tensor *ph__elementwise_new(ph__op *op, const ph__elementwise *elementwise, ph_tensor *const *in,
                               double a, double b)
{
    flat_args args;
    return elementwise->bools == 0 &&
                   are_alike((char **)(void *)args.bytes + 1, in, elementwise->arity) &&
                   elementwise->flat[in[0]->dtype]
               ? new_of_alike(op, elementwise, in, a, b, &args)
               : new_of_any(op, elementwise, in, a, b);
}

ph_tensor *ph__elementwise_call(ph_tape *tape, const ph__elementwise *elementwise,
                                ph_tensor *const *in, double a, double b)
{
    ph__op op;
    if (!ph__op_begin(&op, tape, elementwise->name, in, elementwise->arity, elementwise->arity))
        return NULL;
    return ph__op_done(&op, ph__elementwise_new(&op, elementwise, in, a, b));
}

/* A large matrix that is read along its columns, on a GPU: line by line instead of an element of
 * each line at a time. */
static bool is_transposed(const ph__op *op, const ph_tensor *out, const ph_tensor *in)
{
    const int64_t least = 64, *dim = out->shape.dim;
    return op->tape->backend->cuda && in->shape.rank == 2 && out->shape.rank == 2 &&
           out->contiguous && in->dtype == out->dtype && ph_dtype_size(in->dtype) > 1 &&
           ph_shape_equal(&in->shape, &out->shape) && in->stride[0] == 1 &&
           in->stride[1] >= dim[0] && dim[0] >= least && dim[1] >= least;
}

bool ph__elementwise_copy(ph__op *op, ph_tensor *out, ph_tensor *in)
{
    if (is_transposed(op, out, in))
        return ph__transpose(op,
                             &(ph__transposition){.out = out->data,
                                                  .in = in->data,
                                                  .rows = in->shape.dim[1],
                                                  .columns = in->shape.dim[0],
                                                  .step = in->stride[1]},
                             ph_dtype_size(in->dtype));
    const ph__elementwise_pair *pair = in->dtype == out->dtype
                                           ? &ph__elementwise_copies[ph_dtype_size(in->dtype)]
                                           : &ph__elementwise_casts[in->dtype][out->dtype];
    return ph__elementwise_launch_kernels(op, pair->flat, pair->strided, out, &in, 1,
                                          (ph__scalar){0}, (ph__scalar){0});
}
