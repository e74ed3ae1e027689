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

/* ---- breaks ---- */
static ph_status throw_or_fill(ph_stream *stream, void *user)
{
    const world *w = static_cast<const world *>(user);
    may_throw();
    return ph_memset(w->bytes + 1, 8, 1, stream);
}

static ph_status broken(ph_stream *stream, void *user)
{
    const world *w = static_cast<const world *>(user);
    PH_TRY(ph_memset(w->bytes, 7, world::COUNT, stream));
    PH_TRY(ph_break(stream, throw_or_fill, user));
    return ph_memset(w->bytes + 1, 7, 1, stream);
}

static void expect_breaks(world &w, ph_graph *graph, ph_capture_options options)
{
    options.defer_breaks = true;
    w.expect_usable();
    CHECK(ph_graph_get_state(graph) == PH_GRAPH_NEW);
    OK(ph_graph_capture(graph, w.stream, &options, broken, &w));
    OK(ph_memset(w.bytes, 0, world::COUNT, w.stream));
    left = 0;
    CHECK(throws([&] { ph_ignore(ph_graph_replay(graph, w.stream)); }));
    left = -1;
    w.expect(7); /* the first segment ran */
    OK(ph_memset(w.bytes, 0, world::COUNT, w.stream));
    OK(ph_graph_replay(graph, w.stream));
    w.expect(7);
    OK(ph_graph_reset(graph));
}

static void break_once(world &w, bool with_hook, ph_graph_hook_point point)
{
    ph_capture_options options = {};
    ph_graph *graph;
    ph_hook *added = nullptr;
    options.allow_breaks = true;
    OK(ph_graph_create(&graph, nullptr));
    for (long at = 0; at < 3; at++) { /* each segment, and the whole */
        if (with_hook)
            OK(ph_graph_hook_add(&added, nullptr, point, hook, nullptr));
        left = at;
        const bool thrown =
            throws([&] { ph_ignore(ph_graph_capture(graph, w.stream, &options, broken, &w)); });
        CHECK(thrown == (left == -1));
        left = -1;
        ph_graph_hook_remove(added);
        added = nullptr;
        OK(ph_graph_reset(graph));
        expect_breaks(w, graph, options);
    }
    left = 0;
    OK(ph_graph_capture_begin(graph, w.stream, &options));
    CHECK(throws([&] { ph_ignore(ph_break(w.stream, throw_or_fill, &w)); }));
    left = -1;
    expect_breaks(w, graph, options);
    left = 0; /* destroyed by the function that throws */
    OK(ph_graph_capture_begin(graph, w.stream, &options));
    ph_break_fn destroy = [](ph_stream *, void *user) {
        ph_graph_destroy(static_cast<ph_graph *>(user));
        may_throw();
        return PH_OK;
    };
    CHECK(throws([&] { ph_ignore(ph_break(w.stream, destroy, graph)); }));
    left = -1;
    w.expect_usable();
}

static void test_breaks()
{
    world w;
    expect_no_leak("breaks", [&] {
        break_once(w, false, PH_HOOK_CAPTURE_END);
        break_once(w, true, PH_HOOK_CAPTURE_END);
        break_once(w, true, PH_HOOK_INSTANTIATE);
    });
}

static void test_captures()
{
    static const ph_graph_hook_point points[] = {PH_HOOK_CAPTURE_PREPARE, PH_HOOK_CAPTURE_START,
                                                 PH_HOOK_CAPTURE_END, PH_HOOK_INSTANTIATE};
    world w;
    expect_no_leak("captures", [&] {
        capture_once(w, false, PH_HOOK_CAPTURE_PREPARE);
        for (ph_graph_hook_point point : points)
            capture_once(w, true, point);
    });
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
    test_breaks();
    test_replay_hook();
    return 0;
}
