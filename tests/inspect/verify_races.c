/* SPDX-License-Identifier: MIT */
/* tests/inspect/verify_races.c: ph_graph_verify on functions whose eager runs race as their
 * replays do, or are not the same for other reasons. */
#include "support/support.h"

#include "base/alloc.h"
#include "support/test.h"
#include <stdio.h>
#include <string.h>

enum {
    N = 3000,
    ADDS = 8
};
static t_world world;
static ph_graph *graph;
static ph_verify_result result;
static ph_stream *side;
static int32_t *x, *y, *z;
static ph_kernel *loose;

/* to[i] = from[i] + more, where others may be at the same element. */
struct loose_args {
    uint64_t n;
    const int32_t *from;
    int32_t *to;
    int32_t more;
};

static void loose_on_host(const ph_block_range *range, const void *args)
{
    const struct loose_args *a = args;
    uint64_t end = range->end * range->block[0] < a->n ? range->end * range->block[0] : a->n;
    for (uint64_t i = range->begin * range->block[0]; i < end; i++)
        __atomic_store_n(&a->to[i], __atomic_load_n(&a->from[i], __ATOMIC_RELAXED) + a->more,
                         __ATOMIC_RELAXED);
}

static const ph_kernel_source loose_source = {
    .name = "loose", .host = loose_on_host, .args_size = sizeof(struct loose_args)};

static ph_status add_loosely(ph_stream *stream, const int32_t *from, int32_t *to)
{
    struct loose_args args;
    memset(&args, 0, sizeof args); /* the words of untyped kernels are read with their padding */
    args.n = N;
    args.from = from;
    args.to = to;
    args.more = 1;
    const ph_launch_config config = t_config(N);
    return ph_launch(stream, loose, &config, &args, sizeof args);
}

static void open_on(const char *device)
{
    t_open(&world, device);
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(PH_NEW(&y, N, world.stream));
    assert_ok(PH_NEW(&z, N, world.stream));
    assert_ok(t_fill(&world, world.stream, x, N, 5));
    assert_ok(t_fill(&world, world.stream, y, N, 7));
    assert_ok(t_fill(&world, world.stream, z, N, 9));
    assert_ok(ph_graph_create(&graph, NULL));
}

static void close_all(void)
{
    ph_graph_destroy(graph);
    ph_free(x, NULL);
    ph_free(y, NULL);
    ph_free(z, NULL);
    assert_ok(ph_device_synchronize(world.device));
    ph_stream_destroy(side);
    t_close(&world);
}

static void verify(ph_capture_fn body)
{
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    assert_ok(ph_graph_verify(&result, graph, world.stream, body, NULL, NULL));
    if (t_nightly())
        (void)fprintf(stderr, "%s\n", result.message);
    t_all(y, N, 7, world.stream);
}

static void expect(ph_verify_verdict verdict, const char *part)
{
    if (result.verdict != verdict || !strstr(result.message, part))
        fail_msg("verdict %d, node %zu: %s", (int)result.verdict, result.node, result.message);
}

/* ---- a race ---- the stream does not wait for the other one, captured or not. z is read by
 * both, which is none. */
static ph_status racing(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_stream_wait_stream(side, stream));
    for (int i = 0; i < ADDS; i++)
        PH_TRY(add_loosely(side, i == 3 ? z : y, y));
    PH_TRY(add_loosely(stream, z, x));
    PH_TRY(add_loosely(stream, y, x));
    return ph_stream_wait_stream(stream, side);
}

static void check_race(void)
{
    char block[80];
    (void)snprintf(block, sizeof block, " both address the %zu bytes at %p, with no path",
                   N * sizeof *y, (void *)y);
    expect(PH_VERIFY_RACE, block);
    assert_non_null(strstr(result.message, "which of the two is first decides the result"));
}

TEST(test_a_race)
{
    for (int seed = 1; seed <= (t_nightly() ? 60 : 12); seed++) {
        char device[40];
        (void)snprintf(device, sizeof device, "host:threads=2,chaos=%d", seed);
        open_on(device);
        assert_ok(ph_kernel_create(&loose, world.device, &loose_source));
        verify(racing);
        check_race();
        ph_kernel_release(loose);
        close_all();
    }
    for (int i = 0; i < (t_nightly() ? 60 : 6); i++) {
        open_on("host:threads=4");
        assert_ok(ph_kernel_create(&loose, world.device, &loose_source));
        verify(racing);
        check_race();
        ph_kernel_release(loose);
        close_all();
    }
}

/* ---- two halves ---- of one allocation at once, which is no race; the eager run does more,
 * each time the same */
static ph_status in_halves(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(t_add(&world, side, z, x, N / 2, 1));
    PH_TRY(t_add(&world, stream, z, x + N / 2, N / 2, 1));
    PH_TRY(ph_stream_wait_stream(stream, side));
    return ph_stream_is_capturing(stream) ? PH_OK : t_add(&world, stream, x, x, N, 1);
}

TEST(test_a_steady_body_differs)
{
    open_on(NULL);
    verify(in_halves);
    expect(PH_VERIFY_BODY_DIFFERS, " is the last that changes what differs");
    close_all();
}

/* ---- no race ---- another number with each eager run, which the capture has not */
static int32_t count;

static ph_status counting(ph_stream *stream, void *user)
{
    (void)user;
    return t_add(&world, stream, z, x, N, ph_stream_is_capturing(stream) ? 1000 : count++);
}

TEST(test_a_body_that_is_not_deterministic)
{
    open_on(NULL);
    count = 0;
    verify(counting);
    expect(PH_VERIFY_EAGER_DIFFERS,
           "the eager run itself is not the same twice: a body that is not "
           "deterministic, or a race (a missing ph_stream_wait_event): byte 0 of the ");
    assert_int_equal(result.node, SIZE_MAX);
    assert_ptr_equal(result.address, x);
    assert_non_null(strstr(result.message, " in one run, "));
    assert_null(strstr(result.message, "both address"));
    close_all();
}

/* Looking for what races fails as everything else does. */
TEST(test_host_memory)
{
    ph_status status = PH_ERROR_HOST_MEMORY;
    int64_t n = 0;
    t_hold_context();
    for (; status != PH_OK; n++) {
        open_on(NULL);
        count = 0;
        assert_ok(ph_graph_capture(graph, world.stream, NULL, counting, NULL));
        ph__alloc_fail_after(n);
        status = ph_graph_verify(&result, graph, world.stream, counting, NULL, NULL);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK)
            assert_int_equal(status, PH_ERROR_HOST_MEMORY);
        assert_int_equal(result.verdict,
                         status == PH_OK ? PH_VERIFY_EAGER_DIFFERS : PH_VERIFY_NONE);
        close_all();
        assert_int_equal(ph__alloc_live(), 0);
    }
    assert_true(n > 20);
}

/* A number that the capture has, and counts on in each run, is told as a parameter that changed. */
static ph_status counting_always(ph_stream *stream, void *user)
{
    (void)user;
    return t_add(&world, stream, z, x, N, count++);
}

TEST(test_a_count_is_a_changed_parameter)
{
    open_on(NULL);
    count = 0;
    verify(counting_always);
    expect(PH_VERIFY_NODE_DIFFERS, "node 0 (add_i32) is the first whose result differs");
    assert_int_equal(count, 3); /* a capture, a second one, one eager run */
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_race),
        cmocka_unit_test(test_a_steady_body_differs),
        cmocka_unit_test(test_a_body_that_is_not_deterministic),
        cmocka_unit_test(test_host_memory),
        cmocka_unit_test(test_a_count_is_a_changed_parameter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
