/* SPDX-License-Identifier: MIT */
/* tensor/operators/cross_entropy_real.h: included by cross_entropy.c once for float and once for
 * double: its kernels on the host. */

static void OF(rows_blocks)(const ph_block_range *range, const void *args, ph_dtype dtype,
                            ph_dtype loss)
{
    const rows_args *a = args;
    REAL *saved = a->saved, *terms = a->terms;
    int64_t rows_a_block = a->width <= SHORT ? SHORT_ROWS : 1;
    int64_t row = (int64_t)range->begin * rows_a_block, end = (int64_t)range->end * rows_a_block;
    for (; row < end && row < a->rows; row++) {
        int64_t target = ph__index_at(a->targets, a->wide, row);
        REAL most = 0, sum = 0, term = 0;
        if (!(a->ignores && target == a->ignored)) {
            OF(ph__row_online)(dtype, a->logits, row * a->width, a->n, &most, &sum);
            bool inside = target >= 0 && target < a->n;
            term = inside ? (REAL)log((double)sum) -
                                (OF(ph__one)(dtype, a->logits, row * a->width + target) - most)
                          : (REAL)NAN;
            sum = inside ? 1 / sum : (REAL)NAN;
        }
        saved[2 * row] = most;
        saved[2 * row + 1] = sum;
        if (a->each)
            OF(ph__put_one)(loss, a->loss, row, term);
        else
            terms[row] = term;
    }
}

static void OF(rows_host)(const ph_block_range *range, const void *args, ph_dtype dtype)
{
    OF(rows_blocks)(range, args, dtype, dtype);
}

static void OF(total_host)(const ph_block_range *range, const void *args, ph_dtype dtype)
{
    const total_args *a = args;
    const REAL *terms = a->terms;
    (void)range;
    double sum = 0, count = 0;
    for (int64_t row = 0; row < a->rows; row++) {
        sum += (double)terms[row];
        count += a->ignores && ph__index_at(a->targets, a->wide, row) == a->ignored ? 0 : 1;
    }
    OF(ph__put_one)(dtype, a->loss, 0, (REAL)(a->mean ? sum / count : sum));
    *(REAL *)a->scale = (REAL)(a->mean ? 1 / count : 1);
}

static void OF(grad_piece)(const grad_args *a, ph_dtype dtype, ph_dtype loss, int64_t row,
                           int64_t from, int64_t to)
{
    const REAL *saved = a->saved;
    REAL buffer[PH__CHUNK], out[PH__CHUNK];
    int64_t target = ph__index_at(a->targets, a->wide, row);
    bool ignored = a->ignores && target == a->ignored;
    REAL most = saved[2 * row], inverse = saved[2 * row + 1];
    REAL scale =
        OF(ph__one)(loss, a->g, a->each ? row : 0) * (a->scale ? *(const REAL *)a->scale : 1);
    for (int64_t i = from; i < to; i += PH__CHUNK) {
        int64_t m = to - i < PH__CHUNK ? to - i : PH__CHUNK, at = row * a->width + i,
                real = a->n - i;
        REAL *d = OF(ph__place)(dtype, a->out, at, out);
        if (ignored) {
            for (int64_t k = 0; k < m; k++)
                d[k] = 0;
        } else {
            const REAL *x = OF(ph__load)(dtype, a->logits, at, m, buffer);
            REAL factor = inverse * scale;
            real = real < 0 ? 0 : real < m ? real : m;
            for (int64_t k = 0; k < real; k++)
                d[k] = x[k] - most;
            OF(ph__exps)(d, real);
            for (int64_t k = 0; k < real; k++)
                d[k] *= factor;
            for (int64_t k = real; k < m; k++)
                d[k] = 0;
            if (target >= i && target < i + real)
                d[target - i] = ((REAL)exp((double)(x[target - i] - most)) * inverse - 1) * scale;
        }
        OF(ph__stored)(dtype, a->out, at, m, d);
    }
}
