/* SPDX-License-Identifier: MIT */
/* tests/torch/allocator_cxx.cpp: the hooks called as torch's C++ calls them: a std::function made
 * of the address of each, pools as pairs, filters by value, errors as exceptions. */
#include "support/cxx.hpp"
#include <array>
#include <dlfcn.h>
#include <functional>
#include <phonograph/cuda.h>
#include <utility>

extern "C" {
ph_status ph_torch_set_device(int index, ph_device *device);
void *ph_torch_malloc(std::ptrdiff_t bytes, int index, void *stream);
void ph_torch_free(void *pointer, std::ptrdiff_t bytes, int index, void *stream);
void ph_torch_begin_pool(int index, std::uint64_t first, std::uint64_t second, const void *filter);
void ph_torch_end_pool(int index, std::uint64_t first, std::uint64_t second);
void ph_torch_release_pool(int index, std::uint64_t first, std::uint64_t second);
void ph__torch_devices_close(void);
}

using raw_stream = CUstream_st *;
using pool_id = std::pair<unsigned long long, unsigned long long>;
using filter_fn = std::function<bool(raw_stream)>;

/* As torch makes them of integers that it was given. */
template <typename Call, typename Hook> static std::function<Call> of_address(Hook *hook)
{
    const volatile std::uint64_t address = reinterpret_cast<std::uint64_t>(hook);
    return reinterpret_cast<Call *>(std::uint64_t{address});
}
static const auto alloc = of_address<void *(std::size_t, int, raw_stream)>(&ph_torch_malloc);
static const auto give = of_address<void(void *, std::size_t, int, raw_stream)>(&ph_torch_free);
static const auto begin_pool = of_address<void(int, pool_id, filter_fn)>(&ph_torch_begin_pool);
static const auto end_pool = of_address<void(int, pool_id)>(&ph_torch_end_pool);
static const auto release_pool = of_address<void(int, pool_id)>(&ph_torch_release_pool);

static raw_stream native(const scene &s)
{
    raw_stream raw = nullptr;
    if (s.device.info().kind != PH_DEVICE_CUDA)
        return reinterpret_cast<raw_stream>(s.stream.get());
    phonograph::check(ph_stream_cuda(&raw, s.stream));
    return raw;
}

static bool is_in_a_pool(const scene &s, void *address)
{
    ph_allocation found;
    phonograph::check(ph_memory_lookup(&found, s.device, address));
    return found.pool != nullptr;
}

static int alive;
struct counted {
    std::array<char, 64> room{}; /* too large for the functor's place in a std::function */
    counted()
    {
        alive++;
    }
    counted(const counted &other) : room(other.room)
    {
        alive++;
    }
    ~counted()
    {
        alive--;
    }
};

static void check_filter(const scene &s, const filter_fn &filter, bool accepts)
{
    raw_stream stream = native(s);
    begin_pool(0, pool_id{0, 7}, filter);
    void *p = alloc(1000, 0, stream);
    CHECK(p && is_in_a_pool(s, p) == accepts);
    end_pool(0, pool_id{0, 7});
    void *q = alloc(1000, 0, stream);
    CHECK(!is_in_a_pool(s, q));
    give(p, 1000, 0, stream);
    give(q, 1000, 0, stream);
    release_pool(0, pool_id{0, 7});
}

static bool accept_all(raw_stream)
{
    return true;
}

static void test_filters(const scene &s)
{
    raw_stream stream = native(s);
    check_filter(
        s, [stream](raw_stream asked) { return asked == stream; }, true);
    check_filter(
        s, [stream](raw_stream asked) { return asked != stream; }, false);
    check_filter(s, accept_all, true);
    check_filter(s, filter_fn(), false);
    {
        const counted large;
        check_filter(
            s, [large, stream](raw_stream asked) { return asked == stream && large.room[63] == 0; },
            true);
    }
    CHECK(alive == 0);
}

template <typename Call> static std::string error_of(Call call)
{
    try {
        call();
    } catch (const std::runtime_error &error) {
        return error.what();
    }
    return "";
}

/* torch's process has the shared libstdc++. A compiler that links the static one makes a program
 * without the function that throws. */
static bool has_shared_libstdcxx()
{
    void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD);
    if (library)
        dlclose(library);
    return library;
}

static void test_errors_are_exceptions(const scene &s)
{
    raw_stream stream = native(s);
    phonograph::check(ph_memory_set_limit(s.device, std::size_t{64} << 20));
    if (!has_shared_libstdcxx()) {
        CHECK(!alloc(std::size_t{1} << 30, 0, stream));
        phonograph::check(ph_memory_set_limit(s.device, 0));
        return;
    }
    CHECK(error_of([&] { alloc(std::size_t{1} << 30, 0, stream); }).find("CUDA out of memory. ") ==
          0);
    phonograph::check(ph_memory_set_limit(s.device, 0));
    CHECK(error_of([&] { end_pool(0, pool_id{0, 9}); }).find("is not begun") != std::string::npos);
    /* What a filter throws leaves the hooks as they were. */
    begin_pool(0, pool_id{0, 8}, [](raw_stream) -> bool { throw std::runtime_error("asked"); });
    CHECK(error_of([&] { alloc(100, 0, stream); }) == "asked");
    CHECK(error_of([&] { alloc(100, 0, stream); }) == "asked");
    end_pool(0, pool_id{0, 8});
    release_pool(0, pool_id{0, 8});
    void *p = alloc(100, 0, stream);
    CHECK(p);
    give(p, 100, 0, stream);
}

int main()
{
    {
        scene s;
        phonograph::check(ph_torch_set_device(0, s.device));
        test_filters(s);
        test_errors_are_exceptions(s);
        ph__torch_devices_close();
    }
    CHECK(ph__alloc_live() == 0);
    return 0;
}
