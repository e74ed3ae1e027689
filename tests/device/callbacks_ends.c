/* SPDX-License-Identifier: MIT */
/* tests/device/callbacks_ends.c: streams, graphs, devices and objects that end inside of host
 * functions and bodies of kernels: what a call still uses stays, and what would wait for its own
 * caller is done behind it. Children that are forked there. */
#include "base/alloc.h"
#include "base/sync.h"
#include "support/fork.h"
#include "support/support.h"
#include "support/test.h"
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BYTES = 64
};
typedef struct scene {
    ph_device *device;
    ph_stream *own;
    ph_graph *fill, *graph;
    ph_kernel *kernel;
    char *memory;
} scene;

static ph_status fill_memory(ph_stream *stream, void *user)
{
    const scene *s = user;
    return ph_memset(s->memory, 7, BYTES, stream);
}

static void open_scene(scene *s, const char *name)
{
    alarm(100); /* a call that waits for itself ends the test */
    *s = (scene){0};
    assert_ok(ph_device_open(&s->device, name, NULL));
    assert_ok(ph_stream_create(&s->own, s->device, NULL));
    assert_ok(PH_NEW(&s->memory, BYTES, s->own));
    assert_ok(ph_graph_create(&s->fill, NULL));
    assert_ok(ph_graph_create(&s->graph, NULL));
    assert_ok(ph_graph_capture(s->fill, s->own, NULL, fill_memory, s));
    assert_ok(ph_stream_synchronize(s->own));
}

/* The device goes on as if nothing had been tried. */
static void close_scene(scene *s)
{
    char seen[BYTES] = "";
    assert_ok(ph_graph_replay(s->fill, s->own));
    assert_ok(ph_memcpy(seen, s->memory, BYTES, s->own));
    assert_int_equal(seen[BYTES - 1], 7);
    ph_free(s->memory, s->own);
    ph_graph_destroy(s->fill);
    ph_graph_destroy(s->graph);
    ph_kernel_release(s->kernel);
    ph_stream_destroy(s->own);
    ph_device_release(s->device);
}

static ph_status submit_kernel(ph_stream *stream, void *user)
{
    const scene *s = user;
    return ph_launch(stream, s->kernel, &(ph_launch_config){.grid = {4}}, NULL, 0);
}

/* ---- what has no status ---- the call that runs the kernel goes on with its stream and graph */
static scene *current;
static atomic_bool asked;

static void prepare(scene *s)
{
    current = s;
    atomic_store(&asked, false);
}

static void destroying_kernel(const ph_block_range *range, const void *args)
{
    (void)range;
    (void)args;
    if (atomic_exchange(&asked, true))
        return;
    ph_stream_destroy(current->own);
    ph_graph_destroy(current->graph);
}

static void expect_kept(scene *s)
{
    assert_true(atomic_load(&asked));
    assert_int_equal(t_log_count("ph_stream_destroy: called by a host function or by the body"), 1);
    assert_int_equal(t_log_count("ph_graph_destroy: called by a host function or by the body"), 1);
    assert_ok(ph_graph_replay(s->fill, s->own));
    assert_ok(ph_stream_synchronize(s->own));
}

TEST(inline_kernels_destroy_nothing_that_runs_them)
{
    t_host_only("inline kernels are the host device's");
    const ph_kernel_source source = {
        .name = "destroys", .host = destroying_kernel, .host_inline = true};
    scene s;
    open_scene(&s, "host:threads=2");
    assert_ok(ph_kernel_create(&s.kernel, s.device, &source));
    t_log_start();
    prepare(&s);
    assert_ok(submit_kernel(s.own, &s));
    expect_kept(&s);
    t_log_stop();
    atomic_store(&asked, true);
    assert_ok(ph_graph_capture(s.graph, s.own, NULL, submit_kernel, &s));
    for (int i = 0; i < 100; i++) { /* until it is known to be short */
        assert_ok(ph_graph_replay(s.graph, s.own));
        assert_ok(ph_stream_synchronize(s.own));
    }
    t_log_start();
    prepare(&s);
    assert_ok(ph_graph_replay(s.graph, s.own));
    expect_kept(&s);
    t_log_stop();
    close_scene(&s);
}

/* ---- the last reference ---- */
static atomic_bool released;
static void release_device(void *user)
{
    ph_device_release(user);
    atomic_store(&released, true);
}

/* Everything of the device is gone, its threads included. */
static void await_close(int64_t live_before)
{
    alarm(100);
    while (!atomic_load(&released) || ph__alloc_live() != live_before)
        (void)sched_yield();
}

/* The gate's function may read it yet when this returns. */
static void release_inside(const char *name, t_gate *gate)
{
    ph_device *device;
    ph_stream *stream;
    atomic_store(&released, false);
    assert_ok(ph_device_open(&device, name, NULL));
    assert_ok(ph_stream_create(&stream, device, NULL));
    assert_ok(t_gate_wait(gate, stream));
    assert_ok(ph_launch_host(stream, release_device, ph_device_retain(device)));
    ph_stream_destroy(stream);
    ph_device_release(device);
    t_gate_open(gate);
}

TEST(a_device_is_closed_behind_its_own_function)
{
    t_host_only("a GPU's host functions run on threads of its driver");
    static const char *const names[] = {"host:threads=2", "host:chaos=7", "host:threads=1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        t_gate gate = {0};
        const int64_t live = ph__alloc_live();
        t_log_start();
        release_inside(names[i], &gate);
        await_close(live);
        assert_int_equal(t_log_count("ph_device_release"), 0);
        t_log_stop();
    }
}

/* The function is done, and has let go, while the call that submitted it may still be inside: a
 * race, which a few hundred rounds meet at times. */
TEST(a_launch_keeps_the_device_that_its_function_lets_go)
{
    t_host_only("a GPU's host functions run on threads of its driver");
    const int64_t live = ph__alloc_live();
    for (int round = 0; round < 300; round++) {
        ph_device *device;
        atomic_store(&released, false);
        assert_ok(ph_device_open(&device, "host:threads=1", NULL));
        assert_ok(ph_launch_host(ph_device_default_stream(device), release_device, device));
        await_close(live);
    }
}

/* The device stays in the list of the process, and its thread waits for work until the end. */
TEST(a_device_stays_open_where_no_thread_can_close_it)
{
    t_host_only("a GPU's host functions run on threads of its driver");
    if (HAS_TSAN) {
        print_message("skipped: the thread of a device that stays open is a leak to "
                      "ThreadSanitizer\n");
        skip();
    }
    ph_device *device;
    ph_stream *stream;
    t_gate gate = {0};
    atomic_store(&released, false);
    assert_ok(ph_device_open(&device, "host:threads=2", NULL));
    assert_ok(ph_stream_create(&stream, device, NULL));
    assert_ok(t_gate_wait(&gate, stream));
    assert_ok(ph_launch_host(stream, release_device, ph_device_retain(device)));
    ph_stream_destroy(stream);
    ph_device_release(device);
    t_log_start();
    ph__thread_fail_after(0);
    t_gate_open(&gate);
    while (!atomic_load(&released))
        (void)sched_yield();
    ph__thread_fail_after(INT64_MAX);
    assert_int_equal(t_log_count("ph_device_release, of the last reference to host"), 1);
    t_log_stop();
}

/* ---- objects of a graph ---- */
static atomic_int objects_released;
static atomic_bool graph_ended;
static void release_object(void *object)
{
    (void)object;
    atomic_fetch_add(&objects_released, 1);
}

static void end_graph(void *user)
{
    ph_graph_destroy(user);
    atomic_store(&graph_ended, true);
}

/* They wait for the stream whose function ends the graph. */
TEST(objects_of_a_graph_that_ends_inside_are_released)
{
    t_host_only("a GPU's host functions run on threads of its driver");
    const int64_t live = ph__alloc_live();
    scene s;
    open_scene(&s, "host:threads=2");
    ph_graph *graph;
    t_gate gate = {0};
    atomic_store(&objects_released, 0);
    atomic_store(&graph_ended, false);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.own, NULL, fill_memory, &s));
    assert_ok(ph_graph_retain(graph, release_object, NULL, true));
    assert_ok(ph_graph_retain(graph, release_object, NULL, true));
    assert_ok(ph_graph_replay(graph, s.own));
    t_log_start();
    assert_ok(ph_launch_host(s.own, end_graph, graph));
    assert_ok(t_gate_wait(&gate, s.own)); /* they are not released before */
    while (!atomic_load(&graph_ended))
        (void)sched_yield();
    assert_int_equal(atomic_load(&objects_released), 0);
    t_gate_open(&gate);
    while (atomic_load(&objects_released) != 2)
        (void)sched_yield();
    assert_int_equal(t_log_count("never released"), 0);
    t_log_stop();
    close_scene(&s);
    atomic_store(&released, true);
    await_close(live);
}

/* ---- a child ---- */
static void use_a_device_of_its_own(void)
{
    ph_device *device;
    int32_t *memory;
    if (ph_device_open(&device, "host:threads=1", NULL) != PH_OK)
        _exit(2);
    ph_stream *stream = ph_device_default_stream(device);
    if (PH_NEW(&memory, 4, stream) != PH_OK || ph_memset(memory, 0, 16, stream) != PH_OK ||
        ph_stream_synchronize(stream) != PH_OK)
        _exit(3);
    ph_free(memory, stream);
    ph_device_release(device);
    _exit(0);
}

static void fork_inside(void *user)
{
    int *status = user;
    pid_t child = fork();
    if (child == 0)
        use_a_device_of_its_own();
    if (waitpid(child, status, 0) != child)
        *status = -1;
}

TEST(a_child_that_is_forked_inside_may_call)
{
    t_host_only("a child of a process with a GPU's context cannot use it");
    ph_device *device;
    ph_stream *stream;
    int status = -1;
    assert_ok(ph_device_open(&device, "host:threads=2", NULL));
    assert_ok(ph_stream_create(&stream, device, NULL));
    assert_ok(ph_launch_host(stream, fork_inside, &status));
    assert_ok(ph_stream_synchronize(stream));
    assert_int_equal(status, 0);
    ph_stream_destroy(stream);
    ph_device_release(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inline_kernels_destroy_nothing_that_runs_them),
        cmocka_unit_test(objects_of_a_graph_that_ends_inside_are_released),
        cmocka_unit_test(a_device_is_closed_behind_its_own_function),
        cmocka_unit_test(a_launch_keeps_the_device_that_its_function_lets_go),
        cmocka_unit_test(a_child_that_is_forked_inside_may_call),
        cmocka_unit_test(a_device_stays_open_where_no_thread_can_close_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
