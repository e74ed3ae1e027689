/* SPDX-License-Identifier: MIT */
/* nn/graphed/planned.h: the memory plan of all captures that are made together. The first probe of
 * each callable is noted, and the real captures are served. */
#ifndef PH_NN_GRAPHED_PLANNED_H
#define PH_NN_GRAPHED_PLANNED_H
#include "nn/graphed/capture.h"

/* At the begin of a round of captures: a plan, where one was asked for and none has ended. */
ph_status ph__set_plan_begin(ph__graphed_set *set, size_t captures, const char *call);
/* A plan needs a probe of each pass. */
bool ph__set_is_noted(const ph__graphed_set *set);
/* Whether its captures are the plan's. */
bool ph__trial_is_planned(const ph__trial *trial);
/* Of its captures. */
ph_pool *ph__trial_pool(const ph__trial *trial);
/* Behind the probes. */
ph_status ph__set_plan_place(ph__graphed_set *set, const char *call);
/* Behind each real capture: the plan has ended by it, and all are to be made anew without one. */
bool ph__set_plan_broke(ph__graphed_set *set);
/* Behind the last one, before the callables take the graphs over. */
ph_status ph__set_plan_finish(ph__graphed_set *set, const char *call);
/* At the end of a round; graphs and tensors of its probes are gone. again: another one may follow,
 * whose graphs say why the plan has ended. */
void ph__set_plan_drop(ph__graphed_set *set, bool again);
#endif
