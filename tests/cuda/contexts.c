/* SPDX-License-Identifier: MIT */
/* tests/cuda/contexts.c: whatever context is current on a thread, public calls work, and leave
 * it current. */
#include "fake.h"
#include "support/scenes.h"
#include "support/test.h"
#include <pthread.h>

typedef struct stack {
    size_t count;
    void *at[FAKE_CUDA_STACK];
} stack;

static stack read_stack(void)
{
    stack s = {0};
    s.count = fake_cuda()->context_stack(s.at);
    return s;
}

static void assert_stack(const stack *before, const char *what)
{
    stack now = read_stack();
    if (now.count != before->count || memcmp(now.at, before->at, sizeof now.at) != 0)
        fail_msg("%s: %zu contexts are on the thread's stack, %zu were, or they are others", what,
                 now.count, before->count);
}

/* ---- one GPU, whatever is current ---- the stack is looked at around every scenario; calls of
 * CUDA's that were made with a wrong context current are counted on the way. */
static void run_all(const t_scenario *scenarios, const stack *before)
{
    static t_scene scene;
    for (; scenarios->name; scenarios++) {
        t_scene_open(&scene, NULL, NULL);
        assert_stack(before, "opening");
        assert_ok(scenarios->run(&scene));
        assert_stack(before, scenarios->name);
        t_scene_close(&scene);
        assert_stack(before, "closing");
    }
}

static void run_with_these(void)
{
    stack before = read_stack();
    int64_t misuses = fake_cuda()->misuses();
    t_log_start();
    run_all(t_scenarios_device, &before);
    run_all(t_scenarios_memory, &before);
    run_all(t_scenarios_graph, &before);
    t_log_stop();
    if (fake_cuda()->misuses() != misuses)
        fail_msg("%s", fake_cuda()->misuse_text());
    assert_string_equal(left_behind(), "");
}

TEST(nothing_is_current)
{
    NEED_FAKE();
    assert_int_equal(read_stack().count, 0);
    run_with_these();
}

TEST(the_devices_own_is_current)
{
    NEED_FAKE();
    ph__cu_context own = primary(0);
    cu(CtxPushCurrent(own));
    run_with_these();
    pop(own);
    cu(DevicePrimaryCtxRelease(0));
}

TEST(another_gpus_is_current)
{
    NEED_FAKE();
    ph__cu_context other = primary(1);
    cu(CtxPushCurrent(other));
    run_with_these();
    pop(other);
    cu(DevicePrimaryCtxRelease(1));
}

TEST(one_that_is_not_primary_is_current)
{
    NEED_FAKE();
    void *other;
    assert_int_equal(ph__cuda_load(), 0);
    assert_int_equal(fake_cuda()->context_create(&other, 0), 0);
    cu(CtxPushCurrent(other));
    cu(CtxPushCurrent(other));
    run_with_these();
    pop(other);
    pop(other);
    fake_cuda()->context_destroy(other);
}

/* ---- the second GPU, and both ---- */
TEST(each_gpu_captures_and_replays_on_its_own)
{
    NEED_FAKE();
    ph_device *devices[2];
    t_world worlds[2];
    int32_t *x[2];
    assert_ok(ph_device_open(&devices[0], "cuda:0", NULL));
    assert_ok(ph_device_open(&devices[1], "cuda:1", NULL));
    for (int i = 0; i < 2; i++) {
        t_open_world(&worlds[i], devices[i]);
        assert_ok(PH_NEW(&x[i], 100, worlds[i].stream));
        assert_ok(t_fill(&worlds[i], worlds[i].stream, x[i], 100, i + 1));
    }
    for (int i = 0; i < 2; i++) {
        ph_graph *graph;
        assert_ok(ph_graph_create(&graph, NULL));
        assert_ok(ph_graph_capture_begin(graph, worlds[i].stream, NULL));
        assert_ok(
            ph_graph_capture_end(graph, t_add(&worlds[i], worlds[i].stream, x[i], x[i], 100, 5)));
        assert_ok(ph_graph_replay(graph, worlds[i].stream));
        t_all(x[i], 100, i + 6, worlds[i].stream);
        assert_error(ph_graph_replay(graph, worlds[1 - i].stream), PH_ERROR_WRONG_DEVICE, "device");
        ph_graph_destroy(graph);
    }
    for (int i = 0; i < 2; i++) {
        ph_free(x[i], NULL);
        t_close(&worlds[i]);
    }
    assert_int_equal(fake_cuda()->misuses(), 0);
    assert_string_equal(left_behind(), "");
}

/* ---- threads ---- each with a context of its own current, at the same time on one device. */
typedef struct worker {
    t_world *world;
    ph__cu_context context; /* NULL: none */
    bool kept;
    pthread_t thread;
} worker;

/* Asserts belong to the main thread: false is for it. */
static bool work(t_world *world)
{
    ph_stream *stream = NULL;
    int32_t *x = NULL, host[100] = {0};
    bool good = ph_stream_create(&stream, world->device, NULL) == PH_OK;
    for (int i = 0; i < 50 && good; i++) {
        good = PH_NEW(&x, 100, stream) == PH_OK && t_fill(world, stream, x, 100, i) == PH_OK &&
               ph_memcpy(host, x, sizeof host, stream) == PH_OK &&
               ph_stream_synchronize(stream) == PH_OK && host[0] == i && host[99] == i;
        ph_free(x, stream);
    }
    ph_stream_destroy(stream);
    return good;
}

static void *work_on(void *argument)
{
    worker *w = argument;
    ph__cu_context current = NULL;
    if (w->context)
        (void)ph__cu.CtxPushCurrent(w->context);
    bool good = work(w->world);
    (void)ph__cu.CtxGetCurrent(&current);
    w->kept = good && current == w->context && read_stack().count == (w->context != NULL);
    return NULL;
}

TEST(threads_with_contexts_of_their_own)
{
    NEED_FAKE();
    t_world world;
    t_open(&world, NULL);
    worker workers[4] = {{&world, NULL, false, 0},
                         {&world, primary(0), false, 0},
                         {&world, primary(1), false, 0},
                         {&world, NULL, false, 0}};
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work_on, &workers[i]), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    for (int i = 0; i < 4; i++)
        assert_true(workers[i].kept);
    t_close(&world);
    cu(DevicePrimaryCtxRelease(0));
    cu(DevicePrimaryCtxRelease(1));
    assert_int_equal(fake_cuda()->misuses(), 0);
}

/* ---- a context that cannot be made current ---- once, at first use in a scenario: an error
 * with words or none at all, the stack as it was, nothing left. */
TEST(it_cannot_be_made_current)
{
    NEED_FAKE();
    static t_scene scene;
    stack before = read_stack();
    for (int n = 0; t_scenarios_graph[n].name; n++) {
        t_scene_open(&scene, NULL, NULL);
        int64_t pushes = fake_cuda()->calls_of("cuCtxPushCurrent");
        fake_cuda()->fail_call("cuCtxPushCurrent", PH__R_INVALID_CONTEXT, 1);
        ph_status status = t_scenarios_graph[n].run(&scene);
        fake_cuda()->fail_call("cuCtxPushCurrent", 0, 0);
        assert_true(fake_cuda()->calls_of("cuCtxPushCurrent") > pushes);
        assert_true(status == PH_OK || strlen(ph_error_last()->message) > 15);
        assert_stack(&before, "after a failed push");
        t_scene_close(&scene);
        assert_string_equal(left_behind(), "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_current),
        cmocka_unit_test(the_devices_own_is_current),
        cmocka_unit_test(another_gpus_is_current),
        cmocka_unit_test(one_that_is_not_primary_is_current),
        cmocka_unit_test(each_gpu_captures_and_replays_on_its_own),
        cmocka_unit_test(threads_with_contexts_of_their_own),
        cmocka_unit_test(it_cannot_be_made_current),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
