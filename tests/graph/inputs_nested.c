/* SPDX-License-Identifier: MIT */
/* tests/graph/inputs_nested.c: a capture that checks its inputs nests a graph whose inputs die,
 * before and after that. */
#include "inputs.h"
#include "support/test.h"

#include <pthread.h>
#include <string.h>

static const ph_capture_options unchecked = {.check_input_liveness = false};

/* Adds 1 to `from`. */
static ph_graph *capture_add(const ph_capture_options *options, const int32_t *from, int32_t *to)
{
    ph_graph *made;
    assert_ok(ph_graph_create(&made, NULL));
    assert_ok(ph_graph_capture_begin(made, world.stream, options));
    assert_ok(t_add(&world, world.stream, from, to, N, 1));
    assert_ok(ph_graph_capture_end(made, PH_OK));
    return made;
}

/* Somebody else is given the memory. */
static void lose_x(void)
{
    int32_t *before = x;
    ph_free(x, world.stream);
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ptr_equal(x, before);
}

TEST(a_graph_whose_input_died_is_refused_where_the_capture_checks)
{
    ph_graph *inner = capture_add(&unchecked, x, y);
    lose_x();
    begin(&checked);
    assert_error(ph_graph_replay(inner, world.stream), PH_ERROR_STALE_INPUT,
                 "ph_graph_replay: refused, 1 dead input: ");
    assert_non_null(strstr(ph_error_last()->message, "node 0 (add_i32) x = 0x"));
    assert_ok(t_add(&world, world.stream, x, y, N, 2)); /* the capture goes on */
    end();
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_reset(graph));
    begin(&unchecked);
    assert_ok(ph_graph_replay(inner, world.stream));
    end();
    ph_graph_destroy(inner);
}

static ph_stream *beside;

/* On a thread and a stream that have no part in the capture: memory that is freed there is used
 * again at once. */
static void *renew(void *memory)
{
    int32_t **at = memory;
    if (*at)
        ph_free(*at, beside);
    return PH_NEW(at, N, beside) == PH_OK ? at : NULL;
}

static void renew_elsewhere(int32_t **at)
{
    pthread_t thread;
    void *done;
    assert_int_equal(pthread_create(&thread, NULL, renew, at), 0);
    assert_int_equal(pthread_join(thread, &done), 0);
    assert_ptr_equal(done, at);
}

TEST(an_input_that_dies_between_the_nesting_and_the_end_is_remembered)
{
    int32_t *other = NULL, *before;
    assert_ok(ph_stream_create(&beside, world.device, NULL));
    renew_elsewhere(&other);
    before = other;
    ph_graph *inner = capture_add(&unchecked, other, y);
    begin(&checked);
    assert_ok(ph_graph_replay(inner, world.stream));
    renew_elsewhere(&other);
    assert_ptr_equal(other, before);
    end();
    ph_graph_destroy(inner);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
                 "ph_graph_replay: add_i32 x = 0x");
    ph_free(other, beside);
    ph_stream_destroy(beside);
}

TEST(memory_that_nested_graphs_write_is_no_input)
{
    int32_t *between;
    ph_graph *first, *second;
    ph_pool *pool;
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    assert_ok(ph_graph_create(&first, NULL));
    assert_ok(ph_graph_capture_begin(first, world.stream, &(ph_capture_options){.pool = pool}));
    assert_ok(PH_NEW(&between, N, world.stream));
    assert_ok(t_add(&world, world.stream, x, between, N, 1));
    assert_ok(ph_graph_capture_end(first, PH_OK));
    second = capture_add(&(ph_capture_options){.pool = pool}, between, y);
    ph_free(between, world.stream);
    begin(&checked);
    assert_status(ph_graph_replay(second, world.stream), PH_ERROR_STALE_INPUT);
    assert_ok(ph_graph_replay(first, world.stream));
    assert_ok(ph_graph_replay(second, world.stream));
    end();
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 3, world.stream);
    ph_graph_destroy(first);
    ph_graph_destroy(second);
    ph_pool_release(pool);
}

TEST(memory_that_the_capture_holds_may_have_been_freed)
{
    ph_graph *inner = capture_add(&unchecked, x, y);
    begin(&checked);
    assert_ok(ph_graph_hold_memory(graph, x));
    ph_free(x, world.stream);
    x = NULL;
    assert_ok(ph_graph_replay(inner, world.stream));
    end();
    ph_graph_destroy(inner);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 2, world.stream);
}

static void read_from(ph_graph *inner, int32_t *from)
{
    ph_launch_config config = t_config(N);
    struct t_add_i32 args;
    const ph_record *record;
    ph_node_info node;
    assert_ok(ph_graph_record(&record, inner));
    assert_ok(ph_record_node(&node, record, 0));
    memcpy(&args, node.args, sizeof args);
    args.x = from;
    assert_ok(ph_graph_node_set_launch(inner, 0, &config, &args, sizeof args));
}

/* It belongs to the graph of the capture, freed or not. */
TEST(memory_that_was_allocated_while_the_capture_is_open_is_no_input)
{
    ph_stream *second;
    ph_graph *inner;
    int32_t *born;
    assert_ok(ph_stream_create(&second, world.device, NULL));
    assert_ok(ph_graph_create(&inner, NULL));
    begin(&checked);
    assert_ok(PH_NEW(&born, N, second));
    assert_ok(ph_graph_capture_begin(inner, second, &unchecked));
    assert_ok(t_add(&world, second, born, y, N, 1));
    assert_ok(ph_graph_capture_end(inner, PH_OK));
    ph_free(born, second);
    assert_ok(ph_graph_replay(inner, world.stream));
    end();
    assert_ok(ph_graph_check_inputs(graph));
    assert_ok(ph_graph_replay(graph, world.stream));
    ph_graph_destroy(inner);
    ph_stream_destroy(second);
}

TEST(nodes_that_were_set_count_as_they_were_captured)
{
    int32_t *other;
    ph_graph *inner = capture_add(&unchecked, x, y);
    assert_ok(PH_NEW(&other, N, world.stream));
    read_from(inner, other);
    ph_free(other, world.stream);
    assert_status(ph_graph_check_inputs(inner), PH_ERROR_STALE_INPUT);
    begin(&checked);
    assert_ok(ph_graph_replay(inner, world.stream)); /* reads x */
    end();
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 2, world.stream);
    assert_ok(ph_graph_reset(graph));
    read_from(inner, y);
    lose_x();
    assert_ok(ph_graph_check_inputs(inner));
    begin(&checked);
    assert_status(ph_graph_replay(inner, world.stream), PH_ERROR_STALE_INPUT);
    assert_ok(t_fill(&world, world.stream, y, N, 7));
    end();
    ph_graph_destroy(inner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_graph_whose_input_died_is_refused_where_the_capture_checks),
        IN_WORLD(an_input_that_dies_between_the_nesting_and_the_end_is_remembered),
        IN_WORLD(memory_that_nested_graphs_write_is_no_input),
        IN_WORLD(memory_that_the_capture_holds_may_have_been_freed),
        IN_WORLD(memory_that_was_allocated_while_the_capture_is_open_is_no_input),
        IN_WORLD(nodes_that_were_set_count_as_they_were_captured),
    };
    return cmocka_run_group_tests_name("graph.inputs_nested", tests, NULL, NULL);
}
