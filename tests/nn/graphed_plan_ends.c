/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_plan_ends.c: graphed callables whose plan ends: the reason is there, and they
 * give what they give without one. Failures leave nothing. */
#include "driver/driver.h"
#include "support/graphed_nets.h"
#include "support/sweep.h"
#include "support/test.h"

enum {
    N = 3000,
    WARM_UP = 3,
    PROBE = 1
};
static t_scene s;

FIXTURE(open_scene)
{
    t_scene_open(&s);
    t_log_start();
    return 0;
}

FIXTURE(close_scene)
{
    t_log_stop();
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

static const ph_graphed_options planned = {.plan = true};

/* y = (2 x + 1)^2, by way of temporaries. In one call, counted from 1, there is one more, or the
 * first is kept longer; or it fails. */
typedef enum odd_way {
    ASKS_FOR_MORE,
    FREES_LATER,
    FAILS
} odd_way;
typedef struct odd {
    int calls, odd_call;
    odd_way way;
} odd;

static void odd_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    odd *o = self;
    const bool now = ++o->calls == o->odd_call;
    ph_tensor *early = ph_empty(tape, PH_DTYPE_F32, PH_SHAPE(N)), *kept = NULL;
    size_t mark = ph_tape_scope_begin(tape);
    kept = ph_mul_scalar(tape, in[0], 2);
    ph_tape_scope_end(tape, mark, &kept, now && o->way == FREES_LATER ? 1 : 0);
    (void)early;
    if (now && o->way == ASKS_FOR_MORE)
        (void)ph_empty(tape, PH_DTYPE_F32, PH_SHAPE(2 * N));
    if (now && o->way == FAILS)
        ph_tape_check(tape, ph_fail(PH_ERROR_CALLER, "enough"));
    ph_tensor *twice = ph_mul_scalar(tape, in[0], 2), *more = ph_add_scalar(tape, twice, 1);
    out[0] = ph_mul(tape, more, more);
}

static ph_graph_memory memory_of(const ph_module *graphed, bool backward)
{
    ph_graph_memory memory;
    ph_graph *graphs[2];
    assert_ok(ph_graphed_callable_graphs(&graphs[0], &graphs[1], graphed));
    assert_ok(ph_graph_get_memory(&memory, graphs[backward]));
    return memory;
}

static void expect_description(const ph_module *graphed, const char *part)
{
    char *text;
    assert_ok(ph_graphed_callable_describe(&text, graphed));
    assert_non_null(strstr(text, part));
    ph_string_free(text);
}

static void expect_no_plan(const ph_module *graphed, const char *why, size_t warnings)
{
    for (int backward = 0; backward < 2; backward++) {
        ph_graph_memory memory = memory_of(graphed, backward);
        assert_int_equal(memory.planned, 0);
        assert_int_equal(memory.plan_bound, 0);
        assert_non_null(memory.plan_ended);
        assert_non_null(strstr(memory.plan_ended, why));
    }
    expect_description(graphed, "memory: not planned: ");
    assert_int_equal(t_log_count("the memory plan of several captures ended"), warnings);
}

/* x of ones: y = 9, and its gradient is 4 (2 x + 1) = 12. */
static void expect_results(ph_module *graphed)
{
    ph_tensor *x = ph_tensor_retain(ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(N), 1));
    float values[N];
    assert_ok(ph_tensor_set_requires_grad(x, true));
    for (int round = 0; round < 2; round++) {
        ph_tensor *y = ph_call(s.tape, graphed, x);
        assert_ok(ph_tape_status(s.tape));
        assert_ok(ph_tensor_read(s.tape, y, values, sizeof values));
        for (int i = 0; i < N; i++)
            assert_true(values[i] == 9);
        t_zero_grad(x);
        ph_backward(s.tape, ph_sum(s.tape, y));
        assert_ok(ph_tape_clear(s.tape));
        assert_ok(ph_tensor_read(s.tape, ph_tensor_grad(x), values, sizeof values));
        for (int i = 0; i < N; i++)
            assert_true(values[i] == 12);
    }
    ph_tensor_release(x);
}

/* ---- a real capture that asks for something else ---- */
static void end_plan(odd_way way, const char *why)
{
    odd o = {.odd_call = WARM_UP + PROBE + 1, .way = way};
    ph_module *plain = gn_function(&s, "odd", odd_forward, &o, 1, 1);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(N), true);
    ph_module *graphed = gn_graph_one(plain, x, &planned);
    assert_int_equal(o.calls, WARM_UP + PROBE + 1 + PROBE + 1); /* all once more */
    expect_no_plan(graphed, why, 1);
    assert_true(gn_input(graphed, 0, false).rebound);
    expect_results(graphed);
    ph_module_release(graphed);
    ph_module_release(plain);
    ph_tensor_release(x);
}

TEST(another_size_ends_the_plan)
{
    end_plan(ASKS_FOR_MORE, "other sizes than at the first time");
}

TEST(memory_that_is_kept_longer_ends_the_plan)
{
    end_plan(FREES_LATER, "in another order");
}

/* The same program keeps its plan where it does the same in both captures. */
TEST(odd_warm_ups_do_not_matter)
{
    odd o = {.odd_call = WARM_UP};
    ph_module *plain = gn_function(&s, "odd", odd_forward, &o, 1, 1);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(N), true);
    ph_module *graphed = gn_graph_one(plain, x, &planned);
    assert_int_equal(o.calls, WARM_UP + PROBE + 1);
    assert_null(memory_of(graphed, false).plan_ended);
    assert_true(memory_of(graphed, true).planned > 0);
    expect_description(graphed, "memory: planned with that of the callables");
    expect_results(graphed);
    ph_module_release(graphed);
    ph_module_release(plain);
    ph_tensor_release(x);
}

/* ---- several graphs ---- */
static ph_status do_nothing(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    return PH_OK;
}

static void break_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    ph_tensor *twice = ph_mul_scalar(tape, in[0], 2), *more = ph_add_scalar(tape, twice, 1);
    ph_tape_check(tape, ph_break(ph_tape_stream(tape), do_nothing, NULL));
    out[0] = ph_mul(tape, more, more);
}

TEST(breaks_end_the_plan)
{
    ph_module *plain = gn_function(&s, "broken", break_forward, NULL, 1, 1);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(N), true);
    ph_module *graphed = gn_graph_one(plain, x, &planned);
    expect_no_plan(graphed, "ph_break", 1);
    expect_results(graphed);
    ph_module_release(graphed);
    ph_module_release(plain);
    ph_tensor_release(x);
}

static void twice_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = ph_mul_scalar(tape, in[0], 2);
}

TEST(nothing_to_plan_is_no_warning)
{
    ph_module *plain = gn_function(&s, "empty", twice_forward, NULL, 1, 1);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(0), true);
    ph_module *graphed = gn_graph_one(plain, x, &planned);
    expect_no_plan(graphed, "allocated nothing", 0);
    ph_module_release(graphed);
    ph_module_release(plain);
    ph_tensor_release(x);
}

/* ---- failures ---- */
TEST(a_failing_capture_leaves_nothing)
{
    ph_pool *pool;
    ph_memory_stats stats;
    ph_tensor *x = gn_sample(&s, PH_SHAPE(N), true);
    assert_ok(ph_pool_create(&pool, s.device, NULL));
    for (int call = WARM_UP + 1; call <= WARM_UP + PROBE + 1; call++) {
        odd o = {.odd_call = call, .way = FAILS};
        ph_module *plain = gn_function(&s, "odd", odd_forward, &o, 1, 1), *graphed;
        const ph_sample sample = {.tensors = &x, .count = 1};
        const ph_graphed_options options = {.plan = true, .pool = pool};
        assert_error(ph_make_graphed_callables(&graphed, &plain, &sample, 1, &options),
                     PH_ERROR_CALLER, "enough");
        assert_null(graphed);
        assert_ok(ph_pool_stats(&stats, pool));
        assert_int_equal(stats.allocated, 0);
        graphed = gn_graph_one(plain, x, &options);
        expect_results(graphed);
        ph_module_release(graphed);
        ph_module_release(plain);
    }
    ph_pool_release(pool);
    ph_tensor_release(x);
}

TEST(a_pool_of_another_device_is_refused)
{
    t_scene other;
    ph_pool *pool;
    ph_module *plain, *graphed;
    if (!t_on_host())
        skip();
    t_scene_open(&other);
    assert_ok(ph_pool_create(&pool, other.device, NULL));
    ph_tensor *x = gn_sample(&s, PH_SHAPE(N), true);
    const ph_sample sample = {.tensors = &x, .count = 1};
    plain = gn_function(&s, "twice", twice_forward, NULL, 1, 1);
    assert_error(ph_make_graphed_callables(&graphed, &plain, &sample, 1,
                                           &(ph_graphed_options){.plan = true, .pool = pool}),
                 PH_ERROR_WRONG_DEVICE, "pool");
    ph_module_release(plain);
    ph_tensor_release(x);
    ph_pool_release(pool);
    t_scene_close(&other);
}

/* ---- shortages ---- */
typedef struct swept {
    odd self;
    ph_module *plain, *graphed;
    ph_tensor *x;
} swept;

static ph_status make_swept(void *user)
{
    swept *w = user;
    const ph_sample sample = {.tensors = &w->x, .count = 1};
    return ph_make_graphed_callables(&w->graphed, &w->plain, &sample, 1, &planned);
}

static void reset_swept(ph_status status, void *user)
{
    swept *w = user;
    if (status == PH_OK)
        expect_results(w->graphed);
    ph_module_release(w->graphed);
    w->graphed = NULL;
}

static void sweep(const t_fault *fault)
{
    swept w = {.self = {0}};
    w.plain = gn_function(&s, "odd", odd_forward, &w.self, 1, 1);
    w.x = gn_sample(&s, PH_SHAPE(N), true);
    const t_swept run = {
        .name = "planned callables", .run = make_swept, .reset = reset_swept, .user = &w};
    assert_true(t_sweep(&run, fault).failures > 10);
    ph_module_release(w.plain);
    ph_tensor_release(w.x);
}

TEST(shortages_of_host_memory_leave_nothing)
{
    sweep(&t_host_memory_fault);
}

TEST(failures_of_the_driver_leave_nothing)
{
    sweep(t_driver_fault(PH__R_LAUNCH_FAILED));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(another_size_ends_the_plan),           CASE(memory_that_is_kept_longer_ends_the_plan),
        CASE(odd_warm_ups_do_not_matter),           CASE(breaks_end_the_plan),
        CASE(nothing_to_plan_is_no_warning),        CASE(a_failing_capture_leaves_nothing),
        CASE(a_pool_of_another_device_is_refused),  CASE(shortages_of_host_memory_leave_nothing),
        CASE(failures_of_the_driver_leave_nothing),
    };
    return cmocka_run_group_tests_name("nn.graphed_plan_ends", tests, NULL, NULL);
}
