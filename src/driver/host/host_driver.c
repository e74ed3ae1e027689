/* SPDX-License-Identifier: MIT */
/* driver/host/host_driver.c: the host device's table. */
#include "driver/host/host.h"
#include <phonograph/version.h>
#include <stdio.h>

static void describe(char version[48], uint32_t *device_count, char reason[256])
{
    (void)snprintf(version, 48, "%s", ph_version());
    *device_count = 1;
    reason[0] = '\0';
}

const ph__driver ph__driver_host = {
    .name = "host",
    .describe = describe,
    .device_open = ph__host_device_open,
    .device_close = ph__host_device_close,
    .device_info = ph__host_device_info,
    .device_synchronize = ph__host_device_synchronize,
    .thread_exchange_mode = ph__host_thread_exchange_mode,
    .stream_default = ph__host_stream_default,
    .stream_create = ph__host_stream_create,
    .stream_destroy = ph__host_stream_destroy,
    .stream_synchronize = ph__host_stream_synchronize,
    .stream_query = ph__host_stream_query,
    .stream_wait_event = ph__host_stream_wait_event,
    .stream_wrap = ph__host_stream_wrap,
    .stream_ordinal = ph__host_stream_ordinal,
    .event_create = ph__host_event_create,
    .event_destroy = ph__host_event_destroy,
    .event_record = ph__host_event_record,
    .event_query = ph__host_event_query,
    .event_synchronize = ph__host_event_synchronize,
    .event_elapsed = ph__host_event_elapsed,
    .segment_create = ph__host_segment_create,
    .segment_destroy = ph__host_segment_destroy,
    .plain_alloc = ph__host_plain_alloc,
    .plain_free = ph__host_plain_free,
    .pinned_alloc = ph__host_pinned_alloc,
    .pinned_free = ph__host_pinned_free,
    .pointer_info = ph__host_pointer_info,
    .kernel_create = ph__host_kernel_create,
    .kernel_destroy = ph__host_kernel_destroy,
    .kernel_wrap = ph__host_kernel_wrap,
    .kernel_keep = ph__host_kernel_keep,
    .launch = ph__host_launch,
    .copy = ph__host_copy,
    .fill = ph__host_fill,
    .host = ph__host_host,
    .copy_sync = ph__host_copy_sync,
    .child = ph__host_child,
    .capture_begin = ph__host_capture_begin,
    .capture_end = ph__host_capture_end,
    .capture_get = ph__host_capture_get,
    .capture_id = ph__host_capture_id,
    .capture_drop = ph__host_capture_drop,
    .graph_destroy = ph__host_graph_destroy,
    .graph_import = ph__host_graph_import,
    .graph_native = ph__host_graph_native,
    .graph_host_bytes = ph__host_graph_host_bytes,
    .graph_nodes = ph__host_graph_nodes,
    .node_info = ph__host_node_info,
    .instantiate = ph__host_instantiate,
    .exec_destroy = ph__host_exec_destroy,
    .exec_native = ph__host_exec_native,
    .exec_memory = ph__host_exec_memory,
    .exec_upload = ph__host_exec_upload,
    .exec_launch = ph__host_exec_launch,
    .exec_update = ph__host_exec_update,
    .exec_set_kernel = ph__host_exec_set_kernel,
    .exec_set_copy = ph__host_exec_set_copy,
    .exec_set_fill = ph__host_exec_set_fill,
    .exec_set_host = ph__host_exec_set_host,
    .exec_set_enabled = ph__host_exec_set_enabled,
    .exec_get_enabled = ph__host_exec_get_enabled,
};
