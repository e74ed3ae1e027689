/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_breaks.c: graphed callables whose forward has breaks: each call runs the
 * functions once, and gives what the module gives, to the bit. */
#include "support/graphed_nets.h"
#include "support/test.h"

enum {
    ROWS = 3,
    WIDTH = 16,
    COUNT = ROWS * WIDTH
};
static t_scene s;

/* What a function of a break works on: the memory of its own run, or of its graph. */
typedef struct middle {
    void *at;
} middle;
static int runs;
static ph_status failure;

static ph_status add_one_on_host(ph_stream *stream, void *user)
{
    const middle *m = user;
    float values[COUNT];
    runs++;
    if (failure != PH_OK)
        return ph_fail(failure, "no sampler");
    PH_TRY(ph_memcpy(values, m->at, sizeof values, stream));
    for (size_t i = 0; i < COUNT; i++)
        values[i] += 1;
    return ph_memcpy(m->at, values, sizeof values, stream);
}

/* out = 2 in, + 1 on the host. The break is a constant to autograd. */
static void break_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    ph_stream *stream = ph_tape_stream(tape);
    ph_graph *graph = NULL;
    middle own, *m = &own;
    (void)self;
    out[0] = ph_mul_scalar(tape, in[0], 2);
    if (out[0] == NULL)
        return;
    ph_tape_check(tape, ph_stream_capturing_graph(&graph, stream));
    if (graph) {
        m = malloc(sizeof *m);
        assert_non_null(m);
        ph_tape_check(tape, ph_graph_retain(graph, free, m, false));
    }
    m->at = ph_tensor_data(out[0]);
    ph_tape_check(tape, ph_break(stream, add_one_on_host, m));
}

/* linear, two breaks, linear. */
static ph_module *make_net(uint64_t seed)
{
    ph_module *net, *child[4];
    ph_generator *generator;
    assert_ok(ph_generator_create(&generator, s.device, seed));
    const ph_layer_options layer = {.generator = generator};
    assert_ok(ph_linear_create_with(&child[0], s.device, WIDTH, WIDTH, &layer));
    child[1] = gn_function(&s, "broken", break_forward, NULL, 1, 1);
    child[2] = gn_function(&s, "broken again", break_forward, NULL, 1, 1);
    assert_ok(ph_linear_create_with(&child[3], s.device, WIDTH, WIDTH, &layer));
    assert_ok(ph_sequential_create(&net, child, 4));
    for (size_t i = 0; i < 4; i++)
        ph_module_release(child[i]);
    ph_generator_release(generator);
    return net;
}

typedef struct pair {
    ph_module *plain, *original, *graphed;
    ph_tensor *sample;
} pair;

static void open_pair(pair *p, const ph_graphed_options *options)
{
    t_scene_open(&s);
    failure = PH_OK;
    p->plain = make_net(5);
    p->original = make_net(5);
    p->sample = gn_sample(&s, PH_SHAPE(ROWS, WIDTH), true);
    p->graphed = gn_graph_one(p->original, p->sample, options);
    runs = 0;
}

static void close_pair(const pair *p)
{
    ph_module_release(p->graphed);
    ph_module_release(p->original);
    ph_module_release(p->plain);
    ph_tensor_release(p->sample);
    t_scene_close(&s);
}

static ph_tensor *step(ph_module *module, ph_tensor *x)
{
    ph_tensor *y = ph_call(s.tape, module, x);
    ph_backward(s.tape, ph_sum(s.tape, ph_mul(s.tape, y, y)));
    return y;
}

/* Outputs, and gradients of parameters and of the input. */
static void expect_same(const pair *p, uint64_t seed)
{
    ph_tensor *x = ph_tensor_retain(gn_random(&s, PH_SHAPE(ROWS, WIDTH), seed)), *grads[2];
    assert_ok(ph_tensor_set_requires_grad(x, true));
    ph_tensor *want = ph_tensor_retain(step(p->plain, x));
    grads[0] = ph_tensor_retain(ph_tensor_grad(x));
    t_zero_grad(x);
    ph_tensor *got = ph_tensor_retain(step(p->graphed, x));
    grads[1] = ph_tensor_retain(ph_tensor_grad(x));
    gn_expect_same(&s, got, want, "the output");
    gn_expect_same(&s, grads[1], grads[0], "the gradient of the input");
    gn_expect_same_parameters(&s, p->original, p->plain, "the parameters");
    ph_tensor_release(want);
    ph_tensor_release(got);
    ph_tensor_release(grads[0]);
    ph_tensor_release(grads[1]);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
}

TEST(calls_run_the_functions_and_give_the_same_bits)
{
    pair p;
    open_pair(&p, NULL);
    for (uint64_t i = 0; i < 6; i++) {
        expect_same(&p, 100 + i);
        assert_int_equal(runs, 4 * (int)(i + 1)); /* two of the module's, two of the callable's */
    }
    close_pair(&p);
}

TEST(captures_call_no_functions)
{
    pair p;
    t_scene_open(&s);
    runs = 0;
    p.original = make_net(5);
    p.sample = gn_sample(&s, PH_SHAPE(ROWS, WIDTH), false);
    p.graphed = gn_graph_one(p.original, p.sample, &(ph_graphed_options){.warmup_iterations = 2});
    assert_int_equal(runs, 4); /* the warm-up's */
    ph_module_release(p.graphed);
    ph_module_release(p.original);
    ph_tensor_release(p.sample);
    t_scene_close(&s);
}

TEST(inputs_are_copied_and_the_reason_is_told)
{
    pair p;
    ph_module *none;
    open_pair(&p, NULL);
    ph_graphed_input input = gn_input(p.graphed, 0, false);
    assert_false(input.rebound);
    assert_non_null(strstr(input.reason, "forward has breaks"));
    ph_graphed_info info = gn_info(p.graphed);
    assert_true(info.forward_nodes > 3 && info.forward_nodes < 20); /* of all segments */
    const ph_sample sample = {.tensors = &p.sample, .count = 1};
    assert_error(ph_make_graphed_callables(&none, &p.plain, &sample, 1,
                                           &(ph_graphed_options){.inputs = PH_GRAPHED_REBIND}),
                 PH_ERROR_UNSUPPORTED, "cannot be rebound, as was asked for: forward has breaks");
    assert_null(none);
    close_pair(&p);
}

TEST(other_options_keep_their_promises)
{
    static const ph_graphed_options options[] = {
        {.gradients = PH_GRAPHED_ACCUMULATE}, {.gradients = PH_GRAPHED_BORROW},
        {.check_input_liveness = true},       {.enable_annotations = true},
        {.inputs = PH_GRAPHED_COPY_INPUTS},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        pair p;
        open_pair(&p, &options[i]);
        expect_same(&p, 7);
        if (options[i].gradients == PH_GRAPHED_COPY)
            expect_same(&p, 8);
        close_pair(&p);
    }
}

/* Some of the segments have run: what earlier calls left is gone. */
TEST(a_function_that_fails_fails_the_call)
{
    pair p;
    open_pair(&p, NULL);
    ph_tensor *before = ph_tensor_retain(ph_call(s.tape, p.graphed, p.sample));
    assert_ok(ph_tape_status(s.tape));
    failure = PH_ERROR_CALLER;
    (void)ph_call(s.tape, p.graphed, p.sample);
    assert_error(ph_tape_status(s.tape), PH_ERROR_CALLER, "the break after segment 0: no sampler");
    assert_status(ph_tape_clear(s.tape), PH_ERROR_CALLER);
    failure = PH_OK;
    (void)ph_mul_scalar(s.tape, before, 2);
    assert_error(ph_tape_status(s.tape), PH_ERROR_OVERWRITTEN,
                 "call 2 of 'sequential' has written");
    ph_tensor_release(before);
    assert_status(ph_tape_clear(s.tape), PH_ERROR_OVERWRITTEN);
    expect_same(&p, 9);
    close_pair(&p);
}

/* ---- backward ---- */
static ph_status nothing(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    return PH_OK;
}

static void plain_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    (void)custom;
    out[0] = ph_mul_scalar(tape, in[0], 2);
}

static void broken_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                            ph_tensor *const *grad_out, const bool *needed)
{
    (void)custom;
    (void)needed;
    ph_tape_check(tape, ph_break(ph_tape_stream(tape), nothing, NULL));
    grad_in[0] = ph_mul_scalar(tape, grad_out[0], 2);
}

static void custom_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const ph_custom_operator op = {
        .name = "mine", .forward = plain_forward, .backward = broken_backward};
    (void)self;
    ph_custom_call(tape, &op, out, 1, in, 1);
}

TEST(breaks_in_backward_are_refused)
{
    ph_module *none, *module;
    t_scene_open(&s);
    module = gn_function(&s, "custom", custom_forward, NULL, 1, 1);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), true);
    const ph_sample sample = {.tensors = &x, .count = 1};
    assert_error(ph_make_graphed_callables(&none, &module, &sample, 1, NULL), PH_ERROR_STATE,
                 "graphed callables allow them in forward alone");
    ph_tensor_release(x);
    ph_module_release(module);
    t_scene_close(&s);
}

static ph_status fill_one(ph_stream *stream, void *user)
{
    return ph_memset(user, 0, 4, stream);
}

/* The graph is reset alone, under capture again, or captured again. */
static void expect_reset(int again)
{
    pair p;
    ph_graph *forward, *backward;
    char *block;
    open_pair(&p, NULL);
    ph_tensor *other = ph_tensor_retain(gn_random(&s, PH_SHAPE(ROWS, WIDTH), 3));
    assert_ok(ph_tape_clear(s.tape));
    assert_ok(ph_malloc(&block, 4, 1, s.stream));
    assert_ok(ph_graphed_callable_graphs(&forward, &backward, p.graphed));
    assert_ok(ph_graph_reset(forward));
    if (again == 2)
        assert_ok(ph_graph_capture(forward, s.stream, NULL, fill_one, block));
    ph_tensor *const inputs[] = {p.sample, other};
    for (size_t i = 0; i < 2; i++) {
        ph_stream *beside;
        if (again == 1) {
            assert_ok(ph_stream_create(&beside, s.device, NULL));
            assert_ok(ph_graph_capture_begin(forward, beside,
                                             &(ph_capture_options){.mode = PH_CAPTURE_RELAXED}));
        }
        assert_null(ph_call(s.tape, p.graphed, inputs[i]));
        assert_error(ph_tape_clear(s.tape), PH_ERROR_STATE,
                     "the program has reset or destroyed its graph");
        if (again == 1) {
            ph_graph_capture_abort(forward);
            ph_stream_destroy(beside);
            assert_ok(ph_graph_reset(forward));
        }
    }
    assert_int_equal(runs, 0);
    ph_free(block, s.stream);
    ph_tensor_release(other);
    close_pair(&p);
}

TEST(a_callable_with_breaks_whose_graph_was_reset_names_the_reset)
{
    for (int again = 0; again < 3; again++)
        expect_reset(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_run_the_functions_and_give_the_same_bits),
        cmocka_unit_test(captures_call_no_functions),
        cmocka_unit_test(inputs_are_copied_and_the_reason_is_told),
        cmocka_unit_test(other_options_keep_their_promises),
        cmocka_unit_test(a_function_that_fails_fails_the_call),
        cmocka_unit_test(breaks_in_backward_are_refused),
        cmocka_unit_test(a_callable_with_breaks_whose_graph_was_reset_names_the_reset),
    };
    return cmocka_run_group_tests_name("nn.graphed_breaks", tests, NULL, NULL);
}
