/* SPDX-License-Identifier: MIT */
/* comm/object/watch.c: the thread that watches a communicator of GPUs: a GPU that waits for another
 * waits for good, and so does the thread that waits for that GPU. It asks nothing that a capture
 * forbids. */
#include "comm/object/watch.h"
#include "base/clock.h"
#include "comm/object/broken.h"
#include "comm/object/gpu.h"
#include "comm/object/log.h"

enum {
    CHECK_NS = 20000000
};

void ph__gpu_check(ph_comm *comm)
{
    char text[400];
    if (!atomic_load(&comm->failed) && ph__board_find_other(comm->board, text))
        ph_ignore(ph__comm_break(comm, PH_ERROR_MISMATCH, "%s", text));
}

/* Of one thread. */
typedef struct watcher {
    ph_comm *comm;
    uint64_t logged;   /* when it looked last */
    uint64_t since_ns; /* nothing was submitted or completed */
} watcher;

static void fail_late(ph_comm *comm)
{
    char late[240], last[200];
    bool found = ph__board_find_behind(comm->board, late);
    ph_ignore(ph__comm_break(
        comm, PH_ERROR_PEER,
        "rank %u of %u waited too long for the other ranks, in its collectives until %s: %s",
        (unsigned)comm->rank, (unsigned)comm->size, ph__board_last(comm->board, last),
        found ? late : "one of them has ended, hangs, or never came to it"));
}

/* Work is in flight. */
static void check_ranks(watcher *w)
{
    ph_comm *comm = w->comm;
    char reason[400], last[200];
    uint32_t rank;
    if (ph__board_find_gone(comm->board, &rank, reason))
        ph_ignore(ph__comm_break(comm, PH_ERROR_PEER,
                                 "rank %u of %u waits in its collectives until %s, and rank %u "
                                 "does not come: %s",
                                 (unsigned)comm->rank, (unsigned)comm->size,
                                 ph__board_last(comm->board, last), (unsigned)rank, reason));
    else if (ph__now_ns() - w->since_ns > comm->timeout_ns)
        fail_late(comm);
}

static void check_work(watcher *w)
{
    ph_comm *comm = w->comm;
    bool done = true;
    uint64_t logged = ph__board_logged(comm->board);
    if (ph_event_query(&done, comm->order) != PH_OK)
        return; /* the GPU has failed, as whoever waits for it is told */
    if (done || logged != w->logged)
        w->since_ns = ph__now_ns();
    w->logged = logged;
    if (!done)
        check_ranks(w);
}

static void check_nccl(ph_comm *comm, ph__nccl *nccl)
{
    char reason[PH__ENGINE_REASON];
    bool done;
    if (nccl && ph__nccl_test(nccl, &done, reason) != 0)
        ph_ignore(ph__comm_break(comm, PH_ERROR_PEER, "rank %u of %u: %s", (unsigned)comm->rank,
                                 (unsigned)comm->size, reason));
}

static void *watch_communicator(void *argument)
{
    watcher w = {.comm = argument};
    ph_comm *comm = argument;
    ph_capture_mode mode = PH_CAPTURE_RELAXED;
    w.since_ns = ph__now_ns();
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    while (!atomic_load(&comm->gpu->over)) {
        unsigned wake = atomic_load(&comm->gpu->wake);
        ph__gpu_check(comm);
        if (!atomic_load(&comm->failed))
            check_work(&w);
        if (!atomic_load(&comm->failed))
            check_nccl(comm, comm->gpu->data);
        if (atomic_load(&comm->failed)) {
            ph__nccl_abort(comm->gpu->data);
            if (comm->gpu->control)
                ph__nccl_abort(comm->gpu->control);
            break;
        }
        ph__futex_wait(&comm->gpu->wake, wake, CHECK_NS);
    }
    return NULL;
}

/* The communicator has failed. */
static void wake_watcher(ph_comm *comm)
{
    atomic_fetch_add(&comm->gpu->wake, 1);
    ph__futex_wake(&comm->gpu->wake, 1);
}

bool ph__gpu_watch(ph_comm *comm)
{
    comm->wake = wake_watcher;
    comm->gpu->watched =
        ph__thread_start(&comm->gpu->thread, "ph-nccl-watch", watch_communicator, comm);
    return comm->gpu->watched;
}

void ph__gpu_watch_end(ph_comm *comm)
{
    if (!comm->gpu->watched)
        return;
    atomic_store(&comm->gpu->over, true);
    wake_watcher(comm);
    (void)pthread_join(comm->gpu->thread, NULL);
    comm->gpu->watched = false;
}
