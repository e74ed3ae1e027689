/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/unload.c: which kernels there are, and unloading the code of destroyed ones
 * once nothing can run it. */
#include "driver/cuda/load/unload.h"
#include "base/alloc.h"
#include "driver/cuda/load/device.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/load/layouts.h"

void ph__cuda_kernel_free(ph__drv_kernel *kernel)
{
    if (!kernel)
        return;
    ph__free(kernel->name);
    ph__free(kernel);
}

int ph__cuda_kernel_register(ph__drv_kernel *kernel)
{
    ph__drv_device *device = kernel->device;
    uint64_t key = (uintptr_t)kernel->function;
    pthread_mutex_lock(&device->lock);
    kernel->number = device->kernels++;
    kernel->next = ph__map_get(&device->functions, key);
    bool put = ph__map_put(&device->functions, key, kernel);
    pthread_mutex_unlock(&device->lock);
    return put ? PH__R_OK : PH__R_OUT_OF_MEMORY;
}

ph__drv_kernel *ph__cuda_kernel_of(ph__drv_device *device, ph__cu_function function,
                                   uint64_t before)
{
    if (!function)
        return NULL;
    pthread_mutex_lock(&device->lock);
    ph__drv_kernel *kernel = ph__map_get(&device->functions, (uintptr_t)function);
    while (kernel && kernel->number >= before)
        kernel = kernel->next;
    pthread_mutex_unlock(&device->lock);
    return kernel;
}

uint64_t ph__cuda_kernel_count(ph__drv_device *device)
{
    pthread_mutex_lock(&device->lock);
    uint64_t count = device->kernels;
    pthread_mutex_unlock(&device->lock);
    return count;
}

void ph__cuda_kernel_keep(ph__drv_kernel *kernel)
{
    atomic_store_explicit(&kernel->keep, true, memory_order_relaxed);
}

/* ---- unloading ---- */

/* Under the device's lock. */
static void unregister_kernel(const ph__drv_kernel *kernel)
{
    ph__map *functions = &kernel->device->functions;
    uint64_t key = (uintptr_t)kernel->function;
    ph__drv_kernel *newest = ph__map_get(functions, key);
    if (newest == kernel && kernel->next)
        (void)ph__map_put(functions, key, kernel->next); /* replaces, so it needs no memory */
    else if (newest == kernel)
        (void)ph__map_remove(functions, key);
    for (ph__drv_kernel *at = newest; at; at = at->next)
        if (at->next == kernel)
            at->next = kernel->next;
}

/* Under the device's lock. */
static void retire_kernel(ph__drv_kernel *kernel)
{
    kernel->next = kernel->device->retired;
    kernel->device->retired = kernel;
}

void ph__cuda_kernel_discard(ph__drv_kernel *kernel)
{
    if (kernel->module && atomic_load(&kernel->device->open_captures) > 0) {
        pthread_mutex_lock(&kernel->device->lock);
        retire_kernel(kernel);
        pthread_mutex_unlock(&kernel->device->lock);
        return;
    }
    if (kernel->module)
        (void)ph__cu.ModuleUnload(kernel->module);
    ph__cuda_kernel_free(kernel);
}

void ph__cuda_kernel_destroy(ph__drv_kernel *kernel)
{
    if (!kernel)
        return;
    ph__drv_device *device = kernel->device;
    pthread_mutex_lock(&device->lock);
    unregister_kernel(kernel);
    retire_kernel(kernel);
    pthread_mutex_unlock(&device->lock);
}

/* Gives what stays. */
static ph__drv_kernel *unload_retired(ph__drv_kernel *retired, bool kept_too)
{
    ph__drv_kernel *stay = NULL;
    for (ph__drv_kernel *kernel = retired, *next; kernel; kernel = next) {
        next = kernel->next;
        if (!kept_too && atomic_load_explicit(&kernel->keep, memory_order_relaxed)) {
            kernel->next = stay;
            stay = kernel;
            continue;
        }
        ph__cuda_layout_forget(kernel->device, kernel->function);
        if (kernel->module) /* else the user's function */
            (void)ph__cu.ModuleUnload(kernel->module);
        ph__cuda_kernel_free(kernel);
    }
    return stay;
}

static ph__drv_kernel *remove_retired(ph__drv_device *device)
{
    pthread_mutex_lock(&device->lock);
    ph__drv_kernel *retired = device->retired;
    device->retired = NULL;
    pthread_mutex_unlock(&device->lock);
    return retired;
}

static void put_back(ph__drv_device *device, ph__drv_kernel *retired)
{
    pthread_mutex_lock(&device->lock);
    while (retired) {
        ph__drv_kernel *next = retired->next;
        retired->next = device->retired;
        device->retired = retired;
        retired = next;
    }
    pthread_mutex_unlock(&device->lock);
}

int ph__cuda_synchronize(ph__drv_device *device)
{
    ph__cuda_scope scope;
    ph__drv_kernel *retired = remove_retired(device);
    int result = ph__cuda_enter(&scope, device);
    if (result == PH__R_OK) {
        ph__shared_lock(&device->idle);
        result = ph__cu.CtxSynchronize();
        ph__shared_unlock(&device->idle);
        /* A capture that has begun since is left in peace: unloading can wait. */
        if (result == PH__R_OK && retired && atomic_load(&device->open_captures) == 0) {
            int mode = ph__cuda_relax();
            retired = unload_retired(retired, false);
            ph__cuda_unrelax(mode);
        }
        ph__cuda_leave(&scope);
    }
    put_back(device, retired);
    return result;
}

void ph__cuda_kernels_close(ph__drv_device *device)
{
    ph__cuda_scope scope;
    int mode = ph__cuda_relax(), result = ph__cuda_enter(&scope, device);
    (void)unload_retired(remove_retired(device), true);
    if (result == PH__R_OK)
        ph__cuda_leave(&scope);
    ph__cuda_unrelax(mode);
    ph__map_free(&device->functions);
}
