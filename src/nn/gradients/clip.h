/* SPDX-License-Identifier: MIT */
/* nn/gradients/clip.h: the two halves of a clip by the norm, for gradients that several ranks
 * have. */
#ifndef PH_NN_GRADIENTS_CLIP_H
#define PH_NN_GRADIENTS_CLIP_H
#include <phonograph/module.h>

/* The 2-norm of the gradients of the module, which may have parts of parameters alone: a scalar of
 * f32, or f64 where all are. 0 where there is none. NULL: the tape has failed. */
ph_tensor *ph__clip_part_norm(ph_tape *tape, ph_module *module, const char *call);
/* Multiplies these gradients by factor, one f64. */
void ph__clip_part_scale(ph_tape *tape, ph_module *module, ph_tensor *factor, const char *call);
#endif
