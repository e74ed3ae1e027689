/* SPDX-License-Identifier: MIT */
/* comm/object/gpu.c: communicators of GPUs: how their ranks find each other, and part. */
#include "comm/object/gpu.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "comm/nccl/control.h"
#include "comm/object/broken.h"
#include "comm/object/channel.h"
#include "comm/object/wait.h"
#include "comm/object/watch.h"

enum {
    NAP_NS = 200000
};
static const uint64_t end_wait_ns = 2000000000;
static atomic_uint begun; /* communicators that began at an address, one port each */

ph_status ph__gpu_wait_launched(ph_comm *comm, ph__nccl *nccl, uint64_t deadline,
                                const ph__operation *what)
{
    char reason[PH__ENGINE_REASON], text[160];
    bool done = false;
    for (unsigned round = 0;; round++) {
        if (ph__nccl_test(nccl, &done, reason) != 0)
            return ph__comm_break(comm, PH_ERROR_PEER, "rank %u of %u: %s, in %s",
                                  (unsigned)comm->rank, (unsigned)comm->size, reason,
                                  ph__operation_text(text, sizeof text, what));
        if (done)
            return PH_OK;
        PH_TRY(ph__comm_pause(comm, round, deadline, what));
    }
}

static ph_status begin_nccl(ph__nccl **out, ph_comm *comm, const ph__nccl_id *id,
                            const char *address, const ph__operation *create, uint64_t deadline,
                            const char *call)
{
    char reason[PH__ENGINE_REASON];
    *out = ph__nccl_begin(comm->device, comm->rank, comm->size, id, address, reason);
    if (*out == NULL)
        return ph__comm_break(comm, PH_ERROR_PEER, "%s: %s", call, reason);
    return ph__gpu_wait_launched(comm, *out, deadline, create);
}

/* Without MPI: the host tells the others by NCCL, which begins at an address that all know. */
static ph_status open_control(ph_comm *comm, const ph_comm_options *options,
                              const ph__operation *create, uint64_t deadline, const char *call)
{
    char address[300], reason[PH__ENGINE_REASON];
    ph__nccl_id id;
    comm->engine = &ph__nccl_control;
    PH_TRY(ph__comm_place_address(address, options, atomic_fetch_add(&begun, 1), call));
    if (ph__nccl_make_id(&id, address, reason) != 0)
        return ph_fail(PH_ERROR_PEER, "%s: %s", call, reason);
    PH_TRY(begin_nccl(&comm->gpu->control, comm, &id, address, create, deadline, call));
    comm->control.all = ph__calloc(comm->size, sizeof *comm->control.all);
    if (comm->control.all == NULL)
        return ph__fail_host_memory(call, "the communicator");
    comm->control.raw =
        ph__nccl_open_channel(comm->gpu->control, comm->device, comm->rank, comm->size, call);
    return comm->control.raw ? PH_OK : ph_error_last()->status;
}

/* Rank 0's id, for all ranks. */
static ph_status share_id(ph__nccl_id *out, ph_comm *comm, const ph__operation *create,
                          uint64_t deadline, const char *call)
{
    ph__nccl_id own = {{0}}, *all = ph__calloc(comm->size, sizeof *all);
    char reason[PH__ENGINE_REASON];
    ph__transfer *transfer = NULL;
    if (all == NULL)
        return ph__fail_host_memory(call, "the communicator");
    if (comm->rank == 0 && ph__nccl_make_id(&own, NULL, reason) != 0) {
        ph__free(all);
        return ph__comm_break(comm, PH_ERROR_PEER, "%s: %s", call, reason);
    }
    int started = comm->engine->all_gather(&transfer, comm->control.raw, &own, all, sizeof own);
    ph_status status = ph__comm_wait(comm, started, transfer, deadline, create);
    if (status != PH_OK)
        return status; /* the transfer may write into `all` for good */
    *out = all[0];
    ph__free(all);
    return PH_OK;
}

static void check_logs(ph__failed_work *work)
{
    ph__gpu_check((ph_comm *)((char *)work - offsetof(ph_comm, failure)));
}

ph_status ph__gpu_connect(ph_comm *comm, const ph_comm_options *options, const char *call)
{
    uint64_t deadline = ph__comm_deadline(comm->timeout_ns);
    ph__operation create = {.kind = PH__OPERATION_CREATE};
    ph__nccl_id id;
    PH_TRY(ph__nccl_load(call));
    if (comm->unmixed)
        PH_TRY(ph__nccl_forbid_mixing(call));
    comm->gpu = ph__calloc(1, sizeof *comm->gpu);
    if (comm->gpu == NULL)
        return ph__fail_host_memory(call, "the communicator");
    PH_TRY(ph_event_create(&comm->order, comm->device, NULL));
    PH_TRY(comm->engine ? ph__channel_open(comm, &comm->control, deadline, call)
                        : open_control(comm, options, &create, deadline, call));
    PH_TRY(ph__channel_join_board(comm, &create, deadline, call));
    PH_TRY(share_id(&id, comm, &create, deadline, call));
    PH_TRY(begin_nccl(&comm->gpu->data, comm, &id, NULL, &create, deadline, call));
    comm->board->logs = true;
    comm->failure.examine = check_logs;
    ph__failed_add(comm->device, &comm->failure);
    if (ph__gpu_watch(comm))
        return PH_OK;
    return ph_fail(PH_ERROR_HOST_MEMORY, "%s: the system gives no thread to watch NCCL", call);
}

/* Whatever was submitted ends, or the communicator fails. */
static void wait_for_work(ph_comm *comm)
{
    bool done = false;
    while (!done && !atomic_load(&comm->failed) && ph_event_query(&done, comm->order) == PH_OK)
        if (!done)
            ph__sleep_ns(NAP_NS);
}

static bool end_nccl(ph_comm *comm, ph__nccl *nccl)
{
    if (nccl && atomic_load(&comm->failed))
        ph__nccl_abort(nccl);
    if (ph__nccl_end(nccl, end_wait_ns))
        return true;
    ph__log(PH_LOG_WARNING,
            "ph_comm_release: NCCL does not let go of rank %u of %u, which graphs or other ranks "
            "still use; a thread waits for them",
            (unsigned)comm->rank, (unsigned)comm->size);
    return false;
}

void ph__gpu_disconnect(ph_comm *comm)
{
    ph__comm_gpu *gpu = comm->gpu;
    if (gpu == NULL)
        return;
    if (gpu->watched)
        wait_for_work(comm);
    ph__gpu_watch_end(comm);
    ph__failed_remove(comm->device, &comm->failure); /* nobody looks any more, or wakes */
    comm->wake = NULL;
    if (comm->leave_sources && !atomic_load(&comm->failed))
        comm->leave_sources(comm, false);
    bool over = end_nccl(comm, gpu->data);
    gpu->data = NULL;
    if (comm->leave_sources)
        comm->leave_sources(comm, over);
    /* Memory that NCCL may still write to stays. */
    if (gpu->control && end_nccl(comm, gpu->control) && comm->control.raw)
        comm->engine->close(comm->control.raw);
    if (gpu->control)
        comm->control.raw = NULL;
    ph__free(gpu);
    comm->gpu = NULL;
}
