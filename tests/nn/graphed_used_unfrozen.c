/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_used_unfrozen.c: parameters that require no gradient during the backward which
 * captures a graph for some outputs alone, and require one again in later backwards of these. */
#include "support/branches.h"
#include "support/test.h"

/* Backward of those outputs, with one parameter frozen between forward and backward. */
static void backward_frozen(bench *b, ph_module *module, ph_tensor *frozen, unsigned used)
{
    ph_tensor *out[OUTPUTS];
    ph_call_n(b->s.tape, module, out, OUTPUTS, b->side.in, 2);
    ph_tensor *loss = loss_of(&b->s, out, used);
    assert_ok(ph_tensor_set_requires_grad(frozen, false));
    ph_backward(b->s.tape, loss);
    assert_ok(ph_tensor_set_requires_grad(frozen, true));
    assert_ok(ph_tape_status(b->s.tape));
}

static void expect_right_frozen(bench *b, ph_tensor *frozen, unsigned used, const char *what)
{
    backward_frozen(b, b->side.module, frozen, used);
    grads want = take_grads(b);
    backward_frozen(b, b->graphed, frozen, used);
    expect_grads(b, want, what);
}

TEST(a_parameter_that_was_frozen_at_the_capture_has_its_gradient_later)
{
    for (int gradients = PH_GRAPHED_COPY; gradients <= PH_GRAPHED_BORROW; gradients++)
        for (unsigned used = 1; used <= ALL; used++) {
            bench b;
            bench_open(&b, &(ph_graphed_options){.gradients = (ph_graphed_gradients)gradients});
            ph_tensor *const parameters[] = {b.side.self.a, b.side.self.b, b.side.self.c};
            ph_tensor *frozen = parameters[used % PARAMETERS];
            expect_right_frozen(&b, frozen, used, "while it is frozen");
            size_t backwards = gn_info(b.graphed).backwards;
            expect_right(&b, used, "when it is not any more");
            expect_right_frozen(&b, frozen, used, "while it is frozen again");
            assert_int_equal(gn_info(b.graphed).backwards, backwards);
            bench_close(&b);
        }
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

/* The second run saves nothing for a gradient that nobody needs then. */
TEST(a_checkpoint_is_not_captured_with_another_set_of_parameters)
{
    t_scene s;
    branches me;
    ph_module *plain;
    ph_tensor *out[2], *want[2];
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
    assert_ok(ph_module_create(&plain, s.device, &desc));
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 1, -1);
    ph_module *graphed = gn_graph_one(plain, x, NULL);
    ph_call_n(s.tape, graphed, out, 2, &x, 1);
    ph_tensor *loss = ph_sum(s.tape, out[1]);
    assert_ok(ph_tensor_set_requires_grad(me.a, false));
    ph_backward(s.tape, loss);
    assert_ok(ph_tensor_set_requires_grad(me.a, true));
    t_expect_failure(&s, PH_ERROR_STATE, "whose parameters require other gradients");
    for (int i = 0; i < 2; i++) {
        ph_call_n(s.tape, i ? graphed : plain, out, 2, &x, 1);
        ph_backward(s.tape, ph_sum(s.tape, out[1]));
        assert_ok(ph_tape_status(s.tape));
        for (int k = 0; k < 2 && i == 0; k++)
            want[k] = ph_tensor_retain(ph_tensor_grad(k ? x : me.a));
        gn_expect_same(&s, ph_tensor_grad(me.a), want[0], "the checkpointed parameter");
        gn_expect_same(&s, ph_tensor_grad(x), want[1], "the input");
        t_zero_grad(me.a);
        t_zero_grad(x);
        assert_ok(ph_tape_clear(s.tape));
    }
    ph_tensor *const made[] = {want[0], want[1], x, me.a, me.b};
    for (int i = 0; i < 5; i++)
        ph_tensor_release(made[i]);
    ph_module_release(graphed);
    ph_module_release(plain);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parameter_that_was_frozen_at_the_capture_has_its_gradient_later),
        cmocka_unit_test(a_checkpoint_is_not_captured_with_another_set_of_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
