/* SPDX-License-Identifier: MIT */
/* tests/headers/nccl_abi.c: what the example data_parallel declares of NCCL against its header.
 * It is compiled, never run. */
#include <nccl.h>

#include "examples/data_parallel/nccl.h"
#include "headers/same.h"

SAME_SIZE(int, ncclResult_t);
SAME_SIZE(int, ncclDataType_t);
SAME_SIZE(int, ncclRedOp_t);
SAME_SIZE(void *, ncclComm_t);
SAME_SIZE(struct nccl_id, ncclUniqueId);
SAME_NUMBER(NCCL_OK, ncclSuccess);
SAME_NUMBER(NCCL_FLOAT32, ncclFloat32);
SAME_NUMBER(NCCL_SUM, ncclSum);
SAME_NUMBER(NCCL_ID_BYTES, NCCL_UNIQUE_ID_BYTES);
SAME_NUMBER(NCCL_CAPTURES, NCCL_VERSION(2, 9, 6));

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
static int get_unique_id(struct nccl_id *id)
{
    return (int)ncclGetUniqueId((ncclUniqueId *)id);
}
static int comm_init_rank(void **communicator, int ranks, struct nccl_id id, int rank)
{
    return (int)ncclCommInitRank((ncclComm_t *)communicator, ranks, *(ncclUniqueId *)&id, rank);
}
static int all_reduce(const void *send, void *receive, size_t count, int type, int operation,
                      void *communicator, struct CUstream_st *stream)
{
    return (int)ncclAllReduce(send, receive, count, (ncclDataType_t)type, (ncclRedOp_t)operation,
                              communicator, stream);
}
static int comm_destroy(void *communicator)
{
    return (int)ncclCommDestroy(communicator);
}
extern const struct nccl nccl_as_declared;
const struct nccl nccl_as_declared = {get_version,    get_error_string, get_unique_id,
                                      comm_init_rank, all_reduce,       comm_destroy};
