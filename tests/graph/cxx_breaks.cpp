/* SPDX-License-Identifier: MIT */
/* tests/graph/cxx_breaks.cpp: breaks in C++: callables that the graph keeps, and exceptions. */
#include "support/cxx.hpp"
#include <memory>
#include <stdexcept>

static void test_callables_are_kept()
{
    scene s;
    auto x = s.ints(0), y = s.ints(0);
    auto counter = std::make_shared<int>(0);
    auto work = [&](ph::stream_view on) {
        s.plus(x.data(), x.data(), 1, on);
        ph::graph_break(on, [counter, &s, &x](ph::stream_view between) {
            ++*counter;
            s.plus(x.data(), x.data(), 10, between);
        });
        s.plus(y.data(), x.data(), 100, on);
    };
    work(s.stream); /* outside captures it is called */
    CHECK(*counter == 1 && counter.use_count() == 1);
    EXPECT(y.data(), 111);
    {
        ph::graph graph;
        graph.capture(s.stream, work, &ph::capture_options().with_deferred_breaks());
        CHECK(*counter == 1 && counter.use_count() == 2 /* the graph has one */);
        CHECK(graph.segment_count() == 2);
        CHECK(ph_graph_get_state(graph.segment(1)) == PH_GRAPH_READY);
        graph.replay(s.stream);
        EXPECT(y.data(), 122);
        CHECK(*counter == 2);
        graph.clear();
        CHECK(counter.use_count() == 1);
        graph.capture(s.stream, ph::capture_options().with_breaks(), work);
        CHECK(*counter == 3);
    }
    CHECK(counter.use_count() == 1);
}

static void test_what_they_throw_arrives()
{
    scene s;
    auto x = s.ints(0);
    ph::graph graph;
    bool fail = false;
    auto work = [&](ph::stream_view on) {
        s.plus(x.data(), x.data(), 1, on);
        ph::graph_break(on, [&fail] {
            if (fail)
                throw std::runtime_error(boom);
        });
        s.plus(x.data(), x.data(), 1, on);
    };
    graph.capture(s.stream, work, &ph::capture_options().with_breaks());
    graph.replay(s.stream);
    EXPECT(x.data(), 2);
    fail = true;
    CHECK(throws([&] { graph.replay(s.stream); }));
    EXPECT(x.data(), 3);
    fail = false;
    graph.replay(s.stream);
    EXPECT(x.data(), 5);
    graph.clear();
    fail = true;
    CHECK(throws([&] { graph.capture(s.stream, work, &ph::capture_options().with_breaks()); }));
    CHECK(graph.state() == PH_GRAPH_NEW);
    CHECK(throws([&] { work(s.stream); }));
}

/* ph::graphed: the function is called once in each call, whatever way it goes. */
static void test_graphed_parts_have_breaks()
{
    scene s;
    auto x = s.ints(0), y = s.ints(0);
    int called = 0, shift = 1;
    ph::graphed part(ph::capture_options().with_breaks()),
        moving(ph::capture_options().with_breaks());
    moving.value("shift", shift);
    auto work = [&] {
        s.plus(x.data(), x.data(), 1, s.stream);
        ph::graph_break(s.stream, [&called] { called++; });
        s.plus(y.data(), x.data(), shift, s.stream);
    };
    for (int i = 1; i <= 4; i++) {
        part.run(s.stream, work);
        CHECK(called == i);
        EXPECT(y.data(), i + 1);
    }
    for (int i = 5; i <= 8; i++) { /* by a key: the cache's */
        part.run(s.stream, std::size_t{7}, work);
        CHECK(called == i);
        EXPECT(y.data(), i + 1);
    }
    for (int i = 9; i <= 12; i++) {
        shift = i;
        moving.run(s.stream, work);
        CHECK(called == i);
        EXPECT(y.data(), 2 * i);
    }
}

static void test_refusals_throw()
{
    scene s;
    auto x = s.ints(0);
    ph::graph graph;
    bool refused = false;
    graph.capture(s.stream, [&](ph::stream_view on) {
        s.plus(x.data(), x.data(), 1, on);
        try {
            ph::graph_break(on, [] {});
        } catch (const ph::error &error) {
            refused = error.status() == PH_ERROR_STATE;
        }
    });
    CHECK(refused);
    CHECK(graph.segment_count() == 1);
}

int main()
{
    test_callables_are_kept();
    test_what_they_throw_arrives();
    test_graphed_parts_have_breaks();
    test_refusals_throw();
    CHECK(ph__alloc_live() == 0);
    return 0;
}
