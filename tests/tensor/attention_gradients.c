/* SPDX-License-Identifier: MIT */
/* tests/tensor/attention_gradients.c: gradients of attention beyond one block, of all widths of
 * its kernels and in f32, f16 and bf16, against those of the formulas in f64; and that the
 * memory of forward and backward grows with the length, not with its square. */
#include "support/attention_reference.h"
#include "support/op_check.h"
#include "support/tensors.h"
#include "support/test.h"

/* f32: a sum of up to some 250 terms, rounded as often, whose errors of either sign add up like
 * the root of that: 16 roundings of 2^-24. f16 and bf16: the operands that are given are
 * multiplied exactly and summed in f32; P and dS may be rounded to the dtype (2^-11; 2^-8), and
 * results are. Numbers of f16 below 2^-14 are rounded to multiples of 2^-24: some hundred of
 * them in a sum. */
static const t_units units[OP_DTYPES] = {
    [PH_DTYPE_F32] = {0x1p-20, 0x1p-20, 0x1p-24, 1e-7},
    [PH_DTYPE_F16] = {0x1p-20, 0x1p-11 + 0x1p-20, 0x1p-11, 0x1p-18},
    [PH_DTYPE_BF16] = {0x1p-20, 0x1p-8 + 0x1p-20, 0x1p-8, 1e-7},
};

/* Between -1 and 1, of the dtype. */
static void draw(double *out, ph_dtype dtype, int64_t count, ph__rng *rng)
{
    void *bytes = malloc((size_t)count * 8 + 8);
    assert_non_null(bytes);
    for (int64_t i = 0; i < count; i++)
        out[i] = (double)(ph__rng_next(rng) >> 11) * 0x1p-52 - 1;
    op_encode(bytes, dtype, out, count);
    op_decode(out, dtype, bytes, count);
    free(bytes);
}

static ph_tensor *tensor_of(t_scene *s, ph_dtype dtype, ph_shape shape, const double *values)
{
    int64_t count = ph_shape_count(&shape);
    void *bytes = malloc((size_t)count * 8 + 8);
    assert_non_null(bytes);
    op_encode(bytes, dtype, values, count);
    ph_tensor *x = ph_from_memory(s->tape, dtype, shape, bytes);
    assert_non_null(x);
    free(bytes);
    return x;
}

/* The operator's result and gradients; the tape's. */
static void run(t_scene *s, ph_tensor *result[4], const t_attention *a, ph_dtype dtype)
{
    ph_tensor *in[3], *g = tensor_of(s, dtype, PH_SHAPE(a->heads, a->tq, a->d), a->g);
    for (int i = 0; i < 3; i++) {
        ph_shape shape =
            i == 0 ? PH_SHAPE(a->heads, a->tq, a->d) : PH_SHAPE(a->kv_heads, a->tk, a->d);
        in[i] = tensor_of(s, dtype, shape, a->in[i]);
        assert_ok(ph_tensor_set_requires_grad(in[i], true));
    }
    result[0] =
        ph_attention(s->tape, in[0], in[1], in[2], &(ph_attention_options){.causal = a->causal});
    ph_grad(s->tape, result + 1, in, 3, result, &g, 1, NULL);
    assert_ok(ph_tape_status(s->tape));
}

static void compare(t_scene *s, ph_tensor *x, int which, const t_attention *a, ph_dtype dtype)
{
    static const char *const names[] = {"o", "dq", "dk", "dv"};
    int64_t count = t_attention_count(a, which);
    void *bytes = malloc((size_t)count * 8 + 8);
    double *got = t_doubles(count);
    assert_non_null(bytes);
    assert_int_equal(ph_tensor_dtype(x), dtype);
    assert_int_equal(ph_tensor_count(x), count);
    assert_ok(ph_tensor_read(s->tape, x, bytes, ph_tensor_bytes(x)));
    op_decode(got, dtype, bytes, count);
    for (int64_t n = 0; n < count; n++)
        if (!(fabs(got[n] - a->want[which][n]) <= a->bound[which][n]))
            fail_msg("%s, heads %lld of %lld, tq %lld, tk %lld, d %lld, causal %d: %s[%lld] is "
                     "%.9g, the "
                     "reference %.9g, within %.3g",
                     ph_dtype_name(dtype), (long long)a->kv_heads, (long long)a->heads,
                     (long long)a->tq, (long long)a->tk, (long long)a->d, a->causal, names[which],
                     (long long)n, got[n], a->want[which][n], a->bound[which][n]);
    free(bytes);
    free(got);
}

static void check(t_scene *s, t_attention a, ph_dtype dtype, ph__rng *rng)
{
    ph_tensor *result[4];
    t_attention_make(&a);
    for (int i = 0; i < 3; i++)
        draw(a.in[i], dtype, t_attention_count(&a, i + 1), rng);
    draw(a.g, dtype, t_attention_count(&a, 0), rng);
    t_attention_reference(&a, &units[dtype]);
    run(s, result, &a, dtype);
    for (int i = 0; i < 4; i++)
        compare(s, result[i], i, &a, dtype);
    assert_ok(ph_tape_clear(s->tape));
    t_attention_free(&a);
}

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
                check(&s, a, dtypes[k], &rng);
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
