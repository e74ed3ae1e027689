/* SPDX-License-Identifier: MIT */
/* tests/graph/held_devices.c: memory of a second device handle that was allocated while a capture
 * of the first one was open, and that its nodes address: it is the graph's, too. */
#include "held_devices.h"
#include "support/sweep.h"

/* ---- where memory comes from ---- */
typedef ph_status take_fn(int32_t **p);
typedef void give_fn(int32_t *p);

static ph_status from_default(int32_t **p)
{
    return PH_NEW(p, N, ph_device_default_stream(second));
}

static ph_status from_scope(int32_t **p)
{
    PH_TRY(ph_pool_begin(pool));
    ph_status status = PH_NEW(p, N, there);
    PH_TRY(ph_pool_end(pool));
    return status;
}

static void *on_thread(void *user)
{
    return from_stream(user) == PH_OK ? user : NULL;
}

static ph_status from_thread(int32_t **p)
{
    pthread_t thread;
    void *done;
    assert_int_equal(pthread_create(&thread, NULL, on_thread, p), 0);
    assert_int_equal(pthread_join(thread, &done), 0);
    return done ? PH_OK : PH_ERROR_CALLER;
}

static ph_status pinned(int32_t **p)
{
    return ph_malloc_pinned(p, N, sizeof **p, there);
}

static void give(int32_t *p)
{
    ph_free(p, NULL);
}

static void give_there(int32_t *p)
{
    ph_free(p, there);
}

static void give_pinned(int32_t *p)
{
    ph_free_pinned(p, NULL);
}

typedef enum when {
    IN_BODY,
    AFTER_IT,
    AFTER_REPLAY
} when;

typedef struct made {
    take_fn *take;
    give_fn *give;
    when freed;
    int32_t *p;
} made;

static ph_status body(ph_stream *stream, void *user)
{
    made *m = user;
    PH_TRY(m->take(&m->p));
    ph_status status = use(stream, m->p);
    if (m->freed == IN_BODY || status != PH_OK)
        m->give(m->p);
    return status;
}

static ph_graph *capture_of(made *m)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, &relaxed, body, m));
    return graph;
}

static void trim_both(void)
{
    assert_ok(ph_device_synchronize(world.device));
    assert_ok(ph_device_synchronize(second));
    assert_ok(ph_memory_trim(world.device));
}

typedef struct others {
    int32_t *at[OTHERS];
    const made *as;
} others;

/* Whether one of the next allocations of the kind is at p. All of them have 100. */
static bool take_others(others *o, const made *m)
{
    bool met = false;
    o->as = m;
    for (int i = 0; i < OTHERS; i++) {
        assert_ok(m->take(&o->at[i]));
        assert_ok(t_fill(&world, world.stream, o->at[i], N, 100));
        met = met || o->at[i] == m->p;
    }
    assert_ok(ph_stream_synchronize(world.stream));
    return met;
}

static void give_others(const others *o)
{
    for (int i = 0; i < OTHERS; i++) {
        t_all(o->at[i], N, 100, world.stream);
        o->as->give(o->at[i]);
    }
    assert_ok(ph_device_synchronize(second));
}

/* The graph, which is destroyed, has p as long as it lives, and no longer. */
static void check_held(ph_graph *graph, const made *m)
{
    others o;
    trim_both();
    assert_false(take_others(&o, m));
    replay_gives_6(graph);
    give_others(&o);
    ph_graph_destroy(graph);
    trim_both();
    assert_true(take_others(&o, m));
    give_others(&o);
}

TEST(test_wherever_it_comes_from)
{
    made all[] = {
        {.take = from_default, .give = give},      {.take = from_stream, .give = give},
        {.take = from_stream, .give = give_there}, {.take = from_scope, .give = give},
        {.take = from_thread, .give = give},       {.take = pinned, .give = give_pinned},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        for (when freed = IN_BODY; freed <= AFTER_REPLAY; freed++) {
            made *m = &all[i];
            m->freed = freed;
            trim_both();
            assert_ok(ph_memory_trim(second)); /* it is the lowest address then */
            ph_graph *graph = capture_of(m);
            if (freed == AFTER_REPLAY)
                replay_gives_6(graph);
            if (freed != IN_BODY)
                m->give(m->p);
            check_held(graph, m);
        }
}

/* ---- what goes back ---- */
TEST(test_what_no_node_addresses)
{
    ph_graph *graph;
    ph_memory_stats stats;
    made m = {.take = from_stream, .give = give};
    others o;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, &relaxed));
    assert_ok(from_stream(&m.p));
    assert_ok(t_fill(&world, world.stream, out, N, 6));
    m.give(m.p);
    assert_ok(ph_memory_get_stats(&stats, second));
    assert_int_equal(stats.deferred, 1);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_memory_get_stats(&stats, second));
    assert_int_equal(stats.deferred, 0);
    assert_true(take_others(&o, &m));
    replay_gives_6(graph);
    give_others(&o);
    ph_graph_destroy(graph);
}

/* It is an input, which the graph does not hold: numbers of allocations tell by themselves nothing
 * across devices. */
TEST(test_what_was_there_before)
{
    ph_graph *graph;
    ph_memory_stats stats;
    int32_t *more[50], *p;
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        assert_ok(PH_NEW(&more[i], N, there));
    p = more[0];
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, &relaxed));
    assert_ok(use(world.stream, p));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    replay_gives_6(graph);
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        ph_free(more[i], there);
    assert_ok(ph_memory_get_stats(&stats, second));
    assert_int_equal(stats.deferred, 0);
    ph_graph_destroy(graph);
}

TEST(an_aborted_capture_holds_no_memory_of_the_other_device)
{
    ph_graph *graph;
    ph_memory_stats stats;
    made m = {.take = from_stream, .give = give};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, &relaxed));
    assert_ok(body(world.stream, &m));
    ph_graph_capture_abort(graph);
    assert_ok(ph_memory_get_stats(&stats, second));
    assert_int_equal(stats.deferred, 0);
    ph_graph_destroy(graph);
}

/* ---- who else has its nodes ---- */
static ph_status replay_it(ph_stream *stream, void *user)
{
    return ph_graph_replay(user, stream);
}

TEST(test_child_graphs)
{
    made m = {.take = from_stream, .give = give};
    ph_graph *inner = capture_of(&m), *outer;
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_capture(outer, world.stream, &relaxed, replay_it, inner));
    ph_graph_destroy(inner);
    check_held(outer, &m);
}

TEST(an_update_holds_memory_of_the_other_device)
{
    made first = {.take = from_stream, .give = give}, m = first;
    ph_graph *graph = capture_of(&first), *from = capture_of(&m);
    assert_ok(ph_graph_update(graph, from, NULL));
    ph_graph_destroy(from);
    check_held(graph, &m);
}

/* The memory waits for the replay that is in flight, on the first device. */
TEST(test_replays_in_flight)
{
    made m = {.take = from_stream, .give = give};
    t_gate gate = {.behind = true};
    int32_t *other[OTHERS];
    ph_graph *graph = capture_of(&m);
    others o;
    bool met = false;
    assert_ok(t_gate_wait_guarded(&gate, world.stream));
    assert_ok(ph_graph_replay(graph, world.stream));
    ph_graph_destroy(graph);
    for (int i = 0; i < OTHERS; i++) {
        assert_ok(from_stream(&other[i]));
        met = met || other[i] == m.p;
    }
    if (t_gate_held(&gate))
        assert_false(met);
    t_gate_open(&gate);
    t_all(out, N, 6, world.stream);
    for (int i = 0; i < OTHERS; i++)
        ph_free(other[i], there);
    trim_both();
    assert_true(take_others(&o, &m));
    give_others(&o);
}

/* ---- failures ---- */
static ph_graph *swept;

static ph_status capture_and_pass(void *user)
{
    made m = {.take = from_stream, .give = give};
    ph_graph *outer = NULL;
    (void)user;
    PH_TRY(ph_graph_create(&swept, NULL));
    PH_TRY(ph_graph_capture(swept, world.stream, &relaxed, body, &m));
    PH_TRY(ph_graph_replay(swept, world.stream));
    PH_TRY(ph_graph_create(&outer, NULL));
    ph_status status = ph_graph_capture(outer, world.stream, &relaxed, replay_it, swept);
    if (status == PH_OK)
        status = ph_graph_replay(outer, world.stream);
    ph_graph_destroy(outer);
    return status;
}

static void drop_swept(ph_status status, void *user)
{
    (void)user;
    assert_ok(ph_stream_synchronize(world.stream));
    if (status == PH_OK)
        replay_gives_6(swept);
    ph_graph_destroy(swept);
    swept = NULL;
    trim_both();
}

static t_swept failing = {
    .open = open_world, .close = close_world, .run = capture_and_pass, .reset = drop_swept};

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_wherever_it_comes_from),
        IN_WORLD(test_what_no_node_addresses),
        IN_WORLD(test_what_was_there_before),
        IN_WORLD(an_aborted_capture_holds_no_memory_of_the_other_device),
        IN_WORLD(test_child_graphs),
        IN_WORLD(an_update_holds_memory_of_the_other_device),
        IN_WORLD(test_replays_in_flight),
        T_SWEEP(test_without_host_memory, &failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
