/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_plan_beside.c: what else uses the pool of planned graphed callables: other
 * callables, backwards of other outputs, and memory that forward keeps. */
#include "support/branches.h"
#include "support/test.h"

enum {
    N = 3000
};
static t_scene s;

FIXTURE(open_scene)
{
    t_scene_open(&s);
    return 0;
}

FIXTURE(close_scene)
{
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

static const ph_graphed_options planned = {.plan = true};

/* y = (2 x + 1)^2, by way of temporaries. */
static void poly_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    ph_tensor *twice = ph_mul_scalar(tape, in[0], 2), *more = ph_add_scalar(tape, twice, 1);
    out[0] = ph_mul(tape, more, more);
}

static ph_graph_memory memory_of(const ph_module *graphed, bool backward)
{
    ph_graph_memory memory;
    ph_graph *graphs[2];
    assert_ok(ph_graphed_callable_graphs(&graphs[0], &graphs[1], graphed));
    assert_ok(ph_graph_get_memory(&memory, graphs[backward]));
    return memory;
}

/* x of ones: y = 9, and its gradient is 4 (2 x + 1) = 12. */
static void expect_results(ph_module *graphed)
{
    ph_tensor *x = ph_tensor_retain(ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(N), 1));
    float values[N];
    assert_ok(ph_tensor_set_requires_grad(x, true));
    for (int round = 0; round < 2; round++) {
        ph_tensor *y = ph_call(s.tape, graphed, x);
        assert_ok(ph_tape_status(s.tape));
        assert_ok(ph_tensor_read(s.tape, y, values, sizeof values));
        for (int i = 0; i < N; i++)
            assert_true(values[i] == 9);
        t_zero_grad(x);
        ph_backward(s.tape, ph_sum(s.tape, y));
        assert_ok(ph_tape_clear(s.tape));
        assert_ok(ph_tensor_read(s.tape, ph_tensor_grad(x), values, sizeof values));
        for (int i = 0; i < N; i++)
            assert_true(values[i] == 12);
    }
    ph_tensor_release(x);
}

/* Two sets of one pool, and one more without a plan. */
TEST(sets_of_one_pool_do_not_disturb_each_other)
{
    ph_pool *pool;

    ph_module *plain[3], *graphed[3];
    ph_tensor *x = gn_sample(&s, PH_SHAPE(N), true);
    assert_ok(ph_pool_create(&pool, s.device, NULL));
    for (int i = 0; i < 3; i++) {
        plain[i] = gn_function(&s, "poly", poly_forward, NULL, 1, 1);
        graphed[i] = gn_graph_one(plain[i], x, &(ph_graphed_options){.plan = i < 2, .pool = pool});
        assert_true((memory_of(graphed[i], false).planned > 0) == (i < 2));
        for (int k = 0; k <= i; k++)
            expect_results(graphed[k]);
    }
    for (int i = 0; i < 3; i++) {
        ph_module_release(graphed[i]);
        ph_module_release(plain[i]);
    }
    ph_pool_release(pool);
    ph_tensor_release(x);
}

/* y = (2 x + 1)^2. Keeps a temporary until the next call, of whichever module. */
static void keep_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    ph_tensor **kept = self, *twice = ph_mul_scalar(tape, in[0], 2);
    ph_tensor_release(*kept);
    *kept = ph_tensor_retain(ph_add_scalar(tape, twice, 1));
    ph_tensor *more = ph_add_scalar(tape, twice, 1);
    out[0] = ph_mul(tape, more, more);
}

TEST(memory_that_forward_keeps_is_an_allocation)
{
    enum {
        COUNT = 3
    };
    ph_tensor *kept = NULL, *x = gn_sample(&s, PH_SHAPE(N), true);
    ph_module *plain[COUNT], *graphed[COUNT];
    ph_sample samples[COUNT];
    ph_allocation found;
    for (int i = 0; i < COUNT; i++) {
        plain[i] = gn_function(&s, "keep", keep_forward, &kept, 1, 1);
        samples[i] = (ph_sample){.tensors = &x, .count = 1};
    }
    assert_ok(ph_make_graphed_callables(graphed, plain, samples, COUNT, &planned));
    assert_null(memory_of(graphed[0], false).plan_ended);
    assert_ok(ph_memory_lookup(&found, s.device, ph_tensor_data(kept)));
    assert_int_equal(found.requested, N * sizeof(float));
    for (int i = 0; i < COUNT; i++)
        expect_results(graphed[i]);
    ph_tensor_release(kept);
    assert_error(ph_memory_lookup(&found, s.device, found.base), PH_ERROR_NOT_FOUND, "");
    for (int i = 0; i < COUNT; i++) {
        expect_results(graphed[i]);
        ph_module_release(graphed[i]);
        ph_module_release(plain[i]);
    }
    ph_tensor_release(x);
}

/* What the captures took that were noted goes back to the device. */
TEST(probes_leave_no_memory)
{
    ph_memory_stats before, after, of_pool;
    ph_pool *pool;
    ph_module *plain = gn_function(&s, "poly", poly_forward, NULL, 1, 1);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(N), true);
    assert_ok(ph_pool_create(&pool, s.device, NULL));
    assert_ok(ph_memory_trim(s.device));
    assert_ok(ph_memory_get_stats(&before, s.device));
    ph_module *graphed = gn_graph_one(plain, x, &(ph_graphed_options){.plan = true, .pool = pool});
    assert_ok(ph_memory_trim(s.device));
    assert_ok(ph_memory_get_stats(&after, s.device));
    assert_ok(ph_pool_stats(&of_pool, pool));
    assert_int_equal(after.reserved - before.reserved, of_pool.reserved);
    assert_true(of_pool.reserved > 0);
    ph_module_release(graphed);
    ph_module_release(plain);
    ph_pool_release(pool);
    ph_tensor_release(x);
}

/* Backwards of other sets of outputs are captured later, into memory that is free by then. */
TEST(other_backwards_come_without_a_plan)
{
    side plain, source;
    side_open(&s, &plain);
    side_open(&s, &source);
    new_inputs(&s, &source, 9);
    ph_module *graphed = gn_graph(source.module, source.in, 2,
                                  &(ph_graphed_options){.plan = true, .max_backwards = ALL});
    assert_true(memory_of(graphed, false).planned > 0);
    drop_inputs(&source);
    assert_ok(ph_tape_clear(s.tape));
    for (unsigned used = 1; used <= ALL; used++) {
        new_inputs(&s, &plain, used);
        new_inputs(&s, &source, used);
        backward_of(&s, &plain, plain.module, used);
        backward_of(&s, &source, graphed, used);
        gn_expect_same_parameters(&s, graphed, plain.module, "outputs");
        ph_optimizer_zero_grad(s.tape, plain.sgd);
        ph_optimizer_zero_grad(s.tape, source.sgd);
        drop_inputs(&plain);
        drop_inputs(&source);
        assert_ok(ph_tape_clear(s.tape));
    }
    assert_int_equal(gn_info(graphed).backwards, ALL);
    ph_module_release(graphed);
    side_close(&plain);
    side_close(&source);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(sets_of_one_pool_do_not_disturb_each_other),
        CASE(memory_that_forward_keeps_is_an_allocation),
        CASE(probes_leave_no_memory),
        CASE(other_backwards_come_without_a_plan),
    };
    return cmocka_run_group_tests_name("nn.graphed_plan_beside", tests, NULL, NULL);
}
