/* SPDX-License-Identifier: MIT */
/* comm/work/submit.c: collectives go to a stream, behind those before them. */
#include "comm/work/submit.h"
#include "comm/object/broken.h"
#include "comm/object/mixing.h"
#include "comm/pool/source.h"
#include "comm/work/captured.h"
#include "comm/work/on_gpu.h"
#include "comm/work/order.h"
#include <phonograph/kernel.h>

static ph_status launch_one(ph_comm *comm, ph_stream *stream, const ph__collective_args *args,
                            const char *call)
{
    ph_kernel *kernel;
    PH_TRY(ph__comm_kernel(&kernel, comm, args, call));
    return ph_launch(stream, kernel, NULL, args, sizeof *args);
}

/* Some of them are submitted, and others not. */
static ph_status fail_middle(ph_comm *comm, size_t done, ph_status status, const char *call)
{
    ph_error why;
    if (done == 0)
        return status;
    ph__error_save(&why);
    return ph__comm_break(comm, status, "%s: only %zu parts were submitted: %.200s", call, done,
                          why.message);
}

static ph_status submit_eagerly(ph_comm *comm, ph_stream *stream, ph__collective_args *args,
                                size_t count, const char *call)
{
    PH_TRY(ph__mixing_check(comm, call));
    PH_TRY(ph__order_wait(comm, stream));
    if (comm->gpu) {
        PH_TRY(ph__on_gpu_submit(comm, stream, args, count, call));
        return ph__order_note(comm, stream);
    }
    for (size_t i = 0; i < count; i++) {
        atomic_fetch_add(&comm->work->submitted, 1);
        ph_status status = launch_one(comm, stream, &args[i], call);
        if (status != PH_OK) {
            atomic_fetch_sub(&comm->work->submitted, 1);
            return fail_middle(comm, i, status, call);
        }
    }
    return ph__order_note(comm, stream);
}

static ph_status launch_all(ph_comm *comm, ph_stream *stream, const ph__collective_args *args,
                            size_t count, const char *call)
{
    for (size_t i = 0; i < count; i++) {
        ph_status status = launch_one(comm, stream, &args[i], call);
        if (status != PH_OK)
            return fail_middle(comm, i, status, call);
    }
    return PH_OK;
}

/* Registered memory that a graph gives to the other ranks has no other owner while that lives. */
static ph_status hold_registered(ph_comm *comm, ph_graph *graph, const void *memory)
{
    return memory && ph__sources_have(comm, memory) ? ph_graph_hold_memory(graph, memory) : PH_OK;
}

static ph_status hold_all(ph_comm *comm, ph_graph *graph, const ph__collective_args *args,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        PH_TRY(hold_registered(comm, graph, args[i].send));
        PH_TRY(hold_registered(comm, graph, args[i].receive));
    }
    return PH_OK;
}

/* Behind the last one of the capture, whatever communicator that is of: workers that wait for other
 * ranks never wait for each other. */
static ph_status capture_all(ph__captured *captured, ph__captured_of *of, ph_stream *stream,
                             ph__collective_args *args, size_t count, const char *call)
{
    if (!ph__vec_reserve(&of->list, count))
        return ph__fail_host_memory(call, "the collectives of the capture");
    if (captured->last_stream && captured->last_stream != stream->id)
        PH_TRY(ph_stream_wait_event(stream, captured->last));
    for (size_t i = 0; i < count; i++) {
        args[i].operation.index = (uint32_t)(of->list.count + i);
        args[i].flags |= PH__OF_GRAPH;
    }
    PH_TRY(of->comm->gpu ? ph__on_gpu_submit(of->comm, stream, args, count, call)
                         : launch_all(of->comm, stream, args, count, call));
    for (size_t i = 0; i < count; i++)
        ph__captured_add(of, &args[i].operation);
    captured->last_stream = stream->id;
    return ph_event_record(captured->last, stream);
}

ph_status ph__collectives_hold(ph_comm *comm, ph_stream *stream, const ph__collective_args *args,
                               size_t count)
{
    ph_graph *graph;
    PH_TRY(ph_stream_capturing_graph(&graph, stream));
    return graph ? hold_all(comm, graph, args, count) : PH_OK;
}

ph_status ph__collectives_submit(ph_comm *comm, ph_stream *stream, ph__collective_args *args,
                                 size_t count, const char *call)
{
    ph_graph *graph;
    ph__captured *captured;
    size_t index;
    PH_TRY(ph_stream_capturing_graph(&graph, stream));
    if (graph == NULL && ph_stream_is_capturing(stream))
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: the stream is in a capture that this library did not begin, and nobody "
                       "would agree with the other ranks before its replays; capture with "
                       "ph_graph_capture",
                       call);
    if (graph == NULL)
        return submit_eagerly(comm, stream, args, count, call);
    PH_TRY(hold_all(comm, graph, args, count));
    PH_TRY(ph__captured_need(&captured, &index, graph, comm, call));
    return capture_all(captured, &captured->of.at[index], stream, args, count, call);
}
