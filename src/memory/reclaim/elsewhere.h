/* SPDX-License-Identifier: MIT */
/* memory/reclaim/elsewhere.h: memory of another device that a graph held and lets go. */
#ifndef PH_MEMORY_RECLAIM_ELSEWHERE_H
#define PH_MEMORY_RECLAIM_ELSEWHERE_H
#include "base/map.h"
#include <phonograph/memory.h>

/* Lets go of all that a holder held of another device than its streams', which are of `own`: when
 * their work so far is done. Takes the map over (generation -> base), and leaves it empty. */
void ph__memory_let_go_elsewhere(ph_device *own, ph_device *device, ph__map *held,
                                 ph_stream *const *streams, size_t count);
#endif
