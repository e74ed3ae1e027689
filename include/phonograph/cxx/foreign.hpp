/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/foreign.hpp: blocks of another allocator, announced as long as an object lives,
 * and captures of other code that get their memory from a pool. */
#ifndef PHONOGRAPH_CXX_FOREIGN_HPP
#define PHONOGRAPH_CXX_FOREIGN_HPP
#include <phonograph/cxx/standard.hpp>

#include <cstddef>
#include <cstdint>
#include <phonograph/cxx/memory.hpp>
#include <phonograph/foreign.h>
#include <string>
#include <utility>

namespace phonograph
{
/* Announces the block; its destructor, or end, says that the owner has freed it. The memory stays
 * the owner's. The device must live as long as the block. */
class foreign_block
{
    ph_device *device_ = nullptr;
    const void *address_ = nullptr;
    std::uint64_t generation_ = 0;

  public:
    foreign_block() noexcept = default;
    foreign_block(ph_device *device, const void *address, std::size_t bytes,
                  const char *label = nullptr, bool pinned = false)
        : device_(device), address_(address)
    {
        ph_foreign_block block = {};
        block.address = address;
        block.bytes = bytes;
        block.label = label;
        block.pinned = pinned;
        check(ph_foreign_announce(&generation_, device, &block));
    }
    foreign_block(foreign_block &&other) noexcept
        : device_(std::exchange(other.device_, nullptr)), address_(other.address_),
          generation_(std::exchange(other.generation_, 0))
    {
    }
    foreign_block &operator=(foreign_block &&other) noexcept
    {
        if (this != &other) {
            end();
            device_ = std::exchange(other.device_, nullptr);
            address_ = other.address_;
            generation_ = std::exchange(other.generation_, 0);
        }
        return *this;
    }
    foreign_block(const foreign_block &) = delete;
    foreign_block &operator=(const foreign_block &) = delete;
    ~foreign_block()
    {
        end();
    }
    /* where: what freed it, for messages. A block that another one has replaced has ended. */
    void end(const char *where = nullptr) noexcept
    {
        if (!device_)
            return;
        [[maybe_unused]] const ph_status known = ph_foreign_end(
            std::exchange(device_, nullptr), address_, std::exchange(generation_, 0), where);
    }
    std::uint64_t generation() const noexcept
    {
        return generation_;
    }
};

/* A capture of other code that `on` is in gets its memory from the pool: ph_pool_capture_begin. The
 * pool is held as long as the object lives, which is to be as long as the graph of the capture. */
class pool_capture
{
    ph_pool *pool_ = nullptr; /* retained */
    bool open_ = false;

    void finish() noexcept
    {
        ph_pool *pool = std::exchange(pool_, nullptr);
        if (!pool)
            return;
        if (std::exchange(open_, false)) [[maybe_unused]]
            const ph_status ended = ph_pool_capture_end(pool);
        [[maybe_unused]] const ph_status released = ph_pool_capture_release(pool);
        ph_pool_release(pool);
    }

  public:
    pool_capture() noexcept = default;
    pool_capture(ph_pool *pool, ph_stream *on)
    {
        check(ph_pool_capture_begin(pool, on));
        pool_ = ph_pool_retain(pool);
        open_ = true;
    }
    pool_capture(pool_capture &&other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), open_(std::exchange(other.open_, false))
    {
    }
    pool_capture &operator=(pool_capture &&other) noexcept
    {
        if (this != &other) {
            finish();
            pool_ = std::exchange(other.pool_, nullptr);
            open_ = std::exchange(other.open_, false);
        }
        return *this;
    }
    pool_capture(const pool_capture &) = delete;
    pool_capture &operator=(const pool_capture &) = delete;
    ~pool_capture()
    {
        finish();
    }
    /* The capture is over: allocations go elsewhere again. */
    void end()
    {
        open_ = false;
        check(ph_pool_capture_end(pool_));
    }
};

/* The call that killed a capture of other code: ph_culprit_watch_begin. end() gives the text, empty
 * where no call was seen; a watch that was not ended ends with the object. */
class culprit_watch
{
    ph_culprit_watch *watch_ = nullptr;

  public:
    culprit_watch() noexcept = default;
    culprit_watch(ph_device *on, std::uint64_t capture_id)
    {
        check(ph_culprit_watch_begin(&watch_, on, capture_id));
    }
    culprit_watch(culprit_watch &&other) noexcept : watch_(std::exchange(other.watch_, nullptr))
    {
    }
    culprit_watch &operator=(culprit_watch &&other) noexcept
    {
        std::swap(watch_, other.watch_);
        return *this;
    }
    culprit_watch(const culprit_watch &) = delete;
    culprit_watch &operator=(const culprit_watch &) = delete;
    ~culprit_watch()
    {
        if (watch_) [[maybe_unused]]
            const ph_status ended = ph_culprit_watch_end(nullptr, watch_);
    }
    std::string end()
    {
        char *text = nullptr;
        check(ph_culprit_watch_end(&text, std::exchange(watch_, nullptr)));
        const std::string copy = text ? text : "";
        ph_string_free(text);
        return copy;
    }
};
} // namespace phonograph
#endif
