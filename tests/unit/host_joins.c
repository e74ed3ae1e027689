/* SPDX-License-Identifier: MIT */
/* tests/unit/host_joins.c: what a node of a capture with many forks and joins depends on: each
 * end that its stream has waited for, once; against sets of bits. */
#include "base/rng.h"
#include "support/support.h"
#include "support/test.h"
#include <string.h>

enum {
    STREAMS = 7,
    STEPS = 600,
    WIDE = 3000
};

typedef struct joining {
    t_world w;
    ph_stream *streams[STREAMS]; /* the first is the capture's */
    uint64_t seed;
    size_t nodes;
    bool joined[STREAMS];
    bool ends[STREAMS][STEPS]; /* of each stream, by node */
    bool wanted[STEPS][STEPS]; /* what each node depends on */
} joining;

static ph_status launch(joining *j, size_t s)
{
    PH_TRY(ph_launch_host(j->streams[s], t_gate_body, NULL));
    memcpy(j->wanted[j->nodes], j->ends[s], sizeof j->ends[s]);
    memset(j->ends[s], 0, sizeof j->ends[s]);
    j->ends[s][j->nodes++] = true;
    return PH_OK;
}

static ph_status wait_for(joining *j, size_t s, size_t on)
{
    PH_TRY(ph_stream_wait_stream(j->streams[s], j->streams[on]));
    for (size_t i = 0; i < j->nodes; i++)
        j->ends[s][i] = j->ends[s][i] || j->ends[on][i];
    j->joined[s] = true;
    return PH_OK;
}

static ph_status body(ph_stream *stream, void *user)
{
    joining *j = user;
    ph__rng rng = {j->seed};
    j->nodes = 0;
    memset(j->joined, 0, sizeof j->joined);
    memset(j->ends, 0, sizeof j->ends);
    memset(j->wanted, 0, sizeof j->wanted);
    j->streams[0] = stream;
    j->joined[0] = true;
    PH_TRY(launch(j, 0));
    while (j->nodes < STEPS - 1) {
        size_t s = ph__rng_below(&rng, STREAMS), on = ph__rng_below(&rng, STREAMS);
        if (ph__rng_below(&rng, 4) == 0 && j->joined[s])
            PH_TRY(launch(j, s));
        else if (s != on && j->joined[on])
            PH_TRY(wait_for(j, s, on));
    }
    for (size_t s = 1; s < STREAMS; s++)
        if (j->joined[s])
            PH_TRY(wait_for(j, 0, s));
    return launch(j, 0);
}

static void check_node(const joining *j, const ph_record *record, size_t node)
{
    bool seen[STEPS] = {false};
    ph_node_info info;
    assert_ok(ph_record_node(&info, record, node));
    const size_t *dependencies = ph_record_dependencies(record, node);
    for (size_t i = 0; i < info.dependency_count; i++) {
        assert_false(seen[dependencies[i]]);
        assert_true(j->wanted[node][dependencies[i]]);
        seen[dependencies[i]] = true;
    }
    for (size_t i = 0; i < STEPS; i++)
        assert_true(seen[i] == j->wanted[node][i]);
}

TEST(test_ends_are_united_once_each)
{
    static joining j;
    t_open(&j.w, "host:threads=1");
    for (size_t s = 1; s < STREAMS; s++)
        assert_ok(ph_stream_create(&j.streams[s], j.w.device, NULL));
    for (j.seed = 1; j.seed <= (t_nightly() ? 200 : 10); j.seed++) {
        ph_graph *graph;
        const ph_record *record;
        assert_ok(ph_graph_create(&graph, NULL));
        assert_ok(ph_graph_capture(graph, j.w.stream, NULL, body, &j));
        assert_ok(ph_graph_record(&record, graph));
        assert_int_equal(ph_record_node_count(record), STEPS);
        for (size_t i = 0; i < STEPS; i++)
            check_node(&j, record, i);
        ph_graph_destroy(graph);
    }
    for (size_t s = 1; s < STREAMS; s++)
        ph_stream_destroy(j.streams[s]);
    t_close(&j.w);
}

typedef struct fan {
    ph_stream *streams[WIDE];
} fan;

static ph_status fan_body(ph_stream *stream, void *user)
{
    fan *f = user;
    PH_TRY(ph_launch_host(stream, t_gate_body, NULL));
    for (size_t i = 0; i < WIDE; i++) {
        PH_TRY(ph_stream_wait_stream(f->streams[i], stream));
        PH_TRY(ph_launch_host(f->streams[i], t_gate_body, NULL));
    }
    for (int twice = 0; twice < 2; twice++)
        for (size_t i = 0; i < WIDE; i++)
            PH_TRY(ph_stream_wait_stream(stream, f->streams[i]));
    return ph_launch_host(stream, t_gate_body, NULL);
}

TEST(test_a_wide_join_has_each_end_once)
{
    static fan f;
    t_world w;
    ph_graph *graph;
    const ph_record *record;
    ph_node_info info;
    t_open(&w, "host:threads=1");
    for (size_t i = 0; i < WIDE; i++)
        assert_ok(ph_stream_create(&f.streams[i], w.device, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, w.stream, NULL, fan_body, &f));
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), WIDE + 2);
    assert_ok(ph_record_node(&info, record, WIDE + 1));
    /* The first node, at which the stream stood when it waited, and each other. */
    assert_in_range(info.dependency_count, WIDE, WIDE + 1);
    ph_graph_destroy(graph);
    for (size_t i = 0; i < WIDE; i++)
        ph_stream_destroy(f.streams[i]);
    t_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends_are_united_once_each),
        cmocka_unit_test(test_a_wide_join_has_each_end_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
