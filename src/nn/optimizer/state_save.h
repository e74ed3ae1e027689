/* SPDX-License-Identifier: MIT */
/* nn/optimizer/state_save.h: an optimizer's state as tensors. */
#ifndef PH_NN_OPTIMIZER_STATE_SAVE_H
#define PH_NN_OPTIMIZER_STATE_SAVE_H
#include "nn/optimizer/state_entries.h"
#include <phonograph/tensor_file.h>

/* all[i]: the tensor of entry i, as a file has it, of the tape or the optimizer. Waits for the
 * device. */
ph_status ph__optimizer_state_tensors(ph_named_tensor *all, ph_tape *tape, const ph_optimizer *o,
                                      const ph__state_entries *n, const char *call);
#endif
