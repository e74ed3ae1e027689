/* SPDX-License-Identifier: MIT */
/* tests/tensor/elementwise_large.c: element-wise functions over many blocks: every length around
 * a block's, unaligned views, broadcasts whose elements are taken several at a time and one by
 * one, 16-bit types, eight dimensions. */
#include "support/op_check.h"
#include "support/tensors.h"
#include "support/test.h"
#include "tensor/core/tensor.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/elementwise_cores.h"
#include "tensor/tape/tape.h"
#include <math.h>

/* Small whole numbers, exact in every floating dtype. */
static ph_tensor *numbers(ph_tape *tape, ph_dtype dtype, ph_shape shape, int64_t modulus,
                          double *values)
{
    int64_t count = ph_shape_count(&shape);
    char *bytes = malloc((size_t)count * 8 + 8);
    double *memory = malloc((size_t)count * sizeof *memory + 8);
    assert_true(bytes && memory);
    for (int64_t i = 0; i < count; i++)
        memory[i] = (double)(i * 7 % modulus);
    op_encode(bytes, dtype, memory, count);
    ph_tensor *x = ph_from_memory(tape, dtype, shape, bytes);
    if (values)
        memcpy(values, memory, (size_t)count * sizeof *values);
    free(memory);
    free(bytes);
    return x;
}

static double *read(ph_tape *tape, ph_tensor *x)
{
    assert_non_null(x);
    int64_t count = ph_tensor_count(x);
    char *bytes = malloc((size_t)count * 8 + 8);
    double *got = malloc((size_t)count * sizeof *got + 8);
    assert_true(bytes && got);
    assert_ok(ph_tensor_read(tape, x, bytes, ph_tensor_bytes(x)));
    op_decode(got, ph_tensor_dtype(x), bytes, count);
    free(bytes);
    return got;
}

static const ph_dtype dtypes[] = {PH_DTYPE_F32, PH_DTYPE_F64, PH_DTYPE_F16, PH_DTYPE_BF16,
                                  PH_DTYPE_I32, PH_DTYPE_I64, PH_DTYPE_U8};

enum {
    DTYPES = sizeof dtypes / sizeof dtypes[0]
};

/* Begun `offset` elements into memory, so that what is taken several at a time does not begin at
 * a multiple of 16 bytes. */
static void check_flat(t_scene *s, ph_dtype dtype, int64_t count, int64_t offset)
{
    double *values = malloc((size_t)(count + offset) * sizeof *values);
    assert_non_null(values);
    ph_tensor *x = ph_slice(s->tape, numbers(s->tape, dtype, PH_SHAPE(count + offset), 50, values),
                            0, offset, count + offset);
    ph_tensor *two = ph_full(s->tape, dtype, PH_SCALAR, 2);
    double *sum = read(s->tape, ph_add(s->tape, x, x)),
           *product = read(s->tape, ph_mul(s->tape, two, x));
    double *less = read(s->tape, ph_lt(s->tape, x, ph_full(s->tape, dtype, PH_SHAPE(1), 25)));
    double *chosen = read(s->tape, ph_where(s->tape, ph_lt(s->tape, x, two), two, x));
    double *cast = read(s->tape, ph_cast(s->tape, x, PH_DTYPE_BF16));
    for (int64_t i = 0; i < count; i++) {
        double v = values[i + offset];
        if (sum[i] != 2 * v || product[i] != 2 * v || less[i] != (v < 25) ||
            chosen[i] != fmax(v, 2) || cast[i] != v)
            fail_msg("%s, %lld elements from %lld on, element %lld (%g): %g %g %g %g %g",
                     ph_dtype_name(dtype), (long long)count, (long long)offset, (long long)i, v,
                     sum[i], product[i], less[i], chosen[i], cast[i]);
    }
    free(sum);
    free(product);
    free(less);
    free(chosen);
    free(cast);
    free(values);
    assert_ok(ph_tape_clear(s->tape));
}

TEST(lengths_and_alignments)
{
    static const int64_t counts[] = {1, 3, 255, 1023, 2047, 2048, 2049, 2050, 4096, 5000, 10007};
    t_scene s;
    t_scene_open(&s);
    for (size_t d = 0; d < DTYPES; d++)
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
            for (int64_t offset = 0; offset < 4; offset++)
                check_flat(&s, dtypes[d], counts[c], offset);
    t_scene_close(&s);
}

/* a and b broadcast to shape, both of strides that their bases make. */
static void check_pair(t_scene *s, ph_dtype dtype, ph_tensor *a, ph_tensor *b)
{
    ph_shape shape = ph_tensor_shape(a), other = ph_tensor_shape(b);
    op_array x = {.shape = shape, .at = read(s->tape, a)},
             y = {.shape = other, .at = read(s->tape, b)};
    ph_tensor *z = ph_sub(s->tape, a, b);
    ph_tensor *into = ph_zeros(s->tape, dtype, shape);
    ph_tensor_copy(s->tape, into, a);
    ph_tensor_add(s->tape, into, b, -1);
    double *got = read(s->tape, z), *same = read(s->tape, into);
    int64_t index[PH_MAX_RANK] = {0}, k = 0;
    do {
        double want = x.at[op_at(&x, index, shape.rank)] - y.at[op_at(&y, index, shape.rank)];
        want = dtype == PH_DTYPE_U8 && want < 0 ? want + 256 : want;
        if (got[k] != want || same[k] != want)
            fail_msg("%s, rank %zu, element %lld: %g and %g, not %g", ph_dtype_name(dtype),
                     shape.rank, (long long)k, got[k], same[k], want);
        k++;
    } while (op_next(index, &shape));
    free(x.at);
    free(y.at);
    free(got);
    free(same);
    assert_ok(ph_tape_status(s->tape));
}

TEST(broadcasts_and_turns)
{
    t_scene s;
    t_scene_open(&s);
    for (size_t d = 0; d < DTYPES; d++) {
        const ph_dtype t = dtypes[d];
        static const int64_t widths[] = {64, 63, 1};
        for (size_t w = 0; w < 3; w++) {
            const int64_t n = widths[w];
            ph_tensor *a = numbers(s.tape, t, PH_SHAPE(120, n), 40, NULL);
            check_pair(&s, t, a, numbers(s.tape, t, PH_SHAPE(n), 30, NULL));
            check_pair(&s, t, a, numbers(s.tape, t, PH_SHAPE(120, 1), 30, NULL));
            check_pair(&s, t, a,
                       ph_transpose(s.tape, numbers(s.tape, t, PH_SHAPE(n, 120), 30, NULL), 0, 1));
            check_pair(&s, t,
                       ph_transpose(s.tape, numbers(s.tape, t, PH_SHAPE(n, 120), 40, NULL), 0, 1),
                       a);
            check_pair(
                &s, t,
                ph_slice(s.tape, numbers(s.tape, t, PH_SHAPE(120, n + 8), 40, NULL), 1, 8, n + 8),
                a);
            check_pair(&s, t,
                       ph_slice_step(s.tape, numbers(s.tape, t, PH_SHAPE(120, 2 * n), 40, NULL), 1,
                                     1, 2 * n, 2),
                       a);
        }
        ph_tensor *eight = numbers(s.tape, t, PH_SHAPE(3, 2, 4, 3, 2, 5, 2, 4), 40, NULL);
        static const int turned[] = {7, 2, 5, 0, 3, 6, 1, 4};
        check_pair(&s, t, ph_permute(s.tape, eight, turned, 8),
                   numbers(s.tape, t, PH_SHAPE(4, 1, 5, 1, 3, 1, 2, 1), 30, NULL));
        assert_ok(ph_tape_clear(s.tape));
    }
    t_scene_close(&s);
}

/* Operands that stay along lines longer than what is brought together at a time, on either side of
 * each function that has a form with a number and of some that have none. */
static void check_line(t_scene *s, ph_dtype dtype, ph_tensor *wide, ph_tensor *still)
{
    ph_shape shape = ph_tensor_shape(wide), other = ph_tensor_shape(still);
    op_array x = {.shape = shape, .at = read(s->tape, wide)},
             y = {.shape = other, .at = read(s->tape, still)};
    ph_tensor *less = ph_lt(s->tape, wide, still);
    double *got[] = {
        read(s->tape, ph_add(s->tape, wide, still)),
        read(s->tape, ph_add(s->tape, still, wide)),
        read(s->tape, ph_mul(s->tape, wide, still)),
        read(s->tape, ph_mul(s->tape, still, wide)),
        read(s->tape, ph_sub(s->tape, ph_add_scalar(s->tape, wide, 20), still)),
        read(s->tape, ph_maximum(s->tape, still, wide)),
        read(s->tape, ph_where(s->tape, less, still, wide)),
        read(s->tape, ph_where(s->tape, ph_lt(s->tape, still, wide), wide, still)),
    };
    int64_t index[PH_MAX_RANK] = {0}, k = 0;
    do {
        double p = x.at[op_at(&x, index, shape.rank)], q = y.at[op_at(&y, index, shape.rank)];
        const double want[] = {p + q,      p + q,      p * q,      p * q,
                               p + 20 - q, fmax(p, q), fmax(p, q), fmax(p, q)};
        for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
            if (got[i][k] != want[i])
                fail_msg("%s, rank %zu, function %zu, element %lld: %g, not %g",
                         ph_dtype_name(dtype), shape.rank, i, (long long)k, got[i][k], want[i]);
        k++;
    } while (op_next(index, &shape));
    for (size_t i = 0; i < sizeof got / sizeof got[0]; i++)
        free(got[i]);
    free(x.at);
    free(y.at);
    assert_ok(ph_tape_clear(s->tape));
}

TEST(operands_that_stay_along_long_lines)
{
    t_scene s;
    t_scene_open(&s);
    for (size_t d = 0; d < DTYPES; d++) {
        const ph_dtype t = dtypes[d];
        static const int64_t widths[] = {64, 700, 1536};
        for (size_t w = 0; w < 3; w++) {
            const int64_t n = widths[w];
            check_line(&s, t, numbers(s.tape, t, PH_SHAPE(23, n), 13, NULL),
                       numbers(s.tape, t, PH_SHAPE(23, 1), 11, NULL));
            check_line(&s, t, numbers(s.tape, t, PH_SHAPE(3, 4, n), 13, NULL),
                       numbers(s.tape, t, PH_SHAPE(4, 1), 11, NULL));
            check_line(&s, t, numbers(s.tape, t, PH_SHAPE(3, 4, n), 13, NULL),
                       numbers(s.tape, t, PH_SHAPE(3, 1, n), 11, NULL));
            check_line(&s, t, numbers(s.tape, t, PH_SHAPE(9, n), 13, NULL),
                       numbers(s.tape, t, PH_SCALAR, 11, NULL));
        }
    }
    t_scene_close(&s);
}

/* What changes in place may be a view, turned or with gaps: nothing between its elements may
 * change. */
TEST(views_in_place)
{
    t_scene s;
    t_scene_open(&s);
    for (size_t d = 0; d < DTYPES; d++) {
        enum {
            ROWS = 90,
            COLUMNS = 70
        };
        ph_tensor *base = numbers(s.tape, dtypes[d], PH_SHAPE(ROWS, COLUMNS), 40, NULL);
        double *before = read(s.tape, base);
        ph_tensor *view = ph_transpose(
            s.tape, ph_slice_step(s.tape, ph_slice(s.tape, base, 0, 5, ROWS), 1, 3, COLUMNS, 2), 0,
            1);
        ph_tensor *add = ph_full(s.tape, dtypes[d], PH_SHAPE(1, ROWS - 5), 2);
        ph_tensor_add(s.tape, view, add, 3);
        double *after = read(s.tape, base);
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++)
                assert_true(after[i * COLUMNS + j] - before[i * COLUMNS + j] ==
                            (i >= 5 && j >= 3 && j % 2 == 1 ? 6 : 0));
        free(before);
        free(after);
        assert_ok(ph_tape_clear(s.tape));
    }
    t_scene_close(&s);
}

/* The host form runs loops over vectors with a rest at the end, and what falls into the rest
 * depends on how the work was divided: it must come out the same, to the bit. */
static void check_places(ph__core core, int which, size_t size, double a)
{
    enum {
        N = 150
    };
    double in[3][N], whole[N], one[N];
    ph__rng rng = {(uint64_t)which};
    for (int o = 0; o < 3; o++)
        for (int i = 0; i < N; i++) {
            double v = (double)(ph__rng_next(&rng) >> 11) * 0x1p-50 - 4;
            if (size == 8)
                in[o][i] = v;
            else
                ((float *)in[o])[i] = (float)v;
        }
    const ph__scalar x = {.f = a}, y = {.f = 0.75};
    memset(whole, 0, sizeof whole);
    memset(one, 0, sizeof one);
    core(whole, in[0], in[1], in[2], N, x, y);
    for (size_t i = 0; i < N; i++)
        core((char *)one + i * size, (char *)in[0] + i * size, (char *)in[1] + i * size,
             (char *)in[2] + i * size, 1, x, y);
    if (memcmp(whole, one, N * size) != 0)
        fail_msg("function %d of elementwise.def, %zu bytes: an element depends on its place",
                 which, size);
}

TEST(results_do_not_depend_on_the_place)
{
    ph__core_table cores = ph__cores();
#define PH__ELEMENTWISE(name, operands, dtypes, result, let, expression)                           \
    OPERANDS_##operands(PH__CORE_##name)
#define OPERANDS_NONE(core)
#define OPERANDS_BV(core)
#define OPERANDS_BVV(core)
#define OPERANDS_V(core)                                                                           \
    if (core < PH__CORE_eq || core > PH__CORE_logical_not) {                                       \
        check_places(cores[core][PH__CORE_F32], core, 4, 0.3);                                     \
        check_places(cores[core][PH__CORE_F64], core, 8, 0.3);                                     \
    }
#define OPERANDS_VV(core)  OPERANDS_V(core)
#define OPERANDS_VVV(core) OPERANDS_V(core)
#include "tensor/kernels/elementwise.def"
#undef PH__ELEMENTWISE
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_and_alignments),
        cmocka_unit_test(broadcasts_and_turns),
        cmocka_unit_test(operands_that_stay_along_long_lines),
        cmocka_unit_test(views_in_place),
        cmocka_unit_test(results_do_not_depend_on_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
