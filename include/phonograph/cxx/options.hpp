/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/options.hpp: option structs of the C API with a call for each member, since C++17
 * has no designated initialisers. Each builder is the C struct: its members can be set directly,
 * and it goes where the C API takes a pointer. */
#ifndef PHONOGRAPH_CXX_OPTIONS_HPP
#define PHONOGRAPH_CXX_OPTIONS_HPP
#include <phonograph/cxx/standard.hpp>

#include <cstddef>
#include <cstdint>
#include <phonograph/graph.h>
#include <phonograph/kernel.h>

namespace phonograph
{
struct device_options : ph_device_options {
    device_options() noexcept : ph_device_options{}
    {
    }
    device_options &threads(std::uint32_t count) noexcept
    {
        host_threads = count;
        return *this;
    }
    device_options &chaos(std::uint64_t seed) noexcept
    {
        host_chaos_seed = seed;
        return *this;
    }
    device_options &poison(bool on = true) noexcept
    {
        debug_poison = on;
        return *this;
    }
};

struct stream_options : ph_stream_options {
    stream_options() noexcept : ph_stream_options{}
    {
    }
    stream_options &with_priority(int value) noexcept
    {
        priority = value;
        return *this;
    }
    stream_options &with_blocking(bool on = true) noexcept
    {
        blocking = on;
        return *this;
    }
};

struct graph_options : ph_graph_options {
    graph_options() noexcept : ph_graph_options{}
    {
    }
    graph_options &keep(bool on = true) noexcept
    {
        keep_graph = on;
        return *this;
    }
    graph_options &defer(bool on = true) noexcept
    {
        defer_upload = on;
        return *this;
    }
};

struct capture_options : ph_capture_options {
    capture_options() noexcept : ph_capture_options{}
    {
    }
    capture_options &in(ph_pool *from) noexcept
    {
        pool = from;
        return *this;
    }
    capture_options &with_mode(ph_capture_mode value) noexcept
    {
        mode = value;
        return *this;
    }
    capture_options &check_liveness(bool on = true) noexcept
    {
        check_input_liveness = on;
        return *this;
    }
    capture_options &annotate(bool on = true) noexcept
    {
        enable_annotations = on;
        return *this;
    }
    capture_options &with_record_at_end(bool on = true) noexcept
    {
        record_at_end = on;
        return *this;
    }
    /* the function runs twice, so that its memory is planned */
    capture_options &with_plan(bool on = true) noexcept
    {
        plan = on;
        return *this;
    }
    capture_options &with_breadcrumbs(bool on = true) noexcept
    {
        enable_annotations = enable_annotations || on;
        breadcrumbs = on;
        return *this;
    }
    /* graph_break is legal in the capture. */
    capture_options &with_breaks(bool on = true) noexcept
    {
        allow_breaks = on;
        return *this;
    }
    /* The functions of breaks are called by replays alone. */
    capture_options &with_deferred_breaks(bool on = true) noexcept
    {
        allow_breaks = allow_breaks || on;
        defer_breaks = on;
        return *this;
    }
    capture_options &be_strict(bool on = true) noexcept
    {
        strict = on;
        return *this;
    }
};

/* linear(n, 256): blocks of 256 threads for n items; more than a grid can have are refused by the
 * launch. */
struct launch_config : ph_launch_config {
    launch_config() noexcept : ph_launch_config{}
    {
    }
    launch_config(std::uint32_t blocks, std::uint32_t threads) noexcept : ph_launch_config{}
    {
        grid[0] = blocks;
        block[0] = threads;
    }
    static launch_config linear(std::uint64_t items, std::uint32_t threads = 256) noexcept
    {
        const std::uint64_t blocks = threads ? items / threads + (items % threads != 0) : 0;
        return {blocks < UINT32_MAX ? static_cast<std::uint32_t>(blocks) : UINT32_MAX, threads};
    }
    launch_config &shared(std::size_t bytes) noexcept
    {
        shared_bytes = bytes;
        return *this;
    }
};
} // namespace phonograph
#endif
