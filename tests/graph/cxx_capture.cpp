/* SPDX-License-Identifier: MIT */
/* tests/graph/cxx_capture.cpp: captures, replays and hooks of phonograph.hpp. */
#include "support/cxx.hpp"

static void test_bodies()
{
    scene s;
    auto x = s.ints(0);
    phonograph::graph graph;
    const auto step = [&](phonograph::stream_view on) { s.plus(x.data(), x.data(), 2, on); };
    graph.capture(s.stream, step);
    EXPECT(x.data(), 0);
    graph.replay(s.stream);
    CHECK(graph.replay(s.stream, std::nothrow) == PH_OK);
    EXPECT(x.data(), 4);
    CHECK(graph.state() == PH_GRAPH_READY && ph_record_node_count(graph.record()) == 1);
    /* without the stream, with a status, a function */
    graph.clear();
    graph.capture(s.stream, [&] { step(s.stream); });
    graph.clear();
    graph.capture(s.stream, [&](phonograph::stream_view on) -> ph_status {
        step(on);
        return PH_OK;
    });
    graph.replay(s.stream);
    EXPECT(x.data(), 6);
    graph.clear();
    const phonograph::error refused = THROWN(graph.capture(
        s.stream, [&]() -> ph_status { return ph_fail(PH_ERROR_CALLER, "not today"); }));
    CHECK(refused.status() == PH_ERROR_CALLER && std::strstr(refused.what(), "not today"));
    CHECK(graph.state() == PH_GRAPH_FAILED && !s.stream.is_capturing());
}

/* What a body throws arrives whole, and the same stream can capture again. */
static void test_exceptions()
{
    scene s;
    auto x = s.ints(0);
    phonograph::graph graph;
    CHECK(throws([&] {
        graph.capture(s.stream, [&] {
            s.plus(x.data(), x.data(), 2, s.stream);
            throw std::runtime_error(boom);
        });
    }));
    CHECK(!s.stream.is_capturing() && graph.state() == PH_GRAPH_NEW);
    const phonograph::error inner =
        THROWN(graph.capture(s.stream, [&] { s.stream.synchronize(); }));
    CHECK(inner.status() == PH_ERROR_CAPTURE && inner.native_code() == 900);
    graph.capture(s.stream, [&] { s.plus(x.data(), x.data(), 2, s.stream); });
    graph.replay(s.stream);
    EXPECT(x.data(), 2);
}

/* An exception that the body catches leaves its call out of the graph, and a warning says so. */
static std::string warning;
static void keep_warning(ph_log_level level, const char *message, void *)
{
    if (level == PH_LOG_WARNING)
        warning = message;
}

static void test_caught_refusals()
{
    scene s;
    auto x = s.ints(0);
    phonograph::graph graph;
    phonograph::capture_options strict;
    strict.strict = true;
    const auto body = [&] {
        s.plus(x.data(), x.data(), 2, s.stream);
        try {
            s.stream.synchronize();
        } catch (const phonograph::error &) {
        }
    };
    ph_log_set(keep_warning, nullptr);
    for (int i = 0; i < 2; i++) { /* with the same words again */
        warning.clear();
        graph.capture(s.stream, strict, body);
        CHECK(warning.find("a call failed in it") != std::string::npos);
        CHECK(!s.stream.is_capturing());
        graph.clear();
    }
    ph_log_set(nullptr, nullptr);
}

static void test_options()
{
    scene s;
    auto x = s.ints(0);
    phonograph::pool pool(s.device);
    phonograph::graph kept(phonograph::graph_options().keep().defer());
    kept.capture(s.stream, phonograph::capture_options().in(pool).with_mode(PH_CAPTURE_RELAXED),
                 [&] { s.plus(x.data(), x.data(), 1, s.stream); });
    CHECK(kept.state() == PH_GRAPH_ENDED && kept.pool() == pool.get());
    kept.instantiate();
    kept.upload(s.stream);
    kept.replay(s.stream);
    EXPECT(x.data(), 1);
    phonograph::graph planned;
    int runs = 0;
    planned.capture(s.stream, phonograph::capture_options().with_plan(), [&] {
        runs++;
        auto work = s.ints(0);
        s.plus(work.data(), work.data(), 1, s.stream);
    });
    CHECK(runs == 2 && planned.memory().planned > 0 && !planned.memory().plan_ended);
    phonograph::graph checked;
    auto y = s.ints(0);
    checked.capture(s.stream, phonograph::capture_options().check_liveness(),
                    [&] { s.plus(y.data(), y.data(), 1, s.stream); });
    checked.check_inputs();
    y = phonograph::buffer<int32_t>();
    CHECK(THROWN(checked.replay(s.stream)).status() == PH_ERROR_STALE_INPUT);
    CHECK(checked.replay(s.stream, std::nothrow) == PH_ERROR_STALE_INPUT);
    CHECK(
        THROWN(phonograph::graph().capture(s.stream, phonograph::capture_options().be_strict(), [] {
        })).status() == PH_ERROR_STATE);
}

static void test_slots()
{
    scene s;
    auto x = s.ints(1), y = s.ints(5), out = s.ints(0);
    phonograph::graph graph;
    graph.capture(s.stream, [&] { s.plus(out.data(), x.data(), 10, s.stream); });
    const std::size_t slot = graph.find_slot("x", x.all());
    graph.replay(s.stream);
    EXPECT(out.data(), 11);
    const ph_slot_value values[] = {{slot, y.data()}};
    graph.replay(s.stream, values);
    EXPECT(out.data(), 15);
    const ph_slot_value back[] = {{slot, x.data()}};
    graph.set_slots(back);
    EXPECT(out.data(), 15); /* nothing ran */
    graph.replay(s.stream);
    EXPECT(out.data(), 11);
}

static void test_hooks()
{
    scene s;
    auto x = s.ints(0);
    int starts = 0;
    phonograph::graph graph;
    {
        phonograph::hook counting(graph, PH_HOOK_REPLAY_START,
                                  [&](const ph_graph_hook_info &) { starts++; });
        const phonograph::hook moved = std::move(counting);
        graph.capture(s.stream, [&] { s.plus(x.data(), x.data(), 1, s.stream); });
        graph.replay(s.stream);
        CHECK(starts == 1);
    }
    graph.replay(s.stream);
    CHECK(starts == 1);
    const phonograph::hook refusing(graph, PH_HOOK_REPLAY_START, [](const ph_graph_hook_info &) {
        return ph_fail(PH_ERROR_CALLER, "refused");
    });
    CHECK(THROWN(graph.replay(s.stream)).status() == PH_ERROR_CALLER);
    EXPECT(x.data(), 2);
}

/* Hooks that fail no call: what they throw is logged, and the handle's end is not the program's. */
static void keep_message(ph_log_level, const char *message, void *user)
{
    *static_cast<std::string *>(user) += message;
}
static void test_throwing_hooks(bool of_process)
{
    scene s;
    auto x = s.ints(0);
    std::string logged;
    ph_log_set(keep_message, &logged);
    {
        phonograph::graph graph;
        graph.capture(s.stream, [&] { s.plus(x.data(), x.data(), 1, s.stream); });
        const auto throwing = [](const ph_graph_hook_info &) { throw std::runtime_error(boom); };
        ph_graph *const of = of_process ? nullptr : graph.get();
        const phonograph::hook end(of, PH_HOOK_REPLAY_END, throwing);
        phonograph::hook gone(of, PH_HOOK_DESTROY, throwing);
        graph.replay(s.stream);
        CHECK(logged.find(boom) != std::string::npos);
        logged.clear();
        graph.clear();
        CHECK(logged.find(boom) != std::string::npos);
        logged.clear();
        graph.capture(s.stream, [&] { s.plus(x.data(), x.data(), 1, s.stream); });
        graph.replay(s.stream);
        logged.clear();
        graph.reset();
        CHECK(logged.find(boom) != std::string::npos);
        EXPECT(x.data(), 2);
        phonograph::graph later;
        const phonograph::hook start(of_process ? nullptr : later.get(), PH_HOOK_CAPTURE_START,
                                     throwing);
        const auto captures = [&] {
            later.capture(s.stream, [&] { s.plus(x.data(), x.data(), 1, s.stream); });
        };
        CHECK(throws(captures) == !of_process);
    }
    ph_log_set(nullptr, nullptr);
}

int main()
{
    test_bodies();
    test_exceptions();
    test_caught_refusals();
    test_options();
    test_slots();
    test_hooks();
    test_throwing_hooks(false);
    test_throwing_hooks(true);
    CHECK(ph__alloc_live() == 0);
    return 0;
}
