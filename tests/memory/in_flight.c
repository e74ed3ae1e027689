/* SPDX-License-Identifier: MIT */
/* tests/memory/in_flight.c: memory that a replay in flight reads is not given back to the
 * device, whatever has become of its graph, its pool and its streams meanwhile. */
#include "base/clock.h"
#include "base/sync.h"
#include "support/support.h"
#include "support/test.h"

enum {
    COUNT = 1024
};

/* A graph that waits at a gate and then adds x, which others may free, to y. */
typedef struct flight {
    t_world w;
    t_gate gate;
    ph_stream *owner, *runner; /* x is the former's; replays are on the latter */
    int32_t *x, *y;
    ph_graph *graph;
} flight;

static ph_status body(ph_stream *stream, void *user)
{
    flight *f = user;
    PH_TRY(ph_launch_host(stream, t_gate_body, &f->gate));
    return t_add(&f->w, stream, f->x, f->y, COUNT, 3);
}

static size_t reserved(const flight *f)
{
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, f->w.device));
    return stats.reserved;
}

static size_t pinned_reserved(const flight *f)
{
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, f->w.device));
    return stats.pinned_reserved;
}

static void prepare(flight *f, ph_pool *pinned)
{
    assert_ok(ph_stream_create(&f->owner, f->w.device, NULL));
    assert_ok(ph_stream_create(&f->runner, f->w.device, NULL));
    if (pinned) {
        assert_ok(ph_pool_begin(pinned));
        assert_ok(ph_malloc_pinned(&f->x, COUNT, sizeof *f->x, f->owner));
        assert_ok(ph_pool_end(pinned));
    } else {
        assert_ok(PH_NEW(&f->x, COUNT, f->owner));
    }
    assert_ok(PH_NEW(&f->y, COUNT, f->w.stream));
    assert_ok(t_fill(&f->w, f->w.stream, f->x, COUNT, 4));
    assert_ok(t_fill(&f->w, f->w.stream, f->y, COUNT, 0));
    assert_ok(ph_stream_synchronize(f->w.stream));
    assert_ok(ph_graph_create(&f->graph, NULL));
    assert_ok(ph_graph_capture(f->graph, f->runner, NULL, body, f));
    t_gate_shut(&f->gate);
    assert_ok(ph_graph_replay(f->graph, f->runner));
}

static void open_world(flight *f)
{
    *f = (flight){.gate = {.behind = true}};
    t_open(&f->w, NULL);
}

static void close_world(flight *f)
{
    ph_free(f->y, f->w.stream);
    ph_stream_destroy(f->runner);
    ph_stream_destroy(f->owner);
    t_close(&f->w);
}

/* Opens the gate when the caller has had time to do what it must not do before. */
static void *open_later(void *argument)
{
    ph__sleep_ns(30000000);
    t_gate_open(argument);
    return NULL;
}

typedef enum how {
    DESTROYED,
    RESET,
    KEPT
} how;

static void let_go(flight *f, how what)
{
    if (what == DESTROYED)
        ph_graph_destroy(f->graph);
    else if (what == RESET)
        assert_ok(ph_graph_reset(f->graph));
}

static void check_trim(how what, bool without_runner)
{
    flight f;
    pthread_t opener;
    open_world(&f);
    prepare(&f, NULL);
    let_go(&f, what);
    ph_free(f.x, f.owner);
    if (without_runner) {
        ph_stream_destroy(f.runner);
        f.runner = NULL;
    }
    assert_true(ph__thread_start(&opener, "ph-test", open_later, &f.gate));
    assert_ok(ph_memory_trim(f.w.device));
    assert_int_equal(pthread_join(opener, NULL), 0);
    assert_ok(ph_device_synchronize(f.w.device));
    t_all(f.y, COUNT, 7, f.w.stream);
    if (what != DESTROYED)
        ph_graph_destroy(f.graph);
    close_world(&f);
}

TEST(test_trim_waits_for_it)
{
    check_trim(KEPT, false);
    check_trim(DESTROYED, false);
    check_trim(RESET, false);
}

TEST(test_trim_waits_for_a_stream_that_was_destroyed)
{
    check_trim(DESTROYED, true);
    check_trim(RESET, true);
}

/* Some calls that look for what is due. */
static void allocate_and_free(const flight *f)
{
    void *other;
    for (int i = 0; i < 3; i++) {
        assert_ok(ph_malloc(&other, 1, 4096, f->w.stream));
        ph_free(other, f->w.stream);
    }
}

/* What no stream can ask for any more leaves at the next call that looks, without waiting. */
static void check_abandoned(how what, bool without_runner)
{
    flight f;
    open_world(&f);
    prepare(&f, NULL);
    size_t before = reserved(&f);
    let_go(&f, what);
    ph_free(f.x, f.owner);
    ph_stream_destroy(f.owner);
    f.owner = NULL;
    if (without_runner) {
        ph_stream_destroy(f.runner);
        f.runner = NULL;
    }
    allocate_and_free(&f);
    size_t during = reserved(&f);
    if (t_gate_held(&f.gate))
        assert_int_equal(during, before);
    t_gate_open(&f.gate);
    assert_ok(ph_device_synchronize(f.w.device));
    t_all(f.y, COUNT, 7, f.w.stream);
    if (what != DESTROYED)
        ph_graph_destroy(f.graph);
    allocate_and_free(&f);
    assert_true(reserved(&f) < before);
    close_world(&f);
}

TEST(test_abandoned_memory_stays)
{
    check_abandoned(KEPT, false);
    check_abandoned(DESTROYED, false);
    check_abandoned(RESET, false);
    check_abandoned(DESTROYED, true);
}

/* Pinned memory that a kernel reads, of a pool that has gone. */
TEST(test_pinned_memory_stays)
{
    flight f;
    ph_pool *pool;
    open_world(&f);
    assert_ok(ph_pool_create(&pool, f.w.device, NULL));
    prepare(&f, pool);
    ph_graph_destroy(f.graph);
    ph_free_pinned(f.x, f.owner);
    ph_pool_release(pool);
    allocate_and_free(&f);
    size_t during = pinned_reserved(&f);
    if (t_gate_held(&f.gate))
        assert_true(during > 0);
    t_gate_open(&f.gate);
    assert_ok(ph_device_synchronize(f.w.device));
    t_all(f.y, COUNT, 7, f.w.stream);
    allocate_and_free(&f);
    int32_t *again; /* the memory has not gone, but is free */
    assert_ok(ph_malloc_pinned(&again, COUNT, sizeof *again, f.w.stream));
    assert_ptr_equal(again, f.x);
    ph_free_pinned(again, f.w.stream);
    assert_ok(ph_memory_trim(f.w.device));
    assert_int_equal(pinned_reserved(&f), 0);
    close_world(&f);
}

/* A shortage gives back what is cached, behind the same replays. */
TEST(test_a_shortage_waits_for_it)
{
    const size_t most = (size_t)64 << 20;
    flight f = {.gate = {.behind = true}};
    pthread_t opener;
    void *large;
    ph_device *device;
    assert_ok(t_open_small(&device, most));
    t_open_world(&f.w, device);
    prepare(&f, NULL);
    ph_graph_destroy(f.graph);
    ph_free(f.x, f.owner);
    assert_ok(ph_malloc(&large, 1, most / 2, f.owner));
    ph_free(large, f.owner);
    assert_true(ph__thread_start(&opener, "ph-test", open_later, &f.gate));
    assert_ok(ph_malloc(&large, 1, most / 2 + most / 4, f.w.stream));
    assert_int_equal(pthread_join(opener, NULL), 0);
    assert_ok(ph_device_synchronize(f.w.device));
    t_all(f.y, COUNT, 7, f.w.stream);
    ph_free(large, f.w.stream);
    close_world(&f);
}

/* One stream remembers what several graphs left on it, also such as went while an earlier one
 * was looked at. */
TEST(test_several_graphs_leave_one_after_another)
{
    flight f;
    open_world(&f);
    prepare(&f, NULL);
    ph_graph *first = f.graph;
    assert_ok(ph_graph_create(&f.graph, NULL));
    assert_ok(ph_graph_capture(f.graph, f.w.stream, NULL, body, &f));
    t_gate_open(&f.gate);
    assert_ok(ph_stream_synchronize(f.runner));
    ph_graph_destroy(first);
    t_gate_shut(&f.gate);
    assert_ok(ph_graph_replay(f.graph, f.runner));
    allocate_and_free(&f);
    ph_graph_destroy(f.graph);
    ph_free(f.x, f.owner);
    pthread_t opener;
    assert_true(ph__thread_start(&opener, "ph-test", open_later, &f.gate));
    assert_ok(ph_memory_trim(f.w.device));
    assert_int_equal(pthread_join(opener, NULL), 0);
    assert_ok(ph_device_synchronize(f.w.device));
    t_all(f.y, COUNT, 7, f.w.stream);
    close_world(&f);
}

/* The device's end waits, too, for what nobody holds any more. */
TEST(test_the_device_closes_behind_it)
{
    flight f;
    pthread_t opener;
    open_world(&f);
    prepare(&f, NULL);
    ph_graph_destroy(f.graph);
    ph_free(f.x, f.owner);
    assert_true(ph__thread_start(&opener, "ph-test", open_later, &f.gate));
    close_world(&f);
    assert_int_equal(pthread_join(opener, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trim_waits_for_it),
        cmocka_unit_test(test_trim_waits_for_a_stream_that_was_destroyed),
        cmocka_unit_test(test_abandoned_memory_stays),
        cmocka_unit_test(test_pinned_memory_stays),
        cmocka_unit_test(test_a_shortage_waits_for_it),
        cmocka_unit_test(test_several_graphs_leave_one_after_another),
        cmocka_unit_test(test_the_device_closes_behind_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
