/* SPDX-License-Identifier: MIT */
/* tests/graph/unwound.c: functions of the user's that do not return: the stack is unwound
 * through the library, as by a C++ exception (here by pthread_exit, which unwinds in the same
 * way), or longjmp has left them. What the call had begun is undone. */
#include "support/fixture.h"

#include "base/sync.h"
#include "device/handles/device.h"
#include <phonograph/inspect/profile.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 64
};
static t_world world;
static ph_graph *graph;
static int32_t *x;

WORLD(world, .graphs = {&graph}, .arrays = {{&x, N, T_INTS, 1}});

/* Runs call on a thread that ends inside of it. */
static atomic_bool returned;
static void *run_call(void *call)
{
    (*(void (**)(void))call)();
    atomic_store(&returned, true);
    return NULL;
}

static void leave_inside(void (*call)(void))
{
    pthread_t thread;
    atomic_store(&returned, false);
    assert_true(ph__thread_start(&thread, "left", run_call, &call));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(atomic_load(&returned));
}

static ph_status add_one(ph_stream *stream, void *user)
{
    (void)user;
    return t_add(&world, stream, x, x, N, 1);
}

static ph_status add_and_leave(ph_stream *stream, void *user)
{
    int32_t *scratch;
    PH_TRY(ph_annotation_push(stream, "left open", NULL));
    PH_TRY(PH_NEW(&scratch, N, stream));
    PH_TRY(t_add(&world, stream, x, scratch, N, 1));
    ph_free(scratch, stream);
    PH_TRY(add_one(stream, user));
    pthread_exit(NULL);
}

/* The stream is free, the device too, and the graph captures and replays. */
static void check_all_is_well(ph_graph *with, int32_t before)
{
    assert_false(ph_stream_is_capturing(world.stream));
    assert_ok(ph_device_synchronize(world.device));
    assert_ok(ph_graph_reset(with));
    assert_ok(ph_graph_capture(with, world.stream, NULL, add_one, NULL));
    assert_ok(ph_graph_replay(with, world.stream));
    t_all(x, N, before + 1, world.stream);
}

/* ---- capture functions ---- */
static void capture_and_leave(void)
{
    ph_ignore(ph_graph_capture(graph, world.stream, NULL, add_and_leave, NULL));
}

TEST(test_capture_function)
{
    leave_inside(capture_and_leave);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    check_all_is_well(graph, 1);
}

static ph_status destroy_and_leave(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    ph_graph_destroy(graph);
    pthread_exit(NULL);
}

static void capture_destroy_and_leave(void)
{
    ph_ignore(ph_graph_capture(graph, world.stream, NULL, destroy_and_leave, NULL));
}

TEST(test_graph_destroyed_inside)
{
    leave_inside(capture_destroy_and_leave);
    assert_false(ph_stream_is_capturing(world.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    check_all_is_well(graph, 1);
}

/* ---- hooks ---- */
static ph_status leave_hook(const ph_graph_hook_info *info, void *user)
{
    (void)info;
    (void)user;
    pthread_exit(NULL);
}

static ph_hook *hook;
static void hook_at(ph_graph_hook_point point)
{
    assert_ok(ph_graph_hook_add(&hook, graph, point, leave_hook, NULL));
}

static void capture_one(void)
{
    ph_ignore(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
}

static void leave_capture_hook(ph_graph_hook_point point, ph_graph_state expected)
{
    hook_at(point);
    leave_inside(capture_one);
    assert_int_equal(ph_graph_get_state(graph), expected);
    if (expected == PH_GRAPH_FAILED)
        assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_CALLER,
                     "a hook of the graph did not return");
    ph_graph_hook_remove(hook);
    check_all_is_well(graph, 1);
}

TEST(test_capture_prepare_hook)
{
    leave_capture_hook(PH_HOOK_CAPTURE_PREPARE, PH_GRAPH_NEW);
}

TEST(test_capture_start_hook)
{
    leave_capture_hook(PH_HOOK_CAPTURE_START, PH_GRAPH_NEW);
}

TEST(test_capture_end_hook)
{
    leave_capture_hook(PH_HOOK_CAPTURE_END, PH_GRAPH_FAILED);
}

TEST(test_instantiate_hook)
{
    leave_capture_hook(PH_HOOK_INSTANTIATE, PH_GRAPH_FAILED);
}

static void replay_one(void)
{
    ph_ignore(ph_graph_replay(graph, world.stream));
}

TEST(test_replay_hooks)
{
    capture_one();
    hook_at(PH_HOOK_REPLAY_START);
    leave_inside(replay_one);
    t_all(x, N, 1, world.stream);
    ph_graph_hook_remove(hook);
    hook_at(PH_HOOK_REPLAY_END);
    leave_inside(replay_one);
    t_all(x, N, 2, world.stream);
    ph_graph_hook_remove(hook);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 3, world.stream);
}

static void reset(void)
{
    ph_ignore(ph_graph_reset(graph));
}

static void destroy(void)
{
    ph_graph_destroy(graph);
}

TEST(test_destroy_hook)
{
    capture_one();
    hook_at(PH_HOOK_DESTROY);
    leave_inside(reset);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    capture_one();
    leave_inside(destroy);
    ph_graph_hook_remove(hook);
    assert_ok(ph_graph_create(&graph, NULL));
}

/* ---- other functions ---- */
static bool leaves;
static ph_status maybe_leave(ph_stream *stream, void *user)
{
    if (leaves)
        return add_and_leave(stream, user);
    return add_one(stream, user);
}

static void verify(void)
{
    ph_verify_result result;
    leaves = true;
    ph_ignore(ph_graph_verify(&result, graph, world.stream, maybe_leave, NULL, NULL));
}

TEST(a_thread_that_ends_in_a_verification_leaves_nothing_broken)
{
    leaves = false;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, maybe_leave, NULL));
    leave_inside(verify);
    t_all(x, N, 1, world.stream);
    assert_ok(ph_graph_replay(graph, world.stream));
    check_all_is_well(graph, 2);
}

static void judge(void)
{
    ph_verdict verdict;
    leaves = true;
    ph_ignore(ph_graph_verdict(&verdict, graph, world.stream, maybe_leave, NULL, NULL));
}

TEST(a_thread_that_ends_in_a_verdict_leaves_nothing_running)
{
    leaves = false;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, maybe_leave, NULL));
    leave_inside(judge);
    ph_graph_destroy(graph); /* not put off: nothing of it runs */
    assert_ok(ph_graph_create(&graph, NULL));
}

static void profile(void)
{
    ph_profile *result;
    ph_ignore(ph_graph_profile(&result, graph, world.stream, NULL));
}

/* Its replays run the graph's hooks. */
TEST(a_thread_that_ends_in_a_profile_leaves_nothing_running)
{
    capture_one();
    hook_at(PH_HOOK_REPLAY_START);
    leave_inside(profile);
    ph_graph_hook_remove(hook);
    ph_graph_destroy(graph);
    assert_ok(ph_graph_create(&graph, NULL));
}

static ph_status no_segment(void **out, size_t bytes, ph_stream *stream, void *user)
{
    (void)bytes;
    (void)stream;
    (void)user;
    *out = NULL;
    pthread_exit(NULL);
}

static void give_nothing(void *pointer, size_t bytes, void *user)
{
    (void)pointer;
    (void)bytes;
    (void)user;
}

static ph_pool *pool;
static ph_status ask(ph_stream *stream, void *user)
{
    int32_t *p;
    (void)user;
    return PH_NEW(&p, N, stream);
}

static void allocate(void)
{
    ph_ignore(
        ph_graph_capture(graph, world.stream, &(ph_capture_options){.pool = pool}, ask, NULL));
}

TEST(test_segments_of_a_pools_own)
{
    const ph_pool_options options = {.alloc = no_segment, .free = give_nothing};
    ph_memory_stats before, after;
    assert_ok(ph_pool_create(&pool, world.device, &options));
    assert_ok(ph_memory_get_stats(&before, world.device));
    leave_inside(allocate);
    assert_ok(ph_memory_get_stats(&after, world.device));
    assert_int_equal(after.reserved, before.reserved);
    assert_int_equal(after.allocated, before.allocated);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    assert_int_equal(ph_pool_use_count(pool), 1);
    ph_pool_release(pool);
}

/* ---- longjmp ---- forbidden; the stream can be had back. */
static jmp_buf back;
static ph_status jump(ph_stream *stream, void *user)
{
    ph_ignore(add_one(stream, user));
    longjmp(back, 1);
}

static void capture_and_jump(void)
{
    if (setjmp(back) == 0)
        ph_ignore(ph_graph_capture(graph, world.stream, NULL, jump, NULL));
    assert_true(ph_stream_is_capturing(world.stream));
}

TEST(test_longjmp_and_abort)
{
    capture_and_jump();
    ph_graph_capture_abort(graph);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    check_all_is_well(graph, 1);
}

TEST(test_longjmp_and_reset)
{
    capture_and_jump();
    assert_ok(ph_graph_reset(graph));
    check_all_is_well(graph, 1);
}

__attribute__((noinline)) static void destroy_deeper(unsigned depth)
{
    volatile unsigned char room[256];
    memset((void *)(uintptr_t)room, (int)depth, sizeof room);
    if (depth > 0)
        destroy_deeper(depth - 1);
    else
        ph_graph_destroy(graph);
    room[0]++;
}

static void jump_and_destroy(unsigned depth)
{
    t_log_start();
    capture_and_jump();
    destroy_deeper(depth);
    assert_int_equal(t_log_count("the graph's capture was still open"), 1);
    t_log_stop();
    assert_false(ph_stream_is_capturing(world.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    check_all_is_well(graph, 1);
}

TEST(test_longjmp_and_destroy)
{
    jump_and_destroy(0);
}

/* Where the frames of the functions that were left have been used again. */
TEST(test_longjmp_and_destroy_deeper)
{
    jump_and_destroy(20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_capture_function),
        IN_WORLD(test_graph_destroyed_inside),
        IN_WORLD(test_capture_prepare_hook),
        IN_WORLD(test_capture_start_hook),
        IN_WORLD(test_capture_end_hook),
        IN_WORLD(test_instantiate_hook),
        IN_WORLD(test_replay_hooks),
        IN_WORLD(test_destroy_hook),
        IN_WORLD(a_thread_that_ends_in_a_verification_leaves_nothing_broken),
        IN_WORLD(a_thread_that_ends_in_a_verdict_leaves_nothing_running),
        IN_WORLD(a_thread_that_ends_in_a_profile_leaves_nothing_running),
        IN_WORLD(test_segments_of_a_pools_own),
        IN_WORLD(test_longjmp_and_abort),
        IN_WORLD(test_longjmp_and_reset),
        IN_WORLD(test_longjmp_and_destroy),
        IN_WORLD(test_longjmp_and_destroy_deeper),
    };
    return cmocka_run_group_tests_name("graph.unwound", tests, NULL, NULL);
}
