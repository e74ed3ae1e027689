/* SPDX-License-Identifier: MIT */
/* nn/graphed/replay.h: replays of the graphs of callables. Inline: for the short path. */
#ifndef PH_NN_GRAPHED_REPLAY_H
#define PH_NN_GRAPHED_REPLAY_H
#include "nn/graphed/callable.h"
#include "nn/graphed/readers.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"

static inline void ph__replay_set(ph__callable *callable, size_t *count, size_t slot,
                                  const void *value)
{
    if (slot != PH_SLOT_NONE)
        callable->values[(*count)++] = (ph_slot_value){slot, value};
}

static inline ph_status ph__replay_use_buffers(const ph_tape *tape, const ph__binding *bindings,
                                               size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bindings[i].buffer)
            PH_TRY(ph__storage_use(bindings[i].buffer->storage, tape->stream, tape->key));
    return PH_OK;
}

/* Of a forward with breaks. Its outputs, and what else it writes, count as written before the first
 * function of a break is called, and also where one fails: some of the segments have run then. */
ph_status ph__replay_segments(const ph_tape *tape, ph__callable *callable,
                              ph__callable_graph *callable_graph, size_t values, uint64_t *number);

/* Between the two `gone` says whether the program has reset or destroyed the graph: its slots and
 * segments have gone then, also where it was captured again. */
ph_status ph__callable_graph_watch(ph__callable_graph *callable_graph);
void ph__callable_graph_unwatch(ph__callable_graph *callable_graph);
/* The status of a call on the graph, with what the program did to the graph where that failed. */
ph_status ph__callable_graph_failed(ph_status status, const ph__callable *callable,
                                    const ph__callable_graph *callable_graph);

static inline ph_status ph__replay_run(ph_tape *tape, ph__callable *callable,
                                       ph__callable_graph *callable_graph, size_t values,
                                       uint64_t *number)
{
    if (__builtin_expect(callable_graph->gone, 0))
        return ph__callable_graph_failed(PH_ERROR_STATE, callable, callable_graph);
    PH_TRY(ph__readers_wait(tape->stream, callable_graph, callable->set->shared));
    if (__builtin_expect(callable_graph->first != NULL, 0))
        return ph__replay_segments(tape, callable, callable_graph, values, number);
    ph_status status =
        ph_graph_replay_with(callable_graph->graph, tape->stream, callable->values, values);
    if (__builtin_expect(status != PH_OK, 0)) {
        ph__readers_forget(callable_graph, callable->set->shared);
        return ph__callable_graph_failed(status, callable, callable_graph);
    }
    *number = ph__callable_graph_replayed(callable_graph, callable->set->shared);
    return PH_OK;
}
#endif
