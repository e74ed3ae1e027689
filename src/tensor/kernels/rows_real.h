/* SPDX-License-Identifier: MIT */
/* tensor/kernels/rows_real.h: included by rows.h once for float and once for double: rows on the
 * host, in pieces. REAL: the type; OF: its names; LOWEST: its lowest finite number. */

static inline REAL OF(ph__one)(ph_dtype dtype, const void *data, int64_t at)
{
    REAL buffer;
    return *OF(ph__load)(dtype, data, at, 1, &buffer);
}

static inline void OF(ph__put_one)(ph_dtype dtype, void *data, int64_t at, REAL x)
{
    REAL buffer, *place = OF(ph__place)(dtype, data, at, &buffer);
    *place = x;
    OF(ph__stored)(dtype, data, at, 1, &buffer);
}

/* x, at most PH__CHUNK of them, as they would be stored. */
static inline void OF(ph__rounded)(ph_dtype dtype, REAL *x, int64_t n)
{
    uint16_t halves[PH__CHUNK];
    if (!ph__is_half(dtype))
        return;
    OF(ph__stored)(dtype, halves, 0, n, x);
    (void)OF(ph__load)(dtype, halves, 0, n, x);
}

/* ---- reductions of a piece ---- sixteen at a time, which is a vector or some; the order is the
 * same everywhere. */
static inline REAL OF(ph__most)(const REAL *x, int64_t n, REAL most)
{
    REAL part[16];
    int64_t i = 0;
    for (int k = 0; k < 16; k++)
        part[k] = most;
    for (; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++)
            part[k] = x[i + k] > part[k] ? x[i + k] : part[k];
    for (int k = 0; i < n; i++, k++)
        part[k] = x[i] > part[k] ? x[i] : part[k];
    for (int k = 0; k < 16; k++)
        most = part[k] > most ? part[k] : most;
    return most;
}

static inline REAL OF(ph__fold)(const REAL part[16])
{
    REAL eight[8], four[4];
    for (int k = 0; k < 8; k++)
        eight[k] = part[k] + part[k + 8];
    for (int k = 0; k < 4; k++)
        four[k] = eight[k] + eight[k + 4];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

/* Of EACH(i), for i < n. */
#define PH__SUM_OF(result, n, EACH)                                                                \
    do {                                                                                           \
        REAL part_[16] = {0};                                                                      \
        int64_t i_ = 0;                                                                            \
        for (; i_ + 16 <= (n); i_ += 16)                                                           \
            for (int k_ = 0; k_ < 16; k_++)                                                        \
                part_[k_] += EACH(i_ + k_);                                                        \
        for (int k_ = 0; i_ < (n); i_++, k_++)                                                     \
            part_[k_] += EACH(i_);                                                                 \
        (result) = OF(ph__fold)(part_);                                                            \
    } while (0)

/* Sum of e^(x - shift). */
static inline REAL OF(ph__exp_sum)(const REAL *x, int64_t n, REAL shift)
{
    REAL sum, e[PH__CHUNK];
    for (int64_t i = 0; i < n; i++)
        e[i] = x[i] - shift;
    OF(ph__exps)(e, n);
#define EACH(i) e[i]
    PH__SUM_OF(sum, n, EACH);
#undef EACH
    return sum;
}

/* Of a row that begins at element `at`: its largest element (at least the lowest finite number,
 * so that rows of -infinity give 0 / 0), and the sum of e^(x - most), whose pieces are added in
 * f64. */
static inline void OF(ph__row_online)(ph_dtype dtype, const void *x, int64_t at, int64_t n,
                                      REAL *most, REAL *sum)
{
    REAL buffer[PH__CHUNK], peak = LOWEST;
    double total = 0;
    for (int64_t i = 0; i < n; i += PH__CHUNK) {
        int64_t m = n - i < PH__CHUNK ? n - i : PH__CHUNK;
        const REAL *piece = OF(ph__load)(dtype, x, at + i, m, buffer);
        REAL higher = OF(ph__most)(piece, m, peak);
        total = total * exp((double)(peak - higher)) + (double)OF(ph__exp_sum)(piece, m, higher);
        peak = higher;
    }
    *most = peak;
    *sum = (REAL)total;
}
