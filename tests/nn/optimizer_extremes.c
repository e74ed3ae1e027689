/* SPDX-License-Identifier: MIT */
/* tests/nn/optimizer_extremes.c: parameters and gradients at the ends of their dtype; states
 * without a step, loaded under graphs. */
#include "support/files.h"
#include "support/optimizer_check.h"
#include "support/test.h"
#include <math.h>

/* Of every kind one without weight decay, and one with dampening. */
static const oc_rule rules[] = {
    {.kind = OC_SGD, .lr = 0.1},
    {.kind = OC_SGD, .lr = 0.1, .momentum = 0.9, .nesterov = true},
    {.kind = OC_SGD, .lr = 0.1, .momentum = 0.9, .dampening = 0.5},
    {.kind = OC_ADAM, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8},
    {.kind = OC_ADAM, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .amsgrad = true},
    {.kind = OC_ADAMW, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8},
    {.kind = OC_RMSPROP, .lr = 0.1, .alpha = 0.9, .eps = 1e-8, .momentum = 0.9},
    {.kind = OC_RMSPROP, .lr = 0.1, .alpha = 0.9, .eps = 1e-8, .centered = true},
    {.kind = OC_NADAM, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8},
    {.kind = OC_RADAM, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.5, .eps = 1e-8},
    {.kind = OC_ADAMAX, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8},
    {.kind = OC_ADADELTA, .lr = 0.1, .alpha = 0.9, .eps = 1e-6},
    {.kind = OC_ADAGRAD, .lr = 0.1, .initial = 0.5, .eps = 1e-8},
    {.kind = OC_ASGD, .lr = 0.1, .lambd = 1e-4, .alpha = 0.75, .t0 = 2},
    {.kind = OC_RPROP, .lr = 0.1, .less = 0.5, .more = 1.2, .least = 1e-6, .most = 50},
    {.kind = OC_LION, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.99}};
enum {
    RULES = sizeof rules / sizeof rules[0]
};
static const ph_shape shapes[] = {{1, {6}}, {1, {40}}};

/* A weight decay of none is no product of 0 and an infinity (a mask of -INFINITY, say). */
TEST(infinite_parameters_stay_infinite_without_weight_decay)
{
    for (size_t k = 0; k < 2 * (size_t)RULES; k++) {
        oc_problem p;
        char text[200];
        ph_dtype dtype = k % 2 ? PH_DTYPE_F64 : PH_DTYPE_F32;
        oc_open(&p, dtype, shapes, 1, k);
        ph_optimizer *optimizer = oc_create(&rules[k / 2], p.module);
        oc_describe(text, &rules[k / 2]);
        ph_tensor_fill(p.scene.tape, ph_detach(p.scene.tape, p.param[0].tensor), -INFINITY);
        for (int i = 0; i < 3; i++) {
            double got;
            oc_gradients(&p, UINT64_MAX);
            assert_ok(oc_step(&p, optimizer));
            ph_tensor *largest = ph_max(p.scene.tape, ph_detach(p.scene.tape, p.param[0].tensor));
            assert_ok(ph_tensor_item(&got, p.scene.tape, largest));
            if (!(got == -INFINITY))
                fail_msg("%s, step %d: %g", text, i, got);
        }
        ph_optimizer_destroy(optimizer);
        oc_close(&p);
    }
}

/* The square of a gradient overflows: the step is divided by an infinity, and is none. */
TEST(a_step_divided_by_an_infinite_moment_changes_nothing)
{
    oc_problem p;
    oc_rule rule = {.kind = OC_RMSPROP, .lr = 0.1, .alpha = 0.9, .eps = 1e-8, .centered = true};
    oc_open(&p, PH_DTYPE_F32, shapes, 1, 3);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    for (int i = 0; i < 3; i++) {
        oc_gradients(&p, UINT64_MAX);
        ph_tensor_fill(p.scene.tape, ph_tensor_grad(p.param[0].tensor), 3e28);
        assert_ok(oc_step(&p, optimizer));
        oc_compare(&p, 0, "an infinite variance");
    }
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

/* With betas of 0 a step has the gradient's sign and the rate's size, whatever came before. */
TEST(no_moment_is_left_of_a_large_gradient_where_the_betas_are_0)
{
    static const oc_kind kinds[] = {OC_ADAM, OC_ADAMW, OC_ADAMAX};
    static const double gradients[] = {1e6, 1e-2, -3e5, 2e-2, -1e-2};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        oc_problem p;
        oc_rule rule = {.kind = kinds[k], .lr = 0.125, .eps = 1e-8};
        oc_open(&p, PH_DTYPE_F32, shapes, 1, k);
        ph_optimizer *optimizer = oc_create(&rule, p.module);
        oc_gradients(&p, UINT64_MAX);
        for (size_t i = 0; i < sizeof gradients / sizeof gradients[0]; i++) {
            oc_param *x = &p.param[0];
            ph_tensor_fill(p.scene.tape, ph_tensor_grad(x->tensor), gradients[i]);
            for (int64_t e = 0; e < x->count; e++)
                x->at[e] -= gradients[i] > 0 ? 0.125 : -0.125;
            assert_ok(oc_step(&p, optimizer));
            oc_compare(&p, 1e-5, "betas of 0");
        }
        ph_optimizer_destroy(optimizer);
        oc_close(&p);
    }
}

/* ---- states without a step ---- */
static void copy_parameters(oc_problem *to, oc_problem *from)
{
    double values[40];
    for (size_t i = 0; i < from->count; i++) {
        ph_tensor *x = from->param[i].tensor;
        assert_ok(ph_tensor_read(from->scene.tape, x, values, ph_tensor_bytes(x)));
        assert_ok(ph_tensor_write(to->scene.tape, to->param[i].tensor, values, ph_tensor_bytes(x)));
    }
    to->rng = from->rng;
}

/* An optimizer that has stepped, and whose step a graph has, goes back to before its first one. */
TEST(a_state_without_a_step_makes_the_next_replay_the_first)
{
    t_folder folder;
    t_folder_open(&folder);
    for (size_t k = 0; k < 2 * (size_t)RULES; k++) {
        oc_problem a, b;
        char text[200];
        oc_open(&a, PH_DTYPE_F64, shapes, 2, 60);
        oc_open(&b, PH_DTYPE_F64, shapes, 2, 60);
        ph_optimizer *x = oc_create(&rules[k / 2], a.module);
        ph_optimizer *y = oc_create(&rules[k / 2], b.module);
        oc_describe(text, &rules[k / 2]);
        assert_ok(ph_optimizer_save(x, t_inside(&folder, "state")));
        oc_gradients(&b, UINT64_MAX);
        if (k % 2 == 0) {
            assert_ok(oc_step(&b, y));
        } else { /* its state comes from a file */
            ph_optimizer *other = oc_create(&rules[k / 2], b.module);
            assert_ok(oc_step(&b, other));
            assert_ok(ph_optimizer_save(other, t_inside(&folder, "begun")));
            assert_ok(ph_optimizer_load(y, t_inside(&folder, "begun")));
            ph_optimizer_destroy(other);
        }
        ph_graph *graph = oc_capture_step(&b, y);
        assert_ok(ph_graph_replay(graph, b.scene.stream));
        assert_ok(ph_optimizer_load(y, t_inside(&folder, "state")));
        copy_parameters(&b, &a);
        for (int i = 0; i < 4; i++) {
            oc_gradients(&a, UINT64_MAX);
            oc_gradients(&b, UINT64_MAX);
            assert_ok(oc_step(&a, x));
            assert_ok(ph_graph_replay(graph, b.scene.stream));
            oc_equal(&a, &b, text);
        }
        ph_graph_destroy(graph);
        ph_optimizer_destroy(x);
        ph_optimizer_destroy(y);
        oc_close(&a);
        oc_close(&b);
    }
    t_folder_close(&folder, (const char *const[]){"state", "begun"}, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(infinite_parameters_stay_infinite_without_weight_decay),
        cmocka_unit_test(a_step_divided_by_an_infinite_moment_changes_nothing),
        cmocka_unit_test(no_moment_is_left_of_a_large_gradient_where_the_betas_are_0),
        cmocka_unit_test(a_state_without_a_step_makes_the_next_replay_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
