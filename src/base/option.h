/* SPDX-License-Identifier: MIT */
/* base/option.h: numbers of option structs: 0 is the default, PH_ZERO the number 0. */
#ifndef PH_BASE_OPTION_H
#define PH_BASE_OPTION_H
#include <phonograph/status.h>
#include <stddef.h>

static inline double ph__option_real(double value, double otherwise)
{
    return value == 0 ? otherwise : value == (double)PH_ZERO ? 0 : value;
}

static inline size_t ph__option_count(size_t value, size_t otherwise)
{
    return value == 0 ? otherwise : value == PH_ZERO ? 0 : value;
}

/* For a member that can be no zero. */
static inline ph_status ph__option_no_zero(uint64_t value, const char *member, const char *call)
{
    return value == PH_ZERO
               ? ph_fail(PH_ERROR_ARGUMENT,
                         "%s: %s is PH_ZERO, and can be no zero: leave it 0 for its default", call,
                         member)
               : PH_OK;
}

/* For a member of an enumeration, whose zero has a name. */
static inline ph_status ph__option_named(uint64_t value, const char *member, const char *call)
{
    return value == PH_ZERO
               ? ph_fail(PH_ERROR_ARGUMENT,
                         "%s: %s is PH_ZERO, and takes the names of its type alone", call, member)
               : PH_OK;
}
#endif
