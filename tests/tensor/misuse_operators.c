/* SPDX-License-Identifier: MIT */
/* tests/tensor/misuse_operators.c: every operator with operands, called wrongly: no tape, a
 * failed one, no operand, operands of another device, of another tape's history, of a dtype that
 * it does not take, of two dtypes, of shapes that do not fit. */
#include "support/grads.h"
#include "support/test.h"
#include <stdio.h>

/* What an operand is. */
typedef struct kind {
    char letter;
    ph_dtype dtype;
    ph_shape shape;
} kind;
static const kind kinds[] = {
    {'f', PH_DTYPE_F32, {2, {2, 3}}},  {'m', PH_DTYPE_F32, {2, {3, 2}}},
    {'w', PH_DTYPE_F32, {2, {4, 3}}},  {'l', PH_DTYPE_F32, {1, {3}}},
    {'o', PH_DTYPE_F32, {1, {4}}},     {'q', PH_DTYPE_F32, {4, {1, 2, 3, 4}}},
    {'i', PH_DTYPE_I64, {2, {2, 3}}},  {'j', PH_DTYPE_I64, {1, {2}}},
    {'b', PH_DTYPE_BOOL, {2, {2, 3}}},
};

typedef ph_tensor *(*call_fn)(ph_tape *tape, ph_tensor *const *in);
/* Which dtypes an operator takes for all operands that are written f, m, w, l, o or q. */
typedef enum takes {
    ANYTHING,
    NUMBERS, /* all but bool */
    FLOATS,
    LOGICAL /* bool alone: for those that are written b */
} takes;
enum {
    IN_PLACE = 1,     /* gives nothing */
    SINGLE = 2,       /* its operands need not be of one dtype */
    FROM_AFAR = 4,    /* another device's operand is what it is for */
    BROADCASTS = 8,   /* the first two operands must broadcast */
    NO_GRADIENT = 16, /* takes a tensor that requires one, and remembers nothing */
    OPTIONAL = 32     /* the last operand may be NULL */
};
typedef struct row {
    const char *name, *operands;
    call_fn call;
    takes takes;
    int flags;
} row;

#define OF_ONE(name, ...)                                                                          \
    static ph_tensor *call_##name(ph_tape *tape, ph_tensor *const *in)                             \
    {                                                                                              \
        return ph_##name(tape, in[0] __VA_ARGS__);                                                 \
    }
#define OF_TWO(name, ...)                                                                          \
    static ph_tensor *call_##name(ph_tape *tape, ph_tensor *const *in)                             \
    {                                                                                              \
        return ph_##name(tape, in[0], in[1] __VA_ARGS__);                                          \
    }
#define CHANGES(name, ...)                                                                         \
    static ph_tensor *call_tensor_##name(ph_tape *tape, ph_tensor *const *in)                      \
    {                                                                                              \
        ph_tensor_##name(tape, in[0] __VA_ARGS__);                                                 \
        return NULL;                                                                               \
    }
#define WITH(...) , __VA_ARGS__

OF_ONE(slice, WITH(0, 0, 1))
OF_ONE(slice_step, WITH(0, 0, 2, 2))
OF_ONE(select, WITH(0, 0))
OF_ONE(transpose, WITH(0, 1))
OF_ONE(permute, WITH((const int[]){1, 0}, 2))
OF_ONE(reshape, WITH(PH_SHAPE(6)))
OF_ONE(flatten, WITH(0, 1))
OF_ONE(expand, WITH(PH_SHAPE(5, 2, 3)))
OF_ONE(squeeze, WITH(PH_ALL_AXES))
OF_ONE(unsqueeze, WITH(0))
OF_ONE(detach, )
OF_ONE(clone, )
OF_ONE(contiguous, )
OF_ONE(cast, WITH(PH_DTYPE_F64))
OF_ONE(to_device, )
CHANGES(fill, WITH(1))
CHANGES(scale, WITH(2))
CHANGES(copy, WITH(in[1]))
CHANGES(add, WITH(in[1], 2))
CHANGES(uniform, WITH(0, 1))
CHANGES(normal, WITH(0, 1))
CHANGES(exponential, WITH(1))
CHANGES(log_normal, WITH(0, 1))
CHANGES(cauchy, WITH(0, 1))
CHANGES(geometric, WITH(0.5))
CHANGES(bernoulli, WITH(0.5))
CHANGES(bernoulli_of, WITH(in[1]))
CHANGES(random, WITH(0, 2))
OF_TWO(add, )
OF_TWO(sub, )
OF_TWO(mul, )
OF_TWO(div, )
OF_TWO(maximum, )
OF_TWO(minimum, )
OF_ONE(add_scalar, WITH(1))
OF_ONE(mul_scalar, WITH(2))
OF_ONE(pow_scalar, WITH(3))
OF_ONE(neg, )
OF_ONE(abs, )
OF_ONE(clamp, WITH(0, 1))
OF_TWO(eq, )
OF_TWO(ne, )
OF_TWO(lt, )
OF_TWO(le, )
OF_TWO(gt, )
OF_TWO(ge, )
OF_TWO(logical_and, )
OF_TWO(logical_or, )
OF_ONE(logical_not, )
OF_TWO(where, WITH(in[2]))
OF_TWO(masked_fill, WITH(0))
OF_ONE(exp, )
OF_ONE(log, )
OF_ONE(sqrt, )
OF_ONE(rsqrt, )
OF_ONE(square, )
OF_ONE(tanh, )
OF_ONE(sigmoid, )
OF_ONE(relu, )
OF_ONE(gelu, )
OF_ONE(gelu_tanh, )
OF_ONE(silu, )
OF_ONE(leaky_relu, WITH(0.1))
OF_TWO(matmul, )
OF_TWO(linear, WITH(in[2]))
OF_ONE(sum, )
OF_ONE(sum_over, WITH(PH_AXES(0), false))
OF_ONE(mean, )
OF_ONE(mean_over, WITH(PH_AXES(0), false))
OF_ONE(max, )
OF_ONE(max_over, WITH(PH_AXES(0), false))
OF_ONE(argmax, WITH(0, false))
OF_ONE(norm, WITH(2))
OF_ONE(norm_over, WITH(2, PH_AXES(0), false))
OF_ONE(softmax, WITH(0))
OF_ONE(log_softmax, WITH(0))
OF_TWO(layer_norm, WITH(in[2], 0))
OF_TWO(rms_norm, WITH(0))
OF_TWO(cross_entropy, )
OF_TWO(cross_entropy_with, WITH(&(ph_cross_entropy_options){.reduction = PH_REDUCTION_SUM}))
OF_TWO(mse, )
OF_TWO(embedding, )
OF_ONE(gather, WITH(0, in[1]))
OF_ONE(scatter, WITH(0, in[1], in[2]))
OF_ONE(scatter_add, WITH(0, in[1], in[2]))
OF_ONE(index_select, WITH(0, in[1]))
OF_TWO(attention, WITH(in[2], NULL))
OF_ONE(bernoulli, )
OF_TWO(normal_of, )
OF_ONE(poisson, )
OF_ONE(dropout, WITH(0.5))
OF_ONE(rrelu, WITH(0.1, 0.3))

static ph_tensor *call_concat(ph_tape *tape, ph_tensor *const *in)
{
    return ph_concat(tape, in, 2, 0);
}

static ph_tensor *call_stack(ph_tape *tape, ph_tensor *const *in)
{
    return ph_stack(tape, in, 2, 0);
}

static ph_tensor *call_split(ph_tape *tape, ph_tensor *const *in)
{
    ph_tensor *out[2] = {NULL, NULL};
    ph_split(tape, out, in[0], 0, (const int64_t[]){1, 1}, 2);
    assert_true(!out[0] == !out[1]);
    return out[0];
}

#define ROW(name, operands, takes, flags)                                                          \
    {                                                                                              \
#name, operands, call_##name, takes, flags                                                 \
    }
#define MAKES(name)   ROW(name, "f", FLOATS, 0)
#define COMPARE(name) ROW(name, "ff", ANYTHING, BROADCASTS | NO_GRADIENT)
static const row rows[] = {
    ROW(slice, "f", ANYTHING, 0),
    ROW(slice_step, "f", ANYTHING, 0),
    ROW(select, "f", ANYTHING, 0),
    ROW(transpose, "f", ANYTHING, 0),
    ROW(permute, "f", ANYTHING, 0),
    ROW(reshape, "f", ANYTHING, 0),
    ROW(flatten, "f", ANYTHING, 0),
    ROW(expand, "f", ANYTHING, 0),
    ROW(squeeze, "f", ANYTHING, 0),
    ROW(unsqueeze, "f", ANYTHING, 0),
    ROW(detach, "f", ANYTHING, NO_GRADIENT),
    ROW(clone, "f", ANYTHING, 0),
    ROW(contiguous, "f", ANYTHING, NO_GRADIENT), /* of one that is contiguous: that itself */
    ROW(cast, "f", ANYTHING, 0),
    ROW(to_device, "f", ANYTHING, FROM_AFAR),
    ROW(tensor_fill, "f", ANYTHING, IN_PLACE),
    ROW(tensor_scale, "f", NUMBERS, IN_PLACE),
    ROW(tensor_copy, "ff", ANYTHING, IN_PLACE | SINGLE | BROADCASTS | FROM_AFAR),
    ROW(tensor_add, "ff", NUMBERS, IN_PLACE | BROADCASTS),
    ROW(tensor_uniform, "f", FLOATS, IN_PLACE),
    ROW(tensor_normal, "f", FLOATS, IN_PLACE),
    ROW(tensor_exponential, "f", FLOATS, IN_PLACE),
    ROW(tensor_log_normal, "f", FLOATS, IN_PLACE),
    ROW(tensor_cauchy, "f", FLOATS, IN_PLACE),
    ROW(tensor_geometric, "f", FLOATS, IN_PLACE),
    ROW(tensor_bernoulli, "f", ANYTHING, IN_PLACE),
    ROW(tensor_bernoulli_of, "ff", FLOATS, IN_PLACE | SINGLE | BROADCASTS),
    ROW(tensor_random, "f", ANYTHING, IN_PLACE),
    ROW(add, "ff", NUMBERS, BROADCASTS),
    ROW(sub, "ff", NUMBERS, BROADCASTS),
    ROW(mul, "ff", NUMBERS, BROADCASTS),
    ROW(div, "ff", NUMBERS, BROADCASTS),
    ROW(maximum, "ff", NUMBERS, BROADCASTS),
    ROW(minimum, "ff", NUMBERS, BROADCASTS),
    ROW(add_scalar, "f", NUMBERS, 0),
    ROW(mul_scalar, "f", NUMBERS, 0),
    MAKES(pow_scalar),
    ROW(neg, "f", NUMBERS, 0),
    ROW(abs, "f", NUMBERS, 0),
    ROW(clamp, "f", NUMBERS, 0),
    COMPARE(eq),
    COMPARE(ne),
    COMPARE(lt),
    COMPARE(le),
    COMPARE(gt),
    COMPARE(ge),
    COMPARE(logical_and),
    COMPARE(logical_or),
    ROW(logical_not, "f", ANYTHING, NO_GRADIENT),
    ROW(where, "bff", LOGICAL, BROADCASTS),
    ROW(masked_fill, "fb", LOGICAL, BROADCASTS),
    MAKES(exp),
    MAKES(log),
    MAKES(sqrt),
    MAKES(rsqrt),
    MAKES(square),
    MAKES(tanh),
    MAKES(sigmoid),
    MAKES(relu),
    MAKES(gelu),
    MAKES(gelu_tanh),
    MAKES(silu),
    MAKES(leaky_relu),
    ROW(matmul, "fm", FLOATS, BROADCASTS),
    ROW(linear, "fwo", FLOATS, BROADCASTS | OPTIONAL),
    ROW(sum, "f", ANYTHING, 0),
    ROW(sum_over, "f", ANYTHING, 0),
    MAKES(mean),
    MAKES(mean_over),
    ROW(max, "f", ANYTHING, 0),
    ROW(max_over, "f", ANYTHING, 0),
    ROW(argmax, "f", ANYTHING, NO_GRADIENT),
    MAKES(norm),
    MAKES(norm_over),
    MAKES(softmax),
    MAKES(log_softmax),
    ROW(layer_norm, "fll", FLOATS, OPTIONAL),
    ROW(rms_norm, "fl", FLOATS, OPTIONAL),
    ROW(cross_entropy, "fj", FLOATS, 0),
    ROW(cross_entropy_with, "fj", FLOATS, 0),
    ROW(mse, "ff", FLOATS, BROADCASTS),
    ROW(embedding, "fi", ANYTHING, 0),
    ROW(gather, "fi", ANYTHING, 0),
    ROW(scatter, "fif", ANYTHING, 0),
    ROW(scatter_add, "fif", NUMBERS, 0),
    ROW(index_select, "fj", ANYTHING, 0),
    ROW(concat, "ff", ANYTHING, 0),
    ROW(stack, "ff", ANYTHING, 0),
    ROW(split, "f", ANYTHING, 0),
    ROW(attention, "qqq", FLOATS, 0),
    ROW(bernoulli, "f", FLOATS, NO_GRADIENT),
    ROW(normal_of, "ff", FLOATS, NO_GRADIENT | BROADCASTS | OPTIONAL),
    ROW(poisson, "f", FLOATS, NO_GRADIENT),
    MAKES(dropout),
    MAKES(rrelu),
};
enum {
    ROWS = sizeof rows / sizeof rows[0],
    MOST = 3
};

/* ---- operands ---- */
static const kind *kind_of(char letter)
{
    const kind *at = kinds;
    while (at->letter != letter)
        at++;
    return at;
}

static bool is_float_operand(char letter)
{
    return kind_of(letter)->dtype == PH_DTYPE_F32;
}

/* Those of the row; all the operands whose dtype is the row's to choose are of `dtype` (0: as
 * written). */
static size_t make_operands(ph_tensor **in, ph_tape *tape, const row *r, ph_dtype dtype)
{
    size_t count = strlen(r->operands);
    assert_true(count <= MOST);
    for (size_t i = 0; i < count; i++) {
        const kind *k = kind_of(r->operands[i]);
        bool chosen = r->takes == LOGICAL ? k->dtype == PH_DTYPE_BOOL : k->dtype == PH_DTYPE_F32;
        in[i] = ph_zeros(tape, chosen && dtype ? dtype : k->dtype, k->shape);
        assert_non_null(in[i]);
    }
    return count;
}

/* The call gives nothing, and the tape has failed so; then the tape is as new. */
static void refused(const t_scene *s, const row *r, ph_tensor *const *in, ph_status status,
                    const char *part)
{
    ph_tensor *y = r->call(s->tape, in);
    if (y || ph_tape_status(s->tape) != status || !strstr(ph_error_last()->message, part)) {
        print_error("%s: gave %s, and the tape %s (%s); expected %s, \"%s\"\n", r->name,
                    y ? "a tensor" : "NULL", ph_status_name(ph_tape_status(s->tape)),
                    ph_error_last()->message, ph_status_name(status), part);
        fail();
    }
    assert_status(ph_tape_clear(s->tape), status);
}

/* With operands that are right it works: what is refused below is refused for what is wrong with
 * it. */
TEST(operators_take_operands_that_are_right)
{
    t_scene s;
    t_scene_open(&s);
    for (const row *r = rows; r < rows + ROWS; r++) {
        ph_tensor *in[MOST];
        size_t count = make_operands(in, s.tape, r, 0);
        ph_tensor *y = r->call(s.tape, in);
        if (ph_tape_status(s.tape) != PH_OK || !y != ((r->flags & IN_PLACE) != 0))
            fail_msg("%s: %s", r->name, ph_error_last()->message);
        if (r->flags & OPTIONAL) {
            in[count - 1] = NULL;
            assert_non_null(r->call(s.tape, in));
        }
        assert_ok(ph_tape_clear(s.tape));
    }
    t_scene_close(&s);
}

/* Operands go with the tape's clear, so they are made anew for each call. */
TEST(test_no_tape)
{
    t_scene s;
    t_scene_open(&s);
    for (const row *r = rows; r < rows + ROWS; r++) {
        ph_tensor *in[MOST];
        make_operands(in, s.tape, r, 0);
        assert_status(ph_fail(PH_ERROR_CALLER, "another"), PH_ERROR_CALLER);
        assert_null(r->call(NULL, in));
        if (ph_error_last()->status != PH_ERROR_ARGUMENT ||
            !strstr(ph_error_last()->message, "tape is NULL"))
            fail_msg("%s without a tape: %s", r->name, ph_error_last()->message);
        assert_ok(ph_tape_clear(s.tape));
    }
    t_scene_close(&s);
}

TEST(test_failed_tape)
{
    t_scene s;
    t_scene_open(&s);
    for (const row *r = rows; r < rows + ROWS; r++) {
        ph_tensor *in[MOST];
        make_operands(in, s.tape, r, 0);
        uint64_t version = ph_tensor_version(in[0]);
        size_t before = t_info(&s).tensors;
        ph_tape_fail(s.tape, PH_ERROR_CALLER, "the first one");
        if (r->call(s.tape, in) || t_info(&s).tensors != before ||
            ph_tensor_version(in[0]) != version)
            fail_msg("%s did something on a failed tape", r->name);
        in[0] = NULL; /* is not looked at */
        assert_null(r->call(s.tape, in));
        assert_error(ph_tape_clear(s.tape), PH_ERROR_CALLER, "the first one");
    }
    t_scene_close(&s);
}

TEST(test_no_operand)
{
    t_scene s;
    t_scene_open(&s);
    for (const row *r = rows; r < rows + ROWS; r++) {
        size_t required = strlen(r->operands) - (r->flags & OPTIONAL ? 1 : 0);
        for (size_t i = 0; i < required; i++) {
            ph_tensor *in[MOST];
            char part[40];
            make_operands(in, s.tape, r, 0);
            in[i] = NULL;
            if (strcmp(r->name, "layer_norm") == 0 && i == 1) /* the weight may be missing too */
                continue;
            (void)snprintf(part, sizeof part, "operand %zu is NULL", i);
            refused(&s, r, in, PH_ERROR_ARGUMENT, part);
        }
    }
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(test_other_device)
{
    t_scene s, other;
    t_scene_open(&s);
    assert_ok(ph_device_open(&other.device, "host", NULL));
    assert_ok(ph_stream_create(&other.stream, other.device, NULL));
    assert_ok(ph_tape_create(&other.tape, other.stream, NULL));
    for (const row *r = rows; r < rows + ROWS; r++) {
        for (size_t i = 0; i < strlen(r->operands) && !(r->flags & FROM_AFAR); i++) {
            ph_tensor *in[MOST], *theirs[MOST];
            make_operands(in, s.tape, r, 0);
            make_operands(theirs, other.tape, r, 0);
            in[i] = theirs[i];
            refused(&s, r, in, PH_ERROR_WRONG_DEVICE, "another device");
            assert_ok(ph_tape_clear(other.tape));
        }
    }
    t_scene_close(&other);
    t_scene_close(&s);
}

/* Gradients would not find their way from one tape to another. Those that change an operand do
 * not take one with a history at all. */
TEST(test_other_history)
{
    t_scene s;
    ph_tape *second;
    t_scene_open(&s);
    assert_ok(ph_tape_create(&second, s.stream, NULL));
    for (const row *r = rows; r < rows + ROWS; r++) {
        for (size_t i = 0; i < strlen(r->operands); i++) {
            ph_tensor *in[MOST];
            if (!is_float_operand(r->operands[i]))
                continue;
            make_operands(in, s.tape, r, 0);
            ph_tensor *leaf = ph_zeros(second, PH_DTYPE_F32, kind_of(r->operands[i])->shape);
            assert_ok(ph_tensor_set_requires_grad(leaf, true));
            in[i] = ph_neg(second, leaf);
            if (r->flags & NO_GRADIENT && strcmp(r->name, "detach") == 0)
                assert_non_null(r->call(s.tape, in));
            else
                refused(&s, r, in, PH_ERROR_STATE, "another tape");
            assert_ok(ph_tape_clear(s.tape));
            assert_ok(ph_tape_clear(second));
        }
    }
    ph_tape_destroy(second);
    t_scene_close(&s);
}

/* The word of the name that messages have in any case: sum of sum_over, uniform of
 * tensor_uniform. */
static const char *word_of(char *out, size_t size, const row *r)
{
    static const char *const ends[] = {"_over", "_with"};
    (void)snprintf(out, size, "%s", strncmp(r->name, "tensor_", 7) == 0 ? r->name + 7 : r->name);
    for (size_t i = 0; i < 2; i++) {
        char *end = strstr(out, ends[i]);
        if (end)
            *end = '\0';
    }
    return out;
}

static bool is_taken(takes what, ph_dtype dtype)
{
    switch (what) {
    case NUMBERS:
        return dtype != PH_DTYPE_BOOL;
    case FLOATS:
        return ph_dtype_is_floating(dtype);
    case LOGICAL:
        return dtype == PH_DTYPE_BOOL;
    case ANYTHING:
        break;
    }
    return true;
}

TEST(operators_refuse_dtypes_that_they_do_not_take)
{
    t_scene s;
    t_scene_open(&s);
    for (const row *r = rows; r < rows + ROWS; r++) {
        for (ph_dtype dtype = PH_DTYPE_F32; dtype <= PH_DTYPE_BOOL; dtype++) {
            ph_tensor *in[MOST];
            char word[40];
            make_operands(in, s.tape, r, dtype);
            if (!is_taken(r->takes, dtype))
                refused(&s, r, in, PH_ERROR_ARGUMENT, word_of(word, sizeof word, r));
            else if (!r->call(s.tape, in) && ph_tape_status(s.tape) != PH_OK)
                fail_msg("%s of %s: %s", r->name, ph_dtype_name(dtype), ph_error_last()->message);
            assert_ok(ph_tape_clear(s.tape));
        }
    }
    t_scene_close(&s);
}

/* Nothing is promoted silently: one operand of f64 among those of f32. And an index of floats. */
TEST(operators_refuse_operands_of_mixed_dtypes)
{
    t_scene s;
    t_scene_open(&s);
    for (const row *r = rows; r < rows + ROWS; r++) {
        size_t count = strlen(r->operands), floats = 0;
        for (size_t i = 0; i < count; i++)
            floats += is_float_operand(r->operands[i]);
        for (size_t i = 0; i < count; i++) {
            ph_tensor *in[MOST];
            char word[40];
            bool fits = is_float_operand(r->operands[i]) && floats < 2;
            if (fits || r->flags & SINGLE || count == 1)
                continue;
            make_operands(in, s.tape, r, 0);
            in[i] = ph_zeros(s.tape, PH_DTYPE_F64, kind_of(r->operands[i])->shape);
            refused(&s, r, in, PH_ERROR_ARGUMENT, word_of(word, sizeof word, r));
        }
    }
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(operators_refuse_shapes_that_do_not_broadcast)
{
    t_scene s;
    t_scene_open(&s);
    for (const row *r = rows; r < rows + ROWS; r++) {
        for (size_t i = 0; i < 2 && r->flags & BROADCASTS; i++) {
            ph_tensor *in[MOST];
            char word[40];
            make_operands(in, s.tape, r, 0);
            if (strlen(r->operands) < 2)
                continue;
            in[i] = ph_zeros(s.tape, kind_of(r->operands[i])->dtype, PH_SHAPE(5, 7));
            refused(&s, r, in, PH_ERROR_ARGUMENT, word_of(word, sizeof word, r));
        }
        assert_ok(ph_tape_clear(s.tape));
    }
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_take_operands_that_are_right),
        cmocka_unit_test(test_no_tape),
        cmocka_unit_test(test_failed_tape),
        cmocka_unit_test(test_no_operand),
        cmocka_unit_test(test_other_device),
        cmocka_unit_test(test_other_history),
        cmocka_unit_test(operators_refuse_dtypes_that_they_do_not_take),
        cmocka_unit_test(operators_refuse_operands_of_mixed_dtypes),
        cmocka_unit_test(operators_refuse_shapes_that_do_not_broadcast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
