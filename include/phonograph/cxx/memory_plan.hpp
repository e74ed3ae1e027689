/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/memory_plan.hpp: one memory plan for several captures. */
#ifndef PHONOGRAPH_CXX_MEMORY_PLAN_HPP
#define PHONOGRAPH_CXX_MEMORY_PLAN_HPP
#include <phonograph/cxx/standard.hpp>

#include <cstddef>
#include <phonograph/cxx/graph.hpp>
#include <phonograph/memory_plan.h>
#include <type_traits>
#include <utility>

namespace phonograph
{
/* Externally synchronised, as ph_memory_plan is. */
class memory_plan : public handle<ph_memory_plan, ph_memory_plan_destroy>
{
  public:
    using handle::handle;
    memory_plan() noexcept = default;
    memory_plan(ph_pool *pool, ph_stream *stream, std::size_t count)
    {
        check(ph_memory_plan_create(out(), pool, stream, count));
    }

    /* Noted before place, served behind it. The body is called once, with the stream or nothing.
     * What it throws arrives here; the capture is aborted. */
    template <class Body>
    void capture(std::size_t at, ph_graph *graph, Body &&body,
                 const ph_capture_options *options = nullptr)
    {
        using callable = std::remove_reference_t<Body>;
        check(ph_memory_plan_capture(get(), at, graph, options, detail::call_body<callable>,
                                     detail::address_of(body)));
    }
    void place()
    {
        check(ph_memory_plan_place(get()));
    }
    void finish()
    {
        check(ph_memory_plan_finish(get()));
    }
    ph_memory_plan_info info() const
    {
        ph_memory_plan_info info;
        check(ph_memory_plan_get_info(&info, get()));
        return info;
    }
};
} // namespace phonograph
#endif
