/* SPDX-License-Identifier: MIT */
/* tests/tensor/norm.c: layer_norm and rms_norm against a float64 reference and differences. */
#include "fake/fake_cuda.h"
#include "support/grads.h"
#include "support/op_check.h"
#include "support/test.h"
#include <math.h>

/* p[0]: bit 0: there is a weight; bit 1: a bias. f[0]: eps. */
static void choose(op_trial *trial)
{
    const ph_shape *x = &trial->shape[0];
    for (size_t i = 1; i < trial->spec->in_count; i++)
        trial->shape[i] = (ph_shape){1, {x->dim[x->rank - 1]}};
    trial->p[0] = op_random(trial, 0, 3);
    trial->f[0] = op_random(trial, 0, 1) ? 0 : 0.1;
}
/* The numbers of a short row may be drawn nearly equal: how they differ from their mean then has
 * few digits (nearly_equal_rows). */
static void spread(op_array *a, size_t i, const op_trial *trial)
{
    int64_t n = a->shape.dim[a->shape.rank - 1];
    (void)trial;
    for (int64_t r = 0; i == 0 && n > 1 && r < a->count / n; r++) {
        double *x = a->at + r * n, low = x[0], high = x[0];
        for (int64_t k = 1; k < n; k++) {
            low = fmin(low, x[k]);
            high = fmax(high, x[k]);
        }
        if (high - low < 0.5)
            x[0] += x[0] < 0 ? 1 : -1;
    }
}
static void shapes_any(op_trial *trial)
{
    trial->shape[0] = op_random_shape(trial, 1, 4);
    choose(trial);
}
/* Rows of a block's, in registers and read again, aligned and not. */
static void shapes_long(op_trial *trial)
{
    static const int64_t lengths[] = {768, 771, 1026, 3072, 8192, 8200, 9001};
    trial->shape[0] = (ph_shape){2, {op_random(trial, 1, 3), lengths[trial->index % 7]}};
    choose(trial);
    trial->p[0] = 3;
}
/* Several blocks of rows, of every length that a warp keeps. */
static void shapes_tall(op_trial *trial)
{
    static const int64_t lengths[] = {64, 512, 768, 1024};
    int64_t few = op_random(trial, 1, 2) * 300 + (int64_t)trial->index,
            n = op_random(trial, 3, 300);
    trial->shape[0] = (ph_shape){2, {few, n}};
    if (trial->index >= 3)
        trial->shape[0] = (ph_shape){2, {9 + few % 8, lengths[trial->index % 4]}};
    choose(trial);
    trial->p[0] = 3;
}

static void apply_layer_norm(ph_tape *tape, ph_tensor **out, ph_tensor *const *in,
                             const op_trial *trial)
{
    out[0] = ph_layer_norm(tape, in[0], trial->p[0] & 1 ? in[1] : NULL,
                           trial->p[0] & 2 ? in[2] : NULL, trial->f[0]);
}
static void apply_rms_norm(ph_tape *tape, ph_tensor **out, ph_tensor *const *in,
                           const op_trial *trial)
{
    out[0] = ph_rms_norm(tape, in[0], trial->p[0] & 1 ? in[1] : NULL, trial->f[0]);
}

static void reference(op_array *out, const op_array *in, const op_trial *trial)
{
    int64_t n = in[0].shape.dim[in[0].shape.rank - 1];
    bool centered = trial->spec->in_count == 3;
    double eps = trial->f[0] > 0 ? trial->f[0] : 1e-5;
    op_array_make(&out[0], &in[0].shape);
    for (int64_t r = 0; n > 0 && r < in[0].count / n; r++) {
        const double *x = in[0].at + r * n;
        double mean = 0, square = 0;
        for (int64_t i = 0; centered && i < n; i++)
            mean += x[i] / (double)n;
        for (int64_t i = 0; i < n; i++)
            square += (x[i] - mean) * (x[i] - mean) / (double)n;
        for (int64_t i = 0; i < n; i++)
            out[0].at[r * n + i] =
                (x[i] - mean) / sqrt(square + eps) * (trial->p[0] & 1 ? in[1].at[i] : 1) +
                (centered && trial->p[0] & 2 ? in[2].at[i] : 0);
    }
}

static void check(const char *name, size_t in_count, void (*shapes)(op_trial *), size_t trials)
{
    ph_device *device;
    assert_ok(ph_device_open(&device, t_device_name(), NULL));
    op_spec spec = {.name = name,
                    .in_count = in_count,
                    .trials = trials,
                    .shapes = shapes,
                    .adjust = in_count == 3 ? spread : NULL,
                    .bound = {[PH_DTYPE_F64] = 1e-13}, /* x - mean cancels */
                    .apply = in_count == 3 ? apply_layer_norm : apply_rms_norm,
                    .reference = reference};
    op_check(device, &spec);
    ph_device_release(device);
}

TEST(layer_norm_is_right)
{
    check("layer_norm", 3, shapes_any, t_nightly() ? 60 : 18);
    check("layer_norm, long rows", 3, shapes_long, 7);
    check("layer_norm, many rows", 3, shapes_tall, 7);
}

TEST(rms_norm_is_right)
{
    check("rms_norm", 2, shapes_any, t_nightly() ? 60 : 18);
    check("rms_norm, long rows", 2, shapes_long, 7);
    check("rms_norm, many rows", 2, shapes_tall, 7);
}

/* ---- rows of nearly equal numbers ---- The mean is rounded, and so is the sum that it is made
 * from: it is off by e, two of its last places at most. That moves z = (x - mean) / root by k =
 * e / root, and root by k^2 / 2 of itself. Where d is the gradient of z, and D the largest |d|,
 * x's is dx = (d - mean(d) - z mean(d z)) / root, and is off, as |mean(d)| and |mean(d z)| are
 * at most D, by no more than
 *     D / root (k (1 + |z|) + k^2 (2 + 3/2 |z|)).
 * Beside that there are 16 last places for the steps of either; nothing more may be wrong. */
enum {
    NEAR_ROWS = 64,
    NEAR_MOST = NEAR_ROWS * 4
};
typedef struct near_rows {
    ph_dtype dtype;
    int64_t n;
    double eps, last; /* the last place of 1 in the dtype */
    double x[NEAR_MOST], d[NEAR_MOST], z[NEAR_MOST], dx[NEAR_MOST];
} near_rows;

/* Rows around 1.5, of numbers from 1 apart down to 2^8 last places. */
static void near_draw(near_rows *a)
{
    const double step = -(log2(a->last) + 8) / 15;
    ph__rng rng = {11};
    for (int64_t i = 0; i < NEAR_ROWS * a->n; i++) {
        double far = exp2(-step * (double)(i / a->n % 16));
        a->x[i] = 1.5 + far * ((double)(ph__rng_next(&rng) >> 11) * 0x1p-53 - 0.5);
        a->d[i] = (double)(ph__rng_next(&rng) >> 40) * 0x1p-23 - 1;
        if (a->dtype == PH_DTYPE_F32)
            a->x[i] = (float)a->x[i];
    }
}

static void near_run(t_scene *s, near_rows *a)
{
    ph_tape *t = s->tape;
    const ph_shape shape = PH_SHAPE(NEAR_ROWS, a->n);
    const size_t bytes = sizeof *a->x * NEAR_ROWS * (size_t)a->n;
    ph_tensor *x =
        ph_tensor_retain(ph_cast(t, ph_from_memory(t, PH_DTYPE_F64, shape, a->x), a->dtype));
    ph_tensor *d = ph_cast(t, ph_from_memory(t, PH_DTYPE_F64, shape, a->d), a->dtype);
    assert_non_null(x);
    assert_ok(ph_tensor_set_requires_grad(x, true));
    ph_tensor *z = ph_layer_norm(t, x, NULL, NULL, a->eps);
    ph_backward(t, ph_sum(t, ph_mul(t, d, z)));
    assert_ok(ph_tape_status(t));
    assert_ok(ph_tensor_read(t, ph_cast(t, ph_detach(t, z), PH_DTYPE_F64), a->z, bytes));
    assert_ok(ph_tensor_read(t, ph_cast(t, ph_tensor_grad(x), PH_DTYPE_F64), a->dx, bytes));
    assert_ok(ph_tape_clear(t));
    ph_tensor_release(x);
}

/* The differences from a row's first number are exact, so no digits go lost here. */
static void near_expect(const near_rows *a, int64_t at)
{
    const double *x = a->x + at, *d = a->d + at, count = (double)a->n;
    double mean = 0, square = 0, most = 0, less = 0, along = 0, z[4];
    for (int64_t i = 0; i < a->n; i++) {
        mean += (x[i] - x[0]) / count;
        less += d[i] / count;
        most = fmax(most, fabs(d[i]));
    }
    for (int64_t i = 0; i < a->n; i++)
        square += (x[i] - x[0] - mean) * (x[i] - x[0] - mean) / count;
    const double root = sqrt(square + a->eps), k = 2 * a->last / root;
    for (int64_t i = 0; i < a->n; i++) {
        z[i] = (x[i] - x[0] - mean) / root;
        along += d[i] * z[i] / count;
    }
    for (int64_t i = 0; i < a->n; i++) {
        const double size = fabs(z[i]), steps = 16 * a->last * (1 + size),
                     dx = (d[i] - less - z[i] * along) / root;
        assert_true(fabs(a->z[at + i] - z[i]) <= k + k * k / 2 * size + steps);
        assert_true(fabs(a->dx[at + i] - dx) <=
                    most / root * (k * (1 + size) + k * k * (2 + 1.5 * size) + steps));
    }
}

/* With an eps that lies far below the smallest deviation the scale is that deviation's, too. */
TEST(nearly_equal_rows)
{
    static near_rows a;
    t_scene s;
    t_scene_open(&s);
    for (unsigned trial = 0; trial < 8; trial++) {
        a.dtype = trial & 1 ? PH_DTYPE_F64 : PH_DTYPE_F32;
        a.last = trial & 1 ? 0x1p-52 : 0x1p-23;
        a.n = trial & 2 ? 4 : 3;
        a.eps = trial & 4 ? a.last * a.last : 1e-5;
        near_draw(&a);
        near_run(&s, &a);
        for (int64_t r = 0; r < NEAR_ROWS; r++)
            near_expect(&a, r * a.n);
    }
    t_scene_close(&s);
}

/* A large mean must not eat the deviation: it is taken from differences to the mean, not from
 * squares. */
TEST(a_large_mean_does_no_harm)
{
    t_scene s;
    float x[1600], y[1600];
    t_scene_open(&s);
    for (int i = 0; i < 1600; i++)
        x[i] = 30000.0f + (i % 2 ? 1.0f : -1.0f);
    ph_tensor *out = ph_layer_norm(
        s.tape, ph_from_memory(s.tape, PH_DTYPE_F32, PH_SHAPE(1, 1600), x), NULL, NULL, 0);
    assert_non_null(out);
    assert_ok(ph_tensor_read(s.tape, out, y, sizeof y));
    for (int i = 0; i < 1600; i++)
        assert_true(fabs((double)y[i] - (i % 2 ? 1 : -1)) < 1e-4);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

/* ---- one sum ---- The gradients of weight and bias have the same bits whether that of x is wanted
 * or not, and wherever x lies: other kernels do the work then. */
static ph_tensor *rows_at(ph_tape *tape, ph_tensor *all, int64_t offset, ph_shape shape)
{
    int64_t count = ph_shape_count(&shape);
    ph_tensor *flat = ph_full(tape, PH_DTYPE_F32, PH_SHAPE(count + 8), 0);
    ph_tensor *part = ph_slice(tape, flat, 0, offset, offset + count);
    ph_tensor_copy(tape, part, all);
    return ph_reshape(tape, part, shape);
}

TEST(gradients_of_parameters_have_one_sum)
{
    enum {
        ROWS = 1237,
        N = 256
    };
    static float grads[4][2 * N];
    t_scene s;
    t_scene_open(&s);
    ph_tensor *all = ph_tensor_retain(ph_randn(s.tape, PH_DTYPE_F32, PH_SHAPE(ROWS * N))),
              *g = ph_tensor_retain(ph_randn(s.tape, PH_DTYPE_F32, PH_SHAPE(ROWS, N))),
              *p[2] = {ph_tensor_retain(ph_randn(s.tape, PH_DTYPE_F32, PH_SHAPE(N))),
                       ph_tensor_retain(ph_randn(s.tape, PH_DTYPE_F32, PH_SHAPE(N)))};
    assert_ok(ph_tape_clear(s.tape));
    for (int i = 0; i < 4; i++) {
        ph_tensor *x = ph_tensor_retain(rows_at(s.tape, all, i % 2 ? 1 : 0, PH_SHAPE(ROWS, N)));
        ph_tensor *of[3] = {p[0], p[1], x}, *grad[3];
        assert_ok(ph_tape_clear(s.tape));
        for (int k = 0; k < 3; k++)
            assert_ok(ph_tensor_set_requires_grad(of[k], k < 2 || i < 2));
        ph_tensor *y = ph_layer_norm(s.tape, x, p[0], p[1], 1e-5);
        ph_grad(s.tape, grad, of, i < 2 ? 3 : 2, &y, &g, 1, NULL);
        assert_ok(ph_tensor_read(s.tape, grad[0], grads[i], sizeof grads[i] / 2));
        assert_ok(ph_tensor_read(s.tape, grad[1], grads[i] + N, sizeof grads[i] / 2));
        /* A GPU makes mean and scale of rows that are not aligned by another kernel. */
        const float *same = t_on_host() || fake_cuda() ? grads[0] : grads[i % 2];
        assert_memory_equal(grads[i], same, sizeof grads[0]);
        assert_ok(ph_tape_clear(s.tape));
        ph_tensor_release(x);
    }
    ph_tensor *const gone[] = {all, g, p[0], p[1]};
    for (int i = 0; i < 4; i++)
        ph_tensor_release(gone[i]);
    t_scene_close(&s);
}

TEST(misuse_is_refused)
{
    t_scene s;
    t_scene_open(&s);
    ph_tape *t = s.tape;
    assert_null(ph_layer_norm(t, ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2, 3)),
                              ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2)), NULL, 0));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "layer_norm: weight and bias must have");
    assert_null(ph_layer_norm(t, ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2, 3)), NULL,
                              ph_zeros(t, PH_DTYPE_F64, PH_SHAPE(3)), 0));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "dtype");
    assert_null(ph_layer_norm(t, ph_zeros(t, PH_DTYPE_F32, PH_SCALAR), NULL, NULL, 0));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "axis");
    assert_null(ph_rms_norm(t, ph_zeros(t, PH_DTYPE_I32, PH_SHAPE(2)), NULL, 0));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "rms_norm: the operand must be of a floating dtype");
    assert_null(ph_rms_norm(t, ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2)), NULL, -1));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "eps");
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_norm_is_right),
        cmocka_unit_test(rms_norm_is_right),
        cmocka_unit_test(a_large_mean_does_no_harm),
        cmocka_unit_test(nearly_equal_rows),
        cmocka_unit_test(gradients_of_parameters_have_one_sum),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
