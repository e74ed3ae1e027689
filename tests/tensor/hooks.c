/* SPDX-License-Identifier: MIT */
/* tests/tensor/hooks.c: functions that see gradients on their way, and replace them. */
#include "support/grads.h"
#include "support/test.h"

typedef struct watcher {
    ph_tensor_hook *hook, *other; /* other: removed when this one runs */
    double factor;                /* 0: looks on */
    int calls;
} watcher;

static ph_tensor *look(ph_tape *tape, ph_tensor *grad, void *user)
{
    watcher *w = user;
    w->calls++;
    assert_false(ph_tape_grad_enabled(tape));
    if (w->other) {
        ph_tensor_hook_remove(w->other);
        w->other = NULL;
    }
    return w->factor != 0 ? ph_mul_scalar(tape, grad, w->factor) : grad;
}

TEST(hooks_of_a_leaf_see_its_complete_gradient_once)
{
    t_scene s;
    t_scene_open(&s);
    watcher a = {.factor = 10}, b = {.factor = 2}, c = {0};
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 2, 3);
    assert_ok(ph_tensor_hook_add(&a.hook, w, look, &a));
    assert_ok(ph_tensor_hook_add(&b.hook, w, look, &b));
    assert_ok(ph_tensor_hook_add(&c.hook, w, look, &c));
    /* Once, with the complete gradient, whatever paths lead there; before it is accumulated. */
    ph_tensor *loss = ph_sum(s.tape, ph_add(s.tape, ph_mul(s.tape, w, w), w));
    ph_backward(s.tape, loss);
    t_expect_grad(&s, w, 100, 140);
    assert_int_equal(a.calls, 1);
    assert_int_equal(b.calls, 1);
    assert_int_equal(c.calls, 1);
    ph_tensor_hook_remove(a.hook);
    ph_backward(s.tape, ph_sum(s.tape, w));
    t_expect_grad(&s, w, 102, 142);
    assert_int_equal(a.calls, 1);
    /* Asked for, the gradient is what they make of it, too. */
    ph_tensor *out;
    loss = ph_sum(s.tape, w);
    ph_grad(s.tape, &out, &w, 1, &loss, NULL, 1, NULL);
    t_expect_values(s.tape, out, PH_SHAPE(2), 2, 2);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_hook_remove(c.hook);
    ph_tensor_hook_remove(NULL);
    ph_tensor_release(w);
    ph_tensor_hook_remove(b.hook); /* after its tensor is gone */
    t_scene_close(&s);
}

/* w, and 10 w. */
static void both_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    (void)custom;
    out[0] = ph_mul_scalar(tape, in[0], 10);
    out[1] = ph_mul_scalar(tape, in[0], 1);
}
static void both_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                          ph_tensor *const *grad_out, const bool *needed)
{
    (void)custom;
    (void)needed;
    grad_in[0] = ph_add(tape, ph_mul_scalar(tape, grad_out[0], 10), grad_out[1]);
}

/* On what an operator made: they stay with the history, also when the handle is gone. */
TEST(hooks_of_an_intermediate_stay_with_the_history)
{
    t_scene s;
    t_scene_open(&s);
    watcher a = {.factor = 3}, b = {.factor = 7};
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 2, 3);
    size_t mark = ph_tape_scope_begin(s.tape);
    ph_tensor *x = ph_mul_scalar(s.tape, w, 2);
    assert_ok(ph_tensor_hook_add(&a.hook, x, look, &a));
    ph_tensor *loss = ph_sum(s.tape, ph_add(s.tape, x, x));
    ph_tape_scope_end(s.tape, mark, &loss, 1);
    ph_backward(s.tape, loss);
    t_expect_grad(&s, w, 12, 12);
    assert_int_equal(a.calls, 1);
    ph_tensor_hook_remove(a.hook);
    t_zero_grad(w);
    /* The output that it is on, of several. */
    ph_tensor *out[2];
    ph_custom_call(
        s.tape,
        &(ph_custom_operator){.name = "both", .forward = both_forward, .backward = both_backward},
        out, 2, &w, 1);
    assert_ok(ph_tensor_hook_add(&b.hook, out[1], look, &b));
    ph_backward(s.tape, ph_sum(s.tape, ph_add(s.tape, out[0], out[1])));
    t_expect_grad(&s, w, 17, 17);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_hook_remove(b.hook);
    ph_tensor_release(w);
    t_scene_close(&s);
}

/* They may remove each other, themselves, and add more, while they run. */
static ph_tensor *meddle(ph_tape *tape, ph_tensor *grad, void *user)
{
    watcher *w = user;
    w->calls++;
    ph_tensor_hook_remove(w->hook);
    w->hook = NULL;
    ph_tape_fail(tape, ph_tape_clear(tape) == PH_ERROR_STATE ? PH_OK : PH_ERROR_CALLER,
                 "cleared inside");
    return grad;
}
typedef struct adder {
    ph_tensor *x;
    watcher more;
} adder;
static ph_tensor *add_more(ph_tape *tape, ph_tensor *grad, void *user)
{
    adder *a = user;
    (void)tape;
    if (!a->more.hook)
        assert_ok(ph_tensor_hook_add(&a->more.hook, a->x, look, &a->more));
    return grad;
}

TEST(hooks_may_add_and_remove_hooks_in_a_pass)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 2, 3);
    watcher a = {0}, b = {0}, c = {0}, d = {0};
    adder e = {.x = w};
    ph_tensor_hook *adding;
    assert_ok(ph_tensor_hook_add(&a.hook, w, meddle, &a));
    assert_ok(ph_tensor_hook_add(&b.hook, w, look, &b));
    assert_ok(ph_tensor_hook_add(&adding, w, add_more, &e));
    assert_ok(ph_tensor_hook_add(&c.hook, w, look, &c));
    assert_ok(ph_tensor_hook_add(&d.hook, w, look, &d));
    b.other = c.hook;
    for (int i = 1; i <= 3; i++) {
        ph_backward(s.tape, ph_sum(s.tape, w));
        assert_ok(ph_tape_clear(s.tape));
        t_expect_grad(&s, w, (float)i, (float)i);
    }
    assert_int_equal(a.calls, 1);
    assert_int_equal(b.calls, 3);
    assert_int_equal(c.calls, 0);
    assert_int_equal(d.calls, 3);
    assert_int_equal(e.more.calls, 2);
    ph_tensor_hook_remove(b.hook);
    ph_tensor_hook_remove(e.more.hook);
    ph_tensor_hook_remove(adding);
    ph_tensor_release(w);
    ph_tensor_hook_remove(d.hook);
    t_scene_close(&s);
}

static ph_tensor *give_nothing(ph_tape *tape, ph_tensor *grad, void *user)
{
    (void)grad;
    return *(bool *)user ? ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(3)) : NULL;
}
static ph_tensor *fail_it(ph_tape *tape, ph_tensor *grad, void *user)
{
    (void)user;
    ph_tape_fail(tape, PH_ERROR_CALLER, "the hook's own reason");
    return grad;
}

TEST(misuse_is_refused)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 2, 3), *x = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(2));
    ph_tensor_hook *hook;
    assert_error(ph_tensor_hook_add(NULL, w, look, NULL), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_tensor_hook_add(&hook, NULL, look, NULL), PH_ERROR_ARGUMENT, "x is NULL");
    assert_error(ph_tensor_hook_add(&hook, w, NULL, NULL), PH_ERROR_ARGUMENT, "fn");
    assert_error(ph_tensor_hook_add(&hook, x, look, NULL), PH_ERROR_STATE,
                 "f32[2] requires no gradient");
    assert_null(hook);
    bool wrong_shape = false;
    for (int on_leaf = 0; on_leaf < 2; on_leaf++)
        for (int i = 0; i < 3; i++) {
            ph_tensor *y = ph_mul(s.tape, w, w);
            wrong_shape = i == 1;
            assert_ok(ph_tensor_hook_add(&hook, on_leaf ? w : y, i == 2 ? fail_it : give_nothing,
                                         &wrong_shape));
            ph_backward(s.tape, ph_sum(s.tape, y));
            ph_tensor_hook_remove(hook);
            if (i == 0)
                t_expect_failure(&s, PH_ERROR_CALLER, "a hook gave no gradient");
            else if (i == 1)
                t_expect_failure(&s, PH_ERROR_ARGUMENT, "backward: a hook");
            else
                t_expect_failure(&s, PH_ERROR_CALLER, "the hook's own reason");
            assert_null(ph_tensor_grad(w));
        }
    ph_tensor_release(w);
    t_scene_close(&s);
}

/* ---- in a checkpointed function ---- hooks on what it makes, on what it was given, and on a
 * parameter, at each run. */
typedef struct adding {
    ph_tensor *w;
    watcher made[2], given[2], parameter[2];
    int runs;
} adding;

static void multiply_and_watch(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    adding *a = user;
    int run = a->runs++;
    out[0] = ph_mul(tape, in[0], a->w);
    assert_ok(ph_tensor_hook_add(&a->made[run].hook, out[0], look, &a->made[run]));
    assert_ok(ph_tensor_hook_add(&a->given[run].hook, in[0], look, &a->given[run]));
    assert_ok(ph_tensor_hook_add(&a->parameter[run].hook, a->w, look, &a->parameter[run]));
    out[0] = ph_square(tape, out[0]);
}

TEST(test_added_in_a_checkpoint)
{
    t_scene s;
    t_scene_open(&s);
    for (int made = 0; made < 2; made++) { /* whether an operator made the input */
        adding a = {.w = t_leaf(&s, PH_SHAPE(2), 2, 3)};
        ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 5, 7), *y,
                  *in = made ? ph_mul_scalar(s.tape, x, 1) : x;
        ph_checkpoint(s.tape, multiply_and_watch, &a, &y, 1, &in, 1);
        ph_backward(s.tape, ph_sum(s.tape, y));
        t_expect_grad(&s, x, 40, 126);
        t_expect_grad(&s, a.w, 100, 294);
        assert_int_equal(a.runs, 2);
        assert_int_equal(a.made[0].calls, 1);
        assert_int_equal(a.made[1].calls, 0);
        assert_int_equal(a.given[0].calls, 1);
        assert_int_equal(a.given[1].calls, 0);
        assert_int_equal(a.parameter[0].calls, 1);
        assert_int_equal(a.parameter[1].calls, 1);
        assert_ok(ph_tape_clear(s.tape));
        for (int i = 0; i < 2; i++) {
            ph_tensor_hook_remove(a.made[i].hook);
            ph_tensor_hook_remove(a.given[i].hook);
            ph_tensor_hook_remove(a.parameter[i].hook);
        }
        ph_tensor_release(x);
        ph_tensor_release(a.w);
    }
    t_scene_close(&s);
}

/* ---- a tape that a function of its own destroys ---- it stays, and says so. */
static ph_tensor *destroy_in_a_hook(ph_tape *tape, ph_tensor *grad, void *user)
{
    (void)user;
    ph_tape_destroy(tape);
    return grad;
}

static void destroy_in_a_checkpoint(ph_tape *tape, ph_tensor **out, ph_tensor *const *in,
                                    void *user)
{
    (void)user;
    out[0] = ph_square(tape, in[0]);
    ph_tape_destroy(tape);
}

static void destroying_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out,
                               ph_tensor *const *in)
{
    if (!ph_custom_user(custom))
        ph_tape_destroy(tape);
    out[0] = ph_square(tape, in[0]);
}

static void destroying_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                                ph_tensor *const *grad_out, const bool *needed)
{
    (void)custom, (void)needed;
    ph_tape_destroy(tape);
    grad_in[0] = grad_out[0];
}

static void destroy_at_release(void *tape)
{
    ph_tape_destroy(tape);
}

static void expect_it_stayed(t_scene *s, ph_tensor *w)
{
    assert_error(ph_tape_clear(s->tape), PH_ERROR_STATE,
                 "ph_tape_destroy: called from inside a hook");
    t_zero_grad(w);
    ph_backward(s->tape, ph_sum(s->tape, w));
    t_expect_grad(s, w, 1, 1);
    t_zero_grad(w);
    assert_ok(ph_tape_clear(s->tape));
}

TEST(test_destroyed_inside)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 2, 3), *y;
    ph_tensor_hook *hook;
    assert_ok(ph_tensor_hook_add(&hook, w, destroy_in_a_hook, NULL));
    ph_backward(s.tape, ph_sum(s.tape, w));
    ph_tensor_hook_remove(hook);
    expect_it_stayed(&s, w);
    ph_checkpoint(s.tape, destroy_in_a_checkpoint, NULL, &y, 1, &w, 1);
    expect_it_stayed(&s, w);
    ph_custom_operator op = {
        .name = "destroying", .forward = destroying_forward, .backward = destroying_backward};
    ph_custom_call(s.tape, &op, &y, 1, &w, 1);
    expect_it_stayed(&s, w);
    op.user = s.tape;
    ph_custom_call(s.tape, &op, &y, 1, &w, 1);
    ph_backward(s.tape, ph_sum(s.tape, y));
    expect_it_stayed(&s, w);
    op.release = destroy_at_release;
    ph_custom_call(s.tape, &op, &y, 1, &w, 1);
    expect_it_stayed(&s, w);
    /* The tape's own end. */
    ph_custom_call(s.tape, &op, &y, 1, &w, 1);
    ph_tensor_release(w);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_added_in_a_checkpoint),
        cmocka_unit_test(test_destroyed_inside),
        cmocka_unit_test(hooks_of_a_leaf_see_its_complete_gradient_once),
        cmocka_unit_test(hooks_of_an_intermediate_stay_with_the_history),
        cmocka_unit_test(hooks_may_add_and_remove_hooks_in_a_pass),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
