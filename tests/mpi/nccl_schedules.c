/* SPDX-License-Identifier: MIT */
/* Random schedules with a fault of one rank: every rank comes to an end in time, whatever the fault
 * is, and nothing of NCCL is left. PH_TEST_SCHEDULES says how many, PH_TEST_SEED from which on. */
#include "base/rng.h"
#include "fake/fake_nccl.h"
#include "support/ranks.h"
#include "support/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    COUNT = 100,
    STEPS = 6,
    TIMEOUT_MS = 1500,
    SCHEDULES = 40,
    INTERNAL_ERROR = 3,
    REMOTE_ERROR = 6
};
typedef enum fault {
    NO_FAULT,
    FAILING_CALL,
    OWN_ERROR, /* NCCL reports one */
    GIVES_UP,
    LEAVES,
    SKIPS,
    OTHER_COUNT,
    FAULTS
} fault;
static const fake_nccl_controls *nccl;
static t_team team;
static float *x, *y;
static ph__rng rng;
static unsigned faults,
    failures; /* schedules with one; of these, those that this rank was told of */

/* The same numbers on all ranks. */
static unsigned draw(unsigned below)
{
    return (unsigned)ph__rng_below(&rng, below);
}

static ph_status captured_sum(ph_stream *stream, void *user)
{
    (void)user;
    return ph_all_reduce(team.comm, x, x, COUNT, PH_DTYPE_F32, PH_REDUCE_SUM, stream);
}

static ph_status capture_and_replay(void)
{
    ph_graph *graph;
    PH_TRY(ph_graph_create(&graph, NULL));
    ph_status status = ph_graph_capture(graph, team.stream, NULL, captured_sum, NULL);
    for (int i = 0; i < 3 && status == PH_OK; i++)
        status = ph_graph_replay(graph, team.stream);
    ph_graph_destroy(graph);
    return status;
}

static ph_status exchange_around(void)
{
    PH_TRY(ph_comm_group_begin(team.comm));
    PH_TRY(ph_send(team.comm, x, COUNT, PH_DTYPE_F32, (team.rank + 1) % team.size, team.stream));
    PH_TRY(ph_receive(team.comm, y, COUNT, PH_DTYPE_F32, (team.rank + team.size - 1) % team.size,
                      team.stream));
    return ph_comm_group_end(team.comm);
}

static ph_status run_step(unsigned step, size_t count)
{
    switch (step) {
    case 0:
        return ph_all_reduce(team.comm, x, x, count, PH_DTYPE_F32, PH_REDUCE_SUM, team.stream);
    case 1:
        return ph_broadcast(team.comm, x, x, count, PH_DTYPE_F32, 0, team.stream);
    case 2:
        return ph_all_gather(team.comm, y, x, count, PH_DTYPE_F32, team.stream);
    case 3:
        return capture_and_replay();
    case 4:
        return exchange_around();
    case 5:
        return ph_comm_barrier(team.comm, 0);
    default:
        return ph_stream_synchronize(team.stream);
    }
}

/* What this rank does instead of the step. *left: it is over for it. */
static ph_status run_fault(fault of, unsigned step, bool *left)
{
    static const char *const calls[] = {"ncclAllReduce", "ncclBroadcast", "ncclAllGather",
                                        "ncclAllReduce", "ncclSend",      "ncclAllGather"};
    switch (of) {
    case FAILING_CALL:
        nccl->fail_call(calls[step % 6], INTERNAL_ERROR, 1);
        break;
    case OWN_ERROR:
        nccl->set_async_error(REMOTE_ERROR);
        break;
    case GIVES_UP:
        ph_comm_abort(team.comm, "a schedule");
        break;
    case LEAVES:
        *left = true;
        return PH_OK;
    case SKIPS:
        return PH_OK;
    case OTHER_COUNT:
        return run_step(step, COUNT - 1);
    default:
        break;
    }
    return run_step(step, COUNT);
}

static ph_status run_schedule(fault of, unsigned victim, unsigned at)
{
    unsigned steps[STEPS];
    bool left = false;
    ph_status status = PH_OK;
    for (unsigned i = 0; i < STEPS; i++)
        steps[i] = draw(7);
    for (unsigned i = 0; i < STEPS && status == PH_OK && !left; i++)
        status = team.rank == victim && i == at && of != NO_FAULT ? run_fault(of, steps[i], &left)
                                                                  : run_step(steps[i], COUNT);
    if (!left && status == PH_OK)
        status = ph_stream_synchronize(team.stream);
    return left ? PH_OK : status;
}

static void expect_known(ph_status status, fault of, unsigned number)
{
    bool known = status == PH_OK ||
                 (of != NO_FAULT && (status == PH_ERROR_PEER || status == PH_ERROR_MISMATCH ||
                                     status == PH_ERROR_DEVICE));
    if (!known)
        print_error("schedule %u, fault %d: %s\n", number, (int)of, ph_error_last()->message);
    assert_true(known);
}

/* All ranks have left the one before. */
static void play(unsigned number)
{
    rng = (ph__rng){number};
    fault of = (fault)draw(FAULTS);
    unsigned victim = draw(t_rank_count()), at = draw(STEPS);
    t_team_open(&team, TIMEOUT_MS);
    assert_ok(ph_malloc((void **)&x, COUNT, sizeof *x, team.stream));
    assert_ok(ph_malloc((void **)&y, COUNT * team.size, sizeof *y, team.stream));
    assert_ok(ph_memset(x, 0, COUNT * sizeof *x, team.stream));
    ph_status status = run_schedule(of, victim, at);
    expect_known(status, of, number);
    faults += of != NO_FAULT;
    failures += status != PH_OK;
    nccl->set_async_error(0);
    for (unsigned i = 0; i < 3; i++)
        nccl->fail_call((const char *[]){"ncclAllReduce", "ncclBroadcast", "ncclAllGather"}[i], 0,
                        0);
    nccl->fail_call("ncclSend", 0, 0);
    ph_free(x, team.stream);
    ph_free(y, team.stream);
    t_team_close(&team);
    assert_int_equal(nccl->communicators(), 0);
    t_ranks_meet();
}

static unsigned number_of(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);
    return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

TEST(every_rank_comes_to_an_end)
{
    unsigned first = number_of("PH_TEST_SEED", 0),
             count = number_of("PH_TEST_SCHEDULES", SCHEDULES);
    for (unsigned i = 0; i < count; i++)
        play(first + i);
    assert_true(failures >= faults / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_rank_comes_to_an_end)};
    nccl = t_ranks_have_gpus() ? fake_nccl() : NULL;
    if (nccl == NULL || !t_ranks_are_without_mpi()) {
        (void)puts("skipped: this is a test of the software NCCL, without MPI");
        return 77;
    }
    return t_ranks(tests);
}
