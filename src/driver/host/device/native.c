/* SPDX-License-Identifier: MIT */
/* driver/host/device/native.c: handles from and for outside: the host device has none but its
 * own. */
#include "driver/host/stream/entries.h"

static int fail_no_native(const char *what)
{
    ph__driver_set_reason("the host device knows no %s but those that it made itself", what);
    return PH__R_NOT_SUPPORTED;
}

int ph__host_stream_wrap(ph__drv_stream **out, ph__drv_device *device, void *native, int *priority,
                         int *flags)
{
    (void)out;
    (void)device;
    (void)native;
    (void)priority;
    (void)flags;
    return fail_no_native("streams");
}

int ph__host_stream_ordinal(uint32_t *ordinal, void *native)
{
    (void)ordinal;
    (void)native;
    return fail_no_native("streams");
}

int ph__host_kernel_wrap(ph__drv_kernel **out, ph__drv_device *device, void *native,
                         size_t *args_size, const char **name)
{
    (void)out;
    (void)device;
    (void)native;
    (void)args_size;
    (void)name;
    return fail_no_native("functions");
}

int ph__host_context_push(ph__drv_device *device)
{
    (void)device;
    ph__driver_set_reason("the host device has no context");
    return PH__R_NOT_SUPPORTED;
}

void ph__host_context_pop(ph__drv_device *device)
{
    (void)device;
}

int ph__host_graph_import(ph__drv_graph **out, ph__drv_device *device, void *native)
{
    (void)out;
    (void)device;
    (void)native;
    return fail_no_native("graphs");
}

int ph__host_exec_view(ph__drv_exec **out, ph__drv_graph *graph, void *native)
{
    (void)out;
    (void)graph;
    (void)native;
    return fail_no_native("executables");
}

/* The handle that phonograph/host.h reads. */
void *ph__host_graph_native(ph__drv_graph *graph)
{
    return graph;
}

void *ph__host_exec_native(ph__drv_exec *exec)
{
    return exec;
}
