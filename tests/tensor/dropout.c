/* SPDX-License-Identifier: MIT */
/* tests/tensor/dropout.c: dropout: what is kept, its gradient, its ends, and that all of it is
 * the same eager, captured and replayed. */
#include "support/draws.h"
#include "support/grads.h"
#include "support/test.h"
#include <math.h>

enum {
    N = 20011
};

TEST(test_what_is_kept)
{
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 17);
    for (int tenths = 1; tenths < 10; tenths++) {
        const double p = tenths / 10.0;
        const float scale = (float)(1 / (1 - p));
        float *y = t_bytes(&s, ph_dropout(s.tape, t_counting(s.tape, PH_SHAPE(N)), p));
        assert_ok(ph_generator_set_offset(g, t_offset(g) - 4));
        float *u = t_bytes(&s, ph_rand(s.tape, PH_DTYPE_F32, PH_SHAPE(N)));
        int kept = 0;
        for (int i = 1; i < N; i++) {
            assert_true(y[i] == 0 || y[i] == (float)i * scale);
            kept += y[i] != 0;
            /* The same words as uniforms, whose 24 bits decide all but a few in 2^24. */
            if (fabs((double)u[i] - p) > 1e-7)
                assert_int_equal(y[i] != 0, (double)u[i] >= p);
        }
        assert_true(fabs(kept - (1 - p) * N) < 5 * sqrt(p * (1 - p) * N));
        free(y);
        free(u);
        assert_ok(ph_tape_clear(s.tape));
    }
    ph_generator_release(g);
    t_scene_close(&s);
}

/* What is dropped is 0 whatever it was; p 0 is x itself; p 1 nothing at all, gradients too. */
TEST(probabilities_0_and_1_keep_all_and_nothing)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = t_leaf(&s, PH_SHAPE(4), NAN, INFINITY, -INFINITY, 1);
    assert_ptr_equal(ph_dropout(s.tape, x, 0), x);
    ph_tensor *y = ph_dropout(s.tape, x, 1);
    t_expect_values(s.tape, y, PH_SHAPE(4), 0, 0, 0, 0);
    ph_backward_from(
        s.tape, &y, (ph_tensor *[]){ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(4), INFINITY)}, 1, NULL);
    t_expect_grad(&s, x, 0, 0, 0, 0);
    ph_tensor *empty = ph_dropout(s.tape, ph_zeros(s.tape, PH_DTYPE_F16, PH_SHAPE(3, 0)), 0.5);
    assert_int_equal(ph_tensor_count(empty), 0);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* dx = dy / (1 - p) where y was kept, for any strides of x and dy; a scalar and an empty tensor
 * too. */
TEST(the_gradient_passes_where_the_output_was_kept)
{
    static const ph_dtype dtypes[] = {PH_DTYPE_F32, PH_DTYPE_F64, PH_DTYPE_F16, PH_DTYPE_BF16};
    static const int64_t rows[] = {0, 1, 3, 8, 61}, columns[] = {1, 5, 33};
    t_scene s;
    t_scene_open(&s);
    for (size_t k = 0; k < 4 * 5 * 3; k++) {
        const ph_dtype dtype = dtypes[k % 4];
        const int64_t m = rows[k / 4 % 5], n = columns[k / 20];
        ph_tensor *ones = ph_full(s.tape, dtype, PH_SHAPE(m, n), 1), *x = ph_tensor_retain(ones);
        assert_ok(ph_tape_clear(s.tape));
        assert_ok(ph_tensor_set_requires_grad(x, true));
        ph_tensor *y = ph_dropout(s.tape, k % 2 ? ph_transpose(s.tape, x, 0, 1) : x, 0.75);
        ph_tensor *z = k % 2 ? ph_transpose(s.tape, y, 0, 1) : y,
                  *dz = ph_full(s.tape, dtype, PH_SHAPE(m, n), 1);
        ph_backward_from(s.tape, &z, &dz, 1, NULL);
        /* With ones all over, the gradient is the result. */
        assert_ok(ph_tape_status(s.tape));
        assert_non_null(ph_tensor_grad(x));
        assert_true(t_same(&s, ph_tensor_grad(x), z));
        assert_ok(ph_tape_clear(s.tape));
        ph_tensor_release(x);
    }
    t_scene_close(&s);
}

/* A mask, eight elements a byte, is all that the history keeps. */
TEST(the_history_keeps_a_mask_alone)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = ph_tensor_retain(ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(1 << 16)));
    assert_ok(ph_tape_clear(s.tape));
    size_t base = t_allocated(&s);
    ph_tensor *y = ph_dropout(s.tape, x, 0.5);
    assert_int_equal(t_allocated(&s) - base, 4u << 16);
    assert_int_equal(t_info(&s).saved, 0);
    assert_ok(ph_tensor_set_requires_grad(x, true));
    base = t_allocated(&s);
    y = ph_dropout(s.tape, x, 0.5);
    assert_non_null(y);
    assert_int_equal(t_allocated(&s) - base, (4u << 16) + (1u << 13));
    assert_int_equal(t_info(&s).saved, 1);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    t_scene_close(&s);
}

static ph_tensor *draw(ph_tape *tape, ph_tensor *x)
{
    return ph_dropout(tape, x, 0.5);
}

TEST(test_memory_of_a_turned_one)
{
    t_expect_turned_is_not_kept(draw, 8 << 10);
}

/* ---- eager, captured, replayed ---- */
typedef struct pass {
    ph_tensor *x, *dy;
} pass;

static ph_tensor *forward_and_backward(ph_tape *tape, void *user)
{
    pass *p = user;
    ph_tensor *y = ph_dropout(tape, ph_dropout(tape, p->x, 0.3), 0.2), *dx;
    ph_grad(tape, &dx, &p->x, 1, &y, &p->dy, 1, NULL);
    return t_join(tape, (ph_tensor *[]){ph_detach(tape, y), dx}, 2);
}

TEST(test_captured_and_replayed)
{
    t_scene s;
    ph_tensor *out;
    pass p;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 4);
    p.x = ph_tensor_retain(ph_randn(s.tape, PH_DTYPE_F32, PH_SHAPE(N)));
    p.dy = ph_tensor_retain(ph_randn(s.tape, PH_DTYPE_F32, PH_SHAPE(N)));
    assert_ok(ph_tape_clear(s.tape));
    assert_ok(ph_tensor_set_requires_grad(p.x, true));
    ph_graph *graph = t_capture(&s, forward_and_backward, &p, &out);
    for (uint64_t seed = 0; seed < 5; seed++) {
        assert_ok(ph_generator_seed(g, seed));
        ph_tensor_release(t_now(&s, forward_and_backward, &p));
        ph_tensor *want = t_now(&s, forward_and_backward, &p);
        assert_ok(ph_generator_seed(g, seed));
        assert_ok(ph_graph_replay(graph, s.stream));
        assert_false(t_same(&s, out, want));
        assert_ok(ph_graph_replay(graph, s.stream));
        assert_true(t_same(&s, out, want));
        ph_tensor_release(want);
    }
    ph_tensor_release(out);
    ph_tensor_release(p.x);
    ph_tensor_release(p.dy);
    ph_graph_destroy(graph);
    ph_generator_release(g);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* ---- under a checkpoint ---- the same elements are dropped when the function runs again:
 * gradients as without one. */
static void drop_and_square(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *unused)
{
    (void)unused;
    ph_tensor *y = ph_dropout(tape, in[0], 0.5);
    out[0] = ph_mul(tape, y, y);
}

static ph_tensor *with_checkpoint(ph_tape *tape, void *user)
{
    pass *p = user;
    ph_tensor *y, *dx;
    ph_checkpoint(tape, drop_and_square, NULL, &y, 1, &p->x, 1);
    ph_tensor *z = ph_dropout(tape, y, 0.5);
    ph_grad(tape, &dx, &p->x, 1, &z, &p->dy, 1, NULL);
    return t_join(
        tape, (ph_tensor *[]){ph_detach(tape, z), dx, ph_rand(tape, PH_DTYPE_F32, PH_SHAPE(10))},
        3);
}

static ph_tensor *without_checkpoint(ph_tape *tape, void *user)
{
    pass *p = user;
    ph_tensor *y, *dx;
    drop_and_square(tape, &y, &p->x, NULL);
    ph_tensor *z = ph_dropout(tape, y, 0.5);
    ph_grad(tape, &dx, &p->x, 1, &z, &p->dy, 1, NULL);
    return t_join(
        tape, (ph_tensor *[]){ph_detach(tape, z), dx, ph_rand(tape, PH_DTYPE_F32, PH_SHAPE(10))},
        3);
}

TEST(test_under_a_checkpoint)
{
    t_scene s;
    ph_tensor *out;
    pass p;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 4);
    p.x = ph_tensor_retain(ph_randn(s.tape, PH_DTYPE_F32, PH_SHAPE(N)));
    p.dy = ph_tensor_retain(ph_randn(s.tape, PH_DTYPE_F32, PH_SHAPE(N)));
    assert_ok(ph_tape_clear(s.tape));
    assert_ok(ph_tensor_set_requires_grad(p.x, true));
    assert_ok(ph_generator_seed(g, 5));
    ph_tensor *want = t_now(&s, without_checkpoint, &p);
    assert_ok(ph_generator_seed(g, 5));
    ph_tensor *got = t_now(&s, with_checkpoint, &p);
    assert_true(t_same(&s, got, want));
    ph_graph *graph = t_capture(&s, with_checkpoint, &p, &out);
    assert_ok(ph_generator_seed(g, 5));
    assert_ok(ph_graph_replay(graph, s.stream));
    assert_true(t_same(&s, out, want));
    ph_tensor *all[] = {want, got, out, p.x, p.dy};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ph_tensor_release(all[i]);
    ph_graph_destroy(graph);
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
        cmocka_unit_test(test_what_is_kept),
        cmocka_unit_test(probabilities_0_and_1_keep_all_and_nothing),
        cmocka_unit_test(the_gradient_passes_where_the_output_was_kept),
        cmocka_unit_test(the_history_keeps_a_mask_alone),
        cmocka_unit_test(test_memory_of_a_turned_one),
        cmocka_unit_test(test_captured_and_replayed),
        cmocka_unit_test(test_under_a_checkpoint),
        cmocka_unit_test(test_no_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
