/* SPDX-License-Identifier: MIT */
/* torch/devices.h: the device and the streams of each GPU of torch's. */
#ifndef PH_TORCH_DEVICES_H
#define PH_TORCH_DEVICES_H
#include <phonograph/memory.h>

enum {
    PH__TORCH_DEVICES = 64
};
/* device NULL: "cuda:<index>". */
ph_status ph__torch_device_set(int index, ph_device *device, const char *call);
/* Opened where it is not yet. */
ph_status ph__torch_device_get(ph_device **out, int index, const char *call);
ph_device *ph__torch_device_known(int index); /* NULL: it was not asked for yet */
/* The stream of a device, wrapped where it is met first, also in a capture; for the process's
 * life. */
ph_status ph__torch_stream(ph_stream **out, int index, void *native, const char *call);
/* Lets go of all devices and streams, which nobody may use any more. For tests. */
void ph__torch_devices_close(void);
#endif
