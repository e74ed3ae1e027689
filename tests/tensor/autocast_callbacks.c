/* SPDX-License-Identifier: MIT */
/* tests/tensor/autocast_callbacks.c: autocast around and inside of functions of the user's:
 * checkpointed ones, custom operators and hooks. */
#include "support/autocast.h"
#include "support/test.h"

static ph_tensor *look(ph_tape *tape, ph_tensor *grad, void *user)
{
    *(ph_dtype *)user = ph_tape_autocast(tape).dtype;
    return grad;
}

/* ---- checkpoints ---- both runs cast each use alike, though the second comes from backward,
 * where it is off. */
typedef struct checkpointed {
    world *w;
    int runs;
    ph_dtype seen[2];
} checkpointed;

static void two_products(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    checkpointed *c = user;
    c->seen[c->runs++ % 2] = ph_tape_autocast(tape).dtype;
    out[0] = ph_linear(tape, ph_linear(tape, in[0], c->w->w, NULL), c->w->w, NULL);
}

TEST(a_checkpoint_runs_again_under_the_autocast_it_had)
{
    world w;
    open_world(&w);
    checkpointed c = {.w = &w};
    ph_tensor_hook *hook;
    ph_dtype after = PH_DTYPE_F64;
    ph_tensor *out;
    assert_ok(ph_tensor_hook_add(&hook, w.w, look, &after));
    assert_non_null(product(&w)); /* its cast is there, and is not used inside */
    ph_checkpoint(w.s.tape, two_products, &c, &out, 1, &w.x, 1);
    t_expect_values(w.s.tape, in_f32(&w, out), PH_SHAPE(2), 4, 12);
    (void)ph_tape_set_autocast(w.s.tape, off);
    ph_backward(w.s.tape, ph_sum(w.s.tape, in_f32(&w, out)));
    assert_ok(ph_tape_status(w.s.tape));
    assert_int_equal(c.runs, 2);
    assert_int_equal(c.seen[0], PH_DTYPE_F16);
    assert_int_equal(c.seen[1], PH_DTYPE_F16);
    assert_int_equal(after, 0); /* behind the second run it is off as before it */
    ph_tensor_hook_remove(hook);
    assert_int_equal(ph_tape_autocast(w.s.tape).dtype, 0);
    t_expect_grad(&w.s, w.w, 4, 12, 4, 12);
    close_world(&w);
}

/* A function that leaves another mode behind has none of it outlive its call, with gradients or
 * without. */
static void leaves_bf16(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    (void)user;
    (void)ph_tape_set_autocast(tape, (ph_autocast){.dtype = PH_DTYPE_BF16});
    (void)ph_tape_set_grad_enabled(tape, true);
    out[0] = ph_mul_scalar(tape, in[0], 2);
}

TEST(test_checkpoint_that_leaves_a_mode)
{
    world w;
    open_world(&w);
    ph_tensor *out;
    for (int enabled = 0; enabled < 2; enabled++) {
        (void)ph_tape_set_grad_enabled(w.s.tape, enabled);
        ph_checkpoint(w.s.tape, leaves_bf16, NULL, &out, 1, &w.w, 1);
        assert_int_equal(ph_tape_autocast(w.s.tape).dtype, PH_DTYPE_F16);
        assert_int_equal(ph_tape_grad_enabled(w.s.tape), enabled);
    }
    assert_ok(ph_tape_clear(w.s.tape));
    close_world(&w);
}

/* ---- what runs in a pass of backward ---- */
typedef struct watched {
    ph_dtype forward, backward, hook;
} watched;

static void custom_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    watched *seen = ph_custom_user(custom);
    seen->forward = ph_tape_autocast(tape).dtype;
    out[0] = ph_matmul(tape, in[0], in[0]);
    /* is over when it returns */
    (void)ph_tape_set_autocast(tape, (ph_autocast){.dtype = PH_DTYPE_BF16});
}

static void custom_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                            ph_tensor *const *grad_out, const bool *needed)
{
    watched *seen = ph_custom_user(custom);
    (void)needed;
    seen->backward = ph_tape_autocast(tape).dtype;
    (void)ph_tape_set_autocast(tape, to_f16); /* is over when it returns */
    grad_in[0] = ph_cast(tape, grad_out[0], PH_DTYPE_F32);
}

TEST(test_custom_operators_and_hooks)
{
    ph_tensor_hook *hook;
    ph_tensor *out;
    world w;
    open_world(&w);
    watched seen = {0, PH_DTYPE_F64, PH_DTYPE_F64};
    const ph_custom_operator op = {
        .name = "squared", .forward = custom_forward, .backward = custom_backward, .user = &seen};
    assert_ok(ph_tensor_hook_add(&hook, w.w, look, &seen.hook));
    ph_custom_call(w.s.tape, &op, &out, 1, &w.w, 1);
    assert_int_equal(ph_tape_autocast(w.s.tape).dtype, PH_DTYPE_F16);
    assert_int_equal(ph_tensor_dtype(out), PH_DTYPE_F16); /* forward's operators cast as all do */
    ph_backward(w.s.tape, ph_sum(w.s.tape, out));
    assert_ok(ph_tape_status(w.s.tape));
    assert_int_equal(seen.forward, PH_DTYPE_F16);
    assert_int_equal(seen.backward, 0);
    assert_int_equal(seen.hook, 0);
    assert_int_equal(ph_tape_autocast(w.s.tape).dtype, PH_DTYPE_F16);
    t_expect_grad(&w.s, w.w, 1, 1, 1, 1);
    ph_tensor_hook_remove(hook);
    close_world(&w);
}

/* A hook that switches it on has casts of its own dtype, which are of no use to what comes
 * behind backward. */
static ph_tensor *leave_bf16(ph_tape *tape, ph_tensor *grad, void *user)
{
    const world *w = user;
    (void)ph_tape_set_autocast(tape, (ph_autocast){.dtype = PH_DTYPE_BF16});
    assert_int_equal(ph_tensor_dtype(product(w)), PH_DTYPE_BF16);
    return grad;
}

/* In the middle of the pass: what runs behind the hook computes as before it, and holds no
 * casts. */
TEST(test_hook_in_the_middle)
{
    ph_tensor_hook *hook[2];
    world w;
    open_world(&w);
    (void)ph_tape_set_autocast(w.s.tape, off);
    ph_dtype seen = PH_DTYPE_F64;
    ph_tensor *y = ph_matmul(w.s.tape, w.w, w.w);
    assert_ok(ph_tensor_hook_add(&hook[0], y, leave_bf16, &w));
    assert_ok(ph_tensor_hook_add(&hook[1], y, look, &seen));
    ph_backward(w.s.tape, ph_sum(w.s.tape, y));
    assert_ok(ph_tape_status(w.s.tape));
    assert_int_equal(seen, 0);
    t_expect_grad(&w.s, w.w, 4, 4, 4, 4);
    size_t held = t_allocated(&w.s);
    assert_ok(ph_tape_clear(w.s.tape));
    assert_true(held - t_allocated(&w.s) <= 2 * 512); /* y and the loss */
    ph_tensor_hook_remove(hook[0]);
    ph_tensor_hook_remove(hook[1]);
    close_world(&w);
}

TEST(test_hook_that_leaves_a_mode)
{
    ph_tensor_hook *hook;
    world w;
    open_world(&w);
    assert_ok(ph_tensor_hook_add(&hook, w.w, leave_bf16, &w));
    ph_backward(w.s.tape, ph_sum(w.s.tape, product(&w)));
    assert_int_equal(ph_tape_autocast(w.s.tape).dtype, PH_DTYPE_F16);
    (void)ph_tape_set_grad_enabled(w.s.tape, false);
    assert_int_equal(ph_tensor_dtype(product(&w)), PH_DTYPE_F16);
    expect_product(&w, 2, 6);
    ph_tensor_hook_remove(hook);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_runs_again_under_the_autocast_it_had),
        cmocka_unit_test(test_checkpoint_that_leaves_a_mode),
        cmocka_unit_test(test_custom_operators_and_hooks),
        cmocka_unit_test(test_hook_that_leaves_a_mode),
        cmocka_unit_test(test_hook_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
