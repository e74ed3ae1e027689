/* SPDX-License-Identifier: MIT */
/* tests/unit/host_exec.c: executables of the host device: launches, changed parameters,
 * switched-off nodes, event nodes. */
#include "support/host_driver.h"
#include "support/test.h"
#include <phonograph/host.h>

static int open_world(void **state)
{
    static world w;
    world_open(&w, 0);
    *state = &w;
    return 0;
}

static int close_world(void **state)
{
    world_close(*state);
    return 0;
}

static void a_replay_does_what_was_captured(void **state)
{
    world *w = *state;
    ph__drv_graph *graph = capture_mixed(w);
    ph__drv_exec *exec = instantiate(graph);
    int32_t expected = 0;
    for (int i = 0; i < 20; i++) {
        expected = (expected * 2 + 1) * 2 + 1;
        expected &= 0xffff;
        launch(exec, i % 3 ? w->a : w->b);
        wait_for(i % 3 ? w->a : w->b);
        w->words[0] &= 0xffff;
        assert_int_equal(w->words[0], expected);
        assert_int_equal(w->words[2], 22);
    }
    drv->exec_destroy(exec);
    drv->graph_destroy(graph);
}

static void nothing_captured_is_nothing_replayed(void **state)
{
    world *w = *state;
    begin(w->a);
    ph__drv_graph *graph = end(w->a);
    ph__drv_exec *exec = instantiate(graph);
    launch(exec, w->a);
    launch(exec, w->b);
    wait_for(w->a);
    wait_for(w->b);
    drv->exec_destroy(exec);
    drv->graph_destroy(graph);
}

static void instantiate_checks_what_it_is_given(void **state)
{
    world *w = *state;
    ph__drv_exec *exec = NULL;
    ph__drv_capture capture;
    assert_int_equal(drv->instantiate(&exec, NULL, 0, NULL), 1);
    begin(w->a);
    assert_int_equal(drv->capture_get(&capture, w->a), 0);
    assert_int_equal(drv->instantiate(&exec, capture.graph, 0, NULL), 401);
    ph__drv_graph *graph = end(w->a);
    assert_int_equal(drv->instantiate(&exec, graph, 2, NULL), 1);
    assert_null(exec);
    assert_int_equal(drv->instantiate(&exec, graph, PH__INSTANTIATE_USE_NODE_PRIORITY, NULL), 0);
    drv->exec_destroy(exec);
    assert_int_equal(drv->instantiate(&exec, graph, PH__INSTANTIATE_DEFER_UPLOAD, NULL), 0);
    drv->exec_destroy(exec);
    assert_int_equal(drv->instantiate(&exec, graph, PH__INSTANTIATE_AUTO_FREE_ON_LAUNCH, NULL), 0);
    drv->exec_destroy(exec);
    drv->exec_destroy(NULL);
    drv->graph_destroy(graph);
    drv->graph_destroy(NULL);
}

/* Launches on two streams are one after the other, in the order in which they were made. */
static void launches_of_one_executable_are_serialised(void **state)
{
    world *w = *state;
    gate g = {0};
    begin(w->a);
    assert_int_equal(gate_wait(&g, w->a), 0);
    assert_int_equal(launch_add(w, w->a, 0, 10, 1), 0);
    ph__drv_graph *graph = end(w->a);
    ph__drv_exec *exec = instantiate(graph);
    struct add_args args = {.words = w->words, .at = 0, .scale = 10, .value = 1};
    const ph__drv_launch next = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .args = &args};
    for (int i = 1; i <= 6; i++) {
        args.value = i;
        assert_int_equal(drv->exec_set_kernel(exec, node_at(graph, 1), &next), 0);
        launch(exec, i % 2 ? w->a : w->b);
    }
    assert_int_equal(drv->stream_query(w->b), 600);
    assert_int_equal(w->words[0], 0);
    atomic_store(&g.open, true);
    wait_for(w->b);
    assert_int_equal(w->words[0], 123456);
    drv->exec_destroy(exec);
    drv->graph_destroy(graph);
}

/* Each kind of node, changed once while a launch is in flight and once while none is. */
static void changes_apply_to_later_launches_alone(void **state)
{
    world *w = *state;
    gate g = {0}, other = {.open = true};
    const ph__drv_memset fill = {.dst = w->words + 1, .value = 7, .value_size = 4, .count = 1};
    const ph__drv_memcpy copy = {.dst = w->words + 2, .src = w->words + 1, .bytes = 4};
    begin(w->a);
    assert_int_equal(gate_wait(&g, w->a), 0);
    assert_int_equal(launch_add(w, w->a, 0, 1, 1), 0);
    assert_int_equal(drv->fill(w->a, &fill), 0);
    assert_int_equal(drv->copy(w->a, &copy, NULL), 0);
    ph__drv_graph *graph = end(w->a);
    ph__drv_exec *exec = instantiate(graph);
    for (int in_flight = 1; in_flight >= 0; in_flight--) {
        memset(w->words, 0, WORDS * sizeof(int32_t));
        launch(exec, w->a);
        wait_until_reached(&g);
        if (!in_flight)
            wait_for(w->a);
        const struct add_args args = {.words = w->words, .at = 5, .scale = 0, .value = 50};
        const ph__drv_launch kernel = {.grid = {2, 1, 1}, .block = {8, 1, 1}, .args = &args};
        const ph__drv_memset fill2 = {.dst = w->words + 6, .value = 8, .value_size = 4, .count = 2};
        const ph__drv_memcpy copy2 = {.dst = w->words + 8, .src = w->words + 6, .bytes = 8};
        const ph__drv_host host = {.fn = gate_body, .user = &other};
        atomic_store(&other.reached, false);
        assert_int_equal(drv->exec_set_kernel(exec, node_at(graph, 1), &kernel), 0);
        assert_int_equal(drv->exec_set_fill(exec, node_at(graph, 2), &fill2), 0);
        assert_int_equal(drv->exec_set_copy(exec, node_at(graph, 3), &copy2), 0);
        assert_int_equal(drv->exec_set_host(exec, node_at(graph, 0), &host), 0);
        launch(exec, w->b);
        if (in_flight) {
            assert_false(atomic_load(&other.reached));
            atomic_store(&g.open, true);
        }
        wait_for(w->b);
        assert_true(atomic_load(&other.reached));
        assert_int_equal(w->words[0], in_flight); /* the first launch, with what it had */
        assert_int_equal(w->words[2], in_flight ? 7 : 0);
        assert_int_equal(w->words[5], 50);
        assert_int_equal(w->words[8], 8);
        assert_int_equal(w->words[9], 8);
    }
    drv->exec_destroy(exec);
    drv->graph_destroy(graph);
}

static void set_refuses_what_does_not_fit(void **state)
{
    world *w = *state;
    ph__drv_graph *graph = capture_mixed(w), *another = capture_mixed(w);
    ph__drv_exec *exec = instantiate(graph);
    const struct add_args args = {.words = w->words};
    ph__drv_launch kernel = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .args = &args};
    const ph__drv_memset bytes = {.dst = w->words, .value_size = 1, .count = 1};
    const ph__drv_memcpy copy = {.dst = w->words, .src = w->words + 1, .bytes = 4};
    const ph__drv_host host = {.fn = NULL};
    bool enabled;
    assert_int_equal(drv->exec_set_kernel(exec, node_at(graph, 1), &kernel), 1);
    assert_int_equal(drv->exec_set_kernel(exec, node_at(another, 0), &kernel), 1);
    kernel.args = NULL;
    assert_int_equal(drv->exec_set_kernel(exec, node_at(graph, 0), &kernel), 1);
    kernel.args = &args;
    kernel.block[0] = 0;
    assert_int_equal(drv->exec_set_kernel(exec, node_at(graph, 0), &kernel), 1);
    kernel.block[0] = 4096;
    assert_int_equal(drv->exec_set_kernel(exec, node_at(graph, 0), &kernel), 1);
    kernel.block[0] = 1;
    assert_int_equal(drv->exec_set_args(exec, node_at(graph, 0), &kernel, sizeof args - 1), 1);
    assert_int_equal(drv->exec_set_args(exec, node_at(graph, 0), &kernel, sizeof args + 1), 1);
    assert_int_equal(drv->exec_set_args(exec, node_at(graph, 1), &kernel, sizeof args), 1);
    assert_int_equal(drv->exec_set_fill(exec, node_at(graph, 1), &bytes), 1);
    assert_int_equal(drv->exec_set_copy(exec, node_at(graph, 1), &copy), 1);
    assert_int_equal(drv->exec_set_host(exec, node_at(graph, 1), &host), 1);
    assert_int_equal(drv->exec_set_enabled(exec, node_at(another, 0), false), 1);
    assert_int_equal(drv->exec_get_enabled(&enabled, exec, node_at(another, 0)), 1);
    launch(exec, w->a); /* all as it was */
    wait_for(w->a);
    assert_int_equal(w->words[0], 3);
    assert_int_equal(w->words[2], 22);
    drv->exec_destroy(exec);
    drv->graph_destroy(another);
    drv->graph_destroy(graph);
}

static void a_disabled_node_does_nothing(void **state)
{
    world *w = *state;
    gate g = {0};
    bool enabled = false;
    begin(w->a);
    assert_int_equal(launch_add(w, w->a, 0, 1, 1), 0);
    assert_int_equal(gate_wait(&g, w->a), 0);
    assert_int_equal(launch_add(w, w->a, 1, 1, 1), 0);
    ph__drv_graph *graph = end(w->a);
    ph__drv_exec *exec = instantiate(graph);
    assert_int_equal(drv->exec_set_enabled(exec, node_at(graph, 1), false),
                     1); /* a host function cannot be */
    assert_int_equal(drv->exec_get_enabled(&enabled, exec, node_at(graph, 1)), 1);
    assert_int_equal(drv->exec_get_enabled(&enabled, exec, node_at(graph, 2)), 0);
    assert_true(enabled);
    launch(exec, w->a);
    wait_until_reached(&g);
    assert_int_equal(drv->exec_set_enabled(exec, node_at(graph, 2), false),
                     0); /* the launch in flight keeps it */
    assert_int_equal(drv->exec_get_enabled(&enabled, exec, node_at(graph, 2)), 0);
    assert_false(enabled);
    launch(exec, w->a);
    atomic_store(&g.open, true);
    wait_for(w->a);
    assert_int_equal(w->words[0], 2);
    assert_int_equal(w->words[1], 1);
    assert_int_equal(drv->exec_set_enabled(exec, node_at(graph, 2), true), 0);
    launch(exec, w->a);
    wait_for(w->a);
    assert_int_equal(w->words[1], 2);
    drv->exec_destroy(exec);
    drv->graph_destroy(graph);
}

static void a_launch_and_an_upload_cannot_be_captured(void **state)
{
    world *w = *state;
    ph__drv_graph *graph = capture_mixed(w);
    ph__drv_exec *exec = instantiate(graph);
    ph__drv_graph *none = NULL;
    begin(w->b);
    assert_int_equal(drv->exec_upload(&exec, 1, w->b), 900);
    assert_int_equal(status_of(w->b), PH_CAPTURE_INVALIDATED);
    assert_int_equal(drv->capture_end(&none, w->b), 901);
    begin(w->b);
    launch(exec, w->a);
    assert_int_equal(status_of(w->b), PH_CAPTURE_ACTIVE);
    assert_int_equal(drv->exec_launch(exec, w->b), 900);
    assert_int_equal(status_of(w->b), PH_CAPTURE_INVALIDATED);
    assert_int_equal(drv->capture_end(&none, w->b), 901);
    wait_for(w->a);
    assert_int_equal(w->words[0], 3);
    assert_int_equal(drv->exec_upload(&exec, 1, w->a), 0);
    drv->exec_destroy(exec);
    drv->graph_destroy(graph);
}

static void an_executable_may_go_while_it_runs(void **state)
{
    world *w = *state;
    gate g = {0};
    begin(w->a);
    assert_int_equal(gate_wait(&g, w->a), 0);
    assert_int_equal(launch_add(w, w->a, 0, 1, 1), 0);
    ph__drv_graph *graph = end(w->a);
    ph__drv_exec *exec = instantiate(graph);
    launch(exec, w->a);
    launch(exec, w->b);
    drv->exec_destroy(exec);
    drv->graph_destroy(graph);
    atomic_store(&g.open, true);
    wait_for(w->b);
    assert_int_equal(w->words[0], 2);
}

/* ---- event nodes ---- */

static void event_nodes_meet_the_world_outside(void **state)
{
    world *w = *state;
    gate g = {0};
    ph__drv_event *in = new_event(w), *out = new_event(w);
    begin(w->a);
    assert_int_equal(drv->stream_wait_event(w->a, in, PH__EVENT_RECORD_EXTERNAL), 0);
    assert_int_equal(launch_add(w, w->a, 0, 10, 1), 0);
    assert_int_equal(drv->event_record(out, w->a, PH__EVENT_RECORD_EXTERNAL), 0);
    ph__drv_graph *graph = end(w->a);
    ph__drv_exec *exec = instantiate(graph);
    launch(exec, w->a); /* nothing recorded yet: no wait */
    wait_for(w->a);
    assert_int_equal(drv->event_query(out), 0);

    assert_int_equal(gate_wait(&g, w->b), 0);
    assert_int_equal(launch_add(w, w->b, 0, 10, 2), 0);
    assert_int_equal(drv->event_record(in, w->b, 0), 0);
    launch(exec, w->a);
    wait_until_reached(&g);
    assert_int_equal(drv->stream_query(w->a), 600);
    atomic_store(&g.open, true);
    wait_for(w->a);
    assert_int_equal(w->words[0], 121);
    wait_for(w->b);
    drv->event_destroy(in); /* the nodes keep theirs */
    drv->event_destroy(out);
    launch(exec, w->a);
    wait_for(w->a);
    assert_int_equal(w->words[0], 1211);
    drv->exec_destroy(exec);
    drv->graph_destroy(graph);
}

static void an_event_node_takes_the_time(void **state)
{
    world *w = *state;
    ph__drv_event *start = NULL, *stop = NULL;
    float milliseconds = -1;
    assert_int_equal(drv->event_create(&start, w->device, PH__EVENT_TIMING), 0);
    assert_int_equal(drv->event_create(&stop, w->device, PH__EVENT_TIMING), 0);
    begin(w->a);
    assert_int_equal(drv->event_record(start, w->a, PH__EVENT_RECORD_EXTERNAL), 0);
    assert_int_equal(launch_add(w, w->a, 0, 1, 1), 0);
    assert_int_equal(drv->event_record(stop, w->a, PH__EVENT_RECORD_EXTERNAL), 0);
    ph__drv_graph *graph = end(w->a);
    ph__drv_exec *exec = instantiate(graph);
    launch(exec, w->a);
    wait_for(w->a);
    assert_int_equal(drv->event_elapsed(&milliseconds, start, stop), 0);
    assert_true(milliseconds >= 0);
    drv->exec_destroy(exec);
    drv->graph_destroy(graph);
    drv->event_destroy(start);
    drv->event_destroy(stop);
}

/* ---- memory ---- */

/* 600 launches on two streams with changes between them; how many allocations they made. */
static int64_t allocations_of_launches(world *w, ph__drv_exec *exec, ph__drv_node *node)
{
    int64_t before = ph__alloc_count();
    for (int i = 0; i < 200; i++) {
        const struct add_args args = {.words = w->words, .at = 3, .scale = 1, .value = i};
        const ph__drv_launch change = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .args = &args};
        for (int k = 0; k < 3; k++) {
            assert_int_equal(drv->exec_set_kernel(exec, node, &change), 0);
            launch(exec, k == 1 ? w->b : w->a);
        }
        wait_for(w->a);
        wait_for(w->b);
    }
    return ph__alloc_count() - before;
}

/* A chain that may run on the caller, and one that a host function keeps on the stream's thread.
 * What is recycled grows up to the deepest moment, which the threads' timing decides: after a
 * few rounds one must do without any allocation. */
static void replays_allocate_nothing(void **state)
{
    world *w = *state;
    gate open = {.open = true};
    ph__drv_event *out = new_event(w);
    for (int blocking = 0; blocking < 2; blocking++) {
        begin(w->a);
        for (int i = 0; i < 10; i++)
            assert_int_equal(launch_add(w, w->a, i, 1, 1), 0);
        if (blocking) {
            assert_int_equal(gate_wait(&open, w->a), 0);
            assert_int_equal(drv->event_record(out, w->a, PH__EVENT_RECORD_EXTERNAL), 0);
        }
        ph__drv_graph *graph = end(w->a);
        ph__drv_exec *exec = instantiate(graph);
        int rounds = 0;
        w->words[0] = 0;
        int64_t made;
        do {
            made = allocations_of_launches(w, exec, node_at(graph, 3));
            rounds++;
        } while (made > 0 && rounds < 10);
        assert_int_equal(made, 0);
        assert_int_equal(w->words[0], rounds * 600);
        drv->exec_destroy(exec);
        drv->graph_destroy(graph);
    }
    drv->event_destroy(out);
}

struct shared_args {
    int64_t *sum;
    size_t bytes;
};

static void shared_body(const ph_block_range *range, const void *args)
{
    const struct shared_args *shared = args;
    memset(range->shared, 1, shared->bytes);
    *shared->sum += (int64_t)shared->bytes;
}

static void set_shared(ph__drv_exec *exec, ph__drv_node *node, int64_t *sum, size_t bytes)
{
    const struct shared_args args = {.sum = sum, .bytes = bytes};
    const ph__drv_launch with = {
        .grid = {1, 1, 1}, .block = {1, 1, 1}, .shared_bytes = bytes, .args = &args};
    assert_int_equal(drv->exec_set_kernel(exec, node, &with), 0);
}

/* Memory for it is had by the launch call or the call fails: nothing is needed any more when the
 * launch runs. */
static void more_shared_memory_may_be_asked_for_in_flight(void **state)
{
    world *w = *state;
    gate g = {0};
    int64_t sum = 0;
    const ph_kernel_source source = {
        .name = "shared", .host = shared_body, .args_size = sizeof(struct shared_args)};
    const struct shared_args args = {.sum = &sum, .bytes = 4000};
    const ph__drv_launch with = {
        .grid = {1, 1, 1}, .block = {1, 1, 1}, .shared_bytes = 4000, .args = &args};
    ph__drv_kernel *kernel = NULL;
    assert_int_equal(drv->kernel_create(&kernel, w->device, &source), 0);
    begin(w->a);
    assert_int_equal(gate_wait(&g, w->a), 0);
    assert_int_equal(drv->launch(w->a, kernel, &with), 0);
    ph__drv_graph *graph = end(w->a);
    ph__drv_exec *exec = instantiate(graph);
    ph__drv_node *node = node_at(graph, 1);
    launch(exec, w->a);
    set_shared(exec, node, &sum, 200000);
    ph__alloc_fail_after(0);
    assert_int_equal(drv->exec_launch(exec, w->a), 2);
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    launch(exec, w->a);
    set_shared(exec, node, &sum, 50);
    launch(exec, w->a);
    set_shared(exec, node, &sum, 200000);
    launch(exec, w->a);
    wait_until_reached(&g);
    ph__alloc_fail_after(0);
    atomic_store(&g.open, true);
    wait_for(w->a);
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    assert_int_equal(sum, 404050);
    set_shared(exec, node, &sum, 220000); /* and while none is in flight */
    launch(exec, w->a);
    wait_for(w->a);
    assert_int_equal(sum, 624050);
    drv->exec_destroy(exec);
    drv->graph_destroy(graph);
    drv->kernel_destroy(kernel);
}

static void out_of_memory_leaves_everything_as_it_was(void **state)
{
    world *w = *state;
    gate g = {0};
    ph__drv_event *out = new_event(w);
    begin(w->a);
    assert_int_equal(gate_wait(&g, w->a), 0);
    assert_int_equal(launch_add(w, w->a, 0, 10, 1), 0);
    assert_int_equal(drv->event_record(out, w->a, PH__EVENT_RECORD_EXTERNAL), 0);
    ph__drv_graph *graph = end(w->a);
    ph__drv_exec *exec = NULL;
    int refused = 0, result = 2;
    for (int64_t n = 0; result == 2; n++) {
        int64_t live = ph__alloc_live();
        ph__alloc_fail_after(n);
        result = drv->instantiate(&exec, graph, 0, NULL);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (result == 2)
            assert_int_equal(ph__alloc_live(), live);
        refused += result == 2;
    }
    assert_int_equal(result, 0);
    assert_true(refused > 10);
    for (int i = 1; i <= 4;
         /* on alternate streams, each with a change: markers, commands, patches, launch objects */
         i++) {
        const struct add_args args = {.words = w->words, .at = 0, .scale = 10, .value = i};
        const ph__drv_launch change = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .args = &args};
        assert_int_equal(drv->exec_set_kernel(exec, node_at(graph, 1), &change), 0);
        result = 2;
        for (int64_t n = 0; result == 2; n++) {
            ph__alloc_fail_after(n);
            result = drv->exec_launch(exec, i % 2 ? w->a : w->b);
            ph__alloc_fail_after(PH__ALLOC_NEVER);
        }
        assert_int_equal(result, 0);
    }
    atomic_store(&g.open, true);
    wait_for(w->b);
    assert_int_equal(w->words[0], 1234);
    drv->exec_destroy(exec);
    drv->graph_destroy(graph);
    drv->event_destroy(out);
}

/* ---- threads and chaos ---- */

typedef struct launcher {
    ph__drv_exec *exec;
    ph__drv_stream *stream;
    ph__drv_node *node;
    int failures;
} launcher;

static void *launch_many(void *argument)
{
    launcher *l = argument;
    for (int i = 0; i < 200; i++) {
        if (i % 5 == 0)
            l->failures += drv->exec_set_enabled(l->exec, l->node, true) != 0;
        l->failures += drv->exec_launch(l->exec, l->stream) != 0;
        if (i % 16 == 0)
            l->failures += drv->stream_synchronize(l->stream) != 0;
    }
    return NULL;
}

static void threads_launch_one_executable(void **state)
{
    enum {
        THREADS = 3
    };
    world *w = *state;
    launcher l[THREADS];
    pthread_t threads[THREADS];
    begin(w->a);
    assert_int_equal(launch_add(w, w->a, 0, 1, 1), 0);
    assert_int_equal(launch_add(w, w->a, 1, 1, 1), 0);
    ph__drv_graph *graph = end(w->a);
    ph__drv_exec *exec = instantiate(graph);
    for (int i = 0; i < THREADS; i++) {
        l[i] = (launcher){.exec = exec, .stream = i % 2 ? w->a : w->b, .node = node_at(graph, 1)};
        assert_int_equal(pthread_create(&threads[i], NULL, launch_many, &l[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(l[i].failures, 0);
    }
    wait_for(w->a);
    wait_for(w->b);
    assert_int_equal(w->words[0], THREADS * 200);
    assert_int_equal(w->words[1], THREADS * 200);
    drv->exec_destroy(exec);
    drv->graph_destroy(graph);
}

TEST(chaos_changes_no_result)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        world w;
        world_open(&w, seed);
        ph__drv_event *in = new_event(&w), *fork = new_event(&w);
        begin(w.a);
        assert_int_equal(drv->stream_wait_event(w.a, in, PH__EVENT_RECORD_EXTERNAL), 0);
        assert_int_equal(order(fork, w.a, w.b), 0);
        assert_int_equal(launch_add(&w, w.a, 0, 10, 1), 0);
        assert_int_equal(launch_add(&w, w.b, 1, 10, 2), 0);
        assert_int_equal(order(fork, w.b, w.a), 0);
        assert_int_equal(launch_add(&w, w.a, 0, 10, 3), 0);
        ph__drv_graph *graph = end(w.a);
        ph__drv_exec *exec = instantiate(graph);
        assert_int_equal(launch_add(&w, w.b, 0, 0, 5), 0);
        assert_int_equal(drv->event_record(in, w.b, 0), 0);
        launch(exec, w.a);
        launch(exec, w.b);
        wait_for(w.b);
        assert_int_equal(w.words[0], 51313);
        assert_int_equal(w.words[1], 22);
        drv->exec_destroy(exec);
        drv->graph_destroy(graph);
        drv->event_destroy(in);
        drv->event_destroy(fork);
        world_close(&w);
    }
}

/* ---- phonograph/host.h ---- */

static void programs_read_the_raw_graph(void **state)
{
    world *w = *state;
    ph__drv_graph *graph = capture_mixed(w);
    ph_host_graph *raw = (ph_host_graph *)graph;
    ph_host_node *nodes[8] = {NULL}, *dependencies[2] = {NULL};
    ph_node_kind kind;
    size_t count = 99;
    assert_int_equal(ph_host_graph_nodes(NULL, 0, &count, raw), PH_OK);
    assert_int_equal(count, 5);
    assert_int_equal(ph_host_graph_nodes(nodes, 2, &count, raw), PH_OK);
    assert_int_equal(count, 5);
    assert_null(nodes[2]);
    assert_int_equal(ph_host_graph_nodes(nodes, 8, &count, raw), PH_OK);
    assert_ptr_equal(nodes[4], node_at(graph, 4));
    assert_int_equal(ph_host_node_kind(&kind, nodes[2]), PH_OK);
    assert_int_equal(kind, PH_NODE_MEMCPY);
    assert_int_equal(ph_host_node_dependencies(dependencies, 2, &count, nodes[4]), PH_OK);
    assert_int_equal(count, 2);
    assert_ptr_equal(dependencies[0], nodes[3]);
    assert_ptr_equal(dependencies[1], nodes[2]);
    assert_int_equal(ph_host_graph_nodes(nodes, 8, &count, NULL), PH_ERROR_ARGUMENT);
    assert_int_equal(count, 0);
    assert_int_equal(ph_host_graph_nodes(NULL, 8, &count, raw), PH_ERROR_ARGUMENT);
    assert_int_equal(ph_host_graph_nodes(nodes, 8, NULL, raw), PH_ERROR_ARGUMENT);
    assert_int_equal(ph_host_node_kind(NULL, nodes[0]), PH_ERROR_ARGUMENT);
    assert_int_equal(ph_host_node_kind(&kind, NULL), PH_ERROR_ARGUMENT);
    assert_int_equal(ph_host_node_dependencies(dependencies, 2, &count, NULL), PH_ERROR_ARGUMENT);
    assert_non_null(strstr(ph_error_last()->message, "ph_host_node_dependencies"));
    drv->graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_replay_does_what_was_captured),
        IN_WORLD(nothing_captured_is_nothing_replayed),
        IN_WORLD(instantiate_checks_what_it_is_given),
        IN_WORLD(launches_of_one_executable_are_serialised),
        IN_WORLD(changes_apply_to_later_launches_alone),
        IN_WORLD(set_refuses_what_does_not_fit),
        IN_WORLD(a_disabled_node_does_nothing),
        IN_WORLD(a_launch_and_an_upload_cannot_be_captured),
        IN_WORLD(an_executable_may_go_while_it_runs),
        IN_WORLD(event_nodes_meet_the_world_outside),
        IN_WORLD(an_event_node_takes_the_time),
        IN_WORLD(replays_allocate_nothing),
        IN_WORLD(more_shared_memory_may_be_asked_for_in_flight),
        IN_WORLD(out_of_memory_leaves_everything_as_it_was),
        IN_WORLD(threads_launch_one_executable),
        cmocka_unit_test(chaos_changes_no_result),
        IN_WORLD(programs_read_the_raw_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
