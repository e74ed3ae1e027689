/* SPDX-License-Identifier: MIT */
/* tests/unit/base_alloc.c: counting of host allocations and making the n-th fail; checked
 * arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "support/test.h"
#include <cmocka.h>
#include <pthread.h>
#include <string.h>

FIXTURE(stop_failing)
{
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    return 0;
}

TEST(allocations_are_counted_and_live_ones_too)
{
    int64_t live = ph__alloc_live(), count = ph__alloc_count();
    void *a = ph__alloc(10), *b = ph__calloc(3, 7), *c = ph__strdup("text");
    assert_non_null(a);
    assert_non_null(b);
    assert_string_equal(c, "text");
    assert_int_equal(ph__alloc_live() - live, 3);
    assert_int_equal(ph__alloc_count() - count, 3);
    a = ph__realloc(a, 1000);
    assert_non_null(a);
    assert_int_equal(ph__alloc_live() - live, 3);
    assert_int_equal(ph__alloc_count() - count, 4);
    void *d = ph__realloc(NULL, 5);
    assert_non_null(d);
    assert_int_equal(ph__alloc_live() - live, 4);
    ph__free(NULL);
    ph__free(a);
    ph__free(b);
    ph__free(c);
    ph__free(d);
    assert_int_equal(ph__alloc_live() - live, 0);
    assert_int_equal(ph__alloc_count() - count, 5);
}

TEST(sizes_of_zero_and_overflow_are_taken_care_of)
{
    int64_t live = ph__alloc_live(), count = ph__alloc_count();
    static const unsigned char zeros[64];
    assert_null(ph__strdup(NULL));
    assert_null(ph__calloc(SIZE_MAX / 2, 3));
    assert_int_equal(ph__alloc_count(), count);
    unsigned char *zeroed = ph__calloc(8, 8);
    assert_non_null(zeroed);
    assert_memory_equal(zeroed, zeros, sizeof zeros);
    void *none = ph__alloc(0), *nothing = ph__calloc(0, 8);
    assert_non_null(none);
    assert_non_null(nothing);
    zeroed = ph__realloc(zeroed, 0);
    assert_non_null(zeroed);
    assert_int_equal(ph__alloc_live() - live, 3);
    ph__free(none);
    ph__free(nothing);
    ph__free(zeroed);
    assert_int_equal(ph__alloc_live(), live);
}

TEST(test_nth_fails_and_all_after)
{
    for (int64_t n = 0; n < 5; n++) {
        int64_t live = ph__alloc_live(), count = ph__alloc_count();
        void *got[8];
        ph__alloc_fail_after(n);
        for (int64_t i = 0; i < 8; i++) {
            got[i] = i % 2 ? ph__alloc(16) : ph__calloc(4, 4);
            assert_true((got[i] != NULL) == (i < n));
        }
        assert_null(ph__strdup("x"));
        assert_null(ph__realloc(NULL, 4));
        assert_int_equal(ph__alloc_live() - live, n);
        assert_int_equal(ph__alloc_count() - count, n);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        for (int64_t i = 0; i < 8; i++)
            ph__free(got[i]);
        assert_int_equal(ph__alloc_live(), live);
    }
}

TEST(test_failed_realloc_keeps_the_old)
{
    char *text = ph__strdup("still here");
    assert_non_null(text);
    ph__alloc_fail_after(0);
    assert_null(ph__realloc(text, 1 << 20));
    assert_string_equal(text, "still here");
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    ph__free(text);
}

enum {
    THREADS = 4,
    EACH = 1000
};

static void *allocate_many(void *argument)
{
    int64_t *got = argument;
    for (int i = 0; i < EACH; i++) {
        void *p = ph__alloc(8);
        *got += p != NULL;
        ph__free(p);
    }
    return NULL;
}

static int64_t run_threads(void)
{
    pthread_t threads[THREADS];
    int64_t got[THREADS] = {0}, sum = 0;
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_many, &got[i]), 0);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        sum += got[i];
    }
    return sum;
}

TEST(test_exact_under_threads)
{
    int64_t live = ph__alloc_live(), count = ph__alloc_count();
    assert_int_equal(run_threads(), THREADS * EACH);
    ph__alloc_fail_after(1234);
    assert_int_equal(run_threads(), 1234);
    assert_int_equal(ph__alloc_live(), live);
    assert_int_equal(ph__alloc_count() - count, THREADS * EACH + 1234);
}

/* ---- tallies ---- */
enum {
    OWNERS = 80, /* more than there are tallies: some count with everybody */
    TURNS = 1000
};

static void *turn_blocks(void *tally)
{
    for (int i = 0; i < TURNS; i++) {
        ph__alloc_set_aside_by(tally);
        assert_true(ph__alloc_reuse_by(tally));
    }
    ph__alloc_set_aside_by(tally);
    return NULL;
}

TEST(blocks_that_owners_keep_are_counted_exactly)
{
    pthread_t threads[OWNERS];
    ph__alloc_tally *tallies[OWNERS];
    void *blocks[OWNERS];
    int64_t live = ph__alloc_live(), count = ph__alloc_count();
    size_t without = 0;
    for (size_t i = 0; i < OWNERS; i++) {
        assert_non_null(blocks[i] = ph__alloc(16));
        tallies[i] = ph__alloc_tally_claim();
        without += tallies[i] == NULL;
        for (size_t k = 0; tallies[i] && k < i; k++)
            assert_ptr_not_equal(tallies[i], tallies[k]);
    }
    assert_true(without > 0 && without < OWNERS);
    assert_int_equal(ph__alloc_live(), live + OWNERS);
    for (size_t i = 0; i < OWNERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, turn_blocks, tallies[i]), 0);
    for (size_t i = 0; i < OWNERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(ph__alloc_live(), live);
    assert_int_equal(ph__alloc_count() - count, OWNERS + OWNERS * TURNS);
    ph__alloc_fail_after(1);
    assert_true(ph__alloc_reuse_by(tallies[0]));
    assert_false(ph__alloc_reuse_by(tallies[0]));
    assert_false(ph__alloc_reuse_by(NULL));
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    assert_int_equal(ph__alloc_live(), live + 1);
    ph__alloc_set_aside_by(tallies[0]);
    for (size_t i = 0; i < OWNERS; i++) {
        ph__alloc_tally_give_back(tallies[i]);
        ph__alloc_drop(blocks[i]);
    }
    ph__alloc_tally *again = ph__alloc_tally_claim();
    assert_non_null(again);
    assert_int_equal(ph__alloc_live(), live);
    ph__alloc_tally_give_back(again);
}

TEST(test_checked_arithmetic)
{
    size_t out = 77;
    assert_false(ph__mul(SIZE_MAX, 2, &out));
    assert_false(ph__add(SIZE_MAX, 1, &out));
    assert_false(ph__round_up(SIZE_MAX - 10, 512, &out));
    assert_int_equal(out, 77);
    assert_true(ph__mul(6, 7, &out));
    assert_int_equal(out, 42);
    assert_true(ph__add(SIZE_MAX - 1, 1, &out));
    assert_true(out == SIZE_MAX);
    assert_true(ph__round_up(513, 512, &out));
    assert_int_equal(out, 1024);
    assert_true(ph__round_up(512, 512, &out));
    assert_int_equal(out, 512);
    assert_true(ph__round_up(0, 512, &out));
    assert_int_equal(out, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_counted_and_live_ones_too),
        cmocka_unit_test(sizes_of_zero_and_overflow_are_taken_care_of),
        cmocka_unit_test_teardown(test_nth_fails_and_all_after, stop_failing),
        cmocka_unit_test_teardown(test_failed_realloc_keeps_the_old, stop_failing),
        cmocka_unit_test_teardown(test_exact_under_threads, stop_failing),
        cmocka_unit_test_teardown(blocks_that_owners_keep_are_counted_exactly, stop_failing),
        cmocka_unit_test(test_checked_arithmetic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
