/* SPDX-License-Identifier: MIT */
/* graph/memory/epochs.h: the pools that a graph holds, and the memory of them that its replays
 * may write. */
#ifndef PH_GRAPH_MEMORY_EPOCHS_H
#define PH_GRAPH_MEMORY_EPOCHS_H
#include "graph/object/graph.h"

/* Adds a pool, whose reference it takes over on success. ranges: taken over
 * on success; NULL: none. */
ph_status ph__graph_add_pool(ph__writer **out, ph_graph *graph, ph_pool *pool, const char *call);
ph__writer *ph__graph_find_pool(const ph_graph *graph, const ph_pool *pool);
void ph__graph_drop_pool(ph_graph *graph, ph__writer *writer);
void ph__graph_drop_pools(ph_graph *graph);
bool ph__writer_reserve(ph__writer *writer, size_t sets);
void ph__writer_add(ph__writer *writer,
                    ph__ranges *ranges); /* room was reserved; *ranges is empty afterwards */
void ph__writer_add_anywhere(ph__writer *writer);
bool ph__writer_covers(const ph__writer *writer, uintptr_t address);
/* Whether some graph of the pool was given it in its capture, or may have been: of graphs that went
 * long ago nobody knows. */
bool ph__writer_is_captures(const ph__writer *writer, uintptr_t address);
/* Whether the address, in that pool, may be its graph's own, where it may have written all of its
 * pool. generation 0: nothing lives there. */
bool ph__writer_is_anywhere(const ph__writer *writer, uint64_t address, ph_pool_id pool,
                            uint64_t generation);
bool ph__ranges_same(const ph__ranges *a, const ph__ranges *b);
/* false: no host memory, *out is empty */
bool ph__ranges_copy(ph__ranges *out, const ph__ranges *from);
#endif
