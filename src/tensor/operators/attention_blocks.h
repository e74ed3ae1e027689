/* SPDX-License-Identifier: MIT */
/* tensor/operators/attention_blocks.h: attention's blocks in C, once for each type to compute
 * in: C, NAME(x), EXP(x), LOG(x) and EXP_ROW are defined by attention_host.c, which includes
 * attention_pieces.h and this twice. */

static void NAME(forward)(const ph__attention_args *p, const place *at, ph_dtype dtype,
                          void *scratch)
{
    C *sum = scratch, *s = sum + p->rows * p->d, *most = s + p->rows * STEP,
      *total = most + p->rows;
    void *packing = total + p->rows;
    int64_t d = p->d;
    for (int64_t i = 0; i < at->count; i++) {
        most[i] = -INFINITY;
        total[i] = 0;
    }
    memset(sum, 0, (size_t)(at->count * d) * sizeof(C));
    int64_t end = p->causal ? last_key(p, at->first + at->count - 1) + 1 : p->tk;
    for (int64_t from = 0; from < end; from += STEP) {
        int64_t n = end - from < STEP ? end - from : STEP;
        const ph__view keys = view_part(&at->k, from, 0), values = view_part(&at->v, from, 0);
        NAME(scores)(s, &at->q, &keys, at->count, n, d, (C)p->scale, packing);
        for (int64_t i = 0; i < at->count; i++) {
            int64_t seen = seen_keys(p, at->first + i, from, n);
            for (int64_t j = seen; j < n; j++)
                s[i * STEP + j] = -INFINITY;
            NAME(fold)(s + i * STEP, n, sum + i * d, d, &most[i], &total[i]);
        }
        NAME(mix)(sum, s, false, &values, at->count, n, d, packing);
    }
    C *lse = (C *)p->lse + at->row;
    for (int64_t i = 0; i < at->count; i++) {
        C factor = total[i] == 0 ? (C)0 : 1 / total[i];
        for (int64_t c = 0; c < d; c++)
            sum[i * d + c] *= factor;
        lse[i] = total[i] == 0 ? -(C)INFINITY : most[i] + LOG(total[i]);
    }
    NAME(store)((void *)(uintptr_t)at->o.at, p->o_s[2], dtype, sum, at->count, d);
}

static void NAME(queries)(const ph__attention_args *p, const place *at, ph_dtype dtype,
                          void *scratch)
{
    C *sum = scratch, *s = sum + p->rows * p->d, *ds = s + p->rows * STEP;
    void *packing = ds + p->rows * STEP;
    int64_t d = p->d;
    C *delta = (C *)p->delta + at->row;
    const C *lse = (const C *)p->lse + at->row;
    NAME(deltas)(delta, &at->o, &at->g, at->count, d);
    if (!p->dq)
        return;
    memset(sum, 0, (size_t)(at->count * d) * sizeof(C));
    int64_t end = p->causal ? last_key(p, at->first + at->count - 1) + 1 : p->tk;
    for (int64_t from = 0; from < end; from += STEP) {
        int64_t n = end - from < STEP ? end - from : STEP;
        const ph__view keys = view_part(&at->k, from, 0), values = view_part(&at->v, from, 0);
        NAME(scores)(s, &at->q, &keys, at->count, n, d, (C)p->scale, packing);
        NAME(scores)(ds, &at->g, &values, at->count, n, d, 1, packing);
        for (int64_t i = 0; i < at->count; i++)
            NAME(weigh)
        (s + i * STEP, ds + i * STEP, seen_keys(p, at->first + i, from, n), n, lse[i], delta[i],
         (C)p->scale);
        NAME(mix)(sum, ds, false, &keys, at->count, n, d, packing);
    }
    NAME(store)(at->dq, p->dq_s[2], dtype, sum, at->count, d);
}

/* Keys [at->first, at->first + at->count) against pieces of the queries of every head that
 * shares them. */
static void NAME(keys)(const ph__attention_args *p, place *at, ph_dtype dtype, void *scratch)
{
    C *dk = scratch, *dv = dk + p->rows * p->d, *s = dv + p->rows * p->d, *ds = s + QUERIES * STEP;
    void *packing = ds + QUERIES * STEP;
    int64_t d = p->d;
    memset(dk, 0, (size_t)(at->count * d) * sizeof(C));
    memset(dv, 0, (size_t)(at->count * d) * sizeof(C));
    for (uint32_t head = 0; head < p->heads / p->kv_heads; head++) {
        find_queries(at, p, dtype, head);
        for (int64_t from = first_query(p, at->first) / QUERIES * QUERIES; from < p->tq;
             from += QUERIES) {
            int64_t m = p->tq - from < QUERIES ? p->tq - from : QUERIES;
            const ph__view q = view_part(&at->q, from, 0), g = view_part(&at->g, from, 0);
            const C *lse = (const C *)p->lse + at->row + from,
                    *delta = (const C *)p->delta + at->row + from;
            NAME(scores)(s, &q, &at->k, m, at->count, d, (C)p->scale, packing);
            NAME(scores)(ds, &g, &at->v, m, at->count, d, 1, packing);
            for (int64_t i = 0; i < m; i++)
                NAME(weigh)
            (s + i * STEP, ds + i * STEP, seen_keys(p, from + i, at->first, at->count), at->count,
             lse[i], delta[i], (C)p->scale);
            NAME(mix)(dv, s, true, &g, at->count, m, d, packing);
            NAME(mix)(dk, ds, true, &q, at->count, m, d, packing);
        }
    }
    NAME(store)(at->dk, p->dk_s[2], dtype, dk, at->count, d);
    NAME(store)(at->dv, p->dv_s[2], dtype, dv, at->count, d);
}
