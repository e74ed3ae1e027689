/* SPDX-License-Identifier: MIT */
/* tensor/tape/op.h: how an operator is written.
 *
 *     ph_tensor *ph_relu(ph_tape *tape, ph_tensor *x)
 *     {
 *         ph_tensor *in[] = {x};
 *         ph__op op;
 *         if (!ph__op_begin(&op, tape, "relu", in, 1, 1))
 *             return NULL;
 *         if (!ph_dtype_is_floating(x->dtype))
 *             return ph__op_fail(&op, PH_ERROR_ARGUMENT, "the operand must be floating");
 *         ph_tensor *y = ph__op_output(&op, x->dtype, &x->shape);
 *         if (!y || !ph__op_launch(&op, &def, blocks, threads, 0, &args))
 *             return NULL;
 *         if (op.tracked && ph__op_track(&op, &relu_grad, 1))
 *             ph__op_save(&op, 0, y);
 *         return ph__op_done(&op, y);
 *     }
 *
 * The array of operands must live until done (a compound literal in the condition of an if does
 * not). Every one of these calls does nothing, and gives NULL or false, once the tape has
 * failed. */
#ifndef PH_TENSOR_TAPE_OP_H
#define PH_TENSOR_TAPE_OP_H
#include "tensor/backend/kernels.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op_history.h"

struct ph__op {
    ph_tape *tape;
    const char *name; /* static */
    ph_tensor *const *in;
    size_t in_count;
    bool tracked; /* gradients are enabled, and an operand requires one */
    ph__node *node;
    size_t mark; /* the tape's mark at begin */
};

/* False: the operator returns NULL. Checks: the tape has not failed; the first `required`
 * operands are not NULL (later ones may be); all are of the tape's device (a pinned tensor of it
 * counts as one); tells the allocator where their memory is used. */
bool ph__op_begin(ph__op *op, ph_tape *tape, const char *name, ph_tensor *const *in,
                  size_t in_count, size_t required);
/* Fails the tape: "<name>: <words> (got f32[2, 3], i64[4])". Always NULL. */
void *ph__op_fail(ph__op *op, ph_status status, const char *format, ...) PH_PRINTF(3, 4);
/* The number of an axis, which counts from the end where it is negative. -1: there is none such,
 * and the tape has failed. */
int ph__op_axis(ph__op *op, int axis, size_t rank);
/* A new contiguous tensor of the tape, contents undefined. */
ph_tensor *ph__op_output(ph__op *op, ph_dtype dtype, const ph_shape *shape);
/* The same, of the shape of x, which is contiguous. dtype: its elements are no larger than those of
 * x, so that its size needs no check. */
ph_tensor *ph__op_output_like(ph__op *op, ph_dtype dtype, const ph_tensor *x);
/* Another view of base's memory, owned by the tape. offset in elements, from base's first. */
ph_tensor *ph__op_view(ph__op *op, ph_tensor *base, const ph_shape *shape, const int64_t *strides,
                       int64_t offset);
/* The same, of its shape and strides, and without its mark. ahead: as in ph__tensor_alias. */
ph_tensor *ph__op_alias(ph__op *op, const ph_tensor *base, int *ahead);
/* Scratch of this call: for what the kernels need beside outputs. Scratch, and every other
 * tensor that was made since begin and is no output, is released by done, unless it is saved. */
ph_tensor *ph__op_scratch(ph__op *op, size_t bytes);

/* blocks x threads (threads: a GPU's, the host form sees the same numbers); blocks 0: nothing,
 * true. args: the def's struct. */
bool ph__op_launch(ph__op *op, ph__kernel_def *def, uint64_t blocks, uint32_t threads,
                   size_t shared_bytes, const void *args);
bool ph__op_launch_grid(ph__op *op, ph__kernel_def *def, const uint32_t grid[3],
                        const uint32_t block[3], size_t shared_bytes, const void *args);
/* Fails the tape with the record that a failed call of libphonograph has just set; PH_OK: true. */
bool ph__op_check(ph__op *op, ph_status status);
/* For work whose parameters do not say what they address, in a capture: that memory is an input
 * of the graph (ph_stream_declare_use). NULL: nothing. */
bool ph__op_uses(ph__op *op, const void *address);

/* ---- the end ---- what is remembered: op_history.h */
/* The end: the outputs of floating dtypes belong to the history, if there is one. Gives out, or
 * NULL when the tape has failed. done_n: clears out[] then. */
ph_tensor *ph__op_done(ph__op *op, ph_tensor *out);
bool ph__op_done_n(ph__op *op, ph_tensor **out, size_t count);

/* ---- in place ---- STATE when dst requires a gradient while gradients are enabled, or is
 * read-only; else counts its version up. */
bool ph__op_change(ph__op *op, ph_tensor *dst);

#endif
