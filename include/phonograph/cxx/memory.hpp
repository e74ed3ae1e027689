/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/memory.hpp: blocks of device and pinned memory, and pools. */
#ifndef PHONOGRAPH_CXX_MEMORY_HPP
#define PHONOGRAPH_CXX_MEMORY_HPP
#include <phonograph/cxx/standard.hpp>

#include <cstddef>
#include <phonograph/cxx/stream.hpp>
#include <phonograph/memory.h>
#include <type_traits>
#include <utility>

namespace phonograph
{
/* count elements of device memory; freed in the order of the stream that it was allocated on.
 * The stream must live as long as the block. A captured graph tracks it and does not hold it. */
template <class T> class buffer
{
    static_assert(std::is_trivially_copyable_v<T>, "device memory has no constructors");
    T *data_ = nullptr;
    std::size_t size_ = 0;
    ph_stream *stream_ = nullptr;

  public:
    buffer() noexcept = default;
    buffer(std::size_t count, ph_stream *stream) : size_(count), stream_(stream)
    {
        check(ph_malloc(&data_, count, sizeof(T), stream));
    }
    buffer(buffer &&other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)),
          stream_(other.stream_)
    {
    }
    buffer &operator=(buffer &&other) noexcept
    {
        if (this != &other) {
            ph_free(data_, stream_);
            data_ = std::exchange(other.data_, nullptr);
            size_ = std::exchange(other.size_, 0);
            stream_ = other.stream_;
        }
        return *this;
    }
    buffer(const buffer &) = delete;
    buffer &operator=(const buffer &) = delete;
    ~buffer()
    {
        ph_free(data_, stream_);
    }
    T *data() const noexcept
    {
        return data_;
    }
    std::size_t size() const noexcept
    {
        return size_;
    }
    std::size_t bytes() const noexcept
    {
        return size_ * sizeof(T);
    }
    span<T> all() const noexcept
    {
        return {data_, size_};
    }
};

/* The same of pinned host memory. */
template <class T> class pinned
{
    static_assert(std::is_trivially_copyable_v<T>, "elements are copied as bytes");
    T *data_ = nullptr;
    std::size_t size_ = 0;
    ph_stream *stream_ = nullptr;

  public:
    pinned() noexcept = default;
    pinned(std::size_t count, ph_stream *stream) : size_(count), stream_(stream)
    {
        check(ph_malloc_pinned(&data_, count, sizeof(T), stream));
    }
    pinned(pinned &&other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)),
          stream_(other.stream_)
    {
    }
    pinned &operator=(pinned &&other) noexcept
    {
        if (this != &other) {
            ph_free_pinned(data_, stream_);
            data_ = std::exchange(other.data_, nullptr);
            size_ = std::exchange(other.size_, 0);
            stream_ = other.stream_;
        }
        return *this;
    }
    pinned(const pinned &) = delete;
    pinned &operator=(const pinned &) = delete;
    ~pinned()
    {
        ph_free_pinned(data_, stream_);
    }
    T *data() const noexcept
    {
        return data_;
    }
    std::size_t size() const noexcept
    {
        return size_;
    }
    T *begin() const noexcept
    {
        return data_;
    }
    T *end() const noexcept
    {
        return data_ + size_;
    }
    T &operator[](std::size_t index) const noexcept
    {
        return data_[index];
    }
};

class pool : public handle<ph_pool, ph_pool_release>
{
  public:
    using handle::handle;
    pool() noexcept = default;
    explicit pool(ph_device *on, const ph_pool_options *options = nullptr)
    {
        check(ph_pool_create(out(), on, options));
    }
    static pool share(ph_pool *other) noexcept
    {
        return pool(ph_pool_retain(other));
    }
    ph_memory_stats stats() const
    {
        ph_memory_stats stats;
        check(ph_pool_stats(&stats, get()));
        return stats;
    }
};

/* The blocks in use of a pool, to which restore brings it back. */
class pool_checkpoint : public handle<ph_pool_checkpoint, ph_pool_checkpoint_destroy>
{
  public:
    using handle::handle;
    pool_checkpoint() noexcept = default;
    explicit pool_checkpoint(ph_pool *of)
    {
        check(ph_pool_checkpoint_create(out(), of));
    }
    void restore(ph_pool *to) const
    {
        check(ph_pool_checkpoint_restore(to, get()));
    }
};
} // namespace phonograph
#endif
