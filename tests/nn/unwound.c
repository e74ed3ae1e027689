/* SPDX-License-Identifier: MIT */
/* tests/nn/unwound.c: functions of the user's under a tape that do not return, as when an
 * exception leaves them (here the end of their thread, which unwinds in the same way): the tape
 * has failed, its modes are as before, and once it is cleared it goes on. */
#include "base/sync.h"
#include "support/grads.h"
#include "support/test.h"
#include <phonograph/nn.h>

static t_scene scene;
static ph_tensor *x;
static ph_module *module;
static bool leaves;

static void leave(void)
{
    if (leaves)
        pthread_exit(NULL);
}

static void forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = ph_relu(tape, in[0]);
    leave();
}

FIXTURE(open_scene)
{
    const ph_module_desc desc = {.name = "leaving", .forward = forward};
    t_scene_open(&scene);
    x = t_leaf(&scene, PH_SHAPE(2), 1, 2);
    assert_ok(ph_module_create(&module, scene.device, &desc));
    return 0;
}

FIXTURE(close_scene)
{
    ph_module_release(module);
    ph_tensor_release(x);
    t_scene_close(&scene);
    return 0;
}

static void *run(void *call)
{
    (*(void (**)(void))call)();
    return NULL;
}

/* call ends its thread inside of it; afterwards it goes well here. */
static void leave_inside(void (*call)(void))
{
    pthread_t thread;
    ph_tape *tape = scene.tape;
    leaves = true;
    assert_true(ph__thread_start(&thread, "left", run, &call));
    assert_int_equal(pthread_join(thread, NULL), 0);
    leaves = false;
    assert_int_equal(ph_tape_status(tape), PH_ERROR_CALLER);
    assert_non_null(strstr(ph_error_last()->message, "did not return"));
    assert_true(ph_tape_grad_enabled(tape));
    /* not refused: it tells the failure that it cleared */
    assert_status(ph_tape_clear(tape), PH_ERROR_CALLER);
    assert_ok(ph_tape_status(tape));
    call();
    assert_ok(ph_tape_status(tape));
    assert_ok(ph_tape_clear(tape));
}

/* ---- modules ---- */
static void call_module(void)
{
    (void)ph_call(scene.tape, module, x);
}

TEST(a_thread_that_ends_in_a_call_breaks_nothing)
{
    leave_inside(call_module);
}

static void module_hook(ph_tape *tape, ph_module *of, ph_tensor **tensors, size_t count, void *user)
{
    (void)tape;
    (void)of;
    (void)tensors;
    (void)count;
    (void)user;
    leave();
}

TEST(test_module_hooks)
{
    ph_module_hook *hook;
    assert_ok(ph_module_hook_add(&hook, module, PH_MODULE_HOOK_FORWARD_PRE, module_hook, NULL));
    leave_inside(call_module);
    ph_module_hook_remove(hook); /* at once: none runs */
    assert_ok(ph_module_hook_add(&hook, module, PH_MODULE_HOOK_FORWARD, module_hook, NULL));
    leave_inside(call_module);
    ph_module_hook_remove(hook);
}

/* ---- operators ---- */
static unsigned released;

static void custom_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    ph_custom_save(custom, in, 1);
    out[0] = ph_relu(tape, in[0]);
    leave();
}

static void custom_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                            ph_tensor *const *grad_out, const bool *needed)
{
    (void)custom;
    (void)tape;
    (void)needed;
    grad_in[0] = grad_out[0];
}

static void release(void *user)
{
    (void)user;
    released++;
}

static void call_custom(void)
{
    const ph_custom_operator op = {
        .name = "mine", .forward = custom_forward, .backward = custom_backward, .release = release};
    ph_tensor *out;
    ph_custom_call(scene.tape, &op, &out, 1, &x, 1);
}

TEST(test_custom_operator)
{
    released = 0;
    leave_inside(call_custom);
    assert_int_equal(released, 2);
}

static void checkpointed(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    (void)user;
    out[0] = ph_relu(tape, in[0]);
    leave();
}

static void call_checkpoint(void)
{
    ph_tensor *out;
    ph_checkpoint(scene.tape, checkpointed, NULL, &out, 1, &x, 1);
}

TEST(a_thread_that_ends_in_a_checkpoint_breaks_nothing)
{
    leave_inside(call_checkpoint);
}

/* ---- backward ---- */
static ph_tensor *tensor_hook(ph_tape *tape, ph_tensor *grad, void *user)
{
    (void)tape;
    (void)user;
    leave();
    return grad;
}

static void call_backward(void)
{
    ph_backward(scene.tape, ph_sum(scene.tape, ph_relu(scene.tape, x)));
}

TEST(test_tensor_hook)
{
    ph_tensor_hook *hook;
    assert_ok(ph_tensor_hook_add(&hook, x, tensor_hook, NULL));
    leave_inside(call_backward);
    ph_tensor_hook_remove(hook);
    call_backward();
    assert_ok(ph_tape_status(scene.tape));
}

/* ---- breaks of graphed callables ---- */
static ph_status leaving_break(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    leave();
    return PH_OK;
}

static void broken_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    ph_tensor *half = ph_relu(tape, in[0]);
    ph_tape_check(tape, ph_break(ph_tape_stream(tape), leaving_break, NULL));
    out[0] = ph_relu(tape, half);
}

static ph_module *graphed;

static void call_graphed(void)
{
    (void)ph_call(scene.tape, graphed, x);
}

TEST(a_thread_that_ends_in_a_break_of_a_callable_breaks_nothing)
{
    const ph_module_desc desc = {.name = "broken", .forward = broken_forward};
    ph_module *broken;
    assert_ok(ph_module_create(&broken, scene.device, &desc));
    const ph_sample sample = {.tensors = &x, .count = 1};
    assert_ok(ph_make_graphed_callables(&graphed, &broken, &sample, 1, NULL));
    ph_tensor *before = ph_tensor_retain(ph_call(scene.tape, graphed, x));
    assert_ok(ph_tape_status(scene.tape));
    leave_inside(call_graphed);
    (void)ph_relu(scene.tape, before);
    assert_error(ph_tape_status(scene.tape), PH_ERROR_OVERWRITTEN, "overwritten");
    assert_status(ph_tape_clear(scene.tape), PH_ERROR_OVERWRITTEN);
    ph_tensor_release(before);
    ph_module_release(graphed);
    ph_module_release(broken);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_thread_that_ends_in_a_call_breaks_nothing),
        CASE(test_module_hooks),
        CASE(test_custom_operator),
        CASE(a_thread_that_ends_in_a_checkpoint_breaks_nothing),
        CASE(test_tensor_hook),
        CASE(a_thread_that_ends_in_a_break_of_a_callable_breaks_nothing),
    };
    return cmocka_run_group_tests_name("nn.unwound", tests, NULL, NULL);
}
