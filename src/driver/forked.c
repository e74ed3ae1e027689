/* SPDX-License-Identifier: MIT */
/* driver/forked.c: what stands in a driver's place for devices of the process that this one was
 * forked from: their threads, and a GPU's context, are not here. Every call fails at once, and what
 * destroys does nothing: the child's copy of the memory goes with the child. */
#include "driver/entries.h"

/* The parameters are those of the list. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

const char ph__driver_forked_words[] =
    "the device was opened before fork(), by the parent process, and cannot be used in the child: "
    "open one "
    "here (on a "
    "GPU that takes a new program, or a fork before the first device is opened)";

static int refuse(void)
{
    ph__driver_set_reason("%s", ph__driver_forked_words);
    return PH__R_ILLEGAL_STATE;
}

#define REFUSE(s, name, parameters, arguments)                                                     \
    static int name parameters                                                                     \
    {                                                                                              \
        return refuse();                                                                           \
    }
#define PUT(s, name, parameters, arguments) .name = name,
PH__DRIVER_ENTRIES(REFUSE, )
PH__DRIVER_FREES(REFUSE, )

static void describe(char version[48], uint32_t *device_count, char reason[256])
{
    version[0] = reason[0] = '\0';
    *device_count = 0;
}

static int thread_exchange_mode(ph__drv_device *device, ph_capture_mode *mode)
{
    return PH__R_OK;
}

static void leave_device(ph__drv_device *device)
{
}
static void leave_stream(ph__drv_stream *stream)
{
}
static void leave_event(ph__drv_event *event)
{
}
static void leave_segment(ph__drv_device *device, void *address, size_t bytes)
{
}
static void leave_kernel(ph__drv_kernel *kernel)
{
}
static void leave_graph(ph__drv_graph *graph)
{
}
static void leave_exec(ph__drv_exec *exec)
{
}
static void leave_profile(ph__drv_profile *profile)
{
}

static ph__drv_stream *stream_default(ph__drv_device *device)
{
    return NULL;
}

static void graph_hand_over(ph__drv_graph *to, ph__drv_graph *from)
{
}

static const void *node_native(const ph__drv_node *node)
{
    return NULL;
}

static void *graph_native(ph__drv_graph *graph)
{
    return NULL;
}

static size_t graph_host_bytes(ph__drv_graph *graph)
{
    return 0;
}

static size_t graph_position(ph__drv_graph *graph, uint64_t position)
{
    return 0;
}

static void *exec_native(ph__drv_exec *exec)
{
    return NULL;
}

static void exec_memory(ph__drv_memory *out, ph__drv_exec *exec)
{
    *out = (ph__drv_memory){0};
}

static void exec_tools_id(uint64_t *out, ph__drv_exec *exec, ph__drv_node *node)
{
    *out = 0;
}

const ph__driver ph__driver_forked = {
    PH__DRIVER_ENTRIES(PUT, ) PH__DRIVER_FREES(PUT, ).name = "forked",
    .describe = describe,
    .device_close = leave_device,
    .thread_exchange_mode = thread_exchange_mode,
    .context_pop = leave_device,
    .stream_default = stream_default,
    .stream_destroy = leave_stream,
    .event_destroy = leave_event,
    .segment_destroy = leave_segment,
    .kernel_destroy = leave_kernel,
    .kernel_keep = leave_kernel,
    .capture_drop = leave_stream,
    .graph_destroy = leave_graph,
    .graph_disown = leave_graph,
    .graph_native = graph_native,
    .graph_hand_over = graph_hand_over,
    .node_native = node_native,
    .graph_host_bytes = graph_host_bytes,
    .graph_position = graph_position,
    .exec_destroy = leave_exec,
    .exec_native = exec_native,
    .exec_memory = exec_memory,
    .exec_tools_id = exec_tools_id,
    .profile_close = leave_profile,
};
