/* SPDX-License-Identifier: MIT */
/* nn/optimizer/state.h: loads of optimizers in two halves. */
#ifndef PH_NN_OPTIMIZER_STATE_H
#define PH_NN_OPTIMIZER_STATE_H
#include "nn/optimizer/state_entries.h"
#include <phonograph/optimizer.h>

/* As ph__module_load_begin has them (nn/module/state.h). places: one for each parameter, where the
 * file has it as a part of a larger one, and others beside it; they stay until end. NULL: the file
 * has these parameters alone. */
typedef struct ph__optimizer_load ph__optimizer_load;
ph_status ph__optimizer_load_begin(ph__optimizer_load **out, ph_optimizer *optimizer,
                                   const ph__state_place *places, const char *path,
                                   const char *call);
ph_status ph__optimizer_load_apply(ph__optimizer_load *load);
void ph__optimizer_load_end(ph__optimizer_load *load);
#endif
