/* SPDX-License-Identifier: MIT */
/* tests/inspect/profiled.h: graphs whose nodes take known shares of time, for the tests of
 * profiles. */
#ifndef PH_TESTS_INSPECT_PROFILED_H
#define PH_TESTS_INSPECT_PROFILED_H
#include "support/support.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "fake/fake_cuda.h"
#include <string.h>

/* Runs for so long, then writes. */
struct spin {
    uint64_t ns;
    int32_t *y;
};

static inline void spin_on_host(const ph_block_range *range, const void *args)
{
    const struct spin *spin = args;
    uint64_t end = ph__now_ns() + spin->ns;
    (void)range;
    while (ph__now_ns() < end)
        continue;
    *spin->y = 1;
}

static const ph_kernel_source spin_source = {
    .name = "spin",
    .cuda = "extern \"C\" __global__ void spin(unsigned long long ns, int *y) { unsigned long long "
            "now, start; "
            "asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(start)); "
            "do asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(now)); while (now - start < "
            "ns); *y = 1; }",
    .host = spin_on_host,
    .args_size = sizeof(struct spin),
};

enum {
    SHORT_NS = 20000, /* far enough apart for a machine that is busy otherwise */
    LONG_NS = 600000,
    CELLS = 16
};

/* Two streams, a graph, memory. */
typedef struct profiled {
    t_world world;
    ph_stream *a, *b;
    ph_event *fork, *join;
    ph_kernel *spin;
    ph_graph *graph;
    int32_t *y; /* CELLS words */
} profiled;

static inline void profiled_open(profiled *p)
{
    fake_cuda_register(&spin_source);
    t_open(&p->world, NULL);
    p->a = p->world.stream;
    assert_ok(ph_stream_create(&p->b, p->world.device, NULL));
    assert_ok(ph_event_create(&p->fork, p->world.device, NULL));
    assert_ok(ph_event_create(&p->join, p->world.device, NULL));
    assert_ok(ph_kernel_create(&p->spin, p->world.device, &spin_source));
    assert_ok(ph_graph_create(&p->graph, NULL));
    assert_ok(PH_NEW(&p->y, CELLS, p->a));
    assert_ok(ph_memset(p->y, 0, CELLS * sizeof *p->y, p->a));
    assert_ok(ph_stream_synchronize(p->a));
}

static inline void profiled_close(profiled *p)
{
    ph_graph_destroy(p->graph);
    ph_free(p->y, p->a);
    ph_kernel_release(p->spin);
    ph_event_destroy(p->fork);
    ph_event_destroy(p->join);
    ph_stream_destroy(p->b);
    t_close(&p->world);
    assert_int_equal(ph__alloc_live(), 0);
}

static inline ph_status profiled_spin(const profiled *p, ph_stream *stream, uint64_t ns,
                                      size_t cell)
{
    const struct spin args = {ns, p->y + cell};
    return ph_launch(stream, p->spin, NULL, &args, sizeof args);
}

/* Node 0 before two branches, of which that on the second stream, node 1, is long and the other,
 * node 2, is short; node 3 behind both. */
static inline ph_status profiled_diamond(ph_stream *stream, void *user)
{
    const profiled *p = user;
    PH_TRY(profiled_spin(p, stream, SHORT_NS, 0));
    PH_TRY(ph_event_record(p->fork, stream));
    PH_TRY(ph_stream_wait_event(p->b, p->fork));
    PH_TRY(profiled_spin(p, p->b, LONG_NS, 1));
    PH_TRY(profiled_spin(p, stream, SHORT_NS, 2));
    PH_TRY(ph_event_record(p->join, p->b));
    PH_TRY(ph_stream_wait_event(stream, p->join));
    return profiled_spin(p, stream, SHORT_NS, 3);
}

static inline ph_profile_node profiled_node(const ph_profile *profile, size_t node)
{
    ph_profile_node info;
    assert_ok(ph_profile_node_at(&info, profile, node));
    return info;
}

static inline ph_profile_summary profiled_summary(const ph_profile *profile)
{
    ph_profile_summary summary;
    assert_ok(ph_profile_get(&summary, profile));
    return summary;
}

static inline void profiled_path(const ph_profile *profile, const size_t *nodes, size_t count)
{
    const size_t *path;
    size_t length;
    assert_ok(ph_profile_critical_path(&path, &length, profile));
    assert_int_equal(length, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(path[i], nodes[i]);
}

/* What the parts of every profile have to do with each other. */
static inline void profiled_check_sums(const ph_profile *profile)
{
    ph_profile_summary summary = profiled_summary(profile);
    uint64_t work = 0, idle = 0, critical = 0, scopes_work = 0, scopes_critical = 0;
    size_t nodes = 0;
    for (size_t n = 0; n < summary.node_count; n++) {
        ph_profile_node node = profiled_node(profile, n);
        assert_true(node.least_ns <= node.median_ns && node.median_ns <= node.most_ns);
        assert_true(!node.critical || node.slack_ns == 0);
        assert_true(!node.measured || node.lane < summary.lane_count);
        work += node.median_ns;
        critical += node.critical ? node.median_ns : 0;
    }
    for (size_t g = 0; g < ph_profile_gap_count(profile); g++) {
        ph_profile_gap gap, longer;
        assert_ok(ph_profile_gap_at(&gap, profile, g));
        assert_true(gap.length_ns > 0);
        if (g > 0) {
            assert_ok(ph_profile_gap_at(&longer, profile, g - 1));
            assert_true(longer.length_ns >= gap.length_ns);
        }
        idle += gap.length_ns;
    }
    for (size_t s = 0; s < ph_profile_scope_count(profile); s++) {
        ph_profile_scope scope;
        assert_ok(ph_profile_scope_at(&scope, profile, s));
        scopes_work += scope.work_ns;
        scopes_critical += scope.critical_ns;
        nodes += scope.node_count;
    }
    assert_int_equal(work, summary.work_ns);
    assert_int_equal(critical, summary.critical_ns);
    assert_int_equal(idle, summary.idle_ns);
    assert_int_equal(summary.busy_ns + summary.idle_ns, summary.replay_ns);
    assert_int_equal(scopes_work, work);
    assert_int_equal(scopes_critical, critical);
    assert_int_equal(nodes, summary.node_count);
    assert_true(critical <= work);
}
#endif
