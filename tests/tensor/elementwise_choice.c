/* SPDX-License-Identifier: MIT */
/* tests/tensor/elementwise_choice.c: comparison, logic and choice, in every dtype that they
 * take. */
#include "support/fixture.h"
#include "support/op_check.h"
#include "support/tensors.h"
#include <math.h>

static const ph_dtype every[OP_DTYPES] = {PH_DTYPE_F32, PH_DTYPE_F64, PH_DTYPE_F16, PH_DTYPE_BF16,
                                          PH_DTYPE_I32, PH_DTYPE_I64, PH_DTYPE_U8,  PH_DTYPE_BOOL};

typedef struct choice {
    op_spec spec; /* first: a trial points to it */
    ph_tensor *(*fn)(ph_tape *tape, ph_tensor *a, ph_tensor *b);
    double (*ref)(double a, double b, double c);
} choice;

static void apply_two(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, const op_trial *trial)
{
    out[0] = ((const choice *)trial->spec)->fn(tape, in[0], in[1]);
}

static void reference(op_array *out, const op_array *in, const op_trial *trial)
{
    const choice *c = (const choice *)trial->spec;
    int64_t index[PH_MAX_RANK] = {0}, k = 0;
    ph_shape shape = {0};
    for (size_t o = 0; o < c->spec.in_count; o++)
        shape.rank = in[o].shape.rank > shape.rank ? in[o].shape.rank : shape.rank;
    for (size_t i = 1; i <= shape.rank; i++) {
        shape.dim[shape.rank - i] = 1;
        for (size_t o = 0; o < c->spec.in_count; o++)
            if (i <= in[o].shape.rank && in[o].shape.dim[in[o].shape.rank - i] != 1)
                shape.dim[shape.rank - i] = in[o].shape.dim[in[o].shape.rank - i];
    }
    op_array_make(&out[0], &shape);
    if (out[0].count > 0)
        do {
            double v[3] = {0};
            for (size_t o = 0; o < c->spec.in_count; o++)
                v[o] = in[o].at[op_at(&in[o], index, shape.rank)];
            out[0].at[k++] = c->ref(v[0], v[1], v[2]);
        } while (op_next(index, &shape));
}

/* Few values, so that some are equal. */
static double eq(double a, double b, double c)
{
    (void)c;
    return a == b;
}
static double ne(double a, double b, double c)
{
    (void)c;
    return a != b;
}
static double lt(double a, double b, double c)
{
    (void)c;
    return a < b;
}
static double le(double a, double b, double c)
{
    (void)c;
    return a <= b;
}
static double gt(double a, double b, double c)
{
    (void)c;
    return a > b;
}
static double ge(double a, double b, double c)
{
    (void)c;
    return a >= b;
}
static double both(double a, double b, double c)
{
    (void)c;
    return a != 0 && b != 0;
}
static double either(double a, double b, double c)
{
    (void)c;
    return a != 0 || b != 0;
}
static double nothing(double a, double b, double c)
{
    (void)b, (void)c;
    return a == 0;
}
static ph_tensor *logical_not(ph_tape *tape, ph_tensor *a, ph_tensor *b)
{
    (void)b;
    return ph_logical_not(tape, a);
}

#define COMPARISON(call, want, inputs, from, to)                                                   \
    {                                                                                              \
        .spec = {.name = #call,                                                                    \
                 .in_count = inputs,                                                               \
                 .in = {{.low = from, .high = to}, {.low = from, .high = to}},                     \
                 .shapes = op_shapes_broadcast,                                                    \
                 .apply = apply_two,                                                               \
                 .reference = reference,                                                           \
                 .no_gradient = true},                                                             \
        .fn = call, .ref = want                                                                    \
    }

static void comparisons_of_every_dtype_match_the_references(void **state)
{
    ph_device *device = *state;
    static const choice all[] = {
        COMPARISON(ph_eq, eq, 2, 0, 2),
        COMPARISON(ph_ne, ne, 2, 0, 2),
        COMPARISON(ph_lt, lt, 2, 0, 2),
        COMPARISON(ph_le, le, 2, 0, 2),
        COMPARISON(ph_gt, gt, 2, 0, 2),
        COMPARISON(ph_ge, ge, 2, 0, 2),
        COMPARISON(ph_logical_and, both, 2, 0, 2),
        COMPARISON(ph_logical_or, either, 2, 0, 2),
        COMPARISON(logical_not, nothing, 1, 0, 2),
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        choice one = all[i];
        memcpy(one.spec.dtypes, every, sizeof every);
        op_check(device, &one.spec);
    }
}

/* ---- choice ---- */
static double choose(double c, double a, double b)
{
    return c != 0 ? a : b;
}

static void apply_where(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, const op_trial *trial)
{
    (void)trial;
    out[0] = ph_where(tape, in[0], in[1], in[2]);
}

static double fill(double x, double mask, double c)
{
    (void)c;
    return mask != 0 ? 1 : x;
}

static void apply_fill(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, const op_trial *trial)
{
    (void)trial;
    out[0] = ph_masked_fill(tape, in[0], in[1], 1);
}

static void choices_of_every_dtype_match_the_references(void **state)
{
    ph_device *device = *state;
    choice where = {.spec = {.name = "where",
                             .in_count = 3,
                             .in = {{.dtype = PH_DTYPE_BOOL, .low = 0, .high = 2},
                                    {.low = 0, .high = 2},
                                    {.low = 0, .high = 2}},
                             .trials = 18,
                             .shapes = op_shapes_broadcast,
                             .apply = apply_where,
                             .reference = reference},
                    .ref = choose};
    choice masked = {
        .spec = {.name = "masked_fill",
                 .in_count = 2,
                 .in = {{.low = 0, .high = 2}, {.dtype = PH_DTYPE_BOOL, .low = 0, .high = 2}},
                 .trials = 18,
                 .shapes = op_shapes_broadcast,
                 .apply = apply_fill,
                 .reference = reference},
        .ref = fill};
    memcpy(where.spec.dtypes, every, sizeof every);
    memcpy(masked.spec.dtypes, every, sizeof every);
    op_check(device, &where.spec);
    op_check(device, &masked.spec);
}

TEST(nan_is_equal_to_nothing)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(3), (double)NAN);
    ph_tensor *all[] = {ph_eq(s.tape, x, x), ph_ne(s.tape, x, x), ph_lt(s.tape, x, x),
                        ph_ge(s.tape, x, x)};
    for (size_t i = 0; i < 4; i++) {
        uint8_t got[3];
        assert_int_equal(ph_tensor_dtype(all[i]), PH_DTYPE_BOOL);
        assert_ok(ph_tensor_read(s.tape, all[i], got, sizeof got));
        assert_int_equal(got[0], i == 1);
        assert_int_equal(got[2], i == 1);
    }
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(misuse_is_refused)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *f = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(2));
    assert_null(ph_where(s.tape, f, f, f));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "where: the condition must be bool");
    f = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(2));
    assert_null(ph_eq(s.tape, f, ph_zeros(s.tape, PH_DTYPE_F64, PH_SHAPE(2))));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "eq: the operands must be of one dtype");
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_DEVICE(comparisons_of_every_dtype_match_the_references),
        ON_DEVICE(choices_of_every_dtype_match_the_references),
        cmocka_unit_test(nan_is_equal_to_nothing),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
