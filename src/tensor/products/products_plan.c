/* SPDX-License-Identifier: MIT */
/* tensor/products/products_plan.c: plans of products on a GPU: an algorithm of cuBLASLt for each
 * kind of product, chosen once. */
#include "tensor/products/products_plan.h"
#include "base/alloc.h"
#include "base/status.h"
#include "tensor/products/cublaslt.h"
#include "tensor/products/cublaslt_abi.h"
#include "tensor/products/products.h"
#include "tensor/products/products_workspace.h"
#include <string.h>

void ph__product_plan_free(ph__product_plan *p)
{
    if (p->descriptor)
        (void)ph__cublaslt.MatmulDescDestroy(p->descriptor);
    void *const layouts[3] = {p->layout_a, p->layout_b, p->layout_c};
    for (int i = 0; i < 3; i++)
        if (layouts[i])
            (void)ph__cublaslt.MatrixLayoutDestroy(layouts[i]);
    ph__free(p);
}

static int lt_type(uint32_t dtype)
{
    return dtype == PH_DTYPE_F64    ? PH__LT_F64
           : dtype == PH_DTYPE_F16  ? PH__LT_F16
           : dtype == PH_DTYPE_BF16 ? PH__LT_BF16
                                    : PH__LT_F32;
}

static int make_layout(void **out, uint32_t dtype, int64_t rows, int64_t columns, int64_t ld,
                       int64_t batch, int64_t stride)
{
    int32_t count = (int32_t)batch;
    int result =
        ph__cublaslt.MatrixLayoutCreate(out, lt_type(dtype), (uint64_t)rows, (uint64_t)columns, ld);
    if (!result && batch > 1)
        result = ph__cublaslt.MatrixLayoutSetAttribute(*out, PH__LT_LAYOUT_BATCH_COUNT, &count,
                                                       sizeof count);
    if (!result && batch > 1)
        result = ph__cublaslt.MatrixLayoutSetAttribute(*out, PH__LT_LAYOUT_BATCH_OFFSET, &stride,
                                                       sizeof stride);
    return result;
}

static int make_layouts(ph__product_plan *p)
{
    const ph__product_kind *k = &p->kind;
    bool ta = k->flags & PH__PRODUCT_TRANSPOSE_A, tb = k->flags & PH__PRODUCT_TRANSPOSE_B;
    int result = make_layout(&p->layout_a, k->dtype, tb ? k->k : k->n, tb ? k->n : k->k, k->ldb,
                             k->batch, k->stride_b);
    if (!result)
        result = make_layout(&p->layout_b, k->dtype, ta ? k->m : k->k, ta ? k->k : k->m, k->lda,
                             k->batch, k->stride_a);
    if (!result)
        result = make_layout(&p->layout_c, k->flags & PH__PRODUCT_WIDE ? PH_DTYPE_F32 : k->dtype,
                             k->n, k->m, k->ldc, k->batch, k->stride_c);
    return result;
}

static int make_descriptor(ph__product_plan *p)
{
    const ph__product_kind *k = &p->kind;
    bool f64 = k->dtype == PH_DTYPE_F64;
    int compute = f64                           ? PH__LT_COMPUTE_F64
                  : k->flags & PH__PRODUCT_TF32 ? PH__LT_COMPUTE_TF32
                                                : PH__LT_COMPUTE_F32;
    int32_t first = k->flags & PH__PRODUCT_TRANSPOSE_B ? PH__LT_TRANSPOSED : PH__LT_AS_IT_IS,
            epilogue = PH__LT_EPILOGUE_BIAS;
    int32_t second = k->flags & PH__PRODUCT_TRANSPOSE_A ? PH__LT_TRANSPOSED : PH__LT_AS_IT_IS,
            type = lt_type(k->dtype);
    int result =
        ph__cublaslt.MatmulDescCreate(&p->descriptor, compute, f64 ? PH__LT_F64 : PH__LT_F32);
    if (!result)
        result = ph__cublaslt.MatmulDescSetAttribute(p->descriptor, PH__LT_DESC_TRANSPOSE_A, &first,
                                                     sizeof first);
    if (!result)
        result = ph__cublaslt.MatmulDescSetAttribute(p->descriptor, PH__LT_DESC_TRANSPOSE_B,
                                                     &second, sizeof second);
    if (!result && k->flags & PH__PRODUCT_BIAS)
        result = ph__cublaslt.MatmulDescSetAttribute(p->descriptor, PH__LT_DESC_EPILOGUE, &epilogue,
                                                     sizeof epilogue);
    if (!result && k->flags & PH__PRODUCT_BIAS)
        result = ph__cublaslt.MatmulDescSetAttribute(p->descriptor, PH__LT_DESC_BIAS_TYPE, &type,
                                                     sizeof type);
    return result;
}

/* A workspace that stayed would be a race between graphs that replay at once, or keep a graph's
 * pool alive. So only what needs next to none is taken (counters, some 100 bytes): eager a
 * temporary of the operator, captured a block that is in no graph's pool (products_workspace.h).
 * cuBLASLt leaves its best algorithms out when it is told of no workspace at all, or of little
 * (measured on an H200: TF32 products took twice as long): it is told of more than will be used.
 * Not so where the product is small: those that it then gives clear their counters first, which
 * is a node of its own, and cost a graph of such products a third.
 *
 * Deep products are another matter: long sums and so few results that they do not fill a GPU. There
 * the best algorithms divide the sums, and add the parts. They get scratch for them, as an operator
 * does: a temporary, in a capture of the graph's own memory. Measured on an H200: a weight's
 * gradient in TF32, 3072 x 768 of 4096, takes 104 us instead of 133. In half types only very deep
 * ones gain, and others lose. */
enum {
    CHOICES = 16,
    WORKSPACE = PH__WORKSPACE_BYTES
};
static const uint64_t pretended_workspace = 4u << 20, deep_workspace = 32u << 20;
static const double small_product = 1 << 25; /* multiplications: some microseconds */
static const int64_t few_results = 3 << 20;

static bool is_half_product(const ph__product_kind *k)
{
    return k->dtype == PH_DTYPE_F16 || k->dtype == PH_DTYPE_BF16;
}

static double multiplications_of(const ph__product_kind *k)
{
    return (double)k->m * (double)k->n * (double)k->k * (double)k->batch;
}

static bool is_deep_product(const ph__product_kind *k)
{
    int64_t longest = k->m > k->n ? k->m : k->n;
    bool half = is_half_product(k),
         few = (double)k->m * (double)k->n < (double)few_results && k->batch == 1;
    return few && !(k->flags & PH__PRODUCT_BIAS) &&
           (half ? k->k / 16 >= longest : k->flags & PH__PRODUCT_TF32 && k->k >= longest);
}

static int set_preference(void *preference, const ph__product_kind *k, uint64_t workspace)
{
    int result = ph__cublaslt.MatmulPreferenceSetAttribute(preference, PH__LT_PREFERENCE_WORKSPACE,
                                                           &workspace, sizeof workspace);
    for (int i = 0; !result && i < 4; i++)
        result = ph__cublaslt.MatmulPreferenceSetAttribute(
            preference, PH__LT_PREFERENCE_ALIGNMENT_A + i, &k->alignment, sizeof k->alignment);
    return result;
}

/* workspace: what cuBLASLt is told of; most: what it may use. */
static int ask_for_algorithms(ph__cublas *cublas, ph__product_plan *p, void *preference,
                              uint64_t workspace, uint64_t most)
{
    ph__lt_choice choices[CHOICES];
    int found = 0, result = set_preference(preference, &p->kind, workspace);
    memset(choices, 0, sizeof choices);
    if (!result)
        result = ph__cublaslt.MatmulAlgoGetHeuristic(cublas->handle, p->descriptor, p->layout_a,
                                                     p->layout_b, p->layout_c, p->layout_c,
                                                     preference, CHOICES, choices, &found);
    for (int i = 0; !result && i < found && !p->possible; i++)
        if (choices[i].state == PH__LT_OK && choices[i].workspace <= most) {
            p->possible = true;
            p->algorithm = choices[i].algorithm;
            p->workspace = choices[i].workspace;
        }
    return result == PH__LT_NOT_SUPPORTED ? PH__LT_OK : result;
}

/* No algorithm at all is no failure here. */
static int choose_algorithm(ph__cublas *cublas, ph__product_plan *p)
{
    void *preference = NULL;
    int result = ph__cublaslt.MatmulPreferenceCreate(&preference);
    if (result)
        return result;
    const ph__product_kind *k = &p->kind;
    bool small = multiplications_of(k) <= small_product, deep = is_deep_product(k) && !small;
    if (deep)
        result = ask_for_algorithms(cublas, p, preference, deep_workspace, deep_workspace);
    if (!result && !p->possible)
        result =
            ask_for_algorithms(cublas, p, preference, small ? 0 : pretended_workspace, WORKSPACE);
    if (!result && !p->possible)
        result =
            ask_for_algorithms(cublas, p, preference, small ? pretended_workspace : 0, WORKSPACE);
    (void)ph__cublaslt.MatmulPreferenceDestroy(preference);
    return result;
}

static ph__product_plan *make_product_plan(ph__cublas *cublas, const ph__product_kind *k)
{
    ph__product_plan *p = ph__calloc(1, sizeof *p);
    if (!p) {
        ph_ignore(ph__fail_host_memory("a matrix product", "a description of it"));
        return NULL;
    }
    p->kind = *k;
    ph_capture_mode mode = ph__cublaslt_begin_relaxed();
    int result = make_descriptor(p);
    if (!result)
        result = make_layouts(p);
    if (!result)
        result = choose_algorithm(cublas, p);
    if (result) {
        ph_ignore(ph__cublaslt_fail(result, "cublasLtMatmulAlgoGetHeuristic",
                                    "when the product was described to it"));
        ph__product_plan_free(p);
        p = NULL;
    }
    ph__cublaslt_end_relaxed(mode);
    return p;
}

static size_t bucket_of(const ph__product_kind *k)
{
    uint64_t words[sizeof *k / 8], hash = 0;
    memcpy(words, k, sizeof words);
    for (size_t i = 0; i < sizeof words / 8; i++) {
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash % PH__PRODUCT_BUCKETS;
}

static ph__product_plan *find_plan(ph__product_plan *first, const ph__product_kind *k)
{
    while (first && memcmp(&first->kind, k, sizeof *k) != 0)
        first = first->next;
    return first;
}

ph__product_plan *ph__product_plan_of(ph__cublas *cublas, const ph__product_kind *k)
{
    _Atomic(ph__product_plan *) *bucket = &cublas->plans[bucket_of(k)];
    ph__product_plan *found = find_plan(atomic_load_explicit(bucket, memory_order_acquire), k);
    if (found)
        return found;
    pthread_mutex_lock(&cublas->lock);
    ph__product_plan *first = atomic_load_explicit(bucket, memory_order_relaxed);
    found = find_plan(first, k);
    if (!found && (found = make_product_plan(cublas, k)) != NULL) {
        found->next = first;
        atomic_store_explicit(bucket, found, memory_order_release);
    }
    pthread_mutex_unlock(&cublas->lock);
    return found;
}
