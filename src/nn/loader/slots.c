/* SPDX-License-Identifier: MIT */
/* nn/loader/slots.c: places for batches: their memory, which batch each has, and the copies to the
 * device. */
#include "nn/loader/slots.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/status.h"
#include "nn/loader/threads.h"

/* ---- memory ---- on the loader's stream, which the copies are on. */
static size_t batch_bytes(const ph_data_loader *loader, size_t i)
{
    return loader->fields[i].row_bytes * loader->order.batch_size;
}

static ph_status create_device_memory(const ph_data_loader *loader, ph__loader_slot *slot, size_t i)
{
    return ph__storage_create(&slot->device[i], loader->backend, batch_bytes(loader, i),
                              loader->stream, PH__NO_TAPE);
}

static ph_status create_field(const ph_data_loader *loader, ph__loader_slot *slot, size_t i)
{
    PH_TRY(ph_malloc_pinned(&slot->pinned[i], batch_bytes(loader, i), 1, loader->stream));
    return create_device_memory(loader, slot, i);
}

static ph_status create_slot(ph_data_loader *loader, ph__loader_slot *slot, const char *call)
{
    slot->index = ph__calloc((size_t)loader->order.batch_size, sizeof *slot->index);
    if (!slot->index)
        return ph__fail_host_memory(call, "the numbers of a batch's examples");
    PH_TRY(ph_event_create(&slot->copied, loader->device, NULL));
    PH_TRY(ph_event_create(&slot->used, loader->device, NULL));
    for (size_t i = 0; i < loader->field_count; i++)
        PH_TRY(create_field(loader, slot, i));
    return PH_OK;
}

ph_status ph__slots_create(ph_data_loader *loader, const char *call)
{
    size_t bytes;
    for (size_t i = 0; i < loader->field_count; i++)
        if (!ph__mul(loader->fields[i].row_bytes, (size_t)loader->order.batch_size, &bytes))
            return ph_fail(PH_ERROR_SIZE, "%s: a batch of field %zu has too many bytes", call, i);
    loader->slots = ph__calloc(loader->slot_count, sizeof *loader->slots);
    loader->index = ph__calloc((size_t)loader->order.batch_size, sizeof *loader->index);
    if (!loader->slots || !loader->index)
        return ph__fail_host_memory(call, "the places of batches");
    for (size_t i = 0; i < loader->slot_count; i++)
        PH_TRY(create_slot(loader, &loader->slots[i], call));
    return PH_OK;
}

static void destroy_slot(ph_data_loader *loader, ph__loader_slot *slot)
{
    for (size_t i = 0; i < loader->field_count; i++) {
        ph_free_pinned(slot->pinned[i], loader->stream);
        if (slot->device[i])
            ph__storage_release(slot->device[i]);
    }
    ph_event_destroy(slot->copied);
    ph_event_destroy(slot->used);
    ph__free(slot->index);
}

void ph__slots_destroy(ph_data_loader *loader)
{
    for (size_t i = 0; loader->slots && i < loader->slot_count; i++)
        destroy_slot(loader, &loader->slots[i]);
    ph__free(loader->slots);
    ph__free(loader->index);
}

/* ---- batches ---- */
static void open_slot(ph_data_loader *loader, ph__loader_slot *slot)
{
    bool over = loader->epochs != 0 && slot->batch / loader->order.batches >= loader->epochs;
    slot->state = over ? PH__BATCH_NONE : PH__BATCH_OPEN;
}

void ph__slots_assign(ph_data_loader *loader, uint64_t first)
{
    for (uint64_t batch = first; batch - first < loader->slot_count; batch++) {
        ph__loader_slot *slot = &loader->slots[batch % loader->slot_count];
        slot->batch = batch;
        open_slot(loader, slot);
    }
    ph__loader_wake(&loader->opened);
}

void ph__slot_advance(ph_data_loader *loader, ph__loader_slot *slot)
{
    slot->batch += loader->slot_count;
    open_slot(loader, slot);
    ph__loader_wake(&loader->opened);
}

/* ---- copies ---- */
ph_status ph__slot_await_copies(ph__loader_slot *slot)
{
    return ph_event_synchronize(slot->copied);
}

/* Memory that is the loader's alone stays so: nobody else can get at it any more. */
void ph__slot_leave_held(ph_data_loader *loader, ph__loader_slot *slot)
{
    for (size_t i = 0; i < loader->field_count; i++) {
        ph__storage *storage = slot->device[i];
        if (!storage || atomic_load_explicit(&storage->references, memory_order_acquire) == 1)
            continue;
        ph__storage_release(storage);
        slot->device[i] = NULL;
    }
}

static ph_status copy_field(ph_data_loader *loader, ph__loader_slot *slot, size_t i)
{
    size_t bytes = loader->fields[i].row_bytes * slot->rows;
    if (!slot->device[i])
        PH_TRY(create_device_memory(loader, slot, i));
    return bytes == 0 ? PH_OK
                      : ph_memcpy(slot->device[i]->data, slot->pinned[i], bytes, loader->stream);
}

ph_status ph__slot_submit(ph_data_loader *loader, ph__loader_slot *slot)
{
    PH_TRY(ph_stream_wait_event(loader->stream, slot->used));
    for (size_t i = 0; i < loader->field_count; i++)
        PH_TRY(copy_field(loader, slot, i));
    return ph_event_record(slot->copied, loader->stream);
}
