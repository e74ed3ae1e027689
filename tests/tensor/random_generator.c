/* SPDX-License-Identifier: MIT */
/* tests/tensor/random_generator.c: generators: seed, offset, states and who shares them, and
 * what is refused. */
#include "support/draws.h"
#include "support/test.h"
#include "tensor/core/tensor.h"
#include "tensor/generator/draw.h"
#include "tensor/generator/generator.h"
#include "tensor/generator/generator_state.h"
#include "tensor/tape/tape.h"
#include <math.h>

static ph_tensor *four(ph_tape *tape, void *user)
{
    (void)user;
    return ph_rand(tape, PH_DTYPE_F32, PH_SHAPE(4));
}

TEST(test_seed_and_offset)
{
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 42);
    assert_true(ph_generator_get_seed(g) == 42);
    assert_int_equal(t_offset(g), 0);
    ph_tensor *a = t_now(&s, four, NULL), *b = t_now(&s, four, NULL);
    assert_int_equal(t_offset(g), 8);
    assert_false(t_same(&s, a, b));
    assert_ok(ph_generator_set_offset(g, 4));
    ph_tensor *again = t_now(&s, four, NULL);
    assert_true(t_same(&s, again, b));
    assert_ok(ph_generator_seed(g, 42));
    assert_int_equal(t_offset(g), 0);
    ph_tensor *first = t_now(&s, four, NULL);
    assert_true(t_same(&s, first, a));
    assert_ok(ph_generator_seed(g, 43));
    ph_tensor *other = t_now(&s, four, NULL);
    assert_false(t_same(&s, other, a));
    ph_tensor *all[] = {a, b, again, first, other};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ph_tensor_release(all[i]);
    ph_generator_release(g);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* How far each draw moves the offset: 4 for each word of an element; nothing for no elements. */
TEST(test_how_far_draws_move)
{
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 1);
    const struct {
        ph_tensor *x;
        uint64_t offset;
    } draws[] = {
        {ph_rand(s.tape, PH_DTYPE_F32, PH_SHAPE(1)), 4},
        {ph_rand(s.tape, PH_DTYPE_BF16, PH_SHAPE(1000, 100)), 8},
        {ph_randn(s.tape, PH_DTYPE_F64, PH_SHAPE(3)), 16},
        {ph_randint(s.tape, PH_DTYPE_U8, PH_SHAPE(3), 0, 2), 24},
        {ph_randperm(s.tape, 10), 32},
        {ph_randperm(s.tape, 5000), 40},
        {ph_rand(s.tape, PH_DTYPE_F32, PH_SHAPE(0, 5)), 40},
        {ph_randperm(s.tape, 0), 40},
        {ph_dropout(s.tape, ph_empty(s.tape, PH_DTYPE_F32, PH_SHAPE(0)), 0.5), 40},
        {ph_bernoulli(s.tape, ph_zeros(s.tape, PH_DTYPE_F16, PH_SHAPE(9))), 44},
        {ph_dropout(s.tape, ph_zeros(s.tape, PH_DTYPE_F64, PH_SHAPE(9)), 0), 44},
        {ph_dropout(s.tape, ph_zeros(s.tape, PH_DTYPE_F64, PH_SHAPE(9)), 0.5), 48},
        {ph_bernoulli(s.tape, ph_zeros(s.tape, PH_DTYPE_F64, PH_SHAPE(9))), 56},
    };
    assert_ok(ph_tape_status(s.tape));
    for (size_t i = 0; i < sizeof draws / sizeof *draws; i++)
        assert_non_null(draws[i].x);
    assert_int_equal(t_offset(g), draws[sizeof draws / sizeof *draws - 1].offset);
    assert_ok(ph_tape_clear(s.tape));
    /* One by one. */
    assert_ok(ph_generator_seed(g, 1));
    (void)ph_rand(s.tape, PH_DTYPE_F32, PH_SHAPE(1));
    assert_int_equal(t_offset(g), draws[0].offset);
    (void)ph_rand(s.tape, PH_DTYPE_BF16, PH_SHAPE(1000, 100));
    assert_int_equal(t_offset(g), draws[1].offset);
    (void)ph_randn(s.tape, PH_DTYPE_F64, PH_SHAPE(3));
    assert_int_equal(t_offset(g), draws[2].offset);
    /* In place: the dtype of the probabilities counts, and of one probability none. */
    ph_tensor *f32 = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(3)),
              *f64 = ph_zeros(s.tape, PH_DTYPE_F64, PH_SHAPE(3));
    ph_tensor_bernoulli(s.tape, f64, 0.5);
    assert_int_equal(t_offset(g), draws[2].offset + 4);
    ph_tensor_bernoulli_of(s.tape, f64, f32);
    assert_int_equal(t_offset(g), draws[2].offset + 8);
    ph_tensor_bernoulli_of(s.tape, f32, f64);
    assert_int_equal(t_offset(g), draws[2].offset + 16);
    ph_tensor_uniform(s.tape, f64, 0, 1);
    assert_int_equal(t_offset(g), draws[2].offset + 24);
    ph_tensor_random(s.tape, f32, 0, 5);
    assert_int_equal(t_offset(g), draws[2].offset + 32);
    assert_ok(ph_tape_clear(s.tape));
    ph_generator_release(g);
    t_scene_close(&s);
}

TEST(test_states_as_bytes)
{
    t_scene s;
    unsigned char bytes[16];
    static const unsigned char want[16] = {0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01, 4};
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, UINT64_C(0x0123456789abcdef));
    ph_tensor *a = t_now(&s, four, NULL);
    assert_ok(ph_generator_get_state(bytes, g));
    assert_memory_equal(bytes, want, 16);
    ph_tensor *b = t_now(&s, four, NULL);
    assert_ok(ph_generator_set_state(g, bytes, 16));
    ph_tensor *c = t_now(&s, four, NULL);
    assert_true(t_same(&s, b, c));
    assert_ok(ph_generator_set_state(g, bytes, 8));
    assert_int_equal(t_offset(g), 0);
    ph_tensor *d = t_now(&s, four, NULL);
    assert_true(t_same(&s, a, d));
    assert_error(ph_generator_set_state(g, bytes, 12), PH_ERROR_ARGUMENT, "12 bytes");
    bytes[8] = 6;
    assert_error(ph_generator_set_state(g, bytes, 16), PH_ERROR_ARGUMENT, "multiple of 4");
    assert_error(ph_generator_set_offset(g, 3), PH_ERROR_ARGUMENT, "multiple of 4");
    assert_int_equal(t_offset(g), 4);
    ph_tensor *all[] = {a, b, c, d};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ph_tensor_release(all[i]);
    ph_generator_release(g);
    t_scene_close(&s);
}

/* The same for every call; what is changed by one is seen by all, and by tapes that name none. */
TEST(test_default_generator)
{
    t_scene s;
    ph_generator *a, *b, *other;
    t_scene_open(&s);
    assert_ok(ph_generator_default(&a, s.device));
    assert_ok(ph_generator_default(&b, s.device));
    assert_ptr_equal(a, b);
    assert_true(ph_generator_get_seed(a) == 0);
    assert_int_equal(t_offset(a), 0);
    ph_tensor *x = t_now(&s, four, NULL);
    assert_int_equal(t_offset(b), 4);
    /* Another state for it is another one for all. */
    assert_ok(ph_generator_create(&other, s.device, 0));
    ph_generator_state *shared = ph_generator_share_state(other);
    assert_ok(ph_generator_use_state(a, shared));
    ph_generator_state_release(shared);
    ph_tensor *y = t_now(&s, four, NULL);
    assert_true(t_same(&s, x, y));
    assert_int_equal(t_offset(other), 4);
    ph_tensor_release(x);
    ph_tensor_release(y);
    ph_generator_release(ph_generator_retain(a));
    ph_generator_release(a);
    ph_generator_release(b);
    ph_generator_release(other);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* It keeps the device's backend, and outlives tapes. */
TEST(test_default_generator_alone)
{
    ph_device *device;
    ph_generator *g;
    assert_ok(ph_device_open(&device, t_device_name(), NULL));
    assert_ok(ph_generator_default(&g, device));
    ph_device_release(device);
    assert_ok(ph_generator_seed(g, 9));
    assert_true(ph_generator_get_seed(g) == 9);
    ph_generator_release(g);
    assert_int_equal(ph__alloc_live(), 0);
}

TEST(test_clones_and_shared_states)
{
    t_scene s;
    ph_generator *clone;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 7);
    ph_tensor_release(t_now(&s, four, NULL));
    assert_ok(ph_generator_clone(&clone, g));
    assert_true(ph_generator_get_seed(clone) == 7 && t_offset(clone) == 4);
    ph_tensor *a = t_now(&s, four, NULL);
    assert_int_equal(t_offset(clone), 4); /* a state of its own */
    ph_tape_set_generator(s.tape, clone);
    ph_tensor *b = t_now(&s, four, NULL);
    assert_true(t_same(&s, a, b));
    /* From now on both go the same way. */
    ph_generator_state *shared = ph_generator_share_state(g);
    assert_ok(ph_generator_use_state(clone, shared));
    assert_ok(ph_generator_seed(g, 8));
    assert_true(ph_generator_get_seed(clone) == 8);
    ph_tensor_release(t_now(&s, four, NULL));
    assert_int_equal(t_offset(g), 4);
    ph_generator_release(g);
    assert_int_equal(t_offset(clone), 4);
    ph_generator_state_release(shared);
    assert_int_equal(t_offset(clone), 4);
    ph_tensor_release(a);
    ph_tensor_release(b);
    ph_generator_release(clone);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

TEST(misuse_is_refused)
{
    t_scene s;
    ph_generator *g, *foreign;
    ph_device *device;
    uint64_t offset;
    char bytes[16];
    t_scene_open(&s);
    assert_ok(ph_device_open(&device, "host:threads=1", NULL));
    assert_ok(ph_generator_create(&foreign, device, 0));
    assert_error(ph_generator_create(NULL, s.device, 0), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_generator_create(&g, NULL, 0), PH_ERROR_ARGUMENT, "device");
    assert_null(g);
    assert_ok(ph_generator_create(&g, s.device, 0));
    assert_status(ph_generator_seed(NULL, 0), PH_ERROR_ARGUMENT);
    assert_status(ph_generator_set_offset(NULL, 0), PH_ERROR_ARGUMENT);
    assert_status(ph_generator_get_offset(&offset, NULL), PH_ERROR_ARGUMENT);
    assert_status(ph_generator_get_offset(NULL, g), PH_ERROR_ARGUMENT);
    assert_status(ph_generator_get_state(NULL, g), PH_ERROR_ARGUMENT);
    assert_status(ph_generator_get_state(bytes, NULL), PH_ERROR_ARGUMENT);
    assert_status(ph_generator_set_state(g, NULL, 16), PH_ERROR_ARGUMENT);
    assert_status(ph_generator_set_state(NULL, bytes, 16), PH_ERROR_ARGUMENT);
    assert_status(ph_generator_use_state(g, NULL), PH_ERROR_ARGUMENT);
    assert_true(ph_generator_get_seed(NULL) == 0);
    assert_null(ph_generator_share_state(NULL));
    assert_null(ph_generator_retain(NULL));
    ph_generator_release(NULL);
    ph_generator_state_release(NULL);
    ph_generator_state *shared = ph_generator_share_state(foreign);
    assert_error(ph_generator_use_state(g, shared), PH_ERROR_WRONG_DEVICE, "another device");
    ph_generator_state_release(shared);
    /* Words run out. */
    ph_tape_set_generator(s.tape, g);
    assert_ok(ph_generator_set_offset(g, UINT64_MAX - 3));
    assert_null(four(s.tape, NULL));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_STATE, "overflow");
    ph_generator_release(g);
    ph_generator_release(foreign);
    ph_device_release(device);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* What operators refuse: the tape fails, nothing is drawn. */
TEST(test_operators_refuse)
{
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 0);
    ph_tensor *x = ph_tensor_retain(ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(4)));
    ph_tensor *whole = ph_tensor_retain(ph_zeros(s.tape, PH_DTYPE_I32, PH_SHAPE(4)));
    assert_ok(ph_tape_clear(s.tape));
#define REFUSED(call, part)                                                                        \
    do {                                                                                           \
        (void)(call);                                                                              \
        assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, (part));                            \
    } while (0)
    REFUSED(ph_rand(s.tape, PH_DTYPE_I32, PH_SHAPE(4)), "rand: i32: a floating dtype");
    REFUSED(ph_rand(s.tape, PH_DTYPE_F32, PH_SHAPE(-1)), "negative");
    REFUSED(ph_uniform(s.tape, PH_DTYPE_F32, PH_SHAPE(4), 1, 0), "no range");
    REFUSED(ph_uniform(s.tape, PH_DTYPE_F32, PH_SHAPE(4), -3e38, 3e38), "no range");
    REFUSED(ph_uniform(s.tape, PH_DTYPE_F32, PH_SHAPE(4), 0, (double)NAN), "no range");
    REFUSED(ph_normal(s.tape, PH_DTYPE_F32, PH_SHAPE(4), 0, -1), "deviation");
    REFUSED(ph_exponential(s.tape, PH_DTYPE_F32, PH_SHAPE(4), 0), "rate");
    REFUSED(ph_bernoulli(s.tape, whole), "floating");
    REFUSED(ph_randint(s.tape, PH_DTYPE_F32, PH_SHAPE(4), 0, 4), "i32, i64 or u8");
    REFUSED(ph_randint(s.tape, PH_DTYPE_U8, PH_SHAPE(4), 0, 257), "no range");
    REFUSED(ph_randint(s.tape, PH_DTYPE_I64, PH_SHAPE(4), 3, 3), "no range");
    REFUSED(ph_randperm(s.tape, -1), "-1");
    REFUSED(ph_dropout(s.tape, x, 1.5), "from 0 to 1");
    REFUSED(ph_dropout(s.tape, x, (double)NAN), "from 0 to 1");
    REFUSED(ph_dropout(s.tape, whole, 0.5), "floating");
    /* In place: named as the call is. */
    REFUSED((ph_tensor_bernoulli(s.tape, x, -0.1), 0),
            "tensor_bernoulli: the probability is -0.1; it must be from 0 to 1");
    REFUSED((ph_tensor_geometric(s.tape, x, 0), 0),
            "tensor_geometric: the probability is 0; it must be above 0");
    REFUSED((ph_tensor_cauchy(s.tape, x, 0, 0), 0), "tensor_cauchy: the scale");
    REFUSED((ph_tensor_exponential(s.tape, x, 0), 0), "tensor_exponential: the rate");
    REFUSED((ph_tensor_normal(s.tape, x, 0, -1), 0), "tensor_normal: the deviation");
    REFUSED((ph_tensor_log_normal(s.tape, x, 0, -1), 0), "tensor_log_normal: the deviation");
    REFUSED((ph_tensor_uniform(s.tape, x, 1, 0), 0), "tensor_uniform: from 1 to 0 is no range");
    REFUSED((ph_tensor_uniform(s.tape, NULL, 0, 1), 0), "tensor_uniform: operand 0 is NULL");
    REFUSED((ph_tensor_uniform(s.tape, ph_expand(s.tape, x, PH_SHAPE(2, 4)), 0, 1), 0),
            "tensor_uniform: it is expanded");
    assert_int_equal(t_offset(g), 0);
    /* A leaf that requires a gradient is changed in no-grad mode alone. */
    assert_ok(ph_tensor_set_requires_grad(x, true));
    ph_tensor_normal(s.tape, x, 0, 1);
    assert_error(ph_tape_clear(s.tape), PH_ERROR_STATE,
                 "tensor_normal: a tensor that requires a gradient");
    ph_tensor_normal(s.tape, ph_slice_step(s.tape, x, 0, 0, 4, 2), 0, 1);
    assert_error(ph_tape_clear(s.tape), PH_ERROR_STATE,
                 "tensor_normal: a tensor that requires a gradient");
    uint64_t version = ph_tensor_version(x);
    (void)ph_tape_set_grad_enabled(s.tape, false);
    ph_tensor_normal(s.tape, x, 0, 1);
    assert_ok(ph_tape_clear(s.tape));
    assert_true(ph_tensor_version(x) > version);
    ph_tensor_release(x);
    ph_tensor_release(whole);
    ph_generator_release(g);
    t_scene_close(&s);
}

/* Elements are drawn in the order of the indices, whatever the strides are. */
TEST(test_in_place_with_strides)
{
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 3);
    ph_tensor *base = ph_tensor_retain(ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(5, 7)));
    ph_tensor *view = ph_transpose(s.tape, base, 0, 1),
              *want = ph_uniform(s.tape, PH_DTYPE_F32, PH_SHAPE(7, 5), 2, 3);
    assert_ok(ph_generator_seed(g, 3));
    ph_tensor_uniform(s.tape, view, 2, 3);
    assert_true(t_same(&s, view, want));
    /* Not aligned for wide stores. */
    ph_tensor *long_one = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(40)),
              *part = ph_slice(s.tape, long_one, 0, 1, 36);
    assert_ok(ph_generator_seed(g, 3));
    ph_tensor_uniform(s.tape, part, 2, 3);
    float *got = t_bytes(&s, long_one), *wanted = t_bytes(&s, want);
    assert_memory_equal(got + 1, wanted, 35 * sizeof *got);
    assert_true(got[0] == 0 && got[36] == 0 && got[39] == 0);
    free(got);
    free(wanted);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(base);
    ph_generator_release(g);
    t_scene_close(&s);
}

/* Marks of what is done outside of captures. */
TEST(a_restored_mark_draws_the_same_numbers)
{
    t_scene s;
    ph__generator_mark before, after;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 3);
    assert_ok(ph__generator_save(&before, g, s.stream));
    assert_ok(ph__generator_save(&after, g, s.stream));
    assert_true(ph__generator_mark_equal(&before, &after));
    ph_tensor *a = t_now(&s, four, NULL);
    assert_ok(ph__generator_save(&after, g, s.stream));
    assert_false(ph__generator_mark_equal(&before, &after));
    assert_ok(ph_generator_seed(g, 4));
    assert_ok(ph__generator_restore(g, s.stream, &before));
    ph_tensor *b = t_now(&s, four, NULL);
    assert_true(t_same(&s, a, b));
    before.capture = 77;
    assert_error(ph__generator_restore(g, s.stream, &before), PH_ERROR_STATE,
                 "cannot be drawn again");
    ph_tensor_release(a);
    ph_tensor_release(b);
    ph_generator_release(g);
    t_scene_close(&s);
}

TEST(test_no_host_memory)
{
    t_scene s;
    ph_generator *g, *clone = NULL;
    t_scene_open(&s);
    assert_ok(ph_generator_create(&g, s.device, 5));
    for (int64_t n = 0; n < 2; n++) {
        int64_t live = ph__alloc_live();
        ph__alloc_fail_after(n);
        ph_status status = ph_generator_clone(&clone, g);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        assert_int_equal(status, PH_ERROR_HOST_MEMORY);
        assert_null(clone);
        assert_int_equal(ph__alloc_live(), live);
    }
    ph_generator_release(g);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seed_and_offset),
        cmocka_unit_test(test_how_far_draws_move),
        cmocka_unit_test(test_states_as_bytes),
        cmocka_unit_test(test_default_generator),
        cmocka_unit_test(test_default_generator_alone),
        cmocka_unit_test(test_clones_and_shared_states),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(test_operators_refuse),
        cmocka_unit_test(test_in_place_with_strides),
        cmocka_unit_test(a_restored_mark_draws_the_same_numbers),
        cmocka_unit_test(test_no_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
