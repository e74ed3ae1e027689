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
        cmocka_unit_test(memory_grows_with_the_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
