/* SPDX-License-Identifier: MIT */
/* driver/host/exec/event_node.c: the event nodes of replays: records and waits of the world
 * outside the graph. */
#include "driver/host/exec/event_node.h"
#include "driver/host/stream/queue.h"

void ph__host_event_record_fn(const ph_block_range *range, const void *args)
{
    (void)range;
    const ph__host_event_args *node = args;
    ph__host_marker_signal(node->marker);
    ph__host_marker_release(node->marker);
}

void ph__host_event_wait_fn(const ph_block_range *range, const void *args)
{
    (void)range;
    const ph__host_event_args *node = args;
    if (!node->marker)
        return;
    ph__host_marker_wait(node->marker);
    ph__host_marker_release(node->marker);
}

void ph__exec_drop_markers(ph__exec_launch *launch)
{
    for (size_t i = 0; i < launch->exec->params->event_count; i++) {
        ph__host_marker_release(launch->markers[i]);
        launch->markers[i] = NULL;
    }
}

/* Collects the events that the launch waits for and will signal. The chaos scheduler must not block
 * inside a plan: there the whole launch waits. */
int ph__exec_acquire_markers(ph__exec_launch *launch, ph__host_stream *stream)
{
    const ph__exec_params *params = launch->exec->params;
    ph__host_device *device = launch->exec->device;
    int result = 0;
    for (size_t i = 0, event = 0; event < params->event_count && !result; i++) {
        const ph__exec_slot *slot = &params->slots[i];
        ph__host_marker **marker = &launch->markers[event];
        if (slot->kind == PH_NODE_EVENT_RECORD) {
            *marker = ph__host_marker_create(device);
            result = *marker ? 0 : PH__R_OUT_OF_MEMORY;
        } else if (slot->kind == PH_NODE_EVENT_WAIT) {
            *marker = ph__host_event_marker(((const ph__host_event_args *)slot->args)->event);
            if (*marker && device->chaos)
                result = ph__host_stream_wait_marker(stream, *marker);
        } else {
            continue;
        }
        event++;
    }
    if (result)
        ph__exec_drop_markers(launch);
    return result;
}

/* Nothing can fail any more: from now on the events stand for this launch. */
void ph__exec_install_records(const ph__exec_launch *launch)
{
    const ph__exec_params *params = launch->exec->params;
    for (size_t i = 0, event = 0; event < params->event_count; i++) {
        const ph__exec_slot *slot = &params->slots[i];
        if (slot->kind == PH_NODE_EVENT_RECORD)
            ph__host_event_set_marker(((const ph__host_event_args *)slot->args)->event,
                                      launch->markers[event]);
        event += slot->kind == PH_NODE_EVENT_RECORD || slot->kind == PH_NODE_EVENT_WAIT;
    }
}
