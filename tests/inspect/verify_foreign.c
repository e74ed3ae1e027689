/* SPDX-License-Identifier: MIT */
/* tests/inspect/verify_foreign.c: ph_graph_verify on memory that other code allocated, on what it
 * cannot compare, and on parameters that another capture would have else. */
#include "support/fault.h"
#include "support/fixture.h"
#include "support/support.h"

#include "base/alloc.h"
#include "device/handles/device.h"
#include "device/handles/kernel.h"
#include <stdio.h>
#include <string.h>

enum {
    N = 300,
    BYTES = N * sizeof(float)
};
static t_world world;
static ph_graph *graph;
static ph_verify_result result;
static float *x, *y; /* other code's */
static float rate;

static void *other_new(size_t bytes)
{
    void *at = NULL;
    assert_int_equal(world.device->driver->plain_alloc(&at, world.device->handle, bytes), 0);
    return at;
}

static void other_free(void *at)
{
    assert_int_equal(world.device->driver->plain_free(world.device->handle, at), 0);
}

static const t_fixture fixture = {.world = &world, .graphs = {&graph}};

FIXTURE(open_world)
{
    t_fixture_open(&fixture);
    x = other_new(BYTES);
    y = other_new(BYTES);
    assert_ok(t_fill_f(&world, world.stream, x, N, 1));
    assert_ok(t_fill_f(&world, world.stream, y, N, 2));
    rate = 0.5F;
    return 0;
}

FIXTURE(close_world)
{
    other_free(x);
    other_free(y);
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

static void verify(ph_capture_fn body, const ph_verify_options *options)
{
    assert_ok(ph_graph_verify(&result, graph, world.stream, body, NULL, options));
    if (t_nightly())
        (void)fprintf(stderr, "%s\n", result.message);
    check_all(x, 1);
    check_all(y, 2);
}

static void expect(ph_verify_verdict verdict, size_t node, const char *part)
{
    if (result.verdict != verdict || result.node != node || !strstr(result.message, part))
        fail_msg("verdict %d, node %zu: %s", (int)result.verdict, result.node, result.message);
}

static void capture(ph_capture_fn body)
{
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
}

/* ---- compared as the library's own ---- */
static ph_status step(ph_stream *stream, void *user)
{
    (void)user;
    return t_axpy(&world, stream, rate, x, y, N);
}

TEST(test_memory_of_other_code_is_compared)
{
    capture(step);
    verify(step, NULL);
    expect(PH_VERIFY_EQUAL, SIZE_MAX, "2400 bytes compared");
    assert_int_equal(result.compared, 2 * BYTES);
    assert_int_equal(result.written, 2 * BYTES);
    rate = 2;
    verify(step, NULL);
    expect(PH_VERIFY_NODE_DIFFERS, 0,
           "parameter a is 0x3f000000 (0.5) in the graph and 0x40000000 (2) in the new capture");
    assert_non_null(strstr(result.message, "parameter y, byte 0 of the 1200 of other code's at "));
    assert_ptr_equal(result.address, y);
    assert_int_equal(result.different % N, 0);
}

/* Kernels whose parameters nothing describes, copies and fills: their addresses are found all the
 * same. */
static int32_t put;

static ph_status untyped(ph_stream *stream, void *kernel)
{
    struct t_copy_first pair = {(int32_t *)x, (int32_t *)y + put};
    return ph_launch(stream, kernel, NULL, &pair, sizeof pair);
}

static ph_status copying(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_memcpy(y + 1, x + put, 8, stream));
    return ph_memset(y + 10, (uint8_t)put, 40, stream);
}

TEST(test_kernels_without_types_and_copies)
{
    ph_kernel *kernel;
    put = 0;
    assert_ok(ph_kernel_create(&kernel, world.device, &t_kernel_sources[T_KERNEL_COPY_FIRST]));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, untyped, kernel));
    assert_ok(ph_graph_verify(&result, graph, world.stream, untyped, kernel, NULL));
    expect(PH_VERIFY_EQUAL, SIZE_MAX, "2400 bytes compared");
    put = 7;
    assert_ok(ph_graph_verify(&result, graph, world.stream, untyped, kernel, NULL));
    expect(PH_VERIFY_NODE_DIFFERS, 0, "parameter +8");
    check_all(y, 2);
    capture(copying);
    verify(copying, NULL);
    expect(PH_VERIFY_EQUAL, SIZE_MAX, "2400 bytes compared");
    put = 9;
    verify(copying, NULL);
    expect(PH_VERIFY_NODE_DIFFERS, 1, "its value is 0x7 in the graph and 0x9 in the new capture");
    assert_ptr_equal(result.address, y + 10);
    ph_kernel_release(kernel);
}

/* ---- outputs ---- */
TEST(test_an_output_of_other_codes)
{
    const ph_verify_output outputs[] = {{y, PH_NUMBER_F32, N, "weights"}};
    const ph_verify_options options = {.outputs = outputs, .output_count = 1, .relative = 1e-6};
    capture(step);
    verify(step, &options);
    expect(PH_VERIFY_EQUAL, SIZE_MAX, "300 numbers of the outputs compared");
    assert_int_equal(result.compared, N);
    rate = 1;
    verify(step, &options);
    expect(PH_VERIFY_NODE_DIFFERS, 0, "output \"weights\"[0], parameter y");
    const ph_verify_output longer = {y + 1, PH_NUMBER_F32, N, "weights"};
    assert_error(ph_graph_verify(&result, graph, world.stream, step, NULL,
                                 &(ph_verify_options){.outputs = &longer, .output_count = 1}),
                 PH_ERROR_ARGUMENT, "is longer than the 1196 bytes that there are");
}

/* A refusal says which it is: memory that no parameter addresses, that the options leave out, or
 * that nobody knows. */
TEST(test_refused_outputs_say_why)
{
    static float nobodys[4];
    float *unused = other_new(BYTES), *ours;
    ph_verify_output output = {unused, PH_NUMBER_F32, 4, "z"};
    ph_verify_options options = {.outputs = &output, .output_count = 1};
    assert_ok(PH_NEW(&ours, N, world.stream));
    capture(step);
    assert_error(
        ph_graph_verify(&result, graph, world.stream, step, NULL, &options), PH_ERROR_ARGUMENT,
        "lies in 1200 bytes of other code's, which no parameter of the graph's nodes addresses");
    output.address = ours;
    assert_error(ph_graph_verify(&result, graph, world.stream, step, NULL, &options),
                 PH_ERROR_ARGUMENT, "output 0 (z), 4 numbers at ");
    assert_non_null(
        strstr(ph_error_last()->message, "is no memory that the graph was given or addresses"));
    output.address = nobodys;
    assert_status(ph_graph_verify(&result, graph, world.stream, step, NULL, &options),
                  PH_ERROR_ARGUMENT);
    assert_non_null(strstr(ph_error_last()->message,
                           "is memory that neither this library nor the driver knows"));
    output.address = y;
    options.skip_foreign = true;
    assert_error(
        ph_graph_verify(&result, graph, world.stream, step, NULL, &options), PH_ERROR_ARGUMENT,
        "lies in 1200 bytes of other code's, which ph_verify_options.skip_foreign leaves out");
    assert_int_equal(result.verdict, PH_VERIFY_NONE);
    ph_free(ours, world.stream);
    other_free(unused);
}

/* ---- less than what the graph writes ---- */
static ph_status step_and_ours(ph_stream *stream, void *user)
{
    float *made = user;
    PH_TRY(t_axpy(&world, stream, rate, x, y, N));
    return t_fill_f(&world, stream, made, N, 3);
}

TEST(test_what_is_left_out_is_counted)
{
    const ph_verify_options options = {.skip_foreign = true};
    float *ours;
    assert_ok(PH_NEW(&ours, N, world.stream));
    assert_ok(t_fill_f(&world, world.stream, ours, N, 4));
    ph_allocation at;
    assert_ok(ph_memory_lookup(&at, world.device, ours));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, step_and_ours, ours));
    assert_ok(ph_graph_verify(&result, graph, world.stream, step_and_ours, ours, &options));
    char numbers[160];
    (void)snprintf(numbers, sizeof numbers, "%zu of the %zu bytes that the graph's nodes may write",
                   at.size, at.size + 2 * BYTES);
    expect(PH_VERIFY_PARTLY, SIZE_MAX, numbers);
    assert_int_equal(result.compared, at.size);
    assert_int_equal(result.written, at.size + 2 * BYTES);
    assert_int_equal(result.different, 0);
    assert_non_null(strstr(result.message, "node 0 (axpy_f32) x"));
    check_all(ours, 4);
    /* What is left out runs on, once in each run. */
    float host[N];
    t_read(host, y, sizeof host, world.stream);
    assert_true(host[0] > 2);
    assert_ok(t_fill_f(&world, world.stream, y, N, 2));
    /* A difference is told as ever. */
    assert_ok(ph_graph_reset(graph));
    ph_free(ours, world.stream);
    capture(step);
    assert_ok(ph_graph_verify(&result, graph, world.stream, step, NULL, &options));
    expect(PH_VERIFY_PARTLY, SIZE_MAX, "0 of the 2400 bytes that the graph's nodes may write");
}

/* Memory of the library's that nodes only read, or write all of, leaves nothing out. Of other
 * code's that a copy only reads: neither. */
static ph_status reading(ph_stream *stream, void *user)
{
    return ph_memcpy(user, x, BYTES, stream);
}

TEST(test_what_is_only_read_is_not_missed)
{
    float *ours;
    assert_ok(PH_NEW(&ours, N, world.stream));
    assert_ok(t_fill_f(&world, world.stream, ours, N, 4));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, reading, ours));
    assert_ok(ph_graph_verify(&result, graph, world.stream, reading, ours,
                              &(ph_verify_options){.skip_foreign = true}));
    expect(PH_VERIFY_EQUAL, SIZE_MAX, "");
    assert_int_equal(result.compared, result.written);
    assert_ok(ph_graph_reset(graph));
    ph_free(ours, world.stream);
}

/* A range that the driver tells and does not copy as a whole (reserved, and mapped in part) stays
 * as it is, and is counted. Each call of the driver fails so in turn: nothing is EQUAL that was not
 * compared. */
TEST(test_memory_that_cannot_be_read)
{
    int partly = 0;
    capture(step);
    int64_t before = ph__driver_calls();
    verify(step, NULL);
    int64_t calls = ph__driver_calls() - before;
    for (int64_t n = 0; n < calls; n++) {
        ph__driver_fail_after(n, PH__R_INVALID_VALUE);
        ph_status status = ph_graph_verify(&result, graph, world.stream, step, NULL, NULL);
        ph__driver_fail_after(-1, 0);
        assert_ok(ph_device_synchronize(world.device));
        assert_ok(t_fill_f(&world, world.stream, y, N, 2));
        if (status != PH_OK)
            continue;
        assert_int_equal(result.written, 2 * BYTES);
        if (result.verdict != PH_VERIFY_PARTLY) {
            expect(PH_VERIFY_EQUAL, SIZE_MAX, "2400 bytes compared");
            continue;
        }
        partly++;
        expect(PH_VERIFY_PARTLY, SIZE_MAX, "1200 of the 2400 bytes");
        assert_non_null(strstr(result.message, "cannot be read by the driver as a whole"));
    }
    assert_int_equal(partly, 2 * 3); /* of each: what its first and its last byte are, and a copy */
    check_all(x, 1);
}

/* No host memory at any point: what other code has is as it was. */
TEST(test_host_memory)
{
    ph_status status = PH_ERROR_HOST_MEMORY;
    capture(step);
    for (int64_t n = 0; status != PH_OK; n++) {
        ph__alloc_fail_after(n);
        status = ph_graph_verify(&result, graph, world.stream, step, NULL, NULL);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK)
            assert_int_equal(status, PH_ERROR_HOST_MEMORY);
        check_all(x, 1);
        check_all(y, 2);
    }
    expect(PH_VERIFY_EQUAL, SIZE_MAX, "2400 bytes compared");
}

/* ---- nodes whose writes no parameter shows ---- */
static ph_status hidden(ph_stream *stream, void *kernel)
{
    uint32_t words[7] = {1, 2, 3, 4, 5, 6, 7};
    return ph_launch(stream, kernel, NULL, words, sizeof words);
}

TEST(test_a_kernel_without_addresses)
{
    ph_kernel *kernel;
    assert_ok(ph_kernel_create(&kernel, world.device, &t_kernel_sources[T_KERNEL_IGNORE_WORDS]));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, hidden, kernel));
    assert_ok(ph_graph_verify(&result, graph, world.stream, hidden, kernel, NULL));
    expect(PH_VERIFY_PARTLY, SIZE_MAX,
           "1 node, as node 0 (ignore_words), has no parameter that shows what it writes");
    assert_int_equal(result.compared, 0);
    ph_kernel_release(kernel);
}

static void nothing(void *user)
{
    (void)user;
}

static ph_status on_the_host(ph_stream *stream, void *user)
{
    return ph_launch_host(stream, nothing, user);
}

TEST(test_a_host_function_alone)
{
    capture(on_the_host);
    verify(on_the_host, NULL);
    expect(PH_VERIFY_PARTLY, SIZE_MAX, "0 of the 0 bytes");
    assert_non_null(strstr(result.message, "1 host function"));
}

/* ---- parameters that another capture would have else ---- the gradient is 0: neither rate shows
 * in the result */
static ph_status two_steps(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_axpy(&world, stream, rate, x, y, N));
    PH_TRY(t_axpy(&world, stream, -rate, x, y, N));
    PH_TRY(t_axpy(&world, stream, 3, x, y, N));
    return t_axpy(&world, stream, rate + 1, x, y, N);
}

TEST(test_a_baked_rate_that_does_not_show)
{
    assert_ok(t_fill_f(&world, world.stream, x, N, 0));
    capture(two_steps);
    assert_ok(ph_graph_verify(&result, graph, world.stream, two_steps, NULL, NULL));
    expect(PH_VERIFY_EQUAL, SIZE_MAX, "2400 bytes compared");
    assert_null(strstr(result.message, "differs"));
    rate = 0.25F;
    assert_ok(ph_graph_verify(&result, graph, world.stream, two_steps, NULL, NULL));
    expect(PH_VERIFY_EQUAL, SIZE_MAX,
           "; node 0 (axpy_f32) a differs in a capture made now (0x3f000000 (0.5) in the graph, "
           "0x3e800000 "
           "(0.25) "
           "now), with the same result from these contents");
    assert_non_null(strstr(result.message, "; node 1 (axpy_f32) a differs"));
    assert_non_null(strstr(result.message, "; node 3 (axpy_f32) a differs"));
    assert_null(strstr(result.message, "node 2"));
    /* What cannot be compared is where it counts most. */
    assert_ok(ph_graph_verify(&result, graph, world.stream, two_steps, NULL,
                              &(ph_verify_options){.skip_foreign = true}));
    expect(PH_VERIFY_PARTLY, SIZE_MAX,
           "; node 0 (axpy_f32) a differs in a capture made now (0x3f000000 (0.5)");
    assert_ok(t_fill_f(&world, world.stream, x, N, 1));
    assert_ok(t_fill_f(&world, world.stream, y, N, 2));
}

/* A node that shows a difference is not the only one that is named. */
TEST(test_the_other_parameters_are_named_too)
{
    capture(two_steps);
    rate = 2;
    verify(two_steps, NULL);
    /* The first two cancel each other. */
    expect(PH_VERIFY_NODE_DIFFERS, 3,
           "parameter a is 0x3fc00000 (1.5) in the graph and 0x40400000 (3)");
    assert_non_null(strstr(result.message,
                           "; node 0 (axpy_f32) a differs, too (0x3f000000 (0.5) in the graph"));
    assert_non_null(strstr(result.message,
                           "; node 1 (axpy_f32) a differs, too (0xbf000000 (-0.5) in the graph"));
}

static ph_status many_steps(ph_stream *stream, void *user)
{
    (void)user;
    for (int i = 0; i < 40; i++)
        PH_TRY(t_axpy(&world, stream, rate, x, y, N));
    return PH_OK;
}

TEST(test_many_parameters_are_counted)
{
    assert_ok(t_fill_f(&world, world.stream, x, N, 0));
    capture(many_steps);
    rate = 3;
    assert_ok(ph_graph_verify(&result, graph, world.stream, many_steps, NULL, NULL));
    expect(PH_VERIFY_EQUAL, SIZE_MAX, "; and 37 more such parameters");
    assert_ok(t_fill_f(&world, world.stream, x, N, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_memory_of_other_code_is_compared),
        IN_WORLD(test_kernels_without_types_and_copies),
        IN_WORLD(test_an_output_of_other_codes),
        IN_WORLD(test_refused_outputs_say_why),
        IN_WORLD(test_what_is_left_out_is_counted),
        IN_WORLD(test_what_is_only_read_is_not_missed),
        IN_WORLD(test_memory_that_cannot_be_read),
        IN_WORLD(test_host_memory),
        IN_WORLD(test_a_kernel_without_addresses),
        IN_WORLD(test_a_host_function_alone),
        IN_WORLD(test_a_baked_rate_that_does_not_show),
        IN_WORLD(test_the_other_parameters_are_named_too),
        IN_WORLD(test_many_parameters_are_counted),
    };
    return cmocka_run_group_tests_name("inspect.verify_foreign", tests, NULL, NULL);
}
