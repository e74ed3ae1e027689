/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_untyped.c: forward launches a kernel of whose parameters nobody told the types,
 * with a number or an address of other code's that is another one at each call: nothing is rebound,
 * and a warning says what replays keep. */
#include "support/graphed_nets.h"
#include "support/others.h"
#include "support/test.h"

enum {
    N = 256
};

typedef struct untyped {
    t_scene *s;
    ph__drv_kernel *kernel; /* as other code has one */
    const float *from[2];   /* in turn */
    bool counts;            /* its factor is the number of the call */
    int calls;
} untyped;

/* out = x + factor * from */
static void forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    untyped *u = self;
    out[0] = ph_mul_scalar(tape, in[0], 1);
    if (!out[0])
        return;
    struct t_axpy_f32 args = {.n = N,
                              .x = u->from[u->calls % 2],
                              .y = (float *)(uintptr_t)ph_tensor_data(out[0]),
                              .a = u->counts ? (float)u->calls : 1};
    u->calls++;
    t_others_launch(ph_tape_stream(tape), u->kernel, N, &args);
}

/* How many warnings say so. */
static size_t warned_of(t_scene *s, untyped *u, const char *what, ph_graphed_inputs inputs)
{
    ph_module *graphed, *plain = gn_function(s, "untyped", forward, u, 1, 1);
    ph_tensor *x = gn_sample(s, PH_SHAPE(N), false);
    t_log_start();
    assert_ok(ph_make_graphed_callables(&graphed, &plain, &(ph_sample){.tensors = &x, .count = 1},
                                        1, &(ph_graphed_options){.inputs = inputs}));
    size_t count = t_log_count(what);
    t_log_stop();
    assert_false(gn_input(graphed, 0, false).rebound);
    ph_module_release(graphed);
    ph_module_release(plain);
    ph_tensor_release(x);
    return count;
}

static void open_untyped(t_scene *s, untyped *u)
{
    t_scene_open(s);
    *u = (untyped){.s = s};
    u->kernel = t_others_kernel(s->device, T_KERNEL_AXPY_F32);
}

static void close_untyped(t_scene *s, untyped *u)
{
    assert_ok(ph_stream_synchronize(s->stream));
    s->device->driver->kernel_destroy(u->kernel);
    t_scene_close(s);
}

TEST(a_number_that_changes_is_said)
{
    t_scene s;
    untyped u;
    open_untyped(&s, &u);
    ph_tensor *weight = gn_sample(&s, PH_SHAPE(N), false);
    u.counts = true;
    u.from[0] = u.from[1] = ph_tensor_data(weight);
    assert_int_equal(warned_of(&s, &u, "differ in a number of the host", PH_GRAPHED_AUTO), 1);
    assert_int_equal(warned_of(&s, &u, "differ in a number of the host", PH_GRAPHED_COPY_INPUTS),
                     1);
    ph_tensor_release(weight);
    close_untyped(&s, &u);
}

TEST(memory_of_other_code_that_changes_is_said)
{
    t_scene s;
    untyped u;
    void *others[2];
    open_untyped(&s, &u);
    const ph__driver *driver = s.device->driver;
    for (int i = 0; i < 2; i++) {
        ph_tensor *x;
        assert_int_equal(driver->plain_alloc(&others[i], s.device->handle, N * sizeof(float)), 0);
        assert_ok(
            ph_tensor_wrap(&x, s.device, PH_DTYPE_F32, PH_SHAPE(N), NULL, others[i], NULL, NULL));
        ph_tensor_fill(s.tape, x, i + 1);
        assert_ok(ph_tape_clear(s.tape));
        ph_tensor_release(x);
        u.from[i] = others[i];
    }
    assert_int_equal(warned_of(&s, &u, "addresses in other code's memory", PH_GRAPHED_AUTO), 1);
    assert_int_equal(warned_of(&s, &u, "addresses in other code's memory", PH_GRAPHED_COPY_INPUTS),
                     1);
    assert_ok(ph_stream_synchronize(s.stream));
    for (int i = 0; i < 2; i++)
        driver->plain_free(s.device->handle, others[i]);
    close_untyped(&s, &u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_that_changes_is_said),
        cmocka_unit_test(memory_of_other_code_that_changes_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
