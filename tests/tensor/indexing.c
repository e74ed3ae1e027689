/* SPDX-License-Identifier: MIT */
/* tests/tensor/indexing.c: embedding, index_select, gather, scatter and scatter_add: against
 * references, out of range, and many times at one place. */
#include "support/grads.h"
#include "support/op_check.h"
#include "support/test.h"
#include <math.h>

/* ---- references ---- p[0]: the axis, not negative where a reference reads it. */
static size_t axis_of(const op_trial *trial)
{
    int64_t rank = (int64_t)trial->shape[0].rank;
    return (size_t)(trial->p[0] < 0 ? trial->p[0] + rank : trial->p[0]);
}
static int64_t place_in(const op_array *a, const int64_t index[PH_MAX_RANK])
{
    int64_t at = 0;
    for (size_t i = 0; i < a->shape.rank; i++)
        at = at * a->shape.dim[i] + index[i];
    return at;
}
/* Where element `index` of the index tensor points in x; -1: out of range. */
static int64_t target(const op_array *x, const op_array *numbers, const int64_t index[PH_MAX_RANK],
                      size_t axis)
{
    int64_t there[PH_MAX_RANK] = {0}, v = (int64_t)numbers->at[place_in(numbers, index)];
    memcpy(there, index, sizeof there);
    there[axis] = v;
    return v >= 0 && v < x->shape.dim[axis] ? place_in(x, there) : -1;
}

static void reference_gather(op_array *out, const op_array *in, const op_trial *trial)
{
    int64_t index[PH_MAX_RANK] = {0}, k = 0;
    op_array_make(&out[0], &in[1].shape);
    if (out[0].count > 0)
        do {
            int64_t from = target(&in[0], &in[1], index, axis_of(trial));
            out[0].at[k++] = from >= 0 ? in[0].at[from] : (double)NAN;
        } while (op_next(index, &in[1].shape));
}
static void reference_write(op_array *out, const op_array *in, const op_trial *trial, bool add)
{
    int64_t index[PH_MAX_RANK] = {0};
    op_array_make(&out[0], &in[0].shape);
    memcpy(out[0].at, in[0].at, (size_t)in[0].count * sizeof *in[0].at);
    if (in[1].count > 0)
        do {
            int64_t to = target(&in[0], &in[1], index, axis_of(trial));
            double v = in[2].at[place_in(&in[2], index)];
            if (to >= 0)
                out[0].at[to] = add ? out[0].at[to] + v : v;
        } while (op_next(index, &in[1].shape));
}
static void reference_scatter(op_array *out, const op_array *in, const op_trial *trial)
{
    reference_write(out, in, trial, false);
}
static void reference_scatter_add(op_array *out, const op_array *in, const op_trial *trial)
{
    reference_write(out, in, trial, true);
}
/* Slices of in[0] along the axis. */
static void reference_take(op_array *out, const op_array *in, const op_trial *trial,
                           const ph_shape *shape)
{
    size_t axis = axis_of(trial);
    int64_t inner = 1, n = in[0].shape.dim[axis], count = in[1].count;
    for (size_t i = axis + 1; i < in[0].shape.rank; i++)
        inner *= in[0].shape.dim[i];
    op_array_make(&out[0], shape);
    for (int64_t k = 0; k < out[0].count; k++) {
        int64_t r = k % inner, i = k / inner % count, o = k / inner / count,
                v = (int64_t)in[1].at[i];
        out[0].at[k] = v >= 0 && v < n ? in[0].at[(o * n + v) * inner + r] : (double)NAN;
    }
}
static void reference_embedding(op_array *out, const op_array *in, const op_trial *trial)
{
    ph_shape shape = in[1].shape;
    shape.dim[shape.rank++] = in[0].shape.dim[1];
    reference_take(out, in, trial, &shape);
}
static void reference_index_select(op_array *out, const op_array *in, const op_trial *trial)
{
    ph_shape shape = in[0].shape;
    shape.dim[axis_of(trial)] = in[1].count;
    reference_take(out, in, trial, &shape);
}

/* ---- shapes ---- */
static void shapes_embedding(op_trial *trial)
{
    trial->shape[0] = (ph_shape){2, {op_random(trial, 1, 9), op_random(trial, 1, 40)}};
    trial->shape[1] = op_random_shape(trial, 0, 3);
    trial->p[0] = 0;
    trial->low[1] = 0;
    trial->high[1] = (double)trial->shape[0].dim[0];
    if (trial->index % 6 == 4)
        trial->shape[0].dim[1] = 0;
}
/* More tokens than are sorted by comparing each with each, of few and of many rows; more than a
 * run of each row. */
static void shapes_tokens(op_trial *trial)
{
    static const int64_t rows[] = {7, 300, 70000, 40};
    trial->shape[0] = (ph_shape){
        2, {rows[trial->index % 4], trial->index % 4 == 2 ? 2 : op_random(trial, 1, 70)}};
    trial->shape[1] = (ph_shape){1, {trial->index % 4 == 3 ? 1500 : 5000}};
    trial->low[1] = 0;
    trial->high[1] = (double)rows[trial->index % 4];
    trial->p[0] = 0;
}
static void shapes_index_select(op_trial *trial)
{
    trial->shape[0] = op_random_shape(trial, 1, 4);
    int64_t rank = (int64_t)trial->shape[0].rank;
    trial->p[0] = op_random(trial, -rank, rank - 1);
    trial->shape[1] = (ph_shape){1, {op_random(trial, 0, 80)}};
    trial->low[1] = 0;
    trial->high[1] = (double)trial->shape[0].dim[axis_of(trial)];
}
/* The index may be smaller along other axes; in[2], where there is one, larger along any.
 * Writing takes indices out of range. */
static void shapes_elements(op_trial *trial)
{
    trial->shape[0] = op_random_shape(trial, 1, 4);
    int64_t rank = (int64_t)trial->shape[0].rank;
    bool writes = trial->spec->in_count == 3;
    trial->p[0] = op_random(trial, -rank, rank - 1);
    size_t axis = axis_of(trial);
    trial->shape[1] = trial->shape[2] = trial->shape[0];
    for (size_t i = 0; i < trial->shape[0].rank; i++) {
        int64_t *dim = &trial->shape[1].dim[i];
        *dim = i == axis ? op_random(trial, 0, 50) : *dim - (*dim > 0 ? op_random(trial, 0, 1) : 0);
        trial->shape[2].dim[i] = *dim + op_random(trial, 0, 2) / 2;
    }
    trial->low[1] = writes ? -2 : 0;
    trial->high[1] = (double)(trial->shape[0].dim[axis] + (writes ? 2 : 0));
}
/* A few long columns. */
static void shapes_long_columns(op_trial *trial)
{
    int64_t length = trial->index % 2 ? 3000 : 700;
    trial->shape[0] = (ph_shape){2, {op_random(trial, 3, 60), op_random(trial, 1, 3)}};
    trial->shape[1] = trial->shape[2] = (ph_shape){2, {length, trial->shape[0].dim[1]}};
    trial->p[0] = 0;
    trial->low[1] = trial->spec->in_count == 3 ? -1 : 0;
    trial->high[1] = (double)(trial->shape[0].dim[0] + (trial->spec->in_count == 3));
}

/* ---- the operators ---- */
static void apply_embedding(ph_tape *tape, ph_tensor **out, ph_tensor *const *in,
                            const op_trial *trial)
{
    (void)trial;
    out[0] = ph_embedding(tape, in[0], in[1]);
}
static void apply_index_select(ph_tape *tape, ph_tensor **out, ph_tensor *const *in,
                               const op_trial *trial)
{
    out[0] = ph_index_select(tape, in[0], (int)trial->p[0], in[1]);
}
static void apply_gather(ph_tape *tape, ph_tensor **out, ph_tensor *const *in,
                         const op_trial *trial)
{
    out[0] = ph_gather(tape, in[0], (int)trial->p[0], in[1]);
}
static void apply_scatter(ph_tape *tape, ph_tensor **out, ph_tensor *const *in,
                          const op_trial *trial)
{
    out[0] = ph_scatter(tape, in[0], (int)trial->p[0], in[1], in[2]);
}
static void apply_scatter_add(ph_tape *tape, ph_tensor **out, ph_tensor *const *in,
                              const op_trial *trial)
{
    out[0] = ph_scatter_add(tape, in[0], (int)trial->p[0], in[1], in[2]);
}

static void check(op_spec spec)
{
    ph_device *device;
    assert_ok(ph_device_open(&device, t_device_name(), NULL));
    for (int wide = 0; wide < 2; wide++) {
        spec.in[1].dtype = wide ? PH_DTYPE_I64 : PH_DTYPE_I32;
        op_check(device, &spec);
    }
    ph_device_release(device);
}

TEST(embedding_is_right)
{
    op_spec spec = {.name = "embedding",
                    .in_count = 2,
                    .shapes = shapes_embedding,
                    .apply = apply_embedding,
                    .reference = reference_embedding};
    check(spec);
    spec.name = "embedding of many tokens";
    spec.shapes = shapes_tokens;
    spec.trials = 4;
    /* Sums of hundreds of numbers; their size is not that of the result. */
    spec.gradient_bound[PH_DTYPE_F32] = 1e-4;
    check(spec);
}

TEST(index_select_is_right)
{
    check((op_spec){.name = "index_select",
                    .in_count = 2,
                    .shapes = shapes_index_select,
                    .apply = apply_index_select,
                    .reference = reference_index_select});
}

TEST(gather_is_right)
{
    op_spec spec = {.name = "gather",
                    .in_count = 2,
                    .trials = 18,
                    .shapes = shapes_elements,
                    .apply = apply_gather,
                    .reference = reference_gather};
    check(spec);
    spec.name = "gather, long columns";
    spec.shapes = shapes_long_columns;
    spec.trials = 2;
    spec.gradient_bound[PH_DTYPE_F32] = 1e-4;
    check(spec);
}

TEST(scatter_is_right)
{
    op_spec spec = {.name = "scatter",
                    .in_count = 3,
                    .trials = 18,
                    .shapes = shapes_elements,
                    .apply = apply_scatter,
                    .reference = reference_scatter};
    check(spec);
    spec.name = "scatter, long columns";
    spec.shapes = shapes_long_columns;
    spec.trials = 2;
    check(spec);
}

TEST(scatter_add_is_right)
{
    op_spec spec = {.name = "scatter_add",
                    .in_count = 3,
                    .trials = 18,
                    .shapes = shapes_elements,
                    .apply = apply_scatter_add,
                    .reference = reference_scatter_add};
    check(spec);
    spec.name = "scatter_add, long columns";
    spec.shapes = shapes_long_columns;
    spec.trials = 2;
    spec.bound[PH_DTYPE_F32] = 1e-4;
    spec.bound[PH_DTYPE_F64] = 1e-12;
    check(spec);
}

TEST(indexing_works_on_integers_and_booleans)
{
    op_spec spec = {.name = "scatter_add",
                    .in_count = 3,
                    .in = {{.low = 0, .high = 3}, {.dtype = PH_DTYPE_I64}, {.low = 0, .high = 4}},
                    .dtypes = {PH_DTYPE_I32, PH_DTYPE_I64, PH_DTYPE_U8},
                    .shapes = shapes_elements,
                    .apply = apply_scatter_add,
                    .reference = reference_scatter_add};
    check(spec);
    spec.dtypes[3] = PH_DTYPE_BOOL;
    spec.in[0].high = spec.in[2].high = 2;
    spec.name = "scatter";
    spec.apply = apply_scatter;
    spec.reference = reference_scatter;
    check(spec);
    spec = (op_spec){.name = "embedding",
                     .in_count = 2,
                     .in = {{.low = 0, .high = 2}},
                     .dtypes = {PH_DTYPE_I32, PH_DTYPE_I64, PH_DTYPE_U8, PH_DTYPE_BOOL},
                     .shapes = shapes_embedding,
                     .apply = apply_embedding,
                     .reference = reference_embedding};
    check(spec);
}

/* ---- out of range ---- */
TEST(reading_out_of_range)
{
    t_scene s;
    float got[8];
    int32_t whole[4];
    const int64_t numbers[] = {1, -1, 2, INT64_MAX};
    t_scene_open(&s);
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2, 2), 1, 2, 3, 4);
    ph_tensor *index = ph_from_memory(s.tape, PH_DTYPE_I64, PH_SHAPE(4), numbers);
    ph_tensor *rows = ph_embedding(s.tape, x, index);
    assert_non_null(rows);
    assert_ok(ph_tensor_read(s.tape, rows, got, sizeof got));
    assert_true(got[0] == 3 && got[1] == 4);
    for (int i = 2; i < 8; i++)
        assert_true(isnan(got[i]));
    ph_backward_from(s.tape, &rows,
                     (ph_tensor *[]){ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(4, 2), 1)}, 1, NULL);
    t_expect_grad(&s, x, 0, 0, 1, 1);
    ph_tensor *vector = ph_arange(s.tape, PH_DTYPE_I32, 7, 1, 2);
    ph_tensor *taken = ph_gather(s.tape, vector, 0, index);
    assert_non_null(taken);
    assert_ok(ph_tensor_read(s.tape, taken, whole, sizeof whole));
    assert_true(whole[0] == 8 && whole[1] == 0 && whole[2] == 0 && whole[3] == 0);
    ph_tensor *halves = ph_cast(
        s.tape, ph_index_select(s.tape, ph_zeros(s.tape, PH_DTYPE_BF16, PH_SHAPE(3)), 0, index),
        PH_DTYPE_F32);
    assert_non_null(halves);
    assert_ok(ph_tensor_read(s.tape, halves, got, 4 * sizeof *got));
    assert_true(got[0] == 0 && isnan(got[1]) && got[2] == 0 && isnan(got[3]));
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* The last in memory order wins, of 5000 that want one of two places; the others have no
 * gradient. */
TEST(the_last_writer_wins)
{
    enum {
        COUNT = 5000
    };
    static int32_t numbers[COUNT];
    static float grad[COUNT];
    t_scene s;
    t_scene_open(&s);
    for (int i = 0; i < COUNT; i++)
        numbers[i] = i % 3 - 1;
    ph_tensor *index = ph_from_memory(s.tape, PH_DTYPE_I32, PH_SHAPE(COUNT), numbers);
    ph_tensor *src = ph_tensor_retain(t_counting(s.tape, PH_SHAPE(COUNT)));
    assert_ok(ph_tensor_set_requires_grad(src, true));
    ph_tensor *out = ph_scatter(s.tape, ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(2)), 0, index, src);
    t_expect_values(s.tape, out, PH_SHAPE(2), 4999, 4997);
    ph_backward(s.tape, ph_sum(s.tape, out));
    assert_non_null(ph_tensor_grad(src));
    assert_ok(ph_tensor_read(s.tape, ph_tensor_grad(src), grad, sizeof grad));
    for (int i = 0; i < COUNT; i++)
        assert_true(grad[i] == (i == 4999 || i == 4997 ? 1.0f : 0.0f));
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(src);
    t_scene_close(&s);
}

/* All of a gradient, of whole numbers: rows whose numbers differ in their last 16 bits alone, or
 * not even there, and some that are no rows; once, some times, and thousands of times. */
TEST(every_row_gets_its_sum)
{
    enum {
        ROWS = 70000,
        TOKENS = 6001,
        WIDTH = 3
    };
    t_scene s;
    int64_t *numbers = calloc(TOKENS, sizeof *numbers);
    float *grads = calloc(TOKENS * WIDTH, sizeof *grads),
          *want = calloc(ROWS * WIDTH, sizeof *want);
    float *got = calloc(ROWS * WIDTH, sizeof *got);
    assert_true(numbers && grads && want && got);
    t_scene_open(&s);
    for (int64_t i = 0; i < TOKENS; i++) {
        numbers[i] = i % 2 ? 65535 : i % 7 == 0 ? i % 50 : i % 3 == 0 ? 65536 + i % 50 : 3 * i;
        if (i % 101 == 0)
            numbers[i] = i % 2 ? -1 : ROWS;
        for (int64_t k = 0; k < WIDTH; k++) {
            grads[i * WIDTH + k] = (float)((i + k) % 9 - 4);
            if (numbers[i] >= 0 && numbers[i] < ROWS)
                want[numbers[i] * WIDTH + k] += grads[i * WIDTH + k];
        }
    }
    ph_tensor *weight = ph_tensor_retain(ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(ROWS, WIDTH)));
    assert_ok(ph_tensor_set_requires_grad(weight, true));
    ph_tensor *rows = ph_embedding(s.tape, weight,
                                   ph_from_memory(s.tape, PH_DTYPE_I64, PH_SHAPE(TOKENS), numbers));
    ph_tensor *grad = ph_from_memory(s.tape, PH_DTYPE_F32, PH_SHAPE(TOKENS, WIDTH), grads);
    ph_backward_from(s.tape, &rows, &grad, 1, NULL);
    assert_ok(ph_tape_status(s.tape));
    assert_ok(ph_tensor_read(s.tape, ph_tensor_grad(weight), got, ROWS * WIDTH * sizeof *got));
    for (int64_t i = 0; i < ROWS * WIDTH; i++)
        if (got[i] != want[i])
            fail_msg("element %lld is %g, expected %g", (long long)i, (double)got[i],
                     (double)want[i]);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(weight);
    t_scene_close(&s);
    free(numbers);
    free(grads);
    free(want);
    free(got);
}

TEST(misuse_is_refused)
{
    t_scene s;
    t_scene_open(&s);
    ph_tape *t = s.tape;
    assert_null(ph_embedding(t, ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2)),
                             ph_zeros(t, PH_DTYPE_I64, PH_SHAPE(2))));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "embedding: weight must have two axes");
    assert_null(ph_embedding(t, ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2, 2)),
                             ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2))));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "i64 or i32");
    assert_null(ph_index_select(t, ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2, 2)), 0,
                                ph_zeros(t, PH_DTYPE_I64, PH_SHAPE(2, 2))));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "one axis");
    assert_null(ph_index_select(t, ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2, 2)), 2,
                                ph_zeros(t, PH_DTYPE_I64, PH_SHAPE(2))));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "no axis 2");
    assert_null(ph_gather(t, ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2, 2)), 0,
                          ph_zeros(t, PH_DTYPE_I64, PH_SHAPE(2))));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "as many axes");
    assert_null(ph_gather(t, ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2, 2)), 0,
                          ph_zeros(t, PH_DTYPE_I64, PH_SHAPE(1, 3))));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "longer than the operand");
    ph_tensor *x = ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(2)),
              *index = ph_zeros(t, PH_DTYPE_I64, PH_SHAPE(3));
    assert_null(ph_scatter(t, x, 0, index, x));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "than what is written");
    x = ph_zeros(t, PH_DTYPE_F32, PH_SHAPE(3));
    assert_null(ph_scatter_add(t, x, 0, ph_zeros(t, PH_DTYPE_I64, PH_SHAPE(3)),
                               ph_zeros(t, PH_DTYPE_F64, PH_SHAPE(3))));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "one dtype");
    x = ph_zeros(t, PH_DTYPE_BOOL, PH_SHAPE(3));
    assert_null(ph_scatter_add(t, x, 0, ph_zeros(t, PH_DTYPE_I64, PH_SHAPE(3)), x));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "no sum of bool");
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedding_is_right),
        cmocka_unit_test(index_select_is_right),
        cmocka_unit_test(gather_is_right),
        cmocka_unit_test(scatter_is_right),
        cmocka_unit_test(scatter_add_is_right),
        cmocka_unit_test(indexing_works_on_integers_and_booleans),
        cmocka_unit_test(reading_out_of_range),
        cmocka_unit_test(the_last_writer_wins),
        cmocka_unit_test(every_row_gets_its_sum),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
