/* SPDX-License-Identifier: MIT */
/* tests/nn/schedules.c: schedules of learning rates: the formulas, PyTorch's numbers, the cell of a
 * captured step, and the state. */
#include "support/optimizer_check.h"
#include "support/test.h"
#include <math.h>

static const double pi = 3.14159265358979323846;

typedef struct world {
    oc_problem problem;
    ph_optimizer *optimizer;
} world;

static void open_world(world *w, double lr)
{
    oc_rule rule = {.kind = OC_SGD, .lr = lr};
    ph_shape shape = {1, {3}};
    oc_open(&w->problem, PH_DTYPE_F64, &shape, 1, 3);
    w->optimizer = oc_create(&rule, w->problem.module);
}

static void close_world(world *w)
{
    ph_optimizer_destroy(w->optimizer);
    oc_close(&w->problem);
}

/* ---- PyTorch's numbers ---- of version 2.11, from an optimizer of rate 0.1; rate i is that of
 * step i. */
typedef struct known {
    const char *name;
    ph_lr_piece piece[3];
    size_t pieces, count;
    double want[12];
} known;

#define CYCLE_LINEAR                                                                               \
    {                                                                                              \
        .kind = PH_LR_ONE_CYCLE, .steps = 10, .max_lr = 0.5, .pct_start = 0.4, .div_factor = 10,   \
        .final_div_factor = 100, .linear_anneal = true, .three_phase = true                        \
    }
#define WARM_UP(n)                                                                                 \
    {                                                                                              \
        .kind = PH_LR_LINEAR, .steps = (n), .start_factor = 0.1                                    \
    }
static const known all_known[] = {
    {"constant",
     {{.kind = PH_LR_CONSTANT, .steps = 4, .start_factor = 0.25}},
     1,
     7,
     {0.025000000000000001, 0.025000000000000001, 0.025000000000000001, 0.025000000000000001,
      0.10000000000000001, 0.10000000000000001, 0.10000000000000001}},
    {"constant's defaults",
     {{.kind = PH_LR_CONSTANT, .steps = 5}},
     1,
     7,
     {0.033333333333333333, 0.033333333333333333, 0.033333333333333333, 0.033333333333333333,
      0.033333333333333333, 0.10000000000000001, 0.10000000000000001}},
    {"linear",
     {WARM_UP(4)},
     1,
     7,
     {0.010000000000000002, 0.032500000000000008, 0.055000000000000014, 0.077500000000000027,
      0.10000000000000003, 0.10000000000000003, 0.10000000000000003}},
    {"linear's defaults",
     {{.kind = PH_LR_LINEAR, .steps = 5}},
     1,
     7,
     {0.033333333333333333, 0.046666666666666669, 0.060000000000000005, 0.073333333333333348,
      0.086666666666666684, 0.10000000000000001, 0.10000000000000001}},
    {"cosine",
     {{.kind = PH_LR_COSINE, .steps = 5, .eta_min = 0.01}},
     1,
     9,
     {0.10000000000000001, 0.091405764746872634, 0.068905764746872628, 0.041094235253127359,
      0.018594235253127367, 0.01, 0.018594235253127367, 0.041094235253127387,
      0.068905764746872669}},
    {"step",
     {{.kind = PH_LR_STEP, .steps = 3, .gamma = 0.5}},
     1,
     9,
     {0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025}},
    {"one cycle",
     {{.kind = PH_LR_ONE_CYCLE, .steps = 10, .max_lr = 0.5}},
     1,
     10,
     {0.020000000000000018, 0.26000000000000001, 0.5, 0.47524231600673683, 0.40587282697488153,
      0.30563101096814466, 0.19437098903185537, 0.094129173025118487, 0.024759683993263143,
      1.9999999999999999e-06}},
    {"one cycle of three straight phases",
     {CYCLE_LINEAR},
     1,
     10,
     {0.050000000000000003, 0.20000000000000001, 0.34999999999999998, 0.5, 0.34999999999999998,
      0.20000000000000001, 0.049999999999999989, 0.033500000000000002, 0.017000000000000001,
      0.00050000000000000044}},
    {"one cycle that goes up to its end",
     {{.kind = PH_LR_ONE_CYCLE,
       .steps = 10,
       .max_lr = 0.5,
       .pct_start = 1,
       .div_factor = 10,
       .final_div_factor = 100,
       .linear_anneal = true}},
     1,
     10,
     {0.050000000000000003, 0.10000000000000001, 0.14999999999999999, 0.20000000000000001, 0.25,
      0.29999999999999999, 0.34999999999999998, 0.40000000000000002, 0.44999999999999996, 0.5}},
    {"one cycle whose second phase is cut off",
     {{.kind = PH_LR_ONE_CYCLE,
       .steps = 10,
       .max_lr = 0.5,
       .pct_start = 0.7,
       .div_factor = 10,
       .final_div_factor = 100,
       .linear_anneal = true,
       .three_phase = true}},
     1,
     10,
     {0.050000000000000003, 0.125, 0.20000000000000001, 0.27500000000000002, 0.34999999999999998,
      0.42499999999999999, 0.5, 0.42499999999999999, 0.34999999999999998, 0.27500000000000002}},
    {"warm-up and cosine",
     {WARM_UP(4), {.kind = PH_LR_COSINE, .steps = 6, .eta_min = 0.01}},
     2,
     10,
     {0.010000000000000002, 0.032500000000000008, 0.055000000000000014, 0.077500000000000027,
      0.10000000000000001, 0.093971143170299753, 0.077500000000000013, 0.055000000000000014,
      0.032500000000000015, 0.016028856829700261}},
    {"three pieces",
     {WARM_UP(3),
      {.kind = PH_LR_CONSTANT, .steps = 2, .length = 3, .start_factor = 0.5},
      {.kind = PH_LR_STEP, .steps = 2}},
     3,
     12,
     {0.010000000000000002, 0.040000000000000001, 0.070000000000000007, 0.050000000000000003,
      0.050000000000000003, 0.10000000000000001, 0.10000000000000001, 0.10000000000000001,
      0.010000000000000002, 0.010000000000000002, 0.0010000000000000002, 0.0010000000000000002}},
};
enum {
    KNOWN = sizeof all_known / sizeof all_known[0]
};

static void expect_near(double got, double want, const char *name, size_t step)
{
    if (fabs(got - want) > 1e-14 * fmax(fabs(want), 0.01))
        fail_msg("%s: the rate of step %zu is %.17g, and PyTorch's is %.17g", name, step, got,
                 want);
}

TEST(each_kind_of_schedule_has_its_known_rates)
{
    for (size_t k = 0; k < KNOWN; k++) {
        const known *c = &all_known[k];
        ph_lr_schedule *schedule;
        world w;
        open_world(&w, 0.1);
        assert_ok(ph_lr_schedule_create(&schedule, w.optimizer, c->piece, c->pieces));
        for (size_t i = 0; i < c->count; i++) {
            expect_near(ph_optimizer_lr(w.optimizer), c->want[i], c->name, i);
            assert_true(ph_lr_schedule_rate(schedule, i) == ph_optimizer_lr(w.optimizer));
            assert_int_equal(ph_lr_schedule_steps(schedule), i);
            assert_ok(ph_lr_schedule_step(schedule));
        }
        ph_lr_schedule_destroy(schedule);
        close_world(&w);
    }
}

/* ---- closed forms ---- far away too */
TEST(test_closed_forms)
{
    const ph_lr_piece cosine = {.kind = PH_LR_COSINE, .steps = 1000, .eta_min = 1e-5},
                      step = {.kind = PH_LR_STEP, .steps = 30, .gamma = 0.9},
                      zero = {.kind = PH_LR_LINEAR,
                              .steps = 100,
                              .start_factor = PH_ZERO,
                              .end_factor = PH_ZERO};
    ph_lr_schedule *a, *b, *c;
    world w;
    open_world(&w, 0.25);
    assert_ok(ph_lr_schedule_create(&a, w.optimizer, &cosine, 1));
    assert_ok(ph_lr_schedule_create(&b, w.optimizer, &step, 1));
    assert_ok(ph_lr_schedule_create(&c, w.optimizer, &zero, 1));
    assert_true(ph_optimizer_lr(w.optimizer) == 0);
    for (uint64_t i = 0; i < 3000; i++) {
        double want = 1e-5 + (0.25 - 1e-5) * (1 + cos(pi * (double)i / 1000)) / 2;
        assert_true(fabs(ph_lr_schedule_rate(a, i) - want) < 1e-14);
        want = 0.25;
        for (uint64_t k = 0; k < i / 30; k++)
            want *= 0.9;
        assert_true(fabs(ph_lr_schedule_rate(b, i) - want) <= 1e-13 * want);
        assert_true(ph_lr_schedule_rate(c, i) == 0);
    }
    uint64_t far = (UINT64_C(1) << 62) / 2000 * 2000;
    assert_true(ph_lr_schedule_rate(a, far) == 0.25);
    assert_true(ph_lr_schedule_rate(b, far) == 0);
    ph_lr_schedule_destroy(a);
    ph_lr_schedule_destroy(b);
    ph_lr_schedule_destroy(c);
    close_world(&w);
}

/* ---- replays take the rate ---- one graph through a schedule, with the bits of eager steps. */
TEST(replays_take_the_rate_of_the_schedule)
{
    const ph_lr_piece pieces[] = {WARM_UP(3), {.kind = PH_LR_COSINE, .steps = 5}};
    ph_lr_schedule *a, *b;
    ph_graph *graph = NULL;
    world eager, replayed;
    open_world(&eager, 0.1);
    open_world(&replayed, 0.1);
    assert_ok(ph_lr_schedule_create(&a, eager.optimizer, pieces, 2));
    assert_ok(ph_lr_schedule_create(&b, replayed.optimizer, pieces, 2));
    oc_gradients(&eager.problem, UINT64_MAX);
    oc_gradients(&replayed.problem, UINT64_MAX);
    graph = oc_capture_step(&replayed.problem, replayed.optimizer);
    for (int i = 0; i < 10; i++) {
        assert_ok(oc_step(&eager.problem, eager.optimizer));
        assert_ok(ph_graph_replay(graph, replayed.problem.scene.stream));
        oc_equal(&eager.problem, &replayed.problem, "schedule");
        assert_ok(ph_lr_schedule_step(a));
        assert_ok(ph_lr_schedule_step(b));
    }
    ph_graph_destroy(graph);
    ph_lr_schedule_destroy(a);
    ph_lr_schedule_destroy(b);
    close_world(&eager);
    close_world(&replayed);
}

/* ---- state ---- a schedule that goes on from values has the rates of one that was not stopped. */
TEST(a_loaded_schedule_goes_on_with_the_same_rates)
{
    for (size_t k = 0; k < KNOWN; k++) {
        const known *c = &all_known[k];
        ph_lr_schedule *schedule, *other;
        ph_values *values;
        world w, again;
        open_world(&w, 0.1);
        open_world(&again, 7);
        assert_ok(ph_values_create(&values));
        assert_ok(ph_lr_schedule_create(&schedule, w.optimizer, c->piece, c->pieces));
        assert_ok(ph_lr_schedule_create(&other, again.optimizer, c->piece, c->pieces));
        for (int i = 0; i < 5; i++)
            assert_ok(ph_lr_schedule_step(schedule));
        assert_ok(ph_lr_schedule_save(schedule, values));
        assert_ok(ph_lr_schedule_load(other, values));
        assert_int_equal(ph_lr_schedule_steps(other), 5);
        for (int i = 0; i < 3; i++) {
            assert_true(ph_optimizer_lr(w.optimizer) == ph_optimizer_lr(again.optimizer));
            assert_ok(ph_lr_schedule_step(schedule));
            assert_ok(ph_lr_schedule_step(other));
        }
        ph_values_destroy(values);
        ph_lr_schedule_destroy(schedule);
        ph_lr_schedule_destroy(other);
        close_world(&w);
        close_world(&again);
    }
}

TEST(test_bad_state)
{
    const ph_lr_piece cycle = {.kind = PH_LR_ONE_CYCLE, .steps = 4, .max_lr = 1};
    ph_lr_schedule *schedule;
    ph_values *values;
    world w;
    open_world(&w, 0.1);
    assert_ok(ph_values_create(&values));
    assert_ok(ph_lr_schedule_create(&schedule, w.optimizer, &cycle, 1));
    assert_ok(ph_lr_schedule_step(schedule));
    double lr = ph_optimizer_lr(w.optimizer);
    assert_error(ph_lr_schedule_load(schedule, values), PH_ERROR_NOT_FOUND, "'steps'");
    assert_ok(ph_values_set_integer(values, "steps", 2));
    assert_error(ph_lr_schedule_load(schedule, values), PH_ERROR_NOT_FOUND, "'base_lr'");
    assert_ok(ph_values_set_text(values, "base_lr", "0.1"));
    assert_error(ph_lr_schedule_load(schedule, values), PH_ERROR_MISMATCH, "must be a number");
    assert_ok(ph_values_set_real(values, "base_lr", NAN));
    assert_error(ph_lr_schedule_load(schedule, values), PH_ERROR_ARGUMENT, "base_lr");
    assert_ok(ph_values_set_real(values, "base_lr", 0.1));
    assert_ok(ph_values_set_integer(values, "steps", -1));
    assert_error(ph_lr_schedule_load(schedule, values), PH_ERROR_ARGUMENT, "steps is -1");
    assert_ok(ph_values_set_integer(values, "steps", 5));
    assert_error(ph_lr_schedule_load(schedule, values), PH_ERROR_ARGUMENT, "behind the end");
    assert_int_equal(ph_lr_schedule_steps(schedule), 1);
    assert_true(ph_optimizer_lr(w.optimizer) == lr);
    /* The cycle has 4 steps, and a last call behind the last of them. */
    for (int i = 0; i < 3; i++)
        assert_ok(ph_lr_schedule_step(schedule));
    assert_true(ph_optimizer_lr(w.optimizer) == 1.0 / 25 / 1e4);
    assert_error(ph_lr_schedule_step(schedule), PH_ERROR_STATE, "a cycle of 4 steps");
    assert_int_equal(ph_lr_schedule_steps(schedule), 4);
    ph_values_destroy(values);
    ph_lr_schedule_destroy(schedule);
    close_world(&w);
}

/* ---- misuse ---- */
static void expect_refused(world *w, ph_lr_piece piece, const char *words)
{
    ph_lr_schedule *schedule = (void *)w;
    assert_error(ph_lr_schedule_create(&schedule, w->optimizer, &piece, 1), PH_ERROR_ARGUMENT,
                 words);
    assert_null(schedule);
    assert_true(ph_optimizer_lr(w->optimizer) == 0.1);
}

TEST(pieces_and_arguments_of_schedules_are_checked)
{
    const ph_lr_piece good = {.kind = PH_LR_CONSTANT, .steps = 1},
                      pair[] = {{.kind = PH_LR_STEP, .steps = 2, .length = PH_ZERO}, good};
    ph_lr_schedule *schedule;
    world w;
    open_world(&w, 0.1);
    expect_refused(&w, (ph_lr_piece){.steps = 1}, "none of ph_lr_kind");
    expect_refused(&w, (ph_lr_piece){.kind = PH_LR_STEP}, "steps of piece 0");
    expect_refused(&w, (ph_lr_piece){.kind = PH_LR_STEP, .steps = UINT64_MAX}, "2^53");
    expect_refused(&w, (ph_lr_piece){.kind = PH_LR_STEP, .steps = 1, .length = 1}, "is the last");
    expect_refused(&w, (ph_lr_piece){.kind = PH_LR_STEP, .steps = 1, .eta_min = 1}, "no eta_min");
    expect_refused(&w, (ph_lr_piece){.kind = PH_LR_STEP, .steps = 1, .gamma = -1}, "gamma");
    expect_refused(&w, (ph_lr_piece){.kind = PH_LR_STEP, .steps = 1, .gamma = NAN}, "gamma");
    expect_refused(&w, (ph_lr_piece){.kind = PH_LR_ONE_CYCLE, .steps = 1}, "max_lr");
    expect_refused(&w,
                   (ph_lr_piece){.kind = PH_LR_ONE_CYCLE, .steps = 1, .max_lr = 1, .pct_start = 2},
                   "pct_start");
    expect_refused(&w, (ph_lr_piece){.kind = PH_LR_STEP, .steps = 1, .reserved = {1}}, "reserved");
    assert_error(ph_lr_schedule_create(&schedule, w.optimizer, pair, 2), PH_ERROR_ARGUMENT,
                 "length of piece 0");
    assert_error(ph_lr_schedule_create(NULL, w.optimizer, &good, 1), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_lr_schedule_create(&schedule, NULL, &good, 1), PH_ERROR_ARGUMENT, "optimizer");
    assert_error(ph_lr_schedule_create(&schedule, w.optimizer, NULL, 1), PH_ERROR_ARGUMENT,
                 "pieces");
    assert_error(ph_lr_schedule_create(&schedule, w.optimizer, &good, 0), PH_ERROR_ARGUMENT,
                 "1 to 1024 pieces");
    assert_error(ph_lr_schedule_step(NULL), PH_ERROR_ARGUMENT, "schedule");
    assert_error(ph_lr_schedule_save(NULL, NULL), PH_ERROR_ARGUMENT, "schedule");
    assert_error(ph_lr_schedule_load(NULL, NULL), PH_ERROR_ARGUMENT, "schedule");
    assert_int_equal(ph_lr_schedule_steps(NULL), 0);
    assert_true(ph_lr_schedule_rate(NULL, 1) == 0);
    ph_lr_schedule_destroy(NULL);
    ph__alloc_fail_after(0);
    assert_error(ph_lr_schedule_create(&schedule, w.optimizer, &good, 1), PH_ERROR_HOST_MEMORY,
                 "a schedule");
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    assert_true(ph_optimizer_lr(w.optimizer) == 0.1);
    close_world(&w);
}

/* Each group goes from its own rate, and the state has all of them. */
TEST(test_groups_have_bases_of_their_own)
{
    world w;
    ph_lr_schedule *schedule;
    ph_values *values;
    const ph_lr_piece piece = {.kind = PH_LR_STEP, .steps = 2, .gamma = 0.5};
    open_world(&w, 0.1);
    const char *const first[] = {ph_optimizer_parameter_name(w.optimizer, 0)};
    const ph_parameter_choice choice = {.names = first, .name_count = 1};
    const ph_sgd_options group = {.parameters = &choice, .lr = 8};
    const ph_sgd_options options = {.lr = 1, .groups = &group, .group_count = 1};
    ph_optimizer *grouped;
    /* a second parameter for the last group is not needed: it may be empty */
    assert_ok(ph_sgd_create(&grouped, w.problem.module, &options));
    assert_int_equal(ph_optimizer_group_count(grouped), 2);
    assert_ok(ph_lr_schedule_create(&schedule, grouped, &piece, 1));
    for (int i = 0; i < 4; i++)
        assert_ok(ph_lr_schedule_step(schedule));
    assert_true(ph_optimizer_group_lr(grouped, 0) == 2);
    assert_true(ph_optimizer_group_lr(grouped, 1) == 0.25);
    assert_true(ph_lr_schedule_rate(schedule, 4) == 0.25);
    assert_ok(ph_values_create(&values));
    assert_ok(ph_lr_schedule_save(schedule, values));
    assert_ok(ph_lr_schedule_step(schedule));
    assert_ok(ph_lr_schedule_step(schedule));
    assert_true(ph_optimizer_group_lr(grouped, 0) == 1);
    assert_ok(ph_lr_schedule_load(schedule, values));
    assert_true(ph_optimizer_group_lr(grouped, 0) == 2);
    assert_true(ph_optimizer_group_lr(grouped, 1) == 0.25);
    assert_ok(ph_values_set_real(values, "base_lr.0", -1));
    assert_error(ph_lr_schedule_load(schedule, values), PH_ERROR_ARGUMENT, "base_lr.0 -1");
    assert_true(ph_optimizer_group_lr(grouped, 0) == 2);
    ph_values_destroy(values);
    ph_lr_schedule_destroy(schedule);
    ph_optimizer_destroy(grouped);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_schedule_has_its_known_rates),
        cmocka_unit_test(test_closed_forms),
        cmocka_unit_test(replays_take_the_rate_of_the_schedule),
        cmocka_unit_test(a_loaded_schedule_goes_on_with_the_same_rates),
        cmocka_unit_test(test_groups_have_bases_of_their_own),
        cmocka_unit_test(test_bad_state),
        cmocka_unit_test(pieces_and_arguments_of_schedules_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
