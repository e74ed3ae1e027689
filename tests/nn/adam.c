/* SPDX-License-Identifier: MIT */
/* tests/nn/adam.c: Adam and AdamW against a float64 reference, with all combinations of their options; eager, captured and replayed; their state in
 * files; misuse. */
#include "support/optimizer_check.h"
#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum {
    STEPS = 10,
    RULES = 32
};

static oc_rule rule_of(unsigned number)
{
    return (oc_rule){.kind = number & 1 ? OC_ADAMW : OC_ADAM,
                     .lr = 0.05,
                     .beta1 = number & 2 ? 0.8 : 0.9,
                     .beta2 = number & 2 ? 0.95 : 0.999,
                     .eps = number & 4 ? 1e-3 : 1e-8,
                     .weight_decay = number & 4 ? 0.1 : 0,
                     .not_capturable = number & 8};
}

static ph_dtype dtype_of(unsigned number)
{
    return number & 16 ? PH_DTYPE_F64 : PH_DTYPE_F32;
}

static double bound_of(ph_dtype dtype)
{
    return dtype == PH_DTYPE_F32 ? 1e-5 : 1e-12;
}

static void test_reference(void **state)
{
    (void)state;
    for (unsigned number = 0; number < RULES; number++) {
        oc_problem p;
        char text[200];
        oc_rule rule = rule_of(number);
        oc_open(&p, dtype_of(number), NULL, 0, number + 1);
        ph_optimizer *optimizer = oc_create(&rule, p.module);
        oc_describe(text, &rule);
        for (int i = 0; i < STEPS; i++) {
            /* Each parameter counts its own steps. */
            oc_gradients(&p, i % 3 == 1 ? 0xad : UINT64_MAX - (i == 0 ? 2 : 0));
            assert_ok(oc_step(&p, optimizer));
            oc_reference(&p, &rule);
            oc_compare(&p, bound_of(p.dtype), text);
        }
        ph_optimizer_destroy(optimizer);
        oc_close(&p);
    }
}

/* What 0 stands for. */
static void test_defaults(void **state)
{
    (void)state;
    for (int decoupled = 0; decoupled < 2; decoupled++) {
        oc_problem p;
        ph_optimizer *optimizer;
        oc_rule rule = {.kind = decoupled ? OC_ADAMW : OC_ADAM,
                        .lr = 1e-3,
                        .beta1 = 0.9,
                        .beta2 = 0.999,
                        .eps = 1e-8,
                        .weight_decay = decoupled ? 0.01 : 0};
        oc_open(&p, PH_DTYPE_F64, NULL, 0, 21);
        assert_ok((decoupled ? ph_adamw_create : ph_adam_create)(&optimizer, p.module, NULL));
        assert_true(ph_optimizer_lr(optimizer) == 1e-3);
        for (int i = 0; i < 3; i++) {
            oc_gradients(&p, UINT64_MAX);
            assert_ok(oc_step(&p, optimizer));
            oc_reference(&p, &rule);
            oc_compare(&p, 1e-12, "defaults");
        }
        ph_optimizer_destroy(optimizer);
        oc_close(&p);
    }
}

/* More parameters than a launch of any kernel takes at once. */
static void test_many(void **state)
{
    (void)state;
    oc_problem p;
    ph_shape shapes[OC_MOST];
    oc_rule rule = rule_of(1);
    for (size_t i = 0; i < OC_MOST; i++)
        shapes[i] = PH_SHAPE((int64_t)(i * 37 % 200));
    oc_open(&p, PH_DTYPE_F32, shapes, OC_MOST, 11);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    for (int i = 0; i < 3; i++) {
        oc_gradients(&p, i == 1 ? 0xffff : UINT64_MAX);
        assert_ok(oc_step(&p, optimizer));
        oc_reference(&p, &rule);
        oc_compare(&p, 1e-5, "many");
    }
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

/* Three eager steps, then as many eager ones as replays: the same bits. */
static void test_replayed(void **state)
{
    (void)state;
    for (unsigned number = 0; number < RULES; number++) {
        oc_problem eager, replayed;
        oc_rule rule = rule_of(number & ~8u);
        uint64_t steps;
        oc_open(&eager, dtype_of(number), NULL, 0, number);
        oc_open(&replayed, dtype_of(number), NULL, 0, number);
        ph_optimizer *a = oc_create(&rule, eager.module), *b = oc_create(&rule, replayed.module);
        for (int i = 0; i < 3; i++) {
            oc_gradients(&eager, UINT64_MAX);
            oc_gradients(&replayed, UINT64_MAX);
            assert_ok(oc_step(&eager, a));
            assert_ok(oc_step(&replayed, b));
        }
        ph_graph *graph = oc_capture_step(&replayed, b);
        oc_equal(&eager, &replayed, "captured");
        for (int i = 0; i < STEPS; i++) {
            oc_gradients(&eager, UINT64_MAX);
            oc_gradients(&replayed, UINT64_MAX);
            assert_ok(oc_step(&eager, a));
            /* Now and then an eager step between the replays: the counters are the same ones. */
            assert_ok(i == 4 ? oc_step(&replayed, b) : ph_graph_replay(graph, replayed.scene.stream));
            oc_equal(&eager, &replayed, "replayed");
        }
        assert_ok(ph_optimizer_steps(&steps, replayed.scene.tape, b));
        assert_int_equal(steps, 3 + STEPS);
        ph_graph_destroy(graph);
        ph_optimizer_destroy(a);
        ph_optimizer_destroy(b);
        oc_close(&eager);
        oc_close(&replayed);
    }
}

static size_t nodes_of(ph_graph *graph, const char *name)
{
    const ph_record *record;
    size_t count = 0;
    assert_ok(ph_graph_record(&record, graph));
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        ph_node_info info;
        assert_ok(ph_record_node(&info, record, i));
        count += strcmp(info.name, name) == 0;
    }
    return count;
}

/* One launch counts, one changes everything; every address is known to be one. */
static void test_record(void **state)
{
    (void)state;
    oc_problem p;
    oc_rule rule = rule_of(1);
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 4);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    oc_gradients(&p, UINT64_MAX);
    assert_ok(oc_step(&p, optimizer));
    ph_graph *graph = oc_capture_step(&p, optimizer);
    const ph_record *record;
    assert_int_equal(nodes_of(graph, "ph_optimizer_advance"), 1);
    assert_int_equal(nodes_of(graph, "ph_adam_f32"), 1);
    assert_ok(ph_graph_record(&record, graph));
    size_t found = 0;
    for (size_t node = 0; node < ph_record_node_count(record); node++) {
        ph_node_info info;
        assert_ok(ph_record_node(&info, record, node));
        for (size_t i = 0; i < info.word_count; i++) {
            ph_word word;
            assert_ok(ph_record_word(&word, record, node, i));
            assert_true(word.kind != PH_WORD_SUSPECTED);
            found += word.kind == PH_WORD_PROVED &&
                     word.value == (uintptr_t)ph_tensor_data(p.param[0].tensor) &&
                     strcmp(word.name, "param[0]") == 0;
        }
    }
    assert_int_equal(found, 1);
    assert_ok(ph_graph_check_inputs(graph));
    ph_graph_destroy(graph);
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

static void expect_refusal(oc_problem *p, ph_optimizer *optimizer, const char *part)
{
    ph_graph *graph;
    oc_capture c = {p, optimizer};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_capture(graph, p->scene.stream, NULL, oc_capture_body, &c), PH_ERROR_STATE, part);
    ph_graph_destroy(graph);
}

/* A body that goes on after the refusal, to look at what was launched. */
static ph_status refused_body(ph_stream *stream, void *user)
{
    oc_capture *c = user;
    (void)stream;
    assert_status(oc_step(c->problem, c->optimizer), PH_ERROR_STATE);
    return PH_OK;
}

static void test_refusals(void **state)
{
    (void)state;
    oc_problem p;
    ph_graph *graph;
    const ph_record *record;
    oc_rule rule = rule_of(0);
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 4);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    oc_gradients(&p, UINT64_MAX);
    expect_refusal(&p, optimizer, "adam has no state for parameter p0 yet");
    oc_gradients(&p, UINT64_MAX - 4);
    assert_ok(oc_step(&p, optimizer));
    oc_gradients(&p, UINT64_MAX);
    expect_refusal(&p, optimizer, "adam has no state for parameter p2 yet");
    ph_optimizer_destroy(optimizer);

    rule.not_capturable = true;
    optimizer = oc_create(&rule, p.module);
    assert_ok(oc_step(&p, optimizer));
    expect_refusal(&p, optimizer, "not_capturable");
    t_log_start();
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, p.scene.stream, NULL, refused_body, &(oc_capture){&p, optimizer}));
    t_log_stop();
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), 0);
    ph_graph_destroy(graph);
    assert_ok(oc_step(&p, optimizer));
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

static ph_status steps_body(ph_stream *stream, void *user)
{
    oc_capture *c = user;
    uint64_t steps;
    (void)stream;
    assert_error(ph_optimizer_steps(&steps, c->problem->scene.tape, c->optimizer), PH_ERROR_CAPTURE, "");
    assert_native(900);
    assert_status(ph_tape_clear(c->problem->scene.tape), PH_ERROR_CAPTURE);
    return PH_OK;
}

static void test_steps_in_capture(void **state)
{
    (void)state;
    oc_problem p;
    ph_graph *graph;
    oc_rule rule = rule_of(0);
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 4);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    t_log_start();
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, p.scene.stream, NULL, steps_body, &(oc_capture){&p, optimizer}));
    t_log_stop();
    ph_graph_destroy(graph);
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

static void test_misuse(void **state)
{
    (void)state;
    oc_problem p;
    ph_optimizer *optimizer;
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 5);
    ph_module *module = p.module;
    const struct {
        ph_adam_options options;
        const char *part;
    } bad[] = {{{.lr = -1}, "lr is -1"},
               {{.lr = (double)NAN}, "lr"},
               {{.beta1 = 1}, "beta1 is 1"},
               {{.beta1 = -0.1}, "beta1"},
               {{.beta2 = 1.5}, "beta2 is 1.5"},
               {{.eps = -1e-8}, "eps"},
               {{.weight_decay = -0.5}, "weight_decay is -0.5"},
               {{.reserved = {0, 0, 0, 1}}, "reserved"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_error(ph_adam_create(&optimizer, module, &bad[i].options), PH_ERROR_ARGUMENT, bad[i].part);
        assert_error(ph_adamw_create(&optimizer, module, &bad[i].options), PH_ERROR_ARGUMENT, bad[i].part);
        assert_null(optimizer);
    }
    assert_error(ph_adam_create(NULL, module, NULL), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_adamw_create(&optimizer, NULL, NULL), PH_ERROR_ARGUMENT, "module");
    oc_close(&p);
}

/* ---- files ---- */
static void path_of(char path[64], const char *name)
{
    (void)snprintf(path, 64, "/tmp/ph_adam_%ld_%s", (long)getpid(), name);
}

/* Saved after some steps and loaded into another optimizer, of either form, both go on alike. A parameter that has made no step has none there. */
static void test_files(void **state)
{
    (void)state;
    for (unsigned number = 0; number < RULES; number += 3) {
        oc_problem a, b;
        char path[64];
        uint64_t steps;
        oc_rule rule = rule_of(number), other = rule_of(number ^ 8);
        oc_open(&a, dtype_of(number), NULL, 0, 50);
        oc_open(&b, dtype_of(number), NULL, 0, 50);
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
            a.param[i].steps = 3;
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
static void test_load_under_a_graph(void **state)
{
    (void)state;
    oc_problem a, b;
    char path[64];
    oc_rule rule = rule_of(1);
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

static void test_bad_files(void **state)
{
    (void)state;
    oc_problem a, b;
    char path[64];
    ph_shape shapes[] = {{1, {7}}, {1, {5}}}, others[] = {{1, {7}}, {1, {6}}, {1, {2}}};
    oc_rule rule = rule_of(1), sgd = {.kind = OC_SGD, .momentum = 0.9};
    oc_open(&a, PH_DTYPE_F32, shapes, 2, 60);
    oc_open(&b, PH_DTYPE_F32, others, 3, 60);
    ph_optimizer *x = oc_create(&rule, a.module), *y = oc_create(&rule, b.module),
                 *z = oc_create(&sgd, a.module);
    oc_gradients(&a, UINT64_MAX);
    oc_gradients(&b, UINT64_MAX);
    assert_ok(oc_step(&a, x));
    path_of(path, "state");
    assert_ok(ph_optimizer_save(x, path));
    assert_error(ph_optimizer_load(y, path), PH_ERROR_MISMATCH,
                 "p1.exp_avg is f32[5] and must be f32[6], p1.exp_avg_sq is f32[5] and must be f32[6], "
                 "p2.exp_avg is missing");
    assert_error(ph_optimizer_load(z, path), PH_ERROR_MISMATCH, "p0.momentum_buffer is missing");
    assert_error(ph_optimizer_load(z, path), PH_ERROR_MISMATCH, "p1.step is unexpected");
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

/* Steps that are no number of steps, and half of a parameter's state. */
static void test_hostile_counts(void **state)
{
    (void)state;
    oc_problem p;
    char path[64];
    ph_shape shapes[] = {{1, {2}}};
    oc_rule rule = rule_of(1);
    oc_open(&p, PH_DTYPE_F32, shapes, 1, 60);
    ph_tape *tape = p.scene.tape;
    ph_optimizer *x = oc_create(&rule, p.module);
    ph_tensor *two = ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(2)),
              *none = ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(0));
    ph_tensor *minus = ph_full(tape, PH_DTYPE_I64, PH_SCALAR, -1),
              *one = ph_full(tape, PH_DTYPE_I64, PH_SCALAR, 1);
    ph_named_tensor all[] = {{"steps", one}, {"p0.exp_avg", two}, {"p0.exp_avg_sq", two}, {"p0.step", one}};
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
    assert_error(ph_optimizer_load(x, path), PH_ERROR_MISMATCH, "p0 has exp_avg but not exp_avg_sq");
    all[0].tensor = two;
    assert_ok(ph_safetensors_write(tape, path, all, 4));
    assert_error(ph_optimizer_load(x, path), PH_ERROR_MISMATCH, "steps is f32[2] and must be i64[]");
    (void)unlink(path);
    ph_optimizer_destroy(x);
    oc_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_replayed),
        cmocka_unit_test(test_record),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_steps_in_capture),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_load_under_a_graph),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_hostile_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
