/* SPDX-License-Identifier: MIT */
/* tests/cuda/edited.c: templates that a program edits by CUDA's own calls, before the first
 * instantiate and after it: the next one brings record, DOT, liveness, annotations and slots along.
 */
#include "program.h"
#include "support/fault.h"
#include "support/fixture.h"
#include "support/test.h"
#include <phonograph/cuda.h>
#include <phonograph/slots.h>

enum {
    N = 600
};

static t_world world;
static ph__cu_context own;
static ph_graph *graph;
static int32_t *x, *y;

static const t_fixture fixture = {.world = &world,
                                  .graphs = {&graph},
                                  .arrays = {{&x, N, T_INTS, 0}, {&y, N, T_INTS, 0}},
                                  .keep_graph = true};

FIXTURE(open_world)
{
    t_fixture_open(&fixture);
    program_load();
    own = primary(0);
    return 0;
}

FIXTURE(close_world)
{
    t_fixture_close(&fixture);
    cu(DevicePrimaryCtxRelease(0));
    if (fake_cuda()) {
        assert_string_equal(left_behind(), "");
        assert_int_equal(fake_cuda()->misuses(), 0);
    }
    return 0;
}

/* ---- the program's edits ---- */
static ph__cu_graph raw(void)
{
    struct CUgraph_st *handle;
    assert_ok(ph_graph_cuda(&handle, graph));
    return (ph__cu_graph)handle;
}

/* y[0, count) = value, behind nothing. */
static ph__cu_node add_fill(int32_t *at, int32_t value, size_t count)
{
    const ph__cu_fill_params params = {.dst = (ph__cu_pointer)(uintptr_t)at,
                                       .value = (unsigned)value,
                                       .element_bytes = 4,
                                       .width = count,
                                       .height = 1};
    ph__cu_node node;
    cu(CtxPushCurrent(own));
    program(GraphAddMemsetNode(&node, raw(), NULL, 0, &params, own));
    pop(own);
    return node;
}

/* In the order in which they were made. */
static ph__cu_node node_at(size_t index)
{
    ph__cu_node nodes[64];
    size_t count = 64;
    cu(GraphGetNodes(raw(), nodes, &count));
    assert_true(index < count);
    return nodes[index];
}

static const ph_record *record(void)
{
    const ph_record *out;
    assert_ok(ph_graph_record(&out, graph));
    return out;
}

static int32_t element(const int32_t *at)
{
    int32_t value;
    t_read(&value, at, sizeof value, world.stream);
    return value;
}

static void replay(void)
{
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
}

static ph_status adds_one(ph_stream *stream, void *user)
{
    (void)user;
    return t_add(&world, stream, x, x, N, 1);
}

static void capture(const ph_capture_options *options)
{
    assert_ok(ph_graph_capture(graph, world.stream, options, adds_one, NULL));
}

/* ---- what follows ---- */
TEST(test_before_the_first_instantiate)
{
    char *dot;
    ph_node_info info;
    capture(NULL);
    (void)add_fill(y, 9, 10);
    assert_int_equal(ph_record_node_count(record()), 1); /* as captured, until the instantiate */
    assert_ok(ph_graph_instantiate(graph));
    replay();
    assert_int_equal(element(x), 1);
    assert_int_equal(element(y), 9);
    assert_int_equal(element(y + 10), 0);
    assert_int_equal(ph_record_node_count(record()), 2);
    assert_ok(ph_record_node(&info, record(), 1));
    assert_int_equal(info.kind, PH_NODE_MEMSET);
    assert_ptr_equal(info.dst, y);
    assert_int_equal(info.bytes, 40);
    assert_ok(ph_record_dot(&dot, record(), true));
    assert_non_null(strstr(dot, "1: memset"));
    assert_non_null(strstr(dot, "40 bytes of 0x9"));
    ph_string_free(dot);
    assert_ok(ph_record_json(&dot, record()));
    assert_non_null(strstr(dot, "\"origin\":{\"program\":\""));
    ph_string_free(dot);
}

TEST(test_after_instantiate)
{
    capture(NULL);
    assert_ok(ph_graph_instantiate(graph));
    (void)add_fill(y, 9, 10);
    replay();
    assert_int_equal(element(y), 0);
    assert_int_equal(ph_record_node_count(record()), 1);
    assert_ok(ph_graph_instantiate(graph));
    replay();
    assert_int_equal(element(y), 9);
    assert_int_equal(ph_record_node_count(record()), 2);
    /* And once more: a second edit of what was edited. */
    (void)add_fill(y + 20, 8, 1);
    assert_ok(ph_graph_instantiate(graph));
    replay();
    assert_int_equal(element(x), 3);
    assert_int_equal(element(y + 20), 8);
    assert_int_equal(ph_record_node_count(record()), 3);
}

/* The first replay makes the executable. */
TEST(test_without_an_instantiate)
{
    capture(NULL);
    (void)add_fill(y, 7, N);
    replay();
    t_all(y, N, 7, world.stream);
    assert_int_equal(ph_record_node_count(record()), 2);
}

TEST(test_a_node_that_goes)
{
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(t_add(&world, world.stream, x, x, N, 1));
    assert_ok(t_add(&world, world.stream, y, y, N, 5));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    cu(GraphDestroyNode(node_at(0)));
    assert_ok(ph_graph_instantiate(graph));
    replay();
    assert_int_equal(element(x), 0);
    assert_int_equal(element(y), 5);
    ph_word word;
    assert_int_equal(ph_record_node_count(record()), 1);
    assert_int_equal(ph_record_edge_count(record()), 0);
    assert_ok(ph_record_word(&word, record(), 0, 2));
    assert_string_equal(word.name, "y");
    assert_ptr_equal(word.base, y);
    /* What is left can be set by its number. */
    struct t_add_i32 args = {N, y, y, 100};
    ph_launch_config config = t_config(N);
    assert_ok(ph_graph_node_set_launch(graph, 0, &config, &args, sizeof args));
    replay();
    assert_int_equal(element(y), 105);
}

/* The kernel of a node that the program made, as a copy of a captured one. */
TEST(test_a_kernel_node)
{
    capture(NULL);
    ph__cu_kernel_params params = {0};
    ph__cu_node node, behind = node_at(0);
    cu(GraphKernelNodeGetParams(behind, &params));
    cu(CtxPushCurrent(own));
    cu(GraphAddKernelNode(&node, raw(), &behind, 1, &params));
    pop(own);
    assert_ok(ph_graph_instantiate(graph));
    ph_kernel_release(world.add_i32); /* the graph holds what it launches */
    world.add_i32 = NULL;
    replay();
    assert_int_equal(element(x), 2);
    ph_node_info info;
    assert_ok(ph_record_node(&info, record(), 1));
    assert_string_equal(info.name, "add_i32");
    assert_int_equal(info.dependency_count, 1);
}

TEST(liveness_follows_nodes_edited_through_cuda)
{
    int32_t *gone;
    assert_ok(PH_NEW(&gone, N, world.stream));
    capture(&(ph_capture_options){.check_input_liveness = true});
    (void)add_fill(gone, 1, N);
    assert_ok(ph_graph_instantiate(graph));
    replay();
    assert_ok(ph_graph_check_inputs(graph));
    ph_free(gone, world.stream);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT, "node 1 (memset) dst");
    cu(GraphDestroyNode(node_at(1)));
    assert_ok(ph_graph_instantiate(graph));
    replay();
    assert_int_equal(element(x), 2);
}

/* A node keeps its scopes whatever comes and goes before it; what the program adds has none. */
static const char *scope_of(size_t node)
{
    const ph_annotation_pair *pairs;
    size_t count;
    assert_ok(ph_record_annotation(&pairs, &count, record(), node));
    return count ? pairs[0].text : "";
}

TEST(annotations_stay_with_their_nodes_after_an_edit)
{
    assert_ok(ph_graph_capture_begin(graph, world.stream,
                                     &(ph_capture_options){.enable_annotations = true}));
    assert_ok(ph_annotation_push(world.stream, "first", NULL));
    assert_ok(t_add(&world, world.stream, x, x, N, 1));
    assert_ok(ph_annotation_pop(world.stream));
    assert_ok(ph_annotation_push(world.stream, "second", NULL));
    assert_ok(t_add(&world, world.stream, y, y, N, 1));
    assert_ok(ph_annotation_pop(world.stream));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    cu(GraphDestroyNode(node_at(0)));
    (void)add_fill(x, 3, 1);
    assert_ok(ph_graph_instantiate(graph));
    assert_int_equal(ph_record_node_count(record()), 2);
    for (size_t i = 0; i < 2; i++) {
        ph_node_info info;
        assert_ok(ph_record_node(&info, record(), i));
        assert_string_equal(scope_of(i), info.kind == PH_NODE_KERNEL ? "second" : "");
    }
}

TEST(test_in_another_capture)
{
    ph_graph *outer;
    const ph_record *whole;
    ph_node_info info;
    capture(NULL);
    (void)add_fill(y, 4, 1);
    assert_ok(ph_graph_instantiate(graph));
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_capture_begin(outer, world.stream, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_capture_end(outer, PH_OK));
    assert_ok(ph_graph_record(&whole, outer));
    assert_ok(ph_record_node(&info, whole, 0));
    assert_int_equal(ph_record_node_count(info.body), 2);
    assert_ok(ph_graph_replay(outer, world.stream));
    assert_int_equal(element(y), 4);
    ph_graph_destroy(outer);
}

/* ---- what stays ---- the record is borrowed: a program that only looks keeps it. */
TEST(test_nothing_was_edited)
{
    capture(NULL);
    const ph_record *before = record();
    (void)raw();
    assert_ok(ph_graph_instantiate(graph));
    assert_ptr_equal(record(), before);
    replay();
    assert_ok(ph_graph_instantiate(graph));
    assert_ptr_equal(record(), before);
    (void)add_fill(y, 1, 1);
    assert_ok(ph_graph_instantiate(graph));
    const ph_record *after = record();
    assert_ok(ph_graph_instantiate(graph));
    assert_ptr_equal(record(), after);
}

TEST(an_edit_that_takes_a_slots_node_is_refused)
{
    size_t slot;
    capture(NULL);
    const ph_slot_place places[] = {{.node = 0, .offset = offsetof(struct t_add_i32, y)}};
    assert_ok(ph_graph_slot_declare_address(&slot, graph, "y", x, N * sizeof *x, places, 1, NULL));
    (void)add_fill(x + 1, 50, 1);
    assert_ok(ph_graph_instantiate(graph));
    const ph_slot_value value = {slot, y};
    assert_ok(ph_graph_replay_with(graph, world.stream, &value, 1));
    assert_ok(ph_stream_synchronize(world.stream));
    assert_int_equal(element(y), 1);
    cu(GraphDestroyNode(node_at(0)));
    assert_error(ph_graph_instantiate(graph), PH_ERROR_STATE,
                 "node 0 (add_i32), which has places of slots, is no longer in the template");
    assert_ok(ph_graph_replay_with(graph, world.stream, &value, 1));
}

/* The breadcrumb before all others. */
TEST(test_nodes_of_the_librarys)
{
    const ph_capture_options options = {.enable_annotations = true, .breadcrumbs = true};
    ph_progress at;
    assert_ok(ph_graph_capture_begin(graph, world.stream, &options));
    assert_ok(ph_annotation_push(world.stream, "scope", NULL));
    assert_ok(t_add(&world, world.stream, x, x, N, 1));
    assert_ok(ph_annotation_pop(world.stream));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    (void)add_fill(y, 2, 1);
    assert_ok(ph_graph_instantiate(graph));
    assert_ok(ph_graph_breadcrumbs_enable(graph, true));
    replay();
    assert_ok(ph_graph_where(&at, graph));
    assert_true(at.complete);
    assert_int_equal(at.count, 2);
    assert_int_equal(element(y), 2);
    cu(GraphDestroyNode(node_at(0)));
    assert_error(ph_graph_instantiate(graph), PH_ERROR_STATE, "watches replays");
    replay();
    assert_int_equal(element(x), 2);
}

/* ---- failures ---- the graph is what it was, and the edit comes with a later instantiate. */
static void check_as_before(void)
{
    int32_t before = element(x);
    assert_int_equal(ph_record_node_count(record()), 1);
    replay();
    assert_int_equal(element(x), before + 1);
    assert_int_equal(element(y), 0);
}

TEST(a_failed_instantiation_keeps_the_executable_from_before)
{
    capture(&(ph_capture_options){.check_input_liveness = true});
    assert_ok(ph_graph_instantiate(graph));
    (void)add_fill(y, 9, 1);
    ph_status status = PH_ERROR_HOST_MEMORY;
    for (int64_t n = 0; n < 400 && status != PH_OK; n++) {
        ph__driver_fail_after(n, PH__R_INVALID_VALUE);
        status = ph_graph_instantiate(graph);
        ph__driver_fail_after(-1, 0);
        if (status != PH_OK)
            check_as_before();
    }
    assert_ok(status);
    replay();
    assert_int_equal(element(y), 9);
    assert_ok(ph_graph_reset(graph));
    assert_ok(t_fill(&world, world.stream, y, N, 0));
    capture(&(ph_capture_options){.check_input_liveness = true});
    assert_ok(ph_graph_instantiate(graph));
    (void)add_fill(y, 9, 1);
    status = PH_ERROR_HOST_MEMORY;
    for (int64_t n = 0; status != PH_OK; n++) {
        ph__alloc_fail_after(n);
        status = ph_graph_instantiate(graph);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK) {
            assert_int_equal(status, PH_ERROR_HOST_MEMORY);
            check_as_before();
        }
    }
    assert_int_equal(ph_record_node_count(record()), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_before_the_first_instantiate),
        IN_WORLD(test_after_instantiate),
        IN_WORLD(test_without_an_instantiate),
        IN_WORLD(test_a_node_that_goes),
        IN_WORLD(test_a_kernel_node),
        IN_WORLD(liveness_follows_nodes_edited_through_cuda),
        IN_WORLD(annotations_stay_with_their_nodes_after_an_edit),
        IN_WORLD(test_in_another_capture),
        IN_WORLD(test_nothing_was_edited),
        IN_WORLD(an_edit_that_takes_a_slots_node_is_refused),
        IN_WORLD(test_nodes_of_the_librarys),
        IN_WORLD(a_failed_instantiation_keeps_the_executable_from_before),
    };
    return cmocka_run_group_tests_name("cuda.edited", tests, NULL, NULL);
}
