/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/stream.hpp: streams, what is submitted to them, and events. */
#ifndef PHONOGRAPH_CXX_STREAM_HPP
#define PHONOGRAPH_CXX_STREAM_HPP
#include <phonograph/cxx/standard.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <phonograph/cuda.h>
#include <phonograph/cxx/device.hpp>
#include <phonograph/cxx/span.hpp>
#include <phonograph/graph.h>
#include <phonograph/kernel.h>
#include <type_traits>
#include <utility>

namespace phonograph
{
class event : public handle<ph_event, ph_event_destroy>
{
  public:
    using handle::handle;
    event() noexcept = default;
    explicit event(ph_device *on, const ph_event_options *options = nullptr)
    {
        check(ph_event_create(out(), on, options));
    }
    bool done() const
    {
        bool is_done;
        check(ph_event_query(&is_done, get()));
        return is_done;
    }
    void synchronize() const
    {
        check(ph_event_synchronize(get()));
    }
    /* Milliseconds; both events were made with `timing`, and are done. */
    static float elapsed(const event &start, const event &end)
    {
        float milliseconds;
        check(ph_event_elapsed(&milliseconds, start.get(), end.get()));
        return milliseconds;
    }
};

/* Work for a stream that somebody else owns: what capture bodies are given. */
class stream_view
{
    ph_stream *stream_ = nullptr;

  protected:
    void set(ph_stream *stream) noexcept
    {
        stream_ = stream;
    }

  public:
    stream_view() noexcept = default;
    stream_view(ph_stream *stream) noexcept : stream_(stream) // NOLINT: a view
    {
    }
    ph_stream *get() const noexcept
    {
        return stream_;
    }
    operator ph_stream *() const noexcept // NOLINT: the C API takes what has no member here
    {
        return stream_;
    }
    ph_device *device() const noexcept
    {
        return ph_stream_device(stream_);
    }
    bool is_capturing() const noexcept
    {
        return ph_stream_is_capturing(stream_);
    }

    void synchronize() const
    {
        check(ph_stream_synchronize(stream_));
    }
    [[nodiscard]] ph_status synchronize(const std::nothrow_t &) const noexcept
    {
        return ph_stream_synchronize(stream_);
    }
    void record(const event &mark) const
    {
        check(ph_event_record(mark.get(), stream_));
    }
    void wait(const event &mark) const
    {
        check(ph_stream_wait_event(stream_, mark.get()));
    }
    /* For all that was submitted to the other one so far: also the fork and join of a capture. */
    void wait(ph_stream *other) const
    {
        check(ph_stream_wait_stream(stream_, other));
    }

    /* args: the kernel's argument struct. */
    template <class Args>
    void launch(ph_kernel *kernel, const ph_launch_config &config, const Args &args) const
    {
        check(launch(kernel, config, args, std::nothrow));
    }
    template <class Args>
    [[nodiscard]] ph_status launch(ph_kernel *kernel, const ph_launch_config &config,
                                   const Args &args, const std::nothrow_t &) const noexcept
    {
        static_assert(std::is_trivially_copyable_v<Args>, "arguments are copied as bytes");
        return ph_launch(stream_, kernel, &config, std::addressof(args), sizeof args);
    }
    void copy(void *to, const void *from, std::size_t bytes) const
    {
        check(ph_memcpy(to, from, bytes, stream_));
    }
    /* Elements of equal numbers: SIZE otherwise. */
    template <class T> void copy(span<T> to, span<const T> from) const
    {
        static_assert(std::is_trivially_copyable_v<T>, "elements are copied as bytes");
        if (to.size() != from.size())
            throw last_error(ph_fail(PH_ERROR_SIZE,
                                     "stream.copy: %zu elements into %zu; give spans of one size",
                                     from.size(), to.size()));
        copy(to.data(), from.data(), from.bytes());
    }
    void fill(void *to, std::uint8_t value, std::size_t bytes) const
    {
        check(ph_memset(to, value, bytes, stream_));
    }

    /* Calls fn() in stream order on a thread of the library.
     * - fn must not throw (the program ends), nor call the library (STATE, 800).
     * - A copy of fn is kept: outside captures until it was called; in a capture as long as the
     *   graph has it, or another graph that runs a copy of its nodes. Their resets wait for their
     *   replays.
     * - Several threads may call it for one capture.
     * - UNSUPPORTED in a capture that this library did not begin. */
    template <class Fn> void host(Fn &&fn) const;
};

class stream : public stream_view
{
  public:
    stream() noexcept = default;
    explicit stream(ph_device *on, const ph_stream_options *options = nullptr)
    {
        ph_stream *made;
        check(ph_stream_create(&made, on, options));
        set(made);
    }
    /* Takes a stream that the C API made. */
    explicit stream(ph_stream *made) noexcept : stream_view(made)
    {
    }
    /* A CUstream or cudaStream_t of the user's, which must outlive this and stays theirs. */
    static stream wrap(struct CUstream_st *other)
    {
        ph_stream *made;
        check(ph_stream_wrap_cuda(&made, other));
        return stream(made);
    }
    /* The same of a known device, also while it is capturing: ph_stream_wrap_cuda_on. */
    static stream wrap(ph_device *on, struct CUstream_st *other)
    {
        ph_stream *made;
        check(ph_stream_wrap_cuda_on(&made, on, other));
        return stream(made);
    }
    stream(stream &&other) noexcept : stream_view(other.release())
    {
    }
    stream &operator=(stream &&other) noexcept
    {
        reset(other.release());
        return *this;
    }
    stream(const stream &) = delete;
    stream &operator=(const stream &) = delete;
    ~stream()
    {
        ph_stream_destroy(get());
    }
    [[nodiscard]] ph_stream *release() noexcept
    {
        ph_stream *before = get();
        set(nullptr);
        return before;
    }
    void reset(ph_stream *made = nullptr) noexcept
    {
        ph_stream *before = get();
        set(made);
        if (before != made)
            ph_stream_destroy(before);
    }
};

namespace detail
{
template <class Fn> void delete_closure(void *closure)
{
    delete static_cast<Fn *>(closure);
}
template <class Fn> void call_closure(void *closure) noexcept
{
    (*static_cast<Fn *>(closure))();
}
template <class Fn> void call_closure_once(void *closure) noexcept
{
    const std::unique_ptr<Fn> once(static_cast<Fn *>(closure));
    (*once)();
}
} // namespace detail

template <class Fn> void stream_view::host(Fn &&fn) const
{
    using closure = std::decay_t<Fn>;
    auto kept = std::make_unique<closure>(std::forward<Fn>(fn));
    if (!is_capturing()) {
        check(ph_launch_host(stream_, detail::call_closure_once<closure>, kept.get()));
        (void)kept.release(); /* the call deletes it */
        return;
    }
    ph_graph *graph;
    check(ph_stream_capturing_graph(&graph, stream_));
    if (!graph)
        throw last_error(ph_fail(PH_ERROR_UNSUPPORTED,
                                 "stream.host: the stream is in a capture that this library did "
                                 "not begin, and nobody could keep the function; call "
                                 "ph_launch_host with one that you keep"));
    check(ph_graph_retain(graph, detail::delete_closure<closure>, kept.get(), true));
    check(ph_launch_host(stream_, detail::call_closure<closure>, kept.release()));
}
} // namespace phonograph
#endif
