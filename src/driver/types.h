/* SPDX-License-Identifier: MIT */
/* driver/types.h: handles, and the structs that entries of devices, streams, events, memory and
 * work take. */
#ifndef PH_DRIVER_TYPES_H
#define PH_DRIVER_TYPES_H
#include <phonograph/device.h>
#include <phonograph/inspect/profile.h>
#include <phonograph/inspect/record.h>
#include <phonograph/kernel.h>
#include <stdatomic.h>

/* Handles. Each driver gives them its own meaning; NULL stands for none. ph__drv_node is owned
 * by its graph. */
typedef struct ph__drv_device ph__drv_device;
typedef struct ph__drv_stream ph__drv_stream;
typedef struct ph__drv_event ph__drv_event;
typedef struct ph__drv_kernel ph__drv_kernel;
typedef struct ph__drv_graph ph__drv_graph;
typedef struct ph__drv_node ph__drv_node;
typedef struct ph__drv_exec ph__drv_exec;
typedef struct ph__drv_profile ph__drv_profile;

typedef struct ph__drv_device_options {
    uint32_t threads;
    uint64_t chaos_seed;
    uint64_t memory_bytes;
} ph__drv_device_options;

typedef struct ph__drv_device_info {
    ph_device_kind kind;
    char description[128];
    uint64_t memory_total, memory_free;
    uint32_t threads;
    int priority_lowest, priority_highest;        /* as CUDA: 0 and a negative number */
    size_t segment_granularity;                   /* segments are multiples of this, 2 MiB */
    uint32_t multiprocessors, compute_capability; /* as in ph_device_info */
    size_t shared_bytes_per_block_max;
} ph__drv_device_info;

enum {
    PH__STREAM_BLOCKING = 0,
    PH__STREAM_NON_BLOCKING = 1,
    /* handed to stream_wrap: one that is capturing is taken, and nothing is asked about it */
    PH__STREAM_KNOWN = 2
}; /* CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING */
enum {
    PH__EVENT_TIMING = 0,
    PH__EVENT_DISABLE_TIMING = 2
}; /* CU_EVENT_DEFAULT, CU_EVENT_DISABLE_TIMING */
enum {
    PH__EVENT_RECORD_DEFAULT = 0,
    PH__EVENT_RECORD_EXTERNAL = 1
}; /* also for waits */

/* Where an address points. base/size: the driver's own range around it (a segment, a pinned
 * allocation); buffer_id: unique for that allocation in the life of the process. */
typedef enum ph__memory_kind {
    PH__MEMORY_PAGEABLE = 0,
    PH__MEMORY_PINNED = 1,
    PH__MEMORY_DEVICE = 2
} ph__memory_kind;
typedef struct ph__drv_pointer {
    ph__memory_kind kind;
    uintptr_t base;
    size_t size;
    uint64_t buffer_id;
} ph__drv_pointer;

typedef struct ph__drv_launch {
    uint32_t grid[3], block[3]; /* no zeros */
    size_t shared_bytes;
    const void *args; /* kernel's args_size bytes, copied */
    /* The kernel may begin before its predecessor on the stream has ended: it waits by itself. A
     * hint: a driver may order it fully. No part of exec_set_kernel. */
    bool programmatic;
    /* The caller has checked the sizes against CUDA's limits (none is zero) and that args are
     * there: a driver of this library need not look again. */
    bool checked;
    /* launch alone: NULL, or where the id of the capture goes that recorded it; left alone when
     * none did. Where a capture began on another thread during the call, it may be told though
     * it did not. */
    uint64_t *capture_id;
} ph__drv_launch;
typedef struct ph__drv_memcpy {
    void *dst;
    const void *src;
    size_t bytes;
} ph__drv_memcpy;
typedef struct ph__drv_memset {
    void *dst;
    uint32_t value, value_size; /* element and its bytes: 1 or 4 */
    size_t count;               /* elements */
} ph__drv_memset;
/* One side of a copy or fill of several rows: `bytes` each, in planes. */
typedef struct ph__drv_rows {
    size_t bytes, rows, pitch, planes, plane_pitch;
} ph__drv_rows;
typedef struct ph__drv_host {
    ph_host_fn fn;
    void *user;
} ph__drv_host;
#endif
