/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_calls.c: what calls of a graphed callable, and backward through them, refuse:
 * the message shows what was expected and what came, and the tape is as new once it was cleared.
 * Structures of inputs. */
#include "support/graphed_nets.h"
#include "support/test.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/hooks.h"
#include "tensor/tape/tape.h"

typedef struct bench {
    t_scene s;
    t_scale scale;
    ph_tensor *x;
    ph_module *plain, *graphed;
} bench;

static void bench_open(bench *b, bool requires_grad)
{
    t_scene_open(&b->s);
    b->plain = t_scale_open(&b->s, &b->scale, 3);
    b->x = gn_sample(&b->s, PH_SHAPE(2), requires_grad);
    b->graphed = gn_graph_one(b->plain, b->x, NULL);
}

static void bench_close(bench *b)
{
    ph_tensor_release(b->x);
    ph_module_release(b->graphed);
    ph_module_release(b->plain);
    t_scene_close(&b->s);
}

/* A right call, with its backward. */
static void expect_works(bench *b)
{
    t_scene *s = &b->s;
    t_zero_grad(b->scale.weight);
    ph_tensor *y = ph_call(s->tape, b->graphed, t_input(s, 1, 2));
    t_expect_values(s->tape, y, PH_SHAPE(2), 3, 12);
    ph_backward(s->tape, ph_sum(s->tape, y));
    t_expect_grad(s, b->scale.weight, 1, 2);
    assert_ok(ph_tape_clear(s->tape));
    t_zero_grad(b->scale.weight);
}

/* The call is refused without a replay; the message names the module and has both words. */
static void expect_refused(bench *b, ph_tensor *x, ph_status status, const char *expected,
                           const char *got)
{
    t_scene *s = &b->s;
    uint64_t calls = gn_info(b->graphed).forward_calls;
    assert_null(ph_call(s->tape, b->graphed, x));
    assert_error(ph_tape_status(s->tape), status, "scale");
    assert_error(ph_tape_status(s->tape), status, expected);
    assert_null(ph_relu(s->tape, b->x));
    t_expect_failure(s, status, got);
    assert_int_equal(gn_info(b->graphed).forward_calls, calls);
    expect_works(b);
}

TEST(calls_with_other_inputs_than_the_sample_are_refused)
{
    bench b;
    bench_open(&b, false);
    t_scene *s = &b.s, elsewhere;
    ph_tensor *in[2], *out[2];
    in[0] = in[1] = t_input(s, 1, 2);
    ph_call_n(s->tape, b.graphed, out, 1, in, 2);
    t_expect_failure(s, PH_ERROR_ARGUMENT, "2");
    in[0] = in[1] = t_input(s, 1, 2);
    ph_call_n(s->tape, b.graphed, out, 2, in, 1);
    assert_null(out[0]);
    assert_null(out[1]);
    t_expect_failure(s, PH_ERROR_ARGUMENT, "scale");
    expect_works(&b);
    expect_refused(&b, NULL, PH_ERROR_ARGUMENT, "scale", "NULL");
    expect_refused(&b, gn_random(s, PH_SHAPE(3), 1), PH_ERROR_ARGUMENT, "f32[2]", "f32[3]");
    expect_refused(&b, gn_random(s, PH_SHAPE(1), 1), PH_ERROR_ARGUMENT, "f32[2]",
                   "f32[1]"); /* no broadcast */
    expect_refused(&b, gn_random(s, PH_SHAPE(1, 2), 1), PH_ERROR_ARGUMENT, "f32[2]", "f32[1, 2]");
    expect_refused(&b, ph_zeros(s->tape, PH_DTYPE_F64, PH_SHAPE(2)), PH_ERROR_ARGUMENT, "f32[2]",
                   "f64[2]");
    expect_refused(&b, ph_zeros(s->tape, PH_DTYPE_I32, PH_SHAPE(2)), PH_ERROR_ARGUMENT, "f32[2]",
                   "i32[2]");
    ph_tensor *leaf = t_leaf(s, PH_SHAPE(2), 1, 2);
    expect_refused(&b, leaf, PH_ERROR_ARGUMENT, "gradient", "gradient");
    expect_refused(&b, ph_mul_scalar(s->tape, leaf, 2), PH_ERROR_ARGUMENT, "gradient", "gradient");
    ph_tensor_release(leaf);
    if (t_on_host()) {
        t_scene_open(&elsewhere);
        leaf = t_leaf(&elsewhere, PH_SHAPE(2), 1, 2);
        assert_ok(ph_tensor_set_requires_grad(leaf, false));
        expect_refused(&b, leaf, PH_ERROR_WRONG_DEVICE, "device", "device");
        assert_null(ph_call(elsewhere.tape, b.graphed, leaf));
        t_expect_failure(&elsewhere, PH_ERROR_WRONG_DEVICE, "scale");
        ph_tensor_release(leaf);
        t_scene_close(&elsewhere);
    }
    bench_close(&b);
}

/* An input may do without a gradient where the sample's had one; the others are as they would
 * be. */
TEST(test_fewer_gradients)
{
    bench b;
    bench_open(&b, true);
    t_scene *s = &b.s;
    expect_works(&b);
    ph_tensor *leaf = t_leaf(s, PH_SHAPE(2), 5, 7);
    ph_backward(s->tape, ph_sum(s->tape, ph_call(s->tape, b.graphed, leaf)));
    t_expect_grad(s, leaf, 3, 6);
    t_expect_grad(s, b.scale.weight, 5, 7);
    assert_ok(ph_tape_clear(s->tape));
    t_zero_grad(leaf);
    /* Not a leaf. */
    ph_backward(s->tape,
                ph_sum(s->tape, ph_call(s->tape, b.graphed, ph_mul_scalar(s->tape, leaf, 2))));
    t_expect_grad(s, leaf, 6, 12);
    t_expect_grad(s, b.scale.weight, 15, 21);
    assert_ok(ph_tape_clear(s->tape));
    ph_tensor_release(leaf);
    expect_works(&b);
    bench_close(&b);
}

/* ---- parameters ---- those of the capture, where they were, as they were. */
static void expect_stale(bench *b, const char *why)
{
    uint64_t calls = gn_info(b->graphed).forward_calls;
    assert_null(ph_call(b->s.tape, b->graphed, t_input(&b->s, 1, 2)));
    assert_error(ph_tape_status(b->s.tape), PH_ERROR_STATE,
                 "graphed callable 'scale': parameter 'weight'");
    t_expect_failure(&b->s, PH_ERROR_STATE, why);
    assert_int_equal(gn_info(b->graphed).forward_calls, calls);
}

/* Its name is looked for by then, in the module that the callable holds. */
TEST(a_parameter_below_is_named_when_the_module_is_gone)
{
    t_scene s;
    t_scene_open(&s);
    ph_module *plain = gn_net(&s, GN_MLP, 1);
    ph_tensor *sample = gn_sample(&s, gn_shape(GN_MLP), false),
              *bias = ph_tensor_retain(ph_module_parameter(plain, "2.bias"));
    ph_module *graphed = gn_graph_one(plain, sample, NULL);
    assert_non_null(bias);
    ph_module_release(plain);
    assert_ok(ph_tensor_set_requires_grad(bias, false));
    assert_null(ph_call(s.tape, graphed, sample));
    t_expect_failure(&s, PH_ERROR_STATE, "parameter '2.bias' requires no gradient any more");
    ph_tensor_release(bias);
    ph_tensor_release(sample);
    ph_module_release(graphed);
    t_scene_close(&s);
}

TEST(calls_with_moved_parameters_are_refused)
{
    bench b;
    bench_open(&b, true);
    t_scene *s = &b.s;
    ph_tensor *weight = b.scale.weight, *other = t_leaf(s, PH_SHAPE(2), 1, 1);
    assert_ok(ph_tensor_set_requires_grad(weight, false));
    expect_stale(&b, "requires no gradient any more");
    assert_ok(ph_tensor_set_requires_grad(weight, true));
    expect_works(&b);
    char *data = weight->data;
    weight->data = other->data; /* moved */
    expect_stale(&b, "is not where it was at the capture");
    weight->data = data;
    expect_works(&b);
    /* Values are free: in place, or by a step. */
    assert_ok(ph_tensor_write(s->tape, weight, (const float[]){2, 4}, 2 * sizeof(float)));
    t_expect_values(s->tape, ph_call(s->tape, b.graphed, t_input(s, 1, 2)), PH_SHAPE(2), 2, 8);
    assert_ok(ph_tape_clear(s->tape));
    ph_tensor_release(other);
    bench_close(&b);
}

/* It had no gradient at the capture: the graphs make none. */
TEST(test_parameter_without_gradient)
{
    bench b;
    bench_open(&b, true);
    t_scene *s = &b.s;
    ph_module_release(b.graphed);
    assert_ok(ph_tensor_set_requires_grad(b.scale.weight, false));
    b.graphed = gn_graph_one(b.plain, b.x, NULL);
    assert_ok(ph_tensor_set_requires_grad(b.scale.weight, true));
    expect_stale(&b, "requires a gradient, and did not at the capture");
    assert_ok(ph_tensor_set_requires_grad(b.scale.weight, false));
    ph_tensor *leaf = t_leaf(s, PH_SHAPE(2), 5, 7);
    ph_backward(s->tape, ph_sum(s->tape, ph_call(s->tape, b.graphed, leaf)));
    t_expect_grad(s, leaf, 3, 6);
    assert_null(ph_tensor_grad(b.scale.weight));
    assert_ok(ph_tape_clear(s->tape));
    ph_tensor_release(leaf);
    bench_close(&b);
}

/* ---- backward ---- */
TEST(test_backward_twice)
{
    bench b;
    bench_open(&b, true);
    t_scene *s = &b.s;
    ph_tensor *leaf = t_leaf(s, PH_SHAPE(2), 5, 7), *loss;
    loss = ph_sum(s->tape, ph_call(s->tape, b.graphed, leaf));
    ph_backward(s->tape, loss);
    ph_backward(s->tape, loss);
    t_expect_failure(s, PH_ERROR_STATE, "a second pass through it");
    t_zero_grad(leaf);
    expect_works(&b);
    /* Twice is right where the history is kept. */
    loss = ph_sum(s->tape, ph_call(s->tape, b.graphed, leaf));
    ph_backward_from(s->tape, &loss, NULL, 1, &(ph_backward_options){.retain_graph = true});
    ph_backward(s->tape, loss);
    t_expect_grad(s, leaf, 6, 12);
    t_expect_grad(s, b.scale.weight, 10, 14);
    assert_ok(ph_tape_clear(s->tape));
    t_zero_grad(b.scale.weight);
    /* The weight was changed since: as the module itself would say. */
    loss = ph_sum(s->tape, ph_call(s->tape, b.graphed, leaf));
    assert_ok(ph_tensor_write(s->tape, b.scale.weight, (const float[]){3, 6}, 2 * sizeof(float)));
    ph_backward(s->tape, loss);
    t_expect_failure(s, PH_ERROR_STATE, "was changed in place: it has version 2, and had 1");
    t_zero_grad(b.scale.weight);
    expect_works(&b);
    ph_tensor_release(leaf);
    bench_close(&b);
}

/* Its forward was replayed before the capture: the pass belongs to both, or to none. */
static ph_status backward_captured(ph_stream *stream, void *user)
{
    const bench *b = user;
    (void)stream;
    ph_backward(b->s.tape, b->x);
    return ph_tape_status(b->s.tape);
}

TEST(test_backward_in_capture)
{
    bench b;
    ph_graph *graph;
    bench_open(&b, true);
    ph_tensor *sample = b.x;
    b.x = ph_sum(b.s.tape, ph_call(b.s.tape, b.graphed, t_input(&b.s, 1, 2)));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_capture(graph, b.s.stream,
                                  &(ph_capture_options){.mode = PH_CAPTURE_RELAXED},
                                  backward_captured, &b),
                 PH_ERROR_CAPTURE, "scale");
    assert_false(ph_stream_is_capturing(b.s.stream));
    t_expect_failure(&b.s, PH_ERROR_CAPTURE, "scale");
    b.x = sample;
    expect_works(&b);
    ph_graph_destroy(graph);
    bench_close(&b);
}

/* A hook that turns gradients on finds nothing that could be differentiated a second time. */
static ph_tensor *differentiate(ph_tape *tape, ph_tensor *grad, void *user)
{
    bool *seen = user;
    *seen = true;
    assert_false(ph_tensor_requires_grad(grad));
    assert_false(ph_tape_grad_enabled(tape));
    return grad;
}

TEST(test_gradients_have_no_history)
{
    bench b;
    bench_open(&b, true);
    t_scene *s = &b.s;
    ph_tensor_hook *hook;
    bool seen = false;
    ph_tensor *leaf = t_leaf(s, PH_SHAPE(2), 5, 7), *loss, *grad, *second;
    assert_ok(ph_tensor_hook_add(&hook, leaf, differentiate, &seen));
    loss = ph_sum(s->tape, ph_call(s->tape, b.graphed, leaf));
    ph_grad(s->tape, &grad, &leaf, 1, &loss, NULL, 1, &(ph_grad_options){.retain_graph = true});
    assert_true(seen);
    assert_false(ph_tensor_requires_grad(grad));
    t_expect_values(s->tape, grad, PH_SHAPE(2), 3, 6);
    loss = ph_sum(s->tape, grad);
    ph_grad(s->tape, &second, &leaf, 1, &loss, NULL, 1, NULL);
    assert_null(second);
    assert_error(ph_tape_status(s->tape), PH_ERROR_STATE, "requires no gradient");
    t_expect_failure(s, PH_ERROR_STATE, "there is no second derivative");
    expect_works(&b);
    ph_tensor_hook_remove(hook);
    ph_tensor_release(leaf);
    bench_close(&b);
}

/* ---- structures ---- {"x": tensor, "state": [tensor, tensor]} */
static const char *const keys[] = {"x", "state"}, *const turned[] = {"state", "x"},
                         *const others[] = {"x", "hidden"};
static const ph_structure parts[] = {{.kind = PH_STRUCTURE_TENSOR},
                                     {.kind = PH_STRUCTURE_LIST, .count = 2}};
static const ph_structure parts_turned[] = {{.kind = PH_STRUCTURE_LIST, .count = 2},
                                            {.kind = PH_STRUCTURE_TENSOR}};
static const ph_structure wanted = {PH_STRUCTURE_DICT, 2, keys, parts};

static void combine(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = ph_add(tape, in[0], ph_mul(tape, in[1], in[2]));
}

TEST(calls_of_another_structure_are_refused)
{
    static const ph_structure dict[] = {{PH_STRUCTURE_TENSOR, 0, NULL, NULL},
                                        {PH_STRUCTURE_DICT, 2, turned, NULL}};
    static const ph_structure wrong[] = {
        {PH_STRUCTURE_DICT, 2, turned, parts_turned}, /* order */
        {PH_STRUCTURE_DICT, 2, others, parts},        /* a name */
        {PH_STRUCTURE_DICT, 2, keys, dict},           /* a dict for a list */
        {PH_STRUCTURE_LIST, 2, NULL, parts},          {PH_STRUCTURE_LIST, 3, NULL, NULL},
    };
    static const char *const words[] = {
        "the structure: the key 'x', and the key 'state'",
        "the structure: the key 'state', and the key 'hidden'",
        "state: a list of 2 entries, and a dict of 2 entries",
        "the structure: a dict of 2 entries, and a list of 2 entries",
        "the structure: a dict of 2 entries, and a list of 3 entries"};
    t_scene s;
    ph_module *out = NULL;
    t_scene_open(&s);
    ph_module *plain = gn_function(&s, "combine", combine, NULL, 3, 1);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), true), *in[3] = {x, x, x}, *y;
    const ph_sample sample = {.tensors = in, .count = 3, .structure = &wanted};
    assert_ok(ph_make_graphed_callables(&out, &plain, &sample, 1, NULL));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        in[0] = in[1] = in[2] = t_input(&s, 1, 2);
        ph_call_structured(s.tape, out, &y, 1, in, 3, &wrong[i], NULL);
        assert_null(y);
        assert_error(ph_tape_status(s.tape), PH_ERROR_ARGUMENT, "combine");
        t_expect_failure(&s, PH_ERROR_ARGUMENT, words[i]);
    }
    assert_int_equal(gn_info(out).forward_calls, 0);
    /* An equal one, elsewhere in memory; and any, of a module that has none to compare with. */
    const char *const copied[] = {"x", "state"};
    const ph_structure equal[] = {{.kind = PH_STRUCTURE_TENSOR},
                                  {.kind = PH_STRUCTURE_LIST, .count = 2}};
    const ph_structure same = {PH_STRUCTURE_DICT, 2, copied, equal};
    in[0] = t_input(&s, 1, 2);
    in[1] = t_input(&s, 3, 4);
    in[2] = t_input(&s, 5, 6);
    ph_call_structured(s.tape, out, &y, 1, in, 3, &same, NULL);
    t_expect_values(s.tape, y, PH_SHAPE(2), 16, 26);
    ph_call_structured(s.tape, plain, &y, 1, in, 3, &wrong[0], NULL);
    t_expect_values(s.tape, y, PH_SHAPE(2), 16, 26);
    assert_int_equal(gn_info(out).forward_calls, 1);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    ph_module_release(plain);
    ph_module_release(out);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_with_other_inputs_than_the_sample_are_refused),
        cmocka_unit_test(test_fewer_gradients),
        cmocka_unit_test(a_parameter_below_is_named_when_the_module_is_gone),
        cmocka_unit_test(calls_with_moved_parameters_are_refused),
        cmocka_unit_test(test_parameter_without_gradient),
        cmocka_unit_test(test_backward_twice),
        cmocka_unit_test(calls_of_another_structure_are_refused),
        cmocka_unit_test(test_backward_in_capture),
        cmocka_unit_test(test_gradients_have_no_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
