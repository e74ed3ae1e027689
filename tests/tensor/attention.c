/* SPDX-License-Identifier: MIT */
/* tests/tensor/attention.c: fused attention against a float64 reference and differences: causal
 * or not, grouped heads, lengths that are no multiple of a block. */
#include "support/op_check.h"
#include "support/test.h"
#include <math.h>
#include <stdlib.h>

/* p[0]: causal; f[0]: scale, 0 for the usual one. */
static void shapes_of(op_trial *trial, int64_t most_rows, int64_t most_d)
{
    int64_t kv_heads = op_random(trial, 1, 2), heads = kv_heads * op_random(trial, 1, 2);
    int64_t tq = op_random(trial, 1, most_rows), tk = op_random(trial, 1, most_rows),
            d = op_random(trial, 1, most_d);
    if (op_random(trial, 0, 1))
        d = (d + 7) / 8 * 8;
    if (trial->index % 6 == 5)
        *(trial->index % 12 == 5 ? &tq : &tk) = 0;
    trial->p[0] = op_random(trial, 0, 1);
    static const double scales[] = {0, 0, 0.3, -0.4, PH_ZERO};
    trial->f[0] = scales[op_random(trial, 0, 4)];
    ph_shape lead = {(size_t)op_random(trial, 0, 2), {op_random(trial, 1, 2), 1}}, q = lead,
             k = lead;
    q.dim[q.rank++] = heads;
    q.dim[q.rank++] = tq;
    q.dim[q.rank++] = d;
    k.dim[k.rank++] = kv_heads;
    k.dim[k.rank++] = tk;
    k.dim[k.rank++] = d;
    trial->shape[0] = q;
    trial->shape[1] = trial->shape[2] = k;
}

static void shapes_small(op_trial *trial)
{
    shapes_of(trial, 7, 6);
}

static void shapes_blocks(op_trial *trial)
{
    shapes_of(trial, 150, 80);
}

static void shapes_wide(op_trial *trial)
{
    shapes_of(trial, 70, 256);
}

static void apply_attention(ph_tape *tape, ph_tensor **out, ph_tensor *const *in,
                            const op_trial *trial)
{
    const ph_attention_options options = {.causal = trial->p[0] != 0, .scale = trial->f[0]};
    out[0] = ph_attention(tape, in[0], in[1], in[2], &options);
}

/* One row of the result: the weights of the keys that it sees, over their sum. */
static void reference_row(double *out, const double *q, const double *k, const double *v,
                          int64_t seen, int64_t d, double scale)
{
    double most = -INFINITY, total = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t j = 0; j < seen; j++) {
            double score = 0;
            for (int64_t c = 0; c < d; c++)
                score += q[c] * k[j * d + c] * scale;
            if (pass == 0) {
                most = score > most ? score : most;
                continue;
            }
            double weight = exp(score - most);
            total += weight;
            for (int64_t c = 0; c < d; c++)
                out[c] += weight * v[j * d + c];
        }
    for (int64_t c = 0; seen > 0 && c < d; c++)
        out[c] /= total;
}

static void reference_attention(op_array *out, const op_array *in, const op_trial *trial)
{
    op_array_make(out, &in[0].shape);
    size_t rank = in[0].shape.rank;
    int64_t heads = in[0].shape.dim[rank - 3], kv_heads = in[1].shape.dim[rank - 3],
            tq = in[0].shape.dim[rank - 2];
    int64_t tk = in[1].shape.dim[rank - 2], d = in[0].shape.dim[rank - 1];
    double scale = trial->f[0] == PH_ZERO ? 0
                   : trial->f[0] != 0     ? trial->f[0]
                                          : 1 / sqrt((double)d);
    for (int64_t row = 0; d > 0 && row < out->count / d; row++) {
        int64_t i = row % tq, head = row / tq % heads, batch = row / tq / heads;
        int64_t other = (batch * kv_heads + head / (heads / kv_heads)) * tk * d;
        int64_t seen = trial->p[0] ? i + tk - tq + 1 : tk;
        seen = seen < 0 ? 0 : seen;
        reference_row(out->at + row * d, in[0].at + row * d, in[1].at + other, in[2].at + other,
                      seen, d, scale);
    }
}

#define SPEC(named, of, count, ...)                                                                \
    static const op_spec named = {.name = "attention",                                             \
                                  .in_count = 3,                                                   \
                                  .trials = (count),                                               \
                                  .shapes = (of),                                                  \
                                  .apply = apply_attention,                                        \
                                  .reference = reference_attention,                                \
                                  __VA_ARGS__}
SPEC(small_spec, shapes_small, 36, .no_gradient = false);
SPEC(blocks_spec, shapes_blocks, 10, .no_gradient = true, .bound = {[PH_DTYPE_F32] = 1e-5});
SPEC(wide_spec, shapes_wide, 8, .no_gradient = true, .bound = {[PH_DTYPE_F32] = 1e-5});

static void check(const op_spec *spec)
{
    t_world world;
    t_open(&world, NULL);
    op_check(world.device, spec);
    t_close(&world);
}

TEST(attention_is_right)
{
    check(&small_spec);
}

TEST(many_blocks_are_right)
{
    check(&blocks_spec);
    check(&wide_spec);
}

/* The gradient of many blocks, and views of one tensor for q, k and v: against the same thing
 * made of products and a softmax, in f64. */
static ph_tensor *by_parts(ph_tape *tape, ph_tensor *q, ph_tensor *k, ph_tensor *v,
                           ph_tensor *hidden, double scale)
{
    ph_tensor *scores =
        ph_mul_scalar(tape, ph_matmul(tape, q, ph_transpose(tape, k, -1, -2)), scale);
    return ph_matmul(tape, ph_softmax(tape, ph_masked_fill(tape, scores, hidden, -1e30), -1), v);
}

static ph_tensor *part(ph_tape *tape, ph_tensor *qkv, int64_t which)
{
    return ph_transpose(tape, ph_select(tape, qkv, 2, which), 1, 2);
}

TEST(gradients_of_many_blocks)
{
    enum {
        B = 2,
        T = 140,
        H = 3,
        D = 24,
        COUNT = B * T * 3 * H * D
    };
    t_world world;
    ph_tape *tape;
    t_open(&world, NULL);
    assert_ok(ph_tape_create(&tape, world.stream, NULL));
    double *x = malloc(COUNT * sizeof *x),
           *grads[2] = {malloc(COUNT * sizeof *x), malloc(COUNT * sizeof *x)};
    bool *hidden = malloc(T * T);
    ph__rng rng = {5};
    for (size_t i = 0; i < COUNT; i++)
        x[i] = (double)(ph__rng_next(&rng) >> 40) * 0x1p-22 - 2;
    for (int i = 0; i < T * T; i++)
        hidden[i] = i % T > i / T;
    ph_tensor *mask = ph_from_memory(tape, PH_DTYPE_BOOL, PH_SHAPE(T, T), hidden);
    ph_tensor *weights = ph_arange(tape, PH_DTYPE_F64, 0.5, 0.01, D);
    for (int way = 0; way < 2; way++) {
        ph_tensor *qkv = ph_from_memory(tape, PH_DTYPE_F64, PH_SHAPE(B, T, 3, H, D), x);
        assert_ok(ph_tensor_set_requires_grad(qkv, true));
        ph_tensor *q = part(tape, qkv, 0), *k = part(tape, qkv, 1), *v = part(tape, qkv, 2);
        ph_tensor *o = way == 0
                           ? ph_attention(tape, q, k, v, &(ph_attention_options){.causal = true})
                           : by_parts(tape, q, k, v, mask, 1 / sqrt((double)D));
        ph_backward(tape, ph_sum(tape, ph_mul(tape, ph_square(tape, o), weights)));
        assert_ok(ph_tape_status(tape));
        assert_ok(ph_tensor_read(tape, ph_tensor_grad(qkv), grads[way], COUNT * sizeof *x));
    }
    for (size_t i = 0; i < COUNT; i++)
        if (!(fabs(grads[0][i] - grads[1][i]) <= 1e-9 * (1 + fabs(grads[1][i]))))
            fail_msg("element %zu: %.12g, by parts %.12g", i, grads[0][i], grads[1][i]);
    assert_ok(ph_tape_clear(tape));
    ph_tape_destroy(tape);
    free(x);
    free(grads[0]);
    free(grads[1]);
    free(hidden);
    t_close(&world);
}

TEST(refuses_what_does_not_fit)
{
    t_world world;
    ph_tape *tape;
    t_open(&world, NULL);
    assert_ok(ph_tape_create(&tape, world.stream, NULL));
    ph_tensor *q = ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(3, 4, 8)),
              *k = ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(2, 4, 8));
    assert_null(ph_attention(tape, q, k, k, NULL));
    assert_error(ph_tape_clear(tape), PH_ERROR_ARGUMENT, "heads");
    q = ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(1, 4, 257));
    assert_null(ph_attention(tape, q, q, q, NULL));
    assert_error(ph_tape_clear(tape), PH_ERROR_ARGUMENT, "256");
    q = ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(4, 8));
    assert_null(ph_attention(tape, q, q, q, NULL));
    assert_error(ph_tape_clear(tape), PH_ERROR_ARGUMENT, "heads, t, d");
    q = ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(1, 4, 8));
    assert_null(ph_attention(tape, q, q, ph_zeros(tape, PH_DTYPE_F64, PH_SHAPE(1, 4, 8)), NULL));
    assert_error(ph_tape_clear(tape), PH_ERROR_ARGUMENT, "dtype");
    ph_tape_destroy(tape);
    t_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_is_right),
        cmocka_unit_test(many_blocks_are_right),
        cmocka_unit_test(gradients_of_many_blocks),
        cmocka_unit_test(refuses_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
