/* SPDX-License-Identifier: MIT */
/* tensor/operators/softmax_columns_real.h: included by softmax.c once for float and once for
 * double: softmax on the host of rows that lie across memory. */

/* Up to 32 columns that lie side by side, line by line. */
static void OF(softmax_columns)(const softmax_args *a, ph_dtype dtype, int64_t at, int64_t width)
{
    REAL from[32], to[32], most[32], sum[32], shift[32];
    for (int64_t k = 0; k < width; k++) {
        most[k] = LOWEST;
        sum[k] = 0;
    }
    for (int64_t j = 0; j < a->n; j++) {
        const REAL *x = OF(ph__load)(dtype, a->x, at + j * a->inner, width, from);
        for (int64_t k = 0; k < width; k++)
            most[k] = x[k] > most[k] ? x[k] : most[k];
    }
    for (int64_t j = 0; j < a->n; j++) {
        const REAL *x = OF(ph__load)(dtype, a->x, at + j * a->inner, width, from);
        for (int64_t k = 0; k < width; k++)
            to[k] = x[k] - most[k];
        OF(ph__exps)(to, width);
        for (int64_t k = 0; k < width; k++)
            sum[k] += to[k];
    }
    for (int64_t k = 0; k < width; k++) {
        shift[k] = (REAL)log((double)sum[k]);
        sum[k] = 1 / sum[k];
    }
    for (int64_t j = 0; j < a->n; j++) {
        const REAL *x = OF(ph__load)(dtype, a->x, at + j * a->inner, width, from);
        REAL *y = OF(ph__place)(dtype, a->y, at + j * a->inner, to);
        for (int64_t k = 0; k < width; k++)
            y[k] = a->log ? (x[k] - most[k]) - shift[k] : x[k] - most[k];
        if (!a->log) {
            OF(ph__exps)(y, width);
            for (int64_t k = 0; k < width; k++)
                y[k] *= sum[k];
        }
        OF(ph__stored)(dtype, a->y, at + j * a->inner, width, y);
    }
}

static void OF(softmax_columns_grad)(const softmax_args *a, ph_dtype dtype, int64_t at,
                                     int64_t width)
{
    REAL x_buffer[32], g_buffer[32], to[32], e[32], sum[32] = {0};
    for (int64_t j = 0; j < a->n; j++) {
        const REAL *x = OF(ph__load)(dtype, a->x, at + j * a->inner, width, x_buffer);
        const REAL *g = OF(ph__load)(dtype, a->g, at + j * a->inner, width, g_buffer);
        for (int64_t k = 0; k < width; k++)
            sum[k] += a->log ? g[k] : x[k] * g[k];
    }
    for (int64_t j = 0; j < a->n; j++) {
        const REAL *x = OF(ph__load)(dtype, a->x, at + j * a->inner, width, x_buffer);
        const REAL *g = OF(ph__load)(dtype, a->g, at + j * a->inner, width, g_buffer);
        REAL *y = OF(ph__place)(dtype, a->y, at + j * a->inner, to);
        memcpy(e, x, (size_t)width * sizeof *e);
        if (a->log)
            OF(ph__exps)(e, width);
        for (int64_t k = 0; k < width; k++)
            y[k] = a->log ? g[k] - e[k] * sum[k] : x[k] * (g[k] - sum[k]);
        OF(ph__stored)(dtype, a->y, at + j * a->inner, width, y);
    }
}

/* A block's columns may belong to several outer indices. */
static void OF(softmax_across)(const ph_block_range *range, const softmax_args *a, ph_dtype dtype)
{
    int64_t column = (int64_t)range->begin * COLUMNS, end = (int64_t)range->end * COLUMNS;
    if (end > a->rows)
        end = a->rows;
    while (column < end) {
        int64_t outer = column / a->inner, inside = column % a->inner, width = a->inner - inside;
        width = width < COLUMNS ? width : COLUMNS;
        width = width < end - column ? width : end - column;
        if (a->g)
            OF(softmax_columns_grad)(a, dtype, outer * a->n * a->inner + inside, width);
        else
            OF(softmax_columns)(a, dtype, outer * a->n * a->inner + inside, width);
        column += width;
    }
}
