/* SPDX-License-Identifier: MIT */
/* tests/tensor/autocast_fused.c: operators that do autocast's casts themselves: results and
 * gradients beside those of casts in the code, and which kernels are there. */
#include "support/fused.h"

static const ph_autocast off, to_bf16 = {.dtype = PH_DTYPE_BF16};
static const ph_dtype halves[] = {PH_DTYPE_F16, PH_DTYPE_BF16};

/* ---- cross_entropy ---- rows that are long enough not to be cast. */
enum {
    ROWS = 5,
    WIDTH = 1500,
    CLASSES = 1433
};

static void check_loss(t_scene *s, ph_dtype dtype, ph_reduction reduction)
{
    static const int32_t targets[ROWS] = {0, 700, CLASSES - 1, -7, 3};
    const ph_cross_entropy_options options = {
        .reduction = reduction, .classes = CLASSES, .has_ignore_index = true, .ignore_index = -7};
    ph_tensor *x = t_draw(s, dtype, PH_SHAPE(ROWS, WIDTH), 1), *loss[2], *grad[2];
    ph_tensor *to = ph_from_memory(s->tape, PH_DTYPE_I32, PH_SHAPE(ROWS), targets);
    for (int i = 0; i < 2; i++) {
        (void)ph_tape_set_autocast(s->tape, i == 0 ? to_bf16 : off);
        loss[i] = ph_cross_entropy_with(s->tape, i == 0 ? x : ph_cast(s->tape, x, PH_DTYPE_F32), to,
                                        &options);
        ph_tensor *g = ph_full(s->tape, PH_DTYPE_F32, ph_tensor_shape(loss[i]), 0.37);
        ph_grad(s->tape, &grad[i], &x, 1, &loss[i], &g, 1, NULL);
        (void)ph_tape_set_autocast(s->tape, off);
    }
    assert_ok(ph_tape_status(s->tape));
    assert_int_equal(ph_tensor_dtype(loss[0]), PH_DTYPE_F32);
    assert_int_equal(ph_tensor_dtype(grad[0]), dtype);
    assert_true(t_farthest(s, loss[0], loss[1], 1e-3) < 2e-6);
    assert_true(t_farthest(s, grad[0], grad[1], 1e-6) <= (dtype == PH_DTYPE_F16 ? 1e-3 : 8e-3));
    assert_ok(ph_tape_clear(s->tape));
    ph_tensor_release(x);
}

TEST(a_loss_of_half_logits_is_that_of_their_cast)
{
    t_scene s;
    t_scene_open(&s);
    for (size_t d = 0; d < 2; d++) {
        check_loss(&s, halves[d], PH_REDUCTION_MEAN);
        check_loss(&s, halves[d], PH_REDUCTION_SUM);
        check_loss(&s, halves[d], PH_REDUCTION_NONE);
    }
    t_scene_close(&s);
}

/* What is allocated for a loss under autocast: no copy of the logits in f32. */
TEST(a_loss_of_half_logits_copies_none)
{
    t_scene s;
    ph_memory_stats stats;
    int64_t targets[16] = {0};
    t_scene_open(&s);
    ph_tensor *x = t_draw(&s, PH_DTYPE_BF16, PH_SHAPE(16, 65536), 2);
    ph_tensor *to = ph_from_memory(s.tape, PH_DTYPE_I64, PH_SHAPE(16), targets);
    (void)ph_tape_set_autocast(s.tape, to_bf16);
    assert_ok(ph_memory_reset_peaks(s.device));
    size_t before = t_allocated(&s);
    ph_tensor *loss = ph_cross_entropy(s.tape, x, to), *grad;
    ph_grad(s.tape, &grad, &x, 1, &loss, NULL, 1, NULL);
    assert_ok(ph_tape_status(s.tape));
    assert_ok(ph_memory_get_stats(&stats, s.device));
    assert_in_range(stats.allocated_peak - before, ph_tensor_bytes(x), ph_tensor_bytes(x) * 5 / 4);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* ---- products ---- */
/* Gradients of f32 operands are not rounded to bf16: they are as near to those of f32 operands that
 * hold the rounded values as sums in f32 are. */
static void check_products(t_scene *s, bool linear)
{
    ph_tensor *in[3] = {t_draw(s, PH_DTYPE_F32, PH_SHAPE(96, 40), 3),
                        t_draw(s, PH_DTYPE_F32, linear ? PH_SHAPE(24, 40) : PH_SHAPE(40, 24), 4),
                        t_draw(s, PH_DTYPE_F32, PH_SHAPE(24), 5)};
    ph_tensor *g = t_draw(s, PH_DTYPE_BF16, PH_SHAPE(96, 24), 6), *grad[2][3];
    size_t count = linear ? 3 : 2;
    for (int i = 0; i < 2; i++) {
        ph_tensor *of[3];
        for (size_t k = 0; k < count; k++)
            of[k] = i == 0 ? in[k]
                           : ph_cast(s->tape, ph_cast(s->tape, in[k], PH_DTYPE_BF16), PH_DTYPE_F32);
        (void)ph_tape_set_autocast(s->tape, i == 0 ? to_bf16 : off);
        ph_tensor *y = linear ? ph_linear(s->tape, of[0], of[1], of[2])
                              : ph_matmul(s->tape, of[0], of[1]),
                  *gy = i == 0 ? g : ph_cast(s->tape, g, PH_DTYPE_F32);
        ph_grad(s->tape, grad[i], i == 0 ? in : of, count, &y, &gy, 1, NULL);
        (void)ph_tape_set_autocast(s->tape, off);
    }
    assert_ok(ph_tape_status(s->tape));
    for (size_t k = 0; k < count; k++) {
        assert_int_equal(ph_tensor_dtype(grad[0][k]), PH_DTYPE_F32);
        assert_true(t_farthest(s, grad[0][k], grad[1][k], 1) < 1e-5);
    }
    assert_ok(ph_tape_clear(s->tape));
    for (size_t k = 0; k < 3; k++)
        ph_tensor_release(in[k]);
    ph_tensor_release(g);
}

TEST(gradients_of_cast_operands_are_not_rounded)
{
    t_scene s;
    t_scene_open(&s);
    check_products(&s, true);
    check_products(&s, false);
    t_scene_close(&s);
}

/* A cast in the code is an operator like any other: its gradient is of its dtype. */
TEST(gradients_of_casts_in_the_code_are_of_their_dtype)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = t_draw(&s, PH_DTYPE_F32, PH_SHAPE(64, 40), 7),
              *w = t_draw(&s, PH_DTYPE_BF16, PH_SHAPE(24, 40), 8), *grad;
    (void)ph_tape_set_autocast(s.tape, to_bf16);
    ph_tensor *y = ph_linear(s.tape, ph_cast(s.tape, x, PH_DTYPE_BF16), w, NULL);
    ph_tensor *g = ph_full(s.tape, PH_DTYPE_BF16, ph_tensor_shape(y), 0.7);
    ph_grad(s.tape, &grad, &x, 1, &y, &g, 1, NULL);
    (void)ph_tape_set_autocast(s.tape, off);
    ph_tensor *rounded = ph_cast(s.tape, ph_cast(s.tape, grad, PH_DTYPE_BF16), PH_DTYPE_F32);
    assert_true(t_farthest(&s, grad, rounded, 1) == 0);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    ph_tensor_release(w);
    t_scene_close(&s);
}

/* Bits of casts in the code; and a gradient of a weight or its bias alone, where the other has one
 * too. */
TEST(a_weight_and_its_bias_are_cast_as_each_alone)
{
    static const int64_t sizes[][2] = {{24, 40}, {131, 67}, {256, 512}};
    t_scene s;
    t_scene_open(&s);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ph_tensor *x = t_draw(&s, PH_DTYPE_BF16, PH_SHAPE(16, sizes[i][1]), 17),
                  *w = t_draw(&s, PH_DTYPE_F32, PH_SHAPE(sizes[i][0], sizes[i][1]), 18),
                  *b = t_draw(&s, PH_DTYPE_F32, PH_SHAPE(sizes[i][0]), 19), *grad[2];
        (void)ph_tape_set_autocast(s.tape, to_bf16);
        ph_tensor *got = ph_linear(s.tape, x, w, b);
        ph_tensor *g = ph_full(s.tape, PH_DTYPE_BF16, ph_tensor_shape(got), 1);
        for (int k = 0; k < 2; k++)
            ph_grad(s.tape, &grad[k], k ? &b : &w, 1, &got, &g, 1,
                    &(ph_grad_options){.retain_graph = true});
        (void)ph_tape_set_autocast(s.tape, off);
        ph_tensor *want = ph_linear(s.tape, x, ph_cast(s.tape, w, PH_DTYPE_BF16),
                                    ph_cast(s.tape, b, PH_DTYPE_BF16));
        assert_true(t_farthest(&s, got, want, 1) == 0);
        float *bias = t_read_f32(&s, grad[1]);
        for (int64_t k = 0; k < sizes[i][0]; k++)
            assert_true(bias[k] == 16);
        free(bias);
        assert_ok(ph_tape_clear(s.tape));
        ph_tensor_release(x);
        ph_tensor_release(w);
        ph_tensor_release(b);
    }
    t_scene_close(&s);
}

/* ---- sums of f32 and a half type ---- of other layouts, too. */
TEST(sums_of_two_dtypes_are_those_of_casts)
{
    t_scene s;
    t_scene_open(&s);
    for (size_t d = 0; d < 2; d++)
        for (int turned = 0; turned < 2; turned++) {
            ph_tensor *x = t_draw(&s, PH_DTYPE_F32, PH_SHAPE(33, 70), 9),
                      *y = t_draw(&s, halves[d], PH_SHAPE(70, 33), 10), *sum[2];
            for (int i = 0; i < 2; i++) {
                ph_tensor *b = ph_transpose(s.tape, y, 0, 1);
                (void)ph_tape_set_autocast(s.tape, i == 0 ? to_bf16 : off);
                b = i == 0 ? b : ph_cast(s.tape, b, PH_DTYPE_F32);
                sum[i] = turned ? ph_add(s.tape, b, x) : ph_add(s.tape, x, b);
                (void)ph_tape_set_autocast(s.tape, off);
            }
            assert_int_equal(ph_tensor_dtype(sum[0]), PH_DTYPE_F32);
            assert_true(t_farthest(&s, sum[0], sum[1], 1) == 0);
            assert_ok(ph_tape_clear(s.tape));
            ph_tensor_release(x);
            ph_tensor_release(y);
        }
    t_scene_close(&s);
}

/* ---- a transformer block ---- its norms give what products read, and attention's gradients lie in
 * one tensor: no kernel casts an activation or copies heads. */
typedef struct block_step {
    ph_tape *tape;
    ph_module *block;
    ph_tensor *x;
} block_step;

static ph_status run_block(ph_stream *stream, void *user)
{
    const block_step *b = user;
    (void)stream;
    ph_module_zero_grad(b->block);
    ph_backward(b->tape, ph_sum(b->tape, ph_call(b->tape, b->block, b->x)));
    return ph_tape_clear(b->tape);
}

TEST(a_block_casts_its_weights_alone)
{
    t_scene s;
    ph_graph *graph;
    t_scene_open(&s);
    block_step b = {.tape = s.tape, .x = t_draw(&s, PH_DTYPE_F32, PH_SHAPE(2, 16, 64), 14)};
    assert_ok(ph_transformer_block_create(&b.block, s.device, 64, 2, NULL));
    (void)ph_tape_set_autocast(s.tape, to_bf16);
    assert_ok(run_block(s.stream, &b));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, run_block, &b));
    assert_int_equal(t_count_named(graph, "ph_copy"), 0);
    /* four weights, each with its bias; and the gradients that enter the two residual paths */
    assert_int_equal(t_count_named(graph, "ph_cast_f32_bf16_two"), 4);
    assert_int_equal(t_count_named(graph, "ph_cast_f32_bf16"), 4 + 2);
    assert_int_equal(t_count_named(graph, "ph_cast_bf16_f32"), 0);
    ph_graph_destroy(graph);
    ph_module_release(b.block);
    ph_tensor_release(b.x);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loss_of_half_logits_is_that_of_their_cast),
        cmocka_unit_test(a_loss_of_half_logits_copies_none),
        cmocka_unit_test(gradients_of_cast_operands_are_not_rounded),
        cmocka_unit_test(gradients_of_casts_in_the_code_are_of_their_dtype),
        cmocka_unit_test(a_weight_and_its_bias_are_cast_as_each_alone),
        cmocka_unit_test(sums_of_two_dtypes_are_those_of_casts),
        cmocka_unit_test(a_block_casts_its_weights_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
