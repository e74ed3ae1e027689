/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed.c: graphed callables in the place of the modules that they are made from:
 * training, several in one call, modes, captures, streams. */
#include "support/draws.h"
#include "support/graphed_nets.h"
#include "support/test.h"

/* ---- training ---- ten steps, each with other inputs in new memory: the parameters and
 * gradients of both are the same bits after each. */
static void train_ten(gn_kind kind, ph_graphed_gradients gradients)
{
    enum {
        STEPS = 10
    };
    t_scene s;
    t_scene_open(&s);
    ph_generator *mine = t_generator(&s, 5), *theirs;
    assert_ok(ph_generator_create(&theirs, s.device, 5));
    ph_module *plain = gn_net(&s, kind, 3), *source = gn_net(&s, kind, 3);
    gn_expect_same_parameters(&s, source, plain, gn_name(kind));
    ph_tensor *x = gn_sample(&s, gn_shape(kind), false);
    ph_module *graphed =
        gn_graph_one(source, x, &(ph_graphed_options){.gradients = gradients, .generator = theirs});
    gn_expect_same_parameters(&s, graphed, plain, "making changes nothing");
    ph_optimizer *a = gn_sgd(plain), *b = gn_sgd(graphed);
    assert_ok(ph_generator_seed(theirs, 5));
    assert_ok(ph_generator_seed(mine, 5));
    for (uint64_t step = 0; step < STEPS; step++) {
        gn_train_step(&s, plain, a, gn_shape(kind), step);
        gn_train_step(&s, graphed, b, gn_shape(kind), step);
        gn_expect_same_parameters(&s, graphed, plain, gn_name(kind));
        assert_int_equal(t_offset(theirs), t_offset(mine));
    }
    const ph_graphed_info info = gn_info(graphed);
    assert_int_equal(info.forward_calls, STEPS);
    assert_int_equal(info.backward_calls, STEPS);
    assert_int_equal(info.gradients, gradients);
    ph_optimizer_destroy(a);
    ph_optimizer_destroy(b);
    ph_tensor_release(x);
    ph_module_release(plain);
    ph_module_release(source);
    ph_module_release(graphed);
    ph_tape_set_generator(s.tape, NULL);
    ph_generator_release(mine);
    ph_generator_release(theirs);
    t_scene_close(&s);
}

TEST(test_training_copy)
{
    for (int kind = 0; kind < GN_KINDS; kind++)
        train_ten((gn_kind)kind, PH_GRAPHED_COPY);
}

TEST(test_training_accumulate)
{
    for (int kind = 0; kind < GN_KINDS; kind++)
        train_ten((gn_kind)kind, PH_GRAPHED_ACCUMULATE);
}

TEST(test_training_borrow)
{
    for (int kind = 0; kind < GN_KINDS; kind++)
        train_ten((gn_kind)kind, PH_GRAPHED_BORROW);
}

/* ---- several in one call ---- forwards are captured in the order given, backwards in reverse;
 * before that come captures of each alone, for the proofs. */
enum {
    LOG = 64
};
typedef struct stage {
    char letter, *log; /* log: what captures got, in order */
    int calls;
} stage;

static void note(const ph_tape *tape, const stage *me, char letter)
{
    size_t used = strlen(me->log);
    if (ph_stream_is_capturing(ph_tape_stream(tape)) && used + 1 < LOG)
        me->log[used] = letter;
}

static void stage_run(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    stage *me = ph_custom_user(custom);
    me->calls++;
    note(tape, me, me->letter);
    out[0] = ph_mul_scalar(tape, in[0], 2);
}

static void stage_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                           ph_tensor *const *grad_out, const bool *needed)
{
    const stage *me = ph_custom_user(custom);
    (void)needed;
    note(tape, me, (char)(me->letter - 'a' + 'A'));
    grad_in[0] = ph_mul_scalar(tape, grad_out[0], 2);
}

static void stage_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const ph_custom_operator op = {
        .name = "stage", .forward = stage_run, .backward = stage_backward, .user = self};
    ph_custom_call(tape, &op, out, 1, in, 1);
}

TEST(several_callables_are_captured_forward_and_backward_in_order)
{
    enum {
        COUNT = 3
    };
    t_scene s;
    t_scene_open(&s);
    char log[LOG] = "";
    stage stages[COUNT];
    ph_module *plain[COUNT], *graphed[COUNT];
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 1, 2);
    ph_sample samples[COUNT];
    for (int i = 0; i < COUNT; i++) {
        stages[i] = (stage){.letter = (char)('a' + i), .log = log};
        plain[i] = gn_function(&s, "stage", stage_forward, &stages[i], 1, 1);
        samples[i] = (ph_sample){.tensors = &x, .count = 1};
    }
    assert_ok(ph_make_graphed_callables(graphed, plain, samples, COUNT, NULL));
    assert_true(strlen(log) >= 6);
    assert_string_equal(log + strlen(log) - 6, "abcCBA");
    assert_null(ph_tensor_grad(x));
    int calls = stages[0].calls;
    for (int i = 1; i <= 3; i++) {
        ph_tensor *y = x;
        for (int k = 0; k < COUNT; k++)
            y = ph_call(s.tape, graphed[k], y);
        t_expect_values(s.tape, y, PH_SHAPE(2), 8, 16);
        ph_backward(s.tape, ph_sum(s.tape, y));
        t_expect_grad(&s, x, (float)(8 * i), (float)(8 * i));
        assert_ok(ph_tape_clear(s.tape));
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(stages[i].calls, calls);
        assert_int_equal(gn_info(graphed[i]).backward_calls, 3);
        assert_string_equal(ph_module_name(graphed[i]), "stage");
        ph_module_release(graphed[i]);
        ph_module_release(plain[i]);
    }
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* warmup_iterations calls come before the captures. */
TEST(warmup_calls_come_before_the_captures)
{
    static const size_t iterations[] = {PH_ZERO, 0, 1, 11};
    static const int more[] = {0, 3, 1, 11};
    t_scene s;
    t_scale scale;
    int none = 0;
    t_scene_open(&s);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), false);
    for (int i = 0; i < 4; i++) {
        ph_module *plain = t_scale_open(&s, &scale, 3);
        ph_module *graphed =
            gn_graph_one(plain, x, &(ph_graphed_options){.warmup_iterations = iterations[i]});
        none = i ? none : scale.calls;
        assert_int_equal(scale.calls, none + more[i]);
        assert_null(ph_tensor_grad(scale.weight));
        ph_module_release(graphed);
        ph_module_release(plain);
    }
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* ---- training and evaluation ---- */
static void same_call(const t_scene *s, ph_module *graphed, ph_module *plain,
                      ph_generator *const draws[2], const char *what)
{
    for (int i = 0; i < 2; i++)
        assert_ok(ph_generator_seed(draws[i], 9));
    ph_tensor *x = gn_random(s, gn_shape(GN_DROPOUT), 4), *want = ph_call(s->tape, plain, x);
    assert_ok(ph_generator_seed(draws[0], 9));
    gn_expect_same(s, ph_call(s->tape, graphed, x), want, what);
    assert_ok(ph_tape_clear(s->tape));
}

TEST(the_original_is_called_in_the_other_mode)
{
    t_scene s;
    t_scene_open(&s);
    ph_generator *draws[2] = {t_generator(&s, 9)};
    assert_ok(ph_generator_create(&draws[1], s.device, 9));
    ph_module *plain = gn_net(&s, GN_DROPOUT, 3), *source = gn_net(&s, GN_DROPOUT, 3);
    ph_tensor *x = gn_sample(&s, gn_shape(GN_DROPOUT), false);
    ph_module *graphed = gn_graph_one(source, x, &(ph_graphed_options){.generator = draws[1]});
    same_call(&s, graphed, plain, draws, "training");
    assert_int_equal(gn_info(graphed).forward_calls, 1);
    ph_module_train(graphed, false);
    ph_module_train(plain, false);
    assert_false(ph_module_is_training(graphed));
    same_call(&s, graphed, plain, draws, "evaluation");
    assert_int_equal(gn_info(graphed).forward_calls, 1);
    ph_module_train(graphed, true);
    ph_module_train(plain, true);
    same_call(&s, graphed, plain, draws, "training again");
    assert_int_equal(gn_info(graphed).forward_calls, 2);
    /* Of a child alone. */
    ph_module_train(ph_module_child(graphed, "1"), false);
    ph_module_train(ph_module_child(plain, "1"), false);
    same_call(&s, graphed, plain, draws, "evaluation of a child");
    assert_int_equal(gn_info(graphed).forward_calls, 2);
    ph_module_train(graphed, true);
    ph_module_train(plain, true);
    ph_module_release(graphed);

    /* Captured in evaluation; a call in training then is the original's. */
    ph_module_train(source, false);
    graphed = gn_graph_one(source, x, &(ph_graphed_options){.generator = draws[1]});
    ph_module_train(plain, false);
    same_call(&s, graphed, plain, draws, "captured in evaluation");
    assert_int_equal(gn_info(graphed).forward_calls, 1);
    ph_module_train(graphed, true);
    ph_module_train(plain, true);
    same_call(&s, graphed, plain, draws, "captured in evaluation, called in training");
    assert_int_equal(gn_info(graphed).forward_calls, 1);
    ph_tensor_release(x);
    ph_module_release(plain);
    ph_module_release(source);
    ph_module_release(graphed);
    ph_tape_set_generator(s.tape, NULL);
    ph_generator_release(draws[0]);
    ph_generator_release(draws[1]);
    t_scene_close(&s);
}

/* As a child: the mode of the parent is its own too, and a layer without children has it as
 * well. */
TEST(test_in_sequential)
{
    t_scene s;
    t_scene_open(&s);
    ph_module *linear, *dropout, *all[2], *graphed, *net, *plain;
    assert_ok(ph_linear_create(&linear, s.device, 4, 4));
    assert_ok(ph_dropout_create(&dropout, s.device, 1));
    ph_tensor *x = gn_sample(&s, PH_SHAPE(3, 4), true);
    graphed = gn_graph_one(dropout, x, NULL);
    all[0] = linear;
    all[1] = graphed;
    assert_ok(ph_sequential_create(&net, all, 2));
    all[1] = dropout;
    assert_ok(ph_sequential_create(&plain, all, 2));
    for (int training = 1; training >= 0; training--) {
        ph_tensor *in = gn_random(&s, PH_SHAPE(3, 4), 8);
        ph_module_train(net, training); /* not the one that it is made from */
        ph_tensor *got = ph_call(s.tape, net, in);
        ph_backward(s.tape, ph_sum(s.tape, got));
        ph_tensor *grad = ph_tensor_retain(ph_tensor_grad(ph_module_parameter(linear, "weight")));
        ph_module_zero_grad(linear);
        ph_module_train(plain, training);
        ph_tensor *want = ph_call(s.tape, plain, in);
        gn_expect_same(&s, got, want, "as a child");
        ph_backward(s.tape, ph_sum(s.tape, want));
        gn_expect_same(&s, grad, ph_tensor_grad(ph_module_parameter(linear, "weight")),
                       "its gradient");
        ph_module_zero_grad(linear);
        ph_tensor_release(grad);
        assert_int_equal(gn_info(graphed).forward_calls, 1);
        assert_ok(ph_tape_clear(s.tape));
    }
    ph_tensor_release(x);
    ph_module *made[] = {linear, dropout, graphed, net, plain};
    for (int i = 0; i < 5; i++)
        ph_module_release(made[i]);
    t_scene_close(&s);
}

/* ---- without gradients ---- the forward graph alone is replayed; nothing is remembered. */
TEST(test_no_grad)
{
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    ph_module *plain = t_scale_open(&s, &scale, 3);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), true);
    ph_module *graphed = gn_graph_one(plain, x, NULL);
    int calls = scale.calls;
    assert_true(ph_tape_set_grad_enabled(s.tape, false));
    ph_tensor *y = ph_call(s.tape, graphed, t_input(&s, 1, 2));
    assert_false(ph_tensor_requires_grad(y));
    assert_int_equal(t_info(&s).nodes, 0);
    t_expect_values(s.tape, y, PH_SHAPE(2), 3, 12);
    t_expect_values(s.tape, ph_call(s.tape, graphed, t_input(&s, 5, 1)), PH_SHAPE(2), 15, 6);
    assert_int_equal(scale.calls, calls);
    assert_int_equal(gn_info(graphed).forward_calls, 2);
    assert_false(ph_tape_set_grad_enabled(s.tape, true));
    y = ph_call(s.tape, graphed, t_input(&s, 1, 2));
    assert_true(ph_tensor_requires_grad(y)); /* the weight's */
    assert_int_equal(t_info(&s).nodes, 1);   /* one call is one node */
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    ph_module_release(graphed);
    ph_module_release(plain);
    t_scene_close(&s);
}

/* ---- inside another capture ---- the original's work is recorded; replays of that graph are
 * independent of the graphed module. */
static ph_tensor *call_captured(ph_tape *tape, void *user)
{
    ph_module *const *module = user;
    return ph_call(tape, *module, ph_module_parameter(*module, "weight"));
}

TEST(test_in_capture)
{
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    ph_module *plain = t_scale_open(&s, &scale, 3); /* weight 3, 6 */
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), true), *out;
    ph_module *graphed = gn_graph_one(plain, x, NULL);
    t_expect_values(s.tape, call_captured(s.tape, &graphed), PH_SHAPE(2), 9, 36);
    assert_ok(ph_tape_clear(s.tape));
    int calls = scale.calls;
    ph_graph *graph = t_capture(&s, call_captured, &graphed, &out);
    assert_int_equal(scale.calls, calls + 1);
    assert_int_equal(gn_info(graphed).forward_calls, 1);
    assert_ok(ph_tensor_write(s.tape, scale.weight, (const float[]){2, 5}, 2 * sizeof(float)));
    assert_ok(ph_graph_replay(graph, s.stream));
    t_expect_values(s.tape, out, PH_SHAPE(2), 4, 25);
    t_expect_values(s.tape, call_captured(s.tape, &graphed), PH_SHAPE(2), 4, 25);
    t_expect_values(s.tape, out, PH_SHAPE(2), 4, 25);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(out);
    ph_graph_destroy(graph);
    ph_tensor_release(x);
    ph_module_release(graphed);
    ph_module_release(plain);
    t_scene_close(&s);
}

/* ---- streams ---- tapes of other streams than that of the capture. */
TEST(calls_from_tapes_of_other_streams_are_ordered)
{
    t_scene s, other;
    t_scale scale;
    ph_stream *stream;
    t_scene_open(&s);
    other = s;
    assert_ok(ph_stream_create(&stream, s.device, NULL));
    assert_ok(ph_stream_create(&other.stream, s.device, NULL));
    assert_ok(ph_tape_create(&other.tape, other.stream, NULL));
    ph_module *plain = t_scale_open(&s, &scale, 3);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), false);
    ph_module *graphed = gn_graph_one(plain, x, &(ph_graphed_options){.stream = stream});
    for (int i = 1; i <= 6; i++) {
        const t_scene *on = i % 2 ? &s : &other;
        ph_tensor *y = ph_call(on->tape, graphed, t_input(on, (float)i, 1));
        t_expect_values(on->tape, y, PH_SHAPE(2), (float)(3 * i), 6);
        ph_backward(on->tape, ph_sum(on->tape, y));
        assert_ok(ph_tape_status(on->tape));
        assert_ok(ph_stream_synchronize(on->stream));
        t_expect_values(on->tape, ph_tensor_grad(scale.weight), PH_SHAPE(2),
                        (float)(i * (i + 1)) / 2, (float)i);
        assert_ok(ph_tape_clear(on->tape));
        assert_ok(ph_stream_synchronize(on->stream));
    }
    ph_tensor_release(x);
    ph_module_release(graphed);
    ph_module_release(plain);
    ph_tape_destroy(other.tape);
    ph_stream_destroy(other.stream);
    ph_stream_destroy(stream);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training_copy),
        cmocka_unit_test(test_training_accumulate),
        cmocka_unit_test(test_training_borrow),
        cmocka_unit_test(several_callables_are_captured_forward_and_backward_in_order),
        cmocka_unit_test(warmup_calls_come_before_the_captures),
        cmocka_unit_test(the_original_is_called_in_the_other_mode),
        cmocka_unit_test(test_in_sequential),
        cmocka_unit_test(test_no_grad),
        cmocka_unit_test(test_in_capture),
        cmocka_unit_test(calls_from_tapes_of_other_streams_are_ordered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
