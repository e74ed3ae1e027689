/* SPDX-License-Identifier: MIT */
/* driver/host/stream/entries.h: the driver's entries, which device/driver.c puts into
 * ph__driver_host. */
#ifndef PH_DRIVER_HOST_STREAM_ENTRIES_H
#define PH_DRIVER_HOST_STREAM_ENTRIES_H
#include "driver/driver.h"

int ph__host_device_open(ph__drv_device **out, uint32_t ordinal,
                         const ph__drv_device_options *options);
void ph__host_device_close(ph__drv_device *device);
int ph__host_device_info(ph__drv_device_info *out, ph__drv_device *device);
int ph__host_device_synchronize(ph__drv_device *device);
ph__drv_stream *ph__host_stream_default(ph__drv_device *device);
int ph__host_stream_create(ph__drv_stream **out, ph__drv_device *device, int flags, int priority);
void ph__host_stream_destroy(ph__drv_stream *stream);
int ph__host_stream_synchronize(ph__drv_stream *stream);
int ph__host_stream_wait_idle(ph__drv_stream *stream);
int ph__host_stream_query(ph__drv_stream *stream);
int ph__host_stream_wait_event(ph__drv_stream *stream, ph__drv_event *event, int flags);
int ph__host_stream_wrap(ph__drv_stream **out, ph__drv_device *device, void *native, int *priority,
                         int *flags);
int ph__host_stream_ordinal(uint32_t *ordinal, void *native);
int ph__host_event_create(ph__drv_event **out, ph__drv_device *device, int flags);
void ph__host_event_destroy(ph__drv_event *event);
int ph__host_event_record(ph__drv_event *event, ph__drv_stream *stream, int flags);
int ph__host_event_query(ph__drv_event *event);
int ph__host_event_synchronize(ph__drv_event *event);
int ph__host_event_elapsed(float *milliseconds, ph__drv_event *start, ph__drv_event *end);
int ph__host_segment_create(void **out, ph__drv_device *device, size_t bytes);
void ph__host_segment_destroy(ph__drv_device *device, void *address, size_t bytes);
int ph__host_plain_alloc(void **out, ph__drv_device *device, size_t bytes);
int ph__host_plain_free(ph__drv_device *device, void *address);
int ph__host_pinned_alloc(void **out, ph__drv_device *device, size_t bytes);
int ph__host_pinned_free(ph__drv_device *device, void *address);
int ph__host_pointer_mapped(uintptr_t *base, size_t *bytes, ph__drv_device *device,
                            const void *address);
int ph__host_pointer_info(ph__drv_pointer *out, ph__drv_device *device, const void *address);
int ph__host_kernel_create(ph__drv_kernel **out, ph__drv_device *device,
                           const ph_kernel_source *source);
void ph__host_kernel_destroy(ph__drv_kernel *kernel);
int ph__host_kernel_wrap(ph__drv_kernel **out, ph__drv_device *device, void *native,
                         size_t *args_size, const char **name);
int ph__host_kernel_cells(ph__drv_kernel **out, ph__drv_device *device, unsigned room);
int ph__host_kernel_watch(ph__drv_kernel **out, ph__drv_device *device, ph__watch_kernel which);
void ph__host_kernel_keep(ph__drv_kernel *kernel);
int ph__host_launch(ph__drv_stream *stream, ph__drv_kernel *kernel, const ph__drv_launch *launch);
int ph__host_copy(ph__drv_stream *stream, const ph__drv_memcpy *copy, uint64_t *capture_id);
int ph__host_fill(ph__drv_stream *stream, const ph__drv_memset *fill);
int ph__host_host(ph__drv_stream *stream, const ph__drv_host *host);
int ph__host_copy_sync(ph__drv_device *device, const ph__drv_memcpy *copy);
int ph__host_child(ph__drv_stream *stream, ph__drv_graph *graph);
int ph__host_capture_root(ph__drv_node **out, ph__drv_stream *stream, ph__drv_kernel *kernel,
                          const ph__drv_launch *launch);
int ph__host_capture_depend(ph__drv_stream *stream, ph__drv_node *node);
int ph__host_context_push(ph__drv_device *device);
void ph__host_context_pop(ph__drv_device *device);
int ph__host_thread_exchange_mode(ph__drv_device *device, ph_capture_mode *mode);
int ph__host_capture_begin(ph__drv_stream *stream, ph_capture_mode mode);
int ph__host_capture_position(uint64_t *position, ph__drv_stream *stream);
size_t ph__host_graph_position(ph__drv_graph *graph, uint64_t position);
int ph__host_capture_end(ph__drv_graph **graph, ph__drv_stream *stream);
int ph__host_capture_get(ph__drv_capture *out, ph__drv_stream *stream);
int ph__host_capture_id(uint64_t *id, ph__drv_stream *stream);
void ph__host_capture_drop(ph__drv_stream *stream);
void ph__host_graph_destroy(ph__drv_graph *graph);
int ph__host_graph_import(ph__drv_graph **out, ph__drv_device *device, void *native);
void *ph__host_graph_native(ph__drv_graph *graph);
size_t ph__host_graph_host_bytes(ph__drv_graph *graph);
int ph__host_graph_nodes(ph__drv_node *const **nodes, size_t *count, ph__drv_graph *graph);
int ph__host_graph_lower(ph__drv_graph *graph);
int ph__host_graph_look_again(ph__drv_graph **out, ph__drv_graph *graph);
int ph__host_node_info(ph__drv_node_info *out, ph__drv_node *node);
int ph__host_instantiate(ph__drv_exec **out, ph__drv_graph *graph, int flags,
                         ph__drv_node **failed);
void ph__host_exec_destroy(ph__drv_exec *exec);
void *ph__host_exec_native(ph__drv_exec *exec);
void ph__host_exec_memory(ph__drv_memory *out, ph__drv_exec *exec);
void ph__host_exec_tools_id(uint64_t *out, ph__drv_exec *exec, ph__drv_node *node);
int ph__host_exec_upload(ph__drv_exec *exec, ph__drv_stream *stream);
int ph__host_exec_launch(ph__drv_exec *exec, ph__drv_stream *stream);
int ph__host_exec_update(ph__drv_exec *exec, ph__drv_graph *graph, ph__drv_update *out);
int ph__host_exec_set_kernel(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_launch *launch);
int ph__host_exec_set_args(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_launch *launch,
                           size_t args_size);
int ph__host_exec_set_copy(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_memcpy *copy);
int ph__host_exec_set_fill(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_memset *fill);
int ph__host_exec_set_host(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_host *host);
int ph__host_exec_set_enabled(ph__drv_exec *exec, ph__drv_node *node, bool enabled);
int ph__host_exec_get_enabled(bool *out, ph__drv_exec *exec, ph__drv_node *node);
int ph__host_profile_open(ph__drv_profile **out, ph__drv_exec *exec, ph_profile_source *source);
int ph__host_profile_read(const ph__drv_span **spans, size_t *count, ph__drv_profile *profile);
void ph__host_profile_close(ph__drv_profile *profile);
#endif
