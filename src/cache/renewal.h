/* SPDX-License-Identifier: MIT */
/* cache/renewal.h: executables that changes of grids made slower are made anew in the background:
 * of the last capture that they were updated from, which then takes their place. */
#ifndef PH_CACHE_RENEWAL_H
#define PH_CACHE_RENEWAL_H
#include "cache/visit.h"

/* The entry's graphs are the visit's, with the lock free, as objects of the user's may go and hooks
 * are told. consider: `used` was updated from *from, and replayed; takes *from where
 * an executable is made of it. place: before an update of the entry's executables. One that is
 * ready takes its place among them; one that waited for captures to end is begun. */
void ph__renewal_consider(ph__visit *visit, ph_graph *used, ph_graph **from);
void ph__renewal_place(ph__visit *visit);
#endif
