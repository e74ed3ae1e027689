/* SPDX-License-Identifier: MIT */
/* nn/optimizer/options.h: numbers of optimizers' options: a group's are those of the options
 * around it where it has none; what they may be. */
#ifndef PH_NN_OPTIMIZER_OPTIONS_H
#define PH_NN_OPTIMIZER_OPTIONS_H
#include "base/option.h"
#include "base/status.h"
#include "nn/optimizer/optimizer.h"

/* value; where it is 0, that of the outer options, and without any, the default. */
static inline double ph__option_lr(double value, const ph__optimizer_settings *outer,
                                   double otherwise)
{
    return ph__option_real(value, outer ? outer->lr : otherwise);
}
static inline double ph__option_number(double value, const ph__optimizer_settings *outer, size_t k,
                                       double otherwise)
{
    return ph__option_real(value, outer ? outer->number[k] : otherwise);
}
/* flag where it is set here or around */
static inline uint32_t ph__option_flag(bool value, uint32_t flag,
                                       const ph__optimizer_settings *outer)
{
    return (value ? flag : 0) | (outer ? outer->flags & flag : 0);
}
static inline bool ph__option_on_host(bool value, const ph__optimizer_settings *outer)
{
    return value || (outer && outer->on_host);
}

/* ARGUMENT otherwise; NaN is none of these. */
ph_status ph__option_at_least_0(double value, const char *what, const char *call);
ph_status ph__option_beta(double value, const char *what, const char *call);
ph_status ph__option_finite(double value, const char *what, const char *call);
#endif
