/* SPDX-License-Identifier: MIT */
/* tests/graph/cxx_graphed.cpp: phonograph::graphed: eager, captured, replayed; variables that are
 * proved and set, and those that are not; exceptions, captures of the caller's. */
#include "support/cxx.hpp"

static std::vector<std::string> warnings;

static void keep_warning(ph_log_level, const char *message, void *)
{
    warnings.emplace_back(message);
}

static std::size_t warned(const char *part)
{
    std::size_t count = 0;
    for (const std::string &one : warnings)
        count += one.find(part) != std::string::npos;
    return count;
}

static void test_phases()
{
    scene s;
    auto x = s.ints(0);
    phonograph::graphed part;
    int bodies = 0;
    const auto step = [&](phonograph::stream_view on) {
        bodies++;
        s.plus(x.data(), x.data(), 1, on);
    };
    for (int i = 1; i <= 5; i++) {
        part.run(s.stream, step);
        EXPECT(x.data(), i);
        CHECK(bodies == (i < 2 ? i : 2));
        CHECK((part.get() != nullptr) == (i > 1));
    }
    part.reset();
    part.run(s.stream, step);
    CHECK(bodies == 3 && !part.get());
    EXPECT(x.data(), 6);
    /* inside a capture of the caller's */
    phonograph::graph outer;
    part.run(s.stream, step);
    outer.capture(s.stream, [&] { part.run(s.stream, step); });
    EXPECT(x.data(), 7);
    outer.replay(s.stream);
    EXPECT(x.data(), 8);
}

/* An address and a value that change at each call: the body is captured once for each of them, once
 * more with the values restored; all of that again where the value has more bits than before and
 * the address has moved (20 and 70), twice where it has not (40), and no more. */
static void test_variables()
{
    scene s;
    phonograph::buffer<int32_t> inputs[] = {s.ints(1), s.ints(2), s.ints(3)};
    auto out = s.ints(0);
    int32_t *x = inputs[0].data(), value = 10;
    int bodies = 0;
    phonograph::graphed part;
    part.address("x", x, inputs[0].bytes());
    part.value("value", value);
    for (int i = 0; i < 12; i++) {
        x = inputs[i % 3].data();
        value = 10 * i;
        part.run(s.stream, [&] {
            bodies++;
            s.plus(out.data(), x, value, s.stream);
        });
        EXPECT(out.data(), i % 3 + 1 + 10 * i);
        CHECK(x == inputs[i % 3].data() && value == 10 * i);
    }
    CHECK(bodies == 5 + 2 * 4 + 2);
    CHECK(warnings.empty());
}

/* Host code turns the variable into something else: nothing is guessed. */
static void test_not_proved()
{
    scene s;
    auto out = s.ints(0);
    auto x = s.ints(1);
    int32_t value = 1;
    phonograph::graphed part;
    part.value("value", value);
    for (int i = 0; i < 6; i++) {
        value = i;
        part.run(s.stream, [&] { s.plus(out.data(), x.data(), 2 * value, s.stream); });
        EXPECT(out.data(), 2 * i + 1);
        part.run(s.stream, [&] { s.plus(out.data(), x.data(), 2 * value, s.stream); });
        EXPECT(out.data(), 2 * i + 1);
    }
    CHECK(warnings.size() == 1 &&
          warned("\"value\" has changed, and its uses are not proved") == 1);
    warnings.clear();
}

/* Both ways at once: the variable itself, and what follows from it. */
static void test_partly_proved()
{
    scene s;
    auto out = s.ints(0), other = s.ints(0), x = s.ints(1);
    int32_t value = 0;
    phonograph::graphed part;
    part.value("value", value);
    for (int i = 0; i < 6; i++) {
        value = 100 * i;
        part.run(s.stream, [&] {
            s.plus(out.data(), x.data(), value, s.stream);
            s.plus(other.data(), x.data(), value / 100, s.stream);
        });
        EXPECT(out.data(), 100 * i + 1);
        EXPECT(other.data(), i + 1);
    }
    CHECK(warnings.size() == 1);
    warnings.clear();
}

static void test_exceptions()
{
    scene s;
    auto x = s.ints(0);
    phonograph::graphed part;
    int calls = 0;
    const auto step = [&] {
        s.plus(x.data(), x.data(), 1, s.stream);
        if (++calls == 2)
            throw std::runtime_error(boom);
    };
    part.run(s.stream, step);
    CHECK(throws([&] { part.run(s.stream, step); }));
    CHECK(!s.stream.is_capturing() && !part.get());
    EXPECT(x.data(), 1);
    part.run(s.stream, step);
    part.run(s.stream, step);
    CHECK(calls == 3);
    EXPECT(x.data(), 3);
}

/* A replay whose slots were set, and that did not come to its end: the next one sets them all. */
static bool interrupts;
static ph_status interrupt(const ph_graph_hook_info *, void *)
{
    if (interrupts)
        throw std::runtime_error(boom);
    return PH_OK;
}
static void test_interrupted_replay()
{
    scene s;
    auto out = s.ints(0);
    auto x = s.ints(1);
    int32_t value = 1;
    phonograph::graphed part;
    part.value("value", value);
    const auto run = [&](int32_t given) {
        value = given;
        part.run(s.stream, [&] { s.plus(out.data(), x.data(), value, s.stream); });
    };
    for (int32_t i : {1, 1, 2, 1})
        run(i);
    for (ph_graph_hook_point point : {PH_HOOK_REPLAY_START, PH_HOOK_REPLAY_END}) {
        phonograph::handle<ph_hook, ph_graph_hook_remove> hook;
        phonograph::check(ph_graph_hook_add(hook.out(), part.get(), point, interrupt, nullptr));
        interrupts = true;
        CHECK(throws([&] { run(30); }));
        interrupts = false;
        for (int i = 0; i < 2; i++) {
            run(1);
            EXPECT(out.data(), 2);
        }
    }
    CHECK(warnings.empty());
}

/* Variables that are named after the capture; a copy out of host memory, from which nothing is
 * proved (slots.h). */
static void test_later_names()
{
    scene s;
    auto out = s.ints(0), x = s.ints(1);
    phonograph::pinned<int32_t> hosts[] = {{scene::N, s.stream}, {scene::N, s.stream}};
    for (int k = 0; k < 2; k++)
        for (int32_t &one : hosts[k])
            one = k + 1;
    int32_t value = 4, *from = hosts[0].data();
    phonograph::graphed part(phonograph::capture_options().check_liveness(), 0);
    const auto step = [&] {
        s.stream.copy(x.data(), from, x.bytes());
        s.plus(out.data(), x.data(), value, s.stream);
    };
    part.run(s.stream, step);
    EXPECT(out.data(), 5);
    part.value("value", value, int32_t{4});
    part.address("from", from, x.bytes());
    for (int i = 0; i < 6; i++) {
        value = i;
        from = hosts[i % 2].data();
        part.run(s.stream, step);
        EXPECT(out.data(), i + i % 2 + 1);
    }
    CHECK(warnings.size() == 1 && warned("are not proved: ") == 1);
    warnings.clear();
}

int main()
{
    ph_log_set(keep_warning, nullptr);
    test_phases();
    test_variables();
    test_not_proved();
    test_partly_proved();
    test_exceptions();
    test_interrupted_replay();
    test_later_names();
    ph_log_set(nullptr, nullptr);
    CHECK(ph__alloc_live() == 0);
    return 0;
}
