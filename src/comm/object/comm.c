/* SPDX-License-Identifier: MIT */
/* comm/object/comm.c: communicators: create, release, and the queries. */
#include "comm/object/comm.h"
#include "base/alloc.h"
#include "base/option.h"
#include "comm/object/broken.h"
#include "comm/object/meet.h"
#include "comm/object/place.h"
#include "comm/object/wait.h"

enum {
    TIMEOUT_MS = 600000
};

static void close_channel(ph_comm *comm, ph__comm_channel *channel)
{
    if (channel->raw)
        comm->engine->close(channel->raw);
    ph__free(channel->all);
}

static void free_comm(ph_comm *comm)
{
    ph_device *device = comm->device;
    if (comm->work)
        comm->drop_work(comm);
    ph__failed_remove(device, &comm->failure);
    ph__board_free(comm->board);
    close_channel(comm, &comm->control);
    close_channel(comm, &comm->streams);
    ph__free(comm);
    ph_device_release(device);
}

/* A channel whose making may be under way is left to the engine. */
static ph_status open_channel(ph_comm *comm, ph__comm_channel *channel, uint64_t deadline,
                              const char *call)
{
    static const ph__operation create = {.kind = PH__OPERATION_CREATE};
    char reason[PH__ENGINE_REASON] = "";
    ph__transfer *transfer = NULL;
    ph__channel *raw = NULL;
    channel->all = ph__calloc(comm->size, sizeof *channel->all);
    if (channel->all == NULL)
        return ph__fail_host_memory(call, "the communicator");
    if (comm->engine->open(&raw, &transfer, reason) != 0)
        return ph__comm_give_up(comm, "%s: %s", call, reason);
    PH_TRY(ph__comm_wait(comm, 0, transfer, deadline, &create));
    channel->raw = raw;
    return PH_OK;
}

/* Every rank shows its seat to the others. */
static ph_status join_board(ph_comm *comm, ph__operation *create, uint64_t deadline,
                            const char *call)
{
    ph__introduction own, *all = ph__calloc(comm->size, sizeof *all);
    ph__transfer *transfer = NULL;
    comm->board = ph__board_create(&own, comm->rank, comm->size);
    if (all == NULL || comm->board == NULL) {
        ph__free(all);
        return ph__fail_host_memory(call, "the communicator");
    }
    int started = comm->engine->all_gather(&transfer, comm->control.raw, &own, all, sizeof own);
    ph_status status = ph__comm_wait(comm, started, transfer, deadline, create);
    if (status != PH_OK)
        return status; /* the transfer may write into `all` for good */
    ph__board_join(comm->board, all);
    ph__free(all);
    status = ph__comm_meet(comm, &comm->control, create, deadline);
    ph__board_settle(comm->board);
    return status;
}

static ph_status connect(ph_comm *comm, const char *call)
{
    uint64_t deadline = ph__comm_deadline(comm->timeout_ns);
    ph__operation create = {.kind = PH__OPERATION_CREATE};
    comm->streams.number = 1;
    PH_TRY(open_channel(comm, &comm->control, deadline, call));
    PH_TRY(open_channel(comm, &comm->streams, deadline, call));
    return join_board(comm, &create, deadline, call);
}

static ph_status check_options(const ph_device *device, const ph_comm_options *options,
                               const char *call)
{
    if (device == NULL)
        return ph__fail_null(call, "device");
    PH_TRY(ph__device_check(device, call));
    if (options && !PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_comm_options");
    if (options) {
        PH_TRY(ph__option_no_zero(options->size, "size", call));
        PH_TRY(ph__option_no_zero(options->timeout_ms, "timeout_ms", call));
    }
    if (options && options->timeout_ms > UINT64_MAX / 1000000)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: ph_comm_options: timeout_ms %llu; at most %llu, 0 is ten minutes", call,
                       (unsigned long long)options->timeout_ms,
                       (unsigned long long)(UINT64_MAX / 1000000));
    return PH_OK;
}

static ph_status check_kind(const ph_device *device, const ph__comm_place *place, const char *call)
{
    ph_device_info info;
    PH_TRY(ph_device_get_info(&info, device));
    if (place->size == 1 || info.kind == PH_DEVICE_HOST)
        return PH_OK;
    return ph_fail(PH_ERROR_UNSUPPORTED,
                   "%s: %u ranks on %s: communicators of several ranks are for host devices so "
                   "far; call NCCL on the streams of a GPU (docs/notes/distributed.md)",
                   call, (unsigned)place->size, device->name);
}

static ph_status make_comm(ph_comm **out, ph_device *device, const ph__comm_place *place,
                           uint64_t timeout_ms, const char *call)
{
    ph_comm *comm = ph__calloc(1, sizeof *comm);
    if (comm == NULL)
        return ph__fail_host_memory(call, "the communicator");
    atomic_init(&comm->references, 1);
    comm->device = ph_device_retain(device);
    comm->rank = place->rank;
    comm->size = place->size;
    comm->engine = place->engine;
    comm->timeout_ns = (timeout_ms ? timeout_ms : TIMEOUT_MS) * 1000000;
    ph_status status = comm->size > 1 ? connect(comm, call) : PH_OK;
    if (status != PH_OK) {
        free_comm(comm);
        return status;
    }
    *out = comm;
    return PH_OK;
}

ph_status ph_comm_create(ph_comm **out, ph_device *device, const ph_comm_options *options)
{
    static const char call[] = "ph_comm_create";
    ph__comm_place place;
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    PH_TRY(check_options(device, options, call));
    PH_TRY(ph__comm_place_find(&place, options, call));
    PH_TRY(check_kind(device, &place, call));
    return make_comm(out, device, &place, options ? options->timeout_ms : 0, call);
}

ph_comm *ph_comm_retain(ph_comm *comm)
{
    if (comm)
        atomic_fetch_add(&comm->references, 1);
    return comm;
}

void ph_comm_release(ph_comm *comm)
{
    ph_error saved;
    if (comm == NULL || comm->device->forked || atomic_fetch_sub(&comm->references, 1) != 1)
        return;
    ph__error_save(&saved);
    free_comm(comm);
    ph__error_restore(&saved);
}

uint32_t ph_comm_rank(const ph_comm *comm)
{
    return comm ? comm->rank : 0;
}

uint32_t ph_comm_size(const ph_comm *comm)
{
    return comm ? comm->size : 0;
}

ph_status ph__comm_check_usable(const ph_comm *comm, const char *call)
{
    if (comm == NULL)
        return ph__fail_null(call, "comm");
    PH_TRY(ph__device_check(comm->device, call));
    return ph__comm_failure(comm, call);
}

ph_status ph_comm_barrier(ph_comm *comm, uint64_t timeout_ms)
{
    static const char call[] = "ph_comm_barrier";
    ph__operation barrier = {.kind = PH__OPERATION_BARRIER};
    PH_TRY(ph__comm_check_usable(comm, call));
    if (comm->size == 1)
        return PH_OK;
    uint64_t timeout = timeout_ms > UINT64_MAX / 1000000 ? UINT64_MAX : timeout_ms * 1000000;
    ph__operation_note_scope(&barrier);
    return ph__comm_meet(comm, &comm->control, &barrier,
                         ph__comm_deadline(timeout_ms ? timeout : comm->timeout_ns));
}
