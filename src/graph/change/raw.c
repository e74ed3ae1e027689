/* SPDX-License-Identifier: MIT */
/* graph/change/raw.c: the driver's own handles. */
#include "graph/change/edited.h"
#include "graph/object/graph.h"
#include <phonograph/cuda.h>

static ph_status raw(void **out, ph_graph *graph, bool exec, ph__graph_call which)
{
    if (out == NULL)
        return ph__fail_null(ph__graph_calls[which].name, "out");
    *out = NULL;
    PH_TRY(ph__graph_check(graph, which));
    const ph__driver *driver = graph->device->driver;
    if (!exec)
        PH_TRY(ph__edit_expect(graph, ph__graph_calls[which].name));
    *out = exec ? driver->exec_native(graph->exec) : driver->graph_native(graph->template);
    return PH_OK;
}

ph_status ph_graph_raw(void **out, ph_graph *graph)
{
    return raw(out, graph, false, PH__CALL_RAW);
}

ph_status ph_graph_raw_exec(void **out, ph_graph *graph)
{
    return raw(out, graph, true, PH__CALL_RAW_EXEC);
}

/* Typed handles mean something for the driver alone whose types they are. */
static ph_status of_cuda(const ph_device *device, const char *call)
{
    if (device->driver->stream_native)
        return PH_OK;
    return ph_fail(PH_ERROR_UNSUPPORTED,
                   "%s: the %s device has no handles of CUDA; ph_graph_raw gives its own", call,
                   device->driver->name);
}

ph_status ph_graph_cuda(struct CUgraph_st **out, ph_graph *graph)
{
    void *handle;
    if (out == NULL)
        return ph__fail_null("ph_graph_cuda", "out");
    *out = NULL;
    PH_TRY(raw(&handle, graph, false, PH__CALL_CUDA));
    PH_TRY(of_cuda(graph->device, "ph_graph_cuda"));
    *out = handle;
    return PH_OK;
}

ph_status ph_graph_exec_cuda(struct CUgraphExec_st **out, ph_graph *graph)
{
    void *handle;
    if (out == NULL)
        return ph__fail_null("ph_graph_exec_cuda", "out");
    *out = NULL;
    PH_TRY(raw(&handle, graph, true, PH__CALL_EXEC_CUDA));
    PH_TRY(of_cuda(graph->device, "ph_graph_exec_cuda"));
    *out = handle;
    return PH_OK;
}
