/* SPDX-License-Identifier: MIT */
/* tests/inspect/verify.c: ph_graph_verify on graphs that do what their functions do, and on
 * planted faults of one node each. */
#include "support/fixture.h"

#include <stdio.h>
#include <string.h>

enum {
    N = 300,
    NODES = 50
};
static t_world world;
static ph_graph *graph;
static ph_verify_result result;
static float *x, *y, *z;

/* What the function under test looks at each time that it runs. */
static struct {
    size_t at;    /* of NODES */
    float factor; /* of that node */
    float *to;    /* of that node */
    size_t extra; /* further nodes behind it */
    bool only_eager, fails, fails_eagerly, fails_in_silence, uninitialized;
    int runs;
} now;

static const t_fixture fixture = {
    .world = &world,
    .graphs = {&graph},
    .arrays = {{&x, N, T_FLOATS, 1}, {&y, N, T_FLOATS, 2}, {&z, N, T_FLOATS, 3}}};

FIXTURE(open_world)
{
    t_fixture_open(&fixture);
    memset(&now, 0, sizeof now);
    now.at = 17;
    now.factor = 0.5F;
    now.to = y;
    return 0;
}

FIXTURE(close_world)
{
    t_fixture_close(&fixture);
    return 0;
}

static void check_all(const float *at, float value)
{
    float host[N];
    t_read(host, at, sizeof host, world.stream);
    for (int i = 0; i < N; i++)
        if (host[i] < value || host[i] > value)
            fail_msg("element %d is %g, not %g", i, (double)host[i], (double)value);
}

static ph_status chain(ph_stream *stream, void *user)
{
    float *scratch = NULL;
    (void)user;
    now.runs++;
    ph_status status = PH_NEW(&scratch, N, stream);
    for (size_t i = 0; i < NODES && status == PH_OK; i++) {
        if (i == 3 && !now.uninitialized)
            status = t_fill_f(&world, stream, scratch, N, 0.25F);
        else if (i == 30)
            status = t_axpy(&world, stream, 1, scratch, y, N);
        else
            status = t_axpy(&world, stream, i == now.at ? now.factor : 0.25F, x,
                            i == now.at ? now.to : y, N);
    }
    for (size_t i = 0; i < now.extra && status == PH_OK; i++)
        status = t_axpy(&world, stream, 1, x, z, N);
    ph_free(scratch, stream);
    if (status == PH_OK && now.only_eager && !ph_stream_is_capturing(stream))
        status = ph_memset(z, 0, 16, stream);
    if (now.fails_in_silence && !ph_stream_is_capturing(stream))
        return PH_ERROR_CALLER;
    if (now.fails || (now.fails_eagerly && !ph_stream_is_capturing(stream)))
        return ph_fail(PH_ERROR_CALLER, "the function says no");
    return status;
}

static void capture(void)
{
    assert_ok(ph_graph_capture(graph, world.stream, NULL, chain, NULL));
}

static void verify(const ph_verify_options *options)
{
    int before = now.runs;
    assert_ok(ph_graph_verify(&result, graph, world.stream, chain, NULL, options));
    assert_in_range(now.runs, before + 2, before + 7);
    if (t_nightly())
        (void)fprintf(stderr, "%s\n", result.message);
    check_all(x, 1);
    check_all(y, 2);
    check_all(z, 3);
}

static void expect(ph_verify_verdict verdict, size_t node, const char *part)
{
    if (result.verdict != verdict || result.node != node || !strstr(result.message, part))
        fail_msg("verdict %d, node %zu: %s", (int)result.verdict, result.node, result.message);
}

/* ---- equal ---- in-place changes of inputs are no difference, as each run starts from the same
 * contents */
TEST(a_graph_that_changes_its_inputs_verifies_as_equal)
{
    capture();
    verify(NULL);
    expect(PH_VERIFY_EQUAL, SIZE_MAX, "a replay gives what an eager run gives");
    assert_null(result.address);
    assert_int_equal(result.different, 0);
    assert_true(result.compared >= 3 * N * sizeof(float));
    assert_ok(ph_graph_replay(graph, world.stream));
    check_all(y, 2 + 47 * 0.25F + 0.5F + 0.25F);
}

TEST(test_an_empty_graph)
{
    t_log_start();
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    t_log_stop();
    verify(NULL);
    expect(PH_VERIFY_CAPTURE_DIFFERS, SIZE_MAX, "(50 nodes, the graph has 0)");
    assert_non_null(
        strstr(result.message, "1 block that the capture was not given, the first of 1200 bytes"));
}

/* ---- one node ---- */
TEST(test_baked_scalar)
{
    static const size_t places[] = {0, 1, 17, 29, 31, NODES - 1};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        now.at = places[i];
        now.factor = 0.5F;
        capture();
        now.factor = 2;
        verify(NULL);
        expect(PH_VERIFY_NODE_DIFFERS, places[i],
               "parameter a is 0x3f000000 (0.5) in the graph and 0x40000000 (2)");
        assert_non_null(strstr(result.message, "parameter y, byte 0 of the 1200 allocated at"));
        assert_ptr_equal(result.address, y);
        assert_int_equal(result.different % N, 0);
        assert_ok(ph_graph_reset(graph));
    }
}

TEST(test_baked_address)
{
    capture();
    now.to = z;
    verify(NULL);
    expect(PH_VERIFY_NODE_DIFFERS, 17, "parameter y is 0x");
}

/* What is there now is the same. */
static float *from;

static ph_status copying(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_fill_f(&world, stream, z, N, 3));
    return t_axpy(&world, stream, 1, from, y, N);
}

TEST(test_a_baked_address_of_equal_contents)
{
    char pointers[120];
    float *other;
    assert_ok(PH_NEW(&other, N, world.stream));
    assert_ok(t_fill_f(&world, world.stream, other, N, 1));
    from = x;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, copying, NULL));
    assert_ok(ph_graph_verify(&result, graph, world.stream, copying, NULL, NULL));
    expect(PH_VERIFY_EQUAL, SIZE_MAX, " bytes compared");
    assert_null(strstr(result.message, "differs"));
    from = other;
    assert_ok(ph_graph_verify(&result, graph, world.stream, copying, NULL, NULL));
    expect(PH_VERIFY_EQUAL, SIZE_MAX, "; node 1 (axpy_f32) x differs in a capture made now (");
    (void)snprintf(pointers, sizeof pointers,
                   "(%p (byte 0 of 1200) in the graph, %p (byte 0 of 1200) now), with the same "
                   "result from these",
                   (void *)x, (void *)other);
    expect(PH_VERIFY_EQUAL, SIZE_MAX, pointers);
    assert_ok(t_fill_f(&world, world.stream, other, N, 2));
    assert_ok(ph_graph_verify(&result, graph, world.stream, copying, NULL, NULL));
    expect(PH_VERIFY_NODE_DIFFERS, 1, "parameter x is 0x");
    assert_ok(ph_graph_reset(graph));
    ph_free(other, world.stream);
}

TEST(test_uninitialized_read)
{
    now.uninitialized = true;
    capture();
    verify(NULL);
    expect(PH_VERIFY_POISON, 30, "reads memory of the capture that nothing has written before");
    assert_ptr_equal(result.address, y);
}

TEST(test_other_nodes)
{
    capture();
    now.extra = 2;
    verify(NULL);
    expect(PH_VERIFY_CAPTURE_DIFFERS, SIZE_MAX,
           "is not of the same work (52 nodes, the graph has 50)");
    assert_ok(ph_graph_reset(graph));
    capture();
    now.extra = 1;
    verify(NULL);
    expect(PH_VERIFY_CAPTURE_DIFFERS, 51, "(51 nodes, the graph has 52)");
}

static ph_status one_node(ph_stream *stream, void *user)
{
    (void)user;
    return t_axpy(&world, stream, 1, x, y, N);
}

TEST(test_a_single_node)
{
    capture();
    assert_ok(ph_graph_verify(&result, graph, world.stream, one_node, NULL, NULL));
    expect(PH_VERIFY_CAPTURE_DIFFERS, 1, "is not of the same work (1 node, the graph has 50)");
}

/* Which is told before memory that was not written: both are so. */
TEST(test_other_nodes_come_first)
{
    now.uninitialized = true;
    capture();
    now.extra = 2;
    verify(NULL);
    expect(PH_VERIFY_CAPTURE_DIFFERS, SIZE_MAX, "(52 nodes, the graph has 50)");
}

TEST(test_work_that_no_capture_sees)
{
    now.extra = 3;
    capture();
    now.only_eager = true;
    verify(NULL);
    expect(PH_VERIFY_BODY_DIFFERS, NODES + 2, "is the last that changes what differs");
    assert_ptr_equal(result.address, z);
    assert_int_equal(result.different, 8); /* of the 16 bytes others are 0 in both */
}

TEST(test_work_that_no_node_does)
{
    float *held = now.to;
    now.to = z; /* the graph addresses z, and adds nothing to it */
    now.factor = 0;
    capture();
    now.only_eager = true;
    verify(NULL);
    expect(PH_VERIFY_BODY_DIFFERS, SIZE_MAX, "an eager run changes what no node of the graph does");
    now.to = held;
}

TEST(test_a_node_that_is_off)
{
    bool on = true;
    capture();
    assert_ok(ph_graph_node_set_enabled(graph, 40, false));
    verify(NULL);
    expect(PH_VERIFY_NODE_DIFFERS, 40, "it is switched off (ph_graph_node_set_enabled)");
    for (size_t i = 0; i < NODES; i++) {
        assert_ok(ph_graph_node_get_enabled(&on, graph, i));
        assert_int_equal(on, i != 40);
    }
}

TEST(test_a_node_that_was_set)
{
    struct t_axpy_f32 args = {N, x, y, 9};
    ph_launch_config config = t_config(N);
    capture();
    assert_ok(ph_graph_node_set_launch(graph, 20, &config, &args, sizeof args));
    verify(NULL);
    expect(PH_VERIFY_NODE_DIFFERS, 20, "may have other parameters than were captured");
    assert_ok(ph_graph_replay(graph, world.stream));
    check_all(y, 2 + 46 * 0.25F + 0.5F + 0.25F + 9);
}

/* ---- values ---- the function fills one piece of memory, each time with another byte. */
static struct {
    char *at;
    size_t bytes;
    uint8_t value;
} piece;

static ph_status fill_piece(ph_stream *stream, void *user)
{
    (void)user;
    return ph_memset(piece.at, piece.value, piece.bytes, stream);
}

static void expect_values(void *at, size_t bytes, const ph_verify_output *output, const char *part)
{
    const ph_verify_options options = {.outputs = output, .output_count = output ? 1 : 0};
    piece.at = at;
    piece.bytes = bytes;
    piece.value = 0x3d;
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, fill_piece, NULL));
    piece.value = 0x3e;
    assert_ok(ph_graph_verify(&result, graph, world.stream, fill_piece, NULL, &options));
    expect(PH_VERIFY_NODE_DIFFERS, 0, part);
    assert_int_equal(result.different, bytes);
}

/* Whole numbers of an output, the one that differs; of other memory the 4 bytes around, or what
 * there is of them. */
TEST(test_the_values_that_differ)
{
    char *base = (char *)y, *pinned;
    expect_values(base + 2, 2, &(ph_verify_output){y, PH_NUMBER_F16, N, "half"}, "\"half\"[1], ");
    assert_non_null(
        strstr(result.message, "is 0x3d3d (1.30957031) in the graph, 0x3e3e (1.56054688) in a"));
    assert_ptr_equal(result.address, base + 2);
    expect_values(base + 12, 4, &(ph_verify_output){y, PH_NUMBER_F64, N / 2, "wide"},
                  "\"wide\"[1], ");
    assert_non_null(strstr(result.message, "is 0x3d3d3d3d40000000 ("));
    assert_ptr_equal(result.address, base + 8);
    expect_values(base + 6, 1, NULL, "is 0x403d0000 in the graph, 0x403e0000 in a");
    assert_ptr_equal(result.address, base + 4);
    assert_ok(ph_malloc_pinned(&pinned, 6, 1, world.stream));
    memset(pinned, 0x11, 6);
    expect_values(pinned + 5, 1, NULL, "");
    assert_non_null(strstr(result.message, "byte 4 of the 6 allocated"));
    assert_non_null(strstr(result.message, "is 0x3d11 in the graph, 0x3e11 in a"));
    assert_ok(ph_graph_reset(graph));
    ph_free_pinned(pinned, world.stream);
}

/* ---- outputs ---- */
TEST(differences_within_the_tolerance_are_equal)
{
    const ph_verify_output outputs[] = {{y, PH_NUMBER_F32, N, "loss"}, {x, PH_NUMBER_F32, N, NULL}};
    ph_verify_options options = {.outputs = outputs, .output_count = 2};
    now.factor = 0.5F;
    capture();
    now.factor = 0.50001F;
    verify(&options);
    expect(PH_VERIFY_NODE_DIFFERS, 17, "parameter a is");
    options.relative = 1e-4;
    verify(&options);
    expect(PH_VERIFY_EQUAL, SIZE_MAX, "600 numbers of the outputs compared");
    options.relative = 0;
    options.absolute = 1e-4;
    verify(&options);
    expect(PH_VERIFY_EQUAL, SIZE_MAX, "600 numbers");
    assert_int_equal(result.compared, 2 * N);
    now.factor = 1;
    verify(&options);
    expect(PH_VERIFY_NODE_DIFFERS, 17,
           "is 0x40d00000 (6.5) in the graph, 0x40e00000 (7) in a capture made now");
    assert_non_null(strstr(result.message, "output \"loss\"[0], parameter y"));
}

/* Differences elsewhere are none. */
TEST(test_outputs_alone_count)
{
    const ph_verify_output output = {x, PH_NUMBER_F32, N, "x"};
    capture();
    now.factor = 4;
    verify(&(ph_verify_options){.outputs = &output, .output_count = 1});
    expect(PH_VERIFY_EQUAL, SIZE_MAX, "300 numbers");
}

/* ---- functions that fail ---- */
TEST(test_a_body_that_fails)
{
    capture();
    now.fails = true;
    assert_error(ph_graph_verify(&result, graph, world.stream, chain, NULL, NULL), PH_ERROR_CALLER,
                 "the function says no");
    now.fails = false;
    now.fails_eagerly = true;
    assert_error(ph_graph_verify(&result, graph, world.stream, chain, NULL, NULL), PH_ERROR_CALLER,
                 "running body eagerly: the function says no");
    assert_int_equal(result.node, SIZE_MAX);
    assert_int_equal(result.verdict, PH_VERIFY_NONE);
    check_all(y, 2);
    now.fails_in_silence = true;
    assert_error(ph_graph_verify(&result, graph, world.stream, chain, NULL, NULL), PH_ERROR_CALLER,
                 "ph_graph_verify: running body eagerly failed with PH_ERROR_CALLER, and no "
                 "message was given");
    now.fails_eagerly = now.fails_in_silence = false;
    verify(NULL);
    expect(PH_VERIFY_EQUAL, SIZE_MAX, "");
}

/* Scopes that are left open, by one that fails too, do not pile up. */
static bool leave_fails;

static ph_status leaving_scopes(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_annotation_push(stream, "left", NULL));
    PH_TRY(ph_annotation_push(stream, "inside", NULL));
    PH_TRY(t_axpy(&world, stream, 1, x, y, N));
    return leave_fails ? ph_fail(PH_ERROR_CALLER, "the function says no") : PH_OK;
}

static ph_status leaving_one(ph_stream *stream, void *user)
{
    (void)user;
    return ph_annotation_push(stream, "prepared", NULL);
}

TEST(test_scopes_that_are_left_open)
{
    leave_fails = false;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, leaving_scopes, NULL));
    ph_annotation_unwind(0);
    assert_ok(ph_annotation_push(world.stream, "outside", NULL));
    for (int fails = 0; fails < 2; fails++) {
        leave_fails = fails != 0;
        assert_status(ph_graph_verify(&result, graph, world.stream, leaving_scopes, NULL,
                                      &(ph_verify_options){.prepare = leaving_one}),
                      fails ? PH_ERROR_CALLER : PH_OK);
        assert_int_equal(ph_annotation_depth(), 1);
        assert_int_equal(result.verdict, fails ? PH_VERIFY_NONE : PH_VERIFY_EQUAL);
    }
    assert_ok(ph_annotation_pop(world.stream));
}

/* ---- what stays as it was ---- */
TEST(test_outputs_of_before_stay)
{
    capture();
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    assert_ok(t_fill_f(&world, world.stream, y, N, 2));
    uint64_t epoch = ph_graph_epoch(graph);
    verify(NULL);
    expect(PH_VERIFY_EQUAL, SIZE_MAX, "");
    assert_int_equal(ph_graph_epoch(graph), epoch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_graph_that_changes_its_inputs_verifies_as_equal),
        IN_WORLD(test_an_empty_graph),
        IN_WORLD(test_baked_scalar),
        IN_WORLD(test_baked_address),
        IN_WORLD(test_a_baked_address_of_equal_contents),
        IN_WORLD(test_uninitialized_read),
        IN_WORLD(test_other_nodes),
        IN_WORLD(test_a_single_node),
        IN_WORLD(test_other_nodes_come_first),
        IN_WORLD(test_work_that_no_capture_sees),
        IN_WORLD(test_work_that_no_node_does),
        IN_WORLD(test_a_node_that_is_off),
        IN_WORLD(test_a_node_that_was_set),
        IN_WORLD(test_the_values_that_differ),
        IN_WORLD(differences_within_the_tolerance_are_equal),
        IN_WORLD(test_outputs_alone_count),
        IN_WORLD(test_a_body_that_fails),
        IN_WORLD(test_scopes_that_are_left_open),
        IN_WORLD(test_outputs_of_before_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
