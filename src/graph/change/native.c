/* SPDX-License-Identifier: MIT */
/* graph/change/native.c: the driver's own handles. */
#include "graph/change/edited.h"
#include "graph/object/graph.h"
#include <phonograph/cuda.h>
#include <phonograph/host.h>

/* A handle means something for the driver alone whose type it has. */
static ph_status check_type(const ph_device *device, bool of_cuda, const char *call)
{
    const bool has_cuda = device->driver->stream_native != NULL;
    if (has_cuda == of_cuda)
        return PH_OK;
    if (of_cuda)
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: the %s device has no handles of CUDA; ph_graph_host and "
                       "ph_graph_exec_host give its own",
                       call, device->driver->name);
    return ph_fail(PH_ERROR_UNSUPPORTED,
                   "%s: the %s device has no handles of the host device; ph_graph_cuda and "
                   "ph_graph_exec_cuda give its own",
                   call, device->driver->name);
}

static ph_status give_template(void **out, ph_graph *graph, bool of_cuda, ph__graph_call which)
{
    const char *call = ph__graph_calls[which].name;
    PH_TRY(ph__graph_check(graph, which));
    PH_TRY(check_type(graph->device, of_cuda, call));
    PH_TRY(ph__edit_expect(graph, call));
    *out = graph->device->driver->graph_native(graph->template);
    return PH_OK;
}

static ph_status give_exec(void **out, ph_graph *graph, bool of_cuda, ph__graph_call which)
{
    PH_TRY(ph__graph_check(graph, which));
    PH_TRY(check_type(graph->device, of_cuda, ph__graph_calls[which].name));
    *out = graph->device->driver->exec_native(graph->exec);
    return PH_OK;
}

ph_status ph_graph_cuda(struct CUgraph_st **out, ph_graph *graph)
{
    void *handle = NULL;
    if (out == NULL)
        return ph__fail_null("ph_graph_cuda", "out");
    ph_status status = give_template(&handle, graph, true, PH__CALL_CUDA);
    *out = handle;
    return status;
}

ph_status ph_graph_exec_cuda(struct CUgraphExec_st **out, ph_graph *graph)
{
    void *handle = NULL;
    if (out == NULL)
        return ph__fail_null("ph_graph_exec_cuda", "out");
    ph_status status = give_exec(&handle, graph, true, PH__CALL_EXEC_CUDA);
    *out = handle;
    return status;
}

ph_status ph_graph_host(ph_host_graph **out, ph_graph *graph)
{
    void *handle = NULL;
    if (out == NULL)
        return ph__fail_null("ph_graph_host", "out");
    ph_status status = give_template(&handle, graph, false, PH__CALL_HOST);
    *out = handle;
    return status;
}

ph_status ph_graph_exec_host(ph_host_exec **out, ph_graph *graph)
{
    void *handle = NULL;
    if (out == NULL)
        return ph__fail_null("ph_graph_exec_host", "out");
    ph_status status = give_exec(&handle, graph, false, PH__CALL_EXEC_HOST);
    *out = handle;
    return status;
}
