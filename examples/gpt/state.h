/* SPDX-License-Identifier: MIT */
/* gpt/state.h: the saved states of a run, and going on from the newest. */
#ifndef GPT_STATE_H
#define GPT_STATE_H
#include "run.h"

/* Parts: model, optimizer, schedule, scaler (in f16), generator, the loader's position, the step,
 * and what the log and the report have so far. With --resume the newest state is loaded, where
 * there is one; without it a folder that has one is refused. Nothing where no --state is asked
 * for. */
ph_status state_open(run *r);
ph_status state_save(run *r);
void state_close(run *r);
#endif
