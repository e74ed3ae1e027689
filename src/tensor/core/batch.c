/* SPDX-License-Identifier: MIT */
/* tensor/core/batch.c: tensors that are made together. */
#include "tensor/core/batch.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/status.h"
#include "tensor/backend/backend.h"
#include "tensor/core/released.h"
#include "tensor/core/storage.h"
#include <limits.h>
#include <string.h>

typedef struct record {
    ph_tensor tensor;
    ph__storage storage;
} record;

struct ph__tensor_batch {
    atomic_int references; /* of its maker, and of each storage, also of those to come */
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
    ph__tensor_batch *batch = count < INT_MAX && ph__mul(count, sizeof(record), &total) &&
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

/* The next record, its storage made. NULL: there is no room. */
static inline record *next_record(ph__tensor_batch *batch, size_t bytes)
{
    const size_t rounded = (bytes + PH__TENSOR_BATCH_ALIGNMENT - 1) &
                           ~(size_t)(PH__TENSOR_BATCH_ALIGNMENT - 1),
                 room = batch->bytes - batch->used;
    if (batch->used_count == batch->count || bytes > room)
        return NULL;
    record *both = &batch->at[batch->used_count++];
    ph__storage_init_part(&both->storage, batch, batch->backend, batch->memory + batch->used, bytes,
                          batch->key);
    batch->used += rounded < room ? rounded : room;
    return both;
}

ph_tensor *ph__tensor_batch_acquire(ph__tensor_batch *batch, ph_dtype dtype, const ph_shape *shape,
                                    size_t bytes)
{
    record *both = next_record(batch, bytes);
    if (!both)
        return NULL;
    ph__tensor_init(&both->tensor, &both->storage, dtype, shape);
    return &both->tensor;
}

/* As ph__tensor_init, of the dtype and shape of `like`, which is contiguous and has elements. */
static void init_like(ph_tensor *x, ph__storage *storage, const ph_tensor *like)
{
    *x = (ph_tensor){.dtype = like->dtype,
                     .count = like->count,
                     .contiguous = true,
                     .in_block = true,
                     .data = storage->data,
                     .storage = storage};
    atomic_init(&x->references, 1);
    x->shape = like->shape;
    memcpy(x->stride, like->stride, sizeof x->stride);
}

ph_tensor *ph__tensor_batch_acquire_like(ph__tensor_batch *batch, const ph_tensor *like,
                                         size_t bytes)
{
    if (!like->contiguous)
        return ph__tensor_batch_acquire(batch, like->dtype, &like->shape, bytes);
    record *both = next_record(batch, bytes);
    if (!both)
        return NULL;
    init_like(&both->tensor, &both->storage, like);
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

char *ph__tensor_batch_memory(const ph__tensor_batch *batch)
{
    return batch->memory;
}
