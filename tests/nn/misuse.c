/* SPDX-License-Identifier: MIT */
/* tests/nn/misuse.c: layers with sizes and options that cannot be, modules called without what
 * they need, lists without a function, and optimizers that have nothing to train. */
#include "support/nets.h"
#include "support/test.h"
#include <math.h>
#include <phonograph/graphed.h>

/* ---- layers ---- those with a weight: of one size, and of two. */
static ph_status make_linear(ph_module **out, ph_device *device, int64_t size,
                             const ph_layer_options *options)
{
    return ph_linear_create_with(out, device, size, 2, options);
}

static ph_status make_embedding(ph_module **out, ph_device *device, int64_t size,
                                const ph_layer_options *options)
{
    return ph_embedding_create(out, device, size, 2, options);
}

static const struct layer {
    const char *name;
    ph_status (*make)(ph_module **out, ph_device *device, int64_t size,
                      const ph_layer_options *options);
} layers[] = {{"ph_linear_create", make_linear},
              {"ph_embedding_create", make_embedding},
              {"ph_layer_norm_create", ph_layer_norm_create},
              {"ph_rms_norm_create", ph_rms_norm_create}};

TEST(layers_refuse_bad_sizes_options_and_devices)
{
    t_scene s;
    ph_device *other;
    ph_generator *elsewhere;
    t_scene_open(&s);
    assert_ok(ph_device_open(&other, "host", NULL));
    assert_ok(ph_generator_create(&elsewhere, other, 1));
    const ph_layer_options odd = {.reserved = {0, 0, 1}}, whole = {.dtype = PH_DTYPE_I64},
                           none = {.dtype = (ph_dtype)99}, far = {.generator = elsewhere};
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        const struct layer *l = &layers[i];
        ph_module *module = NULL;
        assert_error(l->make(NULL, s.device, 3, NULL), PH_ERROR_ARGUMENT, l->name);
        assert_error(l->make(&module, NULL, 3, NULL), PH_ERROR_ARGUMENT, "device");
        assert_error(l->make(&module, s.device, -3, NULL), PH_ERROR_ARGUMENT, l->name);
        assert_error(l->make(&module, s.device, 3, &odd), PH_ERROR_ARGUMENT, "reserved");
        assert_error(l->make(&module, s.device, 3, &whole), PH_ERROR_ARGUMENT, "floating");
        assert_error(l->make(&module, s.device, 3, &none), PH_ERROR_ARGUMENT, "floating");
        if (i < 2) /* the norms draw nothing */
            assert_error(l->make(&module, s.device, 3, &far), PH_ERROR_WRONG_DEVICE, "");
        assert_null(module);
        assert_ok(l->make(&module, s.device, 3, NULL));
        assert_null(ph_call(s.tape, module, NULL));
        t_expect_failure(&s, PH_ERROR_ARGUMENT, "NULL");
        assert_null(ph_call(s.tape, module, ph_zeros(s.tape, PH_DTYPE_BOOL, PH_SHAPE(5, 5))));
        t_expect_failure(&s, PH_ERROR_ARGUMENT, "got ");
        ph_module_release(module);
    }
    ph_generator_release(elsewhere);
    ph_device_release(other);
    t_scene_close(&s);
}

TEST(test_plain_layers)
{
    t_scene s;
    ph_module *module = NULL;
    t_scene_open(&s);
    assert_error(ph_dropout_create(&module, NULL, 0.5), PH_ERROR_ARGUMENT, "device");
    assert_error(ph_dropout_create(&module, s.device, -0.5), PH_ERROR_ARGUMENT, "probability");
    assert_error(ph_dropout_create(&module, s.device, (double)NAN), PH_ERROR_ARGUMENT,
                 "probability");
    assert_error(ph_activation_create(NULL, s.device, "relu", ph_relu), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_sequential_create(&module, NULL, 2), PH_ERROR_ARGUMENT, "ph_sequential_create");
    assert_error(ph_transformer_block_create(&module, s.device, -8, 2, NULL), PH_ERROR_ARGUMENT,
                 "");
    assert_null(module);
    t_scene_close(&s);
}

/* ---- calls ---- */
TEST(calls_of_modules_refuse_bad_arguments_by_name)
{
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    ph_module *module = t_scale_open(&s, &scale, 2);
    ph_tensor *x = t_input(&s, 1, 2), *out[2] = {x, x};
    ph_call_n(NULL, module, out, 2, &x, 1);
    assert_null(out[1]);
    ph_call_n(s.tape, module, NULL, 1, &x, 1);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "scale");
    ph_call_n(s.tape, module, out, 1, NULL, 1);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "scale");
    ph_call_n(s.tape, NULL, out, 1, &x, 1);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "module is NULL");
    ph_tape_fail(s.tape, PH_ERROR_CALLER, "the first one");
    assert_null(ph_call(s.tape, module, x));
    t_expect_failure(&s, PH_ERROR_CALLER, "the first one");
    assert_int_equal(scale.calls, 0);
    ph_module_release(module);
    t_scene_close(&s);
}

/* The handle that would be lost is still the caller's. */
TEST(a_module_is_not_given_to_where_another_is_taken_from)
{
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    ph_module *modules[2] = {t_scale_open(&s, &scale, 2), NULL}, *const only = modules[0];
    ph_tensor *x = t_input(&s, 1, 2);
    const ph_sample sample = {.tensors = &x, .count = 1};
    assert_error(ph_make_graphed_callables(modules, modules, &sample, 1, NULL), PH_ERROR_ARGUMENT,
                 "out and modules share a place");
    assert_ptr_equal(modules[0], only);
    assert_error(ph_sequential_create(modules, modules, 1), PH_ERROR_ARGUMENT,
                 "out and children share a place");
    assert_ptr_equal(modules[0], only);
    assert_ok(ph_sequential_create(&modules[1], modules, 1));
    ph_module_release(modules[1]);
    ph_module_release(modules[0]);
    t_scene_close(&s);
}

/* ---- lists ---- */
TEST(lists_of_modules_take_null_and_unknown_names)
{
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    ph_module *module = t_scale_open(&s, &scale, 2);
    ph_module_parameters(module, NULL, NULL);
    ph_module_buffers(module, NULL, NULL);
    ph_module_modules(module, NULL, NULL);
    ph_module_train(NULL, true);
    ph_module_zero_grad(NULL);
    ph_module_hook_remove(NULL);
    assert_null(ph_module_parameter(module, ""));
    assert_null(ph_module_parameter(module, "."));
    assert_null(ph_module_parameter(module, "weight."));
    assert_null(ph_module_child(module, ".."));
    assert_false(ph_module_has_hooks(module));
    ph_module_release(module);
    t_scene_close(&s);
}

/* ---- optimizers ---- */
TEST(optimizers_refuse_bad_options_and_null)
{
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    ph_module *module = t_scale_open(&s, &scale, 2);
    ph_optimizer *optimizer = NULL;
    const ph_sgd_options sgd = {.lr = (double)NAN}, odd_sgd = {.lr = 1, .reserved = {1}};
    const ph_adam_options adam = {.beta1 = 1}, decay = {.weight_decay = -2},
                          odd_adam = {.reserved = {1}};
    assert_error(ph_sgd_create(&optimizer, module, &sgd), PH_ERROR_ARGUMENT, "lr");
    assert_error(ph_sgd_create(&optimizer, module, &odd_sgd), PH_ERROR_ARGUMENT, "reserved");
    assert_error(ph_adam_create(&optimizer, module, &adam), PH_ERROR_ARGUMENT, "beta1");
    assert_error(ph_adamw_create(&optimizer, module, &decay), PH_ERROR_ARGUMENT, "weight_decay");
    assert_error(ph_adamw_create(&optimizer, module, &odd_adam), PH_ERROR_ARGUMENT, "reserved");
    assert_error(ph_adamw_create(NULL, module, NULL), PH_ERROR_ARGUMENT, "out");
    assert_null(optimizer);
    ph_optimizer_destroy(NULL);
    ph_optimizer_step(NULL, NULL);
    ph_optimizer_zero_grad(NULL, NULL);
    assert_ok(ph_adamw_create(&optimizer, module, NULL));
    ph_optimizer_step(NULL, optimizer);
    ph_tape_fail(s.tape, PH_ERROR_CALLER, "the first one");
    ph_optimizer_step(s.tape, optimizer);
    assert_error(ph_tape_clear(s.tape), PH_ERROR_CALLER, "the first one");
    assert_error(ph_optimizer_set_lr(optimizer, -1), PH_ERROR_ARGUMENT, "lr");
    assert_error(ph_optimizer_load(optimizer, "/nowhere/at/all"), PH_ERROR_IO, "/nowhere/at/all");
    assert_error(ph_optimizer_save(optimizer, "/nowhere/at/all"), PH_ERROR_IO, "/nowhere/at/all");
    assert_error(ph_module_load(module, "/nowhere/at/all", true), PH_ERROR_IO, "/nowhere/at/all");
    assert_error(ph_module_save(module, "/nowhere/at/all"), PH_ERROR_IO, "/nowhere/at/all");
    uint64_t steps;
    assert_ok(ph_optimizer_steps(&steps, s.tape, optimizer));
    assert_int_equal(steps, 0);
    ph_optimizer_destroy(optimizer);
    ph_module_release(module);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_refuse_bad_sizes_options_and_devices),
        cmocka_unit_test(test_plain_layers),
        cmocka_unit_test(calls_of_modules_refuse_bad_arguments_by_name),
        cmocka_unit_test(a_module_is_not_given_to_where_another_is_taken_from),
        cmocka_unit_test(lists_of_modules_take_null_and_unknown_names),
        cmocka_unit_test(optimizers_refuse_bad_options_and_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
