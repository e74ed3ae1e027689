/* SPDX-License-Identifier: MIT */
/* nn/loader/next.c: taking batches: waiting for one, ordering a stream behind its copies, and
 * giving its memory back. */
#include "nn/loader/next.h"
#include "base/clock.h"
#include "base/status.h"
#include "nn/loader/slots.h"
#include "nn/loader/threads.h"
#include "tensor/core/tensor.h"
#include <string.h>

enum {
    CAPTURE_UNSUPPORTED = 900 /* CUDA's number */
};

/* ---- one call at a time ---- */
ph_status ph__loader_check(const ph_data_loader *loader, const char *call)
{
    if (!loader->backend->forked)
        return PH_OK;
    return ph_fail(PH_ERROR_STATE,
                   "%s: the loader was made before fork(), by the parent process, and its threads "
                   "are not in the child: make one here, of a device that is opened here",
                   call);
}

static ph_status refuse_entry(const ph_data_loader *loader, const char *call)
{
    if (loader->stopping)
        return ph_fail(PH_ERROR_STATE, "%s: the loader is being destroyed by another thread", call);
    if (loader->busy)
        return ph_fail(PH_ERROR_STATE,
                       "%s: another thread is in a call that takes batches of this loader; one at "
                       "a time may be",
                       call);
    return PH_OK;
}

ph_status ph__loader_enter(ph_data_loader *loader, const char *call)
{
    if (!loader)
        return ph__fail_null(call, "loader");
    PH_TRY(ph__loader_check(loader, call));
    if (ph__loader_is_fetching(loader))
        return ph_fail(PH_ERROR_STATE,
                       "%s: called inside of the loader's own fetch function, which it may wait "
                       "for",
                       call);
    ph__mutex_lock(&loader->lock);
    ph_status status = refuse_entry(loader, call);
    if (status == PH_OK)
        loader->busy = true;
    ph__mutex_unlock(&loader->lock);
    return status;
}

void ph__loader_leave(ph_data_loader *loader)
{
    ph__mutex_lock(&loader->lock);
    loader->busy = false;
    ph__loader_wake(&loader->moved);
    ph__mutex_unlock(&loader->lock);
}

static ph_status refuse_capture(ph_stream *stream, const char *which, const char *call)
{
    ph_capture_info info;
    PH_TRY(ph_stream_get_capture_info(&info, stream));
    if (info.status == PH_CAPTURE_NONE)
        return PH_OK;
    return ph__fail_native(PH_ERROR_CAPTURE, CAPTURE_UNSUPPORTED, NULL,
                           "%s: %s is in a capture, and a graph would have the copies of this one "
                           "batch at each replay; refused before it could harm the capture; call "
                           "it before the capture and before each replay",
                           call, which);
}

/* ---- giving back ---- */
static void release_tensors(ph_data_loader *loader)
{
    for (size_t i = 0; i < loader->field_count; i++) {
        ph_tensor_release(loader->fields[i].given);
        loader->fields[i].given = NULL;
    }
}

ph_status ph__loader_give_back(ph_data_loader *loader, const char *call)
{
    ph__loader_slot *slot = loader->given;
    if (!slot)
        return PH_OK;
    PH_TRY(refuse_capture(loader->given_stream, "the stream that the batch before was given on",
                          call));
    release_tensors(loader);
    ph__slot_leave_held(loader, slot);
    PH_TRY(ph_event_record(slot->used, loader->given_stream));
    ph__mutex_lock(&loader->lock);
    loader->given = NULL;
    ph__slot_advance(loader, slot);
    ph__mutex_unlock(&loader->lock);
    return PH_OK;
}

ph_status ph_data_loader_release(ph_data_loader *loader)
{
    static const char call[] = "ph_data_loader_release";
    PH_TRY(ph__loader_enter(loader, call));
    ph_status status = ph__loader_give_back(loader, call);
    ph__loader_leave(loader);
    return status;
}

/* ---- waiting ---- */
static bool was_fetched(const ph__loader_slot *slot)
{
    return slot->state == PH__BATCH_READY || slot->state == PH__BATCH_FAILED;
}

/* The lock held. A batch that failed, and which was reported to the caller, is fetched again. */
static void await_fetched(ph_data_loader *loader, ph__loader_slot *slot)
{
    if (slot->state == PH__BATCH_REPORTED) {
        slot->state = PH__BATCH_OPEN;
        ph__loader_wake(&loader->opened);
    }
    if (was_fetched(slot))
        return;
    uint64_t since = ph__now_ns();
    while (!was_fetched(slot) && !loader->stopping && loader->alive > 0)
        ph__loader_wait(loader, &loader->moved);
    loader->stats.waits++;
    loader->stats.waited_ns += ph__now_ns() - since;
}

static ph_status await_batch(ph_data_loader *loader, ph__loader_slot *slot, const char *call)
{
    ph_status status = PH_OK;
    ph__mutex_lock(&loader->lock);
    await_fetched(loader, slot);
    if (loader->stopping) {
        status =
            ph_fail(PH_ERROR_STATE, "%s: the loader is being destroyed by another thread", call);
    } else if (slot->state == PH__BATCH_FAILED) {
        slot->state = PH__BATCH_REPORTED;
        status = ph_error_set(&slot->error);
        ph__error_prefix("%s: batch %llu of epoch %llu", call, (unsigned long long)loader->batch,
                         (unsigned long long)loader->epoch);
    } else if (slot->state != PH__BATCH_READY) {
        status = ph_fail(PH_ERROR_CALLER,
                         "%s: the fetch function has ended all threads of the loader, and nobody "
                         "fetches any more; make a new one",
                         call);
    }
    ph__mutex_unlock(&loader->lock);
    return status;
}

/* ---- giving ---- */
/* Both memories are used on the caller's stream: the copy may wait there when the loader goes. */
static ph_status copy_into(const ph__loader_field *field, ph__storage *from, ph_stream *stream)
{
    ph_tensor *into = field->into;
    PH_TRY(ph__storage_use(into->storage, stream, PH__NO_TAPE));
    PH_TRY(ph__storage_record(into->storage, stream));
    if (into->count == 0)
        return PH_OK;
    PH_TRY(ph__storage_record(from, stream));
    PH_TRY(ph_memcpy(into->data, from->data, ph_tensor_bytes(into), stream));
    ph__storage_changed(into->storage, 0, PH__NO_TAPE);
    return PH_OK;
}

static ph_status give_own(ph__loader_field *field, ph__loader_slot *slot, size_t i,
                          ph_stream *stream, const char *call)
{
    ph_shape shape = field->shape;
    shape.dim[0] = (int64_t)slot->rows;
    PH_TRY(ph__storage_record(slot->device[i], stream));
    field->given = ph__tensor_make(slot->device[i], field->dtype, &shape, NULL, 0);
    return field->given ? PH_OK : ph__fail_host_memory(call, "a tensor of the batch");
}

static ph_status give_fields(ph_data_loader *loader, ph__loader_slot *slot, ph_stream *stream,
                             const char *call)
{
    PH_TRY(ph_stream_wait_event(stream, slot->copied));
    for (size_t i = 0; i < loader->field_count; i++) {
        ph__loader_field *field = &loader->fields[i];
        PH_TRY(field->into ? copy_into(field, slot->device[i], stream)
                           : give_own(field, slot, i, stream, call));
        loader->tensors[i] = field->into ? field->into : field->given;
    }
    return PH_OK;
}

/* The batch is the caller's, and the position goes on. Where all of it was copied, its slot is free
 * again. */
static void finish_batch(ph_batch *out, ph_data_loader *loader, ph__loader_slot *slot,
                         ph_stream *stream)
{
    *out = (ph_batch){.epoch = loader->epoch,
                      .number = loader->batch,
                      .count = slot->rows,
                      .tensor = loader->tensors,
                      .tensor_count = loader->field_count,
                      .index = loader->index};
    memcpy(loader->index, slot->index, slot->rows * sizeof *slot->index);
    ph__mutex_lock(&loader->lock);
    slot->state = PH__BATCH_GIVEN;
    loader->batch++;
    loader->stats.batches++;
    loader->given = loader->fixed ? NULL : slot;
    loader->given_stream = stream;
    if (loader->fixed)
        ph__slot_advance(loader, slot);
    ph__mutex_unlock(&loader->lock);
}

static ph_status give_batch(ph_batch *out, ph_data_loader *loader, ph_stream *stream,
                            const char *call)
{
    uint64_t number = loader->epoch * loader->order.batches + loader->batch;
    ph__loader_slot *slot = &loader->slots[number % loader->slot_count];
    PH_TRY(await_batch(loader, slot, call));
    ph_status status = give_fields(loader, slot, stream, call);
    if (status == PH_OK && loader->fixed)
        status = ph_event_record(slot->used, stream);
    if (status == PH_OK) {
        finish_batch(out, loader, slot, stream);
        return PH_OK;
    }
    release_tensors(loader);
    ph__error_prefix("%s: batch %llu of epoch %llu", call, (unsigned long long)loader->batch,
                     (unsigned long long)loader->epoch);
    return status;
}

/* Of an epoch, or of all: true. */
static bool come_to_end(ph_batch *out, ph_data_loader *loader)
{
    bool over = loader->epochs != 0 && loader->epoch >= loader->epochs;
    if (!over && loader->batch < loader->order.batches)
        return false;
    *out = (ph_batch){.epoch = loader->epoch, .number = loader->batch};
    if (over)
        return true;
    ph__mutex_lock(&loader->lock);
    loader->epoch++;
    loader->batch = 0;
    ph__mutex_unlock(&loader->lock);
    return true;
}

static ph_status next_batch(ph_batch *out, ph_data_loader *loader, ph_stream *stream,
                            const char *call)
{
    PH_TRY(refuse_capture(stream, "the stream", call));
    PH_TRY(ph__loader_give_back(loader, call));
    return come_to_end(out, loader) ? PH_OK : give_batch(out, loader, stream, call);
}

ph_status ph_data_loader_next(ph_batch *out, ph_data_loader *loader, ph_stream *stream)
{
    static const char call[] = "ph_data_loader_next";
    if (!out)
        return ph__fail_null(call, "out");
    *out = (ph_batch){0};
    if (!stream)
        return ph__fail_null(call, "stream");
    PH_TRY(ph__loader_enter(loader, call));
    ph_status status = ph_stream_device(stream) == loader->device
                           ? next_batch(out, loader, stream, call)
                           : ph_fail(PH_ERROR_WRONG_DEVICE,
                                     "%s: the stream is of another device than the loader", call);
    ph__loader_leave(loader);
    return status;
}
