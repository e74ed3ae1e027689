/* SPDX-License-Identifier: MIT */
/* comm/work/on_gpu.c: collectives of GPUs: NCCL submits them, and the other ranks of the machine
 * are told what was submitted. */
#include "comm/work/on_gpu.h"
#include "comm/object/broken.h"
#include "comm/object/gpu.h"
#include "comm/object/log.h"
#include "comm/object/wait.h"
#include "device/handles/hold.h"

static int type_of(uint32_t dtype)
{
    switch ((ph_dtype)dtype) {
    case PH_DTYPE_F32:
        return PH__NCCL_FLOAT32;
    case PH_DTYPE_F64:
        return PH__NCCL_FLOAT64;
    case PH_DTYPE_F16:
        return PH__NCCL_FLOAT16;
    case PH_DTYPE_BF16:
        return PH__NCCL_BFLOAT16;
    case PH_DTYPE_I32:
        return PH__NCCL_INT32;
    case PH_DTYPE_I64:
        return PH__NCCL_INT64;
    case PH_DTYPE_U8:
    case PH_DTYPE_BOOL:
        break;
    }
    return PH__NCCL_UINT8; /* the minimum of bool is that of its byte, too */
}

static int op_of(uint32_t op)
{
    static const int ops[] = {PH__NCCL_SUM, PH__NCCL_PROD, PH__NCCL_MIN, PH__NCCL_MAX,
                              PH__NCCL_AVG};
    return ops[op];
}

static int call_one(const ph__collective_args *args, ph__nccl_raw *raw, struct CUstream_st *stream)
{
    const ph__operation *o = &args->operation;
    size_t count = (size_t)o->count;
    int type = type_of(o->dtype), peer = (int)o->peer;
    switch ((ph__operation_kind)o->kind) {
    case PH__OPERATION_ALL_REDUCE:
        return ph__nccl_api.AllReduce(args->send, args->receive, count, type, op_of(o->op), raw,
                                      stream);
    case PH__OPERATION_REDUCE_SCATTER:
        return ph__nccl_api.ReduceScatter(args->send, args->receive, count, type, op_of(o->op), raw,
                                          stream);
    case PH__OPERATION_ALL_GATHER:
        return ph__nccl_api.AllGather(args->send, args->receive, count, type, raw, stream);
    case PH__OPERATION_BROADCAST:
        return ph__nccl_api.Broadcast(args->send ? args->send : args->receive, args->receive, count,
                                      type, peer, raw, stream);
    case PH__OPERATION_SEND:
        return ph__nccl_api.Send(args->send, count, type, peer, raw, stream);
    default:
        return ph__nccl_api.Recv(args->receive, count, type, peer, raw, stream);
    }
}

static bool is_good(int result)
{
    return result == PH__NCCL_SUCCESS || result == PH__NCCL_IN_PROGRESS;
}

/* The first failure; the group is ended in any case. */
static int call_all(const ph__collective_args *args, size_t count, ph__nccl_raw *raw,
                    struct CUstream_st *stream)
{
    int result = ph__nccl_api.GroupStart();
    if (!is_good(result))
        return result;
    for (size_t i = 0; i < count && is_good(result); i++)
        result = call_one(&args[i], raw, stream);
    int ended = ph__nccl_api.GroupEnd();
    return is_good(result) ? ended : result;
}

static ph_status submit_by_nccl(ph_comm *comm, ph_stream *stream, const ph__collective_args *args,
                                size_t count, const char *call)
{
    char reason[PH__ENGINE_REASON], text[160];
    ph_capture_mode mode;
    ph__nccl_raw *raw = ph__nccl_enter(comm->gpu->data, &mode);
    if (raw == NULL)
        return ph__comm_break(comm, PH_ERROR_PEER, "%s: NCCL's communicator was aborted", call);
    ph__stream_hold(stream);
    int result = call_all(args, count, raw, stream->device->driver->stream_native(stream->handle));
    ph__stream_unhold(stream);
    if (!is_good(result))
        ph__nccl_reason(reason, raw, result, "NCCL");
    ph__nccl_leave(comm->gpu->data, mode);
    if (!is_good(result))
        return ph__comm_break(comm, PH_ERROR_DEVICE, "%s: rank %u of %u, %s: %s", call,
                              (unsigned)comm->rank, (unsigned)comm->size,
                              ph__operation_text(text, sizeof text, &args[0].operation), reason);
    return result == PH__NCCL_SUCCESS
               ? PH_OK
               : ph__gpu_wait_launched(comm, comm->gpu->data, ph__comm_deadline(comm->timeout_ns),
                                       &args[0].operation);
}

ph_status ph__on_gpu_submit(ph_comm *comm, ph_stream *stream, ph__collective_args *args,
                            size_t count, const char *call)
{
    for (size_t i = 0; i < count; i++)
        if (!(args[i].flags & PH__OF_GRAPH) && args[i].operation.kind < PH__OPERATION_SEND) {
            ph__operation operation = args[i].operation;
            ph__board_log(comm->board, &operation);
        }
    ph__mutex_lock(&comm->gpu->calls);
    ph_status status = submit_by_nccl(comm, stream, args, count, call);
    ph__mutex_unlock(&comm->gpu->calls);
    return status;
}
