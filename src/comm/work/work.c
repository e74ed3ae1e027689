/* SPDX-License-Identifier: MIT */
/* comm/work/work.c: what a communicator keeps for its collectives: kernels, an event, room. */
#include "comm/work/work.h"
#include "comm/work/run.h"
#include "device/handles/kernel.h"
#include <phonograph/kernel.h>
#include <stdio.h>

static void drop_work(ph_comm *comm)
{
    ph__comm_work *work = comm->work;
    unsigned round = 0;
    while (atomic_load_explicit(&work->submitted, memory_order_acquire) != 0)
        ph__back_off(&round, 100);
    for (size_t kind = 0; kind < PH__OPERATIONS; kind++)
        for (size_t form = 0; form < 3; form++)
            ph_kernel_release(work->kernels[kind][form]);
    ph__vec_free(&work->group);
    /* Transfers that were given up may write into the room and the notes for good. */
    if (!atomic_load(&comm->failed))
        ph__free(work->room);
    ph__vec_free(&work->exchanges);
    ph__free(work);
    comm->work = NULL;
}

ph_status ph__comm_need_work(ph_comm *comm, const char *call)
{
    if (comm->work)
        return PH_OK;
    ph__comm_work *work = ph__calloc(1, sizeof *work);
    if (work && comm->gpu == NULL)
        work->room = ph__alloc(PH__ROOM_BYTES);
    if (work == NULL || (comm->gpu == NULL && work->room == NULL)) {
        ph__free(work);
        return ph__fail_host_memory(call, "the collectives of the communicator");
    }
    ph_status status = comm->order ? PH_OK : ph_event_create(&comm->order, comm->device, NULL);
    if (status != PH_OK) {
        ph__free(work->room);
        ph__free(work);
        return status;
    }
    comm->drop_work = drop_work;
    comm->work = work;
    return PH_OK;
}

static const ph_param_access reads = {
    .kind = PH_ACCESS_IN, .count = offsetof(ph__collective_args, send_bytes) + 1, .bytes = 1};
static const ph_param_access writes = {
    .kind = PH_ACCESS_OUT, .count = offsetof(ph__collective_args, receive_bytes) + 1, .bytes = 1};

static ph_status make_kernel(ph_kernel **out, ph_comm *comm, ph__operation_kind kind, bool sends,
                             bool receives)
{
    const ph_param params[] = {PH_PARAM(ph__collective_args, comm, PH_PARAM_VALUE),
                               PH_PARAM(ph__collective_args, operation, PH_PARAM_VALUE),
                               {"send", sends ? PH_PARAM_ADDRESS : PH_PARAM_VALUE,
                                offsetof(ph__collective_args, send), sizeof(void *),
                                sends ? reads : (ph_param_access){.kind = PH_ACCESS_UNKNOWN}},
                               {"receive", receives ? PH_PARAM_ADDRESS : PH_PARAM_VALUE,
                                offsetof(ph__collective_args, receive), sizeof(void *),
                                receives ? writes : (ph_param_access){.kind = PH_ACCESS_UNKNOWN}},
                               PH_PARAM(ph__collective_args, send_bytes, PH_PARAM_VALUE),
                               PH_PARAM(ph__collective_args, receive_bytes, PH_PARAM_VALUE),
                               PH_PARAM(ph__collective_args, flags, PH_PARAM_VALUE)};
    char name[64];
    (void)snprintf(name, sizeof name, "phonograph_%s",
                   kind == PH__OPERATION_GROUP_END ? "group_end" : ph__operation_name(kind));
    const ph_kernel_source source = {.name = name,
                                     .host = ph__collective_run,
                                     .args_size = sizeof(ph__collective_args),
                                     .params = params,
                                     .param_count = sizeof params / sizeof *params};
    PH_TRY(ph_kernel_create(out, comm->device, &source));
    (*out)->collective = true;
    return PH_OK;
}

ph_status ph__comm_kernel(ph_kernel **out, ph_comm *comm, const ph__collective_args *args,
                          const char *call)
{
    bool sends = args->send != NULL, receives = args->receive != NULL;
    ph_kernel **at = &comm->work->kernels[args->operation.kind][sends && receives ? 2
                                                                : receives        ? 1
                                                                                  : 0];
    if (*at == NULL) {
        ph_status status =
            make_kernel(at, comm, (ph__operation_kind)args->operation.kind, sends, receives);
        if (status != PH_OK) {
            *at = NULL;
            ph__error_prefix("%s", call);
            return status;
        }
    }
    *out = *at;
    return PH_OK;
}
