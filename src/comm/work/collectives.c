/* SPDX-License-Identifier: MIT */
/* comm/work/collectives.c: the public calls: checks of their arguments, and groups. */
#include "base/checked.h"
#include "comm/work/order.h"
#include "comm/work/reduce.h"
#include "comm/work/submit.h"
#include "device/copies.h"
#include <phonograph/collectives.h>
#include <phonograph/kernel.h>

/* A call, with all that it was given. */
typedef struct request {
    const char *call;
    ph_comm *comm;
    ph_stream *stream;
    ph__collective_args args;
    size_t send_parts, receive_parts; /* of count elements each; 0: no such memory */
    size_t own_part;                  /* send is in place where it is this part of receive, */
    bool receives_part;               /* or receive this part of send */
} request;

/* ---- checks ---- */
static ph_status check_numbers(const request *r)
{
    const ph__operation *o = &r->args.operation;
    bool reduces = o->kind == PH__OPERATION_ALL_REDUCE || o->kind == PH__OPERATION_REDUCE_SCATTER;
    bool exchanges = o->kind == PH__OPERATION_SEND || o->kind == PH__OPERATION_RECEIVE;
    if (ph__element_bytes((ph_dtype)o->dtype) == 0)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: dtype %u is none of ph_dtype", r->call,
                       (unsigned)o->dtype);
    if (reduces && o->op > PH_REDUCE_MEAN)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: op %u is none of ph_reduce_op", r->call,
                       (unsigned)o->op);
    if (reduces && !ph__reduce_accepts((ph_dtype)o->dtype, (ph_reduce_op)o->op)) {
        char text[160];
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: %s: bool has min and max alone, and integers have no mean", r->call,
                       ph__operation_text(text, sizeof text, o));
    }
    if (o->peer >= r->comm->size)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: rank %u of %u; ranks are numbered from 0", r->call,
                       (unsigned)o->peer, (unsigned)r->comm->size);
    if (exchanges && o->peer == r->comm->rank)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: rank %u is this one; copy with ph_memcpy", r->call,
                       (unsigned)o->peer);
    return PH_OK;
}

static ph_status find_sizes(request *r)
{
    size_t count = (size_t)r->args.operation.count, one, send, receive;
    bool exchanges = r->args.operation.kind == PH__OPERATION_SEND ||
                     r->args.operation.kind == PH__OPERATION_RECEIVE;
    if (__builtin_mul_overflow(count, ph__element_bytes((ph_dtype)r->args.operation.dtype), &one) ||
        __builtin_mul_overflow(one, r->send_parts, &send) ||
        __builtin_mul_overflow(one, r->receive_parts, &receive))
        return ph_fail(PH_ERROR_SIZE, "%s: %zu elements overflow", r->call, count);
    if (exchanges && one > INT32_MAX)
        return ph_fail(PH_ERROR_SIZE,
                       "%s: %zu bytes; one send or receive has less than 2 GiB: make several of it",
                       r->call, one);
    r->args.send_bytes = send;
    r->args.receive_bytes = receive;
    return PH_OK;
}

static ph_status check_memory(const request *r, const void *address, size_t bytes, const char *side)
{
    size_t element = ph__element_bytes((ph_dtype)r->args.operation.dtype);
    if (address == NULL)
        return ph__fail_null(r->call, side);
    if ((uintptr_t)address % element != 0)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %s %p is not aligned to its %zu-byte elements",
                       r->call, side, address, element);
    return ph__memory_check(r->comm->device, address, bytes, side, r->call);
}

/* send and receive are apart, or the same place. */
static ph_status check_overlap(const request *r)
{
    uintptr_t send = (uintptr_t)r->args.send, receive = (uintptr_t)r->args.receive;
    size_t one = (size_t)r->args.operation.count *
                 ph__element_bytes((ph_dtype)r->args.operation.dtype),
           shift = r->own_part * one;
    bool in_place = r->receives_part ? receive == send + shift : send == receive + shift;
    if (in_place || send >= receive + r->args.receive_bytes || receive >= send + r->args.send_bytes)
        return PH_OK;
    return ph_fail(PH_ERROR_ARGUMENT,
                   "%s: send %p and receive %p overlap, and not as in place: there %s is %zu bytes "
                   "behind %s",
                   r->call, r->args.send, (const void *)r->args.receive,
                   r->receives_part ? "receive" : "send", shift,
                   r->receives_part ? "send" : "receive");
}

static ph_status check_request(request *r)
{
    PH_TRY(ph__comm_check_usable(r->comm, r->call));
    PH_TRY(ph__stream_check(r->stream, r->call));
    if (r->stream->device != r->comm->device)
        return ph__fail_devices(r->call, "the communicator", r->comm->device, "the stream",
                                r->stream->device);
    PH_TRY(check_numbers(r));
    PH_TRY(find_sizes(r));
    if (r->args.operation.count == 0) {
        r->args.send = NULL;
        r->args.receive = NULL;
        return PH_OK;
    }
    if (r->send_parts)
        PH_TRY(check_memory(r, r->args.send, r->args.send_bytes, "send"));
    if (r->receive_parts)
        PH_TRY(check_memory(r, r->args.receive, r->args.receive_bytes, "receive"));
    return r->send_parts && r->receive_parts ? check_overlap(r) : PH_OK;
}

/* ---- groups ---- */
static void drop_group(ph__comm_work *work)
{
    work->grouping = false;
    work->group_stream = NULL;
    ph__vec_clear(&work->group);
}

static ph_status keep_in_group(request *r)
{
    ph__comm_work *work = r->comm->work;
    if (work->group_stream && work->group_stream != r->stream)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: a group has the work of one stream", r->call);
    r->args.flags = PH__IN_GROUP;
    if (!ph__vec_push(&work->group, r->args))
        return ph__fail_host_memory(r->call, "the group");
    if (work->group_stream == NULL)
        work->group_capture = ph__stream_capture_id(r->stream);
    work->group_stream = r->stream;
    return PH_OK;
}

ph_status ph_comm_group_begin(ph_comm *comm)
{
    static const char call[] = "ph_comm_group_begin";
    PH_TRY(ph__comm_check_usable(comm, call));
    PH_TRY(ph__comm_need_work(comm, call));
    if (comm->work->grouping)
        return ph__comm_fail_group(call);
    comm->work->grouping = true;
    return PH_OK;
}

bool ph_comm_in_group(const ph_comm *comm)
{
    return comm && comm->work && comm->work->grouping;
}

static bool has_exchanges(const ph__comm_work *work)
{
    for (size_t i = 0; i < work->group.count; i++)
        if (work->group.at[i].operation.kind >= PH__OPERATION_SEND)
            return true;
    return false;
}

static ph_status submit_group(ph_comm *comm, const char *call)
{
    ph__comm_work *work = comm->work;
    if (work->group_stream == NULL)
        return PH_OK;
    PH_TRY(ph__stream_check(work->group_stream, call));
    if (ph__stream_capture_id(work->group_stream) != work->group_capture)
        return ph_fail(PH_ERROR_STATE,
                       "%s: a capture of the stream has begun or ended since the work was given; "
                       "the group is dropped: keep a group inside a capture, or outside",
                       call);
    if (comm->gpu == NULL && has_exchanges(work)) {
        ph__collective_args end = {.comm = comm, .flags = PH__IN_GROUP};
        end.operation.kind = PH__OPERATION_GROUP_END;
        ph__operation_note_scope(&end.operation);
        if (!ph__vec_push(&work->group, end))
            return ph__fail_host_memory(call, "the group");
    }
    return ph__collectives_submit(comm, work->group_stream, work->group.at, work->group.count,
                                  call);
}

ph_status ph_comm_group_end(ph_comm *comm)
{
    static const char call[] = "ph_comm_group_end";
    if (comm == NULL)
        return ph__fail_null(call, "comm");
    PH_TRY(ph__device_check(comm->device, call));
    if (comm->work == NULL || !comm->work->grouping)
        return ph_fail(PH_ERROR_STATE, "%s: no group is open; begin it with ph_comm_group_begin",
                       call);
    ph_status status = ph__comm_check_usable(comm, call);
    if (status == PH_OK)
        status = submit_group(comm, call);
    drop_group(comm->work);
    return status;
}

/* ---- the calls ---- */
/* One rank: what all have is what it has. */
static ph_status copy_alone(const request *r)
{
    PH_TRY(ph__collectives_hold(r->comm, r->stream, &r->args, 1));
    if (r->args.receive_bytes == 0 || r->args.receive == r->args.send)
        return PH_OK;
    return ph_memcpy(r->args.receive, r->args.send, r->args.receive_bytes, r->stream);
}

static ph_status submit_request(request *r)
{
    PH_TRY(check_request(r));
    if (r->comm->size == 1)
        return copy_alone(r);
    PH_TRY(ph__comm_need_work(r->comm, r->call));
    r->args.comm = r->comm;
    ph__operation_note_scope(&r->args.operation);
    return r->comm->work->grouping
               ? keep_in_group(r)
               : ph__collectives_submit(r->comm, r->stream, &r->args, 1, r->call);
}

static ph__collective_args make_args(ph__operation_kind kind, const void *send, void *receive,
                                     size_t count, ph_dtype dtype)
{
    ph__collective_args args = {.send = send, .receive = receive};
    args.operation.kind = kind;
    args.operation.count = count;
    args.operation.dtype = dtype;
    return args;
}

ph_status ph_all_reduce(ph_comm *comm, void *receive, const void *send, size_t count,
                        ph_dtype dtype, ph_reduce_op op, ph_stream *stream)
{
    request r = {"ph_all_reduce",
                 comm,
                 stream,
                 make_args(PH__OPERATION_ALL_REDUCE, send, receive, count, dtype),
                 1,
                 1,
                 0,
                 false};
    r.args.operation.op = op;
    return submit_request(&r);
}

ph_status ph_broadcast(ph_comm *comm, void *receive, const void *send, size_t count, ph_dtype dtype,
                       uint32_t root, ph_stream *stream)
{
    bool sends = root == ph_comm_rank(comm);
    request r = {"ph_broadcast",
                 comm,
                 stream,
                 make_args(PH__OPERATION_BROADCAST, sends ? send : NULL, receive, count, dtype),
                 sends,
                 1,
                 0,
                 false};
    r.args.operation.peer = root;
    return submit_request(&r);
}

ph_status ph_all_gather(ph_comm *comm, void *receive, const void *send, size_t count,
                        ph_dtype dtype, ph_stream *stream)
{
    request r = {"ph_all_gather",
                 comm,
                 stream,
                 make_args(PH__OPERATION_ALL_GATHER, send, receive, count, dtype),
                 1,
                 ph_comm_size(comm),
                 ph_comm_rank(comm),
                 false};
    return submit_request(&r);
}

ph_status ph_reduce_scatter(ph_comm *comm, void *receive, const void *send, size_t count,
                            ph_dtype dtype, ph_reduce_op op, ph_stream *stream)
{
    request r = {"ph_reduce_scatter",
                 comm,
                 stream,
                 make_args(PH__OPERATION_REDUCE_SCATTER, send, receive, count, dtype),
                 ph_comm_size(comm),
                 1,
                 ph_comm_rank(comm),
                 true};
    r.args.operation.op = op;
    return submit_request(&r);
}

ph_status ph_send(ph_comm *comm, const void *send, size_t count, ph_dtype dtype, uint32_t to,
                  ph_stream *stream)
{
    request r = {"ph_send", comm, stream, make_args(PH__OPERATION_SEND, send, NULL, count, dtype),
                 1,         0,    0,      false};
    r.args.operation.peer = to;
    return submit_request(&r);
}

ph_status ph_receive(ph_comm *comm, void *receive, size_t count, ph_dtype dtype, uint32_t from,
                     ph_stream *stream)
{
    request r = {"ph_receive",
                 comm,
                 stream,
                 make_args(PH__OPERATION_RECEIVE, NULL, receive, count, dtype),
                 0,
                 1,
                 0,
                 false};
    r.args.operation.peer = from;
    return submit_request(&r);
}
