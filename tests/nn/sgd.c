/* SPDX-License-Identifier: MIT */
/* tests/nn/sgd.c: SGD against a float64 reference, with all combinations of its options; eager,
 * captured and replayed; misuse. */
#include "support/optimizer_check.h"
#include "support/test.h"
#include <math.h>

enum {
    STEPS = 10,
    RULES = 64
};

static oc_rule rule_of(unsigned number)
{
    oc_rule r = {.kind = OC_SGD, .lr = 0.1};
    r.momentum = number & 1 ? 0.9 : 0;
    r.weight_decay = number & 2 ? 0.05 : 0;
    if (number & 4)
        r.dampening = 0.3;
    r.nesterov = (number & 8) && r.momentum > 0 && r.dampening == 0;
    r.maximize = number & 32;
    return r;
}

static double bound_of(ph_dtype dtype)
{
    return dtype == PH_DTYPE_F32 ? 3e-6 : 1e-14;
}

TEST(steps_match_the_reference_for_every_rule)
{
    for (unsigned number = 0; number < RULES; number++) {
        oc_problem p;
        char text[200];
        oc_rule rule = rule_of(number);
        ph_dtype dtype = number & 16 ? PH_DTYPE_F64 : PH_DTYPE_F32;
        oc_open(&p, dtype, NULL, 0, number + 1);
        ph_optimizer *optimizer = oc_create(&rule, p.module);
        oc_describe(text, &rule);
        for (int i = 0; i < STEPS; i++) {
            /* Some parameters have no gradient in some of the steps: their momentum begins
             * later, or rests. */
            oc_gradients(&p, i % 3 == 1 ? 0xad : UINT64_MAX - (i == 0 ? 2 : 0));
            assert_ok(oc_step(&p, optimizer));
            oc_reference(&p, &rule);
            oc_compare(&p, bound_of(dtype), text);
        }
        ph_optimizer_destroy(optimizer);
        oc_close(&p);
    }
}

TEST(test_strided_gradients)
{
    oc_problem p;
    oc_rule rule = rule_of(3);
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 7);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    for (int i = 0; i < 3; i++) {
        oc_strided_gradients(&p);
        assert_ok(oc_step(&p, optimizer));
        oc_reference(&p, &rule);
        oc_compare(&p, 3e-6, "strided gradients");
        oc_gradients(&p, 0);
    }
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

/* More tensors than one launch takes, of both dtypes of a module. */
TEST(more_tensors_than_a_launch_takes_are_stepped)
{
    oc_problem p;
    ph_shape shapes[150];
    oc_rule rule = rule_of(1);
    for (size_t i = 0; i < 150; i++)
        shapes[i] = PH_SHAPE((int64_t)(i * 37 % 200));
    oc_open(&p, PH_DTYPE_F32, shapes, 150, 11);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    for (int i = 0; i < 3; i++) {
        oc_gradients(&p, UINT64_MAX);
        assert_ok(oc_step(&p, optimizer));
        oc_reference(&p, &rule);
        oc_compare(&p, 3e-6, "many");
    }
    ph_graph *graph = oc_capture_step(&p, optimizer);
    const ph_record *record;
    assert_ok(ph_graph_record(&record, graph));
    size_t launches = 0;
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        ph_node_info info;
        assert_ok(ph_record_node(&info, record, i));
        launches += strcmp(info.name, "ph_sgd_f32") == 0;
    }
    assert_int_equal(launches, 3);
    oc_gradients(&p, UINT64_MAX);
    assert_ok(ph_graph_replay(graph, p.scene.stream));
    oc_reference(&p, &rule);
    oc_compare(&p, 3e-6, "many, replayed");
    ph_graph_destroy(graph);
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

/* Three eager steps, then as many eager ones as replays: the same bits. Capturing runs nothing. */
TEST(replayed_steps_have_the_bits_of_eager_ones)
{
    for (unsigned number = 0; number < RULES; number++) {
        oc_problem eager, replayed;
        oc_rule rule = rule_of(number);
        ph_dtype dtype = number & 16 ? PH_DTYPE_F64 : PH_DTYPE_F32;
        oc_open(&eager, dtype, NULL, 0, number);
        oc_open(&replayed, dtype, NULL, 0, number);
        ph_optimizer *a = oc_create(&rule, eager.module), *b = oc_create(&rule, replayed.module);
        for (int i = 0; i < 3; i++) {
            oc_gradients(&eager, UINT64_MAX);
            oc_gradients(&replayed, UINT64_MAX);
            assert_ok(oc_step(&eager, a));
            assert_ok(oc_step(&replayed, b));
        }
        uint64_t version = ph_tensor_version(replayed.param[0].tensor), steps;
        ph_graph *graph = oc_capture_step(&replayed, b);
        assert_true(ph_tensor_version(replayed.param[0].tensor) > version);
        oc_equal(&eager, &replayed, "captured");
        for (int i = 0; i < STEPS; i++) {
            oc_gradients(&eager, UINT64_MAX);
            oc_gradients(&replayed, UINT64_MAX);
            assert_ok(oc_step(&eager, a));
            assert_ok(ph_graph_replay(graph, replayed.scene.stream));
            oc_equal(&eager, &replayed, "replayed");
        }
        assert_ok(ph_optimizer_steps(&steps, eager.scene.tape, a));
        assert_int_equal(steps, 3 + STEPS);
        assert_ok(ph_optimizer_steps(&steps, replayed.scene.tape, b));
        assert_int_equal(steps, 3 + STEPS);
        ph_graph_destroy(graph);
        ph_optimizer_destroy(a);
        ph_optimizer_destroy(b);
        oc_close(&eager);
        oc_close(&replayed);
    }
}

/* Without momentum there is no state that a capture could lack. */
TEST(test_first_step_captured)
{
    oc_problem p;
    oc_rule rule = rule_of(0);
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 3);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    oc_gradients(&p, UINT64_MAX);
    ph_graph *graph = oc_capture_step(&p, optimizer);
    assert_ok(ph_graph_replay(graph, p.scene.stream));
    oc_reference(&p, &rule);
    oc_compare(&p, 3e-6, "captured at once");
    ph_graph_destroy(graph);
    ph_optimizer_destroy(optimizer);

    rule = rule_of(1);
    optimizer = oc_create(&rule, p.module);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_capture(graph, p.scene.stream, NULL, oc_capture_body,
                                  &(oc_capture){&p, optimizer}),
                 PH_ERROR_STATE, "make one eager step first");
    ph_graph_destroy(graph);
    assert_ok(oc_step(&p, optimizer));
    oc_reference(&p, &rule);
    graph = oc_capture_step(&p, optimizer);
    ph_graph_destroy(graph);
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

/* The graph keeps the optimizer's state and the parameters that it addresses. */
TEST(test_graph_outlives)
{
    oc_problem p;
    oc_rule rule = rule_of(1);
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 5);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    oc_gradients(&p, UINT64_MAX);
    assert_ok(oc_step(&p, optimizer));
    oc_reference(&p, &rule);
    ph_graph *graph = oc_capture_step(&p, optimizer);
    assert_ok(ph_optimizer_set_lr(optimizer, 0.02));
    rule.lr = 0.02;
    ph_optimizer_destroy(optimizer);
    for (int i = 0; i < 3; i++) {
        oc_gradients(&p, UINT64_MAX);
        assert_ok(ph_graph_replay(graph, p.scene.stream));
        oc_reference(&p, &rule);
        oc_compare(&p, 3e-6, "after the optimizer");
    }
    assert_ok(ph_stream_synchronize(p.scene.stream));
    ph_graph_destroy(graph);
    oc_close(&p);
}

TEST(test_nothing_to_do)
{
    oc_problem p;
    uint64_t steps;
    oc_rule rule = rule_of(1);
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 5);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    assert_ok(oc_step(&p, optimizer));
    assert_ok(ph_optimizer_steps(&steps, p.scene.tape, optimizer));
    assert_int_equal(steps, 0);
    oc_compare(&p, 0, "without gradients");
    oc_gradients(&p, UINT64_MAX);
    ph_optimizer_zero_grad(p.scene.tape, optimizer);
    for (size_t i = 0; i < p.count; i++)
        assert_null(ph_tensor_grad(p.param[i].tensor));
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

/* An operator that saved a parameter hears of the change. */
TEST(a_step_counts_the_versions_of_its_parameters)
{
    oc_problem p;
    oc_rule rule = rule_of(0);
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 5);
    ph_tape *tape = p.scene.tape;
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    oc_gradients(&p, 1);
    uint64_t before = ph_tensor_version(p.param[0].tensor),
             other = ph_tensor_version(p.param[1].tensor);
    ph_tensor *y = ph_sum(tape, ph_mul(tape, p.param[0].tensor, p.param[0].tensor));
    ph_optimizer_step(tape, optimizer);
    assert_true(ph_tensor_version(p.param[0].tensor) > before);
    assert_int_equal(ph_tensor_version(p.param[1].tensor), other);
    ph_backward(tape, y);
    assert_error(ph_tape_clear(tape), PH_ERROR_STATE, "mul");
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

TEST(options_and_arguments_of_sgd_are_checked)
{
    oc_problem p;
    uint64_t steps;
    ph_optimizer *optimizer;
    ph_sgd_options good = {.lr = 0.1}, o;
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 5);
    ph_module *module = p.module;
    assert_error(ph_sgd_create(NULL, module, &good), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_sgd_create(&optimizer, NULL, &good), PH_ERROR_ARGUMENT, "module");
    assert_null(optimizer);
    assert_error(ph_sgd_create(&optimizer, module, NULL), PH_ERROR_ARGUMENT, "options");
    o = (ph_sgd_options){.lr = -1};
    assert_error(ph_sgd_create(&optimizer, module, &o), PH_ERROR_ARGUMENT, "lr is -1");
    o = (ph_sgd_options){.lr = (double)NAN};
    assert_error(ph_sgd_create(&optimizer, module, &o), PH_ERROR_ARGUMENT, "lr");
    o = (ph_sgd_options){.momentum = -0.5};
    assert_error(ph_sgd_create(&optimizer, module, &o), PH_ERROR_ARGUMENT, "momentum");
    o = (ph_sgd_options){.weight_decay = -0.5};
    assert_error(ph_sgd_create(&optimizer, module, &o), PH_ERROR_ARGUMENT, "weight_decay");
    o = (ph_sgd_options){.dampening = (double)INFINITY};
    assert_error(ph_sgd_create(&optimizer, module, &o), PH_ERROR_ARGUMENT, "dampening");
    o = (ph_sgd_options){.nesterov = true};
    assert_error(ph_sgd_create(&optimizer, module, &o), PH_ERROR_ARGUMENT,
                 "nesterov needs a momentum");
    o = (ph_sgd_options){.nesterov = true, .momentum = 0.9, .dampening = 0.1};
    assert_error(ph_sgd_create(&optimizer, module, &o), PH_ERROR_ARGUMENT, "no dampening");
    o = (ph_sgd_options){.reserved = {1}};
    assert_error(ph_sgd_create(&optimizer, module, &o), PH_ERROR_ARGUMENT, "reserved");
    assert_null(optimizer);

    assert_ok(ph_sgd_create(&optimizer, module, &good));
    assert_error(ph_optimizer_set_lr(NULL, 1), PH_ERROR_ARGUMENT, "optimizer");
    assert_error(ph_optimizer_set_lr(optimizer, -1), PH_ERROR_ARGUMENT, "lr is -1");
    assert_error(ph_optimizer_set_lr(optimizer, (double)INFINITY), PH_ERROR_ARGUMENT, "finite");
    assert_true(ph_optimizer_lr(optimizer) == 0.1);
    assert_true(ph_optimizer_lr(NULL) == 0);
    assert_error(ph_optimizer_steps(NULL, p.scene.tape, optimizer), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_optimizer_steps(&steps, NULL, optimizer), PH_ERROR_ARGUMENT, "tape");
    assert_error(ph_optimizer_steps(&steps, p.scene.tape, NULL), PH_ERROR_ARGUMENT, "optimizer");
    ph_optimizer_step(NULL, optimizer);
    ph_optimizer_step(p.scene.tape, NULL);
    assert_error(ph_tape_clear(p.scene.tape), PH_ERROR_ARGUMENT, "optimizer is NULL");
    ph_optimizer_zero_grad(NULL, NULL);
    ph_optimizer_zero_grad(p.scene.tape, NULL);
    assert_error(ph_tape_clear(p.scene.tape), PH_ERROR_ARGUMENT, "optimizer is NULL");

    /* A tape that has failed does nothing. */
    oc_gradients(&p, UINT64_MAX);
    ph_tape_fail(p.scene.tape, PH_ERROR_CALLER, "before");
    ph_optimizer_step(p.scene.tape, optimizer);
    assert_error(ph_tape_clear(p.scene.tape), PH_ERROR_CALLER, "before");
    oc_compare(&p, 0, "a failed tape");
    ph_optimizer_destroy(optimizer);
    ph_optimizer_destroy(NULL);
    oc_close(&p);
}

static ph_status create_body(ph_stream *stream, void *user)
{
    const oc_problem *p = user;
    ph_sgd_options options = {.lr = 0.1};
    ph_optimizer *optimizer;
    (void)stream;
    assert_error(ph_sgd_create(&optimizer, p->module, &options), PH_ERROR_CAPTURE, "");
    assert_native(900);
    assert_null(optimizer);
    return PH_OK;
}

TEST(test_create_in_capture)
{
    oc_problem p;
    ph_graph *graph;
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 5);
    t_log_start();
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, p.scene.stream, NULL, create_body, &p));
    ph_graph_destroy(graph);
    t_log_stop();
    oc_close(&p);
}

/* What an optimizer cannot train, and what it passes over. */
TEST(parameters_that_cannot_be_trained_are_refused_or_passed_over)
{
    t_scene s;
    ph_module *module;
    ph_optimizer *optimizer;
    ph_sgd_options options = {.lr = 0.1};
    ph_layer_options half = {.dtype = PH_DTYPE_BF16};
    t_scene_open(&s);
    assert_ok(ph_linear_create_with(&module, s.device, 3, 4, &half));
    assert_error(ph_sgd_create(&optimizer, module, &options), PH_ERROR_ARGUMENT,
                 "weight is of bf16");
    assert_ok(ph_tensor_set_requires_grad(ph_module_parameter(module, "weight"), false));
    assert_error(ph_sgd_create(&optimizer, module, &options), PH_ERROR_ARGUMENT, "bias is of bf16");
    assert_ok(ph_tensor_set_requires_grad(ph_module_parameter(module, "bias"), false));
    assert_ok(ph_sgd_create(&optimizer, module, &options));
    ph_optimizer_step(s.tape, optimizer);
    assert_ok(ph_tape_clear(s.tape));
    ph_optimizer_destroy(optimizer);
    ph_module_release(module);
    t_scene_close(&s);
}

/* The n-th allocation fails, for every n: a step fails cleanly, and the next one goes well. */
TEST(a_step_without_host_memory_fails_and_can_be_repeated)
{
    oc_problem p;
    oc_rule rule = rule_of(1);
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 9);
    oc_gradients(&p, UINT64_MAX);
    ph_sgd_options options = {.lr = 0.1, .momentum = 0.9};
    ph_status status = PH_ERROR_HOST_MEMORY;
    int64_t at = 0;
    ph_optimizer *optimizer = NULL;
    for (; status != PH_OK; at++) {
        ph__alloc_fail_after(at);
        status = ph_sgd_create(&optimizer, p.module, &options);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        assert_true((status == PH_OK) == (optimizer != NULL));
        if (status != PH_OK) {
            assert_error(status, PH_ERROR_HOST_MEMORY, "memory");
            assert_ok(ph_device_synchronize(p.scene.device));
        }
    }
    ph_optimizer_destroy(optimizer);
    assert_ok(ph_device_synchronize(p.scene.device));
    assert_true(at > 10);

    for (status = PH_ERROR_HOST_MEMORY, at = 0; status != PH_OK; at++) {
        optimizer = oc_create(&rule, p.module);
        ph__alloc_fail_after(at);
        status = oc_step(&p, optimizer);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK)
            assert_error(status, PH_ERROR_HOST_MEMORY, "memory");
        ph_optimizer_destroy(optimizer);
    }
    oc_reference(&p, &rule);
    oc_compare(&p, 3e-6, "after the sweep");

    optimizer = oc_create(&rule, p.module);
    assert_ok(oc_step(&p, optimizer));
    for (status = PH_ERROR_HOST_MEMORY, at = 0; status != PH_OK; at++) {
        ph_graph *graph;
        assert_ok(ph_graph_create(&graph, NULL));
        ph__alloc_fail_after(at);
        status = ph_graph_capture(graph, p.scene.stream, NULL, oc_capture_body,
                                  &(oc_capture){&p, optimizer});
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK)
            assert_error(status, PH_ERROR_HOST_MEMORY, "memory");
        ph_graph_destroy(graph);
    }
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_match_the_reference_for_every_rule),
        cmocka_unit_test(test_strided_gradients),
        cmocka_unit_test(more_tensors_than_a_launch_takes_are_stepped),
        cmocka_unit_test(replayed_steps_have_the_bits_of_eager_ones),
        cmocka_unit_test(test_first_step_captured),
        cmocka_unit_test(test_graph_outlives),
        cmocka_unit_test(test_nothing_to_do),
        cmocka_unit_test(a_step_counts_the_versions_of_its_parameters),
        cmocka_unit_test(options_and_arguments_of_sgd_are_checked),
        cmocka_unit_test(test_create_in_capture),
        cmocka_unit_test(parameters_that_cannot_be_trained_are_refused_or_passed_over),
        cmocka_unit_test(a_step_without_host_memory_fails_and_can_be_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
