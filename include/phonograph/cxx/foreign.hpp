/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/foreign.hpp: blocks of another allocator, announced as long as an object lives. */
#ifndef PHONOGRAPH_CXX_FOREIGN_HPP
#define PHONOGRAPH_CXX_FOREIGN_HPP
#include <cstddef>
#include <cstdint>
#include <phonograph/cxx/device.hpp>
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
} // namespace phonograph
#endif
