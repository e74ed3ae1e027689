/* SPDX-License-Identifier: MIT */
/* tests/nn/module_hooks.c: hooks of modules: their order, what they may change, gradients, hooks
 * that add and remove hooks, misuse. */
#include "support/nets.h"
#include "support/test.h"

typedef struct note {
    char text[64];
    ph_module_hook *own, *other; /* removed by it */
    ph_module *release;
    float grads[4];
    int runs;
} note;

static note *current;

static void add_note(char letter)
{
    size_t used = strlen(current->text);
    current->text[used] = letter;
    current->text[used + 1] = '\0';
}

static void note_letter(ph_tape *tape, ph_module *module, ph_tensor **tensors, size_t count,
                        void *user)
{
    assert_non_null(tape);
    assert_non_null(module);
    assert_non_null(tensors[0]);
    assert_int_equal(count, 1);
    add_note(*(const char *)user);
}

TEST(hooks_run_in_the_order_of_their_points)
{
    t_scene s;
    t_scale scale;
    note n = {.runs = 0};
    ph_module_hook *hook[5];
    t_scene_open(&s);
    current = &n;
    ph_module *module = t_scale_open(&s, &scale, 3);
    static char letters[] = "abcde";
    assert_false(ph_module_has_hooks(module));
    assert_ok(
        ph_module_hook_add(&hook[0], module, PH_MODULE_HOOK_FORWARD, note_letter, &letters[0]));
    assert_ok(
        ph_module_hook_add(&hook[1], module, PH_MODULE_HOOK_FORWARD_PRE, note_letter, &letters[1]));
    assert_ok(
        ph_module_hook_add(&hook[2], module, PH_MODULE_HOOK_BACKWARD, note_letter, &letters[2]));
    assert_ok(
        ph_module_hook_add(&hook[3], module, PH_MODULE_HOOK_FORWARD, note_letter, &letters[3]));
    assert_ok(
        ph_module_hook_add(&hook[4], module, PH_MODULE_HOOK_FORWARD_PRE, note_letter, &letters[4]));
    assert_true(ph_module_has_hooks(module));
    ph_tensor *y = ph_call(s.tape, module, t_input(&s, 1, 2));
    assert_string_equal(n.text, "bead");
    t_expect_values(s.tape, y, PH_SHAPE(2), 3, 12);
    ph_backward(s.tape, ph_sum(s.tape, y));
    assert_string_equal(n.text, "beadc");
    t_expect_grad(&s, scale.weight, 1, 2);
    assert_ok(ph_tape_clear(s.tape));
    for (int i = 0; i < 5; i++)
        ph_module_hook_remove(hook[i]);
    assert_false(ph_module_has_hooks(module));
    (void)ph_call(s.tape, module, t_input(&s, 1, 2));
    assert_string_equal(n.text, "beadc");
    ph_module_release(module);
    t_scene_close(&s);
}

static void double_it(ph_tape *tape, ph_module *module, ph_tensor **tensors, size_t count,
                      void *user)
{
    (void)module;
    (void)user;
    for (size_t i = 0; i < count; i++)
        tensors[i] = ph_mul_scalar(tape, tensors[i], 2);
}

static void add_one(ph_tape *tape, ph_module *module, ph_tensor **tensors, size_t count, void *user)
{
    (void)module;
    (void)user;
    for (size_t i = 0; i < count; i++)
        tensors[i] = ph_add_scalar(tape, tensors[i], 1);
}

/* Inputs and outputs as the hooks made them; what they do has gradients. The caller's array is
 * not theirs. */
TEST(hooks_change_inputs_and_outputs_with_gradients)
{
    t_scene s;
    t_scale scale;
    ph_module_hook *hook[3];
    t_scene_open(&s);
    ph_module *module = t_scale_open(&s, &scale, 3);
    assert_ok(ph_module_hook_add(&hook[0], module, PH_MODULE_HOOK_FORWARD_PRE, add_one, NULL));
    assert_ok(ph_module_hook_add(&hook[1], module, PH_MODULE_HOOK_FORWARD, double_it, NULL));
    assert_ok(ph_module_hook_add(&hook[2], module, PH_MODULE_HOOK_FORWARD, add_one, NULL));
    ph_tensor *x = t_input(&s, 1, 2), *in[1] = {x}, *y;
    ph_call_n(s.tape, module, &y, 1, in, 1);
    assert_ptr_equal(in[0], x);
    t_expect_values(s.tape, y, PH_SHAPE(2), 13, 37);
    ph_backward(s.tape, ph_sum(s.tape, y));
    t_expect_grad(&s, scale.weight, 4, 6);
    assert_ok(ph_tape_clear(s.tape));
    for (int i = 0; i < 3; i++)
        ph_module_hook_remove(hook[i]);
    ph_module_release(module);
    t_scene_close(&s);
}

/* ---- gradients ---- */
static void both_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = ph_mul_scalar(tape, in[0], 2);
    out[1] = ph_mul_scalar(tape, in[0], 3);
}

static void keep_grads(ph_tape *tape, ph_module *module, ph_tensor **grads, size_t count,
                       void *user)
{
    note *n = user;
    (void)module;
    n->runs++;
    for (size_t i = 0; i < count && 2 * i < 4; i++) {
        if (grads[i])
            assert_ok(ph_tensor_read(tape, grads[i], &n->grads[2 * i], 2 * sizeof(float)));
        grads[i] = NULL; /* it may look, not change */
    }
}

TEST(a_backward_hook_sees_all_gradients_in_one_call)
{
    t_scene s;
    note n = {.runs = 0};
    ph_module *module;
    ph_module_hook *hook;
    t_scene_open(&s);
    ph_module_desc desc = {.name = "both", .forward = both_forward, .out_count = 2};
    assert_ok(ph_module_create(&module, s.device, &desc));
    assert_ok(ph_module_hook_add(&hook, module, PH_MODULE_HOOK_BACKWARD, keep_grads, &n));
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 1, 2), *out[2];
    ph_call_n(s.tape, module, out, 2, &w, 1);
    /* The gradients of both, complete, in one call. */
    ph_tensor *y = ph_sum(
        s.tape, ph_add(s.tape, ph_mul_scalar(s.tape, out[0], 5), ph_add(s.tape, out[1], out[1])));
    ph_backward(s.tape, y);
    assert_ok(ph_tape_status(s.tape));
    assert_int_equal(n.runs, 1);
    assert_memory_equal(n.grads, ((float[]){5, 5, 2, 2}), sizeof n.grads);
    t_expect_grad(&s, w, 16, 16);
    assert_ok(ph_tape_clear(s.tape));
    t_zero_grad(w);

    /* Where one takes no part. The module may go before its history does. */
    ph_call_n(s.tape, module, out, 2, &w, 1);
    ph_module_release(module);
    ph_backward(s.tape, ph_sum(s.tape, out[1]));
    assert_int_equal(n.runs, 2);
    assert_int_equal((int)n.grads[2], 1);
    t_expect_grad(&s, w, 3, 3);
    assert_ok(ph_tape_clear(s.tape));
    ph_module_hook_remove(hook);
    ph_tensor_release(w);
    t_scene_close(&s);
}

/* Without gradients there is nothing to hook on. */
TEST(test_backward_without)
{
    t_scene s;
    note n = {.runs = 0};
    ph_module *module;
    ph_module_hook *hook;
    t_scene_open(&s);
    assert_ok(ph_activation_create(&module, s.device, "relu", ph_relu));
    assert_ok(ph_module_hook_add(&hook, module, PH_MODULE_HOOK_BACKWARD, keep_grads, &n));
    t_expect_values(s.tape, ph_call(s.tape, module, t_input(&s, -1, 2)), PH_SHAPE(2), 0, 2);
    int64_t live = ph__alloc_live();
    assert_ok(ph_tape_clear(s.tape));
    assert_true(ph__alloc_live() <= live);
    assert_int_equal(n.runs, 0);
    ph_module_hook_remove(hook);
    ph_module_release(module);
    t_scene_close(&s);
}

/* ---- hooks that change the list ---- */
static void remove_own(ph_tape *tape, ph_module *module, ph_tensor **tensors, size_t count,
                       void *user)
{
    note *n = user;
    (void)tape;
    (void)module;
    (void)tensors;
    (void)count;
    n->runs++;
    ph_module_hook_remove(n->own);
    ph_module_hook_remove(n->other);
    n->own = n->other = NULL;
}

static void add_another(ph_tape *tape, ph_module *module, ph_tensor **tensors, size_t count,
                        void *user)
{
    static char letter = 'x';
    note *n = user;
    (void)tape;
    (void)tensors;
    (void)count;
    if (!n->other)
        assert_ok(
            ph_module_hook_add(&n->other, module, PH_MODULE_HOOK_FORWARD, note_letter, &letter));
}

TEST(test_remove_inside)
{
    t_scene s;
    t_scale scale;
    static char letters[] = "abc";
    note n = {.runs = 0};
    ph_module_hook *last;
    t_scene_open(&s);
    current = &n;
    ph_module *module = t_scale_open(&s, &scale, 3);
    /* It removes itself and the next one, which does not run any more; the one after that does. */
    assert_ok(ph_module_hook_add(&n.own, module, PH_MODULE_HOOK_FORWARD, remove_own, &n));
    assert_ok(
        ph_module_hook_add(&n.other, module, PH_MODULE_HOOK_FORWARD, note_letter, &letters[0]));
    assert_ok(ph_module_hook_add(&last, module, PH_MODULE_HOOK_FORWARD, note_letter, &letters[1]));
    (void)ph_call(s.tape, module, t_input(&s, 1, 2));
    assert_int_equal(n.runs, 1);
    assert_string_equal(n.text, "b");
    (void)ph_call(s.tape, module, t_input(&s, 1, 2));
    assert_int_equal(n.runs, 1);
    assert_string_equal(n.text, "bb");

    /* What one adds takes part from the next call on. */
    assert_ok(ph_module_hook_add(&n.own, module, PH_MODULE_HOOK_FORWARD, add_another, &n));
    (void)ph_call(s.tape, module, t_input(&s, 1, 2));
    assert_string_equal(n.text, "bbb");
    (void)ph_call(s.tape, module, t_input(&s, 1, 2));
    assert_string_equal(n.text, "bbbbx");
    ph_module_hook_remove(n.own);
    ph_module_hook_remove(n.other);
    ph_module_hook_remove(last);
    assert_ok(ph_tape_clear(s.tape));
    ph_module_release(module);
    t_scene_close(&s);
}

static void release_module(ph_tape *tape, ph_module *module, ph_tensor **tensors, size_t count,
                           void *user)
{
    note *n = user;
    (void)tape;
    (void)tensors;
    (void)count;
    assert_ptr_equal(module, n->release);
    ph_module_release(n->release);
}

/* The last reference goes in a hook: the call still ends. */
TEST(test_release_inside)
{
    t_scene s;
    t_scale scale;
    note n = {.runs = 0};
    t_scene_open(&s);
    n.release = t_scale_open(&s, &scale, 3);
    assert_ok(
        ph_module_hook_add(&n.own, n.release, PH_MODULE_HOOK_FORWARD_PRE, release_module, &n));
    t_expect_values(s.tape, ph_call(s.tape, n.release, t_input(&s, 1, 2)), PH_SHAPE(2), 3, 12);
    assert_int_equal(scale.destroyed, 1);
    ph_module_hook_remove(n.own);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

/* A hook that fails the tape: what comes after it does nothing. */
static void fail_tape(ph_tape *tape, ph_module *module, ph_tensor **tensors, size_t count,
                      void *user)
{
    (void)module;
    (void)tensors;
    (void)count;
    (void)user;
    ph_tape_fail(tape, PH_ERROR_CALLER, "the hook's own");
}

TEST(a_hook_that_fails_ends_the_call)
{
    static const ph_module_hook_point points[] = {PH_MODULE_HOOK_FORWARD_PRE,
                                                  PH_MODULE_HOOK_FORWARD};
    static char letter = 'a';
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    ph_module *module = t_scale_open(&s, &scale, 3);
    for (int i = 0; i < 2; i++) {
        note n = {.runs = 0};
        ph_module_hook *first, *second;
        current = &n;
        assert_ok(ph_module_hook_add(&first, module, points[i], fail_tape, NULL));
        assert_ok(
            ph_module_hook_add(&second, module, PH_MODULE_HOOK_FORWARD, note_letter, &letter));
        assert_null(ph_call(s.tape, module, t_input(&s, 1, 2)));
        assert_string_equal(n.text, "");
        t_expect_failure(&s, PH_ERROR_CALLER, "the hook's own");
        ph_module_hook_remove(first);
        ph_module_hook_remove(second);
    }
    ph_module_release(module);
    t_scene_close(&s);
}

TEST(misuse_is_refused)
{
    t_scene s;
    t_scale scale;
    ph_module_hook *hook;
    t_scene_open(&s);
    ph_module *module = t_scale_open(&s, &scale, 3);
    assert_error(ph_module_hook_add(NULL, module, PH_MODULE_HOOK_FORWARD, add_one, NULL),
                 PH_ERROR_ARGUMENT, "out");
    assert_error(ph_module_hook_add(&hook, NULL, PH_MODULE_HOOK_FORWARD, add_one, NULL),
                 PH_ERROR_ARGUMENT, "module");
    assert_error(ph_module_hook_add(&hook, module, PH_MODULE_HOOK_FORWARD, NULL, NULL),
                 PH_ERROR_ARGUMENT, "fn");
    assert_error(ph_module_hook_add(&hook, module, (ph_module_hook_point)0, add_one, NULL),
                 PH_ERROR_ARGUMENT, "no hook point 0");
    assert_null(hook);
    ph_module_hook_remove(NULL);
    assert_ok(ph_module_hook_add(&hook, module, PH_MODULE_HOOK_BACKWARD, add_one, NULL));
    ph_module_release(module);
    ph_module_hook_remove(hook);
    t_scene_close(&s);
}

/* The n-th allocation fails, for every n, in a call with hooks of every kind. */
TEST(a_hooked_call_without_host_memory_fails_cleanly)
{
    static char letter = 'a';
    static note n;
    t_scene s;
    t_scale scale;
    ph_module_hook *hook[3];
    t_scene_open(&s);
    ph_module *module = t_scale_open(&s, &scale, 3);
    for (int i = 0; i < 3; i++)
        assert_ok(ph_module_hook_add(&hook[i], module, (ph_module_hook_point)(i + 1), note_letter,
                                     &letter));
    ph_tensor *x = ph_tensor_retain(t_input(&s, 1, 2));
    assert_ok(ph_tape_clear(s.tape));
    int64_t at = 0;
    for (ph_status status = PH_ERROR_HOST_MEMORY; status != PH_OK; at++) {
        n = (note){.runs = 0};
        current = &n;
        ph__alloc_fail_after(at);
        ph_backward(s.tape, ph_sum(s.tape, ph_call(s.tape, module, x)));
        status = ph_tape_clear(s.tape);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK)
            assert_error(status, PH_ERROR_HOST_MEMORY, "memory");
        ph_module_zero_grad(module);
    }
    assert_true(at > 5);
    assert_string_equal(n.text, "aaa");
    for (int i = 0; i < 3; i++)
        ph_module_hook_remove(hook[i]);
    ph_tensor_release(x);
    ph_module_release(module);
    t_scene_close(&s);
}

static void clear_tape(ph_tape *tape, ph_module *module, ph_tensor **tensors, size_t count,
                       void *user)
{
    (void)module;
    (void)tensors;
    (void)count;
    *(ph_status *)user = ph_tape_clear(tape);
}

/* What a module was called with is the tape's: it cannot be cleared under it. */
TEST(test_clear_inside)
{
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    ph_module *module = t_scale_open(&s, &scale, 3);
    for (int point = PH_MODULE_HOOK_FORWARD_PRE; point <= PH_MODULE_HOOK_BACKWARD; point++) {
        ph_module_hook *hook;
        ph_status status = PH_OK;
        assert_ok(
            ph_module_hook_add(&hook, module, (ph_module_hook_point)point, clear_tape, &status));
        ph_tensor *y = ph_call(s.tape, module, t_input(&s, 1, 2));
        t_expect_values(s.tape, y, PH_SHAPE(2), 3, 12);
        ph_backward(s.tape, ph_sum(s.tape, y));
        assert_int_equal(status, PH_ERROR_STATE);
        assert_ok(ph_tape_clear(s.tape));
        ph_module_hook_remove(hook);
    }
    ph_module_release(module);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hooks_run_in_the_order_of_their_points),
        cmocka_unit_test(hooks_change_inputs_and_outputs_with_gradients),
        cmocka_unit_test(a_backward_hook_sees_all_gradients_in_one_call),
        cmocka_unit_test(test_backward_without),
        cmocka_unit_test(test_remove_inside),
        cmocka_unit_test(test_release_inside),
        cmocka_unit_test(a_hook_that_fails_ends_the_call),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(a_hooked_call_without_host_memory_fails_cleanly),
        cmocka_unit_test(test_clear_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
