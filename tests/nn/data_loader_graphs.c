/* SPDX-License-Identifier: MIT */
/* tests/nn/data_loader_graphs.c: batches for captured steps: tensors that each batch is copied
 * into, streams that come and go, and what a capture allows. */
#include "support/loaders.h"
#include "support/test.h"

enum {
    COUNT = 96,
    BATCH = 8,
    BATCHES = COUNT / BATCH
};

static t_scene scene;
static t_source source;
static ph_tensor *into[2];
static ph_tensor *sum; /* of what the captured steps read */
static ph_graph *graph;
static ph_data_loader *loader;

FIXTURE(open_world)
{
    t_scene_open(&scene);
    memset(&source, 0, sizeof source);
    assert_ok(ph_tensor_create(&into[0], scene.device, PH_DTYPE_F32, PH_SHAPE(BATCH, T_WIDTH)));
    assert_ok(ph_tensor_create(&into[1], scene.device, PH_DTYPE_I64, PH_SHAPE(BATCH)));
    assert_ok(ph_tensor_create(&sum, scene.device, PH_DTYPE_F32, PH_SHAPE(BATCH, T_WIDTH)));
    ph_tensor_fill(scene.tape, sum, 0);
    assert_ok(ph_tape_clear(scene.tape));
    assert_ok(ph_stream_synchronize(scene.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    return 0;
}

FIXTURE(close_world)
{
    ph_graph_destroy(graph);
    for (int i = 0; i < 2; i++)
        ph_tensor_release(into[i]);
    ph_tensor_release(sum);
    t_scene_close(&scene);
    return 0;
}

static ph_batch_field fixed[2];

static ph_data_loader_options loading_fixed(void)
{
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    for (int i = 0; i < 2; i++) {
        fixed[i] = t_fields[i];
        fixed[i].into = into[i];
    }
    options.fields = fixed;
    return options;
}

static ph_status step(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    ph_tensor_add(scene.tape, sum, into[0], 1);
    return ph_tape_clear(scene.tape);
}

/* The sum over all examples of an epoch, in whatever order. */
static void expect_sum(int epochs)
{
    float got[BATCH * T_WIDTH], total = 0, want = 0;
    assert_ok(ph_tensor_read(scene.tape, sum, got, sizeof got));
    for (size_t i = 0; i < BATCH * T_WIDTH; i++)
        total += got[i];
    for (int i = 0; i < COUNT; i++)
        want += 3 * (float)i + 0.75F;
    assert_true(total == want * (float)epochs);
}

/* ---- replays ---- */
TEST(test_a_captured_step_reads_each_batch)
{
    ph_data_loader_options options = loading_fixed();
    options.shuffle = true;
    source.slowest_ns = 200000;
    loader = t_loader(&scene, &options);
    uint64_t version = ph_tensor_version(into[0]);
    assert_ok(ph_graph_capture(graph, scene.stream, NULL, step, NULL));
    for (int epoch = 0; epoch < 3; epoch++) {
        for (ph_batch batch; (batch = t_next(&scene, loader)).count > 0;) {
            assert_ptr_equal(batch.tensor[0], into[0]);
            assert_ptr_equal(batch.tensor[1], into[1]);
            if (epoch == 2)
                t_expect_batch(&scene, &batch);
            assert_ok(ph_graph_replay(graph, scene.stream));
        }
        expect_sum(epoch + 1);
    }
    assert_int_equal(ph_tensor_version(into[0]) - version, 3 * BATCHES);
    ph_data_loader_destroy(loader);
}

/* All replays are behind a gate, as is each copy into their input: the order is the stream's. */
TEST(test_copies_come_behind_the_replays_before_them)
{
    enum {
        AHEAD = 3
    };
    t_gate gate = {0};
    float got[BATCH * T_WIDTH];
    ph_data_loader_options options = loading_fixed();
    options.prefetch = AHEAD;
    loader = t_loader(&scene, &options);
    assert_ok(ph_graph_capture(graph, scene.stream, NULL, step, NULL));
    assert_ok(t_gate_wait_guarded(&gate, scene.stream));
    for (int i = 0; i < AHEAD; i++) {
        assert_int_equal(t_next(&scene, loader).count, BATCH);
        assert_ok(ph_graph_replay(graph, scene.stream));
    }
    t_gate_open(&gate);
    assert_ok(ph_tensor_read(scene.tape, sum, got, sizeof got));
    for (size_t i = 0; i < BATCH * T_WIDTH; i++)
        assert_true(got[i] == 3 * ((float)(i / T_WIDTH) + 0.25F * (float)(i % T_WIDTH)) + 24);
    ph_data_loader_destroy(loader);
}

/* Streams take turns, and go as soon as they have given their batch back. */
TEST(test_streams_may_go_behind_release)
{
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    options.prefetch = 1;
    loader = t_loader(&scene, &options);
    for (int i = 0; i < 2 * BATCHES; i++) {
        ph_stream *stream;
        ph_batch batch;
        assert_ok(ph_stream_create(&stream, scene.device, NULL));
        assert_ok(ph_data_loader_next(&batch, loader, stream));
        if (batch.count > 0) {
            int64_t y[BATCH];
            t_read(y, ph_tensor_data(batch.tensor[1]), sizeof y, stream);
            assert_int_equal(y[BATCH - 1], 7 * (BATCH * (int64_t)batch.number + BATCH - 1));
        }
        assert_ok(ph_data_loader_release(loader));
        assert_ok(ph_data_loader_release(loader));
        ph_stream_destroy(stream);
    }
    ph_data_loader_destroy(loader);
}

/* ---- captures ---- */
static ph_batch taken;

static ph_status take_in_capture(ph_stream *stream, void *user)
{
    (void)user;
    assert_error(ph_data_loader_next(&taken, loader, stream), PH_ERROR_CAPTURE, "each replay");
    assert_native(900);
    assert_int_equal(taken.count, 0);
    return step(stream, NULL);
}

TEST(test_a_capturing_stream_is_refused_and_its_capture_goes_on)
{
    ph_data_loader_options options = loading_fixed();
    loader = t_loader(&scene, &options);
    assert_ok(ph_graph_capture(graph, scene.stream, NULL, take_in_capture, NULL));
    for (int i = 0; i < BATCHES; i++) {
        assert_int_equal(t_next(&scene, loader).number, i);
        assert_ok(ph_graph_replay(graph, scene.stream));
    }
    expect_sum(1);
    ph_data_loader_destroy(loader);
}

static ph_status give_back_in_capture(ph_stream *stream, void *user)
{
    ph_stream *other = user;
    ph_batch batch;
    assert_error(ph_data_loader_release(loader), PH_ERROR_CAPTURE, "the batch before");
    assert_native(900);
    assert_error(ph_data_loader_next(&batch, loader, other), PH_ERROR_CAPTURE, "the batch before");
    return step(stream, NULL);
}

TEST(test_a_batch_is_not_given_back_into_a_capture)
{
    ph_stream *other;
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    assert_ok(ph_stream_create(&other, scene.device, NULL));
    loader = t_loader(&scene, &options);
    ph_batch batch = t_next(&scene, loader);
    assert_ok(ph_graph_capture(graph, scene.stream, NULL, give_back_in_capture, other));
    t_expect_batch(&scene, &batch);
    assert_int_equal(t_next(&scene, loader).number, 1);
    ph_data_loader_destroy(loader);
    ph_stream_destroy(other);
}

/* Beside a capture in the strictest mode, all of it: the threads wait for copies meanwhile. */
static ph_status load_beside(ph_stream *stream, void *user)
{
    const t_scene beside = {scene.device, user, NULL};
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    ph_data_loader_position start;
    options.prefetch = 1;
    loader = t_loader(&scene, &options);
    assert_ok(ph_data_loader_get_position(&start, loader));
    for (int i = 0; i < BATCHES + 1; i++)
        assert_int_equal(t_next(&beside, loader).count, i < BATCHES ? BATCH : 0);
    assert_ok(ph_data_loader_set_position(loader, &start));
    assert_int_equal(t_next(&beside, loader).number, 0);
    ph_data_loader_destroy(loader);
    return step(stream, NULL);
}

TEST(test_other_streams_get_batches_beside_a_capture)
{
    ph_stream *other;
    assert_ok(ph_stream_create(&other, scene.device, NULL));
    assert_ok(ph_graph_capture(graph, scene.stream, NULL, load_beside, other));
    assert_ok(ph_stream_synchronize(other));
    assert_ok(ph_graph_replay(graph, scene.stream));
    assert_ok(ph_graph_reset(graph));
    ph_stream_destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_a_captured_step_reads_each_batch),
        IN_WORLD(test_copies_come_behind_the_replays_before_them),
        IN_WORLD(test_streams_may_go_behind_release),
        IN_WORLD(test_a_capturing_stream_is_refused_and_its_capture_goes_on),
        IN_WORLD(test_a_batch_is_not_given_back_into_a_capture),
        IN_WORLD(test_other_streams_get_batches_beside_a_capture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
