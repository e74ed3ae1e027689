/* SPDX-License-Identifier: MIT */
/* device/wrap_cuda.h: streams of the user's own. */
#ifndef PH_DEVICE_WRAP_CUDA_H
#define PH_DEVICE_WRAP_CUDA_H
#include "device/handles/device.h"

/* A wrapped stream that others still hold is being destroyed: from now on a stream of the
 * library's own stands for it, behind all of its work. Gives the driver's wrapper of the user's
 * stream: to be destroyed once nobody can be using it. */
ph__drv_stream *ph__stream_replace(ph_stream *stream);

/* Waits for the work of the retained stream, which its user may be destroying. Failures of the
 * work are its user's to see.
 * - true: the work is done. A stream in a capture of other code is not waited for: that would kill
 *   the capture.
 * - false: the stream is in a capture of this library, perhaps since this call began. The capture
 *   goes on. */
bool ph__stream_wait(ph_stream *stream);
/* A stream of the user's own, given as the driver's handle; takes the reference to the device
 * over on success. */
ph_status ph__stream_wrap(ph_stream **out, ph_device *device, void *native, const char *call);
/* As it, and one that is capturing is taken too, whose device the user vouches for. */
ph_status ph__stream_wrap_known(ph_stream **out, ph_device *device, void *native, const char *call);
/* Whether functions of the user's were ever wrapped, which other code may launch as well. */
bool ph__adopt_has_kernels(void);
#endif
