/* SPDX-License-Identifier: MIT */
/* tensor/products/products_benchmark.c: the fastest of cuBLASLt's proposals for a product. */
#include "tensor/products/products_benchmark.h"
#include "tensor/products/cublaslt.h"
#include "tensor/products/products_choice.h"
#include <phonograph/cuda.h>

typedef struct contest {
    ph__cublas *cublas;
    ph__product_plan *plan; /* no other thread has it yet */
    ph__product product;
    ph__product_proposals proposals;
    struct CUstream_st *stream;
    void *workspace;
    size_t workspace_bytes; /* 0: there is none */
} contest;

static bool submit_proposal(void *user, int i)
{
    contest *c = user;
    const ph__product_proposal *proposal = &c->proposals.of[i];
    if (proposal->workspace > c->workspace_bytes)
        return false;
    ph__product_plan_use(c->plan, proposal);
    return ph__product_plan_call(c->cublas, c->plan, &c->product,
                                 proposal->workspace > 0 ? c->workspace : NULL,
                                 c->stream) == PH__LT_OK;
}

static size_t largest_workspace(const ph__product_proposals *all)
{
    size_t most = 0;
    for (int i = 0; i < all->count; i++)
        most = all->of[i].workspace > most ? all->of[i].workspace : most;
    return most;
}

/* From the first to the last element of c. */
static size_t result_bytes(const ph__product *p)
{
    int64_t elements = (p->batch - 1) * p->stride_c + (p->m - 1) * p->ldc + p->n;
    return (size_t)elements * ph_dtype_size(p->dtype);
}

/* Without memory for it, what needs it does not compete. */
static int find_fastest(contest *c, ph_stream *stream)
{
    size_t bytes = largest_workspace(&c->proposals);
    c->workspace = bytes > 0 ? ph__benchmark_memory(stream, bytes) : NULL;
    c->workspace_bytes = c->workspace ? bytes : 0;
    int fastest = ph__benchmark_fastest(stream, c->proposals.count, submit_proposal, c);
    ph__benchmark_release(c->workspace, stream);
    return fastest;
}

/* A product that adds to c adds to other memory meanwhile. */
static int time_proposals(contest *c, ph_stream *stream)
{
    void *results = NULL;
    if (c->product.accumulate) {
        results = ph__benchmark_memory(stream, result_bytes(&c->product));
        c->product.c = results;
    }
    int fastest = c->product.c ? find_fastest(c, stream) : -1;
    ph__benchmark_release(results, stream);
    return fastest;
}

ph__product_plan *ph__product_plan_timed(ph__cublas *cublas, const ph__product_kind *k,
                                         const ph__product *p, ph_stream *stream)
{
    contest c = {.cublas = cublas, .product = *p};
    if (ph_stream_lend_cuda(&c.stream, stream) != PH_OK)
        return NULL;
    c.plan = ph__product_plan_make(cublas, k, &c.proposals, true);
    if (!c.plan)
        return NULL;
    if (c.proposals.count > 0) {
        int fastest = c.proposals.count > 1 ? time_proposals(&c, stream) : 0;
        ph__product_plan_use(c.plan, &c.proposals.of[fastest < 0 ? 0 : fastest]);
    }
    return ph__product_plan_keep(cublas, c.plan);
}
