/* SPDX-License-Identifier: MIT */
/* tests/tensor/create_captured.c: tensors that are made without a tape while a capture is open:
 * whose memory they have, and that nobody else has it as long as the graph lives. */
#include "support/tensors.h"
#include "support/test.h"

enum {
    N = 1000,
    WEIGHTS = 6
};
static t_scene s;
static ph_stream *side;
static ph_tensor *out, *kept, *weights[WEIGHTS];

FIXTURE(open_scene)
{
    t_scene_open(&s);
    assert_ok(ph_stream_create(&side, s.device, NULL));
    assert_ok(ph_tensor_create(&out, s.device, PH_DTYPE_F32, PH_SHAPE(N)));
    ph_tensor_fill(s.tape, out, 0);
    assert_ok(ph_tape_clear(s.tape));
    return 0;
}

FIXTURE(close_scene)
{
    ph_tensor_release(kept);
    ph_tensor_release(out);
    kept = out = NULL;
    ph_stream_destroy(side);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

static ph_pool *pool_of(const ph_tensor *x)
{
    ph_allocation found;
    assert_ok(ph_memory_lookup(&found, s.device, ph_tensor_data(x)));
    return found.pool;
}

/* The graph's own pool; as ph_graph_pool, which needs the capture's end. */
static bool is_of(const ph_pool *pool, ph_graph *graph)
{
    ph_pool *own;
    assert_ok(ph_graph_pool(&own, graph));
    return pool == own;
}

static float first(const ph_tensor *x)
{
    float values[N];
    assert_ok(ph_tensor_read(s.tape, x, values, sizeof values));
    for (size_t i = 1; i < N; i++)
        assert_true(values[i] == values[0]);
    return values[0];
}

/* What is made after the capture, which a replay must leave alone. */
static void make_weights(void)
{
    for (int i = 0; i < WEIGHTS; i++) {
        assert_ok(ph_tensor_create(&weights[i], s.device, PH_DTYPE_F32, PH_SHAPE(N)));
        ph_tensor_fill(s.tape, weights[i], 100 + i);
    }
    assert_ok(ph_tape_clear(s.tape));
}

static void replay_and_drop_weights(ph_graph *graph, float want)
{
    assert_ok(ph_graph_replay(graph, s.stream));
    assert_true(first(out) == want);
    for (int i = 0; i < WEIGHTS; i++) {
        assert_true(first(weights[i]) == (float)(100 + i));
        ph_tensor_release(weights[i]);
    }
}

typedef struct scratch {
    ph_status (*create)(ph_tensor **out, ph_device *device, ph_dtype dtype, ph_shape shape);
    ph_pool *pool;
    bool keep;
} scratch;

/* out = 2 x 5, by way of a tensor of nobody's tape. */
static ph_status body(ph_stream *stream, void *user)
{
    scratch *how = user;
    ph_tensor *x;
    (void)stream;
    PH_TRY(how->create(&x, s.device, PH_DTYPE_F32, PH_SHAPE(N)));
    how->pool = pool_of(x);
    ph_tensor_fill(s.tape, x, 5);
    ph_tensor_copy(s.tape, out, ph_mul_scalar(s.tape, x, 2));
    if (how->keep)
        kept = ph_tensor_retain(x);
    ph_tensor_release(x);
    return ph_tape_clear(s.tape);
}

static void check_scratch(scratch *how, const ph_capture_options *options)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, options, body, how));
    assert_true(is_of(how->pool, graph));
    make_weights();
    replay_and_drop_weights(graph, 10);
    assert_ok(ph_graph_check_inputs(graph));
    if (kept)
        assert_true(first(kept) == 5);
    ph_graph_destroy(graph);
    ph_tensor_release(kept);
    kept = NULL;
}

TEST(test_scratch_of_the_body)
{
    const ph_capture_options checking = {.check_input_liveness = true};
    for (int i = 0; i < 4; i++) {
        scratch how = {.create = ph_tensor_create, .keep = i % 2 == 1};
        check_scratch(&how, i / 2 ? &checking : NULL);
    }
}

TEST(test_pinned_scratch)
{
    for (int i = 0; i < 2; i++) {
        scratch how = {.create = ph_tensor_create_pinned, .keep = i == 1};
        check_scratch(&how, NULL);
    }
}

TEST(tensors_created_in_a_capture_pass_verification)
{
    scratch how = {.create = ph_tensor_create};
    ph_verify_result result;
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, body, &how));
    assert_ok(ph_graph_verify(&result, graph, s.stream, body, &how, NULL));
    assert_int_equal(result.verdict, PH_VERIFY_EQUAL);
    ph_graph_destroy(graph);
}

/* ---- which stream ---- */
static void *ask(void *user)
{
    *(ph_stream **)user = ph_memory_stream(s.device);
    return NULL;
}

static ph_stream *ask_on_another_thread(void)
{
    pthread_t thread;
    ph_stream *stream = NULL;
    assert_int_equal(pthread_create(&thread, NULL, ask, &stream), 0);
    pthread_join(thread, NULL);
    return stream;
}

TEST(test_memory_stream)
{
    const ph_capture_options relaxed = {.mode = PH_CAPTURE_RELAXED};
    ph_stream *usual = ph_device_default_stream(s.device);
    ph_graph *one, *two;
    ph_tensor *x;
    assert_ok(ph_graph_create(&one, NULL));
    assert_ok(ph_graph_create(&two, NULL));
    assert_null(ph_memory_stream(NULL));
    assert_ptr_equal(ph_memory_stream(s.device), usual);
    assert_ok(ph_graph_capture_begin(one, s.stream, &relaxed));
    assert_ptr_equal(ph_memory_stream(s.device), s.stream);
    assert_ptr_equal(ask_on_another_thread(), usual);
    assert_ok(ph_graph_capture_begin(two, side, &relaxed)); /* which of the two, nobody can say */
    assert_ptr_equal(ph_memory_stream(s.device), usual);
    assert_ok(ph_tensor_create(&x, s.device, PH_DTYPE_F32, PH_SHAPE(N)));
    assert_null(pool_of(x));
    ph_tensor_release(x);
    ph_graph_capture_abort(one);
    assert_ptr_equal(ph_memory_stream(s.device), side);
    ph_graph_capture_abort(two);
    assert_ptr_equal(ph_memory_stream(s.device), usual);
    ph_graph_destroy(one);
    ph_graph_destroy(two);
}

/* The memory is the default pool's then, and the graph's as long as it lives. */
TEST(test_two_captures_of_one_thread)
{
    const ph_capture_options relaxed = {.mode = PH_CAPTURE_RELAXED};
    scratch how = {.create = ph_tensor_create};
    ph_graph *one, *two;
    assert_ok(ph_graph_create(&one, NULL));
    assert_ok(ph_graph_create(&two, NULL));
    assert_ok(ph_graph_capture_begin(two, side, &relaxed));
    assert_ok(ph_graph_capture_begin(one, s.stream, &relaxed));
    assert_ok(body(s.stream, &how));
    assert_null(how.pool);
    assert_ok(ph_graph_capture_end(one, PH_OK));
    ph_graph_capture_abort(two);
    make_weights();
    replay_and_drop_weights(one, 10);
    ph_graph_destroy(one);
    ph_graph_destroy(two);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_scratch_of_the_body),
        CASE(test_pinned_scratch),
        CASE(tensors_created_in_a_capture_pass_verification),
        CASE(test_memory_stream),
        CASE(test_two_captures_of_one_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
