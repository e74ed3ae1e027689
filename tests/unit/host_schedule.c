/* SPDX-License-Identifier: MIT */
/* tests/unit/host_schedule.c: schedules as data: all blocks once, every edge in order or behind
 * a wait, nobody waits in a circle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "driver/host/plan/schedule.h"
#include "support/test.h"
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_NODES = 400,
    MOST_EDGES = 8 * MOST_NODES,
    MOST_LANES = 8
};

typedef struct dag {
    uint32_t count, begin[MOST_NODES + 1], dependencies[MOST_EDGES];
    uint64_t blocks[MOST_NODES];
    float cost[MOST_NODES];
} dag;

static void add(dag *d, uint64_t blocks, float cost)
{
    d->blocks[d->count] = blocks;
    d->cost[d->count] = cost;
    d->begin[d->count + 1] = d->begin[d->count];
    d->count++;
}

/* The node added last depends on this one too. */
static void depend(dag *d, uint32_t on)
{
    d->dependencies[d->begin[d->count]++] = on;
}

static void random_dag(dag *d, ph__rng *rng)
{
    memset(d, 0, sizeof *d);
    uint32_t count = (uint32_t)ph__rng_below(rng, MOST_NODES) + 1;
    uint64_t reach = 1 + ph__rng_below(rng, 40), edges = ph__rng_below(rng, 5);
    bool large = ph__rng_below(rng, 2);
    for (uint32_t n = 0; n < count; n++) {
        uint64_t blocks = ph__rng_below(rng, 3) ? 1 : 1 + ph__rng_below(rng, 1000);
        float cost = (float)ph__rng_below(rng, 3000);
        if (large && ph__rng_below(rng, 4) == 0)
            cost *= 100;
        add(d, blocks, cost);
        for (uint64_t e = n ? ph__rng_below(rng, edges + 1) : 0; e > 0; e--)
            depend(d, n - 1 - (uint32_t)ph__rng_below(rng, n < reach ? n : reach));
    }
}

static void check_blocks(const ph__schedule *s, const dag *d)
{
    uint32_t tasks = 0;
    assert_int_equal(s->lane[0].first_task, 0);
    for (uint32_t n = 0; n < d->count; n++) {
        uint64_t next = 0;
        for (uint32_t part = 0; part < ph__schedule_parts(s, n); part++) {
            const ph__schedule_task *task = &s->tasks[ph__schedule_part(s, n, part)];
            assert_int_equal(task->node, n);
            assert_int_equal(task->begin, next);
            assert_true(task->begin < task->end);
            next = task->end;
            tasks++;
        }
        assert_int_equal(next, d->blocks[n]);
    }
    assert_int_equal(tasks, s->task_count);
    assert_int_equal(s->lane[s->lanes - 1].end_task, s->task_count);
    assert_true(s->task_count <= s->task_capacity);
}

/* Runs the lanes on paper: a lane goes on when what it waits for is published. Every dependency
 * must be finished, and known to be, when a task starts: done[] holds only what the lane itself
 * ran or waited for. */
static void check_order(const ph__schedule *s, const dag *d)
{
    uint32_t at[MOST_LANES], published[MOST_LANES] = {0}, known[MOST_LANES][MOST_LANES] = {{0}},
                             finished = 0;
    for (unsigned lane = 0; lane < s->lanes; lane++)
        at[lane] = s->lane[lane].first_segment;
    for (bool moved = true; moved;) {
        moved = false;
        for (unsigned lane = 0; lane < s->lanes; lane++) {
            const ph__schedule_lane *here = &s->lane[lane];
            if (at[lane] == here->end_segment)
                continue;
            const ph__schedule_segment *segment = &s->segments[at[lane]];
            bool ready = true;
            for (uint32_t w = segment->wait_first; w < segment->wait_end; w++)
                ready = ready && published[s->waits[w].lane] >= s->waits[w].tasks;
            if (!ready)
                continue;
            for (uint32_t w = segment->wait_first; w < segment->wait_end; w++) {
                assert_int_not_equal(s->waits[w].lane, lane);
                /* none is needless */
                assert_true(s->waits[w].tasks > known[lane][s->waits[w].lane]);
                known[lane][s->waits[w].lane] = s->waits[w].tasks;
            }
            for (uint32_t t = segment->first; t < segment->end; t++, finished++) {
                uint32_t n = s->tasks[t].node;
                for (uint32_t e = d->begin[n]; e < d->begin[n + 1]; e++)
                    for (uint32_t p = 0; p < ph__schedule_parts(s, d->dependencies[e]); p++) {
                        uint32_t need = ph__schedule_part(s, d->dependencies[e], p);
                        unsigned from = 0;
                        while (need >= s->lane[from].end_task)
                            from++;
                        uint32_t has = from == lane ? t - here->first_task : known[lane][from];
                        assert_true(need - s->lane[from].first_task < has);
                    }
            }
            assert_true(segment->first < segment->end);
            if (segment->publish)
                published[lane] = segment->end - here->first_task;
            at[lane]++;
            moved = true;
        }
    }
    assert_int_equal(finished, s->task_count); /* nobody waits for ever */
}

static void build(ph__schedule *s, const dag *d, unsigned lanes)
{
    const ph__schedule_graph graph = {.count = d->count,
                                      .dependency_begin = d->begin,
                                      .dependencies = d->dependencies,
                                      .blocks = d->blocks,
                                      .cost_ns = d->cost};
    int64_t allocations = ph__alloc_count();
    ph__schedule_build(s, &graph, lanes);
    assert_int_equal(ph__alloc_count(), allocations);
    assert_int_equal(s->lanes, lanes);
    check_blocks(s, d);
    check_order(s, d);
}

TEST(schedules_of_random_graphs_keep_every_dependency)
{
    static dag d;
    const char *tier = getenv("PH_TEST_TIER");
    int rounds = tier && strcmp(tier, "nightly") == 0 ? 20000 : 300;
    ph__rng rng = {7};
    uint64_t splits = 0, waits = 0;
    for (int round = 0; round < rounds; round++) {
        random_dag(&d, &rng);
        ph__schedule s;
        assert_true(ph__schedule_init(&s, d.count, d.begin[d.count], MOST_LANES));
        for (unsigned lanes = 2; lanes <= MOST_LANES;
             lanes += 1 + (unsigned)ph__rng_below(&rng, 3)) {
            build(&s, &d, lanes);
            splits += s.task_count - d.count;
            waits += s.wait_count;
        }
        ph__schedule_free(&s);
    }
    assert_true(splits > 0);
    assert_true(waits > 0);
}

TEST(test_chains_stay_on_their_lanes)
{
    static dag d;
    memset(&d, 0, sizeof d);
    for (uint32_t n = 0; n < MOST_NODES; n++) {
        add(&d, 1, 1000);
        if (n >= 4)
            depend(&d, n - 4);
    }
    ph__schedule s;
    assert_true(ph__schedule_init(&s, d.count, d.begin[d.count], 2));
    build(&s, &d, 2);
    assert_int_equal(s.wait_count, 0);
    assert_int_equal(s.lane[0].end_task, MOST_NODES / 2);
    assert_int_equal(s.lane[0].end_segment, 1);
    assert_int_equal((int)s.predicted_ns, MOST_NODES / 2 * 1000);
    ph__schedule_free(&s);
}

TEST(test_wavefront_is_shared)
{
    static dag d;
    enum {
        SIDE = 20
    };
    memset(&d, 0, sizeof d);
    for (uint32_t n = 0; n < SIDE * SIDE; n++) {
        add(&d, 1, 1000);
        if (n >= SIDE)
            depend(&d, n - SIDE);
        if (n % SIDE)
            depend(&d, n - 1);
    }
    ph__schedule s;
    assert_true(ph__schedule_init(&s, d.count, d.begin[d.count], 2));
    build(&s, &d, 2);
    assert_true(s.predicted_ns < SIDE * SIDE * 1000 / 1.7);
    assert_true(s.wait_count < SIDE * SIDE);
    ph__schedule_free(&s);
}

TEST(test_large_kernels_are_split)
{
    static dag d;
    memset(&d, 0, sizeof d);
    add(&d, 1, 1000);
    for (uint32_t n = 1; n < 4; n++) {
        add(&d, 1000, 1e6f);
        depend(&d, n - 1);
    }
    add(&d, 1, 1e6f); /* one block: whole */
    depend(&d, 3);
    ph__schedule s;
    assert_true(ph__schedule_init(&s, d.count, d.begin[d.count], 4));
    build(&s, &d, 4);
    for (uint32_t n = 1; n < 4; n++)
        assert_int_equal(ph__schedule_parts(&s, n), 4);
    assert_int_equal(ph__schedule_parts(&s, 4), 1);
    assert_true(s.predicted_ns < 1.8e6);
    d.blocks[1] = 2;
    d.cost[2] = PH__SPLIT_NS; /* no more than that: whole */
    build(&s, &d, 4);
    assert_in_range(ph__schedule_parts(&s, 1), 1, 2);
    assert_int_equal(ph__schedule_parts(&s, 2), 1);
    ph__schedule_free(&s);
}

TEST(an_empty_graph_has_an_empty_schedule)
{
    static dag d;
    memset(&d, 0, sizeof d);
    ph__schedule s;
    assert_true(ph__schedule_init(&s, 0, 0, 2));
    build(&s, &d, 2);
    assert_int_equal(s.task_count, 0);
    ph__schedule_free(&s);
    ph__schedule_free(&s);
}

TEST(test_out_of_memory)
{
    int64_t live = ph__alloc_live();
    bool made = false;
    for (int64_t n = 0; !made; n++) {
        ph__schedule s;
        ph__alloc_fail_after(n);
        made = ph__schedule_init(&s, 10, 10, 4);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        assert_true(made || n < 100);
        if (made)
            ph__schedule_free(&s);
        assert_int_equal(ph__alloc_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_of_random_graphs_keep_every_dependency),
        cmocka_unit_test(test_chains_stay_on_their_lanes),
        cmocka_unit_test(test_wavefront_is_shared),
        cmocka_unit_test(test_large_kernels_are_split),
        cmocka_unit_test(an_empty_graph_has_an_empty_schedule),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
