/* SPDX-License-Identifier: MIT */
/* comm/work/order.c: the order of the collectives of a communicator, across streams. */
#include "comm/work/order.h"
#include "comm/object/broken.h"

ph_status ph__order_wait(ph_comm *comm, ph_stream *stream)
{
    if (comm->order_stream == 0 || comm->order_stream == stream->id)
        return PH_OK;
    return ph_stream_wait_event(stream, comm->order);
}

ph_status ph__order_note(ph_comm *comm, ph_stream *stream)
{
    ph_status status = ph_event_record(comm->order, stream);
    if (status != PH_OK)
        return ph__comm_break(comm, status,
                              "the order of the collectives of rank %u is lost, as an event could "
                              "not be recorded",
                              (unsigned)comm->rank);
    comm->order_stream = stream->id;
    return PH_OK;
}

ph_status ph__comm_fail_group(const char *call)
{
    return ph_fail(PH_ERROR_STATE,
                   "%s: a group of the communicator is open; end it first (ph_comm_group_end)",
                   call);
}
