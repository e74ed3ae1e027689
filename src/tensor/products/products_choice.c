/* SPDX-License-Identifier: MIT */
/* tensor/products/products_choice.c: the algorithms that cuBLASLt proposes for a product. */
#include "tensor/products/products_choice.h"
#include "tensor/products/cublaslt.h"
#include "tensor/products/products_workspace.h"
#include <string.h>

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
    CHOICES = 16, /* cuBLASLt is asked for, as not all may be used */
    MORE_CHOICES = 32,
    WORKSPACE = PH__WORKSPACE_BYTES,
    /* cublasLtReductionScheme_t: where the parts of a divided sum are */
    IN_RESULTS = 1,
    IN_COMPUTED_TYPE = 2
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

static bool may_be_divided(const ph__product_kind *k)
{
    return (double)k->m * (double)k->n < (double)few_results && k->batch == 1 &&
           !(k->flags & PH__PRODUCT_BIAS) && multiplications_of(k) > small_product;
}

static bool is_deep_product(const ph__product_kind *k)
{
    int64_t longest = k->m > k->n ? k->m : k->n;
    return may_be_divided(k) &&
           (is_half_product(k) ? k->k / 16 >= longest
                               : k->flags & PH__PRODUCT_TF32 && k->k >= longest);
}

/* One question to cuBLASLt. workspace: what it is told of; most: what may be used. */
typedef struct question {
    ph__cublas *cublas;
    const ph__product_plan *plan;
    void *preference;
    uint64_t workspace, most;
    int choices;
} question;

static int set_preference(const question *q)
{
    const ph__product_kind *k = &q->plan->kind;
    int result = ph__cublaslt.MatmulPreferenceSetAttribute(
        q->preference, PH__LT_PREFERENCE_WORKSPACE, &q->workspace, sizeof q->workspace);
    for (int i = 0; !result && i < 4; i++)
        result = ph__cublaslt.MatmulPreferenceSetAttribute(
            q->preference, PH__LT_PREFERENCE_ALIGNMENT_A + i, &k->alignment, sizeof k->alignment);
    return result;
}

static bool is_new(const ph__product_proposals *all, const ph__lt_choice *choice)
{
    for (int i = 0; i < all->count; i++)
        if (memcmp(&all->of[i].algorithm, &choice->algorithm, sizeof choice->algorithm) == 0)
            return false;
    return choice->state == PH__LT_OK;
}

/* Adds at most `wanted`. None at all is no failure. */
static int ask_for_algorithms(ph__product_proposals *out, const question *q, int wanted)
{
    ph__lt_choice choices[MORE_CHOICES];
    const ph__product_plan *p = q->plan;
    int found = 0, result = set_preference(q);
    memset(choices, 0, sizeof choices);
    if (!result)
        result = ph__cublaslt.MatmulAlgoGetHeuristic(q->cublas->handle, p->descriptor, p->layout_a,
                                                     p->layout_b, p->layout_c, p->layout_c,
                                                     q->preference, q->choices, choices, &found);
    for (int i = 0; !result && i < found && wanted > 0; i++)
        if (is_new(out, &choices[i]) && choices[i].workspace <= q->most) {
            out->of[out->count++] =
                (ph__product_proposal){choices[i].algorithm, choices[i].workspace};
            wanted--;
        }
    return result == PH__LT_NOT_SUPPORTED ? PH__LT_OK : result;
}

/* The one that is taken where nothing is timed. */
static int ask_for_first(ph__product_proposals *out, question *q)
{
    const ph__product_kind *k = &q->plan->kind;
    bool small = multiplications_of(k) <= small_product;
    int result = PH__LT_OK;
    q->choices = CHOICES;
    if (is_deep_product(k)) {
        q->workspace = q->most = deep_workspace;
        result = ask_for_algorithms(out, q, 1);
    }
    q->most = WORKSPACE;
    for (int i = 0; !result && out->count == 0 && i < 2; i++) {
        q->workspace = small == (i == 0) ? 0 : pretended_workspace;
        result = ask_for_algorithms(out, q, 1);
    }
    return result;
}

/* Others may be faster. Parts of a divided sum are kept in the type that is computed in: so results
 * are as exact as those of the first. */
static int ask_for_others(ph__product_proposals *out, question *q)
{
    const ph__product_kind *k = &q->plan->kind;
    bool rounded = is_half_product(k) && !(k->flags & PH__PRODUCT_WIDE);
    const uint32_t reductions = rounded ? IN_COMPUTED_TYPE : IN_COMPUTED_TYPE | IN_RESULTS;
    int result = ph__cublaslt.MatmulPreferenceSetAttribute(
        q->preference, PH__LT_PREFERENCE_REDUCTIONS, &reductions, sizeof reductions);
    q->choices = MORE_CHOICES;
    q->most = WORKSPACE;
    q->workspace = multiplications_of(k) <= small_product ? 0 : pretended_workspace;
    if (!result)
        result = ask_for_algorithms(out, q, PH__BENCHMARK_LIMIT - out->count);
    q->workspace = q->most = deep_workspace;
    if (!result && may_be_divided(k))
        result = ask_for_algorithms(out, q, PH__BENCHMARK_LIMIT);
    return result;
}

int ph__product_propose(ph__product_proposals *out, ph__cublas *cublas, const ph__product_plan *p,
                        bool others)
{
    question q = {.cublas = cublas, .plan = p};
    out->count = 0;
    int result = ph__cublaslt.MatmulPreferenceCreate(&q.preference);
    if (result)
        return result;
    result = ask_for_first(out, &q);
    if (!result && others && out->count > 0)
        (void)ask_for_others(out, &q); /* the first one does without them */
    (void)ph__cublaslt.MatmulPreferenceDestroy(q.preference);
    return result;
}
