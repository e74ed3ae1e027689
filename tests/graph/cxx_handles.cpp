/* SPDX-License-Identifier: MIT */
/* tests/graph/cxx_handles.cpp: handles of phonograph.hpp: they move, end once, and give the object
 * of the C API; errors as exceptions and as values; copies, host functions, scopes. */
#include "support/cxx.hpp"
#include <atomic>
#include <dlfcn.h>
#include <phonograph/cuda.h>

static_assert(!std::is_copy_constructible_v<phonograph::graph>, "handles do not copy");
static_assert(!std::is_copy_constructible_v<phonograph::stream>, "handles do not copy");
static_assert(!std::is_copy_constructible_v<phonograph::buffer<int>>, "handles do not copy");
static_assert(std::is_nothrow_move_constructible_v<phonograph::graph>, "handles move");
static_assert(std::is_nothrow_move_assignable_v<phonograph::stream>, "handles move");
static_assert(sizeof(phonograph::graph) == sizeof(void *), "a handle is a pointer");
static_assert(sizeof(phonograph::stream) == sizeof(void *), "a handle is a pointer");

static void test_move_and_end_once()
{
    scene s;
    const int64_t before = ph__alloc_live();
    {
        phonograph::graph first, second = std::move(first);
        CHECK(!first && second);
        first = std::move(second);
        CHECK(first && !second);
        auto &same = first;
        first = std::move(same);
        ph_graph *raw = first.release();
        CHECK(!first);
        first.reset(raw);
        CHECK(first.get() == raw);
    }
    CHECK(ph__alloc_live() == before);
    phonograph::stream other(s.device, &static_cast<const ph_stream_options &>(
                                           phonograph::stream_options().with_priority(-1)));
    phonograph::stream moved = std::move(other);
    CHECK(!other.get() && moved.get() && ph_stream_priority(moved) == -1);
    auto block = s.ints(3);
    auto taken = std::move(block);
    CHECK(!block.data() && block.size() == 0 && taken.size() == scene::N);
    auto &same = taken;
    taken = std::move(same);
    EXPECT(taken.data(), 3);
    taken = phonograph::buffer<int32_t>();
    s.device.synchronize();
    CHECK(s.device.memory_stats().allocated == 0);
}

static void test_share()
{
    scene s;
    phonograph::device second = phonograph::device::share(s.device);
    s.stream.synchronize();
    CHECK(second.get() == s.device.get());
    CHECK(std::strcmp(second.info().name, s.device.info().name) == 0);
}

static void test_comm()
{
    scene s;
    phonograph::comm comm(s.device), moved = std::move(comm);
    CHECK(!comm);
    CHECK(moved.rank() == 0 && moved.size() == 1);
    moved.barrier();
    phonograph::pool registered = moved.make_pool();
    CHECK(ph_pool_use_count(registered.get()) == 1);
    phonograph::comm second = phonograph::comm::share(moved);
    second.abort("enough");
    CHECK(moved.check(std::nothrow) == PH_ERROR_PEER);
    const phonograph::error failed = THROWN(moved.check());
    CHECK(failed.status() == PH_ERROR_PEER);
}

static void test_handles_that_look_into_graphs()
{
    scene s;
    phonograph::stream side(s.device);
    auto block = s.ints(0);
    phonograph::graph graph(phonograph::graph_options().keep());
    const auto body = [&](phonograph::stream_view on) {
        side.wait(on);
        on.fill(block.data(), 1, block.bytes());
        side.fill(block.data(), 2, block.bytes());
        on.wait(side);
    };
    graph.capture(s.stream, body);
    const phonograph::races races(graph);
    CHECK(races.size() == 1 && races.certain() == 1);
    CHECK(races[0].certain && races[0].bytes == block.bytes());
    CHECK(races.text().find(races[0].text) != std::string::npos);
    CHECK(phonograph::attempt([&] { (void)races[1]; }) == PH_ERROR_NOT_FOUND);
    const phonograph::diff same(graph, graph);
    CHECK(same.size() == 0);
    CHECK(phonograph::attempt([&] { (void)same[0]; }) == PH_ERROR_NOT_FOUND);
    const phonograph::profile profile(graph, s.stream);
    CHECK(profile.summary().node_count == 2 && profile.node(1).measured);
    CHECK(!profile.trace().empty());
}

static void test_errors()
{
    scene s;
    const phonograph::error none = THROWN(phonograph::device("nosuch"));
    CHECK(none.status() == PH_ERROR_NOT_FOUND);
    CHECK(std::strstr(none.what(), "nosuch"));
    CHECK(none.record().status == PH_ERROR_NOT_FOUND && none.native_code() == 0);
    CHECK(none.native_call()[0] == '\0');
    phonograph::graph empty;
    const phonograph::error early = THROWN(empty.replay(s.stream));
    CHECK(early.status() == PH_ERROR_STATE);
    CHECK(empty.replay(s.stream, std::nothrow) == PH_ERROR_STATE);
    CHECK(std::strcmp(early.what(), ph_error_last()->message) == 0);
    /* as values */
    CHECK(phonograph::attempt([] {}) == PH_OK);
    CHECK(phonograph::attempt([&] { empty.replay(s.stream); }) == PH_ERROR_STATE);
    CHECK(std::strcmp(early.what(), ph_error_last()->message) == 0);
    CHECK(phonograph::attempt([] { throw std::bad_alloc(); }) == PH_ERROR_HOST_MEMORY);
    CHECK(phonograph::attempt([] { throw std::runtime_error("of mine"); }) == PH_ERROR_CALLER);
    CHECK(std::strstr(ph_error_last()->message, "of mine"));
    CHECK(phonograph::attempt([] { throw 3; }) == PH_ERROR_CALLER);
    /* a number that came without a record */
    CHECK(ph_fail(PH_ERROR_STATE, "another one") == PH_ERROR_STATE);
    CHECK(std::strcmp(THROWN(phonograph::check(PH_ERROR_IO)).what(), "PH_ERROR_IO") == 0);
}

static void test_own_errors()
{
    scene s;
    phonograph::graph graph;
    const phonograph::error failed = THROWN(
        graph.capture(s.stream, [] { throw phonograph::error(PH_ERROR_IO, "no batch is left"); }));
    CHECK(failed.status() == PH_ERROR_IO && failed.native_code() == 0);
    CHECK(std::strstr(failed.what(), "no batch is left"));
    CHECK(phonograph::error(PH_OK, "well").status() == PH_ERROR_CALLER);
    CHECK(std::strcmp(phonograph::error(PH_ERROR_IO, nullptr).what(), "PH_ERROR_IO") == 0);
    const std::string long_text(2 * sizeof(ph_error), 'x');
    const phonograph::error cut(PH_ERROR_IO, long_text.c_str());
    CHECK(std::strlen(cut.what()) == sizeof ph_error().message - 1);
}

static void test_updates()
{
    scene s;
    auto x = s.ints(1), y = s.ints(2);
    phonograph::graph graph, fits, another;
    graph.capture(s.stream, [&] { s.plus(x.data(), x.data(), 1, s.stream); });
    fits.capture(s.stream, [&] { s.plus(y.data(), y.data(), 5, s.stream); });
    another.capture(s.stream, [&] {
        s.plus(x.data(), x.data(), 1, s.stream);
        s.plus(y.data(), y.data(), 1, s.stream);
    });
    ph_update_result reason;
    CHECK(graph.update(fits));
    CHECK(!graph.update(another, &reason));
    CHECK(reason.reason == PH_UPDATE_TOPOLOGY && reason.message[0]);
    graph.replay(s.stream);
    EXPECT(x.data(), 1);
    EXPECT(y.data(), 7);
    phonograph::graph empty;
    CHECK(THROWN((void)empty.update(fits)).status() == PH_ERROR_STATE);
}

/* Graphs of CUDA's own handles; the host device knows none. */
static void test_graphs_of_cuda()
{
    scene s;
    auto x = s.ints(1);
    phonograph::graph theirs(phonograph::graph_options().keep()), view, copy;
    theirs.capture(s.stream, [&] { s.plus(x.data(), x.data(), 1, s.stream); });
    theirs.instantiate();
    if (s.device.info().kind != PH_DEVICE_CUDA) {
        auto *none = reinterpret_cast<CUgraph_st *>(&s);
        auto *no_exec = reinterpret_cast<CUgraphExec_st *>(&s);
        CHECK(THROWN(view.view_cuda(s.device, none, no_exec)).status() == PH_ERROR_UNSUPPORTED);
        CHECK(THROWN(copy.import_cuda(s.device, none)).status() == PH_ERROR_UNSUPPORTED);
        return;
    }
    CUgraph_st *raw, *cloned = nullptr;
    CUgraphExec_st *exec;
    phonograph::check(ph_graph_cuda(&raw, theirs));
    phonograph::check(ph_graph_exec_cuda(&exec, theirs));
    view.view_cuda(s.device, raw, exec);
    CHECK(view.json().find("kernel") != std::string::npos);
    CHECK(view.replay(s.stream, std::nothrow) != PH_OK);
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
    using look_up_fn = int(const char *, void **, int, uint64_t, int *);
    using clone_fn = int(CUgraph_st **, CUgraph_st *);
    auto *look_up = reinterpret_cast<look_up_fn *>(dlsym(library, "cuGetProcAddress_v2"));
    void *clone = nullptr;
    CHECK(look_up && look_up("cuGraphClone", &clone, 12000, 0, nullptr) == 0 && clone);
    phonograph::check(ph_context_push_cuda(s.device));
    CHECK(reinterpret_cast<clone_fn *>(clone)(&cloned, raw) == 0);
    ph_context_pop_cuda(s.device);
    copy.import_cuda(s.device, cloned);
    copy.replay(s.stream);
    EXPECT(x.data(), 2);
    view.clear();
    (void)dlclose(library);
}

static void test_copies()
{
    scene s;
    auto x = s.ints(1);
    phonograph::pinned<int32_t> host(scene::N, s.stream);
    std::vector<int32_t> few(3), all(scene::N, 9);
    s.stream.copy(x.all(), phonograph::span<const int32_t>(all));
    EXPECT(x.data(), 9);
    const phonograph::error sizes =
        THROWN(s.stream.copy(phonograph::span<int32_t>(few), phonograph::span<const int32_t>(all)));
    CHECK(sizes.status() == PH_ERROR_SIZE && std::strstr(sizes.what(), "1000 elements into 3"));
    s.stream.copy(host.data(), x.data(), x.bytes());
    s.stream.synchronize();
    for (int32_t one : host)
        CHECK(one == 9);
    s.stream.fill(x.data(), 0, x.bytes());
    EXPECT(x.data(), 0);
    /* more blocks than a grid has: refused by the launch, not cut off */
    const auto huge = phonograph::launch_config::linear(UINT64_MAX, 32);
    CHECK(THROWN(s.stream.launch(s.fill, huge, t_fill_i32{scene::N, x.data(), 1})).status() ==
          PH_ERROR_ARGUMENT);
}

static void test_events()
{
    scene s;
    phonograph::stream other(s.device);
    const ph_event_options timing = {true, false, {}};
    phonograph::event start(s.device, &timing), end(s.device, &timing);
    auto x = s.ints(1);
    s.stream.record(start);
    other.wait(start);
    s.plus(x.data(), x.data(), 4, other);
    other.record(end);
    s.stream.wait(end);
    EXPECT(x.data(), 5);
    end.synchronize();
    CHECK(start.done() && end.done() && phonograph::event::elapsed(start, end) >= 0);
}

/* A closure lives as long as it may be called. */
static void test_host_functions()
{
    scene s;
    auto counter = std::make_shared<std::atomic<int>>(0);
    s.stream.host([counter] { ++*counter; });
    s.stream.synchronize();
    for (int i = 0; i < 2000 && counter.use_count() > 1; i++)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(*counter == 1 && counter.use_count() == 1);
    {
        phonograph::graph graph;
        graph.capture(s.stream,
                      [&](phonograph::stream_view on) { on.host([counter] { ++*counter; }); });
        CHECK(*counter == 1 && counter.use_count() == 2);
        for (int i = 0; i < 3; i++)
            graph.replay(s.stream);
    }
    CHECK(*counter == 4 && counter.use_count() == 1);
    /* of a capture that fails the graph keeps it until its own end */
    phonograph::graph failing;
    CHECK(THROWN(failing.capture(s.stream, [&](phonograph::stream_view on) {
              on.host([counter] { ++*counter; });
              phonograph::check(ph_fail(PH_ERROR_CALLER, "no"));
          })).status() == PH_ERROR_CALLER);
    failing.reset();
    CHECK(*counter == 4 && counter.use_count() == 1);
}

static void test_scopes()
{
    scene s;
    phonograph::pool pool(s.device);
    {
        const phonograph::pool_scope route(pool);
        auto x = s.ints(1);
        CHECK(pool.stats().allocated >= x.bytes());
        CHECK(THROWN(phonograph::pool_scope(pool.get())).status() == PH_ERROR_POOL_BUSY);
    }
    auto x = s.ints(1);
    phonograph::graph graph;
    graph.capture(s.stream, phonograph::capture_options().annotate(), [&] {
        const phonograph::annotation outer(s.stream, "outer");
        CHECK(ph_annotation_depth() == 1);
        s.plus(x.data(), x.data(), 1, s.stream);
    });
    CHECK(ph_annotation_depth() == 0);
    CHECK(graph.json().find("\"outer\"") != std::string::npos);
    CHECK(graph.changes().uploads == 1);
    CHECK(graph.changes().demoted == 0);
    CHECK(graph.dot().find("digraph") != std::string::npos);
    CHECK(throws([&] {
        const phonograph::annotation left_early(s.stream, "left early");
        throw std::runtime_error(boom);
    }));
    CHECK(ph_annotation_depth() == 0);
}

/* Captures of other code can be begun from here by CUDA's own calls alone. */
static void test_pool_of_a_capture_of_other_code()
{
    scene s;
    phonograph::pool pool(s.device);
    CHECK(THROWN(phonograph::pool_capture(pool, s.stream)).status() == PH_ERROR_STATE);
    CHECK(ph_pool_use_count(pool) == 1);
    if (s.device.info().kind != PH_DEVICE_CUDA)
        return;
    using look_up_fn = int(const char *, void **, int, uint64_t, int *);
    using begin_fn = int(CUstream_st *, int);
    using end_fn = int(CUstream_st *, CUgraph_st **);
    using destroy_fn = int(CUgraph_st *);
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    auto *look_up = reinterpret_cast<look_up_fn *>(dlsym(library, "cuGetProcAddress_v2"));
    void *begin = nullptr, *end = nullptr, *destroy = nullptr;
    CHECK(look_up && look_up("cuStreamBeginCapture", &begin, 12000, 0, nullptr) == 0 &&
          look_up("cuStreamEndCapture", &end, 12000, 0, nullptr) == 0 &&
          look_up("cuGraphDestroy", &destroy, 12000, 0, nullptr) == 0);
    CUstream_st *raw;
    CUgraph_st *graph = nullptr;
    phonograph::check(ph_stream_cuda(&raw, s.stream));
    phonograph::check(ph_context_push_cuda(s.device));
    CHECK(reinterpret_cast<begin_fn *>(begin)(raw, 2) == 0);
    {
        phonograph::pool_capture capture(pool, s.stream);
        const phonograph::buffer<int32_t> inside(64, s.stream);
        ph_allocation found;
        phonograph::check(ph_memory_lookup(&found, s.device, inside.data()));
        CHECK(found.pool == pool.get());
        CHECK(reinterpret_cast<end_fn *>(end)(raw, &graph) == 0);
        capture.end();
        const phonograph::pool_capture kept = std::move(capture);
        CHECK(ph_pool_use_count(pool) == 3); /* the pool's, the object's, the capture's */
        CHECK(reinterpret_cast<destroy_fn *>(destroy)(graph) == 0);
    }
    CHECK(ph_pool_use_count(pool) == 1);
    ph_context_pop_cuda(s.device);
    (void)dlclose(library);
}

static void test_culprit_watch()
{
    scene s;
    CHECK(THROWN(phonograph::culprit_watch(s.device, 0)).status() == PH_ERROR_ARGUMENT);
    phonograph::culprit_watch watch(s.device, 1), empty;
    phonograph::culprit_watch moved = std::move(watch);
    watch = phonograph::culprit_watch(s.device, 2); /* ends with its object */
    CHECK(moved.end().empty());
    CHECK(THROWN(moved.end()).status() == PH_ERROR_ARGUMENT);
}

static void test_foreign_blocks()
{
    scene s;
    alignas(64) static char memory[256];
    phonograph::foreign_block empty, first(s.device, memory, 64, "first");
    CHECK(empty.generation() == 0 && first.generation() != 0);
    CHECK(ph_foreign_count(s.device) == 1);
    {
        phonograph::foreign_block second(s.device, memory + 64, 64);
        CHECK(second.generation() > first.generation());
        phonograph::foreign_block taken = std::move(second);
        CHECK(second.generation() == 0 && ph_foreign_count(s.device) == 2);
        first = std::move(taken);
        CHECK(ph_foreign_count(s.device) == 1);
    }
    CHECK(ph_foreign_count(s.device) == 1);
    const phonograph::foreign_block over(s.device, memory, 128, "over");
    first.end(); /* it was replaced */
    CHECK(ph_foreign_count(s.device) == 1);
    CHECK(THROWN(phonograph::foreign_block(s.device, memory, 0)).status() == PH_ERROR_ARGUMENT);
}

int main()
{
    test_move_and_end_once();
    test_culprit_watch();
    test_foreign_blocks();
    test_pool_of_a_capture_of_other_code();
    test_share();
    test_comm();
    test_handles_that_look_into_graphs();
    test_errors();
    test_own_errors();
    test_updates();
    test_graphs_of_cuda();
    test_copies();
    test_events();
    test_host_functions();
    test_scopes();
    CHECK(ph__alloc_live() == 0);
    return 0;
}
