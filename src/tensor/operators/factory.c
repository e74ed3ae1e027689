/* SPDX-License-Identifier: MIT */
/* tensor/operators/factory.c: tensors from nothing: empty, zeros, full, arange, and from host
 * memory. */
#include "base/half.h"
#include "base/status.h"
#include "tensor/backend/kernels.h"
#include "tensor/backend/texts.h"
#include "tensor/core/shape.h"
#include "tensor/core/tensor.h"
#include "tensor/operators/transfer.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include <math.h>

/* The tensor, before done. NULL: the tape has failed. */
static ph_tensor *begin_factory(ph__op *op, ph_tape *tape, const char *name, ph_dtype dtype,
                                const ph_shape *shape)
{
    size_t bytes;
    if (!ph__op_begin(op, tape, name, NULL, 0, 0))
        return NULL;
    /* its message begins with the name */
    ph_tape_check(tape, ph__shape_check(&bytes, dtype, shape, name));
    if (ph__tape_failed(tape))
        return NULL;
    return ph__op_output(op, dtype, shape);
}

ph_tensor *ph_empty(ph_tape *tape, ph_dtype dtype, ph_shape shape)
{
    ph__op op;
    ph_tensor *y = begin_factory(&op, tape, "empty", dtype, &shape);
    return y ? ph__op_done(&op, y) : NULL;
}

ph_tensor *ph_zeros(ph_tape *tape, ph_dtype dtype, ph_shape shape)
{
    ph__op op;
    ph_tensor *y = begin_factory(&op, tape, "zeros", dtype, &shape);
    if (!y || (y->count > 0 &&
               !ph__op_check(&op, ph_memset(y->data, 0, ph_tensor_bytes(y), ph_tape_stream(tape)))))
        return NULL;
    return ph__op_done(&op, y);
}

ph_tensor *ph_full(ph_tape *tape, ph_dtype dtype, ph_shape shape, double value)
{
    ph__op op;
    ph_tensor *y = begin_factory(&op, tape, "full", dtype, &shape);
    if (!y)
        return NULL;
    ph_tensor_fill(tape, y, value);
    return ph__op_done(&op, y);
}

ph_tensor *ph_from_memory(ph_tape *tape, ph_dtype dtype, ph_shape shape, const void *data)
{
    ph__op op;
    ph_tensor *y = begin_factory(&op, tape, "from_memory", dtype, &shape);
    if (!y)
        return NULL;
    ph_ignore(ph__tensor_write(tape, y, data, ph_tensor_bytes(y), "ph_from_memory"));
    return ph__op_done(&op, y);
}

/* ---- arange ---- one element a thread. The product is rounded before the sum, on both devices. */
typedef struct arange_args {
    void *y;
    int64_t n;
    double begin, step;
} arange_args;
static const ph_param arange_params[] = {
    PH_PARAM(arange_args, y, PH_PARAM_ADDRESS), PH_PARAM(arange_args, n, PH_PARAM_VALUE),
    PH_PARAM(arange_args, begin, PH_PARAM_VALUE), PH_PARAM(arange_args, step, PH_PARAM_VALUE)};

static double arange_element(const arange_args *args, int64_t i)
{
    return args->begin + (double)i * args->step;
}

static int64_t nth_integer(const arange_args *args, int64_t i)
{
    return (int64_t)((uint64_t)(int64_t)args->begin + (uint64_t)i * (uint64_t)(int64_t)args->step);
}

/* NAME, the type in C, the value of element i, what the CUDA text is told. */
#define ARANGE_KERNELS(X)                                                                          \
    X(f32, float, (float)arange_element(args, i), "")                                              \
    X(f64, double, arange_element(args, i), "")                                                    \
    X(f16, uint16_t, ph__f16_put((float)arange_element(args, i)), "")                              \
    X(bf16, uint16_t, ph__bf16_put((float)arange_element(args, i)), "")                            \
    X(i32, int32_t, (int32_t)nth_integer(args, i), "#define INTEGER\n")                            \
    X(i64, int64_t, nth_integer(args, i), "#define INTEGER\n")                                     \
    X(u8, uint8_t, (uint8_t)nth_integer(args, i), "#define INTEGER\n")

#define ARANGE_KERNEL(NAME, TYPE, VALUE, DEFINES)                                                  \
    static void arange_##NAME(const ph_block_range *range, const void *args_)                      \
    {                                                                                              \
        const arange_args *args = args_;                                                           \
        TYPE *y = args->y;                                                                         \
        int64_t end = (int64_t)range->end * range->block[0];                                       \
        end = end < args->n ? end : args->n;                                                       \
        for (int64_t i = (int64_t)range->begin * range->block[0]; i < end; i++)                    \
            y[i] = VALUE;                                                                          \
    }                                                                                              \
    static const char *const text_##NAME[] = {"#define T " #NAME                                   \
                                              "\n#define KERNEL ph_arange_" #NAME "\n" DEFINES,    \
                                              ph__text_factory, NULL};                             \
    static ph__kernel_def def_##NAME = {.name = "ph_arange_" #NAME,                                \
                                        .cuda = text_##NAME,                                       \
                                        .host = arange_##NAME,                                     \
                                        .args_size = sizeof(arange_args),                          \
                                        .params = arange_params,                                   \
                                        .param_count = 4};
ARANGE_KERNELS(ARANGE_KERNEL)

#define ARANGE_DEF(NAME, TYPE, VALUE, DEFINES) &def_##NAME,
PH__KERNEL_FAMILY(factory) = {ARANGE_KERNELS(ARANGE_DEF) NULL};

enum {
    DTYPE_f32 = PH_DTYPE_F32,
    DTYPE_f64 = PH_DTYPE_F64,
    DTYPE_f16 = PH_DTYPE_F16,
    DTYPE_bf16 = PH_DTYPE_BF16,
    DTYPE_i32 = PH_DTYPE_I32,
    DTYPE_i64 = PH_DTYPE_I64,
    DTYPE_u8 = PH_DTYPE_U8
};

static ph__kernel_def *arange_def(ph_dtype dtype)
{
    switch (dtype) {
#define ARANGE_CASE(NAME, TYPE, VALUE, DEFINES)                                                    \
    case DTYPE_##NAME:                                                                             \
        return &def_##NAME;
        ARANGE_KERNELS(ARANGE_CASE)
    case PH_DTYPE_BOOL:
        break;
    }
    return NULL;
}

static bool is_integer(double value)
{
    return value == trunc(value) && fabs(value) < 0x1p63;
}

ph_tensor *ph_arange(ph_tape *tape, ph_dtype dtype, double begin_value, double step, int64_t count)
{
    enum {
        THREADS = 256
    };
    ph__op op;
    ph_tensor *y = begin_factory(&op, tape, "arange", dtype, &PH_SHAPE(count));
    if (!y)
        return NULL;
    ph__kernel_def *def = arange_def(dtype);
    if (!def)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "bool has no numbers to count in");
    if (!ph_dtype_is_floating(dtype) && (!is_integer(begin_value) || !is_integer(step)))
        return ph__op_fail(&op, PH_ERROR_ARGUMENT,
                           "from %g in steps of %g: integers are needed for %s", begin_value, step,
                           ph_dtype_name(dtype));
    arange_args args = {y->data, count, begin_value, step};
    uint64_t blocks = ((uint64_t)count + THREADS - 1) / THREADS;
    return ph__op_launch(&op, def, blocks, THREADS, 0, &args) ? ph__op_done(&op, y) : NULL;
}
