/* SPDX-License-Identifier: MIT */
/* nn/optimizer/groups.h: which parameter belongs to which group. */
#ifndef PH_NN_OPTIMIZER_GROUPS_H
#define PH_NN_OPTIMIZER_GROUPS_H
#include "nn/optimizer/optimizer.h"

/* Each parameter to the first group that names it, those that are left to the last one, for
 * which there is no choice. choices: one for each group but the last. ARGUMENT: a name, pattern
 * or number that gives its group no parameter. */
ph_status ph__groups_choose(ph_optimizer *optimizer, const ph_parameter_choice *const *choices,
                            const char *call);
#endif
