/* SPDX-License-Identifier: MIT */
/* tests/nn/structure.c: structures of nested inputs: how many tensors they have, where each of them is, and where two of them differ. */
#include "support/support.h"
#include <phonograph/graphed.h>
#include <stdlib.h>
#include <string.h>

#define TENSOR                                                                                               \
    {                                                                                                        \
        .kind = PH_STRUCTURE_TENSOR                                                                          \
    }
#define LIST(n, entries)                                                                                     \
    {                                                                                                        \
        .kind = PH_STRUCTURE_LIST, .count = (n), .children = (entries)                                       \
    }
#define DICT(n, names, entries)                                                                              \
    {                                                                                                        \
        .kind = PH_STRUCTURE_DICT, .count = (n), .keys = (names), .children = (entries)                      \
    }

/* [x, {state: {hidden: [a, b], cell: c}, mask: m}, [], y] */
static const char *const state_keys[] = {"hidden", "cell"}, *const keys[] = {"state", "mask"};
static const ph_structure hidden_and_cell[] = {LIST(2, NULL), TENSOR};
static const ph_structure state_and_mask[] = {DICT(2, state_keys, hidden_and_cell), TENSOR};
static const ph_structure whole_entries[] = {TENSOR, DICT(2, keys, state_and_mask), LIST(0, NULL), TENSOR};
static const ph_structure whole = LIST(4, whole_entries);
static const ph_structure top = DICT(2, keys, state_and_mask);

static void test_count(void **state)
{
    (void)state;
    const ph_structure tensor = TENSOR, flat = LIST(5, NULL), empty = LIST(0, NULL),
                       dict = DICT(2, keys, NULL);
    assert_int_equal(ph_structure_count(NULL), 0);
    assert_int_equal(ph_structure_count(&tensor), 1);
    assert_int_equal(ph_structure_count(&flat), 5);
    assert_int_equal(ph_structure_count(&empty), 0);
    assert_int_equal(ph_structure_count(&dict), 2);
    assert_int_equal(ph_structure_count(&whole), 6);
}

/* A list in a list in a list... around one tensor. */
static void nest(ph_structure *levels, size_t depth)
{
    levels[0] = (ph_structure){.kind = PH_STRUCTURE_TENSOR};
    for (size_t i = 1; i <= depth; i++)
        levels[i] = (ph_structure){.kind = PH_STRUCTURE_LIST, .count = 1, .children = &levels[i - 1]};
}

static void test_malformed(void **state)
{
    (void)state;
    static const char *const twice[] = {"a", "b", "a"}, *const null[] = {"a", NULL};
    const ph_structure wrong[] = {
        DICT(3, twice, NULL), DICT(2, null, NULL), DICT(1, NULL, NULL), {.kind = (ph_structure_kind)9}};
    ph_structure levels[18], around;
    char path[64], where[128];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        around = (ph_structure)LIST(1, &wrong[i]);
        assert_true(ph_structure_count(&wrong[i]) == SIZE_MAX);
        assert_true(ph_structure_count(&around) == SIZE_MAX);
        assert_int_equal(ph_structure_path(path, sizeof path, &around, 0), 3);
        assert_string_equal(path, "[0]");
    }
    assert_false(ph_structure_equal(&wrong[1], &wrong[1], where, sizeof where));
    assert_string_equal(where, "the structure: a key that is NULL, and a key that is NULL");
    assert_false(ph_structure_equal(&wrong[2], &wrong[2], NULL, 0));
    assert_false(ph_structure_equal(&wrong[3], &wrong[3], where, sizeof where));
    assert_string_equal(where, "the structure: an unknown kind, 9, and an unknown kind, 9");
    const ph_structure huge[] = {LIST(SIZE_MAX - 1, NULL), LIST(2, NULL)}, both = LIST(2, huge);
    assert_true(ph_structure_count(&both) == SIZE_MAX);
    nest(levels, 17);
    assert_int_equal(ph_structure_count(&levels[16]), 1);
    assert_true(ph_structure_equal(&levels[16], &levels[16], where, sizeof where));
    assert_true(ph_structure_count(&levels[17]) == SIZE_MAX);
    assert_false(ph_structure_equal(&levels[17], &levels[17], where, sizeof where));
    assert_non_null(strstr(where, "[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]: deeper than 16"));
}

static void expect_path(const ph_structure *structure, size_t index, const char *want)
{
    char path[64];
    assert_int_equal(ph_structure_path(path, sizeof path, structure, index), strlen(want));
    assert_string_equal(path, want);
    for (size_t size = 1; size <= strlen(want); size++) {
        memset(path, '#', sizeof path);
        assert_int_equal(ph_structure_path(path, size, structure, index), strlen(want));
        assert_int_equal(strlen(path), size - 1);
        assert_memory_equal(path, want, size - 1);
        assert_int_equal(path[size], '#');
    }
    assert_int_equal(ph_structure_path(NULL, 0, structure, index), strlen(want));
}

static void test_path(void **state)
{
    (void)state;
    static const char *const of_whole[] = {
        "[0]", "[1].state.hidden[0]", "[1].state.hidden[1]", "[1].state.cell", "[1].mask", "[3]"};
    static const char *const of_top[] = {"state.hidden[0]", "state.hidden[1]", "state.cell", "mask"};
    const ph_structure tensor = TENSOR, dict = DICT(2, keys, NULL);
    for (size_t i = 0; i < 6; i++)
        expect_path(&whole, i, of_whole[i]);
    for (size_t i = 0; i < 4; i++)
        expect_path(&top, i, of_top[i]);
    expect_path(&tensor, 0, "");
    expect_path(&dict, 1, "mask");
    expect_path(NULL, 3, "[3]");
    expect_path(&whole, 6, "[6]"); /* behind its end */
}

static void expect_different(const ph_structure *a, const ph_structure *b, const char *want)
{
    char where[200];
    assert_false(ph_structure_equal(a, b, where, sizeof where));
    assert_string_equal(where, want);
    memset(where, '#', sizeof where);
    assert_false(ph_structure_equal(a, b, where, 5));
    assert_int_equal(strlen(where), 4);
    assert_memory_equal(where, want, 4);
    assert_int_equal(where[5], '#');
    assert_false(ph_structure_equal(a, b, where, 0));
    assert_false(ph_structure_equal(a, b, NULL, 0));
}

static void expect_equal(const ph_structure *a, const ph_structure *b)
{
    char where[8] = "before";
    assert_true(ph_structure_equal(a, b, where, sizeof where));
    assert_string_equal(where, "");
    assert_true(ph_structure_equal(b, a, NULL, 0));
}

static void test_equal(void **state)
{
    (void)state;
    /* The same as whole, written otherwise. */
    char hidden[] = "hidden";
    const char *own_keys[] = {hidden, "cell"};
    const ph_structure two[] = {TENSOR, TENSOR}, cells[] = {LIST(2, two), TENSOR};
    const ph_structure masks[] = {DICT(2, own_keys, cells), TENSOR};
    const ph_structure entries[] = {TENSOR, DICT(2, keys, masks), LIST(0, NULL), TENSOR};
    const ph_structure other = LIST(4, entries), tensor = TENSOR;
    expect_equal(&whole, &whole);
    expect_equal(&whole, &other);
    expect_equal(&tensor, &(ph_structure){.kind = PH_STRUCTURE_TENSOR, .count = 3});
}

static void test_different(void **state)
{
    (void)state;
    static const char *const other_keys[] = {"hidden", "cells"}, *const turned[] = {"cell", "hidden"};
    ph_structure cells[] = {LIST(2, NULL), TENSOR}, masks[] = {DICT(2, state_keys, cells), TENSOR};
    const ph_structure entries[] = {TENSOR, DICT(2, keys, masks), LIST(0, NULL), TENSOR};
    const ph_structure other = LIST(4, entries), tensor = TENSOR;
    expect_equal(&whole, &other);
    cells[0].count = 3;
    expect_different(&whole, &other, "[1].state.hidden: a list of 2 entries, and a list of 3 entries");
    cells[0].count = 1;
    expect_different(&other, &whole, "[1].state.hidden: a list of 1 entry, and a list of 2 entries");
    cells[0] = tensor;
    expect_different(&whole, &other, "[1].state.hidden: a list of 2 entries, and a tensor");
    cells[0] = (ph_structure)LIST(2, NULL);
    masks[0].keys = other_keys;
    expect_different(&whole, &other, "[1].state: the key 'cell', and the key 'cells'");
    masks[0].keys = turned; /* the order counts */
    expect_different(&whole, &other, "[1].state: the key 'hidden', and the key 'cell'");
    masks[0].kind = PH_STRUCTURE_LIST;
    expect_different(&whole, &other, "[1].state: a dict of 2 entries, and a list of 2 entries");
    expect_different(&whole, &top, "the structure: a list of 4 entries, and a dict of 2 entries");
    expect_different(&tensor, &top, "the structure: a tensor, and a dict of 2 entries");
    const ph_structure dicts[] = {DICT(2, keys, NULL), DICT(2, turned, NULL)};
    expect_different(&dicts[0], &dicts[1], "the structure: the key 'state', and the key 'cell'");
}

/* NULL is a flat list of any length. */
static void test_flat(void **state)
{
    (void)state;
    const ph_structure two[] = {TENSOR, TENSOR}, flat = LIST(7, NULL), written = LIST(2, two),
                       empty = LIST(0, NULL), tensor = TENSOR;
    expect_equal(NULL, NULL);
    expect_equal(NULL, &flat);
    expect_equal(NULL, &written);
    expect_equal(NULL, &empty);
    expect_different(NULL, &tensor, "the structure: a flat list, and a tensor");
    expect_different(&tensor, NULL, "the structure: a tensor, and a flat list");
    expect_different(NULL, &top, "the structure: a flat list, and a dict of 2 entries");
    expect_different(NULL, &whole, "[1]: a tensor, and a dict of 2 entries");
    expect_different(&whole, NULL, "[1]: a dict of 2 entries, and a tensor");
}

/* Keys of any length: a place is cut short, and nothing runs over. */
static void test_long_keys(void **state)
{
    (void)state;
    enum {
        LONG = 1000
    };
    char *key = malloc(LONG + 1), *path = malloc(2 * LONG), where[100];
    assert_true(key && path);
    memset(key, 'k', LONG);
    key[LONG] = '\0';
    const char *names[] = {key};
    const ph_structure inner = LIST(3, NULL), less = LIST(2, NULL);
    const ph_structure a = DICT(1, names, &inner), b = DICT(1, names, &less);
    assert_int_equal(ph_structure_path(path, 2 * LONG, &a, 2), LONG + 3);
    assert_memory_equal(path, key, LONG);
    assert_string_equal(path + LONG, "[2]");
    assert_int_equal(ph_structure_path(path, 10, &a, 2), LONG + 3);
    assert_int_equal(strlen(path), 9);
    assert_false(ph_structure_equal(&a, &b, where, sizeof where));
    assert_int_equal(strlen(where), sizeof where - 1);
    free(key);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count),     cmocka_unit_test(test_malformed), cmocka_unit_test(test_path),
        cmocka_unit_test(test_equal),     cmocka_unit_test(test_different), cmocka_unit_test(test_flat),
        cmocka_unit_test(test_long_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
