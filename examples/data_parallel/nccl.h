/* SPDX-License-Identifier: MIT */
/* data_parallel/nccl.h: what the program uses of NCCL, declared by us, as it is loaded when the
 * program runs; tests/headers/nccl_abi.c holds it against NVIDIA's header. */
#ifndef DATA_PARALLEL_NCCL_H
#define DATA_PARALLEL_NCCL_H
#include <stddef.h>

struct CUstream_st;

enum {
    NCCL_OK = 0,      /* ncclResult_t */
    NCCL_FLOAT32 = 7, /* ncclDataType_t */
    NCCL_SUM = 0,     /* ncclRedOp_t */
    NCCL_ID_BYTES = 128,
    NCCL_CAPTURES = 20906 /* 2.9.6, the first version whose collectives can be captured */
};
struct nccl_id {
    char bytes[NCCL_ID_BYTES];
};
struct nccl {
    int (*get_version)(int *version);
    const char *(*get_error_string)(int result);
    int (*get_unique_id)(struct nccl_id *id);
    int (*comm_init_rank)(void **communicator, int ranks, struct nccl_id id, int rank);
    int (*all_reduce)(const void *send, void *receive, size_t count, int type, int operation,
                      void *communicator, struct CUstream_st *stream);
    int (*comm_destroy)(void *communicator);
};
#endif
