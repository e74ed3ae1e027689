/* SPDX-License-Identifier: MIT */
/* comm/nccl/abi.h: what the library uses of NCCL, declared here, as it is loaded when the program
 * runs; tests/headers/nccl_abi.c compares it with NVIDIA's header. */
#ifndef PH_COMM_NCCL_ABI_H
#define PH_COMM_NCCL_ABI_H
#include <stddef.h>

struct CUstream_st;

enum {
    PH__NCCL_SUCCESS = 0, /* ncclResult_t */
    PH__NCCL_UNHANDLED_CUDA = 1,
    PH__NCCL_INVALID_ARGUMENT = 4,
    PH__NCCL_INVALID_USAGE = 5,
    PH__NCCL_REMOTE = 6,
    PH__NCCL_IN_PROGRESS = 7,
    PH__NCCL_UINT8 = 1, /* ncclDataType_t */
    PH__NCCL_INT32 = 2,
    PH__NCCL_INT64 = 4,
    PH__NCCL_FLOAT16 = 6,
    PH__NCCL_FLOAT32 = 7,
    PH__NCCL_FLOAT64 = 8,
    PH__NCCL_BFLOAT16 = 9,
    PH__NCCL_SUM = 0, /* ncclRedOp_t */
    PH__NCCL_PROD = 1,
    PH__NCCL_MAX = 2,
    PH__NCCL_MIN = 3,
    PH__NCCL_AVG = 4,
    PH__NCCL_OLDEST = 21800,     /* 2.18 */
    PH__NCCL_HAS_MEMORY = 21900, /* 2.19 */
    PH__NCCL_OLDEST_CONFIG = 48, /* bytes of its configuration */
    PH__NCCL_HAS_USAGE = 22900,  /* 2.29, whose configuration has graph_usage_mode */
    PH__NCCL_UNMIXED = 1         /* graph_usage_mode: captured and eager ones are not mixed */
};

typedef struct ph__nccl_id {
    char bytes[128];
} ph__nccl_id;
typedef struct ph__nccl_raw ph__nccl_raw; /* ncclComm */

/* ncclConfig_t of 2.29. Newer versions take it, and, by size and version, its beginning, which is
 * that of 2.18. Numbers that nobody chose are INT_MIN. */
#define PH__NCCL_MAGIC 0xcafebeefU
typedef struct ph__nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share;
    /* ---- not of 2.18 ---- */
    int traffic_class;
    const char *comm_name;
    int collnet_enable, cta_policy, shrink_share, nvls_ctas, channels_per_net_peer;
    int nvlink_centric_sched, graph_usage_mode, rma_contexts;
} ph__nccl_config;

#define PH__NCCL_FUNCTIONS(F)                                                                      \
    F(GetVersion, int, (int *version))                                                             \
    F(GetErrorString, const char *, (int result))                                                  \
    F(GetLastError, const char *, (ph__nccl_raw * comm))                                           \
    F(GetUniqueId, int, (ph__nccl_id * id))                                                        \
    F(CommInitRankConfig, int,                                                                     \
      (ph__nccl_raw * *comm, int ranks, ph__nccl_id id, int rank, ph__nccl_config *config))        \
    F(CommGetAsyncError, int, (ph__nccl_raw * comm, int *result))                                  \
    F(CommFinalize, int, (ph__nccl_raw * comm))                                                    \
    F(CommDestroy, int, (ph__nccl_raw * comm))                                                     \
    F(CommAbort, int, (ph__nccl_raw * comm))                                                       \
    F(GroupStart, int, (void))                                                                     \
    F(GroupEnd, int, (void))                                                                       \
    F(AllReduce, int,                                                                              \
      (const void *send, void *receive, size_t count, int type, int op, ph__nccl_raw *comm,        \
       struct CUstream_st *stream))                                                                \
    F(Broadcast, int,                                                                              \
      (const void *send, void *receive, size_t count, int type, int root, ph__nccl_raw *comm,      \
       struct CUstream_st *stream))                                                                \
    F(AllGather, int,                                                                              \
      (const void *send, void *receive, size_t count, int type, ph__nccl_raw *comm,                \
       struct CUstream_st *stream))                                                                \
    F(ReduceScatter, int,                                                                          \
      (const void *send, void *receive, size_t count, int type, int op, ph__nccl_raw *comm,        \
       struct CUstream_st *stream))                                                                \
    F(Send, int,                                                                                   \
      (const void *send, size_t count, int type, int to, ph__nccl_raw *comm,                       \
       struct CUstream_st *stream))                                                                \
    F(Recv, int,                                                                                   \
      (void *receive, size_t count, int type, int from, ph__nccl_raw *comm,                        \
       struct CUstream_st *stream))

/* Of 2.19 and newer. */
#define PH__NCCL_MEMORY_FUNCTIONS(F)                                                               \
    F(MemAlloc, int, (void **memory, size_t bytes))                                                \
    F(MemFree, int, (void *memory))                                                                \
    F(CommRegister, int,                                                                           \
      (const ph__nccl_raw *comm, void *memory, size_t bytes, void **registration))                 \
    F(CommDeregister, int, (const ph__nccl_raw *comm, void *registration))

#define DECLARE(name, result, parameters) result(*name) parameters;
typedef struct ph__nccl_functions {
    PH__NCCL_FUNCTIONS(DECLARE)
} ph__nccl_functions;
typedef struct ph__nccl_memory_functions {
    PH__NCCL_MEMORY_FUNCTIONS(DECLARE)
} ph__nccl_memory_functions;
#undef DECLARE
#endif
