/* SPDX-License-Identifier: MIT */
/* tests/support/others.h: kernels that other code has loaded, of whose parameters the library knows
 * no types. */
#ifndef PH_TESTS_OTHERS_H
#define PH_TESTS_OTHERS_H
#include "device/handles/device.h"
#include "device/handles/stream.h"
#include "support/kernels.h"
#include "support/test.h"

static inline ph__drv_kernel *t_others_kernel(const ph_device *device, t_kernel_id id)
{
    ph__drv_kernel *made;
    assert_int_equal(device->driver->kernel_create(&made, device->handle, &t_kernel_sources[id]),
                     0);
    return made;
}

/* One block. */
static inline void t_others_launch(ph_stream *stream, ph__drv_kernel *kernel, uint32_t threads,
                                   const void *args)
{
    uint64_t id = 0;
    const ph__drv_launch launch = {.grid = {1, 1, 1},
                                   .block = {threads, 1, 1},
                                   .args = args,
                                   .capture_id = &id,
                                   .checked = true};
    assert_int_equal(stream->device->driver->launch(stream->handle, kernel, &launch), 0);
}
#endif
