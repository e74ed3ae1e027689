/* SPDX-License-Identifier: MIT */
/* tests/device/driver_tables.c: the table that a device gets as it is opened, and its exchange for
 * one that counts calls and lets one fail, beside other threads. */
#include "device/handles/device.h"
#include "device/handles/drivers.h"
#include "support/fault.h"
#include "support/support.h"
#include "support/test.h"
#include <sched.h>
#include <stdio.h>

enum {
    THREADS = 2,
    MOST_ROUNDS = 2000 /* of a thread, until it has met both tables */
};

static bool has_own_table(const ph_device *device)
{
    for (size_t i = 0; ph__drivers[i]; i++)
        if (device->driver == ph__drivers[i])
            return true;
    return false;
}

static int64_t calls_of_synchronize(ph_device *device)
{
    int64_t before = ph__driver_calls();
    assert_ok(ph_device_synchronize(device));
    return ph__driver_calls() - before;
}

FIXTURE(exchange_back)
{
    ph__driver_fail_after(-1, 0);
    ph__driver_tables_exchange(true);
    return 0;
}

TEST(devices_keep_the_table_that_they_were_opened_with)
{
    ph_device *own, *faulty;
    ph__driver_tables_exchange(false);
    assert_ok(ph_device_open(&own, t_device_name(), NULL));
    ph__driver_tables_exchange(true);
    assert_ok(ph_device_open(&faulty, t_device_name(), NULL));
    assert_true(has_own_table(own));
    assert_false(has_own_table(faulty));
    assert_int_equal(calls_of_synchronize(own), 0);
    assert_true(calls_of_synchronize(faulty) > 0);
    ph__driver_fail_after(0, PH__R_LAUNCH_FAILED);
    assert_ok(ph_device_synchronize(own));
    assert_error(ph_device_synchronize(faulty), PH_ERROR_DEVICE, "719");
    assert_ok(ph_device_synchronize(faulty));
    ph_device_release(faulty);
    ph_device_release(own);
}

/* The words of a failure are read right behind it; those that nobody read must not stand behind a
 * later one. */
static void expect_no_reason_after_a_call(const ph_device *device)
{
    ph__driver_set_reason("of an earlier failure");
    assert_int_equal(device->driver->device_synchronize(device->handle), 0);
    assert_string_equal(ph__driver_reason(), "");
}

TEST(a_call_begins_without_the_reason_of_an_earlier_one)
{
    for (int faulty = 0; faulty < 2; faulty++) {
        ph_device *device;
        ph__driver_tables_exchange(faulty);
        assert_ok(ph_device_open(&device, t_device_name(), NULL));
        assert_int_equal(has_own_table(device), !faulty);
        expect_no_reason_after_a_call(device);
        ph_device_release(device);
    }
}

/* ---- beside threads ---- */
typedef struct job {
    atomic_int *working;
    bool met[2]; /* a device with the driver's own table, and one with the other */
    char failure[1024];
} job;

/* A device opened, used and closed. */
static ph_status use_device(job *j)
{
    ph_device *device;
    ph_stream *stream;
    PH_TRY(ph_device_open(&device, t_device_name(), NULL));
    j->met[!has_own_table(device)] = true;
    ph_status status = ph_stream_create(&stream, device, NULL);
    for (int i = 0; i < 10 && status == PH_OK; i++)
        status = ph_stream_synchronize(stream);
    if (status == PH_OK)
        ph_stream_destroy(stream);
    ph_device_release(device);
    return status;
}

static void *use_devices(void *argument)
{
    job *j = argument;
    ph_status status = PH_OK;
    for (int i = 0; i < MOST_ROUNDS && status == PH_OK && !(j->met[0] && j->met[1]); i++)
        status = use_device(j);
    if (status != PH_OK)
        (void)snprintf(j->failure, sizeof j->failure, "%s", ph_error_last()->message);
    atomic_fetch_sub(j->working, 1);
    return NULL;
}

TEST(tables_are_exchanged_beside_threads)
{
    atomic_int working = THREADS;
    job jobs[THREADS] = {0};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        jobs[i].working = &working;
        assert_true(ph__thread_start(&threads[i], "test", use_devices, &jobs[i]));
    }
    for (bool faulty = false; atomic_load(&working) != 0; faulty = !faulty) {
        ph__driver_tables_exchange(faulty);
        (void)sched_yield();
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_string_equal(jobs[i].failure, "");
        assert_true(jobs[i].met[0] && jobs[i].met[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(devices_keep_the_table_that_they_were_opened_with, exchange_back),
        cmocka_unit_test_teardown(a_call_begins_without_the_reason_of_an_earlier_one,
                                  exchange_back),
        cmocka_unit_test_teardown(tables_are_exchanged_beside_threads, exchange_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
