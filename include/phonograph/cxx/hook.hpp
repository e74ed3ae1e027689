/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/hook.hpp: functions that graphs call at points of their life. */
#ifndef PHONOGRAPH_CXX_HOOK_HPP
#define PHONOGRAPH_CXX_HOOK_HPP
#include <phonograph/cxx/calling_handle.hpp>
#include <phonograph/graph.h>
#include <utility>

namespace phonograph
{
/* Removed when it ends, which must not be while another thread is in the function. The function
 * takes a const ph_graph_hook_info & and returns a ph_status or nothing; what it throws at a point
 * where hooks can fail arrives at the call that ran it (docs/reference/errors.md). */
class hook
    : public calling_handle<ph_hook, ph_graph_hook_remove, ph_status(const ph_graph_hook_info &)>
{
    static ph_status call(const ph_graph_hook_info *info, void *user)
    {
        return (*static_cast<function *>(user))(*info);
    }

  public:
    hook() noexcept = default;
    /* graph NULL: every graph of the process. */
    template <class Fn>
    hook(ph_graph *graph, ph_graph_hook_point point, Fn &&fn) : calling_handle(std::forward<Fn>(fn))
    {
        check(ph_graph_hook_add(out(), graph, point, call, user()));
    }
};
} // namespace phonograph
#endif
