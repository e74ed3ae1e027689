/* SPDX-License-Identifier: MIT */
/* tests/nn/optimizer_groups.c: groups of parameters, with options and a learning rate each; what
 * is refused; gradients that are filled with zeros where they are; options out of range. */
#include "driver/result.h"
#include "nn/optimizer/step.h"
#include "support/files.h"
#include "support/optimizer_check.h"
#include "support/sweep.h"
#include "support/test.h"
#include <math.h>

#define NAMES(...)                                                                                 \
    &(const ph_parameter_choice)                                                                   \
    {                                                                                              \
        .names = (const char *const[]){__VA_ARGS__},                                               \
        .name_count = sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)                  \
    }
#define NUMBERS(...)                                                                               \
    &(const ph_parameter_choice)                                                                   \
    {                                                                                              \
        .indices = (const size_t[]){__VA_ARGS__},                                                  \
        .index_count = sizeof((const size_t[]){__VA_ARGS__}) / sizeof(size_t)                      \
    }

static const ph_shape shapes[12] = {{1, {7}}, {1, {5}}, {1, {3}}, {1, {9}}, {1, {4}}, {1, {6}},
                                    {1, {2}}, {1, {8}}, {1, {1}}, {1, {5}}, {1, {3}}, {1, {70}}};

/* Three groups: p1, p10 and p11 by a pattern; p3 and p5 by name and by number; the others. */
static ph_optimizer *create_three(oc_problem *p, oc_rule rules[3])
{
    ph_optimizer *optimizer;
    ph_adam_options groups[] = {
        {.lr = 0.1, .weight_decay = PH_ZERO, .parameters = NAMES("p1*")},
        {.beta1 = 0.5,
         .amsgrad = true,
         .parameters = &(const ph_parameter_choice){.names = (const char *const[]){"p3"},
                                                    .name_count = 1,
                                                    .indices = (const size_t[]){5},
                                                    .index_count = 1}}};
    ph_adam_options options = {
        .lr = 0.02, .beta2 = 0.9, .weight_decay = 0.1, .groups = groups, .group_count = 2};
    rules[2] = (oc_rule){
        .kind = OC_ADAM, .lr = 0.02, .beta1 = 0.9, .beta2 = 0.9, .eps = 1e-8, .weight_decay = 0.1};
    rules[0] = rules[1] = rules[2];
    rules[0].lr = 0.1;
    rules[0].weight_decay = 0;
    rules[1].beta1 = 0.5;
    rules[1].amsgrad = true;
    assert_ok(ph_adam_create(&optimizer, p->module, &options));
    return optimizer;
}

static void reference_three(oc_problem *p, const oc_rule rules[3])
{
    const uint64_t first = 1 << 1 | 1 << 10 | 1 << 11, second = 1 << 3 | 1 << 5;
    oc_reference_some(p, &rules[0], first);
    oc_reference_some(p, &rules[1], second);
    oc_reference_some(p, &rules[2], ~(first | second));
}

/* Each group has its options and its rate, eager and replayed. */
TEST(each_group_has_its_options_and_its_rate)
{
    oc_problem p;
    oc_rule rules[3];
    oc_open(&p, PH_DTYPE_F64, shapes, 12, 1);
    ph_optimizer *optimizer = create_three(&p, rules);
    ph_graph *graph = NULL;
    assert_int_equal(ph_optimizer_group_count(optimizer), 3);
    assert_true(ph_optimizer_lr(optimizer) == 0.02);
    assert_true(ph_optimizer_group_lr(optimizer, 0) == 0.1);
    assert_true(ph_optimizer_group_lr(optimizer, 1) == 0.02);
    assert_int_equal(ph_optimizer_parameter_count(optimizer), 12);
    assert_string_equal(ph_optimizer_parameter_name(optimizer, 10), "p10");
    assert_int_equal(ph_optimizer_parameter_group(optimizer, 10), 0);
    assert_int_equal(ph_optimizer_parameter_group(optimizer, 5), 1);
    assert_int_equal(ph_optimizer_parameter_group(optimizer, 0), 2);
    for (int i = 0; i < 12; i++) {
        oc_gradients(&p, UINT64_MAX);
        if (i == 2)
            graph = oc_capture_step(&p, optimizer);
        if (i == 4) {
            rules[1].lr = 0.5;
            assert_ok(ph_optimizer_group_set_lr(optimizer, 1, 0.5));
        }
        if (i == 8) {
            for (int k = 0; k < 3; k++)
                rules[k].lr = 0.25;
            assert_ok(ph_optimizer_set_lr(optimizer, 0.25));
            assert_true(ph_optimizer_group_lr(optimizer, 0) == 0.25);
        }
        assert_ok(graph && i != 6 ? ph_graph_replay(graph, p.scene.stream)
                                  : oc_step(&p, optimizer));
        reference_three(&p, rules);
        oc_compare(&p, 1e-12, "groups");
    }
    ph_graph_destroy(graph);
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

/* More groups than one source of cells has: each with its own rate. */
TEST(test_many_groups)
{
    enum {
        MANY = 40
    };
    oc_problem p;
    ph_shape many[MANY];
    size_t numbers[MANY];
    ph_parameter_choice choices[MANY];
    ph_sgd_options groups[MANY];
    ph_optimizer *optimizer;
    for (size_t i = 0; i < MANY; i++) {
        many[i] = PH_SHAPE(3);
        numbers[i] = i;
        choices[i] = (ph_parameter_choice){.indices = &numbers[i], .index_count = 1};
        groups[i] = (ph_sgd_options){.lr = 0.1, .parameters = &choices[i]};
    }
    ph_sgd_options options = {.groups = groups, .group_count = MANY};
    oc_open(&p, PH_DTYPE_F32, many, MANY, 3);
    assert_ok(ph_sgd_create(&optimizer, p.module, &options));
    oc_gradients(&p, UINT64_MAX);
    ph_graph *graph = oc_capture_step(&p, optimizer);
    for (size_t i = 0; i < MANY; i++)
        assert_ok(ph_optimizer_group_set_lr(optimizer, i, 0.01 * (double)(i + 1)));
    assert_ok(ph_graph_replay(graph, p.scene.stream));
    for (size_t i = 0; i < MANY; i++) {
        oc_rule rule = {.kind = OC_SGD, .lr = 0.01 * (double)(i + 1)};
        oc_reference_some(&p, &rule, UINT64_C(1) << i);
    }
    oc_compare(&p, 3e-6, "many groups");
    ph_graph_destroy(graph);
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

/* A group with momentum and one without: files have what there is; a skipped first step. */
TEST(test_unlike_states)
{
    oc_problem p, twin;
    t_folder folder;
    ph_sgd_options groups[] = {{.momentum = 0.9, .dampening = 0.5, .parameters = NUMBERS(0, 2)}};
    ph_sgd_options options = {.lr = 0.1, .groups = groups, .group_count = 1};
    ph_optimizer *a, *b;
    ph_tensor *found;
    float skip = 1;
    t_folder_open(&folder);
    oc_open(&p, PH_DTYPE_F32, shapes, 4, 3);
    oc_open(&twin, PH_DTYPE_F32, shapes, 4, 3);
    assert_ok(ph_sgd_create(&a, p.module, &options));
    assert_ok(ph_sgd_create(&b, twin.module, &options));
    assert_ok(ph_tensor_create(&found, p.scene.device, PH_DTYPE_F32, PH_SCALAR));
    for (int i = 0; i < 4; i++) {
        oc_gradients(&p, UINT64_MAX);
        oc_gradients(&twin, UINT64_MAX);
        skip = i % 2 == 0;
        assert_ok(ph_tensor_write(p.scene.tape, found, &skip, sizeof skip));
        ph__optimizer_step(p.scene.tape, a, NULL, found, "test");
        assert_ok(ph_tape_clear(p.scene.tape));
        if (skip == 0)
            assert_ok(oc_step(&twin, b));
        oc_equal(&p, &twin, "unlike states");
        assert_ok(ph_optimizer_save(a, t_inside(&folder, "state")));
        assert_ok(ph_optimizer_load(a, t_inside(&folder, "state")));
    }
    ph_tensor_release(found);
    ph_optimizer_destroy(a);
    ph_optimizer_destroy(b);
    oc_close(&p);
    oc_close(&twin);
    t_folder_close(&folder, (const char *const[]){"state"}, 1);
}

TEST(test_misuse_of_groups)
{
    oc_problem p;
    ph_optimizer *optimizer;
    oc_open(&p, PH_DTYPE_F32, shapes, 3, 5);
    const ph_adam_options one = {.parameters = NAMES("p0")};
    const struct {
        ph_adam_options options;
        const char *part;
    } bad[] = {
        {{.parameters = NAMES("p0")}, "parameters is set outside of groups"},
        {{.group_count = 2}, "groups is NULL, and group_count is 2"},
        {{.groups = &(const ph_adam_options){.lr = 1}, .group_count = 1},
         "groups[0] names no parameter"},
        {{.groups = &(const ph_adam_options){.parameters = NAMES("q*")}, .group_count = 1},
         "groups[0] names \"q*\", and no parameter"},
        {{.groups = &(const ph_adam_options){.parameters = NAMES("p")}, .group_count = 1},
         "groups[0] names \"p\", and no parameter"},
        {{.groups = &(const ph_adam_options){.parameters = NAMES(NULL)}, .group_count = 1},
         "names[0] is NULL"},
        {{.groups =
              &(const ph_adam_options){.parameters = &(const ph_parameter_choice){.name_count = 1}},
          .group_count = 1},
         "parameters->names is NULL"},
        {{.groups = &(const ph_adam_options){.parameters =
                                                 &(const ph_parameter_choice){.index_count = 1}},
          .group_count = 1},
         "parameters->indices is NULL"},
        {{.groups = &(const ph_adam_options){.parameters = NUMBERS(3)}, .group_count = 1},
         "groups[0] has the parameter of number 3, and there are 3"},
        {{.groups =
              (const ph_adam_options[]){{.parameters = NAMES("p0")}, {.parameters = NUMBERS(0)}},
          .group_count = 2},
         "groups[1] has the parameter of number 0, p0, which groups[0] has already"},
        {{.groups =
              (const ph_adam_options[]){{.parameters = NAMES("p*")}, {.parameters = NAMES("p0")}},
          .group_count = 2},
         "groups before it have all parameters of that name"},
        {{.groups = &(const ph_adam_options){.parameters = NAMES("p*", "p0")}, .group_count = 1},
         "groups[0] names \"p0\", and has all parameters of that name already"},
        {{.groups = &(const ph_adam_options){.parameters = NUMBERS(1, 1)}, .group_count = 1},
         "groups[0] has the parameter of number 1, p1, which groups[0] has already"},
        {{.groups = &(const ph_adam_options){.lr = -1, .parameters = NAMES("p0")},
          .group_count = 1},
         "lr is -1, and must be finite and not negative (in groups[0])"},
        {{.groups =
              &(const ph_adam_options){.parameters = NAMES("p0"), .groups = &one, .group_count = 1},
          .group_count = 1},
         "groups[0] has groups of its own"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_error(ph_adam_create(&optimizer, p.module, &bad[i].options), PH_ERROR_ARGUMENT,
                     bad[i].part);
        assert_null(optimizer);
    }
    assert_ok(ph_adam_create(&optimizer, p.module, NULL));
    assert_error(ph_optimizer_group_set_lr(optimizer, 1, 1), PH_ERROR_ARGUMENT,
                 "no group of number 1");
    assert_error(ph_optimizer_group_set_lr(optimizer, 0, -1), PH_ERROR_ARGUMENT, "lr is -1");
    assert_error(ph_optimizer_group_set_lr(optimizer, 0, NAN), PH_ERROR_ARGUMENT, "lr");
    assert_error(ph_optimizer_group_set_lr(NULL, 0, 1), PH_ERROR_ARGUMENT, "optimizer");
    assert_true(ph_optimizer_group_lr(optimizer, 1) == 0);
    assert_true(ph_optimizer_group_lr(NULL, 0) == 0);
    assert_int_equal(ph_optimizer_group_count(NULL), 0);
    assert_int_equal(ph_optimizer_parameter_count(NULL), 0);
    assert_null(ph_optimizer_parameter_name(optimizer, 3));
    assert_true(ph_optimizer_parameter_group(optimizer, 3) == SIZE_MAX);
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

#define REFUSED(kind, part, ...)                                                                   \
    do {                                                                                           \
        ph_##kind##_options o = {__VA_ARGS__};                                                     \
        assert_error(ph_##kind##_create(&optimizer, module, &o), PH_ERROR_ARGUMENT, part);         \
        assert_error(ph_##kind##_create(&optimizer, module, &o), PH_ERROR_ARGUMENT,                \
                     "ph_" #kind "_create: ");                                                     \
        assert_null(optimizer);                                                                    \
    } while (0)
#define MISUSED(kind)                                                                              \
    do {                                                                                           \
        assert_error(ph_##kind##_create(NULL, module, NULL), PH_ERROR_ARGUMENT, "out");            \
        assert_error(ph_##kind##_create(&optimizer, NULL, NULL), PH_ERROR_ARGUMENT, "module");     \
        REFUSED(kind, "reserved", .reserved = {1});                                                \
        REFUSED(kind, "lr is -1", .lr = -1);                                                       \
        REFUSED(kind, "lr is nan", .lr = (double)NAN);                                             \
        REFUSED(kind, "lr is inf", .lr = (double)INFINITY);                                        \
    } while (0)
#define MISUSED_BETAS(kind)                                                                        \
    do {                                                                                           \
        REFUSED(kind, "beta1 is 1", .beta1 = 1);                                                   \
        REFUSED(kind, "beta1 is -0.1", .beta1 = -0.1);                                             \
        REFUSED(kind, "beta2 is 1.5", .beta2 = 1.5);                                               \
        REFUSED(kind, "beta2 is nan", .beta2 = (double)NAN);                                       \
    } while (0)

TEST(options_of_every_optimizer_are_checked)
{
    oc_problem p;
    ph_optimizer *optimizer;
    oc_open(&p, PH_DTYPE_F32, shapes, 3, 5);
    ph_module *module = p.module;
    MISUSED(rmsprop);
    MISUSED(nadam);
    MISUSED(radam);
    MISUSED(adamax);
    MISUSED(adadelta);
    MISUSED(adagrad);
    MISUSED(asgd);
    MISUSED(rprop);
    MISUSED(lion);
    MISUSED_BETAS(nadam);
    MISUSED_BETAS(radam);
    MISUSED_BETAS(adamax);
    MISUSED_BETAS(lion);
    REFUSED(rmsprop, "eps is -1", .eps = -1);
    REFUSED(rmsprop, "momentum is -1", .momentum = -1);
    REFUSED(rmsprop, "alpha is -1", .alpha = -1);
    REFUSED(rmsprop, "weight_decay is -1", .weight_decay = -1);
    REFUSED(nadam, "momentum_decay is -1", .momentum_decay = -1);
    REFUSED(nadam, "weight_decay is -1", .weight_decay = -1);
    REFUSED(radam, "eps is -1", .eps = -1);
    REFUSED(adamax, "eps is -1", .eps = -1);
    REFUSED(adadelta, "rho is 1.5", .rho = 1.5);
    REFUSED(adadelta, "eps is -1", .eps = -1);
    REFUSED(adagrad, "lr_decay is -1", .lr_decay = -1);
    REFUSED(adagrad, "initial_accumulator_value is -1", .initial_accumulator_value = -1);
    REFUSED(adagrad, "eps is nan", .eps = (double)NAN);
    REFUSED(asgd, "weight_decay is -1", .weight_decay = -1);
    REFUSED(asgd, "lambd is nan", .lambd = (double)NAN);
    REFUSED(asgd, "alpha is inf", .alpha = (double)INFINITY);
    REFUSED(asgd, "t0 is nan", .t0 = (double)NAN);
    REFUSED(rprop, "eta_minus is 1 and eta_plus 1.2", .eta_minus = 1);
    REFUSED(rprop, "eta_minus is 0.5 and eta_plus 1", .eta_plus = 1);
    REFUSED(rprop, "eta_minus is 0 and", .eta_minus = PH_ZERO);
    REFUSED(rprop, "step_min is 2, and step_max only 1", .step_min = 2, .step_max = 1);
    REFUSED(rprop, "step_max is nan", .step_max = (double)NAN);
    REFUSED(lion, "weight_decay is -1", .weight_decay = -1);
    ph_adam_options none = {.eps = PH_ZERO, .beta1 = PH_ZERO, .beta2 = PH_ZERO};
    assert_ok(ph_adam_create(&optimizer, module, &none));
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

/* ---- gradients ---- */
static ph_status zero_body(ph_stream *stream, void *user)
{
    oc_capture *c = user;
    (void)stream;
    ph_optimizer_zero_grad_in_place(c->problem->scene.tape, c->optimizer);
    return ph_tape_clear(c->problem->scene.tape);
}

static void expect_zeros(oc_problem *p, bool zeros)
{
    for (size_t k = 0; k < p->count; k++) {
        float *x = calloc((size_t)p->param[k].count + 1, sizeof *x);
        ph_tensor *grad = ph_tensor_grad(p->param[k].tensor);
        assert_non_null(x);
        assert_ok(ph_tensor_read(p->scene.tape, grad, x, ph_tensor_bytes(grad)));
        for (int64_t i = 0; i < p->param[k].count; i++)
            assert_true((x[i] == 0) == zeros);
        free(x);
    }
}

/* The record of an annotated capture says what its fills are for; they lie in no scope. */
static void expect_reason(oc_capture *c)
{
    ph_graph *graph;
    const ph_record *record;
    char *json;
    size_t found = 0, pairs;
    const ph_annotation_pair *at;
    ph_stream *stream = c->problem->scene.stream;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, stream, &(ph_capture_options){.enable_annotations = true},
                               zero_body, c));
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_json(&json, record));
    for (const char *p = json; (p = strstr(p, "\"made_for\":\"gradients (clear)\"")); p++)
        found++;
    assert_int_equal(found, ph_record_node_count(record));
    assert_ok(ph_record_annotation(&at, &pairs, record, 0));
    assert_int_equal(pairs, 0);
    assert_int_equal(ph_annotation_depth(), 0);
    ph_string_free(json);
    ph_graph_destroy(graph);
}

/* The same tensors and memory, eager and replayed, also where they are not contiguous. */
TEST(test_zero_grad_in_place)
{
    oc_problem p;
    ph_graph *graph;
    oc_rule rule = oc_adam_rule(0);
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 2);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    oc_capture c = {&p, optimizer};
    void *at[8];
    assert_ok(zero_body(NULL, &c)); /* without any */
    oc_strided_gradients(&p);
    for (size_t k = 0; k < p.count; k++)
        at[k] = ph_tensor_data(ph_tensor_grad(p.param[k].tensor));
    expect_zeros(&p, false);
    assert_ok(zero_body(NULL, &c));
    expect_zeros(&p, true);
    oc_gradients(&p, 0);
    oc_gradients(&p, UINT64_MAX);
    for (size_t k = 0; k < p.count; k++)
        at[k] = ph_tensor_data(ph_tensor_grad(p.param[k].tensor));
    expect_reason(&c);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, p.scene.stream, NULL, zero_body, &c));
    expect_zeros(&p, false);
    assert_ok(ph_graph_replay(graph, p.scene.stream));
    expect_zeros(&p, true);
    for (size_t k = 0; k < p.count; k++)
        assert_ptr_equal(ph_tensor_data(ph_tensor_grad(p.param[k].tensor)), at[k]);
    ph_graph_destroy(graph);
    ph_optimizer_zero_grad_in_place(NULL, optimizer);
    ph_optimizer_zero_grad_in_place(p.scene.tape, NULL);
    assert_error(ph_tape_clear(p.scene.tape), PH_ERROR_ARGUMENT,
                 "ph_optimizer_zero_grad_in_place: optimizer is NULL");
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

/* ---- failures ---- */
typedef struct failing {
    oc_problem p, twin;
    ph_optimizer *optimizer, *plain;
} failing;

static ph_status run_step(void *user)
{
    failing *f = user;
    return oc_step(&f->p, f->optimizer);
}

/* A step that failed has changed nothing, or all of the few parameters; and counted alike, so
 * that both optimizers do the same next. */
static void check_step(ph_status status, void *user)
{
    failing *f = user;
    size_t bytes;
    unsigned char *before = oc_bits(&f->twin, &bytes), *now = oc_bits(&f->p, &bytes);
    bool stepped = memcmp(before, now, bytes) != 0;
    assert_true(stepped || status != PH_OK);
    if (stepped)
        assert_ok(oc_step(&f->twin, f->plain));
    oc_equal(&f->p, &f->twin, t_sweep_place());
    oc_gradients(&f->p, UINT64_MAX);
    oc_gradients(&f->twin, UINT64_MAX);
    assert_ok(oc_step(&f->p, f->optimizer));
    assert_ok(oc_step(&f->twin, f->plain));
    oc_equal(&f->p, &f->twin, t_sweep_place());
    free(before);
    free(now);
}

/* Host memory, then each call of the driver: the launch of an update that fails after that of the
 * counters leaves these where they were. */
static void sweep_steps(const oc_rule *rule)
{
    failing f;
    oc_open(&f.p, PH_DTYPE_F32, shapes, 12, 8);
    oc_open(&f.twin, PH_DTYPE_F32, shapes, 12, 8);
    f.optimizer = oc_create(rule, f.p.module);
    f.plain = oc_create(rule, f.twin.module);
    oc_gradients(&f.p, UINT64_MAX);
    oc_gradients(&f.twin, UINT64_MAX);
    const t_swept swept = {.name = "step", .run = run_step, .reset = check_step, .user = &f};
    t_sweep(&swept, &t_host_memory_fault);
    t_faults faults = t_sweep(&swept, t_driver_fault(PH__R_LAUNCH_FAILED));
    /* the state of the stream, the launch of the counters, that of the update */
    assert_true(faults.failures > (rule->kind == OC_ADAMW ? 2 : 1));
    ph_optimizer_destroy(f.optimizer);
    ph_optimizer_destroy(f.plain);
    oc_close(&f.p);
    oc_close(&f.twin);
}

TEST(test_failed_steps)
{
    oc_rule adam = oc_adam_rule(1);
    sweep_steps(&adam);
    for (size_t k = 0; k < oc_kind_rule_count(); k++) {
        oc_rule rule = oc_kind_rule(k);
        sweep_steps(&rule);
    }
}

/* The n-th allocation fails, for every n: there is no optimizer then, and nothing is left. */
TEST(test_creation_without_host_memory)
{
    oc_problem p;
    ph_optimizer *optimizer = NULL;
    ph_status status = PH_ERROR_HOST_MEMORY;
    int64_t at = 0;
    ph_adam_options groups[] = {{.lr = 0.1, .parameters = NAMES("p1*")}};
    ph_adam_options options = {.groups = groups, .group_count = 1};
    oc_open(&p, PH_DTYPE_F32, shapes, 12, 9);
    for (; status != PH_OK; at++) {
        ph__alloc_fail_after(at);
        status = ph_adam_create(&optimizer, p.module, &options);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        assert_true((status == PH_OK) == (optimizer != NULL));
        if (status != PH_OK)
            assert_error(status, PH_ERROR_HOST_MEMORY, "memory");
        assert_ok(ph_device_synchronize(p.scene.device));
    }
    assert_true(at > 14);
    ph_optimizer_destroy(optimizer);
    assert_ok(ph_device_synchronize(p.scene.device));
    oc_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_group_has_its_options_and_its_rate),
        cmocka_unit_test(test_many_groups),
        cmocka_unit_test(test_unlike_states),
        cmocka_unit_test(test_misuse_of_groups),
        cmocka_unit_test(options_of_every_optimizer_are_checked),
        cmocka_unit_test(test_zero_grad_in_place),
        cmocka_unit_test(test_failed_steps),
        cmocka_unit_test(test_creation_without_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
