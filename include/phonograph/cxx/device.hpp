/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/device.hpp: a device. */
#ifndef PHONOGRAPH_CXX_DEVICE_HPP
#define PHONOGRAPH_CXX_DEVICE_HPP
#include <phonograph/cxx/standard.hpp>

#include <phonograph/cxx/error.hpp>
#include <phonograph/cxx/handle.hpp>
#include <phonograph/device.h>
#include <phonograph/memory.h>

namespace phonograph
{
/* Holds one reference; what lives on the device holds others. */
class device : public handle<ph_device, ph_device_release>
{
  public:
    using handle::handle;
    device() noexcept = default;
    /* "auto", "host", "cuda:1", with settings: see ph_device_open. */
    explicit device(const char *name, const ph_device_options *options = nullptr)
    {
        check(ph_device_open(out(), name, options));
    }
    /* A reference of its own to a device that somebody else has. */
    static device share(ph_device *other) noexcept
    {
        return device(ph_device_retain(other));
    }

    ph_device_info info() const
    {
        ph_device_info info;
        check(ph_device_get_info(&info, get()));
        return info;
    }
    /* Waits for all work; refused while a capture is open. */
    void synchronize() const
    {
        check(ph_device_synchronize(get()));
    }
    [[nodiscard]] ph_status synchronize(const std::nothrow_t &) const noexcept
    {
        return ph_device_synchronize(get());
    }
    ph_memory_stats memory_stats() const
    {
        ph_memory_stats stats;
        check(ph_memory_get_stats(&stats, get()));
        return stats;
    }
    void trim() const
    {
        check(ph_memory_trim(get()));
    }
};
} // namespace phonograph
#endif
