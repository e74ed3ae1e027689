/* SPDX-License-Identifier: MIT */
/* tests/tensor/matmul.c: ph_matmul and ph_linear against a float64 reference and differences,
 * and what they refuse. */
#include "support/op_check.h"
#include "support/test.h"
#include <string.h>

/* ---- matmul ---- p[0]: which of the operands are vectors; p[1..2]: m, n; the leading
 * dimensions broadcast. */
static void shapes_matmul(op_trial *trial)
{
    int64_t m = op_random(trial, 1, 9), n = op_random(trial, 1, 9), k = op_random(trial, 1, 12);
    if (trial->index % 6 == 5)
        *(trial->index % 12 == 5 ? &k : &m) = 0;
    trial->p[0] = op_random(trial, 0, 5);
    bool vector_a = trial->p[0] == 1 || trial->p[0] == 3,
         vector_b = trial->p[0] == 2 || trial->p[0] == 3;
    ph_shape lead = op_random_shape(trial, 0, 2), a = lead, b = op_random_broadcast(trial, &lead);
    if (ph_shape_count(&lead) > 12)
        a = b = lead = (ph_shape){1, {2}};
    if (vector_a)
        a = (ph_shape){0, {0}};
    else
        a.dim[a.rank++] = m;
    a.dim[a.rank++] = k;
    if (vector_b)
        b = (ph_shape){0, {0}};
    b.dim[b.rank++] = k;
    if (!vector_b)
        b.dim[b.rank++] = n;
    bool swapped = !vector_a && !vector_b && op_random(trial, 0, 1);
    if (swapped) { /* so that either side may be the one that is broadcast */
        ph_shape la = b, lb = a;
        la.dim[la.rank - 2] = m;
        la.dim[la.rank - 1] = k;
        lb.dim[lb.rank - 2] = k;
        lb.dim[lb.rank - 1] = n;
        a = la;
        b = lb;
    }
    trial->shape[0] = a;
    trial->shape[1] = b;
}

static void apply_matmul(ph_tape *tape, ph_tensor **out, ph_tensor *const *in,
                         const op_trial *trial)
{
    (void)trial;
    out[0] = ph_matmul(tape, in[0], in[1]);
}

/* As matrices: a row in front of a vector a, a column behind a vector b. */
static op_array as_matrix(const op_array *x, bool row)
{
    op_array out = *x;
    if (x->shape.rank == 1)
        out.shape = row ? (ph_shape){2, {1, x->shape.dim[0]}} : (ph_shape){2, {x->shape.dim[0], 1}};
    return out;
}

static double *matrix_at(const op_array *x, const int64_t index[PH_MAX_RANK], size_t lead_rank)
{
    op_array batch = *x;
    batch.shape.rank -= 2;
    int64_t each = x->shape.dim[x->shape.rank - 2] * x->shape.dim[x->shape.rank - 1];
    return x->at + op_at(&batch, index, lead_rank) * each;
}

static void reference_matmul(op_array *out, const op_array *in, const op_trial *trial)
{
    (void)trial;
    op_array a = as_matrix(&in[0], true), b = as_matrix(&in[1], false);
    int64_t m = a.shape.dim[a.shape.rank - 2], k = a.shape.dim[a.shape.rank - 1],
            n = b.shape.dim[b.shape.rank - 1];
    ph_shape lead = a.shape.rank >= b.shape.rank ? a.shape : b.shape, shape;
    lead.rank -= 2;
    for (size_t i = 0; i < lead.rank; i++) {
        size_t in_a = i + a.shape.rank - 2 - lead.rank, in_b = i + b.shape.rank - 2 - lead.rank;
        int64_t da = in_a < a.shape.rank - 2 ? a.shape.dim[in_a] : 1,
                db = in_b < b.shape.rank - 2 ? b.shape.dim[in_b] : 1;
        lead.dim[i] = da == 1 ? db : da;
    }
    shape = lead;
    if (in[0].shape.rank > 1)
        shape.dim[shape.rank++] = m;
    if (in[1].shape.rank > 1)
        shape.dim[shape.rank++] = n;
    op_array_make(out, &shape);
    int64_t index[PH_MAX_RANK] = {0};
    double *c = out->at;
    if (out->count == 0)
        return;
    do {
        const double *x = matrix_at(&a, index, lead.rank), *y = matrix_at(&b, index, lead.rank);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++, c++)
                for (int64_t p = 0; p < k; p++)
                    *c += x[i * k + p] * y[p * n + j];
    } while (op_next(index, &lead));
}

static const op_spec matmul_spec = {.name = "matmul",
                                    .in_count = 2,
                                    .trials = 36,
                                    .shapes = shapes_matmul,
                                    .apply = apply_matmul,
                                    .reference = reference_matmul};

/* ---- linear ---- */
static void shapes_linear(op_trial *trial)
{
    ph_shape x = op_random_shape(trial, 0, 3);
    if (ph_shape_count(&x) > 40)
        x = (ph_shape){2, {3, 5}};
    int64_t in = trial->index % 9 == 7 ? 0 : op_random(trial, 1, 9), out = op_random(trial, 1, 9);
    x.dim[x.rank++] = in;
    trial->shape[0] = x;
    trial->shape[1] = (ph_shape){2, {out, in}};
    trial->shape[2] = (ph_shape){1, {out}};
}

static void apply_linear(ph_tape *tape, ph_tensor **out, ph_tensor *const *in,
                         const op_trial *trial)
{
    out[0] = ph_linear(tape, in[0], in[1], trial->spec->in_count > 2 ? in[2] : NULL);
}

static void reference_linear(op_array *out, const op_array *in, const op_trial *trial)
{
    ph_shape shape = in[0].shape;
    int64_t k = in[1].shape.dim[1], n = in[1].shape.dim[0];
    shape.dim[shape.rank - 1] = n;
    op_array_make(out, &shape);
    for (int64_t at = 0; at < out->count; at++) {
        int64_t row = at / n, j = at % n;
        out->at[at] = trial->spec->in_count > 2 ? in[2].at[j] : 0;
        for (int64_t p = 0; p < k; p++)
            out->at[at] += in[0].at[row * k + p] * in[1].at[j * k + p];
    }
}

static const op_spec linear_spec = {.name = "linear",
                                    .in_count = 3,
                                    .trials = 24,
                                    .shapes = shapes_linear,
                                    .apply = apply_linear,
                                    .reference = reference_linear};
static const op_spec linear_without_bias_spec = {.name = "linear without bias",
                                                 .in_count = 2,
                                                 .trials = 12,
                                                 .shapes = shapes_linear,
                                                 .apply = apply_linear,
                                                 .reference = reference_linear};

static void check(const op_spec *spec)
{
    t_world world;
    t_open(&world, NULL);
    op_check(world.device, spec);
    t_close(&world);
}

TEST(matmul_is_right)
{
    check(&matmul_spec);
}

TEST(linear_is_right)
{
    check(&linear_spec);
    check(&linear_without_bias_spec);
}

/* ---- what is refused ---- the message has the operator and what it got; the tape is as new
 * after clear. */
TEST(refuses_what_does_not_fit)
{
    t_world world;
    ph_tape *tape;
    t_open(&world, NULL);
    assert_ok(ph_tape_create(&tape, world.stream, NULL));
    ph_tensor *a = ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(2, 3)),
              *b = ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(4, 3));
    assert_null(ph_matmul(tape, a, b));
    assert_error(ph_tape_clear(tape), PH_ERROR_ARGUMENT, "matmul");
    a = ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(2, 2, 3));
    b = ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(3, 3, 3));
    assert_null(ph_matmul(tape, a, b));
    assert_error(ph_tape_clear(tape), PH_ERROR_ARGUMENT, "[2, 2, 3]");
    a = ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(2, 2));
    assert_null(ph_matmul(tape, a, ph_zeros(tape, PH_DTYPE_F64, PH_SHAPE(2, 2))));
    assert_error(ph_tape_clear(tape), PH_ERROR_ARGUMENT, "dtype");
    a = ph_zeros(tape, PH_DTYPE_I32, PH_SHAPE(2, 2));
    assert_null(ph_matmul(tape, a, a));
    assert_error(ph_tape_clear(tape), PH_ERROR_ARGUMENT, "dtype");
    a = ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(2, 2));
    assert_null(ph_matmul(tape, a, ph_zeros(tape, PH_DTYPE_F32, PH_SCALAR)));
    assert_error(ph_tape_clear(tape), PH_ERROR_ARGUMENT, "matmul");
    a = ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(2, 2));
    assert_null(ph_linear(tape, a, ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(5, 3)), NULL));
    assert_error(ph_tape_clear(tape), PH_ERROR_ARGUMENT, "linear");
    a = ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(2, 2));
    assert_null(ph_linear(tape, a, a, ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(3))));
    assert_error(ph_tape_clear(tape), PH_ERROR_ARGUMENT, "bias");
    assert_null(ph_matmul(tape, NULL, NULL));
    assert_error(ph_tape_clear(tape), PH_ERROR_ARGUMENT, "matmul");
    assert_ok(ph_tape_clear(tape));
    ph_tape_destroy(tape);
    t_close(&world);
}

TEST(tf32_is_a_switch)
{
    assert_false(ph_tf32());
    ph_set_tf32(true);
    assert_true(ph_tf32());
    ph_set_tf32(false);
    assert_false(ph_tf32());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul_is_right),
        cmocka_unit_test(linear_is_right),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(tf32_is_a_switch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
