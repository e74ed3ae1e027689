/* SPDX-License-Identifier: MIT */
/* inspect/verify/verify.c: ph_graph_verify: whether a replay does what an eager run does. */
#include "base/alloc.h"
#include "base/line.h"
#include "base/option.h"
#include "base/unwind.h"
#include "device/capture/capture.h"
#include "graph/inputs/liveness.h"
#include "graph/lifecycle/graph.h"
#include "inspect/verify/blocks.h"
#include "inspect/verify/collect.h"
#include "inspect/verify/compare.h"
#include "inspect/verify/find.h"
#include "inspect/verify/held.h"
#include "inspect/verify/memory.h"
#include "inspect/verify/run.h"
#include "inspect/verify/say.h"
#include "memory/alloc/replay_run.h"
#include "memory/observe/lookup.h"
#include "record/foreign.h"
#include <math.h>
#include <string.h>

static const char call[] = "ph_graph_verify";

/* ---- what is asked ---- */
static ph_status check_nodes(const ph_graph *graph, const char *which)
{
    for (size_t i = 0; i < graph->record->node_count; i++) {
        ph_node_kind kind = graph->record->nodes[i].info.kind;
        if (kind == PH_NODE_GRAPH || kind > PH_NODE_EVENT_RECORD)
            return ph_fail(PH_ERROR_UNSUPPORTED,
                           "%s: node %zu of %s is a %s node, which cannot be run in parts; verify "
                           "graphs without "
                           "such nodes",
                           call, i, which, ph_node_kind_name(kind));
    }
    return PH_OK;
}

static const char *name_of(const ph_verify_output *output)
{
    return output->name ? output->name : "no name";
}

static ph_status check_output(const ph_verify_output *output, size_t index)
{
    if ((unsigned)output->type > PH_NUMBER_BF16)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: output %zu has type %d, which is none (ph_number_type)", call, index,
                       (int)output->type);
    if (output->count == 0)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: output %zu (%s) has a count of 0, so nothing would be compared", call,
                       index, name_of(output));
    if ((uintptr_t)output->address % ph__number_size(output->type) != 0)
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: output %zu (%s) is at %p, which is no multiple of %zu, the size of the numbers",
            call, index, name_of(output), output->address, ph__number_size(output->type));
    return PH_OK;
}

static ph_status check_options(const ph_verify_options *options)
{
    if (!PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_verify_options");
    if (options->output_count && options->outputs == NULL)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: output_count is %zu, but outputs is NULL; set both, or neither to "
                       "compare every byte",
                       call, options->output_count);
    if (options->output_count == 0 && options->outputs)
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: outputs is set, but output_count is 0; set both, or neither to compare every byte",
            call);
    if (!(options->relative >= 0) || !(options->absolute >= 0))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: tolerances are numbers of at least 0, not %g and %g",
                       call, options->relative, options->absolute);
    if (options->output_count == 0 && (options->relative > 0 || options->absolute > 0))
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: a tolerance is of outputs, and there are none; without them every byte "
                       "is compared",
                       call);
    for (size_t i = 0; i < options->output_count; i++)
        PH_TRY(check_output(&options->outputs[i], i));
    return PH_OK;
}

static ph_status check_verify(ph_graph *graph, ph_stream *stream, ph_capture_fn body,
                              const ph_verify_options *options)
{
    PH_TRY(ph__graph_check(graph, PH__CALL_VERIFY));
    PH_TRY(ph__stream_check(stream, call));
    if (stream->device != graph->device)
        return ph__fail_devices(call, "the graph", graph->device, "the stream", stream->device);
    if (body == NULL)
        return ph__fail_null(call, "body");
    PH_TRY(check_options(options));
    if (stream->is_default)
        return ph__fail_native(
            PH_ERROR_DEFAULT_STREAM, PH__R_CAPTURE_UNSUPPORTED, PH__NAME_STREAM_BEGIN_CAPTURE,
            "%s: body is captured again, which the legacy default stream cannot be; make one with "
            "ph_stream_create",
            call);
    PH_TRY(ph__capture_check_free(stream, call));
    PH_TRY(check_nodes(graph, "the graph"));
    return ph__verify_layout(graph)->lost
               ? ph__fail_host_memory(
                     call, "the layout of the capture, when that was made; capture again")
               : PH_OK;
}

/* Memory that is not compared: whose it is, and why not. */
static ph_status fail_unknown(const ph__verify *verify, const ph_verify_output *output,
                              size_t index)
{
    ph_device *device = verify->graph->device;
    ph__drv_pointer where = {0};
    char why[160];
    if (!ph__memory_is_reserved(device, output->address) &&
        verify->driver->pointer_info(&where, device->handle, output->address) != PH__R_OK)
        where.kind = PH__MEMORY_PAGEABLE;
    if (ph__memory_is_reserved(device, output->address))
        ph__line_format(why, sizeof why, "is no memory that the graph was given or addresses");
    else if (where.kind == PH__MEMORY_PAGEABLE)
        ph__line_format(why, sizeof why,
                        "is memory that neither this library nor the driver knows");
    else
        ph__line_format(why, sizeof why, "lies in %zu bytes of other code's, which %s", where.size,
                        ph__ranges_find(&verify->foreign, (uintptr_t)output->address) == NULL
                            ? "no parameter of the graph's nodes addresses"
                        : verify->options->skip_foreign
                            ? "ph_verify_options.skip_foreign leaves out"
                            : "the driver does not copy as a whole");
    return ph_fail(PH_ERROR_ARGUMENT, "%s: output %zu (%s), %zu numbers at %p, %s", call, index,
                   name_of(output), output->count, output->address, why);
}

/* Once it is known what memory there is. */
static ph_status check_outputs(const ph__verify *verify)
{
    for (size_t i = 0; i < verify->options->output_count; i++) {
        const ph_verify_output *output = &verify->options->outputs[i];
        const ph__kept *kept = ph__verify_find_kept(verify, (uintptr_t)output->address);
        size_t room = kept ? kept->base + kept->bytes - (uintptr_t)output->address : 0;
        const char *name = name_of(output);
        if (kept == NULL || !kept->compared)
            return fail_unknown(verify, output, i);
        if (output->count > room / ph__number_size(output->type))
            return ph_fail(
                PH_ERROR_ARGUMENT,
                "%s: output %zu (%s), %zu numbers of %zu bytes at %p, is longer than the %zu bytes "
                "that there are; count is of numbers",
                call, i, name, output->count, ph__number_size(output->type), output->address, room);
    }
    return PH_OK;
}

/* ---- outputs that replays had written stay theirs ---- */
static ph_status save_epochs(ph__verify *verify)
{
    ph_graph *graph = verify->graph;
    verify->lasts = ph__calloc(graph->pools.count + 1, sizeof *verify->lasts);
    if (verify->lasts == NULL)
        return ph__fail_host_memory(call, "the epochs");
    verify->epoch = graph->epoch;
    for (size_t i = 0; i < graph->pools.count; i++)
        verify->lasts[i] = atomic_load(&graph->pools.at[i]->last);
    return PH_OK;
}

static void restore_epochs(ph__verify *verify)
{
    ph_graph *graph = verify->graph;
    for (size_t i = 0; verify->lasts && i < graph->pools.count; i++)
        atomic_store(&graph->pools.at[i]->last, verify->lasts[i]);
    if (verify->lasts)
        graph->epoch = verify->epoch;
}

/* ---- the call ---- */
/* Before the first run: nothing on the device has changed. */
static ph_status set_up(ph__verify *verify)
{
    ph_graph *graph = verify->graph;
    if (graph->exec == NULL)
        PH_TRY(ph_graph_instantiate(graph));
    PH_TRY(ph__graph_check_live(graph, PH__LIVE_FOREIGN, call));
    PH_TRY(ph_device_synchronize(graph->device));
    PH_TRY(save_epochs(verify));
    PH_TRY(ph__record_find_foreign(graph->record, graph->device, call));
    if (!graph->changed && !graph->slots) /* which are not in the record */
        PH_TRY(ph__races_find(&verify->races, graph->record, call));
    PH_TRY(ph__verify_collect(verify, graph, true));
    PH_TRY(ph__verify_keep(verify));
    PH_TRY(check_outputs(verify));
    if (!ph__block_index_make(&verify->blocks, ph__verify_layout(graph)))
        return ph__fail_host_memory(call, "the blocks of the capture");
    PH_TRY(ph_pool_create(&verify->pool, graph->device, NULL));
    bool updated = graph->updated_pool != NULL;
    return ph__replay_allocator_begin(
        &verify->replay_allocator, verify->pool, updated ? graph->updated_pool : graph->own->pool,
        ph__verify_layout(graph), updated ? graph->updated_stream : graph->capture_stream,
        verify->stream->id, call);
}

/* The capture of body shows the memory that body would write now. A certain race needs no run. */
static ph_status run_verify(ph__verify *verify)
{
    if (verify->races && verify->races->certain) {
        ph__verify_say_certain(verify, &verify->races->list.at[0]);
        return PH_OK;
    }
    PH_TRY(ph__verify_capture(verify));
    PH_TRY(check_nodes(verify->second, "a new capture of body"));
    PH_TRY(ph__record_find_foreign(verify->second->record, verify->graph->device, call));
    PH_TRY(ph__verify_collect(verify, verify->second, true));
    PH_TRY(ph__verify_keep(verify));
    PH_TRY(ph__verify_make_images(verify));
    return ph__verify_judge(verify);
}

/* All of it, whatever fails; body may have work in flight. The second capture goes first: its
 * graph has the memory, too. */
static ph_status put_back(ph__verify *verify)
{
    ph_status status = ph_device_synchronize(verify->graph->device);
    ph__verify_swap_held(verify, false);
    ph_status written = ph__verify_write(verify, PH__POISON_NONE);
    ph_status switched = ph__switches_restore(&verify->switches, call);
    restore_epochs(verify);
    return status != PH_OK ? status : written != PH_OK ? written : switched;
}

/* false: what body left is not live. */
static bool clean_up(ph__verify *verify)
{
    ph_graph_destroy(verify->second);
    bool all_freed = ph__replay_allocator_end(verify->replay_allocator);
    ph_pool_release(verify->pool);
    ph_races_destroy(verify->races);
    ph__switches_free(&verify->switches);
    ph__switches_free(&verify->second_switches);
    ph__free(verify->start.bytes);
    ph__free(verify->eager.bytes);
    ph__free(verify->replay.bytes);
    ph__free(verify->other.bytes);
    ph__free(verify->chunk);
    ph__free(verify->lasts);
    ph__block_index_free(&verify->blocks);
    ph__vec_free(&verify->kept);
    ph__ranges_free(&verify->places);
    ph__ranges_free(&verify->foreign);
    return all_freed;
}

static ph_status finish_verify(ph__verify *verify, ph_status status)
{
    ph_error failure;
    ph__error_save(&failure);
    ph_status back = put_back(verify);
    if (back != PH_OK)
        ph__error_prefix("%s: what the graph uses could not be put back", call);
    if (back == PH_OK || status != PH_OK)
        ph__error_restore(&failure);
    if (back != PH_OK && status != PH_OK)
        ph__error_suffix("; and not all of the memory could be put back");
    ph__error_save(&failure);
    bool all_freed = clean_up(verify);
    ph__error_restore(&failure);
    if (status == PH_OK && back == PH_OK && !all_freed)
        return ph__fail_host_memory(call, "what body left allocated, which is not live");
    return status != PH_OK ? status : back;
}

/* A function of the user's did not return: all that was there before is put back. */
static void abandon_verify(void *what)
{
    ph__verify *verify = what;
    ph_graph *graph = verify->graph;
    ph_error saved;
    ph__error_save(&saved);
    ph_ignore(finish_verify(verify, PH_ERROR_CALLER));
    memset(verify->out, 0, sizeof *verify->out);
    verify->out->node = SIZE_MAX;
    ph__graph_leave(graph);
    ph__error_restore(&saved);
}

ph_status ph_graph_verify(ph_verify_result *out, ph_graph *graph, ph_stream *stream,
                          ph_capture_fn body, void *user, const ph_verify_options *options)
{
    static const ph_verify_options defaults;
    if (out == NULL)
        return ph__fail_null(call, "out");
    memset(out, 0, sizeof *out);
    out->node = SIZE_MAX;
    ph_verify_options given = options ? *options : defaults;
    given.relative = ph__option_real(given.relative, 0);
    given.absolute = ph__option_real(given.absolute, 0);
    options = &given;
    PH_TRY(check_verify(graph, stream, body, options));
    ph__verify verify = {.graph = graph,
                         .stream = stream,
                         .body = body,
                         .user = user,
                         .options = options,
                         .out = out,
                         .call = call,
                         .driver = graph->device->driver,
                         .prepared = graph->cells == NULL || options->prepare};
    PH__UNWIND unwind = {abandon_verify, &verify};
    ph_status status = set_up(&verify);
    if (status == PH_OK)
        status = run_verify(&verify);
    unwind.undo = NULL;
    status = finish_verify(&verify, status);
    if (status != PH_OK) {
        memset(out, 0, sizeof *out);
        out->node = SIZE_MAX;
    }
    ph__graph_leave(graph);
    return status;
}
