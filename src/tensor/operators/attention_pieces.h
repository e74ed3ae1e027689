/* SPDX-License-Identifier: MIT */
/* tensor/operators/attention_pieces.h: included by attention_host.c once for each type to compute
 * in, before attention_blocks.h: work on pieces of a block. Products of pieces are
 * ph__plain_product's. */

/* s[i][j] = scale * sum_c x[i][c] y[j][c]. */
static void NAME(scores)(C *s, const ph__view *x, const ph__view *y, int64_t m, int64_t n,
                         int64_t d, C scale, void *packing)
{
    const ph__view turned = {y->at, y->dtype, y->column, y->row};
    for (int64_t i = 0; i < m; i++)
        memset(s + i * STEP, 0, (size_t)n * sizeof(C));
    ph__plain_product(x, &turned, m, n, d, s, STEP, packing);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            s[i * STEP + j] *= scale;
}

/* sum[i][c] += sum_j p[i][j] y[j][c]; turned: p[j][i]. */
static void NAME(mix)(C *sum, const C *p, bool turned, const ph__view *y, int64_t m, int64_t n,
                      int64_t d, void *packing)
{
    const ph__view weights = {p, COMPUTE, turned ? 1 : STEP, turned ? STEP : 1};
    for (int64_t c = 0; c < d; c += PH__PLAIN_TILE) {
        const ph__view columns = view_part(y, 0, c);
        ph__plain_product(&weights, &columns, m, d - c < PH__PLAIN_TILE ? d - c : PH__PLAIN_TILE, n,
                          sum + c, d, packing);
    }
}

/* Rows of d, which lie `stride` apart. */
static void NAME(store)(void *to, int64_t stride, ph_dtype dtype, const C *from, int64_t rows,
                        int64_t d)
{
    for (int64_t i = 0; dtype == COMPUTE && i < rows; i++)
        memcpy((C *)to + i * stride, from + i * d, (size_t)d * sizeof(C));
    if (dtype != COMPUTE)
        ph__narrow(to, dtype, stride, (const float *)(const void *)from, d, rows, d);
}

/* One more piece of keys for a row: its scores become weights, and what was summed before is
 * scaled to the new maximum. */
static void NAME(fold)(C *s, int64_t n, C *sum, int64_t d, C *most, C *total)
{
    C high = *most, all = 0;
    for (int64_t j = 0; j < n; j++)
        high = s[j] > high ? s[j] : high;
    EXP_ROW(s, high == -INFINITY ? (C)0 : high, n);
    for (int64_t j = 0; j < n; j++)
        all += s[j];
    C factor = *most == -INFINITY ? (C)0 : EXP(*most - high);
    *total = *total * factor + all;
    *most = high;
    for (int64_t c = 0; factor != 1 && c < d; c++)
        sum[c] *= factor;
}

/* Of scores: weights in s, and in ds what their gradient is: weight * (dw - delta) * scale. */
static void NAME(weigh)(C *s, C *ds, int64_t seen, int64_t n, C lse, C delta, C scale)
{
    if (lse == -INFINITY)
        seen = 0;
    EXP_ROW(s, lse, seen);
    for (int64_t j = seen; j < n; j++)
        s[j] = ds[j] = 0;
    for (int64_t j = 0; j < seen; j++)
        ds[j] = s[j] * (ds[j] - delta) * scale;
}

/* The sum of o g, of each row. */
static void NAME(deltas)(C *out, const ph__view *o, const ph__view *g, int64_t rows, int64_t d)
{
    for (int64_t i = 0; i < rows; i++) {
        C sum = 0;
        for (int64_t c = 0; c < d; c++)
            sum += (C)view_element(o, i, c) * (C)view_element(g, i, c);
        out[i] = sum;
    }
}
