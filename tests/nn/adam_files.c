/* SPDX-License-Identifier: MIT */
/* tests/nn/adam_files.c: the state of Adam and AdamW in files: saved, loaded, also under a
 * graph, and what is refused. */
#include "support/optimizer_check.h"
#include "support/test.h"
#include <stdio.h>
#include <unistd.h>

static void path_of(char path[64], const char *name)
{
    (void)snprintf(path, 64, "/tmp/ph_adam_%ld_%s", (long)getpid(), name);
}

/* Saved after some steps and loaded into another optimizer, of either form, both go on alike. A
 * parameter that has made no step has none there. */
TEST(a_loaded_state_goes_on_alike_in_either_form)
{
    for (unsigned number = 0; number < OC_ADAM_RULES; number += 5) {
        oc_problem a, b;
        char path[64];
        uint64_t steps;
        oc_rule rule = oc_adam_rule(number), other = oc_adam_rule(number ^ OC_ADAM_ON_HOST);
        oc_open(&a, oc_adam_dtype(number), NULL, 0, 50);
        oc_open(&b, oc_adam_dtype(number), NULL, 0, 50);
        ph_optimizer *x = oc_create(&rule, a.module), *y = oc_create(&other, b.module);
        for (int i = 0; i < 3; i++) {
            oc_gradients(&a, UINT64_MAX - 1);
            oc_gradients(&b, UINT64_MAX - 1);
            assert_ok(oc_step(&a, x));
        }
        path_of(path, "parameters");
        assert_ok(ph_module_save(a.module, path));
        assert_ok(ph_module_load(b.module, path, true));
        assert_ok(ph_optimizer_save(x, path));
        assert_ok(ph_optimizer_load(y, path));
        assert_ok(unlink(path) == 0 ? PH_OK : PH_ERROR_IO);
        assert_ok(ph_optimizer_steps(&steps, b.scene.tape, y));
        assert_int_equal(steps, 3);
        for (size_t i = 1; i < a.count; i++)
            a.param[i].own.steps = 3;
        for (int i = 0; i < 3; i++) {
            oc_gradients(&a, UINT64_MAX);
            oc_gradients(&b, UINT64_MAX);
            assert_ok(oc_step(&a, x));
            assert_ok(oc_step(&b, y));
            if (t_on_host())
                oc_equal(&a, &b, "loaded");
        }
        ph_optimizer_destroy(x);
        ph_optimizer_destroy(y);
        oc_close(&a);
        oc_close(&b);
    }
}

/* A capture made before the load sees what was loaded. */
TEST(test_load_under_a_graph)
{
    oc_problem a, b;
    char path[64];
    oc_rule rule = oc_adam_rule(1);
    oc_open(&a, PH_DTYPE_F32, NULL, 0, 60);
    oc_open(&b, PH_DTYPE_F32, NULL, 0, 60);
    ph_optimizer *x = oc_create(&rule, a.module), *y = oc_create(&rule, b.module);
    oc_gradients(&a, UINT64_MAX);
    oc_gradients(&b, UINT64_MAX);
    assert_ok(oc_step(&a, x));
    assert_ok(oc_step(&b, y));
    ph_graph *graph = oc_capture_step(&b, y);
    for (int i = 0; i < 2; i++) {
        oc_gradients(&a, UINT64_MAX);
        oc_gradients(&b, UINT64_MAX);
        assert_ok(oc_step(&a, x));
    }
    path_of(path, "state");
    assert_ok(ph_module_save(a.module, path));
    assert_ok(ph_module_load(b.module, path, true));
    assert_ok(ph_optimizer_save(x, path));
    assert_ok(ph_optimizer_load(y, path));
    oc_gradients(&a, UINT64_MAX);
    oc_gradients(&b, UINT64_MAX);
    assert_ok(oc_step(&a, x));
    assert_ok(ph_graph_replay(graph, b.scene.stream));
    oc_equal(&a, &b, "loaded under a graph");
    (void)unlink(path);
    ph_graph_destroy(graph);
    ph_optimizer_destroy(x);
    ph_optimizer_destroy(y);
    oc_close(&a);
    oc_close(&b);
}

TEST(test_bad_files)
{
    oc_problem a, b;
    char path[64];
    ph_shape shapes[] = {{1, {7}}, {1, {5}}}, others[] = {{1, {7}}, {1, {6}}, {1, {2}}};
    oc_rule rule = oc_adam_rule(1), sgd = {.kind = OC_SGD, .momentum = 0.9};
    oc_open(&a, PH_DTYPE_F32, shapes, 2, 60);
    oc_open(&b, PH_DTYPE_F32, others, 3, 60);
    ph_optimizer *x = oc_create(&rule, a.module), *y = oc_create(&rule, b.module),
                 *z = oc_create(&sgd, a.module);
    oc_gradients(&a, UINT64_MAX);
    oc_gradients(&b, UINT64_MAX);
    assert_ok(oc_step(&a, x));
    path_of(path, "state");
    assert_ok(ph_optimizer_save(x, path));
    assert_error(
        ph_optimizer_load(y, path), PH_ERROR_MISMATCH,
        "p1.exp_avg is f32[5] and must be f32[6], p1.exp_avg_sq is f32[5] and must be f32[6], "
        "p2.exp_avg is missing");
    assert_error(ph_optimizer_load(z, path), PH_ERROR_MISMATCH, "p0.momentum_buffer is missing");
    assert_error(ph_optimizer_load(z, path), PH_ERROR_MISMATCH, "p1.step is unexpected");
    assert_error(ph_optimizer_load(z, path), PH_ERROR_MISMATCH,
                 "of the same module, kind and options (momentum, amsgrad, centered)");
    assert_error(ph_optimizer_load(x, "/nonexistent/file"), PH_ERROR_IO, "");
    assert_error(ph_optimizer_save(x, "/nonexistent/file"), PH_ERROR_IO, "");
    assert_error(ph_optimizer_load(NULL, path), PH_ERROR_ARGUMENT, "optimizer");
    assert_error(ph_optimizer_load(x, NULL), PH_ERROR_ARGUMENT, "path");
    assert_error(ph_optimizer_save(NULL, path), PH_ERROR_ARGUMENT, "optimizer");
    assert_error(ph_optimizer_save(x, NULL), PH_ERROR_ARGUMENT, "path");
    /* Nothing was loaded: the first step of y is a first step. */
    assert_ok(oc_step(&b, y));
    oc_reference(&b, &rule);
    oc_compare(&b, 1e-5, "after refused files");
    (void)unlink(path);
    ph_optimizer_destroy(x);
    ph_optimizer_destroy(y);
    ph_optimizer_destroy(z);
    oc_close(&a);
    oc_close(&b);
}

/* The largest second moments are missing in a file without them, and unexpected where nobody
 * keeps them; either way nothing is loaded. */
TEST(test_amsgrad_files)
{
    for (int has = 0; has < 2; has++) {
        oc_problem a, b;
        char path[64];
        ph_shape shapes[] = {{1, {7}}, {1, {5}}};
        oc_rule with = oc_adam_rule(1), other = oc_adam_rule(1);
        with.amsgrad = has;
        other.amsgrad = !has;
        oc_open(&a, PH_DTYPE_F32, shapes, 2, 60);
        oc_open(&b, PH_DTYPE_F32, shapes, 2, 61);
        ph_optimizer *x = oc_create(&with, a.module), *y = oc_create(&other, b.module);
        oc_gradients(&a, UINT64_MAX);
        assert_ok(oc_step(&a, x));
        path_of(path, "amsgrad");
        assert_ok(ph_optimizer_save(x, path));
        for (int i = 0; i < 2; i++) {
            char part[64];
            (void)snprintf(part, sizeof part, "p%d.max_exp_avg_sq is %s", i,
                           has ? "unexpected" : "missing");
            assert_error(ph_optimizer_load(y, path), PH_ERROR_MISMATCH, part);
        }
        /* The first step of y is a first step still. */
        for (int i = 0; i < 3; i++) {
            oc_gradients(&b, UINT64_MAX);
            assert_ok(oc_step(&b, y));
            oc_reference(&b, &other);
            oc_compare(&b, 1e-5, "after a refused file");
        }
        (void)unlink(path);
        ph_optimizer_destroy(x);
        ph_optimizer_destroy(y);
        oc_close(&a);
        oc_close(&b);
    }
}

/* Steps that are no number of steps, and half of a parameter's state. */
TEST(test_hostile_counts)
{
    oc_problem p;
    char path[64];
    ph_shape shapes[] = {{1, {2}}};
    oc_rule rule = oc_adam_rule(1);
    oc_open(&p, PH_DTYPE_F32, shapes, 1, 60);
    ph_tape *tape = p.scene.tape;
    ph_optimizer *x = oc_create(&rule, p.module);
    ph_tensor *two = ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(2)),
              *none = ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(0));
    ph_tensor *minus = ph_full(tape, PH_DTYPE_I64, PH_SCALAR, -1),
              *one = ph_full(tape, PH_DTYPE_I64, PH_SCALAR, 1);
    ph_named_tensor all[] = {
        {"steps", one}, {"p0.exp_avg", two}, {"p0.exp_avg_sq", two}, {"p0.step", one}};
    path_of(path, "hostile");
    assert_ok(ph_safetensors_write(tape, path, all, 4));
    assert_ok(ph_optimizer_load(x, path));
    all[3].tensor = minus;
    assert_ok(ph_safetensors_write(tape, path, all, 4));
    assert_error(ph_optimizer_load(x, path), PH_ERROR_ARGUMENT, "p0.step is -1");
    all[3].tensor = one;
    all[0].tensor = minus;
    assert_ok(ph_safetensors_write(tape, path, all, 4));
    assert_error(ph_optimizer_load(x, path), PH_ERROR_ARGUMENT, "steps is -1");
    all[0].tensor = one;
    all[2].tensor = none;
    assert_ok(ph_safetensors_write(tape, path, all, 4));
    assert_error(ph_optimizer_load(x, path), PH_ERROR_MISMATCH,
                 "p0 has exp_avg but not exp_avg_sq");
    all[0].tensor = two;
    assert_ok(ph_safetensors_write(tape, path, all, 4));
    assert_error(ph_optimizer_load(x, path), PH_ERROR_MISMATCH,
                 "steps is f32[2] and must be i64[]");
    ph_optimizer_destroy(x);

    rule.amsgrad = true;
    x = oc_create(&rule, p.module);
    ph_named_tensor more[] = {{"steps", one},
                              {"p0.exp_avg", two},
                              {"p0.exp_avg_sq", two},
                              {"p0.max_exp_avg_sq", none},
                              {"p0.step", one}};
    assert_ok(ph_safetensors_write(tape, path, more, 5));
    assert_error(ph_optimizer_load(x, path), PH_ERROR_MISMATCH,
                 "p0 has exp_avg but not max_exp_avg_sq");
    more[1].tensor = more[2].tensor = none;
    more[3].tensor = two;
    assert_ok(ph_safetensors_write(tape, path, more, 5));
    assert_error(ph_optimizer_load(x, path), PH_ERROR_MISMATCH,
                 "p0 has max_exp_avg_sq but not exp_avg");
    (void)unlink(path);
    ph_optimizer_destroy(x);
    oc_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loaded_state_goes_on_alike_in_either_form),
        cmocka_unit_test(test_load_under_a_graph),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_amsgrad_files),
        cmocka_unit_test(test_hostile_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
