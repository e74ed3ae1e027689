/* SPDX-License-Identifier: MIT */
/* tensor/kernels/bundle.c: many contiguous pairs of memory copied, or added, in one launch: the
 * host form, and what a launch takes. */
#include "tensor/kernels/bundle.h"
#include "base/half.h"
#include "tensor/backend/each.h"
#include "tensor/backend/kernels.h"
#include "tensor/backend/texts.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"

/* ---- host ---- */
#define ADD_REAL(NAME, T)                                                                          \
    static void add_##NAME(void *restrict dst_, const void *restrict src_, size_t count)           \
    {                                                                                              \
        T *restrict dst = dst_;                                                                    \
        const T *restrict src = src_;                                                              \
        for (size_t i = 0; i < count; i++)                                                         \
            dst[i] += src[i];                                                                      \
    }
#define ADD_HALF(NAME)                                                                             \
    static void add_##NAME(void *restrict dst_, const void *restrict src_, size_t count)           \
    {                                                                                              \
        uint16_t *restrict dst = dst_;                                                             \
        const uint16_t *restrict src = src_;                                                       \
        for (size_t i = 0; i < count; i++)                                                         \
            dst[i] = ph__##NAME##_put(ph__##NAME##_get(dst[i]) + ph__##NAME##_get(src[i]));        \
    }
ADD_REAL(f32, float)
ADD_REAL(f64, double)
ADD_HALF(f16)
ADD_HALF(bf16)

static void run_bundle_pair(char *dst, const char *src, size_t count, ph_dtype dtype, bool adds)
{
    if (adds && dtype == PH_DTYPE_F32)
        add_f32(dst, src, count);
    else if (adds && dtype == PH_DTYPE_F64)
        add_f64(dst, src, count);
    else if (adds && dtype == PH_DTYPE_F16)
        add_f16(dst, src, count);
    else if (adds && dtype == PH_DTYPE_BF16)
        add_bf16(dst, src, count);
    else
        memcpy(dst, src, count * ph_dtype_size(dtype));
}

/* The last pair that begins at or before the block: empty ones begin where the next one does. */
static uint32_t pair_of(const ph__bundle_args *a, uint64_t block)
{
    uint32_t low = 0, high = a->used;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (a->first[middle] <= block)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void ph_nn_bundle(const ph_block_range *range, const void *args)
{
    const ph__bundle_args *a = args;
    for (uint64_t block = range->begin; block < range->end; block++) {
        uint32_t i = pair_of(a, block);
        if (a->op[i] == PH__BUNDLE_SKIP)
            continue;
        ph_dtype dtype = (ph_dtype)a->dtype[i];
        size_t size = ph_dtype_size(dtype), whole = PH__BUNDLE_CHUNK / size;
        size_t begin = (size_t)(block - a->first[i]) * whole, left = a->count[i] - begin;
        run_bundle_pair((char *)a->dst[i] + begin * size, (const char *)a->src[i] + begin * size,
                        left < whole ? left : whole, dtype, a->op[i] == PH__BUNDLE_ADD);
    }
}

/* ---- what a launch takes ---- */
#define ADDRESS(array, i) PH_PARAM(ph__bundle_args, array[i], PH_PARAM_ADDRESS),
#define VALUE(member)     PH_PARAM(ph__bundle_args, member, PH_PARAM_VALUE)
static const ph_param params[] = {PH__EACH_96(ADDRESS, src) PH__EACH_96(ADDRESS, dst) VALUE(count),
                                  VALUE(first), VALUE(used), VALUE(dtype), VALUE(op)};
static ph__kernel_def bundle = {.name = PH__BUNDLE_KERNEL,
                                .cuda = (const char *const[]){ph__text_bundle, NULL},
                                .host = ph_nn_bundle,
                                .args_size = sizeof(ph__bundle_args),
                                .params = params,
                                .param_count = sizeof params / sizeof params[0]};
ph__kernel_def *const ph__bundle_kernels[] = {&bundle, NULL};

/* ---- launching ---- */
/* Gives the number of blocks. */
static uint64_t fill_bundle_args(ph__bundle_args *a, const ph__bundle_pair *pairs, uint32_t count)
{
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < count; i++) {
        const ph__bundle_pair *p = &pairs[i];
        uint64_t whole = PH__BUNDLE_CHUNK / ph_dtype_size(p->dtype);
        a->src[i] = p->src;
        a->dst[i] = p->dst;
        a->count[i] = (uint64_t)p->count;
        a->dtype[i] = (uint8_t)p->dtype;
        a->op[i] = p->op == PH__BUNDLE_ADD && !ph_dtype_is_floating(p->dtype)
                       ? (uint8_t)PH__BUNDLE_COPY
                       : (uint8_t)p->op;
        a->first[i] = (uint32_t)blocks;
        blocks += (a->count[i] + whole - 1) / whole;
    }
    a->used = count;
    a->first[count] = (uint32_t)blocks;
    return blocks;
}

bool ph__bundle_launch(ph_tape *tape, const ph__bundle_pair *pairs, size_t count)
{
    ph__op op;
    if (!ph__op_begin(&op, tape, "bundle", NULL, 0, 0))
        return false;
    for (size_t done = 0, part; done < count; done += part) {
        ph__bundle_args args;
        part = count - done < PH__BUNDLE_MAX ? count - done : PH__BUNDLE_MAX;
        memset(&args, 0, sizeof args);
        uint64_t blocks = fill_bundle_args(&args, pairs + done, (uint32_t)part);
        if (!ph__op_launch(&op, &bundle, blocks, PH__BUNDLE_THREADS, 0, &args))
            return false;
    }
    return true;
}
