/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_overwritten.c: outputs, saved values and gradients are a graph's own memory
 * until a later replay writes it: from then on every use of them is an error that names both
 * calls, and never a wrong number. */
#include "support/graphed_nets.h"
#include "support/test.h"
#include <stdio.h>

/* y = sigmoid(x * weight): backward needs y. */
static void squash_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const t_scale *scale = self;
    out[0] = ph_sigmoid(tape, ph_mul(tape, in[0], scale->weight));
}

typedef struct bench {
    t_scene s;
    ph_tensor *weight, *x;
    ph_module *plain, *graphed;
    t_scale self;
} bench;

static void bench_open(bench *b, const char *name, const ph_graphed_options *options)
{
    t_scene_open(&b->s);
    b->weight = b->self.weight = t_leaf(&b->s, PH_SHAPE(2), 1, 2);
    const ph_parameter weight = {"weight", &b->self.weight};
    const ph_module_desc desc = {.name = name,
                                 .forward = squash_forward,
                                 .self = &b->self,
                                 .parameters = &weight,
                                 .parameter_count = 1};
    assert_ok(ph_module_create(&b->plain, b->s.device, &desc));
    b->x = gn_sample(&b->s, PH_SHAPE(2), true);
    b->graphed = gn_graph_one(b->plain, b->x, options);
}

static void bench_close(bench *b)
{
    ph_module_release(b->graphed);
    ph_module_release(b->plain);
    ph_tensor_release(b->x);
    ph_tensor_release(b->weight);
    t_scene_close(&b->s);
}

static ph_tensor *call(bench *b, float first, float second)
{
    return ph_call(b->s.tape, b->graphed, t_input(&b->s, first, second));
}

/* The tape failed because of call `old`, which call `by` has overwritten. */
static void expect_overwritten(bench *b, int old_call, int by_call)
{
    char old[40], by[40];
    (void)snprintf(old, sizeof old, "of call %d of the graphed callable", old_call);
    (void)snprintf(by, sizeof by, "call %d of 'squash'", by_call);
    assert_error(ph_tape_status(b->s.tape), PH_ERROR_OVERWRITTEN, "squash");
    assert_error(ph_tape_status(b->s.tape), PH_ERROR_OVERWRITTEN, old);
    t_expect_failure(&b->s, PH_ERROR_OVERWRITTEN, by);
}

/* y is right, or an error: never wrong. Gives whether it is right. */
static bool right_or_overwritten(const t_scene *s, ph_tensor *y, const ph_tensor *want)
{
    float got[8], wanted[8];
    assert_true(ph_tensor_bytes(want) <= sizeof wanted);
    assert_ok(ph_tensor_read(s->tape, want, wanted, ph_tensor_bytes(want)));
    if (ph_tensor_read(s->tape, y, got, ph_tensor_bytes(want)) != PH_OK) {
        t_expect_failure(s, PH_ERROR_OVERWRITTEN, "");
        return false;
    }
    assert_memory_equal(got, wanted, ph_tensor_bytes(want));
    return true;
}

/* ---- outputs ---- */
TEST(outputs_of_an_older_call_are_refused_to_every_reader)
{
    bench b;
    float values[2];
    bench_open(&b, "squash", NULL);
    ph_tensor *first = ph_tensor_retain(call(&b, 1, 2));
    ph_tensor *copy = ph_tensor_retain(ph_clone(b.s.tape, first));
    ph_tensor *want = ph_tensor_retain(ph_call(b.s.tape, b.plain, t_input(&b.s, 1, 2)));
    ph_tensor *view = ph_tensor_retain(ph_reshape(b.s.tape, first, PH_SHAPE(2, 1)));
    ph_tensor *part = ph_tensor_retain(ph_slice(b.s.tape, first, 0, 1, 2));
    ph_tensor *detached = ph_tensor_retain(ph_detach(b.s.tape, first));
    assert_ok(ph_tape_clear(b.s.tape));
    gn_expect_same(&b.s, first, want, "an output past the tape's clear");
    ph_tensor *second = call(&b, 3, 4);
    assert_error(ph_tensor_read(b.s.tape, first, values, sizeof values), PH_ERROR_OVERWRITTEN,
                 "squash");
    expect_overwritten(&b, 1, 2);

    /* Whatever reads it: operators, copies from it, views of it, backward from it. */
    ph_tensor *const old[] = {first, view, part, detached};
    for (size_t i = 0; i < 4; i++) {
        double sum;
        char *text = NULL;
        (void)ph_relu(b.s.tape, old[i]);
        expect_overwritten(&b, 1, 2);
        (void)ph_add(b.s.tape, ph_zeros(b.s.tape, PH_DTYPE_F32, ph_tensor_shape(old[i])), old[i]);
        expect_overwritten(&b, 1, 2);
        (void)ph_clone(b.s.tape, old[i]);
        expect_overwritten(&b, 1, 2);
        assert_true(ph_tensor_item(&sum, b.s.tape, ph_sum(b.s.tape, old[i])) != PH_OK);
        expect_overwritten(&b, 1, 2);
        ph_tensor_copy(b.s.tape, ph_zeros(b.s.tape, PH_DTYPE_F32, ph_tensor_shape(old[i])), old[i]);
        expect_overwritten(&b, 1, 2);
        assert_error(ph_tensor_format(&text, b.s.tape, old[i]), PH_ERROR_OVERWRITTEN, "squash");
        expect_overwritten(&b, 1, 2);
        (void)ph_sum(b.s.tape, ph_transpose(b.s.tape, ph_unsqueeze(b.s.tape, old[i], 0), 0, 1));
        expect_overwritten(&b, 1, 2);
    }
    (void)second; /* the tape's: it went with the first clear */
    gn_expect_same(&b.s, copy, want, "a clone");
    ph_tensor *const kept[] = {first, copy, want, view, part, detached};
    for (size_t i = 0; i < 6; i++)
        ph_tensor_release(kept[i]);
    bench_close(&b);
}

/* The newest output is right however many calls there were, and whatever became of the older
 * ones. */
TEST(the_newest_output_is_right_after_any_number_of_calls)
{
    bench b;
    bench_open(&b, "squash", NULL);
    ph_tensor *old[5];
    for (int i = 0; i < 5; i++) {
        old[i] = ph_tensor_retain(call(&b, (float)i, 1));
        ph_tensor *want = ph_call(b.s.tape, b.plain, t_input(&b.s, (float)i, 1));
        gn_expect_same(&b.s, old[i], want, "the newest output");
        assert_ok(ph_tape_clear(b.s.tape));
    }
    (void)ph_relu(b.s.tape, old[1]);
    expect_overwritten(&b, 2, 5);
    for (int i = 0; i < 5; i++)
        ph_tensor_release(old[i]);
    bench_close(&b);
}

/* ---- saved values ---- backward of the first call after the second one. */
TEST(a_backward_of_an_overwritten_call_is_refused)
{
    bench b;
    bench_open(&b, "squash", NULL);
    ph_tensor *first = ph_sum(b.s.tape, call(&b, 1, 2)), *second = ph_sum(b.s.tape, call(&b, 3, 4));
    (void)second;
    ph_backward(b.s.tape, first);
    expect_overwritten(&b, 1, 2);
    assert_null(ph_tensor_grad(b.weight));

    /* The other order is none: the second call's own backward is right. */
    first = ph_sum(b.s.tape, call(&b, 1, 2));
    second = ph_sum(b.s.tape, call(&b, 3, 4));
    ph_backward(b.s.tape, second);
    assert_ok(ph_tape_status(b.s.tape));
    ph_tensor *got = ph_tensor_retain(ph_tensor_grad(b.weight));
    t_zero_grad(b.weight);
    ph_backward(b.s.tape, ph_sum(b.s.tape, ph_call(b.s.tape, b.plain, t_input(&b.s, 3, 4))));
    gn_expect_same(&b.s, got, ph_tensor_grad(b.weight), "the second call's gradient");
    ph_backward(b.s.tape, first);
    expect_overwritten(&b, 3, 4);
    ph_tensor_release(got);
    t_zero_grad(b.weight);

    /* A call without gradients writes it as well. */
    first = ph_sum(b.s.tape, call(&b, 1, 2));
    assert_true(ph_tape_set_grad_enabled(b.s.tape, false));
    (void)call(&b, 3, 4);
    assert_false(ph_tape_set_grad_enabled(b.s.tape, true));
    ph_backward(b.s.tape, first);
    expect_overwritten(&b, 5, 6);
    bench_close(&b);
}

/* What backward needs is the input alone: it is kept, or the pass is refused. */
TEST(test_input_alone)
{
    for (int inputs = PH_GRAPHED_AUTO; inputs <= PH_GRAPHED_COPY_INPUTS; inputs++) {
        t_scene s;
        t_scale scale;
        t_scene_open(&s);
        ph_module *plain = t_scale_open(&s, &scale, 3);
        ph_tensor *x = gn_sample(&s, PH_SHAPE(2), false);
        ph_module *graphed =
            gn_graph_one(plain, x, &(ph_graphed_options){.inputs = (ph_graphed_inputs)inputs});
        ph_tensor *first = ph_sum(s.tape, ph_call(s.tape, graphed, t_input(&s, 1, 2)));
        (void)ph_call(s.tape, graphed, t_input(&s, 5, 7));
        ph_backward(s.tape, first);
        if (ph_tape_status(s.tape) == PH_OK)
            t_expect_grad(&s, scale.weight, 1, 2);
        else
            t_expect_failure(&s, PH_ERROR_OVERWRITTEN, "scale");
        assert_ok(ph_tape_clear(s.tape));
        ph_tensor_release(x);
        ph_module_release(plain);
        ph_module_release(graphed);
        t_scene_close(&s);
    }
}

/* ---- memory that callables share ---- of one set, and of two sets in one pool: right or
 * refused. */
static void share(bool one_call)
{
    t_scene s;
    ph_pool *pool;
    t_scene_open(&s);
    assert_ok(ph_pool_create(&pool, s.device, NULL));
    const ph_graphed_options options = {.pool = pool};
    ph_module *plain[2] = {gn_net(&s, GN_MLP, 1), gn_net(&s, GN_NORM, 2)}, *graphed[2];
    ph_tensor *x = gn_sample(&s, gn_shape(GN_MLP), true),
              *in = gn_sample(&s, gn_shape(GN_MLP), true);
    const ph_sample samples[2] = {{.tensors = &x, .count = 1}, {.tensors = &x, .count = 1}};
    if (one_call)
        assert_ok(ph_make_graphed_callables(graphed, plain, samples, 2, &options));
    for (int i = 0; i < 2 && !one_call; i++)
        graphed[i] = gn_graph_one(plain[i], x, &options);
    for (int round = 0; round < 4; round++) {
        int i = round % 2;
        ph_tensor *want =
            ph_slice(s.tape, ph_select(s.tape, ph_call(s.tape, plain[i], in), 0, 0), 0, 0, 8);
        want = ph_tensor_retain(ph_clone(s.tape, ph_detach(s.tape, want)));
        ph_tensor *loss = ph_sum(s.tape, ph_square(s.tape, ph_call(s.tape, plain[i], in))), *grad,
                  *got;
        ph_grad(s.tape, &grad, &in, 1, &loss, NULL, 1, NULL);
        ph_tensor_retain(grad);
        assert_ok(ph_tape_clear(s.tape));

        ph_tensor *y = ph_call(s.tape, graphed[i], in);
        ph_tensor *part = ph_tensor_retain(ph_slice(s.tape, ph_select(s.tape, y, 0, 0), 0, 0, 8));
        loss = ph_sum(s.tape, ph_square(s.tape, y));
        ph_tensor *other = ph_sum(s.tape, ph_call(s.tape, graphed[1 - i], in));
        if (round >= 2)
            ph_backward(s.tape, other);
        assert_ok(ph_tape_status(s.tape));
        ph_grad(s.tape, &got, &in, 1, &loss, NULL, 1, NULL);
        if (ph_tape_status(s.tape) == PH_OK)
            gn_expect_same(&s, got, grad, "backward behind another callable's call");
        else
            t_expect_failure(&s, PH_ERROR_OVERWRITTEN, ph_module_name(plain[i]));
        (void)right_or_overwritten(&s, part, want);
        assert_ok(ph_tape_clear(s.tape));
        assert_ok(ph_tensor_set_grad(in, NULL));
        ph_module_zero_grad(plain[1 - i]);
        ph_tensor_release(part);
        ph_tensor_release(grad);
        ph_tensor_release(want);
    }
    ph_tensor_release(x);
    ph_tensor_release(in);
    for (int i = 0; i < 2; i++) {
        ph_module_release(plain[i]);
        ph_module_release(graphed[i]);
    }
    ph_pool_release(pool);
    t_scene_close(&s);
}

TEST(callables_of_one_pool_give_right_results_or_refuse)
{
    share(true);
    share(false);
}

/* ---- gradients ---- borrowed ones, and that the others are nobody's but the caller's. */
TEST(a_borrowed_gradient_is_refused_after_the_next_backward)
{
    bench b;
    float values[2];
    bench_open(&b, "squash", &(ph_graphed_options){.gradients = PH_GRAPHED_BORROW});
    ph_backward(b.s.tape, ph_sum(b.s.tape, call(&b, 1, 2)));
    ph_tensor *grad = ph_tensor_retain(ph_tensor_grad(b.weight));
    assert_ok(ph_tape_clear(b.s.tape));
    ph_tensor *copy = ph_tensor_retain(ph_clone(b.s.tape, grad));
    t_zero_grad(b.weight);
    ph_backward(b.s.tape, ph_sum(b.s.tape, ph_call(b.s.tape, b.plain, t_input(&b.s, 1, 2))));
    gn_expect_same(&b.s, copy, ph_tensor_grad(b.weight), "a borrowed gradient");
    t_zero_grad(b.weight);
    /* A forward alone leaves it. */
    ph_tensor *loss = ph_sum(b.s.tape, call(&b, 3, 4));
    gn_expect_same(&b.s, grad, copy, "a borrowed gradient behind another forward");
    ph_backward(b.s.tape, loss);
    assert_ok(ph_tape_status(b.s.tape));
    assert_error(ph_tensor_read(b.s.tape, grad, values, sizeof values), PH_ERROR_OVERWRITTEN,
                 "squash");
    expect_overwritten(&b, 1, 2);
    gn_expect_same(&b.s, copy, copy, "a clone of it");
    ph_tensor_release(copy);
    ph_tensor_release(grad);
    t_zero_grad(b.weight);
    bench_close(&b);
}

TEST(test_not_borrowed)
{
    for (int gradients = PH_GRAPHED_COPY; gradients <= PH_GRAPHED_ACCUMULATE; gradients++) {
        bench b;
        bench_open(&b, "squash",
                   &(ph_graphed_options){.gradients = (ph_graphed_gradients)gradients});
        ph_tensor *in[3], *grad[3], *want[3];
        for (int i = 0; i < 3; i++) {
            in[i] = t_leaf(&b.s, PH_SHAPE(2), (float)i, 1);
            ph_tensor *loss = ph_sum(b.s.tape, ph_call(b.s.tape, b.plain, in[i]));
            ph_grad(b.s.tape, &want[i], &in[i], 1, &loss, NULL, 1, NULL);
            ph_tensor_retain(want[i]);
            ph_backward(b.s.tape, ph_sum(b.s.tape, ph_call(b.s.tape, b.graphed, in[i])));
            grad[i] = ph_tensor_retain(ph_tensor_grad(in[i]));
            ph_tensor *got;
            loss = ph_sum(b.s.tape, ph_call(b.s.tape, b.graphed, in[i]));
            ph_grad(b.s.tape, &got, &in[i], 1, &loss, NULL, 1, NULL);
            gn_expect_same(&b.s, got, want[i], "a gradient of ph_grad");
            assert_ok(ph_tape_clear(b.s.tape));
        }
        for (int i = 0; i < 3; i++) {
            gn_expect_same(&b.s, grad[i], want[i], "an older gradient");
            ph_tensor *const made[] = {in[i], grad[i], want[i]};
            for (int k = 0; k < 3; k++)
                ph_tensor_release(made[k]);
        }
        t_zero_grad(b.weight);
        bench_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_of_an_older_call_are_refused_to_every_reader),
        cmocka_unit_test(the_newest_output_is_right_after_any_number_of_calls),
        cmocka_unit_test(a_backward_of_an_overwritten_call_is_refused),
        cmocka_unit_test(test_input_alone),
        cmocka_unit_test(callables_of_one_pool_give_right_results_or_refuse),
        cmocka_unit_test(a_borrowed_gradient_is_refused_after_the_next_backward),
        cmocka_unit_test(test_not_borrowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
