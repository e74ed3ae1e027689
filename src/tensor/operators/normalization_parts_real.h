/* SPDX-License-Identifier: MIT */
/* tensor/operators/normalization_parts_real.h: included by normalization_kernels.c behind
 * normalization_real.h: the gradients of weight and bias on the host. */

static void OF(parts_block)(const ph__normalize_parts_args *a, ph_dtype dtype, ph_dtype out,
                            int64_t block, int64_t column, int64_t m)
{
    REAL x_buffer[TILE], g_buffer[TILE], weight[TILE] = {0}, bias[TILE] = {0};
    int64_t end = (block + 1) * a->rows_a_block < a->rows ? (block + 1) * a->rows_a_block : a->rows;
    for (int64_t row = block * a->rows_a_block; row < end; row++) {
        const REAL *x = OF(ph__load)(dtype, a->x, row * a->n + column, m, x_buffer);
        const REAL *g = OF(ph__load)(out, a->g, row * a->n + column, m, g_buffer);
        REAL mean = a->means ? ((const REAL *)a->means)[row] : 0,
             scale = ((const REAL *)a->scales)[row];
        for (int64_t k = 0; k < m; k++) {
            weight[k] += g[k] * ((x[k] - mean) * scale);
            bias[k] += g[k];
        }
    }
    REAL *parts = (REAL *)a->parts + block * a->n + column;
    memcpy(parts, weight, (size_t)m * sizeof *parts);
    memcpy(parts + a->row_blocks * a->n, bias, (size_t)m * sizeof *parts);
}

static void OF(parts_dx)(const ph__normalize_parts_args *a, ph_dtype dtype, ph_dtype out,
                         int64_t block)
{
    ph__normalize_args args = {.x = a->x,
                               .w = a->w,
                               .b = a->g,
                               .y = a->dx,
                               .plus = a->plus,
                               .means = (void *)(uintptr_t)a->means,
                               .scales = (void *)(uintptr_t)a->scales,
                               .n = a->n,
                               .centered = a->means != NULL};
    int64_t first = block * a->rows_a_block, end = first + a->rows_a_block;
    for (int64_t row = first; row < end && row < a->rows; row++)
        OF(norm_row_grad)(&args, dtype, out, row);
}

static void OF(parts_blocks)(const ph_block_range *range, const void *args, ph_dtype dtype,
                             ph_dtype out)
{
    const ph__normalize_parts_args *a = args;
    int64_t width = tile_columns(dtype);
    for (int64_t block = (int64_t)range->begin; block < (int64_t)range->end; block++) {
        int64_t first = block % a->tiles * width, end = a->dx ? a->n : first + width;
        for (int64_t column = first; column < end && column < a->n; column += width) {
            int64_t m = a->n - column < width ? a->n - column : width;
            OF(parts_block)(a, dtype, out, block / a->tiles, column, m);
        }
        if (a->dx)
            OF(parts_dx)(a, dtype, out, block);
    }
}

static void OF(parts_host)(const ph_block_range *range, const void *args, ph_dtype dtype)
{
    OF(parts_blocks)(range, args, dtype, dtype);
}

static void OF(parts_total_host)(const ph_block_range *range, const void *args, ph_dtype dtype)
{
    const ph__normalize_total_args *a = args;
    for (int64_t block = (int64_t)range->begin; block < (int64_t)range->end; block++) {
        int64_t which = block >= a->tiles, column = (block - which * a->tiles) * TOTAL_COLUMNS;
        int64_t m = a->n - column < TOTAL_COLUMNS ? a->n - column : TOTAL_COLUMNS;
        void *out = which ? a->bias : a->weight;
        REAL sum[TOTAL_COLUMNS] = {0};
        if (!out)
            continue;
        for (int64_t b = 0; b < a->row_blocks; b++) {
            const REAL *part = (const REAL *)a->parts + (which * a->row_blocks + b) * a->n + column;
            for (int64_t k = 0; k < m; k++)
                sum[k] += part[k];
        }
        REAL to[TOTAL_COLUMNS], *place = OF(ph__place)(dtype, out, column, to);
        memcpy(place, sum, (size_t)m * sizeof *sum);
        OF(ph__stored)(dtype, out, column, m, to);
    }
}
