/* SPDX-License-Identifier: MIT */
/* nn/optimizer/count.c: counters of steps on the host, and the host form of the kernel that
 * derives numbers from them. */
#include "nn/optimizer/count.h"
#include "nn/optimizer/cell.h"
#include "tensor/backend/texts.h"
#include <math.h>

#define HOST
#define FN(type) static inline type
#include "tensor/cuda/optimizer_count.cu"

void ph__count_derive(double *counter, const double *number, double lr, ph__count_rule rule)
{
    ph_optimizer_derive(counter, number, lr, (int)rule);
}

void ph__count_on(double *counter)
{
    counter[0]++;
    for (size_t k = 0; k < PH__COUNT_KEPT; k++)
        counter[1 + k] = counter[PH__COUNT_AT_NEXT + k];
}

static void ph_optimizer_count(const ph_block_range *range, const void *args)
{
    const ph__count_args *a = args;
    double lr = a->lr_at ? ph__double_of(*a->lr_at) : a->lr;
    int64_t end = (int64_t)range->end * range->block[0];
    end = end < a->count ? end : a->count;
    for (int64_t i = (int64_t)range->begin * range->block[0]; i < end; i++)
        if (a->mask[i / 64] >> (i % 64) & 1)
            ph_optimizer_derive(a->counters + i * PH__COUNT_SIZE, a->number, lr, (int)a->rule);
}

static const ph_param params[] = {PH_PARAM(ph__count_args, counters, PH_PARAM_ADDRESS),
                                  PH_PARAM(ph__count_args, lr_at, PH_PARAM_ADDRESS),
                                  PH_PARAM(ph__count_args, lr, PH_PARAM_VALUE),
                                  PH_PARAM(ph__count_args, number, PH_PARAM_VALUE),
                                  PH_PARAM(ph__count_args, count, PH_PARAM_VALUE),
                                  PH_PARAM(ph__count_args, mask, PH_PARAM_VALUE),
                                  PH_PARAM(ph__count_args, rule, PH_PARAM_VALUE)};
ph__kernel_def ph__count_kernel = {
    .name = "ph_optimizer_count",
    .cuda = (const char *const[]){"#define KERNEL ph_optimizer_count\n"
                                  "#define FN(type) __device__ __forceinline__ type\n",
                                  ph__text_optimizer_count, NULL},
    .host = ph_optimizer_count,
    .args_size = sizeof(ph__count_args),
    .params = params,
    .param_count = sizeof params / sizeof params[0],
    .cuda_options = "-fmad=false"};
ph__kernel_def *const ph__count_kernels[] = {&ph__count_kernel, NULL};
