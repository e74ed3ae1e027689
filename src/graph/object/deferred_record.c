/* SPDX-License-Identifier: MIT */
/* graph/object/deferred_record.c: records that are made when somebody asks for them. */
#include "graph/object/deferred_record.h"
#include "base/alloc.h"
#include "graph/object/annotations.h"
#include "graph/object/kernels.h"
#include "graph/object/segments.h"
#include "record/annotations.h"
#include "record/origin.h"

ph__deferred_record *ph__deferred_record_create(bool *lasting, ph_graph *graph, ph__ranges *capture,
                                                ph__ranges *nested)
{
    ph__deferred_record *deferred = ph__calloc(1, sizeof *deferred);
    if (deferred == NULL)
        return NULL;
    atomic_init(&deferred->holders, 1);
    deferred->device = ph_device_retain(graph->device);
    deferred->template = graph->template;
    deferred->capture = *capture;
    deferred->nested = *nested;
    *capture = *nested = (ph__ranges){0};
    *lasting = deferred->lasting = ph__moment_begin(&deferred->moment, deferred->device);
    return deferred;
}

ph__deferred_record *ph__deferred_record_retain(ph__deferred_record *deferred)
{
    atomic_fetch_add_explicit(&deferred->holders, 1, memory_order_relaxed);
    return deferred;
}

void ph__deferred_record_release(ph__deferred_record *deferred)
{
    if (deferred == NULL ||
        atomic_fetch_sub_explicit(&deferred->holders, 1, memory_order_acq_rel) != 1)
        return;
    ph__moment_end(&deferred->moment, deferred->device);
    deferred->device->driver->graph_destroy(deferred->template);
    ph__ranges_free(&deferred->capture);
    ph__ranges_free(&deferred->nested);
    ph_device_release(deferred->device);
    ph__free(deferred);
}

ph_status ph__deferred_record_read(ph_record **out, ph__deferred_record *deferred, const char *call)
{
    ph__past past;
    ph__own_memory own = {.capture = &deferred->capture,
                          .nested = &deferred->nested,
                          .past = deferred->lasting ? &past : NULL};
    *out = NULL;
    bool opened = ph__past_open(&past, &deferred->moment, deferred->device);
    if (!opened) {
        ph__past_close(&past);
        return ph__fail_host_memory(call, "the memory that the capture addressed at its end");
    }
    ph__mutex_lock(&deferred->reading);
    ph_status status = ph__record_build(out, deferred->device, deferred->template, &own, call);
    ph__mutex_unlock(&deferred->reading);
    ph__past_close(&past);
    return status;
}

static ph_status give_parts(ph_record *record, ph_graph *graph, const char *call)
{
    ph__marks_resolve(graph->marks, graph->device, graph->template);
    PH_TRY(ph__record_annotate(record, graph->marks, NULL, call));
    return ph__graph_acquire_kernels(graph, record, call);
}

ph_status ph__deferred_record_give(ph_graph *graph, const char *call)
{
    ph_record *record;
    if (graph->record || graph->deferred_record == NULL)
        return PH_OK;
    PH_TRY(ph__deferred_record_read(&record, graph->deferred_record, call));
    ph_status status = give_parts(record, graph, call);
    if (status != PH_OK) {
        ph__record_free(record);
        return status;
    }
    record->layout = &graph->layout;
    ph__record_note_origin(record, graph->device, graph->id);
    graph->record = record;
    return PH_OK;
}

ph_status ph__graph_need_record(ph_graph *graph, const char *call)
{
    return graph->segments ? ph__segments_need_record(graph, call)
           : graph->marks  ? ph__graph_need_annotated(graph, call)
                           : ph__deferred_record_give(graph, call);
}
