/* SPDX-License-Identifier: MIT */
/* tests/support/sweep.c: the faults of host allocations and of driver calls, and the sweep over
 * one run. */
#include "support/sweep.h"
#include "base/alloc.h"
#include "driver/driver.h"
#include "support/fault.h"
#include <stdio.h>
#include <string.h>

enum {
    MOST = 20000,      /* faults of one sweep */
    LEAST_MESSAGE = 15 /* bytes */
};

/* ---- faults ---- */
static int64_t before, limit;
static int driver_answer;

/* Failed allocations are not counted, so that a run which made fewer than n never came to the
 * fault. */
static void arm_host_memory(int64_t n)
{
    before = ph__alloc_count();
    limit = n;
    ph__alloc_fail_after(n);
}

static bool disarm_host_memory(void)
{
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    return ph__alloc_count() - before >= limit;
}

static bool expects_host_memory(ph_status status)
{
    return status == PH_ERROR_HOST_MEMORY;
}

const t_fault t_host_memory_fault = {"host allocation", NULL, arm_host_memory, disarm_host_memory,
                                     expects_host_memory};

static void arm_driver(int64_t n)
{
    before = ph__driver_calls();
    limit = n;
    ph__driver_fail_after(n, driver_answer);
}

static bool disarm_driver(void)
{
    ph__driver_fail_after(-1, 0);
    return ph__driver_calls() - before > limit;
}

static bool expects_driver(ph_status status)
{
    switch (driver_answer) {
    case PH__R_OUT_OF_MEMORY:
        return status == PH_ERROR_HOST_MEMORY || status == PH_ERROR_DEVICE_MEMORY;
    case PH__R_CAPTURE_UNSUPPORTED:
        return status == PH_ERROR_CAPTURE;
    default:
        return status == PH_ERROR_DEVICE;
    }
}

const t_fault *t_driver_fault(int answer)
{
    static const t_fault fault = {"driver call", NULL, arm_driver, disarm_driver, expects_driver};
    driver_answer = answer;
    return &fault;
}

/* ---- the sweep ---- */
static char place[64];

const char *t_sweep_place(void)
{
    return place;
}

static void check_failure(const t_swept *swept, const t_fault *fault, ph_status status, bool hit)
{
    const ph_error *error = ph_error_last();
    if (!hit)
        fail_msg("%s: failed though no %s had failed: %s: %s", swept->name, fault->what,
                 ph_status_name(status), error->message);
    if (!fault->expects(status))
        fail_msg("%s: failing %s gave %s: %s", swept->name, place, ph_status_name(status),
                 error->message);
    if (error->status != status)
        fail_msg("%s: failing %s gave %s, but the record says %s: %s", swept->name, place,
                 ph_status_name(status), ph_status_name(error->status), error->message);
    if (strlen(error->message) < LEAST_MESSAGE)
        fail_msg("%s: failing %s: the message says nothing: \"%s\"", swept->name, place,
                 error->message);
}

/* With the fault at n. Whether it was reached. */
static bool run_with_fault(const t_swept *swept, const t_fault *fault, int64_t n, t_faults *faults)
{
    fault->arm(n);
    ph_status status = swept->run(swept->user);
    bool hit = fault->disarm();
    faults->reached += hit;
    faults->failures += status != PH_OK;
    if (status != PH_OK)
        check_failure(swept, fault, status, hit);
    swept->reset(hit && status == PH_OK && swept->may_do_less ? PH_ERROR_CALLER : status,
                 swept->user);
    return hit;
}

static void run_again(const t_swept *swept)
{
    ph_status status = swept->run(swept->user);
    if (status != PH_OK)
        fail_msg("%s: does not work any more after %s failed: %s: %s", swept->name, place,
                 ph_status_name(status), ph_error_last()->message);
    swept->reset(PH_OK, swept->user);
}

t_faults t_sweep(const t_swept *swept, const t_fault *fault)
{
    t_faults faults = {0};
    bool hit = true;
    t_hold_context();
    t_log_start();
    for (int64_t n = 0; hit; n++) {
        int64_t live = ph__alloc_live();
        if (n == MOST)
            fail_msg("%s: no end of %ss", swept->name, fault->what);
        (void)snprintf(place, sizeof place, "%s %lld", fault->what, (long long)n);
        if (swept->open)
            assert_int_equal(swept->open(NULL), 0);
        hit = run_with_fault(swept, fault, n, &faults);
        run_again(swept);
        if (!swept->close)
            continue;
        assert_int_equal(swept->close(NULL), 0);
        if (ph__alloc_live() != live)
            fail_msg("%s: %lld allocations leaked after %s failed", swept->name,
                     (long long)(ph__alloc_live() - live), place);
    }
    t_log_stop();
    return faults;
}

void t_sweep_host_memory(const t_swept *swept, int64_t least)
{
    assert_true(t_sweep(swept, &t_host_memory_fault).failures > least);
}

void t_sweep_driver(const t_swept *swept)
{
    t_faults faults = t_sweep(swept, t_driver_fault(PH__R_LAUNCH_FAILED));
    assert_true(faults.failures > faults.reached / 2);
}

void t_test_without_host_memory(void **swept)
{
    t_sweep_host_memory(*swept, 10);
}

void t_test_when_the_driver_fails(void **swept)
{
    t_sweep_driver(*swept);
}
