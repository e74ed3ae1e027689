/* SPDX-License-Identifier: MIT */
/* tests/graph/liveness.c: replays that would read memory which was freed since the capture. */
#include "device/handles/device.h"
#include "support/fault.h"
#include "support/fixture.h"

#include <string.h>

enum {
    N = 256
};
static t_world world;
static ph_graph *graph;
static int32_t *x, *y;
static const ph_capture_options checked = {.check_input_liveness = true};

WORLD(world, .graphs = {&graph}, .arrays = {{&x, N, T_INTS, 1}, {&y, N, T_INTS, 0}});

static ph_status through_a_temporary(ph_stream *stream, void *user)
{
    int32_t *temporary;
    (void)user;
    PH_TRY(PH_NEW(&temporary, N, stream));
    PH_TRY(t_add(&world, stream, x, temporary, N, 1));
    PH_TRY(t_add(&world, stream, temporary, y, N, 1));
    ph_free(temporary, stream);
    return PH_OK;
}

TEST(test_a_freed_input_is_refused)
{
    assert_ok(ph_graph_capture(graph, world.stream, &checked, through_a_temporary, NULL));
    assert_ok(ph_graph_replay(graph, world.stream)); /* the temporary is no input */
    t_all(y, N, 3, world.stream);
    ph_free(x, world.stream);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
                 "node 0 (add_i32) x = 0x");
    assert_non_null(strstr(ph_error_last()->message, "1 dead input: "));
    assert_status(ph_graph_check_inputs(graph), PH_ERROR_STALE_INPUT);
    /* A new allocation at the old address is another one. */
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_status(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT);
}

/* In the caller's numbers: blocks are rounded up. */
TEST(test_sizes_as_asked_for)
{
    int32_t *small, *behind;
    assert_ok(PH_NEW(&small, 64, world.stream));
    assert_ok(PH_NEW(&behind, 64, world.stream));
    assert_ok(ph_graph_capture_begin(graph, world.stream, &checked));
    assert_ok(t_add(&world, world.stream, small, y, 64, 1));
    assert_ok(t_add(&world, world.stream, behind + 16, y, 48, 1));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    ph_free(small, world.stream);
    ph_free(behind, world.stream);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT, ", 256 bytes; ");
    assert_non_null(strstr(ph_error_last()->message, ", +64 in 256 bytes"));
}

TEST(test_unrelated_frees)
{
    assert_ok(ph_graph_capture(graph, world.stream, &checked, through_a_temporary, NULL));
    for (int i = 0; i < 20; i++) {
        int32_t *other;
        assert_ok(PH_NEW(&other, N, world.stream));
        ph_free(other, world.stream);
        assert_ok(ph_graph_replay(graph, world.stream));
    }
}

/* Two graphs check one allocation; when one lets go, the other still does. */
TEST(test_shared_input)
{
    ph_graph *other;
    assert_ok(ph_graph_create(&other, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, &checked, through_a_temporary, NULL));
    assert_ok(ph_graph_capture(other, world.stream, &checked, through_a_temporary, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_replay(other, world.stream));
    ph_graph_destroy(other);
    ph_free(x, world.stream);
    x = NULL;
    assert_status(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT);
}

TEST(test_off_by_default_but_asked)
{
    assert_ok(ph_graph_capture(graph, world.stream, NULL, through_a_temporary, NULL));
    assert_ok(ph_graph_check_inputs(graph));
    ph_free(x, world.stream);
    x = NULL;
    assert_status(ph_graph_check_inputs(graph), PH_ERROR_STALE_INPUT);
    assert_ok(ph_graph_replay(graph, world.stream));
}

TEST(each_dead_input_of_several_is_counted)
{
    int32_t *many[8];
    for (int i = 0; i < 8; i++) {
        assert_ok(PH_NEW(&many[i], N, world.stream));
        assert_ok(t_fill(&world, world.stream, many[i], N, i));
    }
    assert_ok(ph_graph_capture_begin(graph, world.stream, &checked));
    for (int i = 0; i < 8; i++)
        assert_ok(t_add(&world, world.stream, many[i], y, N, 5));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 12, world.stream);
    ph_free(many[6], world.stream); /* one of them is named */
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT, "1 dead input: ");
    assert_non_null(strstr(ph_error_last()->message, "node 6 (add_i32) x"));
    for (int i = 0; i < 8; i++)
        if (i != 6)
            ph_free(many[i], world.stream);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT, "8 dead inputs: ");
}

/* ---- after the capture ---- */
TEST(test_rebound_node)
{
    int32_t *other;
    ph_launch_config config = t_config(N);
    assert_ok(ph_graph_capture(graph, world.stream, &checked, through_a_temporary, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    const ph_record *record;
    ph_node_info node;
    struct t_add_i32 args;
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_node(&node, record, 0));
    memcpy(&args, node.args, sizeof args);
    assert_ok(PH_NEW(&other, N, world.stream));
    assert_ok(t_fill(&world, world.stream, other, N, 10));
    args.x = other;
    assert_ok(ph_graph_node_set_launch(graph, 0, &config, &args, sizeof args));
    ph_free(x, world.stream); /* no node reads it any more */
    x = NULL;
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 12, world.stream);
    ph_free(other, world.stream);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT, "node 0 (add_i32) x");
}

TEST(test_updated_graph)
{
    ph_graph *from;
    int32_t *old = x;
    assert_ok(ph_graph_create(&from, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, &checked, through_a_temporary, NULL));
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(t_fill(&world, world.stream, x, N, 20));
    assert_ok(ph_graph_capture(from, world.stream, NULL, through_a_temporary, NULL));
    assert_ok(ph_graph_update(graph, from, NULL));
    ph_free(old, world.stream);
    ph_graph_destroy(from);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 22, world.stream);
    ph_free(x, world.stream);
    x = NULL;
    assert_status(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT);
}

/* ---- copies ---- */
/* Both the pinned source and the destination are inputs. */
TEST(test_a_pinned_source_and_its_destination_are_inputs)
{
    int32_t *pinned;
    size_t count;
    ph_input_info input;
    assert_ok(ph_malloc_pinned(&pinned, N, sizeof *pinned, world.stream));
    for (int i = 0; i < N; i++)
        pinned[i] = 20;
    assert_ok(ph_graph_capture_begin(graph, world.stream, &checked));
    assert_ok(ph_memcpy(x, pinned, N * sizeof *x, world.stream));
    assert_ok(t_add(&world, world.stream, x, y, N, 20));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_input_count(&count, graph));
    assert_int_equal(count, 4);
    assert_ok(ph_graph_input(&input, graph, 1));
    assert_true(input.pinned);
    assert_ptr_equal(input.base, pinned);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 40, world.stream);
    ph_free_pinned(pinned, world.stream);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT, "(memcpy) src = 0x");
}

/* ---- suspected words ---- */
TEST(test_untyped_kernel_warns)
{
    ph_kernel *kernel;
    assert_ok(ph_kernel_create(&kernel, world.device, &t_kernel_sources[T_KERNEL_COPY_FIRST]));
    struct t_copy_first pair = {x, y};
    assert_ok(ph_graph_capture_begin(graph, world.stream, &checked));
    assert_ok(ph_launch(world.stream, kernel, NULL, &pair, sizeof pair));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    t_log_start();
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_int_equal(t_log_count("looks like an address"), 0);
    ph_free(x, world.stream);
    x = NULL;
    for (int i = 0; i < 3; i++)
        assert_ok(ph_graph_replay(graph, world.stream));
    assert_int_equal(t_log_count("node 0 (copy_first) +0 = 0x"), 1);
    t_log_stop();
    ph_kernel_release(kernel);
}

static int64_t calls_of_a_replay(void)
{
    int64_t before = ph__driver_calls();
    assert_ok(ph_graph_replay(graph, world.stream));
    return ph__driver_calls() - before;
}

/* Where other code may capture, too, as the runtime of a wrapped stream. */
TEST(test_nothing_freed_asks_the_driver_nothing)
{
    int64_t calls[2];
    for (int checks = 0; checks < 2; checks++) {
        const ph_capture_options *options = checks ? &checked : NULL;
        assert_ok(ph_graph_reset(graph));
        assert_ok(ph_graph_capture(graph, world.stream, options, through_a_temporary, NULL));
        atomic_store(&world.device->foreign, true);
        assert_ok(ph_graph_replay(graph, world.stream));
        assert_ok(ph_graph_replay(graph, world.stream));
        calls[checks] = calls_of_a_replay();
    }
    assert_int_equal(calls[1], calls[0]);
    ph_free(x, world.stream);
    assert_status(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_a_freed_input_is_refused),
        IN_WORLD(test_sizes_as_asked_for),
        IN_WORLD(test_unrelated_frees),
        IN_WORLD(test_shared_input),
        IN_WORLD(test_off_by_default_but_asked),
        IN_WORLD(each_dead_input_of_several_is_counted),
        IN_WORLD(test_rebound_node),
        IN_WORLD(test_updated_graph),
        IN_WORLD(test_a_pinned_source_and_its_destination_are_inputs),
        IN_WORLD(test_untyped_kernel_warns),
        IN_WORLD(test_nothing_freed_asks_the_driver_nothing),
    };
    return cmocka_run_group_tests_name("graph.liveness", tests, NULL, NULL);
}
