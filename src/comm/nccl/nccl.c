/* SPDX-License-Identifier: MIT */
/* comm/nccl/nccl.c: one communicator of NCCL's: its beginning, calls on it, and its end. */
#include "comm/nccl/nccl.h"
#include "base/alloc.h"
#include "base/clock.h"
#include <limits.h>
#include <phonograph/cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAP_NS = 1000000,
    CALL_WAIT_NS = 1000000000 /* an abort waits so long for a call that is under way */
};

struct ph__nccl {
    atomic_int references; /* the owner's, and that of the thread that ends it */
    ph_device *device;     /* retained */
    _Atomic(ph__nccl_raw *) raw;
    atomic_uint calls; /* under way */
    atomic_bool aborted, ending, over;
};

void ph__nccl_reason(char reason[PH__ENGINE_REASON], ph__nccl_raw *raw, int result,
                     const char *call)
{
    const char *more = raw ? ph__nccl_api.GetLastError(raw) : "";
    (void)snprintf(reason, PH__ENGINE_REASON, "%s: %s%s%.120s", call,
                   ph__nccl_api.GetErrorString(result), more && more[0] ? ": " : "",
                   more ? more : "");
}

/* ---- ids ---- */
/* NCCL reads the address of rank 0 from a variable: it stands there only during the call. */
static bool name_address(const char *address)
{
    return address == NULL || setenv("NCCL_COMM_ID", address, 1) == 0;
}

static void forget_address(const char *address)
{
    if (address)
        (void)unsetenv("NCCL_COMM_ID");
}

int ph__nccl_make_id(ph__nccl_id *out, const char *address, char reason[PH__ENGINE_REASON])
{
    if (!name_address(address)) {
        (void)snprintf(reason, PH__ENGINE_REASON, "no host memory for the address of rank 0");
        return PH__ENGINE_FAILED;
    }
    int result = ph__nccl_api.GetUniqueId(out);
    forget_address(address);
    if (result == PH__NCCL_SUCCESS)
        return 0;
    ph__nccl_reason(reason, NULL, result, "ncclGetUniqueId");
    return PH__ENGINE_FAILED;
}

/* ---- configurations ---- */
static atomic_bool unmixed;

ph_status ph__nccl_forbid_mixing(const char *call)
{
    if (atomic_exchange(&unmixed, true) || ph__nccl_version() >= PH__NCCL_HAS_USAGE)
        return PH_OK;
    if (setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", 1) == 0)
        return PH_OK;
    atomic_store(&unmixed, false);
    return ph__fail_host_memory(call, "the variable NCCL_GRAPH_MIXING_SUPPORT");
}

static ph__nccl_config make_config(void)
{
    ph__nccl_config config = {
        .size = PH__NCCL_OLDEST_CONFIG,
        .magic = PH__NCCL_MAGIC,
        .version = PH__NCCL_OLDEST,
        .blocking = 0,
        .cga_cluster_size = INT_MIN,
        .min_ctas = INT_MIN,
        .max_ctas = INT_MIN,
        .split_share = INT_MIN,
        .traffic_class = INT_MIN,
        .collnet_enable = INT_MIN,
        .cta_policy = INT_MIN,
        .shrink_share = INT_MIN,
        .nvls_ctas = INT_MIN,
        .channels_per_net_peer = INT_MIN,
        .nvlink_centric_sched = INT_MIN,
        .graph_usage_mode = INT_MIN,
        .rma_contexts = INT_MIN,
    };
    if (atomic_load(&unmixed) && ph__nccl_version() >= PH__NCCL_HAS_USAGE) {
        config.size = sizeof config;
        config.version = PH__NCCL_HAS_USAGE;
        config.graph_usage_mode = PH__NCCL_UNMIXED;
    }
    return config;
}

/* ---- calls ---- */
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

ph__nccl_raw *ph__nccl_enter(ph__nccl *nccl, ph_capture_mode *mode)
{
    atomic_fetch_add(&nccl->calls, 1);
    ph__nccl_raw *raw = atomic_load(&nccl->aborted) ? NULL : atomic_load(&nccl->raw);
    if (raw && ph_context_push_cuda(nccl->device) != PH_OK)
        raw = NULL;
    if (raw == NULL) {
        atomic_fetch_sub(&nccl->calls, 1);
        return NULL;
    }
    *mode = begin_relaxed();
    return raw;
}

void ph__nccl_leave(ph__nccl *nccl, ph_capture_mode mode)
{
    end_relaxed(mode);
    ph_context_pop_cuda(nccl->device);
    atomic_fetch_sub(&nccl->calls, 1);
}

static void release_nccl(ph__nccl *nccl)
{
    if (atomic_fetch_sub(&nccl->references, 1) != 1)
        return;
    ph_device_release(nccl->device);
    ph__free(nccl);
}

ph__nccl *ph__nccl_begin(ph_device *device, uint32_t rank, uint32_t size, const ph__nccl_id *id,
                         const char *address, char reason[PH__ENGINE_REASON])
{
    ph__nccl_config config = make_config();
    ph__nccl_raw *raw = NULL;
    ph__nccl *nccl = ph__calloc(1, sizeof *nccl);
    (void)snprintf(reason, PH__ENGINE_REASON, "no host memory for NCCL's communicator");
    if (nccl == NULL)
        return NULL;
    atomic_init(&nccl->references, 1);
    nccl->device = ph_device_retain(device);
    int result = PH__NCCL_UNHANDLED_CUDA;
    if (ph_context_push_cuda(device) == PH_OK) {
        ph_capture_mode mode = begin_relaxed();
        if (name_address(address))
            result = ph__nccl_api.CommInitRankConfig(&raw, (int)size, *id, (int)rank, &config);
        forget_address(address);
        end_relaxed(mode);
        ph_context_pop_cuda(device);
    }
    atomic_store(&nccl->raw, raw);
    if (raw && (result == PH__NCCL_SUCCESS || result == PH__NCCL_IN_PROGRESS))
        return nccl;
    ph__nccl_reason(reason, NULL, result, "ncclCommInitRankConfig");
    if (raw)
        ph__nccl_abort(nccl);
    (void)ph__nccl_end(nccl, 0);
    return NULL;
}

int ph__nccl_test(ph__nccl *nccl, bool *done, char reason[PH__ENGINE_REASON])
{
    ph_capture_mode mode;
    int state = PH__NCCL_SUCCESS;
    *done = false;
    ph__nccl_raw *raw = ph__nccl_enter(nccl, &mode);
    if (raw == NULL) {
        (void)snprintf(reason, PH__ENGINE_REASON, "NCCL's communicator was aborted");
        return PH__ENGINE_FAILED;
    }
    int result = ph__nccl_api.CommGetAsyncError(raw, &state);
    if (result == PH__NCCL_SUCCESS)
        result = state;
    *done = result == PH__NCCL_SUCCESS;
    if (!*done && result != PH__NCCL_IN_PROGRESS)
        ph__nccl_reason(reason, raw, result, "NCCL");
    ph__nccl_leave(nccl, mode);
    return *done || result == PH__NCCL_IN_PROGRESS ? 0 : PH__ENGINE_FAILED;
}

/* ---- the end ---- */
static void wait_for_calls(ph__nccl *nccl)
{
    uint64_t end = ph__now_ns() + CALL_WAIT_NS;
    while (atomic_load(&nccl->calls) != 0 && ph__now_ns() < end)
        ph__sleep_ns(NAP_NS);
}

static void destroy_raw(ph__nccl_raw *raw)
{
    int state = ph__nccl_api.CommFinalize(raw);
    while (state == PH__NCCL_IN_PROGRESS) {
        ph__sleep_ns(NAP_NS);
        if (ph__nccl_api.CommGetAsyncError(raw, &state) != PH__NCCL_SUCCESS)
            break;
    }
    (void)(state == PH__NCCL_SUCCESS ? ph__nccl_api.CommDestroy(raw) : ph__nccl_api.CommAbort(raw));
}

static void *end_in_thread(void *argument)
{
    ph__nccl *nccl = argument;
    bool aborted = atomic_load(&nccl->aborted);
    if (ph_context_push_cuda(nccl->device) == PH_OK) {
        (void)begin_relaxed();
        wait_for_calls(nccl);
        ph__nccl_raw *raw = atomic_load(&nccl->raw);
        if (aborted)
            (void)ph__nccl_api.CommAbort(raw);
        else
            destroy_raw(raw);
        ph_context_pop_cuda(nccl->device);
    }
    atomic_store(&nccl->over, true);
    release_nccl(nccl);
    return NULL;
}

/* Without a thread NCCL keeps what it has to the end of the process. */
static void start_end(ph__nccl *nccl)
{
    pthread_t thread;
    if (atomic_load(&nccl->raw) == NULL || atomic_exchange(&nccl->ending, true))
        return;
    atomic_fetch_add(&nccl->references, 1);
    if (ph__thread_start(&thread, "ph-nccl-end", end_in_thread, nccl))
        (void)pthread_detach(thread);
    else
        release_nccl(nccl);
}

bool ph__nccl_is_over(const ph__nccl *nccl)
{
    return atomic_load(&nccl->over);
}

void ph__nccl_abort(ph__nccl *nccl)
{
    if (!atomic_exchange(&nccl->aborted, true))
        start_end(nccl);
}

bool ph__nccl_end(ph__nccl *nccl, uint64_t wait_ns)
{
    if (nccl == NULL)
        return true;
    start_end(nccl);
    uint64_t end = ph__now_ns() + wait_ns;
    while (atomic_load(&nccl->ending) && !atomic_load(&nccl->over) && ph__now_ns() < end)
        ph__sleep_ns(NAP_NS / 10);
    bool over = !atomic_load(&nccl->ending) || atomic_load(&nccl->over);
    release_nccl(nccl);
    return over;
}
