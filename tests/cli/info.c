/* SPDX-License-Identifier: MIT */
/* tests/cli/info.c: `phonograph` itself and `phonograph info`: what they say, and what they say
 * to bad usage. */
#include "support/command.h"
#include "support/support.h"
#include "support/test.h"
#include <stdio.h>
#include <string.h>

#define PHONOGRAPH T_PROGRAM("phonograph")

TEST(test_version_and_help)
{
    t_expect(&(t_command){.argv = {PHONOGRAPH, "--version"}}, 0, ph_version(), NULL);
    static const char *const asked[][3] = {{"--help"},
                                           {"-h"},
                                           {"help"},
                                           {"dump", "--help"},
                                           {"info", "--help"},
                                           {"info", "-h"},
                                           {"dump", "-h", "no.json"},
                                           {"info", "--device", "-h"}};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        t_result r =
            t_run(&(t_command){.argv = {PHONOGRAPH, asked[i][0], asked[i][1], asked[i][2]}});
        assert_int_equal(r.status, 0);
        assert_ptr_equal(strstr(r.out, "usage: phonograph"), r.out);
        assert_string_equal(r.err, "");
        t_result_free(&r);
    }
}

TEST(test_bad_usage)
{
    t_expect(&(t_command){.argv = {PHONOGRAPH}}, 2, NULL, "usage: phonograph");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "play"}}, 2, NULL, "there is no command 'play'");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "info", "--all"}}, 2, NULL,
             "unknown argument '--all'");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "info", "--device"}}, 2, NULL,
             "--device wants a name");
}

TEST(test_info)
{
    t_result r = t_run(&(t_command){.argv = {PHONOGRAPH, "info"}});
    assert_int_equal(r.status, 0);
    assert_string_equal(r.err, "");
    ph_driver_info driver;
    bool cuda = false;
    for (size_t i = 0; ph_driver_get_info(&driver, i) == PH_OK; i++) {
        assert_non_null(strstr(r.out, driver.name));
        assert_non_null(strstr(r.out, driver.reason));
        cuda = cuda || strcmp(driver.name, "cuda") == 0;
    }
    assert_non_null(strstr(r.out, ph_version()));
    assert_non_null(strstr(r.out, "priorities"));
    assert_int_equal(strstr(r.out, "\n  cuda   not in this build\n") == NULL, cuda);
    t_result_free(&r);
}

TEST(test_info_shows_settings)
{
    t_result r =
        t_run(&(t_command){.argv = {PHONOGRAPH, "info", "--device", "host:threads=2,memory=64m",
                                    "--device", "host:poison=1"}});
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "host:threads=2,memory=67108864"));
    assert_non_null(strstr(r.out, "67108864 bytes (0.1 GiB)"));
    assert_non_null(strstr(r.out, "host:poison=1"));
    t_result_free(&r);
}

TEST(test_info_of_what_is_not_there)
{
    t_expect(&(t_command){.argv = {PHONOGRAPH, "info", "--device", "abacus"}}, 1,
             "\ndevices\n  abacus: ph_device_open: no device is called \"abacus\"",
             "not every device can be opened");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "info", "--device", "host:threads=many"}}, 1,
             "\ndevices\n  host:threads=many: ", NULL);
    /* The others are shown all the same. */
    t_expect(&(t_command){.argv = {PHONOGRAPH, "info", "--device", "cuda:77", "--device",
                                   "host:threads=2"}},
             1, "\n  host:threads=2\n", NULL);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "info", "--device", "cuda:77"}}, 1,
             "\ndevices\n  cuda:77: ", NULL);
}

TEST(test_full_disk)
{
    t_expect(&(t_command){.argv = {PHONOGRAPH, "info"}, .output = "/dev/full"}, 1, NULL,
             "No space left on device");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version_and_help),
        cmocka_unit_test(test_bad_usage),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_info_shows_settings),
        cmocka_unit_test(test_info_of_what_is_not_there),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
