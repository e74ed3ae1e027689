/* SPDX-License-Identifier: MIT */
/* bench/cxx_replay.cpp: what phonograph.hpp adds to a replay: the C call, the members of graph,
 * and ph::graphed, on the device that PH_BENCH_DEVICE names ("host" when nothing is said).
 *
 * cxx_replay [rounds [file that JSON lines are appended to]]
 * cxx_replay --count SIDE TIMES: replays only, for a counter of instructions: the difference of two
 * TIMES, divided by the difference, is what one replay takes. */
#include "clock.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <phonograph/phonograph.hpp>
#include <string>
#include <vector>

namespace
{
constexpr int batch = 100; // replays in a sample: fewer than CUDA's queue of launches holds
constexpr double limit_ns = 2;

struct scene {
    ph::device device;
    ph::stream stream;
    ph::buffer<char> x;
    ph::graph graph;
    ph::graphed part;

    explicit scene(const char *name)
        : device(name), stream(device), x(64, stream), graph(ph::graph_options())
    {
        graph.capture(stream, [&] { fill(); });
        for (int i = 0; i < 3; i++)
            part.run(stream, [&] { fill(); });
        stream.synchronize();
    }
    void fill()
    {
        stream.fill(x.data(), 1, x.bytes());
    }
};

using loop = void (*)(scene &s, int times);

void fail()
{
    std::fprintf(stderr, "cxx_replay: %s\n", ph_error_last()->message);
    std::exit(1);
}

void replay_in_c(scene &s, int times)
{
    ph_graph *graph = s.graph;
    ph_stream *stream = s.stream;
    for (int i = 0; i < times; i++)
        if (ph_graph_replay(graph, stream) != PH_OK)
            fail();
}

void replay_or_throw(scene &s, int times)
{
    for (int i = 0; i < times; i++)
        s.graph.replay(s.stream);
}

void replay_nothrow(scene &s, int times)
{
    for (int i = 0; i < times; i++)
        if (s.graph.replay(s.stream, std::nothrow) != PH_OK)
            fail();
}

void replay_graphed(scene &s, int times)
{
    for (int i = 0; i < times; i++)
        s.part.run(s.stream, [&s] { s.fill(); });
}

struct side {
    const char *name;
    loop run;
    bool limited;
    double median, p10, p90;
    std::vector<double> samples;
};

// The first is the side that the others are held against; the second one shows the noise.
side sides[] = {{"ph_graph_replay", replay_in_c, false, 0, 0, 0, {}},
                {"ph_graph_replay again", replay_in_c, false, 0, 0, 0, {}},
                {"graph.replay(stream)", replay_or_throw, true, 0, 0, 0, {}},
                {"graph.replay(stream, std::nothrow)", replay_nothrow, true, 0, 0, 0, {}},
                {"graphed.run(stream, body)", replay_graphed, false, 0, 0, 0, {}}};
constexpr std::size_t side_count = sizeof sides / sizeof sides[0];

void sample(side &one, scene &s)
{
    const double start = clock_now();
    one.run(s, batch);
    one.samples.push_back((clock_now() - start) / batch);
    s.stream.synchronize();
}

void measure(scene &s, int rounds)
{
    for (side &one : sides)
        one.run(s, batch);
    s.stream.synchronize();
    for (int round = 0; round < rounds; round++)
        for (std::size_t k = 0; k < side_count; k++)
            sample(sides[(static_cast<std::size_t>(round) + k) % side_count], s);
    for (side &one : sides) {
        clock_sort(one.samples.data(), rounds);
        const auto at = [&](int percent) {
            return one
                .samples[static_cast<std::size_t>(rounds) * static_cast<unsigned>(percent) / 100];
        };
        one.p10 = at(10);
        one.median = at(50);
        one.p90 = at(90);
    }
}

void write_json(const char *path, const scene &s, int rounds)
{
    std::FILE *json = std::fopen(path, "a");
    if (!json) {
        std::perror(path);
        std::exit(1);
    }
    char date[32];
    const std::time_t now = std::time(nullptr);
    std::strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", std::gmtime(&now));
    std::fprintf(json,
                 "{\"bench\":\"cxx_replay\",\"machine\":\"%s\",\"date\":\"%s\",\"rounds\":%d}\n",
                 s.device.info().description, date, rounds);
    for (const side &one : sides)
        std::fprintf(json,
                     "{\"bench\":\"cxx_replay\",\"what\":\"replay through the C++ header\","
                     "\"nodes\":1,\"side\":\"%s\",\"ns\":%.2f,\"p10\":%.2f,\"p90\":%.2f}\n",
                     one.name, one.median, one.p10, one.p90);
    if (std::fclose(json) != 0) {
        std::perror(path);
        std::exit(1);
    }
}

// Whether the header keeps its limit.
bool report()
{
    bool kept = true;
    std::printf("%-36s %10s %10s %10s %10s\n", "ns a replay", "median", "10 %", "90 %", "added");
    for (const side &one : sides) {
        const double added = one.median - sides[0].median;
        const bool good = !one.limited || added <= limit_ns;
        std::printf("%-36s %10.2f %10.2f %10.2f %+10.2f%s\n", one.name, one.median, one.p10,
                    one.p90, added,
                    !one.limited ? ""
                    : good       ? "  kept"
                                 : "  NOT kept");
        kept = kept && good;
    }
    std::printf("limit: %.0f ns more than the C call: %s\n", limit_ns, kept ? "kept" : "NOT kept");
    return kept;
}

int usage()
{
    std::fprintf(stderr, "usage: cxx_replay [rounds [file to append JSON lines to]]\n"
                         "       cxx_replay --count SIDE TIMES\n");
    for (const side &one : sides)
        std::fprintf(stderr, "  a side: \"%s\"\n", one.name);
    return 2;
}

int count(scene &s, const char *name, int times)
{
    for (const side &one : sides)
        if (std::strcmp(one.name, name) == 0) {
            one.run(s, times);
            s.stream.synchronize();
            return 0;
        }
    return usage();
}
} // namespace

int main(int argc, char **argv)
{
    const char *name = std::getenv("PH_BENCH_DEVICE");
    const bool counts = argc == 4 && std::strcmp(argv[1], "--count") == 0;
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 2001;
    if (!counts && (argc > 3 || rounds < 1))
        return usage();
    try {
        ph::device there(name ? name : "host");
    } catch (const ph::error &error) {
        std::printf("cxx_replay: %s\n", error.what());
        return 77;
    }
    scene s(name ? name : "host");
    if (counts)
        return count(s, argv[2], std::atoi(argv[3]));
    std::printf("cxx_replay: %s; medians of %d rounds of %d replays of a graph with one fill, all "
                "sides in turn\n",
                s.device.info().description, rounds, batch);
    measure(s, rounds);
    if (argc == 3)
        write_json(argv[2], s, rounds);
    return report() ? 0 : 1;
}
