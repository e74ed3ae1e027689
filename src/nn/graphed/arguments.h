/* SPDX-License-Identifier: MIT */
/* nn/graphed/arguments.h: what ph_make_graphed_callables refuses. */
#ifndef PH_NN_GRAPHED_ARGUMENTS_H
#define PH_NN_GRAPHED_ARGUMENTS_H
#include <phonograph/graphed.h>

/* PH_OK, or what is wrong with the arguments of ph_make_graphed_callables. */
ph_status ph__graphed_check_arguments(ph_module **out, ph_module *const *modules,
                                      const ph_sample *samples, size_t count,
                                      const ph_graphed_options *options);
#endif
