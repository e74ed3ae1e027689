/* SPDX-License-Identifier: MIT */
/* tests/cli/examples.c: the small examples run, check themselves, and say what their text promises. */
#include "support/command.h"
#include "support/support.h"
#include <string.h>

static void test_saxpy(void **state)
{
    (void)state;
    t_expect(&(t_command){.argv = {T_PROGRAM("saxpy")}}, 0, "y = 1000 in all 65536 places\n", NULL);
}

static void test_block(void **state)
{
    (void)state;
    t_expect(&(t_command){.argv = {T_PROGRAM("block")}}, 0, "left early: 11 launches", NULL);
    t_expect(&(t_command){.argv = {T_PROGRAM("block")}}, 0, "y = 15\n", NULL);
}

/* 35 graphs hold what one holds. */
static void test_pools(void **state)
{
    (void)state;
    t_result r = t_run(&(t_command){.argv = {T_PROGRAM("pools")}});
    assert_int_equal(r.status, 0);
    char *one = strstr(r.out, " 1 graph: "), *all = strstr(r.out, "35 graphs: ");
    assert_true(one && all);
    one = strstr(one, ": "), all = strstr(all, ": ");
    assert_memory_equal(one, all, strcspn(one, "\n"));
    assert_non_null(strstr(r.out, "every batch from 1 to 140 rows was served\n"));
    t_result_free(&r);
}

static void test_fork_join(void **state)
{
    (void)state;
    t_result r = t_run(&(t_command){.argv = {T_PROGRAM("fork_join")}});
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "y = 3,"));
    assert_non_null(strstr(r.out, "y = 41,"));
    assert_non_null(strstr(r.out, "y = 7,"));
    assert_non_null(strstr(r.out, "digraph phonograph {"));
    t_result_free(&r);
}

static void test_misuse(void **state)
{
    (void)state;
    static const char *const names[] = {"PH_ERROR_NOT_FOUND", "PH_ERROR_SIZE",
                                        "PH_ERROR_STATE",     "PH_ERROR_CAPTURE (900",
                                        "PH_ERROR_UNPINNED",  "captured and replayed: y = 7\n"};
    t_result r = t_run(&(t_command){.argv = {T_PROGRAM("misuse")}});
    assert_int_equal(r.status, 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_non_null(strstr(r.out, names[i]));
    t_result_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_saxpy),     cmocka_unit_test(test_block),  cmocka_unit_test(test_pools),
        cmocka_unit_test(test_fork_join), cmocka_unit_test(test_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
