/* SPDX-License-Identifier: MIT */
/* tests/threads/captures.c: captures, replays, allocations and destruction from several threads
 * at the same time. */
#include "base/sync.h"
#include "support/support.h"
#include "support/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 512,
    THREADS = 3
};

/* Threads do not assert: they keep their first failure, which the main thread reports. */
typedef struct job {
    const t_world *world;
    int index, rounds;
    ph_stream *stream;
    ph_graph *graph;
    ph_pool *pool;
    int32_t *output, *temporary;
    atomic_int *working;
    char failure[1024];
} job;

static void note(job *j, const char *what)
{
    if (!j->failure[0])
        (void)snprintf(j->failure, sizeof j->failure, "thread %d: %s: %s", j->index, what,
                       ph_error_last()->message);
}
#define JOB_OK(j, call)                                                                            \
    do {                                                                                           \
        if ((call) != PH_OK) {                                                                     \
            note((j), #call);                                                                      \
            return NULL;                                                                           \
        }                                                                                          \
    } while (0)
#define JOB_TRUE(j, condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            note((j), "not so: " #condition);                                                      \
            return NULL;                                                                           \
        }                                                                                          \
    } while (0)

static void start(pthread_t *thread, void *(*body)(void *), job *j)
{
    assert_true(ph__thread_start(thread, "test", body, j));
}

static void finish(pthread_t thread, const job *j)
{
    pthread_join(thread, NULL);
    if (j->failure[0])
        fail_msg("%s", j->failure);
}

static int rounds(int few, int many)
{
    return t_nightly() ? many : few;
}

/* ---- captures side by side, and a thread that allocates all the while ---- */
static ph_status pool_of(ph_pool **out, const job *j, const void *address)
{
    ph_allocation where;
    PH_TRY(ph_memory_lookup(&where, j->world->device, address));
    *out = where.pool;
    return PH_OK;
}

/* y = value + index + 3 through two temporaries of the capture's pool, the second from another
 * thread's point of view never visible. */
static ph_status body(ph_stream *stream, void *user)
{
    job *j = user;
    int32_t *temporary[2];
    ph_pool *pool = NULL;
    for (int i = 0; i < 2; i++) {
        PH_TRY(PH_NEW(&temporary[i], N, stream));
        PH_TRY(pool_of(&pool, j, temporary[i]));
        if (pool != j->pool)
            return ph_fail(PH_ERROR_CALLER, "the capture's allocation is in pool %p, not %p",
                           (void *)pool, (void *)j->pool);
    }
    PH_TRY(t_fill(j->world, stream, temporary[0], N, j->index));
    PH_TRY(t_add(j->world, stream, temporary[0], temporary[1], N, 1));
    ph_free(temporary[0], NULL);
    PH_TRY(t_add(j->world, stream, temporary[1], j->output, N, 2));
    ph_free(temporary[1], NULL);
    return PH_OK;
}

static void *capture_and_replay(void *argument)
{
    job *j = argument;
    ph_capture_options options = {.mode = PH_CAPTURE_THREAD_LOCAL, .pool = j->pool};
    for (int round = 0; round < j->rounds; round++) {
        const ph_record *record;
        int32_t seen[N];
        JOB_OK(j, ph_graph_capture(j->graph, j->stream, &options, body, j));
        JOB_OK(j, ph_graph_record(&record, j->graph));
        JOB_TRUE(j, ph_record_node_count(record) == 3 && ph_record_edge_count(record) == 2);
        JOB_OK(j, ph_memset(j->output, 0, sizeof seen, j->stream));
        JOB_OK(j, ph_graph_replay(j->graph, j->stream));
        JOB_OK(j, ph_memcpy(seen, j->output, sizeof seen, j->stream));
        JOB_OK(j, ph_stream_synchronize(j->stream));
        for (int i = 0; i < N; i++)
            JOB_TRUE(j, seen[i] == j->index + 3);
        JOB_OK(j, ph_graph_reset(j->graph));
    }
    atomic_fetch_sub(j->working, 1);
    return NULL;
}

static void *allocate_all_the_while(void *argument)
{
    job *j = argument;
    int32_t *kept[16] = {0};
    for (unsigned i = 0; atomic_load(j->working) > 0; i++) {
        int32_t **slot = &kept[i % 16];
        ph_pool *pool = NULL;
        ph_free(*slot, NULL);
        *slot = NULL;
        size_t bytes = i % 50 == 0 ? 24u << 20 : (size_t)512 << (i % 12);
        JOB_OK(j, ph_malloc(slot, 1, bytes, j->stream));
        JOB_OK(j, pool_of(&pool, j, *slot));
        JOB_TRUE(j, pool == NULL);
        JOB_OK(j, ph_memset_u32(*slot, i, 4, j->stream));
    }
    for (int i = 0; i < 16; i++)
        ph_free(kept[i], NULL);
    JOB_OK(j, ph_stream_synchronize(j->stream));
    return NULL;
}

static void job_open(job *j, const t_world *world, int index, atomic_int *working)
{
    memset(j, 0, sizeof *j);
    j->world = world;
    j->index = index;
    j->working = working;
    assert_ok(ph_stream_create(&j->stream, world->device, NULL));
    assert_ok(ph_graph_create(&j->graph, NULL));
    assert_ok(ph_pool_create(&j->pool, world->device, NULL));
    assert_ok(PH_NEW(&j->output, N, j->stream));
    assert_ok(ph_memset(j->output, 0, N * sizeof *j->output, j->stream));
    assert_ok(ph_stream_synchronize(j->stream));
}

static void job_close(job *j)
{
    ph_graph_destroy(j->graph);
    ph_pool_release(j->pool);
    ph_free(j->output, NULL);
    ph_stream_destroy(j->stream);
}

TEST(captures_side_by_side)
{
    t_world world;
    job jobs[THREADS + 1];
    pthread_t threads[THREADS + 1];
    atomic_int working = THREADS;
    t_open(&world, NULL);
    for (int i = 0; i <= THREADS; i++) {
        job_open(&jobs[i], &world, i, &working);
        jobs[i].rounds = rounds(100, 5000);
    }
    start(&threads[THREADS], allocate_all_the_while, &jobs[THREADS]);
    for (int i = 0; i < THREADS; i++)
        start(&threads[i], capture_and_replay, &jobs[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        if (jobs[i].failure[0])
            atomic_store(&working, 0);
    }
    atomic_store(&working, 0);
    pthread_join(threads[THREADS], NULL);
    for (int i = 0; i <= THREADS; i++) {
        if (jobs[i].failure[0])
            fail_msg("%s", jobs[i].failure);
        job_close(&jobs[i]);
    }
    t_close(&world);
}

/* ---- other threads add work to one capture ---- */
typedef struct adder {
    job j;
    ph_stream *capturing;
    int count;
} adder;

static void *add_work(void *argument)
{
    adder *a = argument;
    for (int i = 0; i < a->count; i++)
        JOB_OK(&a->j, t_add(a->j.world, a->capturing, a->j.output, a->j.output, N, 1));
    return NULL;
}

/* The capture's own pool serves this thread too, as the stream decides, not the thread. */
static void *fork_and_allocate(void *argument)
{
    adder *a = argument;
    int32_t *block;
    ph_pool *pool = NULL;
    JOB_OK(&a->j, ph_stream_wait_stream(a->j.stream, a->capturing));
    JOB_OK(&a->j, PH_NEW(&block, N, a->j.stream));
    JOB_OK(&a->j, pool_of(&pool, &a->j, block));
    JOB_TRUE(&a->j, pool == a->j.pool);
    JOB_OK(&a->j, t_fill(a->j.world, a->j.stream, block, N, 40));
    JOB_OK(&a->j, t_add(a->j.world, a->j.stream, block, a->j.output, N, 2));
    ph_free(block, NULL);
    JOB_OK(&a->j, ph_stream_wait_stream(a->capturing, a->j.stream));
    return NULL;
}

TEST(work_from_other_threads)
{
    t_world world;
    adder adders[THREADS];
    pthread_t threads[THREADS];
    ph_graph *graph;
    ph_pool *pool;
    const ph_record *record;
    t_open(&world, NULL);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    for (int mode = PH_CAPTURE_GLOBAL; mode <= PH_CAPTURE_RELAXED; mode++) {
        ph_capture_options options = {.mode = (ph_capture_mode)mode, .pool = pool};
        for (int i = 0; i < THREADS; i++) {
            job_open(&adders[i].j, &world, i, NULL);
            ph_pool_release(adders[i].j.pool);
            adders[i].j.pool = ph_pool_retain(pool);
            adders[i].capturing = world.stream;
            adders[i].count = 50;
        }
        assert_ok(ph_device_synchronize(world.device));
        assert_ok(ph_graph_capture_begin(graph, world.stream, &options));
        for (int i = 0; i < THREADS; i++)
            start(&threads[i], i == 0 ? fork_and_allocate : add_work, &adders[i].j);
        for (int i = 0; i < THREADS; i++)
            finish(threads[i], &adders[i].j);
        assert_ok(ph_graph_capture_end(graph, PH_OK));
        assert_ok(ph_graph_record(&record, graph));
        assert_int_equal(ph_record_node_count(record), 2 + 50 * (THREADS - 1));
        assert_ok(ph_graph_replay(graph, world.stream));
        t_all(adders[0].j.output, N, 42, world.stream);
        for (int i = 1; i < THREADS; i++)
            t_all(adders[i].j.output, N, 50, world.stream);
        assert_ok(ph_graph_reset(graph));
        for (int i = 0; i < THREADS; i++)
            job_close(&adders[i].j);
    }
    ph_graph_destroy(graph);
    ph_pool_release(pool);
    t_close(&world);
}

/* ---- handles destroyed by another thread while their work is held ---- */
typedef struct doomed {
    ph_stream *stream;
    ph_event *event;
    ph_kernel *kernel;
    ph_graph *graph;
    ph_pool *pool;
    int32_t *block;
} doomed;

static void *destroy_all(void *argument)
{
    doomed *d = argument;
    ph_free(d->block, NULL);
    ph_event_destroy(d->event);
    ph_kernel_release(d->kernel);
    ph_graph_destroy(d->graph);
    ph_pool_release(d->pool);
    ph_stream_destroy(d->stream);
    return NULL;
}

typedef struct counted {
    ph_kernel *kernel;
    int32_t *target;
} counted;

static ph_status launch_counted(ph_stream *stream, void *user)
{
    counted *c = user;
    return ph_launch(stream, c->kernel, NULL, &c->target, sizeof c->target);
}

TEST(destroyed_by_another_thread)
{
    t_hold_context();
    for (int round = 0; round < rounds(20, 500); round++) {
        t_world world;
        t_gate gate = {.behind = true};
        doomed d;
        pthread_t thread;
        int32_t *target;
        t_open(&world, NULL);
        assert_ok(PH_NEW(&target, 1, world.stream));
        assert_ok(ph_memset(target, 0, sizeof *target, world.stream));
        assert_ok(ph_stream_synchronize(world.stream));
        assert_ok(ph_stream_create(&d.stream, world.device, NULL));
        assert_ok(ph_event_create(&d.event, world.device, NULL));
        assert_ok(ph_kernel_create(&d.kernel, world.device, &t_kernel_sources[T_KERNEL_ADD_ONE]));
        assert_ok(ph_graph_create(&d.graph, NULL));
        assert_ok(ph_pool_create(&d.pool, world.device, NULL));
        assert_ok(PH_NEW(&d.block, N, d.stream));
        ph_capture_options options = {.pool = d.pool};
        counted c = {d.kernel, target};
        assert_ok(ph_graph_capture(d.graph, d.stream, &options, launch_counted, &c));
        assert_ok(t_gate_wait_guarded(&gate, d.stream));
        assert_ok(launch_counted(d.stream, &c));
        assert_ok(ph_graph_replay(d.graph, d.stream));
        assert_ok(ph_memset(d.block, 1, N, d.stream));
        assert_ok(ph_event_record(d.event, d.stream));
        assert_ok(ph_stream_wait_event(world.stream, d.event));
        assert_true(ph__thread_start(&thread, "destroy", destroy_all, &d));
        if (round % 2)
            t_gate_open(&gate); /* races with the destruction */
        pthread_join(thread, NULL);
        t_gate_open(&gate);
        t_all(target, 1, 2, world.stream); /* the wait kept what it needs */
        ph_free(target, NULL);
        t_close(&world);
    }
}

/* ---- replays of graphs that share a pool ---- each accumulates through a temporary that lies
 * at the same address, as all are captured on one stream. */
static ph_status accumulate(ph_stream *stream, void *user)
{
    job *j = user;
    int32_t *temporary;
    PH_TRY(PH_NEW(&temporary, N, stream));
    PH_TRY(t_add(j->world, stream, j->output, temporary, N, j->index + 1));
    PH_TRY(t_add(j->world, stream, temporary, temporary, N, 10));
    PH_TRY(t_add(j->world, stream, temporary, j->output, N, 100));
    ph_free(temporary, NULL);
    j->temporary = temporary;
    return PH_OK;
}

static void *replay_often(void *argument)
{
    job *j = argument;
    for (int i = 0; i < j->rounds; i++)
        JOB_OK(j, ph_graph_replay(j->graph, j->stream));
    JOB_OK(j, ph_stream_synchronize(j->stream));
    return NULL;
}

TEST(replays_that_share_a_pool)
{
    t_world world;
    job jobs[THREADS];
    pthread_t threads[THREADS];
    ph_pool *pool;
    t_open(&world, NULL);
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    ph_capture_options options = {.pool = pool};
    for (int i = 0; i < THREADS; i++) {
        job_open(&jobs[i], &world, i, NULL);
        jobs[i].rounds = rounds(2000, 20000);
        assert_ok(ph_graph_capture(jobs[i].graph, world.stream, &options, accumulate, &jobs[i]));
        assert_ptr_equal(jobs[i].temporary, jobs[0].temporary);
    }
    for (int i = 0; i < THREADS; i++)
        start(&threads[i], replay_often, &jobs[i]);
    for (int i = 0; i < THREADS; i++)
        finish(threads[i], &jobs[i]);
    for (int i = 0; i < THREADS; i++) {
        t_all(jobs[i].output, N, jobs[i].rounds * (i + 1 + 110), jobs[i].stream);
        job_close(&jobs[i]);
    }
    ph_pool_release(pool);
    t_close(&world);
}

/* ---- the capture's stream is destroyed ---- */
static void *destroy_stream(void *argument)
{
    ph_stream_destroy(argument);
    return NULL;
}

TEST(destroying_the_stream_aborts)
{
    t_world world;
    ph_stream *stream;
    ph_graph *graph;
    ph_pool *pool;
    int32_t *memory;
    t_open(&world, NULL);
    assert_ok(PH_NEW(&memory, N, world.stream));
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
        pthread_t thread;
        void *block;
        ph_capture_options options = {.pool = pool};
        assert_ok(ph_stream_create(&stream, world.device, NULL));
        assert_ok(ph_graph_capture_begin(graph, stream, &options));
        assert_ok(t_fill(&world, stream, memory, N, 1));
        assert_ok(ph_malloc(&block, N, 1, stream));
        if (elsewhere) {
            assert_true(ph__thread_start(&thread, "destroy", destroy_stream, stream));
            pthread_join(thread, NULL);
        } else {
            ph_stream_destroy(stream);
        }
        assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_FAILED);
        assert_error(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE, "destroyed");
        assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_CAPTURE, "destroyed");
        ph_free(block, NULL);
        assert_ok(ph_graph_reset(graph));
        assert_ok(ph_device_synchronize(world.device)); /* no capture is open any more */
        assert_int_equal(ph_pool_use_count(pool), 1);
    }
    ph_graph_destroy(graph);
    ph_pool_release(pool);
    ph_free(memory, NULL);
    t_close(&world);
}

/* A stream that only joined: the capture goes on, and ends as one with an unjoined stream does,
 * or well where it was joined. */
TEST(destroying_a_joined_stream)
{
    t_world world;
    ph_stream *joined;
    ph_graph *graph;
    int32_t *memory;
    const ph_record *record;
    t_open(&world, NULL);
    assert_ok(PH_NEW(&memory, N, world.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_stream_create(&joined, world.device, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_stream_wait_stream(joined, world.stream));
    assert_ok(t_fill(&world, joined, memory, N, 6));
    assert_ok(ph_stream_wait_stream(world.stream, joined));
    ph_stream_destroy(joined);
    assert_ok(t_add(&world, world.stream, memory, memory, N, 1));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_edge_count(record), 1);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(memory, N, 7, world.stream);
    ph_graph_destroy(graph);
    ph_free(memory, NULL);
    t_close(&world);
}

/* ---- the last reference to a device goes while its work is held ---- */
static void *open_gate(void *gate)
{
    t_gate_open(gate);
    return NULL;
}

static void count_call(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

TEST(releasing_a_device_at_work)
{
    for (int round = 0; round < rounds(20, 300); round++) {
        ph_device *device;
        ph_stream *streams[2];
        t_gate gate = {0};
        atomic_int calls = 0;
        pthread_t thread;
        assert_ok(ph_device_open(&device, t_device_name(), NULL));
        for (int i = 0; i < 2; i++) {
            assert_ok(ph_stream_create(&streams[i], device, NULL));
            assert_ok(t_gate_wait(&gate, streams[i]));
            for (int k = 0; k < 10; k++)
                assert_ok(ph_launch_host(streams[i], count_call, &calls));
        }
        assert_true(ph__thread_start(&thread, "gate", open_gate, &gate));
        ph_stream_destroy(streams[0]);
        ph_device_release(device);
        ph_stream_destroy(streams[1]); /* the last reference */
        assert_int_equal(atomic_load(&calls), 20);
        pthread_join(thread, NULL);
    }
}

/* ---- whose captures are open ---- */
static void *look_and_capture(void *argument)
{
    job *j = argument;
    ph_capture_options options = {.mode = PH_CAPTURE_THREAD_LOCAL};
    JOB_TRUE(j, !ph_device_is_capturing(j->world->device)); /* the main thread's is open */
    JOB_OK(j, ph_graph_capture_begin(j->graph, j->stream, &options));
    JOB_TRUE(j, ph_device_is_capturing(j->world->device));
    JOB_OK(j, t_fill(j->world, j->stream, j->output, N, 1));
    JOB_OK(j, ph_graph_capture_end(j->graph, PH_OK));
    JOB_TRUE(j, !ph_device_is_capturing(j->world->device));
    return NULL;
}

TEST(of_the_calling_thread)
{
    t_world world, other;
    pthread_t thread;
    ph_graph *graph;
    job j = {.world = &world};
    t_open(&world, NULL);
    t_open(&other, NULL);
    assert_ok(PH_NEW(&j.output, N, world.stream));
    assert_ok(ph_stream_create(&j.stream, world.device, NULL));
    assert_ok(ph_graph_create(&j.graph, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    for (int mode = PH_CAPTURE_THREAD_LOCAL; mode <= PH_CAPTURE_RELAXED; mode++) {
        const ph_capture_options options = {.mode = (ph_capture_mode)mode};
        assert_false(ph_device_is_capturing(world.device));
        assert_ok(ph_graph_capture_begin(graph, world.stream, &options));
        assert_true(ph_device_is_capturing(world.device));
        assert_false(ph_device_is_capturing(other.device));
        start(&thread, look_and_capture, &j);
        finish(thread, &j);
        assert_ok(ph_graph_reset(j.graph));
        assert_true(ph_device_is_capturing(world.device));
        ph_graph_capture_abort(graph);
        assert_false(ph_device_is_capturing(world.device));
    }
    ph_graph_destroy(graph);
    ph_graph_destroy(j.graph);
    ph_stream_destroy(j.stream);
    ph_free(j.output, NULL);
    t_close(&other);
    t_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captures_side_by_side),
        cmocka_unit_test(work_from_other_threads),
        cmocka_unit_test(destroyed_by_another_thread),
        cmocka_unit_test(replays_that_share_a_pool),
        cmocka_unit_test(destroying_the_stream_aborts),
        cmocka_unit_test(destroying_a_joined_stream),
        cmocka_unit_test(releasing_a_device_at_work),
        cmocka_unit_test(of_the_calling_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
