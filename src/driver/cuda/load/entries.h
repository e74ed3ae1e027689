/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/entries.h: the entries of the driver's table that the CUDA driver has. */
#ifndef PH_DRIVER_CUDA_LOAD_ENTRIES_H
#define PH_DRIVER_CUDA_LOAD_ENTRIES_H
#include "driver/driver.h"

/* driver.h says what each does. */
#define PH__CUDA_ENTRIES(X)                                                                        \
    X(describe)                                                                                    \
    X(device_open)                                                                                 \
    X(device_close)                                                                                \
    X(device_info)                                                                                 \
    X(device_synchronize)                                                                          \
    X(thread_exchange_mode)                                                                        \
    X(context_push)                                                                                \
    X(context_pop)                                                                                 \
    X(kernel_cells)                                                                                \
    X(kernel_watch)                                                                                \
    X(capture_root)                                                                                \
    X(capture_depend)                                                                              \
    X(stream_default)                                                                              \
    X(stream_create)                                                                               \
    X(stream_destroy)                                                                              \
    X(stream_synchronize)                                                                          \
    X(stream_wait)                                                                                 \
    X(stream_query)                                                                                \
    X(stream_wait_event)                                                                           \
    X(stream_wrap)                                                                                 \
    X(stream_ordinal)                                                                              \
    X(stream_native)                                                                               \
    X(event_create)                                                                                \
    X(event_destroy)                                                                               \
    X(event_record)                                                                                \
    X(event_query)                                                                                 \
    X(event_synchronize)                                                                           \
    X(event_elapsed)                                                                               \
    X(segment_create)                                                                              \
    X(segment_destroy)                                                                             \
    X(plain_alloc)                                                                                 \
    X(plain_free)                                                                                  \
    X(pinned_alloc)                                                                                \
    X(pinned_free)                                                                                 \
    X(pointer_info)                                                                                \
    X(pointer_mapped)                                                                              \
    X(kernel_create)                                                                               \
    X(kernel_destroy)                                                                              \
    X(kernel_wrap)                                                                                 \
    X(kernel_keep)                                                                                 \
    X(launch)                                                                                      \
    X(copy)                                                                                        \
    X(fill)                                                                                        \
    X(host)                                                                                        \
    X(copy_sync)                                                                                   \
    X(child)                                                                                       \
    X(capture_begin)                                                                               \
    X(capture_end)                                                                                 \
    X(capture_get)                                                                                 \
    X(capture_id)                                                                                  \
    X(capture_position)                                                                            \
    X(capture_drop)                                                                                \
    X(graph_destroy)                                                                               \
    X(graph_import)                                                                                \
    X(graph_disown)                                                                                \
    X(graph_native)                                                                                \
    X(graph_host_bytes)                                                                            \
    X(graph_position)                                                                              \
    X(graph_lower)                                                                                 \
    X(graph_nodes)                                                                                 \
    X(graph_look_again)                                                                            \
    X(graph_hand_over)                                                                             \
    X(node_native)                                                                                 \
    X(node_info)                                                                                   \
    X(instantiate)                                                                                 \
    X(exec_destroy)                                                                                \
    X(exec_native)                                                                                 \
    X(exec_memory)                                                                                 \
    X(exec_tools_id)                                                                               \
    X(exec_upload)                                                                                 \
    X(exec_launch)                                                                                 \
    X(exec_update)                                                                                 \
    X(exec_set_kernel)                                                                             \
    X(exec_set_args)                                                                               \
    X(exec_set_copy)                                                                               \
    X(exec_set_fill)                                                                               \
    X(exec_set_host)                                                                               \
    X(exec_set_enabled)                                                                            \
    X(exec_get_enabled)                                                                            \
    X(profile_open)                                                                                \
    X(profile_read)                                                                                \
    X(profile_close)
#define PH__CUDA_DECLARE(name) extern __typeof__(*((ph__driver *)0)->name) ph__cuda_##name;
PH__CUDA_ENTRIES(PH__CUDA_DECLARE)
#undef PH__CUDA_DECLARE
#endif
