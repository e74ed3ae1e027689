/* SPDX-License-Identifier: MIT */
/* tests/fake/nccl_run.c: collectives of the software libnccl, as streams run them. */
#include "comm/work/reduce.h"
#include "nccl_inside.h"
#include <math.h>
#include <sched.h>
#include <string.h>

static ph_dtype type_of(int type)
{
    switch (type) {
    case PH__NCCL_INT32:
        return PH_DTYPE_I32;
    case PH__NCCL_INT64:
        return PH_DTYPE_I64;
    case PH__NCCL_FLOAT16:
        return PH_DTYPE_F16;
    case PH__NCCL_FLOAT32:
        return PH_DTYPE_F32;
    case PH__NCCL_FLOAT64:
        return PH_DTYPE_F64;
    case PH__NCCL_BFLOAT16:
        return PH_DTYPE_BF16;
    default:
        return PH_DTYPE_U8;
    }
}

static ph_reduce_op op_of(int op)
{
    static const ph_reduce_op ops[] = {PH_REDUCE_SUM, PH_REDUCE_PRODUCT, PH_REDUCE_MAX,
                                       PH_REDUCE_MIN, PH_REDUCE_MEAN};
    return ops[op];
}

/* False: the communicator was aborted. */
static bool nap(const ph__nccl_raw *comm)
{
    (void)sched_yield();
    return !atomic_load(&((ph__nccl_raw *)(uintptr_t)comm)->aborted);
}

/* All ranks have come to the same step. */
static bool meet(ph__nccl_raw *comm)
{
    uint64_t phase = ++comm->phase;
    atomic_store(&comm->shared->seats[comm->rank].phase, phase);
    for (int rank = 0; rank < comm->ranks; rank++)
        while (atomic_load(&comm->shared->seats[rank].phase) < phase)
            if (!nap(comm))
                return false;
    return true;
}

/* Ranks that do other things wait for good. */
static bool is_same(ph__nccl_raw *comm)
{
    for (int rank = 1; rank < comm->ranks; rank++)
        while (memcmp(&comm->shared->seats[rank].op, &comm->shared->seats[0].op, sizeof(nccl_op)))
            if (!nap(comm))
                return false;
    return true;
}

static bool put(ph__nccl_raw *comm, const nccl_op *op, const unsigned char *from, size_t bytes)
{
    nccl_seat *seat = &comm->shared->seats[comm->rank];
    seat->op = *op;
    if (from)
        memcpy(seat->data, from, bytes);
    return meet(comm) && is_same(comm);
}

/* NVIDIA's NCCL takes the number where one of two is a NaN (2.28, on two H200s). */
#define PICK_NUMBERS(name, T, pick)                                                                \
    static void name(T *out, const nccl_seat *seats, int ranks, size_t count)                      \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            T picked = ((const T *)(const void *)seats[0].data)[i];                                \
            for (int rank = 1; rank < ranks; rank++)                                               \
                picked = pick(picked, ((const T *)(const void *)seats[rank].data)[i]);             \
            out[i] = picked;                                                                       \
        }                                                                                          \
    }
PICK_NUMBERS(pick_max_f32, float, fmaxf)
PICK_NUMBERS(pick_min_f32, float, fminf)
PICK_NUMBERS(pick_max_f64, double, fmax)
PICK_NUMBERS(pick_min_f64, double, fmin)

/* False: an operation or a type that the library's own sums do as NCCL does. */
static bool pick_numbers(const ph__nccl_raw *comm, const nccl_op *op, unsigned char *out,
                         size_t bytes)
{
    ph_reduce_op reduce = op_of(op->op);
    ph_dtype type = type_of(op->type);
    bool max = reduce == PH_REDUCE_MAX;
    if ((reduce != PH_REDUCE_MIN && !max) || (type != PH_DTYPE_F32 && type != PH_DTYPE_F64))
        return false;
    if (type == PH_DTYPE_F32)
        (max ? pick_max_f32 : pick_min_f32)((float *)(void *)out, comm->shared->seats, comm->ranks,
                                            bytes / sizeof(float));
    else
        (max ? pick_max_f64 : pick_min_f64)((double *)(void *)out, comm->shared->seats, comm->ranks,
                                            bytes / sizeof(double));
    return true;
}

static void reduce_into(ph__nccl_raw *comm, const nccl_op *op, unsigned char *out, size_t bytes)
{
    size_t element = ph__element_bytes(type_of(op->type));
    if (pick_numbers(comm, op, out, bytes))
        return;
    ph__reduce_parts(out, comm->shared->seats[0].data, sizeof(nccl_seat) / element,
                     (size_t)comm->ranks, bytes / element, type_of(op->type), op_of(op->op));
}

/* One chunk: [at, at + bytes) of what each rank gives. */
static bool run_chunk(ph__nccl_raw *comm, const nccl_work *w, size_t all, size_t at, size_t bytes)
{
    const nccl_op *op = &w->op;
    bool root = op->peer == comm->rank;
    switch ((nccl_kind)op->kind) {
    case NCCL_ALL_REDUCE:
        if (!put(comm, op, w->send + at, bytes))
            return false;
        reduce_into(comm, op, w->receive + at, bytes);
        return meet(comm);
    case NCCL_BROADCAST:
        if (!put(comm, op, root ? w->send + at : NULL, bytes))
            return false;
        memmove(w->receive + at, comm->shared->seats[op->peer].data, bytes);
        return meet(comm);
    case NCCL_ALL_GATHER:
        if (!put(comm, op, w->send + at, bytes))
            return false;
        for (int rank = 0; rank < comm->ranks; rank++)
            memcpy(w->receive + (size_t)rank * all + at, comm->shared->seats[rank].data, bytes);
        return meet(comm);
    default:
        for (int rank = 0; rank < comm->ranks; rank++) {
            if (!put(comm, op, w->send + (size_t)rank * all + at, bytes))
                return false;
            if (rank == comm->rank)
                reduce_into(comm, op, w->receive + at, bytes);
            if (!meet(comm))
                return false;
        }
        return true;
    }
}

/* Few bytes wait at the receivers, as in NVIDIA's: the root does not wait for them. */
static bool run_small_broadcast(ph__nccl_raw *comm, const nccl_work *w, size_t bytes)
{
    bool root = w->op.peer == comm->rank;
    for (int rank = root ? 0 : comm->rank; rank < (root ? comm->ranks : comm->rank + 1); rank++) {
        nccl_mail *mail = &comm->shared->mail[w->op.peer][rank];
        if (rank == w->op.peer)
            continue;
        while (atomic_load(&mail->full) == (root ? 1U : 0U))
            if (!nap(comm))
                return false;
        memcpy(root ? mail->data : w->receive, root ? w->send : mail->data, bytes);
        mail->bytes = (uint32_t)bytes;
        atomic_store(&mail->full, root ? 1U : 0U);
    }
    if (root && w->receive != w->send)
        memcpy(w->receive, w->send, bytes);
    return true;
}

static bool run_collective(ph__nccl_raw *comm, const nccl_work *w)
{
    size_t all = w->op.count * ph__element_bytes(type_of(w->op.type));
    if (w->op.kind == NCCL_BROADCAST && all <= NCCL_MAIL)
        return run_small_broadcast(comm, w, all);
    for (size_t at = 0; at < all; at += NCCL_CHUNK)
        if (!run_chunk(comm, w, all, at, all - at < NCCL_CHUNK ? all - at : NCCL_CHUNK))
            return false;
    return true;
}

/* ---- sends and receives ---- */
/* Moves what can be moved now. */
static void push_exchange(ph__nccl_raw *comm, const nccl_work *w, size_t *at)
{
    size_t all = w->op.count * ph__element_bytes(type_of(w->op.type));
    bool sends = w->op.kind == NCCL_SEND;
    nccl_mail *mail = sends ? &comm->shared->mail[comm->rank][w->op.peer]
                            : &comm->shared->mail[w->op.peer][comm->rank];
    if (*at == all || atomic_load(&mail->full) == (sends ? 1U : 0U))
        return;
    if (sends) {
        mail->bytes = (uint32_t)(all - *at < NCCL_MAIL ? all - *at : NCCL_MAIL);
        memcpy(mail->data, w->send + *at, mail->bytes);
    } else if (mail->bytes <= all - *at) {
        memcpy(w->receive + *at, mail->data, mail->bytes);
    } else {
        return; /* of another size: for good */
    }
    *at += mail->bytes;
    atomic_store(&mail->full, sends ? 1U : 0U);
}

/* Those of one pair of ranks in their order. */
static bool waits_for_earlier(const nccl_batch *batch, const size_t *at, size_t index)
{
    const nccl_work *w = &batch->work[index];
    for (size_t i = 0; i < index; i++) {
        const nccl_work *other = &batch->work[i];
        if (other->op.kind == w->op.kind && other->op.peer == w->op.peer &&
            at[i] < other->op.count * ph__element_bytes(type_of(other->op.type)))
            return true;
    }
    return false;
}

static bool run_exchanges(const nccl_batch *batch)
{
    size_t at[NCCL_MOST_OPS] = {0};
    for (bool all = false; !all;) {
        all = true;
        for (size_t i = 0; i < batch->count; i++) {
            const nccl_work *w = &batch->work[i];
            if (w->op.kind < NCCL_SEND)
                continue;
            if (!waits_for_earlier(batch, at, i))
                push_exchange(batch->comm, w, &at[i]);
            all = all && at[i] == w->op.count * ph__element_bytes(type_of(w->op.type));
        }
        if (!all && !nap(batch->comm))
            return false;
    }
    return true;
}

static void run_batch(const nccl_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->work[i].op.kind < NCCL_SEND && !run_collective(batch->comm, &batch->work[i]))
            return;
    (void)run_exchanges(batch);
}

/* Streams may run what was submitted after its communicator has gone: it is kept. */
void nccl_run(void *argument)
{
    const nccl_batch *batch = argument;
    atomic_fetch_add(&batch->comm->running, 1);
    if (!atomic_load(&batch->comm->aborted))
        run_batch(batch);
    atomic_fetch_sub(&batch->comm->running, 1);
}
