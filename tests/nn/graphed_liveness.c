/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_liveness.c: graphed callables that check the memory which their graphs
 * address: what is gone refuses calls, and nothing of the callables' own does. */
#include "device/handles/device.h"
#include "driver/driver.h"
#include "support/graphed_nets.h"
#include "support/test.h"

enum {
    N = 1024,
    BYTES = N * sizeof(float)
};

/* y = x + what lies in memory that other code allocated; backward reads it, too: dx = dy + that. */
typedef struct table {
    float *at;
    ph_module *plain, *graphed;
} table;

static ph_tensor *copy_of(ph_tape *tape, const table *t)
{
    ph_tensor *x = ph_empty(tape, PH_DTYPE_F32, PH_SHAPE(N));
    if (x)
        ph_tape_check(tape, ph_memcpy(ph_tensor_data(x), t->at, BYTES, ph_tape_stream(tape)));
    return x;
}

static void add_table(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    out[0] = ph_add(tape, in[0], copy_of(tape, ph_custom_user(custom)));
}

static void add_table_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                               ph_tensor *const *grad_out, const bool *needed)
{
    if (needed[0])
        grad_in[0] = ph_add(tape, grad_out[0], copy_of(tape, ph_custom_user(custom)));
}

static void table_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const ph_custom_operator op = {
        .name = "table", .forward = add_table, .backward = add_table_backward, .user = self};
    ph_custom_call(tape, &op, out, 1, in, 1);
}

static void table_open(const t_scene *s, table *t, const ph_graphed_options *options)
{
    void *at;
    assert_int_equal(s->device->driver->plain_alloc(&at, s->device->handle, BYTES), 0);
    t->at = at;
    assert_ok(ph_memset(at, 0, BYTES, s->stream));
    assert_ok(ph_stream_synchronize(s->stream));
    t->plain = gn_function(s, "table", table_forward, t, 1, 1);
    ph_tensor *x = gn_sample(s, PH_SHAPE(N), true);
    t->graphed = gn_graph_one(t->plain, x, options);
    ph_tensor_release(x);
}

static void table_free(const t_scene *s, table *t)
{
    if (t->at)
        assert_int_equal(s->device->driver->plain_free(s->device->handle, t->at), 0);
    t->at = NULL;
}

static void table_close(const t_scene *s, table *t)
{
    ph_module_release(t->graphed);
    ph_module_release(t->plain);
    assert_ok(ph_stream_synchronize(s->stream));
    table_free(s, t);
}

static ph_tensor *ones(const t_scene *s)
{
    return ph_full(s->tape, PH_DTYPE_F32, PH_SHAPE(N), 1);
}

static const ph_graphed_options checked = {.check_input_liveness = true, .check_foreign_every = 1};

TEST(test_forward_refused)
{
    t_scene s;
    table t;
    t_scene_open(&s);
    table_open(&s, &t, &checked);
    for (int call = 0; call < 3; call++) {
        (void)ph_call(s.tape, t.graphed, ones(&s));
        assert_ok(ph_tape_clear(s.tape));
    }
    assert_ok(ph_stream_synchronize(s.stream));
    table_free(&s, &t);
    for (int call = 0; call < 2; call++) {
        assert_null(ph_call(s.tape, t.graphed, ones(&s)));
        assert_status(ph_tape_clear(s.tape), PH_ERROR_STALE_INPUT);
        assert_non_null(strstr(ph_error_last()->message, "of other code's, freed"));
    }
    table_close(&s, &t);
    t_scene_close(&s);
}

TEST(test_backward_refused)
{
    t_scene s;
    table t;
    ph_tensor *dx = NULL;
    t_scene_open(&s);
    table_open(&s, &t, &checked);
    ph_tensor *x = ones(&s), *dy = ones(&s);
    assert_ok(ph_tensor_set_requires_grad(x, true));
    ph_tensor *y = ph_call(s.tape, t.graphed, x);
    assert_ok(ph_tape_status(s.tape));
    assert_ok(ph_stream_synchronize(s.stream));
    table_free(&s, &t);
    ph_grad(s.tape, &dx, &x, 1, &y, &dy, 1, NULL);
    assert_null(dx);
    assert_status(ph_tape_clear(s.tape), PH_ERROR_STALE_INPUT);
    assert_non_null(strstr(ph_error_last()->message, "backward of the graphed callable 'table'"));
    table_close(&s, &t);
    t_scene_close(&s);
}

/* What stood for inputs and gradients in the captures is gone, and is no input of any call's,
 * set or not. */
TEST(test_own_memory)
{
    for (int gradients = PH_GRAPHED_COPY; gradients <= PH_GRAPHED_BORROW; gradients++)
        for (int inputs = PH_GRAPHED_AUTO; inputs <= PH_GRAPHED_REBIND; inputs++) {
            ph_graphed_options options = checked;
            t_scene s;
            t_scene_open(&s);
            options.gradients = (ph_graphed_gradients)gradients;
            options.inputs = (ph_graphed_inputs)inputs;
            ph_module *plain = gn_net(&s, GN_MLP, 1);
            ph_tensor *sample = gn_sample(&s, gn_shape(GN_MLP), true);
            ph_module *graphed = gn_graph_one(plain, sample, &options);
            ph_tensor_release(sample);
            for (int step = 0; step < 4; step++) {
                ph_tensor *x = gn_random(&s, gn_shape(GN_MLP), (uint64_t)step + 5);
                assert_ok(ph_tensor_set_requires_grad(x, step % 2 == 1));
                ph_module_zero_grad(plain);
                ph_backward(s.tape, ph_sum(s.tape, ph_call(s.tape, graphed, x)));
                assert_ok(ph_tape_clear(s.tape));
            }
            ph_module_release(graphed);
            ph_module_release(plain);
            t_scene_close(&s);
        }
}

/* A custom operator that is given what it does not read: forward keeps x, and backward hands on
 * dy. */
static void keep(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    out[0] = ph_mul_scalar(tape, in[0], 2);
    ph_custom_save(custom, in, 1);
}

static void hand_on(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                    ph_tensor *const *grad_out, const bool *needed)
{
    (void)custom;
    if (needed[0])
        grad_in[0] = ph_mul_scalar(tape, grad_out[0], 5);
}

static void kept_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const ph_custom_operator op = {.name = "kept", .forward = keep, .backward = hand_on};
    (void)self;
    ph_custom_call(tape, &op, out, 1, in, 1);
    out[1] = ph_mul_scalar(tape, in[0], 7);
}

static void expect_gradient(const t_scene *s, ph_module *graphed, unsigned used, float want)
{
    void *other;
    float dx[N];
    ph_tensor *out[2], *x = ones(s), *loss = NULL;
    assert_ok(ph_tensor_set_requires_grad(x, true));
    ph_call_n(s->tape, graphed, out, 2, &x, 1);
    for (int i = 0; i < 2; i++)
        if (used & 1u << i) {
            ph_tensor *one = ph_sum(s->tape, out[i]);
            loss = loss ? ph_add(s->tape, loss, one) : one;
        }
    ph_backward(s->tape, loss);
    assert_ok(ph_tape_status(s->tape));
    assert_ok(ph_tensor_read(s->tape, ph_tensor_grad(x), dx, sizeof dx));
    assert_true(dx[0] == want && dx[N - 1] == want);
    assert_ok(ph_tape_clear(s->tape));
    assert_ok(ph_malloc(&other, 64 * BYTES, 1, s->stream)); /* where stand-ins may have been */
    ph_free(other, s->stream);
}

TEST(test_kept_and_not_read)
{
    for (int inputs = PH_GRAPHED_AUTO; inputs <= PH_GRAPHED_REBIND; inputs++) {
        ph_graphed_options options = checked;
        t_scene s;
        t_scene_open(&s);
        options.inputs = (ph_graphed_inputs)inputs;
        ph_module *plain = gn_function(&s, "kept", kept_forward, NULL, 1, 2);
        ph_tensor *sample = gn_sample(&s, PH_SHAPE(N), true);
        ph_module *graphed = gn_graph_one(plain, sample, &options);
        ph_tensor_release(sample);
        for (int round = 0; round < 3; round++) {
            expect_gradient(&s, graphed, 3, 12); /* backward of all outputs */
            expect_gradient(&s, graphed, 1, 5);  /* of this one alone */
            expect_gradient(&s, graphed, 2, 7);
        }
        ph_module_release(graphed);
        ph_module_release(plain);
        t_scene_close(&s);
    }
}

TEST(misuse_is_refused)
{
    const ph_graphed_options options = {.check_foreign_every = 1};
    t_scene s;
    t_scene_open(&s);
    ph_module *plain = gn_net(&s, GN_MLP, 1), *graphed;
    ph_tensor *sample = gn_sample(&s, gn_shape(GN_MLP), true);
    assert_error(ph_make_graphed_callables(
                     &graphed, &plain, &(ph_sample){.tensors = &sample, .count = 1}, 1, &options),
                 PH_ERROR_ARGUMENT, "check_foreign_every");
    ph_tensor_release(sample);
    ph_module_release(plain);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward_refused), cmocka_unit_test(test_backward_refused),
        cmocka_unit_test(test_own_memory),      cmocka_unit_test(test_kept_and_not_read),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
