/* SPDX-License-Identifier: MIT */
/* tests/tensor/backward.c: gradients of leaves and of what is asked for, accumulation, and what
 * backward refuses. */
#include "support/grads.h"
#include "support/test.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"

TEST(a_chain_gives_its_leaf_a_gradient)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(3), 1, 2, 3);
    ph_tensor *y = ph_mul_scalar(s.tape, w, 4), *loss = ph_sum(s.tape, y);
    assert_true(ph_tensor_requires_grad(y));
    assert_false(ph_tensor_is_leaf(y));
    assert_true(ph_tensor_is_leaf(w));
    assert_null(ph_tensor_grad(w));
    assert_int_equal(t_info(&s).nodes, 2);
    ph_backward(s.tape, loss);
    t_expect_grad(&s, w, 4, 4, 4);
    assert_null(ph_tensor_grad(y));
    assert_false(ph_tensor_requires_grad(ph_tensor_grad(w)));
    assert_true(ph_tape_grad_enabled(s.tape));
    assert_ok(ph_tape_clear(s.tape));
    assert_true(ph_tensor_is_leaf(w));
    t_expect_grad(&s, w, 4, 4, 4); /* the leaf's, not the tape's */
    ph_tensor_release(w);
    t_scene_close(&s);
}

/* The same tensor as both operands, and paths that part and meet. */
TEST(gradients_of_paths_that_meet_are_added)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 3, 5);
    ph_backward(s.tape, ph_sum(s.tape, ph_mul(s.tape, w, w)));
    t_expect_grad(&s, w, 6, 10);
    t_zero_grad(w);
    ph_backward(s.tape, ph_sum(s.tape, ph_add(s.tape, w, w)));
    t_expect_grad(&s, w, 2, 2);
    t_zero_grad(w);
    /* f = (a + 2a)(a + a) with a = 10 w: 600 w^2. */
    ph_tensor *a = ph_mul_scalar(s.tape, w, 10),
              *b = ph_add(s.tape, a, ph_mul_scalar(s.tape, a, 2));
    ph_backward(s.tape, ph_sum(s.tape, ph_mul(s.tape, b, ph_add(s.tape, a, a))));
    t_expect_grad(&s, w, 3600, 6000);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(w);
    t_scene_close(&s);
}

TEST(gradients_of_broadcast_operands_are_summed)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2, 2), 1, 2, 3, 4), *b = t_leaf(&s, PH_SHAPE(1), 10),
              *c = t_leaf(&s, PH_SCALAR, 2);
    ph_backward(s.tape, ph_sum(s.tape, ph_mul(s.tape, ph_add(s.tape, w, b), c)));
    t_expect_grad(&s, w, 2, 2, 2, 2);
    t_expect_grad(&s, b, 8);
    t_expect_grad(&s, c, 50);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(w);
    ph_tensor_release(b);
    ph_tensor_release(c);
    t_scene_close(&s);
}

/* Later gradients go into the same memory, whoever holds it. */
TEST(later_gradients_are_added_in_the_same_memory)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 1, 1);
    for (int i = 1; i <= 3; i++) {
        ph_backward(s.tape, ph_sum(s.tape, ph_mul_scalar(s.tape, w, 2)));
        t_expect_grad(&s, w, 2 * (float)i, 2 * (float)i);
        assert_ok(ph_tape_clear(s.tape));
    }
    ph_tensor *first = ph_tensor_retain(ph_tensor_grad(w));
    void *data = ph_tensor_data(first);
    uint64_t version = ph_tensor_version(first);
    ph_backward(s.tape, ph_sum(s.tape, w));
    assert_ptr_equal(ph_tensor_grad(w), first);
    assert_ptr_equal(ph_tensor_data(first), data);
    assert_true(ph_tensor_version(first) > version);
    t_expect_grad(&s, w, 7, 7);
    t_zero_grad(w);
    ph_backward(s.tape, ph_sum(s.tape, w));
    t_expect_grad(&s, w, 1, 1);
    t_expect_values(s.tape, first, PH_SHAPE(2), 7, 7);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(first);
    ph_tensor_release(w);
    t_scene_close(&s);
}

static void scale_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    (void)custom;
    out[0] = ph_mul_scalar(tape, in[0], 1);
}
static void user_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                          ph_tensor *const *grad_out, const bool *needed)
{
    (void)tape;
    (void)grad_out;
    assert_true(needed[0]);
    grad_in[0] = ph_custom_user(custom);
}

/* A gradient that somebody else holds is copied, not adopted. */
TEST(test_no_adoption)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 1, 1), *mine = t_leaf(&s, PH_SHAPE(2), 5, 6), *y;
    assert_ok(ph_tensor_set_requires_grad(mine, false));
    ph_custom_call(
        s.tape,
        &(ph_custom_operator){
            .name = "held", .forward = scale_forward, .backward = user_backward, .user = mine},
        &y, 1, &w, 1);
    ph_backward(s.tape, ph_sum(s.tape, y));
    t_expect_grad(&s, w, 5, 6);
    assert_ptr_not_equal(ph_tensor_data(ph_tensor_grad(w)), ph_tensor_data(mine));
    t_zero_grad(w);
    /* A view of one element, spread over all: not contiguous. */
    ph_tensor *seed = ph_expand(s.tape, ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(1), 9), PH_SHAPE(2));
    ph_backward_from(s.tape, &w, &seed, 1, NULL);
    assert_true(ph_tensor_is_contiguous(ph_tensor_grad(w)));
    ph_backward(s.tape, ph_sum(s.tape, w));
    t_expect_grad(&s, w, 10, 10);
    assert_ok(ph_tape_clear(s.tape));
    t_expect_values(s.tape, mine, PH_SHAPE(2), 5, 6);
    ph_tensor_release(mine);
    ph_tensor_release(w);
    t_scene_close(&s);
}

TEST(backward_begins_with_several_outputs_and_seeds)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 1, 2), *v = t_leaf(&s, PH_SCALAR, 7);
    ph_tensor *a = ph_mul_scalar(s.tape, w, 3), *b = ph_mul(s.tape, w, v);
    ph_tensor *seed = ph_from_memory(s.tape, PH_DTYPE_F32, PH_SHAPE(2), (float[]){10, 100});
    ph_backward_from(s.tape, (ph_tensor *[]){a, b, v, a}, (ph_tensor *[]){seed, seed, NULL, seed},
                     4, NULL);
    t_expect_grad(&s, w, 130, 1300);
    t_expect_grad(&s, v, 10 + 200 + 1);
    ph_backward_from(s.tape, NULL, NULL, 0, NULL);
    assert_ok(ph_tape_clear(s.tape));
    /* An empty tensor begins with nothing. */
    ph_tensor *empty;
    assert_ok(ph_tensor_create(&empty, s.device, PH_DTYPE_F32, PH_SHAPE(0, 3)));
    assert_ok(ph_tensor_set_requires_grad(empty, true));
    ph_backward(s.tape, ph_mul_scalar(s.tape, empty, 2));
    assert_ok(ph_tape_clear(s.tape));
    assert_int_equal(ph_tensor_dim(ph_tensor_grad(empty), 1), 3);
    ph_tensor_release(empty);
    ph_tensor_release(v);
    ph_tensor_release(w);
    t_scene_close(&s);
}

TEST(without_gradients_no_history_is_kept)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 1, 2);
    assert_true(ph_tape_set_grad_enabled(s.tape, false));
    ph_tensor *y = ph_mul(s.tape, w, w);
    assert_false(ph_tensor_requires_grad(y));
    assert_false(ph_tape_set_grad_enabled(s.tape, true));
    assert_int_equal(t_info(&s).nodes, 0);
    ph_tensor *plain = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(2), 2);
    assert_false(ph_tensor_requires_grad(ph_mul(s.tape, plain, plain)));
    assert_int_equal(t_info(&s).nodes, 0);
    /* One that requires none any more is left alone. */
    ph_tensor *loss = ph_sum(s.tape, ph_mul(s.tape, w, plain));
    assert_ok(ph_tensor_set_requires_grad(w, false));
    ph_backward(s.tape, loss);
    assert_null(ph_tensor_grad(w));
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(w);
    t_scene_close(&s);
}

TEST(a_second_pass_needs_a_retained_graph)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 2, 3), *loss = ph_sum(s.tape, ph_mul(s.tape, w, w));
    size_t saved = t_info(&s).saved;
    assert_true(saved >= 2);
    ph_backward_options keep = {.retain_graph = true};
    ph_backward_from(s.tape, &loss, NULL, 1, &keep);
    assert_int_equal(t_info(&s).saved, saved);
    ph_backward(s.tape, loss);
    t_expect_grad(&s, w, 8, 12);
    assert_int_equal(t_info(&s).saved, 0);
    ph_backward(s.tape, loss);
    t_expect_failure(&s, PH_ERROR_STATE, "backward of sum: a second pass");
    t_expect_grad(&s, w, 8, 12);
    ph_tensor_release(w);
    t_scene_close(&s);
}

TEST(a_saved_value_changed_in_place_is_refused)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 2, 3),
              *x = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(2), 1);
    ph_tensor *view = ph_reshape(s.tape, x, PH_SHAPE(1, 2)),
              *loss = ph_sum(s.tape, ph_mul(s.tape, w, x));
    ph_tensor_fill(s.tape, view, 5);
    ph_backward(s.tape, loss);
    assert_error(ph_tape_status(s.tape), PH_ERROR_STATE,
                 "backward of mul: a value that it saved, f32[2], was changed in place");
    t_expect_failure(&s, PH_ERROR_STATE, "it has version 2, and had 1");
    assert_null(ph_tensor_grad(w));
    /* What is not saved may change. */
    x = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(2), 1);
    loss = ph_sum(s.tape, ph_add(s.tape, w, x));
    ph_tensor_fill(s.tape, x, 5);
    ph_backward(s.tape, loss);
    t_expect_grad(&s, w, 1, 1);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(w);
    t_scene_close(&s);
}

TEST(misuse_is_refused)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 2, 3),
              *plain = ph_full(s.tape, PH_DTYPE_F32, PH_SCALAR, 1);
    ph_backward(s.tape, NULL);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "output 0 (NULL) must be a tensor");
    plain = ph_full(s.tape, PH_DTYPE_F32, PH_SCALAR, 1);
    ph_backward(s.tape, plain);
    t_expect_failure(&s, PH_ERROR_STATE, "output 0 (f32[]) requires no gradient");
    ph_backward(s.tape, ph_mul(s.tape, w, w));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "more than one element");
    ph_tensor *y = ph_mul(s.tape, w, w), *seed = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(3), 1);
    ph_backward_from(s.tape, &y, &seed, 1, NULL);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "backward");
    y = ph_sum(s.tape, w);
    ph_backward_from(s.tape, &y, NULL, 1, &(ph_backward_options){.reserved = {1}});
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "reserved");
    ph_backward_from(s.tape, NULL, NULL, 1, NULL);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "outputs");
    y = ph_tensor_retain(ph_sum(s.tape, w));
    assert_ok(ph_tape_clear(s.tape));
    ph_backward(s.tape, y);
    t_expect_failure(&s, PH_ERROR_STATE, "requires no gradient");
    ph_tensor_release(y);
    ph_tape *second;
    assert_ok(ph_tape_create(&second, s.stream, NULL));
    ph_backward(second, ph_sum(s.tape, w));
    assert_error(ph_tape_clear(second), PH_ERROR_ARGUMENT, "another tape");
    ph_tape_destroy(second);
    ph_tensor_release(w);
    t_scene_close(&s);
}

/* A node that does not find its way, in the middle of a pass: nothing is left behind. */
static void broken_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                            ph_tensor *const *grad_out, const bool *needed)
{
    (void)custom;
    (void)grad_out;
    (void)needed;
    grad_in[0] = ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(7));
}
static void failing_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                             ph_tensor *const *grad_out, const bool *needed)
{
    (void)custom;
    (void)needed;
    grad_in[0] = ph_mul_scalar(tape, grad_out[0], 2);
    ph_tape_fail(tape, PH_ERROR_CALLER, "no way back");
}

TEST(a_backward_that_fails_leaves_the_tape_usable)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 2, 3), *v = t_leaf(&s, PH_SHAPE(2), 1, 1);
    for (int i = 0; i < 2; i++) {
        ph_custom_operator op = {.name = "broken",
                                 .forward = scale_forward,
                                 .backward = i ? failing_backward : broken_backward};
        ph_tensor *x = ph_mul(s.tape, w, w), *y;
        ph_custom_call(s.tape, &op, &y, 1, &x, 1);
        ph_backward(s.tape,
                    ph_sum(s.tape, ph_add(s.tape, ph_mul(s.tape, y, y), ph_mul(s.tape, v, x))));
        if (i)
            t_expect_failure(&s, PH_ERROR_CALLER, "no way back");
        else
            t_expect_failure(
                &s, PH_ERROR_ARGUMENT,
                "backward of broken: it gave f32[7] for operand 0, whose gradient must be f32[2]");
        assert_null(ph_tensor_grad(w));
        t_zero_grad(v);
        assert_int_equal(t_info(&s).saved, 0);
        ph_backward(s.tape, ph_sum(s.tape, ph_mul(s.tape, w, w)));
        t_expect_grad(&s, w, 4, 6);
        t_zero_grad(w);
        assert_ok(ph_tape_clear(s.tape));
    }
    ph_tensor_release(w);
    ph_tensor_release(v);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_gives_its_leaf_a_gradient),
        cmocka_unit_test(gradients_of_paths_that_meet_are_added),
        cmocka_unit_test(gradients_of_broadcast_operands_are_summed),
        cmocka_unit_test(later_gradients_are_added_in_the_same_memory),
        cmocka_unit_test(test_no_adoption),
        cmocka_unit_test(backward_begins_with_several_outputs_and_seeds),
        cmocka_unit_test(without_gradients_no_history_is_kept),
        cmocka_unit_test(a_second_pass_needs_a_retained_graph),
        cmocka_unit_test(a_saved_value_changed_in_place_is_refused),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(a_backward_that_fails_leaves_the_tape_usable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
