/* SPDX-License-Identifier: MIT */
/* memory/report/snapshot_json.h: the JSON text of a snapshot. */
#ifndef PH_MEMORY_REPORT_SNAPSHOT_JSON_H
#define PH_MEMORY_REPORT_SNAPSHOT_JSON_H
#include "base/vec.h"
#include "memory/state/history.h"

/* A copy of the state, made under the lock. */
typedef struct ph__snapshot_block {
    uintptr_t address;
    size_t size, requested;
    uint64_t generation;
    bool free, live;
} ph__snapshot_block;

typedef struct ph__snapshot_segment {
    uintptr_t address;
    size_t size, blocks; /* blocks: how many of the block list follow for it */
    uint64_t stream;
    ph_pool_id pool;
    bool small, captured;
} ph__snapshot_segment;

typedef struct ph__snapshot_pool {
    ph_pool_id id;
    ph_pool_options options;
    size_t use_count, reserved, waiting;
    bool is_default;
} ph__snapshot_pool;

typedef struct ph__snapshot_pinned {
    uintptr_t address;
    size_t size, requested;
    uint64_t generation;
    ph_pool_id pool;
    bool free, live;
} ph__snapshot_pinned;

typedef struct ph__snapshot {
    PH__VEC(ph__snapshot_pool) pools;
    PH__VEC(ph__snapshot_segment) segments;
    PH__VEC(ph__snapshot_block) blocks;
    PH__VEC(ph__snapshot_pinned) pinned;
    PH__VEC(ph__event) events;
    size_t allocated, reserved, limit;
    bool history;
} ph__snapshot;

/* The text, or NULL: no host memory. */
char *ph__snapshot_write(const ph__snapshot *all, const ph_device *device, const ph_pool *only);
#endif
