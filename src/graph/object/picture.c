/* SPDX-License-Identifier: MIT */
/* graph/object/picture.c: records that are made when somebody asks for them. */
#include "graph/object/picture.h"
#include "base/alloc.h"
#include "graph/object/kernels.h"
#include "graph/object/segments.h"
#include "record/origin.h"

ph__picture *ph__picture_create(bool *lasting, ph_graph *graph, ph__ranges *capture,
                                ph__ranges *nested)
{
    ph__picture *picture = ph__calloc(1, sizeof *picture);
    if (picture == NULL)
        return NULL;
    atomic_init(&picture->holders, 1);
    picture->device = ph_device_retain(graph->device);
    picture->template = graph->template;
    picture->capture = *capture;
    picture->nested = *nested;
    *capture = *nested = (ph__ranges){0};
    *lasting = picture->lasting = ph__moment_begin(&picture->moment, picture->device);
    return picture;
}

ph__picture *ph__picture_retain(ph__picture *picture)
{
    atomic_fetch_add_explicit(&picture->holders, 1, memory_order_relaxed);
    return picture;
}

void ph__picture_release(ph__picture *picture)
{
    if (picture == NULL ||
        atomic_fetch_sub_explicit(&picture->holders, 1, memory_order_acq_rel) != 1)
        return;
    ph__moment_end(&picture->moment, picture->device);
    picture->device->driver->graph_destroy(picture->template);
    ph__ranges_free(&picture->capture);
    ph__ranges_free(&picture->nested);
    ph_device_release(picture->device);
    ph__free(picture);
}

ph_status ph__picture_read(ph_record **out, ph__picture *picture, const char *call)
{
    ph__past past;
    ph__own_memory own = {.capture = &picture->capture,
                          .nested = &picture->nested,
                          .past = picture->lasting ? &past : NULL};
    *out = NULL;
    bool opened = ph__past_open(&past, &picture->moment, picture->device);
    if (!opened) {
        ph__past_close(&past);
        return ph__fail_host_memory(call, "the memory that the capture addressed at its end");
    }
    ph__mutex_lock(&picture->reading);
    ph_status status = ph__record_build(out, picture->device, picture->template, &own, call);
    ph__mutex_unlock(&picture->reading);
    ph__past_close(&past);
    return status;
}

ph_status ph__graph_need_record(ph_graph *graph, const char *call)
{
    ph_record *record;
    if (graph->segments)
        return ph__segments_need_record(graph, call);
    if (graph->record || graph->picture == NULL)
        return PH_OK;
    PH_TRY(ph__picture_read(&record, graph->picture, call));
    ph_status status = ph__graph_acquire_kernels(graph, record, call);
    if (status != PH_OK) {
        ph__record_free(record);
        return status;
    }
    record->layout = &graph->layout;
    ph__record_note_origin(record, graph->device, graph->id);
    graph->record = record;
    return PH_OK;
}
