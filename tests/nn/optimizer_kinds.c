/* SPDX-License-Identifier: MIT */
/* tests/nn/optimizer_kinds.c: RMSprop, NAdam, RAdam, Adamax, Adadelta, Adagrad, ASGD, Rprop and
 * Lion against a float64 reference; eager, captured and replayed; skipped; saved and loaded. */
#include "nn/module/state.h"
#include "nn/optimizer/step.h"
#include "support/files.h"
#include "support/optimizer_check.h"
#include "support/test.h"
#include "tensor/core/guard.h"

enum {
    STEPS = 8
};

static double bound_of(ph_dtype dtype)
{
    return dtype == PH_DTYPE_F32 ? 2e-5 : 1e-12;
}

TEST(steps_of_every_kind_match_the_reference)
{
    for (size_t number = 0; number < 2 * oc_kind_rule_count(); number++) {
        oc_problem p;
        char text[200];
        oc_rule rule = oc_kind_rule(number / 2);
        ph_dtype dtype = number % 2 ? PH_DTYPE_F64 : PH_DTYPE_F32;
        oc_open(&p, dtype, NULL, 0, number + 1);
        ph_optimizer *optimizer = oc_create(&rule, p.module);
        oc_describe(text, &rule);
        for (int i = 0; i < STEPS; i++) {
            /* Each parameter counts its own steps. */
            oc_gradients(&p, i % 3 == 1 ? 0xad : UINT64_MAX - (i == 0 ? 2 : 0));
            ph__storage_debug(true); /* new memory is poisoned */
            assert_ok(oc_step(&p, optimizer));
            ph__storage_debug(false);
            oc_reference(&p, &rule);
            oc_compare(&p, bound_of(dtype), text);
        }
        ph_optimizer_destroy(optimizer);
        assert_true(ph__storage_debug_check(p.scene.device));
        oc_close(&p);
    }
}

/* What 0 stands for. */
#define CREATE(kind)                                                                               \
    static ph_status create_##kind(ph_optimizer **out, ph_module *module)                          \
    {                                                                                              \
        return ph_##kind##_create(out, module, NULL);                                              \
    }
CREATE(rmsprop)
CREATE(nadam)
CREATE(radam)
CREATE(adamax)
CREATE(adadelta)
CREATE(adagrad)
CREATE(asgd)
CREATE(rprop)
CREATE(lion)

TEST(zeros_in_the_options_mean_the_defaults_of_each_kind)
{
    static const struct {
        ph_status (*create)(ph_optimizer **out, ph_module *module);
        oc_rule rule;
    } all[] = {
        {create_rmsprop, {.kind = OC_RMSPROP, .lr = 1e-2, .alpha = 0.99, .eps = 1e-8}},
        {create_nadam,
         {.kind = OC_NADAM,
          .lr = 2e-3,
          .beta1 = 0.9,
          .beta2 = 0.999,
          .eps = 1e-8,
          .momentum_decay = 4e-3}},
        {create_radam, {.kind = OC_RADAM, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}},
        {create_adamax, {.kind = OC_ADAMAX, .lr = 2e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}},
        {create_adadelta, {.kind = OC_ADADELTA, .lr = 1, .alpha = 0.9, .eps = 1e-6}},
        {create_adagrad, {.kind = OC_ADAGRAD, .lr = 1e-2, .eps = 1e-10}},
        {create_asgd, {.kind = OC_ASGD, .lr = 1e-2, .lambd = 1e-4, .alpha = 0.75, .t0 = 1e6}},
        {create_rprop,
         {.kind = OC_RPROP, .lr = 1e-2, .less = 0.5, .more = 1.2, .least = 1e-6, .most = 50}},
        {create_lion, {.kind = OC_LION, .lr = 1e-4, .beta1 = 0.9, .beta2 = 0.99}}};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        oc_problem p;
        ph_optimizer *optimizer;
        char text[200];
        oc_describe(text, &all[k].rule);
        oc_open(&p, PH_DTYPE_F64, NULL, 0, 21 + k);
        assert_ok(all[k].create(&optimizer, p.module));
        assert_true(ph_optimizer_lr(optimizer) == all[k].rule.lr);
        for (int i = 0; i < 10; i++) {
            oc_gradients(&p, UINT64_MAX);
            assert_ok(oc_step(&p, optimizer));
            oc_reference(&p, &all[k].rule);
            oc_compare(&p, 1e-12, text);
        }
        ph_optimizer_destroy(optimizer);
        oc_close(&p);
    }
}

/* One eager step, then as many eager ones as replays, with a rate that changes: the same bits. */
TEST(replayed_steps_of_every_kind_have_the_eager_bits)
{
    for (size_t number = 0; number < oc_kind_rule_count(); number++) {
        oc_problem eager, replayed;
        oc_rule rule = oc_kind_rule(number);
        ph_dtype dtype = number % 2 ? PH_DTYPE_F64 : PH_DTYPE_F32;
        uint64_t steps;
        char text[200];
        rule.not_capturable = false;
        oc_describe(text, &rule);
        oc_open(&eager, dtype, NULL, 0, number);
        oc_open(&replayed, dtype, NULL, 0, number);
        ph_optimizer *a = oc_create(&rule, eager.module), *b = oc_create(&rule, replayed.module);
        ph_graph *graph = NULL;
        for (int i = 0; i < STEPS; i++) {
            oc_gradients(&eager, UINT64_MAX);
            oc_gradients(&replayed, UINT64_MAX);
            if (i == 1)
                graph = oc_capture_step(&replayed, b);
            assert_ok(ph_optimizer_set_lr(a, rule.lr / (i + 1)));
            assert_ok(ph_optimizer_set_lr(b, rule.lr / (i + 1)));
            assert_ok(oc_step(&eager, a));
            /* Now and then an eager step between the replays: the counters are the same ones. */
            assert_ok(i == 0 || i == 4 ? oc_step(&replayed, b)
                                       : ph_graph_replay(graph, replayed.scene.stream));
            oc_equal(&eager, &replayed, text);
        }
        assert_ok(ph_optimizer_steps(&steps, replayed.scene.tape, b));
        assert_int_equal(steps, STEPS);
        ph_graph_destroy(graph);
        ph_optimizer_destroy(a);
        ph_optimizer_destroy(b);
        oc_close(&eager);
        oc_close(&replayed);
    }
}

/* One launch changes everything, and one more derives what depends on the number of steps. */
TEST(captured_steps_of_each_kind_take_one_launch_or_two)
{
    for (size_t number = 0; number < oc_kind_rule_count(); number++) {
        oc_problem p;
        oc_rule rule = oc_kind_rule(number);
        const ph_record *record;
        rule.not_capturable = false;
        bool derives = rule.kind == OC_NADAM || rule.kind == OC_RADAM || rule.kind == OC_ADAMAX ||
                       rule.kind == OC_ADAGRAD || rule.kind == OC_ASGD;
        oc_open(&p, PH_DTYPE_F32, NULL, 0, 4);
        ph_optimizer *optimizer = oc_create(&rule, p.module);
        oc_gradients(&p, UINT64_MAX);
        assert_ok(oc_step(&p, optimizer));
        ph_graph *graph = oc_capture_step(&p, optimizer);
        assert_ok(ph_graph_record(&record, graph));
        size_t launches = 0;
        for (size_t i = 0; i < ph_record_node_count(record); i++) {
            ph_node_info info;
            assert_ok(ph_record_node(&info, record, i));
            launches += strncmp(info.name, "ph_core_", 8) != 0; /* the cells */
        }
        assert_int_equal(launches, derives ? 2 : 1);
        assert_ok(ph_graph_check_inputs(graph));
        ph_graph_destroy(graph);
        ph_optimizer_destroy(optimizer);
        oc_close(&p);
    }
}

/* More parameters than a launch of any kernel takes at once. */
TEST(more_parameters_than_a_launch_takes_are_stepped)
{
    for (size_t number = 0; number < oc_kind_rule_count(); number += 3) {
        oc_problem p;
        ph_shape shapes[OC_MOST];
        oc_rule rule = oc_kind_rule(number);
        for (size_t i = 0; i < OC_MOST; i++)
            shapes[i] = PH_SHAPE((int64_t)(i * 37 % 50));
        oc_open(&p, PH_DTYPE_F32, shapes, OC_MOST, 11);
        ph_optimizer *optimizer = oc_create(&rule, p.module);
        for (int i = 0; i < 3; i++) {
            oc_gradients(&p, i == 1 ? 0xffff : UINT64_MAX);
            assert_ok(oc_step(&p, optimizer));
            oc_reference(&p, &rule);
            oc_compare(&p, bound_of(PH_DTYPE_F32), "many");
        }
        ph_optimizer_destroy(optimizer);
        oc_close(&p);
    }
}

/* A step that the device skips, the first one too: the twin never hears of it. */
TEST(a_step_skipped_by_the_device_leaves_no_trace)
{
    for (size_t number = 0; number < oc_kind_rule_count(); number++) {
        oc_problem p, twin;
        oc_rule rule = oc_kind_rule(number);
        ph_tensor *found;
        oc_open(&p, PH_DTYPE_F32, NULL, 0, number);
        oc_open(&twin, PH_DTYPE_F32, NULL, 0, number);
        ph_optimizer *a = oc_create(&rule, p.module), *b = oc_create(&rule, twin.module);
        assert_ok(ph_tensor_create(&found, p.scene.device, PH_DTYPE_F32, PH_SCALAR));
        for (int i = 0; i < STEPS; i++) {
            float skip = i % 3 == 0;
            oc_gradients(&p, UINT64_MAX);
            assert_ok(ph_tensor_write(p.scene.tape, found, &skip, sizeof skip));
            ph__optimizer_step(p.scene.tape, a, NULL, found, "test");
            assert_ok(ph_tape_clear(p.scene.tape));
            oc_gradients(&twin, UINT64_MAX);
            if (skip == 0)
                assert_ok(oc_step(&twin, b));
            oc_equal(&p, &twin, "skipped");
        }
        ph_tensor_release(found);
        ph_optimizer_destroy(a);
        ph_optimizer_destroy(b);
        oc_close(&p);
        oc_close(&twin);
    }
}

static void expect_refusal(oc_problem *p, ph_optimizer *optimizer, const char *part)
{
    ph_graph *graph;
    oc_capture c = {p, optimizer};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_capture(graph, p->scene.stream, NULL, oc_capture_body, &c),
                 PH_ERROR_STATE, part);
    ph_graph_destroy(graph);
}

TEST(a_step_without_state_is_refused_in_a_capture)
{
    for (size_t number = 0; number < oc_kind_rule_count(); number++) {
        oc_problem p;
        oc_rule rule = oc_kind_rule(number);
        oc_open(&p, PH_DTYPE_F32, NULL, 0, 4);
        ph_optimizer *optimizer = oc_create(&rule, p.module);
        oc_gradients(&p, UINT64_MAX);
        expect_refusal(&p, optimizer,
                       rule.not_capturable ? "not_capturable" : "has no state for parameter p0");
        assert_ok(oc_step(&p, optimizer));
        oc_reference(&p, &rule);
        oc_compare(&p, bound_of(PH_DTYPE_F32), "after a refusal");
        ph_optimizer_destroy(optimizer);
        oc_close(&p);
    }
}

/* The state goes into another optimizer, under the graph that captured its step, and both go on
 * alike. */
TEST(a_loaded_state_goes_on_alike_under_a_captured_step)
{
    t_folder folder;
    t_folder_open(&folder);
    for (size_t number = 0; number < oc_kind_rule_count(); number++) {
        oc_problem a, b;
        oc_rule rule = oc_kind_rule(number);
        ph_dtype dtype = number % 2 ? PH_DTYPE_F64 : PH_DTYPE_F32;
        oc_open(&a, dtype, NULL, 0, 60);
        oc_open(&b, dtype, NULL, 0, 60);
        ph_optimizer *x = oc_create(&rule, a.module);
        rule.not_capturable = false;
        ph_optimizer *y = oc_create(&rule, b.module);
        for (int i = 0; i < 4; i++) {
            oc_gradients(&a, i == 0 ? 0xfd : UINT64_MAX);
            oc_gradients(&b, UINT64_MAX);
            assert_ok(oc_step(&a, x));
            if (i == 0)
                assert_ok(oc_step(&b, y));
        }
        ph_graph *graph = oc_capture_step(&b, y);
        assert_ok(ph_module_save(a.module, t_inside(&folder, "module")));
        assert_ok(ph_module_load(b.module, t_inside(&folder, "module"), true));
        assert_ok(ph_optimizer_save(x, t_inside(&folder, "state")));
        assert_ok(ph_optimizer_load(y, t_inside(&folder, "state")));
        b.rng = a.rng;
        for (int i = 0; i < 3; i++) {
            oc_gradients(&a, UINT64_MAX);
            oc_gradients(&b, UINT64_MAX);
            assert_ok(oc_step(&a, x));
            assert_ok(ph_graph_replay(graph, b.scene.stream));
            oc_equal(&a, &b, "loaded under a graph");
        }
        ph_graph_destroy(graph);
        ph_optimizer_destroy(x);
        ph_optimizer_destroy(y);
        oc_close(&a);
        oc_close(&b);
    }
    t_folder_close(&folder, (const char *const[]){"module", "state"}, 2);
}

/* Files have PyTorch's names. */
TEST(files_have_the_names_of_pytorch)
{
    static const struct {
        oc_kind kind;
        const char *names[4];
    } all[] = {{OC_RMSPROP, {"p0.square_avg", "p0.momentum_buffer", "p0.step"}},
               {OC_NADAM, {"p0.exp_avg", "p0.exp_avg_sq", "p0.step", "p0.mu_product"}},
               {OC_RADAM, {"p0.exp_avg", "p0.exp_avg_sq", "p0.step"}},
               {OC_ADAMAX, {"p0.exp_avg", "p0.exp_inf", "p0.step"}},
               {OC_ADADELTA, {"p0.square_avg", "p0.acc_delta", "p0.step"}},
               {OC_ADAGRAD, {"p0.sum", "p0.step"}},
               {OC_ASGD, {"p0.ax", "p0.step", "p0.eta", "p0.mu"}},
               {OC_RPROP, {"p0.prev", "p0.step_size", "p0.step"}},
               {OC_LION, {"p0.exp_avg"}}};
    static const ph_shape shape = {1, {3}};
    t_folder folder;
    t_folder_open(&folder);
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        oc_problem p;
        ph_safetensors *file;
        size_t count = 0;
        oc_rule rule = {.kind = all[k].kind,
                        .lr = 0.1,
                        .alpha = 0.9,
                        .beta1 = 0.9,
                        .beta2 = 0.9,
                        .momentum = 0.9,
                        .less = 0.5,
                        .more = 1.2,
                        .most = 1};
        oc_open(&p, PH_DTYPE_F32, &shape, 1, 1);
        ph_optimizer *optimizer = oc_create(&rule, p.module);
        assert_ok(ph_optimizer_save(optimizer, t_inside(&folder, "state")));
        assert_ok(ph_safetensors_open(&file, t_inside(&folder, "state")));
        for (size_t i = 0; i < 4 && all[k].names[i]; i++, count++) {
            ph_dtype dtype;
            ph_shape found;
            if (!ph__state_find(file, all[k].names[i], &dtype, &found))
                fail_msg("there is no %s", all[k].names[i]);
        }
        assert_int_equal(ph_safetensors_count(file), 1 + count);
        ph_safetensors_close(file);
        ph_optimizer_destroy(optimizer);
        oc_close(&p);
    }
    t_folder_close(&folder, (const char *const[]){"state"}, 1);
}

/* Counters and what is kept with them in f32, as PyTorch has them, are not converted. */
TEST(test_scalars_of_another_dtype)
{
    static const ph_shape shape = {1, {3}};
    oc_problem p;
    t_folder folder;
    oc_rule rule = {
        .kind = OC_NADAM, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.9, .momentum_decay = 4e-3};
    t_folder_open(&folder);
    oc_open(&p, PH_DTYPE_F32, &shape, 1, 1);
    ph_tape *tape = p.scene.tape;
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    const char *path = t_inside(&folder, "state");
    ph_tensor *moment = ph_full(tape, PH_DTYPE_F32, shape, 1),
              *steps = ph_full(tape, PH_DTYPE_I64, PH_SCALAR, 1),
              *product = ph_full(tape, PH_DTYPE_F64, PH_SCALAR, 0.5),
              *narrow = ph_full(tape, PH_DTYPE_F32, PH_SCALAR, 1);
    ph_named_tensor all[] = {{"steps", steps},
                             {"p0.exp_avg", moment},
                             {"p0.exp_avg_sq", moment},
                             {"p0.step", steps},
                             {"p0.mu_product", product}};
    assert_ok(ph_safetensors_write(tape, path, all, 5));
    assert_ok(ph_optimizer_load(optimizer, path));
    all[3].tensor = narrow;
    assert_ok(ph_safetensors_write(tape, path, all, 5));
    assert_error(ph_optimizer_load(optimizer, path), PH_ERROR_MISMATCH,
                 "p0.step is f32[] and must be i64[]");
    all[3].tensor = steps;
    all[4].tensor = narrow;
    assert_ok(ph_safetensors_write(tape, path, all, 5));
    assert_error(ph_optimizer_load(optimizer, path), PH_ERROR_MISMATCH,
                 "p0.mu_product is f32[] and must be f64[]");
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
    t_folder_close(&folder, (const char *const[]){"state"}, 1);
}

/* The n-th host allocation fails, for every n, in a first step: no parameter changes. */
TEST(test_without_host_memory)
{
    for (size_t number = 0; number < oc_kind_rule_count(); number += 2) {
        oc_problem p;
        oc_rule rule = oc_kind_rule(number);
        ph_status status = PH_ERROR_HOST_MEMORY;
        int64_t at = 0;
        oc_open(&p, PH_DTYPE_F32, NULL, 0, 9);
        oc_gradients(&p, UINT64_MAX);
        for (; status != PH_OK; at++) {
            ph_optimizer *optimizer = oc_create(&rule, p.module);
            ph__alloc_fail_after(at);
            status = oc_step(&p, optimizer);
            ph__alloc_fail_after(PH__ALLOC_NEVER);
            if (status != PH_OK)
                assert_error(status, PH_ERROR_HOST_MEMORY, "memory");
            ph_optimizer_destroy(optimizer);
        }
        assert_true(at > 6);
        oc_reference(&p, &rule);
        oc_compare(&p, bound_of(PH_DTYPE_F32), "after the sweep");
        oc_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_every_kind_match_the_reference),
        cmocka_unit_test(zeros_in_the_options_mean_the_defaults_of_each_kind),
        cmocka_unit_test(replayed_steps_of_every_kind_have_the_eager_bits),
        cmocka_unit_test(captured_steps_of_each_kind_take_one_launch_or_two),
        cmocka_unit_test(more_parameters_than_a_launch_takes_are_stepped),
        cmocka_unit_test(a_step_skipped_by_the_device_leaves_no_trace),
        cmocka_unit_test(a_step_without_state_is_refused_in_a_capture),
        cmocka_unit_test(a_loaded_state_goes_on_alike_under_a_captured_step),
        cmocka_unit_test(files_have_the_names_of_pytorch),
        cmocka_unit_test(test_scalars_of_another_dtype),
        cmocka_unit_test(test_without_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
