/* SPDX-License-Identifier: MIT */
/* tests/tensor/grad.c: gradients that are asked for, passes inside passes, and backward in
 * captures. */
#include "support/grads.h"
#include "support/test.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"

TEST(gradients_of_any_input_are_given_and_not_accumulated)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 2, 3), *v = t_leaf(&s, PH_SHAPE(2), 5, 7);
    ph_tensor *a = ph_mul(s.tape, w, v), *b = ph_mul(s.tape, a, w), *loss = ph_sum(s.tape, b),
              *out[5];
    ph_tensor *inputs[] = {w, a, b, loss, w};
    ph_grad(s.tape, out, inputs, 5, &loss, NULL, 1, &(ph_grad_options){.retain_graph = true});
    t_expect_values(s.tape, out[0], PH_SHAPE(2), 20, 42); /* 2 w v */
    t_expect_values(s.tape, out[1], PH_SHAPE(2), 2, 3);
    t_expect_values(s.tape, out[2], PH_SHAPE(2), 1, 1);
    t_expect_values(s.tape, out[3], PH_SCALAR, 1);
    t_expect_values(s.tape, out[4], PH_SHAPE(2), 20, 42);
    assert_null(ph_tensor_grad(w)); /* nothing is accumulated */
    assert_null(ph_tensor_grad(v));
    for (int i = 0; i < 5; i++)
        assert_false(ph_tensor_requires_grad(out[i]));
    ph_backward(s.tape, loss);
    t_expect_grad(&s, w, 20, 42);
    t_expect_grad(&s, v, 4, 9);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(w);
    ph_tensor_release(v);
    t_scene_close(&s);
}

/* Only what leads to the inputs is run: what it does not come to can still be used. */
TEST(history_that_leads_to_no_input_is_kept)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 2, 3);
    ph_tensor *a = ph_mul(s.tape, w, w), *b = ph_mul_scalar(s.tape, a, 3),
              *loss = ph_sum(s.tape, b), *out;
    size_t saved = t_info(&s).saved;
    ph_grad(s.tape, &out, &a, 1, &loss, NULL, 1, NULL);
    t_expect_values(s.tape, out, PH_SHAPE(2), 3, 3);
    assert_true(t_info(&s).saved >= 2 && t_info(&s).saved <= saved);
    ph_tensor *seed = out;
    ph_backward_from(s.tape, &a, &seed, 1, NULL);
    t_expect_grad(&s, w, 12, 18);
    ph_backward(s.tape, loss);
    t_expect_failure(&s, PH_ERROR_STATE, "a second pass");
    ph_tensor_release(w);
    t_scene_close(&s);
}

TEST(an_unused_input_is_refused_unless_allowed)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 2, 3), *v = t_leaf(&s, PH_SHAPE(2), 1, 1);
    ph_tensor *plain = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(2), 1), *side = ph_mul(s.tape, v, v);
    ph_tensor *loss = ph_sum(s.tape, ph_mul(s.tape, w, plain)), *out[4];
    ph_tensor *inputs[] = {w, v, side, plain};
    ph_grad(s.tape, out, inputs, 4, &loss, NULL, 1,
            &(ph_grad_options){.allow_unused = true, .retain_graph = true});
    t_expect_values(s.tape, out[0], PH_SHAPE(2), 1, 1);
    for (int i = 1; i < 4; i++)
        assert_null(out[i]);
    for (int i = 0; i < 3; i++) {
        plain = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(2), 1);
        side = ph_mul(s.tape, v, v);
        loss = ph_sum(s.tape, w);
        ph_tensor *input = i == 0 ? v : i == 1 ? side : plain;
        ph_grad(s.tape, out, &input, 1, &loss, NULL, 1, NULL);
        assert_null(out[0]);
        t_expect_failure(&s, PH_ERROR_ARGUMENT,
                         i == 2 ? "input 0 (f32[2]) requires no gradient"
                                : "input 0 (f32[2]) takes no part");
    }
    ph_tensor_release(w);
    ph_tensor_release(v);
    t_scene_close(&s);
}

TEST(test_grad_refusals)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 2, 3), *loss = ph_sum(s.tape, w), *out = w, *none = NULL;
    ph_grad(s.tape, NULL, &w, 1, &loss, NULL, 1, NULL);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "grad: there must be inputs");
    loss = ph_sum(s.tape, w);
    ph_grad(s.tape, &out, NULL, 0, &loss, NULL, 1, NULL);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "grad: there must be inputs");
    loss = ph_sum(s.tape, w);
    ph_grad(s.tape, &out, &none, 1, &loss, NULL, 1, NULL);
    assert_null(out);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "input 0 (NULL) must be a tensor");
    loss = ph_sum(s.tape, w);
    ph_grad(s.tape, &out, &w, 1, &loss, NULL, 1, &(ph_grad_options){.reserved = {1}});
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "reserved");
    ph_tape *second;
    assert_ok(ph_tape_create(&second, s.stream, NULL));
    ph_tensor *y = ph_mul(second, w, w);
    loss = ph_sum(s.tape, w);
    ph_grad(s.tape, &out, &y, 1, &loss, NULL, 1, NULL);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "input 0 (f32[2]) has its history on another tape");
    ph_tape_destroy(second);
    ph_tensor_release(w);
    t_scene_close(&s);
}

/* The gradient of an input may be the caller's own seed: it stays what it is. */
TEST(test_own_seed)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 2, 3), *seed = t_leaf(&s, PH_SHAPE(2), 4, 5), *out[2];
    assert_ok(ph_tensor_set_requires_grad(seed, false));
    ph_tensor *y = ph_add(s.tape, w, w);
    ph_grad(s.tape, out, (ph_tensor *[]){y, w}, 2, &y, &seed, 1, NULL);
    t_expect_values(s.tape, out[0], PH_SHAPE(2), 4, 5);
    t_expect_values(s.tape, out[1], PH_SHAPE(2), 8, 10);
    t_expect_values(s.tape, seed, PH_SHAPE(2), 4, 5);
    assert_ok(ph_tape_clear(s.tape));
    t_expect_values(s.tape, seed, PH_SHAPE(2), 4, 5);
    ph_tensor_release(seed);
    ph_tensor_release(w);
    t_scene_close(&s);
}

/* ---- a pass inside a pass ---- an operator whose backward is found by another pass, over
 * history of its own. */
static void twice_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    out[0] = ph_mul(tape, in[0], in[0]);
    ph_custom_save(custom, in, 1);
}
static ph_tensor *older;
static void inner_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                           ph_tensor *const *grad_out, const bool *needed)
{
    (void)needed;
    ph_tensor *x = ph_tensor_retain(ph_detach(tape, ph_custom_saved(custom, 0)));
    if (!x || ph_tensor_set_requires_grad(x, true) != PH_OK)
        return;
    bool enabled = ph_tape_set_grad_enabled(tape, true);
    ph_tensor *y = older ? ph_mul(tape, older, x) : ph_mul(tape, x, x);
    ph_tape_set_grad_enabled(tape, enabled);
    if (*(bool *)ph_custom_user(custom))
        ph_backward_from(tape, &y, grad_out, 1, NULL);
    else
        ph_grad(tape, &grad_in[0], &x, 1, &y, grad_out, 1, NULL);
    ph_tensor_release(x);
}

TEST(an_inner_pass_leaves_the_history_of_the_outer)
{
    t_scene s;
    t_scene_open(&s);
    bool accumulates = false;
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 2, 3), *y, *loss, *out;
    ph_custom_operator op = {.name = "square",
                             .forward = twice_forward,
                             .backward = inner_backward,
                             .user = &accumulates};
    older = NULL;
    ph_tensor *x = ph_mul_scalar(s.tape, w, 1);
    ph_custom_call(s.tape, &op, &y, 1, &x, 1);
    ph_backward(s.tape, ph_sum(s.tape, ph_mul(s.tape, y, x)));
    t_expect_grad(&s, w, 12, 27);
    assert_ok(ph_tape_clear(s.tape));
    /* History that the outer pass is busy with is left alone, and refused where it would be run. */
    for (int i = 0; i < 2; i++) {
        accumulates = i == 1;
        older = x = ph_mul_scalar(s.tape, w, 1);
        ph_custom_call(s.tape, &op, &y, 1, &x, 1);
        loss = ph_sum(s.tape, y);
        ph_grad(s.tape, &out, &w, 1, &loss, NULL, 1, NULL);
        if (i == 0)
            t_expect_values(s.tape, out, PH_SHAPE(2), 2, 3);
    }
    t_expect_failure(
        &s, PH_ERROR_STATE,
        "backward: called from inside a pass of backward, it reaches history from before");
    older = NULL;
    ph_tensor_release(w);
    t_scene_close(&s);
}

/* ---- captures ---- */
typedef struct step {
    t_scene *s;
    ph_tape *tape;
    ph_tensor *w, *loss;
} step;

static ph_status run_step(ph_stream *stream, void *user)
{
    (void)stream;
    step *b = user;
    ph_tensor *loss = ph_sum(b->tape, ph_mul(b->tape, b->w, b->w));
    ph_backward(b->tape, loss);
    ph_tensor_release(b->loss);
    b->loss = ph_tensor_retain(loss);
    return ph_tape_clear(b->tape);
}

/* Gradients are made in the graph's pool, and each replay writes them anew. */
TEST(each_replay_writes_the_gradients_anew)
{
    t_scene s;
    t_scene_open(&s);
    ph_graph *graph;
    step b = {&s, s.tape, t_leaf(&s, PH_SHAPE(2), 2, 3), NULL};
    assert_ok(run_step(s.stream, &b));
    t_expect_grad(&s, b.w, 4, 6);
    t_zero_grad(b.w);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, run_step, &b));
    ph_tensor *grad = ph_tensor_grad(b.w);
    assert_non_null(grad);
    for (int i = 1; i <= 3; i++) {
        ph_tape_set_grad_enabled(s.tape, false);
        ph_tensor_fill(s.tape, b.w, i);
        ph_tape_set_grad_enabled(s.tape, true);
        assert_ok(ph_graph_replay(graph, s.stream));
        t_expect_grad(&s, b.w, 2 * (float)i, 2 * (float)i);
        t_expect_values(s.tape, b.loss, PH_SCALAR, 2 * (float)(i * i));
    }
    assert_ok(ph_tape_clear(s.tape));
    t_zero_grad(b.w);
    ph_tensor_release(b.loss);
    ph_tensor_release(b.w);
    ph_graph_destroy(graph);
    t_scene_close(&s);
}

/* The leaf was warmed up on the device's default stream first, then on the one that captures:
 * accumulation is recorded on the capturing one, or refused where that was asked for. */
static void capture_after_default_stream(bool refuse)
{
    t_scene s;
    t_scene_open(&s);
    ph_graph *graph;
    ph_tape *first, *tape;
    step b = {&s, NULL, t_leaf(&s, PH_SHAPE(2), 2, 3), NULL};
    assert_ok(ph_tape_create(&first, ph_device_default_stream(s.device), NULL));
    assert_ok(ph_tape_create(&tape, s.stream, &(ph_tape_options){.refuse_other_streams = refuse}));
    for (int i = 0; i < 2; i++) {
        b.tape = i ? tape : first;
        assert_ok(run_step(NULL, &b)); /* eagerly nobody minds */
        assert_ok(ph_stream_synchronize(ph_tape_stream(b.tape)));
        t_expect_grad(&s, b.w, 4, 6);
        t_zero_grad(b.w);
    }
    assert_ok(ph_graph_create(&graph, NULL));
    ph_status status = ph_graph_capture(graph, s.stream, NULL, run_step, &b);
    if (refuse) {
        assert_error(status, PH_ERROR_STATE,
                     "backward: the leaf f32[2] was first used on another stream");
        assert_null(ph_tensor_grad(b.w));
        assert_false(ph_stream_is_capturing(s.stream));
    } else {
        assert_ok(status);
        assert_ok(ph_graph_replay(graph, s.stream));
        t_expect_grad(&s, b.w, 4, 6);
    }
    t_zero_grad(b.w);
    ph_tensor_release(b.loss);
    ph_tensor_release(b.w);
    ph_graph_destroy(graph);
    ph_tape_destroy(first);
    ph_tape_destroy(tape);
    t_scene_close(&s);
}

TEST(test_graph_capture_stale_default_stream_error)
{
    capture_after_default_stream(true);
}

TEST(test_graph_capture_override_stale_stream_default_warmup)
{
    capture_after_default_stream(false);
}

/* A second tape on the same stream is no other stream. */
TEST(test_same_stream)
{
    t_scene s;
    t_scene_open(&s);
    ph_graph *graph;
    step b = {&s, s.tape, t_leaf(&s, PH_SHAPE(2), 2, 3), NULL};
    assert_ok(run_step(s.stream, &b));
    t_zero_grad(b.w);
    assert_ok(ph_tape_create(&b.tape, s.stream, &(ph_tape_options){.refuse_other_streams = true}));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, run_step, &b));
    ph_graph_destroy(graph);
    t_zero_grad(b.w);
    ph_tape_destroy(b.tape);
    ph_tensor_release(b.loss);
    ph_tensor_release(b.w);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_any_input_are_given_and_not_accumulated),
        cmocka_unit_test(history_that_leads_to_no_input_is_kept),
        cmocka_unit_test(an_unused_input_is_refused_unless_allowed),
        cmocka_unit_test(test_grad_refusals),
        cmocka_unit_test(test_own_seed),
        cmocka_unit_test(an_inner_pass_leaves_the_history_of_the_outer),
        cmocka_unit_test(each_replay_writes_the_gradients_anew),
        cmocka_unit_test(test_graph_capture_override_stale_stream_default_warmup),
        cmocka_unit_test(test_graph_capture_stale_default_stream_error),
        cmocka_unit_test(test_same_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
