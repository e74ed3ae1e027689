/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/abi_cupti.h: what this driver uses of CUPTI's interface. */
#ifndef PH_CUDA_ABI_CUPTI_H
#define PH_CUDA_ABI_CUPTI_H
#include "driver/cuda/load/abi.h"

/* ---- callbacks (cupti.c) ---- */
typedef struct CUpti_Subscriber_st *ph__cupti_subscriber;
typedef void (*ph__cupti_callback)(void *user, int domain, uint32_t function_id, const void *call);
enum {
    PH__CUPTI_EXIT = 1,
    PH__CUPTI_DRIVER_API = 1,
    PH__CUPTI_R_OTHER_SUBSCRIBER = 39
};
typedef struct ph__cupti_call { /* CUpti_CallbackData */
    int site;
    const char *function;
    const void *params;
    void *result; /* int, of a call of the driver's */
    const char *symbol;
    ph__cu_context context;
    uint32_t context_id;
    uint64_t *correlation;
    uint32_t correlation_id;
} ph__cupti_call;

/* ---- activity records (activity.c) ---- how those begin that are read: newer
 * versions of them, for which there is a number at the end of the name, have more behind. */
enum {
    PH__CUPTI_MEMCPY = 1,
    PH__CUPTI_MEMSET = 2,
    PH__CUPTI_CONCURRENT_KERNEL = 10,
    PH__CUPTI_FLUSH_FORCED = 1,
    PH__CUPTI_R_MAX_LIMIT_REACHED = 12
};
typedef struct ph__cupti_record { /* CUpti_Activity */
    int kind;
} ph__cupti_record;
typedef struct ph__cupti_kernel { /* CUpti_ActivityKernel5 and newer */
    int kind;
    uint8_t cache, shared_config;
    uint16_t registers;
    int partition_requested, partition_executed;
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t grid[3], block[3], shared_static, shared_dynamic;
    uint32_t local_per_thread, local_total, correlation;
    int64_t grid_id;
    const char *name;
    void *reserved;
    uint64_t queued, submitted;
    uint8_t launch_type, carveout_is_requested, carveout, padding;
    uint32_t shared_executed;
    uint64_t graph_node;
} ph__cupti_kernel;
typedef struct ph__cupti_transfer { /* CUpti_ActivityMemcpy3, CUpti_ActivityMemset2 and newer */
    int kind;
    uint32_t what;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
    uint32_t detail, padding;
    void *reserved;
    uint64_t graph_node;
} ph__cupti_transfer;
typedef void (*ph__cupti_room_fn)(uint8_t **buffer, size_t *bytes, size_t *most_records);
typedef void (*ph__cupti_full_fn)(ph__cu_context context, uint32_t stream, uint8_t *buffer,
                                  size_t bytes, size_t used);
#endif
