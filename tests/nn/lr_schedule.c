/* SPDX-License-Identifier: MIT */
/* tests/nn/lr_schedule.c: the learning rate is a cell of each graph: a schedule needs no new
 * capture. */
#include "support/optimizer_check.h"
#include "support/test.h"
#include <math.h>

enum {
    STEPS = 12
};

static const oc_rule rules[] = {
    {.kind = OC_SGD, .lr = 0.1, .momentum = 0.9, .weight_decay = 0.01},
    {.kind = OC_SGD, .lr = 0.1},
    {.kind = OC_ADAM, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
    {.kind = OC_ADAMW, .lr = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1},
    {.kind = OC_ADAMW,
     .lr = 0.1,
     .beta1 = 0.9,
     .beta2 = 0.95,
     .eps = 1e-8,
     .maximize = true,
     .amsgrad = true},
};
enum {
    RULES = sizeof rules / sizeof rules[0]
};

/* A cosine with a warm-up. */
static double rate_of(int step)
{
    double warm = (step + 1) / 4.0;
    return 0.1 * (warm < 1 ? warm : 0.5 + 0.5 * cos(3.14159 * step / STEPS));
}

/* One graph for the whole schedule: the same bits as eager steps, which are those of the
 * reference. */
TEST(one_graph_follows_the_rate_as_eager_steps_do)
{
    for (size_t k = 0; k < RULES; k++) {
        oc_problem eager, replayed;
        oc_rule rule = rules[k];
        oc_open(&eager, PH_DTYPE_F32, NULL, 0, k);
        oc_open(&replayed, PH_DTYPE_F32, NULL, 0, k);
        ph_optimizer *a = oc_create(&rule, eager.module), *b = oc_create(&rule, replayed.module);
        ph_graph *graph = NULL;
        for (int i = 0; i < STEPS; i++) {
            rule.lr = rate_of(i);
            assert_ok(ph_optimizer_set_lr(a, rule.lr));
            assert_ok(ph_optimizer_set_lr(b, rule.lr));
            assert_true(ph_optimizer_lr(a) == rule.lr);
            oc_gradients(&eager, UINT64_MAX);
            oc_gradients(&replayed, UINT64_MAX);
            assert_ok(oc_step(&eager, a));
            oc_reference(&eager, &rule);
            assert_ok(graph ? ph_graph_replay(graph, replayed.scene.stream)
                            : oc_step(&replayed, b));
            if (!graph)
                graph = oc_capture_step(&replayed, b);
            oc_equal(&eager, &replayed, "schedule");
            oc_compare(&eager, 1e-5, "schedule");
        }
        ph_graph_destroy(graph);
        ph_optimizer_destroy(a);
        ph_optimizer_destroy(b);
        oc_close(&eager);
        oc_close(&replayed);
    }
}

/* Replays that are in flight keep the rate that they were launched with. */
TEST(test_in_flight)
{
    oc_problem p;
    oc_rule rule = rules[0];
    t_gate gate = {0};
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 3);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    oc_gradients(&p, UINT64_MAX);
    assert_ok(oc_step(&p, optimizer));
    oc_reference(&p, &rule);
    ph_graph *graph = oc_capture_step(&p, optimizer);
    assert_ok(t_gate_wait_guarded(&gate, p.scene.stream));
    for (int i = 0; i < 5; i++) {
        rule.lr = rate_of(i);
        assert_ok(ph_optimizer_set_lr(optimizer, rule.lr));
        assert_ok(ph_graph_replay(graph, p.scene.stream));
        oc_reference(&p, &rule);
    }
    assert_ok(ph_optimizer_set_lr(optimizer, 1e6));
    t_gate_open(&gate);
    oc_compare(&p, 1e-5, "in flight");
    ph_graph_destroy(graph);
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

static ph_status two_steps(ph_stream *stream, void *user)
{
    oc_capture *c = user;
    (void)stream;
    PH_TRY(oc_step(c->problem, c->optimizer));
    return oc_step(c->problem, c->optimizer);
}

/* A capture with two steps has one cell; two graphs of an optimizer have one each. */
TEST(the_steps_of_a_capture_share_one_cell)
{
    oc_problem p;
    oc_rule rule = rules[2];
    ph_graph *twice;
    ph_graph_memory one, two;
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 3);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    oc_gradients(&p, UINT64_MAX);
    assert_ok(oc_step(&p, optimizer));
    oc_reference(&p, &rule);
    ph_graph *once = oc_capture_step(&p, optimizer);
    assert_ok(ph_graph_create(&twice, NULL));
    assert_ok(
        ph_graph_capture(twice, p.scene.stream, NULL, two_steps, &(oc_capture){&p, optimizer}));
    assert_ok(ph_graph_get_memory(&one, once));
    assert_ok(ph_graph_get_memory(&two, twice));
    assert_true(one.cells > 0);
    assert_int_equal(one.cells, two.cells);
    for (int i = 0; i < 4; i++) {
        rule.lr = rate_of(i);
        assert_ok(ph_optimizer_set_lr(optimizer, rule.lr));
        assert_ok(ph_graph_replay(i % 2 ? once : twice, p.scene.stream));
        for (int k = 0; k < 2 - i % 2; k++)
            oc_reference(&p, &rule);
        oc_compare(&p, 1e-5, "two graphs");
    }
    ph_graph_destroy(once);
    ph_graph_destroy(twice);
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

/* A capture that is given up leaves nothing behind, and the next one finds a new cell. */
static ph_status step_and_fail(ph_stream *stream, void *user)
{
    PH_TRY(oc_capture_body(stream, user));
    return ph_fail(PH_ERROR_CALLER, "given up");
}

TEST(test_given_up)
{
    oc_problem p;
    oc_rule rule = rules[0];
    ph_graph *graph;
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 3);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    oc_capture c = {&p, optimizer};
    oc_gradients(&p, UINT64_MAX);
    assert_ok(oc_step(&p, optimizer));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_stream_synchronize(p.scene.stream)); /* a launch that waits has memory too */
    int64_t live = ph__alloc_live();
    for (int i = 0; i < 3; i++) {
        assert_error(ph_graph_capture(graph, p.scene.stream, NULL, step_and_fail, &c),
                     PH_ERROR_CALLER, "given up");
        assert_ok(ph_graph_reset(graph));
        if (i == 0)
            live = ph__alloc_live();
    }
    assert_int_equal(ph__alloc_live(), live);
    assert_ok(ph_graph_capture(graph, p.scene.stream, NULL, oc_capture_body, &c));
    assert_ok(ph_graph_replay(graph, p.scene.stream));
    oc_reference(&p, &rule);
    oc_reference(&p, &rule);
    oc_compare(&p, 1e-5, "after captures that were given up");
    ph_graph_destroy(graph);
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

/* set_lr from another thread while replays go out: each takes one of the rates, whole. */
static atomic_bool stop;

static void *set_rates(void *optimizer)
{
    for (int i = 0; !atomic_load(&stop); i++)
        if (ph_optimizer_set_lr(optimizer, i % 2 ? 0x1.000001p-4 : 0x1.fffffep-9) != PH_OK)
            return optimizer;
    return NULL;
}

TEST(another_thread_may_set_the_rate_at_any_time)
{
    oc_problem p;
    oc_rule rule = {.kind = OC_SGD, .lr = 0x1.000001p-4};
    pthread_t thread;
    ph_shape shape = {1, {3}};
    oc_open(&p, PH_DTYPE_F64, &shape, 1, 3);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    oc_gradients(&p, UINT64_MAX);
    ph_graph *graph = oc_capture_step(&p, optimizer);
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&thread, NULL, set_rates, optimizer), 0);
    for (int i = 0; i < 200; i++) {
        double got[3];
        const oc_param *x = &p.param[0];
        assert_ok(i % 2 ? oc_step(&p, optimizer) : ph_graph_replay(graph, p.scene.stream));
        assert_ok(ph_tensor_read(p.scene.tape, x->tensor, got, sizeof got));
        double a = x->at[0] - 0x1.000001p-4 * x->g[0], b = x->at[0] - 0x1.fffffep-9 * x->g[0];
        assert_true(fabs(got[0] - a) < 1e-12 || fabs(got[0] - b) < 1e-12);
        memcpy(p.param[0].at, got, sizeof got);
    }
    atomic_store(&stop, true);
    void *failed;
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    ph_graph_destroy(graph);
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_graph_follows_the_rate_as_eager_steps_do),
        cmocka_unit_test(test_in_flight),
        cmocka_unit_test(the_steps_of_a_capture_share_one_cell),
        cmocka_unit_test(test_given_up),
        cmocka_unit_test(another_thread_may_set_the_rate_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
