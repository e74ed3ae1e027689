/* SPDX-License-Identifier: MIT */
/* tensor/kernels/add_sorted_real.h: included by indexing_sort.c for each dtype: sums at sorted
 * places on the host. NAME: the dtype; REAL: what is added; GET(data, i), PUT(data, i, x). */

static void OF(add_run)(const add_sorted_args *a, int64_t outer, const uint32_t *order,
                        int64_t length, int64_t column, int64_t m, REAL *sum)
{
    for (int64_t k = 0; k < m; k++)
        sum[k] = 0;
    for (int64_t r = 0; r < length; r++) {
        int64_t from = (outer * a->total + order[r]) * a->inner + column;
        for (int64_t k = 0; k < m; k++)
            sum[k] = (REAL)(sum[k] + GET(a->src, from + k));
    }
}

static void OF(give)(void *out, int64_t at, int64_t m, bool onto, const REAL *sum)
{
    for (int64_t k = 0; k < m; k++) {
        REAL x = onto ? (REAL)(GET(out, at + k) + sum[k]) : sum[k];
        PUT(out, at + k, x);
    }
}

static void OF(add_sorted)(const ph_block_range *range, const void *args)
{
    const add_sorted_args *a = args;
    const uint32_t *keys = a->keys;
    int64_t end = (int64_t)range->end * JOBS < a->jobs ? (int64_t)range->end * JOBS : a->jobs;
    for (int64_t number = (int64_t)range->begin * JOBS; number < end; number++) {
        job j = job_of(number, a->total, a->tiles, a->inner, WIDTH);
        int64_t length;
        bool first;
        REAL sum[32 * WIDTH];
        if (keys[j.slot] >= a->n || !find_key_run(keys, j.slot, a->total, &length, &first))
            continue;
        OF(add_run)
        (a, j.outer, (const uint32_t *)a->order + j.slot, length < RUN ? length : RUN, j.column,
         j.many, sum);
        if (first && length <= RUN) {
            OF(give)
            (a->out, (j.outer * a->n + keys[j.slot]) * a->inner + j.column, j.many, a->onto != 0,
             sum);
        } else {
            int64_t runs = ph__ceil_div(a->total, RUN);
            REAL *part = (REAL *)a->parts +
                         ((j.outer * 2 + !first) * runs + j.slot / RUN) * a->inner + j.column;
            memcpy(part, sum, (size_t)j.many * sizeof *part);
        }
    }
}

/* The runs of a key: eight sums, of every eighth, and theirs. */
static void OF(add_runs)(const add_parts_args *a, int64_t outer, int64_t head, int64_t end,
                         int64_t column, int64_t m, REAL *sum)
{
    int64_t runs = ph__ceil_div(a->total, RUN);
    const REAL *first =
        (const REAL *)a->parts + (outer * 2 * runs + head / RUN) * a->inner + column;
    const REAL *others = (const REAL *)a->parts + (outer * 2 + 1) * runs * a->inner + column;
    REAL eight[8][32 * WIDTH] = {{0}};
    memcpy(eight[0], first, (size_t)m * sizeof *first);
    for (int64_t r = 1; head + r * RUN < end; r++) {
        const REAL *part = others + (head + r * RUN) / RUN * a->inner;
        for (int64_t k = 0; k < m; k++)
            eight[r % 8][k] = (REAL)(eight[r % 8][k] + part[k]);
    }
    for (int64_t k = 0; k < m; k++) {
        sum[k] = 0;
        for (int64_t w = 0; w < 8; w++)
            sum[k] = (REAL)(sum[k] + eight[w][k]);
    }
}

static void OF(add_parts)(const ph_block_range *range, const void *args)
{
    const add_parts_args *a = args;
    const uint32_t *keys = a->keys;
    int64_t slots = ph__ceil_div(a->total, RUN);
    for (int64_t block = (int64_t)range->begin; block < (int64_t)range->end; block++) {
        job j = job_of(block, slots, a->tiles, a->inner, WIDTH);
        int64_t slot = j.slot * RUN, head = slot, end = slot;
        uint32_t key = keys[slot];
        REAL sum[32 * WIDTH];
        while (head > 0 && slot - head < RUN && keys[head - 1] == key)
            head--;
        if (key >= a->n || slot - head == RUN || head + RUN >= a->total || keys[head + RUN] != key)
            continue;
        while (end < a->total && keys[end] == key)
            end++;
        OF(add_runs)(a, j.outer, head, end, j.column, j.many, sum);
        OF(give)(a->out, (j.outer * a->n + key) * a->inner + j.column, j.many, a->onto != 0, sum);
    }
}
