/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/core.c: the kernels of the library itself: loading them, and how they are
 * launched. */
#include "driver/cuda/load/core.h"
#include "base/alloc.h"
#include "base/fork.h"
#include "base/log.h"
#include "driver/cuda/load/core_kernels.h"
#include "driver/cuda/load/device.h"

enum {
    FILL_BLOCK_THREADS = 256,
    FILL_GRID_BLOCKS = 4096, /* at most: each thread goes on after them */
    STORE_BYTES = 16,
    WARP_THREADS = 32
};

typedef struct ph__cuda_core {
    ph__cu_module module;
    ph__cu_function fill, few_cells, many_cells, probes[PH__PROBE_KERNELS];
} ph__cuda_core;

static int find_core_kernels(ph__cuda_core *core)
{
    int result = ph__cu.ModuleGetFunction(&core->fill, core->module, "ph_core_fill");
    if (result == PH__R_OK)
        result = ph__cu.ModuleGetFunction(&core->few_cells, core->module, "ph_core_cells_8");
    if (result == PH__R_OK)
        result = ph__cu.ModuleGetFunction(&core->many_cells, core->module, "ph_core_cells_60");
    if (result == PH__R_OK)
        result = ph__cu.ModuleGetFunction(&core->probes[PH__PROBE_BREADCRUMB], core->module,
                                          "phonograph_breadcrumb");
    if (result == PH__R_OK)
        result = ph__cu.ModuleGetFunction(&core->probes[PH__PROBE_FINITE], core->module,
                                          "phonograph_check_finite");
    return result;
}

/* Legal in a capture, as loading a user's kernel is. */
static int load_core_module(ph__cuda_core *core, const ph__drv_device *device)
{
    ph__cuda_scope scope;
    int mode = ph__cuda_relax(), result = ph__cuda_enter(&scope, device);
    if (result == PH__R_OK) {
        result = ph__cu.ModuleLoadDataEx(&core->module, ph__core_kernels_ptx, 0, NULL, NULL);
        if (result == PH__R_OK) {
            result = find_core_kernels(core);
            if (result != PH__R_OK)
                (void)ph__cu.ModuleUnload(core->module);
        }
        ph__cuda_leave(&scope);
    }
    ph__cuda_unrelax(mode);
    return result;
}

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
PH__FORK_LOCK(PH__FORK_CUDA_CORE, making)

/* Two threads that come first at once load it one after the other: the lock is for nothing else. */
static int make_core(ph__cuda_core **out, ph__drv_device *device)
{
    int result = PH__R_OK;
    pthread_mutex_lock(&making);
    ph__cuda_core *core = atomic_load_explicit(&device->core, memory_order_acquire);
    if (!core) {
        core = ph__calloc(1, sizeof *core);
        result = core ? load_core_module(core, device) : PH__R_OUT_OF_MEMORY;
        if (result == PH__R_OK)
            atomic_store_explicit(&device->core, core, memory_order_release);
        else
            ph__free(core);
    }
    pthread_mutex_unlock(&making);
    *out = core;
    return result;
}

static int get_core(ph__cuda_core **out, ph__drv_device *device)
{
    *out = atomic_load_explicit(&device->core, memory_order_acquire);
    return *out ? PH__R_OK : make_core(out, device);
}

int ph__cuda_core_fill(ph__cu_function *out, ph__drv_device *device)
{
    ph__cuda_core *core;
    int result = get_core(&core, device);
    if (result == PH__R_OK)
        *out = core->fill;
    return result;
}

int ph__cuda_core_cells(ph__cu_function *out, ph__drv_device *device, unsigned room)
{
    ph__cuda_core *core;
    int result = get_core(&core, device);
    if (result == PH__R_OK)
        *out = room == PH__CELLS_FEW ? core->few_cells : core->many_cells;
    return result;
}

int ph__cuda_core_probe(ph__cu_function *out, ph__drv_device *device, ph__probe_kernel which)
{
    ph__cuda_core *core;
    int result = get_core(&core, device);
    if (result == PH__R_OK)
        *out = core->probes[which];
    return result;
}

/* Loading code can wait for host functions that are running (seen on driver 580), so that doing
 * it inside the first capture could hang a program whose host function waits for that capture.
 * Where it cannot be loaded now, fills are memset nodes. */
void ph__cuda_core_load(ph__drv_device *device)
{
    ph__cuda_core *unused;
    if (get_core(&unused, device) == PH__R_OK)
        return;
    ph__driver_clear_reason();
    ph__log(
        PH_LOG_INFO,
        "cuda: the library's own kernels could not be loaded: captured fills become memset nodes");
}

ph__cu_function ph__cuda_core_fill_if_loaded(ph__drv_device *device)
{
    const ph__cuda_core *core = atomic_load_explicit(&device->core, memory_order_acquire);
    return core ? core->fill : NULL;
}

/* A thread for every wide store, and enough for the bytes before and after them: up to 15 each. */
void ph__cuda_fill_dimensions(unsigned *grid, unsigned *block, const ph__cuda_fill_args *args)
{
    uint64_t stores = args->count * args->value_size / STORE_BYTES + 1;
    uint64_t blocks = (stores + FILL_BLOCK_THREADS - 1) / FILL_BLOCK_THREADS;
    grid[0] = blocks < FILL_GRID_BLOCKS ? (unsigned)blocks : FILL_GRID_BLOCKS;
    block[0] = FILL_BLOCK_THREADS;
    if (stores < FILL_BLOCK_THREADS)
        block[0] = ((unsigned)stores + WARP_THREADS - 1) / WARP_THREADS * WARP_THREADS;
    grid[1] = grid[2] = block[1] = block[2] = 1;
}

void ph__cuda_core_close(ph__drv_device *device)
{
    ph__cuda_core *core = atomic_exchange(&device->core, NULL);
    ph__cuda_scope scope;
    if (!core)
        return;
    int mode = ph__cuda_relax();
    if (ph__cuda_enter(&scope, device) == PH__R_OK) {
        (void)ph__cu.ModuleUnload(core->module);
        ph__cuda_leave(&scope);
    }
    ph__cuda_unrelax(mode);
    ph__free(core);
}
