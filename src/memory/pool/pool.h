/* SPDX-License-Identifier: MIT */
/* memory/pool/pool.h: pools: making them, who holds them, and their end. */
#ifndef PH_MEMORY_POOL_POOL_H
#define PH_MEMORY_POOL_POOL_H
#include <phonograph/memory.h>

/* A pool {n, 0}, as captures make for themselves. */
ph_status ph__pool_create_private(ph_pool **out, ph_device *device);
/* As ph_pool_create, of options that are right. ended: called with their user when the pool's
 * object goes, behind the last call of their functions, on any thread, with no lock held. */
ph_status ph__pool_create_sourced(ph_pool **out, ph_device *device, const ph_pool_options *options,
                                  void (*ended)(void *user), const char *call);
ph_device *ph__pool_device(const ph_pool *pool);
/* PH_OK, or ARGUMENT for NULL and for a handle of no pool that there is: for each call that a
 * user gives one. */
ph_status ph__pool_check(const ph_pool *pool, const char *call);
ph_pool_id ph__pool_id(const ph_pool *pool); /* as ph_pool_get_id, of one that there is */
/* One more graph whose replays use the pool's memory. What captures were given is not given back to
 * the device while any graph holds the pool so. */
void ph__pool_graph_retain(ph_pool *pool);
void ph__pool_graph_release(ph_pool *pool); /* takes NULL; never blocks */
/* The counterpart of ph__pool_hold; graph: that of ph__pool_graph_retain. No lock held. */
void ph__pool_drop(ph_pool *pool, bool graph);
#endif
