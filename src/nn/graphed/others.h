/* SPDX-License-Identifier: MIT */
/* nn/graphed/others.h: what a callable keeps for other backwards. */
#ifndef PH_NN_GRAPHED_OTHERS_H
#define PH_NN_GRAPHED_OTHERS_H
#include "nn/graphed/callable.h"

/* Before a replay of one of the others: the tape's stream will use the stand-ins' memory. */
ph_status ph__callable_use_stand_ins(ph__callable *callable, const ph_tape *tape);
void ph__callable_drop_others(ph__callable *callable);
void ph__callable_drop_other(ph__callable *other); /* takes NULL */
void ph__callable_drop_stand_ins(ph__callable *callable);
#endif
