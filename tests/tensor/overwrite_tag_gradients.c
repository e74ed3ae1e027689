/* SPDX-License-Identifier: MIT */
/* tests/tensor/overwrite_tag_gradients.c: backward where memory was overwritten: saved values,
 * gradients that leaves borrow, and what a node is told of the leaves that its gradients go to. */
#include "support/overwritten.h"
#include "support/test.h"

static void multiply(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    (void)user;
    out[0] = ph_mul(tape, in[0], in[1]);
}

TEST(test_saved_values)
{
    t_scene s;
    t_owner o;
    t_scene_open(&s);
    t_owner_open(&o);
    ph_tensor *x = t_marked_on(&o, &s), *leaf = t_leaf(&s, PH_SHAPE(2, 2), 1, 1, 1, 1);
    const ph_backward_options retain = {.retain_graph = true};
    ph_tensor *loss = ph_sum(s.tape, ph_mul(s.tape, leaf, ph_transpose(s.tape, x, 0, 1)));
    ph_backward_from(s.tape, &loss, NULL, 1, &retain);
    t_expect_grad(&s, leaf, 1, 3, 2, 4);
    t_overwrite(&o);
    ph_backward(s.tape, loss);
    t_expect_failure(&s, PH_ERROR_OVERWRITTEN,
                     "backward of mul: a value that it saved (f32[2, 2]) was overwritten: call 7 "
                     "of step 3, by step 4");
    t_expect_grad(&s, leaf, 1, 3, 2, 4);
    ph_tensor_release(x);
    /* What a checkpoint would run again with. */
    ph_tensor *out;
    x = t_marked_on(&o, &s);
    ph_checkpoint(s.tape, multiply, NULL, &out, 1, (ph_tensor *[]){leaf, x}, 2);
    out = ph_sum(s.tape, out);
    t_overwrite(&o);
    ph_backward(s.tape, out);
    t_expect_failure(&s, PH_ERROR_OVERWRITTEN,
                     "checkpoint: input 1 of its second run (f32[2, 2]) was overwritten");
    ph_tensor_release(x);
    ph_tensor_release(leaf);
    t_owner_close(&o);
    t_scene_close(&s);
}

/* y = x, with a gradient of the test's choosing. */
typedef struct given {
    ph_tensor *grad;
    ph_tensor *const *want; /* leaves that are to be seen */
    bool accumulates;
    int calls;
} given;
typedef struct given_state {
    given *user;
} given_state;

static void given_backward(ph__grad_call *call)
{
    given *g = ((given_state *)call->state)->user;
    g->calls++;
    g->accumulates = call->accumulates;
    for (size_t i = 0; i < call->in_count; i++) {
        assert_ptr_equal(call->leaves[i], g->want[i]);
        call->in_grads[i] = g->grad;
    }
}
static const ph__grad_def given_grad = {"given", sizeof(given_state), given_backward, NULL};

static ph_tensor *apply(ph_tape *tape, ph_tensor *const *in, size_t count, given *g)
{
    ph__op op;
    assert_true(ph__op_begin(&op, tape, "given", in, count, count));
    ph_tensor *y = ph__op_output(&op, in[0]->dtype, &in[0]->shape);
    given_state *state = ph__op_track(&op, &given_grad, 0);
    assert_non_null(state);
    state->user = g;
    return ph__op_done(&op, y);
}

TEST(test_leaves_of_a_call)
{
    t_scene s;
    t_scene_open(&s);
    const ph_backward_options retain = {.retain_graph = true};
    ph_tensor *a = t_leaf(&s, PH_SHAPE(2, 2), 1, 1, 1, 1),
              *b = t_leaf(&s, PH_SHAPE(2, 2), 1, 1, 1, 1), *grad;
    ph_tensor *none = t_ones(s.tape), *made = ph_relu(s.tape, b);
    ph_tensor *in[] = {a, none, made, b}, *all[] = {a, NULL, NULL, b},
              *one[] = {NULL, NULL, NULL, b};
    given g = {.grad = none, .want = all};
    ph_tensor *y = apply(s.tape, in, 4, &g);
    ph_backward_from(s.tape, &y, &none, 1, &retain);
    assert_ok(ph_tape_status(s.tape));
    assert_true(g.accumulates);
    t_expect_grad(&s, a, 1, 1, 1, 1);
    t_expect_grad(&s, b, 2, 2, 2, 2);
    g.want = one;
    ph_grad(s.tape, &grad, &b, 1, &y, &none, 1, NULL);
    assert_ok(ph_tape_status(s.tape));
    assert_false(g.accumulates);
    assert_int_equal(g.calls, 2);
    t_expect_values(s.tape, grad, PH_SHAPE(2, 2), 2, 2, 2, 2);
    ph_tensor_release(a);
    ph_tensor_release(b);
    t_scene_close(&s);
}

static ph_tensor *same(ph_tape *tape, ph_tensor *grad, void *user)
{
    (void)tape;
    (void)user;
    return grad;
}

TEST(test_hooks_of_a_leaf)
{
    t_scene s;
    ph_tensor_hook *hook;
    t_scene_open(&s);
    ph_tensor *x;
    assert_ok(ph_tensor_create(&x, s.device, PH_DTYPE_F32, PH_SCALAR));
    assert_false(ph__leaf_has_hooks(x));
    assert_ok(ph_tensor_set_requires_grad(x, true));
    assert_false(ph__leaf_has_hooks(x));
    assert_ok(ph_tensor_hook_add(&hook, x, same, NULL));
    assert_true(ph__leaf_has_hooks(x));
    ph_tensor_hook_remove(hook);
    assert_false(ph__leaf_has_hooks(x));
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* A leaf without a gradient has it as it is; what comes to it later goes elsewhere. */
TEST(test_borrowed_gradients)
{
    t_scene s;
    t_owner o;
    t_scene_open(&s);
    t_owner_open(&o);
    ph_tensor *grad = t_marked_on(&o, &s), *a = t_leaf(&s, PH_SHAPE(2, 2), 1, 1, 1, 1),
              *b = t_leaf(&s, PH_SHAPE(2, 2), 1, 1, 1, 1), *in[] = {a, b};
    ph_tensor *one = t_ones(s.tape), *y;
    given g = {.grad = grad, .want = in};
    y = apply(s.tape, in, 2, &g);
    ph_backward_from(s.tape, &y, &one, 1, NULL);
    assert_ok(ph_tape_status(s.tape));
    assert_ptr_equal(ph_tensor_grad(a), grad);
    assert_ptr_equal(ph_tensor_grad(b), grad);
    t_zero_grad(b);
    y = ph_mul(s.tape, a, one);
    ph_backward_from(s.tape, &y, &one, 1, NULL);
    t_expect_grad(&s, a, 2, 3, 4, 5);
    assert_null(ph_tensor_grad(a)->overwrite_tag);
    t_expect_values(s.tape, grad, PH_SHAPE(2, 2), 1, 2, 3, 4);
    y = apply(s.tape, in, 2, &g); /* and one that has its own takes the sum */
    ph_backward_from(s.tape, &y, &one, 1, NULL);
    t_expect_grad(&s, a, 3, 5, 7, 9);
    t_overwrite(&o);
    y = ph_mul(s.tape, b, one);
    ph_backward_from(s.tape, &y, &one, 1, NULL);
    t_expect_failure(&s, PH_ERROR_OVERWRITTEN,
                     "operand 0 (f32[2, 2]) was overwritten: call 7 of step 3, by step 4");
    assert_ptr_equal(ph_tensor_grad(b), grad);
    t_zero_grad(b);
    t_expect_grad(&s, a, 3, 5, 7, 9);
    /* One that is gone before it comes. */
    one = t_ones(s.tape);
    g.want = &b;
    y = apply(s.tape, &b, 1, &g);
    ph_backward_from(s.tape, &y, &one, 1, NULL);
    t_expect_failure(&s, PH_ERROR_OVERWRITTEN,
                     "backward: the gradient of a leaf (f32[2, 2]) was overwritten");
    assert_null(ph_tensor_grad(b));
    ph_tensor_release(grad);
    ph_tensor_release(a);
    ph_tensor_release(b);
    t_owner_close(&o);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_saved_values),
        cmocka_unit_test(test_leaves_of_a_call),
        cmocka_unit_test(test_hooks_of_a_leaf),
        cmocka_unit_test(test_borrowed_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
