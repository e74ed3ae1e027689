/* SPDX-License-Identifier: MIT */
/* tests/graph/lacks.c: captures whose function succeeds although the graph lacks something: a call
 * that was refused while its status was dropped, work on a stream outside of the capture. Each is
 * said at the end. */
#include "support/support.h"
#include "support/test.h"

enum {
    BYTES = 256
};
typedef struct scene {
    t_world w;
    ph_stream *other;
    ph_graph *graph, *inner;
    char *memory, *inner_memory; /* graphs that run beside each other write apart */
    bool joins;
} scene;
static char pageable[BYTES];
static const char failed[] = "a call failed in it, and the graph may lack its work; ";
static const char outside[] = "work on a stream that is not in it ran at once";

static ph_status fill(ph_stream *stream, void *user)
{
    const scene *s = user;
    return ph_memset(s->memory, 1, BYTES, stream);
}

static ph_status fill_inner(ph_stream *stream, void *user)
{
    const scene *s = user;
    return ph_memset(s->inner_memory, 1, BYTES, stream);
}

static void open_scene(scene *s)
{
    t_open(&s->w, NULL);
    s->joins = false;
    assert_ok(ph_stream_create(&s->other, s->w.device, NULL));
    assert_ok(PH_NEW(&s->memory, BYTES, s->w.stream));
    assert_ok(PH_NEW(&s->inner_memory, BYTES, s->w.stream));
    assert_ok(ph_graph_create(&s->graph, NULL));
    assert_ok(ph_graph_create(&s->inner, NULL));
    assert_ok(ph_graph_capture(s->inner, s->w.stream, NULL, fill_inner, s));
    assert_ok(ph_stream_synchronize(s->w.stream));
    t_log_start();
}

static void close_scene(scene *s)
{
    t_log_stop();
    assert_ok(ph_device_synchronize(s->w.device));
    ph_graph_destroy(s->graph);
    ph_graph_destroy(s->inner);
    ph_free(s->memory, s->w.stream);
    ph_free(s->inner_memory, s->w.stream);
    ph_stream_destroy(s->other);
    t_close(&s->w);
}

/* Only once in the log. */
static void expect_warning(scene *s, ph_capture_fn body, const char *words, const char *detail)
{
    assert_ok(ph_graph_capture(s->graph, s->w.stream, NULL, body, s));
    assert_int_equal(t_log_count(words), 1);
    assert_int_equal(t_log_count(detail), 1);
    assert_int_equal(t_log_count(""), 1);
    assert_ok(ph_graph_replay(s->graph, s->w.stream));
    assert_ok(ph_graph_reset(s->graph));
}

static void expect_warning_when_strict(scene *s, ph_capture_fn body, const char *words)
{
    const ph_capture_options strict = {.strict = true};
    const size_t before = (size_t)t_log_count(words);
    assert_ok(ph_graph_capture(s->graph, s->w.stream, &strict, body, s));
    assert_int_equal(t_log_count(words), before + 1);
    assert_ok(ph_graph_reset(s->graph));
}

static void expect_silent(scene *s, ph_capture_fn body)
{
    assert_ok(
        ph_graph_capture(s->graph, s->w.stream, &(ph_capture_options){.strict = true}, body, s));
    assert_ok(ph_graph_reset(s->graph));
    assert_int_equal(t_log_count(""), 0);
}

/* ---- calls that fail ---- */
static ph_status drop_a_status(ph_stream *stream, void *user)
{
    const scene *s = user;
    ph_ignore(ph_memcpy(s->memory, pageable, BYTES, stream));
    return fill(stream, user);
}

TEST(a_refusal_that_was_dropped_is_said)
{
    scene s;
    open_scene(&s);
    expect_warning(&s, drop_a_status, failed,
                   "ph_memcpy: cannot copy between pageable host memory");
    expect_warning_when_strict(&s, drop_a_status, failed);
    close_scene(&s);
}

TEST(a_failure_of_before_is_none_of_the_capture)
{
    scene s;
    open_scene(&s);
    assert_status(ph_memcpy(NULL, pageable, BYTES, s.w.stream), PH_ERROR_ARGUMENT);
    expect_silent(&s, fill);
    close_scene(&s);
}

static ph_status fail_itself(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    return ph_fail(PH_ERROR_CALLER, "by itself");
}

TEST(a_function_that_fails_is_not_said_twice)
{
    scene s;
    open_scene(&s);
    assert_error(ph_graph_capture(s.graph, s.w.stream, NULL, fail_itself, &s), PH_ERROR_CALLER,
                 "by itself");
    assert_int_equal(t_log_count(""), 0);
    close_scene(&s);
}

/* Captures of one thread that end in the order in which they began, and one that is given up. */
TEST(captures_beside_each_other_are_not_taken_for_failures)
{
    scene s;
    ph_stream *other;
    ph_graph *second;
    open_scene(&s);
    assert_ok(ph_stream_create(&other, s.w.device, NULL));
    assert_ok(ph_graph_create(&second, NULL));
    for (int given_up = 0; given_up < 2; given_up++) {
        assert_ok(ph_graph_capture_begin(s.graph, s.w.stream, NULL));
        assert_ok(ph_graph_capture_begin(second, other, NULL));
        assert_ok(ph_memset(s.memory, 1, BYTES, s.w.stream));
        assert_ok(ph_memset((char *)s.memory + BYTES / 2, 2, BYTES / 2, other));
        if (given_up)
            ph_graph_capture_abort(second);
        assert_ok(ph_graph_capture_end(s.graph, PH_OK));
        if (!given_up)
            assert_ok(ph_graph_capture_end(second, PH_OK));
        assert_int_equal(t_log_count(""), 0);
        assert_ok(ph_graph_reset(s.graph));
        assert_ok(ph_graph_reset(second));
    }
    ph_graph_destroy(second);
    ph_stream_destroy(other);
    close_scene(&s);
}

TEST(the_open_form_says_it_too)
{
    scene s;
    open_scene(&s);
    assert_ok(ph_graph_capture_begin(s.graph, s.w.stream, NULL));
    assert_ok(drop_a_status(s.w.stream, &s));
    assert_ok(ph_graph_capture_end(s.graph, PH_OK));
    assert_int_equal(t_log_count(failed), 1);
    assert_ok(ph_graph_reset(s.graph));
    assert_ok(ph_graph_capture_begin(s.graph, s.w.stream, &(ph_capture_options){.strict = true}));
    assert_ok(drop_a_status(s.w.stream, &s));
    assert_ok(ph_graph_capture_end(s.graph, PH_OK));
    assert_int_equal(t_log_count(failed), 2);
    close_scene(&s);
}

/* ---- nested captures ---- the inner one leaves the outer one's view of failures as it was. */
static ph_status capture_inside(ph_stream *stream, void *user)
{
    const scene *s = user;
    if (s->joins)
        ph_ignore(ph_memcpy(s->memory, pageable, BYTES, stream));
    PH_TRY(ph_graph_reset(s->inner));
    PH_TRY(ph_graph_capture(s->inner, s->other, NULL, fill, user));
    return fill(stream, user);
}

TEST(a_capture_inside_hides_no_failure_and_makes_none)
{
    scene s;
    open_scene(&s);
    expect_silent(&s, capture_inside);
    s.joins = true;
    assert_ok(ph_graph_capture(s.graph, s.w.stream, NULL, capture_inside, &s));
    assert_int_equal(t_log_count(failed), 1);
    close_scene(&s);
}

/* ---- work on other streams ---- */
static ph_status fill_both(ph_stream *stream, void *user)
{
    const scene *s = user;
    if (s->joins)
        PH_TRY(ph_stream_wait_stream(s->other, stream));
    PH_TRY(fill(stream, user));
    PH_TRY(ph_memset(s->memory, 2, BYTES, s->other));
    PH_TRY(ph_memset(s->memory, 3, BYTES, s->other));
    return s->joins ? ph_stream_wait_stream(stream, s->other) : PH_OK;
}

TEST(work_on_another_stream_is_said)
{
    scene s;
    open_scene(&s);
    expect_warning(&s, fill_both, outside, "first ph_memset on stream ");
    assert_ok(ph_graph_capture(s.graph, s.w.stream, &(ph_capture_options){.strict = true},
                               fill_both,
                               &s)); /* it has run: see docs/reference/capture-rules.md */
    assert_int_equal(t_log_count(outside), 2);
    close_scene(&s);
}

TEST(work_on_a_stream_that_has_joined_is_not)
{
    scene s;
    open_scene(&s);
    s.joins = true;
    expect_silent(&s, fill_both);
    close_scene(&s);
}

static ph_status replay_outside(ph_stream *stream, void *user)
{
    const scene *s = user;
    PH_TRY(fill(stream, user));
    return ph_graph_replay(s->inner, s->other);
}

TEST(a_replay_on_another_stream_is_said)
{
    scene s;
    open_scene(&s);
    expect_warning(&s, replay_outside, outside, "ph_graph_replay on stream ");
    close_scene(&s);
}

/* Both ways: a copy to pageable memory waits for its stream, one from there is staged. */
static ph_status copy_outside(ph_stream *stream, void *user)
{
    const scene *s = user;
    PH_TRY(fill(stream, user));
    return s->joins ? ph_memcpy(s->memory, pageable, BYTES, s->other)
                    : ph_memcpy(pageable, s->memory, BYTES, s->other);
}

TEST(a_copy_of_pageable_memory_on_another_stream_is_said)
{
    for (int from = 0; from < 2; from++) {
        scene s;
        open_scene(&s);
        s.joins = from;
        assert_ok(ph_graph_capture(s.graph, s.w.stream,
                                   &(ph_capture_options){.mode = PH_CAPTURE_RELAXED}, copy_outside,
                                   &s));
        assert_int_equal(t_log_count(outside), 1);
        assert_int_equal(t_log_count("ph_memcpy on stream "), 1);
        close_scene(&s);
    }
}

/* ---- other devices ---- */
typedef struct elsewhere {
    scene *s;
    ph_stream *stream;
    char *memory;
} elsewhere;

static ph_status fill_elsewhere(ph_stream *stream, void *user)
{
    const elsewhere *e = user;
    PH_TRY(fill(stream, e->s));
    return ph_memset(e->memory, 4, BYTES, e->stream);
}

/* The stream is in a capture of its own device. */
static ph_status capture_elsewhere(ph_stream *stream, void *user)
{
    const elsewhere *e = user;
    PH_TRY(fill(stream, e->s));
    PH_TRY(ph_graph_reset(e->s->inner));
    PH_TRY(ph_graph_capture_begin(e->s->inner, e->stream, NULL));
    PH_TRY(ph_memset(e->memory, 4, BYTES, e->stream));
    return ph_graph_capture_end(e->s->inner, PH_OK);
}

TEST(work_on_another_device_is_said)
{
    scene s;
    elsewhere e = {.s = &s};
    ph_device *second;
    open_scene(&s);
    assert_ok(ph_device_open(&second, t_device_name(), NULL));
    assert_ok(ph_stream_create(&e.stream, second, NULL));
    assert_ok(PH_NEW(&e.memory, BYTES, e.stream));
    assert_ok(ph_graph_capture(s.graph, s.w.stream, NULL, capture_elsewhere, &e));
    assert_int_equal(t_log_count(""), 0);
    assert_ok(ph_graph_reset(s.graph));
    assert_ok(ph_graph_capture(s.graph, s.w.stream, NULL, fill_elsewhere, &e));
    assert_int_equal(t_log_count(outside), 1);
    assert_int_equal(t_log_count(" of another device"), 1);
    assert_ok(ph_stream_synchronize(e.stream));
    assert_ok(ph_graph_reset(s.inner));
    ph_free(e.memory, e.stream);
    ph_stream_destroy(e.stream);
    ph_device_release(second);
    close_scene(&s);
}

static void *fill_aside(void *user)
{
    const scene *s = user;
    assert_ok(ph_memset(s->memory, 2, BYTES, s->other));
    return NULL;
}

static ph_status let_another_thread_fill(ph_stream *stream, void *user)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fill_aside, user), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return fill(stream, user);
}

TEST(work_of_another_thread_is_its_own)
{
    scene s;
    open_scene(&s);
    expect_silent(&s, let_another_thread_fill);
    close_scene(&s);
}

static ph_status give_up(ph_stream *stream, void *user)
{
    (void)stream, (void)user;
    return PH_ERROR_CALLER;
}

static ph_status end_it(ph_stream *stream, void *user)
{
    const scene *s = user;
    PH_TRY(fill(stream, user));
    if (s->joins)
        return ph_graph_reset(s->graph);
    ph_graph_capture_abort(s->graph);
    return PH_OK;
}

/* The record of a failure before it says nothing of it. */
TEST(a_function_that_fails_without_a_message_gets_one)
{
    scene s;
    open_scene(&s);
    assert_error(ph_stream_synchronize(NULL), PH_ERROR_ARGUMENT, "stream is NULL");
    assert_error(ph_graph_capture(s.graph, s.w.stream, NULL, give_up, &s), PH_ERROR_CALLER,
                 "ph_graph_capture: body failed with PH_ERROR_CALLER, and no call failed in it");
    assert_error(ph_graph_replay(s.graph, s.w.stream), PH_ERROR_CALLER, "no call failed in it");
    assert_ok(ph_graph_reset(s.graph));
    close_scene(&s);
}

TEST(a_function_that_ends_its_own_capture_is_told_so)
{
    scene s;
    open_scene(&s);
    for (int i = 0; i < 2; i++) {
        s.joins = i == 1;
        assert_error(ph_graph_capture(s.graph, s.w.stream, NULL, end_it, &s), PH_ERROR_STATE,
                     "ph_graph_capture: the capture was ended by its own function");
        assert_ok(ph_graph_reset(s.graph));
    }
    assert_ok(ph_graph_capture(s.graph, s.w.stream, NULL, fill, &s));
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_that_was_dropped_is_said),
        cmocka_unit_test(a_failure_of_before_is_none_of_the_capture),
        cmocka_unit_test(a_function_that_fails_is_not_said_twice),
        cmocka_unit_test(captures_beside_each_other_are_not_taken_for_failures),
        cmocka_unit_test(the_open_form_says_it_too),
        cmocka_unit_test(a_capture_inside_hides_no_failure_and_makes_none),
        cmocka_unit_test(work_on_another_stream_is_said),
        cmocka_unit_test(work_on_a_stream_that_has_joined_is_not),
        cmocka_unit_test(a_replay_on_another_stream_is_said),
        cmocka_unit_test(a_copy_of_pageable_memory_on_another_stream_is_said),
        cmocka_unit_test(work_on_another_device_is_said),
        cmocka_unit_test(work_of_another_thread_is_its_own),
        cmocka_unit_test(a_function_that_fails_without_a_message_gets_one),
        cmocka_unit_test(a_function_that_ends_its_own_capture_is_told_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
