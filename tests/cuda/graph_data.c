/* SPDX-License-Identifier: MIT */
/* tests/cuda/graph_data.c: what PyTorch asks of get_graph_data of a node that only CUDA's own
 * calls make. */
#include "program.h"
#include "support/test.h"
#include <phonograph/cuda.h>

/* A 32-bit write by the stream into memory, captured: one node of its kind, whose address the
 * record has; two captures of it are alike, and one that writes elsewhere in it is not. */
static t_world world;
static struct CUstream_st *raw;

static ph_status write_value(ph_stream *stream, void *user)
{
    ph__cu_mem_op op = {
        .at = {.operation = PH__CU_MEM_OP_WRITE_VALUE_32, .address = (uintptr_t)user, .value = 7}};
    int result = program.StreamBatchMemOp(raw, 1, &op, 0);
    (void)stream;
    if (result == PH__R_NOT_SUPPORTED)
        return ph_fail(PH_ERROR_UNSUPPORTED, "this GPU has no batch memory operations");
    return result == PH__R_OK ? PH_OK : ph_fail(PH_ERROR_CALLER, "cuStreamBatchMemOp: %d", result);
}

static ph_status capture(ph_graph **out, int32_t *at)
{
    assert_ok(ph_graph_create(out, NULL));
    return ph_graph_capture(*out, world.stream, &(ph_capture_options){.mode = PH_CAPTURE_RELAXED},
                            write_value, at);
}

TEST(TestGetGraphData_test_batch_mem_op_node)
{
    int32_t *x;
    ph_graph *graph, *same = NULL, *other = NULL;
    const ph_record *record;
    ph_node_info node;
    ph_diff *diff;
    ph_change change;
    assert_ok(PH_NEW(&x, 64, world.stream));
    if (capture(&graph, x) == PH_ERROR_UNSUPPORTED) {
        print_message("skipped: this GPU has no batch memory operations\n");
    } else {
        assert_ok(ph_graph_record(&record, graph));
        assert_int_equal(ph_record_node_count(record), 1);
        assert_ok(ph_record_node(&node, record, 0));
        assert_int_equal(node.kind, PH_NODE_BATCH_MEM_OP);
        assert_string_equal(node.name, "batch_mem_op");
        assert_ok(capture(&same, x));
        assert_ok(ph_graph_diff(&diff, graph, same));
        assert_int_equal(ph_diff_count(diff), 0);
        ph_diff_destroy(diff);
        assert_ok(capture(&other, x + 4));
        assert_ok(ph_graph_diff(&diff, graph, other));
        assert_int_equal(ph_diff_count(diff), 1);
        assert_ok(ph_diff_at(&change, diff, 0));
        assert_int_equal(change.kind, PH_CHANGE_ADDRESS);
        assert_string_equal(
            change.text,
            "node 0 (batch_mem_op) op 0: 512-byte allocation +0 -> 512-byte allocation +16");
        ph_diff_destroy(diff);
    }
    ph_graph_destroy(graph);
    ph_graph_destroy(same);
    ph_graph_destroy(other);
    ph_free(x, world.stream);
}

FIXTURE(open_world)
{
    t_open(&world, NULL);
    program_load();
    assert_ok(ph_stream_cuda(&raw, world.stream));
    return 0;
}

FIXTURE(close_world)
{
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(TestGetGraphData_test_batch_mem_op_node),
    };
    return cmocka_run_group_tests_name("cuda.graph_data", tests, NULL, NULL);
}
