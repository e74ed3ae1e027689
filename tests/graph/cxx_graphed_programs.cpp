/* SPDX-License-Identifier: MIT */
/* tests/graph/cxx_graphed_programs.cpp: phonograph::graphed as a program meets it: the switch of
 * the environment and error macros that call exit, each in a process of its own; streams of CUDA's;
 * exceptions in a proof; reset. */
#include "support/cxx.hpp"
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include "support/killed.h"
}

/* ---- the programs ---- */

/* As many programs have it. */
static void check_cuda(int number)
{
    if (number != 0)
        std::exit(3);
}

/* Prints how often the body ran in five calls, and whether there is a graph. */
static int count_bodies()
{
    scene s;
    auto x = s.ints(0);
    int bodies = 0;
    phonograph::graphed part;
    for (int i = 0; i < 5; i++)
        part.run(s.stream, [&] {
            bodies++;
            s.plus(x.data(), x.data(), 1, s.stream);
        });
    EXPECT(x.data(), 5);
    std::printf("bodies %d, graph %d\n", bodies, part.get() != nullptr);
    return 0;
}

/* The body waits, which is harmless in the first call, and kills the capture in the second. */
static int wait_in_body()
{
    scene s;
    auto x = s.ints(0);
    phonograph::graphed part;
    for (int i = 1; i <= 2; i++) {
        std::printf("call %d\n", i);
        std::fflush(stdout);
        part.run(s.stream, [&] {
            s.plus(x.data(), x.data(), 1, s.stream);
            check_cuda(t_synchronize_at_driver(s.stream));
        });
    }
    return 4;
}

/* No stream is looked at: this one is none. */
static int run_without_device()
{
    int bodies = 0, nothing = 0;
    phonograph::graphed part;
    for (int i = 0; i < 3; i++)
        part.run(reinterpret_cast<CUstream_st *>(&nothing), [&] { bodies++; });
    std::printf("bodies %d, graph %d\n", bodies, part.get() != nullptr);
    return 0;
}

/* ---- running them ---- */
struct outcome {
    int status;
    std::string text;
    std::size_t count(const char *part) const
    {
        std::size_t found = 0;
        for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
            found++;
        return found;
    }
};

static outcome run_self(const char *environment, const char *which)
{
    char self[4096] = "";
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    const std::string command = std::string(environment) + " '" + self + "' " + which + " 2>&1";
    std::FILE *pipe = popen(command.c_str(), "r");
    CHECK(pipe != nullptr);
    outcome got{};
    for (int c; (c = std::fgetc(pipe)) != EOF;)
        got.text += static_cast<char>(c);
    const int status = pclose(pipe);
    got.status = WIFEXITED(status) ? WEXITSTATUS(status) : 256;
    return got;
}

static void test_switch()
{
    const outcome off = run_self("PH_GRAPHS=0", "count");
    CHECK(off.status == 0 && off.count("bodies 5, graph 0") == 1);
    for (const char *on : {"PH_GRAPHS=1", "PH_GRAPHS=", "PH_GRAPHS=00", ""}) {
        const outcome got = run_self(on, "count");
        CHECK(got.status == 0 && got.count("bodies 2, graph 1") == 1);
    }
    const outcome alone = run_self("PH_GRAPHS=0", "alone");
    CHECK(alone.status == 0 && alone.count("bodies 3, graph 0") == 1);
}

static void test_exit_in_body()
{
    /* a program that exits there leaves its objects */
    outcome got = run_self("FAKE_CUDA_LENIENT=1", "wait");
    CHECK(got.status == 3 && got.count("call 2") == 1);
    CHECK(got.count("is open as the program exits, and was killed by cuStreamSynchronize (900") ==
          1);
    got = run_self("FAKE_CUDA_LENIENT=1 PH_GRAPHS=0", "wait");
    CHECK(got.status == 4 && got.count("killed") == 0);
}

/* ---- in this process ---- */
static void test_streams_of_cuda()
{
    scene s;
    auto x = s.ints(0);
    int bodies = 0;
    phonograph::graphed part;
    const auto step = [&](phonograph::stream_view on) {
        bodies++;
        s.plus(x.data(), x.data(), 1, on);
    };
    if (s.device.info().kind == PH_DEVICE_HOST) { /* has none, and says so before the body runs */
        int nothing = 0;
        auto *other = reinterpret_cast<CUstream_st *>(&nothing);
        const auto refused = THROWN(part.run(other, step));
        CHECK(refused.status() != PH_OK && bodies == 0);
        return;
    }
    CUstream_st *native;
    OK(ph_stream_cuda(&native, s.stream));
    for (int i = 1; i <= 4; i++) {
        part.run(native, step);
        EXPECT(x.data(), i);
    }
    CHECK(bodies == 2);
    { /* the graph replays on another stream too, which goes after the reset */
        const phonograph::stream second(s.device);
        OK(ph_stream_cuda(&native, second));
        part.run(native, step);
        second.synchronize();
        EXPECT(x.data(), 5);
        CHECK(bodies == 2);
        part.reset();
    }
    CHECK(THROWN(part.run(static_cast<CUstream_st *>(nullptr), step)).status() ==
          PH_ERROR_ARGUMENT);
}

/* The variable has its value again, whatever leaves the body. */
static void test_exception_in_proof()
{
    scene s;
    auto x = s.ints(0), out = s.ints(0);
    int32_t value = 8;
    int bodies = 0;
    phonograph::graphed part;
    part.value("value", value);
    const auto step = [&] {
        s.plus(out.data(), x.data(), value, s.stream);
        if (++bodies == 3)
            throw std::runtime_error(boom);
    };
    part.run(s.stream, step);
    bool thrown_here = false;
    try {
        part.run(s.stream, step);
    } catch (const std::runtime_error &e) {
        thrown_here = std::strcmp(e.what(), boom) == 0;
    }
    CHECK(thrown_here && bodies == 3);
    CHECK(value == 8 && !s.stream.is_capturing() && !part.get());
    for (int i = 0; i < 3; i++) {
        value = 8 + i;
        part.run(s.stream, step);
        EXPECT(out.data(), 8 + i);
    }
    /* captured, proved, and with the value restored; 9, after 8 and 4, is odd: the same again */
    CHECK(bodies == 6 + 2);
}

/* Variables outlive a reset. */
static void test_reset()
{
    scene s;
    auto x = s.ints(1), out = s.ints(0);
    int32_t value = 0;
    int bodies = 0;
    phonograph::graphed part;
    part.value("value", value);
    for (int round = 0; round < 2; round++) {
        bodies = 0;
        for (int i = 0; i < 6; i++) {
            value = 10 * i + 4;
            part.run(s.stream, [&] {
                bodies++;
                s.plus(out.data(), x.data(), value, s.stream);
            });
            EXPECT(out.data(), value + 1);
        }
        /* 24 and 34 have more bits than 14 and those before: captured twice each */
        CHECK(bodies == 4 + 2 * 2 && part.get());
        part.reset();
        CHECK(!part.get());
    }
}

int main(int argc, char **argv)
{
    const std::string which = argc > 1 ? argv[1] : "";
    if (which == "count")
        return count_bodies();
    if (which == "wait")
        return wait_in_body();
    if (which == "alone")
        return run_without_device();
    test_switch();
    test_exit_in_body();
    test_streams_of_cuda();
    test_exception_in_proof();
    test_reset();
    CHECK(ph__alloc_live() == 0);
    return 0;
}
