/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_pool.c: tensors of the program's in the callables' own pool, where replays
 * write over them: it is said, once for each callable and by name; programs that are right hear
 * nothing. */
#include "support/graphed_nets.h"
#include "support/test.h"

enum {
    N = 1 << 16,
    MANY = 8
};
typedef struct bench {
    t_scene s;
    ph_pool *pool;
    ph_module *plain[2], *graphed[2];
} bench;

/* y = (2 x + 1) 2 x + x: many temporaries. */
static void poly_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    ph_tensor *a = ph_mul_scalar(tape, in[0], 2), *b = ph_add_scalar(tape, a, 1);
    out[0] = ph_add(tape, ph_mul(tape, b, a), in[0]);
}

/* The same, with more memory than any other has here. */
static void wide_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    for (int i = 0; i < MANY; i++)
        (void)ph_mul_scalar(tape, in[0], i);
    poly_forward(tape, out, in, self);
}

static float poly(float x)
{
    return (2 * x + 1) * 2 * x + x;
}

/* y = x * x: backward reads x again. */
static void square_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = ph_mul(tape, in[0], in[0]);
}

/* "first" and "second", in one pool. */
static void bench_open(bench *b, ph_forward_fn first, bool gradients)
{
    t_scene_open(&b->s);
    assert_ok(ph_pool_create(&b->pool, b->s.device, NULL));
    b->plain[0] = gn_function(&b->s, "first", first, NULL, 1, 1);
    b->plain[1] = gn_function(&b->s, "second", wide_forward, NULL, 1, 1);
    ph_tensor *x = gn_sample(&b->s, PH_SHAPE(N), gradients);
    const ph_sample samples[] = {{.tensors = &x, .count = 1}, {.tensors = &x, .count = 1}};
    assert_ok(
        ph_make_graphed_callables(b->graphed, b->plain, samples, 2,
                                  &(ph_graphed_options){.pool = b->pool, .stream = b->s.stream}));
    ph_tensor_release(x);
    t_log_start();
}

static void bench_close(bench *b, size_t said)
{
    assert_int_equal(t_log_count("lies in the callables' own pool"), said);
    t_log_stop();
    for (int i = 0; i < 2; i++) {
        ph_module_release(b->graphed[i]);
        ph_module_release(b->plain[i]);
    }
    ph_pool_release(b->pool);
    t_scene_close(&b->s);
}

static bool is_all(const bench *b, ph_tensor *x, float want)
{
    static float got[N];
    assert_ok(ph_tape_status(b->s.tape));
    assert_ok(ph_tensor_read(b->s.tape, x, got, sizeof got));
    for (int i = 0; i < N; i++)
        if (got[i] != want)
            return false;
    return true;
}

static ph_tensor *full(const bench *b, float value)
{
    return ph_full(b->s.tape, PH_DTYPE_F32, PH_SHAPE(N), value);
}

/* ---- what is wrong ---- */
TEST(test_inputs_overwritten)
{
    bench b;
    size_t wrong = 0;
    bench_open(&b, poly_forward, false);
    for (int round = 0; round < 3; round++) {
        ph_tensor *x[MANY];
        assert_ok(ph_pool_begin(b.pool));
        for (int i = 0; i < MANY; i++)
            x[i] = full(&b, (float)(i + 1));
        for (int i = 0; i < MANY; i++) {
            bool right = is_all(&b, ph_call(b.s.tape, b.graphed[0], x[i]), poly((float)(i + 1)));
            wrong += !right;
            if (!right)
                assert_int_equal(
                    t_log_count("graphed callable 'first': input [0] (f32[65536]) lies in"), 1);
        }
        assert_ok(ph_pool_end(b.pool));
        assert_ok(ph_tape_clear(b.s.tape));
    }
    assert_true(wrong > 0);
    assert_int_equal(t_log_count("where call "), 1);
    assert_int_equal(t_log_count(" of 'first' may have written over it"), 1);
    bench_close(&b, 1);
}

/* By the other callable. */
TEST(test_input_overwritten_by_another)
{
    bench b;
    ph_tensor *x[MANY];
    bench_open(&b, square_forward, false);
    assert_ok(ph_pool_begin(b.pool));
    for (int i = 0; i < MANY; i++)
        x[i] = full(&b, (float)(i + 1));
    assert_ok(ph_pool_end(b.pool));
    (void)ph_call(b.s.tape, b.graphed[1], full(&b, 9));
    size_t wrong = 0;
    for (int i = 0; i < MANY; i++)
        wrong += !is_all(&b, ph_call(b.s.tape, b.graphed[0], x[i]), (float)((i + 1) * (i + 1)));
    assert_true(wrong > 0);
    assert_int_equal(t_log_count("'first': input [0]"), 1);
    assert_ok(ph_tape_clear(b.s.tape));
    bench_close(&b, 1);
}

TEST(test_gradient_overwritten)
{
    bench b;
    ph_tensor *seeds[MANY], *dx = NULL;
    bench_open(&b, poly_forward, true);
    assert_ok(ph_pool_begin(b.pool));
    for (int i = 0; i < MANY; i++)
        seeds[i] = full(&b, 1);
    assert_ok(ph_pool_end(b.pool));
    for (int i = 0; i < MANY; i++) {
        ph_tensor *x = full(&b, 1);
        assert_ok(ph_tensor_set_requires_grad(x, true));
        ph_tensor *y = ph_call(b.s.tape, b.graphed[0], x);
        ph_grad(b.s.tape, &dx, &x, 1, &y, &seeds[i], 1, NULL);
        assert_ok(ph_tape_status(b.s.tape));
    }
    assert_int_equal(t_log_count("'first': the gradient of output [0]"), 1);
    assert_ok(ph_tape_clear(b.s.tape));
    bench_close(&b, 1);
}

static void second_step(const bench *b)
{
    ph_tensor *dx = NULL, *x = full(b, 9), *seed = full(b, 1);
    assert_ok(ph_tensor_set_requires_grad(x, true));
    ph_tensor *y = ph_call(b->s.tape, b->graphed[1], x);
    ph_grad(b->s.tape, &dx, &x, 1, &y, &seed, 1, NULL);
    assert_ok(ph_tape_status(b->s.tape));
}

/* Between forward and backward, by a callable that comes between. */
TEST(test_saved_overwritten)
{
    bench b;
    size_t wrong = 0;
    bench_open(&b, square_forward, true);
    for (int i = 0; i < MANY; i++) {
        ph_tensor *dx = NULL, *x = NULL;
        assert_ok(ph_pool_begin(b.pool));
        for (int k = 0; k <= i; k++) /* at other places of the pool each time */
            x = full(&b, 3);
        assert_ok(ph_pool_end(b.pool));
        assert_ok(ph_tensor_set_requires_grad(x, true));
        ph_tensor *seed = full(&b, 1), *y = ph_call(b.s.tape, b.graphed[0], x);
        second_step(&b);
        ph_grad(b.s.tape, &dx, &x, 1, &y, &seed, 1, NULL);
        bool right = is_all(&b, dx, 6);
        wrong += !right;
        assert_true(right ||
                    t_log_count("input [0] (f32[65536]), which backward reads, lies in") == 1);
        assert_ok(ph_tape_clear(b.s.tape));
    }
    assert_true(wrong > 0);
    bench_close(&b, 1);
}

/* ---- what is right ---- */
/* A static input that lives there, changed before each call; fresh ones; and one from elsewhere,
 * again and again. */
TEST(test_inputs_that_are_right)
{
    bench b;
    bench_open(&b, poly_forward, false);
    assert_ok(ph_pool_begin(b.pool));
    ph_tensor *kept = ph_tensor_retain(full(&b, 0));
    assert_ok(ph_pool_end(b.pool));
    ph_tensor *outside = ph_tensor_retain(full(&b, 3));
    assert_ok(ph_tape_clear(b.s.tape));
    for (int i = 0; i < MANY; i++) {
        float v = (float)(i + 1);
        ph_tensor_fill(b.s.tape, kept, v);
        assert_true(is_all(&b, ph_call(b.s.tape, b.graphed[0], kept), poly(v)));
        assert_true(is_all(&b, ph_call(b.s.tape, b.graphed[0], outside), poly(3)));
        assert_ok(ph_pool_begin(b.pool));
        assert_true(is_all(&b, ph_call(b.s.tape, b.graphed[1], full(&b, v)), poly(v)));
        assert_ok(ph_pool_end(b.pool));
        assert_ok(ph_tape_clear(b.s.tape));
    }
    ph_tensor_release(kept);
    ph_tensor_release(outside);
    bench_close(&b, 0);
}

/* The output of the one is the input of the other, as in PyTorch; views of it, too. */
TEST(test_outputs_of_callables)
{
    bench b;
    bench_open(&b, square_forward, true);
    for (int i = 0; i < MANY; i++) {
        float v = (float)(i % 2 + 1);
        ph_tensor *dx = NULL, *x = full(&b, v), *seed = full(&b, 1);
        assert_ok(ph_tensor_set_requires_grad(x, true));
        ph_tensor *h = ph_reshape(b.s.tape, ph_call(b.s.tape, b.graphed[0], x), PH_SHAPE(N));
        ph_tensor *y = ph_call(b.s.tape, b.graphed[1], h);
        assert_true(is_all(&b, y, poly(v * v)));
        ph_grad(b.s.tape, &dx, &x, 1, &y, &seed, 1, NULL);
        assert_true(is_all(&b, dx, (8 * v * v + 3) * 2 * v));
        assert_ok(ph_tape_clear(b.s.tape));
    }
    bench_close(&b, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inputs_overwritten),
        cmocka_unit_test(test_input_overwritten_by_another),
        cmocka_unit_test(test_gradient_overwritten),
        cmocka_unit_test(test_saved_overwritten),
        cmocka_unit_test(test_inputs_that_are_right),
        cmocka_unit_test(test_outputs_of_callables),
    };
    return cmocka_run_group_tests_name("nn.graphed_pool", tests, NULL, NULL);
}
