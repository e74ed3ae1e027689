/* SPDX-License-Identifier: MIT */
/* driver/host/stream/marker.h: markers: "the work up to here is done". Counted; signalled once. */
#ifndef PH_DRIVER_HOST_STREAM_MARKER_H
#define PH_DRIVER_HOST_STREAM_MARKER_H
#include "driver/host/stream/device.h"

typedef struct ph__host_marker ph__host_marker;
/* create: NULL when out of memory. signal: once; takes the time, wakes who waits; the caller
 * keeps its reference. wait: blocks the calling thread (under chaos: the scheduler runs until
 * then). */
ph__host_marker *ph__host_marker_create(ph__host_device *device);
void ph__host_marker_signal(ph__host_marker *marker);
ph__host_marker *ph__host_marker_retain(ph__host_marker *marker);
void ph__host_marker_release(ph__host_marker *marker);
bool ph__host_marker_done(const ph__host_marker *marker);
uint64_t ph__host_marker_time(const ph__host_marker *marker); /* ns at which it was signalled */
void ph__host_marker_wait(ph__host_marker *marker);
/* A marker that another device still holds at close outlives the device. */
ph__host_marker_pool *ph__host_marker_pool_create(void);
void ph__host_marker_pool_close(ph__host_marker_pool *pool); /* takes NULL */
#endif
