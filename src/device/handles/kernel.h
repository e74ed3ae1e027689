/* SPDX-License-Identifier: MIT */
/* device/handles/kernel.h: kernels: checks of their description, references. */
#ifndef PH_DEVICE_HANDLES_KERNEL_H
#define PH_DEVICE_HANDLES_KERNEL_H
#include "base/status.h"
#include "driver/driver.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct ph_kernel {
    ph_device *device; /* retained */
    ph__drv_kernel *handle;
    atomic_int references;
    char *name;
    size_t args_size;
    /* the capture that retained it last: its later launches there need not look */
    _Atomic uint64_t kept_in;
    ph_param *params; /* names included in one allocation */
    size_t param_count;
    /* takes part in what other processes do: no parameter of its nodes may change */
    bool collective;
};

/* Finds the kernel of this library behind the driver's handle, for the record: retained for the
 * caller, as another thread may release it meanwhile. NULL for a foreign one, and for one whose
 * last reference is gone. The registry holds no references. */
ph_kernel *ph__kernel_acquire(const ph_device *device, const ph__drv_kernel *handle);

/* The object around a driver's kernel, which is destroyed on failure. Of the source name,
 * args_size and parameters are looked at. */
ph_status ph__kernel_make(ph_kernel **out, ph_device *device, ph__drv_kernel *handle,
                          const ph_kernel_source *source, const char *call);
ph_status ph__kernel_check_params(const ph_kernel_source *source, const char *call);

/* The driver could not make the kernel of that name: what is wrong, by its number. */
ph_status ph__kernel_fail_create(int result, const ph_device *device, const char *name,
                                 const char *call);
/* Destroys the kernel and the driver's, whatever its references. The reference to the device, if it
 * holds one, is the caller's to release. */
void ph__kernel_destroy(ph_kernel *kernel, ph_device *device);
#endif
