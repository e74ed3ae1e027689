/* SPDX-License-Identifier: MIT */
/* tests/nn/no_inputs.c: modules that take no inputs (PH_MODULE_NO_INPUTS): a table of positions,
 * noise; calling, hooks, misuse, and as graphed callables. */
#include "support/graphed_nets.h"
#include "support/test.h"

/* Twice the table, and its square. */
static void table_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const t_scale *table = self;
    (void)in;
    out[0] = ph_mul_scalar(tape, table->weight, 2);
    out[1] = ph_mul(tape, table->weight, table->weight);
}

static ph_module *table_open(const t_scene *s, t_scale *table)
{
    ph_module *module;
    *table = (t_scale){.weight = t_leaf(s, PH_SHAPE(2), 3, 5)};
    const ph_parameter parameter = {"weight", &table->weight};
    const ph_module_desc desc = {.name = "table",
                                 .forward = table_forward,
                                 .self = table,
                                 .in_count = PH_MODULE_NO_INPUTS,
                                 .out_count = 2,
                                 .parameters = &parameter,
                                 .parameter_count = 1};
    assert_ok(ph_module_create(&module, s->device, &desc));
    ph_tensor_release(table->weight); /* the module has it */
    return module;
}

/* ---- modules ---- */
TEST(a_module_without_inputs_is_called_with_none)
{
    t_scene s;
    t_scale table;
    ph_tensor *out[2], *x;
    t_scene_open(&s);
    ph_module *module = table_open(&s, &table);
    for (int i = 0; i < 2; i++) {
        x = t_input(&s, 1, 2);
        ph_call_n(s.tape, module, out, 2, i ? &x : NULL, 0);
        t_expect_values(s.tape, out[0], PH_SHAPE(2), 6, 10);
        ph_backward(s.tape, ph_sum(s.tape, ph_add(s.tape, out[0], out[1])));
        t_expect_grad(&s, table.weight, 8, 12);
        ph_module_zero_grad(module);
        assert_ok(ph_tape_clear(s.tape));
    }
    x = t_input(&s, 1, 2);
    ph_call_n(s.tape, module, out, 2, &x, 1);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "module table: takes 0 inputs and gives 2 outputs");
    ph_call_n(s.tape, module, out, 2, NULL, 1);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "in is NULL");
    ph_call_n(s.tape, module, NULL, 2, NULL, 0);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "out is NULL");
    assert_null(ph_call(s.tape, module, NULL));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "called with 1 and 1; ph_call_n takes any number");
    ph_module_release(module);
    t_scene_close(&s);
}

/* 0 means one still. */
TEST(test_zero_is_one)
{
    t_scene s;
    t_scale scale;
    ph_tensor *out;
    t_scene_open(&s);
    ph_module *module = t_scale_open(&s, &scale, 3);
    ph_call_n(s.tape, module, &out, 1, NULL, 0);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "takes 1 inputs");
    ph_module_release(module);
    t_scene_close(&s);
}

typedef struct hooked {
    int before, after;
    ph_tensor *instead;
} hooked;

static void look_before(ph_tape *tape, ph_module *module, ph_tensor **tensors, size_t count,
                        void *user)
{
    (void)tape;
    (void)module;
    (void)tensors;
    assert_int_equal(count, 0);
    ((hooked *)user)->before++;
}

static void look_after(ph_tape *tape, ph_module *module, ph_tensor **tensors, size_t count,
                       void *user)
{
    (void)module;
    assert_int_equal(count, 2);
    tensors[0] = ph_mul_scalar(tape, tensors[0], 10);
    ((hooked *)user)->after++;
}

TEST(hooks_run_for_a_module_without_inputs)
{
    t_scene s;
    t_scale table;
    hooked seen = {.before = 0};
    ph_module_hook *hook[2];
    ph_tensor *out[2];
    t_scene_open(&s);
    ph_module *module = table_open(&s, &table);
    assert_ok(ph_module_hook_add(&hook[0], module, PH_MODULE_HOOK_FORWARD_PRE, look_before, &seen));
    assert_ok(ph_module_hook_add(&hook[1], module, PH_MODULE_HOOK_FORWARD, look_after, &seen));
    ph_call_n(s.tape, module, out, 2, NULL, 0);
    t_expect_values(s.tape, out[0], PH_SHAPE(2), 60, 100);
    assert_int_equal(seen.before, 1);
    assert_int_equal(seen.after, 1);
    ph_module_hook_remove(hook[0]);
    ph_module_hook_remove(hook[1]);
    assert_ok(ph_tape_clear(s.tape));
    ph_module_release(module);
    t_scene_close(&s);
}

/* A sequence hands on one tensor. */
TEST(test_in_a_sequence)
{
    t_scene s;
    t_scale table;
    ph_module *sequence;
    t_scene_open(&s);
    ph_module *module = table_open(&s, &table);
    assert_error(ph_sequential_create(&sequence, &module, 1), PH_ERROR_ARGUMENT, "table");
    assert_null(sequence);
    ph_module_release(module);
    t_scene_close(&s);
}

/* ---- graphed ---- */
static ph_module *graph(ph_module *module, const ph_graphed_options *options)
{
    return gn_graph(module, NULL, 0, options);
}

TEST(a_module_without_inputs_is_graphed)
{
    for (int gradients = PH_GRAPHED_COPY; gradients <= PH_GRAPHED_BORROW; gradients++) {
        t_scene s;
        t_scale table;
        ph_tensor *out[2];
        t_scene_open(&s);
        ph_module *plain = table_open(&s, &table);
        ph_module *graphed =
            graph(plain, &(ph_graphed_options){.gradients = (ph_graphed_gradients)gradients});
        assert_int_equal(gn_info(graphed).input_count, 0);
        for (int i = 0; i < 3; i++) { /* both outputs, and one of them at last */
            float a = (float)(3 + i), b = (float)(5 + i), two = i == 2 ? 0 : 2;
            assert_ok(
                ph_tensor_write(s.tape, table.weight, (const float[]){a, b}, 2 * sizeof(float)));
            ph_call_n(s.tape, graphed, out, 2, NULL, 0);
            t_expect_values(s.tape, out[1], PH_SHAPE(2), a * a, b * b);
            ph_tensor *loss = ph_sum(s.tape, out[0]);
            ph_backward(s.tape, i == 2 ? loss : ph_add(s.tape, loss, ph_sum(s.tape, out[1])));
            t_expect_grad(&s, table.weight, 2 + two * a, 2 + two * b);
            ph_module_zero_grad(graphed);
            assert_ok(ph_tape_clear(s.tape));
        }
        assert_int_equal(gn_info(graphed).forward_calls, 3);
        assert_int_equal(gn_info(graphed).backwards, 2);
        ph_module_release(graphed);
        ph_module_release(plain);
        t_scene_close(&s);
    }
}

TEST(test_graphed_misuse)
{
    t_scene s;
    t_scale table;
    ph_tensor *out[2];
    static const ph_structure none = {.kind = PH_STRUCTURE_LIST};
    t_scene_open(&s);
    ph_module *plain = table_open(&s, &table), *graphed;
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), false);
    const ph_sample one = {.tensors = &x, .count = 1}, structured = {.structure = &none};
    assert_error(ph_make_graphed_callables(&graphed, &plain, &one, 1, NULL), PH_ERROR_ARGUMENT,
                 "(table) takes 0 inputs, and its sample has 1");
    assert_ok(ph_make_graphed_callables(&graphed, &plain, &structured, 1, NULL));
    ph_call_structured(s.tape, graphed, out, 2, NULL, 0, &none, NULL);
    t_expect_values(s.tape, out[0], PH_SHAPE(2), 6, 10);
    assert_ok(ph_tape_clear(s.tape));
    ph_call_n(s.tape, graphed, out, 2, &x, 1);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "takes 0 inputs");
    ph_graphed_input input;
    assert_error(ph_graphed_callable_input(&input, graphed, 0, false), PH_ERROR_NOT_FOUND,
                 "0 inputs");
    ph_tensor_release(x);
    ph_module_release(graphed);
    ph_module_release(plain);
    t_scene_close(&s);
}

/* Neither inputs nor parameters: the draws are anew at each replay, and those of the module. */
static void noise_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)in;
    (void)self;
    out[0] = ph_rand(tape, PH_DTYPE_F32, PH_SHAPE(64));
}

TEST(graphed_noise_draws_from_its_generator)
{
    t_scene s;
    ph_generator *generator;
    ph_tensor *out, *want[2];
    t_scene_open(&s);
    assert_ok(ph_generator_create(&generator, s.device, 5));
    ph_tape_set_generator(s.tape, generator);
    ph_module *plain = gn_function(&s, "noise", noise_forward, NULL, PH_MODULE_NO_INPUTS, 1);
    ph_module *graphed = graph(plain, &(ph_graphed_options){.generator = generator});
    for (int round = 0; round < 2; round++) {
        assert_ok(ph_generator_seed(generator, 9));
        for (int i = 0; i < 2; i++) {
            ph_call_n(s.tape, round ? graphed : plain, &out, 1, NULL, 0);
            assert_ok(ph_tape_status(s.tape));
            if (round == 0)
                want[i] = ph_tensor_retain(out);
            else
                gn_expect_same(&s, out, want[i], "noise");
            assert_ok(ph_tape_clear(s.tape));
        }
    }
    ph_tensor_release(want[0]);
    ph_tensor_release(want[1]);
    ph_tape_set_generator(s.tape, NULL);
    ph_module_release(graphed);
    ph_module_release(plain);
    ph_generator_release(generator);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_module_without_inputs_is_called_with_none),
        cmocka_unit_test(test_zero_is_one),
        cmocka_unit_test(hooks_run_for_a_module_without_inputs),
        cmocka_unit_test(test_in_a_sequence),
        cmocka_unit_test(a_module_without_inputs_is_graphed),
        cmocka_unit_test(test_graphed_misuse),
        cmocka_unit_test(graphed_noise_draws_from_its_generator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
