/* SPDX-License-Identifier: MIT */
/* tests/tensor/misuse_values.c: what is made from nothing, without a tape or of impossible
 * sizes; numbers and axes that an operator cannot take; arrays that are not there. */
#include "support/grads.h"
#include "support/test.h"
#include <math.h>

/* ---- made from nothing ---- */
typedef ph_tensor *(*make_fn)(ph_tape *tape, ph_dtype dtype, ph_shape shape);

static ph_tensor *make_full(ph_tape *tape, ph_dtype dtype, ph_shape shape)
{
    return ph_full(tape, dtype, shape, 1);
}

static ph_tensor *make_from_memory(ph_tape *tape, ph_dtype dtype, ph_shape shape)
{
    static const double values[6];
    return ph_from_memory(tape, dtype, shape, values);
}

static ph_tensor *make_uniform(ph_tape *tape, ph_dtype dtype, ph_shape shape)
{
    return ph_uniform(tape, dtype, shape, -1, 1);
}

static ph_tensor *make_normal(ph_tape *tape, ph_dtype dtype, ph_shape shape)
{
    return ph_normal(tape, dtype, shape, 0, 1);
}

static ph_tensor *make_exponential(ph_tape *tape, ph_dtype dtype, ph_shape shape)
{
    return ph_exponential(tape, dtype, shape, 1);
}

static ph_tensor *make_randint(ph_tape *tape, ph_dtype dtype, ph_shape shape)
{
    return ph_randint(tape, dtype, shape, 0, 9);
}

static const struct maker {
    const char *name;
    make_fn make;
    bool integers, floats;
} makers[] = {
    {"empty", ph_empty, true, true},        {"zeros", ph_zeros, true, true},
    {"full", make_full, true, true},        {"from_memory", make_from_memory, true, true},
    {"rand", ph_rand, false, true},         {"uniform", make_uniform, false, true},
    {"randn", ph_randn, false, true},       {"normal", make_normal, false, true},
    {"randint", make_randint, true, false}, {"exponential", make_exponential, false, true},
};

static void not_made(const t_scene *s, const struct maker *m, ph_dtype dtype, ph_shape shape,
                     ph_status status)
{
    if (m->make(s->tape, dtype, shape) || ph_tape_status(s->tape) != status ||
        strncmp(ph_error_last()->message, m->name, strlen(m->name)) != 0)
        fail_msg("%s of dtype %d, rank %zu: %s", m->name, (int)dtype, shape.rank,
                 ph_error_last()->message);
    assert_status(ph_tape_clear(s->tape), status);
}

TEST(factories_refuse_bad_dtypes_and_shapes)
{
    t_scene s;
    t_scene_open(&s);
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++) {
        const struct maker *m = &makers[i];
        ph_dtype dtype = m->floats ? PH_DTYPE_F32 : PH_DTYPE_I32;
        assert_non_null(m->make(s.tape, dtype, PH_SHAPE(2, 3)));
        assert_non_null(m->make(s.tape, dtype, PH_SHAPE(2, 0)));
        assert_ok(ph_tape_clear(s.tape));
        assert_status(ph_fail(PH_ERROR_CALLER, "another"), PH_ERROR_CALLER);
        assert_null(m->make(NULL, dtype, PH_SHAPE(2)));
        assert_error(ph_error_last()->status, PH_ERROR_ARGUMENT, "tape is NULL");
        ph_tape_fail(s.tape, PH_ERROR_CALLER, "the first one");
        assert_null(m->make(s.tape, dtype, PH_SHAPE(2)));
        assert_error(ph_tape_clear(s.tape), PH_ERROR_CALLER, "the first one");
        not_made(&s, m, (ph_dtype)0, PH_SHAPE(2), PH_ERROR_ARGUMENT);
        not_made(&s, m, (ph_dtype)99, PH_SHAPE(2), PH_ERROR_ARGUMENT);
        not_made(&s, m, dtype, PH_SHAPE(3, -1), PH_ERROR_ARGUMENT);
        not_made(&s, m, dtype, (ph_shape){.rank = PH_MAX_RANK + 1}, PH_ERROR_ARGUMENT);
        not_made(&s, m, dtype, PH_SHAPE(INT64_MAX, INT64_MAX), PH_ERROR_SIZE);
        not_made(&s, m, dtype, PH_SHAPE(INT64_MAX / 2), PH_ERROR_SIZE);
        if (!m->floats)
            not_made(&s, m, PH_DTYPE_F32, PH_SHAPE(2), PH_ERROR_ARGUMENT);
        if (!m->integers)
            not_made(&s, m, PH_DTYPE_I64, PH_SHAPE(2), PH_ERROR_ARGUMENT);
    }
    t_scene_close(&s);
}

#define REFUSED(call, status, part)                                                                \
    do {                                                                                           \
        assert_null(call);                                                                         \
        t_expect_failure(&s, (status), (part));                                                    \
    } while (0)
#define ARGUMENT(call, part) REFUSED(call, PH_ERROR_ARGUMENT, part)
#define CHANGE(call, part)                                                                         \
    do {                                                                                           \
        call;                                                                                      \
        t_expect_failure(&s, PH_ERROR_ARGUMENT, (part));                                           \
    } while (0)
#define F32(...) ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(__VA_ARGS__))
#define I64(...) ph_zeros(s.tape, PH_DTYPE_I64, PH_SHAPE(__VA_ARGS__))

TEST(arange_and_randperm_refuse_bad_arguments)
{
    t_scene s;
    t_scene_open(&s);
    assert_null(ph_arange(NULL, PH_DTYPE_F32, 0, 1, 2));
    assert_error(ph_error_last()->status, PH_ERROR_ARGUMENT, "arange");
    ARGUMENT(ph_arange(s.tape, PH_DTYPE_F32, 0, 1, -2), "arange");
    ARGUMENT(ph_arange(s.tape, (ph_dtype)99, 0, 1, 2), "arange: 99 is no dtype");
    ARGUMENT(ph_arange(s.tape, PH_DTYPE_I32, 0, (double)NAN, 2), "integers");
    REFUSED(ph_arange(s.tape, PH_DTYPE_F64, 0, 1, INT64_MAX), PH_ERROR_SIZE, "arange");
    assert_null(ph_randperm(NULL, 2));
    assert_error(ph_error_last()->status, PH_ERROR_ARGUMENT, "randperm");
    ARGUMENT(ph_randperm(s.tape, -2), "randperm");
    REFUSED(ph_randperm(s.tape, INT64_MAX), PH_ERROR_SIZE, "randperm");
    t_scene_close(&s);
}

/* ---- numbers and axes ---- */
TEST(numbers_that_are_out_of_range_are_refused)
{
    t_scene s;
    t_scene_open(&s);
    ARGUMENT(ph_add_scalar(s.tape, I64(2), 0.5), "add_scalar: 0.5 is no integer");
    ARGUMENT(ph_mul_scalar(s.tape, I64(2), (double)INFINITY), "mul_scalar");
    ARGUMENT(ph_clamp(s.tape, I64(2), 0, 1.5), "clamp: 1.5 is no integer");
    ARGUMENT(ph_cast(s.tape, F32(2), (ph_dtype)99), "cast");
    ARGUMENT(ph_norm_over(s.tape, F32(2), -1, PH_AXES(0), false), "norm");
    ARGUMENT(ph_layer_norm(s.tape, F32(2), NULL, NULL, -1), "layer_norm");
    ARGUMENT(ph_rms_norm(s.tape, F32(2), NULL, (double)NAN), "rms_norm");
    CHANGE(ph_tensor_normal(s.tape, F32(2), 0, -1), "deviation");
    CHANGE(ph_tensor_normal(s.tape, F32(2), 0, (double)NAN), "deviation");
    CHANGE(ph_tensor_log_normal(s.tape, F32(2), 0, -1), "deviation");
    CHANGE(ph_tensor_exponential(s.tape, F32(2), 0), "rate");
    CHANGE(ph_tensor_exponential(s.tape, F32(2), (double)NAN), "rate");
    CHANGE(ph_tensor_cauchy(s.tape, F32(2), 0, -1), "scale");
    CHANGE(ph_tensor_geometric(s.tape, F32(2), 1.5), "geometric");
    CHANGE(ph_tensor_uniform(s.tape, F32(2), 1, 0), "no range");
    CHANGE(ph_tensor_bernoulli(s.tape, F32(2), (double)NAN), "from 0 to 1");
    CHANGE(ph_tensor_bernoulli_of(s.tape, F32(2), I64(2)), "a floating dtype");
    CHANGE(ph_tensor_bernoulli_of(s.tape, F32(1), F32(2)), "do not broadcast to what changes");
    ARGUMENT(ph_normal_of(s.tape, F32(2), F32(3)), "do not broadcast together");
    REFUSED(ph_normal_of(s.tape, ph_expand(s.tape, F32(1), PH_SHAPE(INT64_C(1) << 40)),
                         ph_expand(s.tape, F32(1, 1), PH_SHAPE(INT64_C(1) << 40, 1))),
            PH_ERROR_SIZE, "normal_of");
    ARGUMENT(ph_rrelu(s.tape, F32(2), 1, 0), "rrelu: from 1 to 0 is no range");
    ARGUMENT(ph_rrelu(s.tape, F32(2), 0, (double)NAN), "no range");
    ARGUMENT(ph_rrelu(s.tape, F32(2), 0, (double)INFINITY), "no range");
    t_scene_close(&s);
}

/* Whole numbers that the dtype has not, or none at all; the ends themselves are taken. */
TEST(test_whole_numbers)
{
    static const struct {
        ph_dtype dtype;
        int64_t least, most;
    } ends[] = {{PH_DTYPE_F32, -(1 << 24), 1 << 24},
                {PH_DTYPE_F64, -(INT64_C(1) << 53), INT64_C(1) << 53},
                {PH_DTYPE_F16, -2048, 2048},
                {PH_DTYPE_BF16, -256, 256},
                {PH_DTYPE_I32, INT32_MIN, INT32_MAX},
                {PH_DTYPE_U8, 0, UINT8_MAX},
                {PH_DTYPE_BOOL, 0, 1}};
    t_scene s;
    t_scene_open(&s);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        ph_dtype dtype = ends[i].dtype;
        ph_tensor_random(s.tape, ph_zeros(s.tape, dtype, PH_SHAPE(2)), ends[i].least,
                         ends[i].most + 1);
        assert_ok(ph_tape_clear(s.tape));
        CHANGE(ph_tensor_random(s.tape, ph_zeros(s.tape, dtype, PH_SHAPE(2)), ends[i].least - 1, 1),
               "tensor_random: from");
        CHANGE(ph_tensor_random(s.tape, ph_zeros(s.tape, dtype, PH_SHAPE(2)), 0, ends[i].most + 2),
               "every whole number from");
        CHANGE(ph_tensor_random(s.tape, ph_zeros(s.tape, dtype, PH_SHAPE(2)), 1, 1),
               "from 1 to below 1");
    }
    ph_tensor_random(s.tape, I64(2), INT64_MIN, INT64_MAX);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(axes_that_do_not_exist_are_refused)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *out[2];
    ARGUMENT(ph_max_over(s.tape, F32(2, 3), PH_AXES(0, 0), true), "named twice");
    ARGUMENT(ph_mean_over(s.tape, F32(2, 3), PH_AXES(2), true), "no axis 2");
    ARGUMENT(ph_norm_over(s.tape, F32(2, 3), 2, PH_AXES(-3), true), "no axis -3");
    ARGUMENT(ph_argmax(s.tape, F32(2, 3), 2, true), "no axis 2");
    ARGUMENT(ph_softmax(s.tape, F32(2, 3), -3), "axis -3");
    ARGUMENT(ph_log_softmax(s.tape, F32(2, 3), 2), "axis 2");
    ARGUMENT(ph_gather(s.tape, F32(2, 3), 2, I64(2, 3)), "no axis 2");
    ARGUMENT(ph_scatter(s.tape, F32(2, 3), -3, I64(2, 3), F32(2, 3)), "no axis -3");
    ARGUMENT(ph_scatter_add(s.tape, F32(2, 3), 2, I64(2, 3), F32(2, 3)), "no axis 2");
    ARGUMENT(ph_index_select(s.tape, F32(2, 3), 2, I64(2)), "no axis 2");
    ARGUMENT(ph_concat(s.tape, (ph_tensor *[]){F32(2), F32(2)}, 2, 1), "no axis 1");
    ARGUMENT(ph_stack(s.tape, (ph_tensor *[]){F32(2), F32(2)}, 2, 3), "no axis 3");
    CHANGE(ph_split(s.tape, out, F32(2), 1, (int64_t[]){1, 1}, 2), "no axis 1");
    assert_null(out[0]);
    ARGUMENT(ph_squeeze(s.tape, F32(2), -2), "no axis -2");
    ARGUMENT(ph_unsqueeze(s.tape, F32(2), -3), "no axis -3");
    ARGUMENT(ph_flatten(s.tape, F32(2), 0, 1), "no axis 1");
    ARGUMENT(ph_reshape(s.tape, F32(2), PH_SHAPE(3)), "reshape");
    ARGUMENT(ph_expand(s.tape, F32(2), PH_SHAPE(3)), "expand");
    t_scene_close(&s);
}

/* ---- arrays ---- */
TEST(arrays_that_are_null_or_wrong_are_refused)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *out[2];
    ARGUMENT(ph_concat(s.tape, NULL, 2, 0), "concat");
    ARGUMENT(ph_stack(s.tape, NULL, 2, 0), "stack");
    ARGUMENT(ph_stack(s.tape, out, 0, 0), "stack");
    CHANGE(ph_split(s.tape, out, F32(2), 0, NULL, 2), "split");
    assert_null(out[1]);
    CHANGE(ph_split(s.tape, NULL, F32(2), 0, (int64_t[]){1, 1}, 2), "split");
    CHANGE(ph_split(s.tape, out, F32(2), 0, (int64_t[]){3, -1}, 2), "split");
    ARGUMENT(ph_permute(s.tape, F32(2), NULL, 1), "axes is NULL");
    ph_attention_options odd = {.reserved = {1}};
    ARGUMENT(ph_attention(s.tape, F32(1, 2, 3, 4), F32(1, 2, 3, 4), F32(1, 2, 3, 4), &odd),
             "reserved");
    t_scene_close(&s);
}

TEST(backward_and_grad_refuse_bad_arguments)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 1, 2), *out[1];
    ph_backward_options odd = {.reserved = {1}};
    ph_grad_options odd_grad = {.reserved = {1}};
#define LOSS ph_sum(s.tape, x)
    CHANGE(ph_backward(s.tape, NULL), "NULL");
    CHANGE(ph_backward(s.tape, ph_neg(s.tape, x)), "backward");
    CHANGE(ph_backward_from(s.tape, NULL, NULL, 1, NULL), "NULL");
    CHANGE(ph_backward_from(s.tape, (ph_tensor *[]){NULL}, NULL, 1, NULL), "NULL");
    CHANGE(ph_backward_from(s.tape, (ph_tensor *[]){LOSS}, NULL, 1, &odd), "reserved");
    CHANGE(ph_backward_from(s.tape, (ph_tensor *[]){LOSS}, (ph_tensor *[]){F32(2)}, 1, NULL),
           "backward");
    CHANGE(ph_grad(s.tape, NULL, (ph_tensor *[]){x}, 1, (ph_tensor *[]){LOSS}, NULL, 1, NULL),
           "room for");
    CHANGE(ph_grad(s.tape, out, NULL, 1, (ph_tensor *[]){LOSS}, NULL, 1, NULL),
           "there must be inputs");
    CHANGE(ph_grad(s.tape, out, (ph_tensor *[]){x}, 1, NULL, NULL, 1, NULL), "NULL");
    CHANGE(ph_grad(s.tape, out, (ph_tensor *[]){NULL}, 1, (ph_tensor *[]){LOSS}, NULL, 1, NULL),
           "NULL");
    CHANGE(ph_grad(s.tape, out, (ph_tensor *[]){x}, 1, (ph_tensor *[]){LOSS}, NULL, 1, &odd_grad),
           "reserved");
    assert_null(out[0]);
    assert_null(ph_tensor_grad(x));
    ph_tensor_release(x);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factories_refuse_bad_dtypes_and_shapes),
        cmocka_unit_test(arange_and_randperm_refuse_bad_arguments),
        cmocka_unit_test(numbers_that_are_out_of_range_are_refused),
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(axes_that_do_not_exist_are_refused),
        cmocka_unit_test(arrays_that_are_null_or_wrong_are_refused),
        cmocka_unit_test(backward_and_grad_refuse_bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
