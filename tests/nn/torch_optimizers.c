/* SPDX-License-Identifier: MIT */
/* tests/nn/torch_optimizers.c: what PyTorch's tests ask of capturable optimizers, for those that
 * exist here. Each test carries the name of the behaviour that it holds. */
#include "support/optimizer_check.h"
#include "support/test.h"
#include <stdio.h>
#include <unistd.h>

/* lr 0.1 and betas 0.9, 0.99, as there; foreach, fused and the like are one form here. */
static const oc_rule rules[] = {
    {.kind = OC_ADAM, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8},
    {.kind = OC_ADAM, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1},
    {.kind = OC_ADAM,
     .lr = 0.1,
     .beta1 = 0.9,
     .beta2 = 0.99,
     .eps = 1e-8,
     .weight_decay = 0.1,
     .maximize = true},
    {.kind = OC_ADAM,
     .lr = 0.1,
     .beta1 = 0.9,
     .beta2 = 0.99,
     .eps = 1e-8,
     .weight_decay = 0.1,
     .amsgrad = true},
    {.kind = OC_ADAMW, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8},
    {.kind = OC_ADAMW, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1},
    {.kind = OC_ADAMW,
     .lr = 0.1,
     .beta1 = 0.9,
     .beta2 = 0.99,
     .eps = 1e-8,
     .weight_decay = 0.1,
     .maximize = true},
    {.kind = OC_ADAMW,
     .lr = 0.1,
     .beta1 = 0.9,
     .beta2 = 0.99,
     .eps = 1e-8,
     .weight_decay = 0.1,
     .amsgrad = true},
    {.kind = OC_SGD, .lr = 0.1},
    {.kind = OC_SGD, .lr = 0.1, .momentum = 0.9},
    {.kind = OC_SGD, .lr = 0.1, .momentum = 0.9, .dampening = 0.5},
    {.kind = OC_SGD, .lr = 0.1, .momentum = 0.9, .weight_decay = 0.1},
    {.kind = OC_SGD, .lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true},
    {.kind = OC_SGD, .lr = 0.1, .weight_decay = 0.1, .maximize = true},
    {.kind = OC_SGD, .lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .maximize = true},
};
enum {
    WARM_UP = 3,
    REPLAYS = 2
};
static const ph_shape shapes[] = {{2, {5, 5}}, {2, {6, 6}}, {0, {0}}};

static void expect_close(oc_problem *got, oc_problem *control, const char *what)
{
    for (size_t k = 0; k < got->count; k++) {
        float *x = calloc((size_t)got->param[k].count, sizeof *x);
        assert_non_null(x);
        assert_ok(ph_tensor_read(control->scene.tape, control->param[k].tensor, x,
                                 ph_tensor_bytes(control->param[k].tensor)));
        for (int64_t i = 0; i < got->param[k].count; i++)
            got->param[k].at[i] = (double)x[i];
        free(x);
    }
    oc_compare(got, 1.3e-6, what);
}

/* A control that cannot be captured makes 5 steps; the other 3, and then 2 replays of one
 * captured step, or 2 more without a graph. */
static void run(const oc_rule *rule, bool graphed)
{
    oc_problem control, tested;
    oc_rule plain = *rule;
    char text[200];
    oc_describe(text, rule);
    plain.not_capturable = rule->kind != OC_SGD && rule->kind != OC_LION;
    oc_open(&control, PH_DTYPE_F32, shapes, 3, 17);
    oc_open(&tested, PH_DTYPE_F32, shapes, 3, 17);
    ph_optimizer *a = oc_create(&plain, control.module), *b = oc_create(rule, tested.module);
    ph_graph *graph = NULL;
    for (int i = 0; i < WARM_UP + REPLAYS; i++) {
        if (graphed && i == WARM_UP) {
            graph = oc_capture_step(&tested, b);
            expect_close(&tested, &control, text); /* capturing executes nothing */
        }
        oc_gradients(&control, UINT64_MAX);
        oc_gradients(&tested, UINT64_MAX);
        assert_ok(oc_step(&control, a));
        assert_ok(graph ? ph_graph_replay(graph, tested.scene.stream) : oc_step(&tested, b));
    }
    expect_close(&tested, &control, text);
    ph_graph_destroy(graph);
    ph_optimizer_destroy(a);
    ph_optimizer_destroy(b);
    oc_close(&control);
    oc_close(&tested);
}

TEST(test_graph_optims)
{
    for (size_t k = 0; k < sizeof rules / sizeof rules[0]; k++) {
        run(&rules[k], true);
        run(&rules[k], false);
    }
    for (size_t k = 0; k < oc_kind_rule_count(); k++) {
        oc_rule rule = oc_kind_rule(k);
        rule.lr = 0.1;
        rule.not_capturable = false;
        run(&rule, true);
        run(&rule, false);
    }
}

/* Two groups of one parameter each, which begin with 1. */
static ph_optimizer *open_groups(oc_problem *p, const oc_rule *rule)
{
    static const ph_shape ones[] = {{1, {1}}, {1, {1}}};
    const float one = 1;
    oc_open(p, PH_DTYPE_F32, ones, 2, 1);
    for (int i = 0; i < 2; i++)
        assert_ok(ph_tensor_write(p->scene.tape, p->param[i].tensor, &one, sizeof one));
    return oc_create(rule, p->module);
}

static void explicit_groups(oc_rule rule, bool second_capturable)
{
    oc_problem p, reference;
    oc_rule plain = rule;
    ph_graph *graph;
    rule.not_capturable = false;
    rule.group = plain.group = "p1";
    rule.group_on_host = !second_capturable;
    plain.not_capturable = true;
    ph_optimizer *tested = open_groups(&p, &rule), *control = open_groups(&reference, &plain);
    oc_capture c = {&p, tested};
    assert_int_equal(ph_optimizer_group_count(tested), 2);
    for (int i = 0; i < WARM_UP; i++) {
        oc_gradients(&p, 3);
        oc_gradients(&reference, 3);
        assert_ok(oc_step(&p, tested));
        assert_ok(oc_step(&reference, control));
    }
    assert_ok(ph_graph_create(&graph, NULL));
    if (second_capturable) {
        assert_ok(ph_graph_capture(graph, p.scene.stream, NULL, oc_capture_body, &c));
    } else {
        assert_error(ph_graph_capture(graph, p.scene.stream, NULL, oc_capture_body, &c),
                     PH_ERROR_STATE,
                     "(not_capturable, group 0), which a replay could not do: it "
                     "cannot be captured");
        /* It was unwound: the same steps go on eagerly, from where they were. */
        expect_close(&p, &reference, "a refused capture");
    }
    for (int i = 0; i < REPLAYS; i++) {
        oc_gradients(&p, 3);
        oc_gradients(&reference, 3);
        assert_ok(second_capturable ? ph_graph_replay(graph, p.scene.stream) : oc_step(&p, tested));
        assert_ok(oc_step(&reference, control));
    }
    expect_close(&p, &reference, "explicitly capturable groups");
    ph_graph_destroy(graph);
    ph_optimizer_destroy(tested);
    ph_optimizer_destroy(control);
    oc_close(&p);
    oc_close(&reference);
}

TEST(test_graph_optims_with_explicitly_capturable_param_groups)
{
    for (int second = 0; second < 2; second++) {
        oc_rule adam = {.kind = OC_ADAM, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
        explicit_groups(adam, second);
        adam.kind = OC_ADAMW;
        adam.weight_decay = 0.01;
        explicit_groups(adam, second);
        for (size_t k = 0; k < oc_kind_rule_count(); k++)
            if (oc_kind_rule(k).kind != OC_LION)
                explicit_groups(oc_kind_rule(k), second);
    }
}

/* A state that counted on the host goes into an optimizer that counts on the device, and can be
 * captured at once. */
TEST(test_cpu_load_state_dict)
{
    static const ph_shape one = {0, {0}};
    for (size_t k = 0; k < 2 + oc_kind_rule_count(); k++) {
        oc_problem a, b;
        char path[64];
        oc_rule rule = {.kind = k == 0 ? OC_ADAM : OC_ADAMW,
                        .lr = 0.1,
                        .beta1 = 0.9,
                        .beta2 = 0.99,
                        .eps = 1e-8};
        if (k >= 2)
            rule = oc_kind_rule(k - 2);
        rule.not_capturable = true;
        oc_open(&a, PH_DTYPE_F32, &one, 1, 3);
        oc_open(&b, PH_DTYPE_F32, &one, 1, 3);
        ph_optimizer *x = oc_create(&rule, a.module);
        rule.not_capturable = false;
        ph_optimizer *y = oc_create(&rule, b.module);
        oc_gradients(&a, 1);
        oc_gradients(&b, 1);
        assert_ok(oc_step(&a, x));
        (void)snprintf(path, sizeof path, "/tmp/ph_torch_%ld_state", (long)getpid());
        assert_ok(ph_optimizer_save(x, path));
        assert_ok(ph_optimizer_load(y, path));
        assert_ok(ph_module_save(a.module, path));
        assert_ok(ph_module_load(b.module, path, true));
        assert_int_equal(unlink(path), 0);
        ph_graph *graph = oc_capture_step(&b, y);
        for (int i = 0; i < 3; i++) {
            oc_gradients(&a, 1);
            oc_gradients(&b, 1);
            assert_ok(oc_step(&a, x));
            assert_ok(ph_graph_replay(graph, b.scene.stream));
            expect_close(&b, &a, "a loaded state");
        }
        ph_graph_destroy(graph);
        ph_optimizer_destroy(x);
        ph_optimizer_destroy(y);
        oc_close(&a);
        oc_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph_optims),
        cmocka_unit_test(test_graph_optims_with_explicitly_capturable_param_groups),
        cmocka_unit_test(test_cpu_load_state_dict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
