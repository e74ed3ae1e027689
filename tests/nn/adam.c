/* SPDX-License-Identifier: MIT */
/* tests/nn/adam.c: Adam and AdamW against a float64 reference, with all combinations of their
 * options; eager, captured and replayed; what is refused. */
#include "support/optimizer_check.h"
#include "support/test.h"
#include "tensor/core/guard.h"
#include "tensor/core/tensor.h"
#include <math.h>

enum {
    STEPS = 10
};

TEST(steps_match_the_reference_for_every_rule)
{
    for (unsigned number = 0; number < OC_ADAM_RULES; number++) {
        oc_problem p;
        char text[200];
        oc_rule rule = oc_adam_rule(number);
        oc_open(&p, oc_adam_dtype(number), NULL, 0, number + 1);
        ph_optimizer *optimizer = oc_create(&rule, p.module);
        oc_describe(text, &rule);
        for (int i = 0; i < STEPS; i++) {
            /* Each parameter counts its own steps. */
            oc_gradients(&p, i % 3 == 1 ? 0xad : UINT64_MAX - (i == 0 ? 2 : 0));
            assert_ok(oc_step(&p, optimizer));
            oc_reference(&p, &rule);
            oc_compare(&p, oc_adam_bound(p.dtype), text);
        }
        ph_optimizer_destroy(optimizer);
        oc_close(&p);
    }
}

/* What 0 stands for. */
TEST(zeros_in_the_options_mean_the_defaults)
{
    for (int decoupled = 0; decoupled < 2; decoupled++) {
        oc_problem p;
        ph_optimizer *optimizer;
        oc_rule rule = {.kind = decoupled ? OC_ADAMW : OC_ADAM,
                        .lr = 1e-3,
                        .beta1 = 0.9,
                        .beta2 = 0.999,
                        .eps = 1e-8,
                        .weight_decay = decoupled ? 0.01 : 0};
        oc_open(&p, PH_DTYPE_F64, NULL, 0, 21);
        assert_ok((decoupled ? ph_adamw_create : ph_adam_create)(&optimizer, p.module, NULL));
        assert_true(ph_optimizer_lr(optimizer) == 1e-3);
        for (int i = 0; i < 3; i++) {
            oc_gradients(&p, UINT64_MAX);
            assert_ok(oc_step(&p, optimizer));
            oc_reference(&p, &rule);
            oc_compare(&p, 1e-12, "defaults");
        }
        ph_optimizer_destroy(optimizer);
        oc_close(&p);
    }
}

/* More parameters than a launch of any kernel takes at once. */
TEST(more_parameters_than_a_launch_takes_are_stepped)
{
    oc_problem p;
    ph_shape shapes[OC_MOST];
    oc_rule rule = oc_adam_rule(1);
    for (size_t i = 0; i < OC_MOST; i++)
        shapes[i] = PH_SHAPE((int64_t)(i * 37 % 200));
    oc_open(&p, PH_DTYPE_F32, shapes, OC_MOST, 11);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    for (int i = 0; i < 3; i++) {
        oc_gradients(&p, i == 1 ? 0xffff : UINT64_MAX);
        assert_ok(oc_step(&p, optimizer));
        oc_reference(&p, &rule);
        oc_compare(&p, 1e-5, "many");
    }
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

/* Three eager steps, then as many eager ones as replays: the same bits. */
TEST(replayed_steps_have_the_bits_of_eager_ones)
{
    for (unsigned number = 0; number < OC_ADAM_RULES; number++) {
        oc_problem eager, replayed;
        oc_rule rule = oc_adam_rule(number);
        uint64_t steps;
        if (rule.not_capturable)
            continue;
        oc_open(&eager, oc_adam_dtype(number), NULL, 0, number);
        oc_open(&replayed, oc_adam_dtype(number), NULL, 0, number);
        ph_optimizer *a = oc_create(&rule, eager.module), *b = oc_create(&rule, replayed.module);
        for (int i = 0; i < 3; i++) {
            oc_gradients(&eager, UINT64_MAX);
            oc_gradients(&replayed, UINT64_MAX);
            assert_ok(oc_step(&eager, a));
            assert_ok(oc_step(&replayed, b));
        }
        ph_graph *graph = oc_capture_step(&replayed, b);
        oc_equal(&eager, &replayed, "captured");
        for (int i = 0; i < STEPS; i++) {
            oc_gradients(&eager, UINT64_MAX);
            oc_gradients(&replayed, UINT64_MAX);
            assert_ok(oc_step(&eager, a));
            /* Now and then an eager step between the replays: the counters are the same ones. */
            assert_ok(i == 4 ? oc_step(&replayed, b)
                             : ph_graph_replay(graph, replayed.scene.stream));
            oc_equal(&eager, &replayed, "replayed");
        }
        assert_ok(ph_optimizer_steps(&steps, replayed.scene.tape, b));
        assert_int_equal(steps, 3 + STEPS);
        ph_graph_destroy(graph);
        ph_optimizer_destroy(a);
        ph_optimizer_destroy(b);
        oc_close(&eager);
        oc_close(&replayed);
    }
}

static size_t nodes_of(ph_graph *graph, const char *name)
{
    const ph_record *record;
    size_t count = 0;
    assert_ok(ph_graph_record(&record, graph));
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        ph_node_info info;
        assert_ok(ph_record_node(&info, record, i));
        count += strcmp(info.name, name) == 0;
    }
    return count;
}

/* One launch counts, one changes everything; every address is known to be one. */
static void expect_record(const oc_rule *rule, const char *kernel)
{
    oc_problem p;
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 4);
    ph_optimizer *optimizer = oc_create(rule, p.module);
    oc_gradients(&p, UINT64_MAX);
    assert_ok(oc_step(&p, optimizer));
    ph_graph *graph = oc_capture_step(&p, optimizer);
    const ph_record *record;
    assert_int_equal(nodes_of(graph, "ph_optimizer_count"), 1);
    assert_int_equal(nodes_of(graph, kernel), 1);
    assert_ok(ph_graph_record(&record, graph));
    size_t found = 0;
    for (size_t node = 0; node < ph_record_node_count(record); node++) {
        ph_node_info info;
        assert_ok(ph_record_node(&info, record, node));
        for (size_t i = 0; i < info.word_count; i++) {
            ph_word word;
            assert_ok(ph_record_word(&word, record, node, i));
            assert_true(word.kind != PH_WORD_SUSPECTED);
            found += word.kind == PH_WORD_PROVED &&
                     word.value == (uintptr_t)ph_tensor_data(p.param[0].tensor) &&
                     strcmp(word.name, "param[0]") == 0;
        }
    }
    assert_int_equal(found, 1);
    assert_ok(ph_graph_check_inputs(graph));
    ph_graph_destroy(graph);
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

TEST(a_captured_step_launches_its_kernel_once)
{
    oc_rule rule = oc_adam_rule(1);
    expect_record(&rule, "ph_adam_f32");
    rule.amsgrad = true;
    expect_record(&rule, "ph_amsgrad_f32");
}

/* What the first gradient leaves in the second moments divides from then on, however small those
 * become. Memory is poisoned: a first step reads none of its state. */
TEST(amsgrad_divides_by_the_largest_moment_from_the_first_step)
{
    static const ph_shape one = {1, {5}};
    for (unsigned number = 0; number < 16; number++) {
        oc_problem p;
        ph_dtype dtype = number & 8 ? PH_DTYPE_F64 : PH_DTYPE_F32;
        oc_rule rule = {.kind = number & 1 ? OC_ADAMW : OC_ADAM,
                        .lr = 0.1,
                        .beta1 = 0.5,
                        .beta2 = 0.25,
                        .eps = 1e-8,
                        .not_capturable = number & 2,
                        .amsgrad = number & 4};
        oc_open(&p, dtype, &one, 1, 5);
        ph_optimizer *optimizer = oc_create(&rule, p.module);
        ph_tensor *grad = ph_full(p.scene.tape, dtype, one, 2);
        assert_ok(ph_tensor_set_grad(p.param[0].tensor, grad));
        ph__storage_debug(true);
        for (int i = 0; i < STEPS; i++) {
            for (int64_t k = 0; k < p.param[0].count; k++)
                p.param[0].g[k] = i == 0 ? 2 : 0.125;
            ph_optimizer_step(p.scene.tape, optimizer);
            oc_reference(&p, &rule);
            ph_tensor_fill(p.scene.tape, grad, 0.125);
        }
        assert_ok(ph_tape_clear(p.scene.tape));
        ph__storage_debug(false);
        oc_compare(&p, oc_adam_bound(dtype), "the largest second moment");
        ph_optimizer_destroy(optimizer);
        assert_true(ph__storage_debug_check(p.scene.device));
        oc_close(&p);
    }
}

static void expect_refusal(oc_problem *p, ph_optimizer *optimizer, const char *part)
{
    ph_graph *graph;
    oc_capture c = {p, optimizer};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_capture(graph, p->scene.stream, NULL, oc_capture_body, &c),
                 PH_ERROR_STATE, part);
    ph_graph_destroy(graph);
}

/* A body that goes on after the refusal, to look at what was launched. */
static ph_status refused_body(ph_stream *stream, void *user)
{
    oc_capture *c = user;
    (void)stream;
    assert_status(oc_step(c->problem, c->optimizer), PH_ERROR_STATE);
    return PH_OK;
}

TEST(captures_without_state_or_on_the_host_are_refused)
{
    oc_problem p;
    ph_graph *graph;
    const ph_record *record;
    oc_rule rule = oc_adam_rule(0);
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 4);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    oc_gradients(&p, UINT64_MAX);
    expect_refusal(&p, optimizer, "adam has no state for parameter p0 yet");
    oc_gradients(&p, UINT64_MAX - 4);
    assert_ok(oc_step(&p, optimizer));
    oc_gradients(&p, UINT64_MAX);
    expect_refusal(&p, optimizer, "adam has no state for parameter p2 yet");
    ph_optimizer_destroy(optimizer);

    rule.not_capturable = true;
    optimizer = oc_create(&rule, p.module);
    assert_ok(oc_step(&p, optimizer));
    expect_refusal(&p, optimizer, "not_capturable");
    t_log_start();
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(
        ph_graph_capture(graph, p.scene.stream, NULL, refused_body, &(oc_capture){&p, optimizer}));
    t_log_stop();
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), 0);
    ph_graph_destroy(graph);
    assert_ok(oc_step(&p, optimizer));
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

static ph_status steps_body(ph_stream *stream, void *user)
{
    oc_capture *c = user;
    uint64_t steps;
    (void)stream;
    assert_error(ph_optimizer_steps(&steps, c->problem->scene.tape, c->optimizer), PH_ERROR_CAPTURE,
                 "");
    assert_native(900);
    assert_status(ph_tape_clear(c->problem->scene.tape), PH_ERROR_CAPTURE);
    return PH_OK;
}

TEST(test_steps_in_capture)
{
    oc_problem p;
    ph_graph *graph;
    oc_rule rule = oc_adam_rule(0);
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 4);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    t_log_start();
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(
        ph_graph_capture(graph, p.scene.stream, NULL, steps_body, &(oc_capture){&p, optimizer}));
    t_log_stop();
    ph_graph_destroy(graph);
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

TEST(options_and_arguments_of_adam_are_checked)
{
    oc_problem p;
    ph_optimizer *optimizer;
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 5);
    ph_module *module = p.module;
    const struct {
        ph_adam_options options;
        const char *part;
    } bad[] = {{{.lr = -1}, "lr is -1"},
               {{.lr = (double)NAN}, "lr"},
               {{.beta1 = 1}, "beta1 is 1"},
               {{.beta1 = -0.1}, "beta1"},
               {{.beta2 = 1.5}, "beta2 is 1.5"},
               {{.eps = -1e-8}, "eps"},
               {{.weight_decay = -0.5}, "weight_decay is -0.5"},
               {{.reserved = {1}}, "reserved"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_error(ph_adam_create(&optimizer, module, &bad[i].options), PH_ERROR_ARGUMENT,
                     bad[i].part);
        assert_error(ph_adamw_create(&optimizer, module, &bad[i].options), PH_ERROR_ARGUMENT,
                     bad[i].part);
        assert_null(optimizer);
    }
    assert_error(ph_adam_create(NULL, module, NULL), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_adamw_create(&optimizer, NULL, NULL), PH_ERROR_ARGUMENT, "module");
    oc_close(&p);
}

/* The n-th allocation fails, for every n, while the state is made: the step changes no
 * parameter. */
TEST(a_step_without_host_memory_changes_no_parameter)
{
    oc_problem p;
    oc_rule rule = oc_adam_rule(1);
    rule.amsgrad = true;
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 9);
    oc_gradients(&p, UINT64_MAX);
    ph_status status = PH_ERROR_HOST_MEMORY;
    int64_t at = 0;
    for (; status != PH_OK; at++) {
        ph_optimizer *optimizer = oc_create(&rule, p.module);
        ph__alloc_fail_after(at);
        status = oc_step(&p, optimizer);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK)
            assert_error(status, PH_ERROR_HOST_MEMORY, "memory");
        ph_optimizer_destroy(optimizer);
    }
    assert_true(at > 10);
    oc_reference(&p, &rule);
    oc_compare(&p, 1e-5, "after the sweep");
    oc_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_match_the_reference_for_every_rule),
        cmocka_unit_test(zeros_in_the_options_mean_the_defaults),
        cmocka_unit_test(more_parameters_than_a_launch_takes_are_stepped),
        cmocka_unit_test(replayed_steps_have_the_bits_of_eager_ones),
        cmocka_unit_test(a_captured_step_launches_its_kernel_once),
        cmocka_unit_test(amsgrad_divides_by_the_largest_moment_from_the_first_step),
        cmocka_unit_test(captures_without_state_or_on_the_host_are_refused),
        cmocka_unit_test(test_steps_in_capture),
        cmocka_unit_test(options_and_arguments_of_adam_are_checked),
        cmocka_unit_test(a_step_without_host_memory_changes_no_parameter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
