/* SPDX-License-Identifier: MIT */
/* tests/graph/torch_inputs.c: check_input_liveness; each test holds the behaviour of PyTorch's
 * test of the same name. Those of modules and autograd are in tests/nn/torch_inputs.c. */
#include "support/support.h"

#include "base/alloc.h"
#include "support/test.h"
#include <string.h>

enum {
    N = 100
};
static t_world world;
static ph_stream *side;
static ph_graph *graph;
static int32_t *x, *y;
static const ph_capture_options checked = {.check_input_liveness = true};

static int32_t *new_filled(size_t count, int32_t value)
{
    int32_t *made;
    assert_ok(PH_NEW(&made, count, world.stream));
    assert_ok(t_fill(&world, world.stream, made, count, value));
    return made;
}

FIXTURE(open_world)
{
    t_open(&world, NULL);
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    x = new_filled(N, 1);
    y = new_filled(N, 0);
    /* The warm-up. */
    for (int i = 0; i < 3; i++)
        assert_ok(t_add(&world, world.stream, x, y, N, 1));
    assert_ok(ph_stream_synchronize(world.stream));
    return 0;
}

FIXTURE(close_world)
{
    ph_graph_destroy(graph);
    ph_free(x, world.stream);
    ph_free(y, world.stream);
    ph_stream_destroy(side);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

static void begin(void)
{
    assert_ok(ph_graph_capture_begin(graph, world.stream, &checked));
}

static void end(void)
{
    assert_ok(ph_graph_capture_end(graph, PH_OK));
}

static void drop(int32_t **pointer)
{
    ph_free(*pointer, world.stream);
    *pointer = NULL;
}

TEST(test_empty_tensor_not_tracked)
{
    int32_t *empty;
    size_t count;
    assert_ok(PH_NEW(&empty, 0, world.stream));
    assert_null(empty);
    begin();
    assert_ok(t_add(&world, world.stream, empty, y, 0, 1));
    assert_ok(t_add(&world, world.stream, x, y, N, 1));
    assert_ok(ph_stream_declare_use(world.stream, empty, "empty"));
    end();
    assert_ok(ph_graph_input_count(&count, graph));
    assert_int_equal(count, 3); /* x, and y twice */
    drop(&empty);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 2, world.stream);
}

TEST(test_non_capturing_stream_inputs_not_tracked)
{
    const ph_capture_options relaxed = {.check_input_liveness = true, .mode = PH_CAPTURE_RELAXED};
    int32_t *elsewhere = new_filled(N, 5);
    assert_ok(ph_stream_synchronize(world.stream));
    assert_ok(ph_graph_capture_begin(graph, world.stream, &relaxed));
    assert_ok(t_add(&world, world.stream, x, y, N, 1));
    assert_ok(t_add(&world, side, elsewhere, elsewhere, N, 1));
    assert_ok(ph_stream_declare_use(side, elsewhere, "elsewhere"));
    end();
    assert_ok(ph_stream_synchronize(side));
    drop(&elsewhere);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 2, world.stream);
    drop(&x);
    assert_status(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT);
}

/* ---- the message ---- */
static char messages[8][1024];
static size_t message_count;

static void keep(ph_log_level level, const char *message, void *user)
{
    (void)level;
    (void)user;
    if (message_count < 8) {
        strncpy(messages[message_count], message, sizeof messages[0] - 1);
        message_count++;
    }
}

static __attribute__((noinline)) void free_both(int32_t *a, int32_t *b)
{
    ph_free(a, world.stream);
    ph_free(b, world.stream);
}

TEST(test_error_message_contains_all_tracebacks)
{
    assert_ok(ph_memory_record_sites(16));
    int32_t *a = new_filled(N, 1), *b = new_filled(N, 2);
    begin();
    assert_ok(t_add(&world, world.stream, a, y, N, 1));
    assert_ok(t_add(&world, world.stream, b, y, N, 1));
    end();
    free_both(a, b);
    message_count = 0;
    memset(messages, 0, sizeof messages);
    ph_log_set(keep, NULL);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT, "2 dead inputs");
    ph_log_set(NULL, NULL);
    assert_int_equal(message_count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_non_null(
            strstr(messages[i], i ? "dead input 2 of 2: node 1" : "dead input 1 of 2: node 0"));
        assert_non_null(strstr(messages[i], "; allocated at "));
        assert_non_null(strstr(messages[i], "; freed at "));
    }
    assert_non_null(strstr(messages[0], "; replayed at "));
    assert_ok(ph_memory_record_sites(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_empty_tensor_not_tracked),
        IN_WORLD(test_non_capturing_stream_inputs_not_tracked),
        IN_WORLD(test_error_message_contains_all_tracebacks),
    };
    return cmocka_run_group_tests_name("graph.torch_inputs", tests, NULL, NULL);
}
