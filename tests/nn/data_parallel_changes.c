/* SPDX-License-Identifier: MIT */
/* What programs do with a network after ph_data_parallel_create: hooks, frozen parameters, passes
 * that fail, groups of collectives, gradients that are not finite. One rank. */
#include "base/sync.h"
#include "support/nets.h"
#include "support/test.h"
#include <math.h>

static ph_data_parallel *parallel;
static ph_module *module;
static ph_comm *comm;
static t_scale scale;
static t_scene s;

FIXTURE(open_scene)
{
    t_scene_open(&s);
    module = t_scale_open(&s, &scale, 2);
    assert_ok(ph_comm_create(&comm, s.device, NULL));
    return 0;
}

FIXTURE(close_scene)
{
    ph_data_parallel_destroy(parallel);
    parallel = NULL;
    ph_comm_release(comm);
    ph_module_release(module);
    t_scene_close(&s);
    return 0;
}

static void create(bool shards)
{
    const ph_data_parallel_options options = {.shard_optimizer = shards};
    assert_ok(ph_data_parallel_create(&parallel, module, comm, &options));
}

static void pass(float a, float b)
{
    ph_data_parallel_backward(s.tape, parallel,
                              ph_sum(s.tape, ph_call(s.tape, module, t_input(&s, a, b))));
}

static void expect_refused_pass(const char *part)
{
    pass(3, 4);
    assert_error(ph_tape_clear(s.tape), PH_ERROR_STATE, part);
}

static void expect_gradient(float a, float b)
{
    float host[2];
    assert_ok(ph_tape_clear(s.tape));
    assert_non_null(ph_tensor_grad(scale.weight));
    assert_ok(ph_tensor_read(s.tape, ph_tensor_grad(scale.weight), host, sizeof host));
    assert_true(host[0] == a && host[1] == b);
}

/* ---- hooks ---- */
static ph_tensor *ten_times(ph_tape *tape, ph_tensor *grad, void *user)
{
    ++*(int *)user;
    return ph_mul_scalar(tape, grad, 10);
}

TEST(hooks_that_are_added_later_change_what_is_reduced)
{
    ph_tensor_hook *before, *behind;
    int calls = 0;
    assert_ok(ph_tensor_hook_add(&before, scale.weight, ten_times, &calls));
    create(false);
    assert_ok(ph_tensor_hook_add(&behind, scale.weight, ten_times, &calls));
    pass(3, 4);
    expect_gradient(300, 400);
    assert_int_equal(calls, 2);
    ph_tensor_hook_remove(before);
    assert_ok(ph_tensor_set_grad(scale.weight, NULL));
    pass(3, 4);
    expect_gradient(30, 40);
    ph_tensor_hook_remove(behind);
}

typedef struct adding {
    ph_tensor_hook *hook;
    int calls;
} adding;

static ph_tensor *add_another(ph_tape *tape, ph_tensor *grad, void *user)
{
    adding *a = user;
    (void)tape;
    if (a->hook == NULL)
        assert_ok(ph_tensor_hook_add(&a->hook, scale.weight, ten_times, &a->calls));
    return grad;
}

TEST(a_hook_that_a_hook_adds_runs_in_the_next_pass)
{
    ph_tensor_hook *first;
    adding a = {NULL, 0};
    assert_ok(ph_tensor_hook_add(&first, scale.weight, add_another, &a));
    create(false);
    pass(3, 4);
    expect_gradient(3, 4);
    assert_int_equal(a.calls, 0);
    assert_ok(ph_tensor_set_grad(scale.weight, NULL));
    pass(3, 4);
    expect_gradient(30, 40);
    ph_tensor_hook_remove(a.hook);
    ph_tensor_hook_remove(first);
}

static ph_tensor *leave(ph_tape *tape, ph_tensor *grad, void *user)
{
    (void)tape;
    (void)user;
    pthread_exit(grad);
}

static void *run_pass(void *user)
{
    (void)user;
    pass(3, 4);
    return NULL;
}

/* As an exception of a hook does. */
TEST(a_hook_that_does_not_return_leaves_the_network_as_it_was)
{
    pthread_t thread;
    ph_tensor_hook *hook;
    create(false);
    assert_ok(ph_tensor_hook_add(&hook, scale.weight, leave, NULL));
    assert_true(ph__thread_start(&thread, "left", run_pass, NULL));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_error(ph_tape_clear(s.tape), PH_ERROR_CALLER, "did not return");
    ph_tensor_hook_remove(hook);
    pass(3, 4);
    expect_gradient(3, 4);
}

/* ---- parameters ---- */
TEST(a_parameter_that_was_frozen_since_is_named)
{
    create(false);
    assert_ok(ph_tensor_set_requires_grad(scale.weight, false));
    expect_refused_pass("weight of scale was frozen since ph_data_parallel_create");
    assert_null(ph_tensor_grad(scale.weight));
    assert_ok(ph_tensor_set_requires_grad(scale.weight, true));
    pass(3, 4);
    expect_gradient(3, 4);
}

TEST(a_parameter_that_was_unfrozen_since_is_named)
{
    assert_ok(ph_tensor_set_requires_grad(scale.weight, false));
    create(false);
    assert_ok(ph_tensor_set_requires_grad(scale.weight, true));
    expect_refused_pass("weight of scale was unfrozen or put in since");
}

TEST(an_optimizer_from_before_the_shards_is_refused)
{
    const ph_sgd_options sgd = {.lr = 1};
    ph_optimizer *optimizer;
    assert_ok(ph_sgd_create(&optimizer, module, &sgd));
    create(true);
    pass(3, 4);
    ph_optimizer_step(s.tape, optimizer);
    assert_error(ph_tape_clear(s.tape), PH_ERROR_STATE, "make one of ph_data_parallel_shards");
    ph_optimizer_destroy(optimizer);
}

/* ---- groups ---- */
static void expect_refused_in_group(void)
{
    assert_error(ph_tape_clear(s.tape), PH_ERROR_STATE, "a group of the communicator is open");
}

TEST(work_of_a_network_is_refused_in_a_group)
{
    ph_data_parallel *other;
    create(true);
    pass(3, 4);
    assert_false(ph_comm_in_group(comm) || ph_comm_in_group(NULL));
    assert_ok(ph_comm_group_begin(comm));
    assert_true(ph_comm_in_group(comm));
    assert_null(ph_data_parallel_clip_grad_norm(s.tape, parallel, 1));
    expect_refused_in_group();
    pass(3, 4);
    expect_refused_in_group();
    ph_data_parallel_gather(s.tape, parallel);
    expect_refused_in_group();
    assert_error(ph_data_parallel_create(&other, module, comm, NULL), PH_ERROR_STATE, "a group");
    ph_tensor *x = t_input(&s, 1, 2);
    assert_null(ph_tensor_all_reduce(s.tape, comm, x, PH_REDUCE_SUM));
    expect_refused_in_group();
    assert_ok(ph_comm_group_end(comm));
    assert_non_null(ph_data_parallel_clip_grad_norm(s.tape, parallel, 1));
    assert_ok(ph_tape_clear(s.tape));
}

/* ---- norms ---- */
static float clip(double most)
{
    float norm;
    ph_tensor *total = ph_data_parallel_clip_grad_norm(s.tape, parallel, most);
    assert_ok(ph_tape_status(s.tape));
    assert_ok(ph_tensor_read(s.tape, total, &norm, sizeof norm));
    assert_ok(ph_tape_clear(s.tape));
    return norm;
}

TEST(a_nan_is_gone_with_the_gradient_that_had_it)
{
    const ph_sgd_options sgd = {.lr = 1};
    ph_optimizer *optimizer;
    create(true);
    assert_ok(ph_sgd_create(&optimizer, ph_data_parallel_shards(parallel), &sgd));
    pass(NAN, 4);
    assert_true(isnan(clip(1)));
    ph_optimizer_zero_grad(s.tape, optimizer);
    pass(3, 4);
    assert_true(clip(100) == 5);
    ph_optimizer_destroy(optimizer);
}

TEST(gradients_that_were_set_to_zero_have_no_norm)
{
    const ph_sgd_options sgd = {.lr = 1};
    ph_optimizer *optimizer;
    create(true);
    assert_ok(ph_sgd_create(&optimizer, ph_data_parallel_shards(parallel), &sgd));
    pass(3, 4);
    assert_true(clip(100) == 5);
    ph_optimizer_zero_grad(s.tape, optimizer);
    assert_true(clip(100) == 0);
    ph_optimizer_destroy(optimizer);
}

int main(void)
{
#define IN_SCENE(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)
    const struct CMUnitTest tests[] = {
        IN_SCENE(hooks_that_are_added_later_change_what_is_reduced),
        IN_SCENE(a_hook_that_a_hook_adds_runs_in_the_next_pass),
        IN_SCENE(a_hook_that_does_not_return_leaves_the_network_as_it_was),
        IN_SCENE(a_parameter_that_was_frozen_since_is_named),
        IN_SCENE(a_parameter_that_was_unfrozen_since_is_named),
        IN_SCENE(an_optimizer_from_before_the_shards_is_refused),
        IN_SCENE(work_of_a_network_is_refused_in_a_group),
        IN_SCENE(a_nan_is_gone_with_the_gradient_that_had_it),
        IN_SCENE(gradients_that_were_set_to_zero_have_no_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
