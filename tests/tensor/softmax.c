/* SPDX-License-Identifier: MIT */
/* tests/tensor/softmax.c: softmax and log_softmax against a float64 reference and differences,
 * and on rows of special values. */
#include "support/grads.h"
#include "support/op_check.h"
#include "support/test.h"
#include <math.h>

/* p[0]: the axis. */
static void shapes_any(op_trial *trial)
{
    trial->shape[0] = op_random_shape(trial, 1, 5);
    int64_t rank = (int64_t)trial->shape[0].rank;
    trial->p[0] = op_random(trial, -rank, rank - 1);
}

/* Rows too long for a warp, of every alignment. */
static void shapes_long(op_trial *trial)
{
    static const int64_t lengths[] = {1025, 1030, 2047, 4096, 5003};
    trial->shape[0] = (ph_shape){2, {op_random(trial, 1, 3), lengths[trial->index % 5]}};
    trial->p[0] = 1;
}

/* Many columns, and long ones. */
static void shapes_across(op_trial *trial)
{
    trial->shape[0] =
        (ph_shape){3, {op_random(trial, 1, 3), op_random(trial, 1, 70), op_random(trial, 2, 90)}};
    trial->p[0] = 1;
}

static void reference(op_array *out, const op_array *in, const op_trial *trial, bool log_form)
{
    const ph_shape *shape = &in[0].shape;
    size_t axis = (size_t)(trial->p[0] < 0 ? trial->p[0] + (int64_t)shape->rank : trial->p[0]);
    int64_t inner = 1, n = shape->dim[axis];
    op_array_make(&out[0], shape);
    for (size_t i = axis + 1; i < shape->rank; i++)
        inner *= shape->dim[i];
    for (int64_t c = 0; n > 0 && c < in[0].count / n; c++) {
        const double *x = in[0].at + c / inner * inner * n + c % inner;
        double *y = out[0].at + c / inner * inner * n + c % inner, most = -INFINITY, sum = 0;
        for (int64_t i = 0; i < n; i++)
            most = fmax(most, x[i * inner]);
        for (int64_t i = 0; i < n; i++)
            sum += exp(x[i * inner] - most);
        for (int64_t i = 0; i < n; i++)
            y[i * inner] =
                log_form ? x[i * inner] - most - log(sum) : exp(x[i * inner] - most) / sum;
    }
}

static void reference_softmax(op_array *out, const op_array *in, const op_trial *trial)
{
    reference(out, in, trial, false);
}
static void reference_log_softmax(op_array *out, const op_array *in, const op_trial *trial)
{
    reference(out, in, trial, true);
}
static void apply_softmax(ph_tape *tape, ph_tensor **out, ph_tensor *const *in,
                          const op_trial *trial)
{
    out[0] = ph_softmax(tape, in[0], (int)trial->p[0]);
}
static void apply_log_softmax(ph_tape *tape, ph_tensor **out, ph_tensor *const *in,
                              const op_trial *trial)
{
    out[0] = ph_log_softmax(tape, in[0], (int)trial->p[0]);
}

static void check(const char *name, bool log_form, void (*shapes)(op_trial *), size_t trials)
{
    ph_device *device;
    assert_ok(ph_device_open(&device, t_device_name(), NULL));
    op_spec spec = {.name = name,
                    .in_count = 1,
                    .in = {{.low = -6, .high = 6}},
                    .trials = trials,
                    .shapes = shapes,
                    .apply = log_form ? apply_log_softmax : apply_softmax,
                    .reference = log_form ? reference_log_softmax : reference_softmax};
    op_check(device, &spec);
    ph_device_release(device);
}

TEST(softmax_is_right)
{
    check("softmax", false, shapes_any, t_nightly() ? 60 : 18);
    check("softmax, long rows", false, shapes_long, 5);
    check("softmax, columns", false, shapes_across, 6);
}

TEST(log_softmax_is_right)
{
    check("log_softmax", true, shapes_any, t_nightly() ? 60 : 18);
    check("log_softmax, long rows", true, shapes_long, 5);
    check("log_softmax, columns", true, shapes_across, 6);
}

/* As PyTorch's: of a row of -infinity, and of one with +infinity or NaN, nothing is a number;
 * -infinity beside numbers gives 0. */
TEST(rows_with_infinity_or_nan_are_as_in_pytorch)
{
    t_scene s;
    float got[5][4];
    const float rows[5][4] = {{-INFINITY, -INFINITY, -INFINITY, -INFINITY},
                              {0, INFINITY, 0, 0},
                              {0, NAN, 0, 0},
                              {1000, -INFINITY, 1000, -1000},
                              {-3e38f, -3e38f, -INFINITY, -3.4e38f}};
    t_scene_open(&s);
    for (int across = 0; across < 2; across++) {
        ph_tensor *x = ph_from_memory(s.tape, PH_DTYPE_F32, PH_SHAPE(5, 4), rows);
        if (across)
            x = ph_contiguous(s.tape, ph_transpose(s.tape, x, 0, 1));
        x = ph_softmax(s.tape, x, across ? 0 : 1);
        assert_ok(ph_tensor_read(s.tape,
                                 across ? ph_contiguous(s.tape, ph_transpose(s.tape, x, 0, 1)) : x,
                                 got, sizeof got));
        for (int i = 0; i < 4; i++) {
            assert_true(isnan(got[0][i]));
            assert_true(isnan(got[2][i]));
        }
        assert_true(isnan(got[1][1]));
        assert_true(got[3][0] == 0.5f && got[3][1] == 0 && got[3][2] == 0.5f && got[3][3] == 0);
        assert_true(got[4][0] == 0.5f && got[4][1] == 0.5f && got[4][2] == 0 && got[4][3] == 0);
        assert_ok(ph_tape_clear(s.tape));
    }
    t_scene_close(&s);
}

TEST(scalars_and_refusals)
{
    t_scene s;
    t_scene_open(&s);
    t_expect_values(s.tape, ph_softmax(s.tape, ph_full(s.tape, PH_DTYPE_F32, PH_SCALAR, 3), 0),
                    PH_SCALAR, 1);
    t_expect_values(s.tape, ph_log_softmax(s.tape, ph_full(s.tape, PH_DTYPE_F32, PH_SCALAR, 3), -1),
                    PH_SCALAR, 0);
    assert_null(ph_softmax(s.tape, ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(2, 3)), 2));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "axis 2 (got f32[2, 3])");
    assert_null(ph_softmax(s.tape, ph_zeros(s.tape, PH_DTYPE_F32, PH_SCALAR), 1));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "axis 1");
    assert_null(ph_log_softmax(s.tape, ph_zeros(s.tape, PH_DTYPE_I32, PH_SHAPE(2)), 0));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "log_softmax: the operand must be of a floating dtype");
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_is_right),
        cmocka_unit_test(log_softmax_is_right),
        cmocka_unit_test(rows_with_infinity_or_nan_are_as_in_pytorch),
        cmocka_unit_test(scalars_and_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
