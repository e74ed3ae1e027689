/* SPDX-License-Identifier: MIT */
/* driver/host/resource/body.c: copies, fills and host functions as functions of a
 * kernel's shape. */
#include "driver/host/resource/body.h"
#include "driver/driver.h"
#include <string.h>

void ph__host_copy_fn(const ph_block_range *range, const void *args)
{
    (void)range;
    const ph__drv_memcpy *copy = args;
    memmove(copy->dst, copy->src, copy->bytes);
}

void ph__host_fill_fn(const ph_block_range *range, const void *args)
{
    (void)range;
    const ph__drv_memset *fill = args;
    if (fill->value_size == 1) {
        memset(fill->dst, (int)(fill->value & 0xff), fill->count);
        return;
    }
    uint32_t *words = fill->dst;
    for (size_t i = 0; i < fill->count; i++)
        words[i] = fill->value;
}

void ph__host_host_fn(const ph_block_range *range, const void *args)
{
    (void)range;
    const ph__drv_host *host = args;
    host->fn(host->user);
}

void ph__host_empty_fn(const ph_block_range *range, const void *args)
{
    (void)range;
    (void)args;
}
