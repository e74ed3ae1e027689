/* SPDX-License-Identifier: MIT */
/* tensor/products/products_plan.c: plans of products on a GPU: an algorithm of cuBLASLt for each
 * kind of product, chosen once, and its calls. */
#include "tensor/products/products_plan.h"
#include "base/alloc.h"
#include "base/status.h"
#include "tensor/products/cublaslt.h"
#include "tensor/products/cublaslt_abi.h"
#include "tensor/products/products.h"
#include "tensor/products/products_choice.h"
#include <string.h>

void ph__product_plan_free(ph__product_plan *p)
{
    if (p->descriptor)
        (void)ph__cublaslt.MatmulDescDestroy(p->descriptor);
    void *const layouts[3] = {p->layout_a, p->layout_b, p->layout_c};
    for (int i = 0; i < 3; i++)
        if (layouts[i])
            (void)ph__cublaslt.MatrixLayoutDestroy(layouts[i]);
    ph__free(atomic_load_explicit(&p->kernel, memory_order_relaxed));
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

void ph__product_plan_use(ph__product_plan *p, const ph__product_proposal *proposal)
{
    p->possible = true;
    p->algorithm = proposal->algorithm;
    p->workspace = proposal->workspace;
    atomic_store_explicit(&p->used, false, memory_order_relaxed);
}

static int describe_product(ph__product_plan *p)
{
    int result = make_descriptor(p);
    return result ? result : make_layouts(p);
}

/* No algorithm at all is no failure here. */
ph__product_plan *ph__product_plan_make(ph__cublas *cublas, const ph__product_kind *k,
                                        ph__product_proposals *proposals, bool others)
{
    ph__product_plan *p = ph__calloc(1, sizeof *p);
    if (!p) {
        ph_ignore(ph__fail_host_memory("a matrix product", "a description of it"));
        return NULL;
    }
    p->kind = *k;
    ph_capture_mode mode = ph__cublaslt_begin_relaxed();
    int result = describe_product(p);
    if (!result)
        result = ph__product_propose(proposals, cublas, p, others);
    if (!result && proposals->count > 0)
        ph__product_plan_use(p, &proposals->of[0]);
    if (result) {
        ph_ignore(ph__cublaslt_fail(result, "cublasLtMatmulAlgoGetHeuristic",
                                    "when the product was described to it"));
        ph__product_plan_free(p);
        p = NULL;
    }
    ph__cublaslt_end_relaxed(mode);
    return p;
}

/* ---- by their kinds ---- */
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

static _Atomic(ph__product_plan *) *bucket_in(ph__cublas *cublas, const ph__product_kind *k)
{
    return &cublas->plans[bucket_of(k)];
}

ph__product_plan *ph__product_plan_find(ph__cublas *cublas, const ph__product_kind *k)
{
    return find_plan(atomic_load_explicit(bucket_in(cublas, k), memory_order_acquire), k);
}

ph__product_plan *ph__product_plan_of(ph__cublas *cublas, const ph__product_kind *k)
{
    ph__product_proposals proposals;
    _Atomic(ph__product_plan *) *bucket = bucket_in(cublas, k);
    ph__product_plan *found = ph__product_plan_find(cublas, k);
    if (found)
        return found;
    pthread_mutex_lock(&cublas->lock);
    ph__product_plan *first = atomic_load_explicit(bucket, memory_order_relaxed);
    found = find_plan(first, k);
    if (!found && (found = ph__product_plan_make(cublas, k, &proposals, false)) != NULL) {
        found->next = first;
        atomic_store_explicit(bucket, found, memory_order_release);
    }
    pthread_mutex_unlock(&cublas->lock);
    return found;
}

ph__product_plan *ph__product_plan_keep(ph__cublas *cublas, ph__product_plan *p)
{
    _Atomic(ph__product_plan *) *bucket = bucket_in(cublas, &p->kind);
    pthread_mutex_lock(&cublas->lock);
    ph__product_plan *first = atomic_load_explicit(bucket, memory_order_relaxed);
    ph__product_plan *found = find_plan(first, &p->kind);
    if (!found) {
        p->next = first;
        atomic_store_explicit(bucket, p, memory_order_release);
    }
    pthread_mutex_unlock(&cublas->lock);
    if (found)
        ph__product_plan_free(p);
    return found ? found : p;
}

/* ---- calls ---- */
int ph__product_plan_call(ph__cublas *cublas, ph__product_plan *how, const ph__product *p,
                          void *workspace, struct CUstream_st *stream)
{
    static const float numbers_f32[2] = {0, 1};
    static const double numbers_f64[2] = {0, 1};
    bool f64 = p->dtype == PH_DTYPE_F64;
    const void *zero = f64 ? (const void *)&numbers_f64[0] : &numbers_f32[0];
    const void *one = f64 ? (const void *)&numbers_f64[1] : &numbers_f32[1];
    bool first = !atomic_load_explicit(&how->used, memory_order_relaxed);
    ph_capture_mode mode = first ? ph__cublaslt_begin_relaxed() : PH_CAPTURE_RELAXED;
    int result = PH__LT_OK;
    if (p->bias) {
        ph__mutex_lock(&how->bias_lock);
        result = ph__cublaslt.MatmulDescSetAttribute(how->descriptor, PH__LT_DESC_BIAS_POINTER,
                                                     &p->bias, sizeof p->bias);
    }
    if (!result)
        result = ph__cublaslt.Matmul(cublas->handle, how->descriptor, one, p->b, how->layout_a,
                                     p->a, how->layout_b, p->accumulate ? one : zero, p->c,
                                     how->layout_c, p->c, how->layout_c, &how->algorithm, workspace,
                                     how->workspace, stream);
    if (p->bias)
        ph__mutex_unlock(&how->bias_lock);
    if (first)
        ph__cublaslt_end_relaxed(mode);
    atomic_store_explicit(&how->used, true, memory_order_relaxed);
    return result;
}
