/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_gpu.c: the GPUs of the software libcuda, before any context. */
#include "cuda_inside.h"
#include <stdio.h>

static int gpu_count(void)
{
    int64_t count = fake_environment("FAKE_CUDA_DEVICES", FAKE_GPUS);
    return count < 0 || count > FAKE_GPUS ? FAKE_GPUS : (int)count;
}

FAKE(Init, (unsigned flags), (flags))
{
    int result = (int)fake_environment("FAKE_CUDA_INIT", 0);
    if (flags)
        return PH__R_INVALID_VALUE;
    if (result)
        return result;
    return gpu_count() == 0 ? PH__R_NO_DEVICE : 0;
}

FAKE(DriverGetVersion, (int *version), (version))
{
    if (!version)
        return PH__R_INVALID_VALUE;
    *version = fake_version();
    return 0;
}

FAKE(DeviceGetCount, (int *count), (count))
{
    if (!count)
        return PH__R_INVALID_VALUE;
    *count = gpu_count();
    return 0;
}

bool fake_is_device(ph__cu_device device)
{
    return device >= 0 && device < gpu_count();
}

FAKE(DeviceGet, (ph__cu_device * device, int ordinal), (device, ordinal))
{
    if (!device)
        return PH__R_INVALID_VALUE;
    if (ordinal < 0 || ordinal >= gpu_count())
        return PH__R_INVALID_DEVICE;
    *device = ordinal;
    return 0;
}

FAKE(DeviceGetName, (char *name, int size, ph__cu_device device), (name, size, device))
{
    if (!name || size <= 0)
        return PH__R_INVALID_VALUE;
    if (!fake_is_device(device))
        return PH__R_INVALID_DEVICE;
    (void)snprintf(name, (size_t)size, "Fake GPU");
    return 0;
}

FAKE(DeviceGetAttribute, (int *value, int attribute, ph__cu_device device),
     (value, attribute, device))
{
    int capability = (int)fake_environment("FAKE_CUDA_CAPABILITY", 90);
    if (!value)
        return PH__R_INVALID_VALUE;
    if (!fake_is_device(device))
        return PH__R_INVALID_DEVICE;
    switch (attribute) {
    case PH__CU_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = 132;
        return 0;
    case PH__CU_ATTRIBUTE_UNIFIED_ADDRESSING:
    case PH__CU_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        *value = 1;
        return 0;
    case PH__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = capability / 10;
        return 0;
    case PH__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = capability % 10;
        return 0;
    case PH__CU_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = FAKE_SHARED_LIMIT;
        return 0;
    default:
        ph__driver_set_reason("attribute %d is none that the tests' libcuda has", attribute);
        return PH__R_INVALID_VALUE;
    }
}
