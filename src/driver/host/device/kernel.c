/* SPDX-License-Identifier: MIT */
/* driver/host/device/kernel.c: kernels, the limits of a launch, and running the blocks of a
 * grid. */
#include "base/clock.h"
#include "driver/host/device/host.h"

enum {
    PIECES_PER_LANE = 8,
    CHAOS_PIECES = 64
};
/* Work left that is worth handing out, by whether the workers spin or must be woken; and how
 * long pieces run between looks at the clock. */
static const double WORTH_AWAKE_NS = 50e3, WORTH_ASLEEP_NS = 150e3, PIECE_NS = 20e3;

/* What the core's kernels on a GPU do with a thread for each cell. */
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
                                     .host_brief = true};
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
    kernel->brief = source->host_brief;
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

/* ---- grids ---- */

typedef struct grid_run {
    const ph__host_kernel *kernel;
    const void *args;
    ph_block_range range; /* begin: the first block not run; end: the number of blocks */
    size_t shared_bytes;
    ph__host_slices scratch;
    _Atomic uint64_t next; /* the first block that no lane has taken */
    uint64_t piece;
} grid_run;

static void run_blocks(const grid_run *run, unsigned lane, uint64_t begin, uint64_t end)
{
    ph_block_range range = run->range;
    range.begin = begin;
    range.end = end;
    if (run->shared_bytes)
        range.shared = run->scratch.at + lane * run->scratch.stride;
    run->kernel->fn(&range, run->args);
}

static void run_lane(void *context, unsigned lane)
{
    grid_run *run = context;
    for (;;) {
        uint64_t begin = atomic_load_explicit(&run->next, memory_order_relaxed);
        uint64_t end;
        do {
            if (begin >= run->range.end)
                return;
            end = run->range.end - begin < run->piece ? run->range.end : begin + run->piece;
        } while (!atomic_compare_exchange_weak_explicit(
            &run->next, &begin, end, memory_order_relaxed, memory_order_relaxed));
        run_blocks(run, lane, begin, end);
    }
}

/* Hands the rest of the grid to all threads; false when the workers are taken. */
static bool run_rest_on_workers(grid_run *run, ph__workers *workers, unsigned lanes)
{
    uint64_t left = run->range.end - run->range.begin;
    run->piece = left / ((uint64_t)lanes * PIECES_PER_LANE);
    if (run->piece == 0)
        run->piece = 1;
    atomic_store_explicit(&run->next, run->range.begin, memory_order_relaxed);
    return ph__workers_run(workers, lanes, run_lane, run);
}

/* Runs piece by piece, measuring, until the rest is short or the workers have taken it. */
static void run_measured(grid_run *run, ph__workers *workers)
{
    uint64_t total = run->range.end, piece = total / 64 ? total / 64 : 1;
    uint64_t start = ph__now_ns();
    while (run->range.begin < total) {
        uint64_t left = total - run->range.begin;
        if (piece > left)
            piece = left;
        run_blocks(run, 0, run->range.begin, run->range.begin + piece);
        run->range.begin += piece;
        left -= piece;
        double block_ns = (double)(ph__now_ns() - start) / (double)run->range.begin;
        double left_ns = block_ns * (double)left;
        unsigned lanes = ph__workers_count(workers);
        if (lanes > left)
            lanes = (unsigned)left;
        if (lanes > 1 &&
            left_ns > (ph__workers_awake(workers) ? WORTH_AWAKE_NS : WORTH_ASLEEP_NS) &&
            run_rest_on_workers(run, workers, lanes))
            return;
        piece = left_ns <= PIECE_NS ? left : (uint64_t)(PIECE_NS / block_ns);
        if (piece == 0)
            piece = 1;
    }
}

/* All pieces once, from a random one on, in steps that have no divisor in common with their
 * number. */
static void run_chaotic(const grid_run *run, ph__rng *rng)
{
    static const uint64_t steps[] = {67, 71, 73, 79, 83, 89}; /* primes above CHAOS_PIECES */
    uint64_t total = run->range.end;
    uint64_t pieces = 1 + ph__rng_below(rng, total < CHAOS_PIECES ? total : CHAOS_PIECES);
    uint64_t step = steps[ph__rng_below(rng, sizeof steps / sizeof *steps)];
    uint64_t at = ph__rng_below(rng, pieces);
    for (uint64_t i = 0; i < pieces; i++) {
        uint64_t size = total / pieces, more = total % pieces;
        uint64_t begin = at * size + (at < more ? at : more);
        run_blocks(run, 0, begin, begin + size + (at < more ? 1 : 0));
        at = (at + step) % pieces;
    }
}

void ph__host_run_grid(ph__host_device *device, const ph__host_kernel *kernel,
                       const ph__drv_launch *launch, ph__host_slices scratch)
{
    grid_run run = {.kernel = kernel,
                    .args = launch->args,
                    .shared_bytes = launch->shared_bytes,
                    .scratch = scratch};
    for (int i = 0; i < 3; i++) {
        run.range.grid[i] = launch->grid[i];
        run.range.block[i] = launch->block[i];
    }
    run.range.end = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    if (device->chaos)
        run_chaotic(&run, ph__host_chaos_rng(device->chaos));
    else if (run.range.end == 1 || ph__workers_count(device->workers) == 1)
        run_blocks(&run, 0, 0, run.range.end);
    else
        run_measured(&run, device->workers);
}
