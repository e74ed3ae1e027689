/* SPDX-License-Identifier: MIT */
/* tests/unit/base_map.c: the hash map and the sorted ranges, against plain arrays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/map.h"
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
    KEYS = 300
};

typedef struct model {
    uint64_t keys[KEYS];
    void *values[KEYS]; /* NULL: absent */
    size_t count;
} model;

static void check_map_is_model(const ph__map *map, const model *plain)
{
    size_t cursor = 0, seen = 0;
    uint64_t key;
    void *value;
    assert_int_equal(map->count, plain->count);
    for (size_t i = 0; i < KEYS; i++)
        assert_ptr_equal(ph__map_get(map, plain->keys[i]), plain->values[i]);
    while (ph__map_next(map, &cursor, &key, &value)) {
        assert_ptr_equal(ph__map_get(map, key), value);
        seen++;
    }
    assert_int_equal(seen, plain->count);
    assert_false(ph__map_next(map, &cursor, &key, &value));
}

/* kind 0: small numbers; 1: addresses in steps of 512; 2: numbers that differ in the high half
 * alone; 3: anything. */
static void fill_keys(model *plain, int kind, ph__rng *rng)
{
    for (size_t i = 0; i < KEYS; i++) {
        uint64_t n = i + 1;
        plain->keys[i] = kind == 0   ? n
                         : kind == 1 ? UINT64_C(0x7f0000000000) + n * 512
                         : kind == 2 ? n << 40
                                     : ph__rng_next(rng) | 1;
    }
}

TEST(test_random_against_model)
{
    static char values[1000];
    for (int kind = 0; kind < 4; kind++) {
        ph__rng rng = {(uint64_t)kind + 11};
        ph__map map = {0};
        model plain = {.count = 0};
        fill_keys(&plain, kind, &rng);
        for (size_t step = 0; step < steps(); step++) {
            /* Long spells of mostly adding and of mostly removing, so that the map is met full
             * and empty. */
            bool add = ph__rng_below(&rng, 10) < ((step / 2000) % 2 ? 3u : 7u);
            size_t i = ph__rng_below(&rng, KEYS);
            if (add) {
                void *value = &values[ph__rng_below(&rng, sizeof values)];
                assert_true(ph__map_put(&map, plain.keys[i], value));
                plain.count += plain.values[i] == NULL;
                plain.values[i] = value;
            } else {
                assert_ptr_equal(ph__map_remove(&map, plain.keys[i]), plain.values[i]);
                plain.count -= plain.values[i] != NULL;
                plain.values[i] = NULL;
            }
            if (step % 97 == 0)
                check_map_is_model(&map, &plain);
        }
        check_map_is_model(&map, &plain);
        ph__map_free(&map);
        assert_null(map.slots);
        assert_int_equal(map.count, 0);
    }
}

TEST(test_empty_map)
{
    ph__map map = {0};
    size_t cursor = 0;
    uint64_t key;
    void *value;
    assert_null(ph__map_get(&map, 5));
    assert_null(ph__map_remove(&map, 5));
    assert_false(ph__map_next(&map, &cursor, &key, &value));
    ph__map_free(&map);
    assert_true(ph__map_put(&map, UINT64_MAX, &map));
    assert_null(ph__map_get(&map, 5));
    assert_null(ph__map_get(&map, 0));
    assert_null(ph__map_remove(&map, 0));
    assert_ptr_equal(ph__map_get(&map, UINT64_MAX), &map);
    ph__map_free(&map);
}

TEST(test_reserve_then_puts_cannot_fail)
{
    ph__map map = {0};
    for (uint64_t round = 0; round < 8; round++) {
        size_t extra = (size_t)1 << (2 * round);
        assert_true(ph__map_reserve(&map, extra));
        ph__alloc_fail_after(0);
        for (size_t i = 0; i < extra; i++)
            assert_true(ph__map_put(&map, (round << 32) + i + 1, &map));
        ph__alloc_fail_after(PH__ALLOC_NEVER);
    }
    assert_false(ph__map_reserve(&map, SIZE_MAX));
    assert_false(ph__map_reserve(&map, SIZE_MAX / 2));
    assert_ptr_equal(ph__map_get(&map, (UINT64_C(7) << 32) + 1), &map);
    ph__map_free(&map);
}

TEST(test_failed_put_changes_nothing)
{
    ph__map map = {0};
    int other;
    size_t failures = 0;
    for (uint64_t key = 1; key <= 1000; key++) {
        ph__alloc_fail_after(0);
        bool put = ph__map_put(&map, key, &map);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (put)
            continue;
        failures++;
        assert_int_equal(map.count, key - 1);
        assert_null(ph__map_get(&map, key));
        if (key > 1) {
            ph__alloc_fail_after(0);
            assert_true(ph__map_put(&map, key - 1, &other));
            ph__alloc_fail_after(PH__ALLOC_NEVER);
            assert_ptr_equal(ph__map_get(&map, key - 1), &other);
        }
        assert_true(ph__map_put(&map, key, &map));
    }
    assert_in_range(failures, 5, 20);
    assert_int_equal(map.count, 1000);
    ph__map_free(&map);
}

enum {
    SPACE = 400
};

/* owner[a]: the base + 1 of the range that holds address a, or 0. */
TEST(test_ranges_against_model)
{
    static uintptr_t owner[SPACE];
    static char values[SPACE];
    ph__rng rng = {3};
    ph__ranges ranges = {0};
    memset(owner, 0, sizeof owner);
    for (size_t step = 0; step < steps(); step++) {
        uintptr_t base = ph__rng_below(&rng, SPACE);
        if (ph__rng_below(&rng, 2)) {
            size_t size = ph__rng_below(&rng, 12), free_bytes = 0;
            if (size > SPACE - base)
                size = SPACE - base;
            while (free_bytes < size && owner[base + free_bytes] == 0)
                free_bytes++;
            bool fits = size > 0 && free_bytes == size;
            assert_true(ph__ranges_add(&ranges, base, size, &values[base]) == fits);
            for (size_t i = 0; fits && i < size; i++)
                owner[base + i] = base + 1;
        } else {
            bool there = owner[base] == base + 1;
            assert_ptr_equal(ph__ranges_remove(&ranges, base), there ? &values[base] : NULL);
            for (size_t i = base; there && i < SPACE && owner[i] == base + 1; i++)
                owner[i] = 0;
        }
        uintptr_t address = ph__rng_below(&rng, SPACE);
        const ph__range *found = ph__ranges_find(&ranges, address);
        assert_true((found != NULL) == (owner[address] != 0));
        if (found) {
            assert_int_equal(found->base, owner[address] - 1);
            assert_ptr_equal(found->value, &values[found->base]);
        }
        const ph__range *from = ph__ranges_from(&ranges, address);
        while (address < SPACE && owner[address] == 0)
            address++;
        assert_true(from ? address < SPACE && from->base == owner[address] - 1 : address == SPACE);
        if (step % 101 == 0)
            for (size_t i = 1; i < ranges.count; i++)
                assert_true(ranges.at[i - 1].base + ranges.at[i - 1].size <= ranges.at[i].base);
    }
    ph__ranges_free(&ranges);
    assert_int_equal(ranges.count, 0);
}

TEST(test_ranges_at_the_ends)
{
    ph__ranges ranges = {0};
    int value;
    assert_null(ph__ranges_find(&ranges, 0));
    assert_null(ph__ranges_remove(&ranges, 0));
    assert_false(ph__ranges_add(&ranges, 100, 0, &value));
    assert_false(ph__ranges_add(&ranges, UINTPTR_MAX, 2, &value));
    assert_true(ph__ranges_add(&ranges, UINTPTR_MAX - 9, 10, &value));
    assert_true(ph__ranges_add(&ranges, 0, 10, &value));
    assert_false(ph__ranges_add(&ranges, 5, SIZE_MAX - 5, &value));
    assert_int_equal(ph__ranges_find(&ranges, UINTPTR_MAX)->base, UINTPTR_MAX - 9);
    assert_int_equal(ph__ranges_find(&ranges, 9)->base, 0);
    assert_null(ph__ranges_find(&ranges, 10));
    assert_null(ph__ranges_find(&ranges, UINTPTR_MAX - 10));
    assert_int_equal(ph__ranges_from(&ranges, 9)->base, 0);
    assert_int_equal(ph__ranges_from(&ranges, 10)->base, UINTPTR_MAX - 9);
    assert_int_equal(ph__ranges_from(&ranges, UINTPTR_MAX)->base, UINTPTR_MAX - 9);
    assert_true(ph__ranges_add(&ranges, 10, SIZE_MAX - 19, &value));
    assert_int_equal(ph__ranges_find(&ranges, UINTPTR_MAX - 10)->base, 10);
    ph__ranges_free(&ranges);
}

TEST(test_ranges_failure_changes_nothing)
{
    ph__ranges ranges = {0};
    size_t failures = 0;
    for (uintptr_t i = 0; i < 200; i++) {
        ph__alloc_fail_after(0);
        bool added = ph__ranges_add(&ranges, (200 - i) * 16, 16, &ranges);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (!added) {
            failures++;
            assert_int_equal(ranges.count, i);
            assert_null(ph__ranges_find(&ranges, (200 - i) * 16));
            assert_true(ph__ranges_add(&ranges, (200 - i) * 16, 16, &ranges));
        }
    }
    assert_in_range(failures, 3, 20);
    for (uintptr_t i = 1; i <= 200; i++)
        assert_int_equal(ph__ranges_find(&ranges, i * 16 + 15)->base, i * 16);
    ph__ranges_free(&ranges);
}

FIXTURE(nothing_leaks)
{
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    return ph__alloc_live() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_random_against_model, nothing_leaks),
        cmocka_unit_test_teardown(test_empty_map, nothing_leaks),
        cmocka_unit_test_teardown(test_reserve_then_puts_cannot_fail, nothing_leaks),
        cmocka_unit_test_teardown(test_failed_put_changes_nothing, nothing_leaks),
        cmocka_unit_test_teardown(test_ranges_against_model, nothing_leaks),
        cmocka_unit_test_teardown(test_ranges_at_the_ends, nothing_leaks),
        cmocka_unit_test_teardown(test_ranges_failure_changes_nothing, nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
