/* SPDX-License-Identifier: MIT */
/* torch/devices.c: the device and the streams of each GPU of torch's. torch's streams live as long
 * as the process, and so do their wrappers. */
#include "torch/devices.h"
#include "base/fork.h"
#include "base/map.h"
#include <phonograph/cuda.h>
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
PH__FORK_LOCK(PH__FORK_TORCH_DEVICES, lock)
static struct gpu {
    ph_device *device;
    bool is_cuda;
    ph__map streams; /* by native handle */
} gpus[PH__TORCH_DEVICES];

static ph_status check_index(int index, const char *call)
{
    if (index >= 0 && index < PH__TORCH_DEVICES)
        return PH_OK;
    return ph_fail(PH_ERROR_ARGUMENT, "%s: GPU %d does not exist; numbers go from 0 to %d", call,
                   index, PH__TORCH_DEVICES - 1);
}

/* Lock held. */
static ph_status adopt_device(struct gpu *gpu, ph_device *device)
{
    ph_device_info info;
    PH_TRY(ph_device_get_info(&info, device));
    gpu->is_cuda = info.kind == PH_DEVICE_CUDA;
    gpu->device = device;
    return PH_OK;
}

/* Lock held. */
static ph_status open_device(int index)
{
    char name[24];
    ph_device *device;
    (void)snprintf(name, sizeof name, "cuda:%d", index);
    PH_TRY(ph_device_open(&device, name, NULL));
    ph_status status = adopt_device(&gpus[index], device);
    if (status != PH_OK)
        ph_device_release(device);
    return status;
}

ph_status ph__torch_device_set(int index, ph_device *device, const char *call)
{
    PH_TRY(check_index(index, call));
    if (device == NULL)
        return ph__torch_device_get(&device, index, call);
    pthread_mutex_lock(&lock);
    ph_status status = gpus[index].device == NULL ? PH_OK : PH_ERROR_STATE;
    if (status == PH_OK)
        status = adopt_device(&gpus[index], ph_device_retain(device));
    else
        status = ph_fail(status, "%s: GPU %d has a device; set it before its first request", call,
                         index);
    pthread_mutex_unlock(&lock);
    return status;
}

ph_status ph__torch_device_get(ph_device **out, int index, const char *call)
{
    *out = NULL;
    PH_TRY(check_index(index, call));
    pthread_mutex_lock(&lock);
    ph_status status = gpus[index].device ? PH_OK : open_device(index);
    *out = gpus[index].device;
    pthread_mutex_unlock(&lock);
    return status;
}

ph_device *ph__torch_device_known(int index)
{
    pthread_mutex_lock(&lock);
    ph_device *device = gpus[index].device;
    pthread_mutex_unlock(&lock);
    return device;
}

/* Lock held. */
static ph_status wrap_stream(ph_stream **out, struct gpu *gpu, void *native, const char *call)
{
    PH_TRY(ph_stream_wrap_cuda_on(out, gpu->device, native));
    if (ph__map_put(&gpu->streams, (uint64_t)(uintptr_t)native, *out))
        return PH_OK;
    ph_stream_destroy(*out);
    *out = NULL;
    return ph_fail(PH_ERROR_HOST_MEMORY, "%s: no host memory for the list of streams", call);
}

ph_status ph__torch_stream(ph_stream **out, int index, void *native, const char *call)
{
    ph_device *device;
    PH_TRY(ph__torch_device_get(&device, index, call));
    struct gpu *gpu = &gpus[index];
    *out = native ? native : ph_device_default_stream(device);
    if (native == NULL || !gpu->is_cuda)
        return PH_OK;
    pthread_mutex_lock(&lock);
    *out = ph__map_get(&gpu->streams, (uint64_t)(uintptr_t)native);
    ph_status status = *out ? PH_OK : wrap_stream(out, gpu, native, call);
    pthread_mutex_unlock(&lock);
    return status;
}

void ph__torch_devices_close(void)
{
    for (struct gpu *gpu = gpus; gpu < gpus + PH__TORCH_DEVICES; gpu++) {
        size_t cursor = 0;
        uint64_t native;
        void *stream;
        while (ph__map_next(&gpu->streams, &cursor, &native, &stream))
            ph_stream_destroy(stream);
        ph__map_free(&gpu->streams);
        if (gpu->device)
            ph_device_release(gpu->device);
        *gpu = (struct gpu){.device = NULL};
    }
}
