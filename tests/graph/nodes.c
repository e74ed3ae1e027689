/* SPDX-License-Identifier: MIT */
/* tests/graph/nodes.c: changing the nodes of an executable, one by one and all at once. */
#include "support/fixture.h"

#include <string.h>

enum {
    N = 512,
    KERNEL = 0,
    MEMSET = 1,
    MEMCPY = 2,
    HOST = 3
};
static t_world world;
static ph_graph *graph;
static int32_t *x, *y, *z;
static int calls;

static const t_fixture fixture = {
    .world = &world,
    .graphs = {&graph},
    .arrays = {{&x, N, T_INTS, 0}, {&y, N, T_INTS, 0}, {&z, N, T_INTS, 0}},
    .keep_graph = true};

FIXTURE(open_world)
{
    t_fixture_open(&fixture);
    calls = 0;
    return 0;
}

FIXTURE(close_world)
{
    t_fixture_close(&fixture);
    return 0;
}

static void count_call(void *user)
{
    ++*(int *)user;
}

static ph_status body(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_fill(&world, stream, x, N, 1));
    PH_TRY(ph_memset_u32(y, 2, N, stream));
    PH_TRY(ph_memcpy(z, x, N * sizeof *x, stream));
    return ph_launch_host(stream, count_call, &calls);
}

static void ready(void)
{
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    assert_ok(ph_graph_instantiate(graph));
}

static void replay_and_check(int32_t in_x, int32_t in_y, int32_t in_z)
{
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, in_x, world.stream);
    t_all(y, N, in_y, world.stream);
    t_all(z, N, in_z, world.stream);
}

TEST(test_set_each_kind)
{
    int other = 0;
    struct t_fill_i32 args = {N, x, 11};
    ph_launch_config config = t_config(N);
    ready();
    replay_and_check(1, 2, 1);
    assert_int_equal(calls, 1);
    assert_ok(ph_graph_node_set_launch(graph, KERNEL, &config, &args, sizeof args));
    replay_and_check(11, 2, 11);
    assert_ok(ph_graph_node_set_memset(graph, MEMSET, y, 22, N));
    replay_and_check(11, 22, 11);
    assert_ok(ph_graph_node_set_memcpy(graph, MEMCPY, z, y, N * sizeof *y));
    replay_and_check(11, 22, 22);
    assert_ok(ph_graph_node_set_host(graph, HOST, count_call, &other));
    replay_and_check(11, 22, 22);
    assert_int_equal(calls, 4);
    assert_int_equal(other, 1);
    assert_ok(ph_graph_instantiate(graph)); /* starts again from the template */
    replay_and_check(1, 2, 1);
    assert_int_equal(calls, 5);
}

/* A replay that is in flight keeps what it had. */
TEST(test_set_while_in_flight)
{
    t_gate gate = {0};
    struct t_fill_i32 args = {N, y, 33};
    ph_launch_config config = t_config(N);
    ready();
    assert_ok(ph_graph_node_set_enabled(graph, MEMSET, false));
    assert_ok(t_gate_wait_guarded(&gate, world.stream));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_node_set_launch(graph, KERNEL, &config, &args, sizeof args));
    t_gate_open(&gate);
    t_all(x, N, 1, world.stream);
    t_all(y, N, 0, world.stream);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 33, world.stream);
}

TEST(misuse_is_refused)
{
    struct t_fill_i32 args = {N, x, 11};
    ph_launch_config config = t_config(N), huge = t_config(N);
    bool enabled = true;
    ready();
    huge.block[0] = 4096;
    assert_error(ph_graph_node_set_launch(graph, 9, &config, &args, sizeof args),
                 PH_ERROR_NOT_FOUND, "node 9");
    assert_error(ph_graph_node_set_launch(graph, MEMSET, &config, &args, sizeof args),
                 PH_ERROR_ARGUMENT, "node 1 (memset) is a memset node");
    assert_error(ph_graph_node_set_memcpy(graph, KERNEL, z, x, 4), PH_ERROR_ARGUMENT,
                 "node 0 (fill_i32) is a kernel node");
    assert_status(ph_graph_node_set_launch(graph, KERNEL, &config, &args, sizeof args - 1),
                  PH_ERROR_ARGUMENT);
    assert_status(ph_graph_node_set_launch(graph, KERNEL, &huge, &args, sizeof args),
                  PH_ERROR_ARGUMENT);
    int32_t pageable[4];
    assert_status(ph_graph_node_set_memcpy(graph, MEMCPY, pageable, x, sizeof pageable),
                  PH_ERROR_UNPINNED);
    assert_status(ph_graph_node_set_memcpy(graph, MEMCPY, x, x, sizeof pageable),
                  PH_ERROR_ARGUMENT);
    assert_status(ph_graph_node_set_memset(graph, MEMSET, pageable, 0, 1), PH_ERROR_ARGUMENT);
    assert_status(ph_graph_node_set_memset(graph, MEMSET, y, 0, SIZE_MAX / 2), PH_ERROR_SIZE);
    assert_status(ph_graph_node_set_host(graph, HOST, NULL, NULL), PH_ERROR_ARGUMENT);
    assert_error(ph_graph_node_set_enabled(graph, HOST, false), PH_ERROR_UNSUPPORTED,
                 "node 3 is a host node");
    assert_status(ph_graph_node_get_enabled(&enabled, graph, HOST), PH_ERROR_UNSUPPORTED);
    assert_false(enabled);
    replay_and_check(1, 2, 1); /* nothing of it took effect */
}

static ph_status one_fill(ph_stream *stream, void *user)
{
    (void)user;
    return ph_memset(x, 0, sizeof *x, stream);
}

TEST(test_node_out_of_range)
{
    const ph_record *record;
    ph_node_info info;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, one_fill, NULL));
    assert_ok(ph_graph_instantiate(graph));
    assert_error(ph_graph_node_set_enabled(graph, 1, false), PH_ERROR_NOT_FOUND,
                 "the graph has 1 node,");
    assert_ok(ph_graph_record(&record, graph));
    assert_error(ph_record_node(&info, record, 1), PH_ERROR_NOT_FOUND, "the record has 1 node,");
    assert_ok(ph_graph_reset(graph));
    ready();
    assert_error(ph_graph_node_set_enabled(graph, 4, false), PH_ERROR_NOT_FOUND,
                 "the graph has 4 nodes,");
    assert_ok(ph_graph_record(&record, graph));
    assert_error(ph_record_node(&info, record, 4), PH_ERROR_NOT_FOUND, "the record has 4 nodes,");
}

TEST(test_enable_and_disable)
{
    bool enabled;
    ready();
    assert_ok(ph_graph_node_get_enabled(&enabled, graph, KERNEL));
    assert_true(enabled);
    assert_ok(ph_graph_node_set_enabled(graph, KERNEL, false));
    assert_ok(ph_graph_node_get_enabled(&enabled, graph, KERNEL));
    assert_false(enabled);
    replay_and_check(0, 2, 0);
    assert_ok(ph_graph_node_set_enabled(graph, MEMSET, false));
    assert_ok(ph_graph_node_set_enabled(graph, KERNEL, true));
    assert_ok(ph_memset(y, 0, N * sizeof *y, world.stream));
    replay_and_check(1, 0, 1);
}

/* ---- update ---- */
struct variant {
    int32_t value;
    int nodes;
    bool other_kernel, copy_first;
};

static ph_status variant_body(ph_stream *stream, void *user)
{
    const struct variant *v = user;
    if (v->copy_first)
        PH_TRY(ph_memcpy(z, x, N * sizeof *x, stream));
    else if (v->other_kernel)
        PH_TRY(t_fill_f(&world, stream, (float *)x, N, 1));
    else
        PH_TRY(t_fill(&world, stream, x, N, v->value));
    for (int i = 1; i < v->nodes; i++)
        PH_TRY(t_add(&world, stream, x, x, N, 1));
    return PH_OK;
}

static ph_graph *variant(struct variant v)
{
    ph_graph *made;
    assert_ok(ph_graph_create(&made, NULL));
    assert_ok(ph_graph_capture(made, world.stream, NULL, variant_body, &v));
    return made;
}

TEST(an_update_retains_the_pool_of_the_other_graph_once)
{
    ph_graph *base = variant((struct variant){.value = 5, .nodes = 2});
    ph_graph *from = variant((struct variant){.value = 50, .nodes = 2});
    ph_update_result result;
    ph_pool *pool;
    ph_pool *listed[4];
    size_t count;
    assert_ok(ph_graph_pool(&pool, from));
    assert_ok(ph_graph_update(base, from, &result));
    assert_int_equal(result.reason, PH_UPDATE_OK);
    assert_int_equal(ph_pool_use_count(pool), 2);
    assert_ok(ph_graph_pools(listed, 4, &count, base));
    assert_int_equal(count, 2);
    assert_ok(ph_graph_update(base, from, NULL)); /* repeating it takes nothing more */
    assert_int_equal(ph_pool_use_count(pool), 2);
    ph_graph_destroy(from);
    assert_ok(ph_graph_replay(base, world.stream));
    t_all(x, N, 51, world.stream);
    ph_graph_destroy(base);
}

static void check_mismatch(ph_graph *base, struct variant v, ph_update_reason reason, size_t node)
{
    ph_update_result result;
    ph_graph *from = variant(v);
    size_t count;
    assert_error(ph_graph_update(base, from, &result), PH_ERROR_MISMATCH, "ph_graph_update");
    assert_native(910);
    assert_int_equal(result.reason, reason);
    assert_int_equal(result.node, node);
    assert_true(result.message[0] != 0);
    assert_non_null(strstr(ph_error_last()->message, result.message));
    assert_ok(ph_graph_pools(NULL, 0, &count, base));
    assert_int_equal(count, 1);
    ph_graph_destroy(from);
    assert_ok(ph_graph_replay(base, world.stream));
    t_all(x, N, 6, world.stream); /* as it was */
}

TEST(test_update_reasons)
{
    ph_graph *base = variant((struct variant){.value = 5, .nodes = 2});
    check_mismatch(base, (struct variant){.value = 9, .nodes = 3}, PH_UPDATE_TOPOLOGY, SIZE_MAX);
    check_mismatch(base, (struct variant){.nodes = 2, .copy_first = true}, PH_UPDATE_NODE_TYPE, 0);
    ph_graph_destroy(base);
}

TEST(test_update_arguments)
{
    ph_graph *base = variant((struct variant){.value = 5, .nodes = 1}), *fresh;
    ph_update_result result;
    assert_error(ph_graph_update(base, NULL, &result), PH_ERROR_ARGUMENT, "from is NULL");
    assert_int_equal(result.node, SIZE_MAX);
    assert_ok(ph_graph_create(&fresh, NULL));
    assert_error(ph_graph_update(base, fresh, &result), PH_ERROR_STATE,
                 "without a preceding successful capture");
    assert_ok(ph_graph_update(base, base, &result)); /* back to its own capture */
    assert_ok(ph_graph_replay(base, world.stream));
    t_all(x, N, 5, world.stream);
    ph_graph_destroy(fresh);
    ph_graph_destroy(base);
}

/* An executable that is updated for ever holds the memory of one capture beside its own. */
TEST(test_updates_let_go_of_earlier_pools)
{
    ph_graph *base = variant((struct variant){.value = 5, .nodes = 2});
    ph_pool *listed[4];
    size_t count;
    for (int i = 0; i < 5; i++) {
        ph_pool *pool;
        ph_graph *from = variant((struct variant){.value = 10 * i, .nodes = 2});
        assert_ok(ph_graph_update(base, from, NULL));
        assert_ok(ph_graph_pool(&pool, from));
        ph_graph_destroy(from);
        assert_ok(ph_graph_pools(listed, 4, &count, base));
        assert_int_equal(count, 2);
        assert_ptr_equal(listed[1], pool);
        assert_ok(ph_graph_replay(base, world.stream));
        t_all(x, N, 10 * i + 1, world.stream);
    }
    assert_ok(ph_graph_update(base, base, NULL));
    assert_ok(ph_graph_pools(listed, 4, &count, base));
    assert_int_equal(count, 1);
    ph_graph_destroy(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_set_each_kind),
        IN_WORLD(test_set_while_in_flight),
        IN_WORLD(misuse_is_refused),
        IN_WORLD(test_enable_and_disable),
        IN_WORLD(test_node_out_of_range),
        IN_WORLD(an_update_retains_the_pool_of_the_other_graph_once),
        IN_WORLD(test_update_reasons),
        IN_WORLD(test_update_arguments),
        IN_WORLD(test_updates_let_go_of_earlier_pools),
    };
    return cmocka_run_group_tests_name("graph.nodes", tests, NULL, NULL);
}
