/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/device.h: devices, with their streams and events. */
#ifndef PH_DRIVER_CUDA_LOAD_DEVICE_H
#define PH_DRIVER_CUDA_LOAD_DEVICE_H
#include "base/map.h"
#include "base/sync.h"
#include "base/vec.h"
#include "driver/cuda/load/abi_params.h"
#include "driver/cuda/load/load.h"
#include "driver/driver.h"

typedef struct ph__cuda_capture ph__cuda_capture; /* capture/capture.h */

struct ph__drv_stream {
    ph__drv_device *device;
    ph__cu_stream handle; /* NULL: the legacy default stream */
    bool owned;           /* by this library: destroyed with it */
    /* the capture that it was last seen in: the driver does not say once one is invalidated */
    _Atomic uint64_t capture_id;
    /* by calls on the stream; alone: a capture begins there, or the stream joins one */
    ph__shared_mutex calls;
    /* of a user's stream that was destroyed: behind its work; else NULL */
    ph__cu_event last;
    ph__drv_stream *next_leaving; /* destroyed, and its work not over yet */
    ph__drv_stream *next, **link; /* in the device's list; link NULL: in none */
};
struct ph__drv_event {
    ph__drv_device *device;
    ph__cu_event handle;
    /* last recorded in a capture: a stream that waits for it joins that one */
    atomic_bool captured;
};
struct ph__drv_device {
    uint32_t ordinal;
    ph__cu_device number;
    ph__cu_context context; /* the primary one, retained */
    ph__drv_stream legacy;
    ph__cu_stream upload; /* non-blocking: executables are uploaded over it */
    /* for the next wait: the end of an event takes as long as the host needs to see that the work
     * is over; NULL: none yet, or a wait has it */
    _Atomic(ph__cu_event) mark;
    int capability; /* 90 for 9.0 */
    uint32_t processors;
    size_t granularity;
    ph__mutex mapping;   /* around segments that come and go */
    size_t mapped;       /* their bytes */
    size_t shared_limit; /* dynamic shared memory that a block can opt into */
    /* Around whatever reads or changes a capture, while captures are open: what the driver lends
     * of a stream's place in it is valid until the stream's next call only, and adding a child
     * graph is no part of what CUDA makes safe against other threads that capture into the same
     * graph. ph__cuda_order_enter. */
    ph__spinlock order;
    /* around `captures` and the node caches of all graphs; acquired last of all locks */
    ph__spinlock cache_lock;
    /* by waits for the whole context; alone: a capture begins. As stream->calls */
    ph__shared_mutex idle;
    PH__VEC(ph__cuda_capture *) captures; /* captures that began here and have not ended */
    atomic_uint open_captures;            /* their number, readable without the lock */
    pthread_mutex_t lock;                 /* the members below */
    ph__map functions;                    /* CUfunction -> ph__drv_kernel of ours */
    ph__map layouts;                      /* layouts.h; under cache_lock */
    uint64_t kernels;                     /* how many there ever were */
    /* destroyed kernels whose code is still loaded (unload.h) */
    ph__drv_kernel *retired;
    _Atomic(struct ph__cuda_core *) core; /* core.h: made at the first use */
    /* not destroyed, but the legacy one; under the order, whether captures are open or not */
    ph__drv_stream *streams;
    ph__drv_stream *leaving; /* streams that were destroyed before their work was over */
};

/* Makes the device's context current where it is not, and puts back what was current. Around
 * every entry that needs one: all but those on an explicit stream (docs/guide/cuda.md says which).
 * enter: CUDA's number. */
typedef struct ph__cuda_scope {
    bool pushed;
} ph__cuda_scope;
static inline int ph__cuda_enter(ph__cuda_scope *scope, const ph__drv_device *device)
{
    ph__cu_context current;
    scope->pushed = false;
    int result = ph__cu.CtxGetCurrent(&current);
    if (result != PH__R_OK || current == device->context)
        return result;
    result = ph__cu.CtxPushCurrent(device->context);
    scope->pushed = result == PH__R_OK;
    return result;
}
static inline void ph__cuda_leave(const ph__cuda_scope *scope)
{
    ph__cu_context mine;
    if (scope->pushed)
        (void)ph__cu.CtxPopCurrent(&mine);
}

/* The description of memory of this GPU for the driver's virtual memory calls. */
static inline ph__cu_allocation ph__cuda_allocation(const ph__drv_device *device)
{
    ph__cu_allocation what = {.type = PH__CU_ALLOCATION_TYPE_PINNED};
    what.location.type = PH__CU_LOCATION_TYPE_DEVICE;
    what.location.id = device->number;
    return what;
}
#endif
