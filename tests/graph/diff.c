/* SPDX-License-Identifier: MIT */
/* tests/graph/diff.c: what differs between two captures, what an update says of it, and that the
 * two agree. */
#include "support/support.h"

#include "base/alloc.h"
#include "support/test.h"
#include <stdlib.h>
#include <string.h>

enum {
    N = 512,
    MANY = 1 << 20 /* bytes of a fill that no driver makes a kernel of */
};

/* One capture: zero is the plain one. Its nodes are a fill, a memset, a copy, then an add on
 * another stream, one on the first, and one behind both. */
typedef struct variant {
    int32_t value;    /* of the fill */
    uint32_t element; /* of the memset */
    size_t n;         /* of the last add, instead of N */
    size_t copied;    /* bytes, instead of all */
    bool float_fill, byte_elements, few_bytes, offset, from_host;
    bool added, removed, late_fork, programmatic, nested, annotated, kernel_for_copy, breadcrumbs,
        checked;
} variant;

static t_world world;
static ph_stream *side;
static ph_event *fork_event, *join_event;
static ph_graph *inner;
static int32_t *x, *z, *pinned;
static char *y;

FIXTURE(open_world)
{
    t_open(&world, NULL);
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(ph_event_create(&fork_event, world.device, NULL));
    assert_ok(ph_event_create(&join_event, world.device, NULL));
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(PH_NEW(&z, N, world.stream));
    assert_ok(PH_NEW(&y, MANY, world.stream));
    assert_ok(ph_malloc_pinned(&pinned, N, sizeof *pinned, world.stream));
    assert_ok(ph_graph_create(&inner, NULL));
    return 0;
}

FIXTURE(close_world)
{
    ph_graph_destroy(inner);
    ph_free(x, world.stream);
    ph_free(y, world.stream);
    ph_free(z, world.stream);
    ph_free_pinned(pinned, world.stream);
    ph_event_destroy(fork_event);
    ph_event_destroy(join_event);
    ph_stream_destroy(side);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

/* ---- captures ---- */

static ph_status fork_now(ph_stream *stream)
{
    PH_TRY(ph_event_record(fork_event, stream));
    return ph_stream_wait_event(side, fork_event);
}

static ph_status fill_memory(const variant *v, ph_stream *stream)
{
    size_t bytes = v->few_bytes ? 64 : MANY;
    if (v->byte_elements)
        return ph_memset(y, (uint8_t)v->element, bytes, stream);
    return ph_memset_u32(y, v->element, bytes / 4, stream);
}

static ph_status copy(const variant *v, ph_stream *stream)
{
    size_t bytes = v->copied ? v->copied : N * sizeof *z;
    if (v->kernel_for_copy)
        return t_add(&world, stream, x, z, N, 0);
    return ph_memcpy(z, v->from_host ? pinned : x, bytes, stream);
}

static ph_status add_behind(const variant *v, ph_stream *stream, int32_t *memory)
{
    size_t n = v->n ? v->n : N;
    struct t_add_i32 args = {n, memory, z, 1};
    ph_launch_config config = t_config(N);
    config.programmatic = v->programmatic;
    return ph_launch(stream, world.add_i32, &config, &args, sizeof args);
}

static ph_status work(const variant *v, ph_stream *stream, int32_t *memory)
{
    PH_TRY(v->float_fill ? t_fill_f(&world, stream, (float *)x, N, 1)
                         : t_fill(&world, stream, x, N, v->value));
    if (!v->late_fork)
        PH_TRY(fork_now(stream));
    PH_TRY(fill_memory(v, stream));
    PH_TRY(copy(v, stream));
    if (v->late_fork)
        PH_TRY(fork_now(stream));
    if (v->added)
        PH_TRY(t_fill_f(&world, stream, (float *)x, N, 2));
    PH_TRY(t_add(&world, side, x, v->offset ? memory + 4 : memory, 16, 5));
    if (v->checked)
        PH_TRY(ph_finite_check(stream, z, PH_NUMBER_F32, N, "z"));
    if (!v->removed)
        PH_TRY(t_add(&world, stream, z, x, N, 6));
    if (v->nested)
        PH_TRY(ph_graph_replay(inner, stream));
    PH_TRY(ph_event_record(join_event, side));
    PH_TRY(ph_stream_wait_event(stream, join_event));
    return add_behind(v, stream, memory);
}

/* With memory of its own, which is somewhere else in each capture. */
static ph_status body(ph_stream *stream, void *user)
{
    const variant *v = user;
    int32_t *memory;
    PH_TRY(PH_NEW(&memory, N, stream));
    if (v->annotated)
        PH_TRY(ph_annotation_push(stream, "layer", NULL));
    ph_status status = work(v, stream, memory);
    if (v->annotated)
        PH_TRY(ph_annotation_pop(stream));
    ph_free(memory, stream);
    return status;
}

static ph_graph *graph_of(variant v)
{
    ph_graph *made;
    ph_capture_options options = {.enable_annotations = v.annotated, .breadcrumbs = v.breadcrumbs};
    assert_ok(ph_graph_create(&made, NULL));
    assert_ok(ph_graph_capture(made, world.stream, &options, body, &v));
    return made;
}

static char *text_of(variant a, variant b)
{
    ph_graph *mine = graph_of(a), *theirs = graph_of(b);
    ph_diff *diff;
    char *text;
    assert_ok(ph_graph_diff(&diff, mine, theirs));
    ph_graph_destroy(mine);
    ph_graph_destroy(theirs); /* neither record is kept */
    assert_ok(ph_diff_text(&text, diff));
    ph_diff_destroy(diff);
    return text;
}

static void expect(variant b, const char *want)
{
    char *text = text_of((variant){0}, b);
    assert_string_equal(text, want);
    ph_string_free(text);
}

static void expect_part(variant a, variant b, const char *want)
{
    char *text = text_of(a, b);
    if (!strstr(text, want))
        fail_msg("%s\nis not in:\n%s", want, text);
    ph_string_free(text);
}

/* ---- what differs ---- */

TEST(the_same_work_in_other_memory_is_alike)
{
    expect((variant){0}, "6 of 6 nodes are alike; an update is possible\n");
}

TEST(each_changed_parameter_is_reported_with_both_values)
{
    expect((variant){.value = 7},
           "node 0 (fill_i32) value: 0 -> 7\n5 of 6 nodes are alike; an update is possible\n");
    expect((variant){.element = 9},
           "node 1 (memset) value: 0 -> 9\n5 of 6 nodes are alike; an update is possible\n");
    expect((variant){.copied = 64},
           "node 2 (memcpy) bytes: 2048 -> 64\n5 of 6 nodes are alike; an update is possible\n");
    expect((variant){.n = 100},
           "node 5 (add_i32) n: 512 -> 100\n5 of 6 nodes are alike; an update is possible\n");
    expect_part((variant){0}, (variant){.offset = true}, "node 3 (add_i32) y: 0x");
    expect_part((variant){0}, (variant){.offset = true},
                "\n5 of 6 nodes are alike; an update is possible\n");
}

TEST(kernels_and_kinds)
{
    expect((variant){.float_fill = true},
           "node 0 (fill_i32) is: kernel fill_i32 -> kernel fill_f32\n5 of 6 "
           "nodes are alike; an update is possible\n");
    expect((variant){.kernel_for_copy = true}, "node 2 (memcpy) is: memcpy -> kernel add_i32 "
                                               "(blocks an update)\n5 of 6 nodes are alike; an "
                                               "update is not possible: a node stays "
                                               "of its kind\n");
}

/* Nodes that nobody wrote: what they are there for is said with them. */
TEST(nodes_added_by_the_library_are_reported_with_their_purpose)
{
    const variant plain = {.annotated = true},
                  breadcrumbs = {.annotated = true, .breadcrumbs = true};
    static const char why[] =
        " (a breadcrumb: the other graph was captured without "
        "ph_capture_options.breadcrumbs, or with other scopes) (blocks an update)\n";
    char *text = text_of(plain, breadcrumbs);
    const char *at = strstr(text, "node 0 (phonograph_breadcrumb) was added");
    assert_non_null(at);
    assert_memory_equal(strchr(at, '\n') + 1 - strlen(why), why, strlen(why));
    ph_string_free(text);
    expect_part(breadcrumbs, plain, why);
    expect_part((variant){0}, (variant){.checked = true}, "(phonograph_check_finite) was added");
    expect_part((variant){0}, (variant){.checked = true},
                " (a check for NaN and infinity: the other graph's capture did not call "
                "ph_finite_check here)");
    text = text_of(breadcrumbs, breadcrumbs);
    assert_string_equal(strstr(text, "nodes are alike"),
                        "nodes are alike; an update is possible\n");
    assert_null(strstr(text, "breadcrumb:"));
    ph_string_free(text);
}

TEST(nodes_and_edges)
{
    expect_part((variant){0}, (variant){.added = true},
                "node 3 (fill_f32) was added: grid 2x1x1, block 256x1x1 (blocks an update)\n");
    expect_part((variant){.added = true}, (variant){0},
                "node 3 (fill_f32) was removed: grid 2x1x1, block 256x1x1 (blocks an update)\n");
    expect_part(
        (variant){0}, (variant){.added = true},
        "6 nodes are alike, of 6 and 7; an update is not possible: an executable keeps its nodes");
    expect((variant){.late_fork = true},
           "node 3 (add_i32) depends on: node 0 (fill_i32) -> node 2 (memcpy) (blocks an update)\n"
           "5 of 6 nodes are alike; an update is not possible: nodes keep their dependencies: the "
           "order of work "
           "must be the same\n");
    expect_part((variant){0}, (variant){.removed = true}, "node 4 (add_i32) was removed");
}

static ph_status inner_body(ph_stream *stream, void *user)
{
    return t_fill(&world, stream, z, N, *(int *)user);
}

TEST(a_change_in_a_nested_graph_names_both_nodes)
{
    int value = 1;
    assert_ok(ph_graph_capture(inner, world.stream, NULL, inner_body, &value));
    ph_graph *a = graph_of((variant){.nested = true});
    assert_ok(ph_graph_reset(inner));
    value = 2;
    assert_ok(ph_graph_capture(inner, world.stream, NULL, inner_body, &value));
    ph_graph *b = graph_of((variant){.nested = true});
    ph_diff *diff;
    ph_change change;
    assert_ok(ph_graph_diff(&diff, a, b));
    assert_int_equal(ph_diff_count(diff), 1);
    assert_ok(ph_diff_at(&change, diff, 0));
    assert_int_equal(change.kind, PH_CHANGE_VALUE);
    assert_int_equal(change.a, 5); /* the graph node that it is in */
    assert_int_equal(change.b, 5);
    assert_string_equal(change.text, "node 5 (graph): node 0 (fill_i32) value: 1 -> 2");
    ph_diff_destroy(diff);
    ph_graph_destroy(a);
    ph_graph_destroy(b);
}

TEST(annotations_that_differ_are_changes)
{
    expect_part((variant){0}, (variant){.annotated = true},
                "node 0 (fill_i32) annotation: none -> {name: \"layer\"}\n");
    expect_part((variant){.annotated = true}, (variant){0},
                "node 0 (fill_i32) annotation: {name: \"layer\"} -> none\n");
    expect_part((variant){.annotated = true}, (variant){.annotated = true},
                "6 of 6 nodes are alike");
}

/* ---- updates ---- */

/* The memset of the one graph fills elements of 4 bytes, that of the other bytes: the example of
 * docs/reference/diff.md. */
TEST(wrong_size_update)
{
    ph_graph *graph = graph_of((variant){0}),
             *from = graph_of((variant){.byte_elements = true, .value = 3});
    ph_update_result result;
    const ph_diff *why;
    ph_change change;
    assert_error(ph_graph_update(graph, from, &result), PH_ERROR_MISMATCH, "ph_graph_update");
    assert_int_equal(result.reason, PH_UPDATE_PARAMETERS);
    assert_int_equal(result.node, 1);
    assert_non_null(
        strstr(result.message,
               "node 1 (memset) fills 4-byte elements, the new capture's fills 1-byte ones"));
    assert_non_null(strstr(ph_error_last()->message, result.message));
    assert_non_null(strstr(ph_error_last()->message,
                           "; the executable is unchanged: reset the graph and capture again"));
    ph_graph_destroy(from); /* the differences do not need it */
    assert_ok(ph_graph_update_diff(&why, graph));
    char *text;
    assert_ok(ph_diff_text(&text, why));
    assert_string_equal(text, "node 0 (fill_i32) value: 0 -> 3\n"
                              "node 1 (memset) bytes of an element: 4 -> 1 (blocks an update)\n"
                              "4 of 6 nodes are alike; an update is not possible: the element size "
                              "of a memset cannot change\n");
    ph_string_free(text);
    assert_ok(ph_diff_at(&change, why, 1));
    assert_int_equal(change.kind, PH_CHANGE_SIZE);
    assert_true(change.blocks_update);
    assert_string_equal(change.rule, "the element size of a memset cannot change");
    ph_graph_destroy(graph);
}

/* The message of the driver compares nodes of one number; what came in between is told behind
 * it. */
TEST(an_added_node_is_named)
{
    ph_graph *graph = graph_of((variant){0}), *from = graph_of((variant){.added = true});
    ph_update_result result;
    assert_error(ph_graph_update(graph, from, &result), PH_ERROR_MISMATCH,
                 "the first difference: node 3 (fill_f32) was added: grid 2x1x1, block 256x1x1");
    assert_true(strlen(result.message) < sizeof result.message - 1);
    assert_non_null(strstr(result.message, "; the first difference: node 3 (fill_f32) was added"));
    ph_graph_destroy(graph);
    ph_graph_destroy(from);
}

TEST(the_difference_lives_until_the_next_update)
{
    ph_graph *graph = graph_of((variant){0}), *from = graph_of((variant){.removed = true}),
             *good = graph_of((variant){.value = 5});
    const ph_diff *why;
    assert_error(ph_graph_update_diff(&why, graph), PH_ERROR_NOT_FOUND, "ph_graph_update_diff");
    assert_null(why);
    assert_status(ph_graph_update(graph, from, NULL), PH_ERROR_MISMATCH);
    assert_ok(ph_graph_update_diff(&why, graph));
    assert_true(ph_diff_count(why) > 0);
    assert_ok(ph_graph_update(graph, good, NULL));
    assert_error(ph_graph_update_diff(&why, graph), PH_ERROR_NOT_FOUND, "ph_graph_update_diff");
    assert_status(ph_graph_update(graph, from, NULL), PH_ERROR_MISMATCH);
    assert_ok(ph_graph_update_diff(&why, graph));
    /* failed, too, and not so */
    assert_status(ph_graph_update(graph, NULL, NULL), PH_ERROR_ARGUMENT);
    assert_error(ph_graph_update_diff(&why, graph), PH_ERROR_NOT_FOUND, "ph_graph_update_diff");
    assert_status(ph_graph_update(graph, from, NULL), PH_ERROR_MISMATCH);
    assert_ok(ph_graph_update_diff(&why, graph));
    assert_ok(ph_graph_reset(graph));
    assert_error(ph_graph_update_diff(&why, graph), PH_ERROR_NOT_FOUND, "ph_graph_update_diff");
    ph_graph_destroy(graph);
    ph_graph_destroy(from);
    ph_graph_destroy(good);
}

static size_t blocking(const ph_diff *diff)
{
    size_t count = 0;
    ph_change change;
    for (size_t i = 0; i < ph_diff_count(diff); i++) {
        assert_ok(ph_diff_at(&change, diff, i));
        assert_int_equal(change.rule != NULL, change.blocks_update);
        count += change.blocks_update;
    }
    return count;
}

static const variant variants[] = {{0},
                                   {.value = 2, .element = 3, .n = 8},
                                   {.copied = 128},
                                   {.float_fill = true},
                                   {.byte_elements = true},
                                   {.few_bytes = true},
                                   {.from_host = true},
                                   {.added = true},
                                   {.removed = true},
                                   {.late_fork = true},
                                   {.programmatic = true},
                                   {.kernel_for_copy = true},
                                   {.added = true, .removed = true},
                                   {.annotated = true, .offset = true}};

/* What the difference foretells is what the driver does. */
TEST(differences_foretell_updates)
{
    enum {
        COUNT = sizeof variants / sizeof variants[0]
    };
    ph_graph *from[COUNT];
    for (size_t j = 0; j < COUNT; j++)
        from[j] = graph_of(variants[j]);
    for (size_t i = 0; i < COUNT; i++)
        for (size_t j = 0; j < COUNT; j++) {
            ph_graph *graph = graph_of(variants[i]);
            ph_update_result result;
            ph_diff *diff;
            const ph_diff *why;
            char *text;
            assert_ok(ph_graph_diff(&diff, graph, from[j]));
            assert_ok(ph_diff_text(&text, diff));
            ph_status status = ph_graph_update(graph, from[j], &result);
            if ((status == PH_OK) != (blocking(diff) == 0))
                fail_msg("%zu to %zu: the update: %s; the difference:\n%s", i, j,
                         status == PH_OK ? "ok" : result.message, text);
            if (status != PH_OK) {
                assert_int_equal(status, PH_ERROR_MISMATCH);
                assert_ok(ph_graph_update_diff(&why, graph));
                assert_true(blocking(why) > 0);
                assert_non_null(strstr(ph_error_last()->message, result.message));
            }
            ph_string_free(text);
            ph_diff_destroy(diff);
            ph_graph_destroy(graph);
        }
    for (size_t j = 0; j < COUNT; j++)
        ph_graph_destroy(from[j]);
}

/* ---- bad input ---- */

TEST(bad_arguments_to_a_diff_are_refused_by_name)
{
    ph_graph *graph = graph_of((variant){0}), *fresh;
    const ph_record *record;
    const ph_diff *why = (const ph_diff *)graph;
    ph_diff *diff = (ph_diff *)graph;
    ph_change change;
    char *text = (char *)graph;
    assert_ok(ph_graph_create(&fresh, NULL));
    assert_ok(ph_graph_record(&record, graph));
    assert_error(ph_record_diff(NULL, record, record), PH_ERROR_ARGUMENT, "ph_record_diff: out");
    assert_error(ph_record_diff(&diff, NULL, record), PH_ERROR_ARGUMENT, "ph_record_diff: a");
    assert_null(diff);
    assert_error(ph_record_diff(&diff, record, NULL), PH_ERROR_ARGUMENT, "ph_record_diff: b");
    assert_error(ph_graph_diff(NULL, graph, graph), PH_ERROR_ARGUMENT, "ph_graph_diff: out");
    assert_error(ph_graph_diff(&diff, NULL, graph), PH_ERROR_ARGUMENT, "ph_graph_diff: a");
    assert_error(ph_graph_diff(&diff, graph, NULL), PH_ERROR_ARGUMENT, "ph_graph_diff: b");
    assert_error(ph_graph_diff(&diff, graph, fresh), PH_ERROR_STATE, "(the graph given as b)");
    assert_error(ph_graph_diff(&diff, fresh, graph), PH_ERROR_STATE, "(the graph given as a)");
    assert_non_null(strstr(ph_error_last()->message, "ph_graph_diff: called without"));
    assert_null(diff);
    assert_error(ph_graph_update_diff(NULL, graph), PH_ERROR_ARGUMENT, "ph_graph_update_diff: out");
    assert_error(ph_graph_update_diff(&why, NULL), PH_ERROR_ARGUMENT,
                 "ph_graph_update_diff: graph");
    assert_null(why);
    assert_ok(ph_record_diff(&diff, record, record));
    assert_int_equal(ph_diff_count(diff), 0);
    assert_error(ph_diff_at(&change, diff, 0), PH_ERROR_NOT_FOUND, "change 0 does not exist");
    assert_error(ph_diff_at(&change, NULL, 0), PH_ERROR_ARGUMENT, "ph_diff_at: diff");
    assert_error(ph_diff_at(NULL, diff, 0), PH_ERROR_ARGUMENT, "ph_diff_at: out");
    assert_error(ph_diff_text(&text, NULL), PH_ERROR_ARGUMENT, "ph_diff_text: diff");
    assert_null(text);
    assert_error(ph_diff_text(NULL, diff), PH_ERROR_ARGUMENT, "ph_diff_text: out");
    assert_int_equal(ph_diff_count(NULL), 0);
    assert_string_equal(ph_change_kind_name(PH_CHANGE_ANNOTATION), "annotation");
    assert_string_equal(ph_change_kind_name((ph_change_kind)99), "unknown");
    ph_diff_destroy(diff);
    ph_diff_destroy(NULL);
    ph_graph_destroy(graph);
    ph_graph_destroy(fresh);
}

/* ---- host memory ---- a refusal stays one, also where there is no memory to explain it. */
TEST(each_allocation_fails)
{
    ph_graph *graph = graph_of((variant){0}), *from = graph_of((variant){.added = true});
    const ph_diff *why = NULL;
    int64_t n = 0;
    while (why == NULL) {
        ph_graph_update(graph, graph, NULL) == PH_OK ? (void)0 : fail();
        ph__alloc_fail_after(n);
        ph_status status = ph_graph_update(graph, from, NULL);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        assert_true(status == PH_ERROR_HOST_MEMORY || status == PH_ERROR_MISMATCH);
        ph_status asked = ph_graph_update_diff(&why, graph);
        if (status == PH_ERROR_HOST_MEMORY)
            assert_int_equal(asked, PH_ERROR_NOT_FOUND);
        else
            assert_true(asked == PH_OK || asked == PH_ERROR_HOST_MEMORY);
        n++;
        assert_true(n < 500);
    }
    assert_true(n > 8);
    ph_graph_destroy(graph);
    ph_graph_destroy(from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(the_same_work_in_other_memory_is_alike),
        IN_WORLD(each_changed_parameter_is_reported_with_both_values),
        IN_WORLD(kernels_and_kinds),
        IN_WORLD(nodes_added_by_the_library_are_reported_with_their_purpose),
        IN_WORLD(nodes_and_edges),
        IN_WORLD(a_change_in_a_nested_graph_names_both_nodes),
        IN_WORLD(annotations_that_differ_are_changes),
        IN_WORLD(wrong_size_update),
        IN_WORLD(an_added_node_is_named),
        IN_WORLD(the_difference_lives_until_the_next_update),
        IN_WORLD(differences_foretell_updates),
        IN_WORLD(bad_arguments_to_a_diff_are_refused_by_name),
        IN_WORLD(each_allocation_fails),
    };
    return cmocka_run_group_tests_name("graph.diff", tests, NULL, NULL);
}
