/* SPDX-License-Identifier: MIT */
/* tests/inspect/verify_misuse.c: what ph_graph_verify refuses, in which nothing is run; and
 * replays in flight, which it waits for. */
#include "support/fixture.h"

#include <string.h>

enum {
    N = 64
};
static t_world world;
static ph_graph *graph;
static ph_verify_result result;
static int32_t *x, *y;
static int runs;

static const t_fixture fixture = {
    .world = &world, .graphs = {&graph}, .arrays = {{&x, N, T_INTS, 5}, {&y, N, T_INTS, 7}}};

FIXTURE(open_world)
{
    t_fixture_open(&fixture);
    runs = 0;
    return 0;
}

FIXTURE(close_world)
{
    t_fixture_close(&fixture);
    return 0;
}

static ph_status body(ph_stream *stream, void *user)
{
    (void)user;
    runs++;
    return t_add(&world, stream, y, y, N, 1);
}

static ph_status with_x(ph_stream *stream, void *user)
{
    (void)user;
    return t_add(&world, stream, x, y, N, 1);
}

static void capture(void)
{
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    runs = 0;
}

#define refuse(status, part, ...)                                                                  \
    do {                                                                                           \
        result.verdict = PH_VERIFY_EQUAL;                                                          \
        assert_error(ph_graph_verify(__VA_ARGS__), (status), (part));                              \
        assert_int_equal(runs, 0);                                                                 \
        assert_int_equal(result.verdict, PH_VERIFY_NONE);                                          \
    } while (0)

TEST(wrong_arguments_are_refused)
{
    ph_stream *first = ph_device_default_stream(world.device);
    capture();
    assert_error(ph_graph_verify(NULL, graph, world.stream, body, NULL, NULL), PH_ERROR_ARGUMENT,
                 "out");
    refuse(PH_ERROR_ARGUMENT, "graph", &result, NULL, world.stream, body, NULL, NULL);
    refuse(PH_ERROR_ARGUMENT, "stream", &result, graph, NULL, body, NULL, NULL);
    refuse(PH_ERROR_ARGUMENT, "body", &result, graph, world.stream, NULL, NULL, NULL);
    refuse(PH_ERROR_DEFAULT_STREAM, "captured again", &result, graph, first, body, NULL, NULL);
    ph_verify_options options = {.reserved = {0, 1}};
    refuse(PH_ERROR_ARGUMENT, "reserved", &result, graph, world.stream, body, NULL, &options);
    options = (ph_verify_options){.output_count = 1};
    refuse(PH_ERROR_ARGUMENT,
           "output_count is 1, but outputs is NULL; set both, or neither to compare every byte",
           &result, graph, world.stream, body, NULL, &options);
    options = (ph_verify_options){.absolute = 1e-3};
    refuse(PH_ERROR_ARGUMENT, "a tolerance is of outputs", &result, graph, world.stream, body, NULL,
           &options);
    options = (ph_verify_options){.relative = -1};
    refuse(PH_ERROR_ARGUMENT, "at least 0", &result, graph, world.stream, body, NULL, &options);
    ph_verify_output output = {y, (ph_number_type)9, 1, NULL};
    options = (ph_verify_options){.outputs = &output, .output_count = 1};
    refuse(PH_ERROR_ARGUMENT, "type 9", &result, graph, world.stream, body, NULL, &options);
    options.output_count = 0;
    refuse(PH_ERROR_ARGUMENT, "outputs is set, but output_count is 0; set both, or neither",
           &result, graph, world.stream, body, NULL, &options);
    options.output_count = 1;
    output = (ph_verify_output){y, PH_NUMBER_F32, 0, "weights"};
    refuse(PH_ERROR_ARGUMENT, "output 0 (weights) has a count of 0, so nothing would be compared",
           &result, graph, world.stream, body, NULL, &options);
    output = (ph_verify_output){(char *)y + 2, PH_NUMBER_F32, 1, "y"};
    refuse(PH_ERROR_ARGUMENT, "which is no multiple of 4, the size of the numbers", &result, graph,
           world.stream, body, NULL, &options);
    output = (ph_verify_output){x, PH_NUMBER_F32, 1, "x"};
    refuse(PH_ERROR_ARGUMENT, "output 0 (x)", &result, graph, world.stream, body, NULL, &options);
    output = (ph_verify_output){y, PH_NUMBER_F64, SIZE_MAX / 4, NULL};
    refuse(PH_ERROR_ARGUMENT, "output 0 (no name)", &result, graph, world.stream, body, NULL,
           &options);
    output = (ph_verify_output){y, PH_NUMBER_F32, N * sizeof *y, "y"};
    options = (ph_verify_options){.outputs = &output, .output_count = 1};
    refuse(PH_ERROR_ARGUMENT, "is longer than the 512 bytes that there are", &result, graph,
           world.stream, body, NULL, &options);
    t_all(y, N, 7, world.stream);
}

TEST(verification_is_refused_before_and_beside_a_capture)
{
    ph_stream *other;
    refuse(PH_ERROR_STATE, "called without a preceding successful capture", &result, graph,
           world.stream, body, NULL, NULL);
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    refuse(PH_ERROR_STATE, "still open", &result, graph, world.stream, body, NULL, NULL);
    ph_graph_capture_abort(graph);
    capture();
    ph_graph *second;
    assert_ok(ph_stream_create(&other, world.device, NULL));
    assert_ok(ph_graph_create(&second, NULL));
    assert_ok(ph_graph_capture_begin(second, other, NULL));
    refuse(PH_ERROR_CAPTURE, "", &result, graph, other, body, NULL, NULL);
    refuse(PH_ERROR_CAPTURE, "", &result, graph, world.stream, body, NULL,
           NULL); /* beside another one: nothing can be waited for */
    assert_ok(body(other, NULL));
    assert_ok(ph_graph_capture_end(second, PH_OK));
    ph_graph_destroy(second);
    ph_stream_destroy(other);
    assert_ok(ph_graph_verify(&result, graph, world.stream, body, NULL, NULL));
    assert_int_equal(result.verdict, PH_VERIFY_EQUAL);
}

TEST(test_another_device)
{
    t_world other;
    capture();
    t_open(&other, NULL);
    refuse(PH_ERROR_WRONG_DEVICE, "", &result, graph, other.stream, body, NULL, NULL);
    t_close(&other);
}

TEST(test_a_freed_input)
{
    assert_ok(ph_graph_capture(graph, world.stream, NULL, with_x, NULL));
    ph_free(x, world.stream);
    refuse(PH_ERROR_STALE_INPUT, "ph_graph_verify: ", &result, graph, world.stream, body, NULL,
           NULL);
    x = NULL;
}

static ph_status nested(ph_stream *stream, void *user)
{
    return ph_graph_replay(user, stream);
}

TEST(test_nested_graphs)
{
    ph_graph *outer, *plain;
    capture();
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_create(&plain, NULL));
    assert_ok(ph_graph_capture(outer, world.stream, NULL, nested, graph));
    assert_ok(ph_graph_capture(plain, world.stream, NULL, with_x, NULL));
    refuse(PH_ERROR_UNSUPPORTED, "node 0 of the graph is a graph node", &result, outer,
           world.stream, nested, graph, NULL);
    refuse(PH_ERROR_UNSUPPORTED, "node 0 of a new capture of body is a graph node", &result, plain,
           world.stream, nested, graph, NULL);
    ph_graph_destroy(outer);
    ph_graph_destroy(plain);
}

/* The graph is in use while body runs. */
static ph_status touching(ph_stream *stream, void *user)
{
    (void)user;
    assert_error(ph_graph_replay(graph, stream), PH_ERROR_STATE,
                 "a function that ph_graph_verify runs");
    assert_status(ph_graph_reset(graph), PH_ERROR_STATE);
    return body(stream, NULL);
}

static ph_status destroying(ph_stream *stream, void *user)
{
    (void)user;
    ph_graph_destroy(graph);
    return body(stream, NULL);
}

TEST(test_bodies_that_touch_the_graph)
{
    capture();
    assert_ok(ph_graph_verify(&result, graph, world.stream, touching, NULL, NULL));
    assert_int_equal(result.verdict, PH_VERIFY_PARTLY); /* it drops the status of refused calls */
    assert_non_null(strstr(result.message, "while it was captured"));
    assert_non_null(strstr(result.message, ": ph_graph_reset: called from inside"));
    assert_ok(ph_graph_verify(&result, graph, world.stream, destroying, NULL, NULL));
    assert_int_equal(result.verdict, PH_VERIFY_EQUAL);
    graph = NULL;
    t_all(y, N, 7, world.stream);
}

static ph_status leaving_a_scope(ph_stream *stream, void *user)
{
    ph_pool **pool = user;
    if (!ph_stream_is_capturing(stream)) {
        PH_TRY(ph_pool_create(pool, world.device, NULL));
        PH_TRY(ph_pool_begin(*pool));
    }
    return body(stream, NULL);
}

TEST(test_a_scope_that_is_left_open)
{
    ph_pool *pool = NULL;
    capture();
    assert_error(ph_graph_verify(&result, graph, world.stream, leaving_a_scope, &pool, NULL),
                 PH_ERROR_STATE, "innermost");
    t_all(y, N, 7, world.stream);
    assert_ok(ph_pool_end(pool));
    ph_pool_release(pool);
    int32_t *made;
    ph_allocation where;
    assert_ok(PH_NEW(&made, N, world.stream));
    assert_ok(ph_memory_lookup(&where, world.device, made));
    assert_null(where.pool);
    ph_free(made, world.stream);
    assert_ok(ph_graph_verify(&result, graph, world.stream, body, NULL, NULL));
}

/* ENDED: an executable is made. */
TEST(test_without_an_executable)
{
    ph_graph_destroy(graph);
    assert_ok(ph_graph_create(&graph, &(ph_graph_options){.keep_graph = true}));
    capture();
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_ENDED);
    assert_ok(ph_graph_verify(&result, graph, world.stream, body, NULL, NULL));
    assert_int_equal(result.verdict, PH_VERIFY_EQUAL);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_READY);
}

TEST(test_replays_in_flight)
{
    capture();
    for (int i = 0; i < 20; i++)
        assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_verify(&result, graph, world.stream, body, NULL, NULL));
    assert_int_equal(result.verdict, PH_VERIFY_EQUAL);
    t_all(y, N, 27, world.stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(wrong_arguments_are_refused),
        IN_WORLD(verification_is_refused_before_and_beside_a_capture),
        IN_WORLD(test_another_device),
        IN_WORLD(test_a_freed_input),
        IN_WORLD(test_nested_graphs),
        IN_WORLD(test_bodies_that_touch_the_graph),
        IN_WORLD(test_a_scope_that_is_left_open),
        IN_WORLD(test_without_an_executable),
        IN_WORLD(test_replays_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
