/* SPDX-License-Identifier: MIT */
/* tests/graph/sweep.c: makes each host allocation and each driver call of the graph's life fail
 * in turn: nothing leaks, nothing sticks. */
#include "support/sweep.h"

#include "support/fixture.h"
#include <string.h>

enum {
    N = 512
};
static t_world world;
static ph_graph *graph, *other;
static int32_t *x, *y;

static void nothing(void *user)
{
    (void)user;
}

static ph_status body(ph_stream *stream, void *user)
{
    int32_t *temporary;
    (void)user;
    PH_TRY(PH_NEW(&temporary, N, stream));
    ph_status status = t_add(&world, stream, x, temporary, N, 1);
    if (status == PH_OK)
        status = ph_memset(y, 1, N * sizeof *y, stream);
    if (status == PH_OK)
        status = t_add(&world, stream, temporary, y, N, 1);
    if (status == PH_OK)
        status = ph_launch_host(stream, nothing, NULL);
    ph_free(temporary, stream);
    return status;
}

static ph_status note(const ph_graph_hook_info *info, void *user)
{
    (void)info;
    ++*(int *)user;
    return PH_OK;
}

/* Everything a graph can do, once. */
static ph_status everything(void *user)
{
    int seen = 0;
    char *text = NULL;
    ph_hook *hook;
    ph_stream *first = ph_device_default_stream(world.device);
    const ph_record *record;
    struct t_add_i32 args = {N, x, y, 5};
    ph_launch_config config = t_config(N);
    ph_capture_options options = {.check_input_liveness = true};
    ph_graph_options keep = {.keep_graph = true}, defer = {.defer_upload = true};
    (void)user;
    PH_TRY(ph_graph_create(&graph, &keep));
    PH_TRY(ph_graph_create(&other, &defer));
    PH_TRY(ph_graph_hook_add(&hook, graph, PH_HOOK_REPLAY_END, note, &seen));
    ph_graph_hook_remove(hook);
    PH_TRY(ph_graph_retain(graph, nothing, &seen, true));
    PH_TRY(ph_graph_capture(graph, world.stream, &options, body, NULL));
    PH_TRY(ph_graph_capture(other, world.stream, NULL, body, NULL));
    PH_TRY(ph_graph_instantiate(graph));
    PH_TRY(ph_graph_replay(graph, world.stream));
    PH_TRY(ph_stream_wait_stream(first, world.stream));
    PH_TRY(ph_graph_upload(other, world.stream));
    PH_TRY(ph_graph_replay(other, first));
    PH_TRY(ph_stream_wait_stream(world.stream, first));
    PH_TRY(ph_graph_node_set_launch(graph, 0, &config, &args, sizeof args));
    PH_TRY(ph_graph_node_set_memset(graph, 1, y, 2, N));
    PH_TRY(ph_graph_node_set_enabled(graph, 0, false));
    PH_TRY(ph_graph_update(graph, other, NULL));
    PH_TRY(ph_graph_instantiate(graph));
    PH_TRY(ph_graph_replay(graph, world.stream));
    PH_TRY(ph_graph_record(&record, graph));
    PH_TRY(ph_record_json(&text, record));
    ph_string_free(text);
    PH_TRY(ph_record_dot(&text, record, true));
    ph_string_free(text);
    return ph_stream_synchronize(world.stream);
}

static void reset(ph_status status, void *user)
{
    (void)user;
    if (status == PH_OK)
        t_all(y, N, 3, world.stream);
    ph_graph_destroy(graph);
    ph_graph_destroy(other);
    /* The failure may have come between two streams that were to be ordered. */
    assert_ok(ph_device_synchronize(world.device));
    graph = other = NULL;
    assert_false(ph_stream_is_capturing(world.stream));
}

WORLD(world, .arrays = {{&x, N, T_INTS, 1}, {&y, N}});

static const t_swept swept = {
    .name = "graph", .open = open_world, .close = close_world, .run = everything, .reset = reset};

TEST(test_host_allocations)
{
    t_sweep_host_memory(&swept, 20);
}

TEST(test_driver_calls)
{
    t_sweep_driver(&swept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_allocations),
        cmocka_unit_test(test_driver_calls),
    };
    return cmocka_run_group_tests_name("graph.sweep", tests, NULL, NULL);
}
