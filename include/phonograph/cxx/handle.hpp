/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/handle.hpp: sole ownership of an object of the C API. */
#ifndef PHONOGRAPH_CXX_HANDLE_HPP
#define PHONOGRAPH_CXX_HANDLE_HPP
#include <phonograph/cxx/standard.hpp>

#include <utility>

namespace phonograph
{
/* Destroy takes NULL and does not fail, as all destroy and release calls of the C API. */
template <class T, void (*Destroy)(T *)> class handle
{
    T *object_ = nullptr;

  public:
    constexpr handle() noexcept = default;
    /* Takes the reference that the caller has. */
    explicit handle(T *object) noexcept : object_(object)
    {
    }
    handle(handle &&other) noexcept : object_(other.release())
    {
    }
    handle &operator=(handle &&other) noexcept
    {
        reset(other.release());
        return *this;
    }
    handle(const handle &) = delete;
    handle &operator=(const handle &) = delete;
    ~handle()
    {
        Destroy(object_);
    }

    /* Borrowed. */
    T *get() const noexcept
    {
        return object_;
    }
    operator T *() const noexcept // NOLINT: the C API takes what has no member here
    {
        return object_;
    }
    explicit operator bool() const noexcept
    {
        return object_ != nullptr;
    }
    /* The reference is the caller's. */
    [[nodiscard]] T *release() noexcept
    {
        return std::exchange(object_, nullptr);
    }
    void reset(T *object = nullptr) noexcept
    {
        if (T *before = std::exchange(object_, object); before != object)
            Destroy(before);
    }
    /* For the `T **out` of a call of the C API. What the handle had ends first. */
    T **out() noexcept
    {
        reset();
        return &object_;
    }
};
} // namespace phonograph
#endif
