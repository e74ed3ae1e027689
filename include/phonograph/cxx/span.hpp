/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/span.hpp: a pointer and a count, as C++20 has it. */
#ifndef PHONOGRAPH_CXX_SPAN_HPP
#define PHONOGRAPH_CXX_SPAN_HPP
#include <phonograph/cxx/standard.hpp>

#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>

namespace phonograph
{
/* Borrows. Made of anything with std::data and std::size whose elements are T: vectors, arrays,
 * std::span, buffers. */
template <class T> class span
{
    T *data_ = nullptr;
    std::size_t size_ = 0;

  public:
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size)
    {
    }
    template <class Range,
              class = std::enable_if_t<
                  !std::is_same_v<std::decay_t<Range>, span> &&
                  std::is_convertible_v<
                      std::remove_pointer_t<decltype(std::data(std::declval<Range &>()))> (*)[],
                      T (*)[]>>>
    constexpr span(Range &&range) noexcept // NOLINT: a view of what it is given
        : data_(std::data(range)), size_(std::size(range))
    {
    }
    constexpr T *data() const noexcept
    {
        return data_;
    }
    constexpr std::size_t size() const noexcept
    {
        return size_;
    }
    constexpr std::size_t bytes() const noexcept
    {
        return size_ * sizeof(T);
    }
    constexpr bool empty() const noexcept
    {
        return size_ == 0;
    }
    constexpr T *begin() const noexcept
    {
        return data_;
    }
    constexpr T *end() const noexcept
    {
        return data_ + size_;
    }
    constexpr T &operator[](std::size_t index) const noexcept
    {
        return data_[index];
    }
};
} // namespace phonograph
#endif
