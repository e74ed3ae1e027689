/* SPDX-License-Identifier: MIT */
/* tests/cuda/small_fills.c: small memsets that other code submits to a capture run as kernels where
 * the template is the library's alone, and are memsets to everybody who asks. */
#include "base/alloc.h"
#include "device/handles/device.h"
#include "driver/cuda/load/core.h"
#include "driver/cuda/load/device.h"
#include "driver/cuda/nodes/graph.h"
#include "fake.h"
#include "graph/object/graph.h"
#include "support/sweep.h"
#include "support/test.h"
#include <phonograph/cuda.h>
#include <phonograph/slots.h>

enum {
    N = 64,
    SMALL = N * sizeof(int32_t),
    LARGE_WORDS = PH__CUDA_FILL_LIMIT / 4 + 1
};
static t_world world;
static ph_stream *side;
static ph_graph *graph, *other;
static int32_t *x, *y, *large;

FIXTURE(open_world)
{
    t_open(&world, NULL);
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(PH_NEW(&y, N, world.stream));
    assert_ok(PH_NEW(&large, LARGE_WORDS, world.stream));
    other = NULL;
    return 0;
}

FIXTURE(close_world)
{
    ph_graph_destroy(graph);
    ph_graph_destroy(other);
    ph_free(x, NULL);
    ph_free(y, NULL);
    ph_free(large, NULL);
    ph_stream_destroy(side);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

/* As other code does: straight at the driver. */
static void fill_words(void *dst, unsigned value, size_t count, const ph_stream *stream)
{
    ph__cuda_scope scope;
    assert_int_equal(ph__cuda_enter(&scope, stream->device->handle), 0);
    assert_int_equal(ph__cu.MemsetD32Async((uintptr_t)dst, value, count, stream->handle->handle),
                     0);
    ph__cuda_leave(&scope);
}

static void fill_bytes(void *dst, unsigned char value, size_t count, const ph_stream *stream)
{
    ph__cuda_scope scope;
    assert_int_equal(ph__cuda_enter(&scope, stream->device->handle), 0);
    assert_int_equal(ph__cu.MemsetD8Async((uintptr_t)dst, value, count, stream->handle->handle), 0);
    ph__cuda_leave(&scope);
}

/* What the driver has, whatever the record shows. */
static int driver_type(const ph_graph *of, size_t index)
{
    int type = -1;
    assert_int_equal(ph__cu.GraphNodeGetType(of->template->handles[index], &type), 0);
    return type;
}

static size_t driver_nodes(const ph_graph *of)
{
    size_t count = 0;
    assert_int_equal(ph__cu.GraphGetNodes(of->template->handle, NULL, &count), 0);
    return count;
}

static ph_node_info node(ph_graph *of, size_t index)
{
    const ph_record *record;
    ph_node_info info;
    assert_ok(ph_graph_record(&record, of));
    assert_ok(ph_record_node(&info, record, index));
    return info;
}

static void expect_memset(ph_graph *of, size_t index, const void *dst, uint32_t value, int type)
{
    ph_node_info info = node(of, index);
    assert_int_equal(info.kind, PH_NODE_MEMSET);
    assert_ptr_equal(info.dst, dst);
    assert_int_equal(info.value, value);
    assert_int_equal(driver_type(of, index), type);
}

/* x = 5, x = value, y = x + 1: the middle is other code's. */
static ph_status chain(ph_stream *stream, void *value)
{
    PH_TRY(t_fill(&world, stream, x, N, 5));
    fill_words(x, (unsigned)*(int *)value, N, stream);
    return t_add(&world, stream, x, y, N, 1);
}

static void capture_chain(ph_graph *of, int value)
{
    assert_ok(ph_graph_capture(of, world.stream, NULL, chain, &value));
}

static void expect_chain(ph_graph *of, int value)
{
    assert_ok(ph_memset(y, 0xee, SMALL, world.stream));
    assert_ok(ph_graph_replay(of, world.stream));
    t_all(y, N, value + 1, world.stream);
    t_all(x, N, value, world.stream);
}

TEST(a_small_memset_becomes_a_kernel)
{
    capture_chain(graph, 7);
    expect_memset(graph, 1, x, 7, PH_NODE_KERNEL);
    assert_int_equal(driver_nodes(graph), 3);
    assert_int_equal(node(graph, 2).dependency_count, 1);
    expect_chain(graph, 7);
    expect_chain(graph, 7);
}

static ph_status annotated_chain(ph_stream *stream, void *value)
{
    PH_TRY(t_fill(&world, stream, x, N, 5));
    fill_words(x, (unsigned)*(int *)value, N, stream);
    PH_TRY(ph_annotation_push(stream, "behind", NULL));
    PH_TRY(t_add(&world, stream, x, y, N, 1));
    fill_words(x, (unsigned)*(int *)value, N, stream);
    PH_TRY(ph_annotation_pop(stream));
    return t_add(&world, stream, x, y, N, 1);
}

/* The scope begins and ends behind a memset, whose node has gone when somebody asks. */
TEST(scopes_keep_their_nodes)
{
    static const char *const names[] = {"", "", "behind", "behind", ""};
    const ph_record *record;
    int value = 7;
    assert_ok(ph_graph_capture(graph, world.stream,
                               &(ph_capture_options){.enable_annotations = true}, annotated_chain,
                               &value));
    for (size_t i = 0; i < 5; i++) {
        const ph_annotation_pair *pairs;
        size_t count;
        assert_ok(ph_graph_record(&record, graph));
        assert_ok(ph_record_annotation(&pairs, &count, record, i));
        assert_string_equal(count ? pairs[0].text : "", names[i]);
    }
    expect_memset(graph, 1, x, 7, PH_NODE_KERNEL);
    expect_memset(graph, 3, x, 7, PH_NODE_KERNEL);
    expect_chain(graph, 7);
}

static ph_status bytes_and_others(ph_stream *stream, void *pinned)
{
    fill_bytes((char *)x + 3, 0x5a, 101, stream);
    fill_words(large, 9, LARGE_WORDS, stream);
    fill_words(large, 8, LARGE_WORDS - 1, stream);
    fill_words(pinned, 3, N, stream);
    return PH_OK;
}

TEST(which_memsets_stay)
{
    int32_t *pinned;
    unsigned char got[SMALL];
    assert_ok(ph_malloc_pinned(&pinned, N, sizeof *pinned, world.stream));
    assert_ok(ph_memset(x, 1, SMALL, world.stream));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, bytes_and_others, pinned));
    expect_memset(graph, 0, (char *)x + 3, 0x5a, PH_NODE_KERNEL);
    expect_memset(graph, 1, large, 9, PH_NODE_MEMSET);
    expect_memset(graph, 2, large, 8, PH_NODE_KERNEL);
    expect_memset(graph, 3, pinned, 3, PH_NODE_MEMSET);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_read(got, x, sizeof got, world.stream);
    for (size_t i = 0; i < sizeof got; i++)
        assert_int_equal(got[i], i >= 3 && i < 104 ? 0x5a : 1);
    t_all(large, LARGE_WORDS - 1, 8, world.stream);
    assert_int_equal(pinned[N - 1], 3);
    assert_ok(ph_graph_reset(graph));
    ph_free_pinned(pinned, world.stream);
}

/* A memset that two branches wait for, and that waits for two. */
static ph_status diamond(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_fill(&world, stream, x, N, 1));
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(t_fill(&world, side, y, N, 2));
    PH_TRY(t_add(&world, stream, x, x, N, 10));
    PH_TRY(ph_stream_wait_stream(stream, side));
    fill_words(x, 3, N / 2, stream);
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(t_add(&world, side, x, y, N, 100));
    PH_TRY(t_add(&world, stream, x, large, N, 200));
    return ph_stream_wait_stream(stream, side);
}

TEST(edges_on_both_sides_stay)
{
    assert_ok(ph_graph_capture(graph, world.stream, NULL, diamond, NULL));
    expect_memset(graph, 3, x, 3, PH_NODE_KERNEL);
    assert_int_equal(node(graph, 3).dependency_count, 2);
    for (int i = 0; i < 20; i++) {
        assert_ok(ph_graph_replay(graph, world.stream));
        t_all(y, N / 2, 103, world.stream);
        t_all(y + N / 2, N / 2, 111, world.stream);
        t_all(large, N / 2, 203, world.stream);
    }
}

static void create_kept(ph_graph **out)
{
    assert_ok(ph_graph_create(out, &(ph_graph_options){.keep_graph = true}));
}

/* The user may have the handles of its nodes. */
TEST(a_kept_template_stays_as_it_is)
{
    create_kept(&other);
    capture_chain(other, 7);
    expect_memset(other, 1, x, 7, PH_NODE_MEMSET);
    expect_chain(other, 7);
}

/* Its handle is the hooks' until they are over. */
static ph_status see_type(const ph_graph_hook_info *info, void *seen)
{
    *(int *)seen = driver_type(info->graph, 1);
    return PH_OK;
}

TEST(hooks_see_the_template_as_it_was_captured)
{
    ph_hook *hook;
    int seen = -1;
    assert_ok(ph_graph_hook_add(&hook, graph, PH_HOOK_CAPTURE_END, see_type, &seen));
    capture_chain(graph, 7);
    assert_int_equal(seen, PH_NODE_MEMSET);
    assert_int_equal(driver_type(graph, 1), PH_NODE_KERNEL);
    ph_graph_hook_remove(hook);
}

TEST(updates_from_both_kinds_of_templates)
{
    capture_chain(graph, 7);
    create_kept(&other);
    capture_chain(other, 8);
    assert_ok(ph_graph_update(graph, other, NULL));
    expect_chain(graph, 8);
    assert_int_equal(driver_type(other, 1), PH_NODE_MEMSET);
    ph_graph_destroy(other);
    assert_ok(ph_graph_create(&other, NULL));
    capture_chain(other, 9);
    assert_ok(ph_graph_update(graph, other, NULL));
    expect_chain(graph, 9);
    assert_ok(ph_graph_node_set_memset(graph, 1, x, 11, N));
    expect_chain(graph, 11);
}

/* The other way round the node would have to become a memset again. */
TEST(an_executable_of_a_kept_template_says_why_not)
{
    create_kept(&other);
    capture_chain(other, 7);
    assert_ok(ph_graph_instantiate(other));
    capture_chain(graph, 8);
    assert_error(ph_graph_update(other, graph, NULL), PH_ERROR_MISMATCH,
                 "create both graphs with the same keep_graph");
    expect_chain(other, 7);
}

TEST(nodes_are_set_and_switched)
{
    size_t slot;
    capture_chain(graph, 7);
    assert_ok(ph_graph_node_set_memset(graph, 1, x, 4, N / 2));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N / 2, 5, world.stream);
    t_all(y + N / 2, N / 2, 6, world.stream);
    assert_ok(ph_graph_node_set_enabled(graph, 1, false));
    expect_chain(graph, 5);
    assert_ok(ph_graph_node_set_enabled(graph, 1, true));
    assert_ok(ph_graph_reset(graph));
    capture_chain(graph, 7);
    assert_ok(ph_graph_slot_find(&slot, graph, "x", x, SMALL, NULL));
    const ph_slot_value value = {.slot = slot, .value = large};
    assert_ok(ph_graph_replay_with(graph, world.stream, &value, 1));
    t_all(large, N, 7, world.stream);
    t_all(y, N, 8, world.stream);
}

static ph_status replay_inner(ph_stream *stream, void *inner)
{
    return ph_graph_replay(inner, stream);
}

TEST(a_child_graph_shows_a_memset)
{
    capture_chain(graph, 7);
    assert_ok(ph_graph_create(&other, NULL));
    assert_ok(ph_graph_capture(other, world.stream, NULL, replay_inner, graph));
    ph_node_info outer = node(other, 0), inner;
    assert_int_equal(outer.kind, PH_NODE_GRAPH);
    assert_ok(ph_record_node(&inner, outer.body, 1));
    assert_int_equal(inner.kind, PH_NODE_MEMSET);
    assert_int_equal(inner.value, 7);
    expect_chain(other, 7);
}

/* ---- failures ---- */

static ph_status capture_and_replay(void *user)
{
    int value = 7;
    (void)user;
    PH_TRY(ph_graph_capture(graph, world.stream, NULL, chain, &value));
    PH_TRY(ph_graph_replay(graph, world.stream));
    return ph_stream_synchronize(world.stream);
}

static void check_and_reset(ph_status status, void *user)
{
    (void)user;
    if (status == PH_OK)
        t_all(y, N, 8, world.stream);
    assert_ok(ph_graph_reset(graph));
}

static const t_swept swept = {.name = "small fills",
                              .open = open_world,
                              .close = close_world,
                              .run = capture_and_replay,
                              .reset = check_and_reset,
                              .may_do_less = true};

TEST(test_host_memory_gives_out)
{
    t_sweep_host_memory(&swept, 3);
}

TEST(test_the_driver_fails)
{
    assert_true(t_sweep(&swept, t_driver_fault(PH__R_LAUNCH_FAILED)).failures > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_small_memset_becomes_a_kernel),
        IN_WORLD(scopes_keep_their_nodes),
        IN_WORLD(which_memsets_stay),
        IN_WORLD(edges_on_both_sides_stay),
        IN_WORLD(a_kept_template_stays_as_it_is),
        IN_WORLD(hooks_see_the_template_as_it_was_captured),
        IN_WORLD(updates_from_both_kinds_of_templates),
        IN_WORLD(an_executable_of_a_kept_template_says_why_not),
        IN_WORLD(nodes_are_set_and_switched),
        IN_WORLD(a_child_graph_shows_a_memset),
        cmocka_unit_test(test_host_memory_gives_out),
        cmocka_unit_test(test_the_driver_fails),
    };
    return cmocka_run_group_tests_name("cuda.small_fills", tests, NULL, NULL);
}
