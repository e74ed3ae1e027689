/* SPDX-License-Identifier: MIT */
/* tests/unit/record_diff.c: records made up at random, and copies in other memory with one thing
 * changed: the difference is that one, and nothing else; and what a comparison costs. */
#include "support/support.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "record/diff/diff.h"
#include "record/diff/rules.h"
#include "support/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SPARE = 1, /* nodes that are added */
    ALLOCATIONS = 7,
    WORDS = 3
};

/* A node: what ph_record_create takes, and all that this points at. */
typedef struct node {
    ph_record_source_node source;
    char name[24];
    size_t dependencies[8];
    ph_word words[WORDS];
    ph_annotation_pair pair;
} node;

typedef struct model {
    node *nodes;
    size_t count;
} model;

static const char *const names[] = {"saxpy", "add", "mul", "softmax", "layer_norm"};

/* ---- random models ---- */

static void put_word(node *to, size_t w, const char *name, ph_word_kind kind, size_t allocation,
                     uint64_t value)
{
    ph_word *word = &to->words[w];
    *word = (ph_word){.kind = kind, .name = name, .offset = 8 * w, .value = value};
    if (kind == PH_WORD_VALUE)
        return;
    word->base = (const void *)(uintptr_t)(0x100000 * (allocation + 1));
    word->value += 0x100000 * (allocation + 1);
    word->allocation_bytes = 4096;
}

/* The first nodes address one allocation each, so that all of them have been met when something
 * is changed. */
static void put_node(ph__rng *rng, node *to, size_t index)
{
    *to = (node){
        .source = {.info = {.kind = PH_NODE_KERNEL, .args_size = 8 * WORDS, .word_count = WORDS}}};
    ph_node_info *info = &to->source.info;
    (void)snprintf(to->name, sizeof to->name, "%s", names[ph__rng_below(rng, 5)]);
    for (int i = 0; i < 3; i++)
        info->grid[i] = info->block[i] = 1 + (uint32_t)ph__rng_below(rng, 2);
    put_word(to, 0, "x", PH_WORD_PROVED,
             index < ALLOCATIONS ? index : ph__rng_below(rng, ALLOCATIONS),
             64 * ph__rng_below(rng, 3));
    put_word(to, 1, "y", PH_WORD_SUSPECTED,
             index < ALLOCATIONS ? index : ph__rng_below(rng, ALLOCATIONS), 0);
    put_word(to, 2, "n", PH_WORD_VALUE, 0, 1000 + index);
    to->pair = (ph_annotation_pair){
        .key = "layer", .type = PH_ANNOTATION_INTEGER, .integer = (int64_t)index / 10};
    to->source.annotation_count = 1;
    size_t first = index > 3 ? index - 3 : 0;
    for (size_t d = first; d < index; d++)
        if (d + 1 == index || ph__rng_below(rng, 3) == 0)
            to->dependencies[info->dependency_count++] = d;
}

static model random_model(ph__rng *rng, size_t count)
{
    model m = {calloc(count + SPARE, sizeof *m.nodes), count};
    assert_non_null(m.nodes);
    for (size_t i = 0; i < count; i++)
        put_node(rng, &m.nodes[i], i);
    return m;
}

/* The same work with its allocations elsewhere. */
static model moved(const model *from)
{
    model m = {calloc(from->count + SPARE, sizeof *m.nodes), from->count};
    assert_non_null(m.nodes);
    for (size_t i = 0; i < from->count; i++) {
        m.nodes[i] = from->nodes[i];
        for (size_t w = 0; w < WORDS; w++) {
            ph_word *word = &m.nodes[i].words[w];
            size_t at = (uintptr_t)word->base / 0x100000;
            if (!word->base)
                continue;
            word->value += 0x7000000 - 0x400000 * at;
            word->base = (const void *)(uintptr_t)(0x7000000 - 0x300000 * at);
            word->allocation_bytes += 512; /* as an allocator rounds it */
        }
    }
    return m;
}

static ph_record *record_of(model *m)
{
    ph_record *record;
    ph_record_source_node *nodes = calloc(m->count + 1, sizeof *nodes);
    assert_non_null(nodes);
    for (size_t i = 0; i < m->count; i++) {
        node *from = &m->nodes[i];
        from->source.info.name = from->name;
        from->source.dependencies = from->dependencies;
        from->source.words = from->words;
        from->source.annotation = &from->pair;
        nodes[i] = from->source;
    }
    assert_ok(ph_record_create(&record, nodes, m->count));
    free(nodes);
    return record;
}

static ph_diff *diff_of(model *a, model *b)
{
    ph_diff *diff;
    ph_record *mine = record_of(a), *theirs = record_of(b);
    assert_ok(ph_record_diff(&diff, mine, theirs));
    ph_record_destroy(mine);
    ph_record_destroy(theirs);
    return diff;
}

/* ---- one change ---- each returns what is to be found. */
typedef ph_change planter(ph__rng *rng, model *m, size_t at);

static ph_change plant_value(ph__rng *rng, model *m, size_t at)
{
    m->nodes[at].words[2].value += 1 + ph__rng_below(rng, 1000000);
    return (ph_change){.kind = PH_CHANGE_VALUE, .a = at, .b = at};
}

static ph_change plant_offset(ph__rng *rng, model *m, size_t at)
{
    m->nodes[at].words[0].value += 4 + ph__rng_below(rng, 60);
    return (ph_change){.kind = PH_CHANGE_ADDRESS, .a = at, .b = at};
}

static ph_change plant_allocation(ph__rng *rng, model *m, size_t at)
{
    ph_word *word = &m->nodes[at].words[ph__rng_below(rng, 2)];
    const ph_word *other;
    do {
        other = &m->nodes[ph__rng_below(rng, ALLOCATIONS)].words[0];
    } while (other->base == word->base);
    word->value += (uintptr_t)other->base - (uintptr_t)word->base;
    word->base = other->base;
    return (ph_change){.kind = PH_CHANGE_ADDRESS, .a = at, .b = at};
}

static ph_change plant_dims(ph__rng *rng, model *m, size_t at)
{
    m->nodes[at].source.info.grid[ph__rng_below(rng, 3)] += 7;
    return (ph_change){.kind = PH_CHANGE_DIMENSIONS, .a = at, .b = at};
}

static ph_change plant_kernel(ph__rng *rng, model *m, size_t at)
{
    (void)snprintf(m->nodes[at].name, sizeof m->nodes[at].name, "other%u",
                   (unsigned)ph__rng_below(rng, 9));
    return (ph_change){.kind = PH_CHANGE_KERNEL, .a = at, .b = at};
}

static ph_change plant_kind(ph__rng *rng, model *m, size_t at)
{
    ph_node_info *info = &m->nodes[at].source.info;
    size_t dependencies = info->dependency_count;
    *info = (ph_node_info){.kind = PH_NODE_MEMSET,
                           .bytes = ph__rng_below(rng, 100),
                           .value_size = 4,
                           .dependency_count = dependencies};
    (void)snprintf(m->nodes[at].name, sizeof m->nodes[at].name, "memset");
    return (ph_change){.kind = PH_CHANGE_KIND, .a = at, .b = at, .blocks_update = true};
}

static ph_change plant_edge(ph__rng *rng, model *m, size_t at)
{
    node *to = &m->nodes[at];
    size_t count = to->source.info.dependency_count, place = ph__rng_below(rng, count);
    if (count > 1 && ph__rng_below(rng, 2)) {
        memmove(to->dependencies + place, to->dependencies + place + 1,
                (count - place - 1) * sizeof(size_t));
        to->source.info.dependency_count--;
    } else {
        memmove(to->dependencies + 1, to->dependencies, count * sizeof(size_t));
        to->dependencies[0] = 0;
        to->source.info.dependency_count++;
    }
    return (ph_change){.kind = PH_CHANGE_EDGE, .a = at, .b = at, .blocks_update = true};
}

static ph_change plant_annotation(ph__rng *rng, model *m, size_t at)
{
    m->nodes[at].pair.integer += 1 + (int64_t)ph__rng_below(rng, 5);
    return (ph_change){.kind = PH_CHANGE_ANNOTATION, .a = at, .b = at};
}

/* What depended on the node depends on what that depended on. */
static void bridge(node *to, const node *gone, size_t at)
{
    size_t list[8], count = 0, kept = 0;
    for (size_t d = 0; d < to->source.info.dependency_count; d++) {
        size_t dependency = to->dependencies[d];
        if (dependency != at)
            list[count++] = dependency > at ? dependency - 1 : dependency;
        for (size_t g = 0; dependency == at && g < gone->source.info.dependency_count; g++)
            list[count++] = gone->dependencies[g];
    }
    for (size_t want = 0; want < at + 5 && kept < 8; want++)
        for (size_t i = 0; i < count; i++)
            if (list[i] == want) {
                to->dependencies[kept++] = want;
                break;
            }
    to->source.info.dependency_count = kept;
}

static ph_change plant_removal(ph__rng *rng, model *m, size_t at)
{
    (void)rng;
    node gone = m->nodes[at];
    memmove(m->nodes + at, m->nodes + at + 1, (m->count - at - 1) * sizeof *m->nodes);
    m->count--;
    for (size_t i = at; i < m->count; i++) {
        node *to = &m->nodes[i];
        if (i < at + 4) {
            bridge(to, &gone, at);
            continue;
        }
        for (size_t d = 0; d < to->source.info.dependency_count; d++)
            to->dependencies[d]--;
    }
    return (ph_change){.kind = PH_CHANGE_REMOVED, .a = at, .b = SIZE_MAX, .blocks_update = true};
}

/* Between a node and nothing. */
static ph_change plant_addition(ph__rng *rng, model *m, size_t at)
{
    memmove(m->nodes + at + 1, m->nodes + at, (m->count - at) * sizeof *m->nodes);
    m->count++;
    put_node(rng, &m->nodes[at], at);
    m->nodes[at].words[2].value = 77;
    for (size_t i = at + 1; i < m->count; i++)
        for (size_t d = 0; d < m->nodes[i].source.info.dependency_count; d++)
            m->nodes[i].dependencies[d] += m->nodes[i].dependencies[d] >= at;
    return (ph_change){.kind = PH_CHANGE_ADDED, .a = SIZE_MAX, .b = at, .blocks_update = true};
}

static planter *const planters[] = {
    plant_value, plant_offset, plant_allocation, plant_dims,    plant_kernel,
    plant_kind,  plant_edge,   plant_annotation, plant_removal, plant_addition};

static ph_change_kind mirrored(ph_change_kind kind)
{
    return kind == PH_CHANGE_ADDED     ? PH_CHANGE_REMOVED
           : kind == PH_CHANGE_REMOVED ? PH_CHANGE_ADDED
                                       : kind;
}

static void expect_one(const ph_diff *diff, const ph_change *want, bool mirror, uint64_t seed)
{
    ph_change got = {0};
    char *text;
    assert_ok(ph_diff_text(&text, diff));
    size_t a = mirror ? want->b : want->a, b = mirror ? want->a : want->b;
    ph_change_kind kind = mirror ? mirrored(want->kind) : want->kind;
    if (ph_diff_count(diff) > 0)
        assert_ok(ph_diff_at(&got, diff, 0));
    if (ph_diff_count(diff) != 1 || got.kind != kind || got.a != a || got.b != b ||
        got.blocks_update != want->blocks_update)
        fail_msg("seed %llu: expected %s of %zd and %zd alone, but:\n%s", (unsigned long long)seed,
                 ph_change_kind_name(kind), (ssize_t)a, (ssize_t)b, text);
    assert_int_equal(got.rule != NULL, got.blocks_update);
    assert_non_null(strstr(text, got.text));
    assert_non_null(strstr(text, got.blocks_update ? "an update is not possible: "
                                                   : "an update is possible\n"));
    ph_string_free(text);
}

static void round_of(uint64_t seed)
{
    ph__rng rng = {seed};
    size_t count = ALLOCATIONS + 6 + ph__rng_below(&rng, 60);
    model a = random_model(&rng, count), b = moved(&a);
    ph_diff *diff = diff_of(&a, &b);
    if (ph_diff_count(diff) != 0)
        fail_msg("seed %llu: the same work in other memory is alike", (unsigned long long)seed);
    ph_diff_destroy(diff);
    size_t at = ALLOCATIONS + 1 + ph__rng_below(&rng, count - ALLOCATIONS - 1);
    ph_change want =
        planters[ph__rng_below(&rng, sizeof planters / sizeof planters[0])](&rng, &b, at);
    diff = diff_of(&a, &b);
    expect_one(diff, &want, false, seed);
    ph_diff_destroy(diff);
    diff = diff_of(&b, &a);
    expect_one(diff, &want, true, seed);
    ph_diff_destroy(diff);
    free(a.nodes);
    free(b.nodes);
}

TEST(planted_changes_are_found_alone)
{
    for (uint64_t seed = 1; seed <= (t_nightly() ? 20000 : 400); seed++)
        round_of(seed);
}

/* ---- any two records ---- */

static size_t count_kind(const ph_diff *diff, ph_change_kind kind)
{
    size_t count = 0;
    ph_change change;
    for (size_t i = 0; i < ph_diff_count(diff); i++) {
        assert_ok(ph_diff_at(&change, diff, i));
        count += change.kind == kind;
    }
    return count;
}

/* From b to a is what from a to b is, the other way round. */
TEST(unlike_records_mirror_each_other)
{
    ph__rng rng = {7};
    for (int round = 0; round < (t_nightly() ? 2000 : 60); round++) {
        model a = random_model(&rng, ph__rng_below(&rng, 40)),
              b = random_model(&rng, ph__rng_below(&rng, 40));
        ph_diff *there = diff_of(&a, &b), *back = diff_of(&b, &a);
        /* which address is the first to differ depends on the direction */
        for (int kind = PH_CHANGE_ADDED; kind <= PH_CHANGE_ANNOTATION; kind++)
            if (kind != PH_CHANGE_ADDRESS)
                assert_int_equal(count_kind(there, (ph_change_kind)kind),
                                 count_kind(back, mirrored((ph_change_kind)kind)));
        assert_int_equal(a.count + count_kind(there, PH_CHANGE_ADDED),
                         b.count + count_kind(there, PH_CHANGE_REMOVED));
        ph_diff_destroy(there);
        ph_diff_destroy(back);
        free(a.nodes);
        free(b.nodes);
    }
}

/* The kind of a dependency goes with its pair, also behind nodes that were added; it blocks an
 * update. */
TEST(kinds_of_dependencies)
{
    const size_t both[] = {0, 1}, later[] = {0, 2};
    const ph_edge_kind early[] = {PH_EDGE_FULL, PH_EDGE_PROGRAMMATIC};
    ph_record_source_node nodes[4] = {
        {.info = {.kind = PH_NODE_KERNEL, .name = "first"}},
        {.info = {.kind = PH_NODE_KERNEL, .name = "second"}},
        {.info = {.kind = PH_NODE_KERNEL, .name = "third", .dependency_count = 2},
         .dependencies = both}};
    ph_record *full, *programmatic, *longer;
    ph_diff *diff;
    ph_change change;
    assert_ok(ph_record_create(&full, nodes, 3));
    nodes[2].dependency_kinds = early;
    assert_ok(ph_record_create(&programmatic, nodes, 3));
    nodes[3] = nodes[2];
    nodes[3].dependencies = later;
    nodes[2] = nodes[1];
    nodes[1].info.name = "added";
    assert_ok(ph_record_create(&longer, nodes, 4));
    for (int back = 0; back < 2; back++) {
        assert_ok(ph_record_diff(&diff, back ? programmatic : full, back ? full : programmatic));
        assert_int_equal(ph_diff_count(diff), 1);
        assert_ok(ph_diff_at(&change, diff, 0));
        assert_int_equal(change.kind, PH_CHANGE_EDGE);
        assert_true(change.blocks_update);
        assert_ptr_equal(change.rule, ph__rule_edges);
        assert_string_equal(change.text,
                            back ? "node 2 (third) depends on node 1: programmatic -> full"
                                 : "node 2 (third) depends on node 1: full -> programmatic");
        ph_diff_destroy(diff);
    }
    assert_ok(ph_record_diff(&diff, full, longer));
    assert_int_equal(ph_diff_count(diff), 2);
    assert_ok(ph_diff_at(&change, diff, 1));
    assert_string_equal(change.text,
                        "node 2 (third, now 3) depends on node 1: full -> programmatic");
    ph_diff_destroy(diff);
    assert_ok(ph_record_diff(&diff, programmatic, longer));
    assert_int_equal(ph_diff_count(diff), 1);
    ph_diff_destroy(diff);
    ph_record_destroy(full);
    ph_record_destroy(programmatic);
    ph_record_destroy(longer);
}

TEST(empty_records_are_alike_and_others_are_added)
{
    ph__rng rng = {3};
    model none = {0}, some = random_model(&rng, 5);
    ph_diff *diff = diff_of(&none, &none);
    char *text;
    assert_int_equal(ph_diff_count(diff), 0);
    assert_ok(ph_diff_text(&text, diff));
    assert_string_equal(text, "0 of 0 nodes are alike; an update is possible\n");
    ph_string_free(text);
    ph_diff_destroy(diff);
    diff = diff_of(&none, &some);
    assert_int_equal(count_kind(diff, PH_CHANGE_ADDED), 5);
    assert_int_equal(ph_diff_count(diff), 5);
    ph_diff_destroy(diff);
    free(some.nodes);
}

/* ---- large ones ---- work is counted, not timed. */

TEST(large_records_take_little_work)
{
    ph__rng rng = {11};
    model a = random_model(&rng, 20000), b = moved(&a);
    ph_diff *diff = diff_of(&a, &b);
    assert_int_equal(ph_diff_count(diff), 0);
    assert_true(ph__diff_steps(diff) <= 20000);
    ph_diff_destroy(diff);
    for (size_t i = 0; i < 10; i++)
        (void)plant_removal(&rng, &b, 1900 * (i + 1));
    for (size_t i = 0; i < 10; i++)
        (void)plant_kernel(&rng, &b, 1700 * (i + 1) + 40);
    diff = diff_of(&a, &b);
    assert_int_equal(count_kind(diff, PH_CHANGE_REMOVED), 10);
    assert_int_equal(count_kind(diff, PH_CHANGE_KERNEL), 10);
    assert_int_equal(ph_diff_count(diff), 20);
    assert_true(ph__diff_steps(diff) < 1000000);
    ph_diff_destroy(diff);
    free(b.nodes);
    b = random_model(&rng, 20000); /* nothing in common but the kernels' names and dimensions */
    b.count = 19000;
    diff = diff_of(&a, &b);
    assert_true(ph__diff_steps(diff) < 200000000);
    ph_diff_destroy(diff);
    free(a.nodes);
    free(b.nodes);
}

/* ---- host memory ---- */

TEST(each_allocation_fails)
{
    ph__rng rng = {5};
    model a = random_model(&rng, 30), b = random_model(&rng, 28);
    ph_record *mine = record_of(&a), *theirs = record_of(&b);
    int64_t live = ph__alloc_live(), n = 0;
    ph_status status;
    do {
        ph_diff *diff;
        char *text = NULL;
        ph__alloc_fail_after(n);
        status = ph_record_diff(&diff, mine, theirs);
        if (status == PH_OK)
            status = ph_diff_text(&text, diff);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        assert_true(status == PH_OK || status == PH_ERROR_HOST_MEMORY);
        if (status != PH_OK)
            assert_null(text);
        ph_string_free(text);
        ph_diff_destroy(diff);
        assert_int_equal(ph__alloc_live(), live);
        n++;
    } while (status != PH_OK);
    assert_true(n > 8);
    ph_record_destroy(mine);
    ph_record_destroy(theirs);
    free(a.nodes);
    free(b.nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_changes_are_found_alone),
        cmocka_unit_test(unlike_records_mirror_each_other),
        cmocka_unit_test(kinds_of_dependencies),
        cmocka_unit_test(empty_records_are_alike_and_others_are_added),
        cmocka_unit_test(large_records_take_little_work),
        cmocka_unit_test(each_allocation_fails),
    };
    return cmocka_run_group_tests_name("unit.record_diff", tests, NULL, NULL);
}
