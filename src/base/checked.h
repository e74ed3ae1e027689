/* SPDX-License-Identifier: MIT */
/* base/checked.h: arithmetic on sizes that says when it overflows. */
#ifndef PH_BASE_CHECKED_H
#define PH_BASE_CHECKED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each returns false on overflow and leaves *out alone. */
static inline bool ph__mul(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool ph__add(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

/* Rounds up to a multiple of unit, a power of two. */
static inline bool ph__round_up(size_t n, size_t unit, size_t *out)
{
    size_t r;
    if (!ph__add(n, unit - 1, &r))
        return false;
    *out = r & ~(unit - 1);
    return true;
}
#endif
