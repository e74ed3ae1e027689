/* SPDX-License-Identifier: MIT */
/* comm/object/meet.c: all ranks come to the same operation. */
#include "comm/object/meet.h"
#include "comm/object/broken.h"
#include "comm/object/wait.h"

/* The first rank that differs from rank 0. Every rank finds the same one. */
static uint32_t find_other(const ph_comm *comm, const ph__operation *all)
{
    uint32_t rank = 1;
    while (rank < comm->size && ph__operation_same(&all[0], &all[rank]))
        rank++;
    return rank;
}

ph_status ph__comm_meet(ph_comm *comm, ph__comm_channel *channel, ph__operation *mine,
                        uint64_t deadline)
{
    ph__transfer *transfer = NULL;
    char text[2][160];
    mine->sequence = ++channel->sequence;
    ph__board_enter(comm->board, channel->number, mine);
    int started =
        comm->engine->all_gather(&transfer, channel->raw, mine, channel->all, sizeof *mine);
    PH_TRY(ph__comm_wait(comm, started, transfer, deadline, mine));
    ph__board_leave(comm->board, channel->number);
    uint32_t other = find_other(comm, channel->all);
    if (other == comm->size)
        return PH_OK;
    return ph__comm_break(comm, PH_ERROR_MISMATCH,
                          "the ranks do not agree: as number %llu, rank 0 has %s, and rank %u %s; "
                          "let all ranks make the same calls in the same order",
                          (unsigned long long)mine->sequence,
                          ph__operation_text(text[0], sizeof text[0], &channel->all[0]),
                          (unsigned)other,
                          ph__operation_text(text[1], sizeof text[1], &channel->all[other]));
}
