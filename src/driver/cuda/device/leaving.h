/* SPDX-License-Identifier: MIT */
/* driver/cuda/device/leaving.h: streams that were destroyed before their work was over. All in
 * relaxed mode and under the device's context. */
#ifndef PH_DRIVER_CUDA_DEVICE_LEAVING_H
#define PH_DRIVER_CUDA_DEVICE_LEAVING_H
#include "driver/driver.h"

/* The user's stream is about to be his alone: its work is marked by an event. Where no event can be
 * had, the work is waited for here. Nothing for the library's own. */
void ph__cuda_stream_mark_work(ph__drv_stream *stream);
/* Removes the streams whose work is over from the list, and gives them; under the device's lock. */
ph__drv_stream *ph__cuda_streams_remove_idle(ph__drv_device *device);
/* Destroys a list of removed streams. */
void ph__cuda_streams_free(ph__drv_stream *first);
/* Waits for the streams that are leaving, and those that the library keeps. No other thread uses
 * the device. */
void ph__cuda_streams_wait(ph__drv_device *device);
/* The same, as the device closes. */
void ph__cuda_streams_close(ph__drv_device *device);
#endif
