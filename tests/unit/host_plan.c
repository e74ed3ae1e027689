/* SPDX-License-Identifier: MIT */
/* tests/unit/host_plan.c: replay plans: every block once, after what it depends on, in whatever
 * way the plan chooses to run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "base/sync.h"
#include "driver/host/plan/plan.h"
#include "driver/host/plan/plan_run.h"
#include "support/test.h"
#include <cmocka.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_NODES = 120,
    MOST_BLOCKS = 64,
    MOST_EDGES = 6,
    THREADS = 4
};

/* What a node's function finds behind args. hits are plain where only one task touches them: a
 * block that runs twice at the same time is for TSan, one that runs twice for the count. */
typedef struct job {
    struct program *program;
    uint32_t node, blocks, dependency_count;
    uint32_t dependencies[MOST_EDGES];
    size_t shared_bytes;
    uint32_t spin;
    uint32_t hits[MOST_BLOCKS];
    /* of the last run: made from the dependencies' values, so that the order matters */
    uint64_t value;
    atomic_uint finished_blocks;
} job;

typedef struct program {
    uint32_t count;
    job jobs[MOST_NODES];
    ph__plan_node nodes[MOST_NODES];
    uint32_t run; /* how many runs there were, this one included */
    atomic_uint faults;
} program;

static void expect(program *p, bool holds)
{
    if (!holds)
        atomic_fetch_add_explicit(&p->faults, 1, memory_order_relaxed);
}

static void check_shared(const ph_block_range *range, const job *j)
{
    expect(j->program, (range->shared == NULL) == (j->shared_bytes == 0));
    if (!range->shared)
        return;
    expect(j->program, (uintptr_t)range->shared % 64 == 0);
    memset(range->shared, (int)j->node, j->shared_bytes);
    for (uint32_t i = 0; i < j->spin / 16; i++)
        ph__pause();
    for (size_t i = 0; i < j->shared_bytes; i++)
        expect(j->program, ((unsigned char *)range->shared)[i] == (unsigned char)j->node);
}

static void step(const ph_block_range *range, const void *args)
{
    job *j = *(job *const *)args;
    program *p = j->program;
    expect(p, range->begin < range->end && range->end <= j->blocks);
    expect(p, range->grid[0] * range->grid[1] * range->grid[2] == j->blocks);
    for (uint32_t i = 0; i < j->dependency_count; i++) {
        const job *needed = &p->jobs[j->dependencies[i]];
        for (uint32_t b = 0; b < needed->blocks; b++)
            expect(p, needed->hits[b] == p->run);
    }
    check_shared(range, j);
    for (volatile uint32_t i = 0; i < j->spin; i++)
        continue;
    for (uint64_t b = range->begin; b < range->end; b++)
        expect(p, ++j->hits[b] == p->run);
    unsigned ran = (unsigned)(range->end - range->begin);
    unsigned before = atomic_fetch_add_explicit(&j->finished_blocks, ran, memory_order_relaxed);
    if (before + ran != j->blocks * p->run)
        return;
    uint64_t value = j->node + 1;
    for (uint32_t i = 0; i < j->dependency_count; i++)
        value = value * 31 + p->jobs[j->dependencies[i]].value;
    j->value = value;
}

static void set_shape(program *p, uint32_t n, uint32_t x, uint32_t y)
{
    job *j = &p->jobs[n];
    j->blocks = x * y;
    p->nodes[n].grid[0] = x;
    p->nodes[n].grid[1] = y;
    p->nodes[n].grid[2] = 1;
}

static program *new_program(uint32_t count)
{
    program *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->count = count;
    return p;
}

/* args is an address of an address, so that a changed node can point elsewhere. */
static job *pointers[MOST_NODES];

static void add_node(program *p, uint32_t n)
{
    job *j = &p->jobs[n];
    pointers[n] = j;
    j->program = p;
    j->node = n;
    p->nodes[n] = (ph__plan_node){.fn = step,
                                  .args = &pointers[n],
                                  .block = {1, 1, 1},
                                  .shared_bytes = j->shared_bytes,
                                  .dependencies = j->dependencies,
                                  .dependency_count = j->dependency_count};
    set_shape(p, n, 1, 1);
}

static program *random_program(ph__rng *rng)
{
    program *p = new_program(1 + (uint32_t)ph__rng_below(rng, MOST_NODES));
    uint64_t edges = ph__rng_below(rng, MOST_EDGES + 1), reach = 1 + ph__rng_below(rng, 30);
    for (uint32_t n = 0; n < p->count; n++) {
        job *j = &p->jobs[n];
        j->dependency_count = n ? (uint32_t)ph__rng_below(rng, edges + 1) : 0;
        for (uint32_t i = 0; i < j->dependency_count; i++)
            j->dependencies[i] = n - 1 - (uint32_t)ph__rng_below(rng, n < reach ? n : reach);
        j->shared_bytes = ph__rng_below(rng, 4) ? 0 : 1 + ph__rng_below(rng, 300);
        j->spin = (uint32_t)ph__rng_below(rng, 200);
        add_node(p, n);
        if (ph__rng_below(rng, 2))
            set_shape(p, n, 1 + (uint32_t)ph__rng_below(rng, 8),
                      1 + (uint32_t)ph__rng_below(rng, 8));
    }
    return p;
}

static void check_run(program *p)
{
    uint64_t values[MOST_NODES];
    assert_int_equal(atomic_load(&p->faults), 0);
    for (uint32_t n = 0; n < p->count; n++) {
        const job *j = &p->jobs[n];
        for (uint32_t b = 0; b < j->blocks; b++)
            assert_int_equal(j->hits[b], p->run);
        values[n] = n + 1;
        for (uint32_t i = 0; i < j->dependency_count; i++)
            values[n] = values[n] * 31 + values[j->dependencies[i]];
        assert_int_equal(j->value, values[n]);
    }
}

static void run(ph__plan *plan, program *p, ph__rng *chaos)
{
    p->run++;
    int64_t allocations = ph__alloc_count();
    ph__plan_run(plan, chaos);
    assert_int_equal(ph__alloc_count(), allocations);
    check_run(p);
}

static int rounds(int brief, int nightly)
{
    const char *tier = getenv("PH_TEST_TIER");
    return tier && strcmp(tier, "nightly") == 0 ? nightly : brief;
}

/* Starts counting anew: for nodes whose blocks have changed. */
static void forget_runs(program *p)
{
    p->run = 0;
    for (uint32_t n = 0; n < p->count; n++) {
        memset(p->jobs[n].hits, 0, sizeof p->jobs[n].hits);
        atomic_store(&p->jobs[n].finished_blocks, 0);
    }
}

static void change_node(ph__plan *plan, program *p, uint32_t n, ph__rng *rng)
{
    job *j = &p->jobs[n];
    if (ph__rng_below(rng, 2)) {
        forget_runs(p);
        set_shape(p, n, 1 + (uint32_t)ph__rng_below(rng, 8), 1 + (uint32_t)ph__rng_below(rng, 8));
    }
    if (ph__rng_below(rng, 3) == 0)
        j->shared_bytes = p->nodes[n].shared_bytes = ph__rng_below(rng, 5000);
    p->nodes[n].may_block = ph__rng_below(rng, 20) == 0;
    assert_true(ph__plan_set(plan, n, &p->nodes[n]));
}

TEST(test_every_way_to_run)
{
    ph__rng rng = {11};
    ph__workers *workers = ph__workers_create(THREADS);
    assert_non_null(workers);
    uint64_t flags = 0, parallel = 0, split = 0;
    for (int round = rounds(150, 5000); round > 0; round--) {
        program *p = random_program(&rng);
        ph__plan *plan = ph__plan_create(p->nodes, p->count, workers);
        assert_non_null(plan);
        for (int i = 0; i < 25; i++) {
            unsigned lanes = (unsigned)ph__rng_below(&rng, THREADS + 1);
            if (i % 3 == 0)
                ph__plan_force_lanes(plan, lanes);
            if (i % 4 == 2)
                change_node(plan, p, (uint32_t)ph__rng_below(&rng, p->count), &rng);
            run(plan, p, ph__rng_below(&rng, 5) == 0 ? &rng : NULL);
            ph__plan_stats stats;
            ph__plan_get_stats(&stats, plan);
            flags += stats.flags;
            split += stats.tasks - p->count;
            if (i == 24)
                parallel += stats.parallel_runs;
        }
        ph__plan_destroy(plan);
        free(p);
    }
    ph__workers_destroy(workers);
    assert_true(flags > 0);
    assert_true(split > 0);
    assert_true(parallel > 0);
}

TEST(test_forced_lanes)
{
    ph__rng rng = {3};
    ph__workers *workers = ph__workers_create(THREADS);
    program *p = random_program(&rng);
    ph__plan *plan = ph__plan_create(p->nodes, p->count, workers);
    assert_non_null(plan);
    for (unsigned lanes = 1; lanes <= THREADS + 1; lanes++) {
        ph__plan_force_lanes(plan, lanes);
        ph__plan_stats before, after;
        ph__plan_get_stats(&before, plan);
        assert_int_equal(before.lanes, lanes < THREADS ? lanes : THREADS);
        for (int i = 0; i < rounds(50, 2000); i++)
            run(plan, p, NULL);
        ph__plan_get_stats(&after, plan);
        uint64_t ran = after.parallel_runs - before.parallel_runs;
        assert_int_equal(ran, lanes == 1 ? 0 : (uint64_t)rounds(50, 2000));
    }
    ph__plan_destroy(plan);
    ph__workers_destroy(workers);
    free(p);
}

/* The order in which a chaos run starts its nodes. */
static uint32_t order[MOST_NODES], started;
static void note(const ph_block_range *range, const void *args)
{
    step(range, args);
    if (range->begin == 0)
        order[started++] = (*(job *const *)args)->node;
}

TEST(test_chaos_differs_by_seed)
{
    program *p = new_program(20);
    for (uint32_t n = 0; n < p->count; n++) {
        add_node(p, n);
        p->nodes[n].fn = note;
    }
    ph__plan *plan = ph__plan_create(p->nodes, p->count, NULL);
    assert_non_null(plan);
    uint32_t seen[8][MOST_NODES];
    for (uint64_t seed = 0; seed < 8; seed++) {
        for (int again = 0; again < 2; again++) {
            ph__rng rng = {seed};
            started = 0;
            run(plan, p, &rng);
            assert_int_equal(started, 20);
            if (again)
                assert_memory_equal(seen[seed], order, 20 * sizeof *order);
            memcpy(seen[seed], order, 20 * sizeof *order);
        }
        for (uint64_t before = 0; before < seed; before++)
            assert_memory_not_equal(seen[seed], seen[before], 20 * sizeof *order);
    }
    ph__plan_destroy(plan);
    free(p);
}

/* Another thread has the workers: the plan does without them. */
typedef struct held {
    atomic_uint inside, go_on;
    ph__workers *workers;
} held;
static void hold(void *context, unsigned lane)
{
    held *h = context;
    atomic_fetch_add(&h->inside, 1);
    while (lane == 0 && !atomic_load(&h->go_on))
        sched_yield();
}
static void *hold_workers(void *context)
{
    held *h = context;
    return ph__workers_run(h->workers, 2, hold, h) ? h : NULL;
}

TEST(test_workers_taken)
{
    ph__rng rng = {5};
    held h = {.workers = ph__workers_create(2)};
    program *p = random_program(&rng);
    ph__plan *plan = ph__plan_create(p->nodes, p->count, h.workers);
    pthread_t thread;
    assert_true(ph__thread_start(&thread, "ph-test", hold_workers, &h));
    while (atomic_load(&h.inside) < 2)
        sched_yield();
    ph__plan_force_lanes(plan, 2);
    run(plan, p, NULL);
    ph__plan_stats stats;
    ph__plan_get_stats(&stats, plan);
    assert_int_equal(stats.parallel_runs, 0);
    assert_false(ph__workers_awake(h.workers, 2));
    atomic_store(&h.go_on, 1);
    void *done;
    pthread_join(thread, &done);
    assert_ptr_equal(done, &h);
    run(plan, p, NULL);
    ph__plan_get_stats(&stats, plan);
    assert_int_equal(stats.parallel_runs, 1);
    ph__plan_destroy(plan);
    ph__workers_destroy(h.workers);
    free(p);
}

static void nothing(const ph_block_range *range, const void *args)
{
    (void)range;
    (void)args;
}

/* Whether few empty functions are quick is for the clock to say; what must hold is when the
 * answer is no for certain. */
TEST(test_tiny_is_never_guessed)
{
    ph__plan_node node = {.fn = nothing, .grid = {1, 1, 1}, .block = {1, 1, 1}, .is_inline = true};
    ph__plan *plan = ph__plan_create(&node, 1, NULL);
    assert_false(ph__plan_is_tiny(plan));
    for (int i = 0; i < 10000 && !ph__plan_is_tiny(plan); i++)
        ph__plan_run(plan, NULL);
    assert_true(ph__plan_is_tiny(plan));
    node.args = &node;
    assert_true(ph__plan_set(plan, 0, &node));
    assert_true(ph__plan_is_tiny(plan));
    node.may_block = true;
    assert_true(ph__plan_set(plan, 0, &node));
    assert_false(ph__plan_is_tiny(plan));
    ph__plan_run(plan, NULL);
    assert_false(ph__plan_is_tiny(plan));
    node.may_block = false;
    node.grid[0] = 7;
    assert_true(ph__plan_set(plan, 0, &node));
    assert_false(ph__plan_is_tiny(plan));
    ph__plan_destroy(plan);
}

/* However quick it was: a node that is not inline may wait for the thread that launches. */
TEST(test_tiny_is_inline)
{
    ph__plan_node nodes[2] = {
        {.fn = nothing, .grid = {1, 1, 1}, .block = {1, 1, 1}, .is_inline = true},
        {.fn = nothing, .grid = {1, 1, 1}, .block = {1, 1, 1}}};
    ph__plan *plan = ph__plan_create(nodes, 2, NULL);
    for (int i = 0; i < 1000; i++) {
        ph__plan_run(plan, NULL);
        assert_false(ph__plan_is_tiny(plan));
    }
    nodes[1].is_inline = true;
    assert_true(ph__plan_set(plan, 1, &nodes[1]));
    for (int i = 0; i < 10000 && !ph__plan_is_tiny(plan); i++)
        ph__plan_run(plan, NULL);
    assert_true(ph__plan_is_tiny(plan));
    nodes[0].is_inline = false;
    assert_true(ph__plan_set(plan, 0, &nodes[0]));
    assert_false(ph__plan_is_tiny(plan));
    ph__plan_run(plan, NULL);
    assert_false(ph__plan_is_tiny(plan));
    ph__plan_destroy(plan);
}

TEST(test_empty_plan)
{
    ph__workers *workers = ph__workers_create(2);
    ph__plan *plan = ph__plan_create(NULL, 0, workers);
    assert_non_null(plan);
    ph__rng rng = {1};
    for (int i = 0; i < 10; i++)
        ph__plan_run(plan, i % 3 ? NULL : &rng);
    ph__plan_force_lanes(plan, 2);
    ph__plan_run(plan, NULL);
    ph__plan_destroy(plan);
    ph__plan_destroy(NULL);
    ph__workers_destroy(workers);
}

TEST(test_out_of_memory)
{
    ph__rng rng = {9};
    ph__workers *workers = ph__workers_create(2);
    program *p = random_program(&rng);
    int64_t live = ph__alloc_live();
    ph__plan *plan = NULL;
    for (int64_t n = 0; !plan; n++) {
        assert_true(n < 200);
        assert_int_equal(ph__alloc_live(), live);
        ph__alloc_fail_after(n);
        plan = ph__plan_create(p->nodes, p->count, workers);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
    }
    ph__plan_node larger = p->nodes[0];
    larger.shared_bytes = 100000;
    larger.grid[0] = 1000;
    ph__alloc_fail_after(0);
    assert_false(ph__plan_set(plan, 0, &larger));
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    run(plan, p, NULL); /* as before */
    ph__plan_destroy(plan);
    assert_int_equal(ph__alloc_live(), live);
    ph__workers_destroy(workers);
    free(p);
}

/* ---- workers ---- */

static void count_lane(void *context, unsigned lane)
{
    uint32_t *counts = context;
    counts[lane * 16]++;
}

TEST(test_workers_run_every_lane)
{
    ph__workers *workers = ph__workers_create(THREADS);
    uint32_t counts[THREADS * 16] = {0}, want[THREADS] = {0};
    ph__rng rng = {2};
    for (int i = 0; i < rounds(2000, 200000); i++) {
        unsigned lanes = 1 + (unsigned)ph__rng_below(&rng, THREADS);
        if (i % 500 == 0)
            sched_yield();
        assert_true(ph__workers_run(workers, lanes, count_lane, counts));
        for (unsigned lane = 0; lane < THREADS; lane++) {
            want[lane] += lane < lanes;
            assert_int_equal(counts[lane * 16], want[lane]);
        }
    }
    assert_false(ph__workers_run(workers, THREADS + 1, count_lane, counts));
    assert_int_equal(ph__workers_count(workers), THREADS);
    ph__workers_destroy(workers);
    assert_int_equal(ph__workers_count(NULL), 1);
    assert_false(ph__workers_awake(NULL, 2));
    assert_false(ph__workers_run(NULL, 2, count_lane, counts));
    ph__workers_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_to_run),
        cmocka_unit_test(test_forced_lanes),
        cmocka_unit_test(test_chaos_differs_by_seed),
        cmocka_unit_test(test_workers_taken),
        cmocka_unit_test(test_tiny_is_never_guessed),
        cmocka_unit_test(test_tiny_is_inline),
        cmocka_unit_test(test_empty_plan),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_workers_run_every_lane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
