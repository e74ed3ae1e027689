/* SPDX-License-Identifier: MIT */
/* tests/graph/inputs_pool.c: inputs that lie in pools of the graph: what eager work allocated
 * there, what other captures were given there, and what is the graph's own and free to go. */
#include "inputs.h"
#include "support/test.h"

static ph_pool *pool;

static int open_pool(void **state)
{
    assert_int_equal(open_world(state), 0);
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    return 0;
}

static int close_pool(void **state)
{
    ph_pool_release(pool);
    return close_world(state);
}

/* Of the pool, by eager work. */
static int32_t *pool_new(void)
{
    int32_t *made;
    assert_ok(ph_pool_begin(pool));
    assert_ok(PH_NEW(&made, N, world.stream));
    assert_ok(ph_pool_end(pool));
    assert_ok(t_fill(&world, world.stream, made, N, 5));
    assert_ok(ph_stream_synchronize(world.stream));
    return made;
}

static void begin_in(ph_graph *into)
{
    const ph_capture_options options = {
        .pool = pool, .check_input_liveness = true, .check_foreign_every = 1};
    assert_ok(ph_graph_capture_begin(into, world.stream, &options));
}

static void replay(ph_graph *of)
{
    assert_ok(ph_graph_replay(of, world.stream));
}

static void expect_stale(ph_graph *of, const char *part)
{
    assert_error(ph_graph_replay(of, world.stream), PH_ERROR_STALE_INPUT, part);
}

/* ---- eager memory ---- */
TEST(test_of_the_captures_pool)
{
    int32_t *eager = pool_new();
    begin_in(graph);
    assert_ok(t_add(&world, world.stream, eager, y, N, 1));
    end();
    assert_int_equal(count(), 2);
    assert_ptr_equal(input(0).base, eager);
    replay(graph);
    t_all(y, N, 6, world.stream);
    ph_free(eager, world.stream);
    expect_stale(graph, "1 dead input: memory freed since the capture began");
    int32_t *other = pool_new(); /* in its place */
    expect_stale(graph, "node 0 (add_i32) x = 0x");
    ph_free(other, world.stream);
}

TEST(test_of_a_retained_pool)
{
    int32_t *eager = pool_new();
    begin(&checked);
    assert_ok(ph_graph_retain_pool(graph, pool));
    assert_ok(t_add(&world, world.stream, eager, y, N, 1));
    end();
    replay(graph);
    ph_free(eager, world.stream);
    expect_stale(graph, "node 0 (add_i32) x = 0x");
}

TEST(a_declared_use_of_pool_memory_is_an_input)
{
    int32_t *eager = pool_new();
    begin_in(graph);
    assert_ok(ph_stream_declare_use(world.stream, eager, "a table"));
    assert_ok(t_fill(&world, world.stream, y, N, 1));
    end();
    replay(graph);
    ph_free(eager, world.stream);
    expect_stale(graph, "a table");
}

TEST(pinned_pool_memory_is_an_input)
{
    int32_t *pinned;
    assert_ok(ph_pool_begin(pool));
    assert_ok(ph_malloc_pinned(&pinned, N, sizeof *pinned, world.stream));
    assert_ok(ph_pool_end(pool));
    begin_in(graph);
    assert_ok(t_add(&world, world.stream, pinned, y, N, 1));
    end();
    replay(graph);
    ph_free_pinned(pinned, world.stream);
    expect_stale(graph, "node 0 (add_i32) x = 0x");
}

TEST(held_pool_memory_stays_after_its_free)
{
    int32_t *eager = pool_new();
    begin_in(graph);
    assert_ok(t_add(&world, world.stream, eager, y, N, 1));
    end();
    assert_ok(ph_graph_hold_memory(graph, eager));
    assert_int_equal(count(), 1);
    ph_free(eager, world.stream);
    int32_t *other = pool_new();
    assert_ptr_not_equal(other, eager);
    replay(graph);
    t_all(y, N, 6, world.stream);
    ph_free(other, world.stream);
}

/* While the capture is open: what it needs is said where it is needed. */
TEST(test_held_in_the_capture)
{
    int32_t *eager = pool_new();
    begin_in(graph);
    assert_ok(ph_graph_hold_memory(graph, eager));
    assert_ok(t_add(&world, world.stream, eager, y, N, 1));
    ph_free(eager, world.stream);
    end();
    assert_int_equal(count(), 1);
    int32_t *other = pool_new();
    assert_ptr_not_equal(other, eager);
    replay(graph);
    t_all(y, N, 6, world.stream);
    ph_free(other, world.stream);
    assert_ok(ph_graph_reset(graph));
    eager = pool_new();
    begin_in(graph);
    assert_ok(ph_graph_hold_memory(graph, eager));
    ph_graph_capture_abort(graph);
    ph_free(eager, world.stream);
    other = pool_new();
    assert_ptr_equal(other, eager);
    ph_free(other, world.stream);
}

TEST(set_parameters_make_pool_memory_an_input)
{
    int32_t *eager = pool_new();
    const ph_launch_config config = t_config(N);
    const struct t_add_i32 args = {N, eager, y, 1};
    begin_in(graph);
    assert_ok(t_add(&world, world.stream, x, y, N, 1));
    end();
    assert_ok(ph_graph_node_set_launch(graph, 0, &config, &args, sizeof args));
    replay(graph);
    t_all(y, N, 6, world.stream);
    ph_free(eager, world.stream);
    expect_stale(graph, "node 0 (add_i32) x = 0x");
}

/* The first capture had scratch where the second one reads eager memory. */
TEST(an_update_makes_eager_pool_memory_an_input)
{
    ph_graph *from;
    int32_t *scratch;
    assert_ok(ph_graph_create(&from, NULL));
    begin_in(graph);
    assert_ok(PH_NEW(&scratch, N, world.stream));
    assert_ok(t_add(&world, world.stream, scratch, y, N, 1));
    ph_free(scratch, world.stream);
    end();
    int32_t *eager = pool_new();
    assert_ptr_equal(eager, scratch);
    begin_in(from);
    assert_ok(t_add(&world, world.stream, eager, y, N, 1));
    assert_ok(ph_graph_capture_end(from, PH_OK));
    assert_ok(ph_graph_update(graph, from, NULL));
    ph_graph_destroy(from);
    replay(graph);
    t_all(y, N, 6, world.stream);
    ph_free(eager, world.stream);
    expect_stale(graph, "node 0 (add_i32) x = 0x");
}

/* A library's workspace, say: nothing proves what the kernel does with it. */
TEST(an_unproved_word_into_dead_pool_memory_is_logged_once)
{
    ph_kernel *kernel;
    int32_t *workspace = pool_new();
    ph_kernel_source untyped = t_kernel_sources[T_KERNEL_COPY_FIRST];
    untyped.params = NULL;
    untyped.param_count = 0;
    assert_ok(ph_kernel_create(&kernel, world.device, &untyped));
    struct t_copy_first pair = {x, workspace};
    t_log_start();
    begin(&checked);
    assert_ok(ph_graph_retain_pool(graph, pool));
    assert_ok(ph_launch(world.stream, kernel, NULL, &pair, sizeof pair));
    end();
    for (int i = 0; i < 3; i++)
        replay(graph);
    assert_int_equal(t_log_count("looks like an address"), 0);
    assert_int_equal(t_log_count("dead input"), 0);
    ph_free(workspace, world.stream);
    for (int i = 0; i < 3; i++)
        replay(graph);
    assert_int_equal(t_log_count("looks like an address in memory that is gone"), 1);
    t_log_stop();
    ph_kernel_release(kernel);
}

/* ---- what other captures were given ---- */
static ph_graph *first;
static int32_t *between;

static void capture_chain(void)
{
    assert_ok(ph_graph_create(&first, NULL));
    begin_in(first);
    assert_ok(PH_NEW(&between, N, world.stream));
    assert_ok(t_add(&world, world.stream, x, between, N, 1));
    assert_ok(ph_graph_capture_end(first, PH_OK));
    begin_in(graph);
    assert_ok(t_add(&world, world.stream, between, y, N, 1));
}

TEST(an_output_of_another_graph_is_an_input_until_freed)
{
    t_log_start();
    capture_chain();
    end();
    for (int i = 0; i < 2; i++) {
        replay(first);
        replay(graph);
    }
    t_all(y, N, 3, world.stream);
    assert_ok(ph_graph_check_inputs(graph));
    assert_int_equal(t_log_count("address"), 0);
    assert_int_equal(t_log_count("dead input"), 0);
    t_log_stop();
    ph_free(between, world.stream);
    replay(first); /* its own */
    expect_stale(graph, "node 0 (add_i32) x = 0x");
    ph_graph_destroy(first);
}

TEST(test_chained_and_held)
{
    capture_chain();
    end();
    assert_ok(ph_graph_hold_memory(graph, between));
    ph_free(between, world.stream);
    int32_t *other = pool_new();
    assert_ptr_not_equal(other, between);
    replay(first);
    replay(graph);
    t_all(y, N, 3, world.stream);
    ph_free(other, world.stream);
    ph_graph_destroy(first);
}

/* The first graph goes, and its output stays. */
TEST(test_chained_and_left)
{
    capture_chain();
    end();
    replay(first);
    ph_graph_destroy(first);
    replay(graph);
    t_all(y, N, 3, world.stream);
    ph_free(between, world.stream);
    expect_stale(graph, "node 0 (add_i32) x = 0x");
}

TEST(test_chained_and_freed_in_the_capture)
{
    capture_chain();
    ph_free(between, world.stream);
    t_log_start();
    end();
    assert_int_equal(t_log_count("replays will be refused, 1 dead input"), 1);
    t_log_stop();
    expect_stale(graph, "not allocated when the capture ended");
    ph_graph_destroy(first);
}

/* ---- the graph's own ---- */
TEST(memory_of_the_graph_itself_is_no_input)
{
    int32_t *temporary, *output;
    t_log_start();
    begin_in(graph);
    assert_ok(PH_NEW(&temporary, N, world.stream));
    assert_ok(PH_NEW(&output, N, world.stream));
    assert_ok(ph_stream_declare_use(world.stream, temporary, "temporary"));
    assert_ok(t_add(&world, world.stream, x, temporary, N, 1));
    assert_ok(t_add(&world, world.stream, temporary, output, N, 1));
    /* The ends of both are legal parameters. */
    assert_ok(t_add(&world, world.stream, temporary + N, output + N, 0, 1));
    assert_ok(ph_memcpy(y, output, BYTES, world.stream));
    ph_free(temporary, world.stream);
    end();
    assert_int_equal(count(), 2); /* x and y */
    ph_free(output, world.stream);
    int32_t *other = pool_new();
    for (int i = 0; i < 2; i++)
        replay(graph);
    t_all(y, N, 3, world.stream);
    assert_ok(ph_graph_check_inputs(graph));
    assert_int_equal(t_log_count("dead input"), 0);
    assert_int_equal(t_log_count("address"), 0);
    t_log_stop();
    ph_free(other, world.stream);
}

TEST(test_own_pinned)
{
    int32_t *copied, *read;
    begin_in(graph);
    assert_ok(ph_malloc_pinned(&copied, N, sizeof *copied, world.stream));
    assert_ok(ph_malloc_pinned(&read, N, sizeof *read, world.stream));
    for (int i = 0; i < N; i++) {
        copied[i] = 4;
        read[i] = 7;
    }
    assert_ok(ph_memcpy(x, copied, BYTES, world.stream));
    assert_ok(t_add(&world, world.stream, read, y, N, 1));
    ph_free_pinned(copied, world.stream);
    ph_free_pinned(read, world.stream);
    end();
    assert_int_equal(count(), 2);
    replay(graph);
    t_all(x, N, 4, world.stream);
    t_all(y, N, 8, world.stream);
}

TEST(test_own_of_a_nested_graph)
{
    ph_graph *inner;
    int32_t *temporary, *eager = pool_new();
    assert_ok(ph_graph_create(&inner, NULL));
    begin_in(inner);
    assert_ok(PH_NEW(&temporary, N, world.stream));
    assert_ok(t_add(&world, world.stream, eager, temporary, N, 1));
    assert_ok(t_add(&world, world.stream, temporary, y, N, 1));
    ph_free(temporary, world.stream);
    assert_ok(ph_graph_capture_end(inner, PH_OK));
    begin(&checked);
    assert_ok(ph_graph_replay(inner, world.stream));
    end();
    ph_graph_destroy(inner);
    assert_int_equal(count(), 2); /* eager and y */
    replay(graph);
    t_all(y, N, 7, world.stream);
    ph_free(eager, world.stream);
    expect_stale(graph, "(graph: add_i32) x = 0x");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_pool, close_pool)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_of_the_captures_pool),
        CASE(test_of_a_retained_pool),
        CASE(a_declared_use_of_pool_memory_is_an_input),
        CASE(pinned_pool_memory_is_an_input),
        CASE(held_pool_memory_stays_after_its_free),
        CASE(test_held_in_the_capture),
        CASE(set_parameters_make_pool_memory_an_input),
        CASE(an_update_makes_eager_pool_memory_an_input),
        CASE(an_unproved_word_into_dead_pool_memory_is_logged_once),
        CASE(an_output_of_another_graph_is_an_input_until_freed),
        CASE(test_chained_and_held),
        CASE(test_chained_and_left),
        CASE(test_chained_and_freed_in_the_capture),
        CASE(memory_of_the_graph_itself_is_no_input),
        CASE(test_own_pinned),
        CASE(test_own_of_a_nested_graph),
    };
    return cmocka_run_group_tests_name("graph.inputs_pool", tests, NULL, NULL);
}
