/* SPDX-License-Identifier: MIT */
/* tests/rules/driver.c: the driver column of the capture rules, row by row: every call, by both
 * threads, in every mode, on the driver that PH_TEST_DEVICE names. All differences are listed. */
#include "rules/driver_calls.h"
#include "support/test.h"
#include <stdio.h>

/* ---- scenes ---- */

static world shared; /* of all scenes: opening a device takes long on some */
static int differences;

FIXTURE(open_shared)
{
    drv = driver_under_test();
    return drv ? world_open(&shared) : -1;
}

FIXTURE(close_shared)
{
    return shared.device ? world_close(&shared) : 0;
}

static ph__drv_graph *capture_one_kernel(scene *s, int32_t value)
{
    ph__drv_graph *graph = NULL;
    assert_int_equal(drv->capture_begin(s->other, PH_CAPTURE_RELAXED), 0);
    assert_int_equal(launch_add(&s->w, s->other, 0, 1, value), 0);
    assert_int_equal(drv->capture_end(&graph, s->other), 0);
    return graph;
}

static void set_up(scene *s, bool blocking)
{
    s->w = shared;
    ph__drv_device *device = s->w.device;
    const int flags = blocking ? PH__STREAM_BLOCKING : PH__STREAM_NON_BLOCKING;
    assert_int_equal(drv->stream_create(&s->stream, device, flags, 0), 0);
    s->other = s->w.a;
    s->legacy = drv->stream_default(device);
    assert_int_equal(drv->stream_create(&s->spare, device, PH__STREAM_NON_BLOCKING, 0), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(drv->event_create(&s->outside[i], device, PH__EVENT_TIMING), 0);
        assert_int_equal(drv->event_record(s->outside[i], s->other, 0), 0);
    }
    assert_int_equal(drv->stream_synchronize(s->other), 0);
    assert_int_equal(drv->event_create(&s->captured, device, PH__EVENT_TIMING), 0);
    assert_int_equal(drv->event_create(&s->fresh, device, PH__EVENT_TIMING), 0);
    assert_int_equal(drv->kernel_create(&s->kernel, device, &add_source), 0);
    assert_int_equal(drv->plain_alloc(&s->plain, device, 4096), 0);
    assert_int_equal(drv->pinned_alloc(&s->pinned, device, 4096), 0);
    assert_int_equal(drv->segment_create(&s->segment, device, SEGMENT), 0);
    s->template = capture_one_kernel(s, 1);
    s->variant = capture_one_kernel(s, 2);
    assert_int_equal(drv->instantiate(&s->exec, s->template, 0, NULL), 0);
}

/* Also after a difference, which may have left captures open. */
static void tear_down(scene *s)
{
    ph__drv_device *device = s->w.device;
    drv->capture_drop(s->stream);
    drv->capture_drop(s->other);
    assert_int_equal(drv->device_synchronize(device), 0);
    drv->exec_destroy(s->exec);
    drv->graph_destroy(s->ended);
    drv->graph_destroy(s->template);
    drv->graph_destroy(s->variant);
    if (s->segment)
        drv->segment_destroy(device, s->segment, SEGMENT);
    if (s->pinned)
        assert_int_equal(drv->pinned_free(device, s->pinned), 0);
    if (s->plain)
        assert_int_equal(drv->plain_free(device, s->plain), 0);
    drv->kernel_destroy(s->kernel);
    drv->event_destroy(s->fresh);
    drv->event_destroy(s->captured);
    drv->event_destroy(s->outside[0]);
    drv->event_destroy(s->outside[1]);
    drv->stream_destroy(s->spare);
    drv->stream_destroy(s->stream);
}

/* On whatever thread makes the call. */
static void *make_call(void *argument)
{
    scene *s = argument;
    ph_capture_mode mode = s->thread_mode;
    if (drv->thread_exchange_mode(s->w.device, &mode)) {
        s->result = CONFUSED;
        return NULL;
    }
    s->result = calls[s->rule].call(s);
    if (drv->thread_exchange_mode(s->w.device, &mode))
        s->result = CONFUSED;
    return NULL;
}

static const char *const mode_names[] = {"global", "thread_local", "relaxed"};

typedef struct situation {
    bool other; /* thread */
    ph_capture_mode mode;
    int outcome;
} situation;

PH_PRINTF(3, 4)
static void differs(const scene *s, const situation *in, const char *format, ...)
{
    char what[128];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    print_error("%s, %s thread (%s), %s capture: %s\n", ph__rules[s->rule].id,
                in->other ? "other" : "same", mode_names[s->thread_mode], mode_names[in->mode],
                what);
    differences++;
}

/* The capture was not ended by the call. */
static void end_scene(scene *s, const situation *in)
{
    bool killed = in->outcome > 0 && in->outcome < PH__KEEPS;
    int seen = (int)status_of(s->stream),
        expected = killed ? PH_CAPTURE_INVALIDATED : PH_CAPTURE_ACTIVE;
    if (seen != expected)
        differs(s, in, "the capture's status is %d instead of %d", seen, expected);
    int end = drv->capture_end(&s->ended, s->stream);
    if (end != (killed ? PH__R_CAPTURE_INVALIDATED : 0))
        differs(s, in, "the end answers %d", end);
}

/* What became of the capture. */
static void check_end(scene *s, const situation *in)
{
    if (!s->ended && in->outcome < PH__ENDS)
        end_scene(s, in);
    if (s->ended) {
        size_t expected = in->outcome == PH__RECORDED && !calls[s->rule].silent ? 2 : 1;
        size_t seen = node_count(s->ended);
        if (seen != expected)
            differs(s, in, "%zu nodes instead of %zu", seen, expected);
    }
    if (status_of(s->stream) != PH_CAPTURE_NONE)
        differs(s, in, "the stream captures on");
    if (status_of(s->other) != PH_CAPTURE_NONE)
        differs(s, in, "the other stream captures on");
}

static void begin_scene(scene *s, ph_capture_mode mode)
{
    set_up(s, calls[s->rule].blocking);
    assert_int_equal(drv->capture_begin(s->stream, mode), 0);
    assert_int_equal(launch_add(&s->w, s->stream, 0, 1, 1), 0);
    assert_int_equal(drv->event_record(s->captured, s->stream, 0), 0);
}

static void play(ph__rule rule, const situation *in, ph_capture_mode thread_mode)
{
    if (!calls[rule].call)
        return; /* every_row_has_a_call fails for it */
    scene scene_of_row = {.rule = rule, .thread_mode = thread_mode}, *s = &scene_of_row;
    begin_scene(s, in->mode);
    if (in->other)
        on_another_thread(make_call, s);
    else
        make_call(s);
    int expected = in->outcome > 0 ? in->outcome % PH__KEEPS : 0;
    if (s->result != expected)
        differs(s, in, "answers %d instead of %d", s->result, expected);
    check_end(s, in);
    tear_down(s);
}

TEST(every_row_has_a_call)
{
    int missing = 0;
    for (int rule = 0; rule < PH__RULE_COUNT; rule++) {
        if (!calls[rule].call)
            print_error("%s has no call here\n", ph__rules[rule].id);
        missing += !calls[rule].call;
    }
    assert_int_equal(missing, 0);
}

TEST(every_call_does_what_its_row_says)
{
    differences = 0;
    for (int rule = 0; rule < PH__RULE_COUNT; rule++) {
        for (int other = 0; other < 2; other++) {
            for (int mode = 0; mode < 3; mode++) {
                const situation in = {other, (ph_capture_mode)mode,
                                      ph__rules[rule].driver[other][mode]};
                play((ph__rule)rule, &in, PH_CAPTURE_GLOBAL);
            }
        }
    }
    assert_int_equal(differences, 0);
}

/* A thread that is relaxed may make potentially unsafe calls; one that is thread_local is bound
 * by its own captures alone. Nothing else depends on the thread's mode. */
TEST(the_mode_of_the_thread_counts_for_unsafe_calls)
{
    int unsafe_rows = 0;
    differences = 0;
    for (int rule = 0; rule < PH__RULE_COUNT; rule++) {
        const int(*column)[3] = ph__rules[rule].driver;
        bool unsafe = column[0][PH_CAPTURE_GLOBAL] == 900 && column[0][PH_CAPTURE_RELAXED] == 0;
        bool fixed = column[0][PH_CAPTURE_GLOBAL] == 900 && !unsafe;
        if (!unsafe && !fixed)
            continue;
        unsafe_rows += unsafe;
        for (int other = 0; other < 2; other++) {
            for (int mode = 0; mode < 3; mode++) {
                const int outcome = column[other][mode];
                const situation relaxed = {other, (ph_capture_mode)mode, unsafe ? 0 : outcome};
                const situation local = {other, (ph_capture_mode)mode,
                                         unsafe && other ? 0 : outcome};
                play((ph__rule)rule, &relaxed, PH_CAPTURE_RELAXED);
                play((ph__rule)rule, &local, PH_CAPTURE_THREAD_LOCAL);
            }
        }
    }
    assert_true(unsafe_rows >= 8);
    assert_int_equal(differences, 0);
}

static void *end_dead(void *argument)
{
    scene *s = argument;
    s->result = drv->capture_end(&s->ended, s->stream);
    return NULL;
}

/* Another thread's end of a capture that is dead already: 901 as for its own, and it is over. */
TEST(any_thread_ends_an_invalidated_capture)
{
    for (int mode = 0; mode < 3; mode++) {
        scene dead = {.rule = PH__RULE_END_WRONG_THREAD}, *s = &dead;
        begin_scene(s, (ph_capture_mode)mode);
        assert_int_equal(drv->stream_wait_event(s->other, s->captured, 0), 0);
        assert_int_equal(drv->stream_synchronize(s->stream), PH__R_CAPTURE_UNSUPPORTED);
        assert_int_equal(status_of(s->stream), PH_CAPTURE_INVALIDATED);
        on_another_thread(end_dead, s);
        assert_int_equal(s->result, PH__R_CAPTURE_INVALIDATED);
        assert_null(s->ended);
        assert_int_equal(status_of(s->stream), PH_CAPTURE_NONE);
        assert_int_equal(status_of(s->other), PH_CAPTURE_NONE);
        tear_down(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_a_call),
        cmocka_unit_test(every_call_does_what_its_row_says),
        cmocka_unit_test(the_mode_of_the_thread_counts_for_unsafe_calls),
        cmocka_unit_test(any_thread_ends_an_invalidated_capture),
    };
    return cmocka_run_group_tests(tests, open_shared, close_shared);
}
