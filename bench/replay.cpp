/* SPDX-License-Identifier: MIT */
/* bench/replay.cpp: what a node costs to replay, beside oneTBB's flow graph, OpenMP tasks with
 * depend, and a list of functions. */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <memory>
#include <omp.h>
#include <string>
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <thread>
#include <vector>
extern "C" {
#include "driver/host/plan/plan.h"
#include "driver/host/plan/plan_run.h"
}

namespace
{

using steady = std::chrono::steady_clock;

double now_ns()
{
    return std::chrono::duration<double, std::nano>(steady::now().time_since_epoch()).count();
}

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    size_t n = values.size();
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// ---- the work ----

struct alignas(64) work {
    uint64_t value = 1, calls = 0;
    uint32_t steps = 0;
};

void empty_body(const ph_block_range *, const void *)
{
}

// Work, not a look at the clock: a chain of multiplications.
void busy_body(const ph_block_range *, const void *args)
{
    work *mine = *static_cast<work *const *>(args);
    uint64_t value = mine->value;
    for (uint32_t i = 0; i < mine->steps; i++)
        value = value * UINT64_C(6364136223846793005) + 1442695040888963407u;
    mine->value = value;
    mine->calls++;
}

uint32_t steps_for(double ns)
{
    work probe;
    work *pointer = &probe;
    probe.steps = 1000000;
    double best = 1e300;
    const volatile ph_host_kernel_fn body =
        busy_body; // called as the runners call it: not inlined, its result not dropped
    for (int i = 0; i < 9; i++) {
        double start = now_ns();
        body(nullptr, &pointer);
        best = std::min(best, now_ns() - start);
    }
    return static_cast<uint32_t>(ns * probe.steps / best);
}

// ---- shapes ----

struct shape {
    const char *name;
    std::vector<std::vector<uint32_t>> dependencies;
};

shape chains(const char *name, uint32_t lanes, uint32_t length)
{
    shape s{name, {}};
    s.dependencies.resize(size_t{lanes} * length);
    for (uint32_t n = lanes; n < lanes * length; n++)
        s.dependencies[n] = {n - lanes};
    return s;
}

shape wavefront(uint32_t side)
{
    shape s{"wavefront 100x100", {}};
    s.dependencies.resize(size_t{side} * side);
    for (uint32_t i = 0; i < side; i++)
        for (uint32_t j = 0; j < side; j++) {
            auto &d = s.dependencies[i * side + j];
            if (i)
                d.push_back((i - 1) * side + j);
            if (j)
                d.push_back(i * side + j - 1);
        }
    return s;
}

struct problem {
    const shape &form;
    ph_host_kernel_fn fn;
    std::vector<work> works;
    std::vector<work *> args;

    problem(const shape &s, ph_host_kernel_fn body, uint32_t steps)
        : form(s), fn(body), works(s.dependencies.size())
    {
        for (work &w : works) {
            w.steps = steps;
            args.push_back(&w);
        }
    }
    size_t size() const
    {
        return works.size();
    }
};

constexpr ph_block_range one_block{{1, 1, 1}, {1, 1, 1}, 0, 1, nullptr};

// ---- those who run it ----

struct runner {
    virtual ~runner() = default;
    virtual void replay() = 0;
    virtual unsigned lanes() const
    {
        return 0;
    }
};

struct list_runner : runner {
    struct call {
        ph_host_kernel_fn fn;
        const void *args;
    };
    std::vector<call> calls;
    explicit list_runner(problem &p)
    {
        for (size_t n = 0; n < p.size(); n++)
            calls.push_back({p.fn, &p.args[n]});
    }
    void replay() override
    {
        for (const call &c : calls)
            c.fn(&one_block, c.args);
    }
};

struct plan_runner : runner {
    ph__workers *workers;
    ph__plan *plan;
    plan_runner(problem &p, unsigned threads) : workers(ph__workers_create(threads))
    {
        std::vector<ph__plan_node> nodes(p.size());
        for (size_t n = 0; n < p.size(); n++) {
            ph__plan_node &node = nodes[n];
            node = ph__plan_node{};
            node.fn = p.fn;
            node.args = &p.args[n];
            for (int axis = 0; axis < 3; axis++)
                node.grid[axis] = node.block[axis] = 1;
            node.dependencies = p.form.dependencies[n].data();
            node.dependency_count = static_cast<uint32_t>(p.form.dependencies[n].size());
        }
        plan = workers ? ph__plan_create(nodes.data(), nodes.size(), workers) : nullptr;
        if (!plan) {
            std::fprintf(stderr, "replay: out of memory\n");
            std::exit(1);
        }
    }
    ~plan_runner() override
    {
        ph__plan_destroy(plan);
        ph__workers_destroy(workers);
    }
    void replay() override
    {
        ph__plan_run(plan, nullptr);
    }
    unsigned lanes() const override
    {
        ph__plan_stats stats;
        ph__plan_get_stats(&stats, plan);
        return stats.lanes;
    }
};

struct tbb_runner : runner {
    using node = tbb::flow::continue_node<tbb::flow::continue_msg>;
    unsigned threads;
    tbb::task_arena arena;
    std::unique_ptr<tbb::flow::graph> graph;
    std::vector<std::unique_ptr<node>> nodes;
    std::vector<node *> sources;
    tbb_runner(problem &p, unsigned count) : threads(count), arena(static_cast<int>(count))
    {
        arena.execute([&] {
            graph = std::make_unique<tbb::flow::graph>();
            for (size_t n = 0; n < p.size(); n++) {
                ph_host_kernel_fn fn = p.fn;
                const void *args = &p.args[n];
                nodes.push_back(std::make_unique<node>(
                    *graph, [fn, args](const tbb::flow::continue_msg &) { fn(&one_block, args); }));
                for (uint32_t d : p.form.dependencies[n])
                    tbb::flow::make_edge(*nodes[d], *nodes[n]);
                if (p.form.dependencies[n].empty())
                    sources.push_back(nodes[n].get());
            }
        });
    }
    void replay() override
    {
        tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
        arena.execute([&] {
            for (node *source : sources)
                source->try_put(tbb::flow::continue_msg());
            graph->wait_for_all();
        });
    }
};

struct openmp_runner : runner {
    problem &p;
    int threads;
    std::vector<char> done;
    openmp_runner(problem &what, unsigned count)
        : p(what), threads(static_cast<int>(count)), done(what.size())
    {
    }
    void replay() override
    {
        char *d = done.data();
        (void)d; // named only in pragmas
#pragma omp parallel num_threads(threads)
#pragma omp single
        for (size_t n = 0; n < p.size(); n++) {
            const auto &needs = p.form.dependencies[n];
            ph_host_kernel_fn fn = p.fn;
            const void *args = &p.args[n];
            if (needs.empty()) {
#pragma omp task depend(out : d[n]) firstprivate(fn, args)
                fn(&one_block, args);
            } else if (needs.size() == 1) {
#pragma omp task depend(in : d[needs[0]]) depend(out : d[n]) firstprivate(fn, args)
                fn(&one_block, args);
            } else {
#pragma omp task depend(in : d[needs[0]], d[needs[1]]) depend(out : d[n]) firstprivate(fn, args)
                fn(&one_block, args);
            }
        }
    }
};

// ---- measuring ----

// Whether anything but this thread wants a processor now, once our own idle threads have had
// time to go to sleep.
bool others_run()
{
    std::this_thread::sleep_for(std::chrono::milliseconds(8));
    std::ifstream load("/proc/loadavg");
    double averages[3];
    unsigned runnable = 0;
    return load >> averages[0] >> averages[1] >> averages[2] >> runnable && runnable > 1;
}

struct side {
    const char *name;
    unsigned threads;
    std::unique_ptr<runner> runs;
    std::vector<double> samples;
    double ns = 0;
    // samples that other processes took part in, and that were taken all the same
    unsigned disturbed = 0;
};

// One replay to wake what sleeps, then as many as fill some milliseconds.
double sample_once(side &s, size_t nodes)
{
    double start = now_ns();
    s.runs->replay();
    double once = now_ns() - start;
    int count = std::max(1, std::min(200, static_cast<int>(2e6 / once)));
    start = now_ns();
    for (int i = 0; i < count; i++)
        s.runs->replay();
    return (now_ns() - start) / count / static_cast<double>(nodes);
}

// A sample says little when other processes ran just before or after it: it is repeated, until
// a minute of waiting in all is spent.
void sample(side &s, size_t nodes)
{
    static double patience_ns = 60e9;
    for (;;) {
        double start = now_ns();
        bool disturbed = others_run();
        double ns = disturbed && patience_ns > 0 ? 0 : sample_once(s, nodes);
        disturbed = disturbed || others_run();
        if (!disturbed || patience_ns <= 0) {
            s.disturbed += disturbed;
            s.samples.push_back(ns);
            return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        patience_ns -= now_ns() - start;
    }
}

void check_calls(const problem &p)
{
    for (const work &w : p.works)
        if (w.calls != p.works[0].calls) {
            std::fprintf(stderr, "replay: nodes of %s ran unequally often\n", p.form.name);
            std::exit(1);
        }
}

double find(const std::vector<side> &sides, const char *name, unsigned threads)
{
    for (const side &s : sides)
        if (!std::strcmp(s.name, name) && s.threads == threads)
            return s.ns;
    return 0;
}

void report(const problem &p, const char *body, const std::vector<side> &sides)
{
    for (const side &s : sides) {
        if (std::strcmp(s.name, "plan") != 0)
            continue;
        double tbb = find(sides, "tbb", s.threads), openmp = find(sides, "openmp", s.threads);
        std::printf("%-18s %-6s %u %5u %9.1f %9.1f %9.1f %9.1f %8.1f %8.1f %8.2f %8.2f\n",
                    p.form.name, body, s.threads, s.runs->lanes(), s.ns, find(sides, "list", 1),
                    tbb, openmp, tbb / s.ns, openmp / s.ns, find(sides, "plan", 1) / s.ns,
                    find(sides, "tbb", 1) / tbb);
    }
    std::fflush(stdout);
}

void json_lines(std::FILE *out, const problem &p, const char *body, const std::vector<side> &sides)
{
    for (const side &s : sides) {
        auto [least, most] = std::minmax_element(s.samples.begin(), s.samples.end());
        std::fprintf(
            out,
            "{\"bench\":\"replay\",\"shape\":\"%s\",\"nodes\":%zu,\"body\":\"%s\",\"runner\":\"%"
            "s\","
            "\"workers\":%u,"
            "\"lanes\":%u,\"ns_per_node\":%.3f,\"least\":%.3f,\"most\":%.3f,\"samples\":%zu,"
            "\"disturbed\":%u}\n",
            p.form.name, p.size(), body, s.name, s.threads, s.runs->lanes(), s.ns, *least, *most,
            s.samples.size(), s.disturbed);
    }
    std::fflush(out);
}

void measure(const shape &form, const char *body, ph_host_kernel_fn fn, uint32_t steps, int rounds,
             std::FILE *json)
{
    problem p(form, fn, steps);
    std::vector<side> sides;
    sides.push_back({"list", 1, std::make_unique<list_runner>(p), {}});
    for (unsigned threads = 1; threads <= 2; threads++) {
        sides.push_back({"plan", threads, std::make_unique<plan_runner>(p, threads), {}});
        sides.push_back({"tbb", threads, std::make_unique<tbb_runner>(p, threads), {}});
        sides.push_back({"openmp", threads, std::make_unique<openmp_runner>(p, threads), {}});
    }
    for (side &s : sides)
        for (int i = 0; i < 8; i++)
            s.runs->replay();
    for (int round = 0; round < rounds; round++)
        for (side &s : sides)
            sample(s, p.size());
    for (side &s : sides)
        s.ns = median(s.samples);
    check_calls(p);
    report(p, body, sides);
    unsigned disturbed = 0;
    for (const side &s : sides)
        disturbed += s.disturbed;
    if (disturbed > 0)
        std::printf("%-18s %u of %zu samples above were disturbed by other processes\n", "",
                    disturbed, sides.size() * static_cast<size_t>(rounds));
    if (json)
        json_lines(json, p, body, sides);
}

// ---- what ran where ----

std::string cpu_model()
{
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);)
        if (line.compare(0, 10, "model name") == 0)
            return line.substr(line.find(':') + 2);
    return "unknown processor";
}

std::string commit()
{
    std::string name;
    if (std::FILE *pipe = popen("git rev-parse --short HEAD 2>/dev/null", "r")) {
        char text[64];
        if (std::fgets(text, sizeof text, pipe))
            name.assign(text, std::strcspn(text, "\n"));
        pclose(pipe);
    }
    return name.empty() ? "unknown" : name;
}

void print_machine(std::FILE *json)
{
    char date[32];
    std::time_t now = std::time(nullptr);
    std::strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", std::gmtime(&now));
    double load[1] = {0};
    (void)!getloadavg(load, 1);
    unsigned cores = std::thread::hardware_concurrency();
    std::printf("%s, %u processors, load %.1f, %s, commit %s\n", cpu_model().c_str(), cores,
                load[0], date, commit().c_str());
    if (json)
        std::fprintf(
            json,
            "{\"bench\":\"replay\",\"machine\":\"%s\",\"processors\":%u,\"load\":%.2f,\"date\":\"%"
            "s\",\"commit\":\"%s\"}\n",
            cpu_model().c_str(), cores, load[0], date, commit().c_str());
}

} // namespace

// replay [rounds] [file for JSON lines]
int main(int argc, char **argv)
{
    int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
    std::FILE *json = nullptr;
    if (rounds < 1 || (argc > 2 && !(json = std::fopen(argv[2], "w")))) {
        std::fprintf(stderr, "usage: replay [rounds, at least 1] [file to write JSON lines to]\n");
        return 2;
    }
    print_machine(json);
    uint32_t steps = steps_for(1000);
    std::printf("median of %d rounds, all sides in turn; ns a node; a list of functions is the "
                "floor of one "
                "worker\n\n",
                rounds);
    std::printf("%-18s %-6s %s %5s %9s %9s %9s %9s %8s %8s %8s %8s\n", "shape", "body", "w",
                "lanes", "plan", "list", "tbb", "openmp", "tbb/", "openmp/", "speed-up", "tbb's");
    const shape shapes[] = {chains("chain 10000", 1, 10000), chains("independent 10000", 10000, 1),
                            wavefront(100), chains("4 lanes x 2500", 4, 2500)};
    for (const shape &s : shapes)
        measure(s, "empty", empty_body, 0, rounds, json);
    for (const shape &s : shapes)
        measure(s, "1 us", busy_body, steps, rounds, json);
    return json && std::fclose(json) != 0 ? (std::perror("replay"), 1) : 0;
}
