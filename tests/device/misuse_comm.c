/* SPDX-License-Identifier: MIT */
/* tests/device/misuse_comm.c: a communicator of one rank, and what the calls answer to bad
 * input. */
#include "fake/fake_nccl.h"
#include "support/support.h"
#include "support/test.h"
#include <stdlib.h>
#include <string.h>

static t_world world;

FIXTURE(open_world)
{
    t_open(&world, NULL);
    return 0;
}

FIXTURE(close_world)
{
    t_close(&world);
    return 0;
}

static void expect_refused(const ph_comm_options *options, ph_status status, const char *part)
{
    ph_comm *comm;
    memset(&comm, 0xab, sizeof comm);
    assert_error(ph_comm_create(&comm, world.device, options), status, part);
    assert_null(comm);
}

TEST(one_rank_is_alone)
{
    ph_comm *comm;
    assert_ok(ph_comm_create(&comm, world.device, NULL));
    assert_int_equal(ph_comm_rank(comm), 0);
    assert_int_equal(ph_comm_size(comm), 1);
    assert_ok(ph_comm_barrier(comm, 0));
    assert_ok(ph_comm_check(comm));
    assert_ptr_equal(ph_comm_retain(comm), comm);
    ph_comm_release(comm);
    assert_ok(ph_comm_barrier(comm, 1));
    ph_comm_release(comm);
    assert_error(ph_comm_forbid_mixing(), PH_ERROR_STATE, "before the first ph_comm_create");
}

TEST(a_communicator_holds_its_device)
{
    ph_device *device;
    ph_comm *comm;
    assert_ok(ph_device_open(&device, t_device_name(), NULL));
    assert_ok(ph_comm_create(&comm, device, NULL));
    ph_device_release(device);
    assert_ok(ph_comm_barrier(comm, 0));
    ph_comm_release(comm);
}

TEST(null_and_reserved)
{
    const ph_comm_options reserved = {.reserved = {0, 1}};
    ph_comm *comm;
    assert_error(ph_comm_create(NULL, world.device, NULL), PH_ERROR_ARGUMENT,
                 "ph_comm_create: out");
    memset(&comm, 0xab, sizeof comm);
    assert_error(ph_comm_create(&comm, NULL, NULL), PH_ERROR_ARGUMENT, "ph_comm_create: device");
    assert_null(comm);
    expect_refused(&reserved, PH_ERROR_ARGUMENT, "ph_comm_options");
    assert_null(ph_comm_retain(NULL));
    ph_comm_release(NULL);
    ph_comm_abort(NULL, "nothing");
    assert_int_equal(ph_comm_rank(NULL), 0);
    assert_int_equal(ph_comm_size(NULL), 0);
    assert_error(ph_comm_barrier(NULL, 0), PH_ERROR_ARGUMENT, "ph_comm_barrier: comm");
    assert_error(ph_comm_check(NULL), PH_ERROR_ARGUMENT, "ph_comm_check: comm");
}

TEST(places_that_do_not_exist)
{
    const ph_comm_options beyond = {.size = 2, .rank = 2}, no_size = {.rank = 1},
                          long_time = {.timeout_ms = UINT64_MAX};
    expect_refused(&beyond, PH_ERROR_ARGUMENT, "rank 2 of 2");
    expect_refused(&no_size, PH_ERROR_ARGUMENT, "rank 1 and no size");
    expect_refused(&long_time, PH_ERROR_ARGUMENT, "timeout_ms");
}

TEST(places_of_the_environment)
{
    ph_comm *comm;
    assert_int_equal(setenv("RANK", "1", 1), 0);
    assert_ok(ph_comm_create(&comm, world.device, NULL)); /* no WORLD_SIZE */
    ph_comm_release(comm);
    assert_int_equal(setenv("WORLD_SIZE", "two", 1), 0);
    expect_refused(NULL, PH_ERROR_ARGUMENT, "WORLD_SIZE is \"two\"");
    assert_int_equal(setenv("WORLD_SIZE", "1", 1), 0);
    expect_refused(NULL, PH_ERROR_ARGUMENT, "rank 1 of 1");
    assert_int_equal(setenv("WORLD_SIZE", "0", 1), 0);
    expect_refused(NULL, PH_ERROR_ARGUMENT, "of 0 ranks");
    assert_int_equal(setenv("WORLD_SIZE", "", 1), 0);
    expect_refused(NULL, PH_ERROR_ARGUMENT, "WORLD_SIZE is \"\"");
    assert_int_equal(unsetenv("RANK"), 0);
    assert_int_equal(unsetenv("WORLD_SIZE"), 0);
    assert_int_equal(setenv("SLURM_PROCID", "0", 1), 0);
    assert_int_equal(setenv("SLURM_NTASKS", "1", 1), 0);
    assert_ok(ph_comm_create(&comm, world.device, NULL));
    ph_comm_release(comm);
    assert_int_equal(setenv("SLURM_NTASKS", "x", 1), 0);
    expect_refused(NULL, PH_ERROR_ARGUMENT, "SLURM_NTASKS");
    assert_int_equal(unsetenv("SLURM_PROCID"), 0);
    assert_int_equal(unsetenv("SLURM_NTASKS"), 0);
}

static bool is_gpu(void)
{
    ph_device_info info;
    return ph_device_get_info(&info, world.device) == PH_OK && info.kind == PH_DEVICE_CUDA;
}

TEST(several_gpus_need_nccl_and_a_place_to_meet)
{
    const ph_comm_options two = {.size = 2}, far = {.size = 2, .port = 65536};
    expect_refused(&far, PH_ERROR_ARGUMENT, "port 65536");
    if (!is_gpu())
        return;
    assert_int_equal(setenv("PH_NCCL", "/nonexistent/libnccl.so.2", 1), 0);
    expect_refused(&two, PH_ERROR_UNSUPPORTED, "more GPUs than one need NCCL");
    assert_int_equal(setenv("PH_NCCL", "libc.so.6", 1), 0);
    expect_refused(&two, PH_ERROR_UNSUPPORTED, "has no ncclGetVersion");
    assert_int_equal(unsetenv("PH_NCCL"), 0);
    if (fake_nccl()) {
        assert_int_equal(setenv("FAKE_NCCL_VERSION", "21705", 1), 0);
        expect_refused(&two, PH_ERROR_UNSUPPORTED, "is 2.17");
        assert_int_equal(unsetenv("FAKE_NCCL_VERSION"), 0);
    } else if (dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL) == NULL) {
        expect_refused(&two, PH_ERROR_UNSUPPORTED, "more GPUs than one need NCCL");
        return;
    }
    expect_refused(&two, PH_ERROR_ARGUMENT, "set MASTER_ADDR");
    assert_int_equal(setenv("MASTER_ADDR", "127.0.0.1", 1), 0);
    expect_refused(&two, PH_ERROR_ARGUMENT, "set PH_COMM_PORT");
    assert_int_equal(setenv("PH_COMM_PORT", "many", 1), 0);
    expect_refused(&two, PH_ERROR_ARGUMENT, "PH_COMM_PORT is \"many\"");
    assert_int_equal(setenv("PH_COMM_PORT", "70000", 1), 0);
    expect_refused(&two, PH_ERROR_ARGUMENT, "ports are from 1 to 65535");
    assert_int_equal(unsetenv("PH_COMM_PORT"), 0);
    assert_int_equal(unsetenv("MASTER_ADDR"), 0);
}

TEST(the_local_rank_is_the_launchers)
{
    uint32_t rank = 7;
    assert_ok(ph_comm_local_rank(&rank));
    assert_int_equal(rank, 0);
    assert_int_equal(setenv("SLURM_LOCALID", "2", 1), 0);
    assert_ok(ph_comm_local_rank(&rank));
    assert_int_equal(rank, 2);
    assert_int_equal(setenv("LOCAL_RANK", "3", 1), 0);
    assert_ok(ph_comm_local_rank(&rank));
    assert_int_equal(rank, 3);
    assert_int_equal(setenv("LOCAL_RANK", "-1", 1), 0);
    assert_error(ph_comm_local_rank(&rank), PH_ERROR_ARGUMENT, "LOCAL_RANK is \"-1\"");
    assert_error(ph_comm_local_rank(NULL), PH_ERROR_ARGUMENT, "ph_comm_local_rank: out");
    assert_int_equal(unsetenv("LOCAL_RANK"), 0);
    assert_int_equal(unsetenv("SLURM_LOCALID"), 0);
}

TEST(several_ranks_without_the_plug_in)
{
    const ph_comm_options two = {.size = 2};
    if (is_gpu())
        return;
    assert_int_equal(setenv("PH_COMM_MPI", "/nonexistent/libphonograph_mpi.so", 1), 0);
    expect_refused(&two, PH_ERROR_UNSUPPORTED, "more ranks than one need MPI");
    assert_int_equal(setenv("PH_COMM_MPI", "libc.so.6", 1), 0);
    expect_refused(&two, PH_ERROR_UNSUPPORTED, "another version");
    assert_int_equal(unsetenv("PH_COMM_MPI"), 0);
}

TEST(an_abort_is_the_failure_that_stays)
{
    ph_comm *comm;
    assert_ok(ph_comm_create(&comm, world.device, NULL));
    assert_ok(ph_fail(PH_OK, "%s", "nothing"));
    ph_comm_abort(comm, "no data left");
    assert_error(ph_comm_check(comm), PH_ERROR_PEER, "rank 0 gave up: no data left");
    ph_comm_abort(comm, "later");
    assert_error(ph_comm_barrier(comm, 0), PH_ERROR_PEER, "no data left");
    assert_ok(ph_stream_synchronize(world.stream));
    assert_ok(ph_device_synchronize(world.device));
    ph_comm_release(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {IN_WORLD(one_rank_is_alone),
                                       IN_WORLD(a_communicator_holds_its_device),
                                       IN_WORLD(null_and_reserved),
                                       IN_WORLD(places_that_do_not_exist),
                                       IN_WORLD(places_of_the_environment),
                                       IN_WORLD(several_ranks_without_the_plug_in),
                                       IN_WORLD(several_gpus_need_nccl_and_a_place_to_meet),
                                       IN_WORLD(the_local_rank_is_the_launchers),
                                       IN_WORLD(an_abort_is_the_failure_that_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
