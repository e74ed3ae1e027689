/* SPDX-License-Identifier: MIT */
/* tensor/operators/softmax_real.h: included by softmax.c once for float and once for double:
 * softmax on the host, forward and backward. */

/* Of a row that is not widened: the exponentials are written where the result goes, and divided
 * there. The sum's pieces are added in f64. */
static void OF(softmax_row_direct)(const softmax_args *a, int64_t at)
{
    const REAL *x = (const REAL *)a->x + at;
    REAL *y = (REAL *)a->y + at, most = OF(ph__row_most)(x, a->n, LOWEST);
    double total = 0;
    for (int64_t i = 0; i < a->n; i += PH__CHUNK) {
        int64_t m = a->n - i < PH__CHUNK ? a->n - i : PH__CHUNK;
        total += (double)OF(ph__row_exps)(y + i, x + i, m, most);
    }
    OF(ph__row_scale)(y, a->n, 1 / (REAL)total);
}

static void OF(softmax_row)(const softmax_args *a, ph_dtype dtype, int64_t at)
{
    if (!a->log && !ph__is_half(dtype)) {
        OF(softmax_row_direct)(a, at);
        return;
    }
    REAL from[PH__CHUNK], to[PH__CHUNK], most, sum;
    OF(ph__row_online)(dtype, a->x, at, a->n, &most, &sum);
    REAL scale = 1 / sum, shift = (REAL)log((double)sum);
    for (int64_t i = 0; i < a->n; i += PH__CHUNK) {
        int64_t m = a->n - i < PH__CHUNK ? a->n - i : PH__CHUNK;
        const REAL *x = OF(ph__load)(dtype, a->x, at + i, m, from);
        REAL *y = OF(ph__place)(dtype, a->y, at + i, to);
        for (int64_t k = 0; k < m; k++)
            y[k] = x[k] - most;
        if (a->log) {
            for (int64_t k = 0; k < m; k++)
                y[k] -= shift;
        } else {
            OF(ph__exps)(y, m);
            for (int64_t k = 0; k < m; k++)
                y[k] *= scale;
        }
        OF(ph__stored)(dtype, a->y, at + i, m, y);
    }
}

static void OF(softmax_row_grad)(const softmax_args *a, ph_dtype dtype, int64_t at)
{
    REAL x_buffer[PH__CHUNK], g_buffer[PH__CHUNK], to[PH__CHUNK], e[PH__CHUNK];
    double total = 0;
    for (int64_t i = 0; i < a->n; i += PH__CHUNK) {
        int64_t m = a->n - i < PH__CHUNK ? a->n - i : PH__CHUNK;
        const REAL *x = OF(ph__load)(dtype, a->x, at + i, m, x_buffer),
                   *g = OF(ph__load)(dtype, a->g, at + i, m, g_buffer);
        REAL part;
#define PLAIN(k)    g[k]
#define WEIGHTED(k) x[k] * g[k]
        if (a->log)
            PH__SUM_OF(part, m, PLAIN);
        else
            PH__SUM_OF(part, m, WEIGHTED);
#undef PLAIN
#undef WEIGHTED
        total += (double)part;
    }
    REAL sum = (REAL)total;
    for (int64_t i = 0; i < a->n; i += PH__CHUNK) {
        int64_t m = a->n - i < PH__CHUNK ? a->n - i : PH__CHUNK;
        const REAL *x = OF(ph__load)(dtype, a->x, at + i, m, x_buffer),
                   *g = OF(ph__load)(dtype, a->g, at + i, m, g_buffer);
        REAL *y = OF(ph__place)(dtype, a->y, at + i, to);
        if (a->log) {
            memcpy(e, x, (size_t)m * sizeof *e);
            OF(ph__exps)(e, m);
        }
        if (a->log)
            for (int64_t k = 0; k < m; k++)
                y[k] = g[k] - e[k] * sum;
        else
            for (int64_t k = 0; k < m; k++)
                y[k] = x[k] * (g[k] - sum);
        OF(ph__stored)(dtype, a->y, at + i, m, y);
    }
}

static void OF(softmax_host)(const ph_block_range *range, const void *args, ph_dtype dtype)
{
    const softmax_args *a = args;
    if (a->inner > 1) {
        OF(softmax_across)(range, a, dtype);
        return;
    }
    int64_t rows_a_block = a->n <= SMALL ? SMALL_ROWS : 1;
    int64_t row = (int64_t)range->begin * rows_a_block, end = (int64_t)range->end * rows_a_block;
    for (; row < end && row < a->rows; row++) {
        if (a->g)
            OF(softmax_row_grad)(a, dtype, row * a->n);
        else
            OF(softmax_row)(a, dtype, row * a->n);
    }
}
