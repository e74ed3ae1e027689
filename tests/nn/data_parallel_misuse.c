/* SPDX-License-Identifier: MIT */
/* Data-parallel networks on one rank, and their misuse. */
#include "support/nets.h"
#include "support/test.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
    assert_ok(ph_data_parallel_create(&parallel, module, comm, NULL));
    return 0;
}

FIXTURE(close_scene)
{
    ph_data_parallel_destroy(parallel);
    ph_comm_release(comm);
    ph_module_release(module);
    t_scene_close(&s);
    return 0;
}

static void expect_refused(ph_module *of, ph_comm *on, const ph_data_parallel_options *options,
                           ph_status status, const char *part)
{
    ph_data_parallel *out;
    memset(&out, 0xab, sizeof out);
    assert_error(ph_data_parallel_create(&out, of, on, options), status, part);
    assert_null(out);
}

TEST(arguments_that_are_null_are_named)
{
    const ph_data_parallel_options reserved = {.reserved = {0, 1}};
    ph_data_parallel_info info;
    assert_error(ph_data_parallel_create(NULL, module, comm, NULL), PH_ERROR_ARGUMENT,
                 "ph_data_parallel_create: out");
    expect_refused(NULL, comm, NULL, PH_ERROR_ARGUMENT, "module");
    expect_refused(module, NULL, NULL, PH_ERROR_ARGUMENT, "comm");
    expect_refused(module, comm, &reserved, PH_ERROR_ARGUMENT, "ph_data_parallel_options");
    assert_error(ph_data_parallel_get_info(NULL, parallel), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_data_parallel_get_info(&info, NULL), PH_ERROR_ARGUMENT, "parallel");
    assert_false(ph_data_parallel_set_sync(NULL, true));
    ph_data_parallel_destroy(NULL);
    ph_data_parallel_backward(NULL, parallel, NULL);
    ph_data_parallel_backward(s.tape, NULL, NULL);
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "ph_data_parallel_backward: parallel");
}

TEST(a_communicator_that_has_failed_is_refused)
{
    ph_comm_abort(comm, "no data left");
    expect_refused(module, comm, NULL, PH_ERROR_PEER, "no data left");
}

TEST(a_communicator_of_another_device_is_refused)
{
    t_scene other;
    ph_comm *far;
    t_scene_open(&other);
    assert_ok(ph_comm_create(&far, other.device, NULL));
    expect_refused(module, far, NULL, PH_ERROR_WRONG_DEVICE, "");
    ph_comm_release(far);
    ph_data_parallel_backward(other.tape, parallel, NULL);
    assert_error(ph_tape_clear(other.tape), PH_ERROR_WRONG_DEVICE, "another device than scale");
    t_scene_close(&other);
}

TEST(parameters_that_are_not_contiguous_are_refused)
{
    ph_tensor *wide = t_leaf(&s, PH_SHAPE(2, 2), 1, 2, 3, 4);
    ph_tensor *turned = ph_tensor_retain(ph_transpose(s.tape, wide, 0, 1));
    assert_ok(ph_tape_clear(s.tape));
    const ph_parameter parameter = {"turned", &turned};
    const ph_module_desc desc = {.name = "turned",
                                 .forward = t_scale_forward,
                                 .self = &scale,
                                 .parameters = &parameter,
                                 .parameter_count = 1};
    ph_module *net;
    assert_ok(ph_module_create(&net, s.device, &desc));
    expect_refused(net, comm, NULL, PH_ERROR_ARGUMENT, "turned is not contiguous");
    ph_module_release(net);
    ph_tensor_release(turned);
    ph_tensor_release(wide);
}

TEST(no_capture_may_be_open)
{
    ph_data_parallel *out;
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, s.stream, NULL));
    assert_status(ph_data_parallel_create(&out, module, comm, NULL), PH_ERROR_CAPTURE);
    assert_null(out);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    ph_graph_destroy(graph);
}

/* A loss that failed leaves the network as it was. */
TEST(a_pass_that_fails_is_no_end)
{
    ph_tensor *x = t_input(&s, 1, 1);
    ph_data_parallel_backward(s.tape, parallel, ph_call(s.tape, module, x));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "more than one element");
    for (int i = 1; i < 3; i++) {
        float host[2];
        ph_tensor *loss = ph_sum(s.tape, ph_call(s.tape, module, t_input(&s, 3, 4)));
        ph_data_parallel_backward(s.tape, parallel, loss);
        assert_ok(ph_tape_clear(s.tape));
        assert_ok(ph_tensor_read(s.tape, ph_tensor_grad(scale.weight), host, sizeof host));
        assert_true(host[0] == (float)(3 * i) && host[1] == (float)(4 * i));
    }
}

TEST(options_that_contradict_are_named)
{
    const ph_data_parallel_options whole = {.reduce_dtype = PH_DTYPE_I32},
                                   own = {.reduce_dtype = PH_DTYPE_F32},
                                   even = {.divide_by_active = true};
    expect_refused(module, comm, &whole, PH_ERROR_ARGUMENT, "reduce_dtype is i32");
    expect_refused(module, comm, &own, PH_ERROR_ARGUMENT, "reduce_dtype is f32");
    expect_refused(module, comm, &even, PH_ERROR_ARGUMENT, "uneven_inputs is not");
}

static void expect_no_join(ph_tape *tape, ph_data_parallel *of, ph_status status, const char *part)
{
    bool passed = true;
    assert_error(ph_data_parallel_join(&passed, tape, of), status, part);
    assert_false(passed);
    if (tape)
        ph_ignore(ph_tape_clear(tape));
}

TEST(a_join_that_cannot_be_is_refused)
{
    ph_data_parallel *uneven;
    ph_graph *graph;
    const ph_data_parallel_options options = {.uneven_inputs = true};
    assert_error(ph_data_parallel_join(NULL, s.tape, parallel), PH_ERROR_ARGUMENT, "passed");
    expect_no_join(NULL, parallel, PH_ERROR_ARGUMENT, "tape");
    expect_no_join(s.tape, NULL, PH_ERROR_ARGUMENT, "parallel");
    expect_no_join(s.tape, parallel, PH_ERROR_STATE, "without uneven_inputs");
    assert_ok(ph_data_parallel_create(&uneven, module, comm, &options));
    assert_true(ph_data_parallel_set_sync(uneven, false));
    expect_no_join(s.tape, uneven, PH_ERROR_STATE, "ph_data_parallel_set_sync is false");
    assert_false(ph_data_parallel_set_sync(uneven, true));
    ph_tape_fail(s.tape, PH_ERROR_CALLER, "no");
    expect_no_join(s.tape, uneven, PH_ERROR_CALLER, "the tape failed before this call");
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, s.stream, NULL));
    expect_no_join(s.tape, uneven, PH_ERROR_UNSUPPORTED, "no pass is captured");
    ph_data_parallel_backward(s.tape, uneven, NULL);
    assert_error(ph_tape_clear(s.tape), PH_ERROR_UNSUPPORTED, "ph_data_parallel_backward: with");
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    ph_graph_destroy(graph);
    ph_data_parallel_destroy(uneven);
}

TEST(parameters_are_sharded_once_and_as_floats_that_optimizers_take)
{
    const ph_data_parallel_options options = {.shard_optimizer = true};
    const ph_layer_options half = {.dtype = PH_DTYPE_F16};
    ph_data_parallel *sharded;
    ph_module *small;
    assert_ok(ph_linear_create_with(&small, s.device, 2, 1, &half));
    expect_refused(small, comm, &options, PH_ERROR_ARGUMENT, "is of f16");
    ph_module_release(small);
    assert_ok(ph_data_parallel_create(&sharded, module, comm, &options));
    expect_refused(module, comm, &options, PH_ERROR_STATE, "is sharded already");
    ph_data_parallel_destroy(sharded);
    assert_ok(ph_data_parallel_create(&sharded, module, comm, &options));
    ph_data_parallel_destroy(sharded);
    assert_null(ph_data_parallel_shards(NULL));
    assert_null(ph_data_parallel_shards(parallel));
    ph_data_parallel_gather(NULL, parallel);
    ph_data_parallel_gather(s.tape, NULL);
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "ph_data_parallel_gather: parallel");
    assert_null(ph_data_parallel_clip_grad_norm(s.tape, NULL, 1));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "clip_grad_norm: parallel");
}

/* Of one rank, whose part is the whole. */
TEST(state_is_saved_and_loaded_by_calls_that_are_whole)
{
    const ph_data_parallel_options options = {.shard_optimizer = true};
    const ph_sgd_options momentum = {.lr = 1, .momentum = 0.5};
    char name[64];
    ph_data_parallel *sharded;
    ph_optimizer *optimizer, *whole;
    snprintf(name, sizeof name, "/tmp/phonograph-state-%d", (int)getpid());
    assert_ok(ph_sgd_create(&whole, module, &momentum));
    assert_ok(ph_data_parallel_create(&sharded, module, comm, &options));
    assert_ok(ph_sgd_create(&optimizer, ph_data_parallel_shards(sharded), &momentum));
    assert_error(ph_data_parallel_save_optimizer(NULL, whole, name), PH_ERROR_ARGUMENT, "parallel");
    assert_error(ph_data_parallel_load_optimizer(NULL, whole, name), PH_ERROR_ARGUMENT, "parallel");
    assert_error(ph_data_parallel_save_optimizer(sharded, NULL, name), PH_ERROR_ARGUMENT,
                 "save_optimizer: optimizer");
    assert_error(ph_data_parallel_load_optimizer(sharded, NULL, name), PH_ERROR_ARGUMENT,
                 "load_optimizer: optimizer");
    assert_error(ph_data_parallel_save_optimizer(sharded, optimizer, NULL), PH_ERROR_ARGUMENT,
                 "path");
    assert_error(ph_data_parallel_load_optimizer(sharded, optimizer, NULL), PH_ERROR_ARGUMENT,
                 "path");
    assert_error(ph_data_parallel_save_optimizer(sharded, whole, name), PH_ERROR_ARGUMENT,
                 "is no shard of this network");
    assert_error(ph_data_parallel_load_optimizer(sharded, optimizer, "/none/such"), PH_ERROR_IO,
                 "/none/such");
    assert_ok(ph_data_parallel_save_optimizer(sharded, optimizer, name));
    assert_ok(ph_data_parallel_load_optimizer(sharded, optimizer, name));
    assert_ok(ph_optimizer_load(whole, name));
    assert_ok(ph_data_parallel_save_optimizer(parallel, whole, name));
    assert_ok(ph_data_parallel_load_optimizer(parallel, whole, name));
    unlink(name);
    ph_optimizer_destroy(optimizer);
    ph_optimizer_destroy(whole);
    ph_data_parallel_destroy(sharded);
}

static int64_t run_out_of_memory(bool load, ph_data_parallel *sharded, ph_optimizer *optimizer,
                                 const char *name)
{
    ph_status status = PH_ERROR_HOST_MEMORY;
    int64_t n = 0;
    for (; status != PH_OK; n++) {
        assert_true(n < 2000);
        ph__alloc_fail_after(n);
        status = load ? ph_data_parallel_load_optimizer(sharded, optimizer, name)
                      : ph_data_parallel_save_optimizer(sharded, optimizer, name);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK)
            assert_error(status, PH_ERROR_HOST_MEMORY, "memory");
        assert_int_equal(t_info(&s).tensors, 0);
    }
    return n;
}

TEST(state_is_saved_and_loaded_once_there_is_memory)
{
    const ph_data_parallel_options options = {.shard_optimizer = true};
    char name[64];
    ph_data_parallel *sharded;
    ph_optimizer *optimizer;
    snprintf(name, sizeof name, "/tmp/phonograph-state-%d", (int)getpid());
    assert_ok(ph_data_parallel_create(&sharded, module, comm, &options));
    assert_ok(ph_adam_create(&optimizer, ph_data_parallel_shards(sharded), NULL));
    ph_data_parallel_backward(s.tape, sharded,
                              ph_sum(s.tape, ph_call(s.tape, module, t_input(&s, 3, 4))));
    ph_optimizer_step(s.tape, optimizer);
    assert_ok(ph_tape_clear(s.tape));
    for (int load = 0; load < 2; load++)
        assert_true(run_out_of_memory(load, sharded, optimizer, name) > 20);
    unlink(name);
    ph_optimizer_destroy(optimizer);
    ph_data_parallel_destroy(sharded);
}

/* Its own pass counts, and at once it has no inputs. */
TEST(one_rank_joins_alone)
{
    const ph_data_parallel_options options = {.uneven_inputs = true, .divide_by_active = true};
    ph_data_parallel *uneven;
    bool passed = true;
    float host[2];
    assert_ok(ph_data_parallel_create(&uneven, module, comm, &options));
    ph_data_parallel_backward(s.tape, uneven,
                              ph_sum(s.tape, ph_call(s.tape, module, t_input(&s, 3, 4))));
    assert_ok(ph_data_parallel_join(&passed, s.tape, uneven));
    assert_false(passed);
    assert_ok(ph_tensor_read(s.tape, ph_tensor_grad(scale.weight), host, sizeof host));
    assert_true(host[0] == 3 && host[1] == 4);
    assert_ok(ph_tape_clear(s.tape));
    ph_data_parallel_destroy(uneven);
}

/* Its gradients outlive it. */
TEST(one_rank_is_a_backward_pass)
{
    ph_data_parallel_info info;
    float host[2];
    assert_ok(ph_data_parallel_get_info(&info, parallel));
    assert_int_equal(info.buckets, 1);
    assert_int_equal(info.parameters, 1);
    assert_true(ph_data_parallel_set_sync(parallel, false));
    assert_false(ph_data_parallel_set_sync(parallel, true));
    ph_data_parallel_backward(s.tape, parallel,
                              ph_sum(s.tape, ph_call(s.tape, module, t_input(&s, 3, 4))));
    assert_ok(ph_tape_clear(s.tape));
    ph_data_parallel_destroy(parallel);
    parallel = NULL;
    assert_ok(ph_tensor_read(s.tape, ph_tensor_grad(scale.weight), host, sizeof host));
    assert_true(host[0] == 3 && host[1] == 4);
}

int main(void)
{
#define IN_SCENE(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)
    const struct CMUnitTest tests[] = {
        IN_SCENE(arguments_that_are_null_are_named),
        IN_SCENE(a_communicator_that_has_failed_is_refused),
        IN_SCENE(a_communicator_of_another_device_is_refused),
        IN_SCENE(parameters_that_are_not_contiguous_are_refused),
        IN_SCENE(no_capture_may_be_open),
        IN_SCENE(a_pass_that_fails_is_no_end),
        IN_SCENE(options_that_contradict_are_named),
        IN_SCENE(a_join_that_cannot_be_is_refused),
        IN_SCENE(parameters_are_sharded_once_and_as_floats_that_optimizers_take),
        IN_SCENE(state_is_saved_and_loaded_by_calls_that_are_whole),
        IN_SCENE(state_is_saved_and_loaded_once_there_is_memory),
        IN_SCENE(one_rank_joins_alone),
        IN_SCENE(one_rank_is_a_backward_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
