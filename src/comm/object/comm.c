/* SPDX-License-Identifier: MIT */
/* comm/object/comm.c: communicators: create, release, and the queries. */
#include "comm/object/comm.h"
#include "base/alloc.h"
#include "base/option.h"
#include "comm/object/broken.h"
#include "comm/object/channel.h"
#include "comm/object/gpu.h"
#include "comm/object/meet.h"
#include "comm/object/mixing.h"
#include "comm/object/place.h"
#include "comm/object/wait.h"

enum {
    TIMEOUT_MS = 600000
};

static void free_comm(ph_comm *comm)
{
    ph_device *device = comm->device;
    ph__gpu_disconnect(comm);
    if (comm->leave_sources)
        comm->leave_sources(comm, true); /* where there is no NCCL */
    if (comm->work)
        comm->drop_work(comm);
    ph__failed_remove(device, &comm->failure);
    ph__board_free(comm->board);
    ph__channel_close(comm, &comm->control);
    ph__channel_close(comm, &comm->streams);
    ph_event_destroy(comm->order);
    ph__free(comm);
    ph_device_release(device);
}

static ph_status connect_ranks(ph_comm *comm, const char *call)
{
    uint64_t deadline = ph__comm_deadline(comm->timeout_ns);
    ph__operation create = {.kind = PH__OPERATION_CREATE};
    comm->streams.number = 1;
    PH_TRY(ph__channel_open(comm, &comm->control, deadline, call));
    PH_TRY(ph__channel_open(comm, &comm->streams, deadline, call));
    return ph__channel_join_board(comm, &create, deadline, call);
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
        PH_TRY(ph__option_no_zero(options->port, "port", call));
    }
    if (options && options->timeout_ms > UINT64_MAX / 1000000)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: ph_comm_options: timeout_ms %llu; at most %llu, 0 is ten minutes", call,
                       (unsigned long long)options->timeout_ms,
                       (unsigned long long)(UINT64_MAX / 1000000));
    if (options && options->port > UINT16_MAX)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: ph_comm_options: port %llu; ports are below 65536, 0 is that of the "
                       "environment",
                       call, (unsigned long long)options->port);
    return PH_OK;
}

static bool is_gpu(const ph_device *device)
{
    ph_device_info info;
    return ph_device_get_info(&info, device) == PH_OK && info.kind == PH_DEVICE_CUDA;
}

static ph_status make_comm(ph_comm **out, ph_device *device, const ph__comm_place *place,
                           const ph_comm_options *options, const char *call)
{
    uint64_t timeout_ms = options ? options->timeout_ms : 0;
    ph_comm *comm = ph__calloc(1, sizeof *comm);
    if (comm == NULL)
        return ph__fail_host_memory(call, "the communicator");
    atomic_init(&comm->references, 1);
    comm->device = ph_device_retain(device);
    comm->rank = place->rank;
    comm->size = place->size;
    comm->engine = place->engine;
    comm->unmixed = ph__mixing_is_forbidden();
    comm->timeout_ns = (timeout_ms ? timeout_ms : TIMEOUT_MS) * 1000000;
    ph_status status = comm->size == 1  ? PH_OK
                       : is_gpu(device) ? ph__gpu_connect(comm, options, call)
                                        : connect_ranks(comm, call);
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
    PH_TRY(ph__comm_place_find(&place, options, is_gpu(device), call));
    return make_comm(out, device, &place, options, call);
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
