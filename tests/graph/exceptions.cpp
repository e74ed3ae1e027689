/* SPDX-License-Identifier: MIT */
/* tests/graph/exceptions.cpp: C++ exceptions that leave capture functions and hooks: they arrive,
 * the stream is free, the same call goes well next time, and nothing is left behind. */
#include "support/exceptions.h"

/* ---- captures ---- */
static ph_status fill(ph_stream *stream, void *user)
{
    const world *w = static_cast<const world *>(user);
    PH_TRY(ph_memset(w->bytes, 7, world::COUNT, stream));
    may_throw();
    return PH_OK;
}

static ph_status hook(const ph_graph_hook_info *, void *)
{
    may_throw();
    return PH_OK;
}

static void expect_capture(world &w, ph_graph *graph)
{
    w.expect_usable();
    OK(ph_graph_reset(graph));
    OK(ph_memset(w.bytes, 0, world::COUNT, w.stream));
    OK(ph_graph_capture(graph, w.stream, nullptr, fill, &w));
    w.expect(0);
    OK(ph_graph_replay(graph, w.stream));
    w.expect(7);
}

static void capture_once(world &w, bool with_hook, ph_graph_hook_point point)
{
    ph_graph *graph;
    ph_hook *added = nullptr;
    OK(ph_graph_create(&graph, nullptr));
    if (with_hook)
        OK(ph_graph_hook_add(&added, graph, point, hook, nullptr));
    left = point == PH_HOOK_CAPTURE_END || point == PH_HOOK_INSTANTIATE ? 1 : 0;
    CHECK(throws([&] { ph_ignore(ph_graph_capture(graph, w.stream, nullptr, fill, &w)); }));
    left = -1;
    CHECK(ph_graph_get_state(graph) ==
          (with_hook && (point == PH_HOOK_CAPTURE_END || point == PH_HOOK_INSTANTIATE)
               ? PH_GRAPH_FAILED
               : PH_GRAPH_NEW));
    expect_capture(w, graph);
    ph_graph_hook_remove(added);
    ph_graph_destroy(graph);
}

static void test_captures()
{
    static const ph_graph_hook_point points[] = {PH_HOOK_CAPTURE_PREPARE, PH_HOOK_CAPTURE_START,
                                                 PH_HOOK_CAPTURE_END, PH_HOOK_INSTANTIATE};
    world w;
    for (int round = 0; round < 3; round++) {
        const leak_check leaks;
        capture_once(w, false, PH_HOOK_CAPTURE_PREPARE);
        for (ph_graph_hook_point point : points)
            capture_once(w, true, point);
        if (round == 2)
            leaks.expect_none("captures");
    }
}

/* A hook at the replay leaves the graph as it was. */
static void test_replay_hook()
{
    world w;
    ph_graph *graph;
    ph_hook *added;
    OK(ph_graph_create(&graph, nullptr));
    OK(ph_graph_capture(graph, w.stream, nullptr, fill, &w));
    OK(ph_graph_hook_add(&added, graph, PH_HOOK_REPLAY_START, hook, nullptr));
    left = 0;
    CHECK(throws([&] { ph_ignore(ph_graph_replay(graph, w.stream)); }));
    w.expect(0);
    OK(ph_graph_replay(graph, w.stream));
    w.expect(7);
    ph_graph_hook_remove(added);
    ph_graph_destroy(graph);
}

int main()
{
    test_captures();
    test_replay_hook();
    return 0;
}
