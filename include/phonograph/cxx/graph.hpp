/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/graph.hpp: a graph: captured by a function, replayed by one launch. */
#ifndef PHONOGRAPH_CXX_GRAPH_HPP
#define PHONOGRAPH_CXX_GRAPH_HPP
#include <phonograph/cxx/standard.hpp>

#include <cstddef>
#include <memory>
#include <phonograph/breaks.h>
#include <phonograph/cuda.h>
#include <phonograph/cxx/memory.hpp>
#include <phonograph/cxx/options.hpp>
#include <phonograph/inspect/changes.h>
#include <phonograph/inspect/record.h>
#include <phonograph/slots.h>
#include <string>
#include <type_traits>
#include <utility>

namespace phonograph
{
namespace detail
{
/* Another result may be a failure that nobody would see: statuses joined by || are a bool, and
 * CUDA's statuses are numbers of CUDA's. */
template <class Body, class... Stream> ph_status status_of_body(Body &body, Stream... stream)
{
    using result = std::decay_t<std::invoke_result_t<Body &, Stream...>>;
    static_assert(std::is_void_v<result> || std::is_same_v<result, ph_status>,
                  "a body returns nothing or a ph_status: call ph::check for each status of this "
                  "library, and ph::check(ph_fail_cuda(status, name)) for each of CUDA's");
    if constexpr (std::is_void_v<result>) {
        body(stream...);
        return PH_OK;
    } else {
        return body(stream...);
    }
}

/* A body takes the stream or nothing, and returns a ph_status or nothing. */
template <class Body> ph_status call_body(ph_stream *stream, void *user)
{
    Body &body = *static_cast<Body *>(user);
    if constexpr (std::is_invocable_v<Body &, stream_view>) {
        return status_of_body(body, stream_view(stream));
    } else {
        static_assert(std::is_invocable_v<Body &>, "a body takes the stream, or nothing");
        return status_of_body(body);
    }
}

template <class T> void *address_of(T &object) noexcept
{
    return const_cast<void *>(static_cast<const volatile void *>(std::addressof(object)));
}
} // namespace detail

/* Text that the C API made. */
inline std::string take_string(char *text)
{
    const handle<char, ph_string_free> owned(text);
    return owned ? std::string(owned.get()) : std::string();
}

/* Externally synchronised, as ph_graph is. */
class graph : public handle<ph_graph, ph_graph_destroy>
{
  public:
    using handle::handle;
    explicit graph(const ph_graph_options *options)
    {
        check(ph_graph_create(out(), options));
    }
    graph() : graph(static_cast<const ph_graph_options *>(nullptr))
    {
    }
    explicit graph(const ph_graph_options &options) : graph(&options)
    {
    }

    /* Captures what body submits, then makes the executable (unless kept: graph_options). body is
     * called once (with a plan two or three times), with the stream or with nothing, and returns a
     * ph_status or nothing. What it throws arrives here; the capture is aborted, and the stream can
     * capture again. */
    template <class Body>
    void capture(ph_stream *stream, Body &&body, const ph_capture_options *options = nullptr)
    {
        using callable = std::remove_reference_t<Body>;
        check(ph_graph_capture(get(), stream, options, detail::call_body<callable>,
                               detail::address_of(body)));
    }
    template <class Body>
    void capture(ph_stream *stream, const ph_capture_options &options, Body &&body)
    {
        capture(stream, std::forward<Body>(body), &options);
    }

    void replay(ph_stream *stream)
    {
        check(ph_graph_replay(get(), stream));
    }
    [[nodiscard]] ph_status replay(ph_stream *stream, const std::nothrow_t &) noexcept
    {
        return ph_graph_replay(get(), stream);
    }
    /* Sets slots, and launches nothing. */
    void set_slots(span<const ph_slot_value> values)
    {
        check(ph_graph_slots_set(get(), values.data(), values.size()));
    }
    /* Sets slots, then replays. */
    void replay(ph_stream *stream, span<const ph_slot_value> values)
    {
        check(ph_graph_replay_with(get(), stream, values.data(), values.size()));
    }
    /* Gives the executable the parameters of another capture of the same shape: false where they do
     * not fit, and the executable is as before. reason: where, and why; may be NULL. */
    [[nodiscard]] bool update(ph_graph *from, ph_update_result *reason = nullptr)
    {
        const ph_status status = ph_graph_update(get(), from, reason);
        if (status != PH_ERROR_MISMATCH)
            check(status);
        return status == PH_OK;
    }
    /* Takes a CUgraph over, as ph_graph_import_cuda, and makes the executable unless kept. */
    void import_cuda(ph_device *device, CUgraph_st *cuda_graph,
                     const ph_capture_options *options = nullptr)
    {
        check(ph_graph_import_cuda(get(), device, cuda_graph, options));
    }
    /* Looks at what other code owns and launches: ph_graph_view_cuda. */
    void view_cuda(ph_device *device, CUgraph_st *cuda_graph, CUgraphExec_st *exec)
    {
        check(ph_graph_view_cuda(get(), device, cuda_graph, exec));
    }
    void instantiate()
    {
        check(ph_graph_instantiate(get()));
    }
    void upload(ph_stream *stream)
    {
        check(ph_graph_upload(get(), stream));
    }
    /* Drops the capture; the object can capture again. (handle::reset ends the object itself.) */
    void clear()
    {
        check(ph_graph_reset(get()));
    }
    ph_graph_state state() const noexcept
    {
        return ph_graph_get_state(get());
    }
    ph_pool *pool() const
    {
        ph_pool *borrowed;
        check(ph_graph_pool(&borrowed, get()));
        return borrowed;
    }
    ph_graph_changes changes() const
    {
        ph_graph_changes changes;
        check(ph_graph_get_changes(&changes, get()));
        return changes;
    }
    ph_graph_memory memory() const
    {
        ph_graph_memory memory;
        check(ph_graph_get_memory(&memory, get()));
        return memory;
    }
    std::size_t segment_count() const noexcept
    {
        return ph_graph_segment_count(get());
    }
    /* Borrowed: ph_graph_segment. */
    ph_graph *segment(std::size_t index)
    {
        ph_graph *borrowed;
        check(ph_graph_segment(&borrowed, get(), index));
        return borrowed;
    }
    void check_inputs()
    {
        check(ph_graph_check_inputs(get()));
    }

    /* Borrowed from the graph until its next capture. */
    const ph_record *record() const
    {
        const ph_record *record;
        check(ph_graph_record(&record, get()));
        return record;
    }
    std::string dot(bool verbose = false) const
    {
        char *text;
        check(ph_record_dot(&text, record(), verbose));
        return take_string(text);
    }
    std::string json() const
    {
        char *text;
        check(ph_record_json(&text, record()));
        return take_string(text);
    }

    /* A slot of all proved uses of the span: see ph_graph_slot_find. */
    template <class T> std::size_t find_slot(const char *name, span<T> at)
    {
        std::size_t slot;
        check(ph_graph_slot_find(&slot, get(), name, at.data(), at.bytes(), nullptr));
        return slot;
    }
};
} // namespace phonograph
#endif
