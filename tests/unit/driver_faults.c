/* SPDX-License-Identifier: MIT */
/* tests/unit/driver_faults.c: numbers as words and statuses, and making the n-th driver call
 * fail. */
#include "base/status.h"
#include "device/handles/drivers.h"
#include "driver/driver.h"
#include "support/fault.h"
#include "support/host_driver.h"
#include "support/test.h"

/* ---- words ---- */

TEST(numbers_have_names_and_meanings)
{
    static const struct {
        int number;
        const char *name;
    } known[] = {
        {0, "CUDA_SUCCESS"},
        {1, "CUDA_ERROR_INVALID_VALUE"},
        {2, "CUDA_ERROR_OUT_OF_MEMORY"},
        {401, "CUDA_ERROR_ILLEGAL_STATE"},
        {600, "CUDA_ERROR_NOT_READY"},
        {801, "CUDA_ERROR_NOT_SUPPORTED"},
        {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
        {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
        {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE"},
        {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"},
        {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
        {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
        {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
        {907, "CUDA_ERROR_CAPTURED_EVENT"},
        {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"},
        {910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"},
        {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {716, "CUDA_ERROR_MISALIGNED_ADDRESS"},
        {719, "CUDA_ERROR_LAUNCH_FAILED"},
        {9, "cudaErrorInvalidConfiguration"}, /* of the runtime API alone */
        {35, "cudaErrorInsufficientDriver"},
        {98, "cudaErrorInvalidDeviceFunction"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_string_equal(ph__result_name(known[i].number), known[i].name);
        assert_true(strlen(ph__result_text(known[i].number)) > 0);
    }
    assert_string_equal(ph__result_name(12345), "unknown number");
    assert_true(strlen(ph__result_text(-7)) > 0);
}

TEST(numbers_become_statuses)
{
    assert_int_equal(ph__status_of_result(0), PH_OK);
    assert_int_equal(ph__status_of_result(1), PH_ERROR_ARGUMENT);
    assert_int_equal(ph__status_of_result(2), PH_ERROR_DEVICE_MEMORY);
    assert_int_equal(ph__status_of_result(100), PH_ERROR_NOT_FOUND);
    assert_int_equal(ph__status_of_result(101), PH_ERROR_NOT_FOUND);
    assert_int_equal(ph__status_of_result(401), PH_ERROR_STATE);
    assert_int_equal(ph__status_of_result(801), PH_ERROR_UNSUPPORTED);
    for (int number = 900; number <= 908; number++)
        assert_int_equal(ph__status_of_result(number), PH_ERROR_CAPTURE);
    assert_int_equal(ph__status_of_result(910), PH_ERROR_MISMATCH);
    static const int others[] = {400, 500, 600, 700, 719, 899, 909, 911, 12345, -1};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(ph__status_of_result(others[i]), PH_ERROR_DEVICE);
}

TEST(a_failure_says_what_was_called_and_why)
{
    ph__driver_clear_reason();
    assert_int_equal(ph__driver_fail(906, "cuMemsetD8Async", "fill of %d bytes", 12),
                     PH_ERROR_CAPTURE);
    const ph_error *error = ph_error_last();
    assert_int_equal(error->status, PH_ERROR_CAPTURE);
    assert_int_equal(error->native_code, 906);
    assert_string_equal(error->native_call, "cuMemsetD8Async");
    assert_ptr_equal(strstr(error->message, "fill of 12 bytes: cuMemsetD8Async gave 906 "
                                            "(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: "),
                     error->message);
    assert_int_equal(error->message[strlen(error->message) - 1], ')');
    ph__driver_set_reason("%s of %d", "the third", 5);
    assert_int_equal(ph__driver_fail(1, "cuLaunchKernel", "launch"), PH_ERROR_ARGUMENT);
    assert_string_equal(ph_error_last()->message,
                        "launch: cuLaunchKernel gave 1 (CUDA_ERROR_INVALID_VALUE: invalid "
                        "argument): the third of 5");
    assert_string_equal(ph__driver_reason(), ""); /* used up */
    assert_int_equal(ph__driver_fail(2, "cuMemCreate", "segment"), PH_ERROR_DEVICE_MEMORY);
    assert_int_equal(ph__driver_fail(2, "cuEventCreate", "event"), PH_ERROR_HOST_MEMORY);
    assert_int_equal(ph__driver_fail(0, "cuLaunchKernel", "launch"), PH_OK);
    assert_int_equal(ph_error_last()->native_code, 2);
}

/* After these the device is lost, and the message says so; the others of that range are
 * harmless. */
TEST(some_failures_are_for_good)
{
    static const int sticky[] = {214, 220, 226, 700, 702, 710, 714,
                                 715, 716, 717, 718, 719, 721, 911};
    static const int passing[] = {0,   1,   2,   201, 400, 600, 701, 703, 704,
                                  709, 712, 713, 720, 801, 900, 910, 999, -1};
    for (size_t i = 0; i < sizeof sticky / sizeof *sticky; i++) {
        assert_true(ph__result_is_sticky(sticky[i]));
        assert_string_not_equal(ph__result_name(sticky[i]), ph__result_name(12345));
        assert_int_equal(ph__driver_fail(sticky[i], "cuStreamSynchronize", "wait"),
                         PH_ERROR_DEVICE);
        assert_non_null(strstr(ph_error_last()->message,
                               "); the device is lost: destroying works, every other call "
                               "fails until the process ends"));
    }
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++) {
        assert_false(ph__result_is_sticky(passing[i]));
        (void)ph__driver_fail(passing[i], "cuStreamSynchronize", "wait");
        if (passing[i] != 0)
            assert_null(strstr(ph_error_last()->message, "lost"));
    }
}

static void *other_thread(void *argument)
{
    (void)argument;
    assert_string_equal(ph__driver_reason(), "");
    ph__driver_set_reason("theirs");
    return NULL;
}

TEST(reasons_are_of_the_thread)
{
    ph__driver_set_reason("ours");
    on_another_thread(other_thread, NULL);
    assert_string_equal(ph__driver_reason(), "ours");
    ph__driver_clear_reason();
    assert_string_equal(ph__driver_reason(), "");
}

/* A call is often made between two exchanges of the thread's mode: its words are read after the
 * second. */
TEST(exchanging_the_mode_keeps_the_reason)
{
    const ph__driver *wrapped = ph__driver_faulty(&ph__driver_host);
    ph_capture_mode mode = PH_CAPTURE_RELAXED;
    ph__driver_set_reason("of the call before");
    assert_int_equal(wrapped->thread_exchange_mode(NULL, &mode), 0);
    assert_int_equal(wrapped->thread_exchange_mode(NULL, &mode), 0);
    assert_string_equal(ph__driver_reason(), "of the call before");
    ph__driver_clear_reason();
}

TEST(drivers_are_listed)
{
    bool host = false;
    size_t count = 0;
    for (; ph__drivers[count]; count++)
        host |= ph__drivers[count] == &ph__driver_host;
    assert_true(host);
}

/* ---- faults ---- */

/* Calls every fallible entry with nothing: none of them may reach the driver, but for those that
 * free. */
static int64_t call_all(const ph__driver *d, ph__drv_device *freeing, int (*check)(int result))
{
    int64_t n = 0;
#define CALL(expression) (assert_int_equal(check(d->expression), 0), n++)
    CALL(device_open(NULL, 0, NULL));
    CALL(device_info(NULL, NULL));
    CALL(device_synchronize(NULL));
    CALL(context_push(NULL));
    CALL(stream_create(NULL, NULL, 0, 0));
    CALL(stream_synchronize(NULL));
    CALL(stream_wait(NULL));
    CALL(stream_query(NULL));
    CALL(stream_wait_event(NULL, NULL, 0));
    CALL(stream_wrap(NULL, NULL, NULL, NULL, NULL));
    CALL(stream_ordinal(NULL, NULL));
    CALL(event_create(NULL, NULL, 0));
    CALL(event_record(NULL, NULL, 0));
    CALL(event_query(NULL));
    CALL(event_synchronize(NULL));
    CALL(event_elapsed(NULL, NULL, NULL));
    CALL(segment_create(NULL, NULL, 0));
    CALL(plain_alloc(NULL, NULL, 0));
    CALL(plain_free(freeing, NULL));
    CALL(pinned_alloc(NULL, NULL, 0));
    CALL(pinned_free(freeing, NULL));
    CALL(pointer_info(NULL, NULL, NULL));
    CALL(pointer_mapped(NULL, NULL, NULL, NULL));
    CALL(kernel_create(NULL, NULL, NULL));
    CALL(kernel_wrap(NULL, NULL, NULL, NULL, NULL));
    CALL(kernel_cells(NULL, NULL, 0));
    CALL(kernel_probe(NULL, NULL, PH__PROBE_BREADCRUMB));
    CALL(launch(NULL, NULL, NULL));
    CALL(copy(NULL, NULL, NULL));
    CALL(fill(NULL, NULL));
    CALL(host(NULL, NULL));
    CALL(copy_sync(NULL, NULL));
    CALL(child(NULL, NULL));
    CALL(capture_root(NULL, NULL, NULL, NULL));
    CALL(capture_depend(NULL, NULL));
    CALL(capture_begin(NULL, PH_CAPTURE_GLOBAL));
    CALL(capture_end(NULL, NULL));
    CALL(capture_get(NULL, NULL));
    CALL(capture_id(NULL, NULL));
    CALL(capture_position(NULL, NULL));
    CALL(graph_import(NULL, NULL, NULL));
    CALL(graph_nodes(NULL, NULL, NULL));
    CALL(graph_count(NULL, NULL));
    CALL(graph_next_copy(NULL, NULL, NULL));
    CALL(node_info(NULL, NULL));
    CALL(node_kind(NULL, NULL));
    CALL(graph_lower(NULL));
    CALL(graph_reread(NULL, NULL));
    CALL(instantiate(NULL, NULL, 0, NULL));
    CALL(exec_upload(NULL, 0, NULL));
    CALL(exec_launch(NULL, NULL));
    CALL(exec_relaunch(NULL, NULL, false, NULL));
    CALL(exec_view(NULL, NULL, NULL));
    CALL(exec_update(NULL, NULL, NULL));
    CALL(exec_set_kernel(NULL, NULL, NULL));
    CALL(exec_set_args(NULL, NULL, NULL, 0));
    CALL(exec_set_copy(NULL, NULL, NULL));
    CALL(exec_set_fill(NULL, NULL, NULL));
    CALL(exec_set_host(NULL, NULL, NULL));
    CALL(exec_set_enabled(NULL, NULL, false));
    CALL(exec_get_enabled(NULL, NULL, NULL));
    CALL(profile_open(NULL, NULL, NULL));
    CALL(profile_read(NULL, NULL, NULL));
#undef CALL
    return n;
}

static int is_armed_failure(int result)
{
    ph__driver_fail_after(0, 719); /* the next one too */
    return result != 719;
}

/* A table has a name, functions that cannot fail, and functions that can: those are all of the
 * rest. */
TEST(every_fallible_entry_is_wrapped)
{
    const ph__driver *wrapped = ph__driver_faulty(&ph__driver_host);
    assert_ptr_not_equal(wrapped, &ph__driver_host);
    assert_ptr_equal(ph__driver_faulty(&ph__driver_host), wrapped);
    assert_string_equal(wrapped->name, "host");
    void *const *ours = (void *const *)(const void *)wrapped,
                *const *theirs = (void *const *)(const void *)&ph__driver_host;
    int64_t replaced = 0;
    for (size_t i = 0; i < sizeof *wrapped / sizeof *ours; i++)
        replaced += ours[i] != theirs[i];
    ph__drv_device *device = NULL;
    assert_int_equal(ph__driver_host.device_open(&device, 0, NULL), 0);
    ph__driver_fail_after(0, 719);
    int64_t before = ph__driver_calls();
    int64_t called = call_all(wrapped, device, is_armed_failure);
    ph__driver_fail_after(-1, 0);
    ph__driver_host.device_close(device);
    assert_int_equal(called, replaced);
    assert_int_equal(ph__driver_calls() - before, called);
    /* name, describe, stream_default, device_wait_streams, thread_exchange_mode, context_pop; what
     * destroys; four native handles, kernel_keep, graph_disown, graph_hand_over, two accounts of
     * bytes, the tools' ids, what a position means, known launches and whether there are any, whose
     * nodes a graph has, uploads, the watch */
    assert_int_equal((int64_t)(sizeof *wrapped / sizeof *ours) - replaced, 6 + 9 + 16);
}

TEST(the_nth_call_fails_once)
{
    const ph__driver *d = ph__driver_faulty(&ph__driver_host);
    ph__drv_device *device = NULL;
    ph__drv_stream *stream = NULL;
    assert_int_equal(d->device_open(&device, 0, NULL), 0);
    int64_t before = ph__driver_calls();
    ph__driver_fail_after(2, 2);
    ph__driver_set_reason("of an earlier failure");
    assert_int_equal(d->stream_create(&stream, device, 0, 0), 0);
    assert_string_equal(ph__driver_reason(), "");
    /* not counted */
    assert_ptr_equal(d->stream_default(device), ph__driver_host.stream_default(device));
    assert_int_equal(d->stream_query(stream), 0);
    d->stream_destroy(stream); /* not counted */
    stream = NULL;
    assert_int_equal(d->stream_create(&stream, device, 0, 0), 2);
    assert_null(stream);
    assert_int_equal(d->device_synchronize(device), 0);
    assert_int_equal(ph__driver_calls() - before, 4);
    ph__driver_fail_after(0, 719);
    ph__driver_fail_after(-1, 719);
    assert_int_equal(d->device_synchronize(device), 0);
    d->device_close(device);
    assert_int_equal(ph__driver_calls() - before, 5);
}

static int fake_synchronize(ph__drv_device *device)
{
    (void)device;
    return 4711;
}

TEST(tables_of_several_drivers_stay_apart)
{
    static ph__driver fake;
    fake = ph__driver_host;
    fake.name = "fake";
    fake.device_synchronize = fake_synchronize;
    const ph__driver *d = ph__driver_faulty(&fake), *host = ph__driver_faulty(&ph__driver_host);
    assert_string_equal(d->name, "fake");
    assert_int_equal(d->device_synchronize(NULL), 4711);
    ph__drv_device *device = NULL;
    assert_int_equal(host->device_open(&device, 0, NULL), 0);
    assert_int_equal(host->device_synchronize(device), 0);
    ph__driver_fail_after(1, 1);
    assert_int_equal(d->device_synchronize(NULL), 4711);
    assert_int_equal(host->device_synchronize(device), 1);
    host->device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_names_and_meanings),
        cmocka_unit_test(numbers_become_statuses),
        cmocka_unit_test(a_failure_says_what_was_called_and_why),
        cmocka_unit_test(some_failures_are_for_good),
        cmocka_unit_test(reasons_are_of_the_thread),
        cmocka_unit_test(exchanging_the_mode_keeps_the_reason),
        cmocka_unit_test(drivers_are_listed),
        cmocka_unit_test(every_fallible_entry_is_wrapped),
        cmocka_unit_test(the_nth_call_fails_once),
        cmocka_unit_test(tables_of_several_drivers_stay_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
