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

/* Without a plan its graph is of no use. */
static ph__cudnn_plan *make_plan(ph__cudnn *cudnn, const ph__cudnn_key *key,
                                 ph__cudnn_describe describe, int64_t most)
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
    p->plan = ph__cudnn_graph_plan(&p->graph, cudnn->handle, most, &p->workspace);
    if (!p->plan)
        ph__cudnn_graph_free(&p->graph);
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    return p;
}

ph__cudnn_plan *ph__cudnn_plan_of(ph__cudnn *cudnn, const ph__cudnn_key *key,
                                  ph__cudnn_describe describe, int64_t most_workspace)
{
    _Atomic(ph__cudnn_plan *) *bucket = &cudnn->plans[bucket_of_key(key)];
    ph__cudnn_plan *found = find_key(atomic_load_explicit(bucket, memory_order_acquire), key);
    if (found)
        return found;
    ph__mutex_lock(&cudnn->lock);
    ph__cudnn_plan *first = atomic_load_explicit(bucket, memory_order_relaxed);
    found = find_key(first, key);
    if (!found && (found = make_plan(cudnn, key, describe, most_workspace)) != NULL) {
        found->next = first;
        atomic_store_explicit(bucket, found, memory_order_release);
    }
    ph__mutex_unlock(&cudnn->lock);
    return found;
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
    PH_TRY(ph_stream_cuda(&cuda_stream, stream));
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
