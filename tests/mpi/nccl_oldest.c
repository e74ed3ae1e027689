/* SPDX-License-Identifier: MIT */
/* The oldest NCCL that the library takes, 2.18: collectives work, and registered memory is
 * refused. */
#include "fake/fake_nccl.h"
#include "support/ranks.h"
#include "support/test.h"
#include <stdio.h>
#include <stdlib.h>

enum {
    COUNT = 1000
};

TEST(collectives_work_and_registered_memory_is_refused)
{
    t_team team;
    t_world world;
    ph_pool *pool;
    int32_t *x;
    t_team_open(&team, 20000);
    t_open_world(&world, ph_device_retain(team.device));
    assert_ok(ph_malloc((void **)&x, COUNT, sizeof *x, team.stream));
    assert_ok(t_fill(&world, team.stream, x, COUNT, 3));
    assert_ok(ph_all_reduce(team.comm, x, x, COUNT, PH_DTYPE_I32, PH_REDUCE_SUM, team.stream));
    t_all(x, COUNT, 3 * (int32_t)team.size, team.stream);
    assert_error(ph_comm_pool_create(&pool, team.comm, NULL), PH_ERROR_UNSUPPORTED,
                 "ph_comm_pool_create: NCCL 2.18 registers no memory");
    assert_null(pool);
    assert_ok(ph_comm_check(team.comm));
    ph_free(x, team.stream);
    t_close(&world);
    t_team_close(&team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_work_and_registered_memory_is_refused)};
    if (!t_ranks_have_gpus() || fake_nccl() == NULL) {
        (void)puts("skipped: this is a test of the software NCCL");
        return 77;
    }
    (void)setenv("FAKE_NCCL_VERSION", "21805", 1);
    return t_ranks(tests);
}
