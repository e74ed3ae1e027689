/* SPDX-License-Identifier: MIT */
/* tests/tensor/elementwise_copy.c: clone, contiguous, casts between all dtypes, and changes in
 * place: of views, with broadcasts, of overlapping memory. */
#include "support/fixture.h"
#include "support/op_check.h"
#include "support/tensors.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"
#include <math.h>

/* ---- copies with gradients ---- */
static void apply_clone(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, const op_trial *trial)
{
    (void)trial;
    out[0] = ph_clone(tape, in[0]);
    out[1] = ph_contiguous(tape, ph_transpose(tape, in[0], 0, -1));
}

static void reference_clone(op_array *out, const op_array *in, const op_trial *trial)
{
    (void)trial;
    ph_shape turned = in[0].shape;
    size_t last = turned.rank - 1;
    turned.dim[0] = in[0].shape.dim[last];
    turned.dim[last] = in[0].shape.dim[0];
    op_array_make(&out[0], &in[0].shape);
    op_array_make(&out[1], &turned);
    int64_t index[PH_MAX_RANK] = {0}, k = 0;
    if (in[0].count > 0)
        do {
            out[0].at[k] = in[0].at[k];
            int64_t to[PH_MAX_RANK];
            memcpy(to, index, sizeof to);
            to[0] = index[last];
            to[last] = last > 0 ? index[0] : index[last];
            out[1].at[op_at(&out[1], to, turned.rank)] = in[0].at[k++];
        } while (op_next(index, &in[0].shape));
}

static void shapes_of_some_rank(op_trial *trial)
{
    trial->shape[0] = op_random_shape(trial, 1, 5);
}

static void copies_match_in_every_layout_and_dtype(void **state)
{
    ph_device *device = *state;
    static const op_spec clone = {.name = "clone",
                                  .in_count = 1,
                                  .out_count = 2,
                                  .dtypes = {PH_DTYPE_F32, PH_DTYPE_F64, PH_DTYPE_F16,
                                             PH_DTYPE_BF16, PH_DTYPE_I32, PH_DTYPE_I64,
                                             PH_DTYPE_U8},
                                  .in = {{.low = 0, .high = 100}},
                                  .shapes = shapes_of_some_rank,
                                  .apply = apply_clone,
                                  .reference = reference_clone};
    op_check(device, &clone);
}

/* ---- casts ---- */
typedef struct cast {
    op_spec spec;
    ph_dtype to;
} cast;

static void apply_cast(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, const op_trial *trial)
{
    out[0] = ph_cast(tape, in[0], ((const cast *)trial->spec)->to);
}

static void reference_cast(op_array *out, const op_array *in, const op_trial *trial)
{
    ph_dtype to = ((const cast *)trial->spec)->to;
    op_array_make(&out[0], &in[0].shape);
    for (int64_t k = 0; k < in[0].count; k++) {
        double x = in[0].at[k];
        out[0].at[k] = to == PH_DTYPE_BOOL ? x != 0 : ph_dtype_is_floating(to) ? x : trunc(x);
    }
}

static void casts_between_all_dtypes(void **state)
{
    ph_device *device = *state;
    for (int from = PH_DTYPE_F32; from <= PH_DTYPE_BOOL; from++)
        for (int to = PH_DTYPE_F32; to <= PH_DTYPE_BOOL; to++) {
            cast one = {.spec = {.name = "cast",
                                 .in_count = 1,
                                 .in = {{.low = 0, .high = from == PH_DTYPE_BOOL ? 2 : 100}},
                                 .dtypes = {(ph_dtype)from},
                                 .trials = 6,
                                 .shapes = op_shapes_same,
                                 .apply = apply_cast,
                                 .reference = reference_cast,
                                 .no_gradient = !ph_dtype_is_floating((ph_dtype)to),
                                 .bound = {[PH_DTYPE_F32] = 1e-7},
                                 .gradient_bound = {[PH_DTYPE_F32] = 1e-2, [PH_DTYPE_F64] = 1e-2}},
                        .to = (ph_dtype)to};
            op_check(device, &one.spec);
        }
}

static void expect_cast(t_scene *s, double from, ph_dtype from_dtype, ph_dtype to_dtype,
                        double want)
{
    double got;
    ph_tensor *x = ph_full(s->tape, from_dtype, PH_SHAPE(5), from);
    assert_ok(
        ph_tensor_item(&got, s->tape, ph_select(s->tape, ph_cast(s->tape, x, to_dtype), 0, 4)));
    if (isnan(want) ? !isnan(got) : got != want)
        fail_msg("%g of %s as %s is %g, not %g", from, ph_dtype_name(from_dtype),
                 ph_dtype_name(to_dtype), got, want);
}

TEST(casts_saturate_and_round_once)
{
    t_scene s;
    t_scene_open(&s);
    const double inf = (double)INFINITY;
    static const ph_dtype floats[] = {PH_DTYPE_F32, PH_DTYPE_F64};
    for (size_t i = 0; i < 2; i++) {
        expect_cast(&s, 3e9, floats[i], PH_DTYPE_I32, INT32_MAX);
        expect_cast(&s, -3e9, floats[i], PH_DTYPE_I32, INT32_MIN);
        expect_cast(&s, -1.75, floats[i], PH_DTYPE_I32, -1);
        expect_cast(&s, 1e30, floats[i], PH_DTYPE_I64, 0x1p63);
        expect_cast(&s, -inf, floats[i], PH_DTYPE_I64, -0x1p63);
        expect_cast(&s, 300, floats[i], PH_DTYPE_U8, 255);
        expect_cast(&s, -1, floats[i], PH_DTYPE_U8, 0);
        expect_cast(&s, 254.9, floats[i], PH_DTYPE_U8, 254);
        expect_cast(&s, (double)NAN, floats[i], PH_DTYPE_I32, 0);
        expect_cast(&s, (double)NAN, floats[i], PH_DTYPE_I64, 0);
        expect_cast(&s, (double)NAN, floats[i], PH_DTYPE_U8, 0);
        expect_cast(&s, (double)NAN, floats[i], PH_DTYPE_BOOL, 1);
        expect_cast(&s, 0.25, floats[i], PH_DTYPE_BOOL, 1);
        expect_cast(&s, -0.0, floats[i], PH_DTYPE_BOOL, 0);
        expect_cast(&s, 1e6, floats[i], PH_DTYPE_F16, inf);
        expect_cast(&s, (double)NAN, floats[i], PH_DTYPE_BF16, (double)NAN);
    }
    /* By way of f32 these would be ties, and go the other way. */
    expect_cast(&s, 1 + 0x1p-11 + 0x1p-40, PH_DTYPE_F64, PH_DTYPE_F16, 1 + 0x1p-10);
    expect_cast(&s, 1 + 0x1p-8 + 0x1p-40, PH_DTYPE_F64, PH_DTYPE_BF16, 1 + 0x1p-7);
    expect_cast(&s, 0x1p30 + 0x1p22 + 1, PH_DTYPE_I32, PH_DTYPE_BF16, 0x1p30 + 0x1p23);
    /* Integers wrap. */
    expect_cast(&s, 300, PH_DTYPE_I32, PH_DTYPE_U8, 44);
    expect_cast(&s, -1, PH_DTYPE_I64, PH_DTYPE_U8, 255);
    expect_cast(&s, 0x1p32 + 5, PH_DTYPE_I64, PH_DTYPE_I32, 5);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(the_same_is_not_copied)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = t_counting(s.tape, PH_SHAPE(3, 2));
    assert_ptr_equal(ph_contiguous(s.tape, x), x);
    assert_ptr_equal(ph_cast(s.tape, x, PH_DTYPE_F32), x);
    assert_ptr_not_equal(ph_tensor_data(ph_clone(s.tape, x)), ph_tensor_data(x));
    ph_tensor *t = ph_contiguous(s.tape, ph_transpose(s.tape, x, 0, 1));
    t_expect_values(s.tape, t, PH_SHAPE(2, 3), 0, 2, 4, 1, 3, 5);
    assert_true(ph_tensor_is_contiguous(t));
    assert_null(ph_cast(s.tape, x, (ph_dtype)77));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "cast: 77 is no dtype");
    t_scene_close(&s);
}

/* ---- in place ---- */
static void apply_changes(ph_tape *tape, ph_tensor **out, ph_tensor *const *in,
                          const op_trial *trial)
{
    (void)trial;
    ph_tensor *y = ph_clone(tape, in[0]);
    ph_tensor_scale(tape, y, 3);
    ph_tensor_add(tape, y, in[1], 2);
    ph_tensor_fill(tape, ph_slice(tape, y, 0, 0, 1), 4);
    ph_tensor_copy(tape, ph_slice(tape, y, -1, -1, PH_MAX_RANK * 1000),
                   ph_full(tape, y->dtype, PH_SCALAR, 5));
    out[0] = y;
}

static void reference_changes(op_array *out, const op_array *in, const op_trial *trial)
{
    (void)trial;
    const ph_shape *shape = &in[0].shape;
    op_array_make(&out[0], shape);
    int64_t index[PH_MAX_RANK] = {0}, k = 0;
    if (in[0].count > 0)
        do {
            double v = 3 * in[0].at[k] + 2 * in[1].at[op_at(&in[1], index, shape->rank)];
            bool last = index[shape->rank - 1] == shape->dim[shape->rank - 1] - 1;
            out[0].at[k++] = last ? 5 : index[0] == 0 ? 4 : v;
        } while (op_next(index, shape));
}

static void shapes_to_change(op_trial *trial)
{
    trial->shape[0] = op_random_shape(trial, 1, 5);
    trial->shape[1] = op_random_broadcast(trial, &trial->shape[0]);
}

static void changes_are_replayed(void **state)
{
    ph_device *device = *state;
    static const op_spec changes = {.name = "changes in place",
                                    .in_count = 2,
                                    .dtypes = {PH_DTYPE_F32, PH_DTYPE_F64, PH_DTYPE_F16,
                                               PH_DTYPE_BF16, PH_DTYPE_I32, PH_DTYPE_I64,
                                               PH_DTYPE_U8},
                                    .in = {{.low = 0, .high = 40}, {.low = 0, .high = 40}},
                                    .shapes = shapes_to_change,
                                    .apply = apply_changes,
                                    .reference = reference_changes,
                                    .no_gradient = true};
    op_check(device, &changes);
}

TEST(views_change_their_base)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = t_counting(s.tape, PH_SHAPE(3, 4));
    ph_tensor_fill(s.tape, ph_slice_step(s.tape, x, 1, 1, 4, 2), 9);
    t_expect_values(s.tape, x, PH_SHAPE(3, 4), 0, 9, 2, 9, 4, 9, 6, 9, 8, 9, 10, 9);
    ph_tensor_scale(s.tape, ph_select(s.tape, x, 0, 1), -2);
    t_expect_values(s.tape, x, PH_SHAPE(3, 4), 0, 9, 2, 9, -8, -18, -12, -18, 8, 9, 10, 9);
    ph_tensor_copy(s.tape, ph_transpose(s.tape, x, 0, 1), t_counting(s.tape, PH_SHAPE(4, 3)));
    t_expect_values(s.tape, x, PH_SHAPE(3, 4), 0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11);
    ph_tensor_add(s.tape, x, ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(3, 1), 1), 0.5);
    t_expect_values(s.tape, x, PH_SHAPE(3, 4), 0.5f, 3.5f, 6.5f, 9.5f, 1.5f, 4.5f, 7.5f, 10.5f,
                    2.5f, 5.5f, 8.5f, 11.5f);
    ph_tensor_add(s.tape, ph_select(s.tape, x, 1, 0), ph_full(s.tape, PH_DTYPE_F32, PH_SCALAR, 1),
                  1);
    t_expect_values(s.tape, ph_contiguous(s.tape, ph_select(s.tape, x, 1, 0)), PH_SHAPE(3), 1.5f,
                    2.5f, 3.5f);
    assert_true(ph_tensor_version(x) >= 5);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(copies_cast_and_broadcast)
{
    t_scene s;
    t_scene_open(&s);
    static const float values[] = {1.75f, -3, 0};
    ph_tensor *from = ph_from_memory(s.tape, PH_DTYPE_F32, PH_SHAPE(3), values);
    for (int d = PH_DTYPE_F32; d <= PH_DTYPE_BOOL; d++) {
        ph_dtype dtype = (ph_dtype)d;
        ph_tensor *x = ph_full(s.tape, dtype, PH_SHAPE(2, 3), 1);
        ph_tensor_copy(s.tape, x, from);
        double whole = ph_dtype_is_floating(dtype) ? 1.75 : 1;
        double low = dtype == PH_DTYPE_U8     ? 0
                     : dtype == PH_DTYPE_BOOL ? 1
                                              : -3,
               want[] = {whole, low, 0};
        for (int i = 0; i < 6; i++) {
            double got;
            assert_ok(ph_tensor_item(&got, s.tape,
                                     ph_select(s.tape, ph_select(s.tape, x, 0, i / 3), 0, i % 3)));
            assert_true(got == want[i % 3]);
        }
    }
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(every_dtype_is_filled_and_scaled)
{
    t_scene s;
    t_scene_open(&s);
    for (int d = PH_DTYPE_F32; d <= PH_DTYPE_BOOL; d++) {
        double got;
        ph_tensor *x = ph_full(s.tape, (ph_dtype)d, PH_SHAPE(70, 70), 3);
        bool scaled = d != PH_DTYPE_BOOL;
        if (scaled) {
            ph_tensor_scale(s.tape, x, 5);
            ph_tensor_add(s.tape, x, x, 2);
        }
        assert_ok(
            ph_tensor_item(&got, s.tape, ph_select(s.tape, ph_select(s.tape, x, 0, 69), 0, 3)));
        assert_true(got == (scaled ? 45 : 1));
    }
    ph_tensor *big = ph_full(s.tape, PH_DTYPE_I64, PH_SCALAR, 1e300),
              *small = ph_full(s.tape, PH_DTYPE_U8, PH_SCALAR, -4);
    int64_t most;
    uint8_t least;
    assert_ok(ph_tensor_read(s.tape, big, &most, sizeof most));
    assert_ok(ph_tensor_read(s.tape, small, &least, sizeof least));
    assert_true(most == INT64_MAX && least == 0);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

/* What is read overlaps what is written: as if it had been copied first. */
TEST(overlapping_memory_is_read_before_it_is_written)
{
    t_scene s;
    t_scene_open(&s);
    enum {
        N = 5000
    };
    float *got = malloc(N * sizeof *got);
    assert_non_null(got);
    for (int down = 0; down < 2; down++) {
        ph_tensor *x = t_counting(s.tape, PH_SHAPE(N));
        ph_tensor *low = ph_slice(s.tape, x, 0, 0, N - 1), *high = ph_slice(s.tape, x, 0, 1, N);
        ph_tensor_copy(s.tape, down ? low : high, down ? high : low);
        assert_ok(ph_tensor_read(s.tape, x, got, N * sizeof *got));
        for (int i = 1; i < N - 1; i++)
            assert_true(got[i] == (float)(down ? i + 1 : i - 1));
        ph_tensor *y = t_counting(s.tape, PH_SHAPE(N));
        low = ph_slice(s.tape, y, 0, 0, N - 1), high = ph_slice(s.tape, y, 0, 1, N);
        ph_tensor_add(s.tape, down ? low : high, down ? high : low, 1);
        assert_ok(ph_tensor_read(s.tape, y, got, N * sizeof *got));
        for (int i = 1; i < N - 1; i++)
            assert_true(got[i] == (float)(down ? 2 * i + 1 : 2 * i - 1));
    }
    free(got);
    ph_tensor *square = t_counting(s.tape, PH_SHAPE(2, 2));
    ph_tensor_copy(s.tape, square, ph_transpose(s.tape, square, 0, 1));
    t_expect_values(s.tape, square, PH_SHAPE(2, 2), 0, 2, 1, 3);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(misuse_is_refused)
{
    t_scene s;
    t_scene_open(&s);
#define REFUSED(status, part, call)                                                                \
    do {                                                                                           \
        call;                                                                                      \
        assert_error(ph_tape_clear(s.tape), status, part);                                         \
    } while (0)
#define F32(...) ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(__VA_ARGS__))
#define I32(...) ph_zeros(s.tape, PH_DTYPE_I32, PH_SHAPE(__VA_ARGS__))
    REFUSED(PH_ERROR_ARGUMENT, "tensor_fill: it is expanded",
            ph_tensor_fill(s.tape, ph_expand(s.tape, F32(1), PH_SHAPE(4)), 1));
    REFUSED(PH_ERROR_ARGUMENT,
            "tensor_copy: the source does not broadcast to what changes: from f32[3] to f32[1]",
            ph_tensor_copy(s.tape, F32(1), F32(3)));
    REFUSED(PH_ERROR_ARGUMENT, "tensor_add: both must be of one dtype",
            ph_tensor_add(s.tape, F32(3), I32(3), 1));
    REFUSED(PH_ERROR_ARGUMENT, "tensor_add: 0.5 is no integer",
            ph_tensor_add(s.tape, I32(3), I32(3), 0.5));
    REFUSED(PH_ERROR_ARGUMENT, "tensor_scale: 0.5 is no integer",
            ph_tensor_scale(s.tape, I32(3), 0.5));
    REFUSED(PH_ERROR_ARGUMENT, "tensor_scale: all dtypes but bool",
            ph_tensor_scale(s.tape, ph_zeros(s.tape, PH_DTYPE_BOOL, PH_SHAPE(2)), 1));
    REFUSED(PH_ERROR_ARGUMENT, "operand 0 is NULL", ph_tensor_fill(s.tape, NULL, 1));
    REFUSED(PH_ERROR_ARGUMENT, "operand 1 is NULL", ph_tensor_copy(s.tape, F32(1), NULL));
    ph_tensor *leaf = ph_tensor_retain(F32(3));
    assert_ok(ph_tensor_set_requires_grad(leaf, true));
    REFUSED(PH_ERROR_STATE, "tensor_fill: a tensor that requires a gradient",
            ph_tensor_fill(s.tape, leaf, 1));
    bool before = ph_tape_set_grad_enabled(s.tape, false);
    ph_tensor_fill(s.tape, leaf, 2);
    ph_tape_set_grad_enabled(s.tape, before);
    t_expect_values(s.tape, leaf, PH_SHAPE(3), 2, 2, 2);
    ph_tensor_release(leaf);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

/* ---- from another device ---- */
TEST(copies_from_another_device)
{
    t_scene s, other;
    t_scene_open(&s);
    assert_ok(ph_device_open(&other.device, "host", NULL));
    assert_ok(ph_stream_create(&other.stream, other.device, NULL));
    assert_ok(ph_tape_create(&other.tape, other.stream, NULL));
    ph_tensor *from = t_counting(other.tape, PH_SHAPE(2, 3)),
              *x = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(2, 3));
    assert_ok(ph_stream_synchronize(other.stream));
    ph_tensor_copy(s.tape, x, from);
    t_expect_values(s.tape, x, PH_SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    ph_tensor_copy(s.tape, x,
                   ph_transpose(other.tape, t_counting(other.tape, PH_SHAPE(3, 2)), 0, 1));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "both must be contiguous");
    assert_ok(ph_tape_clear(other.tape));
    t_scene_close(&other);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_DEVICE(copies_match_in_every_layout_and_dtype),
        ON_DEVICE(casts_between_all_dtypes),
        ON_DEVICE(changes_are_replayed),
        cmocka_unit_test(casts_saturate_and_round_once),
        cmocka_unit_test(the_same_is_not_copied),
        cmocka_unit_test(views_change_their_base),
        cmocka_unit_test(copies_cast_and_broadcast),
        cmocka_unit_test(every_dtype_is_filled_and_scaled),
        cmocka_unit_test(overlapping_memory_is_read_before_it_is_written),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(copies_from_another_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
