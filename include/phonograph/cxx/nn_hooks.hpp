/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/nn_hooks.hpp: functions that tensors and modules call. What they throw fails the
 * tape. */
#ifndef PHONOGRAPH_CXX_NN_HOOKS_HPP
#define PHONOGRAPH_CXX_NN_HOOKS_HPP
#include <phonograph/cxx/standard.hpp>

#include <phonograph/cxx/calling_handle.hpp>
#include <phonograph/cxx/span.hpp>
#include <phonograph/module.h>
#include <phonograph/tape.h>
#include <utility>

namespace phonograph
{
namespace detail
{
/* Inside a catch clause. */
inline void fail_tape(ph_tape *tape) noexcept
{
    const ph_status status = current_exception_status();
    const ph_error record = *ph_error_last();
    ph_tape_fail(tape, status, "%s", record.message);
}
} // namespace detail

/* Removed when it ends. The function takes (ph_tape *, ph_tensor *gradient) and returns the
 * gradient to use. */
class tensor_hook : public calling_handle<ph_tensor_hook, ph_tensor_hook_remove,
                                          ph_tensor *(ph_tape *, ph_tensor *)>
{
    static ph_tensor *call(ph_tape *tape, ph_tensor *gradient, void *user) noexcept
    {
        try {
            return call_function(user, tape, gradient);
        } catch (...) {
            detail::fail_tape(tape);
            return gradient;
        }
    }

  public:
    tensor_hook() noexcept = default;
    template <class Fn> tensor_hook(ph_tensor *x, Fn &&fn) : calling_handle(std::forward<Fn>(fn))
    {
        check(ph_tensor_hook_add(out(), x, call, user()));
    }
};

/* Removed when it ends. The function takes (ph_tape *, ph_module *, span<ph_tensor *>), of inputs,
 * outputs or gradients, which it may exchange. */
class module_hook : public calling_handle<ph_module_hook, ph_module_hook_remove,
                                          void(ph_tape *, ph_module *, span<ph_tensor *>)>
{
    static void call(ph_tape *tape, ph_module *module, ph_tensor **tensors, size_t count,
                     void *user) noexcept
    {
        try {
            call_function(user, tape, module, span<ph_tensor *>(tensors, count));
        } catch (...) {
            detail::fail_tape(tape);
        }
    }

  public:
    module_hook() noexcept = default;
    template <class Fn>
    module_hook(ph_module *module, ph_module_hook_point point, Fn &&fn)
        : calling_handle(std::forward<Fn>(fn))
    {
        check(ph_module_hook_add(out(), module, point, call, user()));
    }
};
} // namespace phonograph
#endif
