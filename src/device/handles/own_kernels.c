/* SPDX-License-Identifier: MIT */
/* device/handles/own_kernels.c: the kernels of the library itself, each a part of its device. */
#include "device/handles/own_kernels.h"
#include "device/handles/device.h"
#include "device/handles/kernel.h"
#include <stddef.h>
#include <stdio.h>

static ph_status make_cells_kernel(ph_kernel **out, ph_device *device, unsigned room,
                                   const char *call)
{
    char names[2 * PH__CELLS_MANY][sizeof "value4294967295"];
    ph_param params[1 + 2 * PH__CELLS_MANY] = {{"count", PH_PARAM_VALUE, 0, sizeof(uint64_t), {0}}};
    ph__drv_kernel *handle = NULL;
    for (size_t i = 0; i < 2 * (size_t)room; i++) {
        bool address = i % 2 == 0;
        (void)snprintf(names[i], sizeof names[i], "%s%u", address ? "at" : "value",
                       (unsigned)(i / 2));
        params[1 + i] = (ph_param){names[i],
                                   address ? PH_PARAM_ADDRESS : PH_PARAM_VALUE,
                                   sizeof(ph__drv_cells) + i * sizeof(uint64_t),
                                   sizeof(uint64_t),
                                   {0}};
    }
    ph_kernel_source source = {.name =
                                   room == PH__CELLS_FEW ? "ph_core_cells_8" : "ph_core_cells_60",
                               .args_size = ph__cells_args_size(room),
                               .params = params,
                               .param_count = 1 + 2 * (size_t)room};
    int result = device->driver->kernel_cells(&handle, device->handle, room);
    if (result != PH__R_OK)
        return ph__kernel_fail_create(result, device, source.name, call);
    return ph__kernel_make(out, device, handle, &source, call);
}

/* A part of the device, which it does not retain. */
static ph_status keep_own_kernel(ph_kernel **out, _Atomic(ph_kernel *) *at, ph_kernel *made)
{
    ph_device *device = made->device;
    if (!atomic_compare_exchange_strong(at, out, made)) {
        ph_kernel_release(made); /* another thread's came first */
        return PH_OK;
    }
    *out = made;
    ph_device_release(device);
    return PH_OK;
}

ph_status ph__device_cells_kernel(ph_kernel **out, ph_device *device, unsigned room,
                                  const char *call)
{
    _Atomic(ph_kernel *) *at = &device->cells_kernels[room == PH__CELLS_FEW ? 0 : 1];
    ph_kernel *made = NULL;
    *out = atomic_load_explicit(at, memory_order_acquire);
    if (*out)
        return PH_OK;
    PH_TRY(make_cells_kernel(&made, device, room, call));
    return keep_own_kernel(out, at, made);
}

static ph_status make_probe_kernel(ph_kernel **out, ph_device *device, ph__probe_kernel which,
                                   const char *call)
{
    static const ph_param breadcrumb[] = {
        {"table", PH_PARAM_ADDRESS, offsetof(ph__drv_breadcrumb, table), sizeof(uint64_t), {0}},
        {"number", PH_PARAM_VALUE, offsetof(ph__drv_breadcrumb, number), sizeof(uint64_t), {0}}};
    static const ph_param finite[] = {
        {"address",
         PH_PARAM_ADDRESS,
         offsetof(ph__drv_finite, address),
         sizeof(uint64_t),
         {.kind = PH_ACCESS_IN}},
        {"count", PH_PARAM_VALUE, offsetof(ph__drv_finite, count), sizeof(uint64_t), {0}},
        {"type", PH_PARAM_VALUE, offsetof(ph__drv_finite, type), sizeof(uint32_t), {0}},
        {"number", PH_PARAM_VALUE, offsetof(ph__drv_finite, number), sizeof(uint32_t), {0}},
        {"parts", PH_PARAM_ADDRESS, offsetof(ph__drv_finite, parts), sizeof(uint64_t), {0}}};
    static const ph_kernel_source sources[PH__PROBE_KERNELS] = {
        [PH__PROBE_BREADCRUMB] = {.name = "phonograph_breadcrumb",
                                  .args_size = sizeof(ph__drv_breadcrumb),
                                  .params = breadcrumb,
                                  .param_count = sizeof breadcrumb / sizeof breadcrumb[0]},
        [PH__PROBE_FINITE] = {.name = "phonograph_check_finite",
                              .args_size = sizeof(ph__drv_finite),
                              .params = finite,
                              .param_count = sizeof finite / sizeof finite[0]}};
    ph__drv_kernel *handle = NULL;
    int result = device->driver->kernel_probe(&handle, device->handle, which);
    if (result != PH__R_OK)
        return ph__kernel_fail_create(result, device, sources[which].name, call);
    return ph__kernel_make(out, device, handle, &sources[which], call);
}

ph_status ph__device_probe_kernel(ph_kernel **out, ph_device *device, ph__probe_kernel which,
                                  const char *call)
{
    _Atomic(ph_kernel *) *at = &device->probe_kernels[which];
    ph_kernel *made = NULL;
    *out = atomic_load_explicit(at, memory_order_acquire);
    if (*out)
        return PH_OK;
    PH_TRY(make_probe_kernel(&made, device, which, call));
    return keep_own_kernel(out, at, made);
}

static void drop_own_kernel(_Atomic(ph_kernel *) *at, ph_device *device)
{
    ph_kernel *kernel = atomic_load(at);
    if (kernel)
        ph__kernel_destroy(kernel, device);
}

void ph__device_drop_own_kernels(ph_device *device)
{
    for (size_t i = 0; i < sizeof device->cells_kernels / sizeof device->cells_kernels[0]; i++)
        drop_own_kernel(&device->cells_kernels[i], device);
    for (size_t i = 0; i < PH__PROBE_KERNELS; i++)
        drop_own_kernel(&device->probe_kernels[i], device);
}
