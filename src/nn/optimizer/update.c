/* SPDX-License-Identifier: MIT */
/* nn/optimizer/update.c: which part of which tensor a block updates, and what a launch takes. */
#include "nn/optimizer/update.h"
#include "nn/optimizer/cell.h"
#include "tensor/backend/each.h"

static uint32_t tensor_of(const ph__update_args *a, uint64_t block)
{
    uint32_t low = 0, high = a->tensors;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (a->first[middle] <= block)
            low = middle;
        else
            high = middle;
    }
    return low;
}

bool ph__update_skips(const ph__update_args *a)
{
    return a->found_inf && *a->found_inf != 0;
}

float ph__update_unscale(const ph__update_args *a)
{
    return a->grad_scale ? (float)(1.0 / (double)*a->grad_scale) : 1;
}

ph__update_part ph__update_part_of(const ph__update_args *a, uint64_t block)
{
    uint32_t i = tensor_of(a, block);
    int64_t begin = (int64_t)(block - a->first[i]) * PH__OPTIMIZER_CHUNK,
            left = a->count[i] - begin;
    ph__update_part p = {.tensor = i,
                         .begin = begin,
                         .count = left < PH__OPTIMIZER_CHUNK ? left : PH__OPTIMIZER_CHUNK,
                         .lr = a->lr_at ? ph__double_of(*a->lr_at) : a->lr};
    double *counter = a->counters ? a->counters + (size_t)a->counter[i] * PH__COUNT_SIZE : NULL;
    for (size_t k = 0; k < PH__COUNT_DERIVED; k++)
        p.derived[k] = counter ? counter[PH__COUNT_AT_DERIVED + k] : a->derived[k];
    if (counter && begin == 0)
        ph__count_on(counter);
    if (a->steps && block == 0)
        ++*a->steps;
    return p;
}

/* ---- what a launch takes ---- */
#define ADDRESS(array, i) PH_PARAM(ph__update_args, array[i], PH_PARAM_ADDRESS),
#define VALUE(member)     PH_PARAM(ph__update_args, member, PH_PARAM_VALUE)
const ph_param ph__update_params[] = {PH__EACH_64(ADDRESS, param) PH__EACH_64(ADDRESS, grad)
                                          PH_PARAM(ph__update_args, lr_at, PH_PARAM_ADDRESS),
                                      PH_PARAM(ph__update_args, counters, PH_PARAM_ADDRESS),
                                      PH_PARAM(ph__update_args, steps, PH_PARAM_ADDRESS),
                                      PH_PARAM(ph__update_args, grad_scale, PH_PARAM_ADDRESS),
                                      PH_PARAM(ph__update_args, found_inf, PH_PARAM_ADDRESS),
                                      VALUE(count),
                                      VALUE(lr),
                                      VALUE(number),
                                      VALUE(derived),
                                      VALUE(first),
                                      VALUE(counter),
                                      VALUE(tensors),
                                      VALUE(flags),
                                      PH__EACH_64(ADDRESS, state[0]) PH__EACH_64(ADDRESS, state[1])
                                          PH__EACH_64(ADDRESS, state[2])};
_Static_assert(sizeof ph__update_params / sizeof ph__update_params[0] ==
                   PH__UPDATE_PARAMS(PH__OPTIMIZER_STATES),
               "each parameter is one of the list");
