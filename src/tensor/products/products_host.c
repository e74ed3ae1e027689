/* SPDX-License-Identifier: MIT */
/* tensor/products/products_host.c: products on the host device: tiles of the result, each one
 * block of a kernel, through a BLAS or the plain product. */
#include "tensor/products/products_host.h"
#include "base/environment.h"
#include "base/fork.h"
#include "base/status.h"
#include "tensor/backend/kernels.h"
#include "tensor/products/products.h"
#include "tensor/products/products_plain.h"
#include "tensor/tape/op.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the BLAS ---- as this file uses it; the names' numbers are CBLAS's. */
enum {
    BLAS_ROW_MAJOR = 101,
    BLAS_AS_IT_IS = 111,
    BLAS_TRANSPOSED = 112,
    /* the answer of openblas_get_parallel for a library that must not be called from several
     * threads */
    BLAS_SERIAL = 0
};
typedef void sgemm_fn(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);
typedef void dgemm_fn(int order, int transpose_a, int transpose_b, int m, int n, int k,
                      double alpha, const double *a, int lda, const double *b, int ldb, double beta,
                      double *c, int ldc);

/* Written once, before the first kernel that reads it is launched. */
static struct {
    pthread_mutex_t lock;
    bool searched;
    sgemm_fn *sgemm; /* both, or none: the plain product */
    dgemm_fn *dgemm;
} blas = {.lock = PTHREAD_MUTEX_INITIALIZER};
PH__FORK_LOCK(PH__FORK_PRODUCTS_HOST, blas.lock)

/* OpenBLAS reads the environment when it is loaded, and has no calls for all of these settings.
 * - OpenBLAS would start threads of its own beside ours, and Debian 12's takes unknown processors
 *   for very old ones.
 * - Settings of the user stay. A library that the program has loaded before stays as it is.
 *
 * While it is loaded the program has another array of variables: its own ones, and ours. setenv is
 * no way: it moves the array, which getenv on another thread may be reading. The new array is never
 * freed, and the program's own stays in its place. */
enum {
    MOST_VARIABLES = 4096 /* where there are more, the library is loaded as it comes */
};
static char *variables[MOST_VARIABLES + 3];
static char one_thread[] = "OPENBLAS_NUM_THREADS=1";
#if defined(__x86_64__)
static char core_skylake[] = "OPENBLAS_CORETYPE=SkylakeX",
            core_haswell[] = "OPENBLAS_CORETYPE=Haswell";
#endif

static char *core_type(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        return core_skylake;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return core_haswell;
#endif
    return NULL;
}

/* Gives the program's own array. */
static char **add_variables(void)
{
    char **own = environ, *core = core_type();
    size_t count = 0;
    for (; own && own[count] && count < MOST_VARIABLES; count++)
        variables[count] = own[count];
    if (own && own[count])
        return own;
    if (!getenv("OPENBLAS_NUM_THREADS"))
        variables[count++] = one_thread;
    if (core && !getenv("OPENBLAS_CORETYPE"))
        variables[count++] = core;
    __atomic_store_n(&environ, variables, __ATOMIC_RELEASE);
    return own;
}

static void remove_variable(const char *name, const char *setting)
{
    const char *value = getenv(name);
    if (value && setting && value == strchr(setting, '=') + 1)
        (void)unsetenv(name);
}

/* Where somebody else has set a variable meanwhile, the array is a copy of ours by now. */
static void drop_variables(char **own)
{
    if (environ == variables) {
        __atomic_store_n(&environ, own, __ATOMIC_RELEASE);
    } else if (environ != own) {
        remove_variable("OPENBLAS_NUM_THREADS", one_thread);
        remove_variable("OPENBLAS_CORETYPE", core_type());
    }
}

static void *open_blas(const char *path)
{
    void *loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (loaded)
        return loaded;
    char **own = add_variables();
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    drop_variables(own);
    return library;
}

static bool find_functions(void *library)
{
    int (*parallel)(void);
    *(void **)&parallel = dlsym(library, "openblas_get_parallel");
    *(void **)&blas.sgemm = dlsym(library, "cblas_sgemm");
    *(void **)&blas.dgemm = dlsym(library, "cblas_dgemm");
    if (blas.sgemm && blas.dgemm && (!parallel || parallel() != BLAS_SERIAL))
        return true;
    blas.sgemm = NULL;
    blas.dgemm = NULL;
    return false;
}

bool ph__blas_load(void)
{
    const char *own = ph__environment("PH_BLAS");
    bool named = own && own[0] && strcmp(own, "none") != 0, good = true;
    pthread_mutex_lock(&blas.lock);
    if (!blas.searched && (named || !own || !own[0])) {
        void *library = open_blas(named ? own : "libopenblas.so.0");
        good = (library && find_functions(library)) || !named;
    }
    blas.searched = good;
    pthread_mutex_unlock(&blas.lock);
    if (!good)
        ph_ignore(
            ph__fail_native(PH_ERROR_UNSUPPORTED, 0, NULL,
                            "PH_BLAS names %.150s, which cannot be loaded, has no cblas_sgemm and "
                            "cblas_dgemm, or is an "
                            "OpenBLAS that must not be called from several threads; PH_BLAS=none "
                            "is the built-in product",
                            own));
    return good;
}

/* ---- the kernel ---- */
typedef struct product_args {
    const void *a, *b, *bias;
    void *c;
    int64_t m, n, k, lda, ldb, ldc, stride_a, stride_b, stride_c;
    int64_t tile_m, tile_n, tiles_m, tiles_n;
    uint32_t transpose_a, transpose_b, accumulate, fits_blas, wide, unused;
} product_args;

/* One tile: its operands, and where it goes. */
typedef struct tile {
    const product_args *args;
    ph__view a, b;
    const char *bias; /* of its first column; or NULL */
    char *c;
    int64_t m, n;
} tile;

static void find_tile(tile *out, const product_args *args, ph_dtype dtype, uint64_t block)
{
    int64_t index = (int64_t)block, tiles = args->tiles_m * args->tiles_n,
            size = (int64_t)ph_dtype_size(dtype);
    int64_t batch = index / tiles, i = index % tiles / args->tiles_n * args->tile_m,
            j = index % args->tiles_n * args->tile_n;
    out->args = args;
    out->a = (ph__view){NULL, dtype, args->transpose_a ? 1 : args->lda,
                        args->transpose_a ? args->lda : 1};
    out->b = (ph__view){NULL, dtype, args->transpose_b ? 1 : args->ldb,
                        args->transpose_b ? args->ldb : 1};
    out->a.at = (const char *)args->a + (batch * args->stride_a + i * out->a.row) * size;
    out->b.at = (const char *)args->b + (batch * args->stride_b + j * out->b.column) * size;
    out->bias = args->bias ? (const char *)args->bias + j * size : NULL;
    out->c = (char *)args->c + (batch * args->stride_c + i * args->ldc + j) *
                                   (args->wide ? (int64_t)sizeof(float) : size);
    out->m = args->m - i < args->tile_m ? args->m - i : args->tile_m;
    out->n = args->n - j < args->tile_n ? args->n - j : args->tile_n;
}

/* The start of the tile's sums: bias, the old contents, both, or 0. */
#define BEGIN(name, T)                                                                             \
    static void name(const tile *t)                                                                \
    {                                                                                              \
        for (int64_t i = 0; i < t->m; i++) {                                                       \
            T *c = (T *)t->c + i * t->args->ldc;                                                   \
            const T *bias = (const T *)t->bias;                                                    \
            if (!t->args->accumulate)                                                              \
                for (int64_t j = 0; j < t->n; j++)                                                 \
                    c[j] = bias ? bias[j] : 0;                                                     \
            else                                                                                   \
                for (int64_t j = 0; bias && j < t->n; j++)                                         \
                    c[j] += bias[j];                                                               \
        }                                                                                          \
    }
BEGIN(begin_f32, float)
BEGIN(begin_f64, double)

static int blas_transposed(uint32_t yes)
{
    return yes ? BLAS_TRANSPOSED : BLAS_AS_IT_IS;
}

static void run_f32(const product_args *p, const tile *t, void *scratch)
{
    bool begun = t->bias || p->accumulate;
    if (begun || !blas.sgemm || !p->fits_blas)
        begin_f32(t);
    if (blas.sgemm && p->fits_blas)
        blas.sgemm(BLAS_ROW_MAJOR, blas_transposed(p->transpose_a), blas_transposed(p->transpose_b),
                   (int)t->m, (int)t->n, (int)p->k, 1.0f, t->a.at, (int)p->lda, t->b.at,
                   (int)p->ldb, begun ? 1.0f : 0.0f, (float *)t->c, (int)p->ldc);
    else
        ph__plain_product(&t->a, &t->b, t->m, t->n, p->k, t->c, p->ldc, scratch);
}

static void run_f64(const product_args *p, const tile *t, void *scratch)
{
    bool begun = t->bias || p->accumulate;
    if (begun || !blas.dgemm || !p->fits_blas)
        begin_f64(t);
    if (blas.dgemm && p->fits_blas)
        blas.dgemm(BLAS_ROW_MAJOR, blas_transposed(p->transpose_a), blas_transposed(p->transpose_b),
                   (int)t->m, (int)t->n, (int)p->k, 1.0, t->a.at, (int)p->lda, t->b.at, (int)p->ldb,
                   begun ? 1.0 : 0.0, (double *)t->c, (int)p->ldc);
    else
        ph__plain_product(&t->a, &t->b, t->m, t->n, p->k, t->c, p->ldc, scratch);
}

/* f16 and bf16: sums in f32 in the scratch, pieces of the operands beside them for the BLAS. */
static void run_half(const product_args *p, const tile *t, void *scratch)
{
    enum {
        SIDE = PH__PLAIN_TILE,
        DEEP = PH__PLAIN_K
    };
    float *sums = scratch, *wide_a = sums + SIDE * SIDE, *wide_b = wide_a + SIDE * DEEP;
    ph_dtype dtype = t->a.dtype;
    ph__view old = {t->c, dtype, p->ldc, 1}, bias = {t->bias, dtype, 0, 1};
    memset(sums, 0, sizeof(float) * SIDE * (size_t)t->m);
    if (p->accumulate)
        ph__widen(sums, SIDE, &old, t->m, t->n);
    if (t->bias)
        ph__widen(wide_a, SIDE, &bias, 1, t->n);
    for (int64_t i = 0; t->bias && i < t->m; i++)
        for (int64_t j = 0; j < t->n; j++)
            sums[i * SIDE + j] += wide_a[j];
    if (!blas.sgemm)
        ph__plain_product(&t->a, &t->b, t->m, t->n, p->k, sums, SIDE, wide_a);
    for (int64_t from = 0; blas.sgemm && from < p->k; from += DEEP) {
        int64_t deep = p->k - from < DEEP ? p->k - from : DEEP;
        ph__view a = t->a, b = t->b;
        a.at = (const char *)a.at + from * a.column * 2;
        b.at = (const char *)b.at + from * b.row * 2;
        ph__widen(wide_a, DEEP, &a, t->m, deep);
        ph__widen(wide_b, SIDE, &b, deep, t->n);
        blas.sgemm(BLAS_ROW_MAJOR, BLAS_AS_IT_IS, BLAS_AS_IT_IS, (int)t->m, (int)t->n, (int)deep,
                   1.0f, wide_a, DEEP, wide_b, SIDE, 1.0f, sums, SIDE);
    }
    for (int64_t i = 0; p->wide && i < t->m; i++)
        memcpy((float *)t->c + i * p->ldc, sums + i * SIDE, sizeof(float) * (size_t)t->n);
    if (!p->wide)
        ph__narrow(t->c, dtype, p->ldc, sums, SIDE, t->m, t->n);
}

#define KERNEL(name, dtype, run)                                                                   \
    static void name(const ph_block_range *range, const void *args)                                \
    {                                                                                              \
        for (uint64_t block = range->begin; block < range->end; block++) {                         \
            tile t;                                                                                \
            find_tile(&t, args, dtype, block);                                                     \
            run(args, &t, range->shared);                                                          \
        }                                                                                          \
    }
KERNEL(product_f32, PH_DTYPE_F32, run_f32)
KERNEL(product_f64, PH_DTYPE_F64, run_f64)
KERNEL(product_f16, PH_DTYPE_F16, run_half)
KERNEL(product_bf16, PH_DTYPE_BF16, run_half)

static const ph_param params[] = {
    PH_PARAM(product_args, a, PH_PARAM_ADDRESS), PH_PARAM(product_args, b, PH_PARAM_ADDRESS),
    PH_PARAM(product_args, bias, PH_PARAM_ADDRESS), PH_PARAM(product_args, c, PH_PARAM_ADDRESS)};
#define DEF(type)                                                                                  \
    static ph__kernel_def def_##type = {.name = "ph_product_" #type,                               \
                                        .host = product_##type,                                    \
                                        .args_size = sizeof(product_args),                         \
                                        .params = params,                                          \
                                        .param_count = sizeof params / sizeof *params}
DEF(f32);
DEF(f64);
DEF(f16);
DEF(bf16);
ph__kernel_def *const ph__product_kernels[] = {&def_f32, &def_f64, &def_f16, &def_bf16, NULL};

/* ---- submitting ---- */
static bool fits_blas(const ph__product *p)
{
    return p->k <= INT_MAX && p->lda <= INT_MAX && p->ldb <= INT_MAX && p->ldc <= INT_MAX;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The side of `parts` about equal pieces, in whole vectors. */
static int64_t piece_side(int64_t side, int64_t parts)
{
    return divide_up(divide_up(side, parts), 16) * 16;
}

/* Tiles for a BLAS: large, since each packs its operands anew, and whole while the product is
 * small; else enough of them that several threads have work, and more than a launch runs on the
 * calling thread alone. Of the shape alone. */
static void choose_blas_tiles(product_args *args, int64_t batch)
{
    enum {
        MOST_ROWS = 384,
        MOST_COLUMNS = 512,
        LEAST = 128,
        ENOUGH = 6
    };
    double work = (double)args->m * (double)args->n * (double)args->k * (double)batch;
    int64_t rows = divide_up(args->m, MOST_ROWS), columns = divide_up(args->n, MOST_COLUMNS);
    while (work >= 6e7 && rows * columns * batch < ENOUGH) {
        bool split_columns = args->n / columns >= args->m / rows;
        if ((split_columns ? args->n / (columns + 1) : args->m / (rows + 1)) < LEAST)
            break;
        *(split_columns ? &columns : &rows) += 1;
    }
    args->tile_m = piece_side(args->m, rows);
    args->tile_n = piece_side(args->n, columns);
}

static void choose_tiles(product_args *args, int64_t batch, bool small)
{
    args->tile_m = args->tile_n = PH__PLAIN_TILE;
    if (!small)
        choose_blas_tiles(args, batch);
    args->tiles_m = divide_up(args->m, args->tile_m);
    args->tiles_n = divide_up(args->n, args->tile_n);
}

bool ph__product_host(ph__op *op, const ph__product *p)
{
    product_args args = {.a = p->a,
                         .b = p->b,
                         .bias = p->bias,
                         .c = p->c,
                         .m = p->m,
                         .n = p->n,
                         .k = p->k,
                         .lda = p->lda,
                         .ldb = p->ldb,
                         .ldc = p->ldc,
                         .stride_a = p->stride_a,
                         .stride_b = p->stride_b,
                         .stride_c = p->stride_c,
                         .transpose_a = p->transpose_a,
                         .transpose_b = p->transpose_b,
                         .accumulate = p->accumulate,
                         .fits_blas = fits_blas(p),
                         .wide = p->wide};
    bool half = p->dtype == PH_DTYPE_F16 || p->dtype == PH_DTYPE_BF16,
         plain = !blas.sgemm || !args.fits_blas;
    size_t scratch = plain ? ph__plain_scratch(p->dtype) : 0;
    if (half)
        scratch = sizeof(float) * PH__PLAIN_TILE * (PH__PLAIN_TILE + 2 * PH__PLAIN_K);
    choose_tiles(&args, p->batch, plain || half);
    int64_t tiles = args.tiles_m * args.tiles_n;
    ph__kernel_def *def = p->dtype == PH_DTYPE_F64    ? &def_f64
                          : p->dtype == PH_DTYPE_F16  ? &def_f16
                          : p->dtype == PH_DTYPE_BF16 ? &def_bf16
                                                      : &def_f32;
    return ph__op_launch(op, def, (uint64_t)tiles * (uint64_t)p->batch, 1, scratch, &args);
}
