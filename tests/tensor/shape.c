/* SPDX-License-Identifier: MIT */
/* tests/tensor/shape.c: dtypes, counting, strides, broadcasting, merging dimensions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/support.h"
#include "support/test.h"
#include "tensor/core/describe.h"
#include "tensor/core/shape.h"
#include "tensor/core/tensor.h"
#include <string.h>

TEST(each_dtype_has_its_name_and_size)
{
    static const struct {
        ph_dtype dtype;
        const char *name;
        size_t size;
        bool floating;
    } want[] = {{PH_DTYPE_F32, "f32", 4, true},  {PH_DTYPE_F64, "f64", 8, true},
                {PH_DTYPE_F16, "f16", 2, true},  {PH_DTYPE_BF16, "bf16", 2, true},
                {PH_DTYPE_I32, "i32", 4, false}, {PH_DTYPE_I64, "i64", 8, false},
                {PH_DTYPE_U8, "u8", 1, false},   {PH_DTYPE_BOOL, "bool", 1, false},
                {(ph_dtype)0, "?", 0, false},    {(ph_dtype)9, "?", 0, false},
                {(ph_dtype)1000, "?", 0, false}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_string_equal(ph_dtype_name(want[i].dtype), want[i].name);
        assert_int_equal(ph_dtype_size(want[i].dtype), want[i].size);
        assert_int_equal(ph_dtype_is_floating(want[i].dtype), want[i].floating);
    }
}

TEST(a_count_beyond_64_bits_is_none)
{
    assert_int_equal(ph_shape_count(&PH_SCALAR), 1);
    assert_int_equal(ph_shape_count(&PH_SHAPE(2, 3, 4)), 24);
    assert_int_equal(ph_shape_count(&PH_SHAPE(2, 0, 4)), 0);
    assert_int_equal(ph_shape_count(&PH_SHAPE(2, -1)), -1);
    assert_int_equal(ph_shape_count(&PH_SHAPE(0, -1)), -1);
    assert_int_equal(ph_shape_count(&PH_SHAPE(INT64_MAX)), INT64_MAX);
    assert_int_equal(ph_shape_count(&PH_SHAPE(INT64_MAX, 2)), -1);
    /* 0 does not hide what strides could not be made of. */
    assert_int_equal(ph_shape_count(&PH_SHAPE(0, INT64_MAX, INT64_MAX)), -1);
    assert_int_equal(ph_shape_count(&(ph_shape){.rank = 9}), -1);
    assert_int_equal(ph_shape_count(NULL), -1);
    assert_true(ph_shape_equal(&PH_SHAPE(2, 3), &PH_SHAPE(2, 3)));
    assert_true(ph_shape_equal(&PH_SCALAR, &PH_SCALAR));
    assert_false(ph_shape_equal(&PH_SHAPE(2, 3), &PH_SHAPE(3, 2)));
    assert_false(ph_shape_equal(&PH_SHAPE(2), &PH_SHAPE(2, 1)));
    assert_false(ph_shape_equal(NULL, &PH_SCALAR));
    assert_false(ph_shape_equal(&PH_SCALAR, NULL));
}

TEST(shapes_and_dtypes_that_are_none_are_refused)
{
    size_t bytes;
    assert_ok(ph__shape_check(&bytes, PH_DTYPE_F64, &PH_SHAPE(5, 3), "call"));
    assert_int_equal(bytes, 120);
    assert_error(ph__shape_check(&bytes, (ph_dtype)9, &PH_SHAPE(5), "call"), PH_ERROR_ARGUMENT,
                 "call: 9 is no dtype");
    assert_error(ph__shape_check(&bytes, PH_DTYPE_F32, &(ph_shape){.rank = 9}, "call"),
                 PH_ERROR_ARGUMENT, "a rank of 9");
    assert_error(ph__shape_check(&bytes, PH_DTYPE_F32, &PH_SHAPE(5, -2), "call"), PH_ERROR_ARGUMENT,
                 "dimension 1 of f32[5, -2] is negative");
    assert_error(ph__shape_check(&bytes, PH_DTYPE_F32, &PH_SHAPE(INT64_MAX, 3), "call"),
                 PH_ERROR_SIZE, "f32[9223372036854775807, 3] has more elements");
    assert_error(ph__shape_check(&bytes, PH_DTYPE_F64, &PH_SHAPE(INT64_MAX / 8 + 1), "call"),
                 PH_ERROR_SIZE, "");
    assert_error(ph__shape_check(&bytes, PH_DTYPE_I64, &PH_SHAPE(INT64_MAX), "call"), PH_ERROR_SIZE,
                 "");
    assert_ok(ph__shape_check(&bytes, PH_DTYPE_U8, &PH_SHAPE(INT64_MAX), "call"));
}

TEST(strides_are_contiguous_and_extents_do_not_overflow)
{
    int64_t strides[PH_MAX_RANK];
    ph__shape_strides(strides, &PH_SHAPE(2, 3, 4));
    assert_memory_equal(strides, ((int64_t[]){12, 4, 1}), 24);
    ph__shape_strides(strides, &PH_SHAPE(2, 0, 4));
    assert_memory_equal(strides, ((int64_t[]){4, 4, 1}), 24);
    assert_int_equal(ph__shape_extent(&PH_SHAPE(2, 3, 4), (int64_t[]){12, 4, 1}), 24);
    assert_int_equal(ph__shape_extent(&PH_SHAPE(2, 3), (int64_t[]){1, 10}), 22);
    assert_int_equal(ph__shape_extent(&PH_SHAPE(5, 3), (int64_t[]){0, 1}), 3);
    assert_int_equal(ph__shape_extent(&PH_SHAPE(5, 0), (int64_t[]){7, 1}), 0);
    assert_int_equal(ph__shape_extent(&PH_SCALAR, NULL), 1);
    assert_int_equal(ph__shape_extent(&PH_SHAPE(2), (int64_t[]){-1}), -1);
    assert_int_equal(ph__shape_extent(&PH_SHAPE(2), (int64_t[]){INT64_MAX}), -1);
    assert_int_equal(ph__shape_extent(&PH_SHAPE(1), (int64_t[]){INT64_MAX}), 1);
    assert_int_equal(ph__shape_extent(&PH_SHAPE(INT64_MAX, 2), (int64_t[]){INT64_MAX, 1}), -1);
}

TEST(negative_axes_count_from_the_end)
{
    assert_int_equal(ph__axis(0, 3), 0);
    assert_int_equal(ph__axis(2, 3), 2);
    assert_int_equal(ph__axis(-1, 3), 2);
    assert_int_equal(ph__axis(-3, 3), 0);
    assert_int_equal(ph__axis(3, 3), -1);
    assert_int_equal(ph__axis(-4, 3), -1);
    assert_int_equal(ph__axis(0, 0), -1);
    assert_int_equal(ph__axis(INT32_MIN, 3), -1);
    assert_int_equal(ph__axis(PH_ALL_AXES, 3), -1);
}

TEST(shapes_broadcast_where_dimensions_are_equal_or_one)
{
    ph_shape out;
    assert_true(ph__shape_broadcast(&out, &PH_SHAPE(2, 1, 4), &PH_SHAPE(3, 1)));
    assert_true(ph_shape_equal(&out, &PH_SHAPE(2, 3, 4)));
    assert_true(ph__shape_broadcast(&out, &PH_SCALAR, &PH_SHAPE(3, 1)));
    assert_true(ph_shape_equal(&out, &PH_SHAPE(3, 1)));
    assert_true(ph__shape_broadcast(&out, &PH_SHAPE(0), &PH_SHAPE(5, 1)));
    assert_true(ph_shape_equal(&out, &PH_SHAPE(5, 0)));
    assert_false(ph__shape_broadcast(&out, &PH_SHAPE(0), &PH_SHAPE(5)));
    assert_false(ph__shape_broadcast(&out, &PH_SHAPE(2, 3), &PH_SHAPE(2, 4)));
    /* out may be an operand. */
    out = PH_SHAPE(4);
    assert_true(ph__shape_broadcast(&out, &out, &PH_SHAPE(3, 1)));
    assert_true(ph_shape_equal(&out, &PH_SHAPE(3, 4)));
}

TEST(axes_that_step_alike_are_merged)
{
    int64_t dims[PH_MAX_RANK] = {2, 3, 4}, strides[2][PH_MAX_RANK] = {{12, 4, 1}, {12, 4, 1}};
    assert_int_equal(ph__shape_coalesce(dims, strides, 2, 3), 1);
    assert_int_equal(dims[0], 24);
    assert_int_equal(strides[1][0], 1);
    /* The second steps over the first axis differently. */
    int64_t dims2[PH_MAX_RANK] = {2, 1, 3, 4},
            strides2[2][PH_MAX_RANK] = {{12, 7, 4, 1}, {0, 9, 4, 1}};
    assert_int_equal(ph__shape_coalesce(dims2, strides2, 2, 4), 2);
    assert_memory_equal(dims2, ((int64_t[]){2, 12}), 16);
    assert_memory_equal(strides2[0], ((int64_t[]){12, 1}), 16);
    assert_memory_equal(strides2[1], ((int64_t[]){0, 1}), 16);
    int64_t ones[PH_MAX_RANK] = {1, 1}, of_ones[1][PH_MAX_RANK] = {{5, 9}};
    assert_int_equal(ph__shape_coalesce(ones, of_ones, 1, 2), 1);
    assert_int_equal(ones[0], 1);
    assert_int_equal(ph__shape_coalesce(ones, of_ones, 1, 0), 1);
    assert_int_equal(ones[0], 1);
    int64_t none[PH_MAX_RANK] = {3, 0, 2}, of_none[1][PH_MAX_RANK] = {{0, 2, 1}};
    assert_int_equal(ph__shape_coalesce(none, of_none, 1, 3), 1);
    assert_int_equal(none[0], 0);
}

/* The element that index number n of a shape leads to. */
static int64_t place(int64_t n, const int64_t *dims, const int64_t *strides, size_t rank)
{
    int64_t at = 0;
    for (size_t i = rank; i-- > 0;) {
        at += n % dims[i] * strides[i];
        n /= dims[i];
    }
    return at;
}

/* Merged or not, the n-th element is the same one. */
TEST(test_coalesce_random)
{
    ph__rng rng;
    rng.state = 7;
    size_t merged = 0;
    for (int trial = 0; trial < 2000; trial++) {
        size_t rank = (size_t)ph__rng_below(&rng, 6), operands = 1 + (size_t)ph__rng_below(&rng, 3);
        int64_t dims[PH_MAX_RANK], strides[3][PH_MAX_RANK], new_dims[PH_MAX_RANK],
            new_strides[3][PH_MAX_RANK];
        int64_t count = 1;
        for (size_t i = 0; i < rank; i++) {
            dims[i] = 1 + (int64_t)ph__rng_below(&rng, 4);
            count *= dims[i];
        }
        for (size_t o = 0; o < operands; o++) {
            int64_t step = 1;
            for (size_t i = rank; i-- > 0;) {
                bool odd = ph__rng_below(&rng, 6) == 0;
                strides[o][i] = odd ? (int64_t)ph__rng_below(&rng, 3) * step : step;
                step = strides[o][i] ? strides[o][i] * dims[i] : step;
            }
        }
        memcpy(new_dims, dims, sizeof dims);
        memcpy(new_strides, strides, sizeof strides);
        size_t new_rank = ph__shape_coalesce(new_dims, new_strides, operands, rank);
        assert_true(new_rank >= 1 && new_rank <= (rank ? rank : 1));
        merged += new_rank < rank;
        for (size_t o = 0; o < operands; o++)
            for (int64_t n = 0; n < count; n++)
                assert_int_equal(place(n, dims, strides[o], rank),
                                 place(n, new_dims, new_strides[o], new_rank));
    }
    assert_true(merged > 500);
}

TEST(a_description_holds_the_longest_shape)
{
    char text[PH__DESCRIBE];
    ph_tensor x = {.dtype = PH_DTYPE_BF16, .shape = PH_SHAPE(2, 3)};
    assert_string_equal(ph__describe(text, &x), "bf16[2, 3]");
    x.shape = PH_SCALAR;
    assert_string_equal(ph__describe(text, &x), "bf16[]");
    assert_string_equal(ph__describe(text, NULL), "NULL");
    x.shape.rank = PH_MAX_RANK;
    for (size_t i = 0; i < PH_MAX_RANK; i++)
        x.shape.dim[i] = INT64_MIN;
    assert_int_equal(strlen(ph__describe(text, &x)), 4 + 2 + 8 * 20 + 7 * 2);
}

TEST(overlap_is_found_to_the_byte)
{
    char memory[64];
    ph_tensor a = {.dtype = PH_DTYPE_F32, .shape = PH_SHAPE(4), .stride = {1}, .data = memory};
    ph_tensor b = {.dtype = PH_DTYPE_U8, .shape = PH_SHAPE(4), .stride = {2}, .data = memory + 16};
    assert_false(ph__tensors_overlap(&a, &b));
    b.data = memory + 15;
    assert_true(ph__tensors_overlap(&a, &b));
    assert_true(ph__tensors_overlap(&b, &a));
    b.shape.dim[0] = 0;
    assert_false(ph__tensors_overlap(&a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_dtype_has_its_name_and_size),
        cmocka_unit_test(a_count_beyond_64_bits_is_none),
        cmocka_unit_test(shapes_and_dtypes_that_are_none_are_refused),
        cmocka_unit_test(strides_are_contiguous_and_extents_do_not_overflow),
        cmocka_unit_test(negative_axes_count_from_the_end),
        cmocka_unit_test(shapes_broadcast_where_dimensions_are_equal_or_one),
        cmocka_unit_test(axes_that_step_alike_are_merged),
        cmocka_unit_test(test_coalesce_random),
        cmocka_unit_test(a_description_holds_the_longest_shape),
        cmocka_unit_test(overlap_is_found_to_the_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
