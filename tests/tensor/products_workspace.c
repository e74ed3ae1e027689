/* SPDX-License-Identifier: MIT */
/* tests/tensor/products_workspace.c: workspaces of captured products by themselves: a block a
 * stream, of many streams and threads. */
#include "tensor/products/products_workspace.h"
#include "support/tensors.h"
#include "support/test.h"

/* ---- many streams, some of them at once ---- more than blocks are made at a time */
TEST(workspaces_of_many_streams)
{
    enum {
        STREAMS = 2 * PH__WORKSPACES + 3
    };
    t_scene s;
    ph_stream *streams[STREAMS];
    void *blocks[STREAMS], *again;
    ph_memory_stats stats;
    ph__workspaces *workspaces;
    t_scene_open(&s);
    workspaces = ph__workspaces_create(s.device);
    assert_non_null(workspaces);
    assert_ok(ph__workspaces_prepare(workspaces));
    assert_ok(ph__workspaces_prepare(workspaces));
    assert_int_equal(workspaces->made.count, 0);
    assert_int_equal(workspaces->idle.count, 1);
    assert_ok(ph_pool_stats(&stats, workspaces->idle.at[0]));
    assert_true(stats.reserved >= PH__WORKSPACES * PH__WORKSPACE_BYTES);
    assert_int_equal(stats.allocated, 0);
    assert_int_equal(stats.segments, 1);
    assert_ok(ph__workspace_of(&again, workspaces, s.stream, "test"));
    assert_null(again); /* in no capture */
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    for (int i = 0; i < STREAMS; i++) {
        assert_ok(ph_stream_create(&streams[i], s.device, NULL));
        assert_ok(ph_graph_reset(graph));
        assert_ok(ph_graph_capture_begin(graph, streams[i], NULL));
        assert_ok(ph__workspace_of(&blocks[i], workspaces, streams[i], "test"));
        assert_ok(ph__workspace_of(&again, workspaces, streams[i], "test"));
        ph_graph_capture_abort(graph);
        assert_ptr_equal(again, blocks[i]);
        for (int k = 0; k < i; k++) {
            intptr_t apart = (intptr_t)blocks[i] - (intptr_t)blocks[k];
            assert_true(apart >= PH__WORKSPACE_BYTES || -apart >= PH__WORKSPACE_BYTES);
        }
    }
    assert_int_equal(workspaces->made.count, 3);
    ph_graph_destroy(graph);
    for (int i = 0; i < STREAMS; i++)
        ph_stream_destroy(streams[i]);
    ph__workspaces_destroy(workspaces);
    t_scene_close(&s);
}

/* The last tape goes before the graph does. Nothing of it is an input: it is a place to write. */
TEST(workspaces_outlive_their_owner)
{
    t_scene s;
    ph_graph *graph;
    void *block;
    size_t inputs;
    ph__workspaces *workspaces;
    const ph_capture_options checked = {.check_input_liveness = true};
    t_scene_open(&s);
    workspaces = ph__workspaces_create(s.device);
    assert_non_null(workspaces);
    assert_ok(ph_graph_create(&graph, NULL));
    t_log_start();
    assert_ok(ph_graph_capture_begin(graph, s.stream, &checked));
    assert_ok(ph__workspace_of(&block, workspaces, s.stream, "test"));
    ph_graph_capture_abort(
        graph); /* what a capture makes is its graph's in any case: it is there now */
    assert_ok(ph_graph_capture_begin(graph, s.stream, &checked));
    assert_ok(ph__workspace_of(&block, workspaces, s.stream, "test"));
    assert_ok(ph_memset(block, 0, PH__WORKSPACE_BYTES, s.stream));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_input_count(&inputs, graph));
    assert_int_equal(inputs, 0);
    ph__workspaces_destroy(workspaces);
    assert_ok(ph_graph_replay(graph, s.stream));
    assert_ok(ph_graph_check_inputs(graph));
    assert_int_equal(t_log_count("input"), 0);
    assert_int_equal(t_log_count("address"), 0);
    t_log_stop();
    assert_ok(ph_stream_synchronize(s.stream));
    ph_graph_destroy(graph);
    t_scene_close(&s);
}

/* ---- threads ---- a pool has one scope at a time, and they all want blocks at once */
enum {
    THREADS = 4,
    ROUNDS = 40
};
typedef struct worker {
    ph__workspaces *workspaces;
    ph_device *device;
    pthread_barrier_t *together;
    ph_status status;
} worker;

static ph_status take_one(ph__workspaces *workspaces, ph_stream *stream, ph_graph *graph)
{
    void *block = NULL;
    const ph_capture_options options = {.mode = PH_CAPTURE_THREAD_LOCAL};
    PH_TRY(ph_graph_capture_begin(graph, stream, &options));
    ph_status status = ph__workspace_of(&block, workspaces, stream, "test");
    ph_graph_capture_abort(graph);
    return status == PH_OK && !block ? PH_ERROR_STATE : status;
}

static void *take_many(void *user)
{
    worker *w = user;
    for (int i = 0; i < ROUNDS; i++) {
        ph_stream *stream = NULL;
        ph_graph *graph = NULL;
        ph_status status = ph_stream_create(&stream, w->device, NULL);
        if (status == PH_OK)
            status = ph_graph_create(&graph, NULL);
        (void)pthread_barrier_wait(w->together);
        if (status == PH_OK)
            status = take_one(w->workspaces, stream, graph);
        if (w->status == PH_OK)
            w->status = status;
        ph_graph_destroy(graph);
        ph_stream_destroy(stream);
    }
    return NULL;
}

TEST(threads_at_once)
{
    t_scene s;
    pthread_t threads[THREADS];
    worker workers[THREADS];
    pthread_barrier_t together;
    t_scene_open(&s);
    assert_int_equal(pthread_barrier_init(&together, NULL, THREADS), 0);
    for (int round = 0; round < 20; round++) {
        ph__workspaces *workspaces = ph__workspaces_create(s.device);
        assert_non_null(workspaces);
        for (int i = 0; i < THREADS; i++) {
            workers[i] = (worker){workspaces, s.device, &together, PH_OK};
            assert_int_equal(pthread_create(&threads[i], NULL, take_many, &workers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            assert_int_equal(workers[i].status, PH_OK);
        }
        ph__workspaces_destroy(workspaces);
    }
    (void)pthread_barrier_destroy(&together);
    t_scene_close(&s);
}

/* ---- user code ---- the free function of a program's pool runs late, on any thread, "with no
 * lock held": so also where a workspace is made */
typedef struct late {
    ph__workspaces *workspaces;
    ph_device *device;
    bool came, done;
    ph_status status;
} late;

static ph_status from_the_host(void **out, size_t bytes, ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    *out = aligned_alloc(4096, bytes);
    return *out ? PH_OK : ph_fail(PH_ERROR_DEVICE_MEMORY, "no memory for the test");
}

static ph_status prepare_and_take(ph__workspaces *workspaces, ph_device *device)
{
    ph_stream *stream;
    ph_graph *graph;
    PH_TRY(ph__workspaces_prepare(workspaces));
    PH_TRY(ph_stream_create(&stream, device, NULL));
    ph_status status = ph_graph_create(&graph, NULL);
    if (status == PH_OK)
        status = take_one(workspaces, stream, graph);
    ph_graph_destroy(graph);
    ph_stream_destroy(stream);
    return status;
}

static void *elsewhere(void *user)
{
    late *l = user;
    l->status = prepare_and_take(l->workspaces, l->device);
    return NULL;
}

/* Waits for a thread that captures, and captures itself. */
static void give_back_late(void *pointer, size_t bytes, void *user)
{
    late *l = user;
    pthread_t other;
    (void)bytes;
    free(pointer);
    l->came = true;
    if (l->workspaces == NULL || l->done)
        return;
    l->done = true;
    assert_int_equal(pthread_create(&other, NULL, elsewhere, l), 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(l->status, PH_OK);
    assert_ok(prepare_and_take(l->workspaces, l->device));
}

/* Memory of it that goes back to its source with the next request: a stream has used it until a
 * moment ago. */
static void leave_a_late_free(const t_scene *s, late *l)
{
    ph_pool *pool;
    ph_stream *user;
    void *block;
    t_gate gate = {0};
    const ph_pool_options options = {.alloc = from_the_host, .free = give_back_late, .user = l};
    assert_ok(ph_stream_create(&user, s->device, NULL));
    assert_ok(ph_pool_create(&pool, s->device, &options));
    assert_ok(ph_pool_begin(pool));
    assert_ok(ph_malloc(&block, 1, 4096, s->stream));
    assert_ok(ph_pool_end(pool));
    assert_ok(t_gate_wait(&gate, user));
    assert_ok(ph_record_stream(block, user));
    ph_free(block, s->stream);
    ph_pool_release(pool);
    assert_false(l->came);
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(user));
    assert_false(l->came);
    ph_stream_destroy(user);
}

/* prepared: whether there is memory, so that the next look at it is all that runs the function. */
static void with_a_late_free(bool prepared)
{
    t_scene s;
    ph__workspaces *workspaces;
    late l = {0};
    t_scene_open(&s);
    workspaces = ph__workspaces_create(s.device);
    assert_non_null(workspaces);
    if (prepared)
        assert_ok(ph__workspaces_prepare(workspaces));
    leave_a_late_free(&s, &l);
    l.workspaces = workspaces;
    l.device = s.device;
    assert_ok(ph__workspaces_prepare(workspaces));
    assert_true(l.done);
    ph__workspaces_destroy(workspaces);
    t_scene_close(&s);
}

TEST(sources_of_the_program_may_capture)
{
    with_a_late_free(false);
}

TEST(they_may_where_there_is_memory)
{
    with_a_late_free(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workspaces_of_many_streams),
        cmocka_unit_test(workspaces_outlive_their_owner),
        cmocka_unit_test(threads_at_once),
        cmocka_unit_test(sources_of_the_program_may_capture),
        cmocka_unit_test(they_may_where_there_is_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
