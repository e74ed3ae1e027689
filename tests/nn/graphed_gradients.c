/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_gradients.c: how gradients leave graphed callables, in each of the three
 * ways: leaves that have one, have hooks, come in twice, or are used beside the callable;
 * dtypes; more tensors than one launch takes; outputs that take no part; empty tensors. */
#include "support/graphed_nets.h"
#include "support/test.h"
#include <stdio.h>

enum {
    GRADIENTS = 3
};

static ph_graphed_options way(int gradients)
{
    return (ph_graphed_options){.gradients = (ph_graphed_gradients)gradients};
}

typedef struct bench {
    t_scene s;
    t_scale scale;
    ph_tensor *x;
    ph_module *plain, *graphed;
} bench;

static void bench_open(bench *b, int gradients)
{
    const ph_graphed_options options = way(gradients);
    t_scene_open(&b->s);
    b->plain = t_scale_open(&b->s, &b->scale, 3); /* weight: 3, 6 */
    b->x = gn_sample(&b->s, PH_SHAPE(2), true);
    b->graphed = gn_graph_one(b->plain, b->x, &options);
}

static void bench_close(bench *b)
{
    ph_tensor_release(b->x);
    ph_module_release(b->graphed);
    ph_module_release(b->plain);
    t_scene_close(&b->s);
}

/* ---- leaves that more than one path leads to ---- */
TEST(test_two_paths)
{
    for (int gradients = 0; gradients < GRADIENTS; gradients++) {
        bench b;
        bench_open(&b, gradients);
        ph_tape *tape = b.s.tape;
        ph_tensor *w = b.scale.weight, *in = t_leaf(&b.s, PH_SHAPE(2), 5, 7);
        for (int i = 1; i <= 2; i++) {
            /* x w + w w + x: used before and behind the callable too. */
            ph_tensor *squares = ph_mul(tape, w, w), *y = ph_call(tape, b.graphed, in);
            ph_backward(tape, ph_sum(tape, ph_add(tape, ph_add(tape, y, squares), in)));
            if (i > 1 && ph_tape_status(tape) != PH_OK) {
                assert_int_equal(gradients, PH_GRAPHED_BORROW);
                t_expect_failure(&b.s, PH_ERROR_OVERWRITTEN, "");
                break;
            }
            t_expect_grad(&b.s, w, (float)(i * 11), (float)(i * 19));
            t_expect_grad(&b.s, in, (float)(i * 4), (float)(i * 7));
            assert_ok(ph_tape_clear(tape));
        }
        ph_tensor_release(in);
        bench_close(&b);
    }
}

/* The same leaf as two inputs; a parameter as an input: y = a * b * weight. */
static void three_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const t_scale *scale = self;
    out[0] = ph_mul(tape, ph_mul(tape, in[0], in[1]), scale->weight);
}

TEST(test_same_leaf)
{
    for (int gradients = 0; gradients < GRADIENTS; gradients++) {
        t_scene s;
        t_scene_open(&s);
        const ph_graphed_options options = way(gradients);
        t_scale scale = {.weight = t_leaf(&s, PH_SHAPE(2), 3, 6)};
        const ph_parameter parameter = {"weight", &scale.weight};
        ph_module *plain;
        const ph_module_desc desc = {.name = "three",
                                     .forward = three_forward,
                                     .self = &scale,
                                     .in_count = 2,
                                     .parameters = &parameter,
                                     .parameter_count = 1};
        assert_ok(ph_module_create(&plain, s.device, &desc));
        ph_tensor *sample[2] = {gn_sample(&s, PH_SHAPE(2), true), gn_sample(&s, PH_SHAPE(2), true)},
                  *y;
        ph_module *graphed = gn_graph(plain, sample, 2, &options);
        ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 2, 5);
        for (int i = 1; i <= 2; i++) { /* without a gradient, then with one */
            ph_call_n(s.tape, graphed, &y, 1, (ph_tensor *[]){x, x}, 2);
            t_expect_values(s.tape, y, PH_SHAPE(2), 12, 150);
            ph_backward(s.tape, ph_sum(s.tape, y));
            if (i > 1 && gradients == PH_GRAPHED_BORROW && ph_tape_status(s.tape) != PH_OK) {
                t_expect_failure(&s, PH_ERROR_OVERWRITTEN, "");
                break;
            }
            t_expect_grad(&s, x, (float)(i * 12), (float)(i * 60));
            t_expect_grad(&s, scale.weight, (float)(i * 4), (float)(i * 25));
            assert_ok(ph_tape_clear(s.tape));
        }
        t_zero_grad(scale.weight);
        t_zero_grad(x);
        ph_call_n(s.tape, graphed, &y, 1, (ph_tensor *[]){x, scale.weight}, 2);
        ph_backward(s.tape, ph_sum(s.tape, y));
        t_expect_grad(&s, x, 9, 36);
        t_expect_grad(&s, scale.weight, 12, 60);
        assert_ok(ph_tape_clear(s.tape));
        ph_tensor *const made[] = {x, scale.weight, sample[0], sample[1]};
        for (int i = 0; i < 4; i++)
            ph_tensor_release(made[i]);
        ph_module_release(graphed);
        ph_module_release(plain);
        t_scene_close(&s);
    }
}

/* ---- hooks on leaves, added later ---- they see the gradient of the pass alone, and what they
 * make of it counts. */
typedef struct watch {
    float seen[2];
    int runs;
} watch;

static ph_tensor *double_it(ph_tape *tape, ph_tensor *grad, void *user)
{
    watch *w = user;
    w->runs++;
    assert_ok(ph_tensor_read(tape, grad, w->seen, sizeof w->seen));
    return ph_mul_scalar(tape, grad, 2);
}

TEST(a_hook_on_a_parameter_sees_each_calls_gradient)
{
    for (int gradients = 0; gradients < GRADIENTS; gradients++) {
        bench b;
        watch w = {.runs = 0};
        ph_tensor_hook *hook;
        bench_open(&b, gradients);
        assert_ok(ph_tensor_hook_add(&hook, b.scale.weight, double_it, &w));
        for (int i = 1; i <= 3; i++) {
            ph_tensor *in = t_input(&b.s, (float)i, 7);
            ph_backward(b.s.tape, ph_sum(b.s.tape, ph_call(b.s.tape, b.graphed, in)));
            assert_ok(ph_tape_status(b.s.tape));
            assert_int_equal(w.runs, i);
            assert_memory_equal(w.seen, ((float[]){(float)i, 7}), sizeof w.seen);
            t_expect_grad(&b.s, b.scale.weight, (float)(i * (i + 1)), (float)(i * 14));
            assert_ok(ph_tape_clear(b.s.tape));
        }
        ph_tensor_hook_remove(hook);
        bench_close(&b);
    }
}

/* ---- gradients that are there already ---- not contiguous, or the user's own; they are added
 * to. */
TEST(test_own_gradient)
{
    for (int gradients = 0; gradients < GRADIENTS; gradients++) {
        bench b;
        bench_open(&b, gradients);
        for (int strided = 0; strided < 2; strided++) {
            ph_tensor *wide = ph_from_memory(b.s.tape, PH_DTYPE_F32, PH_SHAPE(4),
                                             (const float[]){100, 1, 200, 2});
            ph_tensor *own = strided ? ph_slice_step(b.s.tape, wide, 0, 0, 4, 2)
                                     : ph_slice(b.s.tape, wide, 0, 1, 3);
            assert_ok(ph_tensor_set_grad(b.scale.weight, own));
            ph_backward(b.s.tape,
                        ph_sum(b.s.tape, ph_call(b.s.tape, b.graphed, t_input(&b.s, 5, 7))));
            if (strided)
                t_expect_values(b.s.tape, wide, PH_SHAPE(4), 105, 1, 207, 2);
            else
                t_expect_values(b.s.tape, wide, PH_SHAPE(4), 100, 6, 207, 2);
            assert_ptr_equal(ph_tensor_grad(b.scale.weight), own);
            t_zero_grad(b.scale.weight);
            assert_ok(ph_tape_clear(b.s.tape));
        }
        bench_close(&b);
    }
}

/* Its version counts what is added: who saved it before will see that. */
TEST(an_accumulated_gradient_counts_its_version)
{
    for (int gradients = 0; gradients <= PH_GRAPHED_ACCUMULATE; gradients++) {
        bench b;
        bench_open(&b, gradients);
        ph_backward(b.s.tape, ph_sum(b.s.tape, ph_call(b.s.tape, b.graphed, t_input(&b.s, 5, 7))));
        ph_tensor *grad = ph_tensor_grad(b.scale.weight);
        uint64_t version = ph_tensor_version(grad);
        ph_backward(b.s.tape, ph_sum(b.s.tape, ph_call(b.s.tape, b.graphed, t_input(&b.s, 1, 1))));
        t_expect_grad(&b.s, b.scale.weight, 6, 8);
        assert_ptr_equal(ph_tensor_grad(b.scale.weight), grad);
        assert_true(ph_tensor_version(grad) > version);
        assert_ok(ph_tape_clear(b.s.tape));
        bench_close(&b);
    }
}

/* ---- dtypes ---- three passes, summed up, are the bits of the module's own. */
static ph_tensor *random_of(const t_scene *s, ph_dtype dtype, uint64_t seed)
{
    return ph_cast(s->tape, gn_random(s, PH_SHAPE(5, 8), seed), dtype);
}

TEST(gradients_in_every_dtype_match_those_of_the_module)
{
    static const ph_dtype dtypes[] = {PH_DTYPE_F32, PH_DTYPE_F64, PH_DTYPE_F16, PH_DTYPE_BF16};
    for (int gradients = 0; gradients <= PH_GRAPHED_ACCUMULATE; gradients++)
        for (int d = 0; d < 4; d++) {
            t_scene s;
            t_scene_open(&s);
            ph_generator *draws = NULL;
            ph_module *net[2];
            const ph_graphed_options options = way(gradients);
            for (int i = 0; i < 2; i++) {
                assert_ok(ph_generator_create(&draws, s.device, 3));
                const ph_layer_options layer = {.dtype = dtypes[d], .generator = draws};
                assert_ok(ph_linear_create_with(&net[i], s.device, 8, 9, &layer));
                ph_generator_release(draws);
            }
            ph_tensor *x = ph_tensor_retain(random_of(&s, dtypes[d], 1));
            ph_module *graphed = gn_graph_one(net[0], x, &options);
            for (uint64_t i = 0; i < 3; i++) {
                ph_backward(s.tape,
                            ph_sum(s.tape, ph_call(s.tape, graphed, random_of(&s, dtypes[d], i))));
                ph_backward(s.tape,
                            ph_sum(s.tape, ph_call(s.tape, net[1], random_of(&s, dtypes[d], i))));
                gn_expect_same_parameters(&s, graphed, net[1], ph_dtype_name(dtypes[d]));
                assert_ok(ph_tape_clear(s.tape));
            }
            ph_tensor_release(x);
            ph_module_release(graphed);
            ph_module_release(net[0]);
            ph_module_release(net[1]);
            t_scene_close(&s);
        }
}

/* ---- many tensors ---- more inputs and parameters than one bundle takes: y = sum of in[i] *
 * weight[i]. */
enum {
    MANY = 130
};
typedef struct many {
    ph_tensor *weight[MANY];
} many;

static void many_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const many *me = self;
    ph_tensor *product[MANY];
    for (int i = 0; i < MANY; i++)
        product[i] = ph_mul(tape, in[i], me->weight[i]);
    out[0] = ph_sum_over(tape, ph_stack(tape, product, MANY, 0), PH_AXES(0), false);
}

static ph_module *many_make(const t_scene *s, many *me)
{
    static char names[MANY][16];
    ph_parameter parameters[MANY];
    ph_module *module;
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof names[i], "w%d", i);
        me->weight[i] = t_leaf(s, PH_SHAPE(2), (float)i, 1);
        parameters[i] = (ph_parameter){names[i], &me->weight[i]};
    }
    const ph_module_desc desc = {.name = "many",
                                 .forward = many_forward,
                                 .self = me,
                                 .in_count = MANY,
                                 .parameters = parameters,
                                 .parameter_count = MANY};
    assert_ok(ph_module_create(&module, s->device, &desc));
    return module;
}

static void try_many(int gradients, ph_graphed_inputs inputs)
{
    t_scene s;
    many me;
    ph_tensor *in[MANY], *y;
    t_scene_open(&s);
    ph_module *plain = many_make(&s, &me);
    for (int i = 0; i < MANY; i++)
        in[i] = t_leaf(&s, PH_SHAPE(2), 2, (float)i);
    const ph_graphed_options options = {.gradients = (ph_graphed_gradients)gradients,
                                        .inputs = inputs};
    ph_module *graphed = gn_graph(plain, in, MANY, &options);
    int passes = gradients == PH_GRAPHED_BORROW ? 1 : 2;
    for (int pass = 1; pass <= passes; pass++) {
        ph_call_n(s.tape, graphed, &y, 1, in, MANY);
        t_expect_values(s.tape, y, PH_SHAPE(2), MANY * (MANY - 1), MANY * (MANY - 1) / 2);
        ph_backward(s.tape, ph_sum(s.tape, y));
        assert_ok(ph_tape_status(s.tape));
        for (int i = 0; i < MANY; i++) {
            t_expect_grad(&s, in[i], (float)(pass * i), (float)pass);
            t_expect_grad(&s, me.weight[i], (float)(pass * 2), (float)(pass * i));
        }
        assert_ok(ph_tape_clear(s.tape));
    }
    for (int i = 0; i < MANY; i++) {
        ph_tensor_release(in[i]);
        ph_tensor_release(me.weight[i]);
    }
    ph_module_release(graphed);
    ph_module_release(plain);
    t_scene_close(&s);
}

TEST(many_inputs_and_parameters_have_their_own_gradients)
{
    for (int gradients = 0; gradients < GRADIENTS; gradients++)
        for (int inputs = PH_GRAPHED_AUTO; inputs <= PH_GRAPHED_COPY_INPUTS; inputs++)
            try_many(gradients, (ph_graphed_inputs)inputs);
}

/* ---- outputs that take no part, and empty ones ---- */
static void split_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const t_scale *scale = self;
    out[0] = ph_mul(tape, in[0], scale->weight);
    out[1] = ph_mul_scalar(tape, in[0], 10);
    out[2] = ph_gt(tape, in[0], scale->weight); /* no gradient */
    out[3] = ph_slice(tape, out[0], 0, 1, 1);   /* empty */
}

TEST(gradients_come_through_any_of_several_outputs)
{
    for (int gradients = 0; gradients < GRADIENTS; gradients++) {
        t_scene s;
        t_scene_open(&s);
        const ph_graphed_options options = way(gradients);
        t_scale scale = {.weight = t_leaf(&s, PH_SHAPE(2), 3, 6)};
        const ph_parameter parameter = {"weight", &scale.weight};
        ph_module *plain;
        const ph_module_desc desc = {.name = "split",
                                     .forward = split_forward,
                                     .self = &scale,
                                     .out_count = 4,
                                     .parameters = &parameter,
                                     .parameter_count = 1};
        assert_ok(ph_module_create(&plain, s.device, &desc));
        ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 5, 2), *out[4];
        ph_module *graphed = gn_graph_one(plain, x, &options);
        static const float want[4][2] = {{3, 6}, {10, 10}, {13, 16}, {0, 0}};
        for (int used = 1; used <= 4; used++) { /* bits: which outputs; 4: the empty one */
            bool flags[2];
            ph_call_n(s.tape, graphed, out, 4, &x, 1);
            assert_ok(ph_tensor_read(s.tape, out[2], flags, sizeof flags));
            assert_true(flags[0] && !flags[1]);
            assert_false(ph_tensor_requires_grad(out[2]));
            assert_int_equal(ph_tensor_count(out[3]), 0);
            ph_tensor *loss = ph_sum(s.tape, out[used == 4 ? 3 : used == 2 ? 1 : 0]);
            if (used == 3)
                loss = ph_add(s.tape, loss, ph_sum(s.tape, out[1]));
            ph_backward(s.tape, loss);
            t_expect_grad(&s, x, want[used - 1][0], want[used - 1][1]);
            assert_ok(ph_tape_clear(s.tape));
            t_zero_grad(x);
            t_zero_grad(scale.weight);
        }
        ph_tensor_release(x);
        ph_tensor_release(scale.weight);
        ph_module_release(graphed);
        ph_module_release(plain);
        t_scene_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_paths),
        cmocka_unit_test(test_same_leaf),
        cmocka_unit_test(a_hook_on_a_parameter_sees_each_calls_gradient),
        cmocka_unit_test(test_own_gradient),
        cmocka_unit_test(an_accumulated_gradient_counts_its_version),
        cmocka_unit_test(gradients_in_every_dtype_match_those_of_the_module),
        cmocka_unit_test(many_inputs_and_parameters_have_their_own_gradients),
        cmocka_unit_test(gradients_come_through_any_of_several_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
