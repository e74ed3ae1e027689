/* SPDX-License-Identifier: MIT */
/* serve/kernels.c: the kernels as the host runs them, and their parameters. */
#include "kernels.h"
#include <math.h>

static void embed_host(const ph_block_range *range, const void *args)
{
    const struct embed_args *a = args;
    for (uint64_t row = range->begin; row < range->end; row++)
        for (int i = 0; i < WIDTH; i++)
            a->x[row * WIDTH + (uint64_t)i] = a->table[a->tokens[row] * WIDTH + i];
}

static void product_host(const ph_block_range *range, const void *args)
{
    const struct product_args *a = args;
    for (uint64_t block = range->begin; block < range->end; block++) {
        const float *row = a->in + block * (uint64_t)a->inputs;
        for (int o = 0; o < a->outputs; o++) {
            float sum = 0, *to = a->out + block * (uint64_t)a->outputs + o;
            for (int i = 0; i < a->inputs; i++)
                sum += row[i] * a->weight[i * a->outputs + o];
            sum = a->add ? *to + sum : sum;
            *to = a->positive && !(sum > 0) ? 0 : sum;
        }
    }
}

static void attend_host(const ph_block_range *range, const void *args)
{
    const struct attend_args *a = args;
    float scores[MOST_STEPS], most = -INFINITY, total = 0, sums[WIDTH] = {0};
    (void)range; /* one block */
    for (int i = 0; i < WIDTH; i++) {
        a->keys[a->position * WIDTH + i] = a->key[i];
        a->values[a->position * WIDTH + i] = a->value[i];
    }
    for (int t = 0; t <= a->position; t++) {
        float sum = 0;
        for (int k = 0; k < WIDTH; k++)
            sum += a->query[k] * a->keys[t * WIDTH + k];
        scores[t] = sum / 8;
        most = scores[t] > most ? scores[t] : most;
    }
    for (int t = 0; t <= a->position; t++) {
        float weight = expf(scores[t] - most);
        total += weight;
        for (int i = 0; i < WIDTH; i++)
            sums[i] += weight * a->values[t * WIDTH + i];
    }
    for (int i = 0; i < WIDTH; i++)
        a->out[i] = sums[i] / total;
}

static void choose_host(const ph_block_range *range, const void *args)
{
    const struct choose_args *a = args;
    for (uint64_t block = range->begin; block < range->end; block++) {
        const float *row = a->scores + block * TOKENS;
        int32_t best = 0;
        for (int32_t i = 1; i < TOKENS; i++)
            best = row[i] > row[best] ? i : best;
        a->tokens[block] = best;
    }
}

#define ADDRESS(type, member) PH_PARAM(struct type, member, PH_PARAM_ADDRESS)
#define VALUE(type, member)   PH_PARAM(struct type, member, PH_PARAM_VALUE)
static const ph_param embed_params[] = {ADDRESS(embed_args, tokens), ADDRESS(embed_args, table),
                                        ADDRESS(embed_args, x)};
static const ph_param product_params[] = {
    ADDRESS(product_args, in),     ADDRESS(product_args, weight), ADDRESS(product_args, out),
    VALUE(product_args, inputs),   VALUE(product_args, outputs),  VALUE(product_args, add),
    VALUE(product_args, positive),
};
static const ph_param attend_params[] = {
    ADDRESS(attend_args, query),  ADDRESS(attend_args, key),    ADDRESS(attend_args, value),
    ADDRESS(attend_args, keys),   ADDRESS(attend_args, values), ADDRESS(attend_args, out),
    VALUE(attend_args, position),
};
static const ph_param choose_params[] = {ADDRESS(choose_args, scores),
                                         ADDRESS(choose_args, tokens)};

#define SOURCE(kernel)                                                                             \
    {                                                                                              \
        .name = #kernel, .cuda = kernels_cuda, .cuda_options = kernels_cuda_options,               \
        .host = kernel##_host, .args_size = sizeof(struct kernel##_args),                          \
        .params = kernel##_params,                                                                 \
        .param_count = sizeof kernel##_params / sizeof kernel##_params[0]                          \
    }
const ph_kernel_source kernel_sources[KERNELS] = {[EMBED] = SOURCE(embed),
                                                  [PRODUCT] = SOURCE(product),
                                                  [ATTEND] = SOURCE(attend),
                                                  [CHOOSE] = SOURCE(choose)};
