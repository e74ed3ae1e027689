/* SPDX-License-Identifier: MIT */
/* tests/graph/cxx_owned.cpp: functions that graphs and hooks call live as long as they can be
 * called. */
#include "support/cxx.hpp"
#include <atomic>
#include <memory>
#include <thread>

/* The function of a hook that is replaced is in use until its hook is gone. */
struct replaying {
    ph_graph *graph;
    ph_stream *stream;
    ~replaying()
    {
        if (graph && ph_graph_replay(graph, stream) != PH_OK)
            std::exit(1);
    }
};
static void test_replaced_hook()
{
    scene s;
    auto x = s.ints(0);
    int calls = 0;
    phonograph::graph graph;
    graph.capture(s.stream, [&] { s.plus(x.data(), x.data(), 1, s.stream); });
    auto last = std::make_unique<replaying>();
    last->graph = graph;
    last->stream = s.stream;
    std::shared_ptr<replaying> shared = std::move(last);
    phonograph::hook counting(graph, PH_HOOK_REPLAY_START,
                              [shared, &calls](const ph_graph_hook_info &) { calls++; });
    shared.reset();
    counting = phonograph::hook();
    EXPECT(x.data(), 1);
    CHECK(calls == 0);
}

/* A hook that ends itself: what its function holds lives until the function returns. */
static void test_ended_by_itself()
{
    scene s;
    auto x = s.ints(0);
    phonograph::graph graph;
    graph.capture(s.stream, [&] { s.plus(x.data(), x.data(), 1, s.stream); });
    phonograph::hook once;
    auto held = std::make_shared<int>(0);
    const std::weak_ptr<int> watched = held;
    int calls = 0;
    bool lived = false;
    once = phonograph::hook(graph, PH_HOOK_REPLAY_START,
                            [&, kept = std::move(held)](const ph_graph_hook_info &) {
                                once = phonograph::hook();
                                lived = !watched.expired();
                                calls++;
                            });
    graph.replay(s.stream);
    graph.replay(s.stream);
    CHECK(calls == 1 && lived && watched.expired());
    EXPECT(x.data(), 2);
}

/* A host function that a child or an updated executable calls is kept by it. */
static void test_host_function(bool update)
{
    scene s;
    int value = 0;
    phonograph::graph outer, inner;
    const auto adds = [&](int n) {
        return [&, n] {
            s.stream.host([&value, kept = std::make_shared<int>(n)] { value += *kept; });
        };
    };
    inner.capture(s.stream, adds(5));
    if (update) {
        outer.capture(s.stream, adds(7));
        CHECK(ph_graph_update(outer, inner, nullptr) == PH_OK);
    } else {
        outer.capture(s.stream, [&] { inner.replay(s.stream); });
    }
    inner.reset();
    outer.replay(s.stream);
    s.stream.synchronize();
    CHECK(value == 5);
}
/* Threads that submit to forked streams of one capture. */
static void test_threads()
{
    enum {
        THREADS = 4,
        CALLS = 500
    };
    scene s;
    std::atomic<int> sum{0};
    phonograph::stream forks[THREADS];
    for (auto &fork : forks)
        fork = phonograph::stream(s.device);
    phonograph::graph graph;
    graph.capture(s.stream, phonograph::capture_options().with_mode(PH_CAPTURE_RELAXED), [&] {
        std::vector<std::thread> threads;
        for (auto &fork : forks) {
            fork.wait(s.stream);
            threads.emplace_back([&fork, &sum] {
                for (int i = 0; i < CALLS; i++)
                    fork.host([&sum, kept = std::make_shared<int>(1)] { sum += *kept; });
            });
        }
        for (auto &thread : threads)
            thread.join();
        for (auto &fork : forks)
            s.stream.wait(fork);
    });
    graph.replay(s.stream);
    s.stream.synchronize();
    CHECK(sum == THREADS * CALLS);
}

int main()
{
    test_replaced_hook();
    test_ended_by_itself();
    test_host_function(false);
    test_host_function(true);
    test_threads();
    CHECK(ph__alloc_live() == 0);
    return 0;
}
