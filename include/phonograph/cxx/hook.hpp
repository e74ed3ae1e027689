/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/hook.hpp: functions that graphs call at points of their life. */
#ifndef PHONOGRAPH_CXX_HOOK_HPP
#define PHONOGRAPH_CXX_HOOK_HPP
#include <phonograph/cxx/standard.hpp>

#include <phonograph/cxx/calling_handle.hpp>
#include <phonograph/graph.h>
#include <utility>

namespace phonograph
{
/* Removed when it ends, which must not be while another thread is in the function; the function may
 * end it. The function takes a const ph_graph_hook_info & and returns a ph_status or nothing.
 * - Exceptions of a hook of one graph arrive at the call that ran it, and fail that call
 *   (docs/reference/errors.md).
 * - Exceptions at replay_end and destroy, and those of hooks of the process at any point, are
 *   logged, as such hooks fail no call. */
class hook
    : public calling_handle<ph_hook, ph_graph_hook_remove, ph_status(const ph_graph_hook_info &)>
{
    static ph_status call_logged(const ph_graph_hook_info *info, void *user) noexcept
    {
        try {
            return call_function(user, *info);
        } catch (...) {
            return current_exception_status();
        }
    }
    static ph_status call(const ph_graph_hook_info *info, void *user)
    {
        if (info->point == PH_HOOK_REPLAY_END || info->point == PH_HOOK_DESTROY)
            return call_logged(info, user);
        return call_function(user, *info);
    }

  public:
    hook() noexcept = default;
    /* graph NULL: every graph of the process. */
    template <class Fn>
    hook(ph_graph *graph, ph_graph_hook_point point, Fn &&fn) : calling_handle(std::forward<Fn>(fn))
    {
        check(ph_graph_hook_add(out(), graph, point, graph ? call : call_logged, user()));
    }
};
} // namespace phonograph
#endif
