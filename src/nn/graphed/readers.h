/* SPDX-License-Identifier: MIT */
/* nn/graphed/readers.h: streams that read what a set of outputs lends, which each replay that
 * writes over it waits for. Inline: for the short path. */
#ifndef PH_NN_GRAPHED_READERS_H
#define PH_NN_GRAPHED_READERS_H
#include "nn/graphed/output_sets.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"

#define PH__SWITCHES_UNKNOWN UINT64_MAX

/* Memory of x (NULL: nothing) is handed out by the set, until unlend. */
ph_status ph__output_set_lend(ph__output_set *output_set, const ph_tensor *x, const char *call);
void ph__output_set_unlend(ph__output_set *output_set);

/* Before a replay on the stream: it waits for streams that use what the replay writes over, of the
 * sets where another tape has come to use some since the last wait. */
ph_status ph__readers_wait_slow(ph_stream *stream, ph__callable_graph *callable_graph,
                                ph__shared_pool *shared);
static inline ph_status ph__readers_wait(ph_stream *stream, ph__callable_graph *callable_graph,
                                         ph__shared_pool *shared)
{
    return __builtin_expect(callable_graph->switches !=
                                atomic_load_explicit(&ph__lent_switches, memory_order_relaxed),
                            0)
               ? ph__readers_wait_slow(stream, callable_graph, shared)
               : PH_OK;
}

/* The replay's own tape was the last to use the set: no reader. */
void ph__readers_handed_out_slow(ph__callable_graph *callable_graph,
                                 const ph__output_set *output_set);
static inline void ph__readers_handed_out(ph__callable_graph *callable_graph,
                                          const ph__output_set *output_set)
{
    if (__builtin_expect(callable_graph->switches !=
                             atomic_load_explicit(&ph__lent_switches, memory_order_relaxed),
                         0))
        ph__readers_handed_out_slow(callable_graph, output_set);
}

/* The replay failed: the next one waits for all readers. */
void ph__readers_forget(ph__callable_graph *callable_graph, ph__shared_pool *shared);
#endif
