/* SPDX-License-Identifier: MIT */
/* tests/nn/structure.c: structures: how many tensors they have, where each of them is, where two
 * of them differ, and graphed callables whose outputs nest. */
#include "support/graphed_nets.h"
#include "support/sweep.h"
#include "support/test.h"

#define TENSOR                                                                                     \
    {                                                                                              \
        .kind = PH_STRUCTURE_TENSOR                                                                \
    }
#define LIST(n, entries)                                                                           \
    {                                                                                              \
        .kind = PH_STRUCTURE_LIST, .count = (n), .children = (entries)                             \
    }
#define DICT(n, names, entries)                                                                    \
    {                                                                                              \
        .kind = PH_STRUCTURE_DICT, .count = (n), .keys = (names), .children = (entries)            \
    }

/* [x, {state: {hidden: [a, b], cell: c}, mask: m}, [], y] */
static const char *const state_keys[] = {"hidden", "cell"}, *const keys[] = {"state", "mask"};
static const ph_structure hidden_and_cell[] = {LIST(2, NULL), TENSOR};
static const ph_structure state_and_mask[] = {DICT(2, state_keys, hidden_and_cell), TENSOR};
static const ph_structure whole_entries[] = {TENSOR, DICT(2, keys, state_and_mask), LIST(0, NULL),
                                             TENSOR};
static const ph_structure whole = LIST(4, whole_entries);
static const ph_structure top = DICT(2, keys, state_and_mask);

TEST(a_structure_counts_its_tensors)
{
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
        levels[i] =
            (ph_structure){.kind = PH_STRUCTURE_LIST, .count = 1, .children = &levels[i - 1]};
}

TEST(malformed_structures_have_no_count_and_equal_none)
{
    static const char *const twice[] = {"a", "b", "a"}, *const null[] = {"a", NULL};
    const ph_structure wrong[] = {DICT(3, twice, NULL),
                                  DICT(2, null, NULL),
                                  DICT(1, NULL, NULL),
                                  {.kind = (ph_structure_kind)9}};
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
    assert_non_null(
        strstr(where, "[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]: deeper than 16"));
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

TEST(each_tensor_has_the_path_to_it)
{
    static const char *const of_whole[] = {
        "[0]", "[1].state.hidden[0]", "[1].state.hidden[1]", "[1].state.cell", "[1].mask", "[3]"};
    static const char *const of_top[] = {"state.hidden[0]", "state.hidden[1]", "state.cell",
                                         "mask"};
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

TEST(structures_written_otherwise_are_equal)
{
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

TEST(the_first_difference_of_structures_is_reported_with_its_path)
{
    static const char *const other_keys[] = {"hidden", "cells"}, *const turned[] = {"cell",
                                                                                    "hidden"};
    ph_structure cells[] = {LIST(2, NULL), TENSOR}, masks[] = {DICT(2, state_keys, cells), TENSOR};
    const ph_structure entries[] = {TENSOR, DICT(2, keys, masks), LIST(0, NULL), TENSOR};
    const ph_structure other = LIST(4, entries), tensor = TENSOR;
    expect_equal(&whole, &other);
    cells[0].count = 3;
    expect_different(&whole, &other,
                     "[1].state.hidden: a list of 2 entries, and a list of 3 entries");
    cells[0].count = 1;
    expect_different(&other, &whole,
                     "[1].state.hidden: a list of 1 entry, and a list of 2 entries");
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
TEST(null_is_a_flat_list_of_any_length)
{
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
TEST(test_long_keys)
{
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

/* ---- outputs that nest ---- of a, b: {sum: a + b, parts: [-a, {product: a b}]} */
static const char *const out_keys[] = {"sum", "parts"}, *const last_keys[] = {"product"},
                         *const in_keys[] = {"a", "b"};
static const ph_structure out_parts[] = {TENSOR, DICT(1, last_keys, NULL)};
static const ph_structure out_entries[] = {TENSOR, LIST(2, out_parts)};
static const ph_structure outputs = DICT(2, out_keys, out_entries), inputs = DICT(2, in_keys, NULL);

static void several(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = ph_add(tape, in[0], in[1]);
    out[1] = ph_neg(tape, in[0]);
    out[2] = ph_mul(tape, in[0], in[1]);
}

typedef struct nested {
    t_scene s;
    ph_module *plain, *graphed;
    ph_tensor *x, *in[2], *out[3];
} nested;

static ph_status graph(nested *n, const ph_structure *in_structure,
                       const ph_structure *out_structure)
{
    ph_tensor *const in[] = {n->x, n->x};
    const ph_sample sample = {
        .tensors = in, .count = 2, .structure = in_structure, .out_structure = out_structure};
    ph_module_release(n->graphed);
    return ph_make_graphed_callables(&n->graphed, &n->plain, &sample, 1, NULL);
}

static void nested_open(nested *n)
{
    *n = (nested){0};
    t_scene_open(&n->s);
    n->plain = gn_function(&n->s, "several", several, NULL, 2, 3);
    n->x = gn_sample(&n->s, PH_SHAPE(2), true);
}

static void nested_close(nested *n)
{
    assert_ok(ph_tape_clear(n->s.tape));
    ph_tensor_release(n->x);
    ph_module_release(n->plain);
    ph_module_release(n->graphed);
    t_scene_close(&n->s);
}

static void call_nested(nested *n, ph_module *module, const ph_structure *in,
                        const ph_structure *out)
{
    n->in[0] = t_input(&n->s, 1, 2);
    n->in[1] = t_input(&n->s, 3, 4);
    ph_call_structured(n->s.tape, module, n->out, 3, n->in, 2, in, out);
}

static void expect_call(nested *n, ph_module *module, const ph_structure *in,
                        const ph_structure *out)
{
    call_nested(n, module, in, out);
    t_expect_values(n->s.tape, n->out[0], PH_SHAPE(2), 4, 6);
    t_expect_values(n->s.tape, n->out[1], PH_SHAPE(2), -1, -2);
    t_expect_values(n->s.tape, n->out[2], PH_SHAPE(2), 3, 8);
    assert_ok(ph_tape_clear(n->s.tape));
}

static void expect_call_refused(nested *n, ph_module *module, const ph_structure *out,
                                const char *words)
{
    memset(n->out, 1, sizeof n->out);
    call_nested(n, module, &inputs, out);
    for (int i = 0; i < 3; i++)
        assert_null(n->out[i]);
    t_expect_failure(&n->s, PH_ERROR_ARGUMENT, words);
}

/* What is kept is a copy; messages and the description say where an output is. */
TEST(a_callable_keeps_a_copy_of_its_output_structure)
{
    nested n;
    nested_open(&n);
    char sum[] = "sum", *text;
    const char *own_keys[] = {sum, "parts"};
    ph_structure own_parts[] = {TENSOR, DICT(1, last_keys, NULL)};
    ph_structure own_entries[] = {TENSOR, LIST(2, own_parts)}, own = DICT(2, own_keys, own_entries);
    assert_ok(graph(&n, &inputs, &own));
    sum[0] = 'g';
    own.kind = own_parts[1].kind = PH_STRUCTURE_TENSOR;
    expect_call(&n, n.graphed, &inputs, &outputs);
    expect_call(&n, n.graphed, &inputs, NULL);
    const ph_structure *in = NULL, *out = NULL;
    assert_ok(ph_graphed_callable_structures(&in, &out, n.graphed));
    expect_equal(in, &inputs);
    expect_equal(out, &outputs);
    expect_call(&n, n.graphed, in, out);
    ph_module_train(n.graphed,
                    /* the original is called, and the structures are compared all the same */
                    false);
    expect_call(&n, n.graphed, &inputs, &outputs);
    expect_call_refused(&n, n.graphed, &(ph_structure)LIST(3, NULL), "its outputs must nest");
    ph_module_train(n.graphed, true);
    assert_int_equal(gn_info(n.graphed).forward_calls, 3);
    assert_ok(ph_graphed_callable_describe(&text, n.graphed));
    assert_non_null(strstr(text, "\n  gradient of output sum "));
    assert_non_null(strstr(text, "\n  gradient of output parts[0] "));
    assert_non_null(strstr(text, "\n  gradient of output parts[1].product "));
    ph_string_free(text);
    nested_close(&n);
}

TEST(test_outputs_differ)
{
    static const char *const turned_keys[] = {"parts", "sum"}, *const twice[] = {"sum", "parts",
                                                                                 "sum"};
    static const ph_structure part_tensors[] = {TENSOR, LIST(2, NULL)};
    static const struct {
        ph_structure structure;
        const char *words;
    } wrong[] = {
        {DICT(2, turned_keys, out_entries), "'several': its outputs must nest as in its sample"},
        {DICT(2, turned_keys, out_entries), "the structure: the key 'sum', and the key 'parts'"},
        {DICT(2, out_keys, part_tensors), "parts[1]: a dict of 1 entry, and a tensor"},
        {LIST(3, NULL), "the structure: a dict of 2 entries, and a list of 3 entries"},
        {DICT(3, twice, NULL), "ph_call_structured: the structure of the outputs is malformed"},
        {LIST(2, NULL), "has not as many tensors as the call: 3"},
    };
    const ph_structure flat = LIST(3, NULL), many = LIST(4, NULL);
    nested n;
    nested_open(&n);
    assert_ok(graph(&n, &inputs, &outputs));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        expect_call_refused(&n, n.graphed, &wrong[i].structure, wrong[i].words);
    assert_int_equal(gn_info(n.graphed).forward_calls, 0);
    /* A module that is not graphed has nothing to compare with; the count is a matter of the
     * call alone. */
    expect_call(&n, n.plain, NULL, &flat);
    expect_call(&n, n.plain, NULL, &outputs);
    expect_call_refused(&n, n.plain, &many, "the structure of the outputs");
    /* A sample without a structure: a flat list. */
    assert_ok(graph(&n, &inputs, NULL));
    expect_call(&n, n.graphed, &inputs, &flat);
    expect_call_refused(&n, n.graphed, &outputs,
                        "the structure: a flat list, and a dict of 2 entries");
    nested_close(&n);
}

TEST(test_outputs_refused)
{
    static const char *const twice[] = {"a", "b", "a"};
    const ph_structure wrong[] = {
        LIST(2, NULL), LIST(4, NULL), DICT(3, twice, NULL), TENSOR, {.kind = (ph_structure_kind)9}};
    nested n;
    nested_open(&n);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_error(
            graph(&n, &inputs, &wrong[i]), PH_ERROR_ARGUMENT,
            "the structure of the outputs of callable 0 (several) is malformed, or has not as many "
            "tensors as the module has outputs: 3");
        assert_null(n.graphed);
    }
    nested_close(&n);
}

TEST(test_structures_of_callables)
{
    nested n;
    nested_open(&n);
    const ph_structure *in = &inputs, *out = &outputs;
    assert_error(ph_graphed_callable_structures(&in, &out, NULL), PH_ERROR_ARGUMENT, "module");
    assert_null(in);
    assert_null(out);
    in = &inputs;
    out = &outputs;
    assert_error(ph_graphed_callable_structures(&in, &out, n.plain), PH_ERROR_STATE, "several");
    assert_null(in);
    assert_null(out);
    assert_ok(graph(&n, NULL, &outputs));
    in = &inputs;
    assert_ok(ph_graphed_callable_structures(&in, NULL, n.graphed));
    assert_null(in);
    assert_ok(ph_graphed_callable_structures(NULL, &out, n.graphed));
    expect_equal(out, &outputs);
    assert_ok(graph(&n, &inputs, NULL));
    assert_ok(ph_graphed_callable_structures(&in, &out, n.graphed));
    expect_equal(in, &inputs);
    assert_null(out);
    assert_ok(ph_graphed_callable_structures(NULL, NULL, n.graphed));
    nested_close(&n);
}

static void writer(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    ph_tensor_fill(tape, in[1], 5);
    out[0] = ph_add(tape, in[0], in[1]);
}

/* One that cannot be rebound is called by its name. */
TEST(test_input_not_rebound)
{
    t_scene s;
    t_scene_open(&s);
    ph_module *plain = gn_function(&s, "writer", writer, NULL, 2, 1), *graphed;
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), false), *y = gn_sample(&s, PH_SHAPE(2), false);
    ph_tensor *const in[] = {x, y};
    const ph_sample sample = {.tensors = in, .count = 2, .structure = &inputs};
    assert_error(ph_make_graphed_callables(&graphed, &plain, &sample, 1,
                                           &(ph_graphed_options){.inputs = PH_GRAPHED_REBIND}),
                 PH_ERROR_UNSUPPORTED,
                 "input b cannot be rebound, as was asked for: the module writes to it");
    assert_null(graphed);
    ph_tensor_release(x);
    ph_tensor_release(y);
    ph_module_release(plain);
    t_scene_close(&s);
}

/* Both structures are copied early: the first allocations of a making are enough. */
TEST(test_copies_without_memory)
{
    enum {
        FIRST = 48
    };
    nested n;
    nested_open(&n);
    for (int i = 0; i < 2; i++) /* what is made once for a device is there */
        assert_ok(graph(&n, &inputs, &outputs));
    ph_module_release(n.graphed);
    n.graphed = NULL;
    assert_ok(ph_device_synchronize(n.s.device));
    int64_t held = ph__alloc_live();
    for (int i = 0; i < FIRST; i++) {
        t_host_memory_fault.arm(i);
        ph_status status = graph(&n, &inputs, &outputs);
        assert_true(t_host_memory_fault.disarm());
        assert_true(t_host_memory_fault.expects(status));
        assert_null(n.graphed);
        assert_int_equal(ph__alloc_live(), held);
    }
    nested_close(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_structure_counts_its_tensors),
        cmocka_unit_test(malformed_structures_have_no_count_and_equal_none),
        cmocka_unit_test(each_tensor_has_the_path_to_it),
        cmocka_unit_test(structures_written_otherwise_are_equal),
        cmocka_unit_test(the_first_difference_of_structures_is_reported_with_its_path),
        cmocka_unit_test(null_is_a_flat_list_of_any_length),
        cmocka_unit_test(test_long_keys),
        cmocka_unit_test(a_callable_keeps_a_copy_of_its_output_structure),
        cmocka_unit_test(test_outputs_differ),
        cmocka_unit_test(test_outputs_refused),
        cmocka_unit_test(test_structures_of_callables),
        cmocka_unit_test(test_input_not_rebound),
        cmocka_unit_test(test_copies_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
