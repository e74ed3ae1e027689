/* SPDX-License-Identifier: MIT */
/* tests/nn/memory_plan.c: training steps and callables' networks in planned memory. */
#include "support/graphed_nets.h"
#include "support/test.h"

enum {
    REPLAYS = 5
};

typedef struct training {
    t_scene scene;
    ph_module *module;
    ph_optimizer *optimizer;
    ph_tensor *x, *y;
    ph_graph *graph;
    int runs;
} training;

static ph_status step(ph_stream *stream, void *user)
{
    training *t = user;
    (void)stream;
    t->runs++;
    ph_optimizer_zero_grad(t->scene.tape, t->optimizer);
    ph_backward(t->scene.tape,
                ph_mse(t->scene.tape, ph_call(t->scene.tape, t->module, t->x), t->y));
    ph_optimizer_step(t->scene.tape, t->optimizer);
    return ph_tape_clear(t->scene.tape);
}

/* The module after an eager step and some replays. Gives what was alive at once in its pool, as the
 * pool counts. */
static size_t train(training *t, gn_kind kind, bool plan, ph_graph_memory *memory)
{
    ph_generator *generator;
    ph_memory_stats stats;
    ph_pool *pool;
    *memory = (ph_graph_memory){0};
    t->module = gn_net(&t->scene, kind, 5);
    t->optimizer = gn_sgd(t->module);
    t->x = ph_tensor_retain(gn_random(&t->scene, gn_shape(kind), 1));
    t->y = ph_tensor_retain(gn_random(&t->scene, gn_shape(kind), 2));
    assert_ok(ph_tape_clear(t->scene.tape));
    assert_ok(ph_generator_default(&generator, t->scene.device));
    assert_ok(ph_generator_seed(generator, 7));
    ph_generator_release(generator);
    assert_ok(step(t->scene.stream, t));
    t->runs = 0;
    assert_ok(ph_graph_create(&t->graph, NULL));
    assert_ok(ph_pool_create(&pool, t->scene.device, NULL));
    const ph_capture_options options = {.plan = plan, .pool = pool};
    assert_ok(ph_graph_capture(t->graph, t->scene.stream, &options, step, t));
    assert_ok(ph_pool_stats(&stats, pool));
    ph_pool_release(pool);
    assert_int_equal(t->runs, plan ? 2 : 1);
    for (int i = 0; i < REPLAYS; i++)
        assert_ok(ph_graph_replay(t->graph, t->scene.stream));
    assert_ok(ph_graph_get_memory(memory, t->graph));
    return stats.allocated_peak;
}

static void drop(training *t)
{
    ph_graph_destroy(t->graph);
    ph_tensor_release(t->x);
    ph_tensor_release(t->y);
    ph_optimizer_destroy(t->optimizer);
    ph_module_release(t->module);
}

TEST(planned_training_steps_have_the_same_bits)
{
    for (int kind = 0; kind < GN_KINDS; kind++) {
        training plain = {.runs = 0}, planned;
        ph_graph_memory memory;
        t_scene_open(&plain.scene);
        planned = plain;
        size_t alive = train(&plain, (gn_kind)kind, false, &memory);
        (void)train(&planned, (gn_kind)kind, true, &memory);
        gn_expect_same_parameters(&plain.scene, planned.module, plain.module,
                                  gn_name((gn_kind)kind));
        assert_null(memory.plan_ended);
        assert_int_equal(memory.plan_bound, alive);
        assert_true(memory.planned >= alive && alive > 0);
        assert_true((double)memory.planned <= 1.03 * (double)alive);
        drop(&plain);
        drop(&planned);
        t_scene_close(&plain.scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planned_training_steps_have_the_same_bits),
    };
    return cmocka_run_group_tests_name("nn.memory_plan", tests, NULL, NULL);
}
