/* SPDX-License-Identifier: MIT */
/* driver/host/resource/probe_kernels.c: the kernels of probe nodes, as the core's kernels on a GPU
 * do it. */
#include "driver/host/resource/probe_kernels.h"
#include "driver/host/stream/entries.h"
#include <phonograph/inspect/locate.h>
#include <string.h>

static uint64_t next_tick(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

/* Read on other threads while it is written. */
static void store_word(uint64_t *at, uint64_t value)
{
    atomic_store_explicit((_Atomic uint64_t *)at, value, memory_order_release);
}

void ph__host_breadcrumb_fn(const ph_block_range *range, const void *args)
{
    const ph__drv_breadcrumb *breadcrumb = args;
    if (range->begin == 0 && breadcrumb->table)
        store_word(&breadcrumb->table[breadcrumb->number], next_tick());
}

/* ---- numbers ---- */
typedef struct numbers {
    size_t size;       /* bytes of one */
    uint64_t exponent; /* its bits, all of them set in a NaN or an infinity */
} numbers;

static numbers numbers_of(uint32_t type)
{
    static const numbers all[] = {[PH_NUMBER_F32] = {4, 0x7f800000},
                                  [PH_NUMBER_F64] = {8, UINT64_C(0x7ff0000000000000)},
                                  [PH_NUMBER_F16] = {2, 0x7c00},
                                  [PH_NUMBER_BF16] = {2, 0x7f80}};
    return all[type];
}

static uint64_t bits_at(const ph__drv_finite *check, size_t size, uint64_t index)
{
    const char *at = (const char *)check->address + index * size;
    uint16_t half;
    uint32_t single;
    uint64_t both;
    switch (size) {
    case sizeof half:
        memcpy(&half, at, sizeof half);
        return half;
    case sizeof single:
        memcpy(&single, at, sizeof single);
        return single;
    default:
        memcpy(&both, at, sizeof both);
        return both;
    }
}

/* Each block has a piece of the numbers of its own. */
static void check_block(const ph__drv_finite *check, uint64_t block, uint64_t blocks)
{
    const numbers of = numbers_of(check->type);
    uint64_t each = check->count / blocks, more = check->count % blocks;
    uint64_t begin = block * each + (block < more ? block : more),
             end = begin + each + (block < more ? 1 : 0);
    ph__drv_finite_part *part = &check->parts[block];
    uint64_t bad = 0, first = UINT64_MAX;
    for (uint64_t i = begin; i < end; i++) {
        if ((bits_at(check, of.size, i) & of.exponent) != of.exponent)
            continue;
        if (bad++ == 0)
            first = i;
    }
    store_word(&part->bad, bad);
    store_word(&part->first, first);
    store_word(&part->bits, bad ? bits_at(check, of.size, first) : 0);
    store_word(&part->tick, next_tick());
}

void ph__host_finite_fn(const ph_block_range *range, const void *args)
{
    const ph__drv_finite *check = args;
    uint64_t blocks = (uint64_t)range->grid[0] * range->grid[1] * range->grid[2];
    for (uint64_t block = range->begin; check->parts && block < range->end; block++)
        check_block(check, block, blocks);
}

int ph__host_kernel_probe(ph__drv_kernel **out, ph__drv_device *device, ph__probe_kernel which)
{
    static const ph_kernel_source sources[PH__PROBE_KERNELS] = {
        [PH__PROBE_BREADCRUMB] = {.name = "phonograph_breadcrumb",
                                  .host = ph__host_breadcrumb_fn,
                                  .args_size = sizeof(ph__drv_breadcrumb),
                                  .host_inline = true},
        [PH__PROBE_FINITE] = {.name = "phonograph_check_finite",
                              .host = ph__host_finite_fn,
                              .args_size = sizeof(ph__drv_finite),
                              .host_inline = true}};
    return ph__host_kernel_create(out, device, &sources[which]);
}
