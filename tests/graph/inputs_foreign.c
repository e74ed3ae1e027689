/* SPDX-License-Identifier: MIT */
/* tests/graph/inputs_foreign.c: inputs in memory that other code allocated: found, asked for at
 * their rate, declared, set. */
#include "inputs.h"
#include "support/fault.h"
#include "support/test.h"

#include <string.h>

TEST(test_foreign_freed)
{
    int32_t *other = other_new();
    begin(&checked);
    assert_ok(t_add(&world, world.stream, other + 3, y, N - 3, 1));
    end();
    assert_int_equal(count(), 2);
    ph_input_info info = input(0);
    assert_true(info.foreign);
    assert_true(info.proved);
    assert_ptr_equal(info.base, other);
    assert_true(info.address == (uintptr_t)(other + 3));
    assert_int_equal(info.state, PH_INPUT_LIVE);
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_check_inputs(graph));
    other_free(other);
    for (int i = 0; i < 3; i++)
        assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
                     "of other code's, freed");
    assert_int_equal(input(0).state, PH_INPUT_FREED);
}

/* Until memory comes to lie at the same address again. */
TEST(test_foreign_replaced)
{
    int32_t *other = other_new(), *kept[64];
    size_t keeps = 0;
    begin(&checked);
    assert_ok(t_add(&world, world.stream, other, y, N, 1));
    end();
    other_free(other);
    while (keeps < 64 && (kept[keeps++] = other_new()) != other)
        ;
    bool again = kept[keeps - 1] == other;
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
                 again ? "of other code's, replaced" : "of other code's, freed");
    assert_int_equal(input(0).state, again ? PH_INPUT_REPLACED : PH_INPUT_FREED);
    while (keeps)
        other_free(kept[--keeps]);
}

TEST(test_foreign_at_its_rate)
{
    const ph_capture_options seldom = {.check_input_liveness = true, .check_foreign_every = 4};
    const ph_capture_options never = {.check_input_liveness = true,
                                      .check_foreign_every = UINT32_MAX};
    int32_t *other = other_new();
    begin(&seldom);
    assert_ok(ph_memcpy(y, other, BYTES, world.stream));
    end();
    for (int i = 0; i < 5; i++)
        assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    /* Nothing is done any more by a graph that is disabled: what it reads may go. */
    assert_ok(ph_graph_node_set_enabled(graph, 0, false));
    other_free(other);
    assert_ok(ph_graph_replay(graph, world.stream)); /* 6, 7 */
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_status(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT);
    assert_status(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT);
    assert_ok(ph_graph_reset(graph));
    other = other_new();
    begin(&never);
    assert_ok(ph_memcpy(y, other, BYTES, world.stream));
    end();
    assert_ok(ph_graph_node_set_enabled(graph, 0, false));
    other_free(other);
    for (int i = 0; i < 100; i++)
        assert_ok(ph_graph_replay(graph, world.stream));
    assert_status(ph_graph_check_inputs(graph), PH_ERROR_STALE_INPUT);
}

/* Replays that are more than a launch, as beside a capture, are counted once, too. */
TEST(test_foreign_at_its_rate_beside_a_capture)
{
    const ph_capture_options seldom = {.check_input_liveness = true, .check_foreign_every = 8};
    int32_t *other = other_new();
    ph_stream *side;
    ph_graph *open;
    int passed = 0;
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(ph_graph_create(&open, NULL));
    begin(&seldom);
    assert_ok(ph_memcpy(y, other, BYTES, world.stream));
    end();
    assert_ok(ph_graph_replay(graph, world.stream)); /* looks for the first time */
    assert_ok(ph_stream_synchronize(world.stream));
    assert_ok(ph_graph_node_set_enabled(graph, 0, false));
    assert_ok(
        ph_graph_capture_begin(open, side, &(ph_capture_options){.mode = PH_CAPTURE_RELAXED}));
    assert_ok(t_fill(&world, side, y, N, 1));
    other_free(other);
    while (passed < 20 && ph_graph_replay(graph, world.stream) == PH_OK)
        passed++;
    assert_int_equal(passed, 6);
    assert_ok(ph_graph_capture_end(open, PH_OK));
    ph_graph_destroy(open);
    ph_stream_destroy(side);
}

/* Words that no type proves are looked for, too; in many nodes the driver is asked about an
 * address once. */
TEST(test_foreign_suspected)
{
    ph_kernel *kernel;
    int32_t *other = other_new();
    assert_ok(ph_kernel_create(&kernel, world.device, &t_kernel_sources[T_KERNEL_COPY_FIRST]));
    struct t_copy_first pair = {other, y};
    begin(&checked);
    for (int i = 0; i < 50; i++)
        assert_ok(ph_launch(world.stream, kernel, NULL, &pair, sizeof pair));
    end();
    assert_int_equal(count(), 100);
    assert_true(input(0).foreign);
    assert_false(input(0).proved);
    assert_int_equal(input(1).foreign, false);
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    for (size_t n = 0; n < 50; n++)
        assert_ok(ph_graph_node_set_enabled(graph, n, false));
    other_free(other);
    t_log_start();
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_int_equal(t_log_count("looks like an address"), 1);
    assert_int_equal(
        t_log_count("of other code's, freed (and 49 more words there): looks like an address"), 1);
    assert_int_equal(t_log_count("of the graph's 100 addresses 100 are not proved"), 1);
    t_log_stop();
    ph_kernel_release(kernel);
}

TEST(test_foreign_declared)
{
    int32_t *other = other_new();
    begin(&checked);
    assert_ok(ph_stream_declare_use(world.stream, other + 1, "workspace"));
    assert_ok(t_fill(&world, world.stream, y, N, 1));
    end();
    assert_int_equal(count(), 2);
    assert_int_equal(input(1).node, PH_INPUT_DECLARED);
    assert_true(input(1).foreign);
    assert_ok(ph_graph_replay(graph, world.stream));
    other_free(other);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
                 "ph_stream_declare_use: workspace");
}

/* It is not asked for at each replay, and known to be dead all the same. */
TEST(test_foreign_declared_and_gone_before_the_end)
{
    const ph_capture_options seldom = {.check_input_liveness = true, .mode = PH_CAPTURE_RELAXED};
    int32_t *other = other_new();
    begin(&seldom);
    assert_ok(ph_stream_declare_use(world.stream, other, "workspace"));
    assert_ok(t_fill(&world, world.stream, y, N, 1));
    other_free(other);
    end();
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
                 "ph_stream_declare_use: workspace");
}

TEST(test_set_to_foreign)
{
    int32_t *other = other_new();
    struct t_add_i32 args;
    const ph_record *record;
    ph_node_info node;
    ph_launch_config config = t_config(N);
    begin(&checked);
    assert_ok(t_add(&world, world.stream, x, y, N, 1));
    assert_ok(ph_memset_u32(y, 0, N, world.stream));
    end();
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_node(&node, record, 0));
    memcpy(&args, node.args, sizeof args);
    args.x = other;
    assert_ok(ph_graph_node_set_launch(graph, 0, &config, &args, sizeof args));
    assert_ok(ph_graph_node_set_memset(graph, 1, other, 0, N));
    assert_int_equal(count(), 3);
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    ph_free(x, world.stream);
    x = NULL;
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    other_free(other);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT, "1 dead input: ");
}

/* Each address is asked for once, and words that can be none not at all. */
TEST(test_few_questions)
{
    ph_kernel *kernel;
    int32_t *other = other_new();
    assert_ok(ph_kernel_create(&kernel, world.device, &t_kernel_sources[T_KERNEL_COPY_FIRST]));
    struct t_copy_first pair = {other, y};
    begin(NULL);
    for (int i = 0; i < 20; i++) {
        pair.x = other + i % 4;
        assert_ok(ph_launch(world.stream, kernel, NULL, &pair, sizeof pair));
    }
    end();
    int64_t before = ph__driver_calls();
    assert_int_equal(count(), 40);
    /* the list of nodes, each of them, and one question about memory */
    assert_int_equal(ph__driver_calls() - before, 1 + 20 + 1);
    before = ph__driver_calls();
    assert_int_equal(count(), 40);
    assert_int_equal(ph__driver_calls() - before, 0);
    assert_true(input(38).foreign);
    assert_ok(ph_graph_reset(graph));
    other_free(other);
    ph_kernel_release(kernel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_foreign_freed),
        IN_WORLD(test_foreign_replaced),
        IN_WORLD(test_foreign_at_its_rate),
        IN_WORLD(test_foreign_at_its_rate_beside_a_capture),
        IN_WORLD(test_foreign_suspected),
        IN_WORLD(test_foreign_declared),
        IN_WORLD(test_foreign_declared_and_gone_before_the_end),
        IN_WORLD(test_set_to_foreign),
        IN_WORLD(test_few_questions),
    };
    return cmocka_run_group_tests_name("graph.inputs_foreign", tests, NULL, NULL);
}
