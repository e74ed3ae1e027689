/* SPDX-License-Identifier: MIT */
/* driver/host/stream/chaos.h: the scheduler of all streams under chaos. */
#ifndef PH_DRIVER_HOST_STREAM_CHAOS_H
#define PH_DRIVER_HOST_STREAM_CHAOS_H
#include "base/rng.h"
#include "driver/host/stream/device.h"

/* One thread runs the commands of all streams, one at a time, in an order
 * that the seed decides. It runs while somebody waits, and when nothing was submitted for a
 * while; a program of one thread therefore sees the same order each time. */
ph__host_chaos *ph__host_chaos_create(ph__host_device *device, uint64_t seed);
void ph__host_chaos_destroy(ph__host_chaos *chaos);   /* takes NULL; all streams are idle */
void ph__host_chaos_submitted(ph__host_chaos *chaos); /* a stream has new work */
/* Runs until done(context), which is asked on the scheduler's thread. On that thread itself it
 * runs other streams meanwhile. */
void ph__host_chaos_wait(ph__host_chaos *chaos, bool (*done)(void *context), void *context);
/* For queries: runs a few commands, or none, as the seed says, and waits a moment for them. */
void ph__host_chaos_query(ph__host_chaos *chaos);
ph__rng *ph__host_chaos_rng(ph__host_chaos *chaos); /* on the scheduler thread only */
#endif
