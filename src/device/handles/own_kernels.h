/* SPDX-License-Identifier: MIT */
/* device/handles/own_kernels.h: the kernels of the library itself, each a part of its device. */
#ifndef PH_DEVICE_HANDLES_OWN_KERNELS_H
#define PH_DEVICE_HANDLES_OWN_KERNELS_H
#include "driver/driver.h"

/* The library's kernel that writes cells, with room for so many (PH__CELLS_FEW, PH__CELLS_MANY):
 * a part of the device, which it does not retain. */
ph_status ph__device_cells_kernel(ph_kernel **out, ph_device *device, unsigned room,
                                  const char *call);
/* The kernel of a probe node; as the one above. */
ph_status ph__device_probe_kernel(ph_kernel **out, ph_device *device, ph__probe_kernel which,
                                  const char *call);
void ph__device_drop_own_kernels(ph_device *device); /* before the driver closes it */
#endif
