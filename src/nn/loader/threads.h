/* SPDX-License-Identifier: MIT */
/* nn/loader/threads.h: the loader's threads, and waiting for them. */
#ifndef PH_NN_LOADER_THREADS_H
#define PH_NN_LOADER_THREADS_H
#include "nn/loader/loader.h"

/* ---- waiting ---- both with the lock held, which wait gives up meanwhile. */
void ph__loader_wait(ph_data_loader *loader, atomic_uint *for_what);
void ph__loader_wake(atomic_uint *what);

ph_status ph__loader_threads_start(ph_data_loader *loader, const char *call);
/* Also where only some, or none, were started. */
void ph__loader_threads_stop(ph_data_loader *loader);
/* Whether the calling thread is in the loader's fetch function. */
bool ph__loader_is_fetching(const ph_data_loader *loader);
#endif
