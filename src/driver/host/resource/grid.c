/* SPDX-License-Identifier: MIT */
/* driver/host/resource/grid.c: running the blocks of a grid. */
#include "driver/host/resource/grid.h"
#include "base/clock.h"
#include "driver/host/stream/chaos.h"

enum {
    PIECES_PER_LANE = 8,
    CHAOS_PIECES = 64
};
/* Work left that is worth handing out, by whether the workers spin or must be woken; and how
 * long pieces run between looks at the clock. */
static const double WORTH_AWAKE_NS = 50e3, WORTH_ASLEEP_NS = 150e3, PIECE_NS = 20e3;

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
            left_ns > (ph__workers_awake(workers, lanes) ? WORTH_AWAKE_NS : WORTH_ASLEEP_NS) &&
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
