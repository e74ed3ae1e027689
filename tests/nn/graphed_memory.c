/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_memory.c: graphed callables when something fails, at every place: host
 * memory, calls of the driver, memory of the device. A failure leaves a failed make or a failed
 * tape, what there was before, and no more than that. And guard zones around all that they
 * write. */
#include "driver/driver.h"
#include "support/graphed_nets.h"
#include "support/sweep.h"
#include "support/test.h"
#include "tensor/core/guard.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"

/* ---- what is tried ---- */
typedef struct bench {
    t_scene s;
    t_scale scale[2];
    ph_module *plain[2], *graphed[2];
    ph_tensor *x;
    ph_graphed_options options; /* with a stream: none is made each time */
} bench;

static ph_status make(bench *b)
{
    const ph_sample samples[2] = {{.tensors = &b->x, .count = 1}, {.tensors = &b->x, .count = 1}};
    memset(b->graphed, 0xAB, sizeof b->graphed);
    ph_status status = ph_make_graphed_callables(b->graphed, b->plain, samples, 2, &b->options);
    for (int i = 0; i < 2; i++)
        if ((status == PH_OK) != (b->graphed[i] != NULL))
            fail_msg("module %d is there, or not, and the status is %s", i, ph_status_name(status));
    return status;
}

static void drop(bench *b)
{
    for (int i = 0; i < 2; i++) {
        ph_module_release(b->graphed[i]);
        b->graphed[i] = NULL;
    }
}

static ph_status step(bench *b)
{
    ph_tape *tape = b->s.tape;
    ph_tensor *y = ph_call(tape, b->graphed[1], ph_call(tape, b->graphed[0], b->x));
    ph_backward(tape, ph_sum(tape, y));
    return ph_tape_clear(tape);
}

static void zero(bench *b)
{
    t_zero_grad(b->scale[0].weight);
    t_zero_grad(b->scale[1].weight);
    t_zero_grad(b->x);
}

static void expect_right(bench *b)
{
    zero(b);
    assert_ok(step(b));
    t_expect_grad(&b->s, b->x, 15, 60);
    t_expect_grad(&b->s, b->scale[0].weight, 5, 20);
    t_expect_grad(&b->s, b->scale[1].weight, 3, 12);
    zero(b);
}

static void bench_open(bench *b, ph_graphed_gradients gradients)
{
    *b = (bench){.options = {.gradients = gradients}};
    t_scene_open(&b->s);
    assert_ok(ph_stream_create(&b->options.stream, b->s.device, NULL));
    b->plain[0] = t_scale_open(&b->s, &b->scale[0], 3);
    b->plain[1] = t_scale_open(&b->s, &b->scale[1], 5);
    b->x = t_leaf(&b->s, PH_SHAPE(2), 1, 2);
}

static void bench_close(bench *b)
{
    ph_tensor_release(b->x);
    ph_module_release(b->plain[0]);
    ph_module_release(b->plain[1]);
    ph_stream_destroy(b->options.stream);
    t_scene_close(&b->s);
}

typedef struct amounts {
    int64_t host;
    size_t device, pinned;
} amounts;

static amounts held(const bench *b)
{
    ph_memory_stats stats;
    assert_ok(ph_device_synchronize(b->s.device));
    assert_ok(ph_memory_get_stats(&stats, b->s.device));
    return (amounts){ph__alloc_live(), stats.allocated, stats.pinned};
}

/* Queues of the host device keep some of what they have used, the more the deeper they were: one
 * leak each time is more than that soon. */
enum {
    SLACK = 24
};

static void expect_held(const bench *b, amounts want, const char *what, int64_t n)
{
    const amounts got = held(b);
    if (got.device != want.device || got.pinned != want.pinned || got.host > want.host + SLACK)
        fail_msg(
            "%s %lld: left behind %lld host allocations, %lld bytes on the device, %lld pinned",
            what, (long long)n, (long long)(got.host - want.host),
            (long long)(got.device - want.device), (long long)(got.pinned - want.pinned));
}

static void expect_failure(const t_fault *f, ph_status status, int64_t n)
{
    if (!f->expects(status) || ph_error_last()->status != status || !ph_error_last()->message[0])
        fail_msg("%s %lld: gave %s: %s", f->what, (long long)n, ph_status_name(status),
                 ph_error_last()->message);
}

/* In the short tier some places are passed over, others in each sweep. */
static int64_t stride(int64_t n, int64_t offset)
{
    return t_nightly() || n < 40 ? 1 : 7 + offset;
}

/* ---- making ---- */
static int64_t sweep_make(const t_fault *f, ph_graphed_gradients gradients)
{
    bench b;
    bench_open(&b, gradients);
    int64_t n = 0, failures = 0;
    for (int i = 0; i < 2; i++) { /* what is made once for a device is there */
        assert_ok(make(&b));
        expect_right(&b);
        drop(&b);
    }
    const amounts start = held(&b);
    for (bool hit = true; hit; n += stride(n, gradients)) {
        f->arm(n);
        ph_status status = make(&b);
        hit = f->disarm();
        assert_true(hit || status == PH_OK);
        if (status != PH_OK) {
            failures++;
            expect_failure(f, status, n);
        } else {
            expect_right(&b);
        }
        drop(&b);
        assert_ok(ph_tape_status(b.s.tape));
        expect_held(&b, start, f->what, n);
    }
    assert_ok(make(&b));
    expect_right(&b);
    drop(&b);
    bench_close(&b);
    return failures;
}

TEST(test_make_memory)
{
    assert_true(sweep_make(&t_host_memory_fault, PH_GRAPHED_COPY) > 50);
}

TEST(test_make_driver)
{
    static const int answers[] = {PH__R_OUT_OF_MEMORY, PH__R_LAUNCH_FAILED,
                                  PH__R_CAPTURE_UNSUPPORTED};
    for (int i = 0; i < 3; i++) {
        assert_true(sweep_make(t_driver_fault(answers[i]), (ph_graphed_gradients)i) > 10);
    }
}

/* ---- calls and backward ---- */
static void sweep_step(const t_fault *f, ph_graphed_gradients gradients)
{
    bench b;
    bench_open(&b, gradients);
    /* so that what leaks once in a round is more than the slack */
    int64_t n = 0, failures = 0, rounds = 5;
    assert_ok(make(&b));
    for (int i = 0; i < 3; i++)
        expect_right(&b);
    const amounts start = held(&b);
    for (bool hit = true; hit || --rounds > 0; n = hit ? n + 1 : 0) {
        f->arm(n);
        ph_status status = step(&b);
        hit = f->disarm();
        assert_true(hit || status == PH_OK);
        if (status != PH_OK) {
            failures++;
            expect_failure(f, status, n);
        }
        assert_ok(ph_tape_status(b.s.tape));
        zero(&b);
        expect_held(&b, start, f->what, n);
        expect_right(&b);
    }
    assert_true(failures > SLACK);
    drop(&b);
    bench_close(&b);
}

TEST(test_step_memory)
{
    for (int i = PH_GRAPHED_COPY; i <= PH_GRAPHED_BORROW; i++)
        sweep_step(&t_host_memory_fault, (ph_graphed_gradients)i);
}

TEST(test_step_driver)
{
    static const int answers[] = {PH__R_OUT_OF_MEMORY, PH__R_LAUNCH_FAILED};
    for (int k = 0; k < 2; k++)
        for (int i = PH_GRAPHED_COPY; i <= PH_GRAPHED_BORROW; i++) {
            sweep_step(t_driver_fault(answers[k]), (ph_graphed_gradients)i);
        }
}

/* ---- little memory on the device ---- */
TEST(without_device_memory_nothing_is_made_and_nothing_leaks)
{
    bool made = false;
    int failures = 0;
    for (size_t megabytes = 2; !made; megabytes += 2) {
        t_scene s;
        ph_tensor *x = NULL;
        ph_module *plain, *graphed = NULL;
        assert_true(megabytes < 400);
        assert_ok(t_open_small(&s.device, megabytes << 20));
        assert_ok(ph_stream_create(&s.stream, s.device, NULL));
        assert_ok(ph_tape_create(&s.tape, s.stream, NULL));
        assert_ok(ph_activation_create(&plain, s.device, "gelu", ph_gelu));
        ph_status status = ph_tensor_create(&x, s.device, PH_DTYPE_F32, PH_SHAPE(1024, 1024));
        if (status == PH_OK) {
            const ph_sample sample = {.tensors = &x, .count = 1};
            assert_ok(ph_tensor_set_requires_grad(x, true));
            status = ph_make_graphed_callables(&graphed, &plain, &sample, 1, NULL);
        }
        made = status == PH_OK;
        failures += !made;
        assert_true(made || status == t_shortage());
        assert_int_equal(made, graphed != NULL);
        ph_module_release(graphed);
        ph_module_release(plain);
        ph_tensor_release(x);
        t_scene_close(&s);
    }
    assert_true(failures > 1);
}

/* ---- outputs that are copied ---- A second one is not there when the first cannot be copied. */
static void pass_twice(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)tape;
    (void)self;
    out[0] = out[1] = in[0];
}

TEST(test_copied_outputs)
{
    t_scene s;
    ph_memory_stats before, after;
    ph_status status = PH_ERROR_HOST_MEMORY;
    t_scene_open(&s);
    ph_module *plain = gn_function(&s, "twice", pass_twice, NULL, 1, 2), *graphed;
    ph_tensor *x = gn_sample(&s, PH_SHAPE(4), true);
    const ph_sample sample = {.tensors = &x, .count = 1};
    ph_module_release(gn_graph_one(plain, x, NULL));
    assert_ok(ph_memory_get_stats(&before, s.device));
    t_log_start();
    for (int64_t n = 0; status != PH_OK; n++) {
        ph__alloc_fail_after(n);
        status = ph_make_graphed_callables(&graphed, &plain, &sample, 1, NULL);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        ph_module_release(graphed);
        assert_ok(ph_device_synchronize(s.device));
        assert_ok(ph_memory_get_stats(&after, s.device));
        assert_int_equal(after.allocated, before.allocated);
        assert_int_equal(t_log_count("is no live allocation"), 0);
    }
    t_log_stop();
    ph_tensor_release(x);
    ph_module_release(plain);
    t_scene_close(&s);
}

/* ---- guard zones ---- and poison in all that is new: nothing outside is written, and nothing
 * is read before it is written. */
static void guarded(gn_kind kind, const ph_graphed_options *options)
{
    t_scene s;
    t_scene_open(&s);
    ph__storage_debug(true);
    ph_module *plain = gn_net(&s, kind, 3), *source = gn_net(&s, kind, 3);
    ph_module_train(plain, kind != GN_DROPOUT && kind != GN_BLOCK); /* no draws */
    ph_module_train(source, ph_module_is_training(plain));
    ph_tensor *x = gn_sample(&s, gn_shape(kind), true);
    ph_module *graphed = gn_graph_one(source, x, options);
    ph_optimizer *a = gn_sgd(plain), *b = gn_sgd(graphed);
    for (uint64_t i = 0; i < 3; i++) {
        gn_train_step(&s, plain, a, gn_shape(kind), i);
        gn_train_step(&s, graphed, b, gn_shape(kind), i);
        gn_expect_same_parameters(&s, graphed, plain, gn_name(kind));
        if (!ph__storage_debug_check(s.device))
            fail_msg("%s: %s", gn_name(kind), ph_error_last()->message);
    }
    ph_optimizer_destroy(a);
    ph_optimizer_destroy(b);
    ph_tensor_release(x);
    ph_module_release(plain);
    ph_module_release(source);
    ph_module_release(graphed);
    assert_ok(ph_tape_clear(s.tape));
    ph__storage_debug(false);
    assert_true(ph__storage_debug_check(s.device));
    t_scene_close(&s);
}

TEST(no_callable_writes_beside_its_tensors)
{
    for (int kind = 0; kind < GN_KINDS; kind++)
        for (int i = PH_GRAPHED_COPY; i <= PH_GRAPHED_BORROW; i++)
            guarded((gn_kind)kind, &(ph_graphed_options){.gradients = (ph_graphed_gradients)i,
                                                         .inputs = (ph_graphed_inputs)(i % 2)});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_make_memory),
        cmocka_unit_test(test_make_driver),
        cmocka_unit_test(test_step_memory),
        cmocka_unit_test(test_step_driver),
        cmocka_unit_test(without_device_memory_nothing_is_made_and_nothing_leaks),
        cmocka_unit_test(test_copied_outputs),
        cmocka_unit_test(no_callable_writes_beside_its_tensors),
    };
    /* Memory whose free was made to fail is still there at the end. */
    (void)setenv("FAKE_CUDA_LENIENT", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
