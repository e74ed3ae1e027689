/* SPDX-License-Identifier: MIT */
/* tensor/products/products_plain.c: a product where no BLAS is: panels are packed, and small
 * tiles of the result stay in registers. */
#include "tensor/products/products_plain.h"
#include "base/half.h"

enum {
    ROWS = PH__PLAIN_ROWS,
    COLUMNS_F32 = 16,
    COLUMNS_F64 = 8,
    SCRATCH_ALIGN = 64
};
typedef float wide_f32 __attribute__((vector_size(64), aligned(4), may_alias));
typedef double wide_f64 __attribute__((vector_size(64), aligned(8), may_alias));

/* ---- packing ---- panels of `width` rows (of a) or columns (of b), each in order of k; what is
 * beyond the matrix is 0. `across` and `along` are the strides from line to line of the panel,
 * and along k. */
#define PACK(name, stored, computed, get)                                                          \
    static void name(computed *to, const stored *from, int64_t width, int64_t lines,               \
                     int64_t across, int64_t k, int64_t along)                                     \
    {                                                                                              \
        for (int64_t p = 0; p < k; p++)                                                            \
            for (int64_t i = 0; i < width; i++)                                                    \
                to[p * width + i] = i < lines ? get(from[p * along + i * across]) : (computed)0;   \
    }
#define SAME(x) (x)
PACK(pack_f32, float, float, SAME)
PACK(pack_f64, double, double, SAME)
PACK(pack_f16, uint16_t, float, ph__f16_get)
PACK(pack_bf16, uint16_t, float, ph__bf16_get)

/* Lines [first, first + lines) of the view, along k from `from`; rows: its lines are rows, else
 * columns. */
static void pack_lines(void *to, const ph__view *x, bool rows, int64_t width, int64_t first,
                       int64_t lines, int64_t from, int64_t k)
{
    int64_t across = rows ? x->row : x->column, along = rows ? x->column : x->row;
    int64_t offset = first * across + from * along;
    switch (x->dtype) {
    case PH_DTYPE_F64:
        pack_f64(to, (const double *)x->at + offset, width, lines, across, k, along);
        break;
    case PH_DTYPE_F16:
        pack_f16(to, (const uint16_t *)x->at + offset, width, lines, across, k, along);
        break;
    case PH_DTYPE_BF16:
        pack_bf16(to, (const uint16_t *)x->at + offset, width, lines, across, k, along);
        break;
    default:
        pack_f32(to, (const float *)x->at + offset, width, lines, across, k, along);
    }
}

/* ---- the inner product of two panels ---- one vector of the result for each row, in registers. */
#define PANELS(name, computed, wide, columns)                                                      \
    static inline __attribute__((always_inline)) void name(computed *c, int64_t ldc,               \
                                                           const computed *a, const computed *b,   \
                                                           int64_t rows, int64_t count, int64_t k) \
    {                                                                                              \
        wide sum[ROWS];                                                                            \
        for (int i = 0; i < ROWS; i++)                                                             \
            sum[i] = (wide){0};                                                                    \
        for (int64_t p = 0; p < k; p++) {                                                          \
            wide line = *(const wide *)(b + p * (columns));                                        \
            for (int i = 0; i < ROWS; i++)                                                         \
                sum[i] += a[p * ROWS + i] * line;                                                  \
        }                                                                                          \
        if (rows == ROWS && count == (columns)) {                                                  \
            for (int i = 0; i < ROWS; i++)                                                         \
                *(wide *)(c + i * ldc) += sum[i];                                                  \
            return;                                                                                \
        }                                                                                          \
        computed edge[ROWS][columns];                                                              \
        memcpy(edge, sum, sizeof edge);                                                            \
        for (int64_t i = 0; i < rows; i++)                                                         \
            for (int64_t j = 0; j < count; j++)                                                    \
                c[i * ldc + j] += edge[i][j];                                                      \
    }
PANELS(panels_f32, float, wide_f32, COLUMNS_F32)
PANELS(panels_f64, double, wide_f64, COLUMNS_F64)

typedef void panels_fn(void *c, int64_t ldc, const void *a, const void *b, int64_t rows,
                       int64_t count, int64_t k);
#define FORM(name, body, attribute)                                                                \
    attribute static void name(void *c, int64_t ldc, const void *a, const void *b, int64_t rows,   \
                               int64_t count, int64_t k)                                           \
    {                                                                                              \
        body(c, ldc, a, b, rows, count, k);                                                        \
    }
FORM(plain_f32, panels_f32, )
FORM(plain_f64, panels_f64, )
#if defined(__x86_64__)
FORM(avx2_f32, panels_f32, __attribute__((target("avx2,fma"))))
FORM(avx2_f64, panels_f64, __attribute__((target("avx2,fma"))))
FORM(avx512_f32, panels_f32, __attribute__((target("avx512f"))))
FORM(avx512_f64, panels_f64, __attribute__((target("avx512f"))))

static panels_fn *panels_form_of(bool f64)
{
    if (__builtin_cpu_supports("avx512f"))
        return f64 ? avx512_f64 : avx512_f32;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return f64 ? avx2_f64 : avx2_f32;
    return f64 ? plain_f64 : plain_f32;
}
#else
static panels_fn *panels_form_of(bool f64)
{
    return f64 ? plain_f64 : plain_f32;
}
#endif

size_t ph__plain_scratch(ph_dtype compute)
{
    return (size_t)PH__PLAIN_K * (PH__PLAIN_TILE + ROWS) * ph_dtype_size(compute) + SCRATCH_ALIGN;
}

void ph__plain_product(const ph__view *a, const ph__view *b, int64_t m, int64_t n, int64_t k,
                       void *c, int64_t ldc, void *scratch)
{
    bool f64 = a->dtype == PH_DTYPE_F64;
    int64_t size = f64 ? 8 : 4, columns = f64 ? COLUMNS_F64 : COLUMNS_F32;
    panels_fn *panels = panels_form_of(f64);
    char *packed_b = scratch, *packed_a = packed_b + PH__PLAIN_K * PH__PLAIN_TILE * size;
    for (int64_t from = 0; from < k; from += PH__PLAIN_K) {
        int64_t deep = k - from < PH__PLAIN_K ? k - from : PH__PLAIN_K;
        for (int64_t j = 0; j < n; j += columns)
            pack_lines(packed_b + j * deep * size, b, false, columns, j,
                       n - j < columns ? n - j : columns, from, deep);
        for (int64_t i = 0; i < m; i += ROWS) {
            int64_t rows = m - i < ROWS ? m - i : ROWS;
            pack_lines(packed_a, a, true, ROWS, i, rows, from, deep);
            for (int64_t j = 0; j < n; j += columns)
                panels((char *)c + (i * ldc + j) * size, ldc, packed_a, packed_b + j * deep * size,
                       rows, n - j < columns ? n - j : columns, deep);
        }
    }
}

/* ---- f16 and bf16 as f32 ---- lines that lie densely are gone along, whichever way they lie. */
#define WIDEN(name, get)                                                                           \
    static void name(float *out, int64_t ld, const uint16_t *x, int64_t row, int64_t column,       \
                     int64_t rows, int64_t columns)                                                \
    {                                                                                              \
        for (int64_t i = 0; column == 1 && i < rows; i++)                                          \
            for (int64_t j = 0; j < columns; j++)                                                  \
                out[i * ld + j] = get(x[i * row + j]);                                             \
        for (int64_t j = 0; column != 1 && j < columns; j++)                                       \
            for (int64_t i = 0; i < rows; i++)                                                     \
                out[i * ld + j] = get(x[i * row + j * column]);                                    \
    }
WIDEN(widen_f16, ph__f16_get)
WIDEN(widen_bf16, ph__bf16_get)

void ph__widen(float *out, int64_t ld, const ph__view *x, int64_t rows, int64_t columns)
{
    (x->dtype == PH_DTYPE_F16 ? widen_f16 : widen_bf16)(out, ld, x->at, x->row, x->column, rows,
                                                        columns);
}

void ph__narrow(void *to, ph_dtype dtype, int64_t ld, const float *from, int64_t from_ld,
                int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i++) {
        uint16_t *line = (uint16_t *)to + i * ld;
        const float *x = from + i * from_ld;
        for (int64_t j = 0; dtype == PH_DTYPE_F16 && j < columns; j++)
            line[j] = ph__f16_put(x[j]);
        for (int64_t j = 0; dtype != PH_DTYPE_F16 && j < columns; j++)
            line[j] = ph__bf16_put(x[j]);
    }
}
