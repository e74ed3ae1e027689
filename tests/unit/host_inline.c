/* SPDX-License-Identifier: MIT */
/* tests/unit/host_inline.c: inline kernels of the host device: when the caller runs them, and that
 * nothing they must come behind is left then. */
#include "support/support.h"

#include "base/alloc.h"
#include "base/sync.h"
#include "support/test.h"
#include <string.h>

typedef struct ran {
    atomic_int blocks;
    _Atomic uint64_t thread; /* that ran the last one */
} ran;

struct note_args {
    ran *to;
    uint64_t block; /* threads a block that the launch said */
};

static void note(const ph_block_range *range, const void *args)
{
    const struct note_args *a = args;
    assert_int_equal((uintptr_t)args % 16, 0);
    assert_int_equal(range->block[0], a->block);
    atomic_store(&a->to->thread, ph__thread_id());
    atomic_fetch_add(&a->to->blocks, (int)(range->end - range->begin));
}

/* Shared memory is there, and of the size that was asked for. */
static void use_shared(const ph_block_range *range, const void *args)
{
    const struct note_args *a = args;
    assert_non_null(range->shared);
    memset(range->shared, 0x5a, 4096);
    atomic_fetch_add(&a->to->blocks, 1);
}

static t_world world;
static ph_kernel *inline_kernel, *sharing, *queued;
static ran seen;

static ph_kernel *make(ph_device *device, ph_host_kernel_fn fn, bool is_inline)
{
    ph_kernel *kernel;
    const ph_kernel_source source = {.name = "note",
                                     .host = fn,
                                     .args_size = sizeof(struct note_args),
                                     .host_inline = is_inline};
    assert_ok(ph_kernel_create(&kernel, device, &source));
    return kernel;
}

static void open_named(const char *name)
{
    t_open(&world, name);
    inline_kernel = make(world.device, note, true);
    sharing = make(world.device, use_shared, true);
    queued = make(world.device, note, false);
    memset(&seen, 0, sizeof seen);
}

FIXTURE(open_world)
{
    open_named("host:threads=2");
    return 0;
}

FIXTURE(close_world)
{
    ph_kernel_release(inline_kernel);
    ph_kernel_release(sharing);
    ph_kernel_release(queued);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

static void launch(ph_stream *stream, ph_kernel *kernel, uint32_t blocks)
{
    const struct note_args args = {&seen, 32};
    const ph_launch_config config = {.grid = {blocks}, .block = {32}};
    assert_ok(ph_launch(stream, kernel, &config, &args, sizeof args));
}

static bool by_me(void)
{
    return atomic_load(&seen.thread) == ph__thread_id();
}

TEST(test_on_an_idle_stream)
{
    for (int i = 1; i <= 10; i++) {
        launch(world.stream, inline_kernel, 1);
        assert_int_equal(seen.blocks, i);
        assert_true(by_me());
    }
    launch(world.stream, inline_kernel, 4);
    assert_int_equal(seen.blocks, 14);
    assert_true(by_me());
    bool done;
    assert_ok(ph_stream_query(&done, world.stream));
    assert_true(done);
}

TEST(test_large_grids_and_other_kernels)
{
    launch(world.stream, inline_kernel, 5);
    assert_ok(ph_stream_synchronize(world.stream));
    assert_int_equal(seen.blocks, 5);
    assert_false(by_me());
    launch(world.stream, queued, 1);
    assert_ok(ph_stream_synchronize(world.stream));
    assert_int_equal(seen.blocks, 6);
    assert_false(by_me());
}

TEST(test_arguments_that_are_not_aligned)
{
    _Alignas(16) unsigned char bytes[sizeof(struct note_args) + 16];
    const struct note_args args = {&seen, 1};
    for (size_t offset = 0; offset < 16; offset++) {
        memcpy(bytes + offset, &args, sizeof args);
        assert_ok(ph_launch(world.stream, inline_kernel, NULL, bytes + offset, sizeof args));
        assert_int_equal(seen.blocks, offset + 1);
    }
}

TEST(test_shared_memory)
{
    const struct note_args args = {&seen, 1};
    const ph_launch_config config = {.grid = {1}, .shared_bytes = 4096};
    for (int i = 1; i <= 10; i++) {
        assert_ok(ph_launch(world.stream, sharing, &config, &args, sizeof args));
        assert_ok(ph_stream_synchronize(world.stream));
        assert_int_equal(seen.blocks, i);
    }
}

/* Something is queued, or running. */
TEST(test_behind_work_of_the_stream)
{
    t_gate gate = {0};
    assert_ok(t_gate_wait(&gate, world.stream));
    launch(world.stream, inline_kernel, 1);
    launch(world.stream, inline_kernel, 1);
    assert_int_equal(seen.blocks, 0);
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(world.stream));
    assert_int_equal(seen.blocks, 2);
    assert_false(by_me());
}

/* Work of another stream, by an event; and of the default stream, implicitly. */
TEST(test_behind_other_streams)
{
    const ph_stream_options blocking = {.blocking = true};
    t_gate gates[3] = {{0}, {0}, {0}};
    ph_stream *other, *first = ph_device_default_stream(world.device);
    assert_ok(ph_stream_create(&other, world.device, &blocking));
    assert_ok(t_gate_wait(&gates[0], other));
    assert_ok(ph_stream_wait_stream(world.stream, other));
    launch(world.stream, inline_kernel, 1);
    assert_int_equal(seen.blocks, 0);
    launch(first, inline_kernel, 1); /* behind the blocking stream */
    assert_int_equal(seen.blocks, 0);
    t_gate_open(&gates[0]);
    assert_ok(ph_device_synchronize(world.device));
    assert_int_equal(seen.blocks, 2);
    assert_ok(t_gate_wait(&gates[1], first));
    launch(other, inline_kernel, 1);
    assert_int_equal(seen.blocks, 2);
    launch(world.stream, inline_kernel, 1); /* is not ordered against it */
    assert_int_equal(seen.blocks, 3);
    assert_true(by_me());
    t_gate_open(&gates[1]);
    assert_ok(ph_device_synchronize(world.device));
    assert_int_equal(seen.blocks, 4);
    launch(other, inline_kernel, 1); /* the default stream is idle again */
    assert_int_equal(seen.blocks, 5);
    assert_true(by_me());
    ph_stream_destroy(other);
}

TEST(test_never_on_the_default_stream)
{
    ph_stream *first = ph_device_default_stream(world.device);
    launch(first, inline_kernel, 1);
    assert_ok(ph_stream_synchronize(first));
    assert_int_equal(seen.blocks, 1);
    assert_false(by_me());
}

/* Another thread's work comes behind the kernel that this one is running. */
static t_gate inside, go_on;
static void hold(const ph_block_range *range, const void *args)
{
    (void)range;
    (void)args;
    t_gate_open(&inside);
    t_gate_body(&go_on);
    atomic_fetch_add(&seen.blocks, 1);
}

static void *launch_held(void *user)
{
    const struct note_args args = {&seen, 1};
    ph_ignore(ph_launch(world.stream, user, NULL, &args, sizeof args));
    return NULL;
}

TEST(test_beside_another_thread)
{
    pthread_t thread;
    inside = (t_gate){0};
    go_on = (t_gate){0};
    ph_kernel *holding = make(world.device, hold, true);
    assert_true(ph__thread_start(&thread, "test", launch_held, holding));
    t_gate_body(&inside);
    launch(world.stream, inline_kernel, 1);
    assert_int_equal(seen.blocks, 0);
    t_gate_open(&go_on);
    assert_ok(ph_stream_synchronize(world.stream));
    assert_int_equal(seen.blocks, 2);
    pthread_join(thread, NULL);
    ph_kernel_release(holding);
}

TEST(test_in_a_capture)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    launch(world.stream, inline_kernel, 1);
    assert_int_equal(seen.blocks, 0);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    assert_int_equal(seen.blocks, 1);
    ph_graph_destroy(graph);
}

/* There the scheduler's thread runs all, when it likes. */
TEST(test_under_chaos)
{
    open_named("host:chaos=7");
    for (int i = 0; i < 20; i++)
        launch(world.stream, inline_kernel, 1);
    assert_ok(ph_stream_synchronize(world.stream));
    assert_int_equal(seen.blocks, 20);
    assert_false(by_me());
    close_world(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_on_an_idle_stream),
        IN_WORLD(test_large_grids_and_other_kernels),
        IN_WORLD(test_arguments_that_are_not_aligned),
        IN_WORLD(test_shared_memory),
        IN_WORLD(test_behind_work_of_the_stream),
        IN_WORLD(test_behind_other_streams),
        IN_WORLD(test_never_on_the_default_stream),
        IN_WORLD(test_beside_another_thread),
        IN_WORLD(test_in_a_capture),
        cmocka_unit_test(test_under_chaos),
    };
    return cmocka_run_group_tests_name("host_inline", tests, NULL, NULL);
}
