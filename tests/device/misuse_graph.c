/* SPDX-License-Identifier: MIT */
/* tests/device/misuse_graph.c: what captures, graphs, nodes, hooks and records answer to bad
 * input: a status of its own, a message that names the call, cleared outputs, and nothing
 * changed. Which call is legal in which state is tests/graph/states.c's. */
#include "support/support.h"
#include "support/test.h"
#include <phonograph/cuda.h>
#include <phonograph/host.h>
#include <stdint.h>
#include <string.h>

enum {
    N = 256
};

#define POISON(pointer) memset(&(pointer), 0xAB, sizeof(pointer))
#define REFUSED_OUT(pointer, call, status, part)                                                   \
    do {                                                                                           \
        POISON(pointer);                                                                           \
        assert_error(call, status, part);                                                          \
        assert_null(pointer);                                                                      \
    } while (0)

/* Two devices; on the first a READY graph of a fill, a copy, a fill by the driver and a host
 * function, and an ENDED one. */
typedef struct scene {
    t_world world, other;
    ph_graph *graph, *kept;
    int32_t *x, *y;
    ph_pool *foreign; /* of the other device */
} scene;

static void no_call(void *user)
{
    (void)user;
}

static ph_status four_nodes(ph_stream *stream, void *user)
{
    scene *s = user;
    PH_TRY(t_fill(&s->world, stream, s->x, N, 1));
    PH_TRY(ph_memcpy(s->y, s->x, N * sizeof(int32_t), stream));
    PH_TRY(ph_memset(s->x, 2, N * sizeof(int32_t), stream));
    return ph_launch_host(stream, no_call, NULL);
}

static void open_scene(scene *s)
{
    ph_graph_options keep = {.keep_graph = true};
    t_open(&s->world, NULL);
    t_open(&s->other, NULL);
    assert_ok(PH_NEW(&s->x, N, s->world.stream));
    assert_ok(PH_NEW(&s->y, N, s->world.stream));
    assert_ok(ph_pool_create(&s->foreign, s->other.device, NULL));
    assert_ok(ph_graph_create(&s->graph, NULL));
    assert_ok(ph_graph_create(&s->kept, &keep));
    assert_ok(ph_graph_capture(s->graph, s->world.stream, NULL, four_nodes, s));
    assert_ok(ph_graph_capture(s->kept, s->world.stream, NULL, four_nodes, s));
}

static void close_scene(scene *s)
{
    /* Whatever was refused, the graph still does what was captured. */
    assert_ok(ph_graph_replay(s->graph, s->world.stream));
    t_all(s->y, N, 1, s->world.stream);
    t_all(s->x, N, 0x02020202, s->world.stream);
    ph_graph_destroy(s->graph);
    ph_graph_destroy(s->kept);
    ph_pool_release(s->foreign);
    ph_free(s->x, NULL);
    ph_free(s->y, NULL);
    t_close(&s->other);
    t_close(&s->world);
}

TEST(captures_refuse_bad_arguments_and_states)
{
    scene s;
    ph_graph *graph;
    open_scene(&s);
    ph_stream *stream = s.world.stream, *legacy = ph_device_default_stream(s.world.device);
    ph_graph_options keep = {.reserved = {1}};
    ph_capture_options mode = {.mode = (ph_capture_mode)3}, breadcrumbs = {.breadcrumbs = true};
    ph_capture_options reserved = {.reserved = {1}}, foreign = {.pool = s.foreign};
    assert_error(ph_graph_create(NULL, NULL), PH_ERROR_ARGUMENT, "ph_graph_create: out");
    REFUSED_OUT(graph, ph_graph_create(&graph, &keep), PH_ERROR_ARGUMENT, "ph_graph_options");
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_capture_begin(NULL, stream, NULL), PH_ERROR_ARGUMENT,
                 "ph_graph_capture_begin: graph");
    assert_error(ph_graph_capture_begin(graph, NULL, NULL), PH_ERROR_ARGUMENT,
                 "ph_graph_capture_begin: stream");
    assert_error(ph_graph_capture_begin(graph, legacy, NULL), PH_ERROR_DEFAULT_STREAM,
                 "ph_graph_capture_begin");
    assert_non_null(strstr(ph_error_last()->message,
                           "captures must run on a stream other than the legacy default stream"));
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    assert_ok(t_fill(&s.world, legacy, s.x, N, 4)); /* nothing is broken */
    t_all(s.x, N, 4, legacy);
    assert_error(ph_graph_capture_begin(graph, stream, &mode), PH_ERROR_ARGUMENT,
                 "ph_graph_capture_begin");
    assert_error(ph_graph_capture_begin(graph, stream, &breadcrumbs), PH_ERROR_ARGUMENT,
                 "enable_annotations");
    assert_error(ph_graph_capture_begin(graph, stream, &reserved), PH_ERROR_ARGUMENT,
                 "ph_capture_options");
    assert_error(ph_graph_capture_begin(graph, stream, &foreign), PH_ERROR_WRONG_DEVICE,
                 "ph_graph_capture_begin");
    assert_error(ph_graph_capture(NULL, stream, NULL, four_nodes, &s), PH_ERROR_ARGUMENT,
                 "ph_graph_capture: graph");
    assert_error(ph_graph_capture(graph, NULL, NULL, four_nodes, &s), PH_ERROR_ARGUMENT,
                 "ph_graph_capture: stream");
    assert_error(ph_graph_capture(graph, stream, NULL, NULL, &s), PH_ERROR_ARGUMENT,
                 "ph_graph_capture: body");
    assert_error(ph_graph_capture(graph, legacy, NULL, four_nodes, &s), PH_ERROR_DEFAULT_STREAM,
                 "ph_graph_capture");
    assert_error(ph_graph_capture(graph, stream, &foreign, four_nodes, &s), PH_ERROR_WRONG_DEVICE,
                 "ph_graph_capture");
    assert_error(ph_graph_capture_end(NULL, PH_OK), PH_ERROR_ARGUMENT,
                 "ph_graph_capture_end: graph");
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    assert_false(ph_stream_is_capturing(stream));
    assert_int_equal(ph_pool_use_count(s.foreign), 1);
    ph_graph_capture_abort(NULL);
    ph_graph_capture_abort(graph);
    ph_graph_destroy(NULL);
    assert_int_equal(ph_graph_get_state(NULL), PH_GRAPH_NEW);
    ph_graph_destroy(graph);
    close_scene(&s);
}

/* A pool that is being recorded to, by a scope or by another capture. */
TEST(a_capture_refuses_a_pool_that_is_busy)
{
    scene s;
    ph_pool *pool;
    ph_stream *stream;
    ph_graph *first, *second;
    open_scene(&s);
    assert_ok(ph_pool_create(&pool, s.world.device, NULL));
    assert_ok(ph_stream_create(&stream, s.world.device, NULL));
    assert_ok(ph_graph_create(&first, NULL));
    assert_ok(ph_graph_create(&second, NULL));
    ph_capture_options options = {.pool = pool};
    assert_ok(ph_pool_begin(pool));
    assert_error(ph_graph_capture_begin(first, stream, &options), PH_ERROR_POOL_BUSY,
                 "ph_graph_capture_begin");
    assert_ok(ph_pool_end(pool));
    assert_ok(ph_graph_capture_begin(first, stream, &options));
    assert_error(ph_graph_capture_begin(second, s.world.stream, &options), PH_ERROR_POOL_BUSY,
                 "ph_graph_capture_begin");
    assert_error(ph_pool_begin(pool), PH_ERROR_POOL_BUSY, "ph_pool_begin");
    assert_false(ph_stream_is_capturing(s.world.stream));
    assert_ok(t_fill(&s.world, stream, s.x, N, 3));
    assert_ok(ph_graph_capture_end(first, PH_OK));
    assert_ok(ph_graph_capture(second, stream, &options, four_nodes, &s));
    ph_graph_destroy(first);
    ph_graph_destroy(second);
    assert_int_equal(ph_pool_use_count(pool), 1);
    ph_pool_release(pool);
    ph_stream_destroy(stream);
    close_scene(&s);
}

/* One device per capture: work, waits and pools of another one are refused, and the capture goes
 * on. */
TEST(another_device_in_a_capture)
{
    scene s;
    ph_graph *graph;
    ph_event *event;
    int32_t *foreign;
    open_scene(&s);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_event_create(&event, s.world.device, NULL));
    assert_ok(PH_NEW(&foreign, N, s.other.stream));
    assert_ok(ph_graph_capture_begin(graph, s.world.stream, NULL));
    assert_ok(ph_event_record(event, s.world.stream));
    assert_error(ph_stream_wait_event(s.other.stream, event), PH_ERROR_WRONG_DEVICE,
                 "ph_stream_wait_event");
    assert_error(ph_stream_wait_stream(s.other.stream, s.world.stream), PH_ERROR_WRONG_DEVICE,
                 "ph_stream_wait_stream");
    assert_status(t_fill(&s.other, s.world.stream, s.x, N, 1), PH_ERROR_WRONG_DEVICE);
    assert_error(ph_graph_retain_pool(graph, s.foreign), PH_ERROR_WRONG_DEVICE,
                 "ph_graph_retain_pool");
    assert_error(ph_graph_retain_pool(graph, NULL), PH_ERROR_ARGUMENT, "ph_graph_retain_pool");
    if (t_on_host()) /* devices of one GPU share its addresses */
        assert_error(ph_memcpy(s.x, foreign, sizeof *foreign, s.world.stream), PH_ERROR_UNPINNED,
                     "memory of another device, which is pageable here, (src 0x");
    /* The other device is not in a capture: its work goes on. */
    assert_ok(t_fill(&s.other, s.other.stream, foreign, N, 5));
    if (t_on_host()) /* two devices of one GPU share the context that is in a capture */
        assert_ok(ph_device_synchronize(s.other.device));
    assert_ok(t_fill(&s.world, s.world.stream, s.x, N, 1));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_error(ph_graph_replay(graph, s.other.stream), PH_ERROR_WRONG_DEVICE, "ph_graph_replay");
    ph_graph_destroy(graph);
    ph_event_destroy(event);
    ph_free(foreign, NULL);
    close_scene(&s);
}

TEST(graph_calls_refuse_bad_arguments_and_other_devices)
{
    scene s;
    ph_host_graph *host;
    ph_host_exec *host_exec;
    ph_pool *pool;
    size_t count = 9;
    struct CUgraph_st *cuda;
    struct CUgraphExec_st *exec;
    open_scene(&s);
    assert_error(ph_graph_replay(NULL, s.world.stream), PH_ERROR_ARGUMENT,
                 "ph_graph_replay: graph");
    assert_error(ph_graph_replay(s.graph, NULL), PH_ERROR_ARGUMENT, "ph_graph_replay: stream");
    assert_error(ph_graph_replay(s.graph, s.other.stream), PH_ERROR_WRONG_DEVICE,
                 "ph_graph_replay");
    assert_error(ph_graph_upload(NULL, s.world.stream), PH_ERROR_ARGUMENT,
                 "ph_graph_upload: graph");
    assert_error(ph_graph_upload(s.graph, NULL), PH_ERROR_ARGUMENT, "ph_graph_upload: stream");
    assert_error(ph_graph_upload(s.graph, s.other.stream), PH_ERROR_WRONG_DEVICE,
                 "ph_graph_upload");
    assert_error(ph_graph_upload(s.kept, s.other.stream), PH_ERROR_WRONG_DEVICE, "ph_graph_upload");
    assert_int_equal(ph_graph_get_state(s.kept), PH_GRAPH_ENDED);
    assert_error(ph_graph_instantiate(NULL), PH_ERROR_ARGUMENT, "ph_graph_instantiate: graph");
    assert_error(ph_graph_reset(NULL), PH_ERROR_ARGUMENT, "ph_graph_reset: graph");
    assert_error(ph_graph_pool(NULL, s.graph), PH_ERROR_ARGUMENT, "ph_graph_pool: out");
    REFUSED_OUT(pool, ph_graph_pool(&pool, NULL), PH_ERROR_ARGUMENT, "ph_graph_pool: graph");
    assert_error(ph_graph_pools(NULL, 0, NULL, s.graph), PH_ERROR_ARGUMENT,
                 "ph_graph_pools: count");
    assert_error(ph_graph_pools(NULL, 1, &count, s.graph), PH_ERROR_ARGUMENT,
                 "ph_graph_pools: pools");
    assert_int_equal(count, 0);
    assert_error(ph_graph_pools(&pool, 1, &count, NULL), PH_ERROR_ARGUMENT,
                 "ph_graph_pools: graph");
    assert_error(ph_graph_retain(NULL, no_call, NULL, false), PH_ERROR_ARGUMENT,
                 "ph_graph_retain: graph");
    assert_error(ph_graph_retain(s.graph, NULL, NULL, false), PH_ERROR_ARGUMENT,
                 "ph_graph_retain: release");
    assert_error(ph_graph_host(NULL, s.kept), PH_ERROR_ARGUMENT, "ph_graph_host: out");
    REFUSED_OUT(host, ph_graph_host(&host, NULL), PH_ERROR_ARGUMENT, "ph_graph_host: graph");
    assert_error(ph_graph_exec_host(NULL, s.graph), PH_ERROR_ARGUMENT, "ph_graph_exec_host: out");
    REFUSED_OUT(host_exec, ph_graph_exec_host(&host_exec, NULL), PH_ERROR_ARGUMENT,
                "ph_graph_exec_host: graph");
    REFUSED_OUT(cuda, ph_graph_cuda(&cuda, NULL), PH_ERROR_ARGUMENT, "ph_graph_cuda: graph");
    REFUSED_OUT(exec, ph_graph_exec_cuda(&exec, NULL), PH_ERROR_ARGUMENT,
                "ph_graph_exec_cuda: graph");
    if (t_on_host()) {
        REFUSED_OUT(cuda, ph_graph_cuda(&cuda, s.kept), PH_ERROR_UNSUPPORTED, "ph_graph_cuda");
        REFUSED_OUT(exec, ph_graph_exec_cuda(&exec, s.graph), PH_ERROR_UNSUPPORTED,
                    "ph_graph_exec_cuda");
    }
    assert_error(ph_graph_cuda(NULL, s.kept), PH_ERROR_ARGUMENT, "ph_graph_cuda: out");
    assert_error(ph_graph_exec_cuda(NULL, s.graph), PH_ERROR_ARGUMENT, "ph_graph_exec_cuda: out");
    assert_error(ph_graph_debug_dump(NULL, "x.dot", false), PH_ERROR_ARGUMENT,
                 "ph_graph_debug_dump: graph");
    assert_error(ph_graph_debug_dump(s.graph, NULL, false), PH_ERROR_ARGUMENT,
                 "ph_graph_debug_dump: path");
    assert_error(ph_graph_debug_dump(s.graph, "/no/such/folder/x.dot", false), PH_ERROR_IO,
                 "/no/such/folder");
    assert_int_equal(ph_graph_epoch(NULL), 0);
    assert_error(ph_graph_check_output(NULL, s.x, 0), PH_ERROR_ARGUMENT,
                 "ph_graph_check_output: graph");
    assert_error(ph_graph_check_output(s.graph, &count, 0), PH_ERROR_NOT_FOUND,
                 "ph_graph_check_output");
    assert_error(ph_graph_check_inputs(NULL), PH_ERROR_ARGUMENT, "ph_graph_check_inputs: graph");
    close_scene(&s);
}

TEST(node_calls_refuse_bad_arguments_and_other_kinds)
{
    scene s;
    bool enabled = true;
    open_scene(&s);
    ph_graph *g = s.graph;
    int32_t pageable[N];
    struct t_fill_i32 args = {N, s.x, 9};
    ph_launch_config config = t_config(N), wide = {.block = {2000, 1, 1}};
    const size_t bytes = sizeof pageable;
    assert_error(ph_graph_node_set_launch(NULL, 0, &config, &args, sizeof args), PH_ERROR_ARGUMENT,
                 "set_launch: graph");
    assert_error(ph_graph_node_set_launch(g, 4, &config, &args, sizeof args), PH_ERROR_NOT_FOUND,
                 "set_launch");
    assert_error(ph_graph_node_set_launch(g, SIZE_MAX, &config, &args, sizeof args),
                 PH_ERROR_NOT_FOUND, "set_launch");
    assert_error(ph_graph_node_set_launch(g, 1, &config, &args, sizeof args), PH_ERROR_ARGUMENT,
                 "memcpy");
    assert_error(ph_graph_node_set_launch(g, 0, &config, NULL, sizeof args), PH_ERROR_ARGUMENT,
                 "args");
    assert_error(ph_graph_node_set_launch(g, 0, &config, &args, 1), PH_ERROR_ARGUMENT,
                 "set_launch");
    assert_error(ph_graph_node_set_launch(g, 0, &wide, &args, sizeof args), PH_ERROR_ARGUMENT,
                 "2000");
    assert_error(ph_graph_node_set_memcpy(NULL, 1, s.x, s.y, bytes), PH_ERROR_ARGUMENT,
                 "set_memcpy: graph");
    assert_error(ph_graph_node_set_memcpy(g, 9, s.x, s.y, bytes), PH_ERROR_NOT_FOUND, "set_memcpy");
    assert_error(ph_graph_node_set_memcpy(g, 0, s.x, s.y, bytes), PH_ERROR_ARGUMENT, "kernel");
    assert_error(ph_graph_node_set_memcpy(g, 1, NULL, s.y, bytes), PH_ERROR_ARGUMENT, "dst");
    assert_error(ph_graph_node_set_memcpy(g, 1, s.x, NULL, bytes), PH_ERROR_ARGUMENT, "src");
    assert_error(ph_graph_node_set_memcpy(g, 1, s.x, s.x, bytes), PH_ERROR_ARGUMENT, "overlap");
    assert_error(ph_graph_node_set_memcpy(g, 1, s.x, s.y, (size_t)1 << 40), PH_ERROR_SIZE,
                 "set_memcpy");
    assert_error(ph_graph_node_set_memcpy(g, 1, s.x, s.y, 0), PH_ERROR_ARGUMENT, "0 bytes");
    assert_error(ph_graph_node_set_memcpy(g, 1, pageable, s.y, bytes), PH_ERROR_UNPINNED,
                 "set_memcpy");
    assert_error(ph_graph_node_set_memset(NULL, 2, s.x, 0, 8), PH_ERROR_ARGUMENT,
                 "set_memset: graph");
    assert_error(ph_graph_node_set_memset(g, 7, s.x, 0, 8), PH_ERROR_NOT_FOUND, "set_memset");
    assert_error(ph_graph_node_set_memset(g, 3, s.x, 0, 8), PH_ERROR_ARGUMENT, "host");
    assert_error(ph_graph_node_set_memset(g, 2, NULL, 0, 8), PH_ERROR_ARGUMENT, "dst");
    assert_error(ph_graph_node_set_memset(g, 2, s.x, 0, SIZE_MAX), PH_ERROR_SIZE, "set_memset");
    assert_error(ph_graph_node_set_memset(g, 2, pageable, 0, 8), PH_ERROR_ARGUMENT, "set_memset");
    assert_error(ph_graph_node_set_host(NULL, 3, no_call, NULL), PH_ERROR_ARGUMENT,
                 "set_host: graph");
    assert_error(ph_graph_node_set_host(g, 4, no_call, NULL), PH_ERROR_NOT_FOUND, "set_host");
    assert_error(ph_graph_node_set_host(g, 2, no_call, NULL), PH_ERROR_ARGUMENT, "memset");
    assert_error(ph_graph_node_set_host(g, 3, NULL, NULL), PH_ERROR_ARGUMENT, "fn");
    assert_error(ph_graph_node_set_enabled(NULL, 0, false), PH_ERROR_ARGUMENT,
                 "set_enabled: graph");
    assert_error(ph_graph_node_set_enabled(g, 4, false), PH_ERROR_NOT_FOUND, "set_enabled");
    assert_error(ph_graph_node_set_enabled(g, 3, false), PH_ERROR_UNSUPPORTED, "host");
    assert_error(ph_graph_node_get_enabled(NULL, g, 0), PH_ERROR_ARGUMENT, "get_enabled: out");
    assert_error(ph_graph_node_get_enabled(&enabled, NULL, 0), PH_ERROR_ARGUMENT,
                 "get_enabled: graph");
    assert_false(enabled);
    assert_error(ph_graph_node_get_enabled(&enabled, g, 4), PH_ERROR_NOT_FOUND, "get_enabled");
    assert_error(ph_graph_node_get_enabled(&enabled, g, 3), PH_ERROR_UNSUPPORTED, "host");
    close_scene(&s);
}

static ph_status one_node(ph_stream *stream, void *user)
{
    scene *s = user;
    return t_fill(&s->world, stream, s->y, N, 1);
}

static ph_status foreign_node(ph_stream *stream, void *user)
{
    (void)user;
    return ph_launch_host(stream, no_call, NULL);
}

TEST(updates_refuse_graphs_that_do_not_match)
{
    scene s;
    ph_graph *small, *foreign;
    ph_update_result result;
    open_scene(&s);
    assert_ok(ph_graph_create(&small, NULL));
    assert_ok(ph_graph_create(&foreign, NULL));
    assert_ok(ph_graph_capture(small, s.world.stream, NULL, one_node, &s));
    assert_ok(ph_graph_capture(foreign, s.other.stream, NULL, foreign_node, &s));
    assert_error(ph_graph_update(NULL, small, &result), PH_ERROR_ARGUMENT,
                 "ph_graph_update: graph");
    assert_error(ph_graph_update(s.graph, NULL, &result), PH_ERROR_ARGUMENT, "ph_graph_update");
    assert_error(ph_graph_update(s.graph, foreign, &result), PH_ERROR_WRONG_DEVICE,
                 "ph_graph_update");
    memset(&result, 0xFF, sizeof result);
    assert_error(ph_graph_update(s.graph, small, &result), PH_ERROR_MISMATCH, "ph_graph_update");
    assert_native(910);
    assert_int_equal(result.reason, PH_UPDATE_TOPOLOGY);
    assert_true(strlen(result.message) > 10);
    assert_error(ph_graph_update(s.graph, small, NULL), PH_ERROR_MISMATCH, "ph_graph_update");
    ph_graph_destroy(small);
    ph_graph_destroy(foreign);
    close_scene(&s);
}

static ph_status no_hook(const ph_graph_hook_info *info, void *user)
{
    (void)info;
    (void)user;
    return PH_OK;
}

TEST(hooks_refuse_bad_arguments_and_points)
{
    scene s;
    ph_hook *hook;
    open_scene(&s);
    assert_error(ph_graph_hook_add(NULL, s.graph, PH_HOOK_DESTROY, no_hook, NULL),
                 PH_ERROR_ARGUMENT, "ph_graph_hook_add: out");
    REFUSED_OUT(hook, ph_graph_hook_add(&hook, s.graph, PH_HOOK_DESTROY, NULL, NULL),
                PH_ERROR_ARGUMENT, "ph_graph_hook_add: fn");
    REFUSED_OUT(hook, ph_graph_hook_add(&hook, s.graph, (ph_graph_hook_point)0, no_hook, NULL),
                PH_ERROR_ARGUMENT, "ph_graph_hook_add");
    REFUSED_OUT(hook, ph_graph_hook_add(&hook, NULL, (ph_graph_hook_point)8, no_hook, NULL),
                PH_ERROR_ARGUMENT, "ph_graph_hook_add");
    ph_graph_hook_remove(NULL);
    close_scene(&s);
}

TEST(record_calls_refuse_bad_arguments_by_name)
{
    scene s;
    const ph_record *record;
    ph_node_info node;
    ph_word word;
    char *text;
    size_t count = 5;
    ph_node_kind kind;
    open_scene(&s);
    assert_error(ph_graph_record(NULL, s.graph), PH_ERROR_ARGUMENT, "ph_graph_record: out");
    REFUSED_OUT(record, ph_graph_record(&record, NULL), PH_ERROR_ARGUMENT,
                "ph_graph_record: graph");
    assert_ok(ph_graph_record(&record, s.graph));
    assert_int_equal(ph_record_node_count(NULL), 0);
    assert_int_equal(ph_record_edge_count(NULL), 0);
    assert_error(ph_record_node(NULL, record, 0), PH_ERROR_ARGUMENT, "ph_record_node: out");
    assert_error(ph_record_node(&node, NULL, 0), PH_ERROR_ARGUMENT, "ph_record_node: record");
    assert_error(ph_record_node(&node, record, 4), PH_ERROR_NOT_FOUND, "ph_record_node");
    assert_null(node.name);
    assert_error(ph_record_word(NULL, record, 0, 0), PH_ERROR_ARGUMENT, "ph_record_word: out");
    assert_error(ph_record_word(&word, NULL, 0, 0), PH_ERROR_ARGUMENT, "ph_record_word: record");
    assert_error(ph_record_word(&word, record, 4, 0), PH_ERROR_NOT_FOUND, "ph_record_word");
    assert_error(ph_record_word(&word, record, 0, 99), PH_ERROR_NOT_FOUND, "ph_record_word");
    assert_null(ph_record_dependencies(record, 4));
    assert_null(ph_record_dependents(NULL, 0));
    assert_error(ph_record_json(NULL, record), PH_ERROR_ARGUMENT, "ph_record_json: out");
    REFUSED_OUT(text, ph_record_json(&text, NULL), PH_ERROR_ARGUMENT, "ph_record_json: record");
    assert_error(ph_record_dot(NULL, record, false), PH_ERROR_ARGUMENT, "ph_record_dot: out");
    REFUSED_OUT(text, ph_record_dot(&text, NULL, false), PH_ERROR_ARGUMENT,
                "ph_record_dot: record");
    assert_error(ph_record_dump(NULL, "x.json"), PH_ERROR_ARGUMENT, "ph_record_dump: record");
    assert_error(ph_record_dump(record, NULL), PH_ERROR_ARGUMENT, "ph_record_dump: path");
    assert_error(ph_record_dump(record, "/no/such/folder/x.json"), PH_ERROR_IO, "/no/such/folder");
    assert_int_equal(ph_error_last()->native_code, 2); /* ENOENT */
    assert_non_null(ph_node_kind_name((ph_node_kind)99));
    assert_error(ph_host_graph_nodes(NULL, 0, &count, NULL), PH_ERROR_ARGUMENT,
                 "ph_host_graph_nodes");
    assert_int_equal(count, 0);
    assert_error(ph_host_node_kind(&kind, NULL), PH_ERROR_ARGUMENT, "ph_host_node_kind");
    assert_error(ph_host_node_dependencies(NULL, 0, &count, NULL), PH_ERROR_ARGUMENT,
                 "ph_host_node_dependencies");
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captures_refuse_bad_arguments_and_states),
        cmocka_unit_test(a_capture_refuses_a_pool_that_is_busy),
        cmocka_unit_test(another_device_in_a_capture),
        cmocka_unit_test(graph_calls_refuse_bad_arguments_and_other_devices),
        cmocka_unit_test(node_calls_refuse_bad_arguments_and_other_kinds),
        cmocka_unit_test(updates_refuse_graphs_that_do_not_match),
        cmocka_unit_test(hooks_refuse_bad_arguments_and_points),
        cmocka_unit_test(record_calls_refuse_bad_arguments_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
