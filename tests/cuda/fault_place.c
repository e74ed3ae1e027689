/* SPDX-License-Identifier: MIT */
/* tests/cuda/fault_place.c: a kernel of a replay writes where no memory is, and the GPU's
 * context is lost for this process: the breadcrumbs tell in which scope it was. */
#include "program.h"

#include "base/alloc.h"
#include "support/test.h"
#include <string.h>

enum {
    N = 256
};
static t_world world;
static ph_kernel *bad;
static int32_t *x;

static ph_status body(ph_stream *stream, void *user)
{
    const struct t_add_one nowhere = {(int32_t *)(uintptr_t)64};
    (void)user;
    PH_TRY(ph_annotation_push(stream, "a", NULL));
    PH_TRY(t_fill(&world, stream, x, N, 1));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(ph_annotation_push(stream, "layer 3", NULL));
    PH_TRY(ph_annotation_push(stream, "b", NULL));
    PH_TRY(ph_launch(stream, bad, NULL, &nowhere, sizeof nowhere));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(ph_annotation_push(stream, "c", NULL));
    PH_TRY(t_fill(&world, stream, x, N, 2));
    return ph_annotation_pop(stream);
}

TEST(a_fault_has_a_place)
{
    const ph_capture_options options = {.enable_annotations = true, .breadcrumbs = true};
    ph_graph *graph;
    ph_progress at;
    t_open(&world, NULL);
    assert_ok(ph_kernel_create(&bad, world.device, &t_kernel_sources[T_KERNEL_ADD_ONE]));
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, &options, body, NULL));
    assert_ok(ph_graph_breadcrumbs_enable(graph, true));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_error(ph_stream_synchronize(world.stream), PH_ERROR_DEVICE, "the device is lost");
    assert_native(PH__R_ILLEGAL_ADDRESS);
    assert_ok(ph_graph_where(&at, graph));
    print_message("%s\n", at.message);
    assert_false(at.complete);
    assert_int_equal(at.count, 8);
    assert_int_equal(at.passed, 4);
    assert_int_equal(at.open_count, 2);
    assert_string_equal(at.open[0], "layer 3/b");
    assert_string_equal(at.open[1], "layer 3");
    assert_string_equal(at.last, "layer 3/b");
    t_log_start();
    ph_graph_destroy(graph);
    ph_free(x, world.stream);
    ph_kernel_release(bad);
    t_close(&world);
    t_log_stop();
    assert_int_equal(ph__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fault_has_a_place),
    };
    return cmocka_run_group_tests_name("cuda.fault_place", tests, NULL, NULL);
}
