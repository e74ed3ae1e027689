/* SPDX-License-Identifier: MIT */
/* data_parallel/reduce.c: the sum over all ranks: by NCCL on GPUs; on the host device by a host
 * function, through memory that the processes share. */
#include "data_parallel.h"
#include <dlfcn.h>
#include <phonograph/cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- through shared memory ---- Each rank adds the slots up in the same order, so that all get
 * the same bits. The second wait keeps a fast rank from writing its next gradients over those
 * that a slow one still reads. A host function may wait for another process: only not for work
 * of its own device. */
static void wait_for_ranks(struct shared *shared)
{
    (void)pthread_barrier_wait(&shared->barrier); /* fails for what is no barrier alone */
}

static void reduce_shared(void *user)
{
    const struct reduce *r = user;
    memcpy(r->shared->slots[r->rank], r->mine, r->count * sizeof *r->mine);
    wait_for_ranks(r->shared);
    for (size_t i = 0; i < r->count; i++) {
        float sum = 0;
        for (int rank = 0; rank < r->ranks; rank++)
            sum += r->shared->slots[rank][i];
        r->sum[i] = sum;
    }
    wait_for_ranks(r->shared);
}

/* ---- by NCCL ---- */
static bool find(void *library, void *function, const char *name)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* The library stays: it has threads. */
static ph_status load_nccl(struct nccl *n)
{
    const char *own = secure_getenv("DATA_PARALLEL_NCCL");
    const char *name = own && own[0] ? own : "libnccl.so.2";
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return ph_fail(PH_ERROR_NOT_FOUND,
                       "%s; LD_LIBRARY_PATH can name its folder, or DATA_PARALLEL_NCCL the file",
                       dlerror());
    if (find(library, &n->get_version, "ncclGetVersion") &&
        find(library, &n->get_error_string, "ncclGetErrorString") &&
        find(library, &n->get_unique_id, "ncclGetUniqueId") &&
        find(library, &n->comm_init_rank, "ncclCommInitRank") &&
        find(library, &n->all_reduce, "ncclAllReduce") &&
        find(library, &n->comm_destroy, "ncclCommDestroy"))
        return PH_OK;
    return ph_fail(PH_ERROR_NOT_FOUND, "%s is no NCCL: %s", name, dlerror());
}

static ph_status check(const struct nccl *n, int result, const char *call)
{
    return result == NCCL_OK
               ? PH_OK
               : ph_fail(PH_ERROR_DEVICE, "%s: %s", call, n->get_error_string(result));
}

int reduce_nccl_version(void)
{
    struct nccl n;
    int version = 0;
    ph_status st = load_nccl(&n);
    if (st == PH_OK)
        st = check(&n, n.get_version(&version), "ncclGetVersion");
    if (st == PH_OK && version < NCCL_CAPTURES)
        st = ph_fail(PH_ERROR_UNSUPPORTED, "NCCL %d is older than 2.9.6 and cannot be captured",
                     version);
    return st == PH_OK ? version : 0;
}

/* NCCL takes the GPU whose context is current. Rank 0's id makes the ranks one team; they wait
 * for each other in comm_init_rank, too. */
static ph_status open_nccl(struct reduce *r, ph_device *device)
{
    PH_TRY(ph_context_push_cuda(device));
    r->cuda = device;
    r->nccl = calloc(1, sizeof *r->nccl);
    if (!r->nccl)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for NCCL's functions");
    PH_TRY(load_nccl(r->nccl));
    if (r->rank == 0)
        PH_TRY(check(r->nccl, r->nccl->get_unique_id(&r->shared->id), "ncclGetUniqueId"));
    wait_for_ranks(r->shared);
    return check(r->nccl,
                 r->nccl->comm_init_rank(&r->communicator, r->ranks, r->shared->id, r->rank),
                 "ncclCommInitRank");
}

/* ---- either ---- */
ph_status reduce_open(struct reduce *r, const struct team *team, int rank, ph_device *device,
                      const float *mine, float *sum, size_t count)
{
    ph_device_info info;
    *r = (struct reduce){.shared = team->shared, .ranks = team->ranks, .rank = rank};
    r->mine = mine;
    r->sum = sum;
    r->count = count;
    if (count > MOST_VALUES)
        return ph_fail(PH_ERROR_SIZE, "%zu values are too many for %d", count, MOST_VALUES);
    PH_TRY(ph_device_get_info(&info, device));
    return info.kind == PH_DEVICE_CUDA ? open_nccl(r, device) : PH_OK;
}

ph_status reduce_all(struct reduce *r, ph_stream *stream)
{
    struct CUstream_st *cuda;
    if (!r->communicator)
        return ph_launch_host(stream, reduce_shared, r);
    PH_TRY(ph_stream_cuda(&cuda, stream));
    return check(r->nccl,
                 r->nccl->all_reduce(r->mine, r->sum, r->count, NCCL_FLOAT32, NCCL_SUM,
                                     r->communicator, cuda),
                 "ncclAllReduce");
}

ph_status reduce_close(struct reduce *r)
{
    ph_status st = PH_OK;
    if (r->communicator)
        st = check(r->nccl, r->nccl->comm_destroy(r->communicator), "ncclCommDestroy");
    ph_context_pop_cuda(r->cuda); /* takes NULL */
    free(r->nccl);
    *r = (struct reduce){0};
    return st;
}
