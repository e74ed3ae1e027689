/* SPDX-License-Identifier: MIT */
/* driver/cuda/device/device.c: what GPUs there are; opening, describing and closing one. */
#include "driver/cuda/load/device.h"
#include "driver/cuda/device/leaving.h"
#include "driver/cuda/load/core.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/load/layouts.h"
#include "driver/cuda/load/unload.h"
#include <stdio.h>

void ph__cuda_describe(char version[48], uint32_t *device_count, char reason[256])
{
    int count = 0;
    version[0] = reason[0] = '\0';
    *device_count = 0;
    int result = ph__cuda_load();
    if (result == PH__R_OK) {
        result = ph__cu.DeviceGetCount(&count);
        if (result != PH__R_OK)
            ph__driver_set_reason("cuDeviceGetCount gave %d (%s: %s)", result,
                                  ph__result_name(result), ph__result_text(result));
        else if (count <= 0)
            ph__driver_set_reason("there is no GPU, or CUDA_VISIBLE_DEVICES hides it");
    }
    int number = ph__cuda_version();
    if (number > 0)
        (void)snprintf(version, 48, "CUDA %d.%d", number / 1000, number % 1000 / 10);
    if (count > 0)
        *device_count = (uint32_t)count;
    else
        (void)snprintf(reason, 256, "%s", ph__driver_reason());
    ph__driver_clear_reason();
}

/* ---- opening ---- */

static int read_attribute(int *value, const ph__drv_device *device, int which)
{
    *value = 0;
    return ph__cu.DeviceGetAttribute(value, which, device->number);
}

static int require_attribute(const ph__drv_device *device, int which, const char *what)
{
    int has, result = read_attribute(&has, device, which);
    if (result != PH__R_OK || has)
        return result;
    ph__driver_set_reason("this GPU or its driver's mode has no %s, which is needed", what);
    return PH__R_NOT_SUPPORTED;
}

static int read_properties(ph__drv_device *device)
{
    int major, minor, shared, processors;
    int result =
        require_attribute(device, PH__CU_ATTRIBUTE_UNIFIED_ADDRESSING, "unified addressing");
    if (result == PH__R_OK)
        result = require_attribute(device, PH__CU_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                   "virtual memory management");
    if (result == PH__R_OK)
        result = read_attribute(&major, device, PH__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    if (result == PH__R_OK)
        result = read_attribute(&minor, device, PH__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    if (result == PH__R_OK)
        result =
            read_attribute(&shared, device, PH__CU_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    if (result == PH__R_OK)
        result = read_attribute(&processors, device, PH__CU_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    if (result != PH__R_OK)
        return result;
    device->capability = major * 10 + minor;
    device->shared_limit = (size_t)shared;
    device->processors = (uint32_t)processors;
    const ph__cu_allocation what = ph__cuda_allocation(device);
    return ph__cu.MemGetAllocationGranularity(&device->granularity, &what,
                                              PH__CU_GRANULARITY_MINIMUM);
}

static int create_upload_stream(ph__drv_device *device)
{
    ph__cuda_scope scope;
    int result = ph__cuda_enter(&scope, device);
    if (result != PH__R_OK)
        return result;
    result = ph__cu.StreamCreateWithPriority(&device->upload, PH__STREAM_NON_BLOCKING, 0);
    ph__cuda_leave(&scope);
    return result;
}

static int open_context(ph__drv_device *device)
{
    int result = ph__cu.DevicePrimaryCtxRetain(&device->context, device->number);
    if (result != PH__R_OK) {
        if (result == PH__R_OUT_OF_MEMORY)
            ph__driver_set_reason("the GPU or the machine has no memory for a context");
        return result;
    }
    result = create_upload_stream(device);
    if (result != PH__R_OK)
        (void)ph__cu.DevicePrimaryCtxRelease(device->number);
    return result;
}

static int open_gpu(ph__drv_device *device, uint32_t ordinal)
{
    if (ordinal > INT32_MAX)
        return PH__R_INVALID_DEVICE;
    int result = ph__cu.DeviceGet(&device->number, (int)ordinal);
    if (result == PH__R_OK)
        result = read_properties(device);
    if (result == PH__R_OK)
        result = open_context(device);
    if (result == PH__R_OK)
        ph__cuda_core_load(device);
    return result;
}

/* The options are the host device's: a program that sets them runs on both. */
int ph__cuda_device_open(ph__drv_device **out, uint32_t ordinal,
                         const ph__drv_device_options *options)
{
    (void)options;
    int result = ph__cuda_load();
    if (result != PH__R_OK)
        return result;
    ph__drv_device *device = ph__calloc(1, sizeof *device);
    if (!device)
        return PH__R_OUT_OF_MEMORY;
    device->ordinal = ordinal;
    device->legacy.device = device;
    if (pthread_mutex_init(&device->lock, NULL) != 0) {
        ph__free(device);
        return PH__R_OUT_OF_MEMORY;
    }
    result = open_gpu(device, ordinal);
    if (result != PH__R_OK) {
        pthread_mutex_destroy(&device->lock);
        ph__free(device);
        return result;
    }
    *out = device;
    return PH__R_OK;
}

/* ---- closing ---- cuCtxSynchronize would kill every capture of the context, those of other
 * devices of this GPU and of other libraries too. So the streams are waited for one by one. */

static void wait_for_legacy(void)
{
    int status;
    if (ph__cu.StreamIsCapturing(NULL, &status) == PH__R_OK) /* 906 beside a blocking capture */
        (void)ph__cu.StreamSynchronize(NULL);
}

void ph__cuda_device_wait_streams(ph__drv_device *device)
{
    ph__cuda_scope scope;
    (void)ph__cuda_enter(&scope, device);
    int mode = ph__cuda_relax();
    ph__cuda_streams_wait(device);
    wait_for_legacy();
    ph__cuda_unrelax(mode);
    ph__cuda_leave(&scope);
}

void ph__cuda_device_close(ph__drv_device *device)
{
    ph__cuda_scope scope;
    if (!device)
        return;
    (void)ph__cuda_enter(&scope, device);
    int mode = ph__cuda_relax();
    ph__cuda_streams_close(device);
    wait_for_legacy();
    ph__cuda_core_close(device);
    ph__cuda_kernels_close(device);
    if (device->mark)
        (void)ph__cu.EventDestroy(device->mark);
    (void)ph__cu.StreamSynchronize(device->upload);
    (void)ph__cu.StreamDestroy(device->upload);
    ph__cuda_unrelax(mode);
    ph__cuda_leave(&scope);
    (void)ph__cu.DevicePrimaryCtxRelease(device->number);
    ph__vec_free(&device->captures);
    ph__map_free(&device->functions);
    ph__cuda_layouts_release(&device->layouts);
    pthread_mutex_destroy(&device->lock);
    ph__free(device);
}

/* ---- describing ---- */

static int describe_gpu(char description[128], const ph__drv_device *device)
{
    char name[64] = "";
    int result = ph__cu.DeviceGetName(name, sizeof name, device->number);
    if (result == PH__R_OK)
        (void)snprintf(description, 128, "%.63s, compute capability %d.%d, %u multiprocessors",
                       name, device->capability / 10, device->capability % 10,
                       (unsigned)device->processors);
    return result;
}

int ph__cuda_device_info(ph__drv_device_info *out, ph__drv_device *device)
{
    ph__drv_device_info info = {.kind = PH_DEVICE_CUDA,
                                .segment_granularity = device->granularity,
                                .multiprocessors = device->processors,
                                .compute_capability = (uint32_t)device->capability,
                                .shared_bytes_per_block_max = device->shared_limit};
    size_t free_bytes = 0, total_bytes = 0;
    ph__cuda_scope scope;
    int result = describe_gpu(info.description, device);
    if (result == PH__R_OK)
        result = ph__cuda_enter(&scope, device);
    if (result != PH__R_OK)
        return result;
    result = ph__cu.MemGetInfo(&free_bytes, &total_bytes);
    if (result == PH__R_OK)
        result = ph__cu.CtxGetStreamPriorityRange(&info.priority_lowest, &info.priority_highest);
    ph__cuda_leave(&scope);
    if (result != PH__R_OK)
        return result;
    info.memory_free = free_bytes;
    info.memory_total = total_bytes;
    *out = info;
    return PH__R_OK;
}

int ph__cuda_context_push(ph__drv_device *device)
{
    return ph__cu.CtxPushCurrent(device->context);
}

void ph__cuda_context_pop(ph__drv_device *device)
{
    ph__cu_context mine;
    (void)device;
    (void)ph__cu.CtxPopCurrent(&mine);
}

int ph__cuda_device_synchronize(ph__drv_device *device)
{
    return ph__cuda_synchronize(device);
}
