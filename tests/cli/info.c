/* SPDX-License-Identifier: MIT */
/* tests/cli/info.c: `phonograph` itself and `phonograph info`: what they say, and what they say
 * to bad usage. */
#include "support/command.h"
#include "support/support.h"
#include "support/test.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
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

TEST(help_on_a_command_shows_that_command_alone)
{
    static const char *const asked[][3] = {
        {"dump", "--help", NULL}, {"help", "dump", NULL}, {"dump", "no.json", "-h"}};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        t_result r =
            t_run(&(t_command){.argv = {PHONOGRAPH, asked[i][0], asked[i][1], asked[i][2]}});
        assert_int_equal(r.status, 0);
        assert_ptr_equal(strstr(r.out, "usage: phonograph dump FILE"), r.out);
        assert_non_null(strstr(r.out, "\n  --dot "));
        assert_null(strstr(r.out, "--device"));
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

TEST(info_lists_every_driver_with_its_reason)
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

TEST(a_variable_that_is_set_shows_its_value_and_its_meaning)
{
    assert_int_equal(setenv("PH_GRAPHS", "off", 1), 0);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "info"}}, 0,
             "PH_GRAPHS        off  (0: ph::graphed of phonograph.hpp runs eagerly)\n", NULL);
    assert_int_equal(unsetenv("PH_GRAPHS"), 0);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "info"}}, 0,
             "PH_GRAPHS        (not set): 0: ph::graphed of", NULL);
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

/* The member of that name of an object; fails where there is none. */
static json_t *member_of(json_t *object, const char *name)
{
    json_t *member = json_object_get(object, name);
    if (!member)
        fail_msg("there is no member %s", name);
    return member;
}

static json_t *read_info(const t_command *command, int status)
{
    t_result r = t_run(command);
    assert_int_equal(r.status, status);
    json_t *all = json_loads(r.out, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(all);
    assert_string_equal(json_string_value(member_of(all, "format")), "phonograph.info");
    assert_string_equal(json_string_value(member_of(all, "library")), ph_version());
    t_result_free(&r);
    return all;
}

TEST(info_as_json_has_the_drivers_and_a_devices_settings)
{
    json_t *all = read_info(
        &(t_command){.argv = {PHONOGRAPH, "info", "--json", "--device", "host:threads=3"}}, 0);
    json_t *device = json_array_get(member_of(all, "devices"), 0);
    assert_int_equal(json_array_size(member_of(all, "devices")), 1);
    assert_true(json_is_true(member_of(device, "opens")));
    assert_string_equal(json_string_value(member_of(device, "opens_as")), "host:threads=3");
    assert_int_equal(json_integer_value(member_of(device, "threads")), 3);
    assert_true(json_integer_value(member_of(device, "memory_bytes")) > 0);
    size_t i, usable = 0;
    json_t *driver;
    json_array_foreach(member_of(all, "drivers"), i, driver)
    {
        bool is = json_is_true(member_of(driver, "usable"));
        usable += is;
        (void)member_of(driver, is ? "version" : "reason");
    }
    assert_true(usable > 0);
    json_decref(all);
}

TEST(info_as_json_says_why_a_device_does_not_open)
{
    json_t *all =
        read_info(&(t_command){.argv = {PHONOGRAPH, "info", "--device", "ab\xff", "--json"}}, 1);
    json_t *device = json_array_get(member_of(all, "devices"), 0);
    assert_true(json_is_false(member_of(device, "opens")));
    assert_string_equal(json_string_value(member_of(device, "name")), "ab\\xff");
    assert_string_equal(json_string_value(member_of(device, "status")), "PH_ERROR_NOT_FOUND");
    assert_non_null(strstr(json_string_value(member_of(device, "reason")), "no device is called"));
    json_decref(all);
}

TEST(info_as_json_lists_the_variables_with_their_values)
{
    assert_int_equal(setenv("PH_BLAS", "here", 1), 0);
    json_t *all = read_info(&(t_command){.argv = {PHONOGRAPH, "info", "--json"}}, 0);
    assert_int_equal(unsetenv("PH_BLAS"), 0);
    size_t i;
    bool seen = false;
    json_t *variable;
    json_array_foreach(member_of(all, "environment"), i, variable)
    {
        (void)member_of(variable, "meaning");
        if (strcmp(json_string_value(member_of(variable, "name")), "PH_BLAS") != 0)
            continue;
        assert_string_equal(json_string_value(member_of(variable, "value")), "here");
        seen = true;
    }
    assert_true(seen);
    json_decref(all);
}

TEST(test_full_disk)
{
    t_expect(&(t_command){.argv = {PHONOGRAPH, "info", "--json"}, .output = "/dev/full"}, 1, NULL,
             "No space left on device");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "info"}, .output = "/dev/full"}, 1, NULL,
             "No space left on device");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version_and_help),
        cmocka_unit_test(help_on_a_command_shows_that_command_alone),
        cmocka_unit_test(test_bad_usage),
        cmocka_unit_test(info_lists_every_driver_with_its_reason),
        cmocka_unit_test(test_info_shows_settings),
        cmocka_unit_test(a_variable_that_is_set_shows_its_value_and_its_meaning),
        cmocka_unit_test(test_info_of_what_is_not_there),
        cmocka_unit_test(info_as_json_has_the_drivers_and_a_devices_settings),
        cmocka_unit_test(info_as_json_says_why_a_device_does_not_open),
        cmocka_unit_test(info_as_json_lists_the_variables_with_their_values),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
