/* SPDX-License-Identifier: MIT */
/* tests/threads/cells.c: cells from several threads: replays that share a source, streams of one
 * capture, captures beside replays. */
#include "base/sync.h"
#include "support/fixture.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    REPLAYERS = 3,
    FORKS = 4,
    MOST_REPLAYS = 4000
};

static t_world world;
static uint64_t *y; /* an element each */

/* A number that each replay has for itself. Nothing here is atomic: the library calls it one
 * replay at a time. */
typedef struct ticket {
    uint64_t next;
    int asked, out;
} ticket;
static ticket shared;

static ph_status next_ticket(uint64_t *values, void *user)
{
    ticket *t = user;
    t->asked++;
    values[0] = t->next;
    return PH_OK;
}

static void took_ticket(void *user, bool launched)
{
    ticket *t = user;
    t->next += launched;
    t->out += launched;
}

static const ph_cells_source ticket_source = {
    .count = 1, .values = next_ticket, .launched = took_ticket, .user = &shared};

static const t_fixture fixture = {.world = &world, .arrays = {{&y, 64, T_INTS, 0}}};

FIXTURE(open_world)
{
    shared = (ticket){0};
    t_fixture_open(&fixture);
    return 0;
}

FIXTURE(close_world)
{
    t_fixture_close(&fixture);
    return 0;
}

/* ---- jobs ---- Threads do not assert: they keep their first failure, which the main thread
 * reports. */
typedef struct job {
    int index, replays;
    ph_stream *stream;
    ph_graph *graph;
    uint64_t *cell;
    uint64_t seen[MOST_REPLAYS];
    pthread_t thread;
    char failure[1024];
} job;

#define JOB_OK(j, call)                                                                            \
    do {                                                                                           \
        if ((call) != PH_OK) {                                                                     \
            (void)snprintf((j)->failure, sizeof(j)->failure, "thread %d: %s: %s", (j)->index,      \
                           #call, ph_error_last()->message);                                       \
            return NULL;                                                                           \
        }                                                                                          \
    } while (0)

static void start(job *j, void *(*body)(void *))
{
    j->failure[0] = 0;
    assert_true(ph__thread_start(&j->thread, "test", body, j));
}

static void finish(const job *j)
{
    pthread_join(j->thread, NULL);
    if (j->failure[0])
        fail_msg("%s", j->failure);
}

static ph_status read_ticket(ph_stream *stream, void *user)
{
    job *j = user;
    PH_TRY(ph_cells_create(&j->cell, stream, &ticket_source));
    return ph_memcpy(&y[j->index], j->cell, sizeof *y, stream);
}

/* ---- replays of several graphs at once ---- */
static void *replay(void *user)
{
    job *j = user;
    for (int i = 0; i < j->replays; i++) {
        JOB_OK(j, ph_graph_replay(j->graph, j->stream));
        JOB_OK(j, ph_memcpy(&j->seen[i], &y[j->index], sizeof *y, j->stream));
    }
    JOB_OK(j, ph_stream_synchronize(j->stream));
    return NULL;
}

/* Captures, replays once and lets go, again and again. */
static void *capture(void *user)
{
    job *j = user;
    const ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    for (int i = 0; i < j->replays; i++) {
        JOB_OK(j, ph_graph_capture(j->graph, j->stream, &options, read_ticket, j));
        JOB_OK(j, ph_graph_replay(j->graph, j->stream));
        JOB_OK(j, ph_memcpy(&j->seen[i], &y[j->index], sizeof *y, j->stream));
        JOB_OK(j, ph_graph_reset(j->graph));
    }
    JOB_OK(j, ph_stream_synchronize(j->stream));
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *z = b;
    return *x < *z ? -1 : *x > *z;
}

/* No ticket was given twice, and none was lost. */
static void check_tickets(const job *jobs, int count)
{
    static uint64_t all[(REPLAYERS + 1) * MOST_REPLAYS];
    size_t total = 0;
    for (int i = 0; i < count; i++) {
        memcpy(all + total, jobs[i].seen, (size_t)jobs[i].replays * sizeof *all);
        total += (size_t)jobs[i].replays;
        for (int k = 1; k < jobs[i].replays; k++)
            assert_true(jobs[i].seen[k] > jobs[i].seen[k - 1]);
    }
    qsort(all, total, sizeof *all, by_value);
    for (size_t i = 0; i < total; i++)
        assert_int_equal(all[i], i);
    assert_int_equal(shared.asked, total);
    assert_int_equal(shared.out, total);
}

TEST(test_one_source_of_several_graphs)
{
    static job jobs[REPLAYERS + 1];
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i <= REPLAYERS; i++) {
        job *j = &jobs[i];
        j->index = i;
        j->replays = t_nightly() ? MOST_REPLAYS : 300;
        assert_ok(ph_stream_create(&j->stream, world.device, NULL));
        assert_ok(ph_graph_create(&j->graph, NULL));
        if (i < REPLAYERS)
            assert_ok(ph_graph_capture(j->graph, j->stream, NULL, read_ticket, j));
    }
    for (int i = 0; i <= REPLAYERS; i++)
        start(&jobs[i], i < REPLAYERS ? replay : capture);
    for (int i = 0; i <= REPLAYERS; i++)
        finish(&jobs[i]);
    check_tickets(jobs, REPLAYERS + 1);
    for (int i = 0; i <= REPLAYERS; i++) {
        ph_graph_destroy(jobs[i].graph);
        ph_stream_destroy(jobs[i].stream);
    }
}

/* ---- one capture, a thread for each of its streams ---- */
static ph_status constant(uint64_t *values, void *user)
{
    for (uint64_t i = 0; i < 3; i++)
        values[i] = *(const uint64_t *)user * 10 + i;
    return PH_OK;
}

static const uint64_t numbers[FORKS] = {1, 2, 3, 4};

static void *make_and_read(void *user)
{
    job *j = user;
    uint64_t *cells[3];
    const ph_cells_source source = {
        .count = 3, .values = constant, .user = (void *)(uintptr_t)&numbers[j->index]};
    for (int round = 0; round < 4; round++) {
        JOB_OK(j, ph_cells_create(cells, j->stream, &source));
        JOB_OK(j, ph_cells_require(j->stream));
        for (int i = 0; i < 3; i++)
            JOB_OK(j, ph_memcpy(&y[3 * j->index + i], cells[i], sizeof *y, j->stream));
    }
    return NULL;
}

TEST(test_streams_of_one_capture)
{
    static job jobs[FORKS];
    const ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    ph_graph *graph;
    uint64_t seen[3 * FORKS];
    memset(jobs, 0, sizeof jobs);
    assert_ok(ph_graph_create(&graph, NULL));
    for (int i = 0; i < FORKS; i++) {
        jobs[i].index = i;
        assert_ok(ph_stream_create(&jobs[i].stream, world.device, NULL));
    }
    for (int round = 0; round < (t_nightly() ? 100 : 10); round++) {
        assert_ok(ph_memset(y, 0, sizeof seen, world.stream));
        assert_ok(ph_graph_capture_begin(graph, world.stream, &options));
        for (int i = 0; i < FORKS; i++)
            assert_ok(ph_stream_wait_stream(jobs[i].stream, world.stream));
        for (int i = 0; i < FORKS; i++)
            start(&jobs[i], make_and_read);
        for (int i = 0; i < FORKS; i++)
            finish(&jobs[i]);
        for (int i = 0; i < FORKS; i++)
            assert_ok(ph_stream_wait_stream(world.stream, jobs[i].stream));
        assert_ok(ph_graph_capture_end(graph, PH_OK));
        assert_ok(ph_graph_replay(graph, world.stream));
        t_read(seen, y, sizeof seen, world.stream);
        for (uint64_t i = 0; i < 3 * FORKS; i++)
            assert_int_equal(seen[i], numbers[i / 3] * 10 + i % 3);
        assert_ok(ph_graph_reset(graph));
    }
    ph_graph_destroy(graph);
    for (int i = 0; i < FORKS; i++)
        ph_stream_destroy(jobs[i].stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_one_source_of_several_graphs),
        IN_WORLD(test_streams_of_one_capture),
    };
    return cmocka_run_group_tests_name("threads.cells", tests, NULL, NULL);
}
