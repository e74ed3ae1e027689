/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/hook.hpp: a function that a graph calls at a point of its life. */
#ifndef PHONOGRAPH_CXX_HOOK_HPP
#define PHONOGRAPH_CXX_HOOK_HPP
#include <functional>
#include <memory>
#include <phonograph/cxx/graph.hpp>
#include <type_traits>
#include <utility>

namespace phonograph
{
/* Removed when it ends, which must not be while another thread is in the function. The function
 * takes a const ph_graph_hook_info & and returns a ph_status or nothing; what it throws at a point
 * where hooks can fail arrives at the call that ran it (docs/reference/errors.md). */
class hook
{
    std::unique_ptr<std::function<ph_status(const ph_graph_hook_info &)>> function_;
    handle<ph_hook, ph_graph_hook_remove> hook_;

    static ph_status call(const ph_graph_hook_info *info, void *user)
    {
        return (*static_cast<std::function<ph_status(const ph_graph_hook_info &)> *>(user))(*info);
    }

  public:
    hook() noexcept = default;
    hook(hook &&other) noexcept = default;
    /* The old hook goes before the function that it calls. */
    hook &operator=(hook &&other) noexcept
    {
        if (this != &other) {
            hook_.reset();
            function_ = std::move(other.function_);
            hook_ = std::move(other.hook_);
        }
        return *this;
    }
    /* graph NULL: every graph of the process. */
    template <class Fn> hook(ph_graph *graph, ph_graph_hook_point point, Fn &&fn)
    {
        using result = std::invoke_result_t<Fn &, const ph_graph_hook_info &>;
        if constexpr (std::is_same_v<result, ph_status>)
            function_ = std::make_unique<std::function<ph_status(const ph_graph_hook_info &)>>(
                std::forward<Fn>(fn));
        else
            function_ = std::make_unique<std::function<ph_status(const ph_graph_hook_info &)>>(
                [inner = std::decay_t<Fn>(std::forward<Fn>(fn))](
                    const ph_graph_hook_info &info) mutable {
                    inner(info);
                    return PH_OK;
                });
        check(ph_graph_hook_add(hook_.out(), graph, point, call, function_.get()));
    }
};
} // namespace phonograph
#endif
