/* SPDX-License-Identifier: MIT */
/* tests/memory/threads.c: allocation from several threads at once, with streams, pools, captures
 * and trims among them. */
#include "base/alloc.h"
#include "base/rng.h"
#include "support/support.h"
#include "support/test.h"
#include <pthread.h>
#include <string.h>

enum {
    THREADS = 4,
    LIVE = 16
};

static t_world w;
static ph_stream *streams[3];

typedef struct job {
    pthread_t thread;
    uint64_t seed;
    int steps;
    ph_status status;
    bool overlap; /* a block was in two hands */
} job;

typedef struct held {
    unsigned char *p;
    ph_stream *stream;
} held;

/* The first failure sticks. */
static void note(job *j, ph_status status)
{
    if (j->status == PH_OK)
        j->status = status;
}

static void take(job *j, ph__rng *rng, held *slot)
{
    static const size_t sizes[] = {1, 512, 4000, 100000, 1 << 20, 3 << 20};
    void *p = NULL;
    slot->stream = streams[ph__rng_below(rng, 3)];
    note(j, ph_malloc(&p, 1, sizes[ph__rng_below(rng, 6)], slot->stream));
    slot->p = p;
    if (!p)
        return;
    note(j, ph_memset(p, (uint8_t)j->seed, 1, slot->stream));
    if (ph__rng_below(rng, 4) == 0)
        note(j, ph_record_stream(p, streams[ph__rng_below(rng, 3)]));
}

static void give(ph__rng *rng, held *slot)
{
    ph_stream *on = ph__rng_below(rng, 4) == 0 ? streams[ph__rng_below(rng, 3)] : slot->stream;
    ph_free(slot->p, ph__rng_below(rng, 8) == 0 ? NULL : on);
    slot->p = NULL;
}

static void look(job *j, const held *slot)
{
    ph_allocation found;
    ph_status status = ph_memory_lookup(&found, w.device, slot->p);
    note(j, status);
    if (status == PH_OK && found.base != slot->p)
        j->overlap = true;
}

static ph_status captured(ph_stream *stream, void *user)
{
    void *p[3];
    (void)user;
    for (int i = 0; i < 3; i++) {
        PH_TRY(ph_malloc(&p[i], 1, 4096, stream));
        PH_TRY(ph_memset(p[i], 1, 16, stream));
    }
    for (int i = 0; i < 3; i++)
        ph_free(p[i], stream);
    return PH_OK;
}

static void capture(job *j)
{
    ph_graph *graph = NULL;
    ph_stream *stream = NULL;
    ph_capture_options options = {.mode = PH_CAPTURE_THREAD_LOCAL};
    note(j, ph_stream_create(&stream, w.device, NULL));
    note(j, ph_graph_create(&graph, NULL));
    if (j->status == PH_OK)
        note(j, ph_graph_capture(graph, stream, &options, captured, NULL));
    if (j->status == PH_OK)
        note(j, ph_graph_replay(graph, stream));
    if (j->status == PH_OK)
        note(j, ph_graph_replay(graph, streams[0]));
    ph_graph_destroy(graph);
    ph_stream_destroy(stream);
}

static void in_pool(job *j)
{
    ph_pool *pool;
    void *p = NULL;
    ph_status status = ph_pool_create(&pool, w.device, NULL);
    note(j, status);
    if (status != PH_OK)
        return;
    note(j, ph_pool_begin(pool));
    note(j, ph_malloc(&p, 1, 70000, streams[1]));
    ph_free(p, streams[1]);
    note(j, ph_pool_end(pool));
    ph_pool_release(pool);
}

static void *work(void *user)
{
    job *j = user;
    ph__rng rng = {j->seed};
    held slots[LIVE] = {{0}};
    for (int i = 0; i < j->steps; i++) {
        held *slot = &slots[ph__rng_below(&rng, LIVE)];
        uint64_t what = ph__rng_below(&rng, 64);
        ph_memory_stats stats;
        if (what == 0)
            capture(j);
        else if (what == 1)
            in_pool(j);
        else if (what == 2)
            note(j, ph_memory_trim(w.device));
        else if (what == 3)
            note(j, ph_memory_get_stats(&stats, w.device));
        else if (!slot->p)
            take(j, &rng, slot);
        else if (what < 20)
            look(j, slot);
        else
            give(&rng, slot);
    }
    for (int i = 0; i < LIVE; i++)
        ph_free(slots[i].p, slots[i].stream);
    return NULL;
}

TEST(test_all_at_once)
{
    job jobs[THREADS] = {{0}};
    ph_memory_stats stats;
    t_open(&w, NULL);
    for (int i = 0; i < 3; i++)
        assert_ok(ph_stream_create(&streams[i], w.device, NULL));
    for (int i = 0; i < THREADS; i++) {
        jobs[i].seed = (uint64_t)i + 1;
        jobs[i].steps = t_nightly() ? 50000 : 1500;
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, work, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(jobs[i].thread, NULL), 0);
        assert_int_equal(jobs[i].status, PH_OK);
        assert_false(jobs[i].overlap);
    }
    assert_ok(ph_memory_trim(w.device));
    assert_ok(ph_memory_get_stats(&stats, w.device));
    assert_int_equal(stats.reserved, 0);
    assert_int_equal(stats.deferred, 0);
    for (int kind = 0; kind < 3; kind++) {
        assert_int_equal(stats.active[kind].current, 0);
        assert_int_equal(stats.allocation[kind].current, 0);
        assert_int_equal(stats.inactive_split[kind].current, 0);
        assert_int_equal(stats.requested_bytes[kind].current, 0);
        assert_int_equal(stats.allocation[kind].added, stats.allocation[kind].removed);
    }
    for (int i = 0; i < 3; i++)
        ph_stream_destroy(streams[i]);
    t_close(&w);
}

/* ---- requests on a stream whose captures come and go, pools included ---- */
static atomic_bool over;

static void *request_on(void *stream)
{
    while (!atomic_load(&over)) {
        void *p = NULL;
        if (ph_malloc(&p, 1, 3000, stream) == PH_OK)
            ph_free(p, stream);
        if (ph_malloc_pinned(&p, 1, 3000, stream) == PH_OK)
            ph_free_pinned(p, stream);
    }
    return NULL;
}

TEST(test_requests_outlive_their_capture)
{
    pthread_t threads[2];
    const ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    t_open(&w, NULL);
    t_log_start(); /* empty graphs */
    atomic_store(&over, false);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, request_on, w.stream), 0);
    for (int i = 0; i < (t_nightly() ? 20000 : 1000); i++) {
        ph_graph *graph;
        assert_ok(ph_graph_create(&graph, NULL));
        assert_ok(ph_graph_capture_begin(graph, w.stream, &options));
        assert_ok(ph_graph_capture_end(graph, PH_OK));
        ph_graph_destroy(graph);
    }
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    t_log_stop();
    t_close(&w);
    assert_int_equal(ph__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_at_once),
        cmocka_unit_test(test_requests_outlive_their_capture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
