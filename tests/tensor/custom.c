/* SPDX-License-Identifier: MIT */
/* tests/tensor/custom.c: operators of the user's: what they save, what they get, how often they
 * are released. */
#include "support/grads.h"
#include "support/test.h"

/* out[0] = a * b, out[1] = a + b. */
typedef struct pair {
    int released, backwards;
    bool seen[2], needed[2];
} pair;

static void pair_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    assert_false(ph_tape_grad_enabled(tape));
    out[0] = ph_mul(tape, in[0], in[1]);
    out[1] = ph_add(tape, in[0], in[1]);
    ph_tensor *unused = ph_add(tape, out[0], out[0]);
    (void)unused;
    ph_custom_save(custom, (ph_tensor *[]){in[0], NULL, in[1]}, 3);
}

static void pair_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                          ph_tensor *const *grad_out, const bool *needed)
{
    pair *p = ph_custom_user(custom);
    p->backwards++;
    assert_false(ph_tape_grad_enabled(tape));
    assert_null(ph_custom_saved(custom, 1));
    assert_null(ph_custom_saved(custom, 3));
    for (int i = 0; i < 2; i++) {
        p->seen[i] = grad_out[i];
        p->needed[i] = needed[i];
        ph_tensor *g = grad_out[0] ? ph_mul(tape, grad_out[0], ph_custom_saved(custom, i ? 0 : 2))
                                   : grad_out[1];
        grad_in[i] = grad_out[0] && grad_out[1] ? ph_add(tape, g, grad_out[1]) : g;
    }
}

static void pair_release(void *user)
{
    ((pair *)user)->released++;
}

static ph_custom_operator pair_operator(pair *p)
{
    return (ph_custom_operator){.name = "pair",
                                .forward = pair_forward,
                                .backward = pair_backward,
                                .release = pair_release,
                                .user = p};
}

TEST(a_custom_operator_gives_gradients_to_its_operands)
{
    t_scene s;
    t_scene_open(&s);
    pair p = {0};
    ph_custom_operator op = pair_operator(&p);
    ph_tensor *a = t_leaf(&s, PH_SHAPE(2), 2, 3), *b = t_leaf(&s, PH_SHAPE(2), 5, 7), *out[2];
    ph_custom_call(s.tape, &op, out, 2, (ph_tensor *[]){a, b}, 2);
    t_expect_values(s.tape, out[0], PH_SHAPE(2), 10, 21);
    t_expect_values(s.tape, out[1], PH_SHAPE(2), 7, 10);
    assert_true(ph_tensor_requires_grad(out[0]) && ph_tensor_requires_grad(out[1]));
    assert_int_equal(t_info(&s).tensors, 2);
    assert_int_equal(t_info(&s).nodes, 1);
    assert_int_equal(t_info(&s).saved, 2);
    ph_backward(s.tape, ph_sum(s.tape, ph_add(s.tape, out[0], out[1])));
    t_expect_grad(&s, a, 6, 8);
    t_expect_grad(&s, b, 3, 4);
    assert_int_equal(p.backwards, 1);
    assert_int_equal(p.released, 1);
    assert_true(p.seen[0] && p.seen[1]);
    assert_ok(ph_tape_clear(s.tape));
    assert_int_equal(p.released, 1);
    /* One output, one operand. */
    assert_ok(ph_tensor_set_requires_grad(a, false));
    ph_custom_call(s.tape, &op, out, 2, (ph_tensor *[]){a, b}, 2);
    ph_backward(s.tape, ph_sum(s.tape, out[1]));
    assert_true(!p.seen[0] && p.seen[1]);
    assert_true(!p.needed[0] && p.needed[1]);
    t_expect_grad(&s, a, 6, 8);
    t_expect_grad(&s, b, 4, 5);
    assert_ok(ph_tape_clear(s.tape));
    assert_int_equal(p.released, 2);
    ph_tensor_release(a);
    ph_tensor_release(b);
    t_scene_close(&s);
}

/* release comes once for each call, whatever becomes of it. */
TEST(release_comes_once_for_each_call)
{
    t_scene s;
    t_scene_open(&s);
    pair p = {0};
    ph_custom_operator op = pair_operator(&p);
    ph_tensor *a = t_leaf(&s, PH_SHAPE(2), 2, 3),
              *plain = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(2), 1), *out[2];
    ph_custom_call(s.tape, &op, out, 2, (ph_tensor *[]){plain, plain}, 2);
    assert_int_equal(p.released, 1);
    assert_int_equal(t_info(&s).nodes, 0);
    assert_false(ph_tensor_requires_grad(out[0]));
    t_expect_values(s.tape, out[1], PH_SHAPE(2), 2, 2);
    ph_custom_call(s.tape, &op, out, 2, (ph_tensor *[]){plain, a}, 2);
    assert_int_equal(p.released, 1);
    assert_ok(ph_tape_clear(s.tape));
    assert_int_equal(p.released, 2);
    ph_custom_call(s.tape, &op, out, 2, (ph_tensor *[]){a, NULL}, 2); /* add fails */
    assert_null(out[0]);
    assert_null(out[1]);
    assert_int_equal(p.released, 3);
    ph_custom_call(s.tape, &op, out, 2, (ph_tensor *[]){a, a}, 2); /* on a failed tape */
    assert_int_equal(p.released, 4);
    assert_int_equal(p.backwards, 0);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "operand 1 is NULL");
    ph_backward_options keep = {.retain_graph = true};
    ph_custom_call(s.tape, &op, out, 2, (ph_tensor *[]){a, a}, 2);
    ph_tensor *loss = ph_sum(s.tape, out[0]);
    ph_backward_from(s.tape, &loss, NULL, 1, &keep);
    ph_backward_from(s.tape, &loss, NULL, 1, &keep);
    assert_int_equal(p.released, 4);
    assert_int_equal(p.backwards, 2);
    t_expect_grad(&s, a, 8, 12);
    assert_ok(ph_tape_clear(s.tape));
    assert_int_equal(p.released, 5);
    ph_tensor_release(a);
    t_scene_close(&s);
}

/* ---- outputs that are something else already ---- */
static ph_tensor *outside;
static void same_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    (void)tape;
    out[0] = in[0];
    out[1] = in[0];
    out[2] = outside;
    ph_custom_save(custom, out, 3);
}
static void same_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                          ph_tensor *const *grad_out, const bool *needed)
{
    (void)needed;
    (void)tape;
    assert_non_null(ph_custom_saved(custom, 2));
    grad_in[0] = grad_out[0]; /* the very tensor that came in */
}

TEST(an_output_that_is_an_operand_becomes_a_view)
{
    t_scene s;
    t_scene_open(&s);
    ph_custom_operator op = {.name = "same", .forward = same_forward, .backward = same_backward};
    ph_tensor *a = t_leaf(&s, PH_SHAPE(2), 2, 3), *x = ph_mul_scalar(s.tape, a, 2), *out[3];
    outside = t_leaf(&s, PH_SHAPE(1), 9);
    ph_custom_call(s.tape, &op, out, 3, &x, 1);
    assert_ptr_not_equal(out[0], x);
    assert_ptr_equal(ph_tensor_data(out[0]), ph_tensor_data(x));
    assert_true(ph_tensor_is_leaf(outside));
    ph_backward(s.tape, ph_sum(s.tape, ph_add(s.tape, out[0], x)));
    t_expect_grad(&s, a, 4, 4);
    assert_null(ph_tensor_grad(outside));
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(a);
    ph_tensor_release(outside);
    t_scene_close(&s);
}

/* ---- misuse ---- */
static int mode;
static void bad_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    out[0] = mode == 0 ? NULL : in[0];
    if (mode == 1)
        ph_custom_save(custom, NULL, 1);
    if (mode == 2 || mode == 3) {
        ph_custom_save(custom, in, 1);
        ph_custom_save(custom, in, mode == 2);
    }
    if (mode == 4)
        ph_tape_fail(tape, PH_ERROR_CALLER, "no way forward");
    if (mode == 5 && ph_tape_clear(tape) != PH_ERROR_STATE)
        ph_tape_fail(tape, PH_ERROR_SIZE, "cleared inside");
    if (mode == 6)
        (void)ph_tape_scope_begin(tape);
}
static void save_in_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                             ph_tensor *const *grad_out, const bool *needed)
{
    (void)tape;
    (void)needed;
    ph_custom_save(custom, grad_out, 1);
    grad_in[0] = grad_out[0];
}

TEST(misuse_is_refused)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *a = t_leaf(&s, PH_SHAPE(2), 2, 3), *out = a;
    ph_custom_operator op = {.name = "bad", .forward = bad_forward, .backward = save_in_backward};
    ph_custom_call(s.tape, NULL, &out, 1, &a, 1);
    assert_null(out);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "op is NULL");
    ph_custom_call(s.tape, &op, NULL, 0, &a, 1);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "bad: a custom operator has at least one output");
    op.reserved[1] = 1;
    ph_custom_call(s.tape, &op, &out, 1, &a, 1);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "bad: a reserved word");
    op.reserved[1] = 0;
    const char *const words[] = {"bad: forward gave no output 0",
                                 "bad: ph_custom_save: tensors is NULL",
                                 "bad: ph_custom_save is for forward, and once",
                                 "bad: ph_custom_save is for forward, and once", "no way forward"};
    const ph_status statuses[] = {PH_ERROR_CALLER, PH_ERROR_ARGUMENT, PH_ERROR_STATE,
                                  PH_ERROR_STATE, PH_ERROR_CALLER};
    for (mode = 0; mode < 5; mode++) {
        ph_custom_call(s.tape, &op, &out, 1, &a, 1);
        assert_null(out);
        t_expect_failure(&s, statuses[mode], words[mode]);
    }
    for (; mode < 7; mode++) {
        ph_custom_call(s.tape, &op, &out, 1, &a, 1);
        assert_ok(ph_tape_status(s.tape));
        assert_int_equal(t_info(&s).depth, 0);
        ph_backward(s.tape, ph_sum(s.tape, out));
        t_expect_failure(&s, PH_ERROR_STATE, "bad: ph_custom_save is for forward");
    }
    assert_null(ph_custom_user(NULL));
    assert_null(ph_custom_saved(NULL, 0));
    ph_custom_save(NULL, NULL, 0);
    ph_tensor_release(a);
    t_scene_close(&s);
}

static void nothing_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                             ph_tensor *const *grad_out, const bool *needed)
{
    (void)custom;
    (void)tape;
    (void)grad_in;
    (void)grad_out;
    (void)needed;
}

/* "No gradient" goes no further, and is not waited for. */
TEST(test_no_gradient)
{
    t_scene s;
    t_scene_open(&s);
    mode = 7;
    ph_custom_operator op = {.name = "stop", .forward = bad_forward, .backward = nothing_backward};
    ph_tensor *a = t_leaf(&s, PH_SHAPE(2), 2, 3), *b = t_leaf(&s, PH_SHAPE(2), 1, 1),
              *x = ph_mul(s.tape, a, b), *y, *out;
    ph_custom_call(s.tape, &op, &y, 1, &x, 1);
    ph_tensor *loss = ph_sum(s.tape, ph_add(s.tape, y, a));
    ph_grad(s.tape, &out, &b, 1, &loss, NULL, 1,
            &(ph_grad_options){.retain_graph = true, .allow_unused = true});
    assert_null(out);
    ph_backward_from(s.tape, &loss, NULL, 1, &(ph_backward_options){.retain_graph = true});
    t_expect_grad(&s, a, 1, 1);
    assert_null(ph_tensor_grad(b));
    ph_grad(s.tape, &out, &b, 1, &loss, NULL, 1, NULL);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "grad: nothing gave a gradient for input 0");
    ph_tensor_release(a);
    ph_tensor_release(b);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_custom_operator_gives_gradients_to_its_operands),
        cmocka_unit_test(release_comes_once_for_each_call),
        cmocka_unit_test(an_output_that_is_an_operand_becomes_a_view),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(test_no_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
