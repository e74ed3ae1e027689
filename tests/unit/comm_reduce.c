/* SPDX-License-Identifier: MIT */
/* Elements of several ranks become one: in the order of the ranks, by types and operations. */
#include "base/half.h"
#include "comm/work/reduce.h"
#include "support/support.h"
#include "support/test.h"
#include <math.h>
#include <string.h>

enum {
    RANKS = 3
};

static float reduce_f32(float a, float b, float c, ph_reduce_op op)
{
    const float parts[RANKS] = {a, b, c};
    float out;
    ph__reduce_parts(&out, parts, 1, RANKS, 1, PH_DTYPE_F32, op);
    return out;
}

/* (1e8 + 1) + -1e8 is 0 in f32, and 1 in another order. */
TEST(sums_begin_at_rank_0)
{
    assert_true(reduce_f32(1e8F, 1, -1e8F, PH_REDUCE_SUM) == 0);
    assert_true(reduce_f32(1e8F, -1e8F, 1, PH_REDUCE_SUM) == 1);
    assert_true(reduce_f32(2, 3, 4, PH_REDUCE_PRODUCT) == 24);
    assert_true(reduce_f32(2, -3, 4, PH_REDUCE_MIN) == -3);
    assert_true(reduce_f32(2, 5, 4, PH_REDUCE_MAX) == 5);
    assert_true(reduce_f32(1, 2, 6, PH_REDUCE_MEAN) == 3);
}

TEST(a_nan_of_any_rank_wins)
{
    static const ph_reduce_op ops[] = {PH_REDUCE_MIN, PH_REDUCE_MAX, PH_REDUCE_SUM};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        assert_true(isnan(reduce_f32(NAN, 1, 2, ops[i])));
        assert_true(isnan(reduce_f32(1, NAN, 2, ops[i])));
        assert_true(isnan(reduce_f32(1, 2, NAN, ops[i])));
    }
}

/* In bf16 each sum with 1 would round back to 256. */
TEST(halves_are_rounded_once)
{
    const uint16_t parts[RANKS] = {ph__bf16_put(256), ph__bf16_put(1), ph__bf16_put(1)};
    const uint16_t small[RANKS] = {ph__f16_put(2048), ph__f16_put(1), ph__f16_put(1)};
    uint16_t out;
    ph__reduce_parts(&out, parts, 1, RANKS, 1, PH_DTYPE_BF16, PH_REDUCE_SUM);
    assert_true(ph__bf16_get(out) == 258);
    ph__reduce_parts(&out, small, 1, RANKS, 1, PH_DTYPE_F16, PH_REDUCE_SUM);
    assert_true(ph__f16_get(out) == 2050);
}

TEST(integers_wrap_around)
{
    const int32_t parts[RANKS] = {INT32_MAX, 1, 1};
    const uint8_t bytes[RANKS] = {200, 100, 3};
    const int64_t wide[RANKS] = {INT64_MIN, 2, 3};
    int32_t out;
    int64_t out_wide;
    uint8_t byte;
    ph__reduce_parts(&out, parts, 1, RANKS, 1, PH_DTYPE_I32, PH_REDUCE_SUM);
    assert_int_equal(out, INT32_MIN + 1);
    ph__reduce_parts(&byte, bytes, 1, RANKS, 1, PH_DTYPE_U8, PH_REDUCE_SUM);
    assert_int_equal(byte, 47);
    ph__reduce_parts(&byte, bytes, 1, RANKS, 1, PH_DTYPE_U8, PH_REDUCE_MAX);
    assert_int_equal(byte, 200);
    ph__reduce_parts(&out_wide, wide, 1, RANKS, 1, PH_DTYPE_I64, PH_REDUCE_MIN);
    assert_true(out_wide == INT64_MIN);
    ph__reduce_parts(&out_wide, wide, 1, RANKS, 1, PH_DTYPE_I64, PH_REDUCE_PRODUCT);
    assert_true(out_wide == 0);
}

/* Parts stand `stride` apart, and the result may be the first part. */
TEST(parts_may_be_reduced_in_place)
{
    double parts[] = {1, 2, -1, 10, 20, -1, 100, 200, -1};
    ph__reduce_parts(parts, parts, 3, RANKS, 2, PH_DTYPE_F64, PH_REDUCE_SUM);
    assert_true(parts[0] == 111 && parts[1] == 222 && parts[2] == -1 && parts[3] == 10);
}

TEST(types_take_the_operations_that_mean_something)
{
    assert_true(ph__reduce_accepts(PH_DTYPE_BOOL, PH_REDUCE_MIN));
    assert_false(ph__reduce_accepts(PH_DTYPE_BOOL, PH_REDUCE_SUM));
    assert_true(ph__reduce_accepts(PH_DTYPE_BF16, PH_REDUCE_MEAN));
    assert_false(ph__reduce_accepts(PH_DTYPE_I64, PH_REDUCE_MEAN));
    assert_int_equal(ph__element_bytes(PH_DTYPE_BF16), 2);
    assert_int_equal(ph__element_bytes((ph_dtype)99), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_begin_at_rank_0),
        cmocka_unit_test(a_nan_of_any_rank_wins),
        cmocka_unit_test(halves_are_rounded_once),
        cmocka_unit_test(integers_wrap_around),
        cmocka_unit_test(parts_may_be_reduced_in_place),
        cmocka_unit_test(types_take_the_operations_that_mean_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
