/* SPDX-License-Identifier: MIT */
/* tests/unit/base_range_map.c: ranges in pieces, against a plain array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/range_map.h"
#include "base/rng.h"
#include "support/test.h"
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static size_t steps(void)
{
    const char *tier = getenv("PH_TEST_TIER");
    return tier && strcmp(tier, "nightly") == 0 ? 3000000 : 60000;
}

enum {
    SPACE = 6000
};

/* In order, without an empty piece, none longer than it may be. */
static void check_pieces(const ph__range_map *map)
{
    size_t count = 0;
    uintptr_t end = 0;
    for (size_t i = 0; i < map->piece_count; i++) {
        assert_in_range(map->pieces[i].count, 1, 128);
        for (size_t k = 0; k < map->pieces[i].count; k++) {
            assert_true(map->pieces[i].at[k].base >= end);
            end = map->pieces[i].at[k].base + map->pieces[i].at[k].size;
        }
        count += map->pieces[i].count;
    }
    assert_int_equal(count, map->count);
}

/* In the model, where all of [base, base + size) and what it touches becomes one. */
static uintptr_t cover(uintptr_t *owner, uintptr_t base, size_t size)
{
    uintptr_t begin = owner[base] ? owner[base] - 1 : base, end = base + size;
    uintptr_t last = owner[end - 1];
    while (last && end < SPACE && owner[end] == last)
        end++;
    for (uintptr_t a = begin; a < end; a++)
        owner[a] = begin + 1;
    return begin;
}

/* owner[a]: the base + 1 of the range that holds address a, or 0. */
TEST(test_range_map_against_model)
{
    static uintptr_t owner[SPACE];
    static char values[SPACE];
    ph__rng rng = {3};
    ph__range_map ranges = {0};
    memset(owner, 0, sizeof owner);
    for (size_t step = 0; step < steps(); step++) {
        uintptr_t base = ph__rng_below(&rng, SPACE);
        if (ph__rng_below(&rng, 20) == 0) {
            size_t size = 1 + ph__rng_below(&rng, 40);
            if (size > SPACE - base)
                size = SPACE - base;
            uintptr_t begin = cover(owner, base, size);
            assert_true(ph__range_map_cover(&ranges, base, size, &values[begin]));
        } else if (ph__rng_below(&rng, 2)) {
            size_t size = ph__rng_below(&rng, 12), free_bytes = 0;
            if (size > SPACE - base)
                size = SPACE - base;
            while (free_bytes < size && owner[base + free_bytes] == 0)
                free_bytes++;
            bool fits = size > 0 && free_bytes == size;
            assert_true(ph__range_map_add(&ranges, base, size, &values[base]) == fits);
            for (size_t i = 0; fits && i < size; i++)
                owner[base + i] = base + 1;
        } else {
            bool there = owner[base] == base + 1;
            assert_ptr_equal(ph__range_map_remove(&ranges, base), there ? &values[base] : NULL);
            for (size_t i = base; there && i < SPACE && owner[i] == base + 1; i++)
                owner[i] = 0;
        }
        uintptr_t address = ph__rng_below(&rng, SPACE);
        const ph__range *found = ph__range_map_find(&ranges, address);
        assert_true((found != NULL) == (owner[address] != 0));
        if (found) {
            assert_int_equal(found->base, owner[address] - 1);
            assert_ptr_equal(found->value, &values[found->base]);
        }
        const ph__range *from = ph__range_map_from(&ranges, address);
        while (address < SPACE && owner[address] == 0)
            address++;
        assert_true(from ? address < SPACE && from->base == owner[address] - 1 : address == SPACE);
        if (step % 101 == 0)
            check_pieces(&ranges);
    }
    ph__range_map_free(&ranges);
    assert_int_equal(ranges.count, 0);
}

TEST(test_range_map_at_the_ends)
{
    ph__range_map ranges = {0};
    int value;
    assert_null(ph__range_map_find(&ranges, 0));
    assert_null(ph__range_map_remove(&ranges, 0));
    assert_false(ph__range_map_add(&ranges, 100, 0, &value));
    assert_false(ph__range_map_add(&ranges, UINTPTR_MAX, 2, &value));
    assert_true(ph__range_map_add(&ranges, UINTPTR_MAX - 9, 10, &value));
    assert_true(ph__range_map_add(&ranges, 0, 10, &value));
    assert_false(ph__range_map_add(&ranges, 5, SIZE_MAX - 5, &value));
    assert_int_equal(ph__range_map_find(&ranges, UINTPTR_MAX)->base, UINTPTR_MAX - 9);
    assert_int_equal(ph__range_map_find(&ranges, 9)->base, 0);
    assert_null(ph__range_map_find(&ranges, 10));
    assert_null(ph__range_map_find(&ranges, UINTPTR_MAX - 10));
    assert_int_equal(ph__range_map_from(&ranges, 9)->base, 0);
    assert_int_equal(ph__range_map_from(&ranges, 10)->base, UINTPTR_MAX - 9);
    assert_int_equal(ph__range_map_from(&ranges, UINTPTR_MAX)->base, UINTPTR_MAX - 9);
    assert_true(ph__range_map_add(&ranges, 10, SIZE_MAX - 19, &value));
    assert_int_equal(ph__range_map_find(&ranges, UINTPTR_MAX - 10)->base, 10);
    assert_false(ph__range_map_cover(&ranges, 7, 0, &value));
    assert_false(ph__range_map_cover(&ranges, UINTPTR_MAX, 2, &value));
    assert_true(ph__range_map_cover(&ranges, 5, SIZE_MAX - 14, &ranges));
    assert_int_equal(ranges.count, 2);
    assert_ptr_equal(ph__range_map_find(&ranges, 0)->value, &ranges);
    assert_int_equal(ph__range_map_find(&ranges, UINTPTR_MAX - 10)->size, SIZE_MAX - 9);
    assert_ptr_equal(ph__range_map_find(&ranges, UINTPTR_MAX - 9)->value, &value);
    ph__range_map_free(&ranges);
}

/* What an addition or a removal moves: one piece, and the list of pieces, which is short. */
TEST(test_range_map_stays_in_short_pieces)
{
    enum {
        MANY = 50000
    };
    for (int order = 0; order < 3; order++) {
        ph__range_map ranges = {0};
        for (size_t i = 0; i < MANY; i++) {
            size_t at = order == 0 ? i : order == 1 ? MANY - 1 - i : i * 7919 % MANY;
            assert_true(ph__range_map_add(&ranges, 16 * at + 16, 16, &ranges));
        }
        check_pieces(&ranges);
        assert_in_range(ranges.piece_count, MANY / 128, MANY / 60);
        uintptr_t next = 0;
        for (size_t i = 0; i < MANY; i++) {
            const ph__range *range = ph__range_map_from(&ranges, next);
            assert_int_equal(range->base, 16 * i + 16);
            next = range->base + range->size;
        }
        assert_null(ph__range_map_from(&ranges, next));
        for (size_t i = 0; i < MANY; i++)
            assert_ptr_equal(ph__range_map_remove(&ranges, 16 * (i * 7919 % MANY) + 16), &ranges);
        assert_int_equal(ranges.piece_count, 0);
        ph__range_map_free(&ranges);
    }
}

TEST(test_range_map_failure_changes_nothing)
{
    ph__range_map ranges = {0};
    size_t failures = 0;
    for (uintptr_t i = 0; i < 200; i++) {
        ph__alloc_fail_after(0);
        bool added = ph__range_map_add(&ranges, (200 - i) * 16, 16, &ranges);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (!added) {
            failures++;
            assert_int_equal(ranges.count, i);
            assert_null(ph__range_map_find(&ranges, (200 - i) * 16));
            assert_true(ph__range_map_add(&ranges, (200 - i) * 16, 16, &ranges));
        }
    }
    assert_in_range(failures, 3, 20);
    for (uintptr_t i = 1; i <= 200; i++)
        assert_int_equal(ph__range_map_find(&ranges, i * 16 + 15)->base, i * 16);
    ph__range_map_free(&ranges);
}

FIXTURE(nothing_leaks)
{
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    return ph__alloc_live() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_range_map_against_model, nothing_leaks),
        cmocka_unit_test_teardown(test_range_map_at_the_ends, nothing_leaks),
        cmocka_unit_test_teardown(test_range_map_stays_in_short_pieces, nothing_leaks),
        cmocka_unit_test_teardown(test_range_map_failure_changes_nothing, nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
