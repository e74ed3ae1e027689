/* SPDX-License-Identifier: MIT */
/* cache/variants.h: the executables of a key that are updated from captures. */
#ifndef PH_CACHE_VARIANTS_H
#define PH_CACHE_VARIANTS_H
#include "cache/visit.h"

/* The entry's graphs are the visit's, with the lock free, as objects of the user's may go with what
 * was updated. True: an executable was updated from the capture, and is the first one. */
bool ph__variants_update(ph__visit *visit, ph_graph *from);
/* With the entry locked. Takes the capture, which has an executable, as one more; the one that was
 * used longest ago goes with the rest of the visit. */
void ph__variants_add(ph__visit *visit, ph_graph *from);
#endif
