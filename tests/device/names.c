/* SPDX-License-Identifier: MIT */
/* tests/device/names.c: device names go round, settings take effect, and what devices and
 * drivers say of themselves. */
#include "support/support.h"
#include "support/test.h"
#include <string.h>

static void info_of(ph_device_info *info, const char *name, const ph_device_options *options)
{
    ph_device *device;
    assert_ok(ph_device_open(&device, name, options));
    assert_ok(ph_device_get_info(info, device));
    ph_device_release(device);
}

/* A name, as given and as the device calls itself; opening that again gives the same. */
TEST(a_device_name_opens_the_same_device_again)
{
    static const struct {
        const char *given, *called;
    } cases[] = {
        {"host", "host"},
        {"host:", "host"},
        {"host:0", "host"},
        {"host:threads=2", "host:threads=2"},
        {"host:chaos=7,threads=2", "host:threads=2,chaos=7"},
        {"host:threads=2,chaos=7,poison=1,memory=64m",
         "host:threads=2,chaos=7,poison=1,memory=67108864"},
        {"host:poison=0,reuse=1", "host"},
        {"host:reuse=0", "host:reuse=0"},
        {"host:0:threads=3", "host:threads=3"},
        {"host:memory=1G", "host:memory=1073741824"},
        {"host:memory=65536K", "host:memory=67108864"},
        {"host:threads=1,threads=2", "host:threads=2"},
        {"host:chaos=18446744073709551615", "host:chaos=18446744073709551615"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ph_device_info first, second;
        info_of(&first, cases[i].given, NULL);
        assert_string_equal(first.name, cases[i].called);
        info_of(&second, first.name, NULL);
        assert_string_equal(second.name, first.name);
        assert_int_equal(second.threads, first.threads);
    }
}

/* The longest name there is keeps all of its settings. */
TEST(the_longest_name)
{
    ph_device_options options = {
        .host_threads = 2, .debug_poison = true, .no_reuse_in_capture = true};
    options.host_chaos_seed = UINT64_MAX;
    options.host_memory_bytes = (UINT64_C(1) << 36) - 1;
    ph_device_info first, second;
    info_of(&first, "host", &options);
    info_of(&second, first.name, NULL);
    assert_string_equal(first.name, second.name);
    assert_non_null(strstr(first.name, "threads=2"));
    assert_non_null(strstr(first.name, "chaos=18446744073709551615"));
    assert_non_null(strstr(first.name, "memory=68719476735"));
    assert_int_equal(second.memory_total, first.memory_total);
}

TEST(the_name_wins_over_the_option)
{
    ph_device_options options = {
        .host_threads = 3, .debug_poison = true, .host_memory_bytes = 128u << 20};
    ph_device_info info;
    info_of(&info, "host:threads=2,poison=0", &options);
    assert_string_equal(info.name, "host:threads=2,memory=134217728");
    assert_int_equal(info.threads, 2);
    assert_int_equal(info.memory_total, 128u << 20);
}

TEST(what_a_device_says)
{
    ph_device *device;
    ph_device_info info;
    ph_stream *stream;
    void *block;
    assert_ok(ph_device_open(&device, "host:threads=2,memory=64m", NULL));
    assert_ok(ph_device_get_info(&info, device));
    assert_string_equal(info.driver, "host");
    assert_int_equal(info.kind, PH_DEVICE_HOST);
    assert_int_equal(info.ordinal, 0);
    assert_true(strlen(info.description) > 3);
    assert_int_equal(info.memory_total, 64u << 20);
    assert_int_equal(info.memory_free, info.memory_total);
    assert_int_equal(info.threads, 2);
    assert_int_equal(info.stream_priority_lowest, 0);
    assert_true(info.stream_priority_highest < 0);
    assert_int_equal(info.multiprocessors, 2);
    assert_int_equal(info.compute_capability, 0);
    assert_true(info.shared_bytes_per_block_max >= 48 << 10);
    for (size_t i = 0; i < sizeof info.reserved / sizeof info.reserved[0]; i++)
        assert_int_equal(info.reserved[i], 0);
    ph_stream_options options = {.priority = -1000};
    assert_ok(ph_stream_create(&stream, device, &options));
    assert_int_equal(ph_stream_priority(stream), info.stream_priority_highest);
    assert_ptr_equal(ph_stream_device(stream), device);
    assert_ok(ph_malloc(&block, 1, 30u << 20, stream));
    assert_ok(ph_device_get_info(&info, device));
    assert_true(info.memory_free <= info.memory_total - (30u << 20));
    ph_free(block, NULL);
    assert_ok(ph_memory_trim(device));
    assert_ok(ph_device_get_info(&info, device));
    assert_int_equal(info.memory_free, info.memory_total);
    ph_stream_destroy(stream);
    ph_device_release(device);
}

TEST(a_name_without_settings_has_sensible_defaults)
{
    ph_device_info info;
    info_of(&info, "host", NULL);
    assert_true(info.threads >= 1);
    assert_true(info.memory_total >= 64u << 20);
    info_of(&info, "auto:threads=2", NULL);
    assert_true(info.name[0] != '\0');
}

/* What there is instead is said. */
TEST(numbers_that_there_are_not)
{
    ph_device *device;
    assert_error(ph_device_open(&device, "host:1", NULL), PH_ERROR_NOT_FOUND,
                 "there is no device host:1: the only one is \"host\"");
    assert_null(device);
    assert_error(ph_device_open(&device, "host:7:threads=2", NULL), PH_ERROR_NOT_FOUND,
                 "there is no device host:7: the only one is \"host\"");
    assert_error(ph_device_open(&device, "auto:1000", NULL), PH_ERROR_NOT_FOUND,
                 "no driver has a device 1000");
    if (!t_on_host())
        assert_error(ph_device_open(&device, "cuda:1000", NULL), PH_ERROR_NOT_FOUND,
                     "there is no device cuda:1000: ");
}

/* Each open makes a device of its own: neither memory nor streams nor kernels are shared. */
TEST(each_open_is_a_device)
{
    t_world one, two;
    ph_allocation where;
    int32_t *block;
    t_open(&one, NULL);
    t_open(&two, NULL);
    assert_ptr_not_equal(one.device, two.device);
    assert_ok(PH_NEW(&block, 100, one.stream));
    assert_ok(ph_memory_lookup(&where, one.device, block));
    memset(&where, 0xFF, sizeof where);
    assert_error(ph_memory_lookup(&where, two.device, block), PH_ERROR_NOT_FOUND,
                 "ph_memory_lookup");
    assert_null(where.base);
    assert_status(t_fill(&two, one.stream, block, 100, 1), PH_ERROR_WRONG_DEVICE);
    ph_free(block, NULL);
    t_close(&one);
    t_close(&two);
}

TEST(each_driver_has_devices_or_a_reason)
{
    ph_driver_info info;
    size_t count = 0;
    bool host = false;
    while (ph_driver_get_info(&info, count) == PH_OK) {
        count++;
        assert_true(info.name[0] != '\0');
        if (strcmp(info.name, "host") == 0) {
            host = true;
            assert_string_equal(info.reason, "");
            assert_int_equal(info.device_count, 1);
            assert_true(info.version[0] != '\0');
        } else {
            assert_true((info.reason[0] == '\0') == (info.device_count > 0));
        }
    }
    assert_true(host);
    assert_int_equal(ph_error_last()->status, PH_ERROR_NOT_FOUND);
    memset(&info, 0xFF, sizeof info);
    assert_error(ph_driver_get_info(&info, count), PH_ERROR_NOT_FOUND, "ph_driver_get_info");
    assert_int_equal(info.name[0], 0);
    if (count == 1)
        assert_non_null(strstr(ph_error_last()->message, "and there is 1 driver"));
    assert_error(ph_driver_get_info(&info, SIZE_MAX), PH_ERROR_NOT_FOUND, "ph_driver_get_info");
}

/* The device lives as long as anything on it. */
TEST(things_keep_their_device)
{
    t_world world;
    int32_t *block;
    t_open(&world, NULL);
    assert_ptr_equal(ph_device_retain(world.device), world.device);
    ph_device_release(world.device);
    ph_device_release(world.device); /* the opener's */
    assert_ok(PH_NEW(&block, 100, world.stream));
    assert_ok(t_fill(&world, world.stream, block, 100, 8));
    t_all(block, 100, 8, world.stream);
    ph_free(block, NULL);
    world.device = NULL;
    t_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_name_opens_the_same_device_again),
        cmocka_unit_test(the_longest_name),
        cmocka_unit_test(the_name_wins_over_the_option),
        cmocka_unit_test(what_a_device_says),
        cmocka_unit_test(a_name_without_settings_has_sensible_defaults),
        cmocka_unit_test(numbers_that_there_are_not),
        cmocka_unit_test(each_open_is_a_device),
        cmocka_unit_test(each_driver_has_devices_or_a_reason),
        cmocka_unit_test(things_keep_their_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
