/* SPDX-License-Identifier: MIT */
/* tests/tensor/random_operands.c: random numbers that take tensors, or any dtype: held to the
 * calls that take numbers, for operands of any strides and shapes that broadcast, on poisoned
 * memory between guard zones. */
#include "support/draws.h"
#include "support/grads.h"
#include "support/test.h"
#include "tensor/core/guard.h"
#include "tensor/core/tensor.h"
#include "tensor/generator/generator.h"
#include "tensor/tape/tape.h"
#include <math.h>

enum {
    N = 3001
};
static const ph_dtype floats[] = {PH_DTYPE_F32, PH_DTYPE_F64, PH_DTYPE_F16, PH_DTYPE_BF16};

typedef struct drawn {
    t_scene scene;
    ph_generator *generator;
} drawn;

static void open_drawn(drawn *d)
{
    ph__storage_debug(true);
    t_scene_open(&d->scene);
    d->generator = t_generator(&d->scene, 23);
}

static void close_drawn(drawn *d)
{
    assert_ok(ph_tape_clear(d->scene.tape));
    assert_true(ph__storage_debug_check(d->scene.device));
    ph__storage_debug(false);
    ph_generator_release(d->generator);
    t_scene_close(&d->scene);
    assert_int_equal(ph__alloc_live(), 0);
}

/* The next call draws the same words again; those that were drawn since were so many. */
static void again(const drawn *d, unsigned words)
{
    assert_int_equal(t_offset(d->generator), 8 + 4 * words);
    assert_ok(ph_generator_set_offset(d->generator, 8));
}

static unsigned words_of(ph_dtype dtype)
{
    return dtype == PH_DTYPE_F64 ? 2 : 1;
}

/* ---- normals ---- */
TEST(test_normals_of_equal_means)
{
    drawn d;
    open_drawn(&d);
    ph_tape *t = d.scene.tape;
    for (size_t k = 0; k < 4; k++)
        for (int64_t n = 0; n < 20; n++) {
            assert_ok(ph_generator_set_offset(d.generator, 8));
            ph_tensor *want = ph_normal(t, floats[k], PH_SHAPE(n), 0.75, 1.5);
            again(&d, n ? words_of(floats[k]) : 0);
            ph_tensor *mean = ph_full(t, floats[k], PH_SHAPE(n), 0.75);
            ph_tensor *got = ph_normal_of(t, mean, ph_full(t, floats[k], PH_SHAPE(n), 1.5));
            again(&d, n ? words_of(floats[k]) : 0);
            assert_true(t_same(&d.scene, got, want));
            got = ph_normal_of(t, mean, ph_full(t, floats[k], (ph_shape){.rank = 0}, 1.5));
            again(&d, n ? words_of(floats[k]) : 0);
            assert_true(t_same(&d.scene, got, want));
            want = ph_normal(t, floats[k], PH_SHAPE(n), 0.75, 1);
            again(&d, n ? words_of(floats[k]) : 0);
            assert_true(t_same(&d.scene, ph_normal_of(t, mean, NULL), want));
            assert_ok(ph_tape_clear(t));
        }
    close_drawn(&d);
}

/* mean + deviation * what the same words give alone, in f32, rounded once; a mean of columns, a
 * deviation of rows, turned. */
TEST(test_normals_of_each_mean)
{
    drawn d;
    open_drawn(&d);
    ph_tape *t = d.scene.tape;
    ph_tensor *mean = ph_arange(t, PH_DTYPE_F32, -3, 0.5, 37);
    ph_tensor *deviation =
        ph_reshape(t, ph_arange(t, PH_DTYPE_F32, -1, 0.25, 2 * 53), PH_SHAPE(2, 53));
    deviation = ph_slice(t, ph_transpose(t, deviation, 0, 1), 1, 1, 2);
    assert_ok(ph_generator_set_offset(d.generator, 8));
    float *z = t_bytes(&d.scene, ph_randn(t, PH_DTYPE_F32, PH_SHAPE(53, 37)));
    again(&d, 1);
    ph_tensor *y = ph_normal_of(t, mean, deviation);
    ph_shape shape = ph_tensor_shape(y), want = PH_SHAPE(53, 37);
    assert_true(ph_shape_equal(&shape, &want));
    float *x = t_bytes(&d.scene, y);
    for (int i = 0; i < 53; i++)
        for (int j = 0; j < 37; j++) {
            volatile float product = (-1 + 0.25f * (float)(53 + i)) * z[i * 37 + j];
            assert_true(x[i * 37 + j] == -3 + 0.5f * (float)j + product);
        }
    free(x);
    free(z);
    close_drawn(&d);
}

/* A negative deviation mirrors; NaN and infinities are what arithmetic makes of them. */
TEST(test_odd_deviations)
{
    drawn d;
    open_drawn(&d);
    ph_tape *t = d.scene.tape;
    assert_ok(ph_generator_set_offset(d.generator, 8));
    float *z = t_bytes(&d.scene, ph_randn(t, PH_DTYPE_F32, PH_SHAPE(4)));
    again(&d, 1);
    ph_tensor *deviation =
        ph_from_memory(t, PH_DTYPE_F32, PH_SHAPE(4), (float[]){-2, NAN, INFINITY, 0});
    float *x =
        t_bytes(&d.scene, ph_normal_of(t, ph_full(t, PH_DTYPE_F32, PH_SHAPE(4), 1), deviation));
    assert_true(x[0] == 1 - 2 * z[0] && isnan(x[1]) && isinf(x[2]) && x[3] == 1);
    free(x);
    free(z);
    close_drawn(&d);
}

/* ---- whole numbers ---- those that ph_randint gives, in any dtype. */
TEST(test_whole_numbers)
{
    static const struct {
        ph_dtype dtype;
        int64_t low, high;
    } ranges[] = {{PH_DTYPE_F32, -(1 << 24), (1 << 24) + 1},
                  {PH_DTYPE_F64, -(INT64_C(1) << 53), 1},
                  {PH_DTYPE_F16, -2048, 2049},
                  {PH_DTYPE_BF16, -256, 257},
                  {PH_DTYPE_I32, INT32_MIN, INT32_MAX},
                  {PH_DTYPE_I64, INT64_MIN, INT64_MAX},
                  {PH_DTYPE_U8, 3, 256},
                  {PH_DTYPE_BOOL, 0, 2},
                  {PH_DTYPE_F32, 5, 6},
                  {PH_DTYPE_BOOL, 1, 2}};
    drawn d;
    open_drawn(&d);
    ph_tape *t = d.scene.tape;
    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++) {
        assert_ok(ph_generator_set_offset(d.generator, 8));
        ph_tensor *want = ph_randint(t, PH_DTYPE_I64, PH_SHAPE(N), ranges[k].low, ranges[k].high);
        again(&d, 2);
        ph_tensor *x = ph_empty(t, ranges[k].dtype, PH_SHAPE(N));
        uint64_t version = ph_tensor_version(x);
        ph_tensor_random(t, x, ranges[k].low, ranges[k].high);
        assert_true(ph_tensor_version(x) == version + 1);
        again(&d, 2);
        /* All of them are numbers of the dtype: so the casts there and back lose nothing. */
        assert_true(t_same(&d.scene, ph_cast(t, x, PH_DTYPE_I64), want));
        assert_true(t_same(&d.scene, ph_cast(t, want, ranges[k].dtype), x));
        assert_ok(ph_tape_clear(t));
    }
    close_drawn(&d);
}

/* Each of a few numbers comes as often as the others; all ends are among them. */
TEST(test_whole_numbers_come_alike)
{
    enum {
        MANY = 1 << 16,
        RANGE = 20
    };
    drawn d;
    open_drawn(&d);
    ph_tape *t = d.scene.tape;
    for (size_t k = 0; k < 4; k++) {
        ph_tensor *x = ph_empty(t, floats[k], PH_SHAPE(MANY));
        int64_t counts[RANGE] = {0};
        double chi = 0;
        ph_tensor_random(t, x, -7, RANGE - 7);
        int64_t *v = t_bytes(&d.scene, ph_cast(t, x, PH_DTYPE_I64));
        for (size_t i = 0; i < MANY; i++) {
            assert_true(v[i] >= -7 && v[i] < RANGE - 7);
            counts[v[i] + 7]++;
        }
        for (size_t i = 0; i < RANGE; i++)
            chi += pow((double)counts[i] - (double)MANY / RANGE, 2) / ((double)MANY / RANGE);
        assert_true(chi > 4 && chi < 52); /* 19 degrees of freedom */
        free(v);
        assert_ok(ph_tape_clear(t));
    }
    close_drawn(&d);
}

/* ---- events ---- those that ph_bernoulli gives, in any dtype. */
TEST(test_events_of_any_dtype)
{
    drawn d;
    open_drawn(&d);
    ph_tape *t = d.scene.tape;
    for (size_t k = 0; k < 4; k++)
        for (ph_dtype dtype = PH_DTYPE_F32; dtype <= PH_DTYPE_BOOL; dtype++) {
            ph_tensor *p = ph_rand(t, floats[k], PH_SHAPE(N));
            assert_ok(ph_generator_set_offset(d.generator, 8));
            ph_tensor *want = ph_cast(t, ph_bernoulli(t, p), dtype);
            again(&d, words_of(floats[k]));
            ph_tensor *x = ph_empty(t, dtype, PH_SHAPE(N));
            ph_tensor_bernoulli_of(t, x, p);
            again(&d, words_of(floats[k]));
            assert_true(t_same(&d.scene, x, want));
            assert_ok(ph_tape_clear(t));
        }
    close_drawn(&d);
}

/* Probabilities that broadcast; what changes turned; and both the same memory, or partly. */
TEST(test_events_in_place)
{
    drawn d;
    open_drawn(&d);
    ph_tape *t = d.scene.tape;
    ph_tensor *p = ph_rand(t, PH_DTYPE_F32, PH_SHAPE(41));
    assert_ok(ph_generator_set_offset(d.generator, 8));
    ph_tensor *each = ph_contiguous(t, ph_expand(t, p, PH_SHAPE(29, 41)));
    ph_tensor *want = ph_bernoulli(t, each);
    again(&d, 1);
    ph_tensor *x = ph_transpose(t, ph_empty(t, PH_DTYPE_F32, PH_SHAPE(41, 29)), 0, 1);
    ph_tensor_bernoulli_of(t, x, p);
    again(&d, 1);
    assert_true(t_same(&d.scene, x, want));
    ph_tensor *both = ph_clone(t, each);
    ph_tensor_bernoulli_of(t, both, both);
    again(&d, 1);
    assert_true(t_same(&d.scene, both, want));
    /* What is changed begins in the midst of the probabilities. */
    ph_tensor *whole = ph_rand(t, PH_DTYPE_F32, PH_SHAPE(2 * N));
    ph_tensor *low = ph_slice(t, whole, 0, 0, N), *high = ph_slice(t, whole, 0, 5, N + 5);
    assert_ok(ph_generator_set_offset(d.generator, 8));
    want = ph_bernoulli(t, low);
    again(&d, 1);
    ph_tensor_bernoulli_of(t, high, low);
    again(&d, 1);
    assert_true(t_same(&d.scene, high, want));
    /* Nothing is drawn for nothing, and only 0 and 1 are certain. */
    ph_tensor_bernoulli_of(t, ph_empty(t, PH_DTYPE_I32, PH_SHAPE(0)),
                           ph_full(t, PH_DTYPE_F32, PH_SHAPE(1), 1));
    again(&d, 0);
    ph_tensor *ends = ph_from_memory(t, PH_DTYPE_F32, PH_SHAPE(4), (float[]){0, 1, NAN, 2}), *y;
    y = ph_empty(t, PH_DTYPE_F32, PH_SHAPE(4));
    ph_tensor_bernoulli_of(t, y, ends);
    t_expect_values(t, y, PH_SHAPE(4), 0, 1, 0, 1);
    close_drawn(&d);
}

/* A tensor with gradients is no source of them: nothing is remembered, and in place it is
 * refused. */
TEST(test_no_gradients)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2, 2), 0.5f, 0.25f, 1, 0);
    ph_tensor *turned = ph_transpose(s.tape, x, 0, 1);
    ph_tensor *made[] = {ph_normal_of(s.tape, turned, x), ph_poisson(s.tape, turned),
                         ph_bernoulli(s.tape, turned)};
    for (size_t i = 0; i < 3; i++)
        assert_false(ph_tensor_requires_grad(made[i]));
    ph_tensor *y = ph_empty(s.tape, PH_DTYPE_F32, PH_SHAPE(2, 2));
    ph_tensor_bernoulli_of(s.tape, y, turned);
    assert_ok(ph_tape_status(s.tape));
    assert_int_equal(t_info(&s).saved, 0);
    ph_tensor_bernoulli_of(s.tape, x, y);
    t_expect_failure(&s, PH_ERROR_STATE, "tensor_bernoulli_of: a tensor that requires a gradient");
    ph_tensor_random(s.tape, x, 0, 2);
    t_expect_failure(&s, PH_ERROR_STATE, "tensor_random: a tensor that requires a gradient");
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* ---- any strides, any count ---- Poisson numbers of turned rates are those of the rates laid
 * out anew. */
TEST(test_poisson_of_views)
{
    drawn d;
    open_drawn(&d);
    ph_tape *t = d.scene.tape;
    for (size_t k = 0; k < 4; k++)
        for (int64_t n = 0; n < 12; n++) {
            ph_tensor *rates = ph_uniform(t, floats[k], PH_SHAPE(n, 3), 0, 30);
            ph_tensor *turned = ph_transpose(t, rates, 0, 1);
            assert_ok(ph_generator_set_offset(d.generator, 8));
            ph_tensor *want = ph_poisson(t, ph_clone(t, ph_contiguous(t, turned)));
            again(&d, n ? 128 : 0);
            assert_true(t_same(&d.scene, ph_poisson(t, turned), want));
            assert_ok(ph_tape_clear(t));
        }
    close_drawn(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normals_of_equal_means),
        cmocka_unit_test(test_normals_of_each_mean),
        cmocka_unit_test(test_odd_deviations),
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_whole_numbers_come_alike),
        cmocka_unit_test(test_events_of_any_dtype),
        cmocka_unit_test(test_events_in_place),
        cmocka_unit_test(test_no_gradients),
        cmocka_unit_test(test_poisson_of_views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
