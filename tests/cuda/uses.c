/* SPDX-License-Identifier: MIT */
/* tests/cuda/uses.c: ph_stream_declare_use asks the driver nothing while no open capture checks its
 * inputs, however those that did check have ended. */
#include "fake.h"
#include "support/fixture.h"

enum {
    N = 256
};
static const ph_capture_options checked = {.check_input_liveness = true};

static t_world world;
static int32_t *x, *y;
static ph_graph *plain, *checking;
static ph_stream *beside;

WORLD(world, .streams = {&beside}, .graphs = {&plain, &checking}, .arrays = {{&x, N}, {&y, N}});

static int64_t calls_of_a_use(ph_stream *stream)
{
    int64_t before = fake_cuda()->calls();
    assert_ok(ph_stream_declare_use(stream, x, "x"));
    return fake_cuda()->calls() - before;
}

/* In a capture that does not check; gives what a use costs there. */
static int64_t calls_in_a_plain_capture(void)
{
    assert_ok(ph_graph_capture_begin(plain, world.stream, NULL));
    int64_t calls = calls_of_a_use(world.stream);
    assert_ok(t_fill(&world, world.stream, y, N, 1));
    assert_ok(ph_graph_capture_end(plain, PH_OK));
    assert_ok(ph_graph_reset(plain));
    return calls;
}

TEST(test_nobody_checks)
{
    NEED_FAKE();
    assert_int_equal(calls_of_a_use(world.stream), 0);
    assert_int_equal(calls_in_a_plain_capture(), 0);
}

TEST(test_somebody_checks)
{
    size_t count;
    NEED_FAKE();
    assert_ok(ph_graph_capture_begin(checking, beside, &checked));
    assert_ok(ph_graph_capture_begin(plain, world.stream, NULL));
    assert_true(calls_of_a_use(world.stream) > 0);
    assert_ok(ph_stream_declare_use(beside, x, "x"));
    assert_ok(t_fill(&world, world.stream, y, N, 1));
    assert_ok(t_fill(&world, beside, y, N, 1));
    assert_ok(ph_graph_capture_end(plain, PH_OK));
    assert_ok(ph_graph_capture_end(checking, PH_OK));
    assert_ok(ph_graph_input_count(&count, checking));
    assert_int_equal(count, 2);
    assert_ok(ph_graph_input_count(&count, plain));
    assert_int_equal(count, 1);
    assert_ok(ph_graph_reset(plain));
    assert_int_equal(calls_in_a_plain_capture(), 0);
}

/* ---- those that do not come to a good end ---- */
TEST(test_it_never_began)
{
    NEED_FAKE();
    fake_cuda()->fail_call("cuStreamBeginCapture", PH__R_OUT_OF_MEMORY, 1);
    assert_int_not_equal(ph_graph_capture_begin(checking, beside, &checked), PH_OK);
    fake_cuda()->fail_call("cuStreamBeginCapture", 0, 0);
    assert_int_equal(calls_in_a_plain_capture(), 0);
}

TEST(test_it_was_aborted)
{
    NEED_FAKE();
    assert_ok(ph_graph_capture_begin(checking, beside, &checked));
    ph_graph_capture_abort(checking);
    assert_int_equal(calls_in_a_plain_capture(), 0);
}

TEST(test_its_function_failed)
{
    NEED_FAKE();
    assert_ok(ph_graph_capture_begin(checking, beside, &checked));
    ph_ignore(ph_graph_capture_end(checking, PH_ERROR_CALLER));
    assert_int_equal(calls_in_a_plain_capture(), 0);
}

TEST(test_its_stream_was_destroyed)
{
    NEED_FAKE();
    assert_ok(ph_graph_capture_begin(checking, beside, &checked));
    ph_stream_destroy(beside);
    beside = NULL;
    assert_int_equal(calls_in_a_plain_capture(), 0);
}

/* The same graph again, which checks no more. */
TEST(test_it_checks_no_more)
{
    NEED_FAKE();
    assert_ok(ph_graph_capture_begin(checking, beside, &checked));
    assert_ok(t_fill(&world, beside, y, N, 1));
    assert_ok(ph_graph_capture_end(checking, PH_OK));
    assert_ok(ph_graph_reset(checking));
    assert_ok(ph_graph_capture_begin(checking, beside, NULL));
    assert_int_equal(calls_of_a_use(beside), 0);
    assert_ok(t_fill(&world, beside, y, N, 1));
    assert_ok(ph_graph_capture_end(checking, PH_OK));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(test_##name, open_world, close_world)
    const struct CMUnitTest tests[] = {
        CASE(nobody_checks),     CASE(somebody_checks),     CASE(it_never_began),
        CASE(it_was_aborted),    CASE(its_function_failed), CASE(its_stream_was_destroyed),
        CASE(it_checks_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
