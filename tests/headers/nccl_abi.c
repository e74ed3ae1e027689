/* SPDX-License-Identifier: MIT */
/* tests/headers/nccl_abi.c: what the library declares of NCCL against its header. It is compiled,
 * never run. */
#include <nccl.h>
#include <stdint.h>

#include "comm/nccl/abi.h"
#include "headers/same.h"

SAME_SIZE(int, ncclResult_t);
SAME_SIZE(int, ncclDataType_t);
SAME_SIZE(int, ncclRedOp_t);
SAME_SIZE(void *, ncclComm_t);
SAME_SIZE(ph__nccl_id, ncclUniqueId);
SAME_NUMBER(PH__NCCL_SUCCESS, ncclSuccess);
SAME_NUMBER(PH__NCCL_UNHANDLED_CUDA, ncclUnhandledCudaError);
SAME_NUMBER(PH__NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
SAME_NUMBER(PH__NCCL_INVALID_USAGE, ncclInvalidUsage);
SAME_NUMBER(PH__NCCL_REMOTE, ncclRemoteError);
SAME_NUMBER(PH__NCCL_IN_PROGRESS, ncclInProgress);
SAME_NUMBER(PH__NCCL_UINT8, ncclUint8);
SAME_NUMBER(PH__NCCL_INT32, ncclInt32);
SAME_NUMBER(PH__NCCL_INT64, ncclInt64);
SAME_NUMBER(PH__NCCL_FLOAT16, ncclFloat16);
SAME_NUMBER(PH__NCCL_FLOAT32, ncclFloat32);
SAME_NUMBER(PH__NCCL_FLOAT64, ncclFloat64);
SAME_NUMBER(PH__NCCL_BFLOAT16, ncclBfloat16);
SAME_NUMBER(PH__NCCL_SUM, ncclSum);
SAME_NUMBER(PH__NCCL_PROD, ncclProd);
SAME_NUMBER(PH__NCCL_MAX, ncclMax);
SAME_NUMBER(PH__NCCL_MIN, ncclMin);
SAME_NUMBER(PH__NCCL_AVG, ncclAvg);
SAME_NUMBER(PH__NCCL_OLDEST, NCCL_VERSION(2, 18, 0));
SAME_NUMBER(PH__NCCL_HAS_MEMORY, NCCL_VERSION(2, 19, 0));

/* Newer versions have more behind it, and go by its size and version. */
#define SAME_PLACE(ours, theirs)                                                                   \
    SAME_NUMBER(offsetof(ph__nccl_config, ours), offsetof(ncclConfig_t, theirs))
SAME_PLACE(magic, magic);
SAME_PLACE(version, version);
SAME_PLACE(blocking, blocking);
SAME_PLACE(cga_cluster_size, cgaClusterSize);
SAME_PLACE(min_ctas, minCTAs);
SAME_PLACE(max_ctas, maxCTAs);
SAME_PLACE(net_name, netName);
SAME_PLACE(split_share, splitShare);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0)
SAME_PLACE(traffic_class, trafficClass);
SAME_PLACE(comm_name, commName);
SAME_PLACE(nvlink_centric_sched, nvlinkCentricSched);
SAME_PLACE(graph_usage_mode, graphUsageMode);
SAME_PLACE(rma_contexts, numRmaCtx);
#endif
unsigned get_magic(void);
unsigned get_magic(void)
{
    static const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    return config.magic == PH__NCCL_MAGIC;
}

/* Their functions by their prototypes, with our parameters: so many, in this order, each of a
 * type that converts. */
static int get_version(int *version)
{
    return (int)ncclGetVersion(version);
}
static const char *get_error_string(int result)
{
    return ncclGetErrorString((ncclResult_t)result);
}
static const char *get_last_error(ph__nccl_raw *comm)
{
    return ncclGetLastError((ncclComm_t)comm);
}
static int get_unique_id(ph__nccl_id *id)
{
    return (int)ncclGetUniqueId((ncclUniqueId *)id);
}
static int init(ph__nccl_raw **comm, int ranks, ph__nccl_id id, int rank, ph__nccl_config *config)
{
    return (int)ncclCommInitRankConfig((ncclComm_t *)comm, ranks, *(ncclUniqueId *)&id, rank,
                                       (ncclConfig_t *)config);
}
static int get_async_error(ph__nccl_raw *comm, int *result)
{
    return (int)ncclCommGetAsyncError((ncclComm_t)comm, (ncclResult_t *)result);
}
static int finalize(ph__nccl_raw *comm)
{
    return (int)ncclCommFinalize((ncclComm_t)comm);
}
static int destroy(ph__nccl_raw *comm)
{
    return (int)ncclCommDestroy((ncclComm_t)comm);
}
static int abort_comm(ph__nccl_raw *comm)
{
    return (int)ncclCommAbort((ncclComm_t)comm);
}
static int group_start(void)
{
    return (int)ncclGroupStart();
}
static int group_end(void)
{
    return (int)ncclGroupEnd();
}
static int all_reduce(const void *send, void *receive, size_t count, int type, int op,
                      ph__nccl_raw *comm, struct CUstream_st *stream)
{
    return (int)ncclAllReduce(send, receive, count, (ncclDataType_t)type, (ncclRedOp_t)op,
                              (ncclComm_t)comm, stream);
}
static int broadcast(const void *send, void *receive, size_t count, int type, int root,
                     ph__nccl_raw *comm, struct CUstream_st *stream)
{
    return (int)ncclBroadcast(send, receive, count, (ncclDataType_t)type, root, (ncclComm_t)comm,
                              stream);
}
static int all_gather(const void *send, void *receive, size_t count, int type, ph__nccl_raw *comm,
                      struct CUstream_st *stream)
{
    return (int)ncclAllGather(send, receive, count, (ncclDataType_t)type, (ncclComm_t)comm, stream);
}
static int reduce_scatter(const void *send, void *receive, size_t count, int type, int op,
                          ph__nccl_raw *comm, struct CUstream_st *stream)
{
    return (int)ncclReduceScatter(send, receive, count, (ncclDataType_t)type, (ncclRedOp_t)op,
                                  (ncclComm_t)comm, stream);
}
static int send_to(const void *send, size_t count, int type, int to, ph__nccl_raw *comm,
                   struct CUstream_st *stream)
{
    return (int)ncclSend(send, count, (ncclDataType_t)type, to, (ncclComm_t)comm, stream);
}
static int receive_from(void *receive, size_t count, int type, int from, ph__nccl_raw *comm,
                        struct CUstream_st *stream)
{
    return (int)ncclRecv(receive, count, (ncclDataType_t)type, from, (ncclComm_t)comm, stream);
}
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
static int mem_alloc(void **memory, size_t bytes)
{
    return (int)ncclMemAlloc(memory, bytes);
}
static int mem_free(void *memory)
{
    return (int)ncclMemFree(memory);
}
static int comm_register(const ph__nccl_raw *comm, void *memory, size_t bytes, void **registration)
{
    return (int)ncclCommRegister((ncclComm_t)(uintptr_t)comm, memory, bytes, registration);
}
static int comm_deregister(const ph__nccl_raw *comm, void *registration)
{
    return (int)ncclCommDeregister((ncclComm_t)(uintptr_t)comm, registration);
}
extern const ph__nccl_memory_functions nccl_memory_as_declared;
const ph__nccl_memory_functions nccl_memory_as_declared = {mem_alloc, mem_free, comm_register,
                                                           comm_deregister};
#endif
extern const ph__nccl_functions nccl_as_declared;
const ph__nccl_functions nccl_as_declared = {
    get_version, get_error_string, get_last_error, get_unique_id, init,        get_async_error,
    finalize,    destroy,          abort_comm,     group_start,   group_end,   all_reduce,
    broadcast,   all_gather,       reduce_scatter, send_to,       receive_from};
