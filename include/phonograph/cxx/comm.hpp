/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/comm.hpp: a communicator. */
#ifndef PHONOGRAPH_CXX_COMM_HPP
#define PHONOGRAPH_CXX_COMM_HPP
#include <phonograph/cxx/standard.hpp>

#include <cstdint>
#include <phonograph/comm_pool.h>
#include <phonograph/cxx/memory.hpp>

namespace phonograph
{
/* Holds one reference; graphs with its collectives hold others. */
class comm : public handle<ph_comm, ph_comm_release>
{
  public:
    using handle::handle;
    comm() noexcept = default;
    explicit comm(ph_device *on, const ph_comm_options *options = nullptr)
    {
        check_status(ph_comm_create(out(), on, options));
    }
    static comm share(ph_comm *other) noexcept
    {
        return comm(ph_comm_retain(other));
    }

    /* Before the first one: see ph_comm_forbid_mixing. */
    static void forbid_mixing()
    {
        check_status(ph_comm_forbid_mixing());
    }
    /* Of this process, among those of its machine. */
    static std::uint32_t local_rank()
    {
        std::uint32_t rank;
        check_status(ph_comm_local_rank(&rank));
        return rank;
    }
    std::uint32_t rank() const noexcept
    {
        return ph_comm_rank(get());
    }
    std::uint32_t size() const noexcept
    {
        return ph_comm_size(get());
    }
    /* 0: the communicator's own time. */
    void barrier(std::uint64_t timeout_ms = 0) const
    {
        check_status(ph_comm_barrier(get(), timeout_ms));
    }
    /* Throws the failure of one that has failed. */
    void check() const
    {
        check_status(ph_comm_check(get()));
    }
    [[nodiscard]] ph_status check(const std::nothrow_t &) const noexcept
    {
        return ph_comm_check(get());
    }
    /* A pool whose memory is registered with the communicator: ph_comm_pool_create. */
    pool make_pool(const ph_comm_pool_options *options = nullptr) const
    {
        ph_pool *made;
        check_status(ph_comm_pool_create(&made, get(), options));
        return pool(made);
    }
    void abort(const char *reason = nullptr) const noexcept
    {
        ph_comm_abort(get(), reason);
    }

  private:
    static void check_status(ph_status status)
    {
        phonograph::check(status);
    }
};
} // namespace phonograph
#endif
