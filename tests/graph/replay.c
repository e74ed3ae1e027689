/* SPDX-License-Identifier: MIT */
/* tests/graph/replay.c: replays: where, how often, at what cost, in what order; epochs; what is
 * released and when. */
#include "support/fixture.h"

#include "base/alloc.h"
#include "base/sync.h"
#include <string.h>

enum {
    N = 4096
};
static t_world world;
static ph_graph *graph;
static int32_t *x;

WORLD(world, .graphs = {&graph}, .arrays = {{&x, N, T_INTS, 0}});

static ph_status add_one(ph_stream *stream, void *user)
{
    (void)user;
    return t_add(&world, stream, x, x, N, 1);
}

/* The device takes memory for as many launches as are in flight at once, and keeps it: after a
 * first round with all of them held back, no replay allocates anything. */
TEST(test_no_allocation)
{
    enum {
        REPLAYS = 1000
    };
    t_gate gate = {0};
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    assert_ok(t_gate_wait_guarded(&gate, world.stream));
    for (int i = 0; i < REPLAYS; i++)
        assert_ok(ph_graph_replay(graph, world.stream));
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(world.stream));
    int64_t before = ph__alloc_count();
    for (int i = 0; i < REPLAYS; i++)
        assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    assert_int_equal(ph__alloc_count(), before);
    t_all(x, N, 2 * REPLAYS, world.stream);
}

TEST(test_many_streams)
{
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    for (int i = 0; i < 20; i++) { /* one graph's replays are ordered whatever stream they are on */
        ph_stream *stream;
        assert_ok(ph_stream_create(&stream, world.device, NULL));
        assert_ok(ph_graph_replay(graph, stream));
        assert_ok(ph_graph_replay(graph, world.stream));
        ph_stream_destroy(stream);
    }
    t_all(x, N, 40, world.stream);
}

/* Nothing runs then: see tests/graph/child.c. */
TEST(test_on_a_capturing_stream)
{
    ph_graph *other;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    assert_ok(ph_graph_create(&other, NULL));
    assert_ok(ph_graph_capture_begin(other, world.stream, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_int_equal(ph_graph_epoch(graph), 0);
    assert_ok(ph_graph_capture_end(other, PH_OK));
    t_all(x, N, 0, world.stream);
    assert_ok(ph_graph_replay(other, world.stream));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 2, world.stream);
    ph_graph_destroy(other);
}

TEST(test_beside_a_capture)
{
    ph_graph *other;
    ph_stream *stream;
    assert_ok(ph_stream_create(&stream, world.device, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    assert_ok(ph_graph_create(&other, NULL));
    assert_ok(ph_graph_capture_begin(other, stream, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(add_one(stream, NULL));
    assert_ok(ph_graph_capture_end(other, PH_OK));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 2, world.stream);
    ph_graph_destroy(other);
    ph_stream_destroy(stream);
}

TEST(test_on_a_destroyed_stream)
{
    ph_stream *stream;
    assert_ok(ph_stream_create(&stream, world.device, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    assert_ok(ph_graph_replay(graph, stream));
    ph_stream_destroy(stream);
    /* The graph remembers it as the last one; the handle is dead all the same. */
    assert_status(ph_graph_replay(graph, stream), PH_ERROR_ARGUMENT);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 2, world.stream);
}

TEST(test_destroy_in_flight)
{
    t_gate gate = {.behind = true};
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    assert_ok(t_gate_wait_guarded(&gate, world.stream));
    for (int i = 0; i < 3; i++)
        assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_reset(graph));
    t_gate_open(&gate);
    t_all(x, N, 3, world.stream);
}

/* Another stream's replay comes behind what the stream of the last one was given since: also
 * behind the default stream's. */
TEST(test_behind_readers_on_the_last_stream)
{
    ph_stream *last[2] = {ph_device_default_stream(world.device)};
    int32_t *y;
    assert_ok(ph_stream_create(&last[1], world.device, NULL));
    assert_ok(PH_NEW(&y, N, world.stream));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    for (int32_t i = 0; i < 2; i++) {
        t_gate gate = {0};
        bool done = true;
        assert_ok(ph_graph_replay(graph, last[i]));
        assert_ok(t_gate_wait_guarded(&gate, last[i]));
        assert_ok(t_add(&world, last[i], x, y, N, 0));
        assert_ok(ph_graph_replay(graph, world.stream));
        for (int k = 0; k < 1000 && done; k++) /* nothing holds it but the gate */
            assert_ok(ph_stream_query(&done, world.stream));
        if (t_gate_held(&gate))
            assert_false(done);
        t_gate_open(&gate);
        t_all(y, N, 2 + 2 * i, last[i]);
        t_all(x, N, 3 + 2 * i, world.stream);
    }
    ph_free(y, world.stream);
    ph_stream_destroy(last[1]);
}

/* ---- threads ---- */
struct replayer {
    ph_graph *graph;
    ph_stream *stream;
    int32_t *y;
    ph_status status;
};

static ph_status count_up(ph_stream *stream, void *user)
{
    struct replayer *r = user;
    int32_t *temporary;
    PH_TRY(PH_NEW(&temporary, N, stream));
    PH_TRY(t_add(&world, stream, r->y, temporary, N, 1));
    PH_TRY(t_add(&world, stream, temporary, r->y, N, 0));
    ph_free(temporary, stream);
    return PH_OK;
}

static void *replay_often(void *argument)
{
    struct replayer *r = argument;
    for (int i = 0; i < 200 && r->status == PH_OK; i++)
        r->status = ph_graph_replay(r->graph, r->stream);
    return NULL;
}

/* Two threads, two graphs, one pool: both use the same temporary, and neither sees the other's. */
TEST(test_two_threads_one_pool)
{
    struct replayer r[2];
    pthread_t threads[2];
    ph_pool *pool;
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    ph_capture_options options = {.pool = pool};
    for (int i = 0; i < 2; i++) {
        r[i].status = PH_OK;
        assert_ok(ph_graph_create(&r[i].graph, NULL));
        assert_ok(ph_stream_create(&r[i].stream, world.device, NULL));
        assert_ok(PH_NEW(&r[i].y, N, world.stream));
        assert_ok(t_fill(&world, world.stream, r[i].y, N, i * 1000));
        assert_ok(ph_graph_capture(r[i].graph, world.stream, &options, count_up, &r[i]));
    }
    assert_ok(ph_stream_synchronize(world.stream));
    for (int i = 0; i < 2; i++)
        assert_true(ph__thread_start(&threads[i], "replayer", replay_often, &r[i]));
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(r[i].status, PH_OK);
    }
    for (int i = 0; i < 2; i++) {
        t_all(r[i].y, N, i * 1000 + 200, r[i].stream);
        ph_graph_destroy(r[i].graph);
        ph_stream_destroy(r[i].stream);
        ph_free(r[i].y, world.stream);
    }
    ph_pool_release(pool);
}

/* ---- epochs ---- */
struct output {
    int32_t *y;
    int32_t value;
};

static ph_status make_output(ph_stream *stream, void *user)
{
    struct output *out = user;
    PH_TRY(PH_NEW(&out->y, N, stream));
    return t_fill(&world, stream, out->y, N, out->value);
}

TEST(test_epochs_of_one_graph)
{
    struct output out = {NULL, 7};
    assert_ok(ph_graph_capture(graph, world.stream, NULL, make_output, &out));
    assert_int_equal(ph_graph_epoch(graph), 0);
    assert_ok(ph_graph_replay(graph, world.stream));
    uint64_t first = ph_graph_epoch(graph);
    assert_true(first > 0);
    assert_ok(ph_graph_check_output(graph, out.y, first));
    assert_ok(ph_graph_check_output(graph, out.y + 17, first)); /* interior addresses too */
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_true(ph_graph_epoch(graph) > first);
    assert_error(ph_graph_check_output(graph, out.y, first), PH_ERROR_OVERWRITTEN,
                 "a later replay of the same graph");
    assert_ok(ph_graph_check_output(graph, out.y, ph_graph_epoch(graph)));
    assert_status(ph_graph_check_output(graph, out.y, ph_graph_epoch(graph) + 1),
                  PH_ERROR_ARGUMENT);
    assert_status(ph_graph_check_output(graph, x, first), PH_ERROR_NOT_FOUND);
    ph_free(out.y, world.stream);
}

/* Two graphs of one pool: the second reuses the first's output once that is freed, and leaves it
 * alone while it is not. */
TEST(test_epochs_of_a_shared_pool)
{
    struct output a = {NULL, 1}, b = {NULL, 2}, c = {NULL, 3};
    ph_graph *second, *third;
    ph_pool *pool;
    assert_ok(ph_graph_create(&second, NULL));
    assert_ok(ph_graph_create(&third, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, make_output, &a));
    assert_ok(ph_graph_pool(&pool, graph));
    ph_capture_options options = {.pool = pool};
    assert_ok(ph_graph_capture(second, world.stream, &options, make_output, &b));
    assert_ptr_not_equal(a.y, b.y);
    ph_free(a.y, world.stream);
    assert_ok(ph_graph_capture(third, world.stream, &options, make_output, &c));
    assert_ptr_equal(a.y, c.y);
    assert_ok(ph_graph_replay(graph, world.stream));
    uint64_t epoch = ph_graph_epoch(graph);
    assert_ok(ph_graph_replay(second, world.stream));
    assert_true(ph_graph_epoch(second) > epoch);
    assert_ok(ph_graph_check_output(graph, a.y, epoch));
    assert_ok(ph_graph_replay(third, world.stream));
    assert_error(ph_graph_check_output(graph, a.y, epoch), PH_ERROR_OVERWRITTEN,
                 "by a replay of graph");
    assert_ok(ph_graph_check_output(second, b.y, ph_graph_epoch(second)));
    ph_graph_destroy(third); /* what it has overwritten stays overwritten */
    assert_status(ph_graph_check_output(graph, a.y, epoch), PH_ERROR_OVERWRITTEN);
    for (int i = 0; i < 100; i++) { /* graphs that come and go beside one that stays */
        assert_ok(ph_graph_create(&third, NULL));
        assert_ok(ph_graph_capture(third, world.stream, &options, make_output, &c));
        assert_ok(ph_graph_replay(third, world.stream));
        if (i % 3)
            ph_free(c.y, world.stream);
        ph_graph_destroy(third);
    }
    assert_status(ph_graph_check_output(graph, a.y, epoch), PH_ERROR_OVERWRITTEN);
    ph_graph_destroy(second);
    ph_free(b.y, world.stream);
}

/* ---- retained objects ---- */
static int released[8], released_count;
static t_gate held;

static void note_release(void *object)
{
    released[released_count++] = *(int *)object;
}

TEST(test_retained_objects)
{
    static int one = 1, two = 2, three = 3;
    released_count = 0;
    assert_status(ph_graph_retain(graph, NULL, &one, false), PH_ERROR_ARGUMENT);
    assert_ok(ph_graph_retain(graph, note_release, &one, false));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_graph_retain(graph, note_release, &two, false));
    ph_graph_capture_abort(graph);
    assert_int_equal(released_count, 0);
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    assert_ok(ph_graph_retain(graph, note_release, &three, false));
    assert_ok(ph_graph_reset(graph));
    assert_int_equal(released_count, 3);
    assert_true(released[0] == 1 && released[1] == 2 && released[2] == 3);
    assert_ok(ph_graph_reset(graph));
    assert_int_equal(released_count, 3);
}

static void *open_gate(void *gate)
{
    t_gate_open(gate);
    return NULL;
}

static void check_done(void *object)
{
    *(int *)object = x[0]; /* pinned: only what has been waited for may be read so */
    released_count++;
}

/* x in pinned memory instead, all zero; gives what it was. */
static int32_t *pin_x(void)
{
    int32_t *before = x;
    assert_ok(ph_malloc_pinned(&x, N, sizeof *x, world.stream));
    memset(x, 0, N * sizeof *x);
    return before;
}

static void unpin_x(int32_t *before)
{
    ph_free_pinned(x, world.stream);
    x = before;
}

/* Released only after the streams that replayed it are done. */
TEST(test_synchronized_release)
{
    int seen = -1;
    int32_t *device_x = pin_x();
    pthread_t opener;
    held.open = 0;
    released_count = 0;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    assert_ok(ph_graph_retain(graph, check_done, &seen, true));
    assert_ok(t_gate_wait_guarded(&held, world.stream));
    for (int i = 0; i < 5; i++)
        assert_ok(ph_graph_replay(graph, world.stream));
    assert_true(ph__thread_start(&opener, "opener", open_gate, &held));
    assert_ok(ph_graph_reset(graph));
    pthread_join(opener, NULL);
    assert_int_equal(released_count, 1);
    assert_int_equal(seen, 5);
    unpin_x(device_x);
}

/* Waiting is illegal while the stream captures: then it is put off, and the capture survives. */
TEST(test_synchronized_release_in_a_capture)
{
    int seen = -1;
    int32_t *device_x = pin_x();
    ph_graph *other;
    released_count = 0;
    assert_ok(ph_graph_create(&other, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    assert_ok(ph_graph_retain(graph, check_done, &seen, true));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_capture_begin(other, world.stream, NULL));
    assert_ok(ph_graph_reset(graph));
    assert_int_equal(released_count, 0);
    assert_ok(add_one(world.stream, NULL));
    assert_ok(ph_graph_capture_end(other, PH_OK));
    assert_int_equal(released_count, 1);
    assert_int_equal(seen, 1);
    ph_graph_destroy(other);
    unpin_x(device_x);
}

/* The graph keeps the kernel; the user may let go of it. */
TEST(test_kernels_are_kept)
{
    struct t_add_i32 args = {N, x, x, 5};
    ph_launch_config config = t_config(N);
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    ph_kernel_release(world.add_i32);
    world.add_i32 = NULL;
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_node_set_launch(graph, 0, &config, &args, sizeof args));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 6, world.stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_no_allocation),
        IN_WORLD(test_many_streams),
        IN_WORLD(test_on_a_capturing_stream),
        IN_WORLD(test_beside_a_capture),
        IN_WORLD(test_on_a_destroyed_stream),
        IN_WORLD(test_destroy_in_flight),
        IN_WORLD(test_behind_readers_on_the_last_stream),
        IN_WORLD(test_two_threads_one_pool),
        IN_WORLD(test_epochs_of_one_graph),
        IN_WORLD(test_epochs_of_a_shared_pool),
        IN_WORLD(test_retained_objects),
        IN_WORLD(test_synchronized_release),
        IN_WORLD(test_synchronized_release_in_a_capture),
        IN_WORLD(test_kernels_are_kept),
    };
    return cmocka_run_group_tests_name("graph.replay", tests, NULL, NULL);
}
