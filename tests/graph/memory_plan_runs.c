/* SPDX-License-Identifier: MIT */
/* tests/graph/memory_plan_runs.c: how often the function of a planned capture runs, and memory that
 * its runs hold. */
#include "support/fixture.h"
#include "support/support.h"
#include "support/test.h"

#include <string.h>

enum {
    WIDTH = 64 /* elements that are written of a block */
};
static t_world world;

WORLD(world, .log = true);

/* 64 MiB, which are a segment; 20 MiB more are alive with them at the end of another function. */
typedef struct whole_segments {
    int runs;
    bool gap;
    int32_t *left; /* of the last run */
} whole_segments;

static ph_status take_whole_segments(ph_stream *stream, void *user)
{
    whole_segments *w = user;
    int32_t *at[2] = {NULL, NULL};
    w->runs++;
    ph_free(w->left, stream);
    w->left = NULL;
    PH_TRY(ph_malloc(&at[0], 64 << 20, 1, stream));
    PH_TRY(t_fill(&world, stream, at[0], WIDTH, 1));
    if (w->gap)
        ph_free(at[0], stream);
    PH_TRY(ph_malloc(&at[1], 80 << 20, 1, stream)); /* takes no free segment of 64 MiB */
    PH_TRY(t_fill(&world, stream, at[1], WIDTH, 1));
    ph_free(at[1], stream);
    if (!w->gap)
        w->left = at[0];
    return PH_OK;
}

static ph_graph_memory planned_whole_segments(whole_segments *w, ph_pool *pool)
{
    ph_graph *graph;
    ph_graph_memory memory;
    const ph_capture_options options = {.plan = true, .pool = pool};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, &options, take_whole_segments, w));
    assert_ok(ph_graph_get_memory(&memory, graph));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    ph_graph_destroy(graph);
    ph_free(w->left, world.stream);
    return memory;
}

TEST(a_run_without_gaps_stays_and_is_the_only_one)
{
    whole_segments w = {0};
    ph_graph_memory memory = planned_whole_segments(&w, NULL);
    assert_int_equal(w.runs, 1);
    assert_non_null(strstr(memory.plan_ended, "the first run stays"));
    assert_int_equal(memory.planned, 0);
    assert_int_equal(memory.plan_bound, 144 << 20);
    assert_int_equal(memory.pool_reserved, 144 << 20);
    assert_int_equal(t_log_count("ph_graph_capture"), 0);
}

TEST(a_run_with_gaps_is_planned)
{
    whole_segments w = {.gap = true};
    ph_graph_memory memory = planned_whole_segments(&w, NULL);
    assert_int_equal(w.runs, 2);
    assert_null(memory.plan_ended);
    assert_int_equal(memory.plan_bound, 80 << 20);
    assert_int_equal(memory.pool_reserved, 80 << 20);
}

/* Its memory has to be the pool's. */
TEST(a_run_without_gaps_goes_into_the_callers_pool)
{
    ph_pool *pool;
    whole_segments w = {0};
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    ph_graph_memory memory = planned_whole_segments(&w, pool);
    assert_int_equal(w.runs, 2);
    assert_int_equal(memory.planned, 144 << 20);
    ph_pool_release(pool);
}

typedef struct holding {
    ph_graph *graph;
    int runs, from; /* the first run that holds */
    char *held;
} holding;

static ph_status hold_from(ph_stream *stream, void *user)
{
    holding *h = user;
    int32_t *at[2];
    h->runs++;
    for (int i = 0; i < 2; i++) {
        PH_TRY(ph_malloc(&at[i], 1 << 20, 1, stream));
        PH_TRY(t_fill(&world, stream, at[i], WIDTH, i));
        if (h->runs >= h->from)
            PH_TRY(ph_graph_hold_memory(h->graph, at[i]));
        ph_free(at[i], stream);
    }
    return PH_OK;
}

TEST(memory_that_the_second_run_alone_holds_ends_the_plan)
{
    static const int runs[] = {
        1, 3}; /* of one that holds in each run, and of one from the second on */
    for (int from = 1; from <= 2; from++) {
        ph_graph_memory memory;
        holding h = {.from = from};
        assert_ok(ph_graph_create(&h.graph, NULL));
        assert_ok(ph_graph_capture(h.graph, world.stream, &(ph_capture_options){.plan = true},
                                   hold_from, &h));
        assert_ok(ph_graph_get_memory(&memory, h.graph));
        assert_int_equal(h.runs, runs[from - 1]);
        assert_non_null(
            strstr(memory.plan_ended, from == 1 ? "nothing that can be planned" : "kept a block"));
        assert_ok(ph_graph_replay(h.graph, world.stream));
        assert_ok(ph_stream_synchronize(world.stream));
        ph_graph_destroy(h.graph);
    }
}

/* The second run's requests for it are no part of the plan. */
static ph_status hold_one_of_three(ph_stream *stream, void *user)
{
    holding *h = user;
    int32_t *at[3];
    h->runs++;
    for (int i = 0; i < 3; i++) {
        PH_TRY(ph_malloc(&at[i], (size_t)(i + 2) << 20, 1, stream));
        PH_TRY(t_fill(&world, stream, at[i], WIDTH, i));
        if (i == 1)
            PH_TRY(ph_graph_hold_memory(h->graph, at[i]));
        ph_free(at[i], stream);
    }
    h->held = (char *)at[1];
    return PH_OK;
}

TEST(memory_that_both_runs_hold_is_held)
{
    ph_pool *pool;
    ph_graph_memory memory;
    char *other;
    holding h = {0};
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    assert_ok(ph_graph_create(&h.graph, NULL));
    assert_ok(ph_graph_capture(h.graph, world.stream,
                               &(ph_capture_options){.plan = true, .pool = pool}, hold_one_of_three,
                               &h));
    assert_ok(ph_graph_get_memory(&memory, h.graph));
    assert_int_equal(h.runs, 2);
    assert_null(memory.plan_ended);
    assert_ok(ph_pool_begin(pool));
    for (int i = 0; i < 8; i++) { /* whatever the pool has free */
        assert_ok(ph_malloc(&other, 3 << 20, 1, world.stream));
        assert_true(other + (3 << 20) <= h.held || h.held + (3 << 20) <= other);
    }
    assert_ok(ph_pool_end(pool));
    ph_graph_destroy(h.graph);
    ph_pool_release(pool);
}

/* Asks for what was freed, between blocks that are alive. */
typedef struct looking {
    int runs, found; /* found: of all runs */
} looking;

static ph_status look_up_freed(ph_stream *stream, void *user)
{
    looking *l = user;
    int32_t *at[3];
    ph_allocation found;
    l->runs++;
    for (int i = 0; i < 3; i++) {
        PH_TRY(ph_malloc(&at[i], 1 << 20, 1, stream));
        PH_TRY(t_fill(&world, stream, at[i], WIDTH, i));
    }
    ph_free(at[1], stream);
    l->found += ph_memory_lookup(&found, world.device, at[1]) == PH_OK;
    PH_TRY(ph_memory_lookup(&found, world.device, at[2]));
    assert_ptr_equal(found.base, at[2]);
    ph_free(at[0], stream);
    ph_free(at[2], stream);
    return PH_OK;
}

TEST(freed_blocks_of_a_plan_are_no_allocations)
{
    looking l = {0};
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, &(ph_capture_options){.plan = true},
                               look_up_freed, &l));
    assert_int_equal(l.runs, 2);
    assert_int_equal(l.found, 0);
    ph_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_run_without_gaps_stays_and_is_the_only_one),
        IN_WORLD(a_run_with_gaps_is_planned),
        IN_WORLD(a_run_without_gaps_goes_into_the_callers_pool),
        IN_WORLD(memory_that_the_second_run_alone_holds_ends_the_plan),
        IN_WORLD(freed_blocks_of_a_plan_are_no_allocations),
        IN_WORLD(memory_that_both_runs_hold_is_held),
    };
    return cmocka_run_group_tests_name("graph.memory_plan_runs", tests, NULL, NULL);
}
