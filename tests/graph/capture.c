/* SPDX-License-Identifier: MIT */
/* tests/graph/capture.c: capturing by function, by begin and end, by block; and that a capture is a
 * transaction. */
#include "support/fixture.h"

#include "base/sync.h"
#include <phonograph/block.h>
#include <stdio.h>
#include <string.h>

enum {
    N = 1000
};
static t_world world;
static ph_graph *graph;
static int32_t *x;

WORLD(world, .graphs = {&graph}, .arrays = {{&x, N, T_INTS, 1}});

static ph_status add_one(ph_stream *stream, void *user)
{
    (void)user;
    return t_add(&world, stream, x, x, N, 1);
}

/* The stream works, captures again, and the graph replays. */
static void assert_usable(void)
{
    assert_false(ph_stream_is_capturing(world.stream));
    assert_ok(ph_graph_reset(graph));
    assert_ok(t_fill(&world, world.stream, x, N, 1));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 2, world.stream);
}

/* ---- whose capture it is ---- */
TEST(test_the_graph_of_a_stream)
{
    ph_stream *fork;
    ph_graph *seen = graph;
    assert_ok(ph_stream_create(&fork, world.device, NULL));
    assert_ok(ph_stream_capturing_graph(&seen, world.stream));
    assert_null(seen);
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_stream_wait_stream(fork, world.stream));
    assert_ok(ph_stream_capturing_graph(&seen, world.stream));
    assert_ptr_equal(seen, graph);
    assert_ok(ph_stream_capturing_graph(&seen, fork));
    assert_ptr_equal(seen, graph);
    assert_ok(ph_stream_capturing_graph(&seen, ph_device_default_stream(world.device)));
    assert_null(seen);
    assert_error(ph_stream_capturing_graph(NULL, world.stream), PH_ERROR_ARGUMENT, "out");
    seen = graph;
    assert_status(ph_stream_capturing_graph(&seen, NULL), PH_ERROR_ARGUMENT);
    assert_null(seen);
    assert_ok(add_one(world.stream, NULL));
    assert_ok(ph_stream_wait_stream(world.stream, fork));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_stream_capturing_graph(&seen, fork));
    assert_null(seen);
    ph_stream_destroy(fork);
    assert_usable();
}

/* ---- the three forms ---- */
TEST(test_by_function)
{
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    t_all(x, N, 1, world.stream); /* nothing ran */
    for (int i = 0; i < 10; i++)
        assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 11, world.stream);
}

TEST(test_by_begin_and_end)
{
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_CAPTURING);
    assert_true(ph_stream_is_capturing(world.stream));
    assert_ok(ph_graph_capture_end(graph, add_one(world.stream, NULL)));
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_READY);
    assert_false(ph_stream_is_capturing(world.stream));
    assert_ok(ph_graph_replay(graph, ph_device_default_stream(world.device)));
    t_all(x, N, 2, ph_device_default_stream(world.device));
}

TEST(test_by_block)
{
    ph_status status;
    PH_GRAPH(status, graph, world.stream, NULL)
    {
        status = add_one(world.stream, NULL);
        if (status)
            break;
        status = add_one(world.stream, NULL);
    }
    assert_ok(status);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 3, world.stream);
}

static ph_status leave_early(bool with_error)
{
    ph_status status;
    PH_GRAPH(status, graph, world.stream, NULL)
    {
        if (with_error)
            status = ph_fail(PH_ERROR_SIZE, "too much");
        break;
    }
    return status;
}

TEST(test_block_left_early)
{
    assert_error(leave_early(true), PH_ERROR_SIZE, "too much");
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_FAILED);
    assert_ok(ph_graph_reset(graph));
    assert_error(leave_early(false), PH_ERROR_CALLER, "left early");
    assert_usable();
}

TEST(test_block_whose_begin_fails)
{
    ph_status status;
    int ran = 0;
    PH_GRAPH(status, graph, ph_device_default_stream(world.device), NULL)
    {
        ran++;
    }
    assert_int_equal(ran, 0);
    assert_int_equal(status, PH_ERROR_DEFAULT_STREAM);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
}

/* ---- failures ---- */
static ph_status fail_half_way(ph_stream *stream, void *user)
{
    PH_TRY(add_one(stream, user));
    return ph_fail(PH_ERROR_CALLER, "half way there");
}

TEST(test_failing_body)
{
    assert_error(ph_graph_capture(graph, world.stream, NULL, fail_half_way, NULL), PH_ERROR_CALLER,
                 "half way there");
    assert_string_equal(ph_error_last()->message, "half way there");
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_FAILED);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_CALLER, "half way there");
    t_all(x, N, 1, world.stream);
    assert_usable();
}

TEST(an_aborted_capture_leaves_a_new_graph)
{
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(add_one(world.stream, NULL));
    ph_graph_capture_abort(graph);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_graph_reset(graph)); /* a reset aborts too */
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    assert_usable();
}

TEST(test_destroy_while_capturing)
{
    ph_graph *other;
    t_log_start();
    assert_ok(ph_graph_create(&other, NULL));
    assert_ok(ph_graph_capture_begin(other, world.stream, NULL));
    assert_ok(ph_graph_reset(other)); /* aborts, which is meant */
    assert_ok(ph_graph_capture_begin(other, world.stream, NULL));
    ph_graph_capture_abort(other);
    assert_int_equal(t_log_count("ph_graph_destroy"), 0);
    assert_ok(ph_graph_capture_begin(other, world.stream, NULL));
    ph_graph_destroy(other);
    assert_int_equal(
        t_log_count("ph_graph_destroy: the graph's capture was still open, and is dropped; was "
                    "ph_graph_capture_end forgotten?"),
        1);
    t_log_stop();
    assert_usable();
}

TEST(test_begin_on_a_capturing_stream)
{
    ph_graph *other;
    assert_ok(ph_graph_create(&other, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_error(ph_graph_capture_begin(other, world.stream, NULL), PH_ERROR_CAPTURE,
                 "ph_graph_capture_begin: the stream is capturing already (a global capture, id ");
    assert_native(401);
    assert_non_null(strstr(ph_error_last()->message,
                           ", begun by this thread); the call did not touch that capture"));
    assert_int_equal(ph_graph_get_state(other), PH_GRAPH_NEW);
    assert_ok(add_one(world.stream, NULL));
    assert_ok(ph_graph_capture_end(graph, PH_OK)); /* that capture went on */
    ph_graph_destroy(other);
    assert_usable();
}

TEST(test_unjoined_fork)
{
    ph_stream *side;
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_stream_wait_stream(side, world.stream));
    assert_ok(add_one(side, NULL));
    assert_status(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE);
    assert_native(904);
    assert_false(ph_stream_is_capturing(side));
    assert_status(ph_graph_replay(graph, world.stream), PH_ERROR_CAPTURE);
    assert_native(904);
    assert_usable();
    ph_stream_destroy(side);
}

/* The message tells which stream it was, as far as the library's own calls let it know. */
TEST(test_unjoined_forks_are_told_apart)
{
    ph_stream *joined, *open;
    ph_capture_options options = {.enable_annotations = true};
    char part[96];
    assert_ok(ph_stream_create(&joined, world.device, NULL));
    assert_ok(ph_stream_create(&open, world.device, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, &options));
    assert_ok(ph_stream_wait_stream(joined, world.stream));
    assert_ok(add_one(joined, NULL));
    assert_ok(ph_annotation_push(open, "gate", NULL));
    assert_ok(ph_stream_wait_stream(open, world.stream));
    assert_ok(add_one(open, NULL));
    assert_ok(ph_annotation_pop(open));
    assert_ok(ph_stream_wait_stream(world.stream, joined));
    snprintf(part, sizeof part, "nobody has waited for stream %p, which joined in scope \"gate\";",
             (void *)open);
    assert_error(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE, part);
    assert_usable();

    assert_ok(ph_graph_reset(graph)); /* waited for, and then it went on */
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_stream_wait_stream(joined, world.stream));
    assert_ok(add_one(joined, NULL));
    assert_ok(ph_stream_wait_stream(world.stream, joined));
    assert_ok(add_one(joined, NULL));
    assert_error(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE,
                 "each that joined was waited for once, so one got work after that");
    assert_native(904);
    assert_usable();
    ph_stream_destroy(joined);
    ph_stream_destroy(open);
}

/* What the refusal said stays true when its status has ended the capture. */
static ph_status wait_inside(ph_stream *stream, void *user)
{
    (void)user;
    return ph_stream_synchronize(stream);
}

TEST(test_a_refusal_that_ends_the_capture)
{
    assert_error(ph_graph_capture(graph, world.stream, NULL, wait_inside, NULL), PH_ERROR_CAPTURE,
                 "refused before it could harm the capture");
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_CAPTURE, "on a FAILED graph: ");
    assert_native(900);
    assert_non_null(strstr(ph_error_last()->message, "refused before it could harm the capture"));
    assert_null(strstr(ph_error_last()->message, "goes on"));
    assert_usable();
}

/* ---- the thread of begin ---- */
struct other_thread {
    ph_status status;
    int native;
};

static void *end_there(void *argument)
{
    struct other_thread *out = argument;
    out->status = ph_graph_capture_end(graph, PH_OK);
    out->native = ph_error_last()->native_code;
    return NULL;
}

static struct other_thread end_on_another_thread(void)
{
    struct other_thread out = {PH_OK, 0};
    pthread_t thread;
    assert_true(ph__thread_start(&thread, "ender", end_there, &out));
    pthread_join(thread, NULL);
    return out;
}

TEST(test_end_on_the_wrong_thread)
{
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    struct other_thread other = end_on_another_thread();
    assert_int_equal(other.status, PH_ERROR_CAPTURE);
    assert_int_equal(other.native, 908);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_FAILED);
    assert_true(ph_stream_is_capturing(world.stream)); /* until its owner ends it */
    assert_error(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE,
                 "ended by another thread than the one that began the capture");
    assert_native(908);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_FAILED);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_CAPTURE,
                 "908, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: its work is lost");
    assert_native(908);
    assert_null(strstr(ph_error_last()->message, "stays open"));
    assert_usable();
}

TEST(test_wrong_thread_then_reset)
{
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_int_equal(end_on_another_thread().native, 908);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_CAPTURE,
                 "its work is lost; call ph_graph_reset");
    const char *once = strstr(ph_error_last()->message, "ph_graph_reset");
    assert_null(strstr(once + 1, "ph_graph_reset"));
    assert_ok(ph_graph_reset(graph));
    assert_usable();
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_int_equal(end_on_another_thread().native, 908);
    ph_graph_capture_abort(graph);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    assert_usable();
}

TEST(test_relaxed_ends_on_any_thread)
{
    ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    assert_ok(ph_graph_capture_begin(graph, world.stream, &options));
    assert_ok(add_one(world.stream, NULL));
    assert_int_equal(end_on_another_thread().status, PH_OK);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 2, world.stream);
}

TEST(test_stream_destroyed_under_the_capture)
{
    ph_stream *stream;
    assert_ok(ph_stream_create(&stream, world.device, NULL));
    assert_ok(ph_graph_capture_begin(graph, stream, NULL));
    ph_stream_destroy(stream);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_FAILED);
    assert_error(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE,
                 "stream of an open capture was destroyed");
    assert_usable();
}

/* ---- arguments ---- */
TEST(test_options_are_checked)
{
    ph_capture_options bad = {.mode = (ph_capture_mode)7};
    assert_error(ph_graph_capture_begin(graph, world.stream, &bad), PH_ERROR_ARGUMENT,
                 "7 is no capture mode");
    bad = (ph_capture_options){.breadcrumbs = true};
    assert_error(ph_graph_capture_begin(graph, world.stream, &bad), PH_ERROR_ARGUMENT,
                 "enable_annotations");
    bad = (ph_capture_options){.reserved = {1}};
    assert_error(ph_graph_capture_begin(graph, world.stream, &bad), PH_ERROR_ARGUMENT,
                 "ph_capture_options");
    ph_graph_options reserved = {.reserved = {0, 1}};
    ph_graph *other;
    assert_error(ph_graph_create(&other, &reserved), PH_ERROR_ARGUMENT, "ph_graph_options");
    assert_null(other);
    assert_error(ph_graph_capture_begin(graph, NULL, NULL), PH_ERROR_ARGUMENT, "stream is NULL");
    assert_error(ph_graph_capture(graph, world.stream, NULL, NULL, NULL), PH_ERROR_ARGUMENT,
                 "body is NULL");
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
}

TEST(a_prepared_capture_runs_nothing_before_its_replay)
{
    ph_capture_options options = {.prepare = true};
    assert_ok(t_fill(&world, world.stream, x, N, 5));
    assert_ok(ph_graph_capture(graph, world.stream, &options, add_one, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 6, world.stream);
}

TEST(test_pool_of_another_capture)
{
    ph_pool *pool;
    ph_graph *other;
    ph_stream *stream;
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    assert_ok(ph_graph_create(&other, NULL));
    assert_ok(ph_stream_create(&stream, world.device, NULL));
    ph_capture_options options = {.pool = pool};
    assert_ok(ph_graph_capture_begin(graph, world.stream, &options));
    assert_status(ph_graph_capture_begin(other, stream, &options), PH_ERROR_POOL_BUSY);
    assert_int_equal(ph_graph_get_state(other), PH_GRAPH_NEW);
    assert_false(ph_stream_is_capturing(stream));
    assert_ok(add_one(world.stream, NULL));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_int_equal(ph_pool_use_count(pool), 2);
    assert_ok(ph_graph_capture(other, stream, &options, add_one, NULL));
    assert_int_equal(ph_pool_use_count(pool), 3);
    ph_graph_destroy(other);
    assert_usable();
    assert_int_equal(ph_pool_use_count(pool), 1);
    ph_pool_release(pool);
    ph_stream_destroy(stream);
}

/* A failed capture lets go of its pool at once, not only at reset. */
TEST(test_failed_capture_releases_the_pool)
{
    ph_pool *pool;
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    ph_capture_options options = {.pool = pool};
    assert_status(ph_graph_capture(graph, world.stream, &options, fail_half_way, NULL),
                  PH_ERROR_CALLER);
    assert_int_equal(ph_pool_use_count(pool), 1);
    ph_pool_release(pool);
}

TEST(test_two_devices)
{
    t_world other;
    ph_pool *pool;
    t_open(&other, NULL);
    assert_ok(ph_pool_create(&pool, other.device, NULL));
    ph_capture_options options = {.pool = pool};
    assert_status(ph_graph_capture_begin(graph, world.stream, &options), PH_ERROR_WRONG_DEVICE);
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_status(ph_graph_retain_pool(graph, pool), PH_ERROR_WRONG_DEVICE);
    assert_ok(add_one(world.stream, NULL));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_error(ph_graph_replay(graph, other.stream), PH_ERROR_WRONG_DEVICE,
                 "every ph_device_open makes a device of its own");
    ph_pool_release(pool);
    t_close(&other);
    assert_usable();
}

TEST(test_retained_pools)
{
    ph_pool *pool, *own, *listed[3];
    size_t count;
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_graph_retain_pool(graph, pool));
    assert_ok(ph_graph_retain_pool(graph, pool));
    assert_int_equal(ph_pool_use_count(pool), 2);
    assert_ok(add_one(world.stream, NULL));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_pool(&own, graph));
    assert_ok(ph_graph_pools(listed, 3, &count, graph));
    assert_int_equal(count, 2);
    assert_ptr_equal(listed[0], own);
    assert_ptr_equal(listed[1], pool);
    assert_true(ph_pool_get_id(own).first > 0 && ph_pool_get_id(own).second == 0);
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_reset(graph));
    assert_int_equal(ph_pool_use_count(pool), 1);
    ph_pool_release(pool);
}

static ph_status destroy_own(ph_stream *stream, void *user)
{
    PH_TRY(add_one(stream, NULL));
    ph_graph_destroy(graph);
    return *(ph_status *)user == PH_OK ? PH_OK : ph_fail(*(ph_status *)user, "after the destroy");
}

/* The graph goes once its body has returned. */
TEST(test_destroyed_by_its_body)
{
    ph_status result = PH_OK;
    assert_error(ph_graph_capture(graph, world.stream, NULL, destroy_own, &result), PH_ERROR_STATE,
                 "destroyed by its own capture function");
    assert_false(ph_stream_is_capturing(world.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    result = PH_ERROR_CALLER;
    assert_error(ph_graph_capture(graph, world.stream, NULL, destroy_own, &result), PH_ERROR_CALLER,
                 "after the destroy");
    assert_ok(ph_graph_create(&graph, NULL));
    assert_usable();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_by_function),
        IN_WORLD(test_by_begin_and_end),
        IN_WORLD(test_by_block),
        IN_WORLD(test_block_left_early),
        IN_WORLD(test_block_whose_begin_fails),
        IN_WORLD(test_failing_body),
        IN_WORLD(an_aborted_capture_leaves_a_new_graph),
        IN_WORLD(test_destroy_while_capturing),
        IN_WORLD(test_begin_on_a_capturing_stream),
        IN_WORLD(test_a_refusal_that_ends_the_capture),
        IN_WORLD(test_unjoined_fork),
        IN_WORLD(test_unjoined_forks_are_told_apart),
        IN_WORLD(test_end_on_the_wrong_thread),
        IN_WORLD(test_wrong_thread_then_reset),
        IN_WORLD(test_relaxed_ends_on_any_thread),
        IN_WORLD(test_stream_destroyed_under_the_capture),
        IN_WORLD(test_options_are_checked),
        IN_WORLD(a_prepared_capture_runs_nothing_before_its_replay),
        IN_WORLD(test_pool_of_another_capture),
        IN_WORLD(test_failed_capture_releases_the_pool),
        IN_WORLD(test_two_devices),
        IN_WORLD(test_retained_pools),
        IN_WORLD(test_the_graph_of_a_stream),
        IN_WORLD(test_destroyed_by_its_body),
    };
    return cmocka_run_group_tests_name("graph.capture", tests, NULL, NULL);
}
