/* SPDX-License-Identifier: MIT */
/* nn/optimizer/state.h: loads of optimizers in two halves. */
#ifndef PH_NN_OPTIMIZER_STATE_H
#define PH_NN_OPTIMIZER_STATE_H
#include <phonograph/optimizer.h>

/* As ph__module_load_begin has them (nn/module/state.h). */
typedef struct ph__optimizer_load ph__optimizer_load;
ph_status ph__optimizer_load_begin(ph__optimizer_load **out, ph_optimizer *optimizer,
                                   const char *path, const char *call);
ph_status ph__optimizer_load_apply(ph__optimizer_load *load);
void ph__optimizer_load_end(ph__optimizer_load *load);
#endif
