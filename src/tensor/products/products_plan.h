/* SPDX-License-Identifier: MIT */
/* tensor/products/products_plan.h: plans of products on a GPU. */
#ifndef PH_TENSOR_PRODUCTS_PRODUCTS_PLAN_H
#define PH_TENSOR_PRODUCTS_PRODUCTS_PLAN_H
#include "base/sync.h"
#include "tensor/products/cublaslt_abi.h"
#include "tensor/products/products.h"
#include "tensor/products/products_kernel.h"

/* All that the choice of an algorithm depends on. No padding: it is
 * compared and hashed as it lies. */
typedef struct ph__product_kind {
    int64_t m, n, k, batch, lda, ldb, ldc, stride_a, stride_b, stride_c;
    uint32_t dtype, flags, alignment, unused;
} ph__product_kind;
enum {
    PH__PRODUCT_TRANSPOSE_A = 1,
    PH__PRODUCT_TRANSPOSE_B = 2,
    PH__PRODUCT_BIAS = 4,
    PH__PRODUCT_ACCUMULATE = 8,
    PH__PRODUCT_TF32 = 16,
    PH__PRODUCT_WIDE = 32
};

/* cuBLASLt's matrices are column-major: a row-major c = a b is its c' = b' a'. So its A is our
 * b, and its B our a. */
typedef struct ph__product_plan {
    ph__product_kind kind;
    struct ph__product_plan *next;
    bool possible; /* false: cuBLASLt has no algorithm for it */
    ph__lt_algorithm algorithm;
    size_t workspace; /* bytes: at most PH__WORKSPACE_BYTES, of deep products more */
    void *descriptor, *layout_a, *layout_b, *layout_c;
    ph__mutex bias_lock; /* the bias's address is a part of the descriptor */
    atomic_bool used;
    atomic_bool decided; /* the kernel below is known, or that there is none */
    atomic_uint uses;    /* products that were cuBLASLt's, up to learn_after */
    /* Under the learning lock: failures to learn, and after how many captures the last try was. */
    unsigned failures, tried_in;
    _Atomic(ph__product_kernel *) kernel; /* NULL: calls go through cuBLASLt */
} ph__product_plan;

enum {
    PH__PRODUCT_BUCKETS = 1024,
    /* Learning a kernel takes some 0.15 ms of the host's time, and a captured launch of it 2.3 us
     * less than cuBLASLt (docs/measurements/callables.md). So what is learned has saved more than
     * it has cost when as many products again have come. */
    PH__PRODUCT_USES = 128
};
struct ph__cublas {
    void *handle;
    uint32_t multiprocessors;
    pthread_mutex_t lock; /* of making plans */
    atomic_uint captures; /* of this library, as far as they are expected */
    ph__product_driver driver;
    /* Of learning kernels, which calls the driver: so plans are made beside it. */
    pthread_mutex_t learning_lock;
    bool learns;                     /* kernels of plans; what follows is of that */
    unsigned learn_after;            /* products of a plan: PH__PRODUCT_USES, and less in tests */
    struct CUstream_st *learning[2]; /* in captures of their own alone */
    _Atomic(ph__product_plan *)
        plans[PH__PRODUCT_BUCKETS]; /* read without a lock; they stay until the end */
};

/* The plan for a kind, made at its first use. NULL: the record is set. */
ph__product_plan *ph__product_plan_of(ph__cublas *cublas, const ph__product_kind *k);
ph__product_plan *ph__product_plan_find(ph__cublas *cublas, const ph__product_kind *k);

/* In two steps: a plan that is the caller's alone, with the first of what cuBLASLt proposes for it
 * (products_choice.h), and the one that stays: this one, or what another thread made meanwhile. */
struct ph__product_proposals;
struct ph__product_proposal;
ph__product_plan *ph__product_plan_make(ph__cublas *cublas, const ph__product_kind *k,
                                        struct ph__product_proposals *proposals, bool others);
void ph__product_plan_use(ph__product_plan *p, const struct ph__product_proposal *proposal);
ph__product_plan *ph__product_plan_keep(ph__cublas *cublas, ph__product_plan *p);
void ph__product_plan_free(ph__product_plan *p);

/* Submits the product; workspace: of how->workspace bytes. The answer is a cublasStatus_t. */
int ph__product_plan_call(ph__cublas *cublas, ph__product_plan *how, const ph__product *p,
                          void *workspace, struct CUstream_st *stream);
#endif
