/* SPDX-License-Identifier: MIT */
/* tests/graph/child.c: a replay on a capturing stream: a node of that capture, which keeps all
 * that its replays need. */
#include "support/fault.h"
#include "support/fixture.h"
#include "support/support.h"

#include "base/alloc.h"
#include "base/sync.h"
#include "device/handles/device.h"
#include <string.h>

enum {
    N = 1000
};
static t_world world;
static ph_graph *inner, *outer;
static int32_t *x, *y, *scratch;

static const t_fixture fixture = {.world = &world,
                                  .graphs = {&inner, &outer},
                                  .arrays = {{&x, N, T_INTS, 0}, {&y, N, T_INTS, 0}}};

FIXTURE(open_world)
{
    t_fixture_open(&fixture);
    scratch = NULL;
    return 0;
}

FIXTURE(close_world)
{
    t_fixture_close(&fixture);
    return 0;
}

/* x += 2, by way of memory of the graph's own. */
static ph_status twice(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(PH_NEW(&scratch, N, stream));
    PH_TRY(t_add(&world, stream, x, scratch, N, 1));
    PH_TRY(t_add(&world, stream, scratch, x, N, 1));
    ph_free(scratch, stream);
    return PH_OK;
}

static ph_status replay_it(ph_stream *stream, void *user)
{
    return ph_graph_replay(user, stream);
}

/* y = x + 10 behind the replay. */
static ph_status around(ph_stream *stream, void *user)
{
    PH_TRY(t_add(&world, stream, x, x, N, 1));
    PH_TRY(ph_graph_replay(user, stream));
    return t_add(&world, stream, x, y, N, 10);
}

static size_t pool_count(ph_graph *graph)
{
    size_t count;
    assert_ok(ph_graph_pools(NULL, 0, &count, graph));
    return count;
}

static const ph_record *record_of(ph_graph *graph)
{
    const ph_record *record;
    assert_ok(ph_graph_record(&record, graph));
    return record;
}

static ph_node_info node_of(const ph_record *record, size_t node)
{
    ph_node_info info;
    assert_ok(ph_record_node(&info, record, node));
    return info;
}

/* ---- what it does ---- */
TEST(test_values_and_order)
{
    assert_ok(ph_graph_capture(inner, world.stream, NULL, twice, NULL));
    assert_ok(ph_graph_capture(outer, world.stream, NULL, around, inner));
    t_all(x, N, 0, world.stream); /* nothing ran */
    for (int i = 1; i <= 3; i++) {
        assert_ok(ph_graph_replay(outer, world.stream));
        t_all(x, N, 3 * i, world.stream);
        t_all(y, N, 3 * i + 10, world.stream);
    }
    assert_ok(ph_graph_replay(inner, world.stream));
    t_all(x, N, 11, world.stream);
}

TEST(test_record_has_the_body)
{
    char *text;
    ph_word word;
    assert_ok(ph_graph_capture(inner, world.stream, NULL, twice, NULL));
    assert_ok(ph_graph_capture(outer, world.stream, NULL, around, inner));
    const ph_record *record = record_of(outer);
    assert_int_equal(ph_record_node_count(record), 3);
    ph_node_info child = node_of(record, 1);
    assert_int_equal(child.kind, PH_NODE_GRAPH);
    assert_string_equal(child.name, "graph");
    assert_int_equal(child.dependency_count, 1);
    assert_int_equal(ph_record_dependencies(record, 1)[0], 0);
    assert_int_equal(ph_record_dependencies(record, 2)[0], 1);
    assert_non_null(child.body);
    assert_int_equal(ph_record_node_count(child.body), 2);
    assert_string_equal(node_of(child.body, 0).name, "add_i32");
    assert_ok(ph_record_word(&word, child.body, 0, 1)); /* x */
    assert_int_equal(word.kind, PH_WORD_PROVED);
    assert_int_equal(word.value, (uintptr_t)x);
    assert_false(word.internal);
    assert_ok(ph_record_word(&word, child.body, 0, 2)); /* the inner graph's own memory */
    assert_int_equal(word.value, (uintptr_t)scratch);
    assert_true(word.internal);
    assert_ok(ph_record_json(&text, record));
    assert_non_null(strstr(text, "\"body\":{\"format\":\"phonograph.record\""));
    ph_string_free(text);
    assert_ok(ph_record_dot(&text, record, true));
    assert_non_null(strstr(text, "subgraph cluster_n1"));
    ph_string_free(text);
}

TEST(test_again_and_again)
{
    assert_ok(ph_graph_capture(inner, world.stream, NULL, twice, NULL));
    assert_ok(ph_graph_capture_begin(outer, world.stream, NULL));
    for (int i = 0; i < 20; i++)
        assert_ok(ph_graph_replay(inner, world.stream));
    assert_ok(ph_graph_capture_end(outer, PH_OK));
    assert_int_equal(ph_record_node_count(record_of(outer)), 20);
    assert_int_equal(pool_count(outer), 2);
    assert_ok(ph_graph_replay(outer, world.stream));
    t_all(x, N, 40, world.stream);
}

TEST(test_nested_twice)
{
    ph_graph *top;
    assert_ok(ph_graph_create(&top, NULL));
    assert_ok(ph_graph_capture(inner, world.stream, NULL, twice, NULL));
    assert_ok(ph_graph_capture(outer, world.stream, NULL, around, inner));
    assert_ok(ph_graph_capture(top, world.stream, NULL, around, outer));
    assert_int_equal(pool_count(top), 3);
    const ph_record *middle = node_of(record_of(top), 1).body;
    assert_non_null(middle);
    const ph_record *leaf = node_of(middle, 1).body;
    assert_non_null(leaf);
    ph_word word;
    assert_ok(ph_record_word(&word, leaf, 1, 1));
    assert_true(word.internal);
    ph_graph_destroy(inner);
    ph_graph_destroy(outer);
    inner = outer = NULL;
    assert_ok(ph_graph_replay(top, world.stream));
    t_all(x, N, 4, world.stream);
    t_all(y, N, 14, world.stream);
    ph_graph_destroy(top);
}

TEST(test_on_a_forked_stream)
{
    ph_stream *side;
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(ph_graph_capture(inner, world.stream, NULL, twice, NULL));
    assert_ok(ph_graph_capture_begin(outer, world.stream, NULL));
    assert_ok(t_fill(&world, world.stream, x, N, 7));
    assert_ok(ph_stream_wait_stream(side, world.stream));
    assert_ok(ph_graph_replay(inner, side));
    assert_ok(ph_stream_wait_stream(world.stream, side));
    assert_ok(t_add(&world, world.stream, x, y, N, 1));
    assert_ok(ph_graph_capture_end(outer, PH_OK));
    assert_ok(ph_graph_replay(outer, world.stream));
    t_all(y, N, 10, world.stream);
    ph_stream_destroy(side);
}

static ph_status nothing_of_it(const ph_graph_hook_info *info, void *user)
{
    (void)info;
    ++*(int *)user;
    return PH_OK;
}

TEST(test_no_hook_and_no_epoch)
{
    ph_hook *start, *end;
    int calls = 0;
    assert_ok(ph_graph_capture(inner, world.stream, NULL, twice, NULL));
    assert_ok(ph_graph_hook_add(&start, inner, PH_HOOK_REPLAY_START, nothing_of_it, &calls));
    assert_ok(ph_graph_hook_add(&end, inner, PH_HOOK_REPLAY_END, nothing_of_it, &calls));
    assert_ok(ph_graph_capture(outer, world.stream, NULL, replay_it, inner));
    assert_ok(ph_graph_replay(outer, world.stream));
    assert_int_equal(calls, 0);
    assert_int_equal(ph_graph_epoch(inner), 0);
    ph_graph_hook_remove(start);
    ph_graph_hook_remove(end);
}

/* The copy is of the template: what was changed in the executable is not in it. */
TEST(test_copy_of_the_template)
{
    struct t_add_i32 args = {N, x, NULL, 100};
    ph_launch_config config = t_config(N);
    assert_ok(ph_graph_capture(inner, world.stream, NULL, twice, NULL));
    args.y = scratch;
    assert_ok(ph_graph_node_set_launch(inner, 0, &config, &args, sizeof args));
    assert_ok(ph_graph_capture(outer, world.stream, NULL, replay_it, inner));
    assert_ok(ph_graph_replay(outer, world.stream));
    t_all(x, N, 2, world.stream);
    assert_ok(ph_graph_replay(inner, world.stream));
    t_all(x, N, 103, world.stream);
}

/* ---- what it keeps ---- */
TEST(test_outlives_the_inner_graph)
{
    int32_t *others[64];
    assert_ok(ph_graph_capture(inner, world.stream, NULL, twice, NULL));
    assert_ok(ph_graph_capture_begin(outer, world.stream, NULL));
    assert_ok(ph_graph_replay(inner, world.stream));
    assert_ok(ph_graph_reset(inner)); /* the capture is still open */
    assert_ok(ph_graph_capture_end(outer, PH_OK));
    assert_ok(ph_memory_trim(world.device));
    ph_kernel_release(world.add_i32);
    world.add_i32 = NULL;
    for (int i = 0; i < 64; i++) {
        assert_ok(PH_NEW(&others[i], N, world.stream));
        assert_ok(t_fill(&world, world.stream, others[i], N, i));
    }
    assert_ok(ph_graph_replay(outer, world.stream));
    t_all(x, N, 2, world.stream);
    for (int i = 0; i < 64; i++) {
        t_all(others[i], N, i, world.stream);
        ph_free(others[i], world.stream);
    }
}

TEST(test_pools_are_given_back)
{
    ph_pool *pool;
    assert_ok(ph_graph_capture(inner, world.stream, NULL, twice, NULL));
    assert_ok(ph_graph_pool(&pool, inner));
    size_t before = ph_pool_use_count(pool);
    assert_ok(ph_graph_capture_begin(outer, world.stream, NULL));
    assert_ok(ph_graph_replay(inner, world.stream));
    assert_true(ph_pool_use_count(pool) > before);
    ph_graph_capture_abort(outer);
    assert_int_equal(ph_pool_use_count(pool), before);
    assert_ok(ph_graph_capture_begin(outer, world.stream, NULL));
    assert_ok(ph_graph_replay(inner, world.stream));
    assert_error(ph_graph_capture_end(outer, ph_fail(PH_ERROR_CALLER, "no more")), PH_ERROR_CALLER,
                 "no more");
    assert_int_equal(ph_pool_use_count(pool), before);
    assert_ok(ph_graph_reset(outer));
    assert_ok(ph_graph_capture(outer, world.stream, NULL, replay_it, inner));
    assert_true(ph_pool_use_count(pool) == before + 1);
    assert_ok(ph_graph_reset(outer));
    assert_int_equal(ph_pool_use_count(pool), before);
}

/* One pool for both: it is held once. */
TEST(test_in_one_pool)
{
    ph_pool *pool;
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    ph_capture_options options = {.pool = pool};
    assert_ok(ph_graph_capture(inner, world.stream, &options, twice, NULL));
    assert_ok(ph_graph_capture(outer, world.stream, &options, around, inner));
    assert_int_equal(pool_count(outer), 1);
    assert_ok(ph_graph_replay(outer, world.stream));
    t_all(y, N, 13, world.stream);
    ph_pool_release(pool);
}

TEST(test_replays_are_ordered)
{
    ph_stream *other;
    t_gate gate = {0};
    assert_ok(ph_stream_create(&other, world.device, NULL));
    assert_ok(ph_graph_capture(inner, world.stream, NULL, twice, NULL));
    assert_ok(ph_graph_capture(outer, world.stream, NULL, around, inner));
    assert_ok(t_gate_wait_guarded(&gate, world.stream));
    assert_ok(ph_graph_replay(outer, world.stream));
    assert_ok(ph_graph_replay(inner, other)); /* the same scratch memory */
    assert_ok(ph_stream_wait_stream(world.stream, other));
    t_gate_open(&gate);
    t_all(x, N, 5, world.stream);
    ph_stream_destroy(other);
}

TEST(a_replay_of_parent_or_child_overwrites_outputs_of_both)
{
    assert_ok(ph_graph_capture(inner, world.stream, NULL, twice, NULL));
    assert_ok(ph_graph_capture(outer, world.stream, NULL, around, inner));
    assert_ok(ph_graph_replay(inner, world.stream));
    uint64_t epoch = ph_graph_epoch(inner);
    assert_ok(ph_graph_check_output(inner, scratch, epoch));
    assert_ok(ph_graph_replay(outer, world.stream));
    assert_error(ph_graph_check_output(inner, scratch, epoch), PH_ERROR_OVERWRITTEN,
                 "a replay of graph");
    assert_ok(ph_graph_check_output(outer, scratch, ph_graph_epoch(outer)));
    assert_ok(ph_graph_replay(inner, world.stream));
    assert_status(ph_graph_check_output(outer, scratch, ph_graph_epoch(outer)),
                  PH_ERROR_OVERWRITTEN);
}

/* ---- inputs ---- */
static int32_t *input;
static ph_status read_input(ph_stream *stream, void *user)
{
    (void)user;
    return t_add(&world, stream, input, x, N, 1);
}

TEST(test_inputs_of_the_body)
{
    ph_capture_options checking = {.check_input_liveness = true};
    assert_ok(PH_NEW(&input, N, world.stream));
    assert_ok(t_fill(&world, world.stream, input, N, 4));
    assert_ok(ph_graph_capture(inner, world.stream, NULL, read_input, NULL));
    assert_ok(ph_graph_capture(outer, world.stream, &checking, around, inner));
    assert_ok(ph_graph_replay(outer, world.stream));
    t_all(y, N, 15, world.stream);
    ph_free(input, world.stream);
    assert_error(ph_graph_replay(outer, world.stream), PH_ERROR_STALE_INPUT,
                 "node 1 (graph: add_i32) x");
    assert_status(ph_graph_check_inputs(outer), PH_ERROR_STALE_INPUT);
}

TEST(test_dead_input_of_the_inner_graph)
{
    ph_capture_options checking = {.check_input_liveness = true};
    assert_ok(PH_NEW(&input, N, world.stream));
    assert_ok(ph_graph_capture(inner, world.stream, &checking, read_input, NULL));
    ph_free(input, world.stream);
    assert_ok(ph_graph_capture_begin(outer, world.stream, NULL));
    assert_status(ph_graph_replay(inner, world.stream), PH_ERROR_STALE_INPUT);
    assert_ok(t_add(&world, world.stream, x, x, N, 1));
    assert_ok(ph_graph_capture_end(outer, PH_OK)); /* which went on */
    assert_int_equal(ph_record_node_count(record_of(outer)), 1);
}

/* Memory of the graph's own is no input, at whatever depth, also when it is freed. */
TEST(test_own_memory_is_no_input)
{
    ph_capture_options checking = {.check_input_liveness = true};
    assert_ok(ph_graph_capture(inner, world.stream, NULL, twice, NULL));
    assert_ok(ph_graph_capture(outer, world.stream, &checking, around, inner));
    assert_ok(ph_graph_reset(inner));
    assert_ok(ph_graph_replay(outer, world.stream));
    assert_ok(ph_graph_check_inputs(outer));
}

/* ---- refusals ---- */
static ph_status failing(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    return ph_fail(PH_ERROR_CALLER, "words of the inner graph");
}

TEST(a_capture_nests_captured_graphs_alone)
{
    ph_graph *kept;
    ph_graph_options keep = {.keep_graph = true};
    assert_ok(ph_graph_create(&kept, &keep));
    assert_ok(ph_graph_capture(kept, world.stream, NULL, twice, NULL));
    assert_ok(ph_graph_capture_begin(outer, world.stream, NULL));
    assert_error(ph_graph_replay(inner, world.stream), PH_ERROR_STATE, "(NEW)");
    assert_error(ph_graph_replay(outer, world.stream), PH_ERROR_STATE, "(CAPTURING)");
    assert_ok(ph_graph_replay(kept, world.stream));
    /* a template is all that it takes */
    assert_int_equal(ph_graph_get_state(kept), PH_GRAPH_ENDED);
    assert_ok(ph_graph_capture_end(outer, PH_OK));
    assert_status(ph_graph_capture(inner, world.stream, NULL, failing, NULL), PH_ERROR_CALLER);
    assert_ok(ph_graph_reset(outer));
    assert_ok(ph_graph_capture_begin(outer, world.stream, NULL));
    assert_error(ph_graph_replay(inner, world.stream), PH_ERROR_CALLER, "words of the inner graph");
    assert_ok(ph_graph_replay(kept, world.stream));
    assert_ok(ph_graph_capture_end(outer, PH_OK));
    assert_int_equal(ph_record_node_count(record_of(outer)), 1);
    ph_graph_destroy(kept);
}

TEST(test_another_device)
{
    t_world other;
    t_open(&other, NULL);
    assert_ok(ph_graph_capture(inner, world.stream, NULL, twice, NULL));
    assert_ok(ph_graph_capture_begin(outer, other.stream, NULL));
    assert_status(ph_graph_replay(inner, other.stream), PH_ERROR_WRONG_DEVICE);
    ph_graph_capture_abort(outer);
    t_close(&other);
}

/* Every driver call on the way fails once: the capture keeps nothing of it, and goes on. */
TEST(test_failing_driver)
{
    ph_pool *pool;
    assert_ok(ph_graph_capture(inner, world.stream, NULL, twice, NULL));
    assert_ok(ph_graph_pool(&pool, inner));
    size_t before = ph_pool_use_count(pool);
    bool failed = true;
    for (int64_t n = 0; failed; n++) {
        assert_ok(ph_graph_capture_begin(outer, world.stream, NULL));
        ph__driver_fail_after(n, 999);
        ph_status status = ph_graph_replay(inner, world.stream);
        ph__driver_fail_after(-1, 0);
        failed = status != PH_OK;
        assert_true(!failed || status == PH_ERROR_DEVICE);
        assert_int_equal(ph_pool_use_count(pool), before + (failed ? 0 : 1));
        assert_ok(t_add(&world, world.stream, x, x, N, 1));
        assert_ok(ph_graph_capture_end(outer, PH_OK));
        assert_int_equal(pool_count(outer), failed ? 1 : 2);
        assert_ok(ph_graph_reset(outer));
        assert_true(n < 20);
    }
}

TEST(test_failing_host_memory)
{
    ph_pool *pool;
    assert_ok(ph_graph_capture(inner, world.stream, NULL, twice, NULL));
    assert_ok(ph_graph_pool(&pool, inner));
    size_t before = ph_pool_use_count(pool);
    for (int64_t n = 0; n < 200; n++) {
        ph__alloc_fail_after(n);
        ph_status status = ph_graph_capture(outer, world.stream, NULL, around, inner);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status == PH_OK)
            break;
        assert_int_equal(status, PH_ERROR_HOST_MEMORY);
        assert_int_equal(ph_pool_use_count(pool), before);
        assert_ok(ph_graph_reset(outer));
    }
    assert_int_equal(ph_graph_get_state(outer), PH_GRAPH_READY);
    assert_ok(ph_graph_replay(outer, world.stream));
    t_all(y, N, 13, world.stream);
}

/* ---- threads ---- */
typedef struct branch {
    ph_graph *graph;
    ph_stream *stream;
    ph_status status;
} branch;

static void *replay_often(void *argument)
{
    branch *b = argument;
    for (int i = 0; i < 50 && b->status == PH_OK; i++)
        b->status = ph_graph_replay(b->graph, b->stream);
    return NULL;
}

static ph_status add_to_y(ph_stream *stream, void *user)
{
    (void)user;
    return t_add(&world, stream, y, y, N, 1);
}

TEST(test_two_threads_into_one_capture)
{
    ph_graph *second;
    ph_stream *side;
    pthread_t thread;
    ph_capture_options relaxed = {.mode = PH_CAPTURE_RELAXED};
    assert_ok(ph_graph_create(&second, NULL));
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(ph_graph_capture(inner, world.stream, NULL, twice, NULL));
    assert_ok(ph_graph_capture(second, world.stream, NULL, add_to_y, NULL));
    assert_ok(ph_graph_capture_begin(outer, world.stream, &relaxed));
    assert_ok(t_add(&world, world.stream, x, x, N, 1));
    assert_ok(ph_stream_wait_stream(side, world.stream));
    branch branches[2] = {{inner, world.stream, PH_OK}, {second, side, PH_OK}};
    assert_true(ph__thread_start(&thread, "brancher", replay_often, &branches[1]));
    replay_often(&branches[0]);
    pthread_join(thread, NULL);
    assert_int_equal(branches[0].status, PH_OK);
    assert_int_equal(branches[1].status, PH_OK);
    assert_ok(ph_stream_wait_stream(world.stream, side));
    assert_ok(ph_graph_capture_end(outer, PH_OK));
    assert_int_equal(pool_count(outer), 3);
    ph_graph_destroy(second);
    assert_ok(ph_graph_replay(outer, world.stream));
    t_all(x, N, 101, world.stream);
    t_all(y, N, 50, world.stream);
    ph_stream_destroy(side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_values_and_order),
        IN_WORLD(test_record_has_the_body),
        IN_WORLD(test_again_and_again),
        IN_WORLD(test_nested_twice),
        IN_WORLD(test_on_a_forked_stream),
        IN_WORLD(test_no_hook_and_no_epoch),
        IN_WORLD(test_copy_of_the_template),
        IN_WORLD(test_outlives_the_inner_graph),
        IN_WORLD(test_pools_are_given_back),
        IN_WORLD(test_in_one_pool),
        IN_WORLD(test_replays_are_ordered),
        IN_WORLD(a_replay_of_parent_or_child_overwrites_outputs_of_both),
        IN_WORLD(test_inputs_of_the_body),
        IN_WORLD(test_dead_input_of_the_inner_graph),
        IN_WORLD(test_own_memory_is_no_input),
        IN_WORLD(a_capture_nests_captured_graphs_alone),
        IN_WORLD(test_another_device),
        IN_WORLD(test_failing_driver),
        IN_WORLD(test_failing_host_memory),
        IN_WORLD(test_two_threads_into_one_capture),
    };
    return cmocka_run_group_tests_name("graph.child", tests, NULL, NULL);
}
