/* SPDX-License-Identifier: MIT */
/* tests/cuda/loading.c: what the driver says of a machine where CUDA cannot be used, and where
 * it just can: a child process finds the library that the environment describes. */
#include "fake.h"
#include "support/command.h"
#include "support/test.h"
#include <sys/wait.h>
#include <unistd.h>

#define INFO T_PROGRAM("phonograph"), "info"

static void expect(const char *setting, int status, const char *words)
{
    t_expect(&(t_command){.argv = {"/usr/bin/env", setting, INFO}}, status, words, NULL);
}

/* ---- no library ---- */
TEST(there_is_no_library)
{
    NEED_FAKE();
    if (access("/dev/nvidiactl", F_OK) == 0) {
        print_message("skipped: this machine has a real driver, which would be found\n");
        skip();
    }
    expect("LD_LIBRARY_PATH=", 0,
           "cuda   cannot be used: NVIDIA's driver library cannot be loaded (libcuda.so.1");
    t_expect(&(t_command){.argv = {"/usr/bin/env", "LD_LIBRARY_PATH=", INFO, "--device", "cuda"}},
             1, "the cuda driver cannot be used: NVIDIA's driver library cannot be loaded", NULL);
    t_expect(&(t_command){.argv = {"/usr/bin/env", "LD_LIBRARY_PATH=", INFO, "--device", "auto"}},
             0, "opens as     host", NULL);
}

/* ---- symbols ---- */
TEST(a_required_symbol_is_missing)
{
    NEED_FAKE();
    expect("FAKE_CUDA_MISSING=cuGraphUpload", 0,
           "the NVIDIA driver (CUDA 13.0) has no cuGraphUpload: version 12.4 "
           "or newer is needed; this one should have it");
    expect("FAKE_CUDA_MISSING=cuInit", 0, "the NVIDIA driver (CUDA 13.0) has no cuInit");
}

/* Each by itself: none may be called without its test. */
TEST(every_required_symbol_is_asked_for)
{
    NEED_FAKE();
    static const char *const names[] = {
#define REQUIRED(name) "FAKE_CUDA_MISSING=cu" #name,
#define OPTIONAL(name)
#define PH__CU(name, version, need, parameters) need(name)
#include "driver/cuda/load/symbols.def"
#undef PH__CU
#undef REQUIRED
#undef OPTIONAL
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i += t_nightly() ? 1 : 8) {
        char words[128];
        (void)snprintf(words, sizeof words, "has no %s:", strchr(names[i], '=') + 1);
        expect(names[i], 0, words);
    }
}

TEST(an_optional_symbol_is_missing)
{
    NEED_FAKE();
    expect("FAKE_CUDA_MISSING=cuLogsRegisterCallback,cuLogsUnregisterCallback", 0,
           "cuda   2 devices, CUDA 13.0");
}

/* ---- versions ---- */
TEST(an_old_driver_is_refused_with_its_version)
{
    NEED_FAKE();
    expect("FAKE_CUDA_VERSION=12030", 0, "the NVIDIA driver (CUDA 12.3) has no cuFunc");
    expect("FAKE_CUDA_VERSION=12030", 0, ": version 12.4 or newer is needed\n");
    expect("FAKE_CUDA_VERSION=11040", 0, "the NVIDIA driver (CUDA 11.4) has no cu");
    expect("FAKE_CUDA_VERSION=12040", 0, "cuda   2 devices, CUDA 12.4");
}

/* What graphs do there: cuda.version_*. */
TEST(each_version_from_12_4_on_is_loaded)
{
    static const char *const versions[][2] = {
        {"FAKE_CUDA_VERSION=12050", "CUDA 12.5"}, {"FAKE_CUDA_VERSION=12060", "CUDA 12.6"},
        {"FAKE_CUDA_VERSION=12080", "CUDA 12.8"}, {"FAKE_CUDA_VERSION=12090", "CUDA 12.9"},
        {"FAKE_CUDA_VERSION=13010", "CUDA 13.1"}, {"FAKE_CUDA_VERSION=13020", "CUDA 13.2"}};
    NEED_FAKE();
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        char want[40];
        (void)snprintf(want, sizeof want, "cuda   2 devices, %s", versions[i][1]);
        expect(versions[i][0], 0, want);
    }
}

/* ---- initialising ---- */
TEST(a_driver_that_cannot_start_says_why)
{
    NEED_FAKE();
    expect("FAKE_CUDA_INIT=999", 0,
           "cuInit of the NVIDIA driver (CUDA 13.0) gave 999 (CUDA_ERROR_UNKNOWN");
    expect("FAKE_CUDA_INIT=3", 0, "gave 3 (CUDA_ERROR_NOT_INITIALIZED");
    expect("FAKE_CUDA_DEVICES=0", 0,
           "gave 100 (CUDA_ERROR_NO_DEVICE: there is no such device): there is no GPU");
    expect("FAKE_CUDA_DEVICES=1", 0, "cuda   1 device, CUDA 13.0");
    t_expect(
        &(t_command){.argv = {"/usr/bin/env", "FAKE_CUDA_DEVICES=1", INFO, "--device", "cuda:1"}},
        1, "there is no device cuda:1: the only one is \"cuda\"", NULL);
    t_expect(
        &(t_command){.argv = {"/usr/bin/env", "FAKE_CUDA_DEVICES=2", INFO, "--device", "cuda:2"}},
        1, "there is no device cuda:2: there are \"cuda:0\" to \"cuda:1\"", NULL);
}

/* ---- in this process ---- */
TEST(an_open_that_fails_leaves_nothing)
{
    NEED_FAKE();
    static const char *const calls[] = {"cuDeviceGet",
                                        "cuDeviceGetName",
                                        "cuDeviceGetAttribute",
                                        "cuMemGetAllocationGranularity",
                                        "cuDevicePrimaryCtxRetain",
                                        "cuStreamCreateWithPriority",
                                        "cuMemGetInfo",
                                        "cuCtxGetStreamPriorityRange",
                                        "cuCtxPushCurrent"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int64_t live = ph__alloc_live();
        ph_device *device = (void *)&live;
        fake_cuda()->fail_call(calls[i], 999, 1);
        assert_error(ph_device_open(&device, "cuda", NULL), PH_ERROR_DEVICE, "999");
        fake_cuda()->fail_call(calls[i], 0, 0);
        assert_null(device);
        assert_int_equal(ph__alloc_live(), live);
        assert_string_equal(left_behind(), "");
        assert_ok(ph_device_open(&device, "cuda", NULL));
        ph_device_release(device);
    }
}

TEST(each_gpu_has_its_name_and_properties)
{
    NEED_FAKE();
    ph_device *devices[2];
    ph_device_info info;
    ph_driver_info driver = {0};
    for (size_t i = 0; strcmp(driver.name, "cuda") != 0; i++)
        assert_ok(ph_driver_get_info(&driver, i));
    assert_int_equal(driver.device_count, 2);
    assert_string_equal(driver.reason, "");
    assert_ok(ph_device_open(&devices[0], "cuda", NULL));
    assert_ok(ph_device_open(&devices[1], "cuda:1", NULL));
    assert_ok(ph_device_get_info(&info, devices[1]));
    assert_string_equal(info.name, "cuda:1");
    assert_string_equal(info.driver, "cuda");
    assert_int_equal(info.kind, PH_DEVICE_CUDA);
    assert_int_equal(info.ordinal, 1);
    assert_non_null(strstr(info.description, "Fake GPU, compute capability 9.0"));
    assert_int_equal(info.memory_total, 1u << 30);
    assert_int_equal(info.threads, 0);
    assert_int_equal(info.stream_priority_highest, -5);
    ph_device_release(devices[0]);
    ph_device_release(devices[1]);
    assert_error(ph_device_open(&devices[0], "cuda:2", NULL), PH_ERROR_NOT_FOUND,
                 "there are \"cuda:0\" to \"cuda:1\"");
}

/* A child of fork() finds the library initialised, and may not use it. */
TEST(a_forked_child)
{
    NEED_FAKE();
    ph_device *device;
    int status;
    assert_ok(ph_device_open(&device, "cuda", NULL));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ph_device *other = NULL;
        bool refused = ph_device_open(&other, "cuda", NULL) == PH_ERROR_NOT_FOUND && !other &&
                       strstr(ph_error_last()->message, "fork");
        bool host = ph_device_open(&other, "auto", NULL) == PH_OK;
        _exit(refused && host ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    ph_device_release(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_is_no_library),
        cmocka_unit_test(a_required_symbol_is_missing),
        cmocka_unit_test(every_required_symbol_is_asked_for),
        cmocka_unit_test(an_optional_symbol_is_missing),
        cmocka_unit_test(an_old_driver_is_refused_with_its_version),
        cmocka_unit_test(each_version_from_12_4_on_is_loaded),
        cmocka_unit_test(a_driver_that_cannot_start_says_why),
        cmocka_unit_test(an_open_that_fails_leaves_nothing),
        cmocka_unit_test(each_gpu_has_its_name_and_properties),
        cmocka_unit_test(a_forked_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
