/* SPDX-License-Identifier: MIT */
/* driver/host/device/device.c: opening, closing and describing the host device. */
#include "driver/host/resource/kernel.h"
#include "driver/host/resource/memory.h"
#include "driver/host/resource/rules.h"
#include "driver/host/stream/chaos.h"
#include "driver/host/stream/entries.h"
#include "driver/host/stream/queue.h"
#include "driver/host/stream/wait.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    SPINS = 1000,
    MOST_THREADS = 4096,
    PRIORITY_HIGHEST = -5
};
#define SEGMENT_GRANULARITY ((size_t)2 << 20)

static uint64_t half_of_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page <= 0)
        return UINT64_C(1) << 30;
    return (uint64_t)pages * (uint64_t)page / 2;
}

static bool create_locks(ph__host_device *device)
{
    pthread_mutex_t *locks[] = {&device->streams_lock, &device->memory_lock, &device->capture_lock};
    for (size_t i = 0; i < sizeof locks / sizeof *locks; i++) {
        if (pthread_mutex_init(locks[i], NULL) == 0)
            continue;
        while (i-- > 0)
            pthread_mutex_destroy(locks[i]);
        return false;
    }
    return true;
}

static void destroy_locks(ph__host_device *device)
{
    pthread_mutex_destroy(&device->streams_lock);
    pthread_mutex_destroy(&device->memory_lock);
    pthread_mutex_destroy(&device->capture_lock);
}

static bool create_parts(ph__host_device *device)
{
    ph__drv_stream *legacy;
    device->markers = ph__host_marker_pool_create();
    if (!device->markers ||
        ph__host_stream_create(&legacy, (ph__drv_device *)device, PH__STREAM_BLOCKING, 0))
        return false;
    device->legacy = (ph__host_stream *)legacy;
    device->legacy->is_legacy = true;
    atomic_fetch_sub(&device->live_handles, 1); /* the handle has no owner */
    if (device->options.chaos_seed)
        device->chaos = ph__host_chaos_create(device, device->options.chaos_seed);
    else
        device->workers = ph__workers_create(device->options.threads);
    return device->chaos || device->workers;
}

static void free_streams(ph__host_device *device)
{
    for (size_t i = 0; i < device->streams.count; i++)
        ph__host_stream_stop(device->streams.at[i]);
    for (size_t i = 0; i < device->streams.count; i++)
        ph__host_stream_free(device->streams.at[i]);
    ph__vec_free(&device->streams);
}

/* Also for a device that was created halfway. */
static void destroy_device(ph__host_device *device)
{
    ph__host_chaos_destroy(device->chaos);
    free_streams(device);
    ph__workers_destroy(device->workers);
    ph__host_marker_pool_close(device->markers);
    ph__host_kernels_drop_kept(device);
    ph__host_memory_free_all(device);
    ph__vec_free(&device->captures);
    destroy_locks(device);
    ph__free(device);
}

int ph__host_device_open(ph__drv_device **out, uint32_t ordinal,
                         const ph__drv_device_options *options)
{
    if (ordinal != 0)
        return PH__R_INVALID_DEVICE;
    if (options && options->threads > MOST_THREADS) {
        ph__driver_set_reason("%u threads; at most %d", (unsigned)options->threads, MOST_THREADS);
        return PH__R_INVALID_VALUE;
    }
    ph__host_device *device = ph__calloc(1, sizeof *device);
    if (!device)
        return PH__R_OUT_OF_MEMORY;
    if (options)
        device->options = *options;
    device->processors = ph__cpu_count();
    if (device->options.threads == 0)
        device->options.threads =
            device->processors < MOST_THREADS ? device->processors : MOST_THREADS;
    if (device->options.memory_bytes == 0)
        device->options.memory_bytes = half_of_memory();
    if (device->processors > 1 && device->options.threads <= device->processors)
        device->spins = SPINS;
    if (!create_locks(device)) {
        ph__free(device);
        return PH__R_OUT_OF_MEMORY;
    }
    if (!create_parts(device)) {
        destroy_device(device);
        return PH__R_OUT_OF_MEMORY;
    }
    *out = (ph__drv_device *)device;
    return 0;
}

void ph__host_device_close(ph__drv_device *handle)
{
    ph__host_device *device = (ph__host_device *)handle;
    if (!device)
        return;
    ph__host_streams_wait(device);
    destroy_device(device);
}

void ph__host_device_wait_streams(ph__drv_device *handle)
{
    ph__host_streams_wait((ph__host_device *)handle);
}

/* The processor's name as the kernel gives it, or that of the architecture. */
static void processor_name(char *out, size_t size)
{
    char line[256];
    (void)snprintf(out, size, "processor");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        const char *name = colon + 1 + strspn(colon + 1, " \t");
        (void)snprintf(out, size, "%.*s", (int)strcspn(name, "\n"), name);
        break;
    }
    (void)fclose(file);
}

int ph__host_device_info(ph__drv_device_info *out, ph__drv_device *handle)
{
    ph__host_device *device = (ph__host_device *)handle;
    int result = ph__host_rule(device, PH__RULE_DEVICE_INFO);
    if (result)
        return result;
    ph__drv_device_info info = {.memory_total = device->options.memory_bytes,
                                .threads = device->options.threads,
                                .priority_lowest = 0,
                                .priority_highest = PRIORITY_HIGHEST,
                                .segment_granularity = SEGMENT_GRANULARITY,
                                .multiprocessors = device->options.threads,
                                .shared_bytes_per_block_max = PH__HOST_SHARED_BYTES};
    processor_name(info.description, sizeof info.description);
    pthread_mutex_lock(&device->memory_lock);
    info.memory_free = info.memory_total - device->memory_used;
    pthread_mutex_unlock(&device->memory_lock);
    *out = info;
    return 0;
}

int ph__host_device_synchronize(ph__drv_device *handle)
{
    ph__host_device *device = (ph__host_device *)handle;
    int result = ph__host_rule(device, PH__RULE_DEVICE_SYNC);
    if (!result)
        result = ph__host_wait_check();
    if (!result)
        ph__host_streams_wait(device);
    return result;
}
