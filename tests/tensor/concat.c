/* SPDX-License-Identifier: MIT */
/* tests/tensor/concat.c: concat, stack and split. */
#include "support/grads.h"
#include "support/op_check.h"
#include "support/test.h"

/* p[0]: the axis; three operands of different sizes along it. */
static void shapes_concat(op_trial *trial)
{
    ph_shape shape = op_random_shape(trial, 1, 4);
    trial->p[0] = op_random(trial, -(int64_t)shape.rank, (int64_t)shape.rank - 1);
    size_t axis = (size_t)(trial->p[0] < 0 ? trial->p[0] + (int64_t)shape.rank : trial->p[0]);
    for (size_t i = 0; i < trial->spec->in_count; i++) {
        trial->shape[i] = shape;
        trial->shape[i].dim[axis] = op_random(trial, 0, 5);
    }
}
static void shapes_stack(op_trial *trial)
{
    op_shapes_same(trial);
    int64_t rank = (int64_t)trial->shape[0].rank;
    trial->p[0] = op_random(trial, -rank - 1, rank);
}
static void shapes_split(op_trial *trial)
{
    trial->shape[0] = op_random_shape(trial, 1, 4);
    int64_t rank = (int64_t)trial->shape[0].rank, left;
    trial->p[0] = op_random(trial, 0, rank - 1);
    left = trial->shape[0].dim[trial->p[0]];
    for (int i = 1; i < 3; i++) {
        trial->p[i] = op_random(trial, 0, left);
        left -= trial->p[i];
    }
    trial->p[3] = left;
}

static void apply_concat(ph_tape *tape, ph_tensor **out, ph_tensor *const *in,
                         const op_trial *trial)
{
    out[0] = ph_concat(tape, in, trial->spec->in_count, (int)trial->p[0]);
}
static void apply_stack(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, const op_trial *trial)
{
    out[0] = ph_stack(tape, in, trial->spec->in_count, (int)trial->p[0]);
}
static void apply_split(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, const op_trial *trial)
{
    ph_split(tape, out, in[0], (int)trial->p[0], trial->p + 1, 3);
}

/* Elements [at, at + the part's) of the whole along axis; to or from it. */
static void move_part(op_array *whole, op_array *part, size_t axis, int64_t at, bool out_of)
{
    int64_t index[PH_MAX_RANK] = {0}, k = 0;
    if (part->count == 0)
        return;
    do {
        int64_t place = 0;
        for (size_t i = 0; i < part->shape.rank; i++)
            place = place * whole->shape.dim[i] + index[i] + (i == axis ? at : 0);
        if (out_of)
            part->at[k++] = whole->at[place];
        else
            whole->at[place] = part->at[k++];
    } while (op_next(index, &part->shape));
}

static void reference_concat(op_array *out, const op_array *in, const op_trial *trial)
{
    ph_shape shape = in[0].shape;
    size_t axis = (size_t)(trial->p[0] < 0 ? trial->p[0] + (int64_t)shape.rank : trial->p[0]);
    int64_t at = 0;
    for (size_t i = 1; i < trial->spec->in_count; i++)
        shape.dim[axis] += in[i].shape.dim[axis];
    op_array_make(&out[0], &shape);
    for (size_t i = 0; i < trial->spec->in_count; i++) {
        op_array part = in[i];
        move_part(&out[0], &part, axis, at, false);
        at += in[i].shape.dim[axis];
    }
}
static void reference_stack(op_array *out, const op_array *in, const op_trial *trial)
{
    op_array with_axis[OP_MAX_INPUTS];
    op_trial same = *trial;
    size_t rank = in[0].shape.rank,
           axis = (size_t)(trial->p[0] < 0 ? trial->p[0] + (int64_t)rank + 1 : trial->p[0]);
    for (size_t i = 0; i < trial->spec->in_count; i++) {
        with_axis[i] = in[i];
        for (size_t d = rank; d > axis; d--)
            with_axis[i].shape.dim[d] = with_axis[i].shape.dim[d - 1];
        with_axis[i].shape.dim[axis] = 1;
        with_axis[i].shape.rank = rank + 1;
    }
    same.p[0] = (int64_t)axis;
    reference_concat(out, with_axis, &same);
}
static void reference_split(op_array *out, const op_array *in, const op_trial *trial)
{
    op_array whole = in[0];
    int64_t at = 0;
    for (size_t i = 0; i < 3; i++) {
        ph_shape shape = whole.shape;
        shape.dim[trial->p[0]] = trial->p[i + 1];
        op_array_make(&out[i], &shape);
        move_part(&whole, &out[i], (size_t)trial->p[0], at, true);
        at += trial->p[i + 1];
    }
}

static void check(const op_spec *spec)
{
    ph_device *device;
    assert_ok(ph_device_open(&device, t_device_name(), NULL));
    op_check(device, spec);
    ph_device_release(device);
}

TEST(concat_is_right)
{
    op_spec spec = {.name = "concat",
                    .in_count = 3,
                    .dtypes = {PH_DTYPE_F32, PH_DTYPE_F64, PH_DTYPE_F16, PH_DTYPE_BF16,
                               PH_DTYPE_I64, PH_DTYPE_U8},
                    .shapes = shapes_concat,
                    .apply = apply_concat,
                    .reference = reference_concat};
    for (size_t i = 0; i < 3; i++)
        spec.in[i] = (op_input){.low = 0, .high = 100};
    check(&spec);
    spec.name = "concat of one";
    spec.in_count = 1;
    check(&spec);
}

TEST(stack_is_right)
{
    check(&(op_spec){.name = "stack",
                     .in_count = 4,
                     .shapes = shapes_stack,
                     .apply = apply_stack,
                     .reference = reference_stack});
}

TEST(split_is_right)
{
    check(&(op_spec){.name = "split",
                     .in_count = 1,
                     .out_count = 3,
                     .shapes = shapes_split,
                     .apply = apply_split,
                     .reference = reference_split});
}

/* One that takes no part has a gradient of 0; all share the operand's memory. */
TEST(parts_of_a_split)
{
    t_scene s;
    ph_tensor *part[2];
    t_scene_open(&s);
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    ph_split(s.tape, part, x, 1, (const int64_t[]){1, 2}, 2);
    assert_ptr_equal(ph_tensor_data(part[0]), ph_tensor_data(x));
    assert_ptr_equal(ph_tensor_data(part[1]), (char *)ph_tensor_data(x) + sizeof(float));
    ph_backward(s.tape, ph_sum(s.tape, ph_mul(s.tape, part[1], part[1])));
    t_expect_grad(&s, x, 0, 4, 6, 0, 10, 12);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    t_scene_close(&s);
}

TEST(misuse_is_refused)
{
    t_scene s;
    ph_tensor *part[2] = {(ph_tensor *)&s, NULL};
    t_scene_open(&s);
    ph_tape *t = s.tape;
    assert_null(ph_concat(t, NULL, 0, 0));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "concat: there must be a tensor");
    ph_tensor *two[] = {ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2, 3)),
                        ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(3, 2))};
    assert_null(ph_concat(t, two, 2, 0));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "but for axis 0");
    ph_tensor *mixed[] = {ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2)),
                          ph_zeros(t, PH_DTYPE_F64, PH_SHAPE(2))};
    assert_null(ph_concat(t, mixed, 2, 0));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "one dtype");
    ph_tensor *scalar = ph_zeros(t, PH_DTYPE_F32, PH_SCALAR);
    assert_null(ph_concat(t, &scalar, 1, 0));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "no axis 0");
    ph_tensor *rows[] = {ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2)),
                         ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(1))};
    assert_null(ph_stack(t, rows, 2, 0));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "stack: all must be of one shape");
    ph_split(t, part, ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(3)), 0, (const int64_t[]){1, 1}, 2);
    assert_null(part[0]);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "split: the sizes must add up");
    ph_split(t, part, ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(3)), 0, (const int64_t[]){-1, 4}, 2);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "split: the sizes must add up");
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(concat_is_right),   cmocka_unit_test(stack_is_right),
        cmocka_unit_test(split_is_right),    cmocka_unit_test(parts_of_a_split),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
