/* SPDX-License-Identifier: MIT */
/* tests/nn/grad_scaler_captured.c: whole steps with a gradient scaler as one graph, the decision
 * to skip included: the same bits as eager ones; graphs of a part of a step. */
#include "support/scaler_check.h"
#include "support/test.h"

enum {
    ROWS = 8,
    IN = 5,
    OUT = 3,
    WARM_UP = 3,
    STEPS = 24
};

/* ---- a training ---- */
typedef struct training {
    t_scene scene;
    ph_module *net;
    ph_optimizer *optimizer;
    ph_grad_scaler *scaler;
    ph_tensor *x, *y, *norm;
    ph_autocast autocast;
    bool clips;
} training;

typedef struct setting {
    unsigned kind; /* of the optimizer */
    bool f16, fused, clips;
    double init_scale;
} setting;

static void open_training(training *t, const setting *s)
{
    ph_generator *generator;
    const ph_adam_options adam = {.lr = 0.05};
    const ph_sgd_options sgd = {.lr = 0.05, .momentum = 0.9, .dampening = s->kind == 3 ? 0.3 : 0};
    const ph_grad_scaler_options scaling = {
        .init_scale = s->init_scale, .growth_interval = 4, .fused = s->fused};
    *t = (training){.clips = s->clips};
    t_scene_open(&t->scene);
    t->autocast = (ph_autocast){.dtype = s->f16 ? PH_DTYPE_F16 : 0};
    assert_ok(ph_generator_create(&generator, t->scene.device, 11));
    assert_ok(ph_linear_create_with(&t->net, t->scene.device, IN, OUT,
                                    &(ph_layer_options){.generator = generator}));
    ph_generator_release(generator);
    if (s->kind == 0)
        assert_ok(ph_adam_create(&t->optimizer, t->net, &adam));
    else if (s->kind == 1)
        assert_ok(ph_adamw_create(&t->optimizer, t->net, &adam));
    else
        assert_ok(ph_sgd_create(&t->optimizer, t->net, &sgd));
    assert_ok(ph_grad_scaler_create(&t->scaler, t->scene.device, &scaling));
    assert_ok(ph_tensor_create(&t->x, t->scene.device, PH_DTYPE_F32, PH_SHAPE(ROWS, IN)));
    assert_ok(ph_tensor_create(&t->y, t->scene.device, PH_DTYPE_F32, PH_SHAPE(ROWS, OUT)));
    assert_ok(ph_tensor_create(&t->norm, t->scene.device, PH_DTYPE_F32, PH_SCALAR));
    ph_tensor_fill(t->scene.tape, t->norm, 0);
}

static void close_training(training *t)
{
    assert_ok(ph_tape_clear(t->scene.tape));
    assert_ok(ph_stream_synchronize(t->scene.stream));
    ph_grad_scaler_destroy(t->scaler);
    ph_optimizer_destroy(t->optimizer);
    ph_module_release(t->net);
    ph_tensor_release(t->x);
    ph_tensor_release(t->y);
    ph_tensor_release(t->norm);
    t_scene_close(&t->scene);
}

static void feed(training *t, unsigned step, bool infinite)
{
    ph__rng rng = {step + 1};
    float x[ROWS * IN], y[ROWS * OUT];
    for (size_t i = 0; i < ROWS * IN; i++)
        x[i] = (float)(ph__rng_next(&rng) % 2000) / 1000 - 1;
    for (size_t i = 0; i < ROWS * OUT; i++)
        y[i] = (float)(ph__rng_next(&rng) % 2000) / 1000 - 1;
    if (infinite)
        x[step % (ROWS * IN)] = INFINITY;
    assert_ok(ph_tensor_write(t->scene.tape, t->x, x, sizeof x));
    assert_ok(ph_tensor_write(t->scene.tape, t->y, y, sizeof y));
}

static ph_status step_of(ph_stream *stream, void *user)
{
    training *t = user;
    ph_tape *tape = t->scene.tape;
    (void)stream;
    ph_autocast before = ph_tape_set_autocast(tape, t->autocast);
    ph_tensor *out = ph_cast(tape, ph_call(tape, t->net, t->x), PH_DTYPE_F32);
    ph_tensor *loss = ph_mse(tape, out, t->y);
    ph_tape_set_autocast(tape, before);
    ph_backward(tape, ph_grad_scaler_scale(tape, t->scaler, loss));
    if (t->clips) {
        ph_grad_scaler_unscale(tape, t->scaler, t->optimizer);
        ph_tensor_copy(tape, t->norm, ph_clip_grad_norm(tape, t->net, 0.5, NULL));
    }
    ph_grad_scaler_step(tape, t->scaler, t->optimizer);
    ph_grad_scaler_update(tape, t->scaler);
    ph_optimizer_zero_grad(tape, t->optimizer);
    return ph_tape_clear(tape);
}

typedef struct weights {
    float weight[OUT * IN], bias[OUT], norm;
    double scale;
    uint64_t tracker, steps;
} weights;

static void read_weights(training *t, weights *w)
{
    ph_tape *tape = t->scene.tape;
    memset(w, 0, sizeof *w);
    assert_ok(
        ph_tensor_read(tape, ph_module_parameter(t->net, "weight"), w->weight, sizeof w->weight));
    assert_ok(ph_tensor_read(tape, ph_module_parameter(t->net, "bias"), w->bias, sizeof w->bias));
    assert_ok(ph_tensor_read(tape, t->norm, &w->norm, sizeof w->norm));
    w->scale = sc_scale(tape, t->scaler);
    w->tracker = sc_tracker(tape, t->scaler);
    assert_ok(ph_optimizer_steps(&w->steps, tape, t->optimizer));
}

static bool same(const weights *a, const weights *b)
{
    return memcmp(a->weight, b->weight, sizeof a->weight) == 0 &&
           memcmp(a->bias, b->bias, sizeof a->bias) == 0 &&
           (a->norm == b->norm || (isnan(a->norm) && isnan(b->norm))) && a->scale == b->scale &&
           a->tracker == b->tracker && a->steps == b->steps;
}

static bool is_infinite(unsigned step)
{
    return step % 7 == 0 || step % 11 == 5;
}

static void run(const setting *s)
{
    training eager, replayed;
    ph_graph *graph = NULL;
    weights a, b, before;
    open_training(&eager, s);
    open_training(&replayed, s);
    read_weights(&eager, &before);
    for (unsigned i = 0; i < STEPS; i++) {
        feed(&eager, i, is_infinite(i));
        feed(&replayed, i, is_infinite(i));
        assert_ok(step_of(NULL, &eager));
        if (i == WARM_UP) {
            assert_ok(ph_graph_create(&graph, NULL));
            assert_ok(ph_graph_capture(graph, replayed.scene.stream, NULL, step_of, &replayed));
        }
        /* Now and then an eager step between replays. */
        assert_ok(graph && i % 9 != 8 ? ph_graph_replay(graph, replayed.scene.stream)
                                      : step_of(NULL, &replayed));
        read_weights(&eager, &a);
        read_weights(&replayed, &b);
        if (!same(&a, &b))
            fail_msg("kind %u, f16 %d, fused %d, clips %d: step %u is another one", s->kind, s->f16,
                     s->fused, s->clips, i);
        if (is_infinite(i)) {
            assert_memory_equal(a.weight, before.weight, sizeof a.weight);
            assert_memory_equal(a.bias, before.bias, sizeof a.bias);
            assert_int_equal(a.steps, before.steps);
            assert_true(a.scale == before.scale / 2);
        }
        before = a;
    }
    assert_true(a.steps >= 10 && a.steps < STEPS);
    ph_graph_destroy(graph);
    close_training(&eager);
    close_training(&replayed);
}

TEST(test_whole_step)
{
    for (unsigned k = 0; k < 32; k++)
        run(&(setting){.kind = k % 4,
                       .f16 = k & 4,
                       .fused = k & 8,
                       .clips = k & 16,
                       .init_scale = k & 4 ? 0x1p24 : 1024});
}

/* ---- PyTorch's test ---- a control that makes 5 eager steps with a scaler of its own; the other
 * 3, then 2 replays of one captured step and update. */
typedef struct part {
    oc_problem *problem;
    ph_optimizer *optimizer;
    ph_grad_scaler *scaler;
} part;

static ph_status step_and_update(ph_stream *stream, void *user)
{
    const part *p = user;
    ph_tape *tape = p->problem->scene.tape;
    (void)stream;
    ph_grad_scaler_step(tape, p->scaler, p->optimizer);
    ph_grad_scaler_update(tape, p->scaler);
    return ph_tape_clear(tape);
}

static void compare_fused(const oc_rule *rule, bool not_capturable, bool fused)
{
    static const ph_shape shapes[] = {{2, {5, 5}}, {2, {6, 6}}};
    const ph_grad_scaler_options options = {.init_scale = 128, .fused = fused};
    oc_problem control, tested;
    oc_rule plain = *rule;
    ph_graph *graph = NULL;
    plain.not_capturable = not_capturable;
    oc_open(&control, PH_DTYPE_F32, shapes, 2, 3);
    oc_open(&tested, PH_DTYPE_F32, shapes, 2, 3);
    part a = {&control, oc_create(&plain, control.module), NULL},
         b = {&tested, oc_create(rule, tested.module), NULL};
    a.scaler = sc_scaler(&control.scene, 128, 0);
    assert_ok(ph_grad_scaler_create(&b.scaler, tested.scene.device, &options));
    sc_use(control.scene.tape, a.scaler);
    sc_use(tested.scene.tape, b.scaler);
    for (int i = 0; i < 5; i++) {
        oc_gradients(&control, UINT64_MAX);
        oc_gradients(&tested, UINT64_MAX);
        if (i == 3) {
            assert_ok(ph_graph_create(&graph, NULL));
            assert_ok(ph_graph_capture(graph, tested.scene.stream, NULL, step_and_update, &b));
        }
        assert_ok(step_and_update(NULL, &a));
        assert_ok(graph ? ph_graph_replay(graph, tested.scene.stream) : step_and_update(NULL, &b));
        if (!not_capturable)
            oc_equal(&control, &tested, "with a scaler");
    }
    ph_graph_destroy(graph);
    ph_optimizer_destroy(a.optimizer);
    ph_optimizer_destroy(b.optimizer);
    ph_grad_scaler_destroy(a.scaler);
    ph_grad_scaler_destroy(b.scaler);
    oc_close(&control);
    oc_close(&tested);
}

TEST(test_graph_scaling_fused_optimizers)
{
    static const oc_rule sgd[] = {
        {.lr = 0.1},
        {.lr = 0.1, .momentum = 0.9},
        {.lr = 0.1, .momentum = 0.9, .dampening = 0.5},
        {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true},
        {.lr = 0.1, .weight_decay = 0.1, .maximize = true}};
    for (unsigned k = 0; k < 2; k++) {
        for (size_t i = 0; i < sizeof sgd / sizeof sgd[0]; i++)
            compare_fused(&sgd[i], false, k);
        for (unsigned number = 0; number < OC_ADAM_RULES; number += t_nightly() ? 1 : 5) {
            oc_rule rule = oc_adam_rule(number);
            rule.not_capturable = false;
            compare_fused(&rule, number % 2, k);
        }
    }
}

/* ---- graphs of a part of a step ---- */
static ph_status only_unscale(ph_stream *stream, void *user)
{
    const part *p = user;
    (void)stream;
    ph_grad_scaler_unscale(p->problem->scene.tape, p->scaler, p->optimizer);
    return ph_tape_clear(p->problem->scene.tape);
}

static ph_status only_step(ph_stream *stream, void *user)
{
    const part *p = user;
    (void)stream;
    ph_grad_scaler_step(p->problem->scene.tape, p->scaler, p->optimizer);
    return ph_tape_clear(p->problem->scene.tape);
}

static ph_status only_update(ph_stream *stream, void *user)
{
    const part *p = user;
    (void)stream;
    ph_grad_scaler_update(p->problem->scene.tape, p->scaler);
    return ph_tape_clear(p->problem->scene.tape);
}

static ph_status aborted(ph_stream *stream, void *user)
{
    ph_ignore(step_and_update(stream, user));
    return ph_fail(PH_ERROR_CALLER, "the test gives up");
}

static ph_graph *capture(part *p, ph_status (*body)(ph_stream *, void *))
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, p->problem->scene.stream, NULL, body, p));
    return graph;
}

/* A capture leaves the stages as they were; a replay moves them, and is refused where they are
 * others than the capture met. */
TEST(a_replay_is_refused_where_stages_differ_from_the_capture)
{
    oc_problem x;
    oc_rule rule = oc_adam_rule(0);
    oc_open(&x, PH_DTYPE_F32, NULL, 0, 1);
    part p = {&x, oc_create(&rule, x.module), sc_scaler(&x.scene, 8, 0)};
    ph_stream *stream = x.scene.stream;
    sc_use(x.scene.tape, p.scaler);
    oc_gradients(&x, UINT64_MAX);
    assert_ok(step_and_update(NULL, &p));
    ph_graph *unscale = capture(&p, only_unscale), *whole = capture(&p, step_and_update);
    assert_error(only_update(NULL, &p), PH_ERROR_STATE, "no infinities were looked for");
    assert_ok(ph_graph_replay(whole, stream));
    assert_ok(ph_graph_replay(unscale, stream));
    assert_error(ph_graph_replay(unscale, stream), PH_ERROR_STATE,
                 "met optimizer adam not unscaled in the capture, and has it unscaled now");
    assert_error(ph_graph_replay(whole, stream), PH_ERROR_STATE, "has it unscaled now");
    assert_error(only_unscale(NULL, &p), PH_ERROR_STATE, "already been called");
    ph_graph *step = capture(&p, only_step);
    assert_ok(ph_graph_replay(step, stream));
    assert_error(ph_graph_replay(step, stream), PH_ERROR_STATE, "has it stepped now");
    assert_error(only_step(NULL, &p), PH_ERROR_STATE, "already been called");
    ph_graph *update = capture(&p, only_update);
    assert_ok(ph_graph_replay(update, stream));
    assert_error(ph_graph_replay(update, stream), PH_ERROR_STATE, "not unscaled now");
    for (int i = 0; i < 3; i++) {
        ph_tensor *before = ph_tensor_grad(x.param[1].tensor);
        oc_gradients(&x, UINT64_MAX);
        assert_ptr_equal(before, ph_tensor_grad(x.param[1].tensor));
        assert_ok(ph_graph_replay(unscale, stream));
        assert_ok(ph_graph_replay(step, stream));
        assert_ok(ph_graph_replay(update, stream));
    }
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_capture(graph, stream, NULL, aborted, &p), PH_ERROR_CALLER, "gives up");
    assert_ok(ph_graph_reset(graph));
    assert_ok(only_unscale(NULL, &p));
    assert_error(ph_graph_capture(graph, stream, NULL, aborted, &p), PH_ERROR_CALLER, "gives up");
    assert_ok(only_step(NULL, &p));
    assert_ok(only_update(NULL, &p));
    /* The graphs keep what they address. */
    ph_grad_scaler_destroy(p.scaler);
    ph_optimizer_destroy(p.optimizer);
    assert_ok(ph_graph_replay(whole, stream));
    assert_ok(ph_stream_synchronize(stream));
    ph_graph *const all[] = {unscale, whole, step, update, graph};
    for (size_t i = 0; i < 5; i++)
        ph_graph_destroy(all[i]);
    oc_close(&x);
}

/* ---- a long run ---- */
TEST(test_flat_memory)
{
    training t;
    ph_graph *graph;
    ph_memory_stats before, after;
    int steps = t_nightly() ? 10000 : 300;
    open_training(&t, &(setting){.f16 = true, .clips = true, .init_scale = 0x1p24});
    for (unsigned i = 0; i < WARM_UP; i++) {
        feed(&t, i, false);
        assert_ok(step_of(NULL, &t));
    }
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, t.scene.stream, NULL, step_of, &t));
    for (int i = 0; i < steps; i++) {
        if (i == 20) {
            assert_ok(ph_stream_synchronize(t.scene.stream));
            assert_ok(ph_memory_get_stats(&before, t.scene.device));
        }
        feed(&t, (unsigned)i, i % 3 == 0 && is_infinite((unsigned)i));
        assert_ok(i % 2 ? step_of(NULL, &t) : ph_graph_replay(graph, t.scene.stream));
    }
    assert_ok(ph_stream_synchronize(t.scene.stream));
    assert_ok(ph_memory_get_stats(&after, t.scene.device));
    assert_int_equal(after.allocated, before.allocated);
    assert_int_equal(after.reserved, before.reserved);
    weights w;
    read_weights(&t, &w);
    for (size_t i = 0; i < OUT * IN; i++)
        assert_true(isfinite(w.weight[i]) && fabsf(w.weight[i]) < 2);
    assert_true(w.steps > (uint64_t)steps * 3 / 4);
    ph_graph_destroy(graph);
    close_training(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_step),
        cmocka_unit_test(test_graph_scaling_fused_optimizers),
        cmocka_unit_test(a_replay_is_refused_where_stages_differ_from_the_capture),
        cmocka_unit_test(test_flat_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
