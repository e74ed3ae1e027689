/* SPDX-License-Identifier: MIT */
/* device/handles/later.h: what a thread that runs a host function or the body of a kernel must not
 * do, as it would wait for itself, done on a thread of its own. */
#ifndef PH_DEVICE_HANDLES_LATER_H
#define PH_DEVICE_HANDLES_LATER_H
#include "device/handles/stream.h"

/* Calls item->fn(item) on a fresh thread, each item on its own: one may wait for work that waits
 * for another. false: the system refused the thread, and nothing was done. */
bool ph__later_run(ph__deferred *item);
#endif
