/* SPDX-License-Identifier: MIT */
/* tests/tensor/attention_gradients.c: gradients of attention beyond one block, of all widths of
 * its kernels and in f32, f16 and bf16, against those of the formulas in f64; and that the
 * memory of forward and backward grows with the length, not with its square. */
#include "support/attention_check.h"
#include "support/test.h"

/* Lengths of one block and a bit, and two and a bit; keys before and behind the causal diagonal;
 * rows that see nothing. */
static void check_width(int64_t d)
{
    static const int64_t lengths[][2] = {{70, 70}, {140, 140}, {70, 140}, {140, 70}};
    static const ph_dtype dtypes[] = {PH_DTYPE_F32, PH_DTYPE_F16, PH_DTYPE_BF16};
    t_scene s;
    ph__rng rng = {(uint64_t)d};
    t_scene_open(&s);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int causal = 0; causal < 2; causal++)
            for (int k = 0; k < 3; k++) {
                t_attention a = {
                    .tq = lengths[i][0], .tk = lengths[i][1], .d = d, .causal = causal != 0};
                a.kv_heads = d == 24 || i == 0 ? 2 : 1;
                a.heads = i == 0 && d != 24 ? 2 : 2 * a.kv_heads;
                t_attention_check(&s, a, dtypes[k], false, &rng);
            }
    t_scene_close(&s);
}

TEST(gradients_of_width_24_match_the_formulas)
{
    check_width(24);
}

TEST(gradients_of_width_64_match_the_formulas)
{
    check_width(64);
}

TEST(gradients_of_width_128_match_the_formulas)
{
    check_width(128);
}

TEST(gradients_of_width_200_match_the_formulas)
{
    check_width(200);
}

/* ---- layouts ---- */

/* [2, 2, rows, 32] in memory [2, rows, 3, 2, 32]. */
static ph_tensor *part_of(t_scene *s, ph_tensor *packed, int i)
{
    return ph_transpose(s->tape, ph_select(s->tape, packed, 2, i), 1, 2);
}

static void expect_same(t_scene *s, ph_tensor *got, ph_tensor *want)
{
    static float a[2 * 2 * 40 * 32], b[2 * 2 * 40 * 32];
    assert_int_equal(ph_tensor_bytes(got), sizeof a);
    assert_ok(
        ph_tensor_read(s->tape, ph_contiguous(s->tape, ph_detach(s->tape, got)), a, sizeof a));
    assert_ok(
        ph_tensor_read(s->tape, ph_contiguous(s->tape, ph_detach(s->tape, want)), b, sizeof b));
    assert_memory_equal(a, b, sizeof a);
}

/* Of one tensor's parts: results lie as the queries do, gradients as the parts; values are those of
 * operands that lie by themselves. */
TEST(results_and_gradients_lie_as_the_operands)
{
    t_scene s;
    ph_shape shape = PH_SHAPE(2, 40, 3, 2, 32);
    t_scene_open(&s);
    ph_tensor *packed = ph_randn(s.tape, PH_DTYPE_F32, shape), *x[2][3], *grads[2][3], *o[2];
    ph_tensor *g = ph_randn(s.tape, PH_DTYPE_F32, PH_SHAPE(2, 2, 40, 32));
    for (int i = 0; i < 3; i++) {
        x[0][i] = part_of(&s, packed, i);
        x[1][i] = ph_clone(s.tape, x[0][i]);
    }
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 3; i++)
            assert_ok(ph_tensor_set_requires_grad(x[k][i], true));
        o[k] = ph_attention(s.tape, x[k][0], x[k][1], x[k][2], NULL);
        ph_grad(s.tape, grads[k], x[k], 3, &o[k], &g, 1, NULL);
    }
    assert_ok(ph_tape_status(s.tape));
    assert_true(ph_tensor_is_contiguous(ph_transpose(s.tape, o[0], 1, 2)));
    assert_true(ph_tensor_is_contiguous(o[1]));
    char *first = ph_tensor_data(grads[0][0]);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(ph_tensor_data(grads[0][i]), first + i * 2 * 32 * 4);
        assert_int_equal(ph_tensor_stride(grads[0][i], 2), 3 * 2 * 32);
        assert_true(ph_tensor_is_contiguous(grads[1][i]));
        expect_same(&s, grads[0][i], grads[1][i]);
    }
    expect_same(&s, o[0], o[1]);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

/* ---- memory ---- */

/* What forward and backward take at once, beside the operands. */
static size_t extra_memory(t_scene *s, ph_dtype dtype, int64_t length, int64_t d)
{
    ph_memory_stats before, after;
    ph_tensor *in[3], *grads[3], *o, *g = ph_full(s->tape, dtype, PH_SHAPE(1, length, d), 0.5);
    for (int i = 0; i < 3; i++) {
        in[i] = ph_full(s->tape, dtype, PH_SHAPE(1, length, d), 0.25);
        assert_ok(ph_tensor_set_requires_grad(in[i], true));
    }
    assert_ok(ph_memory_reset_peaks(s->device));
    assert_ok(ph_memory_get_stats(&before, s->device));
    o = ph_attention(s->tape, in[0], in[1], in[2], &(ph_attention_options){.causal = true});
    ph_grad(s->tape, grads, in, 3, &o, &g, 1, NULL);
    assert_ok(ph_tape_status(s->tape));
    assert_ok(ph_memory_get_stats(&after, s->device));
    assert_ok(ph_tape_clear(s->tape));
    return after.allocated_peak - before.allocated;
}

/* A matrix of scores would be as large as 16 operands of the shorter length (d 32; 3 of d 160),
 * beside some 4 that are needed: the growth would be 3.6 (2.9). */
TEST(memory_grows_with_the_length)
{
    enum {
        LENGTH = 512
    };
    static const struct form {
        ph_dtype dtype;
        int64_t d;
    } forms[] = {{PH_DTYPE_F32, 32},
                 {PH_DTYPE_F16, 32},
                 {PH_DTYPE_BF16, 32},
                 {PH_DTYPE_F64, 32},
                 {PH_DTYPE_F32, 160}};
    t_scene s;
    t_scene_open(&s);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        ph_dtype dtype = forms[i].dtype;
        int64_t d = forms[i].d;
        size_t once = extra_memory(&s, dtype, LENGTH, d);
        size_t twice = extra_memory(&s, dtype, (int64_t)2 * LENGTH, d);
        /* o, and three gradients */
        assert_true(once >= 4 * (size_t)d * LENGTH * ph_dtype_size(dtype));
        if (5 * twice > 11 * once)
            fail_msg("%s, d %lld: %zu bytes at %d, %zu at %d", ph_dtype_name(dtype), (long long)d,
                     once, LENGTH, twice, 2 * LENGTH);
    }
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_width_24_match_the_formulas),
        cmocka_unit_test(gradients_of_width_64_match_the_formulas),
        cmocka_unit_test(gradients_of_width_128_match_the_formulas),
        cmocka_unit_test(gradients_of_width_200_match_the_formulas),
        cmocka_unit_test(results_and_gradients_lie_as_the_operands),
        cmocka_unit_test(memory_grows_with_the_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
