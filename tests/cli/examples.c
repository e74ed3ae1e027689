/* SPDX-License-Identifier: MIT */
/* tests/cli/examples.c: the small examples run, check themselves, and say what their text
 * promises. */
#include "support/command.h"
#include "support/ranks.h"
#include "support/support.h"
#include "support/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEST(example_saxpy_is_right_in_all_places)
{
    t_expect(&(t_command){.argv = {T_PROGRAM("saxpy"), t_device_name()}}, 0,
             "y = 1000 in all 65536 places\n", NULL);
}

TEST(example_block_leaves_early_and_is_right)
{
    t_expect(&(t_command){.argv = {T_PROGRAM("block"), t_device_name()}}, 0,
             "left early: 11 launches", NULL);
    t_expect(&(t_command){.argv = {T_PROGRAM("block"), t_device_name()}}, 0, "y = 15\n", NULL);
}

TEST(example_linear_is_right_for_both_inputs)
{
    t_expect(&(t_command){.argv = {T_PROGRAM("linear"), t_device_name()}}, 0,
             "x = 1 2 3: y = 7 7\nx = 10 20 30: y = 61 61\n", NULL);
}

/* 35 graphs hold what one holds. */
TEST(example_pools_holds_35_graphs_in_the_memory_of_one)
{
    t_result r = t_run(&(t_command){.argv = {T_PROGRAM("pools"), t_device_name()}});
    assert_int_equal(r.status, 0);
    char *one = strstr(r.out, " 1 graph: "), *all = strstr(r.out, "35 graphs: ");
    assert_true(one && all);
    one = strstr(one, ": "), all = strstr(all, ": ");
    assert_memory_equal(one, all, strcspn(one, "\n"));
    assert_non_null(strstr(r.out, "every batch from 1 to 140 rows was served\n"));
    t_result_free(&r);
}

TEST(test_fork_join)
{
    t_result r = t_run(&(t_command){.argv = {T_PROGRAM("fork_join"), t_device_name()}});
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "y = 3,"));
    assert_non_null(strstr(r.out, "y = 41,"));
    assert_non_null(strstr(r.out, "y = 7,"));
    assert_non_null(strstr(r.out, "digraph phonograph {"));
    t_result_free(&r);
}

TEST(example_slots_finds_and_proves_its_slots)
{
    t_expect(&(t_command){.argv = {T_PROGRAM("slots"), t_device_name()}}, 0,
             "found: one graph, 3 pairs of buffers\nproved: 1 and 1 uses, the same 3 pairs\n",
             NULL);
}

TEST(example_serve_has_the_same_tokens_through_the_cache_and_a_report)
{
    char path[] = "/tmp/phonograph.serve.XXXXXX", page[1 << 12];
    int file = mkstemp(path);
    assert_true(file >= 0);
    t_expect(&(t_command){.argv = {T_PROGRAM("serve"), "--requests", "25", "--report", path,
                                   t_device_name()}},
             0, "25 requests in ", NULL);
    t_expect(&(t_command){.argv = {T_PROGRAM("serve"), "--requests", "25", t_device_name()}}, 0,
             ": the same tokens eagerly and through the cache\n", NULL);
    assert_int_equal(close(file), 0);
    FILE *report = fopen(path, "r");
    assert_non_null(report);
    size_t bytes = fread(page, 1, sizeof page - 1, report);
    page[bytes] = '\0';
    assert_non_null(strstr(page, "serve: a decoder behind a cache of graphs"));
    assert_non_null(strstr(page, "Padding: "));
    (void)fclose(report);
    assert_int_equal(unlink(path), 0);
    t_expect(&(t_command){.argv = {T_PROGRAM("serve"), "--requests", "0"}}, 2, NULL,
             "usage: serve");
}

TEST(example_profile_prints_path_and_scopes)
{
    t_result r = t_run(&(t_command){.argv = {T_PROGRAM("profile"), t_device_name()}});
    assert_string_equal(r.err, "");
    assert_int_equal(r.status, 0);
    assert_memory_equal(r.out, "9 nodes in ", 11);
    assert_non_null(strstr(r.out, "critical path: "));
    assert_non_null(strstr(r.out, " layer=2 name=attention\n"));
    assert_non_null(strstr(r.out, "\nreplaying takes "));
    t_result_free(&r);
}

/* Parts of messages alone: what died, where it was freed, and that the program went on. */
TEST(example_liveness_names_what_died_and_goes_on)
{
    static const char *const parts[] = {"8 inputs:\n",
                                        "what the check cannot see:\n3 kernels: ",
                                        "replayed: y = 33\n",
                                        "PH_ERROR_STALE_INPUT: ",
                                        "log: ",
                                        "swap_weights+",
                                        "replayed: y = 213\n",
                                        "row 0 = 0x",
                                        "replayed: y = 1212\n"};
    t_result r = t_run(&(t_command){.argv = {T_PROGRAM("liveness"), t_device_name()}});
    assert_string_equal(r.err, "");
    assert_int_equal(r.status, 0);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        assert_non_null(strstr(r.out, parts[i]));
    t_result_free(&r);
}

/* Where the launch of the graph waits for its work, as under some tools, nobody can ask how far
 * it is, and the program says so. */
TEST(example_locate_finds_the_nan_and_the_hang)
{
    static const char *const parts[] = {
        "NaN: first in \"root\" of layer 1/norm (node ",
        "1 bad, the first at 417: ", "NaN: with whole weights all is finite\n", "parameter rate "};
    t_result r = t_run(&(t_command){.argv = {T_PROGRAM("locate"), t_device_name()}});
    assert_string_equal(r.err, "");
    assert_int_equal(r.status, 0);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        assert_non_null(strstr(r.out, parts[i]));
    if (!t_launches_wait() || !strstr(r.out, "hang: not looked for: ")) {
        assert_non_null(strstr(r.out, "\"layer 1/exchange\""));
        assert_non_null(
            strstr(r.out, "hang: the batch came, and the replay has passed all 6 breadcrumbs\n"));
    }
    t_result_free(&r);
}

TEST(misuse_is_refused)
{
    static const char *const names[] = {"PH_ERROR_NOT_FOUND", "PH_ERROR_SIZE",
                                        "PH_ERROR_STATE",     "PH_ERROR_CAPTURE (900",
                                        "PH_ERROR_UNPINNED",  "captured and replayed: y = 7\n"};
    t_result r = t_run(&(t_command){.argv = {T_PROGRAM("misuse"), t_device_name()}});
    assert_int_equal(r.status, 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_non_null(strstr(r.out, names[i]));
    t_result_free(&r);
}

/* The other ranks wait for the one that gave up, and do not do so for ever. */
static void expect_that_all_give_up(const char *mpirun)
{
    t_result r = t_run(&(t_command){
        .argv = {mpirun, "-n", "2", T_PROGRAM("data_parallel"), "host:threads=1", "", "7"}});
    assert_non_null(strstr(r.err, "data_parallel: rank 1: PH_ERROR_CALLER: gives up before step 7, "
                                  "as it was told to"));
    assert_non_null(strstr(r.err, "data_parallel: rank 0: PH_ERROR_PEER: "));
    assert_non_null(strstr(r.err, "gave up: gives up before step 7"));
    t_result_free(&r);
}

TEST(data_parallel_has_the_same_bits_on_all_ranks)
{
    static const char *const ranks[] = {"2", "4"};
    const char *mpirun = t_mpirun();
    t_expect(&(t_command){.argv = {T_PROGRAM("data_parallel"), "hostile"}}, 1, "", "hostile");
    t_expect(&(t_command){.argv = {T_PROGRAM("data_parallel"), "host", "", "abc"}}, 1, "",
             "'abc' is no step from 0 to 119");
    if (mpirun == NULL)
        return;
    for (size_t i = 0; i < 2; i++) {
        t_result r = t_run(&(t_command){
            .argv = {mpirun, "-n", ranks[i], T_PROGRAM("data_parallel"), "host:threads=1"}});
        assert_int_equal(r.status, 0);
        assert_non_null(strstr(r.out, "are the same to the last bit, on all"));
        t_result_free(&r);
    }
    expect_that_all_give_up(mpirun);
}

static bool has_gpu(void)
{
    ph_driver_info info;
    for (size_t i = 0; ph_driver_get_info(&info, i) == PH_OK; i++)
        if (strcmp(info.name, "cuda") == 0 && info.device_count > 0)
            return true;
    return false;
}

/* Built where the CUDA toolkit is. Without a GPU it says so: itself, or, without a driver, the
 * loader for it. */
TEST(test_existing_cuda)
{
    const t_command command = {.argv = {T_PROGRAM("existing_cuda")}};
    if (access(command.argv[0], X_OK) != 0) {
        print_message("skipped: existing_cuda is not built, as there is no CUDA toolkit here\n");
        skip();
    }
    t_result r = t_run(&command);
    if (has_gpu()) {
        assert_string_equal(r.err, "");
        assert_int_equal(r.status, 0);
        assert_non_null(strstr(r.out, "1000 steps and 1000 replays: the same bits"));
        assert_non_null(strstr(r.out, "kernel grow"));
        assert_non_null(strstr(r.out, "B + 0: an address ("));
        assert_non_null(strstr(r.out, "bytes of ph_malloc"));
        assert_non_null(strstr(r.out, "C + 0: an address ("));
        assert_non_null(strstr(r.out, "bytes of other code's"));
    } else {
        assert_string_equal(r.out, "");
        assert_true(
            (r.status == 1 && strstr(r.err, "existing_cuda: ") && strstr(r.err, "cuInit(0)")) ||
            (r.status == 127 && strstr(r.err, "libcuda.so.1: cannot open shared object file")));
    }
    t_result_free(&r);
}

/* Built where nvcc is. */
TEST(existing_cuda_cpp_serves_equal_bits_by_graphs)
{
    const t_command command = {.argv = {T_PROGRAM("existing_cuda_cpp")}};
    if (access(command.argv[0], X_OK) != 0) {
        print_message("skipped: existing_cuda_cpp is not built, as there is no nvcc here\n");
        skip();
    }
    t_result r = t_run(&command);
    if (has_gpu()) {
        assert_string_equal(r.err, "");
        assert_int_equal(r.status, 0);
        assert_non_null(strstr(r.out, "2000 requests of 1 to 12 rows"));
        assert_non_null(strstr(r.out, "12 graphs in one pool"));
        assert_non_null(strstr(r.out, "equal to the bit"));
    } else {
        assert_string_equal(r.out, "");
        assert_int_equal(r.status, 1);
        assert_ptr_equal(strstr(r.err, "existing_cuda_cpp: "), r.err);
    }
    t_result_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(example_saxpy_is_right_in_all_places),
        cmocka_unit_test(example_block_leaves_early_and_is_right),
        cmocka_unit_test(example_pools_holds_35_graphs_in_the_memory_of_one),
        cmocka_unit_test(test_fork_join),
        cmocka_unit_test(example_slots_finds_and_proves_its_slots),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(example_serve_has_the_same_tokens_through_the_cache_and_a_report),
        cmocka_unit_test(example_profile_prints_path_and_scopes),
        cmocka_unit_test(test_existing_cuda),
        cmocka_unit_test(example_liveness_names_what_died_and_goes_on),
        cmocka_unit_test(example_locate_finds_the_nan_and_the_hang),
        cmocka_unit_test(example_linear_is_right_for_both_inputs),
        cmocka_unit_test(data_parallel_has_the_same_bits_on_all_ranks),
        cmocka_unit_test(existing_cuda_cpp_serves_equal_bits_by_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
