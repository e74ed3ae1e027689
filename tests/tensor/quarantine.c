/* SPDX-License-Identifier: MIT */
/* tests/tensor/quarantine.c: handles that are used after their last reference went, with a
 * quarantine: every public call that takes a tensor says what made it and who let go of it, and
 * touches nothing. */
#include "support/files.h"
#include "support/grads.h"
#include "support/test.h"
#include "tensor/core/released.h"
#include "tensor/core/tensor.h"
#include "tensor/quarantine_calls.h"
#include "tensor/tape/hooks.h"
#include "tensor/tape/tape.h"
#include <phonograph/grad_scaler.h>
#include <phonograph/graphed.h>
#include <phonograph/optimizer.h>
#include <stdio.h>

enum {
    ROOM = 64,
    HEADER = 1 << 16
};

typedef struct bench {
    t_scene s;
    ph_tape *t;
    ph_tensor *x; /* gone: made by mul, let go of by ph_tape_clear */
    ph_tensor *y; /* f32[2], retained */
    ph_tensor *i; /* i64[2], retained */
    ph_tensor *b; /* bool[2], retained */
} bench;

static const char made[] = "'mul' made it, and ph_tape_clear let go of it";
/* Without a quarantine: the last handles that were released are known, but not who made them. */
static const char unknown[] = "is gone: its last reference was released, or its tape was cleared";
static const char *expected = made;

static void open_tape(bench *b, size_t quarantine)
{
    ph_tape_destroy(b->s.tape);
    assert_ok(ph_tape_create(&b->t, b->s.stream, &(ph_tape_options){.quarantine = quarantine}));
    b->s.tape = b->t;
}

static ph_tensor *gone(bench *b)
{
    ph_tensor *x = ph_mul(b->t, b->y, b->y);
    assert_non_null(x);
    assert_ok(ph_tape_clear(b->t));
    return x;
}

static void bench_open(bench *b, size_t quarantine)
{
    t_scene_open(&b->s);
    open_tape(b, quarantine);
    b->y = t_leaf(&b->s, PH_SHAPE(2), 1, 2);
    b->i = ph_tensor_retain(ph_zeros(b->t, PH_DTYPE_I64, PH_SHAPE(2)));
    b->b = ph_tensor_retain(ph_zeros(b->t, PH_DTYPE_BOOL, PH_SHAPE(2)));
    assert_ok(ph_tape_clear(b->t));
    b->x = quarantine ? gone(b) : NULL;
}

/* x: of a quarantine, or of the handles that are kept anyhow. */
static void bench_open_either(bench *b, bool quarantine)
{
    expected = quarantine ? made : unknown;
    bench_open(b, quarantine ? ROOM : 0);
    if (quarantine)
        return;
    assert_ok(ph_tensor_create(&b->x, b->s.device, PH_DTYPE_F32, PH_SHAPE(2)));
    ph_tensor_release(b->x);
}

static void bench_close(bench *b)
{
    ph_tensor_release(b->y);
    ph_tensor_release(b->i);
    ph_tensor_release(b->b);
    t_scene_close(&b->s);
}

static ph_tensor *ph_ones2(bench *b)
{
    return ph_full(b->t, PH_DTYPE_F32, PH_SHAPE(2, 2), 1);
}

static void identity(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    (void)user;
    out[0] = ph_neg(tape, in[0]);
}

static ph_tensor *same(ph_tape *tape, ph_tensor *grad, void *user)
{
    (void)tape;
    (void)user;
    return grad;
}

static void custom_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    ph_tensor *saved = ph_custom_user(custom);
    if (saved)
        ph_custom_save(custom, &saved, 1);
    out[0] = ph_neg(tape, in[0]);
}

static void custom_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                            ph_tensor *const *grad_out, const bool *needed)
{
    (void)custom;
    (void)needed;
    grad_in[0] = ph_neg(tape, grad_out[0]);
}

static void expect_message(const char *name)
{
    const ph_error *error = ph_error_last();
    if (error->status != PH_ERROR_STATE || !strstr(error->message, expected))
        fail_msg("%s: %s: %s", name, ph_status_name(error->status), error->message);
}

static ph_module *neg_module(bench *b)
{
    ph_module *module;
    const ph_module_desc desc = {.name = "neg", .forward = identity};
    assert_ok(ph_module_create(&module, b->s.device, &desc));
    return module;
}

/* ---- the tests ---- */
static void try_tape_calls(bool quarantine)
{
    bench bench_, *b = &bench_;
    bench_open_either(b, quarantine);
    ph_tape *t = b->t;
    ph_tensor *x = b->x, *y = b->y, *out[2];
    ph_module *module = neg_module(b), *layer;
    ph_optimizer *optimizer;
    ph_grad_scaler *scaler;
    assert_ok(ph_linear_create(&layer, b->s.device, 2, 2));
    assert_ok(ph_sgd_create(&optimizer, layer, &(ph_sgd_options){.lr = 1}));
    assert_ok(ph_grad_scaler_create(&scaler, b->s.device, NULL));
    const ph_grad_options unused = {.allow_unused = true};
    const ph_custom_operator custom = {"own", custom_forward, custom_backward, NULL, NULL, {0}},
                             saving = {"saves", custom_forward, custom_backward, NULL, x, {0}};
#define TRY(name, call)                                                                            \
    assert_ok(ph_tape_status(t));                                                                  \
    (void)(call);                                                                                  \
    if (ph_tape_status(t) == PH_OK)                                                                \
        fail_msg("%s: the tape has not failed", #call);                                            \
    expect_message(#call);                                                                         \
    ph_ignore(ph_tape_clear(t));
    TAPE_CALLS(TRY)
#undef TRY
    ph_grad_scaler_destroy(scaler);
    ph_optimizer_destroy(optimizer);
    ph_module_release(layer);
    ph_module_release(module);
    bench_close(b);
}

TEST(test_tape_calls)
{
    try_tape_calls(true);
    if (PH__RECYCLES)
        try_tape_calls(false);
}

static void try_status_calls(bool quarantine)
{
    bench bench_, *b = &bench_;
    t_folder folder;
    t_folder_open(&folder);
    bench_open_either(b, quarantine);
    ph_tape *t = b->t;
    ph_tensor *x = b->x, *y = b->y;
    ph_module *module = neg_module(b), *fresh;
    char bytes[8], *text;
    double number;
    ph_tensor_hook *hook;
    ph_safetensors *file;
    struct DLManagedTensorVersioned *managed;
    struct DLManagedTensor *unversioned;
    const ph_parameter parameter = {"p", &x};
    const ph_module_desc desc = {
        .name = "m", .forward = identity, .parameters = &parameter, .parameter_count = 1};
    assert_ok(ph_safetensors_write(t, t_inside(&folder, "y.st"), &(ph_named_tensor){"y", y}, 1));
    assert_ok(ph_safetensors_open(&file, t_inside(&folder, "y.st")));
#define TRY(name, call)                                                                            \
    assert_int_equal((call), PH_ERROR_STATE);                                                      \
    expect_message(#call);                                                                         \
    ph_ignore(ph_tape_clear(t));
    STATUS_CALLS(TRY)
#undef TRY
    ph_safetensors_close(file);
    ph_module_release(module);
    bench_close(b);
    t_folder_close(&folder, (const char *const[]){"y.st"}, 1);
}

TEST(test_status_calls)
{
    try_status_calls(true);
    if (PH__RECYCLES)
        try_status_calls(false);
}

static void look_at_a_dead_tensor(bool quarantine)
{
    bench b;
    bench_open_either(&b, quarantine);
    ph_tensor *x = b.x;
#define TRY(name, is_as_null)                                                                      \
    ph_ignore(ph_fail(PH_ERROR_CALLER, "before"));                                                 \
    assert_true(is_as_null);                                                                       \
    expect_message(#name);                                                                         \
    assert_non_null(strstr(ph_error_last()->message, #name));
    LOOKS(TRY)
#undef TRY
    bench_close(&b);
}

TEST(questions_about_a_dead_tensor_answer_as_for_null)
{
    look_at_a_dead_tensor(true);
    if (PH__RECYCLES)
        look_at_a_dead_tensor(false);
}

/* ---- all calls ---- the headers are read: each function that takes a tensor is in a list above.
 */
#define NAME(name, call) #name,
static const char *const tried[] = {TAPE_CALLS(NAME) STATUS_CALLS(NAME) LOOKS(NAME)};

static bool is_tried(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++)
        if (strlen(tried[i]) == length && memcmp(tried[i], name, length) == 0)
            return true;
    return false;
}

/* "ph_tensor *" among the parameters, but not "ph_tensor **", which is where results go. */
static bool takes_a_tensor(const char *at, const char *end)
{
    static const char type[] = "ph_tensor *";
    for (; (at = strstr(at, type)) && at < end; at++)
        if (at[sizeof type - 1] != '*')
            return true;
    return false;
}

static size_t look_through(const char *text, const char *header)
{
    size_t found = 0;
    for (const char *at = text; (at = strstr(at, "\nPH_")); at++) {
        const char *open = strchr(at, '('), *end = strchr(at, ';'), *name = open;
        if (!open || !end || open > end ||
            (strncmp(at + 1, "PH_API ", 7) && strncmp(at + 1, "PH_CALL ", 8)))
            continue;
        while (name[-1] == '_' || (name[-1] >= 'a' && name[-1] <= 'z') ||
               (name[-1] >= '0' && name[-1] <= '9'))
            name--;
        if (!takes_a_tensor(open, end))
            continue;
        found++;
        if (!is_tried(name, (size_t)(open - name)))
            fail_msg("%s: %.*s takes a tensor, and is not tried here", header, (int)(open - name),
                     name);
    }
    return found;
}

TEST(test_every_call)
{
    static const char *const headers[] = {"tensor",    "tape",        "operators", "module",
                                          "optimizer", "random",      "dlpack",    "tensor_file",
                                          "graphed",   "grad_scaler", "clip_grad"};
    size_t found = 0;
    static char text[HEADER];
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s/include/phonograph/%s.h", PH_TEST_SOURCE_DIR,
                       headers[i]);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        size_t length = fread(text, 1, sizeof text - 1, file);
        assert_true(length < sizeof text - 1);
        text[length] = '\0';
        assert_int_equal(fclose(file), 0);
        found += look_through(text, headers[i]);
    }
    assert_true(found > 100);
}

/* ---- who made it, who let go of it ---- */
static void expect_gone(bench *b, ph_tensor *x, const char *words)
{
    assert_null(ph_relu(b->t, x));
    t_expect_failure(&b->s, PH_ERROR_STATE, words);
}

static void forward_gone(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    (void)in;
    (void)tape;
    out[0] = user;
}

TEST(a_dead_tensor_is_named_with_its_maker_and_end)
{
    bench b;
    bench_open(&b, ROOM);
    ph_tensor *x = ph_linear(b.t, ph_ones2(&b), ph_ones2(&b), b.y), *z;
    assert_ok(ph_tape_clear(b.t));
    expect_gone(&b, x, "relu: operand 0 (f32[2, 2]) is gone: '");
    size_t mark = ph_tape_scope_begin(b.t);
    x = ph_neg(b.t, b.y); /* which saves nothing */
    ph_tape_scope_end(b.t, mark, NULL, 0);
    expect_gone(&b, x, "'neg' made it, and ph_tape_scope_end let go of it");
    assert_ok(ph_tensor_create(&x, b.s.device, PH_DTYPE_F32, PH_SHAPE(3)));
    ph_tensor_release(x);
    expect_gone(
        &b, x, "(f32[3]) is gone: 'ph_tensor_create' made it, and its last reference was released");
    x = ph_tensor_retain(ph_sqrt(b.t, b.y)); /* held beyond the tape's clear */
    z = ph_slice(b.t, x, 0, 0, 1);
    assert_ok(ph_tape_clear(b.t));
    expect_gone(&b, z, "(f32[1]) is gone: 'slice' made it, and ph_tape_clear let go of it");
    assert_non_null(ph_relu(b.t, x));
    ph_tensor_release(x);
    expect_gone(&b, x, "'sqrt' made it, and its last reference was released");
    x = ph_exp(b.t, b.y);
    ph_tensor_release(x); /* the tape's reference, which is not the caller's */
    assert_error(ph_tape_clear(b.t), PH_ERROR_STATE, "released too often");
    ph_module *module;
    const ph_module_desc desc = {.name = "late", .forward = forward_gone, .self = b.x};
    assert_ok(ph_module_create(&module, b.s.device, &desc));
    assert_null(ph_call(b.t, module, b.y));
    t_expect_failure(&b.s, PH_ERROR_STATE,
                     "late: an output of forward (f32[2]) is gone: 'mul' made it");
    ph_module_release(module);
    x = ph_exp(b.t, b.y);
    open_tape(&b, 0);
    expect_gone(&b, x, "'exp' made it, and ph_tape_destroy let go of it");
    bench_close(&b);
}

/* Memory goes at once; handles stay, as many as there is room for. */
TEST(the_quarantine_keeps_handles_up_to_its_bound)
{
    bench b;
    bench_open(&b, 4);
    size_t before = t_allocated(&b.s);
    (void)gone(&b);
    for (int i = 0; i < 8; i++)
        (void)gone(&b);
    int64_t live = ph__alloc_live();
    for (int i = 0; i < 100; i++)
        expect_gone(&b, gone(&b), made);
    assert_int_equal(ph__alloc_live(), live);
    assert_int_equal(t_allocated(&b.s), before);
    open_tape(&b, 2); /* never less */
    ph_tensor *x[4];
    for (int i = 0; i < 4; i++)
        x[i] = gone(&b);
    open_tape(&b, 6);
    ph_tensor *more[2] = {gone(&b), gone(&b)};
    for (int i = 0; i < 4; i++)
        expect_gone(&b, x[i], made);
    for (int i = 0; i < 2; i++)
        expect_gone(&b, more[i], made);
    bench_close(&b);
}

TEST(the_environment_variable_turns_the_quarantine_on)
{
    bench b;
    assert_int_equal(setenv("PH_QUARANTINE", "16", 1), 0);
    bench_open(&b, 0);
    expect_gone(&b, gone(&b), made);
    bench_close(&b);
    assert_int_equal(unsetenv("PH_QUARANTINE"), 0);
    bench_open(&b, 0);
    ph_tensor *kept = ph_tensor_retain(ph_exp(b.t, b.y));
    assert_ok(ph_tape_clear(b.t));
    t_expect_values(b.t, ph_log(b.t, kept), PH_SHAPE(2), 1, 2);
    ph_tensor_release(kept);
    ph_tape *tape;
    assert_error(ph_tape_create(&tape, b.s.stream, &(ph_tape_options){.quarantine = SIZE_MAX}),
                 PH_ERROR_HOST_MEMORY, "ph_tape_create");
    assert_null(tape);
    bench_close(&b);
}

TEST(a_quarantine_that_is_no_number_is_refused)
{
    static const char *const values[] = {"abc", "-1", "16 ", "99999999999999999999999"};
    bench b;
    ph_tape *tape;
    bench_open(&b, 0);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        assert_int_equal(setenv("PH_QUARANTINE", values[i], 1), 0);
        assert_error(ph_tape_create(&tape, b.s.stream, NULL), PH_ERROR_ARGUMENT,
                     "ph_tape_create: PH_QUARANTINE is '");
        assert_null(tape);
    }
    assert_int_equal(unsetenv("PH_QUARANTINE"), 0);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tape_calls),
        cmocka_unit_test(test_status_calls),
        cmocka_unit_test(questions_about_a_dead_tensor_answer_as_for_null),
        cmocka_unit_test(test_every_call),
        cmocka_unit_test(a_dead_tensor_is_named_with_its_maker_and_end),
        cmocka_unit_test(the_quarantine_keeps_handles_up_to_its_bound),
        cmocka_unit_test(the_environment_variable_turns_the_quarantine_on),
        cmocka_unit_test(a_quarantine_that_is_no_number_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
