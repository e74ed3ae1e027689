/* SPDX-License-Identifier: MIT */
/* tensor/random/randperm.c: random permutations: short ones by sorting random keys, long ones by a
 * network that gives each element by itself. */
#include "tensor/backend/kernels.h"
#include "tensor/backend/texts.h"
#include "tensor/core/tensor.h"
#include "tensor/generator/draw.h"
#include "tensor/random/op_draw.h"
#include "tensor/random/permutation.h"
#include "tensor/random/philox.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"

typedef struct short_args {
    int64_t *out;
    PH__DRAW_MEMBERS;
    uint64_t count;
} short_args;
typedef struct long_args {
    int64_t *out;
    PH__DRAW_MEMBERS;
    uint64_t count;
    uint32_t high_bits, low_bits;
} long_args;
static const ph_param short_params[] = {PH_PARAM(short_args, out, PH_PARAM_ADDRESS),
                                        PH_PARAM(short_args, seed_cell, PH_PARAM_ADDRESS),
                                        PH_PARAM(short_args, offset_cell, PH_PARAM_ADDRESS)};
static const ph_param long_params[] = {PH_PARAM(long_args, out, PH_PARAM_ADDRESS),
                                       PH_PARAM(long_args, seed_cell, PH_PARAM_ADDRESS),
                                       PH_PARAM(long_args, offset_cell, PH_PARAM_ADDRESS)};

/* ---- short ---- one block */
static void short_host(const ph_block_range *range, const void *args)
{
    const short_args *p = args;
    u64 keys[PH__SHORT_PERMUTATION];
    if (range->begin != 0)
        return;
    ph__words_u64(keys, PH__DRAW_SEED(p), PH__DRAW_BLOCK(p), 0, (size_t)(p->count + 3) / 4);
    ph__permutation_sort(p->out, keys, (size_t)p->count);
}

/* ---- long ---- all of a block at a time; those that are not below count go through again,
 * together. */
PH__HOST_KERNEL(long_host)
{
    const long_args *p = args;
    const u32 high_mask = (u32)((UINT64_C(1) << p->high_bits) - 1);
    const u32 low_mask = (u32)((UINT64_C(1) << p->low_bits) - 1);
    u32 keys[PH_SHUFFLE_STEPS], high[PH__DRAW_ELEMENTS], low[PH__DRAW_ELEMENTS],
        place[PH__DRAW_ELEMENTS];
    u64 first;
    ph__words_u32(keys, PH__DRAW_SEED(p), PH__DRAW_BLOCK(p), 0, PH_SHUFFLE_STEPS / 4);
    for (u64 block = range->begin; block < range->end; block++) {
        size_t n = ph__draw_part(&first, block, p->count);
        for (size_t i = 0; i < n; i++) {
            high[i] = (u32)((first + i) >> p->low_bits);
            low[i] = (u32)(first + i) & low_mask;
            place[i] = (u32)i;
        }
        while (n > 0) {
            size_t again = 0;
            for (size_t i = 0; i < n; i++)
                ph_shuffle_steps(&high[i], &low[i], keys, high_mask, low_mask);
            for (size_t i = 0; i < n; i++) {
                u64 x = (u64)high[i] << p->low_bits | low[i];
                u32 h = high[i], l = low[i], to = place[i];
                p->out[first + to] = (i64)x;
                high[again] = h;
                low[again] = l;
                place[again] = to;
                again += x >= p->count;
            }
            n = again;
        }
    }
}

static ph__kernel_def short_def = {
    .name = "ph_random_short_permutation",
    .cuda = (const char *const[]){"#define KERNEL ph_random_short_permutation\n"
                                  "#define SHORT_PERMUTATION\n",
                                  ph__text_draws, ph__text_random, NULL},
    .host = short_host,
    .args_size = sizeof(short_args),
    .params = short_params,
    .param_count = 3};
static ph__kernel_def long_def = {.name = "ph_random_permutation",
                                  .cuda =
                                      (const char *const[]){"#define KERNEL ph_random_permutation\n"
                                                            "#define PERMUTATION\n",
                                                            ph__text_draws, ph__text_random, NULL},
                                  .host = long_host,
                                  .args_size = sizeof(long_args),
                                  .params = long_params,
                                  .param_count = 3};
PH__KERNEL_FAMILY(randperm) = {&short_def, &long_def, NULL};

static bool launch_randperm(ph__op *op, ph_tensor *y, const ph__draw *draw)
{
    uint64_t count = (uint64_t)y->count;
    if (count <= PH__SHORT_PERMUTATION) {
        const short_args args = {
            .out = (int64_t *)(void *)y->data, PH__DRAW_VALUES(*draw), .count = count};
        return ph__op_launch(op, &short_def, 1, PH__DRAW_THREADS, 0, &args);
    }
    uint32_t bits = 64 - (uint32_t)__builtin_clzll(count - 1);
    const long_args args = {.out = (int64_t *)(void *)y->data,
                            PH__DRAW_VALUES(*draw),
                            .count = count,
                            .high_bits = bits / 2,
                            .low_bits = bits - bits / 2};
    return ph__op_launch(op, &long_def, (count + PH__DRAW_ELEMENTS - 1) / PH__DRAW_ELEMENTS,
                         PH__DRAW_THREADS, 0, &args);
}

ph_tensor *ph_randperm(ph_tape *tape, int64_t count)
{
    ph__op op;
    ph__draw draw;
    if (!ph__op_begin(&op, tape, "randperm", NULL, 0, 0))
        return NULL;
    if (count < 0)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "%lld numbers", (long long)count);
    ph_tensor *y = ph__op_output(&op, PH_DTYPE_I64, &PH_SHAPE(count));
    if (!y || (count > 0 && (!ph__op_draw(&draw, &op, 2) || !launch_randperm(&op, y, &draw))))
        return NULL;
    return ph__op_done(&op, y);
}
