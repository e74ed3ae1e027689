/* SPDX-License-Identifier: MIT */
/* tensor/cudnn/cudnn_plan.c: plans by their keys, and their submission. */
#include "tensor/cudnn/cudnn_plan.h"
#include "base/alloc.h"
#include "base/status.h"
#include "tensor/cudnn/cudnn.h"
#include <phonograph/cuda.h>
#include <string.h>

static size_t bucket_of_key(const ph__cudnn_key *key)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < PH__CUDNN_KEY_WORDS; i++) {
        hash = (hash ^ (uint64_t)key->word[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash % PH__CUDNN_BUCKETS;
}

static ph__cudnn_plan *find_key(ph__cudnn_plan *first, const ph__cudnn_key *key)
{
    while (first && memcmp(&first->key, key, sizeof *key) != 0)
        first = first->next;
    return first;
}

/* Without a plan its graph is of no use. The handle is the caller's meanwhile. */
static ph__cudnn_plan *build_plans(ph__cudnn *cudnn, const ph__cudnn_key *key,
                                   ph__cudnn_describe describe, const ph__cudnn_search *search)
{
    ph__cudnn_plan *p = ph__calloc(1, sizeof *p);
    if (!p) {
        ph_ignore(ph__fail_host_memory("attention", "a plan of cuDNN's"));
        return NULL;
    }
    p->key = *key;
    ph_capture_mode mode = PH_CAPTURE_RELAXED;
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    describe(&p->graph, key);
    p->built_count = ph__cudnn_graph_plans(p->built, &p->graph, cudnn->handle, search);
    if (p->built_count > 0)
        ph__cudnn_plan_use(p, 0);
    else
        ph__cudnn_graph_free(&p->graph);
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    return p;
}

void ph__cudnn_plan_use(ph__cudnn_plan *p, int i)
{
    p->plan = p->built[i].plan;
    p->workspace = p->built[i].workspace;
}

static _Atomic(ph__cudnn_plan *) *bucket_in(ph__cudnn *cudnn, const ph__cudnn_key *key)
{
    return &cudnn->plans[bucket_of_key(key)];
}

ph__cudnn_plan *ph__cudnn_plan_find(ph__cudnn *cudnn, const ph__cudnn_key *key)
{
    return find_key(atomic_load_explicit(bucket_in(cudnn, key), memory_order_acquire), key);
}

/* The one in the table, where there is one; else p. The lock is held. */
static ph__cudnn_plan *enter_plan(ph__cudnn *cudnn, ph__cudnn_plan *p)
{
    _Atomic(ph__cudnn_plan *) *bucket = bucket_in(cudnn, &p->key);
    ph__cudnn_plan *found = ph__cudnn_plan_find(cudnn, &p->key);
    if (found)
        return found;
    p->next = atomic_load_explicit(bucket, memory_order_relaxed);
    atomic_store_explicit(bucket, p, memory_order_release);
    return p;
}

ph__cudnn_plan *ph__cudnn_plan_of(ph__cudnn *cudnn, const ph__cudnn_key *key,
                                  ph__cudnn_describe describe, const ph__cudnn_search *search)
{
    ph__cudnn_plan *found = ph__cudnn_plan_find(cudnn, key);
    if (found)
        return found;
    ph__mutex_lock(&cudnn->lock);
    found = ph__cudnn_plan_find(cudnn, key);
    if (!found && (found = build_plans(cudnn, key, describe, search)) != NULL)
        found = enter_plan(cudnn, found);
    ph__mutex_unlock(&cudnn->lock);
    return found;
}

ph__cudnn_plan *ph__cudnn_plan_make(ph__cudnn *cudnn, const ph__cudnn_key *key,
                                    ph__cudnn_describe describe, const ph__cudnn_search *search)
{
    ph__mutex_lock(&cudnn->lock);
    ph__cudnn_plan *made = build_plans(cudnn, key, describe, search);
    ph__mutex_unlock(&cudnn->lock);
    return made;
}

static int make_pack(void *pack, const ph__cudnn_operands *operands, void *workspace)
{
    int result = ph__cudnn_library.BackendSetAttribute(pack, PH__CUDNN_PACK_IDS, PH__CUDNN_TYPE_I64,
                                                       operands->count, operands->id);
    if (!result)
        result = ph__cudnn_library.BackendSetAttribute(pack, PH__CUDNN_PACK_ADDRESSES,
                                                       PH__CUDNN_TYPE_ADDRESS, operands->count,
                                                       operands->address);
    if (!result)
        result = ph__cudnn_library.BackendSetAttribute(pack, PH__CUDNN_PACK_WORKSPACE,
                                                       PH__CUDNN_TYPE_ADDRESS, 1, &workspace);
    return result ? result : ph__cudnn_library.BackendFinalize(pack);
}

static int execute_plan(ph__cudnn *cudnn, ph__cudnn_plan *plan, const ph__cudnn_operands *operands,
                        void *workspace, struct CUstream_st *stream)
{
    void *pack = NULL;
    int result = ph__cudnn_library.BackendCreateDescriptor(PH__CUDNN_PACK, &pack);
    if (!result)
        result = make_pack(pack, operands, workspace);
    if (!result) {
        ph__mutex_lock(&cudnn->lock);
        result = ph__cudnn_library.SetStream(cudnn->handle, stream);
        if (!result)
            result = ph__cudnn_library.BackendExecute(cudnn->handle, plan->plan, pack);
        ph__mutex_unlock(&cudnn->lock);
    }
    if (pack)
        (void)ph__cudnn_library.BackendDestroyDescriptor(pack);
    return result;
}

ph_status ph__cudnn_submit(ph__cudnn *cudnn, ph__cudnn_plan *plan,
                           const ph__cudnn_operands *operands, void *workspace, ph_stream *stream)
{
    struct CUstream_st *cuda_stream = NULL;
    PH_TRY(ph_stream_lend_cuda(&cuda_stream, stream));
    if (ph_stream_is_capturing(stream))
        atomic_store_explicit(&plan->captured, true, memory_order_relaxed);
    ph_capture_mode mode = PH_CAPTURE_RELAXED;
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    int result = execute_plan(cudnn, plan, operands, workspace, cuda_stream);
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    return result ? ph__fail_native(PH_ERROR_DEVICE, result, "cudnnBackendExecute",
                                    "cudnnBackendExecute answered %d (cudnnStatus_t); in a capture "
                                    "that has ended early this is its sign",
                                    result)
                  : PH_OK;
}

/* ---- the end ---- captured plans of all devices, reachable until the process ends. */
static _Atomic(ph__cudnn_plan *) captured_plans;

static void keep_plan(ph__cudnn_plan *p)
{
    p->next = atomic_load(&captured_plans);
    while (!atomic_compare_exchange_weak(&captured_plans, &p->next, p))
        ;
}

static void free_plan(ph__cudnn_plan *p)
{
    ph__cudnn_graph_free(&p->graph);
    ph__free(p);
}

/* Kernels that may still run stay with the graph of their plan. */
static void drop_others(ph__cudnn_plan *p)
{
    for (int i = 0; i < p->built_count && !p->captured; i++)
        if (p->built[i].plan != p->plan)
            ph__cudnn_graph_drop(&p->graph, p->built[i].plan);
    p->built_count = 0;
}

ph__cudnn_plan *ph__cudnn_plan_keep(ph__cudnn *cudnn, ph__cudnn_plan *p)
{
    ph_capture_mode mode = PH_CAPTURE_RELAXED;
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    drop_others(p);
    ph__mutex_lock(&cudnn->lock);
    ph__cudnn_plan *kept = enter_plan(cudnn, p);
    ph__mutex_unlock(&cudnn->lock);
    if (kept != p && p->captured)
        keep_plan(p);
    else if (kept != p)
        free_plan(p);
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    return kept;
}

void ph__cudnn_plans_free(ph__cudnn *cudnn)
{
    for (size_t i = 0; i < PH__CUDNN_BUCKETS; i++)
        for (ph__cudnn_plan *next, *p = atomic_load(&cudnn->plans[i]); p; p = next) {
            next = p->next;
            if (p->captured)
                keep_plan(p);
            else
                free_plan(p);
        }
}
