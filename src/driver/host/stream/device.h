/* SPDX-License-Identifier: MIT */
/* driver/host/stream/device.h: the state of a host device, which its files share.
 * - Streams are queues of commands. Each stream has a thread of its own that runs them in order,
 *   from the first command on, so that a host function that blocks delays only its stream.
 * - Order between streams is made of markers: a stream signals one and others wait for it.
 * - Under chaos one scheduler thread runs all streams, in an order that the seed decides.
 *
 * Locks, in the order in which they may be taken: an executable's, capture_lock (all capture state
 * of the device), streams_lock, then one of the short ones (an event's, memory_lock, chaos', and
 * the spin locks of queues and of recycling), inside which no lock is taken. None is held while
 * user code runs. */
#ifndef PH_DRIVER_HOST_STREAM_DEVICE_H
#define PH_DRIVER_HOST_STREAM_DEVICE_H
#include "base/range_map.h"
#include "base/sync.h"
#include "base/vec.h"
#include "driver/driver.h"
#include "driver/host/plan/workers.h"

typedef struct ph__host_device ph__host_device;
typedef struct ph__host_stream ph__host_stream;
typedef struct ph__host_kernel ph__host_kernel;   /* resource/kernel.h */
typedef struct ph__host_capture ph__host_capture; /* resource/rules.h */
typedef struct ph__host_chaos ph__host_chaos;
typedef struct ph__host_marker_pool ph__host_marker_pool;

struct ph__host_device {
    ph__drv_device_options options; /* zeros replaced by what they stand for */
    ph__workers *workers;           /* NULL under chaos */
    ph__host_chaos *chaos;          /* NULL unless a seed was given */
    ph__host_stream *legacy;
    unsigned processors;
    /* pauses before a waiting thread sleeps; 0 where processors are short */
    unsigned spins;
    atomic_uint spinning;         /* stream threads that do so */
    pthread_mutex_t streams_lock; /* streams, their numbers and what streams say of themselves */
    /* in order of creation; destroyed ones until their work is done */
    PH__VEC(ph__host_stream *) streams;
    size_t destroyed_streams; /* how many of them are */
    uint64_t last_stream_id;
    ph__host_marker_pool *markers;
    atomic_int live_handles; /* streams, events, kernels, graphs, executables: 0 at close */

    pthread_mutex_t memory_lock;
    ph__range_map segments, pinned, plain; /* value: the buffer id, as a pointer-sized number */
    uint64_t memory_used;

    _Atomic(ph__host_kernel *) kept_kernels; /* until the device closes */

    pthread_mutex_t capture_lock;
    PH__VEC(ph__host_capture *) captures; /* open ones, invalidated ones included */
    atomic_uint open_captures;            /* their number, readable without the lock */
};
#endif
