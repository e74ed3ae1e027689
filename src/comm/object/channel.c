/* SPDX-License-Identifier: MIT */
/* comm/object/channel.c: the channels of a communicator, and how its ranks show each other their
 * seats. */
#include "comm/object/channel.h"
#include "base/alloc.h"
#include "comm/object/meet.h"
#include "comm/object/wait.h"

ph_status ph__channel_open(ph_comm *comm, ph__comm_channel *channel, uint64_t deadline,
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

ph_status ph__channel_join_board(ph_comm *comm, ph__operation *create, uint64_t deadline,
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
    ph__board_close_file(comm->board);
    return status;
}

void ph__channel_close(ph_comm *comm, ph__comm_channel *channel)
{
    if (channel->raw)
        comm->engine->close(channel->raw);
    ph__free(channel->all);
}
