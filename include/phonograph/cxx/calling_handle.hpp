/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/calling_handle.hpp: sole ownership of an object of the C API that calls a
 * function, and of that function. */
#ifndef PHONOGRAPH_CXX_CALLING_HANDLE_HPP
#define PHONOGRAPH_CXX_CALLING_HANDLE_HPP
#include <phonograph/cxx/standard.hpp>

#include <functional>
#include <memory>
#include <phonograph/cxx/error.hpp>
#include <phonograph/cxx/handle.hpp>
#include <type_traits>
#include <utility>

namespace phonograph
{
/* The object ends before the function. The function is on the heap: its address stays when the
 * handle moves, and a call of it that ends the handle returns before the function ends. */
template <class T, void (*Destroy)(T *), class Signature> class calling_handle;
template <class T, void (*Destroy)(T *), class Result, class... Arguments>
class calling_handle<T, Destroy, Result(Arguments...)>
{
  protected:
    using function = std::function<Result(Arguments...)>;

  private:
    struct kept_function : std::enable_shared_from_this<kept_function> {
        function call;
        explicit kept_function(function &&fn) : call(std::move(fn))
        {
        }
    };
    std::shared_ptr<kept_function> function_;
    handle<T, Destroy> object_;

  protected:
    /* A function for Result ph_status may return nothing: PH_OK. */
    template <class Fn> explicit calling_handle(Fn &&fn)
    {
        using result = std::invoke_result_t<Fn &, Arguments...>;
        if constexpr (std::is_same_v<Result, ph_status> && std::is_void_v<result>)
            function_ = std::make_shared<kept_function>(
                [inner = std::decay_t<Fn>(std::forward<Fn>(fn))](Arguments... arguments) mutable {
                    inner(arguments...);
                    return PH_OK;
                });
        else
            function_ = std::make_shared<kept_function>(function(std::forward<Fn>(fn)));
    }
    /* From the callback of the C API, with its `user`. */
    static Result call_function(void *user, Arguments... arguments)
    {
        const auto kept = static_cast<kept_function *>(user)->shared_from_this();
        return kept->call(std::forward<Arguments>(arguments)...);
    }
    /* For the C API: its callback's `user`. */
    void *user() const noexcept
    {
        return function_.get();
    }
    T **out() noexcept
    {
        return object_.out();
    }

  public:
    calling_handle() noexcept = default;
    calling_handle(calling_handle &&other) noexcept = default;
    calling_handle &operator=(calling_handle &&other) noexcept
    {
        if (this != &other) {
            object_.reset();
            function_ = std::move(other.function_);
            object_ = std::move(other.object_);
        }
        return *this;
    }
    ~calling_handle() = default; /* in the reverse order of the members */

    /* Borrowed. */
    T *get() const noexcept
    {
        return object_.get();
    }
    operator T *() const noexcept // NOLINT: as handle
    {
        return object_.get();
    }
    explicit operator bool() const noexcept
    {
        return static_cast<bool>(object_);
    }
};
} // namespace phonograph
#endif
