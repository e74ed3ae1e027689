/* SPDX-License-Identifier: MIT */
/* tests/inspect/verify_failures.c: each host allocation and each driver call of a verification
 * fails in turn: what the graph uses, its switches and its replays are as before. */
#include "support/fault.h"
#include "support/support.h"

#include "base/alloc.h"
#include "driver/driver.h"
#include "support/test.h"
#include <string.h>

enum {
    N = 200,
    NODES = 5
};
static t_world world;
static ph_graph *graph;
static int32_t *x, *y, *out, last;

static void nothing(void *user)
{
    (void)user;
}

/* A block that comes and goes, one that stays, a host function, and a value that changes. */
static ph_status body(ph_stream *stream, void *user)
{
    int32_t *made = NULL;
    (void)user;
    ph_free(out, stream);
    PH_TRY(PH_NEW(&out, N, stream));
    ph_status status = PH_NEW(&made, N, stream);
    if (status == PH_OK)
        status = t_add(&world, stream, x, made, N, 1);
    if (status == PH_OK)
        status = ph_launch_host(stream, nothing, NULL);
    if (status == PH_OK)
        status = t_add(&world, stream, made, out, N, 1);
    if (status == PH_OK)
        status = ph_memset(made, 0, 4 * N, stream);
    if (status == PH_OK)
        status = t_add(&world, stream, y, y, N, last);
    ph_free(made, stream);
    return status;
}

static void start(void)
{
    t_open(&world, NULL);
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(PH_NEW(&y, N, world.stream));
    assert_ok(t_fill(&world, world.stream, x, N, 5));
    assert_ok(t_fill(&world, world.stream, y, N, 7));
    assert_ok(ph_graph_create(&graph, NULL));
    out = NULL;
    last = 1;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    assert_ok(ph_graph_node_set_enabled(graph, 3, false));
    last = 2;
}

static void stop(void)
{
    ph_graph_destroy(graph);
    ph_free(x, NULL);
    ph_free(y, NULL);
    ph_free(out, NULL);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
}

static void check_usable(void)
{
    ph_verify_result result;
    for (size_t i = 0; i < NODES; i++) {
        bool on = false;
        if (i == 1)
            continue;
        assert_ok(ph_graph_node_get_enabled(&on, graph, i));
        assert_int_equal(on, i != 3);
    }
    assert_ok(ph_graph_verify(&result, graph, world.stream, body, NULL, NULL));
    assert_int_equal(result.verdict, PH_VERIFY_NODE_DIFFERS);
    assert_int_equal(result.node, 3);
    t_all(x, N, 5, world.stream);
    t_all(y, N, 7, world.stream);
}

/* The contents, unless the call has said that it could not put them back: then they are again
 * what they were. */
static bool check_contents(void)
{
    if (strstr(ph_error_last()->message, "could not be put back")) {
        assert_ok(t_fill(&world, world.stream, x, N, 5));
        assert_ok(t_fill(&world, world.stream, y, N, 7));
        for (size_t i = 0; i < NODES; i++)
            if (i != 1)
                assert_ok(ph_graph_node_set_enabled(graph, i, i != 3));
        return false;
    }
    t_all(x, N, 5, world.stream);
    t_all(y, N, 7, world.stream);
    return true;
}

TEST(test_host_memory)
{
    ph_status status = PH_ERROR_HOST_MEMORY;
    ph_verify_result result;
    int64_t n = 0;
    t_hold_context();
    for (; status != PH_OK; n++) {
        start();
        ph__alloc_fail_after(n);
        status = ph_graph_verify(&result, graph, world.stream, body, NULL, NULL);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK) {
            assert_int_equal(status, PH_ERROR_HOST_MEMORY);
            assert_int_equal(result.node, SIZE_MAX);
            (void)check_contents();
        }
        check_usable();
        stop();
    }
    assert_true(n > 20);
}

/* Some may fail in silence: a success is not the end. */
/* ---- what is left ---- a block that the capture had, whose place has become part of a larger
 * one: the allocator has to divide that */
enum {
    LEFT = 1000,
    WALL = 8192,
    MOST_WALLS = 64 /* of as many blocks the allocator has the records at once */
};

static ph_status leaving(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_malloc(&out, LEFT, 1, stream));
    return ph_memset(out, 1, LEFT, stream);
}

static void make_room(void *walls[MOST_WALLS + 1], int count)
{
    ph_pool *pool;
    void *beside;
    assert_ok(ph_graph_pool(&pool, graph));
    assert_ok(ph_pool_begin(pool));
    assert_ok(ph_malloc(&beside, LEFT, 1, world.stream));
    assert_ok(ph_malloc(&walls[count], WALL, 1, world.stream));
    ph_free(beside, world.stream);
    ph_free(out, world.stream);
    for (int i = 0; i < count; i++)
        assert_ok(ph_malloc(&walls[i], WALL, 1, world.stream));
    assert_ok(ph_pool_end(pool));
}

static ph_status leave(int64_t fail_after, int count)
{
    void *walls[MOST_WALLS + 1];
    ph_verify_result result;
    ph_allocation there;
    t_open(&world, NULL);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, leaving, NULL));
    make_room(walls, count);
    out = NULL;
    ph__alloc_fail_after(fail_after);
    ph_status status = ph_graph_verify(&result, graph, world.stream, leaving, NULL, NULL);
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    if (status != PH_OK)
        assert_int_equal(status, PH_ERROR_HOST_MEMORY);
    bool live = out && ph_memory_lookup(&there, world.device, out) == PH_OK;
    if (status == PH_OK)
        assert_true(live);
    if (live)
        ph_free(out, world.stream);
    for (int i = 0; i <= count; i++)
        ph_free(walls[i], world.stream);
    ph_graph_destroy(graph);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return status;
}

TEST(test_what_is_left)
{
    t_hold_context();
    for (int count = t_nightly() ? 0 : 58; count < MOST_WALLS; count++)
        for (int64_t n = 0; leave(n, count) != PH_OK; n++)
            ;
}

TEST(test_driver_calls)
{
    ph_verify_result result;
    int64_t step = t_nightly() || t_on_host() ? 1 : 5, failures = 0, kept = 0;
    t_hold_context();
    start();
    int64_t before = ph__driver_calls();
    assert_ok(ph_graph_verify(&result, graph, world.stream, body, NULL, NULL));
    int64_t calls = ph__driver_calls() - before;
    stop();
    for (int64_t n = 0; n < calls; n += step) {
        start();
        ph__driver_fail_after(n, PH__R_NOT_SUPPORTED);
        ph_status status = ph_graph_verify(&result, graph, world.stream, body, NULL, NULL);
        ph__driver_fail_after(-1, 0);
        if (status != PH_OK) {
            failures++;
            assert_int_equal(ph_error_last()->status, status);
            kept += check_contents();
        }
        check_usable();
        stop();
    }
    assert_true(failures > calls / step / 2);
    assert_true(kept > failures * 3 / 4); /* but for failures of the last copies */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_memory),
        cmocka_unit_test(test_what_is_left),
        cmocka_unit_test(test_driver_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
