/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_rebind.c: which inputs are rebound and which are copied; inputs that change,
 * that are the same, that are outputs. */
#include "support/graphed_nets.h"
#include "support/test.h"

static const ph_graphed_inputs ways[] = {PH_GRAPHED_AUTO, PH_GRAPHED_COPY_INPUTS,
                                         PH_GRAPHED_REBIND};
enum {
    WAYS = 3
};

static ph_module *graph_way(ph_module *plain, ph_tensor *const *in, size_t count,
                            ph_graphed_inputs inputs)
{
    return gn_graph(plain, in, count,
                    &(ph_graphed_options){.inputs = inputs, .allow_unused_input = true});
}

/* ---- what is chosen ---- */
TEST(test_plain_is_rebound)
{
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    ph_module *plain = t_scale_open(&s, &scale, 3);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), true);
    for (int i = 0; i < WAYS; i++) {
        ph_module *graphed = graph_way(plain, &x, 1, ways[i]);
        for (int incoming = 0; incoming < 2; incoming++) {
            const ph_graphed_input port = gn_input(graphed, 0, incoming);
            assert_int_equal(port.rebound, ways[i] != PH_GRAPHED_COPY_INPUTS);
            assert_int_equal(port.rebound, port.reason[0] == '\0');
            assert_int_equal(port.rebound, port.uses > 0);
        }
        const ph_graphed_input input = gn_input(graphed, 0, false);
        assert_int_equal(input.backward_reads, input.rebound); /* it, and not a copy of it */
        ph_module_release(graphed);
    }
    ph_tensor_release(x);
    ph_module_release(plain);
    t_scene_close(&s);
}

/* Nets of the library's own layers: as they are called most. */
TEST(test_nets_are_rebound)
{
    t_scene s;
    t_scene_open(&s);
    for (int kind = 0; kind < GN_KINDS; kind++) {
        ph_module *plain = gn_net(&s, (gn_kind)kind, 1);
        ph_tensor *x = gn_sample(&s, gn_shape((gn_kind)kind), true);
        ph_module *graphed = gn_graph_one(plain, x, NULL);
        if (!gn_input(graphed, 0, false).rebound)
            fail_msg("%s: the input is copied: %s", gn_name((gn_kind)kind),
                     gn_input(graphed, 0, false).reason);
        if (!gn_input(graphed, 0, true).rebound)
            fail_msg("%s: the gradient is copied: %s", gn_name((gn_kind)kind),
                     gn_input(graphed, 0, true).reason);
        ph_tensor_release(x);
        ph_module_release(plain);
        ph_module_release(graphed);
    }
    t_scene_close(&s);
}

/* An address that the kernel gets in another form is no proof: copied, and right. */
TEST(test_hidden_is_copied)
{
    t_scene s;
    gn_hidden hidden;
    ph_module *none = NULL;
    t_scene_open(&s);
    gn_hidden_open(&hidden, s.device);
    ph_module *plain = gn_function(&s, "hidden", gn_hidden_forward, &hidden, 1, 1);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), false);
    const ph_sample sample = {.tensors = &x, .count = 1};
    assert_error(ph_make_graphed_callables(&none, &plain, &sample, 1,
                                           &(ph_graphed_options){.inputs = PH_GRAPHED_REBIND}),
                 PH_ERROR_UNSUPPORTED, "hidden");
    assert_null(none);
    ph_module *graphed = gn_graph_one(plain, x, NULL);
    const ph_graphed_input port = gn_input(graphed, 0, false);
    assert_false(port.rebound);
    assert_int_equal(port.uses, 0);
    assert_true(strlen(port.reason) > 0);
    for (int i = 1; i <= 5; i++) {
        ph_tensor *in =
            t_input(&s, (float)i, 7); /* in other memory than the one before, which the tape has */
        t_expect_values(s.tape, ph_call(s.tape, graphed, in), PH_SHAPE(2), (float)(2 * i), 14);
    }
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    ph_module_release(graphed);
    ph_module_release(plain);
    gn_hidden_close(&hidden);
    t_scene_close(&s);
}

/* The same of an incoming gradient: y = 2 x, by an operator whose backward hides the address of
 * what comes. */
static void doubled_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    (void)custom;
    out[0] = ph_mul_scalar(tape, in[0], 2);
}

static void hidden_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                            ph_tensor *const *grad_out, const bool *needed)
{
    (void)needed;
    gn_hidden_forward(tape, grad_in, grad_out, ph_custom_user(custom));
}

static void hides_backward_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const ph_custom_operator op = {.name = "hides_backward",
                                   .forward = doubled_forward,
                                   .backward = hidden_backward,
                                   .user = self};
    ph_custom_call(tape, &op, out, 1, in, 1);
}

static void expect_gradient_is_copied(const ph_module *graphed)
{
    char *text;
    const ph_graphed_input port = gn_input(graphed, 0, true);
    assert_false(port.rebound);
    assert_int_equal(port.uses, 0);
    assert_true(strlen(port.reason) > 0);
    assert_ok(ph_graphed_callable_describe(&text, graphed));
    const char *line = strstr(text, "gradient of output");
    assert_non_null(line);
    assert_non_null(strstr(line, "copied: "));
    assert_non_null(strstr(line, port.reason));
    ph_string_free(text);
}

TEST(test_hidden_gradient_is_copied)
{
    t_scene s;
    gn_hidden hidden;
    ph_module *none = NULL;
    t_scene_open(&s);
    gn_hidden_open(&hidden, s.device);
    ph_module *plain = gn_function(&s, "hides_backward", hides_backward_forward, &hidden, 1, 1);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), true), *leaf = t_leaf(&s, PH_SHAPE(2), 5, 7);
    const ph_sample sample = {.tensors = &x, .count = 1};
    assert_error(ph_make_graphed_callables(&none, &plain, &sample, 1,
                                           &(ph_graphed_options){.inputs = PH_GRAPHED_REBIND}),
                 PH_ERROR_UNSUPPORTED, "cannot be rebound, as was asked for");
    assert_null(none);
    ph_module *graphed = gn_graph_one(plain, x, NULL);
    expect_gradient_is_copied(graphed);
    /* gradients in other memory than those before, which the tape has */
    for (int i = 1; i <= 5; i++) {
        ph_tensor *seed = t_input(&s, (float)i, 10), *in = t_input(&s, (float)i, 3), *y, *grad;
        assert_ok(ph_tensor_set_requires_grad(in, true));
        y = ph_call(s.tape, graphed, in);
        t_expect_values(s.tape, y, PH_SHAPE(2), (float)(2 * i), 6);
        ph_grad(s.tape, &grad, &in, 1, &y, &seed, 1, NULL);
        t_expect_values(s.tape, grad, PH_SHAPE(2), (float)(2 * i), 20);
    }
    assert_ok(ph_tape_clear(s.tape));
    ph_backward(s.tape, ph_sum(s.tape, ph_mul_scalar(s.tape, ph_call(s.tape, graphed, leaf), 4)));
    t_expect_grad(&s, leaf, 8, 8);
    assert_ok(ph_tape_clear(s.tape));
    assert_int_equal(gn_info(graphed).backward_calls, 6);
    ph_tensor_release(leaf);
    ph_tensor_release(x);
    ph_module_release(graphed);
    ph_module_release(plain);
    gn_hidden_close(&hidden);
    t_scene_close(&s);
}

/* ---- inputs that change ---- */
TEST(test_changed_between)
{
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    ph_module *plain = t_scale_open(&s, &scale, 3);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), false), *in = ph_tensor_retain(t_input(&s, 1, 2));
    for (int i = 0; i < WAYS; i++) {
        ph_module *graphed = graph_way(plain, &x, 1, ways[i]);
        ph_tensor_fill(s.tape, in, 1);
        t_expect_values(s.tape, ph_call(s.tape, graphed, in), PH_SHAPE(2), 3, 6);
        ph_tensor_fill(s.tape, in, 2);
        t_expect_values(s.tape, ph_call(s.tape, graphed, in), PH_SHAPE(2), 6, 12);
        ph_tensor_scale(s.tape, in, 5);
        t_expect_values(s.tape, ph_call(s.tape, graphed, in), PH_SHAPE(2), 30, 60);
        /* The sample itself: it is no more than any other tensor. */
        ph_tensor_fill(s.tape, x, 4);
        t_expect_values(s.tape, ph_call(s.tape, graphed, x), PH_SHAPE(2), 12, 24);
        t_expect_values(s.tape, ph_call(s.tape, graphed, in), PH_SHAPE(2), 30, 60);
        assert_ok(ph_tape_clear(s.tape));
        ph_module_release(graphed);
    }
    ph_tensor_release(x);
    ph_tensor_release(in);
    ph_module_release(plain);
    t_scene_close(&s);
}

/* Between forward and backward, where backward reads it again: refused, or, where it was copied,
 * of no matter. */
TEST(test_changed_before_backward)
{
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    ph_module *plain = t_scale_open(&s, &scale, 3);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), false);
    for (int i = 0; i < WAYS; i++)
        for (int view = 0; view < 2; view++) {
            ph_module *graphed = graph_way(plain, &x, 1, ways[i]);
            ph_tensor *in = t_input(&s, 1, 2);
            ph_tensor *loss = ph_sum(s.tape, ph_call(s.tape, graphed, in));
            ph_tensor_fill(s.tape, view ? ph_slice(s.tape, in, 0, 1, 2) : in, 9);
            ph_backward(s.tape, loss);
            if (gn_input(graphed, 0, false).rebound) {
                t_expect_failure(&s, PH_ERROR_STATE, "scale");
                assert_null(ph_tensor_grad(scale.weight));
            } else {
                t_expect_grad(&s, scale.weight, 1, 2);
                assert_ok(ph_tape_clear(s.tape));
            }
            t_zero_grad(scale.weight);
            ph_module_release(graphed);
        }
    ph_tensor_release(x);
    ph_module_release(plain);
    t_scene_close(&s);
}

/* The caller lets it go, and makes other tensors, before backward reads it. */
TEST(test_released_before_backward)
{
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    ph_module *plain = t_scale_open(&s, &scale, 3);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), false);
    for (int i = 0; i < WAYS; i++) {
        ph_module *graphed = graph_way(plain, &x, 1, ways[i]);
        size_t mark = ph_tape_scope_begin(s.tape);
        ph_tensor *y = ph_call(s.tape, graphed, t_input(&s, 1, 2));
        ph_tape_scope_end(s.tape, mark, &y, 1);
        for (int k = 0; k < 20; k++)
            (void)t_input(&s, 100, 100);
        ph_backward(s.tape, ph_sum(s.tape, y));
        t_expect_grad(&s, scale.weight, 1, 2);
        assert_ok(ph_tape_clear(s.tape));
        t_zero_grad(scale.weight);
        ph_module_release(graphed);
    }
    ph_tensor_release(x);
    ph_module_release(plain);
    t_scene_close(&s);
}

/* ---- inputs that the module writes ---- out = (x, its second element set) * weight: the
 * caller's tensor, and the sample, stay as they are. */
static void writer_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const t_scale *scale = self;
    ph_tensor_fill(tape, ph_slice(tape, in[0], 0, 1, 2), 5);
    out[0] = ph_mul(tape, in[0], scale->weight);
}

TEST(test_written_is_copied)
{
    t_scene s;
    t_scale scale = {.calls = 0};
    ph_module *plain;
    t_scene_open(&s);
    ph_tensor *weight = scale.weight = t_leaf(&s, PH_SHAPE(2), 3, 6);
    const ph_parameter parameter = {"weight", &scale.weight};
    const ph_module_desc desc = {.name = "writer",
                                 .forward = writer_forward,
                                 .self = &scale,
                                 .parameters = &parameter,
                                 .parameter_count = 1};
    assert_ok(ph_module_create(&plain, s.device, &desc));
    ph_tensor *x = ph_tensor_retain(t_input(&s, 1, 2));
    for (int i = 0; i < 2; i++) {
        ph_module *graphed = graph_way(plain, &x, 1, ways[i]);
        t_expect_values(s.tape, x, PH_SHAPE(2), 1, 2);
        const ph_graphed_input port = gn_input(graphed, 0, false);
        assert_false(port.rebound);
        assert_true(strlen(port.reason) > 0);
        for (int round = 0; round < 3; round++) {
            ph_tensor *in = t_input(&s, (float)round, 7), *y = ph_call(s.tape, graphed, in);
            t_expect_values(s.tape, y, PH_SHAPE(2), (float)(3 * round), 30);
            t_expect_values(s.tape, in, PH_SHAPE(2), (float)round, 7);
            ph_backward(s.tape, ph_sum(s.tape, y));
            t_expect_grad(&s, weight, (float)round, 5);
            t_zero_grad(weight);
        }
        assert_ok(ph_tape_clear(s.tape));
        ph_module_release(graphed);
    }
    ph_tensor_release(x);
    ph_tensor_release(weight);
    ph_module_release(plain);
    t_scene_close(&s);
}

/* ---- outputs that are inputs, or views of them ---- */
static void through_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = in[0];
    out[1] = ph_slice(tape, in[0], 0, 1, 2);
    out[2] = ph_mul_scalar(tape, in[0], 2);
}

TEST(test_output_is_input)
{
    t_scene s;
    t_scene_open(&s);
    ph_module *plain = gn_function(&s, "through", through_forward, NULL, 1, 3);
    for (int gradient = 0; gradient < 2; gradient++) {
        ph_tensor *x = gn_sample(&s, PH_SHAPE(2), gradient);
        for (int i = 0; i < 2; i++) {
            ph_module *graphed = graph_way(plain, &x, 1, ways[i]);
            for (int round = 1; round <= 3; round++) {
                ph_tensor *in = t_input(&s, (float)round, 7), *out[3], *sum, *grad;
                assert_ok(ph_tensor_set_requires_grad(in, gradient));
                ph_call_n(s.tape, graphed, out, 3, &in, 1);
                t_expect_values(s.tape, out[0], PH_SHAPE(2), (float)round, 7);
                t_expect_values(s.tape, out[1], PH_SHAPE(1), 7);
                t_expect_values(s.tape, out[2], PH_SHAPE(2), (float)(2 * round), 14);
                t_expect_values(s.tape, in, PH_SHAPE(2), (float)round, 7);
                if (!gradient)
                    continue;
                sum = ph_add(s.tape, ph_add(s.tape, out[0], out[1]), out[2]);
                sum = ph_sum(s.tape, ph_mul(s.tape, sum, t_input(&s, 1, 10)));
                ph_grad(s.tape, &grad, &in, 1, &sum, NULL, 1, NULL);
                t_expect_values(s.tape, grad, PH_SHAPE(2), 3, 41);
            }
            assert_ok(ph_tape_clear(s.tape));
            ph_module_release(graphed);
        }
        ph_tensor_release(x);
    }
    ph_module_release(plain);
    t_scene_close(&s);
}

/* ---- the same tensor twice, and one callable's output as another's input ---- */
static void product_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = ph_mul(tape, in[0], ph_mul_scalar(tape, in[1], 3));
}

TEST(one_tensor_may_be_two_inputs)
{
    t_scene s;
    t_scene_open(&s);
    ph_module *plain = gn_function(&s, "product", product_forward, NULL, 2, 1);
    ph_tensor *sample[2] = {gn_sample(&s, PH_SHAPE(2), true), gn_sample(&s, PH_SHAPE(2), true)};
    ph_tensor *same[2] = {sample[0], sample[0]};
    for (int i = 0; i < WAYS; i++)
        for (int sampled = 0; sampled < 2;
             sampled++) { /* the sample was the same twice, or not; as is the call */
            ph_module *graphed = graph_way(plain, sampled ? same : sample, 2, ways[i]);
            ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 2, 5), *y = t_leaf(&s, PH_SHAPE(2), 1, 10);
            ph_tensor *in[2] = {x, x}, *out;
            ph_call_n(s.tape, graphed, &out, 1, in, 2);
            t_expect_values(s.tape, out, PH_SHAPE(2), 12, 75);
            ph_backward(s.tape, ph_sum(s.tape, out));
            t_expect_grad(&s, x, 12, 30);
            assert_ok(ph_tape_clear(s.tape));
            t_zero_grad(x);
            in[1] = y;
            ph_call_n(s.tape, graphed, &out, 1, in, 2);
            t_expect_values(s.tape, out, PH_SHAPE(2), 6, 150);
            ph_backward(s.tape, ph_sum(s.tape, out));
            t_expect_grad(&s, x, 3, 30);
            t_expect_grad(&s, y, 6, 15);
            assert_ok(ph_tape_clear(s.tape));
            ph_tensor_release(x);
            ph_tensor_release(y);
            ph_module_release(graphed);
        }
    ph_tensor_release(sample[0]);
    ph_tensor_release(sample[1]);
    ph_module_release(plain);
    t_scene_close(&s);
}

TEST(a_callable_takes_the_output_of_another)
{
    t_scene s;
    t_scene_open(&s);
    ph_module *plain[2] = {gn_net(&s, GN_MLP, 1), gn_net(&s, GN_NORM, 2)}, *graphed[2];
    ph_tensor *x = gn_sample(&s, gn_shape(GN_MLP), true);
    const ph_sample samples[2] = {{.tensors = &x, .count = 1}, {.tensors = &x, .count = 1}};
    for (int i = 0; i < WAYS; i++) {
        const ph_graphed_options options = {.inputs = ways[i]};
        assert_ok(ph_make_graphed_callables(graphed, plain, samples, 2, &options));
        for (uint64_t round = 0; round < 4; round++) {
            ph_tensor *in = gn_random(&s, gn_shape(GN_MLP), round), *loss, *want, *got;
            assert_ok(ph_tensor_set_requires_grad(in, true));
            /* The second one takes the first one's output, transposed and back: as it is, or a
             * copy. */
            loss = ph_call(s.tape, plain[1], ph_call(s.tape, plain[0], in));
            loss = ph_sum(s.tape, ph_square(s.tape, loss));
            ph_grad(s.tape, &want, &in, 1, &loss, NULL, 1, NULL);
            ph_tensor *between = ph_call(s.tape, graphed[0], in);
            if (round % 2)
                between = ph_transpose(s.tape,
                                       ph_clone(s.tape, ph_transpose(s.tape, between, 0, 1)), 0, 1);
            loss = ph_sum(s.tape, ph_square(s.tape, ph_call(s.tape, graphed[1], between)));
            ph_grad(s.tape, &got, &in, 1, &loss, NULL, 1, NULL);
            gn_expect_same(&s, got, want, "a gradient through two callables");
            assert_ok(ph_tape_clear(s.tape));
        }
        ph_module_release(graphed[0]);
        ph_module_release(graphed[1]);
    }
    ph_tensor_release(x);
    ph_module_release(plain[0]);
    ph_module_release(plain[1]);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_is_rebound),
        cmocka_unit_test(test_nets_are_rebound),
        cmocka_unit_test(test_hidden_is_copied),
        cmocka_unit_test(test_hidden_gradient_is_copied),
        cmocka_unit_test(test_changed_between),
        cmocka_unit_test(test_written_is_copied),
        cmocka_unit_test(test_changed_before_backward),
        cmocka_unit_test(test_output_is_input),
        cmocka_unit_test(test_released_before_backward),
        cmocka_unit_test(one_tensor_may_be_two_inputs),
        cmocka_unit_test(a_callable_takes_the_output_of_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
