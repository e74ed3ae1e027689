/* SPDX-License-Identifier: MIT */
/* tests/graph/held.c: memory from elsewhere than the capture's pool that was allocated while the
 * capture was open, and that its nodes address: it is the graph's until that goes, whoever has
 * freed it. */
#include "support/fixture.h"
#include "support/sweep.h"

#include <string.h>

enum {
    N = 1000,
    OTHERS = 6 /* blocks that somebody else takes afterwards */
};
static t_world world;
static ph_stream *side;
static ph_pool *pool;
static int32_t *out;

WORLD(world, .streams = {&side}, .pool = &pool, .arrays = {{&out, N, T_INTS, 0}},
      .leaves_nothing = true);

/* ---- where memory comes from ---- */
typedef ph_status take_fn(int32_t **p, ph_stream *capturing);
typedef void give_fn(int32_t *p);

static ph_status from_default(int32_t **p, ph_stream *capturing)
{
    (void)capturing;
    return PH_NEW(p, N, ph_device_default_stream(world.device));
}

static ph_status from_side(int32_t **p, ph_stream *capturing)
{
    (void)capturing;
    return PH_NEW(p, N, side);
}

static ph_status from_scope(int32_t **p, ph_stream *capturing)
{
    (void)capturing;
    PH_TRY(ph_pool_begin(pool));
    ph_status status = PH_NEW(p, N, side);
    PH_TRY(ph_pool_end(pool));
    return status;
}

static void *on_thread(void *user)
{
    ph_status status = from_side(user, NULL);
    return status == PH_OK ? user : NULL;
}

static ph_status from_thread(int32_t **p, ph_stream *capturing)
{
    (void)capturing;
    pthread_t thread;
    void *done;
    assert_int_equal(pthread_create(&thread, NULL, on_thread, p), 0);
    assert_int_equal(pthread_join(thread, &done), 0);
    return done ? PH_OK : PH_ERROR_CALLER;
}

static ph_status pinned_from_default(int32_t **p, ph_stream *capturing)
{
    (void)capturing;
    return ph_malloc_pinned(p, N, sizeof **p, ph_device_default_stream(world.device));
}

static ph_status pinned_from_side(int32_t **p, ph_stream *capturing)
{
    (void)capturing;
    return ph_malloc_pinned(p, N, sizeof **p, side);
}

static ph_status pinned_from_capture(int32_t **p, ph_stream *capturing)
{
    return ph_malloc_pinned(p, N, sizeof **p, capturing);
}

static void give(int32_t *p)
{
    ph_free(p, NULL);
}

static void give_on_side(int32_t *p)
{
    ph_free(p, side);
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
    const char *name;
    take_fn *take;
    give_fn *give;
    bool pinned, scoped;
    when freed;
    int32_t *p;
} made;

/* p = 5; out = p + 1, by way of memory that is freed as it says. */
static ph_status body(ph_stream *stream, void *user)
{
    made *m = user;
    PH_TRY(m->take(&m->p, stream));
    ph_status status = t_fill(&world, stream, m->p, N, 5);
    if (status == PH_OK)
        status = t_add(&world, stream, m->p, out, N, 1);
    if (m->freed == IN_BODY || status != PH_OK)
        m->give(m->p);
    return status;
}

static ph_graph *capture_of(made *m, const ph_capture_options *options)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, options, body, m));
    return graph;
}

/* Whether one of OTHERS allocations of the same kind is at p. All of them have 100. */
typedef struct others {
    int32_t *at[OTHERS];
    const made *as;
} others;

static bool take_others(others *o, const made *m)
{
    bool met = false;
    o->as = m;
    for (int i = 0; i < OTHERS; i++) {
        assert_ok(m->take(&o->at[i], world.stream));
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
}

static void replay_gives_6(ph_graph *graph)
{
    assert_ok(t_fill(&world, world.stream, out, N, 0));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(out, N, 6, world.stream);
}

static void check_held(made *m)
{
    others o;
    ph_capture_options options = {.mode = PH_CAPTURE_THREAD_LOCAL};
    print_message("  %s\n", m->name);
    assert_ok(ph_device_synchronize(world.device));
    assert_ok(
        ph_memory_trim(world.device)); /* what others have left: it is the lowest address then */
    ph_graph *graph = capture_of(m, &options);
    if (m->freed == AFTER_REPLAY)
        replay_gives_6(graph);
    if (m->freed != IN_BODY)
        m->give(m->p);
    assert_ok(ph_device_synchronize(world.device));
    assert_false(take_others(&o, m));
    replay_gives_6(graph);
    give_others(&o);
    /* The graph goes, and the memory with it is anybody's again. */
    ph_graph_destroy(graph);
    assert_ok(ph_device_synchronize(world.device));
    assert_true(take_others(&o, m));
    give_others(&o);
}

TEST(test_wherever_it_comes_from)
{
    made all[] = {
        {.name = "the default stream", .take = from_default, .give = give},
        {.name = "another stream", .take = from_side, .give = give},
        {.name = "another stream, freed on a third", .take = from_default, .give = give_on_side},
        {.name = "a scope", .take = from_scope, .give = give},
        {.name = "another thread", .take = from_thread, .give = give},
        {.name = "the default stream, pinned", .take = pinned_from_default, .give = give_pinned},
        {.name = "another stream, pinned", .take = pinned_from_side, .give = give_pinned},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        for (when freed = IN_BODY; freed <= AFTER_REPLAY; freed++) {
            all[i].freed = freed;
            check_held(&all[i]);
        }
}

/* Of the pool of the capture itself the host's half: the pool lives on, and what it gives next
 * would be written by the host at once. */
TEST(test_pinned_memory_of_the_own_pool)
{
    made m = {.take = pinned_from_capture, .give = give_pinned};
    ph_capture_options options = {.pool = pool};
    for (when freed = IN_BODY; freed <= AFTER_REPLAY; freed++) {
        int32_t *other[OTHERS];
        m.freed = freed;
        ph_graph *graph = capture_of(&m, &options);
        if (freed == AFTER_REPLAY)
            replay_gives_6(graph);
        if (freed != IN_BODY)
            give_pinned(m.p);
        for (int round = 0; round < 2; round++) {
            bool met = false;
            assert_ok(ph_device_synchronize(world.device));
            assert_ok(ph_pool_begin(pool));
            for (int i = 0; i < OTHERS; i++) {
                assert_ok(ph_malloc_pinned(&other[i], N, sizeof(int32_t), world.stream));
                memset(other[i], 0xFF, N * sizeof(int32_t));
                met = met || other[i] == m.p;
            }
            assert_ok(ph_pool_end(pool));
            assert_int_equal(met, round == 1);
            if (round == 0)
                replay_gives_6(graph);
            for (int i = 0; i < OTHERS; i++)
                give_pinned(other[i]);
            if (round == 0)
                ph_graph_destroy(graph);
        }
    }
}

/* ---- what goes back ---- */
static ph_status body_that_uses_none(ph_stream *stream, void *user)
{
    made *m = user;
    PH_TRY(m->take(&m->p, stream));
    PH_TRY(t_fill(&world, stream, out, N, 6));
    m->give(m->p);
    return PH_OK;
}

/* Nothing addresses it: it waits for the end of the capture and is anybody's then. */
TEST(test_what_no_node_addresses)
{
    made m = {.take = from_default, .give = give};
    ph_graph *graph;
    ph_memory_stats stats;
    others o;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body_that_uses_none, &m));
    assert_ok(ph_memory_get_stats(&stats, world.device));
    assert_int_equal(stats.deferred, 0);
    assert_true(take_others(&o, &m));
    replay_gives_6(graph);
    give_others(&o);
    ph_graph_destroy(graph);
}

static ph_status body_that_fails(ph_stream *stream, void *user)
{
    PH_TRY(body(stream, user));
    return ph_fail(PH_ERROR_CALLER, "in the middle");
}

TEST(test_captures_that_come_to_nothing)
{
    made m = {.take = from_default, .give = give};
    ph_graph *graph;
    others o;
    for (int how = 0; how < 3; how++) {
        ph_memory_stats stats;
        assert_ok(ph_graph_create(&graph, NULL));
        if (how == 0) {
            assert_error(ph_graph_capture(graph, world.stream, NULL, body_that_fails, &m),
                         PH_ERROR_CALLER, "in the middle");
        } else {
            assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
            assert_ok(body(world.stream, &m));
            if (how == 1)
                ph_graph_capture_abort(graph);
            else
                ph_graph_destroy(graph);
        }
        assert_ok(ph_memory_get_stats(&stats, world.device));
        assert_int_equal(stats.deferred, 0);
        assert_true(take_others(&o, &m));
        give_others(&o);
        if (how < 2)
            ph_graph_destroy(graph);
    }
}

TEST(test_reset_and_captured_again)
{
    made m = {.take = from_default, .give = give};
    ph_graph *graph = capture_of(&m, NULL);
    ph_memory_stats before, after;
    assert_ok(ph_memory_get_stats(&before, world.device));
    assert_int_equal(before.deferred, 1);
    for (int i = 0; i < 20; i++) {
        replay_gives_6(graph);
        assert_ok(ph_graph_reset(graph));
        assert_ok(ph_device_synchronize(world.device));
        assert_ok(ph_graph_capture(graph, world.stream, NULL, body, &m));
    }
    assert_ok(ph_memory_get_stats(&after, world.device));
    assert_int_equal(after.deferred, 1);
    assert_int_equal(after.reserved, before.reserved);
    ph_graph_destroy(graph);
}

/* ---- who else has its nodes ---- */
static ph_status replay_it(ph_stream *stream, void *user)
{
    return ph_graph_replay(user, stream);
}

TEST(test_child_graphs)
{
    made m = {.take = from_default, .give = give};
    ph_graph *inner = capture_of(&m, NULL), *outer;
    others o;
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_capture(outer, world.stream, NULL, replay_it, inner));
    ph_graph_destroy(inner);
    assert_ok(ph_device_synchronize(world.device));
    assert_false(take_others(&o, &m));
    replay_gives_6(outer);
    give_others(&o);
    ph_graph_destroy(outer);
    assert_ok(ph_device_synchronize(world.device));
    assert_true(take_others(&o, &m));
    give_others(&o);
}

TEST(an_update_holds_the_memory_that_it_brought)
{
    made own = {.take = from_default, .give = give}, m = own;
    ph_graph *graph = capture_of(&own, NULL);
    others o;
    ph_memory_stats stats;
    for (int i = 0; i < 5; i++) {
        ph_graph *from = capture_of(&m, NULL);
        assert_ok(ph_graph_update(graph, from, NULL));
        ph_graph_destroy(from);
        assert_ok(ph_device_synchronize(world.device));
        assert_false(take_others(&o, &m));
        replay_gives_6(graph);
        give_others(&o);
        assert_ok(ph_memory_get_stats(&stats, world.device));
        assert_in_range(
            stats.deferred, 2,
            2 + OTHERS); /* blocks of a replay that has just been polled may still be there */
    }
    assert_ok(ph_graph_update(graph, graph, NULL));
    assert_ok(ph_device_synchronize(world.device));
    assert_true(take_others(&o, &m));
    replay_gives_6(graph);
    give_others(&o);
    ph_graph_destroy(graph);
}

/* The graph goes while its replay runs: the memory waits for that. */
TEST(test_replays_in_flight)
{
    made m = {.take = from_side, .give = give};
    t_gate gate = {.behind = true};
    ph_graph *graph = capture_of(&m, NULL);
    others o;
    assert_ok(t_gate_wait_guarded(&gate, world.stream));
    assert_ok(ph_graph_replay(graph, world.stream));
    ph_graph_destroy(graph);
    int32_t *other[OTHERS];
    bool met = false;
    for (int i = 0; i < OTHERS; i++) {
        assert_ok(from_side(&other[i], NULL));
        met = met || other[i] == m.p;
    }
    if (t_gate_held(&gate))
        assert_false(met);
    t_gate_open(&gate);
    t_all(out, N, 6, world.stream);
    for (int i = 0; i < OTHERS; i++)
        ph_free(other[i], side);
    assert_ok(ph_device_synchronize(world.device));
    assert_true(take_others(&o, &m));
    give_others(&o);
}

/* ---- several captures ---- */
/* Both are open when it is allocated; it is freed while one of them still is. */
TEST(test_two_captures_at_once)
{
    made m = {.take = from_default, .give = give};
    ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    ph_graph *first, *second;
    int32_t *p;
    others o;
    assert_ok(ph_graph_create(&first, NULL));
    assert_ok(ph_graph_create(&second, NULL));
    assert_ok(ph_graph_capture_begin(first, world.stream, &options));
    assert_ok(ph_graph_capture_begin(second, side, &options));
    assert_ok(from_default(&p, NULL));
    m.p = p;
    assert_ok(t_fill(&world, side, p, N, 5));
    assert_ok(t_fill(&world, world.stream, p, N, 5));
    assert_ok(t_add(&world, world.stream, p, out, N, 1));
    give(p);
    assert_ok(ph_graph_capture_end(second, PH_OK));
    ph_graph_destroy(second);
    assert_ok(ph_graph_capture_end(first, PH_OK));
    assert_false(take_others(&o, &m));
    replay_gives_6(first);
    give_others(&o);
    ph_graph_destroy(first);
    assert_ok(ph_device_synchronize(world.device));
    assert_true(take_others(&o, &m));
    give_others(&o);
}

/* What a capture was given it uses again, whatever other one is open. */
TEST(test_captures_use_their_own_again)
{
    ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    ph_graph *first, *second;
    int32_t *p, *again;
    assert_ok(ph_graph_create(&first, NULL));
    assert_ok(ph_graph_create(&second, NULL));
    assert_ok(ph_graph_capture_begin(first, world.stream, &options));
    assert_ok(ph_graph_capture_begin(second, side, &options));
    assert_ok(PH_NEW(&p, N, world.stream));
    assert_ok(t_fill(&world, world.stream, p, N, 1));
    ph_free(p, world.stream);
    assert_ok(PH_NEW(&again, N, world.stream));
    assert_ptr_equal(again, p);
    ph_free(again, world.stream);
    assert_ok(t_fill(&world, side, out, N, 1));
    assert_ok(ph_graph_capture_end(second, PH_OK));
    assert_ok(ph_graph_capture_end(first, PH_OK));
    ph_graph_destroy(second);
    ph_graph_destroy(first);
}

/* ---- threads that capture nothing ---- */
typedef struct eager {
    int32_t *p, *again;
    bool use, take_again;
    int rounds;
    ph_status status;
} eager;

/* Relaxed captures take work from any thread. */
static void *work_beside(void *user)
{
    eager *e = user;
    e->status = PH_OK;
    for (int i = 0; i < e->rounds && e->status == PH_OK; i++) {
        e->status = from_side(&e->p, NULL);
        if (e->use && e->status == PH_OK)
            e->status = t_fill(&world, world.stream, e->p, N, 5);
        if (e->use && e->status == PH_OK)
            e->status = t_add(&world, world.stream, e->p, out, N, 1);
        ph_free(e->p, side);
    }
    if (e->take_again && e->status == PH_OK)
        e->status = from_side(&e->again, NULL);
    return NULL;
}

static ph_graph *begin_with(eager *e)
{
    ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    pthread_t thread;
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, &options));
    assert_int_equal(pthread_create(&thread, NULL, work_beside, e), 0);
    pthread_join(thread, NULL);
    assert_int_equal(e->status, PH_OK);
    return graph;
}

/* It uses its memory again all the while. */
TEST(test_threads_that_capture_nothing)
{
    eager e = {.rounds = 5000};
    ph_memory_stats before, after;
    assert_ok(ph_memory_get_stats(&before, world.device));
    ph_graph *graph = begin_with(&e);
    assert_ok(ph_memory_get_stats(&after, world.device));
    assert_in_range(after.reserved, before.reserved, before.reserved + ((size_t)2 << 20));
    assert_int_equal(after.deferred, 0);
    assert_ok(t_fill(&world, world.stream, out, N, 6));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    replay_gives_6(graph);
    ph_graph_destroy(graph);
}

TEST(test_threads_that_capture_for_others)
{
    eager e = {.rounds = 3, .use = true};
    made m = {.take = from_side, .give = give};
    others o;
    ph_graph *graph = begin_with(&e);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    m.p = e.p;
    assert_false(take_others(&o, &m));
    replay_gives_6(graph);
    give_others(&o);
    ph_graph_destroy(graph);
    assert_ok(ph_device_synchronize(world.device));
    assert_true(take_others(&o, &m));
    give_others(&o);
}

/* A thread that works on the capture, as its allocations there tell, may use its memory again: it
 * does so in the order of the work. */
static void *work_for_it(void *user)
{
    eager *e = user;
    int32_t *inside;
    e->status = PH_NEW(&inside, N, world.stream);
    if (e->status == PH_OK)
        ph_free(inside, world.stream);
    if (e->status == PH_OK)
        (void)work_beside(e);
    return NULL;
}

TEST(test_threads_that_work_on_the_capture)
{
    eager e = {.rounds = 1, .use = true, .take_again = true};
    ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    made m = {.take = from_side, .give = give};
    pthread_t thread;
    ph_graph *graph;
    others o;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, &options));
    assert_int_equal(pthread_create(&thread, NULL, work_for_it, &e), 0);
    pthread_join(thread, NULL);
    assert_int_equal(e.status, PH_OK);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    m.p = e.p;
    ph_free(e.again, side);
    assert_false(take_others(&o, &m));
    replay_gives_6(graph);
    give_others(&o);
    ph_graph_destroy(graph);
}

/* Nothing can be held: somebody has it. */
TEST(test_memory_given_again_is_refused)
{
    eager e = {.rounds = 1, .use = true, .take_again = true};
    ph_memory_stats stats;
    ph_graph *graph = begin_with(&e);
    assert_ptr_equal(e.again, e.p);
    assert_error(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE, "given to somebody else");
    ph_graph_destroy(graph);
    ph_free(e.again, side);
    assert_ok(ph_memory_get_stats(&stats, world.device));
    assert_int_equal(stats.deferred, 0);
}

/* ---- what the library says of it ---- */
TEST(test_checked_inputs)
{
    made m = {.take = from_default, .give = give};
    ph_capture_options options = {.check_input_liveness = true};
    for (when freed = IN_BODY; freed <= AFTER_REPLAY; freed++) {
        size_t count;
        m.freed = freed;
        ph_graph *graph = capture_of(&m, &options);
        if (freed != IN_BODY)
            give(m.p);
        assert_ok(ph_graph_check_inputs(graph));
        replay_gives_6(graph);
        assert_ok(ph_graph_input_count(&count, graph));
        assert_int_equal(count, 1); /* out alone */
        ph_graph_destroy(graph);
    }
}

TEST(a_held_block_keeps_its_pool_from_a_restore)
{
    made m = {.take = from_scope, .give = give};
    ph_pool_checkpoint *checkpoint;
    assert_ok(ph_pool_checkpoint_create(&checkpoint, pool));
    for (when freed = IN_BODY; freed <= AFTER_IT; freed++) {
        m.freed = freed;
        ph_graph *graph = capture_of(&m, NULL);
        assert_error(ph_pool_checkpoint_restore(pool, checkpoint), PH_ERROR_STATE,
                     "destroy the graphs");
        replay_gives_6(graph);
        if (freed != IN_BODY)
            give(m.p);
        ph_graph_destroy(graph);
        assert_ok(ph_device_synchronize(world.device));
    }
    ph_pool_checkpoint_destroy(checkpoint);
}

TEST(test_freed_twice)
{
    made m = {.take = from_default, .give = give};
    ph_allocation found;
    ph_graph *graph = capture_of(&m, NULL);
    assert_status(ph_memory_lookup(&found, world.device, m.p), PH_ERROR_NOT_FOUND);
    t_log_start();
    give(m.p);
    assert_int_equal(t_log_count("no live allocation"), 1);
    t_log_stop();
    replay_gives_6(graph);
    ph_graph_destroy(graph);
}

/* ---- failures ---- */
static ph_graph *swept;

static ph_status capture_and_pass(void *user)
{
    made m = {.take = from_default, .give = give};
    ph_graph *outer = NULL;
    (void)user;
    PH_TRY(ph_graph_create(&swept, NULL));
    PH_TRY(ph_graph_capture(swept, world.stream, NULL, body, &m));
    PH_TRY(ph_graph_replay(swept, world.stream));
    PH_TRY(ph_graph_create(&outer, NULL));
    ph_status status = ph_graph_capture(outer, world.stream, NULL, replay_it, swept);
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
    assert_ok(ph_device_synchronize(world.device));
}

static t_swept failing = {.name = "captures with memory from elsewhere",
                          .open = open_world,
                          .close = close_world,
                          .run = capture_and_pass,
                          .reset = drop_swept};

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_wherever_it_comes_from),
        IN_WORLD(test_pinned_memory_of_the_own_pool),
        IN_WORLD(test_what_no_node_addresses),
        IN_WORLD(test_captures_that_come_to_nothing),
        IN_WORLD(test_reset_and_captured_again),
        IN_WORLD(test_child_graphs),
        IN_WORLD(an_update_holds_the_memory_that_it_brought),
        IN_WORLD(test_replays_in_flight),
        IN_WORLD(test_two_captures_at_once),
        IN_WORLD(test_captures_use_their_own_again),
        IN_WORLD(test_threads_that_capture_nothing),
        IN_WORLD(test_threads_that_capture_for_others),
        IN_WORLD(test_threads_that_work_on_the_capture),
        IN_WORLD(test_memory_given_again_is_refused),
        IN_WORLD(test_checked_inputs),
        IN_WORLD(a_held_block_keeps_its_pool_from_a_restore),
        IN_WORLD(test_freed_twice),
        T_SWEEP(test_without_host_memory, &failing),
        T_SWEEP(test_when_the_driver_fails, &failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
