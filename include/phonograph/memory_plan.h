/* SPDX-License-Identifier: MIT */
/* phonograph/memory_plan.h: one memory plan for several captures, as ph_capture_options.plan is for
 * one (docs/reference/memory-plan.md). Their graphs run in the order of the captures, and never at
 * once: together they take the largest, not the sum. */
#ifndef PHONOGRAPH_MEMORY_PLAN_H
#define PHONOGRAPH_MEMORY_PLAN_H
#include <phonograph/graph.h>

PH_BEGIN_DECLS

/* Externally synchronised. No call is legal inside one of its captures (STATE). */
typedef struct ph_memory_plan ph_memory_plan;

/* count: of the captures, all on that stream. The planned memory will be the pool's; the plan
 * retains it, and the stream. WRONG_DEVICE: the two are of different devices. */
PH_CALL ph_memory_plan_create(ph_memory_plan **out, ph_pool *pool, ph_stream *stream, size_t count);
/* ph_graph_capture of the capture with the number `at`. Each is made twice.
 * - Until ph_memory_plan_place its blocks are noted. These captures come in any order, each once
 *   (STATE), and may be dropped. Give them another pool (options.pool), which goes with them.
 * - Behind it, the blocks are served where the plan has them, in the plan's pool (ARGUMENT:
 *   options.pool is another one). These captures come in rising order (STATE).
 * - A block that a capture leaves allocated is alive in all later ones, and is an allocation of the
 *   pool from ph_memory_plan_finish on; it may be freed at any time.
 * - Not with options.plan (ARGUMENT).
 * - Where the plan has ended: as any capture, and ph_graph_memory.plan_ended of the graph says why.
 *
 * The plan ends, with a warning, where a capture asks for other blocks than were noted, frees or
 * orders them otherwise, fails, or has breaks. Drop the captures that were served by then, and make
 * them again: others may have been given their memory. */
PH_CALL ph_memory_plan_capture(ph_memory_plan *plan, size_t at, ph_graph *graph,
                               const ph_capture_options *options, ph_capture_fn body, void *user);
/* From what was noted to one block of the pool. Captures that were not noted allocate nothing. Once
 * (STATE); no capture is open on the device. Where there is no plan, or no memory for it, it ends,
 * and this is PH_OK. DEVICE ends it, too. */
PH_CALL ph_memory_plan_place(ph_memory_plan *plan);
/* The last capture was made: blocks that they left become allocations, and the rest of the plan's
 * block is free in the pool. No more captures (STATE), unless the plan ended. The second call does
 * nothing. */
PH_CALL ph_memory_plan_finish(ph_memory_plan *plan);

typedef struct ph_memory_plan_info {
    size_t planned, plan_bound; /* as of ph_graph_memory; 0 before ph_memory_plan_place */
    const char *ended;          /* why there is no plan; static. NULL: it has not ended */
    uint64_t reserved[4];
} ph_memory_plan_info;
PH_CALL ph_memory_plan_get_info(ph_memory_plan_info *out, const ph_memory_plan *plan);
/* Finishes it, too. The graphs stay. Takes NULL. */
PH_API void ph_memory_plan_destroy(ph_memory_plan *plan);

PH_END_DECLS
#endif
