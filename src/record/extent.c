/* SPDX-License-Identifier: MIT */
/* record/extent.c: how much memory a node's kernel uses from an address on, as it was declared. */
#include "record/extent.h"
#include <string.h>

const ph_param *ph__record_param(const ph__record_node *node, size_t offset)
{
    const ph_kernel *kernel = node->kernel;
    size_t low = 0, high = kernel ? kernel->param_count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const ph_param *param = &kernel->params[middle];
        if (param->offset == offset)
            return param->kind == PH_PARAM_ADDRESS ? param : NULL;
        *(param->offset < offset ? &low : &high) = param->offset < offset ? middle + 1 : middle;
    }
    return NULL;
}

static size_t size_at(const ph_kernel *kernel, size_t offset)
{
    size_t low = 0, high = kernel->param_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(kernel->params[middle].offset <= offset ? &low : &high) = middle;
    }
    return kernel->params[low].size;
}

bool ph__record_extent(uint64_t *out, const ph__record_node *node, const ph_param *param)
{
    const ph_param_access *access = &param->access;
    uint64_t count = 1;
    if (access->bytes == 0 || node->info.args == NULL)
        return false;
    if (access->count) {
        const char *at = (const char *)node->info.args + access->count - 1;
        uint32_t small;
        if (size_at(node->kernel, access->count - 1) == sizeof small) {
            memcpy(&small, at, sizeof small);
            count = small;
        } else {
            memcpy(&count, at, sizeof count);
        }
    }
    return !__builtin_mul_overflow(count, (uint64_t)access->bytes, out);
}
