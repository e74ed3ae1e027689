/* SPDX-License-Identifier: MIT */
/* tests/graph/cxx_memory_plan.cpp: phonograph::memory_plan: two captures in one plan, and what is
 * thrown in them. */
#include "support/cxx.hpp"
#include <array>

enum {
    PARTS = 2
};

/* Two graphs, each by way of memory that it frees: x += 1 + its number. */
struct parts {
    scene s;
    phonograph::pool pool, noted;
    phonograph::memory_plan plan;
    std::array<phonograph::graph, PARTS> graphs;
    phonograph::buffer<int32_t> x;

    parts() : pool(s.device), noted(s.device), plan(pool, s.stream, PARTS), x(s.ints(0))
    {
    }
    auto body(std::size_t at, bool throwing = false)
    {
        return [this, at, throwing](phonograph::stream_view on) {
            phonograph::buffer<int32_t> scratch(scene::N * (at + 1), on);
            s.plus(scratch.data(), x.data(), 1 + static_cast<int32_t>(at), on);
            if (throwing)
                throw std::runtime_error(boom);
            s.plus(x.data(), scratch.data(), 0, on);
        };
    }
    void note()
    {
        ph_capture_options options{};
        options.pool = noted;
        for (std::size_t at = PARTS; at-- > 0;) {
            plan.capture(at, graphs[at], body(at), &options);
            graphs[at].clear();
        }
    }
    void expect(int32_t value)
    {
        s.set(x.data(), 0);
        for (phonograph::graph &graph : graphs)
            graph.replay(s.stream);
        EXPECT(x.data(), value);
    }
};

static void test_two_captures()
{
    parts p;
    p.note();
    p.plan.place();
    for (std::size_t at = 0; at < PARTS; at++)
        p.plan.capture(at, p.graphs[at], p.body(at));
    p.plan.finish();
    CHECK(!p.plan.info().ended && p.plan.info().planned == p.plan.info().plan_bound);
    CHECK(p.plan.info().planned >= 2 * scene::N * sizeof(int32_t));
    p.expect(3);
    p.plan.reset();
    p.expect(3);
    CHECK(THROWN(p.plan.place()).status() == PH_ERROR_ARGUMENT);
}

/* A capture that was noted may be noted again; one that was served ends the plan. */
static void test_exceptions()
{
    parts p;
    CHECK(throws([&] { p.plan.capture(0, p.graphs[0], p.body(0, true)); }));
    p.note();
    p.plan.place();
    p.plan.capture(0, p.graphs[0], p.body(0));
    CHECK(throws([&] { p.plan.capture(1, p.graphs[1], p.body(1, true)); }));
    CHECK(std::strstr(p.plan.info().ended, "failed"));
    for (std::size_t at = 0; at < PARTS; at++) {
        p.graphs[at].clear();
        p.plan.capture(at, p.graphs[at], p.body(at));
    }
    p.expect(3);
}

int main()
{
    test_two_captures();
    test_exceptions();
    return 0;
}
