/* SPDX-License-Identifier: MIT */
/* comm/object/mixing.c: whether the process mixes captured and eager collectives. NCCL asks once,
 * so the answer is given before the first communicator. */
#include "comm/object/mixing.h"

enum {
    FORBIDDEN = 1,
    MADE = 2 /* a communicator was made */
};
static atomic_uint mixing;

ph_status ph_comm_forbid_mixing(void)
{
    unsigned before = 0;
    if (atomic_compare_exchange_strong(&mixing, &before, FORBIDDEN) || before & FORBIDDEN)
        return PH_OK;
    return ph_fail(PH_ERROR_STATE,
                   "ph_comm_forbid_mixing: the process has made a communicator already, and NCCL "
                   "has asked; call it before the first ph_comm_create");
}

bool ph__mixing_is_forbidden(void)
{
    return atomic_fetch_or(&mixing, MADE) & FORBIDDEN;
}

ph_status ph__mixing_check(const ph_comm *comm, const char *call)
{
    unsigned graphs = comm->unmixed ? atomic_load(&comm->graphs) : 0;
    if (graphs == 0)
        return PH_OK;
    return ph_fail(PH_ERROR_STATE,
                   "%s: an eager collective, where %u graph%s captured collectives of the "
                   "communicator and the process has forbidden to mix them "
                   "(ph_comm_forbid_mixing); capture this one too, reset the graph%s first, or use "
                   "another communicator for it",
                   call, graphs, graphs == 1 ? " has" : "s have", graphs == 1 ? "" : "s");
}
