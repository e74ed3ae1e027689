/* SPDX-License-Identifier: MIT */
/* tensor/products/products_cuda.c: products on a GPU by cuBLASLt. */
#include "tensor/products/products_cuda.h"
#include "base/alloc.h"
#include "base/environment.h"
#include "base/status.h"
#include "base/sync.h"
#include "driver/result.h"
#include "tensor/products/cublaslt.h"
#include "tensor/products/cublaslt_abi.h"
#include "tensor/products/products.h"
#include "tensor/products/products_benchmark.h"
#include "tensor/products/products_kernel.h"
#include "tensor/products/products_learn.h"
#include "tensor/products/products_order.h"
#include "tensor/products/products_plan.h"
#include "tensor/products/products_sum.h"
#include "tensor/products/products_workspace.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include <phonograph/cuda.h>
#include <string.h>

/* *always: PH_PRODUCTS is "cublaslt". */
static ph_status read_way(bool *always)
{
    const char *way = ph__environment("PH_PRODUCTS");
    *always = way && strcmp(way, "cublaslt") == 0;
    if (!way || !way[0] || *always)
        return PH_OK;
    return ph_fail(PH_ERROR_ARGUMENT,
                   "PH_PRODUCTS is \"%s\", and means nothing: set it to cublaslt, so that cuBLASLt "
                   "is called for each product, or unset it",
                   way);
}

static bool init_locks(ph__cublas *cublas)
{
    if (pthread_mutex_init(&cublas->lock, NULL) != 0)
        return false;
    if (pthread_mutex_init(&cublas->learning_lock, NULL) == 0)
        return true;
    (void)pthread_mutex_destroy(&cublas->lock);
    return false;
}

ph__cublas *ph__cublas_create(ph_device *device, uint32_t multiprocessors)
{
    bool always;
    if (read_way(&always) != PH_OK || ph__cublaslt_load() != PH_OK)
        return NULL;
    ph__cublas *cublas = ph__calloc(1, sizeof *cublas);
    if (!cublas || !init_locks(cublas)) {
        ph__free(cublas);
        ph_ignore(ph__fail_host_memory("a matrix product", "the product library's state"));
        return NULL;
    }
    cublas->multiprocessors = multiprocessors;
    cublas->learn_after = PH__PRODUCT_USES;
    cublas->learns = !always && ph__product_driver_find(&cublas->driver);
    bool pushed = ph_context_push_cuda(device) == PH_OK;
    if (pushed) {
        ph_capture_mode mode = ph__cublaslt_begin_relaxed();
        int result = ph__cublaslt.Create(&cublas->handle);
        if (result == PH__LT_OK && cublas->learns)
            cublas->learns = ph__product_streams_create(cublas);
        ph__cublaslt_end_relaxed(mode);
        ph_context_pop_cuda(device);
        if (result == PH__LT_OK)
            return cublas;
        ph_ignore(
            ph__cublaslt_fail(result, "cublasLtCreate", "when products were first asked for"));
    }
    (void)pthread_mutex_destroy(&cublas->lock);
    (void)pthread_mutex_destroy(&cublas->learning_lock);
    ph__free(cublas);
    return NULL;
}

/* Graphs may still have kernels of cuBLASLt's: these stay with the context when the handle goes
 * (nn.outlives holds it to that on a GPU). */
void ph__cublas_destroy(ph__cublas *cublas, ph_device *device)
{
    if (!cublas)
        return;
    ph_error saved;
    ph__error_save(&saved);
    bool pushed = ph_context_push_cuda(device) == PH_OK;
    ph_capture_mode mode = ph__cublaslt_begin_relaxed();
    for (size_t i = 0; i < PH__PRODUCT_BUCKETS; i++) {
        ph__product_plan *next = atomic_load(&cublas->plans[i]);
        while (next) {
            ph__product_plan *p = next;
            next = p->next;
            ph__product_plan_free(p);
        }
    }
    (void)ph__cublaslt.Destroy(cublas->handle);
    ph__product_streams_destroy(cublas);
    ph__cublaslt_end_relaxed(mode);
    if (pushed)
        ph_context_pop_cuda(device);
    (void)pthread_mutex_destroy(&cublas->lock);
    (void)pthread_mutex_destroy(&cublas->learning_lock);
    ph__free(cublas);
    ph__error_restore(&saved);
}

/* The largest power of two up to 16 that all addresses and strides are multiples of. */
static uint32_t alignment_of_product(const ph__product *p, uint64_t size)
{
    uint64_t all = (uint64_t)(uintptr_t)p->a | (uint64_t)(uintptr_t)p->b |
                   (uint64_t)(uintptr_t)p->c | (uint64_t)(uintptr_t)p->bias | 16;
    if (p->batch > 1)
        all |= ((uint64_t)p->stride_a | (uint64_t)p->stride_b | (uint64_t)p->stride_c) * size;
    return (uint32_t)(all & (~all + 1));
}

static ph__product_kind kind_of(const ph__product *p)
{
    bool many = p->batch > 1, tf32 = p->dtype == PH_DTYPE_F32 && ph_tf32();
    return (ph__product_kind){
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .batch = p->batch,
        .lda = p->lda,
        .ldb = p->ldb,
        .ldc = p->ldc,
        .stride_a = many ? p->stride_a : 0,
        .stride_b = many ? p->stride_b : 0,
        .stride_c = many ? p->stride_c : 0,
        .dtype = (uint32_t)p->dtype,
        .flags = (p->transpose_a ? PH__PRODUCT_TRANSPOSE_A : 0u) |
                 (p->transpose_b ? PH__PRODUCT_TRANSPOSE_B : 0u) |
                 (p->bias ? PH__PRODUCT_BIAS : 0u) | (p->accumulate ? PH__PRODUCT_ACCUMULATE : 0u) |
                 (tf32 ? PH__PRODUCT_TF32 : 0u) | (p->wide ? PH__PRODUCT_WIDE : 0u),
        .alignment = alignment_of_product(p, ph_dtype_size(p->dtype))};
}

/* The outcome of one attempt. */
typedef enum outcome {
    DONE,
    IMPOSSIBLE, /* cuBLASLt has no algorithm; nothing was done */
    FAILED      /* so has the tape */
} outcome;

/* A temporary in the order of the stream; in a capture of ours a block that is not the graph's,
 * where it is enough. NULL: the tape has failed. */
static void *find_workspace(ph__op *op, size_t bytes)
{
    void *block = NULL;
    ph_tape *tape = op->tape;
    if (bytes <= PH__WORKSPACE_BYTES &&
        !ph__op_check(op,
                      ph__workspace_of(&block, tape->backend->workspaces, tape->stream, op->name)))
        return NULL;
    if (block)
        return block;
    const ph_tensor *scratch = ph__op_scratch(op, bytes);
    return scratch ? scratch->data : NULL;
}

/* Where it is new and the process wants it, what is proposed is timed; as it is in no capture. */
static ph__product_plan *plan_of(const ph__op *op, ph__cublas *cublas, const ph__product_kind *k,
                                 const ph__product *p)
{
    ph__product_plan *found = NULL;
    if (!ph_benchmark() || (found = ph__product_plan_find(cublas, k)) != NULL ||
        !ph__benchmark_wanted(op->tape->stream))
        return found ? found : ph__product_plan_of(cublas, k);
    return ph__product_plan_timed(cublas, k, p, op->tape->stream);
}

/* Under the learning lock. A failure is tried again in a later capture. */
static void learn_kernel(ph__cublas *cublas, ph__product_plan *how, const ph__product *p,
                         unsigned captures)
{
    enum {
        TRIES = 3 /* failures, for want of memory, say */
    };
    bool differ;
    ph__product_kernel *made = ph__product_learn(&differ, cublas, how, p);
    atomic_store_explicit(&how->kernel, made, memory_order_release);
    how->tried_in = captures;
    if (made || differ || ++how->failures == TRIES)
        atomic_store_explicit(&how->decided, true, memory_order_relaxed);
}

/* Another product of the plan is submitted through cuBLASLt. */
static bool is_in_use(const ph__cublas *cublas, ph__product_plan *how)
{
    return atomic_load_explicit(&how->uses, memory_order_relaxed) >= cublas->learn_after ||
           atomic_fetch_add_explicit(&how->uses, 1, memory_order_relaxed) >= cublas->learn_after;
}

/* The kernel of the plan, learned in a capture; NULL: the call is cuBLASLt's. Whether the stream is
 * capturing may cost a call of the driver: a program without captures is spared that. */
static const ph__product_kernel *kernel_of(ph__cublas *cublas, ph__product_plan *how,
                                           const ph__product *p, const ph_stream *stream)
{
    const ph__product_kernel *known = atomic_load_explicit(&how->kernel, memory_order_acquire);
    if (known || !cublas->learns || how->workspace > 0 ||
        atomic_load_explicit(&how->decided, memory_order_relaxed) || !is_in_use(cublas, how) ||
        atomic_load_explicit(&cublas->captures, memory_order_relaxed) == 0 ||
        !ph_stream_is_capturing(stream))
        return known;
    pthread_mutex_lock(&cublas->learning_lock);
    unsigned captures = atomic_load_explicit(&cublas->captures, memory_order_relaxed);
    if (!atomic_load_explicit(&how->decided, memory_order_relaxed) && captures != how->tried_in)
        learn_kernel(cublas, how, p, captures);
    pthread_mutex_unlock(&cublas->learning_lock);
    return atomic_load_explicit(&how->kernel, memory_order_acquire);
}

void ph__cublas_expect_capture(ph__cublas *cublas)
{
    atomic_fetch_add_explicit(&cublas->captures, 1, memory_order_relaxed);
}

/* False: the product is cuBLASLt's. A launch that is not valid is, too: cuBLASLt may have set the
 * function up for another one since. *failed: it was not submitted, and the record is set. */
static bool submit_learned(bool *failed, const ph__cublas *cublas, const ph__product_kernel *kernel,
                           const ph__product *p, struct CUstream_st *stream)
{
    const ph__product_operands operands = ph__product_operands_of(p);
    int result = kernel ? ph__product_kernel_launch(kernel, &cublas->driver, &operands, stream)
                        : PH__R_INVALID_VALUE;
    *failed = result != PH__R_OK && result != PH__R_INVALID_VALUE &&
              ph_fail_cuda(result, "cuLaunchKernelEx") != PH_OK;
    return result != PH__R_INVALID_VALUE;
}

/* The answer is a cublasStatus_t. */
static int submit_product(bool *failed, ph__op *op, ph__cublas *cublas, ph__product_plan *how,
                          const ph__product *p, void *workspace, struct CUstream_st *stream)
{
    const ph__product_kernel *kernel = kernel_of(cublas, how, p, op->tape->stream);
    return submit_learned(failed, cublas, kernel, p, stream)
               ? PH__LT_OK
               : ph__product_plan_call(cublas, how, p, workspace, stream);
}

/* In a capture that is dead cuBLASLt's number says less than the driver's. */
static ph_status fail_product(int result, const ph_stream *stream)
{
    ph_capture_info info;
    if (ph_stream_get_capture_info(&info, stream) == PH_OK && info.status == PH_CAPTURE_INVALIDATED)
        return ph_fail_cuda(PH__R_CAPTURE_INVALIDATED, "cublasLtMatmul");
    return ph__cublaslt_fail(result, "cublasLtMatmul", "when the product was submitted");
}

/* Of a plan that has learned its kernel nothing else is needed, not even a context: an explicit
 * stream has one. False: the product is to be submitted in full. */
static bool run_learned(outcome *out, ph__op *op, ph__cublas *cublas, const ph__product_kind *k,
                        const ph__product *p, struct CUstream_st *stream)
{
    const ph__product_plan *plan = stream ? ph__product_plan_find(cublas, k) : NULL;
    bool failed;
    if (!plan ||
        !submit_learned(&failed, cublas, atomic_load_explicit(&plan->kernel, memory_order_acquire),
                        p, stream))
        return false;
    *out = ph__op_check(op, failed ? ph_error_last()->status : PH_OK) ? DONE : FAILED;
    return true;
}

static outcome run_product(ph__op *op, ph__cublas *cublas, const ph__product *p)
{
    outcome learned;
    ph__product_kind k = kind_of(p);
    struct CUstream_st *stream = NULL;
    ph_device *device = op->tape->backend->device;
    void *workspace = NULL;
    if (!ph__op_check(op, ph_stream_lend_cuda(&stream, op->tape->stream)))
        return FAILED;
    if (run_learned(&learned, op, cublas, &k, p, stream))
        return learned;
    ph_status status = ph_context_push_cuda(device);
    if (!ph__op_check(op, status))
        return FAILED;
    ph__product_plan *how = plan_of(op, cublas, &k, p);
    bool possible = how && how->possible, ready = possible;
    if (possible && how->workspace > 0)
        ready = (workspace = find_workspace(op, how->workspace)) != NULL;
    bool failed = false;
    int result = ready ? submit_product(&failed, op, cublas, how, p, workspace, stream) : PH__LT_OK;
    ph_context_pop_cuda(device);
    /* An algorithm that refuses when it sees the operands does so before anything is submitted. */
    if (result == PH__LT_NOT_SUPPORTED)
        possible = ready = false;
    else if (!how || failed)
        status = ph_error_last()->status;
    else if (result)
        status = fail_product(result, op->tape->stream);
    if (!ph__op_check(op, status) || ready != possible)
        return FAILED;
    return possible ? DONE : IMPOSSIBLE;
}

/* The library's kernels do not say which of their words are addresses. */
static bool use_operands(ph__op *op, const ph__product *p)
{
    return ph__op_uses(op, p->a) && ph__op_uses(op, p->b) && ph__op_uses(op, p->bias) &&
           ph__op_uses(op, p->c);
}

bool ph__product_cuda(ph__op *op, ph__cublas *cublas, const ph__product *product)
{
    if (product->batch > INT32_MAX) {
        ph__op_fail(op, PH_ERROR_SIZE, "a product has at most 2^31 - 1 matrices");
        return false;
    }
    ph__product ordered = *product;
    const ph__product *p = &ordered;
    if (!ph__product_order(op, &ordered) || !use_operands(op, p))
        return false;
    outcome result = run_product(op, cublas, p);
    if (result == IMPOSSIBLE && p->bias) {
        ph__product without = *p;
        without.bias = NULL;
        without.accumulate = true;
        result = ph__product_sum(op, p, NULL, 0) ? run_product(op, cublas, &without) : FAILED;
    }
    if (result == IMPOSSIBLE)
        ph__op_fail(
            op, PH_ERROR_UNSUPPORTED,
            "cuBLASLt has no algorithm that needs next to no workspace for a product of m %lld, n "
            "%lld, k %lld",
            (long long)p->m, (long long)p->n, (long long)p->k);
    return result == DONE;
}
