/* SPDX-License-Identifier: MIT */
/* tensor/operators/mse_real.h: included by mse.c once for float and once for double: its kernels
 * on the host. */

static REAL OF(square_sum)(const squares_args *s, ph_dtype dtype, int64_t begin, int64_t end)
{
    REAL a_buffer[PH__CHUNK], b_buffer[PH__CHUNK], part;
    double total = 0;
    for (int64_t i = begin; i < end; i += PH__CHUNK) {
        int64_t m = end - i < PH__CHUNK ? end - i : PH__CHUNK;
        const REAL *a = OF(ph__load)(dtype, s->a, i, m, a_buffer),
                   *b = OF(ph__load)(dtype, s->b, i, m, b_buffer);
#define SQUARE(k) (a[k] - b[k]) * (a[k] - b[k])
        PH__SUM_OF(part, m, SQUARE);
#undef SQUARE
        total += (double)part;
    }
    return (REAL)total;
}

static void OF(squares_host)(const ph_block_range *range, const void *args, ph_dtype dtype)
{
    const squares_args *s = args;
    for (int64_t block = (int64_t)range->begin; block < (int64_t)range->end; block++) {
        int64_t begin = block * s->piece, end = begin + s->piece < s->n ? begin + s->piece : s->n;
        ((REAL *)s->parts)[block] = OF(square_sum)(s, dtype, begin, end);
    }
}

static void OF(squares_total_host)(const ph_block_range *range, const void *args, ph_dtype dtype)
{
    const total_args *t = args;
    double sum = 0;
    (void)range;
    for (int64_t i = 0; i < t->count; i++)
        sum += (double)((const REAL *)t->parts)[i];
    OF(ph__put_one)(dtype, t->loss, 0, (REAL)(sum / (double)t->n));
}

static void OF(squares_grad_host)(const ph_block_range *range, const void *args, ph_dtype dtype)
{
    const grad_args *s = args;
    REAL a_buffer[PH__CHUNK], b_buffer[PH__CHUNK], to_buffer[PH__CHUNK];
    REAL factor = 2 / (REAL)s->n * OF(ph__one)(dtype, s->g, 0);
    int64_t begin = (int64_t)range->begin * s->piece, end = (int64_t)range->end * s->piece;
    end = end < s->n ? end : s->n;
    for (int64_t i = begin; i < end; i += PH__CHUNK) {
        int64_t m = end - i < PH__CHUNK ? end - i : PH__CHUNK;
        const REAL *a = OF(ph__load)(dtype, s->a, i, m, a_buffer),
                   *b = OF(ph__load)(dtype, s->b, i, m, b_buffer);
        if (s->da) {
            REAL *to = OF(ph__place)(dtype, s->da, i, to_buffer);
            for (int64_t k = 0; k < m; k++)
                to[k] = (a[k] - b[k]) * factor;
            OF(ph__stored)(dtype, s->da, i, m, to);
        }
        if (s->db) {
            REAL *to = OF(ph__place)(dtype, s->db, i, to_buffer);
            for (int64_t k = 0; k < m; k++)
                to[k] = -((a[k] - b[k]) * factor);
            OF(ph__stored)(dtype, s->db, i, m, to);
        }
    }
}
