/* SPDX-License-Identifier: MIT */
/* nn/optimizer/options.c: what numbers of options may be. */
#include "nn/optimizer/options.h"
#include <math.h>

ph_status ph__option_at_least_0(double value, const char *what, const char *call)
{
    if (value >= 0 && isfinite(value))
        return PH_OK;
    return ph_fail(PH_ERROR_ARGUMENT, "%s: %s is %g, and must be finite and not negative", call,
                   what, value);
}

ph_status ph__option_beta(double value, const char *what, const char *call)
{
    if (value >= 0 && value < 1)
        return PH_OK;
    return ph_fail(PH_ERROR_ARGUMENT, "%s: %s is %g, and must be at least 0 and below 1", call,
                   what, value);
}

ph_status ph__option_finite(double value, const char *what, const char *call)
{
    if (isfinite(value))
        return PH_OK;
    return ph_fail(PH_ERROR_ARGUMENT, "%s: %s is %g, and must be finite", call, what, value);
}
