/* SPDX-License-Identifier: MIT */
/* driver/host/host_event_node.c: the event nodes of replays: records and waits of the world outside the
 * graph. */
#include "driver/host/host_graph.h"

void ph__host_event_record_fn(const ph_block_range *range, const void *args)
{
    (void)range;
    const ph__host_event_args *node = args;
    ph__host_marker_signal(node->fresh);
    ph__host_event_set_marker(node->event, node->fresh);
    ph__host_marker_release(node->fresh);
}

void ph__host_event_wait_fn(const ph_block_range *range, const void *args)
{
    (void)range;
    ph__host_marker *marker = ph__host_event_marker(((const ph__host_event_args *)args)->event);
    if (!marker)
        return;
    ph__host_marker_wait(marker);
    ph__host_marker_release(marker);
}
