/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/transfers.c: reading copies and fills back from the driver. */
#include "driver/cuda/nodes/transfers.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/nodes/graph.h"

/* The first byte of one side; NULL for an array, which has no address. */
static void *first_byte(int type, const void *host, ph__cu_pointer device, size_t x, size_t y,
                        size_t z, size_t pitch, size_t height)
{
    if (type != PH__CU_MEMORY_HOST && type != PH__CU_MEMORY_DEVICE && type != PH__CU_MEMORY_UNIFIED)
        return NULL;
    uintptr_t base = type == PH__CU_MEMORY_HOST ? (uintptr_t)host : (uintptr_t)device;
    return (void *)(base + x + (y + z * height) * pitch);
}

int ph__cuda_decode_copy(ph__drv_node *out)
{
    ph__cu_copy_params params = {0};
    int result = ph__cu.GraphMemcpyNodeGetParams(out->handle, &params);
    if (result != PH__R_OK)
        return result;
    size_t rows = params.height ? params.height : 1, planes = params.depth ? params.depth : 1;
    ph__drv_memcpy *copy = &out->info.copy;
    copy->dst = first_byte(params.dst_type, params.dst_host, params.dst_device, params.dst_x_bytes,
                           params.dst_y, params.dst_z, params.dst_pitch, params.dst_height);
    copy->src = first_byte(params.src_type, params.src_host, params.src_device, params.src_x_bytes,
                           params.src_y, params.src_z, params.src_pitch, params.src_height);
    copy->bytes = params.width_bytes * rows * planes;
    out->is_plain_copy = copy->dst && copy->src && rows == 1 && planes == 1;
    out->info.strided = !out->is_plain_copy;
    out->info.to = (ph__drv_rows){params.width_bytes, rows, params.dst_pitch, planes,
                                  params.dst_pitch * params.dst_height};
    out->info.from = (ph__drv_rows){params.width_bytes, rows, params.src_pitch, planes,
                                    params.src_pitch * params.src_height};
    out->dst_type = params.dst_type;
    out->src_type = params.src_type;
    return PH__R_OK;
}

int ph__cuda_decode_fill(ph__drv_node *out)
{
    ph__cu_fill_params params = {0};
    int result = ph__cu.GraphMemsetNodeGetParams(out->handle, &params);
    out->is_rows_fill = params.height > 1;
    if (result == PH__R_OK)
        out->info.fill =
            (ph__drv_memset){.dst = (void *)(uintptr_t)params.dst,
                             .value = params.value,
                             .value_size = params.element_bytes,
                             .count = params.width * (params.height ? params.height : 1)};
    out->info.strided = out->is_rows_fill;
    out->info.to =
        (ph__drv_rows){params.width * params.element_bytes, params.height, params.pitch, 1, 0};
    return result;
}
