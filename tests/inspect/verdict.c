/* SPDX-License-Identifier: MIT */
/* tests/inspect/verdict.c: whether a graph is worth having, of work whose shares are known. */
#include "profiled.h"
#include "support/test.h"

static profiled p;

FIXTURE(open_it)
{
    profiled_open(&p);
    return 0;
}

FIXTURE(close_it)
{
    profiled_close(&p);
    return 0;
}

static ph_verdict verdict_of(ph_capture_fn captured, ph_capture_fn eager, unsigned rounds)
{
    ph_verdict v;
    const ph_verdict_options options = {.rounds = rounds};
    ph_graph_memory memory;
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, captured, &p));
    assert_ok(ph_graph_verdict(&v, p.graph, p.a, eager, &p, &options));
    assert_ok(ph_graph_get_memory(&memory, p.graph));
    assert_true(v.eager_ns >= v.eager_host_ns && v.replay_ns >= v.replay_host_ns);
    assert_true(v.replay_ns > 0 && v.device_ns > 0);
    assert_int_equal(v.bound == PH_BOUND_LAUNCH, v.eager_host_ns >= v.device_ns);
    assert_true(v.bytes >= memory.template_host && v.bytes > 0);
    assert_null(strstr(v.sentence, "..."));
    if (strstr(v.sentence, "body does not do what was captured")) {
        assert_true(v.eager_ns < v.device_ns / 2 && v.eager_ns < v.replay_ns / 2);
        assert_false(v.worth);
        return v;
    }
    assert_int_equal(v.worth,
                     v.eager_ns > v.replay_ns && v.eager_ns - v.replay_ns > v.eager_ns / 20);
    assert_non_null(strstr(v.sentence, "replaying takes "));
    assert_non_null(strstr(v.sentence, v.bound == PH_BOUND_LAUNCH ? "launch-bound"
                                       : v.worth ? "launched one by one the device needs "
                                                 : "device-bound"));
    assert_non_null(strstr(v.sentence, v.worth ? "worth it where" : "not worth it"));
    assert_non_null(strstr(v.sentence, "the graph takes "));
    return v;
}

/* ---- what the host is slow with ---- */

static ph_status quick(ph_stream *stream, void *user)
{
    return profiled_spin(user, stream, 0, 0);
}

static ph_status slowly_submitted(ph_stream *stream, void *user)
{
    ph__sleep_ns(15000000);
    return profiled_spin(user, stream, 0, 0);
}

TEST(a_slowly_submitted_body_is_bound_by_launches)
{
    ph_verdict v = verdict_of(quick, slowly_submitted, 4);
    assert_int_equal(v.bound, PH_BOUND_LAUNCH);
    assert_true(v.worth);
    assert_true(v.eager_host_ns > v.replay_host_ns);
    assert_non_null(strstr(v.sentence, " times as fast)"));
}

/* ---- what the device is slow with ---- */

static ph_status slow(ph_stream *stream, void *user)
{
    return profiled_spin(user, stream, 15000000, 0);
}

TEST(a_body_of_long_kernels_is_bound_by_the_device)
{
    ph_verdict v = verdict_of(slow, slow, 0);
    if (t_launches_wait())
        return; /* there the host is as slow as the device */
    assert_int_equal(v.bound, PH_BOUND_DEVICE);
    assert_true(v.device_ns > v.eager_host_ns);
}

/* What an eager run is done with long before the work of the graph could be is no eager run of
 * it. */
TEST(a_body_that_does_other_work_gets_no_verdict)
{
    ph_verdict v = verdict_of(slow, quick, 3);
    assert_false(v.worth);
    assert_non_null(strstr(v.sentence, "the eager run takes "));
    assert_non_null(strstr(v.sentence, ", but the graph's work "));
    assert_non_null(
        strstr(v.sentence, ": body does not do what was captured (ph_graph_verify shows where)"));
}

static ph_status slower(ph_stream *stream, void *user)
{
    return profiled_spin(user, stream, 24000000, 0);
}

/* A graph that does somewhat more than the eager run. */
TEST(not_worth_it)
{
    ph_verdict v = verdict_of(slower, slow, 0);
    assert_false(v.worth);
    if (strstr(v.sentence, "does not do") == NULL)
        assert_non_null(strstr(v.sentence, "no less than the eager run's"));
}

/* The host is done at once, and the device needs longer without the graph: not "device-bound",
 * which a graph could not help. */
TEST(worth_it_for_the_device)
{
    ph_verdict v = verdict_of(slow, slower, 0);
    assert_true(v.worth);
    if (t_launches_wait())
        return;
    assert_int_equal(v.bound, PH_BOUND_DEVICE);
    assert_non_null(strstr(v.sentence, "the host submits in "));
    assert_non_null(strstr(
        v.sentence, "so that it is not what the eager run waits for; launched one by one the "
                    "device needs "));
    assert_null(strstr(v.sentence, "device-bound"));
}

/* Both write what they write, as often as the rounds say. */
static ph_status count_up(ph_stream *stream, void *user)
{
    const profiled *q = user;
    return t_add(&q->world, stream, q->y, q->y, 1, 1);
}

TEST(the_body_and_the_graph_both_run)
{
    int32_t y;
    (void)verdict_of(count_up, count_up, 3);
    t_read(&y, p.y, sizeof y, p.a);
    assert_true(y >= 3 + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_slowly_submitted_body_is_bound_by_launches, open_it,
                                        close_it),
        cmocka_unit_test_setup_teardown(a_body_of_long_kernels_is_bound_by_the_device, open_it,
                                        close_it),
        cmocka_unit_test_setup_teardown(a_body_that_does_other_work_gets_no_verdict, open_it,
                                        close_it),
        cmocka_unit_test_setup_teardown(not_worth_it, open_it, close_it),
        cmocka_unit_test_setup_teardown(worth_it_for_the_device, open_it, close_it),
        cmocka_unit_test_setup_teardown(the_body_and_the_graph_both_run, open_it, close_it),
    };
    return cmocka_run_group_tests_name("inspect.verdict", tests, NULL, NULL);
}
