/* SPDX-License-Identifier: MIT */
/* tests/cuda/questions.c: how often a replay asks the driver whether its stream is capturing: once
 * where a handle of the device's streams was given out, with values for slots too; and a capture
 * that CUDA's own calls have begun is seen by that question. */
#include "fake.h"
#include "support/test.h"
#include <phonograph/cuda.h>

enum {
    N = 64,
    BYTES = N * sizeof(int32_t)
};

static t_world world;
static int32_t *x[2], *y;
static ph_graph *graph;
static size_t slot;
static struct CUstream_st *raw;

static ph_status body(ph_stream *stream, void *user)
{
    return t_add(&world, stream, user, y, N, 1);
}

FIXTURE(open_world)
{
    if (!fake_cuda())
        return 0; /* each test says why it skips */
    t_open(&world, NULL);
    for (int i = 0; i < 2; i++) {
        assert_ok(PH_NEW(&x[i], N, world.stream));
        assert_ok(t_fill(&world, world.stream, x[i], N, 10 * (i + 1)));
    }
    assert_ok(PH_NEW(&y, N, world.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, x[0]));
    assert_ok(ph_graph_slot_find(&slot, graph, "x", x[0], BYTES, NULL));
    assert_ok(ph_stream_cuda(&raw, world.stream));
    assert_ok(ph_graph_replay(graph, world.stream)); /* the stream is known to the graph now */
    return 0;
}

FIXTURE(close_world)
{
    if (!fake_cuda())
        return 0;
    ph_graph_destroy(graph);
    for (int i = 0; i < 2; i++)
        ph_free(x[i], NULL);
    ph_free(y, NULL);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    assert_string_equal(left_behind(), "");
    return 0;
}

static int64_t questions(void)
{
    return fake_cuda()->calls_of("cuStreamIsCapturing") +
           fake_cuda()->calls_of("cuStreamGetCaptureInfo");
}

static ph_status with(const void *value)
{
    return ph_graph_replay_with(graph, world.stream, &(ph_slot_value){slot, value}, 1);
}

TEST(a_replay_asks_once)
{
    NEED_FAKE();
    int64_t before = questions();
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_int_equal(questions() - before, 1);
    before = questions();
    assert_ok(with(x[1])); /* another address */
    assert_int_equal(questions() - before, 1);
    before = questions();
    assert_ok(with(x[1])); /* the same */
    assert_int_equal(questions() - before, 1);
    t_all(y, N, 21, world.stream);
    before = questions();
    assert_ok(ph_graph_slots_set(graph, &(ph_slot_value){slot, x[0]}, 1));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_int_equal(questions() - before, 1);
    t_all(y, N, 11, world.stream);
}

/* In none of both ways does a replay with values get into it, nor has the slot another value. */
TEST(a_capture_that_other_code_has_begun_is_seen)
{
    NEED_FAKE();
    ph__cu_graph captured;
    size_t count = 9;
    for (int turn = 0; turn < 2; turn++) {
        cu(StreamBeginCapture(raw, PH_CAPTURE_RELAXED));
        assert_error(with(x[1]), PH_ERROR_STATE, "the stream is capturing");
        cu(StreamEndCapture(raw, &captured));
        cu(GraphGetNodes(captured, NULL, &count));
        assert_int_equal(count, 0);
        cu(GraphDestroy(captured));
        assert_ok(ph_graph_replay(graph, world.stream));
        t_all(y, N, 11, world.stream);
    }
    cu(StreamBeginCapture(raw, PH_CAPTURE_RELAXED));
    assert_ok(ph_graph_replay(graph, world.stream)); /* a child graph of that capture */
    cu(StreamEndCapture(raw, &captured));
    cu(GraphGetNodes(captured, NULL, &count));
    assert_int_equal(count, 1);
    cu(GraphDestroy(captured));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_replay_asks_once),
        IN_WORLD(a_capture_that_other_code_has_begun_is_seen),
    };
    return cmocka_run_group_tests_name("cuda.questions", tests, NULL, NULL);
}
