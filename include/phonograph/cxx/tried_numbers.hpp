/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/tried_numbers.hpp: the numbers that captures of a graphed part were made with, and
 * which others are like them. For variable.hpp. */
#ifndef PHONOGRAPH_CXX_TRIED_NUMBERS_HPP
#define PHONOGRAPH_CXX_TRIED_NUMBERS_HPP
#include <phonograph/cxx/standard.hpp>

#include <type_traits>

namespace phonograph
{
namespace detail
{
/* Numbers like those tried:
 * - Their sign was tried (0 is a third sign).
 * - Integers have as many bits as one of those tried, or a length between theirs.
 * - Integers are multiples of each power of two that divides all of those tried.
 *
 * Others may take another way through the host's code: what is rounded up, or limited, is the
 * number itself for some numbers, and one constant for others. A number that grows is unlike at
 * most once for each of its bits. */
template <class T> class tried_numbers
{
    unsigned shortest_ = 0, longest_ = 0, zeros_ = 0, signs_ = 0;

    static unsigned sign(T number) noexcept
    {
        if (number == T{0})
            return 1;
        return number > T{0} ? 2 : 4;
    }
    static unsigned length(T number) noexcept
    {
        unsigned bits = 0;
        for (; number != 0; number = static_cast<T>(number / 2))
            bits++;
        return bits;
    }
    static unsigned zeros(T number) noexcept
    {
        unsigned bits = 0;
        for (; number % 2 == 0; number = static_cast<T>(number / 2))
            bits++;
        return bits;
    }
    static constexpr bool is_counted = std::is_integral_v<T> && !std::is_same_v<T, bool>;

  public:
    void clear() noexcept
    {
        *this = tried_numbers();
    }
    void add([[maybe_unused]] const T &number) noexcept
    {
        if constexpr (std::is_arithmetic_v<T>) {
            if constexpr (is_counted)
                if (number != 0) {
                    const bool first = signs_ < 2;
                    const unsigned bits = length(number), low = zeros(number);
                    shortest_ = first || bits < shortest_ ? bits : shortest_;
                    longest_ = first || bits > longest_ ? bits : longest_;
                    zeros_ = first || low < zeros_ ? low : zeros_;
                }
            signs_ |= sign(number);
        }
    }
    bool has([[maybe_unused]] const T &number) const noexcept
    {
        if constexpr (std::is_arithmetic_v<T>) {
            if (!(signs_ & sign(number)))
                return false;
            if constexpr (is_counted)
                if (number != 0) {
                    const unsigned bits = length(number);
                    return bits >= shortest_ && bits <= longest_ && zeros(number) >= zeros_;
                }
        }
        return true;
    }
};
} // namespace detail
} // namespace phonograph
#endif
