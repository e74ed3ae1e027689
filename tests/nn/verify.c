/* SPDX-License-Identifier: MIT */
/* tests/nn/verify.c: ph_graph_verify on steps of training: gradients, dropout, optimizers, and
 * what programs leave in them. */
#include "support/draws.h"
#include "support/graphed_nets.h"
#include "support/test.h"
#include <stdio.h>

static t_scene s;
static ph_generator *generator;
static ph_module *net;
static ph_optimizer *optimizer;
static ph_graph *graph;
static ph_tensor *input, *loss;
static ph_verify_result result;
static double scale; /* of the loss: a number of the program's */

static void open_scene(gn_kind kind)
{
    t_scene_open(&s);
    generator = t_generator(&s, 9);
    net = gn_net(&s, kind, 3);
    input = gn_sample(&s, gn_shape(kind), false);
    assert_ok(ph_tensor_create(&loss, s.device, PH_DTYPE_F32, PH_SCALAR));
    assert_ok(ph_adamw_create(&optimizer, net, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    scale = 1;
}

static void close_scene(void)
{
    ph_graph_destroy(graph);
    ph_optimizer_destroy(optimizer);
    ph_module_release(net);
    ph_tensor_release(input);
    ph_tensor_release(loss);
    ph_tape_set_generator(s.tape, NULL);
    ph_generator_release(generator);
    t_scene_close(&s);
}

static ph_status train(ph_stream *stream, void *user)
{
    ph_tape *tape = s.tape;
    (void)stream;
    (void)user;
    ph_optimizer_zero_grad(tape, optimizer);
    ph_tensor *value = ph_mse(tape, ph_call(tape, net, input), input);
    ph_backward(tape, ph_mul_scalar(tape, value, scale));
    ph_optimizer_step(tape, optimizer);
    ph_tensor_copy(tape, loss, ph_detach(tape, value));
    return ph_tape_clear(tape);
}

/* Every run draws the same numbers. */
static ph_status seed(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    return ph_generator_seed(generator, 5);
}

static void capture(void)
{
    assert_ok(train(s.stream, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, train, NULL));
}

/* One number of all weights of a layer. */
static double state_of(void)
{
    double sum = 0;
    float host[4096];
    ph_tensor *x = ph_module_parameter(net, "0.weight");
    if (x == NULL)
        x = ph_module_parameter(net, "qkv.weight");
    assert_non_null(x);
    assert_true(ph_tensor_bytes(x) <= sizeof host);
    assert_ok(ph_tensor_read(s.tape, x, host, ph_tensor_bytes(x)));
    for (size_t i = 0; i < ph_tensor_bytes(x) / sizeof *host; i++)
        sum += (double)host[i] * (double)(i + 1);
    return sum;
}

static void verify(const ph_verify_options *options)
{
    double before = state_of();
    assert_ok(ph_graph_verify(&result, graph, s.stream, train, NULL, options));
    if (t_nightly())
        (void)fprintf(stderr, "%s\n", result.message);
    double after = state_of();
    assert_memory_equal(&before, &after, sizeof before);
}

static void expect(ph_verify_verdict verdict, const char *part)
{
    if (result.verdict != verdict || !strstr(result.message, part))
        fail_msg("verdict %d, node %zu: %s", (int)result.verdict, result.node, result.message);
}

TEST(test_steps_are_equal)
{
    for (int kind = 0; kind < GN_KINDS; kind++) {
        open_scene((gn_kind)kind);
        capture();
        verify(&(ph_verify_options){.prepare = seed});
        expect(PH_VERIFY_EQUAL, "");
        close_scene();
    }
}

/* The numbers of the optimizer are cells of the graph: what is set later is no baked value. */
TEST(test_a_learning_rate_is_no_baked_value)
{
    open_scene(GN_MLP);
    capture();
    assert_ok(ph_optimizer_set_lr(optimizer, 0.125));
    verify(&(ph_verify_options){.prepare = seed});
    expect(PH_VERIFY_EQUAL, "");
    close_scene();
}

TEST(test_a_number_of_the_program_is)
{
    open_scene(GN_MLP);
    capture();
    scale = 3;
    verify(&(ph_verify_options){.prepare = seed});
    expect(PH_VERIFY_NODE_DIFFERS, "is the first whose result differs");
    const ph_verify_output output = {ph_tensor_data(loss), PH_NUMBER_F32, 1, "loss"};
    verify(&(ph_verify_options){.prepare = seed, .outputs = &output, .output_count = 1});
    expect(PH_VERIFY_EQUAL, "1 number of the outputs compared");
    close_scene();
}

TEST(test_dropout_without_a_seed)
{
    open_scene(GN_DROPOUT);
    capture();
    verify(NULL);
    if (result.verdict == PH_VERIFY_EQUAL)
        fail_msg("%s", result.message);
    assert_non_null(strstr(result.message, "ph_verify_options.prepare"));
    close_scene();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_are_equal),
        cmocka_unit_test(test_a_learning_rate_is_no_baked_value),
        cmocka_unit_test(test_a_number_of_the_program_is),
        cmocka_unit_test(test_dropout_without_a_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
