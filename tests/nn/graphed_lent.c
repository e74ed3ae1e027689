/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_lent.c: gradients that one callable lends to the one before it
 * (PH_GRAPHED_BORROW), which a replay in between may overwrite. */
#include "support/graphed_nets.h"
#include "support/test.h"

/* y = tanh(1.5 tanh(1.5 tanh(1.5 x))) weight: what backward gives lies where the next forward
 * works. */
static void deep_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    ph_tensor *h = in[0];
    for (int i = 0; i < 3; i++)
        h = ph_tanh(tape, ph_mul_scalar(tape, h, 1.5));
    out[0] = ph_mul(tape, h, ((const t_scale *)self)->weight);
}

typedef struct replaying {
    ph_module *callable;
    ph_tensor *x;
} replaying;

/* A hook that replays a forward between two backwards. */
static ph_tensor *replay_between(ph_tape *tape, ph_tensor *grad, void *user)
{
    const replaying *r = user;
    bool enabled = ph_tape_set_grad_enabled(tape, false);
    (void)ph_call(tape, r->callable, r->x);
    (void)ph_tape_set_grad_enabled(tape, enabled);
    return grad;
}

typedef struct pair {
    t_scene s;
    t_scale self[2];
    ph_tensor *x, *other;
    ph_module *plain[2], *graphed[2];
} pair;

static void pair_open(pair *p, ph_graphed_inputs inputs)
{
    ph_sample samples[2];
    t_scene_open(&p->s);
    p->x = gn_sample(&p->s, PH_SHAPE(8, 8), true);
    p->other = gn_sample(&p->s, PH_SHAPE(8, 8), false);
    for (int i = 0; i < 2; i++) {
        p->self[i].weight = gn_sample(&p->s, PH_SHAPE(8, 8), true);
        const ph_parameter weight = {"weight", &p->self[i].weight};
        const ph_module_desc desc = {.name = i ? "second" : "first",
                                     .forward = deep_forward,
                                     .self = &p->self[i],
                                     .parameters = &weight,
                                     .parameter_count = 1};
        assert_ok(ph_module_create(&p->plain[i], p->s.device, &desc));
        samples[i] = (ph_sample){.tensors = &p->x, .count = 1};
    }
    assert_ok(ph_make_graphed_callables(
        p->graphed, p->plain, samples, 2,
        &(ph_graphed_options){.gradients = PH_GRAPHED_BORROW, .inputs = inputs}));
}

static void pair_zero(pair *p)
{
    assert_ok(ph_tape_clear(p->s.tape));
    t_zero_grad(p->x);
    for (int i = 0; i < 2; i++)
        t_zero_grad(p->self[i].weight);
}

static void pair_close(pair *p)
{
    pair_zero(p);
    for (int i = 0; i < 2; i++) {
        ph_module_release(p->graphed[i]);
        ph_module_release(p->plain[i]);
        ph_tensor_release(p->self[i].weight);
    }
    ph_tensor_release(p->x);
    ph_tensor_release(p->other);
    t_scene_close(&p->s);
}

/* The gradient that the second lends to the first is gone when the first reads it; without a replay
 * in between it is right. */
TEST(a_borrowed_gradient_is_refused_to_the_callable_before)
{
    for (int inputs = PH_GRAPHED_AUTO; inputs <= PH_GRAPHED_COPY_INPUTS; inputs++) {
        pair p;
        ph_tensor_hook *hook;
        pair_open(&p, (ph_graphed_inputs)inputs);
        ph_tape *t = p.s.tape;
        ph_backward(t, ph_sum(t, ph_call(t, p.plain[1], ph_call(t, p.plain[0], p.x))));
        ph_tensor *want = ph_tensor_retain(ph_tensor_grad(p.x));
        pair_zero(&p);
        ph_backward(t, ph_sum(t, ph_call(t, p.graphed[1], ph_call(t, p.graphed[0], p.x))));
        gn_expect_same(&p.s, ph_tensor_grad(p.x), want, "a borrowed gradient of a chain");
        pair_zero(&p);

        replaying r = {p.graphed[1], p.other};
        ph_tensor *y = ph_call(t, p.graphed[0], p.x);
        assert_ok(ph_tensor_hook_add(&hook, y, replay_between, &r));
        ph_backward(t, ph_sum(t, ph_call(t, p.graphed[1], y)));
        assert_error(ph_tape_status(t), PH_ERROR_OVERWRITTEN,
                     "backward of the graphed callable 'first': the gradient of output [0] "
                     "(f32[8, 8]) was overwritten: a gradient of call 2 of the graphed callable "
                     "'second'");
        t_expect_failure(&p.s, PH_ERROR_OVERWRITTEN, "call 3 of 'second'");
        assert_null(ph_tensor_grad(p.x));
        ph_tensor_hook_remove(hook);
        ph_tensor_release(want);
        pair_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_borrowed_gradient_is_refused_to_the_callable_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
