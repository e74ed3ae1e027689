/* SPDX-License-Identifier: MIT */
/* tests/cli/build_script.c: what build.sh says before it does anything: its help, wherever it is
 * asked for, and what is wrong with its arguments. */
#include "support/command.h"
#include "support/support.h"
#include "support/test.h"
#include <stdio.h>
#include <string.h>

#define BUILD "/bin/sh", PH_TEST_SOURCE_DIR "/build.sh"

static void expect_help(const t_command *program)
{
    t_result r = t_run(program);
    assert_int_equal(r.status, 0);
    assert_ptr_equal(strstr(r.out, "usage: ./build.sh COMMAND"), r.out);
    assert_string_equal(r.err, "");
    t_result_free(&r);
}

TEST(every_command_of_the_build_script_has_help)
{
    static const char *const commands[] = {"test",  "test-gpu", "bench", "bench-gpu", "install",
                                           "setup", "carry",    "clean", "help"};
    expect_help(&(t_command){.argv = {BUILD}});
    expect_help(&(t_command){.argv = {BUILD, "--help"}});
    expect_help(&(t_command){.argv = {BUILD, "-h"}});
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        expect_help(&(t_command){.argv = {BUILD, commands[i], "--help"}});
        expect_help(&(t_command){.argv = {BUILD, commands[i], "-h"}});
    }
    expect_help(&(t_command){.argv = {BUILD, "test", "--preset", "asan", "--help"}});
    expect_help(&(t_command){.argv = {BUILD, "install", "--prefix", "/nowhere", "-h"}});
}

TEST(test_bad_usage)
{
    t_expect(&(t_command){.argv = {BUILD, "play"}}, 1, NULL, "unknown command 'play'");
    t_expect(&(t_command){.argv = {BUILD, "test", "--fast"}}, 1, NULL,
             "test: unknown argument '--fast'");
    t_expect(&(t_command){.argv = {BUILD, "test", "--preset"}}, 1, NULL, "--preset needs a name");
    t_expect(&(t_command){.argv = {BUILD, "test-gpu", "--fast"}}, 1, NULL,
             "test-gpu: unknown argument '--fast'");
    t_expect(&(t_command){.argv = {BUILD, "bench-gpu", "--only"}}, 1, NULL,
             "--only needs the name of a benchmark");
    t_expect(&(t_command){.argv = {BUILD, "carry", "here", "there"}}, 1, NULL,
             "carry takes one folder");
    t_expect(&(t_command){.argv = {BUILD, "install", "here"}}, 1, NULL,
             "install: unknown argument 'here'");
    t_expect(&(t_command){.argv = {BUILD, "clean", "all"}}, 1, NULL, "clean takes no argument");
}

/* It empties its folder: never one that holds something else. */
TEST(test_carry_leaves_other_folders_alone)
{
    t_folder_create();
    t_write(t_path("letter"), "dear", 4);
    char folder[256];
    (void)snprintf(folder, sizeof folder, "%s", t_path("letter"));
    *strrchr(folder, '/') = '\0';
    t_expect(&(t_command){.argv = {BUILD, "carry", folder}}, 1, "",
             "is there and holds something else");
    t_expect(&(t_command){.argv = {BUILD, "carry", t_path("letter")}}, 1, "",
             "is there and holds something else");
    assert_int_equal(t_count_files(), 1);
    t_folder_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_of_the_build_script_has_help),
        cmocka_unit_test(test_bad_usage),
        cmocka_unit_test(test_carry_leaves_other_folders_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
