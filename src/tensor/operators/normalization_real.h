/* SPDX-License-Identifier: MIT */
/* tensor/operators/normalization_real.h: included by normalization_kernels.c once for float
 * and once for double: layer_norm and rms_norm on the host. */

static REAL OF(row_mean)(const ph__normalize_args *a, ph_dtype dtype, int64_t at)
{
    REAL buffer[PH__CHUNK], part;
    double total = 0;
    for (int64_t i = 0; i < a->n; i += PH__CHUNK) {
        int64_t m = a->n - i < PH__CHUNK ? a->n - i : PH__CHUNK;
        const REAL *x = OF(ph__load)(dtype, a->x, at + i, m, buffer);
#define PLAIN(k) x[k]
        PH__SUM_OF(part, m, PLAIN);
#undef PLAIN
        total += (double)part;
    }
    return (REAL)(total / (double)a->n);
}

static REAL OF(row_scale)(const ph__normalize_args *a, ph_dtype dtype, int64_t at, REAL mean)
{
    REAL buffer[PH__CHUNK], part;
    double total = 0;
    for (int64_t i = 0; i < a->n; i += PH__CHUNK) {
        int64_t m = a->n - i < PH__CHUNK ? a->n - i : PH__CHUNK;
        const REAL *x = OF(ph__load)(dtype, a->x, at + i, m, buffer);
#define SQUARE(k) (x[k] - mean) * (x[k] - mean)
        PH__SUM_OF(part, m, SQUARE);
#undef SQUARE
        total += (double)part;
    }
    return (REAL)(1 / sqrt(total / (double)a->n + a->eps));
}

static void OF(norm_row)(const ph__normalize_args *a, ph_dtype dtype, ph_dtype out, int64_t row)
{
    REAL from[PH__CHUNK], w_buffer[PH__CHUNK], b_buffer[PH__CHUNK], to[PH__CHUNK];
    int64_t at = row * a->n;
    REAL mean = a->centered ? OF(row_mean)(a, dtype, at) : 0,
         scale = OF(row_scale)(a, dtype, at, mean);
    if (a->centered)
        ((REAL *)a->means)[row] = mean;
    ((REAL *)a->scales)[row] = scale;
    for (int64_t i = 0; i < a->n; i += PH__CHUNK) {
        int64_t m = a->n - i < PH__CHUNK ? a->n - i : PH__CHUNK;
        const REAL *x = OF(ph__load)(dtype, a->x, at + i, m, from);
        REAL *y = OF(ph__place)(out, a->y, at + i, to);
        for (int64_t k = 0; k < m; k++)
            y[k] = (x[k] - mean) * scale;
        if (a->w) {
            const REAL *w = OF(ph__load)(dtype, a->w, i, m, w_buffer);
            for (int64_t k = 0; k < m; k++)
                y[k] *= w[k];
        }
        if (a->b) {
            const REAL *b = OF(ph__load)(dtype, a->b, i, m, b_buffer);
            for (int64_t k = 0; k < m; k++)
                y[k] += b[k];
        }
        OF(ph__stored)(out, a->y, at + i, m, y);
    }
}

/* In backward b is the gradient of y. By weight, in buffer. */
static const REAL *OF(weighted)(const ph__normalize_args *a, ph_dtype dtype, ph_dtype out,
                                int64_t at, int64_t i, int64_t m, REAL *buffer)
{
    REAL w_buffer[PH__CHUNK];
    const REAL *g = OF(ph__load)(out, a->b, at + i, m, buffer);
    if (!a->w)
        return g;
    const REAL *w = OF(ph__load)(dtype, a->w, i, m, w_buffer);
    for (int64_t k = 0; k < m; k++)
        buffer[k] = g[k] * w[k];
    return buffer;
}

static void OF(norm_row_grad)(const ph__normalize_args *a, ph_dtype dtype, ph_dtype out,
                              int64_t row)
{
    REAL x_buffer[PH__CHUNK], g_buffer[PH__CHUNK], plus_buffer[PH__CHUNK], to[PH__CHUNK];
    int64_t at = row * a->n;
    REAL mean = a->centered ? ((const REAL *)a->means)[row] : 0,
         scale = ((const REAL *)a->scales)[row];
    double first = 0, second = 0;
    for (int64_t i = 0; i < a->n; i += PH__CHUNK) {
        int64_t m = a->n - i < PH__CHUNK ? a->n - i : PH__CHUNK;
        const REAL *x = OF(ph__load)(dtype, a->x, at + i, m, x_buffer),
                   *d = OF(weighted)(a, dtype, out, at, i, m, g_buffer);
        REAL part;
#define PLAIN(k)  d[k]
#define ACROSS(k) d[k] * ((x[k] - mean) * scale)
        PH__SUM_OF(part, m, PLAIN);
        first += (double)part;
        PH__SUM_OF(part, m, ACROSS);
        second += (double)part;
#undef PLAIN
#undef ACROSS
    }
    REAL less = a->centered ? (REAL)(first / (double)a->n) : 0,
         along = (REAL)(second / (double)a->n);
    for (int64_t i = 0; i < a->n; i += PH__CHUNK) {
        int64_t m = a->n - i < PH__CHUNK ? a->n - i : PH__CHUNK;
        const REAL *x = OF(ph__load)(dtype, a->x, at + i, m, x_buffer),
                   *d = OF(weighted)(a, dtype, out, at, i, m, g_buffer);
        const REAL *plus = a->plus ? OF(ph__load)(dtype, a->plus, at + i, m, plus_buffer) : NULL;
        for (int64_t k = 0; k < m; k++)
            to[k] = scale * (d[k] - less - (x[k] - mean) * scale * along);
        OF(ph__rounded)(dtype, to, m);
        REAL *dx = OF(ph__place)(dtype, a->y, at + i, to);
        for (int64_t k = 0; k < m; k++)
            dx[k] = plus ? plus[k] + to[k] : to[k];
        OF(ph__stored)(dtype, a->y, at + i, m, dx);
    }
}

static void OF(rows_host)(const ph_block_range *range, const ph__normalize_args *a, ph_dtype dtype,
                          ph_dtype out,
                          void (*work)(const ph__normalize_args *, ph_dtype, ph_dtype, int64_t))
{
    int64_t row = (int64_t)range->begin * a->rows_a_block,
            end = (int64_t)range->end * a->rows_a_block;
    for (; row < end && row < a->rows; row++)
        work(a, dtype, out, row);
}
static void OF(norm_blocks)(const ph_block_range *range, const void *args, ph_dtype dtype,
                            ph_dtype out)
{
    OF(rows_host)(range, args, dtype, out, OF(norm_row));
}
static void OF(norm_grad_blocks)(const ph_block_range *range, const void *args, ph_dtype dtype,
                                 ph_dtype out)
{
    OF(rows_host)(range, args, dtype, out, OF(norm_row_grad));
}
static void OF(norm_host)(const ph_block_range *range, const void *args, ph_dtype dtype)
{
    OF(norm_blocks)(range, args, dtype, dtype);
}
static void OF(norm_grad_host)(const ph_block_range *range, const void *args, ph_dtype dtype)
{
    OF(norm_grad_blocks)(range, args, dtype, dtype);
}
