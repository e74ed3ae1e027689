/* SPDX-License-Identifier: MIT */
/* driver/forked.c: what stands in a driver's place for devices of the process that this one was
 * forked from: their threads, and a GPU's context, are not here. Every call fails at once, and what
 * destroys does nothing: the child's copy of the memory goes with the child. */
#include "driver/forked.h"

/* The parameters are those of the list. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

const char ph__driver_forked_words[] =
    "the device was opened before fork(), by the parent process, and cannot be used in the child: "
    "open one "
    "here (on a "
    "GPU that takes a new program, or a fork before the first device is opened)";

static int refuse_in_child(void)
{
    ph__driver_set_reason("%s", ph__driver_forked_words);
    return PH__R_ILLEGAL_STATE;
}

#define PH__FALLIBLE(name, parameters, arguments)                                                  \
    static int name parameters                                                                     \
    {                                                                                              \
        return refuse_in_child();                                                                  \
    }
#define PH__ENTRY(type, name, parameters)
#include "driver/driver.def"

static void describe(char version[48], uint32_t *device_count, char reason[256])
{
    version[0] = reason[0] = '\0';
    *device_count = 0;
}

static int thread_exchange_mode(ph__drv_device *device, ph_capture_mode *mode)
{
    return PH__R_OK;
}

static void device_close(ph__drv_device *device)
{
}
static void device_wait_streams(ph__drv_device *device)
{
}
static void context_pop(ph__drv_device *device)
{
}
static void stream_destroy(ph__drv_stream *stream)
{
}
static void event_destroy(ph__drv_event *event)
{
}
static void segment_destroy(ph__drv_device *device, void *address, size_t bytes)
{
}
static void kernel_destroy(ph__drv_kernel *kernel)
{
}
static void kernel_keep(ph__drv_kernel *kernel)
{
}
static void capture_drop(ph__drv_stream *stream)
{
}
static void graph_destroy(ph__drv_graph *graph)
{
}
static void graph_disown(ph__drv_graph *graph)
{
}
static void exec_destroy(ph__drv_exec *exec)
{
}
static void profile_close(ph__drv_profile *profile)
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

static bool graph_is_own(ph__drv_graph *graph)
{
    return false;
}

static bool graph_has_launches(ph__drv_graph *graph)
{
    return false;
}
static bool node_launch(ph__drv_launch *out, const ph__drv_node *node)
{
    return false;
}

static uint64_t exec_uploads(ph__drv_exec *exec)
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

static void capture_watch(bool begins)
{
}

const ph__driver ph__driver_forked = {
    .name = "forked",
    .capture_watch = capture_watch,
    .graph_disown = graph_disown,
    .graph_hand_over = graph_hand_over,
    .node_native = node_native,
#define PH__ENTRY(type, name, parameters)    .name = name,
#define PH__OPTIONAL(type, name, parameters) /* above; stream_native is NULL */
#include "driver/driver.def"
};
