/* SPDX-License-Identifier: MIT */
/* tests/tensor/reduce_large.c: reductions of tensors that many blocks share, in every form that
 * a layout takes: against doubles, and equal to the bit whatever the number of threads. */
#include "base/half.h"
#include "base/rng.h"
#include "support/op_check.h"
#include "support/tensors.h"
#include "support/test.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"
#include <math.h>

/* A logical [a, b, c], whose axes lie in memory in the order of `order`, every step-th element
 * of the last one in memory. */
typedef struct layout {
    int64_t dim[3];
    int order[3], step;
    uint32_t gone; /* bit i: axis i */
} layout;

static const layout layouts[] = {
    {{1, 1, 100000}, {0, 1, 2}, 1, 7}, /* all of it, in one line */
    {{1, 1, 300007}, {0, 1, 2}, 1, 4}, /* split, and no multiple of anything */
    {{3, 1, 70001}, {0, 1, 2}, 1, 4},  /* a few long rows */
    {{2000, 1, 300}, {0, 1, 2}, 1, 4}, /* a warp a row */
    {{3000, 1, 7}, {0, 1, 2}, 1, 4},   /* a thread a row */
    {{5, 1, 20000}, {0, 1, 2}, 2, 4},  /* rows with gaps */
    {{5000, 1, 33}, {0, 1, 2}, 1, 1},  /* columns, split */
    {{7001, 1, 3}, {0, 1, 2}, 1, 1},   /* few columns */
    {{300, 1, 1000}, {0, 1, 2}, 1, 1}, /* many columns */
    {{3000, 1, 260}, {0, 1, 2}, 1, 1}, /* many columns, split, the last block's are few */
    {{3, 1, 300004}, {0, 1, 2}, 1, 1}, /* short columns: a thread has some of its own */
    {{20, 1, 70001}, {0, 1, 2}, 1, 1}, /* the same, a few threads each */
    {{8, 40, 130}, {0, 1, 2}, 1, 2},   /* columns of many matrices */
    {{8, 40, 130}, {0, 1, 2}, 1, 5},   /* around the one that stays */
    {{16, 24, 160}, {0, 1, 2}, 1, 3},  /* two outer axes */
    {{40, 130, 30}, {2, 0, 1}, 1, 4},  /* turned: the reduced axis is the slowest */
    {{40, 130, 30}, {2, 1, 0}, 1, 1},  /* turned: the reduced axis is the fastest */
    {{40, 130, 30}, {2, 1, 0}, 3, 6},  /* turned, with gaps */
};

static ph_tensor *make(ph_tape *tape, ph_dtype dtype, const layout *l, double *values)
{
    ph_shape base = {3, {l->dim[l->order[0]], l->dim[l->order[1]], l->dim[l->order[2]] * l->step}};
    int64_t count = ph_shape_count(&base);
    double *memory = malloc((size_t)count * sizeof *memory);
    char *bytes = malloc((size_t)count * 8);
    assert_true(memory && bytes);
    ph__rng rng = {(uint64_t)count};
    for (int64_t i = 0; i < count; i++)
        memory[i] = ph_dtype_is_floating(dtype)
                        ? (double)(ph__rng_next(&rng) >> 11) * 0x1p-53 * 2 - 0.8
                        : (double)ph__rng_below(&rng, 100);
    op_encode(bytes, dtype, memory, count);
    op_decode(memory, dtype, bytes, count);
    ph_tensor *x =
        ph_slice_step(tape, ph_from_memory(tape, dtype, base, bytes), 2, 0, base.dim[2], l->step);
    int place[3];
    for (int i = 0; i < 3; i++)
        place[l->order[i]] = i;
    x = ph_permute(tape, x, place, 3);
    int64_t i[3], k = 0, stride[3];
    for (int d = 0; d < 3; d++)
        stride[d] = ph_tensor_stride(x, d);
    for (i[0] = 0; i[0] < l->dim[0]; i[0]++)
        for (i[1] = 0; i[1] < l->dim[1]; i[1]++)
            for (i[2] = 0; i[2] < l->dim[2]; i[2]++)
                values[k++] = memory[i[0] * stride[0] + i[1] * stride[1] + i[2] * stride[2]];
    free(memory);
    free(bytes);
    return x;
}

typedef struct results {
    double *sum, *norm, *most; /* by output */
    int64_t *place;
    int64_t outputs, length;
} results;

static results reduce(const layout *l, const double *values)
{
    results r = {.outputs = 1, .length = 1};
    for (int d = 0; d < 3; d++)
        *(l->gone >> d & 1 ? &r.length : &r.outputs) *= l->dim[d];
    size_t n = (size_t)r.outputs;
    r.sum = calloc(n, sizeof(double)), r.norm = calloc(n, sizeof(double)),
    r.most = calloc(n, sizeof(double));
    r.place = calloc(n, sizeof(int64_t));
    assert_true(r.sum && r.norm && r.most && r.place);
    for (size_t o = 0; o < n; o++)
        r.most[o] = (double)-INFINITY;
    int64_t i[3], k = 0;
    for (i[0] = 0; i[0] < l->dim[0]; i[0]++)
        for (i[1] = 0; i[1] < l->dim[1]; i[1]++)
            for (i[2] = 0; i[2] < l->dim[2]; i[2]++, k++) {
                int64_t o = 0, place = 0;
                for (int d = 0; d < 3; d++) {
                    o = l->gone >> d & 1 ? o : o * l->dim[d] + i[d];
                    place = l->gone >> d & 1 ? i[d] : place;
                }
                r.sum[o] += values[k];
                r.norm[o] += values[k] * values[k];
                if (values[k] > r.most[o]) {
                    r.most[o] = values[k];
                    r.place[o] = place;
                }
            }
    return r;
}

static void drop(results *r)
{
    free(r->sum);
    free(r->norm);
    free(r->most);
    free(r->place);
}

static ph_axes axes_of(uint32_t gone)
{
    ph_axes axes = {0};
    for (int d = 0; d < 3; d++)
        if (gone >> d & 1)
            axes.axis[axes.count++] = d;
    return axes;
}

static double *read(ph_tape *tape, ph_tensor *x, int64_t count)
{
    assert_non_null(x);
    assert_int_equal(ph_tensor_count(x), count);
    char *bytes = malloc((size_t)count * 8);
    double *got = malloc((size_t)count * sizeof *got);
    assert_true(bytes && got);
    assert_ok(ph_tensor_read(tape, x, bytes, ph_tensor_bytes(x)));
    op_decode(got, ph_tensor_dtype(x), bytes, count);
    free(bytes);
    return got;
}

static void expect_near(ph_tape *tape, ph_tensor *x, const double *want, const results *r,
                        double bound, const char *what)
{
    double *got = read(tape, x, r->outputs);
    for (int64_t o = 0; o < r->outputs; o++)
        if (!(fabs(got[o] - want[o]) <= bound * (1 + fabs(want[o]))))
            fail_msg("%s of %s over %lld: output %lld is %.9g, not %.9g", what,
                     ph_dtype_name(ph_tensor_dtype(x)), (long long)r->length, (long long)o, got[o],
                     want[o]);
    free(got);
}

static void check(t_scene *s, ph_dtype dtype, const layout *l)
{
    static const double bounds[] = {0, 2e-6, 1e-12, 2e-3, 1.6e-2, 0, 0, 0, 0};
    int64_t count = l->dim[0] * l->dim[1] * l->dim[2];
    double *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    ph_tensor *x = make(s->tape, dtype, l, values);
    results r = reduce(l, values);
    ph_axes axes = axes_of(l->gone);
    expect_near(s->tape, ph_sum_over(s->tape, x, axes, false), r.sum, &r, bounds[dtype], "sum");
    expect_near(s->tape, ph_max_over(s->tape, x, axes, true), r.most, &r, 0, "max");
    if (ph_dtype_is_floating(dtype)) {
        for (int64_t o = 0; o < r.outputs; o++) {
            r.sum[o] /= (double)r.length;
            r.norm[o] = sqrt(r.norm[o]);
        }
        expect_near(s->tape, ph_mean_over(s->tape, x, axes, false), r.sum, &r, bounds[dtype],
                    "mean");
        expect_near(s->tape, ph_norm_over(s->tape, x, 2, axes, false), r.norm, &r, bounds[dtype],
                    "norm");
    }
    if (axes.count == 1) {
        double *got = read(s->tape, ph_argmax(s->tape, x, axes.axis[0], false), r.outputs);
        for (int64_t o = 0; o < r.outputs; o++)
            assert_true(got[o] == (double)r.place[o]);
        free(got);
    }
    assert_ok(ph_tape_clear(s->tape));
    drop(&r);
    free(values);
}

TEST(large_reductions_match_in_every_layout_and_dtype)
{
    static const ph_dtype dtypes[] = {PH_DTYPE_F32,  PH_DTYPE_F64, PH_DTYPE_F16,
                                      PH_DTYPE_BF16, PH_DTYPE_I32, PH_DTYPE_U8};
    t_scene s;
    t_scene_open(&s);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
            check(&s, dtypes[d], &layouts[i]);
    t_scene_close(&s);
}

/* A sum of a million equal numbers, which added one after the other in f32 would be far off. */
TEST(sums_do_not_drift)
{
    t_scene s;
    double got;
    t_scene_open(&s);
    ph_tensor *x = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(1000, 3000), 0.1);
    assert_ok(ph_tensor_item(&got, s.tape, ph_sum(s.tape, x)));
    assert_true(fabs(got - 3e6 * (double)0.1f) < 0.13);
    ph_tensor *h = ph_full(s.tape, PH_DTYPE_F16, PH_SHAPE(100000), 1);
    assert_ok(ph_tensor_item(&got, s.tape, ph_mean(s.tape, h)));
    assert_true(got == 1);
    ph_tensor *tall = ph_sum_over(s.tape, x, PH_AXES(0), false);
    assert_ok(ph_tensor_item(&got, s.tape, ph_select(s.tape, tall, 0, 2999)));
    assert_true(fabs(got - 1e3 * (double)0.1f) < 1e-5);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

/* ---- threads ---- the results' bytes on a host device with so many. */
static void run_on(const char *name, float *out)
{
    t_scene s;
    assert_ok(ph_device_open(&s.device, name, NULL));
    assert_ok(ph_stream_create(&s.stream, s.device, NULL));
    assert_ok(ph_tape_create(&s.tape, s.stream, NULL));
    static const layout l = {{700, 1, 900}, {0, 1, 2}, 1, 0};
    double *values = malloc(700 * 900 * sizeof *values);
    assert_non_null(values);
    ph_tensor *x = make(s.tape, PH_DTYPE_F32, &l, values);
    assert_ok(ph_tensor_read(s.tape, ph_sum(s.tape, x), &out[0], sizeof(float)));
    assert_ok(ph_tensor_read(s.tape, ph_norm(s.tape, x, 3), &out[1], sizeof(float)));
    assert_ok(ph_tensor_read(s.tape, ph_sum_over(s.tape, x, PH_AXES(0), false), &out[2],
                             900 * sizeof(float)));
    assert_ok(ph_tensor_read(s.tape, ph_sum_over(s.tape, x, PH_AXES(2), false), &out[902],
                             700 * sizeof(float)));
    free(values);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(threads_do_not_change_a_bit)
{
    static float one[1602], other[1602];
    t_host_only("a GPU has no number of threads to choose");
    run_on("host:threads=1", one);
    static const char *const names[] = {"host:threads=2", "host:threads=7",
                                        "host:threads=2,chaos=5"};
    for (size_t i = 0; i < 3; i++) {
        memset(other, 0, sizeof other);
        run_on(names[i], other);
        assert_memory_equal(one, other, sizeof one);
    }
}

/* ---- tensors that are larger than near caches ---- */
enum {
    FAR_ROWS = 4103, /* 16.1 MiB of them */
    FAR_LENGTH = 1030,
    NEAR_ROWS = 501
};

/* Numbers whose sums are exact in every order, 1 and 2 in turn by rows of 1030. */
static ph_tensor *make_far_numbers(ph_tape *tape)
{
    const size_t bytes = sizeof(float) * FAR_ROWS * FAR_LENGTH;
    float *numbers = malloc(bytes);
    assert_non_null(numbers);
    for (size_t i = 0; i < bytes / sizeof *numbers; i++)
        numbers[i] = (float)(1 + i / FAR_LENGTH % 2);
    ph_tensor *x = ph_from_memory(tape, PH_DTYPE_F32, PH_SHAPE(FAR_ROWS, FAR_LENGTH), numbers);
    assert_non_null(x);
    free(numbers);
    return x;
}

/* Part by part the same rows are near. */
TEST(rows_have_one_sum_however_large_their_tensor_is)
{
    static float far[FAR_ROWS], near[NEAR_ROWS];
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = ph_randn(s.tape, PH_DTYPE_F32, PH_SHAPE(FAR_ROWS, FAR_LENGTH));
    assert_ok(ph_tensor_read(s.tape, ph_sum_over(s.tape, x, PH_AXES(1), false), far, sizeof far));
    for (int64_t row = 0; row < FAR_ROWS; row += NEAR_ROWS) {
        const int64_t end = row + NEAR_ROWS < FAR_ROWS ? row + NEAR_ROWS : FAR_ROWS;
        const size_t bytes = (size_t)(end - row) * sizeof(float);
        ph_tensor *part = ph_slice(s.tape, x, 0, row, end);
        assert_ok(
            ph_tensor_read(s.tape, ph_sum_over(s.tape, part, PH_AXES(1), false), near, bytes));
        assert_memory_equal(far + row, near, bytes);
    }
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(sums_of_large_tensors_leave_nothing_out)
{
    static float rows[FAR_ROWS];
    t_scene s;
    double got;
    t_scene_open(&s);
    ph_tensor *x = make_far_numbers(s.tape);
    assert_ok(ph_tensor_item(&got, s.tape, ph_sum(s.tape, x)));
    assert_true(got == (double)FAR_LENGTH * (FAR_ROWS + FAR_ROWS / 2));
    assert_ok(ph_tensor_read(s.tape, ph_sum_over(s.tape, x, PH_AXES(1), false), rows, sizeof rows));
    for (size_t r = 0; r < FAR_ROWS; r++)
        assert_true(rows[r] == (float)(FAR_LENGTH * (1 + r % 2)));
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

/* A part of a larger tensor: the first `rows` of `all` in each of `outer`, without the first
 * column. A row has a number of its own, and one more in every third column. */
static void expect_sums_of_part(int64_t outer, int64_t rows, int64_t all, int64_t length)
{
    t_scene s;
    const int64_t count = outer * all * (length + 1);
    t_scene_open(&s);
    float *numbers = malloc((size_t)count * sizeof *numbers),
          *sums = malloc((size_t)(outer * rows) * sizeof *sums);
    assert_true(numbers && sums);
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (float)(1 + i / (length + 1) % 11 + (i % (length + 1) % 3 == 0));
    ph_tensor *x = ph_from_memory(s.tape, PH_DTYPE_F32, PH_SHAPE(outer, all, length + 1), numbers);
    x = ph_slice(s.tape, ph_slice(s.tape, x, 1, 0, rows), 2, 1, length + 1);
    assert_ok(ph_tensor_read(s.tape, ph_sum_over(s.tape, x, PH_AXES(2), false), sums,
                             (size_t)(outer * rows) * sizeof *sums));
    for (int64_t i = 0; i < outer * rows; i++) {
        const int64_t row = i / rows * all + i % rows;
        assert_true(sums[i] == (float)(length * (1 + row % 11) + length / 3));
    }
    free(numbers);
    free(sums);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

/* Rows apart, rows in two dimensions, few rows that many blocks share, rows that are short. */
TEST(parts_of_large_tensors_have_their_own_sums)
{
    expect_sums_of_part(1, 4103, 4103, 1029);
    expect_sums_of_part(64, 65, 70, 1023);
    expect_sums_of_part(1, 3, 3, 1500003);
    expect_sums_of_part(1, 300007, 300007, 15);
}

/* ---- columns that are read at once ---- */

/* The sums of the columns [first, first + count) of x, as bytes of its dtype. */
static void sum_columns(t_scene *s, ph_tensor *x, int64_t first, int64_t count, void *out)
{
    ph_tensor *part = ph_slice(s->tape, x, 1, first, first + count);
    ph_tensor *sums = ph_sum_over(s->tape, part, PH_AXES(0), false);
    assert_ok(ph_tensor_read(s->tape, sums, out, ph_tensor_bytes(sums)));
}

enum {
    COLUMNS = 256
};

/* Alone, in rows of another length at addresses of any alignment, and in rows whose length allows
 * no such reading. */
static void expect_one_sum(t_scene *s, ph_dtype dtype, int64_t rows)
{
    static char sums[4][COLUMNS * sizeof(float)];
    ph_tensor *x =
        ph_cast(s->tape, ph_randn(s->tape, PH_DTYPE_F32, PH_SHAPE(rows, COLUMNS)), dtype);
    ph_tensor *before = ph_full(s->tape, dtype, PH_SHAPE(rows, 1), 7),
              *behind = ph_full(s->tape, dtype, PH_SHAPE(rows, 3), 7);
    size_t bytes = COLUMNS * ph_dtype_size(dtype);
    sum_columns(s, x, 0, COLUMNS, sums[0]);
    sum_columns(s, ph_concat(s->tape, (ph_tensor *[]){before, x, behind}, 3, 1), 1, COLUMNS,
                sums[1]);
    sum_columns(s, ph_concat(s->tape, (ph_tensor *[]){x, before}, 2, 1), 0, COLUMNS, sums[2]);
    sum_columns(s, ph_concat(s->tape, (ph_tensor *[]){before, x}, 2, 1), 1, COLUMNS, sums[3]);
    for (int k = 1; k < 4; k++)
        assert_memory_equal(sums[0], sums[k], bytes);
    assert_ok(ph_tape_clear(s->tape));
}

/* A short column's sum does not depend on how many there are side by side, either. */
static void expect_one_short_sum(t_scene *s, ph_dtype dtype, int64_t rows)
{
    enum {
        MANY = 40
    };
    static char apart[COLUMNS * sizeof(float)], together[MANY * COLUMNS * sizeof(float)];
    ph_tensor *x =
        ph_cast(s->tape, ph_randn(s->tape, PH_DTYPE_F32, PH_SHAPE(rows, MANY * COLUMNS)), dtype);
    size_t bytes = COLUMNS * ph_dtype_size(dtype);
    sum_columns(s, x, 0, MANY * COLUMNS, together);
    for (int i = 0; i < MANY; i += 13) {
        sum_columns(s, x, i * COLUMNS, COLUMNS, apart);
        assert_memory_equal(apart, together + (size_t)i * bytes, bytes);
    }
    assert_ok(ph_tape_clear(s->tape));
}

TEST(columns_have_one_sum_however_they_are_read)
{
    static const ph_dtype dtypes[] = {PH_DTYPE_F32, PH_DTYPE_F16, PH_DTYPE_BF16};
    static const int64_t few[] = {3, 4, 7, 20, 100};
    t_scene s;
    t_scene_open(&s);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        expect_one_sum(&s, dtypes[i], 3000);
        for (size_t k = 0; k < sizeof few / sizeof *few; k++) {
            expect_one_sum(&s, dtypes[i], few[k]);
            expect_one_short_sum(&s, dtypes[i], few[k]);
        }
    }
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_reductions_match_in_every_layout_and_dtype),
        cmocka_unit_test(sums_do_not_drift),
        cmocka_unit_test(rows_have_one_sum_however_large_their_tensor_is),
        cmocka_unit_test(sums_of_large_tensors_leave_nothing_out),
        cmocka_unit_test(parts_of_large_tensors_have_their_own_sums),
        cmocka_unit_test(columns_have_one_sum_however_they_are_read),
        cmocka_unit_test(threads_do_not_change_a_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
