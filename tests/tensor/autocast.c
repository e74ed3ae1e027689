/* SPDX-License-Identifier: MIT */
/* tests/tensor/autocast.c: mixed precision as a mode of the tape: which operator casts what to
 * which dtype, that it is what casts in the code would give, and the mode itself. */
#include "support/grads.h"
#include "support/test.h"
#include <stdio.h>

static const ph_autocast off, to_f16 = {.dtype = PH_DTYPE_F16}, to_bf16 = {.dtype = PH_DTYPE_BF16};

/* ---- operators ---- of one, two or three operands [4, 4]; those that take another kind make it
 * themselves, in f32. */
typedef ph_tensor *(*operator_fn)(ph_tape *tape, ph_tensor *const *in);
typedef enum rule {
    LOW,
    F32,
    WIDEST,
    NONE
} rule;
typedef struct operator_case {
    const char *name;
    operator_fn call;
    size_t count;
    rule rule;
    bool gives_bool;
} operator_case;

#define ONE(name, expression)                                                                      \
    static ph_tensor *call_##name(ph_tape *tape, ph_tensor *const *in)                             \
    {                                                                                              \
        ph_tensor *x = in[0];                                                                      \
        return expression;                                                                         \
    }
#define TWO(name, expression)                                                                      \
    static ph_tensor *call_##name(ph_tape *tape, ph_tensor *const *in)                             \
    {                                                                                              \
        ph_tensor *a = in[0], *b = in[1];                                                          \
        return expression;                                                                         \
    }
#define THREE(name, expression)                                                                    \
    static ph_tensor *call_##name(ph_tape *tape, ph_tensor *const *in)                             \
    {                                                                                              \
        ph_tensor *a = in[0], *b = in[1], *c = in[2];                                              \
        return expression;                                                                         \
    }
TWO(matmul, ph_matmul(tape, a, b))
TWO(linear, ph_linear(tape, a, b, NULL))
THREE(linear_bias, ph_linear(tape, a, b, ph_select(tape, c, 0, 0)))
THREE(attention, ph_attention(tape, ph_unsqueeze(tape, a, 0), ph_unsqueeze(tape, b, 0),
                              ph_unsqueeze(tape, c, 0), NULL))
ONE(exp, ph_exp(tape, x))
ONE(log, ph_log(tape, x))
ONE(rsqrt, ph_rsqrt(tape, x))
ONE(pow_scalar, ph_pow_scalar(tape, x, 3))
ONE(pow_scalar_2, ph_pow_scalar(tape, x, 2))
ONE(softmax, ph_softmax(tape, x, 0))
ONE(log_softmax, ph_log_softmax(tape, x, -1))
ONE(cross_entropy, ph_cross_entropy(tape, x, ph_arange(tape, PH_DTYPE_I64, 0, 1, 4)))
TWO(mse, ph_mse(tape, a, b))
ONE(sum, ph_sum(tape, x))
ONE(sum_over, ph_sum_over(tape, x, PH_AXES(0), true))
ONE(sum_of_nothing, ph_sum_over(tape, x, (ph_axes){0}, true))
ONE(norm, ph_norm(tape, x, 2))
ONE(norm_over, ph_norm_over(tape, x, 3, PH_AXES(1), false))
THREE(layer_norm, ph_layer_norm(tape, a, ph_select(tape, b, 0, 0), ph_select(tape, c, 0, 1), 0))
TWO(rms_norm, ph_rms_norm(tape, a, ph_select(tape, b, 0, 0), 0))
TWO(add, ph_add(tape, a, b))
TWO(sub, ph_sub(tape, a, b))
TWO(mul, ph_mul(tape, a, b))
TWO(div, ph_div(tape, a, b))
TWO(maximum, ph_maximum(tape, a, b))
TWO(minimum, ph_minimum(tape, a, b))
TWO(eq, ph_eq(tape, a, b))
TWO(ne, ph_ne(tape, a, b))
TWO(lt, ph_lt(tape, a, b))
TWO(le, ph_le(tape, a, b))
TWO(gt, ph_gt(tape, a, b))
TWO(ge, ph_ge(tape, a, b))
TWO(where, ph_where(tape, ph_lt(tape, a, a), a, b))
THREE(concat, ph_concat(tape, (ph_tensor *[]){a, b, c}, 3, 0))
THREE(stack, ph_stack(tape, (ph_tensor *[]){a, b, c}, 3, 1))
static ph_tensor *zeros(ph_tape *tape)
{
    return ph_zeros(tape, PH_DTYPE_I64, PH_SHAPE(4, 4));
}
TWO(scatter, ph_scatter(tape, a, 0, zeros(tape), b))
TWO(scatter_add, ph_scatter_add(tape, a, 0, zeros(tape), b))
ONE(relu, ph_relu(tape, x))
ONE(gelu, ph_gelu(tape, x))
ONE(tanh, ph_tanh(tape, x))
ONE(sqrt, ph_sqrt(tape, x))
ONE(square, ph_square(tape, x))
ONE(mean, ph_mean(tape, x))
ONE(max, ph_max(tape, x))
ONE(mul_scalar, ph_mul_scalar(tape, x, 2))
ONE(clone, ph_clone(tape, x))
ONE(transpose, ph_transpose(tape, x, 0, 1))
ONE(gather, ph_gather(tape, x, 0, zeros(tape)))
ONE(embedding, ph_embedding(tape, x, zeros(tape)))

#define CASE(name, count, rule)                                                                    \
    {                                                                                              \
#name, call_##name, count, rule, false                                                     \
    }
#define BOOL(name)                                                                                 \
    {                                                                                              \
#name, call_##name, 2, WIDEST, true                                                        \
    }
static const operator_case cases[] = {CASE(matmul, 2, LOW),
                                      CASE(linear, 2, LOW),
                                      CASE(linear_bias, 3, LOW),
                                      CASE(attention, 3, LOW),
                                      CASE(exp, 1, F32),
                                      CASE(log, 1, F32),
                                      CASE(rsqrt, 1, F32),
                                      CASE(pow_scalar, 1, F32),
                                      CASE(pow_scalar_2, 1, F32),
                                      CASE(softmax, 1, F32),
                                      CASE(log_softmax, 1, F32),
                                      CASE(cross_entropy, 1, F32),
                                      CASE(mse, 2, F32),
                                      CASE(sum, 1, F32),
                                      CASE(sum_over, 1, F32),
                                      CASE(sum_of_nothing, 1, F32),
                                      CASE(norm, 1, F32),
                                      CASE(norm_over, 1, F32),
                                      CASE(layer_norm, 3, F32),
                                      CASE(rms_norm, 2, F32),
                                      CASE(add, 2, WIDEST),
                                      CASE(sub, 2, WIDEST),
                                      CASE(mul, 2, WIDEST),
                                      CASE(div, 2, WIDEST),
                                      CASE(maximum, 2, WIDEST),
                                      CASE(minimum, 2, WIDEST),
                                      BOOL(eq),
                                      BOOL(ne),
                                      BOOL(lt),
                                      BOOL(le),
                                      BOOL(gt),
                                      BOOL(ge),
                                      CASE(where, 2, WIDEST),
                                      CASE(concat, 3, WIDEST),
                                      CASE(stack, 3, WIDEST),
                                      CASE(scatter, 2, WIDEST),
                                      CASE(scatter_add, 2, WIDEST),
                                      CASE(relu, 1, NONE),
                                      CASE(gelu, 1, NONE),
                                      CASE(tanh, 1, NONE),
                                      CASE(sqrt, 1, NONE),
                                      CASE(square, 1, F32),
                                      CASE(mean, 1, NONE),
                                      CASE(max, 1, NONE),
                                      CASE(mul_scalar, 1, NONE),
                                      CASE(clone, 1, NONE),
                                      CASE(transpose, 1, NONE),
                                      CASE(gather, 1, NONE),
                                      CASE(embedding, 1, NONE)};
enum {
    CASES = sizeof cases / sizeof cases[0],
    OPERANDS = 3
};

/* ---- what the rules say ---- */
static bool is_half(ph_dtype dtype)
{
    return dtype == PH_DTYPE_F16 || dtype == PH_DTYPE_BF16;
}

static bool takes_part(ph_dtype dtype)
{
    return is_half(dtype) || dtype == PH_DTYPE_F32;
}

/* What operand i is cast to. */
static ph_dtype want_dtype(const operator_case *c, ph_autocast mode, const ph_dtype *dtypes,
                           size_t i)
{
    bool same = true;
    if (!takes_part(dtypes[i]))
        return dtypes[i];
    for (size_t k = 0; k < c->count; k++)
        same = same && dtypes[k] == dtypes[0];
    switch (c->rule) {
    case LOW:
        return mode.dtype;
    case F32:
        return PH_DTYPE_F32;
    case WIDEST:
        return same ? dtypes[0] : PH_DTYPE_F32;
    default:
        return dtypes[i];
    }
}

/* ---- running one ---- values in [0.5, 1.5), exact in every dtype. */
static ph_tensor *operand(const t_scene *s, ph_dtype dtype, size_t which)
{
    float values[16];
    for (size_t i = 0; i < 16; i++)
        values[i] = 0.5f + (float)((i * 5 + which * 3) % 16) / 16;
    ph_tensor *x = ph_tensor_retain(
        ph_cast(s->tape, ph_from_memory(s->tape, PH_DTYPE_F32, PH_SHAPE(4, 4), values), dtype));
    assert_ok(ph_tape_clear(s->tape));
    assert_ok(ph_tensor_set_requires_grad(x, true));
    return x;
}

static void read_bytes(const t_scene *s, const ph_tensor *x, unsigned char out[512])
{
    size_t bytes = ph_tensor_bytes(x);
    assert_in_range(bytes, 1, 512);
    ph_tensor *dense = ph_contiguous(s->tape, ph_detach(s->tape, (ph_tensor *)(uintptr_t)x));
    assert_ok(ph_tensor_read(s->tape, dense, out, bytes));
}

static void expect_same(const t_scene *s, const char *what, const ph_tensor *got,
                        const ph_tensor *want)
{
    unsigned char a[512], b[512];
    assert_ok(ph_tape_status(s->tape));
    if (!got || !want || ph_tensor_dtype(got) != ph_tensor_dtype(want))
        fail_msg("%s: dtype %s, expected %s", what,
                 got ? ph_dtype_name(ph_tensor_dtype(got)) : "none",
                 want ? ph_dtype_name(ph_tensor_dtype(want)) : "none");
    assert_int_equal(ph_tensor_bytes(got), ph_tensor_bytes(want));
    read_bytes(s, got, a);
    read_bytes(s, want, b);
    if (memcmp(a, b, ph_tensor_bytes(got)) != 0)
        fail_msg("%s: other values than with casts in the code", what);
}

typedef struct outcome {
    ph_tensor *y, *grads[OPERANDS]; /* retained */
} outcome;

static void release_outcome(outcome *o)
{
    ph_tensor_release(o->y);
    for (size_t i = 0; i < OPERANDS; i++)
        ph_tensor_release(o->grads[i]);
}

/* to: what each operand is cast to in the code; NULL: autocast does it. */
static outcome run(const t_scene *s, const operator_case *c, ph_tensor *const *in, ph_autocast mode,
                   const ph_dtype *to)
{
    ph_tensor *given[OPERANDS] = {NULL};
    outcome o = {NULL, {NULL}};
    for (size_t i = 0; i < c->count; i++)
        given[i] = to ? ph_cast(s->tape, in[i], to[i]) : in[i];
    ph_autocast before = ph_tape_set_autocast(s->tape, to ? off : mode);
    ph_tensor *y = c->call(s->tape, given);
    if (y && !c->gives_bool) {
        ph_tensor *ones = ph_full(s->tape, ph_tensor_dtype(y), ph_tensor_shape(y), 1);
        ph_grad(s->tape, o.grads, in, c->count, &y, &ones, 1,
                &(ph_grad_options){.allow_unused = true});
    }
    (void)ph_tape_set_autocast(s->tape, before);
    assert_ok(ph_tape_status(s->tape));
    o.y = ph_tensor_retain(y);
    for (size_t i = 0; i < c->count; i++)
        ph_tensor_retain(o.grads[i]);
    assert_ok(ph_tape_clear(s->tape));
    return o;
}

/* The same as with casts in the code, to the bit, forward and backward; gradients are of the
 * operands' own dtypes. */
static void check_case(const t_scene *s, const operator_case *c, ph_autocast mode,
                       const ph_dtype *dtypes)
{
    ph_tensor *in[OPERANDS] = {NULL};
    ph_dtype to[OPERANDS];
    char what[96];
    (void)snprintf(what, sizeof what, "%s of %s, %s under %s", c->name, ph_dtype_name(dtypes[0]),
                   ph_dtype_name(dtypes[1]), ph_dtype_name(mode.dtype));
    for (size_t i = 0; i < c->count; i++) {
        in[i] = operand(s, dtypes[i], i);
        to[i] = want_dtype(c, mode, dtypes, i);
    }
    outcome got = run(s, c, in, mode, NULL), want = run(s, c, in, off, to);
    expect_same(s, what, got.y, want.y);
    if (c->rule == LOW || (c->rule == F32 && takes_part(dtypes[0])))
        assert_int_equal(ph_tensor_dtype(got.y), to[0]);
    for (size_t i = 0; i < c->count && !c->gives_bool; i++) {
        assert_int_equal(got.grads[i] != NULL, want.grads[i] != NULL);
        if (!got.grads[i])
            continue;
        expect_same(s, what, got.grads[i], want.grads[i]);
        assert_int_equal(ph_tensor_dtype(got.grads[i]), dtypes[i]);
    }
    assert_ok(ph_tape_clear(s->tape));
    release_outcome(&got);
    release_outcome(&want);
    for (size_t i = 0; i < c->count; i++)
        ph_tensor_release(in[i]);
}

TEST(test_every_operator)
{
    static const ph_dtype mixes[][OPERANDS] = {
        {PH_DTYPE_F32, PH_DTYPE_F32, PH_DTYPE_F32},    {PH_DTYPE_F16, PH_DTYPE_F16, PH_DTYPE_F16},
        {PH_DTYPE_BF16, PH_DTYPE_BF16, PH_DTYPE_BF16}, {PH_DTYPE_F16, PH_DTYPE_F32, PH_DTYPE_F16},
        {PH_DTYPE_F32, PH_DTYPE_BF16, PH_DTYPE_BF16},  {PH_DTYPE_F16, PH_DTYPE_BF16, PH_DTYPE_F16},
        {PH_DTYPE_F64, PH_DTYPE_F64, PH_DTYPE_F64}};
    t_scene s;
    t_scene_open(&s);
    for (size_t i = 0; i < CASES; i++)
        for (size_t m = 0; m < sizeof mixes / sizeof mixes[0]; m++) {
            check_case(&s, &cases[i], to_f16, mixes[m]);
            check_case(&s, &cases[i], to_bf16, mixes[m]);
        }
    t_scene_close(&s);
}

/* Integers and bool are left as they are; f64 does not meet the others silently. */
TEST(test_other_dtypes)
{
    t_scene s;
    t_scene_open(&s);
    (void)ph_tape_set_autocast(s.tape, to_f16);
    ph_tensor *whole = ph_arange(s.tape, PH_DTYPE_I32, 0, 1, 4);
    assert_int_equal(ph_tensor_dtype(ph_add(s.tape, whole, whole)), PH_DTYPE_I32);
    assert_int_equal(ph_tensor_dtype(ph_sum(s.tape, whole)), PH_DTYPE_I64);
    assert_int_equal(ph_tensor_dtype(ph_concat(s.tape, &whole, 1, 0)), PH_DTYPE_I32);
    assert_ok(ph_tape_status(s.tape));
    assert_null(ph_add(s.tape, whole, ph_zeros(s.tape, PH_DTYPE_F16, PH_SHAPE(4))));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "add");
    assert_null(ph_matmul(s.tape, ph_zeros(s.tape, PH_DTYPE_F64, PH_SHAPE(2, 2)),
                          ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(2, 2))));
    t_expect_failure(
        &s, PH_ERROR_ARGUMENT,
        "matmul: both operands must be of one floating dtype; ph_cast one of them (got f64[2, "
        "2], f16[2, 2]); "
        "autocast had cast those of f16, bf16 and f32 to f16");
    ph_tensor *x = ph_zeros(s.tape, PH_DTYPE_BF16, PH_SHAPE(2, 2));
    assert_null(ph_softmax(s.tape, x, 5));
    assert_null(ph_matmul(s.tape, x, x)); /* does nothing, and adds nothing to the failure */
    assert_error(ph_tape_status(s.tape), PH_ERROR_ARGUMENT, "softmax: there is no axis 5");
    assert_null(strstr(ph_error_last()->message, "autocast")); /* which had nothing to do with it */
    assert_int_equal(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT);
    assert_null(ph_concat(s.tape, NULL, 2, 0));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "concat");
    assert_null(ph_stack(s.tape, (ph_tensor *[]){NULL, NULL}, 2, 0));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "stack");
    assert_null(ph_linear(s.tape, NULL, NULL, NULL));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "linear: operand 0 is NULL");
    assert_int_equal(ph_tape_autocast(s.tape).dtype, PH_DTYPE_F16); /* it stays, whatever failed */
    t_scene_close(&s);
}

/* What an operator refuses in an operand is told in its name. */
TEST(test_refused_operands)
{
    ph_tape *other;
    t_scene s;
    t_scene_open(&s);
    assert_ok(ph_tape_create(&other, s.stream, NULL));
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 1, 2), *foreign = ph_mul_scalar(other, x, 2);
    (void)ph_tape_set_autocast(s.tape, to_f16);
    assert_null(ph_mul(s.tape, x, foreign));
    t_expect_failure(&s, PH_ERROR_STATE, "mul: operand 1 has history on another tape");
    assert_null(ph_softmax(s.tape, ph_cast(other, foreign, PH_DTYPE_BF16), 0));
    t_expect_failure(&s, PH_ERROR_STATE, "softmax: operand 0 has history on another tape");
    if (t_on_host()) {
        t_scene there;
        t_scene_open(&there);
        ph_tensor *far = ph_zeros(there.tape, PH_DTYPE_F32, PH_SHAPE(2));
        assert_null(ph_matmul(s.tape, x, far));
        t_expect_failure(&s, PH_ERROR_WRONG_DEVICE, "matmul: operand 1 is of another device");
        t_scene_close(&there);
    }
    ph_tape_destroy(other);
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* Casts go as the operator ends, but for what is remembered. */
TEST(test_what_is_left)
{
    t_scene s;
    t_scene_open(&s);
    (void)ph_tape_set_autocast(s.tape, to_f16);
    ph_tensor *a = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(64, 64), 0.5);
    size_t tensors = t_info(&s).tensors;
    ph_tensor *y = ph_matmul(s.tape, a, a);
    assert_non_null(y);
    assert_int_equal(t_info(&s).tensors, tensors + 1);
    assert_ok(ph_tensor_set_requires_grad(a, true));
    assert_non_null(ph_matmul(s.tape, a, y));
    assert_int_equal(t_info(&s).tensors, tensors + 2);
    assert_int_equal(t_info(&s).saved, 2);
    assert_int_equal(t_info(&s).nodes, 2); /* the cast and the product */
    t_scene_close(&s);
}

/* ---- the mode ---- */
TEST(test_the_mode)
{
    ph_tape *tape;
    t_scene s;
    t_scene_open(&s);
    assert_int_equal(ph_tape_autocast(s.tape).dtype, 0);
    assert_int_equal(ph_tape_set_autocast(s.tape, to_bf16).dtype, 0);
    assert_int_equal(ph_tape_autocast(s.tape).dtype, PH_DTYPE_BF16);
    assert_ok(ph_tape_clear(s.tape));
    ph_autocast uncached = {.dtype = PH_DTYPE_F16, .no_cache = true};
    assert_int_equal(ph_tape_set_autocast(s.tape, uncached).dtype, PH_DTYPE_BF16);
    assert_true(ph_tape_autocast(s.tape).no_cache);
    assert_int_equal(ph_tape_set_autocast(s.tape, off).dtype, PH_DTYPE_F16);
    const ph_tape_options options = {.autocast = to_f16};
    assert_ok(ph_tape_create(&tape, s.stream, &options));
    assert_int_equal(ph_tape_autocast(tape).dtype, PH_DTYPE_F16);
    ph_tape_destroy(tape);
    t_scene_close(&s);
}

TEST(misuse_is_refused)
{
    static const ph_dtype wrong[] = {PH_DTYPE_F32, PH_DTYPE_F64, PH_DTYPE_I64, (ph_dtype)99};
    ph_tape *tape;
    t_scene s;
    t_scene_open(&s);
    (void)ph_tape_set_autocast(s.tape, to_bf16);
    for (size_t i = 0; i < 4; i++) {
        const ph_autocast mode = {.dtype = wrong[i]};
        assert_int_equal(ph_tape_set_autocast(s.tape, mode).dtype, PH_DTYPE_BF16);
        t_expect_failure(&s, PH_ERROR_ARGUMENT, "ph_tape_set_autocast: autocast is to f16 or bf16");
        assert_int_equal(ph_tape_autocast(s.tape).dtype, PH_DTYPE_BF16);
        assert_error(ph_tape_create(&tape, s.stream, &(ph_tape_options){.autocast = mode}),
                     PH_ERROR_ARGUMENT, "ph_tape_create: autocast is to f16 or bf16");
        assert_null(tape);
    }
    assert_int_equal(ph_tape_autocast(NULL).dtype, 0);
    assert_int_equal(ph_tape_set_autocast(NULL, to_f16).dtype, 0);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operator),   cmocka_unit_test(test_other_dtypes),
        cmocka_unit_test(test_refused_operands), cmocka_unit_test(test_what_is_left),
        cmocka_unit_test(test_the_mode),         cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
