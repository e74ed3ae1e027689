/* SPDX-License-Identifier: MIT */
/* comm/object/wait.c: waiting for transfers, with a deadline. */
#include "comm/object/wait.h"
#include "base/clock.h"
#include "comm/engine/load.h"
#include "comm/object/broken.h"
#include <sched.h>
#include <stdio.h>

enum {
    SPINS = 200,
    CHECKS = 250, /* rounds between two checks of the processes of the other ranks */
    NAP_NS = 50000
};

uint64_t ph__comm_deadline(uint64_t timeout_ns)
{
    uint64_t now = ph__now_ns();
    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

ph_status ph__comm_give_up(ph_comm *comm, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ph__engine_give_up(comm->engine);
    return ph__comm_break(comm, PH_ERROR_PEER, "%s", text);
}

/* Barriers and the like are the host's. */
static unsigned channel_of(const ph__operation *what)
{
    return what->kind >= PH__OPERATION_ALL_REDUCE ? 1 : 0;
}

static ph_status fail_deadline(ph_comm *comm, const ph__operation *what)
{
    char text[160], late[240];
    bool found =
        what->sequence && ph__board_find_late(comm->board, channel_of(what), what->sequence, late);
    return ph__comm_break(
        comm, PH_ERROR_PEER,
        "rank %u of %u waited too long for the other ranks, in %s, number %llu: %s",
        (unsigned)comm->rank, (unsigned)comm->size, ph__operation_text(text, sizeof text, what),
        (unsigned long long)what->sequence,
        found ? late : "one of them has ended, hangs, or never came to it");
}

static ph_status fail_gone(ph_comm *comm, const ph__operation *what, uint32_t rank,
                           const char *reason)
{
    char text[160];
    return ph__comm_break(comm, PH_ERROR_PEER,
                          "rank %u of %u waits in %s, and rank %u does not come: %s",
                          (unsigned)comm->rank, (unsigned)comm->size,
                          ph__operation_text(text, sizeof text, what), (unsigned)rank, reason);
}

ph_status ph__comm_fail_engine(ph_comm *comm, const ph__operation *what)
{
    char text[160];
    return ph__comm_give_up(comm, "rank %u of %u: %s failed in %s", (unsigned)comm->rank,
                            (unsigned)comm->size, comm->engine->reason(),
                            ph__operation_text(text, sizeof text, what));
}

ph_status ph__comm_pause(ph_comm *comm, unsigned round, uint64_t deadline,
                         const ph__operation *what)
{
    if (atomic_load_explicit(&comm->failed, memory_order_relaxed))
        return ph__comm_break(comm, PH_ERROR_PEER, "not reported"); /* the first failure stays */
    char reason[400];
    uint32_t rank;
    if (round % CHECKS == CHECKS - 1 && ph__board_find_gone(comm->board, &rank, reason))
        return fail_gone(comm, what, rank, reason);
    if (ph__now_ns() > deadline)
        return fail_deadline(comm, what);
    if (round < SPINS)
        (void)sched_yield();
    else
        ph__sleep_ns(NAP_NS);
    return PH_OK;
}

ph_status ph__comm_pause_transfer(ph_comm *comm, unsigned round, uint64_t deadline,
                                  const ph__operation *what)
{
    if (ph__engine_is_given_up(comm->engine))
        return ph__comm_break(comm, PH_ERROR_PEER,
                              "rank %u of %u: another communicator of the process has failed, "
                              "and MPI cannot be used after that",
                              (unsigned)comm->rank, (unsigned)comm->size);
    ph_status status = ph__comm_pause(comm, round, deadline, what);
    if (status != PH_OK)
        ph__engine_give_up(comm->engine);
    return status;
}

ph_status ph__comm_wait(ph_comm *comm, int started, ph__transfer *transfer, uint64_t deadline,
                        const ph__operation *what)
{
    bool done = false;
    if (started != 0)
        return ph__comm_fail_engine(comm, what);
    for (unsigned round = 0;; round++) {
        if (comm->engine->test(transfer, &done) != 0)
            return ph__comm_fail_engine(comm, what);
        if (done)
            return PH_OK;
        PH_TRY(ph__comm_pause_transfer(comm, round, deadline, what));
    }
}
