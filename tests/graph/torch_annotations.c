/* SPDX-License-Identifier: MIT */
/* tests/graph/torch_annotations.c: annotations of captures; each test holds the behaviour of
 * PyTorch's test of the same name. Others of PyTorch's are held in annotations.c and
 * annotations_read.c, by the names in docs/notes/torch-tests.md. */
#include "support/annotations.h"

#include "support/fixture.h"
#include <stdio.h>

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

BODY(start_body)
{
    return scope(stream, "phase_a", 1);
}

BODY(two_scopes)
{
    PH_TRY(scope(stream, "scope_1", 1));
    return scope(stream, "scope_2", 1);
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

BODY(tagged_body)
{
    PH_TRY(op(stream));
    PH_TRY(scope(stream, "tagged", 1));
    return op(stream);
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
    for (int i = 0; i < 3; i++) {
        assert_true(graphs[i].exec_id != 0);
        expect_exec(graphs[i].graph, graphs[i].exec_id, 2);
    }
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

/* ---- what PyTorch's second backend sees ---- */
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
        IN_WORLD(test_resolve_without_scopes_is_noop),
        IN_WORLD(test_mark_kernels_skips_preexisting_dependents_on_entry_frontier),
        IN_WORLD(test_multiple_graphs_in_sequence_each_remapped),
        IN_WORLD(test_keep_graph_true_remaps_on_first_instantiation),
        IN_WORLD(test_keep_graph_true_reinstantiate_rekeys_annotations),
        IN_WORLD(test_resolve_and_remap_sequence),
        IN_WORLD(test_mark_stream_annotates_target_already_capturing_when_synced),
        IN_WORLD(test_mark_stream_does_not_mutate_caller_annotation),
        IN_WORLD(test_nested_graph_node_in_scope_warns),
        IN_WORLD(TestRekeyAnnotations_test_leaves_other_graphs_untouched),
        IN_WORLD(test_callback_disarmed_after_capture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
