/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_scratch.c: callables whose forward makes tensors of its own without the tape, as
 * torch.empty in a forward does. */
#include "support/nets.h"
#include "support/test.h"

enum {
    WEIGHTS = 6
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

/* y = x + 3 x', or x x 3 x', which backward reads again: x' is a copy of x that no gradient goes
 * to. */
static void forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    ph_tensor *scratch;
    ph_status status = ph_tensor_create(&scratch, s.device, PH_DTYPE_F32, PH_SHAPE(2));
    if (status != PH_OK) {
        ph_tape_check(tape, status);
        return;
    }
    ph_tensor_copy(tape, scratch, ph_detach(tape, in[0]));
    ph_tensor_scale(tape, scratch, 3);
    out[0] = *(const bool *)self ? ph_mul(tape, in[0], scratch) : ph_add(tape, in[0], scratch);
    ph_tensor_release(scratch);
}

static void check(bool product)
{
    ph_module *plain, *graphed;
    ph_tensor *weights[WEIGHTS], *sample = t_leaf(&s, PH_SHAPE(2), 1, 2),
                                 *x = t_leaf(&s, PH_SHAPE(2), 2, 4);
    const ph_sample samples = {.tensors = &sample, .count = 1};
    const ph_module_desc desc = {.name = "scratch", .forward = forward, .self = &product};
    ph_graph *graphs[2];
    assert_ok(ph_module_create(&plain, s.device, &desc));
    assert_ok(ph_make_graphed_callables(&graphed, &plain, &samples, 1, NULL));
    for (int i = 0; i < WEIGHTS; i++)
        weights[i] = t_leaf(&s, PH_SHAPE(2), 100 + (float)i, 200);
    for (int round = 0; round < 2; round++) {
        t_zero_grad(x);
        ph_tensor *y = ph_call(s.tape, graphed, x);
        if (product)
            t_expect_values(s.tape, y, PH_SHAPE(2), 12, 48);
        else
            t_expect_values(s.tape, y, PH_SHAPE(2), 8, 16);
        ph_backward(s.tape, ph_sum(s.tape, y));
        assert_ok(ph_tape_clear(s.tape));
        t_expect_grad(&s, x, product ? 6 : 1, product ? 12 : 1);
    }
    assert_ok(ph_graphed_callable_graphs(&graphs[0], &graphs[1], graphed));
    assert_ok(ph_graph_check_inputs(graphs[0]));
    for (int i = 0; i < WEIGHTS; i++) {
        t_expect_values(s.tape, weights[i], PH_SHAPE(2), 100 + (float)i, 200);
        ph_tensor_release(weights[i]);
    }
    ph_tensor_release(sample);
    ph_tensor_release(x);
    ph_module_release(graphed);
    ph_module_release(plain);
}

TEST(test_scratch_of_forward)
{
    check(false);
}

TEST(test_scratch_that_backward_reads)
{
    check(true);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_scratch_of_forward),
        CASE(test_scratch_that_backward_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
