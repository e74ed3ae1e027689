/* SPDX-License-Identifier: MIT */
/* tests/nn/skipped_steps.c: steps that the device skips, and gradients that a step divides: held
 * against an optimizer that never got those steps, or those factors, to the bit. */
#include "nn/optimizer/step.h"
#include "support/files.h"
#include "support/optimizer_check.h"
#include "support/test.h"
#include <math.h>

enum {
    STEPS = 12
};

/* SGD in all its forms, then Adam and AdamW. */
enum {
    SGD_RULES = 5,
    RULES = SGD_RULES + OC_ADAM_RULES
};
/* All of them at night, else those of SGD and some of Adam's. */
static unsigned after(unsigned number)
{
    return number + (number < SGD_RULES || t_nightly() ? 1 : 9);
}

static oc_rule rule_of(unsigned number)
{
    static const oc_rule sgd[SGD_RULES] = {
        {.lr = 0.1},
        {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1},
        {.lr = 0.1, .momentum = 0.9, .dampening = 0.5},
        {.lr = 0.1, .momentum = 0.9, .nesterov = true},
        {.lr = 0.1, .momentum = 0.9, .dampening = 0.25, .maximize = true}};
    return number < SGD_RULES ? sgd[number] : oc_adam_rule(number - SGD_RULES);
}

static ph_tensor *scalar(const oc_problem *p)
{
    ph_tensor *x;
    assert_ok(ph_tensor_create(&x, p->scene.device, PH_DTYPE_F32, PH_SCALAR));
    return x;
}

static void set(oc_problem *p, ph_tensor *x, float value)
{
    assert_ok(ph_tensor_write(p->scene.tape, x, &value, sizeof value));
}

typedef struct scaled {
    oc_problem *problem;
    ph_optimizer *optimizer;
    ph_tensor *grad_scale, *found_inf;
} scaled;

static ph_status step(ph_stream *stream, void *user)
{
    const scaled *s = user;
    ph_tape *tape = s->problem->scene.tape;
    (void)stream;
    ph__optimizer_step(tape, s->optimizer, s->grad_scale, s->found_inf, "test");
    return ph_tape_clear(tape);
}

static ph_graph *capture(scaled *s)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s->problem->scene.stream, NULL, step, s));
    return graph;
}

static void spoil_gradients(oc_problem *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (ph_tensor_grad(p->param[i].tensor))
            ph_tensor_fill(p->scene.tape, ph_tensor_grad(p->param[i].tensor), NAN);
}

static void expect_steps(oc_problem *p, ph_optimizer *optimizer, uint64_t want)
{
    uint64_t steps;
    assert_ok(ph_optimizer_steps(&steps, p->scene.tape, optimizer));
    assert_int_equal(steps, want);
}

/* Every third step is skipped, the first one too; the twin never hears of it. */
static void run_skipping(unsigned number, bool replays)
{
    oc_problem p, twin;
    oc_rule rule = rule_of(number);
    ph_graph *graph = NULL;
    uint64_t made = 0;
    char text[200];
    oc_describe(text, &rule);
    oc_open(&p, number % 2 ? PH_DTYPE_F64 : PH_DTYPE_F32, NULL, 0, number);
    oc_open(&twin, number % 2 ? PH_DTYPE_F64 : PH_DTYPE_F32, NULL, 0, number);
    ph_optimizer *a = oc_create(&rule, p.module), *b = oc_create(&rule, twin.module);
    scaled s = {&p, a, NULL, scalar(&p)};
    for (unsigned i = 0; i < STEPS; i++) {
        bool skip = i % 3 == 0;
        oc_gradients(&p, UINT64_MAX);
        if (skip) {
            p.rng = twin.rng;
            spoil_gradients(&p);
        }
        set(&p, s.found_inf, skip ? (float)(i + 1) : 0);
        if (replays && i == 1)
            graph = capture(&s);
        assert_ok(graph ? ph_graph_replay(graph, p.scene.stream) : step(NULL, &s));
        if (!skip) {
            oc_gradients(&twin, UINT64_MAX);
            assert_ok(oc_step(&twin, b));
            made++;
        }
        oc_equal(&p, &twin, text);
        expect_steps(&p, a, made);
    }
    ph_graph_destroy(graph);
    ph_tensor_release(s.found_inf);
    ph_optimizer_destroy(a);
    ph_optimizer_destroy(b);
    oc_close(&p);
    oc_close(&twin);
}

TEST(every_third_step_is_skipped_without_a_trace)
{
    for (unsigned number = 0; number < RULES; number = after(number))
        run_skipping(number, false);
}

TEST(test_skipped_in_replays)
{
    for (unsigned number = 0; number < RULES; number = after(number))
        if (!rule_of(number).not_capturable)
            run_skipping(number, true);
}

/* Gradients and scale by the same power of two: the quotient is exact. */
TEST(gradients_are_divided_by_the_scale_exactly)
{
    for (unsigned number = 0; number < RULES; number = after(number)) {
        oc_problem p, twin;
        oc_rule rule = rule_of(number);
        oc_open(&p, number % 2 ? PH_DTYPE_F64 : PH_DTYPE_F32, NULL, 0, number);
        oc_open(&twin, number % 2 ? PH_DTYPE_F64 : PH_DTYPE_F32, NULL, 0, number);
        ph_optimizer *a = oc_create(&rule, p.module), *b = oc_create(&rule, twin.module);
        scaled s = {&p, a, scalar(&p), NULL};
        for (unsigned i = 0; i < 4; i++) {
            oc_gradients(&p, UINT64_MAX);
            oc_gradients(&twin, UINT64_MAX);
            for (size_t k = 0; k < p.count; k++)
                ph_tensor_scale(p.scene.tape, ph_tensor_grad(p.param[k].tensor), 8 << i);
            set(&p, s.grad_scale, (float)(8 << i));
            assert_ok(step(NULL, &s));
            assert_ok(oc_step(&twin, b));
            oc_equal(&p, &twin, "divided");
        }
        ph_tensor_release(s.grad_scale);
        ph_optimizer_destroy(a);
        ph_optimizer_destroy(b);
        oc_close(&p);
        oc_close(&twin);
    }
}

/* A first step that was skipped leaves no state in a file, and is the first one still when it
 * comes back. */
TEST(a_skipped_first_step_leaves_no_state_in_a_file)
{
    oc_problem p, twin;
    oc_rule rule = rule_of(2);
    t_folder folder;
    t_folder_open(&folder);
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 5);
    oc_open(&twin, PH_DTYPE_F32, NULL, 0, 5);
    ph_optimizer *a = oc_create(&rule, p.module), *b = oc_create(&rule, twin.module);
    scaled s = {&p, a, NULL, scalar(&p)};
    set(&p, s.found_inf, 1);
    oc_gradients(&p, UINT64_MAX);
    assert_ok(step(NULL, &s));
    assert_ok(ph_optimizer_save(a, t_inside(&folder, "state")));
    set(&p, s.found_inf, 0);
    assert_ok(step(NULL, &s));
    assert_ok(ph_optimizer_load(a, t_inside(&folder, "state")));
    p.rng = twin.rng;
    assert_ok(ph_module_save(twin.module, t_inside(&folder, "state")));
    assert_ok(ph_module_load(p.module, t_inside(&folder, "state"), true));
    for (int i = 0; i < 3; i++) {
        oc_gradients(&p, UINT64_MAX);
        oc_gradients(&twin, UINT64_MAX);
        assert_ok(step(NULL, &s));
        assert_ok(oc_step(&twin, b));
        oc_equal(&p, &twin, "loaded");
    }
    ph_tensor_release(s.found_inf);
    ph_optimizer_destroy(a);
    ph_optimizer_destroy(b);
    oc_close(&p);
    oc_close(&twin);
    t_folder_close(&folder, (const char *const[]){"state"}, 1);
}

/* An optimizer whose only step was skipped can be captured, and so can another one that loads its
 * state. The first replay is the first step. */
static void load_and_capture(t_folder *folder, unsigned number)
{
    oc_problem p, twin;
    oc_rule rule = rule_of(number);
    char text[200];
    oc_describe(text, &rule);
    oc_open(&p, PH_DTYPE_F32, NULL, 0, number);
    oc_open(&twin, PH_DTYPE_F32, NULL, 0, number);
    ph_optimizer *a = oc_create(&rule, p.module), *b = oc_create(&rule, twin.module);
    scaled s = {&p, a, NULL, scalar(&p)};
    set(&p, s.found_inf, 1);
    oc_gradients(&p, UINT64_MAX);
    p.rng = twin.rng;
    assert_ok(step(NULL, &s));
    ph_graph_destroy(capture(&s));
    assert_ok(ph_optimizer_save(a, t_inside(folder, "state")));
    ph_optimizer_destroy(a);
    s.optimizer = a = oc_create(&rule, p.module);
    assert_ok(ph_optimizer_load(a, t_inside(folder, "state")));
    set(&p, s.found_inf, 0);
    ph_graph *graph = capture(&s);
    for (unsigned i = 0; i < 3; i++) {
        oc_gradients(&p, UINT64_MAX);
        oc_gradients(&twin, UINT64_MAX);
        assert_ok(ph_graph_replay(graph, p.scene.stream));
        assert_ok(oc_step(&twin, b));
        oc_equal(&p, &twin, text);
        expect_steps(&p, a, i + 1);
    }
    ph_graph_destroy(graph);
    ph_tensor_release(s.found_inf);
    ph_optimizer_destroy(a);
    ph_optimizer_destroy(b);
    oc_close(&p);
    oc_close(&twin);
}

TEST(a_capture_after_load_needs_no_eager_step_where_the_saved_one_needed_none)
{
    t_folder folder;
    t_folder_open(&folder);
    for (unsigned number = 0; number < RULES; number = after(number))
        if (!rule_of(number).not_capturable)
            load_and_capture(&folder, number);
    t_folder_close(&folder, (const char *const[]){"state"}, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_third_step_is_skipped_without_a_trace),
        cmocka_unit_test(test_skipped_in_replays),
        cmocka_unit_test(gradients_are_divided_by_the_scale_exactly),
        cmocka_unit_test(a_skipped_first_step_leaves_no_state_in_a_file),
        cmocka_unit_test(a_capture_after_load_needs_no_eager_step_where_the_saved_one_needed_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
