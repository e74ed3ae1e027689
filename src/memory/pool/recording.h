/* SPDX-License-Identifier: MIT */
/* memory/pool/recording.h: capturing into a pool. */
#ifndef PH_MEMORY_POOL_RECORDING_H
#define PH_MEMORY_POOL_RECORDING_H
#include <phonograph/memory.h>

/* In this order:
 * - begin, before the driver begins: refuses a pool that is being recorded to (POOL_BUSY), and
 *   WRONG_DEVICE. Retains the pool for the graph; ph__pool_graph_release is the counterpart.
 * - publish, with the id of the capture: from then on allocations on its streams go to the pool.
 *   The capture_lock of the device may be held.
 * - pause, where the driver's capture has ended and another one will go on with the recording, or
 *   an end with id 0: allocations go elsewhere meanwhile. What the pool gave before counts for the
 *   next capture too. publish goes on.
 * - end, always, also after a failed capture. id 0: never published. */
ph_status ph__pool_record_begin(ph_pool *pool, ph_device *device, const char *call);
void ph__pool_record_publish(ph_pool *pool, uint64_t capture_id);
void ph__pool_record_pause(ph_pool *pool, uint64_t capture_id);
void ph__pool_record_end(ph_pool *pool, uint64_t capture_id);
#endif
