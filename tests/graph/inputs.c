/* SPDX-License-Identifier: MIT */
/* tests/graph/inputs.c: what a graph's inputs are, what is told of each, when it is found dead
 * and where it was freed. */
#include "inputs.h"
#include "support/test.h"

#include <string.h>

/* ---- reading ---- */
TEST(inputs_are_reported_with_node_word_and_state)
{
    int32_t *temporary;
    begin(&checked);
    assert_ok(PH_NEW(&temporary, N, world.stream));
    assert_ok(t_add(&world, world.stream, x + 4, temporary, N - 4, 1));
    assert_ok(ph_memcpy(y, temporary, BYTES, world.stream));
    end();
    assert_int_equal(count(), 2);
    ph_input_info first = input(0), second = input(1);
    assert_int_equal(first.node, 0);
    assert_string_equal(first.node_name, "add_i32");
    assert_string_equal(first.word, "x");
    assert_ptr_equal(first.base, x);
    assert_true(first.address == (uintptr_t)(x + 4));
    assert_true(first.bytes >= BYTES);
    assert_true(first.proved);
    assert_false(first.foreign);
    assert_false(first.pinned);
    assert_int_equal(first.state, PH_INPUT_LIVE);
    assert_string_equal(first.allocated_at, "");
    assert_int_equal(second.node, 1);
    assert_string_equal(second.word, "dst");
    assert_ptr_equal(second.base, y);
    ph_free(x, world.stream);
    x = NULL;
    assert_int_equal(input(0).state, PH_INPUT_FREED);
    assert_int_equal(input(1).state, PH_INPUT_LIVE);
    ph_input_info none;
    assert_error(ph_graph_input(&none, graph, 2), PH_ERROR_NOT_FOUND, "input 2");
    ph_free(temporary, world.stream);
}

TEST(inputs_of_any_graph_are_reported)
{
    begin(NULL);
    assert_ok(t_add(&world, world.stream, x, y, N, 1));
    end();
    assert_int_equal(count(), 2);
    ph_free(x, world.stream);
    x = NULL;
    assert_int_equal(input(0).state, PH_INPUT_FREED);
    assert_ok(ph_graph_replay(graph, world.stream)); /* nobody asked for the check */
}

TEST(test_order_after_a_node_was_set)
{
    const ph_launch_config config = t_config(N);
    const struct t_add_i32 args = {N, y, x, 5};
    begin(&checked);
    assert_ok(t_add(&world, world.stream, x, y, N, 1));
    assert_ok(ph_memset_u32(y, 1, N, world.stream));
    assert_ok(ph_stream_declare_use(world.stream, world.device, "plain memory"));
    end();
    assert_ok(ph_graph_node_set_launch(graph, 0, &config, &args, sizeof args));
    assert_ok(ph_graph_node_set_memset(graph, 1, x, 0, N));
    assert_int_equal(count(), 4);
    assert_int_equal(input(0).node, 0);
    assert_true(input(0).address == (uintptr_t)y);
    assert_int_equal(input(1).node, 0);
    assert_int_equal(input(2).node, 1);
    assert_ptr_equal(input(2).base, x);
    assert_int_equal(input(3).node, PH_INPUT_DECLARED);
}

TEST(inputs_of_a_nested_graph_are_the_outer_graphs_too)
{
    ph_graph *inner;
    assert_ok(ph_graph_create(&inner, NULL));
    assert_ok(ph_graph_capture_begin(inner, world.stream, &checked));
    assert_ok(ph_stream_declare_use(world.stream, x, "the child's"));
    assert_ok(t_fill(&world, world.stream, y, N, 7));
    assert_ok(ph_graph_capture_end(inner, PH_OK));
    begin(&checked);
    assert_ok(ph_graph_replay(inner, world.stream));
    end();
    ph_graph_destroy(inner);
    assert_int_equal(count(), 2);
    assert_string_equal(input(0).node_name, "graph: fill_i32");
    assert_int_equal(input(1).node, PH_INPUT_DECLARED);
    assert_ok(ph_graph_replay(graph, world.stream));
    ph_free(x, world.stream);
    x = NULL;
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
                 "ph_stream_declare_use: the child's");
}

/* ---- when it is found dead ---- */
TEST(test_freed_before_the_end)
{
    begin(&checked);
    assert_ok(t_add(&world, world.stream, x, y, N, 1));
    ph_free(x, NULL);
    x = NULL;
    t_log_start();
    end();
    assert_int_equal(
        t_log_count(
            "ph_graph_capture_end: replays will be refused, 1 dead input: memory that was not "
            "allocated when the capture ended (freed earlier?): allocate it, then capture again"),
        1);
    t_log_stop();
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
                 "ph_graph_replay: refused, 1 dead input: memory that was not allocated when the "
                 "capture ended");
    assert_error(ph_graph_check_inputs(graph), PH_ERROR_STALE_INPUT,
                 "ph_graph_check_inputs: 1 dead input: ");
}

/* Nothing was freed since the capture began: the message does not say so. */
TEST(test_freed_before_the_capture)
{
    int32_t *gone = x;
    ph_free(x, world.stream);
    x = NULL;
    t_log_start();
    begin(&checked);
    assert_ok(t_add(&world, world.stream, gone, y, N, 1));
    end();
    assert_int_equal(t_log_count("replays will be refused, 1 dead input: "), 1);
    t_log_stop();
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
                 "not allocated when the capture ended (freed earlier?): allocate it, then capture "
                 "again, or name "
                 "other memory by a slot: node 0 (add_i32) x = 0x");
    assert_null(strstr(ph_error_last()->message, "since the capture began"));
    assert_ok(ph_graph_reset(graph));
    t_log_start();
    begin(NULL); /* without the check nothing is said */
    assert_ok(t_add(&world, world.stream, gone, y, N, 1));
    end();
    assert_int_equal(t_log_count("dead input"), 0);
    t_log_stop();
}

/* The end of an allocation is a legal parameter, whatever comes behind it. */
TEST(test_end_of_an_allocation)
{
    int32_t *behind;
    assert_ok(PH_NEW(&behind, N, world.stream));
    int32_t *last = behind > x && behind > y ? behind : y > x ? y : x;
    begin(&checked);
    assert_ok(t_add(&world, world.stream, x, y, N, 1));
    assert_ok(t_add(&world, world.stream, last + N, y, 0, 1));
    end();
    assert_ok(ph_graph_replay(graph, world.stream));
    ph_free(behind, world.stream);
}

TEST(test_only_those_concerned)
{
    ph_graph *other;
    int32_t *own;
    assert_ok(PH_NEW(&own, N, world.stream));
    assert_ok(ph_graph_create(&other, NULL));
    begin(&checked);
    assert_ok(t_fill(&world, world.stream, y, N, 1));
    end();
    assert_ok(ph_graph_capture_begin(other, world.stream, &checked));
    assert_ok(t_fill(&world, world.stream, own, N, 1));
    assert_ok(ph_graph_capture_end(other, PH_OK));
    for (int i = 0; i < 20; i++) {
        assert_ok(ph_graph_replay(graph, world.stream));
        assert_ok(ph_graph_replay(other, world.stream));
    }
    ph_free(own, world.stream);
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_status(ph_graph_replay(other, world.stream), PH_ERROR_STALE_INPUT);
    assert_ok(ph_graph_replay(graph, world.stream));
    ph_graph_destroy(other);
}

TEST(a_refused_replay_names_every_dead_input)
{
    begin(&checked);
    assert_ok(t_add(&world, world.stream, x + 2, y, N - 2, 1));
    end();
    ph_free(x, world.stream);
    ph_free(y, world.stream);
    x = y = NULL;
    assert_error(
        ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
        "ph_graph_replay: refused, 2 dead inputs: memory freed since the capture began; keep it "
        "allocated while "
        "the graph is replayed, capture again, or name other memory by a slot: node");
    const char *message = ph_error_last()->message;
    assert_non_null(strstr(message, "node 0 (add_i32) x = 0x"));
    assert_non_null(strstr(message, ", +8 in 1024 bytes; node 0 (add_i32) y = 0x"));
}

/* ---- where it happened ---- */
TEST(dead_inputs_are_logged_once_with_their_sites)
{
    int32_t *here;
    assert_ok(ph_memory_record_sites(12));
    assert_ok(PH_NEW(&here, N, world.stream));
    begin(&checked);
    assert_ok(t_add(&world, world.stream, here, y, N, 1));
    end();
    assert_int_not_equal(strlen(input(0).allocated_at), 0);
    assert_string_equal(input(0).freed_at, "");
    assert_string_equal(input(1).allocated_at, ""); /* from before */
    ph_free(here, world.stream);
    assert_int_not_equal(strlen(input(0).freed_at), 0);
    assert_string_not_equal(input(0).freed_at, input(0).allocated_at);
    t_log_start();
    for (int i = 0; i < 3; i++)
        assert_status(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT);
    assert_int_equal(t_log_count("dead input 1 of 1: node 0 (add_i32) x"), 1);
    assert_int_equal(t_log_count("; freed at "), 1);
    assert_int_equal(t_log_count("; allocated at "), 1);
    assert_int_equal(t_log_count("; replayed at "), 1);
    t_log_stop();
    /* Many that nobody tracks come and go. */
    for (int i = 0; i < 3000; i++) {
        int32_t *brief;
        assert_ok(PH_NEW(&brief, N, world.stream));
        ph_free(brief, world.stream);
    }
    assert_int_not_equal(strlen(input(0).freed_at), 0);
    assert_ok(ph_memory_record_sites(0));
    assert_string_equal(input(0).freed_at, "");
}

/* The program is linked statically and exports nothing: its functions are named all the same,
 * and as many frames as were asked for are its own. */
TEST(test_sites_of_a_static_program)
{
    int32_t *here;
    assert_ok(ph_memory_record_sites(1));
    assert_ok(PH_NEW(&here, N, world.stream));
    begin(&checked);
    assert_ok(t_add(&world, world.stream, here, y, N, 1));
    end();
    ph_free(here, world.stream);
    ph_input_info info = input(0);
    const char start[] = "test_sites_of_a_static_program+0x";
    assert_memory_equal(info.allocated_at, start, sizeof start - 1);
    assert_memory_equal(info.freed_at, start, sizeof start - 1);
    assert_null(strstr(info.allocated_at, " < "));
    assert_ok(ph_memory_record_sites(0));
}

/* The places were asked for after the memory: where it was freed is known all the same. */
TEST(test_sites_asked_for_late)
{
    begin(&checked);
    assert_ok(t_add(&world, world.stream, x, y, N, 1));
    end();
    assert_ok(ph_memory_record_sites(8));
    assert_string_equal(input(0).allocated_at, "");
    ph_free(x, world.stream);
    x = NULL;
    assert_string_equal(input(0).allocated_at, "before ph_memory_record_sites");
    assert_int_not_equal(strlen(input(0).freed_at), 0);
    assert_string_equal(input(1).allocated_at, "");
    t_log_start();
    assert_status(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT);
    assert_int_equal(t_log_count("; freed at "), 1);
    assert_int_equal(t_log_count("; allocated before ph_memory_record_sites; replayed at "), 1);
    t_log_stop();
    assert_ok(ph_memory_record_sites(0));
    assert_string_equal(input(0).freed_at, "");
}

/* What a slot was set to is told once too, until it is set to something else that dies. */
TEST(test_sites_of_slots)
{
    size_t slot;
    const ph_slot_place place = {0, 0};
    ph_kernel *kernel;
    assert_ok(ph_kernel_create(&kernel, world.device, &t_kernel_sources[T_KERNEL_COPY_FIRST]));
    struct t_copy_first pair = {x, y};
    begin(&checked);
    assert_ok(ph_launch(world.stream, kernel, NULL, &pair, sizeof pair));
    end();
    assert_ok(ph_graph_slot_declare_address(&slot, graph, "in", x, BYTES, &place, 1, NULL));
    assert_ok(ph_memory_record_sites(8));
    for (int round = 0; round < 2; round++) {
        int32_t *z;
        assert_ok(PH_NEW(&z, N, world.stream));
        assert_ok(ph_graph_replay_with(graph, world.stream, &(ph_slot_value){slot, z}, 1));
        ph_free(z, world.stream);
        t_log_start();
        for (int i = 0; i < 3; i++)
            assert_status(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT);
        assert_int_equal(t_log_count("dead input 1 of 1: node 0 (copy_first) slot in"), 1);
        t_log_stop();
    }
    assert_ok(ph_memory_record_sites(0));
    ph_kernel_release(kernel);
}

TEST(test_sites_of_pinned)
{
    int32_t *pinned;
    assert_ok(ph_memory_record_sites(32));
    assert_ok(ph_malloc_pinned(&pinned, N, sizeof *pinned, world.stream));
    begin(&checked);
    assert_ok(ph_memcpy(y, pinned, BYTES, world.stream));
    end();
    assert_true(input(1).pinned);
    assert_int_not_equal(strlen(input(1).allocated_at), 0);
    ph_free_pinned(pinned, world.stream);
    assert_int_not_equal(strlen(input(1).freed_at), 0);
    t_log_start();
    assert_status(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT);
    t_log_stop();
    assert_ok(ph_memory_record_sites(0));
}

/* ---- misuse ---- */
TEST(misuse_is_refused)
{
    size_t inputs = 5;
    char *text;
    ph_input_info info;
    assert_error(ph_stream_declare_use(NULL, x, NULL), PH_ERROR_ARGUMENT,
                 "ph_stream_declare_use: stream");
    assert_error(ph_graph_input_count(NULL, graph), PH_ERROR_ARGUMENT, "ph_graph_input_count: out");
    assert_error(ph_graph_input_count(&inputs, NULL), PH_ERROR_ARGUMENT,
                 "ph_graph_input_count: graph");
    assert_int_equal(inputs, 0);
    assert_error(ph_graph_input(NULL, graph, 0), PH_ERROR_ARGUMENT, "ph_graph_input: out");
    assert_error(ph_graph_input(&info, NULL, 0), PH_ERROR_ARGUMENT, "ph_graph_input: graph");
    assert_error(ph_graph_input(&info, graph, 0), PH_ERROR_STATE,
                 "without a preceding successful capture");
    assert_error(ph_graph_unseen(NULL, graph), PH_ERROR_ARGUMENT, "ph_graph_unseen: text");
    assert_error(ph_graph_unseen(&text, NULL), PH_ERROR_ARGUMENT, "ph_graph_unseen: graph");
    assert_null(text);
    const ph_capture_options unchecked = {.check_foreign_every = 1};
    assert_error(ph_graph_capture_begin(graph, world.stream, &unchecked), PH_ERROR_ARGUMENT,
                 "set check_input_liveness too");
    assert_error(ph_memory_record_sites(33), PH_ERROR_ARGUMENT, "33 frames; at most 32");
    int32_t *gone = x;
    begin(&checked);
    assert_ok(t_fill(&world, world.stream, y, N, 1));
    ph_free(x, NULL);
    x = NULL;
    assert_error(ph_stream_declare_use(world.stream, gone, NULL), PH_ERROR_NOT_FOUND,
                 "ph_stream_declare_use: ");
    end();
    assert_int_equal(count(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(inputs_are_reported_with_node_word_and_state),
        IN_WORLD(inputs_of_any_graph_are_reported),
        IN_WORLD(test_order_after_a_node_was_set),
        IN_WORLD(inputs_of_a_nested_graph_are_the_outer_graphs_too),
        IN_WORLD(test_freed_before_the_end),
        IN_WORLD(test_freed_before_the_capture),
        IN_WORLD(test_end_of_an_allocation),
        IN_WORLD(test_only_those_concerned),
        IN_WORLD(a_refused_replay_names_every_dead_input),
        IN_WORLD(dead_inputs_are_logged_once_with_their_sites),
        IN_WORLD(test_sites_of_a_static_program),
        IN_WORLD(test_sites_asked_for_late),
        IN_WORLD(test_sites_of_slots),
        IN_WORLD(test_sites_of_pinned),
        IN_WORLD(misuse_is_refused),
    };
    return cmocka_run_group_tests_name("graph.inputs", tests, NULL, NULL);
}
