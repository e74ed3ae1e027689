/* SPDX-License-Identifier: MIT */
/* driver/entries.h: the entries of driver.h that can fail, for tables that stand in front of a
 * driver's, or in its place. */
#ifndef PH_DRIVER_ENTRIES_H
#define PH_DRIVER_ENTRIES_H
#include "driver/driver.h"

/* Every entry that can fail, as X(slot, name, parameters, arguments). Those that cannot fail pass
 * through, and thread_exchange_mode: always legal, it stands around other calls, whose words it
 * must leave. */
#define PH__DRIVER_ENTRIES(X, s)                                                                   \
    X(s, device_open, (ph__drv_device * *a, uint32_t b, const ph__drv_device_options *c),          \
      (a, b, c))                                                                                   \
    X(s, device_info, (ph__drv_device_info * a, ph__drv_device * b), (a, b))                       \
    X(s, device_synchronize, (ph__drv_device * a), (a))                                            \
    X(s, context_push, (ph__drv_device * a), (a))                                                  \
    X(s, stream_create, (ph__drv_stream * *a, ph__drv_device * b, int c, int d), (a, b, c, d))     \
    X(s, stream_wait, (ph__drv_stream * a), (a))                                                   \
    X(s, stream_synchronize, (ph__drv_stream * a), (a))                                            \
    X(s, stream_query, (ph__drv_stream * a), (a))                                                  \
    X(s, stream_wait_event, (ph__drv_stream * a, ph__drv_event * b, int c), (a, b, c))             \
    X(s, stream_wrap, (ph__drv_stream * *a, ph__drv_device * b, void *c, int *d, int *e),          \
      (a, b, c, d, e))                                                                             \
    X(s, stream_ordinal, (uint32_t * a, void *b), (a, b))                                          \
    X(s, event_create, (ph__drv_event * *a, ph__drv_device * b, int c), (a, b, c))                 \
    X(s, event_record, (ph__drv_event * a, ph__drv_stream * b, int c), (a, b, c))                  \
    X(s, event_query, (ph__drv_event * a), (a))                                                    \
    X(s, event_synchronize, (ph__drv_event * a), (a))                                              \
    X(s, event_elapsed, (float *a, ph__drv_event *b, ph__drv_event *c), (a, b, c))                 \
    X(s, segment_create, (void **a, ph__drv_device *b, size_t c), (a, b, c))                       \
    X(s, plain_alloc, (void **a, ph__drv_device *b, size_t c), (a, b, c))                          \
    X(s, pinned_alloc, (void **a, ph__drv_device *b, size_t c), (a, b, c))                         \
    X(s, pointer_info, (ph__drv_pointer * a, ph__drv_device * b, const void *c), (a, b, c))        \
    X(s, pointer_mapped, (uintptr_t * a, size_t * b, ph__drv_device * c, const void *d),           \
      (a, b, c, d))                                                                                \
    X(s, kernel_create, (ph__drv_kernel * *a, ph__drv_device * b, const ph_kernel_source *c),      \
      (a, b, c))                                                                                   \
    X(s, kernel_wrap,                                                                              \
      (ph__drv_kernel * *a, ph__drv_device * b, void *c, size_t *d, const char **e),               \
      (a, b, c, d, e))                                                                             \
    X(s, kernel_cells, (ph__drv_kernel * *a, ph__drv_device * b, unsigned c), (a, b, c))           \
    X(s, kernel_watch, (ph__drv_kernel * *a, ph__drv_device * b, ph__watch_kernel c), (a, b, c))   \
    X(s, launch, (ph__drv_stream * a, ph__drv_kernel * b, const ph__drv_launch *c), (a, b, c))     \
    X(s, copy, (ph__drv_stream * a, const ph__drv_memcpy *b, uint64_t *c), (a, b, c))              \
    X(s, fill, (ph__drv_stream * a, const ph__drv_memset *b), (a, b))                              \
    X(s, host, (ph__drv_stream * a, const ph__drv_host *b), (a, b))                                \
    X(s, copy_sync, (ph__drv_device * a, const ph__drv_memcpy *b), (a, b))                         \
    X(s, child, (ph__drv_stream * a, ph__drv_graph * b), (a, b))                                   \
    X(s, capture_root,                                                                             \
      (ph__drv_node * *a, ph__drv_stream * b, ph__drv_kernel * c, const ph__drv_launch *d),        \
      (a, b, c, d))                                                                                \
    X(s, capture_depend, (ph__drv_stream * a, ph__drv_node * b), (a, b))                           \
    X(s, capture_begin, (ph__drv_stream * a, ph_capture_mode b), (a, b))                           \
    X(s, capture_end, (ph__drv_graph * *a, ph__drv_stream * b), (a, b))                            \
    X(s, capture_get, (ph__drv_capture * a, ph__drv_stream * b), (a, b))                           \
    X(s, capture_id, (uint64_t * a, ph__drv_stream * b), (a, b))                                   \
    X(s, capture_position, (uint64_t * a, ph__drv_stream * b), (a, b))                             \
    X(s, graph_import, (ph__drv_graph * *a, ph__drv_device * b, void *c), (a, b, c))               \
    X(s, graph_nodes, (ph__drv_node *const **a, size_t *b, ph__drv_graph *c), (a, b, c))           \
    X(s, graph_lower, (ph__drv_graph * a), (a))                                                    \
    X(s, graph_look_again, (ph__drv_graph * *a, ph__drv_graph * b), (a, b))                        \
    X(s, node_info, (ph__drv_node_info * a, ph__drv_node * b), (a, b))                             \
    X(s, instantiate, (ph__drv_exec * *a, ph__drv_graph * b, int c, ph__drv_node **d),             \
      (a, b, c, d))                                                                                \
    X(s, exec_upload, (ph__drv_exec * a, ph__drv_stream * b), (a, b))                              \
    X(s, exec_launch, (ph__drv_exec * a, ph__drv_stream * b), (a, b))                              \
    X(s, exec_update, (ph__drv_exec * a, ph__drv_graph * b, ph__drv_update * c), (a, b, c))        \
    X(s, exec_set_kernel, (ph__drv_exec * a, ph__drv_node * b, const ph__drv_launch *c),           \
      (a, b, c))                                                                                   \
    X(s, exec_set_args, (ph__drv_exec * a, ph__drv_node * b, const ph__drv_launch *c, size_t d),   \
      (a, b, c, d))                                                                                \
    X(s, exec_set_copy, (ph__drv_exec * a, ph__drv_node * b, const ph__drv_memcpy *c), (a, b, c))  \
    X(s, exec_set_fill, (ph__drv_exec * a, ph__drv_node * b, const ph__drv_memset *c), (a, b, c))  \
    X(s, exec_set_host, (ph__drv_exec * a, ph__drv_node * b, const ph__drv_host *c), (a, b, c))    \
    X(s, exec_set_enabled, (ph__drv_exec * a, ph__drv_node * b, bool c), (a, b, c))                \
    X(s, exec_get_enabled, (bool *a, ph__drv_exec *b, ph__drv_node *c), (a, b, c))                 \
    X(s, profile_open, (ph__drv_profile * *a, ph__drv_exec * b, ph_profile_source * c), (a, b, c)) \
    X(s, profile_read, (const ph__drv_span **a, size_t *b, ph__drv_profile *c), (a, b, c))

/* Entries that free do so and then answer the number: CUDA's report errors of earlier work so. */
#define PH__DRIVER_FREES(X, s)                                                                     \
    X(s, plain_free, (ph__drv_device * a, void *b), (a, b))                                        \
    X(s, pinned_free, (ph__drv_device * a, void *b), (a, b))
#endif
