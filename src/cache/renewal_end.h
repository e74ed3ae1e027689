/* SPDX-License-Identifier: MIT */
/* cache/renewal_end.h: letting go of executables that are made in the background, and of those
 * whose place they took. */
#ifndef PH_CACHE_RENEWAL_END_H
#define PH_CACHE_RENEWAL_END_H
#include "cache/cache.h"

/* A thread and a graph that are the caller's alone. */
typedef struct ph__renewed {
    ph_graph *graph;
    pthread_t thread;
    bool has_thread;
} ph__renewed;

/* Under the renewal's lock: nothing is being made then, and what there was is the caller's. */
ph__renewed ph__renewal_acquire_locked(ph__renewal *renewal);
/* Under the renewal's lock: the thread is over, or was not begun. */
bool ph__renewal_is_over(const ph__renewal *renewal);
/* Waits for a thread that has said that it is over, where there is one. */
void ph__renewal_join(const ph__renewed *renewed);
/* Of a graph whose executable no hook was told of; takes NULL. */
void ph__renewal_destroy(ph_graph *graph);
/* Destroys a graph whose place was taken, when its last replay has ended. */
void ph__renewal_retire(ph_graph_cache *cache, ph_graph *graph);

/* The graph goes, and what is made in its place with it. Takes NULL. Never waits. */
void ph__renewal_forget(ph_graph_cache *cache, const ph_graph *graph);
/* Lets go of what is over, and was forgotten or replaced. Never waits. */
void ph__renewal_reap(ph_graph_cache *cache);
/* The end of the cache: waits for the thread. */
void ph__renewal_end(ph_graph_cache *cache);
/* Of the device, of executables that are no entry's. */
size_t ph__renewal_bytes(ph_graph_cache *cache);
#endif
