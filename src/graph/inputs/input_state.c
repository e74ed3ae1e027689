/* SPDX-License-Identifier: MIT */
/* graph/inputs/input_state.c: whether one input still lives. */
#include "graph/inputs/input_state.h"
#include "graph/object/graph.h"
#include "graph/slots/slots_life.h"
#include "memory/observe/track.h"

ph_status ph__foreign_ask(ph__foreign *foreign, ph_graph *graph, const char *call)
{
    ph__drv_pointer where;
    int result = graph->device->driver->pointer_info(&where, graph->device->handle, foreign->asked);
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_POINTER_GET_ATTRIBUTE, "%s: address %p", call,
                               foreign->asked);
    if (where.kind == PH__MEMORY_PAGEABLE)
        foreign->state = PH_INPUT_FREED;
    else
        foreign->state = where.buffer_id == foreign->buffer_id ? PH_INPUT_LIVE : PH_INPUT_REPLACED;
    return PH_OK;
}

ph_input_state ph__input_state(const ph_graph *graph, const ph__input *input)
{
    if (input->foreign)
        return input->foreign->state;
    if (input->base == NULL)
        return PH_INPUT_UNKNOWN;
    if (input->generation && ph__memory_is_live(graph->device, input->base, input->generation))
        return PH_INPUT_LIVE;
    return input->announced && ph__memory_is_announced(graph->device, input->base)
               ? PH_INPUT_REPLACED
               : PH_INPUT_FREED;
}

/* A place of an address slot is an address by what the slot was made of: two captures, or the
 * caller's word. */
bool ph__input_is_proved(const ph_graph *graph, const ph__input *input)
{
    return input->proved || (!input->nested && input->node != SIZE_MAX &&
                             ph__slots_prove(graph, input->node, input->offset));
}
