/* SPDX-License-Identifier: MIT */
/* tests/graph/memory_plans.c: one memory plan for several captures: what they share, what they keep
 * apart, how it ends, and misuse. */
#include "driver/driver.h"
#include "fake/fake_cuda.h"
#include "support/fixture.h"
#include "support/sweep.h"
#include "support/test.h"

#include <string.h>

enum {
    PARTS = 4,
    WIDTH = 64, /* elements that are written of a block */
    BLOCK = 512
};
static t_world world;

WORLD(world, .log = true);

/* Work of a capture: leaves a block with what the part before left; the first one with its
 * number. */
typedef enum odd_way {
    AS_NOTED,
    ASKS_FOR_MORE,
    FREES_LATER,
    FAILS
} odd_way;

typedef struct part {
    const struct part *before;
    int number, runs;
    int odd_run;
    odd_way odd;
    size_t scratch; /* bytes */
    int32_t *left;
} part;

typedef struct plan_of_parts {
    ph_pool *pool, *noted;
    ph_memory_plan *plan;
    ph_graph *graphs[PARTS];
    part parts[PARTS];
} plan_of_parts;

/* scratch, two blocks: freed by the caller where this fails. */
static ph_status work_with(int32_t **scratch, ph_stream *stream, part *p, odd_way odd)
{
    int32_t *more;
    PH_TRY(ph_malloc(&scratch[0], 1, p->scratch, stream));
    PH_TRY(t_fill(&world, stream, scratch[0], WIDTH, p->number));
    if (odd == FAILS)
        return ph_fail(PH_ERROR_CALLER, "enough");
    if (odd == ASKS_FOR_MORE) {
        PH_TRY(ph_malloc(&more, 1, p->scratch + BLOCK, stream));
        ph_free(more, stream);
    }
    PH_TRY(ph_malloc(&p->left, WIDTH, sizeof(int32_t), stream));
    const int32_t *from = p->before && p->before->left ? p->before->left : scratch[0];
    PH_TRY(ph_memcpy(p->left, from, WIDTH * sizeof(int32_t), stream));
    if (odd != FREES_LATER) {
        ph_free(scratch[0], stream);
        scratch[0] = NULL;
    }
    PH_TRY(ph_malloc(&scratch[1], 1, 2 * p->scratch, stream));
    return t_fill(&world, stream, scratch[1], WIDTH, -1);
}

static ph_status work(ph_stream *stream, void *user)
{
    part *p = user;
    int32_t *scratch[2] = {NULL, NULL};
    const odd_way odd = ++p->runs == p->odd_run ? p->odd : AS_NOTED;
    ph_free(p->left, stream);
    p->left = NULL;
    ph_status status = work_with(scratch, stream, p, odd);
    ph_free(scratch[0], stream);
    ph_free(scratch[1], stream);
    return status;
}

static ph_status capture(plan_of_parts *p, size_t at, ph_pool *pool)
{
    const ph_capture_options options = {.pool = pool};
    const size_t of = at < PARTS ? at : 0; /* others are refused */
    return ph_memory_plan_capture(p->plan, at, p->graphs[of], &options, work, &p->parts[of]);
}

static void plan_open(plan_of_parts *p)
{
    *p = (plan_of_parts){.pool = NULL};
    assert_ok(ph_pool_create(&p->pool, world.device, NULL));
    assert_ok(ph_pool_create(&p->noted, world.device, NULL));
    assert_ok(ph_memory_plan_create(&p->plan, p->pool, world.stream, PARTS));
    for (int i = 0; i < PARTS; i++) {
        p->parts[i] = (part){.number = 10 + i,
                             .before = i > 0 ? &p->parts[i - 1] : NULL,
                             .scratch = (size_t)BLOCK * (8 + 4 * (size_t)(i % 2))};
        assert_ok(ph_graph_create(&p->graphs[i], NULL));
    }
}

/* In any order; their graphs are dropped. */
static void note_all(plan_of_parts *p)
{
    static const size_t order[PARTS] = {2, 0, 3, 1};
    for (int i = 0; i < PARTS; i++) {
        assert_ok(capture(p, order[i], p->noted));
        assert_ok(ph_graph_reset(p->graphs[order[i]]));
    }
}

static void plan_close(plan_of_parts *p)
{
    ph_memory_plan_destroy(p->plan);
    for (int i = 0; i < PARTS; i++) {
        ph_graph_destroy(p->graphs[i]);
        ph_free(p->parts[i].left, world.stream);
    }
    ph_pool_release(p->pool);
    ph_pool_release(p->noted);
}

static void expect_results(plan_of_parts *p)
{
    int32_t values[WIDTH];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < PARTS; i++)
            assert_ok(ph_graph_replay(p->graphs[i], world.stream));
        for (int i = 0; i < PARTS; i++) {
            t_read(values, p->parts[i].left, sizeof values, world.stream);
            for (int k = 0; k < WIDTH; k++)
                assert_int_equal(values[k], 10);
        }
    }
}

/* By the work alone: what is left so far, and the largest of the part. */
static size_t alive_at_once(const plan_of_parts *p)
{
    size_t most = 0;
    for (size_t i = 0; i < PARTS; i++) {
        size_t alive = (i + 1) * BLOCK + 2 * p->parts[i].scratch;
        most = alive > most ? alive : most;
    }
    return most;
}

static ph_memory_plan_info info_of(const plan_of_parts *p)
{
    ph_memory_plan_info info;
    assert_ok(ph_memory_plan_get_info(&info, p->plan));
    return info;
}

TEST(several_captures_take_the_largest_and_not_the_sum)
{
    plan_of_parts p;
    ph_allocation found;
    ph_graph_memory memory;
    ph_memory_stats stats;
    plan_open(&p);
    note_all(&p);
    assert_ok(ph_memory_plan_place(p.plan));
    for (size_t i = 0; i < PARTS; i++)
        assert_ok(capture(&p, i, i % 2 ? p.pool : NULL));
    for (size_t i = 0; i < PARTS; i++) { /* what they left is found all the while */
        assert_ok(ph_memory_lookup(&found, world.device, p.parts[i].left));
        assert_ptr_equal(found.base, p.parts[i].left);
    }
    const uint64_t generation = found.generation;
    assert_ok(ph_memory_plan_finish(p.plan));
    assert_ok(ph_memory_plan_finish(p.plan));
    assert_ok(ph_memory_lookup(&found, world.device, p.parts[PARTS - 1].left));
    assert_int_equal(found.generation, generation);
    assert_ptr_equal(found.pool, p.pool);
    assert_int_equal(info_of(&p).plan_bound, alive_at_once(&p));
    assert_true((double)info_of(&p).planned <= 1.03 * (double)alive_at_once(&p));
    assert_null(info_of(&p).ended);
    assert_ok(ph_pool_stats(&stats, p.pool));
    assert_int_equal(stats.allocated, PARTS * BLOCK);
    for (int i = 0; i < PARTS; i++) {
        assert_ok(ph_graph_get_memory(&memory, p.graphs[i]));
        assert_int_equal(memory.planned, info_of(&p).planned);
        assert_int_equal(memory.plan_bound, info_of(&p).plan_bound);
        assert_int_equal(p.parts[i].runs, 2);
    }
    expect_results(&p);
    ph_memory_plan_destroy(p.plan); /* the graphs stay */
    p.plan = NULL;
    expect_results(&p);
    plan_close(&p);
    assert_int_equal(t_log_count("the memory plan"), 0);
}

/* ---- ends ---- */
static void end_by(odd_way way, const char *why)
{
    plan_of_parts p;
    ph_graph_memory memory;
    plan_open(&p);
    p.parts[2].odd = way;
    p.parts[2].odd_run = 2;
    note_all(&p);
    assert_ok(ph_memory_plan_place(p.plan));
    for (size_t i = 0; i < PARTS; i++)
        if (way == FAILS && i == 2)
            assert_error(capture(&p, i, NULL), PH_ERROR_CALLER, "enough");
        else
            assert_ok(capture(&p, i, NULL));
    assert_non_null(strstr(info_of(&p).ended, why));
    assert_int_equal(info_of(&p).planned, 0);
    assert_int_equal(t_log_count("the memory plan of several captures ended"), 1);
    for (size_t i = 0; i < PARTS; i++)
        assert_ok(ph_graph_reset(p.graphs[i]));
    for (size_t i = 0; i < PARTS; i++) /* all once more, in any order, without it */
        assert_ok(capture(&p, i, NULL));
    for (int i = 0; i < PARTS; i++) {
        assert_ok(ph_graph_get_memory(&memory, p.graphs[i]));
        assert_int_equal(memory.planned, 0);
        assert_non_null(strstr(memory.plan_ended, why));
    }
    assert_ok(ph_memory_plan_finish(p.plan));
    expect_results(&p);
    plan_close(&p);
}

TEST(another_size_ends_the_plan_of_all)
{
    end_by(ASKS_FOR_MORE, "other sizes than at the first time");
}

TEST(a_later_free_ends_the_plan_of_all)
{
    end_by(FREES_LATER, "in another order");
}

TEST(a_failing_capture_ends_the_plan_of_all)
{
    end_by(FAILS, "a capture that it served failed");
}

static ph_status do_nothing(ph_stream *stream, void *user)
{
    int32_t *at = user;
    return t_fill(&world, stream, at, WIDTH, 1);
}

TEST(captures_without_memory_are_no_warning)
{
    plan_of_parts p;
    int32_t *at;
    plan_open(&p);
    assert_ok(ph_malloc(&at, WIDTH, sizeof *at, world.stream));
    assert_ok(ph_memory_plan_capture(p.plan, 0, p.graphs[0], NULL, do_nothing, at));
    assert_ok(ph_memory_plan_place(p.plan));
    assert_non_null(strstr(info_of(&p).ended, "allocated nothing"));
    assert_int_equal(t_log_count("the memory plan"), 0);
    ph_free(at, world.stream);
    plan_close(&p);
}

/* One that was not noted may allocate nothing. */
TEST(a_capture_that_was_not_noted_ends_the_plan)
{
    plan_of_parts p;
    plan_open(&p);
    assert_ok(capture(&p, 0, p.noted));
    assert_ok(ph_graph_reset(p.graphs[0]));
    assert_ok(ph_memory_plan_place(p.plan));
    assert_ok(capture(&p, 0, NULL));
    assert_null(info_of(&p).ended);
    assert_ok(capture(&p, 1, NULL));
    assert_non_null(strstr(info_of(&p).ended, "was not noted"));
    plan_close(&p);
}

TEST(a_device_that_fails_is_no_want_of_memory)
{
    plan_of_parts p;
    if (t_on_host() || !fake_cuda()) {
        print_message("skipped: the software libcuda alone fails one call when it is told to\n");
        return;
    }
    plan_open(&p);
    assert_ok(capture(&p, 0, p.noted));
    assert_ok(ph_graph_reset(p.graphs[0]));
    fake_cuda()->fail_call("cuMemCreate", 719, 5);
    ph_status status = ph_memory_plan_place(p.plan);
    fake_cuda()->fail_call("cuMemCreate", 719, 0);
    assert_int_equal(status, PH_ERROR_DEVICE);
    assert_non_null(strstr(info_of(&p).ended, "device failed"));
    plan_close(&p);
}

/* ---- misuse ---- */
TEST(captures_out_of_order_are_refused)
{
    plan_of_parts p;
    plan_open(&p);
    note_all(&p);
    assert_error(capture(&p, 0, p.noted), PH_ERROR_STATE, "capture 0 was noted before");
    assert_error(capture(&p, PARTS, NULL), PH_ERROR_ARGUMENT, "there is no capture 4");
    assert_ok(ph_memory_plan_place(p.plan));
    assert_error(ph_memory_plan_place(p.plan), PH_ERROR_STATE, "has its places");
    assert_error(capture(&p, 0, p.noted), PH_ERROR_ARGUMENT, "another pool than the plan's");
    assert_ok(capture(&p, 0, NULL));
    assert_ok(capture(&p, 1, NULL));
    assert_error(capture(&p, 1, NULL), PH_ERROR_STATE, "capture 1 comes behind capture 1");
    assert_ok(ph_memory_plan_finish(p.plan));
    assert_error(capture(&p, 2, NULL), PH_ERROR_STATE, "was finished");
    plan_close(&p);
}

TEST(wrong_arguments_are_refused)
{
    plan_of_parts p;
    ph_memory_plan *none = NULL;
    ph_memory_plan_info info;
    const ph_capture_options planned = {.plan = true};
    plan_open(&p);
    assert_error(ph_memory_plan_create(NULL, p.pool, world.stream, 1), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_memory_plan_create(&none, NULL, world.stream, 1), PH_ERROR_ARGUMENT, "pool");
    assert_error(ph_memory_plan_create(&none, p.pool, NULL, 1), PH_ERROR_ARGUMENT, "stream");
    assert_error(ph_memory_plan_create(&none, p.pool, world.stream, 0), PH_ERROR_ARGUMENT,
                 "count is 0");
    assert_null(none);
    assert_error(ph_memory_plan_capture(NULL, 0, p.graphs[0], NULL, work, &p.parts[0]),
                 PH_ERROR_ARGUMENT, "plan");
    assert_error(ph_memory_plan_capture(p.plan, 0, NULL, NULL, work, &p.parts[0]),
                 PH_ERROR_ARGUMENT, "graph");
    assert_error(ph_memory_plan_capture(p.plan, 0, p.graphs[0], NULL, NULL, NULL),
                 PH_ERROR_ARGUMENT, "body");
    assert_error(ph_memory_plan_capture(p.plan, 0, p.graphs[0], &planned, work, &p.parts[0]),
                 PH_ERROR_ARGUMENT, "theirs already");
    assert_error(ph_memory_plan_place(NULL), PH_ERROR_ARGUMENT, "plan");
    assert_error(ph_memory_plan_finish(NULL), PH_ERROR_ARGUMENT, "plan");
    assert_error(ph_memory_plan_get_info(&info, NULL), PH_ERROR_ARGUMENT, "plan");
    assert_error(ph_memory_plan_get_info(NULL, p.plan), PH_ERROR_ARGUMENT, "out");
    ph_memory_plan_destroy(NULL);
    note_all(&p); /* none of that has changed it */
    plan_close(&p);
}

TEST(a_pool_of_another_device_is_refused)
{
    t_world other = {0};
    ph_pool *pool;
    ph_memory_plan *plan;
    if (!t_on_host())
        skip();
    t_open(&other, "host");
    assert_ok(ph_pool_create(&pool, other.device, NULL));
    assert_error(ph_memory_plan_create(&plan, pool, world.stream, 1), PH_ERROR_WRONG_DEVICE,
                 "the pool");
    ph_pool_release(pool);
    t_close(&other);
}

static ph_status call_inside(ph_stream *stream, void *user)
{
    plan_of_parts *p = user;
    ph_memory_plan_info info;
    assert_error(ph_memory_plan_place(p->plan), PH_ERROR_STATE, "inside one of the plan's own");
    assert_error(ph_memory_plan_finish(p->plan), PH_ERROR_STATE, "inside");
    assert_error(ph_memory_plan_get_info(&info, p->plan), PH_ERROR_STATE, "inside");
    assert_error(capture(p, 1, NULL), PH_ERROR_STATE, "inside");
    ph_memory_plan_destroy(p->plan);
    assert_int_equal(t_log_count("inside one of the plan's own captures"), 1);
    return work(stream, &p->parts[0]);
}

TEST(calls_inside_a_capture_are_refused)
{
    plan_of_parts p;
    plan_open(&p);
    assert_ok(ph_memory_plan_capture(p.plan, 0, p.graphs[0], NULL, call_inside, &p));
    plan_close(&p);
}

/* ---- shortages ---- */
static ph_status make_all(void *user)
{
    plan_of_parts *p = user;
    PH_TRY(ph_memory_plan_create(&p->plan, p->pool, world.stream, PARTS));
    for (size_t i = 0; i < PARTS; i++) {
        PH_TRY(capture(p, i, p->noted));
        PH_TRY(ph_graph_reset(p->graphs[i]));
    }
    PH_TRY(ph_memory_plan_place(p->plan));
    for (size_t i = 0; i < PARTS; i++)
        PH_TRY(capture(p, i, NULL));
    return ph_memory_plan_finish(p->plan);
}

static void drop_all(ph_status status, void *user)
{
    plan_of_parts *p = user;
    ph_memory_plan_info info;
    if (status == PH_OK && ph_memory_plan_get_info(&info, p->plan) == PH_OK && !info.ended)
        expect_results(p);
    ph_memory_plan_destroy(p->plan);
    p->plan = NULL;
    for (int i = 0; i < PARTS; i++) {
        assert_ok(ph_graph_reset(p->graphs[i]));
        ph_free(p->parts[i].left, world.stream);
        p->parts[i].left = NULL;
    }
}

static void sweep(const t_fault *fault)
{
    plan_of_parts p;
    plan_open(&p);
    ph_memory_plan_destroy(p.plan);
    p.plan = NULL;
    const t_swept run = {
        .name = "a plan of several captures", .run = make_all, .reset = drop_all, .user = &p};
    assert_true(t_sweep(&run, fault).failures > 10);
    plan_close(&p);
}

TEST(shortages_of_host_memory_leave_nothing)
{
    sweep(&t_host_memory_fault);
}

TEST(failures_of_the_driver_leave_nothing)
{
    sweep(t_driver_fault(PH__R_LAUNCH_FAILED));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(several_captures_take_the_largest_and_not_the_sum),
        IN_WORLD(another_size_ends_the_plan_of_all),
        IN_WORLD(a_later_free_ends_the_plan_of_all),
        IN_WORLD(a_failing_capture_ends_the_plan_of_all),
        IN_WORLD(captures_without_memory_are_no_warning),
        IN_WORLD(a_capture_that_was_not_noted_ends_the_plan),
        IN_WORLD(captures_out_of_order_are_refused),
        IN_WORLD(wrong_arguments_are_refused),
        IN_WORLD(a_pool_of_another_device_is_refused),
        IN_WORLD(calls_inside_a_capture_are_refused),
        IN_WORLD(shortages_of_host_memory_leave_nothing),
        IN_WORLD(failures_of_the_driver_leave_nothing),
        IN_WORLD(a_device_that_fails_is_no_want_of_memory),
    };
    return cmocka_run_group_tests_name("graph.memory_plans", tests, NULL, NULL);
}
