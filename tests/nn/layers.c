/* SPDX-License-Identifier: MIT */
/* tests/nn/layers.c: the usual layers: what they compute, what they start from, their names, and
 * what they refuse. */
#include "support/nets.h"
#include "support/test.h"
#include <math.h>

static void set(const t_scene *s, ph_module *module, const char *name, const float *values)
{
    ph_tensor *x = ph_module_parameter(module, name);
    assert_non_null(x);
    assert_ok(ph_tensor_write(s->tape, x, values, ph_tensor_bytes(x)));
    assert_ok(ph_stream_synchronize(s->stream));
}

static void read(const t_scene *s, float *out, ph_module *module, const char *name)
{
    ph_tensor *x = ph_module_parameter(module, name);
    assert_non_null(x);
    assert_ok(ph_tensor_read(s->tape, x, out, ph_tensor_bytes(x)));
}

static void expect_shape(ph_module *module, const char *name, ph_shape want)
{
    ph_shape have = ph_tensor_shape(ph_module_parameter(module, name));
    assert_true(ph_shape_equal(&have, &want));
}

/* Mean and deviation near those wanted, and nothing beyond the bound. */
static void expect_spread(const float *x, size_t count, double deviation, double bound)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        assert_true(fabs((double)x[i]) <= bound);
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    double n = (double)count, mean = sum / n;
    assert_true(fabs(mean) < 5 * deviation / sqrt(n));
    assert_true(fabs(sqrt(squares / n - mean * mean) / deviation - 1) < 5 / sqrt(n));
}

TEST(a_linear_layer_multiplies_and_adds_its_bias)
{
    t_scene s;
    ph_module *module;
    t_scene_open(&s);
    assert_ok(ph_linear_create(&module, s.device, 3, 2));
    assert_string_equal(ph_module_name(module), "linear");
    assert_int_equal(ph_module_parameter_count(module), 2);
    expect_shape(module, "weight", PH_SHAPE(2, 3));
    expect_shape(module, "bias", PH_SHAPE(2));
    set(&s, module, "weight", (const float[]){1, 2, 3, 4, 5, 6});
    set(&s, module, "bias", (const float[]){10, 20});
    ph_tensor *x =
        ph_from_memory(s.tape, PH_DTYPE_F32, PH_SHAPE(1, 2, 3), (const float[]){1, 0, 1, 0, 2, 0});
    ph_tensor *y = ph_call(s.tape, module, x);
    t_expect_values(s.tape, y, PH_SHAPE(1, 2, 2), 14, 30, 14, 30);
    ph_backward(s.tape, ph_sum(s.tape, y));
    t_expect_grad(&s, ph_module_parameter(module, "weight"), 1, 2, 1, 1, 2, 1);
    t_expect_grad(&s, ph_module_parameter(module, "bias"), 2, 2);
    assert_ok(ph_tape_clear(s.tape));
    ph_module_release(module);

    ph_layer_options options = {.no_bias = true, .dtype = PH_DTYPE_F64};
    assert_ok(ph_linear_create_with(&module, s.device, 3, 2, &options));
    assert_int_equal(ph_module_parameter_count(module), 1);
    assert_null(ph_module_parameter(module, "bias"));
    assert_int_equal(ph_tensor_dtype(ph_module_parameter(module, "weight")), PH_DTYPE_F64);
    y = ph_call(s.tape, module, ph_zeros(s.tape, PH_DTYPE_F64, PH_SHAPE(4, 3)));
    assert_int_equal(ph_tensor_dim(y, -1), 2);
    assert_ok(ph_tape_clear(s.tape));
    ph_module_release(module);
    t_scene_close(&s);
}

/* Uniform within 1 / sqrt(in), as PyTorch's; the same for the same seed, and from the generator
 * that was given. */
TEST(initial_weights_are_uniform_and_follow_the_generator)
{
    enum {
        IN = 100,
        OUT = 50
    };
    static float a[IN * OUT], b[IN * OUT], bias[OUT];
    t_scene s;
    ph_module *module;
    ph_generator *generator;
    t_scene_open(&s);
    assert_ok(ph_generator_create(&generator, s.device, 5));
    ph_layer_options options = {.generator = generator};
    assert_ok(ph_linear_create_with(&module, s.device, IN, OUT, &options));
    read(&s, a, module, "weight");
    read(&s, bias, module, "bias");
    expect_spread(a, IN * OUT, 0.1 / sqrt(3), 0.1);
    expect_spread(bias, OUT, 0.1 / sqrt(3), 0.1);
    ph_module_release(module);
    assert_ok(ph_linear_create_with(&module, s.device, IN, OUT, &options));
    read(&s, b, module, "weight");
    assert_memory_not_equal(a, b, sizeof a);
    ph_module_release(module);
    assert_ok(ph_generator_seed(generator, 5));
    assert_ok(ph_linear_create_with(&module, s.device, IN, OUT, &options));
    read(&s, b, module, "weight");
    assert_memory_equal(a, b, sizeof a);
    ph_module_release(module);

    assert_ok(ph_embedding_create(&module, s.device, OUT, IN, &options));
    read(&s, a, module, "weight");
    expect_spread(a, IN * OUT, 1, 6);
    ph_module_release(module);
    ph_generator_release(generator);
    t_scene_close(&s);
}

TEST(an_embedding_gives_the_rows_that_are_asked_for)
{
    t_scene s;
    ph_module *module;
    t_scene_open(&s);
    assert_ok(ph_embedding_create(&module, s.device, 3, 2, NULL));
    assert_string_equal(ph_module_name(module), "embedding");
    assert_int_equal(ph_module_parameter_count(module), 1);
    set(&s, module, "weight", (const float[]){1, 2, 3, 4, 5, 6});
    ph_tensor *index = ph_from_memory(s.tape, PH_DTYPE_I64, PH_SHAPE(2), (const int64_t[]){2, 0});
    ph_tensor *y = ph_call(s.tape, module, index);
    t_expect_values(s.tape, y, PH_SHAPE(2, 2), 5, 6, 1, 2);
    ph_backward(s.tape, ph_sum(s.tape, y));
    t_expect_grad(&s, ph_module_parameter(module, "weight"), 1, 1, 0, 0, 1, 1);
    assert_ok(ph_tape_clear(s.tape));
    ph_module_release(module);
    t_scene_close(&s);
}

static void expect_near(const t_scene *s, ph_tensor *x, const float *want, size_t count,
                        float bound)
{
    float got[16];
    assert_ok(ph_tape_status(s->tape));
    assert_ok(ph_tensor_read(s->tape, x, got, count * sizeof *got));
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(got[i] - want[i]) <= bound))
            fail_msg("element %zu is %g, expected %g", i, (double)got[i], (double)want[i]);
}

TEST(norms_have_their_weights_eps_and_bias)
{
    t_scene s;
    ph_module *module;
    t_scene_open(&s);
    ph_layer_options options = {.eps = 3, .no_bias = true};
    ph_tensor *x = ph_from_memory(s.tape, PH_DTYPE_F32, PH_SHAPE(1, 2), (const float[]){-1, 3});
    assert_ok(ph_layer_norm_create(&module, s.device, 2, NULL));
    assert_string_equal(ph_module_name(module), "layer_norm");
    t_expect_values(s.tape, ph_module_parameter(module, "weight"), PH_SHAPE(2), 1, 1);
    t_expect_values(s.tape, ph_module_parameter(module, "bias"), PH_SHAPE(2), 0, 0);
    expect_near(&s, ph_call(s.tape, module, x), (const float[]){-1, 1}, 2, 1e-5f);
    ph_module_release(module);
    assert_ok(ph_layer_norm_create(&module, s.device, 2, &options));
    assert_null(ph_module_parameter(module, "bias"));
    float part = 2 / sqrtf(7);
    expect_near(&s, ph_call(s.tape, module, x), (const float[]){-part, part}, 2, 1e-5f);
    ph_module_release(module);
    assert_ok(ph_rms_norm_create(&module, s.device, 2, NULL));
    assert_string_equal(ph_module_name(module), "rms_norm");
    assert_int_equal(ph_module_parameter_count(module), 1);
    t_expect_values(s.tape, ph_module_parameter(module, "weight"), PH_SHAPE(2), 1, 1);
    part = 1 / sqrtf(5);
    expect_near(&s, ph_call(s.tape, module, x), (const float[]){-part, 3 * part}, 2, 1e-5f);
    assert_ok(ph_tape_clear(s.tape));
    ph_module_release(module);
    t_scene_close(&s);
}

/* Only in training. */
TEST(dropout_acts_in_training_alone)
{
    t_scene s;
    ph_module *module;
    static float got[1000];
    t_scene_open(&s);
    assert_ok(ph_dropout_create(&module, s.device, 0.5));
    ph_tensor *x = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(1000), 1);
    ph_tensor *y = ph_call(s.tape, module, x);
    assert_ok(ph_tensor_read(s.tape, y, got, sizeof got));
    size_t kept = 0;
    for (size_t i = 0; i < 1000; i++) {
        assert_true(memcmp(&got[i], &(float){0}, 4) == 0 || memcmp(&got[i], &(float){2}, 4) == 0);
        kept += got[i] > 1;
    }
    assert_in_range(kept, 400, 600);
    ph_module_train(module, false);
    assert_ptr_equal(ph_call(s.tape, module, x), x);
    assert_ok(ph_tape_clear(s.tape));
    ph_module_release(module);
    assert_error(ph_dropout_create(&module, s.device, 1.5), PH_ERROR_ARGUMENT, "not 1.5");
    assert_error(ph_dropout_create(&module, s.device, (double)NAN), PH_ERROR_ARGUMENT,
                 "probability");
    assert_null(module);
    t_scene_close(&s);
}

TEST(a_sequential_module_calls_its_children_in_order)
{
    t_scene s;
    ph_module *children[3], *module;
    t_scene_open(&s);
    assert_ok(ph_linear_create(&children[0], s.device, 2, 2));
    assert_ok(ph_activation_create(&children[1], s.device, "relu", ph_relu));
    assert_ok(ph_linear_create(&children[2], s.device, 2, 1));
    assert_ok(ph_sequential_create(&module, children, 3));
    assert_string_equal(ph_module_name(module), "sequential");
    assert_ptr_equal(ph_module_child(module, "2"), children[2]);
    assert_int_equal(ph_module_parameter_count(module), 4);
    for (int i = 0; i < 3; i++)
        ph_module_release(children[i]);
    set(&s, module, "0.weight", (const float[]){1, 0, 0, -1});
    set(&s, module, "0.bias", (const float[]){0, 0});
    set(&s, module, "2.weight", (const float[]){2, 3});
    set(&s, module, "2.bias", (const float[]){1});
    ph_tensor *x =
        ph_from_memory(s.tape, PH_DTYPE_F32, PH_SHAPE(2, 2), (const float[]){1, 1, -1, -1});
    t_expect_values(s.tape, ph_call(s.tape, module, x), PH_SHAPE(2, 1), 3, 4);
    assert_ok(ph_tape_clear(s.tape));
    ph_module_release(module);
    t_scene_close(&s);
}

static void two_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = ph_add(tape, in[0], in[1]);
}

TEST(misuse_is_refused)
{
    t_scene s;
    ph_module *module, *two, *pair[2];
    ph_device *other;
    ph_generator *far_away;
    t_scene_open(&s);
    assert_ok(ph_device_open(&other, "host", NULL));
    assert_ok(ph_generator_create(&far_away, other, 1));
    ph_layer_options reserved = {.reserved = {1}}, integers = {.dtype = PH_DTYPE_I32},
                     elsewhere = {.generator = far_away};
    assert_error(ph_linear_create(NULL, s.device, 2, 2), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_linear_create(&module, NULL, 2, 2), PH_ERROR_ARGUMENT, "device");
    assert_error(ph_linear_create(&module, s.device, -1, 2), PH_ERROR_ARGUMENT, "negative");
    assert_error(ph_linear_create(&module, s.device, 3, -4), PH_ERROR_ARGUMENT,
                 "(its weight would be of f32[-4, 3])");
    assert_error(ph_linear_create(&module, s.device, INT64_MAX, INT64_MAX), PH_ERROR_ARGUMENT,
                 "too large");
    assert_error(ph_linear_create_with(&module, s.device, 2, 2, &reserved), PH_ERROR_ARGUMENT,
                 "reserved");
    assert_error(ph_linear_create_with(&module, s.device, 2, 2, &integers), PH_ERROR_ARGUMENT,
                 "not i32");
    assert_error(ph_linear_create_with(&module, s.device, 2, 2, &elsewhere), PH_ERROR_WRONG_DEVICE,
                 "");
    assert_null(module);
    assert_error(ph_activation_create(&module, s.device, "none", NULL), PH_ERROR_ARGUMENT, "fn");
    assert_error(ph_activation_create(&module, NULL, "relu", ph_relu), PH_ERROR_ARGUMENT, "device");
    assert_error(ph_activation_create(&module, s.device, NULL, ph_relu), PH_ERROR_ARGUMENT, "name");
    assert_error(ph_dropout_create(NULL, s.device, 0.5), PH_ERROR_ARGUMENT, "out");
    ph_module_desc desc = {.name = "two", .forward = two_forward, .in_count = 2};
    assert_ok(ph_module_create(&two, s.device, &desc));
    assert_ok(ph_activation_create(&pair[0], s.device, "relu", ph_relu));
    assert_error(ph_sequential_create(&module, NULL, 0), PH_ERROR_ARGUMENT, "at least one child");
    pair[1] = NULL;
    assert_error(ph_sequential_create(&module, pair, 2), PH_ERROR_ARGUMENT, "child 1 is NULL");
    pair[1] = two;
    assert_error(ph_sequential_create(&module, pair, 2), PH_ERROR_ARGUMENT,
                 "child 1 (two) takes 2 inputs");
    assert_error(ph_sequential_create(NULL, pair, 1), PH_ERROR_ARGUMENT, "out");
    assert_ok(ph_activation_create(&pair[1], other, "relu", ph_relu));
    assert_error(ph_sequential_create(&module, pair, 2), PH_ERROR_WRONG_DEVICE, "child '1'");
    assert_null(module);
    ph_module_release(two);
    ph_module_release(pair[0]);
    ph_module_release(pair[1]);
    ph_generator_release(far_away);
    ph_device_release(other);
    t_scene_close(&s);
}

static ph_status create_body(ph_stream *stream, void *user)
{
    const t_scene *s = user;
    ph_module *module;
    (void)stream;
    assert_error(ph_linear_create(&module, s->device, 2, 2), PH_ERROR_CAPTURE,
                 "ph_linear_create: waits for the device: ph_stream_synchronize");
    assert_native(900);
    assert_null(module);
    return PH_OK;
}

static ph_status create_relaxed(ph_stream *stream, void *user)
{
    const t_scene *s = user;
    ph_module *module;
    (void)stream;
    assert_ok(ph_linear_create(&module, s->device, 2, 2));
    ph_module_release(module);
    return PH_OK;
}

TEST(test_in_capture)
{
    t_scene s;
    ph_graph *graph;
    t_scene_open(&s);
    t_log_start();
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, create_body, &s));
    ph_graph_destroy(graph);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, &(ph_capture_options){.mode = PH_CAPTURE_RELAXED},
                               create_relaxed, &s));
    ph_graph_destroy(graph);
    t_log_stop();
    t_scene_close(&s);
}

TEST(layers_without_host_memory_are_not_made)
{
    t_scene s;
    ph_module *module = NULL, *children[2];
    t_scene_open(&s);
    int64_t at = 0;
    for (ph_status status = PH_ERROR_HOST_MEMORY; status != PH_OK; at++) {
        ph__alloc_fail_after(at);
        status = ph_linear_create(&children[0], s.device, 3, 4);
        if (status == PH_OK)
            status = ph_activation_create(&children[1], s.device, "relu", ph_relu);
        else
            children[1] = NULL;
        if (status == PH_OK)
            status = ph_sequential_create(&module, children, 2);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK)
            assert_error(status, PH_ERROR_HOST_MEMORY, "memory");
        ph_module_release(children[0]);
        ph_module_release(children[1]);
    }
    assert_true(at > 20);
    ph_module_release(module);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_linear_layer_multiplies_and_adds_its_bias),
        cmocka_unit_test(initial_weights_are_uniform_and_follow_the_generator),
        cmocka_unit_test(an_embedding_gives_the_rows_that_are_asked_for),
        cmocka_unit_test(norms_have_their_weights_eps_and_bias),
        cmocka_unit_test(dropout_acts_in_training_alone),
        cmocka_unit_test(a_sequential_module_calls_its_children_in_order),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(test_in_capture),
        cmocka_unit_test(layers_without_host_memory_are_not_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
