/* SPDX-License-Identifier: MIT */
/* memory/state/allocation.h: one entry of the allocation log of a capture, and the log. */
#ifndef PH_MEMORY_STATE_ALLOCATION_H
#define PH_MEMORY_STATE_ALLOCATION_H
#include "base/vec.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ph__logged_allocation {
    uint64_t stream;
    uintptr_t address;
    size_t requested, size;
    uint64_t generation;
    bool pinned;
} ph__logged_allocation;
typedef struct ph__layout {
    PH__VEC(ph__logged_allocation) list;
    bool lost;
} ph__layout;
#endif
