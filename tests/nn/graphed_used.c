/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_used.c: losses that use some of a graphed callable's outputs: gradients are
 * those of the module, to the bit, and there are none where the module gives none. */
#include "support/branches.h"
#include "support/test.h"
#include <stdio.h>

/* One step of both, from equal inputs and parameters. */
static void step(const t_scene *s, side *plain, side *source, ph_module *graphed, unsigned used,
                 uint64_t seed)
{
    char what[64];
    (void)snprintf(what, sizeof what, "outputs 0x%x, round %u", used, (unsigned)seed);
    new_inputs(s, plain, seed);
    new_inputs(s, source, seed);
    backward_of(s, plain, plain->module, used);
    backward_of(s, source, graphed, used);
    gn_expect_same_parameters(s, graphed, plain->module, what);
    for (int i = 0; i < 2; i++) {
        if (!ph_tensor_grad(plain->in[i]) != !ph_tensor_grad(source->in[i]))
            fail_msg("%s: the gradient of input %d is there or not", what, i);
        if (ph_tensor_grad(plain->in[i]))
            gn_expect_same(s, ph_tensor_grad(source->in[i]), ph_tensor_grad(plain->in[i]), what);
    }
    side *const both[] = {plain, source};
    for (int i = 0; i < 2; i++) {
        ph_optimizer_step(s->tape, both[i]->sgd);
        ph_optimizer_zero_grad(s->tape, both[i]->sgd);
        drop_inputs(both[i]);
    }
    assert_ok(ph_tape_clear(s->tape));
}

static void try_all(ph_graphed_gradients gradients, ph_graphed_inputs inputs, bool live)
{
    t_scene s;
    side plain, source;
    t_scene_open(&s);
    side_open(&s, &plain);
    side_open(&s, &source);
    new_inputs(&s, &source, 9);
    const ph_graphed_options options = {.gradients = gradients,
                                        .inputs = inputs,
                                        .check_input_liveness = live,
                                        .max_backwards = ALL};
    ph_module *graphed = gn_graph(source.module, source.in, 2, &options);
    drop_inputs(&source);
    assert_ok(ph_tape_clear(s.tape));
    for (uint64_t round = 0; round < 2; round++)
        for (unsigned used = 1; used <= ALL; used++) {
            step(&s, &plain, &source, graphed, used, 20 * round + used);
            assert_int_equal(gn_info(graphed).backwards, round || used == ALL ? ALL : used + 1);
        }
    assert_int_equal(gn_info(graphed).backward_calls, 2 * ALL);
    ph_module_release(graphed);
    side_close(&plain);
    side_close(&source);
    t_scene_close(&s);
}

TEST(test_all_sets)
{
    for (int gradients = PH_GRAPHED_COPY; gradients <= PH_GRAPHED_BORROW; gradients++)
        for (int inputs = PH_GRAPHED_AUTO; inputs <= PH_GRAPHED_COPY_INPUTS; inputs++)
            for (int live = 0; live < 2; live++)
                try_all((ph_graphed_gradients)gradients, (ph_graphed_inputs)inputs, live);
}

/* ---- what PyTorch's zeros would do ---- */
static void log_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = ph_log(tape, in[0]);
    out[1] = ph_mul_scalar(tape, in[0], 3);
}

TEST(test_no_zeros)
{
    t_scene s;
    t_scene_open(&s);
    ph_module *plain = gn_function(&s, "two", log_forward, NULL, 1, 2);
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 0, 0), *out[2];
    ph_module *graphed = gn_graph_one(plain, x, NULL);
    ph_call_n(s.tape, graphed, out, 2, &x, 1);
    ph_backward(s.tape, ph_sum(s.tape, out[1]));
    t_expect_grad(&s, x, 3, 3); /* with 0 for the other output it were 0 / 0 + 3 */
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    ph_module_release(graphed);
    ph_module_release(plain);
    t_scene_close(&s);
}

TEST(test_parameter_of_the_other)
{
    for (int gradients = PH_GRAPHED_COPY; gradients <= PH_GRAPHED_BORROW; gradients++) {
        bench b;
        ph_optimizer *adamw;
        float before[SIZE], after[SIZE];
        bench_open(&b, &(ph_graphed_options){.gradients = (ph_graphed_gradients)gradients});
        assert_ok(
            ph_adamw_create(&adamw, b.graphed, &(ph_adam_options){.lr = 0.1, .weight_decay = 0.1}));
        assert_ok(ph_tensor_read(b.s.tape, b.side.self.b, before, sizeof before));
        backward_of(&b.s, &b.side, b.graphed, 1u << 3); /* x h: b and c take no part */
        assert_non_null(ph_tensor_grad(b.side.self.a));
        assert_null(ph_tensor_grad(b.side.self.b));
        assert_null(ph_tensor_grad(b.side.self.c));
        assert_null(ph_tensor_grad(b.side.in[1]));
        ph_optimizer_step(b.s.tape, adamw);
        assert_ok(ph_tensor_read(b.s.tape, b.side.self.b, after, sizeof after));
        assert_memory_equal(before, after, sizeof before);
        ph_optimizer_destroy(adamw);
        bench_close(&b);
    }
}

/* An output has a history where the module's has one: not through inputs that require no gradient
 * this time. */
TEST(an_output_has_a_history_where_the_module_gives_one)
{
    bench b;
    bench_open(&b, NULL);
    for (unsigned which = 0; which < 4; which++) {
        ph_tensor *in[2], *want[OUTPUTS], *got[OUTPUTS];
        for (unsigned i = 0; i < 2; i++)
            in[i] = which & 1u << i ? b.side.in[i] : ph_detach(b.s.tape, b.side.in[i]);
        ph_call_n(b.s.tape, b.side.module, want, OUTPUTS, in, 2);
        ph_call_n(b.s.tape, b.graphed, got, OUTPUTS, in, 2);
        for (int i = 0; i < OUTPUTS; i++)
            assert_int_equal(ph_tensor_requires_grad(got[i]), ph_tensor_requires_grad(want[i]));
        assert_int_equal(ph_tensor_requires_grad(got[2]), (which & 2) != 0);
        bench_zero(&b);
    }
    /* Nothing can come from output 2: the loss uses all that there is, and the two others. */
    ph_tensor *out[OUTPUTS], *in[2] = {b.side.in[0], ph_detach(b.s.tape, b.side.in[1])};
    ph_call_n(b.s.tape, b.side.module, out, OUTPUTS, in, 2);
    ph_backward(b.s.tape, loss_of(&b.s, out, ALL));
    grads want = take_grads(&b);
    in[1] = ph_detach(b.s.tape, b.side.in[1]);
    ph_call_n(b.s.tape, b.graphed, out, OUTPUTS, in, 2);
    ph_backward(b.s.tape, loss_of(&b.s, out, ALL));
    expect_grads(&b, want, "an input without a gradient");
    bench_close(&b);
}

/* ---- passes ---- two losses of one call, with retain_graph, in either order; and sums in the
 * leaves. */
TEST(test_two_losses)
{
    for (int gradients = PH_GRAPHED_COPY; gradients <= PH_GRAPHED_BORROW; gradients++)
        for (unsigned first = 1; first < ALL; first += 2) {
            bench b;
            ph_tensor *out[OUTPUTS];
            bench_open(&b, &(ph_graphed_options){.gradients = (ph_graphed_gradients)gradients});
            grads want = wanted(&b, first, ALL & ~first);
            ph_call_n(b.s.tape, b.graphed, out, OUTPUTS, b.side.in, 2);
            ph_tensor *one = loss_of(&b.s, out, first), *two = loss_of(&b.s, out, ALL & ~first);
            ph_backward_from(b.s.tape, &one, NULL, 1, &(ph_backward_options){.retain_graph = true});
            ph_backward(b.s.tape, two);
            assert_ok(ph_tape_status(b.s.tape));
            expect_grads(&b, want, "two losses");
            bench_close(&b);
        }
}

static ph_tensor *double_it(ph_tape *tape, ph_tensor *grad, void *user)
{
    ++*(int *)user;
    return ph_mul_scalar(tape, grad, 2);
}

/* Hooks that leaves have since see gradients of calls, and not the capture's. */
TEST(hooks_of_leaves_see_gradients_of_calls_alone)
{
    bench b;
    int runs = 0;
    ph_tensor_hook *hook;
    bench_open(&b, NULL);
    assert_ok(ph_tensor_hook_add(&hook, b.side.self.a, double_it, &runs));
    for (int i = 1; i <= 2; i++) {
        grads want = wanted(&b, 1, 0);
        runs = 0;
        backward_of(&b.s, &b.side, b.graphed, 1);
        assert_int_equal(runs, 1);
        expect_grads(&b, want, "with a hook");
    }
    ph_tensor_hook_remove(hook);
    bench_close(&b);
}

/* ---- one pool, several callables ---- a capture in between leaves alone what the others have
 * saved. */
TEST(test_shared_pool)
{
    t_scene s;
    side plain, source;
    ph_module *graphed[2];
    t_scene_open(&s);
    side_open(&s, &plain);
    side_open(&s, &source);
    new_inputs(&s, &plain, 3);
    new_inputs(&s, &source, 3);
    ph_module *copy;
    const ph_parameter parameters[PARAMETERS] = {
        {"a", &source.self.a}, {"b", &source.self.b}, {"c", &source.self.c}};
    const ph_module_desc desc = {.name = "again",
                                 .forward = branches_forward,
                                 .self = &source.self,
                                 .in_count = 2,
                                 .out_count = OUTPUTS,
                                 .parameters = parameters,
                                 .parameter_count = PARAMETERS};
    assert_ok(ph_module_create(&copy, s.device, &desc));
    const ph_sample samples[2] = {{.tensors = source.in, .count = 2},
                                  {.tensors = source.in, .count = 2}};
    assert_ok(
        ph_make_graphed_callables(graphed, (ph_module *[]){source.module, copy}, samples, 2, NULL));
    for (unsigned round = 0; round < 2; round++)
        for (unsigned used = 1; used < ALL; used += 3) {
            ph_tensor *want[2][OUTPUTS], *got[2][OUTPUTS];
            for (int i = 0; i < 2; i++) {
                ph_call_n(s.tape, plain.module, want[i], OUTPUTS, plain.in, 2);
                ph_call_n(s.tape, graphed[i], got[i], OUTPUTS, source.in, 2);
            }
            for (int i = 2;
                 i-- >
                 0;) { /* the second first: what it captures comes before the other's backward */
                unsigned of = i ? used : ALL;
                ph_backward(s.tape, loss_of(&s, want[i], of));
                ph_backward(s.tape, loss_of(&s, got[i], of));
                gn_expect_same_parameters(&s, source.module, plain.module, "in one pool");
            }
            for (int i = 0; i < OUTPUTS; i++)
                gn_expect_same(&s, got[0][i], want[0][i], "outputs of the first");
            ph_module_zero_grad(plain.module);
            ph_module_zero_grad(source.module);
            assert_ok(ph_tape_clear(s.tape));
        }
    drop_inputs(&plain);
    drop_inputs(&source);
    ph_module_release(graphed[0]);
    ph_module_release(graphed[1]);
    ph_module_release(copy);
    side_close(&plain);
    side_close(&source);
    t_scene_close(&s);
}

/* ---- functions that run again ---- */
static void checkpointed_part(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    const branches *me = user;
    out[0] = ph_sigmoid(tape, ph_mul(tape, in[0], me->a));
}

static void checkpointed_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    ph_tensor *h;
    const branches *me = self;
    ph_checkpoint(tape, checkpointed_part, self, &h, 1, in, 1);
    out[0] = ph_mul(tape, h, me->b);
    out[1] = ph_mul(tape, h, in[0]);
}

/* Parameters have changed in place since the capture, and are others' values in the second run. */
TEST(a_checkpoint_inside_runs_again_with_the_values_of_now)
{
    t_scene s;
    branches me;
    t_scene_open(&s);
    me.a = t_leaf(&s, PH_SHAPE(2), 0.5f, 0.25f);
    me.b = t_leaf(&s, PH_SHAPE(2), 2, 3);
    const ph_parameter parameters[] = {{"a", &me.a}, {"b", &me.b}};
    const ph_module_desc desc = {.name = "checkpointed",
                                 .forward = checkpointed_forward,
                                 .self = &me,
                                 .out_count = 2,
                                 .parameters = parameters,
                                 .parameter_count = 2};
    ph_module *plain;
    assert_ok(ph_module_create(&plain, s.device, &desc));
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 1, -1), *out[2], *want[2];
    ph_module *graphed = gn_graph_one(plain, x, NULL);
    (void)ph_tape_set_grad_enabled(s.tape, false);
    ph_tensor_fill(s.tape, me.a, 0.75);
    (void)ph_tape_set_grad_enabled(s.tape, true);
    for (int i = 0; i < 2; i++) {
        ph_call_n(s.tape, i ? graphed : plain, out, 2, &x, 1);
        ph_backward(s.tape, ph_sum(s.tape, out[1]));
        assert_ok(ph_tape_status(s.tape));
        assert_null(ph_tensor_grad(me.b));
        if (i == 0)
            for (int k = 0; k < 2; k++)
                want[k] = ph_tensor_retain(ph_tensor_grad(k ? x : me.a));
        gn_expect_same(&s, ph_tensor_grad(me.a), want[0], "the checkpointed parameter");
        gn_expect_same(&s, ph_tensor_grad(x), want[1], "the input");
        t_zero_grad(me.a);
        t_zero_grad(x);
        assert_ok(ph_tape_clear(s.tape));
    }
    /* Another run of it would be another: the mode is not that of the making. */
    ph_call_n(s.tape, graphed, out, 2, &x, 1);
    ph_tensor *loss = ph_sum(s.tape, out[0]);
    ph_module_train(plain, false);
    ph_backward(s.tape, loss);
    t_expect_failure(&s, PH_ERROR_STATE, "checkpointed function would run again");
    ph_module_train(plain, true);
    ph_tensor *const made[] = {want[0], want[1], x, me.a, me.b};
    for (int i = 0; i < 5; i++)
        ph_tensor_release(made[i]);
    ph_module_release(graphed);
    ph_module_release(plain);
    t_scene_close(&s);
}

/* ---- mixed precision ---- casts of the forward are a part of the history. */
static void products_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const branches *me = self;
    ph_tensor *h = ph_matmul(tape, in[0], me->a);
    out[0] = ph_matmul(tape, ph_tanh(tape, h), me->b);
    out[1] = ph_square(tape, h);
}

TEST(gradients_of_unused_outputs_are_right_under_autocast)
{
    t_scene s;
    branches me;
    ph_module *plain;
    t_scene_open(&s);
    const ph_autocast half = {.dtype = PH_DTYPE_F16, .no_cache = true};
    const ph_parameter parameters[] = {{"a", &me.a}, {"b", &me.b}};
    for (uint64_t i = 0; i < 2; i++)
        *parameters[i].tensor = ph_tensor_retain(gn_random(&s, PH_SHAPE(8, 8), i));
    const ph_module_desc desc = {.name = "products",
                                 .forward = products_forward,
                                 .self = &me,
                                 .out_count = 2,
                                 .parameters = parameters,
                                 .parameter_count = 2};
    assert_ok(ph_tape_clear(s.tape));
    assert_ok(ph_module_create(&plain, s.device, &desc));
    ph_tensor *x = gn_sample(&s, PH_SHAPE(8, 8), true), *out[2], *want[3] = {NULL};
    ph_module *graphed = gn_graph_one(plain, x, &(ph_graphed_options){.autocast = half});
    (void)ph_tape_set_autocast(s.tape, half);
    for (int used = 0; used < 2; used++)
        for (int round = 0; round < 2; round++) { /* the module, and the callable */
            ph_tensor *const leaves[3] = {me.a, me.b, x};
            ph_call_n(s.tape, round ? graphed : plain, out, 2, &x, 1);
            ph_backward(s.tape, ph_sum(s.tape, out[used]));
            assert_ok(ph_tape_status(s.tape));
            for (int i = 0; i < 3; i++) {
                ph_tensor *grad = ph_tensor_grad(leaves[i]);
                if (round == 0)
                    want[i] = ph_tensor_retain(grad);
                assert_int_equal(grad != NULL, want[i] != NULL);
                if (round == 1 && grad)
                    gn_expect_same(&s, grad, want[i], "under autocast");
                if (round == 1)
                    ph_tensor_release(want[i]);
                t_zero_grad(leaves[i]);
            }
            assert_ok(ph_tape_clear(s.tape));
        }
    assert_int_equal(gn_info(graphed).backwards, 3);
    ph_tensor *const made[] = {me.a, me.b, x};
    for (int i = 0; i < 3; i++)
        ph_tensor_release(made[i]);
    ph_module_release(graphed);
    ph_module_release(plain);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_sets),
        cmocka_unit_test(test_no_zeros),
        cmocka_unit_test(an_output_has_a_history_where_the_module_gives_one),
        cmocka_unit_test(test_parameter_of_the_other),
        cmocka_unit_test(test_two_losses),
        cmocka_unit_test(hooks_of_leaves_see_gradients_of_calls_alone),
        cmocka_unit_test(test_shared_pool),
        cmocka_unit_test(a_checkpoint_inside_runs_again_with_the_values_of_now),
        cmocka_unit_test(gradients_of_unused_outputs_are_right_under_autocast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
