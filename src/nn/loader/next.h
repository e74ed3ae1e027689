/* SPDX-License-Identifier: MIT */
/* nn/loader/next.h: what all calls share that take batches. */
#ifndef PH_NN_LOADER_NEXT_H
#define PH_NN_LOADER_NEXT_H
#include "nn/loader/loader.h"

/* STATE in the child of a fork, which has none of the loader's threads. */
ph_status ph__loader_check(const ph_data_loader *loader, const char *call);
/* Begins a call that takes batches: the only one at a time, and not in the child of a fork, nor in
 * fetch; end it with leave. */
ph_status ph__loader_enter(ph_data_loader *loader, const char *call);
void ph__loader_leave(ph_data_loader *loader);
/* Gives the slot of the batch that was given back to the threads. Nothing where there is none. */
ph_status ph__loader_give_back(ph_data_loader *loader, const char *call);
#endif
