/* SPDX-License-Identifier: MIT */
/* nn/parallel/collectives.c: collectives of tensors, with gradients. */
#include "base/status.h"
#include "tensor/core/tensor.h"
#include "tensor/operators/copy.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include <phonograph/tensor_collectives.h>

/* The state of a node. comm is retained. */
typedef struct collective {
    ph_comm *comm;
    ph_reduce_op op;
    uint32_t root;
} collective;

static void release_comm(void *state)
{
    const collective *c = state;
    ph_comm_release(c->comm);
}

/* The operand, contiguous; NULL: the tape has failed. reduces: the gradient is that of op. */
static ph_tensor *begin_collective(ph__op *op, ph_tape *tape, const char *name,
                                   ph_tensor *const *in, const collective *c, bool reduces)
{
    if (!ph__op_begin(op, tape, name, in, 1, 1))
        return NULL;
    if (!c->comm)
        return ph__op_fail(op, PH_ERROR_ARGUMENT, "comm is NULL, and must not be");
    if (ph_comm_in_group(c->comm))
        return ph__op_fail(op, PH_ERROR_STATE,
                           "a group of the communicator is open, and the result would be there at "
                           "its end alone; end it first (ph_comm_group_end)");
    if (reduces && op->tracked && c->op != PH_REDUCE_SUM && c->op != PH_REDUCE_MEAN)
        return ph__op_fail(op, PH_ERROR_UNSUPPORTED,
                           "only SUM and MEAN have a gradient; switch gradients off, or detach the "
                           "operand (ph_detach)");
    return ph__dense(tape, in[0]);
}

/* submitted: the status of the collective's call. */
static ph_tensor *end_collective(ph__op *op, const ph__grad_def *def, const collective *c,
                                 ph_tensor *y, ph_status submitted)
{
    if (!ph__op_check(op, submitted))
        return NULL;
    collective *state = op->tracked ? ph__op_track(op, def, 0) : NULL;
    if (state) {
        *state = *c;
        (void)ph_comm_retain(state->comm);
    }
    return ph__op_done(op, y);
}

/* ---- all_reduce ---- */
static void all_reduce_backward(ph__grad_call *call)
{
    const collective *c = call->state;
    call->in_grads[0] = ph_tensor_all_reduce(call->tape, c->comm, call->out_grads[0], c->op);
}
static const ph__grad_def all_reduce_grad = {"all_reduce", sizeof(collective), all_reduce_backward,
                                             release_comm};

ph_tensor *ph_tensor_all_reduce(ph_tape *tape, ph_comm *comm, ph_tensor *x, ph_reduce_op op)
{
    const collective c = {.comm = comm, .op = op};
    ph_tensor *in[] = {x};
    ph__op o;
    ph_tensor *dense = begin_collective(&o, tape, "all_reduce", in, &c, true);
    ph_tensor *y = dense ? ph__op_output(&o, x->dtype, &x->shape) : NULL;
    if (!y)
        return NULL;
    return end_collective(
        &o, &all_reduce_grad, &c, y,
        ph_all_reduce(comm, y->data, dense->data, (size_t)x->count, x->dtype, op, tape->stream));
}

/* ---- broadcast ---- */
static void broadcast_backward(ph__grad_call *call)
{
    const collective *c = call->state;
    ph_tensor *sum = ph_tensor_all_reduce(call->tape, c->comm, call->out_grads[0], PH_REDUCE_SUM);
    if (sum && ph_comm_rank(c->comm) != c->root)
        ph_tensor_fill(call->tape, sum, 0);
    call->in_grads[0] = sum;
}
static const ph__grad_def broadcast_grad = {"broadcast", sizeof(collective), broadcast_backward,
                                            release_comm};

ph_tensor *ph_tensor_broadcast(ph_tape *tape, ph_comm *comm, ph_tensor *x, uint32_t root)
{
    const collective c = {.comm = comm, .root = root};
    ph_tensor *in[] = {x};
    ph__op o;
    ph_tensor *dense = begin_collective(&o, tape, "broadcast", in, &c, false);
    ph_tensor *y = dense ? ph__op_output(&o, x->dtype, &x->shape) : NULL;
    if (!y)
        return NULL;
    return end_collective(
        &o, &broadcast_grad, &c, y,
        ph_broadcast(comm, y->data, dense->data, (size_t)x->count, x->dtype, root, tape->stream));
}

/* ---- all_gather ---- */
static void all_gather_backward(ph__grad_call *call)
{
    const collective *c = call->state;
    call->in_grads[0] =
        ph_tensor_reduce_scatter(call->tape, c->comm, call->out_grads[0], PH_REDUCE_SUM);
}
static const ph__grad_def all_gather_grad = {"all_gather", sizeof(collective), all_gather_backward,
                                             release_comm};

ph_tensor *ph_tensor_all_gather(ph_tape *tape, ph_comm *comm, ph_tensor *x)
{
    const collective c = {.comm = comm};
    ph_tensor *in[] = {x};
    ph__op o;
    ph_tensor *dense = begin_collective(&o, tape, "all_gather", in, &c, false);
    if (!dense)
        return NULL;
    if (x->shape.rank == 0)
        return ph__op_fail(&o, PH_ERROR_ARGUMENT, "the operand has no axis 0; reshape it to [1]");
    ph_shape shape = x->shape;
    if (__builtin_mul_overflow(shape.dim[0], (int64_t)ph_comm_size(comm), &shape.dim[0]))
        return ph__op_fail(&o, PH_ERROR_SIZE, "the parts of all ranks are beyond 2^63 elements");
    ph_tensor *y = ph__op_output(&o, x->dtype, &shape);
    if (!y)
        return NULL;
    return end_collective(
        &o, &all_gather_grad, &c, y,
        ph_all_gather(comm, y->data, dense->data, (size_t)x->count, x->dtype, tape->stream));
}

/* ---- reduce_scatter ---- */
static void reduce_scatter_backward(ph__grad_call *call)
{
    const collective *c = call->state;
    ph_tensor *all = ph_tensor_all_gather(call->tape, c->comm, call->out_grads[0]);
    if (all && c->op == PH_REDUCE_MEAN)
        ph_tensor_scale(call->tape, all, 1.0 / ph_comm_size(c->comm));
    call->in_grads[0] = all;
}
static const ph__grad_def reduce_scatter_grad = {"reduce_scatter", sizeof(collective),
                                                 reduce_scatter_backward, release_comm};

ph_tensor *ph_tensor_reduce_scatter(ph_tape *tape, ph_comm *comm, ph_tensor *x, ph_reduce_op op)
{
    const collective c = {.comm = comm, .op = op};
    const int64_t size = ph_comm_size(comm);
    ph_tensor *in[] = {x};
    ph__op o;
    ph_tensor *dense = begin_collective(&o, tape, "reduce_scatter", in, &c, true);
    if (!dense)
        return NULL;
    if (x->shape.rank == 0 || x->shape.dim[0] % size != 0)
        return ph__op_fail(&o, PH_ERROR_ARGUMENT,
                           "the first dimension must be a multiple of the %u ranks",
                           ph_comm_size(comm));
    ph_shape shape = x->shape;
    shape.dim[0] /= size;
    ph_tensor *y = ph__op_output(&o, x->dtype, &shape);
    if (!y)
        return NULL;
    return end_collective(&o, &reduce_scatter_grad, &c, y,
                          ph_reduce_scatter(comm, y->data, dense->data, (size_t)y->count, x->dtype,
                                            op, tape->stream));
}
