/* SPDX-License-Identifier: MIT */
/* tests/cuda/shapes.c: updates by captures of kernels that this library did not load: what has the
 * same edges is taken by the driver's lists alone, and nothing else is taken. */
#include "base/rng.h"
#include "module.h"
#include "support/test.h"
#include <phonograph/cuda.h>

enum {
    N = 256
};

static const char ptx[] =
    ".version 7.0\n.target sm_60\n.address_size 64\n"
    ".visible .entry t_put(.param .u64 t_put_param_0, .param .u32 t_put_param_1)\n"
    "{\n    .reg .b64 %y;\n    .reg .b32 %v;\n    ld.param.u64 %y, [t_put_param_0];\n"
    "    ld.param.u32 %v, [t_put_param_1];\n    st.u32 [%y], %v;\n    ret;\n}\n";

static void put_on_host(const ph_block_range *range, const void *args)
{
    struct {
        int32_t *y;
        int32_t value;
    } p;
    (void)range;
    memcpy(&p, args, sizeof p);
    *p.y = p.value;
}

static ph__cu_function put;
static int32_t *y;

FIXTURE(open_world)
{
    if (fake_cuda())
        fake_cuda()->register_kernel("t_put", put_on_host);
    module_open(ptx);
    put = module_function("t_put");
    assert_ok(PH_NEW(&y, N, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    return 0;
}

FIXTURE(close_world)
{
    ph_free(y, world.stream);
    module_close();
    return 0;
}

/* ---- shapes ---- */
typedef struct shape {
    ph_stream *other;
    ph_event *fork, *join;
    int way;
} shape;

/* Two kernels on each of two streams, joined; in some ways with other edges between as many. */
static ph_status shaped(ph_stream *stream, void *user)
{
    const shape *s = user;
    struct CUstream_st *native[2];
    int32_t value = 1;
    void *params[] = {&y, &value};
    PH_TRY(ph_stream_cuda(&native[0], stream));
    PH_TRY(ph_stream_cuda(&native[1], s->other));
    cu(LaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, native[0], params, NULL));
    PH_TRY(ph_event_record(s->fork, stream));
    PH_TRY(ph_stream_wait_event(s->other, s->fork));
    cu(LaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, native[0], params, NULL));
    cu(LaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, native[1], params, NULL));
    cu(LaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, native[s->way == 1 ? 0 : 1], params, NULL));
    if (s->way == 2)
        cu(MemsetD32Async((ph__cu_pointer)(uintptr_t)y, 0, 1, native[0]));
    PH_TRY(ph_event_record(s->join, s->other));
    PH_TRY(ph_stream_wait_event(stream, s->join));
    cu(LaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, native[0], params, NULL));
    return PH_OK;
}

/* Forks are compared by the driver's lists too, and what differs is still refused and named. */
TEST(test_updates_of_other_shapes)
{
    shape s = {.way = 0};
    ph_graph *graph, *from[4];
    assert_ok(ph_stream_create(&s.other, world.device, NULL));
    assert_ok(ph_event_create(&s.fork, world.device, NULL));
    assert_ok(ph_event_create(&s.join, world.device, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, shaped, &s));
    for (int i = 0; i < 4; i++) {
        ph_update_result result;
        s.way = i % 3;
        assert_ok(ph_graph_create(&from[i], NULL));
        assert_ok(ph_graph_capture(from[i], world.stream, NULL, shaped, &s));
        if (s.way == 0) {
            assert_ok(ph_graph_update(graph, from[i], &result));
            assert_ok(ph_graph_replay(graph, world.stream));
            assert_ok(ph_stream_synchronize(world.stream));
            continue;
        }
        assert_int_equal(ph_graph_update(graph, from[i], &result), PH_ERROR_MISMATCH);
        assert_int_equal(result.reason, s.way == 1 ? PH_UPDATE_TOPOLOGY : PH_UPDATE_NODE_TYPE);
        assert_int_equal(result.node, s.way == 1 ? 3 : 4);
        assert_non_null(strstr(result.message, s.way == 1 ? "depends on node" : "memset"));
    }
    for (int i = 0; i < 4; i++)
        ph_graph_destroy(from[i]);
    ph_graph_destroy(graph);
    ph_event_destroy(s.fork);
    ph_event_destroy(s.join);
    ph_stream_destroy(s.other);
}

/* ---- random shapes ---- */
enum {
    ON = 3, /* streams */
    STEPS = 24
};
typedef struct plan {
    ph_stream *streams[ON];
    ph_event *event;
    int on[STEPS];    /* the stream of each kernel */
    int waits[STEPS]; /* the stream that it waits for first, or its own: none */
} plan;

static ph_status wait_for(const plan *p, ph_stream *stream, int other)
{
    PH_TRY(ph_event_record(p->event, p->streams[other]));
    return ph_stream_wait_event(stream, p->event);
}

static ph_status planned(ph_stream *stream, void *user)
{
    const plan *p = user;
    int32_t value = 1;
    void *params[] = {&y, &value};
    for (int i = 1; i < ON; i++)
        PH_TRY(wait_for(p, p->streams[i], 0));
    for (int i = 0; i < STEPS; i++) {
        struct CUstream_st *native;
        PH_TRY(ph_stream_cuda(&native, p->streams[p->on[i]]));
        if (p->waits[i] != p->on[i])
            PH_TRY(wait_for(p, p->streams[p->on[i]], p->waits[i]));
        cu(LaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, native, params, NULL));
    }
    for (int i = 1; i < ON; i++)
        PH_TRY(wait_for(p, stream, i));
    return ph_stream_wait_event(stream, p->event);
}

static ph_graph *shape_of_plan(plan *p)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, planned, p));
    return graph;
}

static bool same_records(ph_graph *a, ph_graph *b)
{
    const ph_record *one, *two;
    ph_node_info mine, theirs;
    assert_ok(ph_graph_record(&one, a));
    assert_ok(ph_graph_record(&two, b));
    bool same = ph_record_node_count(one) == ph_record_node_count(two);
    for (size_t i = 0; same && i < ph_record_node_count(one); i++) {
        assert_ok(ph_record_node(&mine, one, i));
        assert_ok(ph_record_node(&theirs, two, i));
        same = mine.kind == theirs.kind && mine.dependency_count == theirs.dependency_count &&
               (mine.dependency_count == 0 ||
                memcmp(ph_record_dependencies(one, i), ph_record_dependencies(two, i),
                       mine.dependency_count * sizeof(size_t)) == 0);
    }
    return same;
}

/* An update takes what has the same edges, and nothing else, whoever asked for which nodes. */
TEST(test_updates_agree_with_records)
{
    ph__rng rng = {11};
    int taken = 0, refused = 0;
    plan p = {.streams = {world.stream}};
    for (int i = 1; i < ON; i++)
        assert_ok(ph_stream_create(&p.streams[i], world.device, NULL));
    assert_ok(ph_event_create(&p.event, world.device, NULL));
    for (int round = 0; round < 60; round++) {
        for (int i = 0; i < STEPS; i++) {
            p.on[i] = (int)(ph__rng_next(&rng) % ON);
            p.waits[i] = ph__rng_next(&rng) % 3 ? p.on[i] : (int)(ph__rng_next(&rng) % ON);
        }
        ph_graph *graph = shape_of_plan(&p);
        if (round % 3)
            p.waits[ph__rng_next(&rng) % STEPS] = (int)(ph__rng_next(&rng) % ON);
        ph_graph *from = shape_of_plan(&p);
        const ph_record *record;
        if (round % 4 == 1)
            assert_ok(ph_graph_record(&record, from));
        ph_status status = ph_graph_update(graph, from, NULL);
        assert_int_equal(status, same_records(graph, from) ? PH_OK : PH_ERROR_MISMATCH);
        taken += status == PH_OK;
        refused += status != PH_OK;
        ph_graph_destroy(from);
        ph_graph_destroy(graph);
    }
    assert_true(taken > 10 && refused > 10);
    ph_event_destroy(p.event);
    for (int i = 1; i < ON; i++)
        ph_stream_destroy(p.streams[i]);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_updates_of_other_shapes),
        CASE(test_updates_agree_with_records),
    };
    return cmocka_run_group_tests_name("cuda.shapes", tests, NULL, NULL);
}
