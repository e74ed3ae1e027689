/* SPDX-License-Identifier: MIT */
/* driver/host/resource/kernel.c: kernels, and the limits of a launch. */
#include "driver/host/resource/kernel.h"
#include "driver/host/resource/rules.h"
#include "driver/host/stream/entries.h"

/* The work of the core's kernels on a GPU, which have a thread for each cell. */
static void write_cells(const ph_block_range *range, const void *args)
{
    const ph__drv_cells *cells = args;
    for (uint64_t i = 0; range->begin == 0 && i < cells->count; i++)
        *cells->cells[i].at = cells->cells[i].value;
}

int ph__host_kernel_cells(ph__drv_kernel **out, ph__drv_device *device, unsigned room)
{
    const ph_kernel_source source = {.name = room == PH__CELLS_FEW ? "ph_core_cells_8"
                                                                   : "ph_core_cells_60",
                                     .host = write_cells,
                                     .args_size = ph__cells_args_size(room),
                                     .host_inline = true};
    return ph__host_kernel_create(out, device, &source);
}

int ph__host_kernel_create(ph__drv_kernel **out, ph__drv_device *handle,
                           const ph_kernel_source *source)
{
    ph__host_device *device = (ph__host_device *)handle;
    int result = ph__host_rule(device, PH__RULE_KERNEL_CREATE);
    if (result)
        return result;
    if (!source->host) {
        ph__driver_set_reason("set ph_kernel_source.host to a C function that runs blocks of it");
        return PH__R_NOT_SUPPORTED;
    }
    ph__host_kernel *kernel = ph__alloc(sizeof *kernel);
    char *name = kernel ? ph__strdup(source->name ? source->name : "") : NULL;
    if (!name) {
        ph__free(kernel);
        return PH__R_OUT_OF_MEMORY;
    }
    kernel->device = device;
    atomic_init(&kernel->references, 1);
    atomic_init(&kernel->kept, false);
    kernel->next_kept = NULL;
    kernel->name = name;
    kernel->fn = source->host;
    kernel->args_size = source->args_size;
    kernel->is_inline = source->host_inline;
    atomic_fetch_add(&device->live_handles, 1);
    *out = (ph__drv_kernel *)kernel;
    return 0;
}

void ph__host_kernel_retain(ph__host_kernel *kernel)
{
    atomic_fetch_add_explicit(&kernel->references, 1, memory_order_relaxed);
}

void ph__host_kernel_release(ph__host_kernel *kernel)
{
    if (atomic_fetch_sub_explicit(&kernel->references, 1, memory_order_acq_rel) != 1)
        return;
    ph__free(kernel->name);
    ph__free(kernel);
}

void ph__host_kernel_destroy(ph__drv_kernel *handle)
{
    ph__host_kernel *kernel = (ph__host_kernel *)handle;
    if (!kernel)
        return;
    atomic_fetch_sub(&kernel->device->live_handles, 1);
    ph__host_kernel_release(kernel);
}

/* Once for a kernel: the device's own reference. */
void ph__host_kernel_keep(ph__drv_kernel *handle)
{
    ph__host_kernel *kernel = (ph__host_kernel *)handle;
    if (!kernel || atomic_exchange(&kernel->kept, true))
        return;
    ph__host_kernel_retain(kernel);
    kernel->next_kept = atomic_load(&kernel->device->kept_kernels);
    while (
        !atomic_compare_exchange_weak(&kernel->device->kept_kernels, &kernel->next_kept, kernel)) {
    }
}

void ph__host_kernels_drop_kept(ph__host_device *device)
{
    ph__host_kernel *kernel = atomic_exchange(&device->kept_kernels, NULL);
    while (kernel) {
        ph__host_kernel *next = kernel->next_kept;
        ph__host_kernel_release(kernel);
        kernel = next;
    }
}

int ph__host_check_launch(const ph__host_kernel *kernel, const ph__drv_launch *launch)
{
    static const uint32_t grid_limits[3] = {2147483647u, 65535, 65535},
                          block_limits[3] = {1024, 1024, 64};
    for (int i = 0; i < 3; i++) {
        if (launch->grid[i] == 0 || launch->grid[i] > grid_limits[i] || launch->block[i] == 0 ||
            launch->block[i] > block_limits[i]) {
            ph__driver_set_reason("%s: grid %ux%ux%u, block %ux%ux%u; at most "
                                  "2147483647x65535x65535 and 1024x1024x64",
                                  kernel->name, launch->grid[0], launch->grid[1], launch->grid[2],
                                  launch->block[0], launch->block[1], launch->block[2]);
            return PH__R_INVALID_VALUE;
        }
    }
    uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
    if (threads > 1024) {
        ph__driver_set_reason("%s: %llu threads a block; at most 1024", kernel->name,
                              (unsigned long long)threads);
        return PH__R_INVALID_VALUE;
    }
    if (launch->shared_bytes > PH__HOST_SHARED_BYTES) {
        ph__driver_set_reason("%s: %zu bytes of shared memory; at most %d", kernel->name,
                              launch->shared_bytes, PH__HOST_SHARED_BYTES);
        return PH__R_INVALID_VALUE;
    }
    if (kernel->args_size > 0 && !launch->args) {
        ph__driver_set_reason("%s: arguments of %zu bytes are missing", kernel->name,
                              kernel->args_size);
        return PH__R_INVALID_VALUE;
    }
    return 0;
}
