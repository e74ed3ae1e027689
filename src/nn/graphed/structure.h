/* SPDX-License-Identifier: MIT */
/* nn/graphed/structure.h: structures that callables keep. */
#ifndef PH_NN_GRAPHED_STRUCTURE_H
#define PH_NN_GRAPHED_STRUCTURE_H
#include <phonograph/graphed.h>

/* NULL with no host memory, or for NULL. */
ph_structure *ph__structure_copy(const ph_structure *structure);
void ph__structure_free(ph_structure *structure); /* takes NULL */
#endif
