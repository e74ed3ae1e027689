/* SPDX-License-Identifier: MIT */
/* tests/support/attention_check.h: the operator's results and gradients against those of the
 * formulas in f64. */
#ifndef PH_TESTS_ATTENTION_CHECK_H
#define PH_TESTS_ATTENTION_CHECK_H
#include "support/attention_reference.h"
#include "support/op_check.h"
#include "support/tensors.h"

/* f32: a sum of up to some 250 terms, rounded as often, whose errors of either sign add up like
 * the root of that: 16 roundings of 2^-24. f16 and bf16: the operands that are given are
 * multiplied exactly and summed in f32; P and dS may be rounded to the dtype (2^-11; 2^-8), and
 * results are. Numbers of f16 below 2^-14 are rounded to multiples of 2^-24: some hundred of
 * them in a sum. */
static const t_units t_attention_units[OP_DTYPES] = {
    [PH_DTYPE_F32] = {0x1p-20, 0x1p-20, 0x1p-24, 1e-7},
    [PH_DTYPE_F16] = {0x1p-20, 0x1p-11 + 0x1p-20, 0x1p-11, 0x1p-18},
    [PH_DTYPE_BF16] = {0x1p-20, 0x1p-8 + 0x1p-20, 0x1p-8, 1e-7},
};

/* Between -1 and 1, of the dtype. */
static inline void t_attention_draw(double *out, ph_dtype dtype, int64_t count, ph__rng *rng)
{
    void *bytes = malloc((size_t)count * 8 + 8);
    assert_non_null(bytes);
    for (int64_t i = 0; i < count; i++)
        out[i] = (double)(ph__rng_next(rng) >> 11) * 0x1p-52 - 1;
    op_encode(bytes, dtype, out, count);
    op_decode(out, dtype, bytes, count);
    free(bytes);
}

static inline ph_tensor *t_attention_tensor(t_scene *s, ph_dtype dtype, ph_shape shape,
                                            const double *values)
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

/* The same values, as a view of [rows, heads, d]. */
static inline ph_tensor *t_attention_view(t_scene *s, ph_tensor *x)
{
    ph_tensor *rows = ph_contiguous(s->tape, ph_transpose(s->tape, x, 0, 1));
    return ph_transpose(s->tape, rows, 0, 1);
}

/* The operator's result and gradients; the tape's. views: of views. */
static inline void t_attention_run(t_scene *s, ph_tensor *result[4], const t_attention *a,
                                   ph_dtype dtype, bool views)
{
    ph_tensor *in[3], *x[3],
        *g = t_attention_tensor(s, dtype, PH_SHAPE(a->heads, a->tq, a->d), a->g);
    for (int i = 0; i < 3; i++) {
        ph_shape shape =
            i == 0 ? PH_SHAPE(a->heads, a->tq, a->d) : PH_SHAPE(a->kv_heads, a->tk, a->d);
        in[i] = t_attention_tensor(s, dtype, shape, a->in[i]);
        assert_ok(ph_tensor_set_requires_grad(in[i], true));
        x[i] = views ? t_attention_view(s, in[i]) : in[i];
    }
    g = views ? t_attention_view(s, g) : g;
    result[0] =
        ph_attention(s->tape, x[0], x[1], x[2], &(ph_attention_options){.causal = a->causal});
    ph_grad(s->tape, result + 1, in, 3, result, &g, 1, NULL);
    assert_ok(ph_tape_status(s->tape));
}

static inline void t_attention_compare(t_scene *s, ph_tensor *x, int which, const t_attention *a,
                                       ph_dtype dtype)
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

static inline void t_attention_check(t_scene *s, t_attention a, ph_dtype dtype, bool views,
                                     ph__rng *rng)
{
    ph_tensor *result[4];
    t_attention_make(&a);
    for (int i = 0; i < 3; i++)
        t_attention_draw(a.in[i], dtype, t_attention_count(&a, i + 1), rng);
    t_attention_draw(a.g, dtype, t_attention_count(&a, 0), rng);
    t_attention_reference(&a, &t_attention_units[dtype]);
    t_attention_run(s, result, &a, dtype, views);
    for (int i = 0; i < 4; i++)
        t_attention_compare(s, result[i], i, &a, dtype);
    assert_ok(ph_tape_clear(s->tape));
    t_attention_free(&a);
}
#endif
