/* SPDX-License-Identifier: MIT */
/* tests/graph/torch_annotations.c: annotations of captures; each test holds the behaviour of
 * PyTorch's test of the same name. */
#include "support/annotations.h"

#include "support/fixture.h"
#include <stdio.h>
#include <string.h>

enum {
    N = 8
};
static t_world world;
static ph_stream *aux;
static int32_t *x, *y;

static const t_fixture fixture = {
    .world = &world, .streams = {&aux}, .arrays = {{&x, N, T_INTS, 1}, {&y, N, T_INTS, 1}}};

FIXTURE(open_world)
{
    t_fixture_open(&fixture);
    return 0;
}

FIXTURE(close_world)
{
    ph_annotation_unwind(0);
    assert_int_equal(t_annotated(), 0);
    t_fixture_close(&fixture);
    return 0;
}

/* ---- pieces ---- */
static ph_status op(ph_stream *stream)
{
    return t_add(&world, stream, x, y, N, 1);
}

static ph_status scope(ph_stream *stream, const char *name, int ops)
{
    PH_TRY(ph_annotation_push(stream, name, NULL));
    for (int i = 0; i < ops; i++)
        PH_TRY(op(stream));
    return ph_annotation_pop(stream);
}

static ph_status scope_of(ph_stream *stream, const char *name, const ph_annotation_pair *pairs,
                          size_t count)
{
    const ph_annotation_options options = {.pairs = pairs, .count = count};
    return ph_annotation_push(stream, name, &options);
}

static ph_graph *capture(ph_capture_fn body, void *user)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    t_capture_annotated(graph, world.stream, body, user);
    return graph;
}

/* The whole of what nodes have, in their order. */
static void expect(ph_capture_fn body, const char *want)
{
    ph_graph *graph = capture(body, NULL);
    t_expect_annotations(graph, want);
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    ph_graph_destroy(graph);
}

#define BODY(name)                                                                                 \
    static ph_status name(ph_stream *stream, void *user);                                          \
    static ph_status name##_of(ph_stream *stream);                                                 \
    static ph_status name(ph_stream *stream, void *user)                                           \
    {                                                                                              \
        (void)user;                                                                                \
        return name##_of(stream);                                                                  \
    }                                                                                              \
    static ph_status name##_of(ph_stream *stream)

/* ---- forward scopes ---- */
TEST(test_noop_outside_capture)
{
    assert_ok(scope(world.stream, "eager", 2));
    assert_int_equal(t_annotated(), 0);
    assert_ok(ph_stream_synchronize(world.stream));
}

static ph_event *external;

BODY(event_body)
{
    PH_TRY(ph_annotation_push(stream, "events", NULL));
    PH_TRY(ph_event_record(external, stream));
    PH_TRY(ph_stream_wait_event(stream, external));
    return ph_annotation_pop(stream);
}

TEST(test_event_nodes_are_annotatable)
{
    ph_event_options options = {.external = true};
    assert_ok(ph_event_create(&external, world.device, &options));
    expect(event_body, "{name=events}{name=events}");
    ph_event_destroy(external);
}

static void nothing(void *user)
{
    (void)user;
}

BODY(host_body)
{
    PH_TRY(ph_annotation_push(stream, "host", NULL));
    PH_TRY(ph_launch_host(stream, nothing, NULL));
    return ph_annotation_pop(stream);
}

TEST(test_host_nodes_are_annotatable)
{
    expect(host_body, "{name=host}");
}

BODY(memset_body)
{
    PH_TRY(ph_memset(y, 0, sizeof *y, stream));
    PH_TRY(ph_annotation_push(stream, "reduction", NULL));
    PH_TRY(ph_memset(y, 0, N * sizeof *y, stream));
    PH_TRY(op(stream));
    return ph_annotation_pop(stream);
}

TEST(test_memset_nodes_are_annotated)
{
    expect(memset_body, "{}{name=reduction}{name=reduction}");
}

BODY(start_body)
{
    return scope(stream, "phase_a", 1);
}

TEST(test_single_scope_at_capture_start_uses_root_fallback)
{
    expect(start_body, "{name=phase_a}");
}

BODY(two_scopes)
{
    PH_TRY(scope(stream, "scope_1", 1));
    return scope(stream, "scope_2", 1);
}

TEST(test_multiple_scopes_no_overlap)
{
    expect(two_scopes, "{name=scope_1}{name=scope_2}");
}

BODY(dict_body)
{
    const ph_annotation_pair pairs[] = {t_integer("Group size", 2), t_text("dtype", "bfloat16")};
    PH_TRY(scope_of(stream, "all_gather", pairs, 2));
    PH_TRY(op(stream));
    return ph_annotation_pop(stream);
}

TEST(test_dict_annotation)
{
    expect(dict_body, "{name=all_gather, Group size=2, dtype=bfloat16}");
}

TEST(test_clear_resets_state)
{
    ph_graph *graph = capture(two_scopes, NULL);
    assert_int_equal(t_annotated(), 2);
    ph_clear_kernel_annotations();
    assert_int_equal(t_annotated(), 0);
    ph_graph_destroy(graph);
}

BODY(plain_body)
{
    PH_TRY(op(stream));
    return op(stream);
}

/* What a capture's end resolves by itself. */
TEST(test_resolve_without_scopes_is_noop)
{
    ph_graph *graph = capture(plain_body, NULL);
    assert_int_equal(t_annotated(), 0);
    ph_graph_destroy(graph);
}

BODY(empty_scope_body)
{
    PH_TRY(op(stream));
    PH_TRY(scope(stream, "empty", 0));
    return op(stream);
}

TEST(test_scope_with_no_kernels)
{
    expect(empty_scope_body, "{}{}");
}

BODY(tagged_body)
{
    PH_TRY(op(stream));
    PH_TRY(scope(stream, "tagged", 1));
    return op(stream);
}

TEST(test_only_annotates_scope_kernels)
{
    expect(tagged_body, "{}{name=tagged}{}");
}

BODY(nested_body)
{
    PH_TRY(ph_annotation_push(stream, "outer", NULL));
    PH_TRY(op(stream));
    PH_TRY(scope(stream, "inner", 1));
    PH_TRY(op(stream));
    return ph_annotation_pop(stream);
}

TEST(test_nested_scopes_innermost_wins)
{
    expect(nested_body, "{name=outer}{name=inner}{name=outer}");
}

BODY(same_range_body)
{
    const ph_annotation_pair outer = t_integer("level", 1), inner = t_integer("level", 2);
    PH_TRY(scope_of(stream, "outer", &outer, 1));
    PH_TRY(scope_of(stream, "inner", &inner, 1));
    PH_TRY(op(stream));
    PH_TRY(ph_annotation_pop(stream));
    return ph_annotation_pop(stream);
}

TEST(test_same_range_scopes_inner_wins_common_keys)
{
    expect(same_range_body, "{name=inner, level=2}");
}

BODY(contending_body)
{
    const ph_annotation_pair dtype = t_text("dtype", "bfloat16");
    PH_TRY(scope_of(stream, "outer", &dtype, 1));
    PH_TRY(scope(stream, "inner", 1));
    return ph_annotation_pop(stream);
}

TEST(test_string_scope_in_dict_scope_contends_for_name)
{
    expect(contending_body, "{name=inner, dtype=bfloat16}");
}

TEST(test_no_enable_records_nothing)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, two_scopes, NULL));
    assert_int_equal(t_annotated(), 0);
    t_expect_annotations(graph, "{}{}");
    ph_graph_destroy(graph);
}

TEST(test_enable_annotations_kwarg)
{
    ph_graph *graph = capture(two_scopes, NULL);
    assert_int_equal(t_annotated(), 2);
    ph_graph_destroy(graph);
}

TEST(test_enable_annotations_does_not_clear)
{
    ph_graph *first = capture(two_scopes, NULL), *second = capture(tagged_body, NULL);
    assert_int_equal(t_annotated_so("{name=scope_1}"), 1);
    assert_int_equal(t_annotated_so("{name=tagged}"), 1);
    ph_graph_destroy(first);
    ph_graph_destroy(second);
}

/* A branch that hangs off the scope's first dependency already is none of the scope's. */
BODY(preexisting_body)
{
    PH_TRY(op(stream));
    PH_TRY(ph_stream_wait_stream(aux, stream));
    PH_TRY(op(aux));
    PH_TRY(scope(stream, "main", 1));
    return ph_stream_wait_stream(stream, aux);
}

TEST(test_mark_kernels_skips_preexisting_dependents_on_entry_frontier)
{
    expect(preexisting_body, "{}{}{name=main}");
}

/* ---- ids ---- */
static ph_status note_exec(const ph_graph_hook_info *info, void *user)
{
    *(uint64_t *)user = info->exec_id;
    return PH_OK;
}

enum {
    MOST = 16
};
/* Fails unless all annotated nodes of the graph have that executable. */
static void expect_exec(const ph_graph *graph, uint64_t exec_id, size_t nodes)
{
    ph_kernel_annotation all[MOST];
    size_t count, seen = 0;
    assert_ok(ph_get_kernel_annotations(all, MOST, &count));
    for (size_t i = 0; i < count; i++)
        if (all[i].graph == graph) {
            assert_int_equal(all[i].exec_id, exec_id);
            seen++;
        }
    assert_int_equal(seen, nodes);
}

/* Of a graph that a hook tells the executables of. */
typedef struct hooked {
    ph_graph *graph;
    ph_hook *hook;
    uint64_t exec_id;
} hooked;

static void open_hooked(hooked *out, bool keep, ph_capture_fn body)
{
    ph_graph_options options = {.keep_graph = keep};
    out->exec_id = 0;
    assert_ok(ph_graph_create(&out->graph, &options));
    assert_ok(
        ph_graph_hook_add(&out->hook, out->graph, PH_HOOK_INSTANTIATE, note_exec, &out->exec_id));
    t_capture_annotated(out->graph, world.stream, body, NULL);
}

static void close_hooked(hooked *one)
{
    ph_graph_destroy(one->graph);
    ph_graph_hook_remove(one->hook);
}

TEST(test_enable_annotations_remaps_to_exec_graph)
{
    hooked one;
    open_hooked(&one, false, two_scopes);
    assert_true(one.exec_id != 0);
    expect_exec(one.graph, one.exec_id, 2);
    close_hooked(&one);
}

static void in_sequence(bool keep)
{
    hooked graphs[2];
    open_hooked(&graphs[0], keep, start_body);
    open_hooked(&graphs[1], keep, tagged_body);
    for (int i = 0; keep && i < 2; i++)
        assert_ok(ph_graph_instantiate(graphs[i].graph));
    assert_true(graphs[0].exec_id != graphs[1].exec_id);
    for (int i = 0; i < 2; i++)
        expect_exec(graphs[i].graph, graphs[i].exec_id, 1);
    for (int i = 0; i < 2; i++)
        close_hooked(&graphs[i]);
}

TEST(test_multiple_graphs_in_sequence_each_remapped)
{
    in_sequence(false);
    in_sequence(true);
}

TEST(test_keep_graph_true_remaps_on_first_instantiation)
{
    for (int by_replay = 0; by_replay < 2; by_replay++) {
        hooked one;
        open_hooked(&one, true, two_scopes);
        expect_exec(one.graph, 0, 2);
        assert_ok(by_replay ? ph_graph_replay(one.graph, world.stream)
                            : ph_graph_instantiate(one.graph));
        assert_true(one.exec_id != 0);
        expect_exec(one.graph, one.exec_id, 2);
        assert_ok(ph_stream_synchronize(world.stream));
        close_hooked(&one);
    }
}

TEST(test_keep_graph_true_reinstantiate_rekeys_annotations)
{
    hooked one;
    open_hooked(&one, true, two_scopes);
    assert_ok(ph_graph_instantiate(one.graph));
    uint64_t first = one.exec_id;
    assert_ok(ph_graph_replay(one.graph, world.stream));
    expect_exec(one.graph, first, 2);
    assert_ok(ph_stream_synchronize(world.stream));
    assert_ok(ph_graph_instantiate(one.graph));
    assert_true(one.exec_id != first);
    expect_exec(one.graph, one.exec_id, 2);
    close_hooked(&one);
}

TEST(test_resolve_and_remap_sequence)
{
    hooked graphs[3];
    for (int i = 0; i < 3; i++)
        open_hooked(&graphs[i], false, two_scopes);
    for (int i = 0; i < 3; i++)
        expect_exec(graphs[i].graph, graphs[i].exec_id, 2);
    assert_int_equal(t_annotated(), 6);
    for (int i = 0; i < 3; i++)
        close_hooked(&graphs[i]);
}

/* ---- streams ---- */
static unsigned lane_of(ph_stream *stream)
{
    uint32_t lane;
    assert_ok(ph_stream_lane(&lane, stream));
    return lane;
}

BODY(joins_inside)
{
    const ph_annotation_options lane = {.lane = true};
    PH_TRY(op(stream));
    PH_TRY(ph_annotation_push(aux, "aux", &lane));
    PH_TRY(ph_stream_wait_stream(aux, stream));
    PH_TRY(op(aux));
    PH_TRY(ph_annotation_pop(aux));
    return ph_stream_wait_stream(stream, aux);
}

TEST(test_mark_stream_snapshots_capture_before_switch)
{
    char want[64];
    (void)snprintf(want, sizeof want, "{}{name=aux, stream=%u}", lane_of(aux));
    expect(joins_inside, want);
}

BODY(already_capturing)
{
    const ph_annotation_options lane = {.lane = true};
    PH_TRY(op(stream));
    PH_TRY(ph_stream_wait_stream(aux, stream));
    PH_TRY(op(aux));
    PH_TRY(ph_stream_wait_stream(aux, stream));
    PH_TRY(ph_annotation_push(aux, "aux_branch", &lane));
    PH_TRY(op(aux));
    PH_TRY(ph_annotation_pop(aux));
    return ph_stream_wait_stream(stream, aux);
}

TEST(test_mark_stream_annotates_target_already_capturing_when_synced)
{
    char want[64];
    (void)snprintf(want, sizeof want, "{}{}{name=aux_branch, stream=%u}", lane_of(aux));
    expect(already_capturing, want);
}

static const ph_annotation_pair shared_pairs[] = {{.key = "phase", .text = "p"}};

BODY(one_dict_two_lanes)
{
    const ph_annotation_options options = {.pairs = shared_pairs, .count = 1, .lane = true};
    PH_TRY(ph_annotation_push(stream, NULL, &options));
    PH_TRY(op(stream));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(ph_stream_wait_stream(aux, stream));
    PH_TRY(ph_annotation_push(aux, NULL, &options));
    PH_TRY(op(aux));
    PH_TRY(ph_annotation_pop(aux));
    return ph_stream_wait_stream(stream, aux);
}

TEST(test_mark_stream_does_not_mutate_caller_annotation)
{
    char want[96];
    (void)snprintf(want, sizeof want, "{phase=p, stream=%u}{phase=p, stream=%u}",
                   lane_of(world.stream), lane_of(aux));
    assert_int_not_equal(lane_of(world.stream), lane_of(aux));
    expect(one_dict_two_lanes, want);
    assert_string_equal(shared_pairs[0].key, "phase");
}

/* ---- nested graphs ---- */
static ph_status child_in_scope(ph_stream *stream, void *user)
{
    PH_TRY(ph_annotation_push(stream, "region", NULL));
    PH_TRY(op(stream));
    PH_TRY(ph_graph_replay(user, stream));
    PH_TRY(op(stream));
    return ph_annotation_pop(stream);
}

/* Here the nested node is annotated too, and so are the nodes in it; nothing is left out that a
 * warning would have to name. */
TEST(test_nested_graph_node_in_scope_warns)
{
    ph_graph *child;
    assert_ok(ph_graph_create(&child, NULL));
    assert_ok(ph_graph_capture(child, world.stream, NULL, plain_body, NULL));
    t_log_start();
    ph_graph *graph = capture(child_in_scope, child);
    assert_int_equal(t_log_count(""), 0);
    t_log_stop();
    t_expect_annotations(graph,
                         "{name=region}{name=region}({name=region}{name=region}){name=region}");
    assert_int_equal(t_annotated_so("{name=region}"), 3); /* of the graph's own nodes */
    ph_graph_destroy(graph);
    ph_graph_destroy(child);
}

/* ---- the list ---- */
TEST(TestRekeyAnnotations_test_leaves_other_graphs_untouched)
{
    hooked other, one;
    open_hooked(&other, false, two_scopes);
    open_hooked(&one, true, start_body);
    uint64_t before = other.exec_id;
    assert_ok(ph_graph_instantiate(one.graph));
    assert_ok(ph_graph_instantiate(one.graph));
    expect_exec(other.graph, before, 2);
    expect_exec(one.graph, one.exec_id, 1);
    close_hooked(&other);
    close_hooked(&one);
}

TEST(TestRemoveKernelAnnotations_test_removes_only_requested_exec_id)
{
    hooked one, two;
    open_hooked(&one, false, two_scopes);
    open_hooked(&two, false, tagged_body);
    assert_ok(ph_graph_reset(one.graph));
    assert_int_equal(t_annotated(), 1);
    expect_exec(two.graph, two.exec_id, 1);
    close_hooked(&one);
    close_hooked(&two);
}

TEST(TestRemoveKernelAnnotations_test_missing_and_empty_ids_are_noops)
{
    ph_graph *never;
    hooked one;
    open_hooked(&one, false, two_scopes);
    assert_ok(ph_graph_create(&never, NULL));
    assert_ok(ph_graph_reset(never));
    ph_graph_destroy(never);
    ph_graph_destroy(NULL);
    assert_int_equal(t_annotated(), 2);
    close_hooked(&one);
}

BODY(merging_body)
{
    const ph_annotation_pair outer[] = {t_integer("a", 1), t_integer("b", 1)},
                             inner[] = {t_integer("b", 2)};
    PH_TRY(scope_of(stream, NULL, outer, 2));
    PH_TRY(scope_of(stream, NULL, inner, 1));
    PH_TRY(op(stream));
    PH_TRY(ph_annotation_pop(stream));
    return ph_annotation_pop(stream);
}

TEST(TestAnnotationStore_test_writes_to_one_node_merge_first_wins)
{
    expect(merging_body, "{a=1, b=2}");
}

/* ---- what PyTorch's second backend sees ---- */
BODY(before_join_body)
{
    PH_TRY(op(stream));
    PH_TRY(ph_annotation_push(aux, "side", NULL));
    PH_TRY(ph_stream_wait_stream(aux, stream));
    for (int i = 0; i < 3; i++)
        PH_TRY(op(aux));
    PH_TRY(ph_annotation_pop(aux));
    return ph_stream_wait_stream(stream, aux);
}

TEST(test_scope_entered_before_stream_joins_capture)
{
    expect(before_join_body, "{}{name=side}{name=side}{name=side}");
}

BODY(merge_body)
{
    const ph_annotation_pair phase = t_text("phase", "p"), lane = t_integer("lane", 1);
    PH_TRY(scope_of(stream, "outer", &phase, 1));
    PH_TRY(op(stream));
    PH_TRY(scope_of(stream, "inner", &lane, 1));
    PH_TRY(op(stream));
    PH_TRY(ph_annotation_pop(stream));
    return ph_annotation_pop(stream);
}

TEST(test_nested_scopes_merge_inner_wins)
{
    expect(merge_body, "{name=outer, phase=p}{name=inner, phase=p, lane=1}");
}

TEST(test_outer_scope_restored_after_inner_exits)
{
    expect(nested_body, "{name=outer}{name=inner}{name=outer}");
}

TEST(test_no_warning_without_body_work)
{
    t_log_start();
    expect(two_scopes, "{name=scope_1}{name=scope_2}");
    assert_int_equal(t_log_count(""), 0);
    t_log_stop();
}

BODY(boom_body)
{
    PH_TRY(ph_annotation_push(stream, "leak", NULL));
    PH_TRY(op(stream));
    return ph_fail(PH_ERROR_ARGUMENT, "boom");
}

TEST(test_scopes_do_not_leak_across_captures)
{
    ph_graph *graph;
    ph_capture_options options = {.enable_annotations = true};
    size_t depth = ph_annotation_depth();
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_capture(graph, world.stream, &options, boom_body, NULL),
                 PH_ERROR_ARGUMENT, "boom");
    ph_annotation_unwind(depth);
    ph_graph_destroy(graph);
    expect(plain_body, "{}{}");
}

TEST(test_callback_disarmed_after_capture)
{
    ph_graph *graph = capture(two_scopes, NULL);
    for (int i = 0; i < 5; i++) {
        assert_ok(ph_annotation_push(world.stream, "replaying", NULL));
        assert_ok(ph_graph_replay(graph, world.stream));
        assert_ok(ph_annotation_pop(world.stream));
    }
    assert_ok(ph_stream_synchronize(world.stream));
    assert_int_equal(t_annotated(), 2);
    t_expect_annotations(graph, "{name=scope_1}{name=scope_2}");
    ph_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_noop_outside_capture),
        IN_WORLD(test_event_nodes_are_annotatable),
        IN_WORLD(test_host_nodes_are_annotatable),
        IN_WORLD(test_memset_nodes_are_annotated),
        IN_WORLD(test_single_scope_at_capture_start_uses_root_fallback),
        IN_WORLD(test_multiple_scopes_no_overlap),
        IN_WORLD(test_dict_annotation),
        IN_WORLD(test_clear_resets_state),
        IN_WORLD(test_resolve_without_scopes_is_noop),
        IN_WORLD(test_scope_with_no_kernels),
        IN_WORLD(test_only_annotates_scope_kernels),
        IN_WORLD(test_nested_scopes_innermost_wins),
        IN_WORLD(test_same_range_scopes_inner_wins_common_keys),
        IN_WORLD(test_string_scope_in_dict_scope_contends_for_name),
        IN_WORLD(test_no_enable_records_nothing),
        IN_WORLD(test_enable_annotations_kwarg),
        IN_WORLD(test_enable_annotations_does_not_clear),
        IN_WORLD(test_mark_kernels_skips_preexisting_dependents_on_entry_frontier),
        IN_WORLD(test_enable_annotations_remaps_to_exec_graph),
        IN_WORLD(test_multiple_graphs_in_sequence_each_remapped),
        IN_WORLD(test_keep_graph_true_remaps_on_first_instantiation),
        IN_WORLD(test_keep_graph_true_reinstantiate_rekeys_annotations),
        IN_WORLD(test_resolve_and_remap_sequence),
        IN_WORLD(test_mark_stream_snapshots_capture_before_switch),
        IN_WORLD(test_mark_stream_annotates_target_already_capturing_when_synced),
        IN_WORLD(test_mark_stream_does_not_mutate_caller_annotation),
        IN_WORLD(test_nested_graph_node_in_scope_warns),
        IN_WORLD(TestRekeyAnnotations_test_leaves_other_graphs_untouched),
        IN_WORLD(TestRemoveKernelAnnotations_test_removes_only_requested_exec_id),
        IN_WORLD(TestRemoveKernelAnnotations_test_missing_and_empty_ids_are_noops),
        IN_WORLD(TestAnnotationStore_test_writes_to_one_node_merge_first_wins),
        IN_WORLD(test_scope_entered_before_stream_joins_capture),
        IN_WORLD(test_nested_scopes_merge_inner_wins),
        IN_WORLD(test_outer_scope_restored_after_inner_exits),
        IN_WORLD(test_no_warning_without_body_work),
        IN_WORLD(test_scopes_do_not_leak_across_captures),
        IN_WORLD(test_callback_disarmed_after_capture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
