/* SPDX-License-Identifier: MIT */
/* tensor/products/products_cuda.c: products on a GPU by cuBLASLt: an algorithm for each kind of
 * product, chosen once, and none that needs a workspace worth the name. */
#include "base/alloc.h"
#include "base/environment.h"
#include "base/fork.h"
#include "base/status.h"
#include "base/sync.h"
#include "tensor/core/tensor.h"
#include "tensor/products/cublaslt_abi.h"
#include "tensor/products/products.h"
#include "tensor/products/products_workspace.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include <dlfcn.h>
#include <phonograph/cuda.h>
#include <string.h>

/* ---- the library ---- loaded once, for the rest of the process. A failure is tried again:
 * PH_CUBLASLT may have been set since. */
static struct {
    pthread_mutex_t lock;
    bool ready;
    ph__lt_functions functions;
} lt = {.lock = PTHREAD_MUTEX_INITIALIZER};
PH__FORK_LOCK(PH__FORK_PRODUCTS_CUDA, lt.lock)

static const char *find_functions(ph__lt_functions *out, void *library)
{
#define FIND(name, result, parameters)                                                             \
    *(void **)&out->name = dlsym(library, "cublasLt" #name);                                       \
    if (!out->name)                                                                                \
        return "cublasLt" #name;
    PH__LT_FUNCTIONS(FIND)
#undef FIND
    return NULL;
}

static void *open_library(void)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so",
                                        "/usr/local/cuda/lib64/libcublasLt.so"};
    const char *own = ph__environment("PH_CUBLASLT");
    void *library = own && own[0] ? dlopen(own, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

static ph_status load(void)
{
    pthread_mutex_lock(&lt.lock);
    void *library = lt.ready ? NULL : open_library();
    const char *missing = library ? find_functions(&lt.functions, library) : NULL;
    if (library && !missing)
        lt.ready = true;
    else if (library)
        (void)dlclose(library);
    bool ready = lt.ready;
    pthread_mutex_unlock(&lt.lock);
    if (ready)
        return PH_OK;
    if (missing)
        return ph__fail_native(PH_ERROR_UNSUPPORTED, 0, NULL,
                               "the cuBLASLt that was found has no %s; name another in PH_CUBLASLT",
                               missing);
    return ph__fail_native(
        PH_ERROR_UNSUPPORTED, 0, NULL,
        "cuBLASLt cannot be loaded (libcublasLt.so.13 or .12): install it, it comes with the "
        "CUDA toolkit; or name it in PH_CUBLASLT");
}

/* ---- kinds of products ---- all that the choice of an algorithm depends on. No padding: it is
 * compared and hashed as it lies. */
typedef struct kind {
    int64_t m, n, k, batch, lda, ldb, ldc, stride_a, stride_b, stride_c;
    uint32_t dtype, flags, alignment, unused;
} kind;
enum {
    KIND_TRANSPOSE_A = 1,
    KIND_TRANSPOSE_B = 2,
    KIND_BIAS = 4,
    KIND_ACCUMULATE = 8,
    KIND_TF32 = 16
};

/* cuBLASLt's matrices are column-major: a row-major c = a b is its c' = b' a'. So its A is our
 * b, and its B our a. */
typedef struct plan {
    kind kind;
    struct plan *next;
    bool possible; /* false: cuBLASLt has no algorithm for it */
    ph__lt_algorithm algorithm;
    size_t workspace; /* bytes, at most WORKSPACE */
    void *descriptor, *layout_a, *layout_b, *layout_c;
    ph__mutex bias_lock; /* the bias's address is a part of the descriptor */
    atomic_bool used;
} plan;

enum {
    BUCKETS = 1024
};
struct ph__cublas {
    void *handle;
    uint32_t multiprocessors;
    pthread_mutex_t lock;           /* of making plans */
    _Atomic(plan *) plans[BUCKETS]; /* read without a lock; they stay until the end */
};

/* The first calls of the library may allocate and load: memory of its own, in nobody's graph. */
static ph_capture_mode begin_relaxed(void)
{
    ph_capture_mode mode = PH_CAPTURE_RELAXED;
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    return mode;
}

static void end_relaxed(ph_capture_mode mode)
{
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
}

static ph_status fail_lt(int result, const char *call, const char *what)
{
    return ph__fail_native(result == PH__LT_ALLOC_FAILED ? PH_ERROR_DEVICE_MEMORY : PH_ERROR_DEVICE,
                           result, call, "%s answered %d (cublasStatus_t) %s", call, result, what);
}

ph__cublas *ph__cublas_create(ph_device *device, uint32_t multiprocessors)
{
    if (load() != PH_OK)
        return NULL;
    ph__cublas *cublas = ph__calloc(1, sizeof *cublas);
    if (!cublas || pthread_mutex_init(&cublas->lock, NULL) != 0) {
        ph__free(cublas);
        ph_ignore(ph__fail_host_memory("a matrix product", "the product library's state"));
        return NULL;
    }
    cublas->multiprocessors = multiprocessors;
    bool pushed = ph_context_push_cuda(device) == PH_OK;
    if (pushed) {
        ph_capture_mode mode = begin_relaxed();
        int result = lt.functions.Create(&cublas->handle);
        end_relaxed(mode);
        ph_context_pop_cuda(device);
        if (result == PH__LT_OK)
            return cublas;
        ph_ignore(fail_lt(result, "cublasLtCreate", "when products were first asked for"));
    }
    (void)pthread_mutex_destroy(&cublas->lock);
    ph__free(cublas);
    return NULL;
}

static void free_plan(plan *p)
{
    if (p->descriptor)
        (void)lt.functions.MatmulDescDestroy(p->descriptor);
    void *const layouts[3] = {p->layout_a, p->layout_b, p->layout_c};
    for (int i = 0; i < 3; i++)
        if (layouts[i])
            (void)lt.functions.MatrixLayoutDestroy(layouts[i]);
    ph__free(p);
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
    ph_capture_mode mode = begin_relaxed();
    for (size_t i = 0; i < BUCKETS; i++) {
        plan *next = atomic_load(&cublas->plans[i]);
        while (next) {
            plan *p = next;
            next = p->next;
            free_plan(p);
        }
    }
    (void)lt.functions.Destroy(cublas->handle);
    end_relaxed(mode);
    if (pushed)
        ph_context_pop_cuda(device);
    (void)pthread_mutex_destroy(&cublas->lock);
    ph__free(cublas);
    ph__error_restore(&saved);
}

/* ---- plans ---- */
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
        lt.functions.MatrixLayoutCreate(out, lt_type(dtype), (uint64_t)rows, (uint64_t)columns, ld);
    if (!result && batch > 1)
        result = lt.functions.MatrixLayoutSetAttribute(*out, PH__LT_LAYOUT_BATCH_COUNT, &count,
                                                       sizeof count);
    if (!result && batch > 1)
        result = lt.functions.MatrixLayoutSetAttribute(*out, PH__LT_LAYOUT_BATCH_OFFSET, &stride,
                                                       sizeof stride);
    return result;
}

static int make_layouts(plan *p)
{
    const kind *k = &p->kind;
    bool ta = k->flags & KIND_TRANSPOSE_A, tb = k->flags & KIND_TRANSPOSE_B;
    int result = make_layout(&p->layout_a, k->dtype, tb ? k->k : k->n, tb ? k->n : k->k, k->ldb,
                             k->batch, k->stride_b);
    if (!result)
        result = make_layout(&p->layout_b, k->dtype, ta ? k->m : k->k, ta ? k->k : k->m, k->lda,
                             k->batch, k->stride_a);
    if (!result)
        result = make_layout(&p->layout_c, k->dtype, k->n, k->m, k->ldc, k->batch, k->stride_c);
    return result;
}

static int make_descriptor(plan *p)
{
    const kind *k = &p->kind;
    bool f64 = k->dtype == PH_DTYPE_F64;
    int compute = f64                    ? PH__LT_COMPUTE_F64
                  : k->flags & KIND_TF32 ? PH__LT_COMPUTE_TF32
                                         : PH__LT_COMPUTE_F32;
    int32_t first = k->flags & KIND_TRANSPOSE_B ? PH__LT_TRANSPOSED : PH__LT_AS_IT_IS,
            epilogue = PH__LT_EPILOGUE_BIAS;
    int32_t second = k->flags & KIND_TRANSPOSE_A ? PH__LT_TRANSPOSED : PH__LT_AS_IT_IS,
            type = lt_type(k->dtype);
    int result =
        lt.functions.MatmulDescCreate(&p->descriptor, compute, f64 ? PH__LT_F64 : PH__LT_F32);
    if (!result)
        result = lt.functions.MatmulDescSetAttribute(p->descriptor, PH__LT_DESC_TRANSPOSE_A, &first,
                                                     sizeof first);
    if (!result)
        result = lt.functions.MatmulDescSetAttribute(p->descriptor, PH__LT_DESC_TRANSPOSE_B,
                                                     &second, sizeof second);
    if (!result && k->flags & KIND_BIAS)
        result = lt.functions.MatmulDescSetAttribute(p->descriptor, PH__LT_DESC_EPILOGUE, &epilogue,
                                                     sizeof epilogue);
    if (!result && k->flags & KIND_BIAS)
        result = lt.functions.MatmulDescSetAttribute(p->descriptor, PH__LT_DESC_BIAS_TYPE, &type,
                                                     sizeof type);
    return result;
}

/* A workspace that stayed would be a race between graphs that replay at once, or keep a graph's
 * pool alive. So algorithms use only some 100 bytes, for counters.
 * - An eager operator uses a temporary, a captured one a block that is in no graph's pool
 *   (products_workspace.h).
 * - cuBLASLt leaves its best algorithms out when it is told of no workspace, or of a small one
 *   (measured on an H200: TF32 products took twice as long). So it is told of more than will be
 *   used.
 * - Small products are the exception: algorithms that it then gives clear their counters first, in
 *   a node of its own, which costs a graph of such products a third. */
enum {
    CHOICES = 16,
    WORKSPACE = PH__WORKSPACE_BYTES
};
static const uint64_t pretended_workspace = 4u << 20;
static const double small_product = 1 << 25; /* multiplications: some microseconds */

static int set_preference(void *preference, const kind *k, uint64_t workspace)
{
    int result = lt.functions.MatmulPreferenceSetAttribute(preference, PH__LT_PREFERENCE_WORKSPACE,
                                                           &workspace, sizeof workspace);
    for (int i = 0; !result && i < 4; i++)
        result = lt.functions.MatmulPreferenceSetAttribute(
            preference, PH__LT_PREFERENCE_ALIGNMENT_A + i, &k->alignment, sizeof k->alignment);
    return result;
}

static int ask(ph__cublas *cublas, plan *p, void *preference, uint64_t workspace)
{
    ph__lt_choice choices[CHOICES];
    int found = 0, result = set_preference(preference, &p->kind, workspace);
    memset(choices, 0, sizeof choices);
    if (!result)
        result = lt.functions.MatmulAlgoGetHeuristic(cublas->handle, p->descriptor, p->layout_a,
                                                     p->layout_b, p->layout_c, p->layout_c,
                                                     preference, CHOICES, choices, &found);
    for (int i = 0; !result && i < found && !p->possible; i++)
        if (choices[i].state == PH__LT_OK && choices[i].workspace <= WORKSPACE) {
            p->possible = true;
            p->algorithm = choices[i].algorithm;
            p->workspace = choices[i].workspace;
        }
    return result == PH__LT_NOT_SUPPORTED ? PH__LT_OK : result;
}

/* No algorithm at all is no failure here. */
static int choose_algorithm(ph__cublas *cublas, plan *p)
{
    void *preference = NULL;
    int result = lt.functions.MatmulPreferenceCreate(&preference);
    if (result)
        return result;
    const kind *k = &p->kind;
    bool small = (double)k->m * (double)k->n * (double)k->k * (double)k->batch <= small_product;
    result = ask(cublas, p, preference, small ? 0 : pretended_workspace);
    if (!result && !p->possible)
        result = ask(cublas, p, preference, small ? pretended_workspace : 0);
    (void)lt.functions.MatmulPreferenceDestroy(preference);
    return result;
}

static plan *make_plan(ph__cublas *cublas, const kind *k)
{
    plan *p = ph__calloc(1, sizeof *p);
    if (!p) {
        ph_ignore(ph__fail_host_memory("a matrix product", "a description of it"));
        return NULL;
    }
    p->kind = *k;
    ph_capture_mode mode = begin_relaxed();
    int result = make_descriptor(p);
    if (!result)
        result = make_layouts(p);
    if (!result)
        result = choose_algorithm(cublas, p);
    if (result) {
        ph_ignore(fail_lt(result, "cublasLtMatmulAlgoGetHeuristic",
                          "when the product was described to it"));
        free_plan(p);
        p = NULL;
    }
    end_relaxed(mode);
    return p;
}

static size_t bucket_of(const kind *k)
{
    uint64_t words[sizeof *k / 8], hash = 0;
    memcpy(words, k, sizeof words);
    for (size_t i = 0; i < sizeof words / 8; i++) {
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash % BUCKETS;
}

static plan *find_plan(plan *first, const kind *k)
{
    while (first && memcmp(&first->kind, k, sizeof *k) != 0)
        first = first->next;
    return first;
}

/* NULL: the record is set. */
static plan *plan_of(ph__cublas *cublas, const kind *k)
{
    _Atomic(plan *) *bucket = &cublas->plans[bucket_of(k)];
    plan *found = find_plan(atomic_load_explicit(bucket, memory_order_acquire), k);
    if (found)
        return found;
    pthread_mutex_lock(&cublas->lock);
    plan *first = atomic_load_explicit(bucket, memory_order_relaxed);
    found = find_plan(first, k);
    if (!found && (found = make_plan(cublas, k)) != NULL) {
        found->next = first;
        atomic_store_explicit(bucket, found, memory_order_release);
    }
    pthread_mutex_unlock(&cublas->lock);
    return found;
}

/* ---- running one ---- */

/* The largest power of two up to 16 that all addresses and strides are multiples of. */
static uint32_t alignment_of(const ph__product *p, uint64_t size)
{
    uint64_t all = (uint64_t)(uintptr_t)p->a | (uint64_t)(uintptr_t)p->b |
                   (uint64_t)(uintptr_t)p->c | (uint64_t)(uintptr_t)p->bias | 16;
    if (p->batch > 1)
        all |= ((uint64_t)p->stride_a | (uint64_t)p->stride_b | (uint64_t)p->stride_c) * size;
    return (uint32_t)(all & (~all + 1));
}

static kind kind_of(const ph__product *p)
{
    bool many = p->batch > 1, tf32 = p->dtype == PH_DTYPE_F32 && ph_tf32();
    return (kind){.m = p->m,
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
                  .flags = (p->transpose_a ? KIND_TRANSPOSE_A : 0u) |
                           (p->transpose_b ? KIND_TRANSPOSE_B : 0u) | (p->bias ? KIND_BIAS : 0u) |
                           (p->accumulate ? KIND_ACCUMULATE : 0u) | (tf32 ? KIND_TF32 : 0u),
                  .alignment = alignment_of(p, ph_dtype_size(p->dtype))};
}

static int call_library(ph__cublas *cublas, plan *how, const ph__product *p, void *workspace,
                        struct CUstream_st *stream)
{
    static const float numbers_f32[2] = {0, 1};
    static const double numbers_f64[2] = {0, 1};
    bool f64 = p->dtype == PH_DTYPE_F64;
    const void *zero = f64 ? (const void *)&numbers_f64[0] : &numbers_f32[0];
    const void *one = f64 ? (const void *)&numbers_f64[1] : &numbers_f32[1];
    bool first = !atomic_load_explicit(&how->used, memory_order_relaxed);
    ph_capture_mode mode = first ? begin_relaxed() : PH_CAPTURE_RELAXED;
    int result = PH__LT_OK;
    if (p->bias) {
        ph__mutex_lock(&how->bias_lock);
        result = lt.functions.MatmulDescSetAttribute(how->descriptor, PH__LT_DESC_BIAS_POINTER,
                                                     &p->bias, sizeof p->bias);
    }
    if (!result)
        result = lt.functions.Matmul(cublas->handle, how->descriptor, one, p->b, how->layout_a,
                                     p->a, how->layout_b, p->accumulate ? one : zero, p->c,
                                     how->layout_c, p->c, how->layout_c, &how->algorithm, workspace,
                                     how->workspace, stream);
    if (p->bias)
        ph__mutex_unlock(&how->bias_lock);
    if (first)
        end_relaxed(mode);
    atomic_store_explicit(&how->used, true, memory_order_relaxed);
    return result;
}

/* The outcome of one attempt. */
typedef enum outcome {
    DONE,
    IMPOSSIBLE, /* cuBLASLt has no algorithm; nothing was done */
    FAILED      /* so has the tape */
} outcome;

/* A temporary in the order of the stream; in a capture of ours a block that is not the graph's.
 * NULL: the tape has failed. */
static void *find_workspace(ph__op *op, size_t bytes)
{
    void *block = NULL;
    ph_tape *tape = op->tape;
    if (!ph__op_check(op,
                      ph__workspace_of(&block, tape->backend->workspaces, tape->stream, op->name)))
        return NULL;
    if (block)
        return block;
    const ph_tensor *scratch = ph__op_scratch(op, bytes);
    return scratch ? scratch->data : NULL;
}

static outcome run_product(ph__op *op, ph__cublas *cublas, const ph__product *p)
{
    kind k = kind_of(p);
    struct CUstream_st *stream = NULL;
    ph_device *device = op->tape->backend->device;
    void *workspace = NULL;
    ph_status status = ph_stream_cuda(&stream, op->tape->stream);
    if (status == PH_OK)
        status = ph_context_push_cuda(device);
    if (!ph__op_check(op, status))
        return FAILED;
    plan *how = plan_of(cublas, &k);
    bool possible = how && how->possible, ready = possible;
    if (possible && how->workspace > 0)
        ready = (workspace = find_workspace(op, how->workspace)) != NULL;
    int result = ready ? call_library(cublas, how, p, workspace, stream) : PH__LT_OK;
    ph_context_pop_cuda(device);
    /* An algorithm that refuses when it sees the operands does so before anything is submitted. */
    if (result == PH__LT_NOT_SUPPORTED)
        possible = ready = false;
    else if (!how)
        status = ph_error_last()->status;
    else if (result)
        status = fail_lt(
            result, "cublasLtMatmul",
            "when the product was submitted; in a capture that has ended early this is its sign");
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

bool ph__product_cuda(ph__op *op, ph__cublas *cublas, const ph__product *p)
{
    if (p->batch > INT32_MAX) {
        ph__op_fail(op, PH_ERROR_SIZE, "a product has at most 2^31 - 1 matrices");
        return false;
    }
    if (!use_operands(op, p))
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
