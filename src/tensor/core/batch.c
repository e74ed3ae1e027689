/* SPDX-License-Identifier: MIT */
/* tensor/core/batch.c: tensors that are made together. */
#include "tensor/core/batch.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/status.h"
#include "tensor/backend/backend.h"
#include "tensor/core/released.h"
#include <limits.h>

ph_status ph__tensor_batch_create(ph__tensor_batch **out, ph__backend *backend, size_t count,
                                  size_t bytes, ph_stream *stream, uint64_t key)
{
    size_t total;
    *out = NULL;
    ph__tensor_batch *batch = count < INT_MAX && ph__mul(count, sizeof(ph__batch_record), &total) &&
                                      ph__add(total, sizeof *batch, &total)
                                  ? ph__alloc(total)
                                  : NULL;
    if (!batch)
        return ph__fail_host_memory("tensors", "their notes");
    *batch = (ph__tensor_batch){.backend = backend, .bytes = bytes, .key = key, .count = count};
    atomic_init(&batch->references, 1 + (int)count);
    ph_status status = ph_malloc(&batch->memory, bytes, 1, stream);
    if (status != PH_OK) {
        ph__free(batch);
        return status;
    }
    ph__backend_retain(backend);
    *out = batch;
    return PH_OK;
}

ph_tensor *ph__tensor_batch_acquire(ph__tensor_batch *batch, ph_dtype dtype, const ph_shape *shape,
                                    size_t bytes)
{
    ph__batch_record *both = ph__batch_next(batch, bytes);
    if (!both)
        return NULL;
    ph__tensor_init(&both->tensor, &both->storage, dtype, shape);
    return &both->tensor;
}

/* The owner of all references that are left need not fear others. */
static void drop_references(ph__tensor_batch *batch, int count)
{
    if (atomic_load_explicit(&batch->references, memory_order_acquire) != count &&
        atomic_fetch_sub_explicit(&batch->references, count, memory_order_acq_rel) != count)
        return;
    ph_device_free(batch->backend->device, batch->memory);
    ph__backend_release(batch->backend);
    ph__released_put_batch(batch);
}

void ph__tensor_batch_end(ph__tensor_batch *batch)
{
    if (batch)
        drop_references(batch, 1 + (int)(batch->count - batch->used_count));
}

void ph__tensor_batch_release(ph__tensor_batch *batch)
{
    drop_references(batch, 1);
}

void ph__tensor_batch_release_many(ph__tensor_batch *batch, int count)
{
    drop_references(batch, count);
}

char *ph__tensor_batch_memory(const ph__tensor_batch *batch)
{
    return batch->memory;
}
