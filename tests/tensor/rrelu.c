/* SPDX-License-Identifier: MIT */
/* tests/tensor/rrelu.c: the randomized leaky ReLU: its slopes, its gradient, its memory, and
 * that all of it is the same eager, captured and replayed, in checkpoints and graphed callables. */
#include "support/draws.h"
#include "support/grads.h"
#include "support/graphed_nets.h"
#include "support/op_check.h"
#include "support/test.h"
#include <math.h>

enum {
    N = 20011
};
static const ph_dtype floats[] = {PH_DTYPE_F32, PH_DTYPE_F64, PH_DTYPE_F16, PH_DTYPE_BF16};

/* ---- slopes ---- those that ph_uniform gives in their place, and 1 above 0; backward has the
 * same ones. */
TEST(slopes_are_the_uniform_draws_in_both_directions)
{
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 17);
    for (size_t k = 0; k < 4; k++) {
        const unsigned words = floats[k] == PH_DTYPE_F64 ? 8 : 4;
        ph_tensor *x = ph_tensor_retain(ph_randn(s.tape, floats[k], PH_SHAPE(N)));
        ph_tensor *dy = ph_randn(s.tape, floats[k], PH_SHAPE(N)), *dx;
        uint64_t from = t_offset(g);
        ph_tensor *slope = ph_uniform(s.tape, floats[k], PH_SHAPE(N), 0.125, 0.3);
        slope = ph_where(s.tape, ph_gt(s.tape, x, ph_zeros(s.tape, floats[k], PH_SHAPE(1))),
                         ph_full(s.tape, floats[k], PH_SHAPE(1), 1), slope);
        ph_tensor *want = ph_mul(s.tape, x, slope), *want_dx = ph_mul(s.tape, dy, slope);
        assert_ok(ph_tensor_set_requires_grad(x, true));
        assert_ok(ph_generator_set_offset(g, from));
        ph_tensor *y = ph_rrelu(s.tape, x, 0.125, 0.3);
        assert_int_equal(t_offset(g), from + words);
        ph_grad(s.tape, &dx, &x, 1, &y, &dy, 1, NULL);
        assert_ok(ph_tape_status(s.tape));
        assert_true(t_same(&s, y, want));
        assert_true(t_same(&s, dx, want_dx));
        assert_ok(ph_tape_clear(s.tape));
        ph_tensor_release(x);
    }
    ph_generator_release(g);
    t_scene_close(&s);
}

/* Slopes of [lower, upper) with the mean and the variance of a uniform. */
TEST(test_slopes_are_uniform)
{
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 18);
    for (size_t k = 0; k < 4; k++) {
        ph_tensor *x = ph_full(s.tape, floats[k], PH_SHAPE(1 << 16), -1);
        double *y = t_bytes(&s, ph_cast(s.tape, ph_rrelu(s.tape, x, -0.5, 1), PH_DTYPE_F64));
        double sum = 0, squares = 0;
        for (int i = 0; i < 1 << 16; i++) {
            assert_true(-y[i] >= -0.5 && -y[i] < 1);
            sum += -y[i] - 0.25;
            squares += (-y[i] - 0.25) * (-y[i] - 0.25);
        }
        /* bf16 has 256 uniforms, whose mean is half a step low. */
        const double low = floats[k] == PH_DTYPE_BF16  ? 1.5 / 512
                           : floats[k] == PH_DTYPE_F16 ? 1.5 / 4096
                                                       : 0;
        assert_true(fabs(sum / (1 << 16) + low) < 4 * sqrt(0.1875) / 256);
        assert_true(fabs(squares / (1 << 16) - 0.1875) < 4 * sqrt(0.0281) / 256 + low / 100);
        free(y);
        assert_ok(ph_tape_clear(s.tape));
    }
    ph_generator_release(g);
    t_scene_close(&s);
}

TEST(special_values_and_empty_tensors_pass_through_rrelu)
{
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 18);
    ph_tensor *x = t_leaf(&s, PH_SHAPE(5), NAN, INFINITY, -INFINITY, 0, -4);
    ph_tensor *y = ph_rrelu(s.tape, x, 0.25, 0.25);
    float *v = t_bytes(&s, y);
    assert_true(isnan(v[0]) && v[1] == INFINITY && v[2] == -INFINITY && v[3] == 0 && v[4] == -1);
    free(v);
    /* At 0 and for NaN the slope is one that was drawn, as leaky_relu's is its own. */
    ph_backward_from(s.tape, &y, (ph_tensor *[]){ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(5), 2)}, 1,
                     NULL);
    t_expect_grad(&s, x, 0.5f, 2, 0.5f, 0.5f, 0.5f);
    uint64_t offset = t_offset(g);
    ph_tensor *none = ph_tensor_retain(ph_zeros(s.tape, PH_DTYPE_F16, PH_SHAPE(3, 0)));
    assert_ok(ph_tensor_set_requires_grad(none, true));
    y = ph_rrelu(s.tape, none, 0.1, 0.3);
    ph_backward(s.tape, ph_sum(s.tape, ph_cast(s.tape, y, PH_DTYPE_F32)));
    assert_ok(ph_tape_clear(s.tape));
    assert_int_equal(ph_tensor_count(ph_tensor_grad(none)), 0);
    assert_int_equal(t_offset(g), offset);
    ph_tensor_release(none);
    ph_tensor_release(x);
    ph_generator_release(g);
    t_scene_close(&s);
}

/* ---- against differences ---- with both ends alike it is no matter of chance: any shapes and
 * strides, poisoned outputs, guard zones. */
static void apply(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, const op_trial *trial)
{
    (void)trial;
    out[0] = ph_rrelu(tape, in[0], 0.125, 0.125);
}

static void reference(op_array *out, const op_array *in, const op_trial *trial)
{
    (void)trial;
    op_array_make(&out[0], &in[0].shape);
    for (int64_t i = 0; i < in[0].count; i++)
        out[0].at[i] = in[0].at[i] > 0 ? in[0].at[i] : 0.125 * in[0].at[i];
}

TEST(the_gradient_of_rrelu_matches_differences)
{
    ph_device *device;
    const op_spec spec = {.name = "rrelu",
                          .in_count = 1,
                          .in = {{.gap = 0.01}},
                          .shapes = op_shapes_same,
                          .apply = apply,
                          .reference = reference};
    assert_ok(ph_device_open(&device, t_device_name(), NULL));
    op_check(device, &spec);
    ph_device_release(device);
}

/* The slopes, as many bytes as x, are all that the history keeps; without gradients nothing. */
TEST(the_history_keeps_the_slopes_alone)
{
    t_scene s;
    t_scene_open(&s);
    for (size_t k = 0; k < 4; k++) {
        const size_t bytes = ph_dtype_size(floats[k]) << 16;
        ph_tensor *x = ph_tensor_retain(ph_zeros(s.tape, floats[k], PH_SHAPE(1 << 16)));
        assert_ok(ph_tape_clear(s.tape));
        size_t base = t_allocated(&s);
        assert_non_null(ph_rrelu(s.tape, x, 0.1, 0.3));
        assert_int_equal(t_allocated(&s) - base, bytes);
        assert_int_equal(t_info(&s).saved, 0);
        assert_ok(ph_tensor_set_requires_grad(x, true));
        base = t_allocated(&s);
        assert_non_null(ph_rrelu(s.tape, x, 0.1, 0.3));
        assert_int_equal(t_allocated(&s) - base, 2 * bytes);
        assert_int_equal(t_info(&s).saved, 1);
        assert_ok(ph_tape_clear(s.tape));
        ph_tensor_release(x);
    }
    t_scene_close(&s);
}

/* Autocast leaves it alone, as it does leaky_relu. */
TEST(autocast_leaves_rrelu_in_its_dtype)
{
    t_scene s;
    t_scene_open(&s);
    (void)ph_tape_set_autocast(s.tape, (ph_autocast){.dtype = PH_DTYPE_BF16});
    for (size_t k = 0; k < 4; k++) {
        ph_tensor *x = ph_full(s.tape, floats[k], PH_SHAPE(4), -1);
        assert_int_equal(ph_tensor_dtype(ph_rrelu(s.tape, x, 0.1, 0.3)), floats[k]);
        assert_int_equal(ph_tensor_dtype(ph_leaky_relu(s.tape, x, 0.2)), floats[k]);
    }
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

static ph_tensor *draw(ph_tape *tape, ph_tensor *x)
{
    return ph_rrelu(tape, x, 0.1, 0.3);
}

TEST(test_memory_of_a_turned_one)
{
    t_expect_turned_is_not_kept(draw, 256 << 10);
}

/* Turned, x has the slopes that its dense copy has, and its gradient. */
TEST(test_slopes_of_a_turned_one)
{
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 19);
    for (size_t k = 0; k < 4; k++) {
        ph_tensor *x = ph_tensor_retain(ph_randn(s.tape, floats[k], PH_SHAPE(61, 33))), *y[2],
                  *dx[2];
        ph_tensor *dy = ph_randn(s.tape, floats[k], PH_SHAPE(33, 61));
        const uint64_t from = t_offset(g);
        assert_ok(ph_tensor_set_requires_grad(x, true));
        for (int dense = 0; dense < 2; dense++) {
            ph_tensor *in = ph_transpose(s.tape, x, 0, 1);
            assert_ok(ph_generator_set_offset(g, from));
            y[dense] = ph_rrelu(s.tape, dense ? ph_contiguous(s.tape, in) : in, 0.1, 0.3);
            ph_grad(s.tape, &dx[dense], &x, 1, &y[dense], &dy, 1, NULL);
        }
        assert_ok(ph_tape_status(s.tape));
        assert_true(t_same(&s, y[0], y[1]));
        assert_true(t_same(&s, dx[0], dx[1]));
        assert_ok(ph_tape_clear(s.tape));
        ph_tensor_release(x);
    }
    ph_generator_release(g);
    t_scene_close(&s);
}

/* ---- eager, captured, replayed; with a checkpoint, and without ---- */
typedef struct pass {
    ph_tensor *x, *dy;
    bool checkpoint;
} pass;

static void chain(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *unused)
{
    (void)unused;
    ph_tensor *y = ph_rrelu(tape, in[0], 0.1, 0.3);
    out[0] = ph_rrelu(tape, ph_add_scalar(tape, y, -0.5), 0.25, 0.75);
}

static ph_tensor *forward_and_backward(ph_tape *tape, void *user)
{
    pass *p = user;
    ph_tensor *y, *dx;
    if (p->checkpoint)
        ph_checkpoint(tape, chain, NULL, &y, 1, &p->x, 1);
    else
        chain(tape, &y, &p->x, NULL);
    ph_grad(tape, &dx, &p->x, 1, &y, &p->dy, 1, NULL);
    return t_join(
        tape, (ph_tensor *[]){ph_detach(tape, y), dx, ph_rand(tape, PH_DTYPE_F32, PH_SHAPE(10))},
        3);
}

TEST(test_captured_and_replayed)
{
    t_scene s;
    ph_tensor *out[2];
    ph_graph *graph[2];
    pass p;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 4);
    p.x = ph_tensor_retain(ph_randn(s.tape, PH_DTYPE_F32, PH_SHAPE(N)));
    p.dy = ph_tensor_retain(ph_randn(s.tape, PH_DTYPE_F32, PH_SHAPE(N)));
    assert_ok(ph_tape_clear(s.tape));
    assert_ok(ph_tensor_set_requires_grad(p.x, true));
    for (int k = 0; k < 2; k++) {
        p.checkpoint = k;
        graph[k] = t_capture(&s, forward_and_backward, &p, &out[k]);
    }
    for (uint64_t seed = 0; seed < 3; seed++) {
        p.checkpoint = false;
        assert_ok(ph_generator_seed(g, seed));
        ph_tensor_release(t_now(&s, forward_and_backward, &p));
        ph_tensor *want = t_now(&s, forward_and_backward, &p);
        for (int k = 0; k < 2; k++) {
            p.checkpoint = k;
            assert_ok(ph_generator_seed(g, seed));
            ph_tensor_release(t_now(&s, forward_and_backward, &p));
            ph_tensor *got = t_now(&s, forward_and_backward, &p);
            assert_true(t_same(&s, got, want));
            assert_ok(ph_generator_seed(g, seed));
            assert_ok(ph_graph_replay(graph[k], s.stream));
            assert_false(t_same(&s, out[k], want));
            assert_ok(ph_graph_replay(graph[k], s.stream));
            assert_true(t_same(&s, out[k], want));
            ph_tensor_release(got);
        }
        ph_tensor_release(want);
    }
    for (int k = 0; k < 2; k++) {
        ph_tensor_release(out[k]);
        ph_graph_destroy(graph[k]);
    }
    ph_tensor_release(p.x);
    ph_tensor_release(p.dy);
    ph_generator_release(g);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* ---- graphed ---- forward and backward are graphs of their own there: backward has the slopes
 * of the forward before it. */
TEST(graphed_rrelu_has_the_slopes_of_its_forward)
{
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 4);
    ph_module *module = gn_function(&s, "rrelu", chain, NULL, 1, 1);
    ph_tensor *sample = gn_sample(&s, PH_SHAPE(61, 7), true);
    ph_module *graphed = gn_graph_one(module, sample, &(ph_graphed_options){.generator = g});
    for (uint64_t i = 0; i < 4; i++) {
        ph_tensor *x = ph_tensor_retain(gn_random(&s, PH_SHAPE(61, 7), 100 + i)), *y[2], *dx[2];
        ph_tensor *dy = ph_tensor_retain(gn_random(&s, PH_SHAPE(61, 7), 200 + i));
        assert_ok(ph_tape_clear(s.tape));
        assert_ok(ph_tensor_set_requires_grad(x, true));
        for (int k = 0; k < 2; k++) {
            ph_tensor *out;
            assert_ok(ph_generator_seed(g, i));
            out = ph_call(s.tape, k ? graphed : module, x);
            ph_grad(s.tape, &dx[k], &x, 1, &out, &dy, 1, NULL);
            y[k] = ph_tensor_retain(ph_clone(s.tape, ph_detach(s.tape, out)));
            dx[k] = ph_tensor_retain(ph_clone(s.tape, dx[k]));
            assert_ok(ph_tape_clear(s.tape));
        }
        gn_expect_same(&s, y[1], y[0], "rrelu");
        gn_expect_same(&s, dx[1], dx[0], "rrelu's gradient");
        for (int k = 0; k < 2; k++) {
            ph_tensor_release(y[k]);
            ph_tensor_release(dx[k]);
        }
        ph_tensor_release(x);
        ph_tensor_release(dy);
    }
    ph_module_release(graphed);
    ph_module_release(module);
    ph_tensor_release(sample);
    ph_generator_release(g);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

TEST(test_no_host_memory)
{
    t_expect_shortages(draw);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slopes_are_the_uniform_draws_in_both_directions),
        cmocka_unit_test(test_slopes_are_uniform),
        cmocka_unit_test(special_values_and_empty_tensors_pass_through_rrelu),
        cmocka_unit_test(the_gradient_of_rrelu_matches_differences),
        cmocka_unit_test(the_history_keeps_the_slopes_alone),
        cmocka_unit_test(test_memory_of_a_turned_one),
        cmocka_unit_test(test_slopes_of_a_turned_one),
        cmocka_unit_test(autocast_leaves_rrelu_in_its_dtype),
        cmocka_unit_test(test_captured_and_replayed),
        cmocka_unit_test(graphed_rrelu_has_the_slopes_of_its_forward),
        cmocka_unit_test(test_no_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
