/* SPDX-License-Identifier: MIT */
/* tensor/core/batch.c: tensors that are made together. */
#include "tensor/core/batch.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/status.h"
#include "tensor/backend/backend.h"
#include "tensor/core/storage.h"

typedef struct record {
    ph_tensor tensor;
    ph__storage storage;
} record;

struct ph__tensor_batch {
    atomic_int references; /* of its maker, and of each storage */
    ph__backend *backend;  /* retained */
    char *memory;
    size_t bytes, used;
    uint64_t key;
    size_t count, used_count;
    record at[];
};

ph_status ph__tensor_batch_create(ph__tensor_batch **out, ph__backend *backend, size_t count,
                                  size_t bytes, ph_stream *stream, uint64_t key)
{
    size_t total;
    *out = NULL;
    ph__tensor_batch *batch =
        ph__mul(count, sizeof(record), &total) && ph__add(total, sizeof *batch, &total)
            ? ph__alloc(total)
            : NULL;
    if (!batch)
        return ph__fail_host_memory("tensors", "their notes");
    *batch = (ph__tensor_batch){.backend = backend, .bytes = bytes, .key = key, .count = count};
    atomic_init(&batch->references, 1);
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
    const size_t rounded =
        (bytes + PH__TENSOR_BATCH_ALIGNMENT - 1) & ~(size_t)(PH__TENSOR_BATCH_ALIGNMENT - 1);
    if (batch->used_count == batch->count || bytes > batch->bytes - batch->used)
        return NULL;
    record *both = &batch->at[batch->used_count++];
    ph__storage_init_part(&both->storage, batch, batch->backend, batch->memory + batch->used, bytes,
                          batch->key);
    ph__tensor_init(&both->tensor, &both->storage, dtype, shape);
    batch->used += rounded < batch->bytes - batch->used ? rounded : batch->bytes - batch->used;
    atomic_fetch_add_explicit(&batch->references, 1, memory_order_relaxed);
    return &both->tensor;
}

void ph__tensor_batch_release(ph__tensor_batch *batch)
{
    if (!batch || !ph__drop_reference(&batch->references))
        return;
    ph_device_free(batch->backend->device, batch->memory);
    ph__backend_release(batch->backend);
    ph__free(batch);
}

char *ph__tensor_batch_memory(const ph__tensor_batch *batch)
{
    return batch->memory;
}
