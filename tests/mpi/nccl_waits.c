/* SPDX-License-Identifier: MIT */
/* A call that waits for NCCL when its communicator fails: it ends, and MPI, of which it used
 * nothing, stays there for other communicators. */
#include "base/clock.h"
#include "base/sync.h"
#include "fake/fake_nccl.h"
#include "support/ranks.h"
#include "support/test.h"
#include <stdio.h>

enum {
    COUNT = 1000,
    IN_PROGRESS = 7
};
static const fake_nccl_controls *nccl;
static t_team team;

static ph_status sum(float *x)
{
    return ph_all_reduce(team.comm, x, x, COUNT, PH_DTYPE_F32, PH_REDUCE_SUM, team.stream);
}

static void *abort_later(void *calls)
{
    while (nccl->calls_of("ncclAllReduce") == *(const int64_t *)calls)
        ph__sleep_ns(100000);
    ph_comm_abort(team.comm, "enough");
    return NULL;
}

static void sum_once(void)
{
    float *x;
    t_team_open(&team, 20000);
    assert_ok(ph_malloc((void **)&x, COUNT, sizeof *x, team.stream));
    assert_ok(ph_memset(x, 0, COUNT * sizeof *x, team.stream));
    assert_ok(sum(x));
    assert_ok(ph_stream_synchronize(team.stream));
    ph_free(x, team.stream);
    t_ranks_meet();
}

TEST(a_wait_for_nccl_that_fails_leaves_mpi_to_others)
{
    float *x;
    pthread_t thread;
    t_team_open(&team, 20000);
    assert_ok(ph_malloc((void **)&x, COUNT, sizeof *x, team.stream));
    t_ranks_meet();
    /* the first collective of a communicator, which NCCL submits on its own thread */
    int64_t calls = nccl->calls_of("ncclAllReduce");
    nccl->set_async_error(IN_PROGRESS);
    assert_true(ph__thread_start(&thread, "abort", abort_later, &calls));
    assert_error(sum(x), PH_ERROR_PEER, "gave up: enough");
    pthread_join(thread, NULL);
    nccl->set_async_error(0);
    ph_free(x, team.stream);
    t_ranks_meet();
    t_team_close(&team);
    sum_once();
    t_team_close(&team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_for_nccl_that_fails_leaves_mpi_to_others)};
    nccl = t_ranks_have_gpus() ? fake_nccl() : NULL;
    if (nccl == NULL) {
        (void)puts("skipped: this is a test of the software NCCL");
        return 77;
    }
    return t_ranks(tests);
}
