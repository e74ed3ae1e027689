/* SPDX-License-Identifier: MIT */
/* tests/inspect/verify_held.c: ph_graph_verify on memory of pools that a graph holds beside its
 * own: outputs, which an eager run writes too, and scratch, which only replays write. */
#include "support/support.h"
#include "support/test.h"

#include <string.h>

enum {
    N = 1000,
    BLOCK = 4096,
    BOTH = 2 * BLOCK
};
static t_world world;
static ph_graph *graph;
static ph_verify_result result;
static ph_pool *pool;
static int32_t *x, *y, value;
static bool scratch; /* only captures write it */

FIXTURE(open_test)
{
    t_open(&world, NULL);
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(ph_pool_begin(pool));
    assert_ok(PH_NEW(&y, N, world.stream));
    assert_ok(ph_pool_end(pool));
    assert_ok(t_fill(&world, world.stream, x, N, 5));
    assert_ok(t_fill(&world, world.stream, y, N, 7));
    assert_ok(ph_graph_create(&graph, NULL));
    scratch = false;
    return 0;
}

FIXTURE(close_test)
{
    ph_graph_destroy(graph);
    ph_free(x, world.stream);
    ph_free(y, world.stream);
    ph_pool_release(pool);
    t_close(&world);
    return 0;
}

static ph_status body(ph_stream *stream, void *user)
{
    ph_graph *capturing;
    (void)user;
    PH_TRY(ph_stream_capturing_graph(&capturing, stream));
    if (capturing)
        PH_TRY(ph_graph_retain_pool(capturing, pool));
    PH_TRY(t_fill(&world, stream, x, N, 6));
    return capturing || !scratch ? t_fill(&world, stream, y, N, value) : PH_OK;
}

static void verify(ph_verify_verdict verdict, const char *part, size_t compared)
{
    assert_ok(ph_graph_verify(&result, graph, world.stream, body, NULL, NULL));
    if (result.verdict != verdict || !strstr(result.message, part))
        fail_msg("verdict %d: %s", (int)result.verdict, result.message);
    assert_int_equal(result.compared, compared);
    t_all(x, N, 5, world.stream);
    t_all(y, N, 7, world.stream);
}

TEST(test_outputs_are_compared)
{
    value = 1;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    verify(PH_VERIFY_EQUAL, "8192 bytes compared", BOTH);
    assert_int_equal(result.written, BOTH);
    value = 2;
    verify(PH_VERIFY_NODE_DIFFERS, "0x1 in the graph and 0x2 in the new capture", BOTH);
    assert_int_equal(result.node, 1);
}

TEST(test_scratch_is_told_of)
{
    value = 1;
    scratch = true;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    verify(PH_VERIFY_EQUAL, "; 4096 bytes of pools that the graph holds beside its own", BLOCK);
}

/* The eager run writes what is there already, the graph something else. */
TEST(test_outputs_that_eager_leaves_the_same)
{
    value = 1;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    value = 7;
    verify(PH_VERIFY_NODE_DIFFERS, "0x1 in the graph and 0x7 in the new capture", BOTH);
    assert_int_equal(result.node, 1);
    assert_int_equal(result.written, BOTH);
}

/* It fails in the run that tells, or its thread ends there: the memory is as it was. */
static bool leaves;
static ph_status body_that_fails_later(ph_stream *stream, void *user)
{
    int *runs = user;
    ph_graph *capturing;
    PH_TRY(ph_stream_capturing_graph(&capturing, stream));
    if (!capturing && ++*runs == 2 && leaves)
        pthread_exit(NULL);
    if (!capturing && *runs == 2)
        return ph_fail(PH_ERROR_CALLER, "in the second run");
    return body(stream, NULL);
}

static void *verify_on_thread(void *runs)
{
    ph_ignore(ph_graph_verify(&result, graph, world.stream, body_that_fails_later, runs, NULL));
    return runs;
}

TEST(test_failures_put_the_memory_back)
{
    int runs = 0;
    pthread_t thread;
    void *returned;
    leaves = false;
    value = 1;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    value = 7;
    assert_error(ph_graph_verify(&result, graph, world.stream, body_that_fails_later, &runs, NULL),
                 PH_ERROR_CALLER, "in the second run");
    assert_int_equal(runs, 2);
    t_all(x, N, 5, world.stream);
    t_all(y, N, 7, world.stream);
    runs = 0;
    leaves = true;
    assert_int_equal(pthread_create(&thread, NULL, verify_on_thread, &runs), 0);
    assert_int_equal(pthread_join(thread, &returned), 0);
    assert_null(returned);
    t_all(x, N, 5, world.stream);
    t_all(y, N, 7, world.stream);
}

/* The capture's own pool, which eager work has allocated from before. */
TEST(test_outputs_in_the_captures_own_pool)
{
    const ph_capture_options options = {.pool = pool};
    value = 1;
    assert_ok(ph_graph_capture(graph, world.stream, &options, body, NULL));
    value = 2;
    verify(PH_VERIFY_NODE_DIFFERS, "0x1 in the graph and 0x2 in the new capture", BOTH);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_test, close_test)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_outputs_are_compared),
        CASE(test_scratch_is_told_of),
        CASE(test_outputs_that_eager_leaves_the_same),
        CASE(test_failures_put_the_memory_back),
        CASE(test_outputs_in_the_captures_own_pool),
    };
    return cmocka_run_group_tests_name("inspect.verify_held", tests, NULL, NULL);
}
