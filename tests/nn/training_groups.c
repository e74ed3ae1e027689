/* SPDX-License-Identifier: MIT */
/* tests/nn/training_groups.c: trainings whose optimizers have groups: with a schedule, clipping and
 * a gradient scaler they go on to the bit; states of other groups are refused. */
#include "support/optimizer_check.h"
#include "support/test.h"
#include "support/trainings.h"
#include <math.h>

static t_folder outer;
static char folder[128];

FIXTURE(make_folder)
{
    t_memory_folder_open(&outer);
    (void)snprintf(folder, sizeof folder, "%s/run", outer.path);
    return 0;
}

FIXTURE(drop_folder)
{
    t_remove_all(outer.path);
    return 0;
}

/* ---- optimizers with groups ---- */
#define CHOICE(pattern)                                                                            \
    &(const ph_parameter_choice)                                                                   \
    {                                                                                              \
        .names = (const char *const[]){pattern}, .name_count = 1                                   \
    }
#define GROUPED(kind, type, all, ...)                                                              \
    static ph_status make_##kind(ph_optimizer **out, ph_module *module)                            \
    {                                                                                              \
        const type groups[] = {__VA_ARGS__};                                                       \
        type options = all;                                                                        \
        options.groups = groups;                                                                   \
        options.group_count = sizeof groups / sizeof groups[0];                                    \
        return ph_##kind##_create(out, module, &options);                                          \
    }
#define WITH(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
GROUPED(sgd, ph_sgd_options, WITH(.lr = 0.05),
        {.momentum = 0.9, .dampening = 0.5, .parameters = CHOICE("p1*")},
        {.lr = 0.2, .momentum = 0.5, .nesterov = true, .parameters = CHOICE("p3")})
GROUPED(adam, ph_adam_options, WITH(.lr = 0.05), {.amsgrad = true, .parameters = CHOICE("p1*")},
        {.lr = 0.2, .weight_decay = 0.1, .maximize = true, .parameters = CHOICE("p3")})
GROUPED(rmsprop, ph_rmsprop_options, WITH(.lr = 0.05),
        {.centered = true, .parameters = CHOICE("p1*")},
        {.lr = 0.2, .momentum = 0.9, .parameters = CHOICE("p3")})
GROUPED(
    nadam, ph_nadam_options, WITH(.lr = 0.05), {.beta1 = 0.5, .parameters = CHOICE("p1*")},
    {.lr = 0.2, .decoupled_weight_decay = true, .weight_decay = 0.1, .parameters = CHOICE("p3")})
GROUPED(asgd, ph_asgd_options, WITH(.lr = 0.05), {.t0 = 3, .parameters = CHOICE("p1*")},
        {.lr = 0.2, .lambd = 0.1, .parameters = CHOICE("p3")})
GROUPED(rprop, ph_rprop_options, WITH(.lr = 0.05), {.eta_plus = 2, .parameters = CHOICE("p1*")},
        {.lr = 0.2, .step_max = 0.3, .parameters = CHOICE("p3")})
typedef ph_status (*maker)(ph_optimizer **out, ph_module *module);
static const maker makers[] = {make_sgd,   make_adam, make_rmsprop,
                               make_nadam, make_asgd, make_rprop};
enum {
    MAKERS = sizeof makers / sizeof makers[0],
    PARAMETERS = 12,
    STEPS = 14
};

/* ---- a training ---- */
typedef struct trained {
    oc_problem p;
    ph_optimizer *optimizer;
    ph_lr_schedule *schedule;
    ph_grad_scaler *scaler;
    ph_training *training;
    ph_graph *graph;
    int64_t step;
} trained;

static void open_trained(trained *t, maker make, bool fused)
{
    static const ph_lr_piece plan[] = {{.kind = PH_LR_LINEAR, .steps = 3},
                                       {.kind = PH_LR_COSINE, .steps = 20}};
    ph_shape shapes[PARAMETERS];
    for (int i = 0; i < PARAMETERS; i++)
        shapes[i] = PH_SHAPE(3 + 7 * i);
    memset(t, 0, sizeof *t);
    oc_open(&t->p, PH_DTYPE_F32, shapes, PARAMETERS, 5);
    assert_ok(make(&t->optimizer, t->p.module));
    assert_ok(ph_lr_schedule_create(&t->schedule, t->optimizer, plan, 2));
    assert_ok(ph_grad_scaler_create(
        &t->scaler, t->p.scene.device,
        &(ph_grad_scaler_options){.init_scale = 64, .growth_interval = 3, .fused = fused}));
    float one = 1;
    ph_tape *tape = t->p.scene.tape;
    ph_grad_scaler_scale(tape, t->scaler, ph_from_memory(tape, PH_DTYPE_F32, PH_SCALAR, &one));
    assert_ok(ph_tape_clear(tape));
    assert_ok(ph_training_create(&t->training, folder, NULL));
    assert_ok(ph_training_add_module(t->training, "module", t->p.module));
    assert_ok(ph_training_add_optimizer(t->training, "optimizer", t->optimizer));
    assert_ok(ph_training_add_lr_schedule(t->training, "plan", t->schedule));
    assert_ok(ph_training_add_grad_scaler(t->training, "scaler", t->scaler));
    assert_ok(ph_training_add_integer(t->training, "step", &t->step));
}

static void close_trained(trained *t)
{
    ph_training_destroy(t->training);
    ph_graph_destroy(t->graph);
    ph_lr_schedule_destroy(t->schedule);
    ph_grad_scaler_destroy(t->scaler);
    ph_optimizer_destroy(t->optimizer);
    oc_close(&t->p);
}

static ph_status body(ph_stream *stream, void *user)
{
    trained *t = user;
    ph_tape *tape = t->p.scene.tape;
    (void)stream;
    ph_grad_scaler_unscale(tape, t->scaler, t->optimizer);
    (void)ph_optimizer_clip_grad_norm(tape, t->optimizer, 0.3, NULL);
    ph_grad_scaler_step(tape, t->scaler, t->optimizer);
    ph_grad_scaler_update(tape, t->scaler);
    return ph_tape_clear(tape);
}

/* Gradients that hang on the step alone; some are infinite. */
static void make_step(trained *t, bool captured)
{
    t->p.rng = (ph__rng){(uint64_t)t->step + 100};
    oc_gradients(&t->p, UINT64_MAX);
    if (t->step % 4 == 2 || t->step == 0)
        ph_tensor_fill(t->p.scene.tape, ph_tensor_grad(t->p.param[t->step % 12].tensor), INFINITY);
    if (captured && t->step > 1 && !t->graph) {
        assert_ok(ph_graph_create(&t->graph, NULL));
        assert_ok(ph_graph_capture(t->graph, t->p.scene.stream, NULL, body, t));
    }
    assert_ok(t->graph ? ph_graph_replay(t->graph, t->p.scene.stream) : body(t->p.scene.stream, t));
    assert_ok(ph_lr_schedule_step(t->schedule));
    t->step++;
}

TEST(groups_go_on_to_the_bit)
{
    for (unsigned k = 0; k < MAKERS * 8u; k++) {
        trained whole, first, second;
        bool captured = k & 1, fused = k & 2;
        int stop = k & 4 ? 1 : 6;
        open_trained(&whole, makers[k / 8], fused);
        for (int i = 0; i < STEPS; i++)
            make_step(&whole, captured);
        ph_training_destroy(whole.training);
        whole.training = NULL;
        open_trained(&first, makers[k / 8], fused);
        for (int i = 0; i < stop; i++)
            make_step(&first, captured);
        assert_ok(ph_training_save(first.training, NULL));
        close_trained(&first);
        open_trained(&second, makers[k / 8], !fused);
        if (k % 3 == 0) /* it has a life of its own before */
            for (int i = 0; i < 4; i++)
                make_step(&second, captured);
        assert_ok(ph_training_load(second.training, 0, NULL));
        assert_int_equal(second.step, stop);
        for (int i = stop; i < STEPS; i++)
            make_step(&second, captured);
        oc_equal(&whole.p, &second.p, "gone on");
        for (size_t g = 0; g < 3; g++)
            assert_true(ph_optimizer_group_lr(whole.optimizer, g) ==
                        ph_optimizer_group_lr(second.optimizer, g));
        close_trained(&whole);
        close_trained(&second);
    }
}

/* ---- other groups ---- */
enum {
    ONE,   /* none but the one of all */
    TWO,   /* one parameter, and the others */
    OTHER, /* two of them, and the others */
    THREE
};
static ph_optimizer *make_split(oc_problem *p, int how)
{
    const ph_sgd_options groups[] = {{.lr = 0.25, .parameters = CHOICE("p0")},
                                     {.lr = 0.5, .parameters = CHOICE("p1")}};
    const ph_parameter_choice both = {.names = (const char *const[]){"p0", "p1"}, .name_count = 2};
    const ph_sgd_options pair = {.lr = 0.75, .parameters = &both};
    ph_optimizer *optimizer;
    ph_sgd_options options = {.lr = 0.125, .groups = groups};
    options.group_count = how == ONE ? 0 : how == THREE ? 2 : 1;
    if (how == OTHER)
        options.groups = &pair;
    assert_ok(ph_sgd_create(&optimizer, p->module, &options));
    return optimizer;
}

static void expect_refused(oc_problem *p, int saved, int loaded, const char *part)
{
    static const ph_lr_piece piece = {.kind = PH_LR_STEP, .steps = 3};
    ph_training *training;
    ph_optimizer *a = make_split(p, saved), *b = make_split(p, loaded);
    assert_ok(ph_training_create(&training, folder, NULL));
    assert_ok(ph_training_add_optimizer(training, "sgd", a));
    assert_ok(ph_training_save(training, NULL));
    ph_training_destroy(training);
    assert_ok(ph_training_create(&training, folder, NULL));
    assert_ok(ph_training_add_optimizer(training, "sgd", b));
    assert_ok(ph_optimizer_set_lr(b, 3));
    if (part)
        assert_error(ph_training_load(training, 0, NULL), PH_ERROR_MISMATCH, part);
    else
        assert_ok(ph_training_load(training, 0, NULL));
    assert_true(ph_optimizer_lr(b) == (part ? 3 : 0.125));
    ph_training_destroy(training);
    /* schedules: the number alone */
    ph_lr_schedule *from, *to;
    ph_values *values;
    assert_ok(ph_values_create(&values));
    assert_ok(ph_lr_schedule_create(&from, a, &piece, 1));
    assert_ok(ph_lr_schedule_create(&to, b, &piece, 1));
    assert_ok(ph_lr_schedule_save(from, values));
    if (ph_optimizer_group_count(a) > ph_optimizer_group_count(b))
        assert_error(ph_lr_schedule_load(to, values), PH_ERROR_ARGUMENT, "more groups");
    else if (ph_optimizer_group_count(a) < ph_optimizer_group_count(b))
        assert_error(ph_lr_schedule_load(to, values), PH_ERROR_NOT_FOUND, "base_lr.");
    else
        assert_ok(ph_lr_schedule_load(to, values));
    ph_values_destroy(values);
    ph_lr_schedule_destroy(from);
    ph_lr_schedule_destroy(to);
    ph_optimizer_destroy(a);
    ph_optimizer_destroy(b);
}

/* A rate would come to parameters that had another one. */
TEST(states_of_other_groups_are_refused)
{
    oc_problem p;
    const ph_shape shapes[] = {{1, {3}}, {1, {3}}, {1, {3}}, {1, {3}}};
    oc_open(&p, PH_DTYPE_F32, shapes, 4, 1);
    for (int k = ONE; k <= THREE; k++)
        expect_refused(&p, k, k, NULL);
    expect_refused(&p, TWO, ONE, "2 groups, and has 1");
    expect_refused(&p, ONE, TWO, "1 groups, and has 2");
    expect_refused(&p, THREE, TWO, "3 groups, and has 2");
    expect_refused(&p, TWO, THREE, "2 groups, and has 3");
    expect_refused(&p, TWO, OTHER, "1 parameters in group 0, and has 2 there");
    oc_close(&p);
}

/* Rprop's first steps have the rate of the state, also in replays. */
TEST(rates_come_before_first_contents)
{
    static const ph_shape shape = {1, {9}};
    const ph_rprop_options options = {.lr = 0.25};
    oc_problem a, b;
    ph_optimizer *x, *y;
    ph_training *training;
    oc_open(&a, PH_DTYPE_F64, &shape, 1, 4);
    oc_open(&b, PH_DTYPE_F64, &shape, 1, 4);
    assert_ok(ph_rprop_create(&x, a.module, &options));
    assert_ok(ph_rprop_create(&y, b.module, &options));
    assert_ok(ph_training_create(&training, folder, NULL));
    assert_ok(ph_training_add_module(training, "module", b.module));
    assert_ok(ph_training_add_optimizer(training, "rprop", y));
    assert_ok(ph_training_save(training, NULL));
    assert_ok(ph_optimizer_set_lr(y, 4));
    oc_gradients(&b, 1);
    assert_ok(oc_step(&b, y));
    ph_graph *graph = oc_capture_step(&b, y);
    assert_ok(ph_training_load(training, 0, NULL));
    b.rng = a.rng;
    for (int i = 0; i < 3; i++) {
        oc_gradients(&a, 1);
        oc_gradients(&b, 1);
        assert_ok(oc_step(&a, x));
        assert_ok(ph_graph_replay(graph, b.scene.stream));
        oc_equal(&a, &b, "loaded before its first step");
    }
    ph_graph_destroy(graph);
    ph_training_destroy(training);
    ph_optimizer_destroy(x);
    ph_optimizer_destroy(y);
    oc_close(&a);
    oc_close(&b);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, drop_folder)
int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(groups_go_on_to_the_bit),
        IN_FOLDER(states_of_other_groups_are_refused),
        IN_FOLDER(rates_come_before_first_contents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
