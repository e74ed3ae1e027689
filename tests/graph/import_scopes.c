/* SPDX-License-Identifier: MIT */
/* tests/graph/import_scopes.c: scopes that the code which captured a graph has kept, and gives at
 * the import. */
#include "imported.h"
#include "support/annotations.h"

#include "base/alloc.h"

static void make_two_scopes(ph_annotation_pair pairs[2], ph_import_scope at[2])
{
    pairs[0] = t_text("name", "forward");
    pairs[1] = t_integer("layer", 3);
    at[0] = (ph_import_scope){.first_node = 0, .pairs = pairs, .count = 2};
    at[1] = (ph_import_scope){.first_node = 1};
}

TEST(nodes_of_an_import_lie_in_the_scopes_that_are_given)
{
    ph_annotation_pair pairs[2];
    ph_import_scope at[2];
    make_two_scopes(pairs, at);
    const ph_import_scopes scopes = {.at = at, .count = 2};
    const ph_capture_options options = {.scopes = &scopes};
    size_t before = t_annotated();
    assert_ok(ph_graph_import_cuda(graph, world.device, make_native(), &options));
    pairs[0].text = "overwritten"; /* the graph has a copy */
    t_expect_annotations(graph, "{name=forward, layer=3}{}");
    assert_int_equal(t_annotated(), before + 1);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 2, world.stream);
    assert_ok(ph_graph_reset(graph));
    assert_int_equal(t_annotated(), before);
}

TEST(a_later_scope_leaves_nodes_before_it_without_one)
{
    ph_annotation_pair name = t_text("name", "second");
    const ph_import_scope at = {.first_node = 1, .pairs = &name, .count = 1};
    const ph_import_scopes scopes = {.at = &at, .count = 1};
    const ph_capture_options options = {.scopes = &scopes};
    assert_ok(ph_graph_import_cuda(graph, world.device, make_native(), &options));
    t_expect_annotations(graph, "{}{name=second}");
}

TEST(messages_of_stale_inputs_name_the_scope)
{
    ph_annotation_pair name = t_text("name", "loss");
    const ph_import_scope at = {.pairs = &name, .count = 1};
    const ph_import_scopes scopes = {.at = &at, .count = 1};
    const ph_capture_options options = {.scopes = &scopes, .check_input_liveness = true};
    assert_ok(ph_graph_import_cuda(graph, world.device, make_native(), &options));
    ph_free(x, world.stream);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT, "loss");
    assert_ok(PH_NEW(&x, N, world.stream));
}

TEST(scopes_without_entries_are_none)
{
    const ph_import_scopes none = {0};
    const ph_capture_options options = {.scopes = &none};
    assert_ok(ph_graph_import_cuda(graph, world.device, make_native(), &options));
    t_expect_annotations(graph, "{}{}");
}

static void expect_refused(const ph_import_scopes *scopes, const char *message)
{
    struct CUgraph_st *native = make_native();
    const ph_capture_options options = {.scopes = scopes};
    assert_error(ph_graph_import_cuda(graph, world.device, native, &options), PH_ERROR_ARGUMENT,
                 message);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    destroy_native(native);
}

TEST(misuse_of_scopes_is_refused)
{
    const ph_annotation_pair name = t_text("name", "a"), twice[] = {name, name}, unnamed = {0};
    const ph_import_scope beyond = {.first_node = 2, .pairs = &name, .count = 1},
                          behind[] = {{.first_node = 1, .pairs = &name, .count = 1},
                                      {.first_node = 1, .pairs = &name, .count = 1}},
                          doubled = {.pairs = twice, .count = 2},
                          keyless = {.pairs = &unnamed, .count = 1}, null = {.count = 1};
    expect_refused(&(ph_import_scopes){.at = &beyond, .count = 1},
                   "scope 0 begins at node 2, and the graph has 2");
    expect_refused(&(ph_import_scopes){.at = behind, .count = 2},
                   "scope 1 begins at node 1, and the one before it at node 1");
    expect_refused(&(ph_import_scopes){.at = &doubled, .count = 1}, "given twice");
    expect_refused(&(ph_import_scopes){.at = &keyless, .count = 1}, "has no key");
    expect_refused(&(ph_import_scopes){.at = &null, .count = 1}, "pairs is NULL");
    expect_refused(&(ph_import_scopes){.count = 1}, "scopes->at is NULL");
    expect_refused(&(ph_import_scopes){.reserved = {1}}, "reserved");
    const ph_import_scopes some = {.at = &doubled, .count = 1};
    const ph_capture_options options = {.scopes = &some};
    assert_error(ph_graph_capture_begin(graph, world.stream, &options), PH_ERROR_ARGUMENT,
                 "ph_annotation_push");
}

static ph_status import_with_scopes(void *user)
{
    ph_annotation_pair pairs[2];
    ph_import_scope at[2];
    make_two_scopes(pairs, at);
    const ph_import_scopes scopes = {.at = at, .count = 2};
    const ph_capture_options options = {.scopes = &scopes};
    return ph_graph_import_cuda(graph, world.device, user, &options);
}

/* Each allocation fails once: the graph is as it was, and the native one the caller's. */
TEST(failing_host_memory_leaves_the_graph_as_it_was)
{
    struct CUgraph_st *native = make_native();
    ph_status status = PH_ERROR_HOST_MEMORY;
    for (int64_t n = 0; status != PH_OK; n++) {
        ph__alloc_fail_after(n);
        status = import_with_scopes(native);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status == PH_OK)
            break;
        assert_int_equal(status, PH_ERROR_HOST_MEMORY);
        assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
        assert_true(n < 500);
    }
    t_expect_annotations(graph, "{name=forward, layer=3}{}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(nodes_of_an_import_lie_in_the_scopes_that_are_given),
        IN_WORLD(a_later_scope_leaves_nodes_before_it_without_one),
        IN_WORLD(messages_of_stale_inputs_name_the_scope),
        IN_WORLD(scopes_without_entries_are_none),
        IN_WORLD(misuse_of_scopes_is_refused),
        IN_WORLD(failing_host_memory_leaves_the_graph_as_it_was),
    };
    return cmocka_run_group_tests_name("graph.import_scopes", tests, NULL, NULL);
}
