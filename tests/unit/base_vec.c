/* SPDX-License-Identifier: MIT */
/* tests/unit/base_vec.c: growing arrays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "support/test.h"
#include <cmocka.h>

typedef struct wide {
    uint64_t words[5];
} wide;

TEST(test_push_keeps_order)
{
    PH__VEC(int) numbers = {0};
    for (int i = 0; i < 10000; i++)
        assert_true(ph__vec_push(&numbers, i * 3));
    assert_int_equal(numbers.count, 10000);
    assert_true(numbers.capacity >= numbers.count);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(numbers.at[i], i * 3);
    size_t capacity = numbers.capacity;
    ph__vec_clear(&numbers);
    assert_int_equal(numbers.count, 0);
    assert_int_equal(numbers.capacity, capacity);
    ph__vec_free(&numbers);
    assert_null(numbers.at);
    assert_int_equal(numbers.capacity, 0);
}

TEST(test_growth_is_geometric)
{
    PH__VEC(wide) many = {0};
    int64_t before = ph__alloc_count();
    for (uint64_t i = 0; i < 100000; i++)
        assert_true(ph__vec_push(&many, (wide){{i}}));
    assert_true(ph__alloc_count() - before < 20);
    assert_int_equal(many.at[99999].words[0], 99999);
    ph__vec_free(&many);
}

TEST(test_reserve_is_enough)
{
    PH__VEC(char) bytes = {0};
    assert_true(ph__vec_push(&bytes, 'x'));
    assert_true(ph__vec_reserve(&bytes, 1000));
    int64_t before = ph__alloc_count();
    for (int i = 0; i < 1000; i++)
        assert_true(ph__vec_push(&bytes, 'y'));
    assert_int_equal(ph__alloc_count(), before);
    size_t none = 0;
    assert_true(ph__vec_reserve(&bytes, none));
    ph__vec_free(&bytes);
}

TEST(test_failure_changes_nothing)
{
    PH__VEC(wide) some = {0};
    ph__alloc_fail_after(0);
    assert_false(ph__vec_push(&some, (wide){{1}}));
    assert_null(some.at);
    assert_int_equal(some.count, 0);
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    while (some.count < 8 || some.count < some.capacity)
        assert_true(ph__vec_push(&some, (wide){{some.count}}));
    wide *at = some.at;
    size_t count = some.count, capacity = some.capacity;
    ph__alloc_fail_after(0);
    assert_false(ph__vec_push(&some, (wide){{1}}));
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    assert_false(ph__vec_reserve(&some, SIZE_MAX));
    assert_false(ph__vec_reserve(&some, SIZE_MAX / sizeof(wide)));
    assert_ptr_equal(some.at, at);
    assert_int_equal(some.count, count);
    assert_int_equal(some.capacity, capacity);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(some.at[i].words[0], i);
    ph__vec_free(&some);
}

static int setup(void **state)
{
    static int64_t live;
    live = ph__alloc_live();
    *state = &live;
    return 0;
}

static int nothing_leaks(void **state)
{
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    return ph__alloc_live() == *(int64_t *)*state ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_push_keeps_order, setup, nothing_leaks),
        cmocka_unit_test_setup_teardown(test_growth_is_geometric, setup, nothing_leaks),
        cmocka_unit_test_setup_teardown(test_reserve_is_enough, setup, nothing_leaks),
        cmocka_unit_test_setup_teardown(test_failure_changes_nothing, setup, nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
