/* SPDX-License-Identifier: MIT */
/* tests/tensor/cross_entropy.c: cross_entropy and mse against a float64 reference and
 * differences; targets that are no class. */
#include "support/grads.h"
#include "support/op_check.h"
#include "support/test.h"
#include <math.h>

/* p[0]: the reduction; p[1]: whether a number is ignored; p[2]: which one; p[3]: how many are
 * classes, 0: all. */
static void choose(op_trial *trial)
{
    const ph_shape *x = &trial->shape[0];
    int64_t classes = x->dim[x->rank - 1];
    trial->shape[1] = *x;
    trial->shape[1].rank--;
    trial->p[3] = classes > 1 && op_random(trial, 0, 2) == 0 ? op_random(trial, 1, classes - 1) : 0;
    classes = trial->p[3] ? trial->p[3] : classes;
    trial->low[1] = 0;
    trial->high[1] = (double)classes;
    trial->p[0] = op_random(trial, PH_REDUCTION_MEAN, PH_REDUCTION_NONE);
    trial->p[1] = ph_shape_count(x) >= 20;
    trial->p[2] = op_random(trial, 0, 1) ? classes : -100;
    if (trial->p[1] && trial->p[2] == classes)
        trial->high[1]++;
}
static void shapes_any(op_trial *trial)
{
    trial->shape[0] = op_random_shape(trial, 1, 4);
    choose(trial);
}
/* Rows of every alignment, as long as a vocabulary. */
static void shapes_long(op_trial *trial)
{
    static const int64_t classes[] = {600, 1027, 5003, 20001, 50257};
    trial->shape[0] =
        (ph_shape){2, {trial->index == 4 ? 2 : op_random(trial, 1, 4), classes[trial->index % 5]}};
    choose(trial);
}

static ph_tensor *loss_of(ph_tape *tape, ph_tensor *logits, ph_tensor *targets,
                          const op_trial *trial)
{
    ph_cross_entropy_options options = {.reduction = (ph_reduction)trial->p[0],
                                        .has_ignore_index = trial->p[1],
                                        .ignore_index = trial->p[2],
                                        .classes = trial->p[3]};
    return ph_cross_entropy_with(tape, logits, targets, &options);
}
static void apply(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, const op_trial *trial)
{
    out[0] = loss_of(tape, in[0], in[1], trial);
}

static void reference(op_array *out, const op_array *in, const op_trial *trial)
{
    int64_t width = in[0].shape.dim[in[0].shape.rank - 1], rows = in[1].count, counted = 0;
    int64_t n = trial->p[3] ? trial->p[3] : width;
    bool each = trial->p[0] == PH_REDUCTION_NONE;
    op_array_make(&out[0], each ? &in[1].shape : &PH_SCALAR);
    for (int64_t r = 0; r < rows; r++) {
        const double *x = in[0].at + r * width;
        double most = -INFINITY, sum = 0, loss;
        int64_t target = (int64_t)in[1].at[r];
        if (trial->p[1] && target == trial->p[2])
            continue;
        for (int64_t i = 0; i < n; i++)
            most = fmax(most, x[i]);
        for (int64_t i = 0; i < n; i++)
            sum += exp(x[i] - most);
        loss = target < n ? log(sum) + most - x[target] : (double)NAN;
        out[0].at[each ? r : 0] += loss;
        counted++;
    }
    if (trial->p[0] == PH_REDUCTION_MEAN)
        out[0].at[0] /= (double)counted;
}

TEST(cross_entropy_is_right)
{
    ph_device *device;
    assert_ok(ph_device_open(&device, t_device_name(), NULL));
    op_spec spec = {.name = "cross_entropy",
                    .in_count = 2,
                    .in = {{.low = -6, .high = 6}, {.dtype = PH_DTYPE_I64}},
                    .trials = t_nightly() ? 60 : 18,
                    .shapes = shapes_any,
                    .apply = apply,
                    .reference = reference};
    op_check(device, &spec);
    spec.in[1].dtype = PH_DTYPE_I32;
    op_check(device, &spec);
    spec.name = "cross_entropy, long rows";
    spec.shapes = shapes_long;
    spec.trials = 5;
    op_check(device, &spec);
    ph_device_release(device);
}

/* ---- mse ---- */
static void apply_mse(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, const op_trial *trial)
{
    (void)trial;
    out[0] = ph_mse(tape, in[0], in[1]);
}
static void reference_mse(op_array *out, const op_array *in, const op_trial *trial)
{
    ph_shape shape = in[0].shape.rank >= in[1].shape.rank ? in[0].shape : in[1].shape;
    int64_t index[PH_MAX_RANK] = {0}, count;
    (void)trial;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < in[k].shape.rank; i++)
            if (in[k].shape.dim[i] != 1)
                shape.dim[shape.rank - in[k].shape.rank + i] = in[k].shape.dim[i];
    count = ph_shape_count(&shape);
    op_array_make(&out[0], &PH_SCALAR);
    if (count > 0)
        do {
            double d = in[0].at[op_at(&in[0], index, shape.rank)] -
                       in[1].at[op_at(&in[1], index, shape.rank)];
            out[0].at[0] += d * d;
        } while (op_next(index, &shape));
    out[0].at[0] /= (double)count;
}
/* Empty ones are of one shape: the mean of nothing has no differences. */
static void shapes_mse(op_trial *trial)
{
    op_shapes_broadcast(trial);
    for (int i = 0; i < 2; i++)
        if (ph_shape_count(&trial->shape[i]) == 0)
            trial->shape[1 - i] = trial->shape[i];
}
/* More than one piece, and an odd end. */
static void shapes_many(op_trial *trial)
{
    trial->shape[0] = trial->shape[1] = (ph_shape){2, {op_random(trial, 3, 5), 4097}};
}

TEST(mse_is_right)
{
    ph_device *device;
    assert_ok(ph_device_open(&device, t_device_name(), NULL));
    op_spec spec = {.name = "mse",
                    .in_count = 2,
                    .trials = t_nightly() ? 60 : 18,
                    .shapes = shapes_mse,
                    .apply = apply_mse,
                    .reference = reference_mse};
    op_check(device, &spec);
    spec.name = "mse, large";
    spec.shapes = shapes_many;
    spec.trials = 2;
    op_check(device, &spec);
    ph_device_release(device);
}

/* ---- targets ---- */
static void read_all(const t_scene *s, float *to, size_t count, const ph_tensor *x)
{
    assert_non_null(x);
    assert_ok(ph_tensor_read(s->tape, x, to, count * sizeof *to));
}

TEST(targets_that_are_no_class_give_nan)
{
    t_scene s;
    float got[12], loss;
    const int64_t numbers[] = {1, 3, -1, 2};
    t_scene_open(&s);
    ph_tensor *x = t_leaf(&s, PH_SHAPE(4, 3), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    ph_tensor *targets = ph_from_memory(s.tape, PH_DTYPE_I64, PH_SHAPE(4), numbers);
    ph_cross_entropy_options options = {.reduction = PH_REDUCTION_SUM};
    ph_tensor *sum = ph_cross_entropy_with(s.tape, x, targets, &options);
    read_all(&s, &loss, 1, sum);
    assert_true(isnan(loss));
    ph_backward(s.tape, sum);
    read_all(&s, got, 12, ph_tensor_grad(x));
    for (int i = 0; i < 12; i++)
        assert_int_equal(isnan(got[i]) != 0, i >= 3 && i < 9);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    t_scene_close(&s);
}

static void expect_padding_without_gradient(const t_scene *s, int64_t width, int64_t classes,
                                            int64_t target)
{
    float got[3000];
    assert_in_range(width, 1, 3000);
    ph_cross_entropy_options options = {.classes = classes};
    ph_tensor *x = ph_zeros(s->tape, PH_DTYPE_F32, PH_SHAPE(1, width));
    ph_tensor *targets = ph_from_memory(s->tape, PH_DTYPE_I64, PH_SHAPE(1), &target);
    assert_ok(ph_tensor_set_requires_grad(x, true));
    ph_backward(s->tape, ph_cross_entropy_with(s->tape, x, targets, &options));
    read_all(s, got, (size_t)width, ph_tensor_grad(x));
    bool is_class = target >= 0 && target < classes;
    for (int64_t i = 0; i < classes; i++)
        assert_int_equal(isnan(got[i]) == 0, is_class);
    for (int64_t i = classes; i < width; i++)
        assert_true(got[i] == 0);
    assert_ok(ph_tape_clear(s->tape));
}

/* The one that the target names has none either: short rows, and long ones of several pieces. */
TEST(elements_past_the_classes_have_no_gradient)
{
    t_scene s;
    const int64_t targets[] = {0, 1299, 1300, 1301, 2048, 2999, 3000, -1};
    t_scene_open(&s);
    for (int64_t target = -1; target <= 6; target++)
        expect_padding_without_gradient(&s, 6, 3, target);
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
        expect_padding_without_gradient(&s, 3000, 1300, targets[i]);
    t_scene_close(&s);
}

/* All rows ignored: the mean of nothing, and a gradient of 0 whatever the logits are. */
TEST(ignored_rows_take_no_part)
{
    t_scene s;
    float loss;
    const int32_t numbers[] = {-100, -100};
    t_scene_open(&s);
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2, 2), INFINITY, NAN, -INFINITY, -INFINITY);
    ph_tensor *targets = ph_from_memory(s.tape, PH_DTYPE_I32, PH_SHAPE(2), numbers);
    ph_cross_entropy_options options = {.has_ignore_index = true, .ignore_index = -100};
    ph_tensor *mean = ph_cross_entropy_with(s.tape, x, targets, &options);
    read_all(&s, &loss, 1, mean);
    assert_true(isnan(loss));
    ph_backward(s.tape, mean);
    t_expect_grad(&s, x, 0, 0, 0, 0);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    t_scene_close(&s);
}

TEST(misuse_is_refused)
{
    t_scene s;
    t_scene_open(&s);
    ph_tape *t = s.tape;
    assert_null(ph_cross_entropy(t, ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2, 3)),
                                 ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2))));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "targets of i64 or i32 (got f32[2, 3], f32[2])");
    assert_null(ph_cross_entropy(t, ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2, 3)),
                                 ph_zeros(t, PH_DTYPE_I64, PH_SHAPE(3))));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "without its last dimension");
    assert_null(ph_cross_entropy(t, ph_zeros(t, PH_DTYPE_F32, PH_SCALAR),
                                 ph_zeros(t, PH_DTYPE_I64, PH_SCALAR)));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "axis of classes");
    ph_cross_entropy_options options = {.reduction = (ph_reduction)3};
    assert_null(ph_cross_entropy_with(t, ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2, 3)),
                                      ph_zeros(t, PH_DTYPE_I64, PH_SHAPE(2)), &options));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "no such reduction");
    options = (ph_cross_entropy_options){.reserved = {1}};
    assert_null(ph_cross_entropy_with(t, ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2, 3)),
                                      ph_zeros(t, PH_DTYPE_I64, PH_SHAPE(2)), &options));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "reserved");
    assert_null(ph_mse(t, ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2, 3)),
                       ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2))));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "do not broadcast");
    assert_null(
        ph_mse(t, ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2)), ph_zeros(t, PH_DTYPE_F64, PH_SHAPE(2))));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "one floating dtype");
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cross_entropy_is_right),
        cmocka_unit_test(mse_is_right),
        cmocka_unit_test(targets_that_are_no_class_give_nan),
        cmocka_unit_test(elements_past_the_classes_have_no_gradient),
        cmocka_unit_test(ignored_rows_take_no_part),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
