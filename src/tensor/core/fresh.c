/* SPDX-License-Identifier: MIT */
/* tensor/core/fresh.c: tensors of a tape's own, in records that others of it had before. */
#include "tensor/core/fresh.h"
#include "base/alloc.h"
#include "base/status.h"
#include "tensor/core/dtype.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/released.h"
#include "tensor/core/shape.h"
#include "tensor/core/storage_init.h"
#include <string.h>

/* One host allocation for both. */
typedef struct fresh {
    ph_tensor tensor;
    ph__storage storage;
} fresh;

static ph_status make_apart(ph_tensor **out, ph__backend *backend, ph_dtype dtype,
                            const ph_shape *shape, size_t bytes, ph_stream *stream, uint64_t key)
{
    ph__storage *storage;
    PH_TRY(ph__storage_create(&storage, backend, bytes, stream, key));
    *out = ph__tensor_make(storage, dtype, shape, NULL, 0);
    ph__storage_release(storage);
    return *out ? PH_OK : ph__fail_host_memory("a tensor", "its note");
}

void ph__tensor_recycle(ph__spare_tensors *spares, void *block)
{
    if (!PH__RECYCLES || spares->count == PH__MOST_SPARE_TENSORS) {
        ph__released_put(block);
        return;
    }
    fresh *both = block;
    ph__alloc_set_aside_by(spares->tally);
    both->tensor.tape = (ph_tape *)(void *)spares->first;
    spares->first = &both->tensor;
    spares->count++;
}

/* Of a list that is not empty. */
static fresh *unlink_spare(ph__spare_tensors *spares)
{
    fresh *both = (fresh *)(void *)spares->first;
    spares->first = (ph_tensor *)(void *)both->tensor.tape;
    spares->count--;
    return both;
}

void ph__tensor_spares_free(ph__spare_tensors *spares)
{
    while (spares->first)
        ph__released_keep(unlink_spare(spares));
    ph__alloc_drop(spares->node);
    spares->node = NULL;
    ph__alloc_tally_give_back(spares->tally);
    spares->tally = NULL;
}

/* NULL: no host memory. used: it was a tensor's before. */
static fresh *acquire_record(ph__spare_tensors *spares, bool *used)
{
    *used = spares && spares->first;
    if (!*used)
        return ph__alloc(sizeof(fresh));
    return ph__alloc_reuse_by(spares->tally) ? unlink_spare(spares) : NULL;
}

/* Of a record that was one of that dtype and shape before, and of memory that is not empty. */
static bool is_alike(const ph_tensor *x, ph_dtype dtype, const ph_shape *shape)
{
    return x->dtype == dtype && x->count > 0 && ph__shape_same(&x->shape, shape);
}

/* A handle that is to be kept has a host allocation of its own. */
static inline ph_status make_fresh(ph_tensor **out, ph__spare_tensors *spares, ph__backend *backend,
                                   ph_dtype dtype, const ph_shape *shape, size_t bytes,
                                   ph_stream *stream, uint64_t key)
{
    *out = NULL;
    if (__builtin_expect(ph__quarantine_is_on(backend), 0))
        return make_apart(out, backend, dtype, shape, bytes, stream, key);
    bool used;
    fresh *both = acquire_record(spares, &used);
    if (!both)
        return ph__fail_host_memory("a tensor", "its note");
    ph_status status = ph__storage_init(&both->storage, both, backend, bytes, stream, key);
    if (status != PH_OK) {
        ph__free(both);
        return status;
    }
    if (used && is_alike(&both->tensor, dtype, shape))
        ph__tensor_renew(&both->tensor, both->storage.data);
    else
        ph__tensor_init(&both->tensor, &both->storage, dtype, shape);
    *out = &both->tensor;
    return PH_OK;
}

ph_status ph__tensor_fresh(ph_tensor **out, ph__spare_tensors *spares, ph__backend *backend,
                           ph_dtype dtype, const ph_shape *shape, size_t bytes, ph_stream *stream,
                           uint64_t key)
{
    return make_fresh(out, spares, backend, dtype, shape, bytes, stream, key);
}

ph_status ph__tensor_fresh_like(ph_tensor **out, ph__spare_tensors *spares, ph_dtype dtype,
                                const ph_tensor *like, ph_stream *stream, uint64_t key)
{
    return make_fresh(out, spares, like->storage->backend, dtype, &like->shape,
                      (size_t)like->count * ph__dtype_size(dtype), stream, key);
}

ph_tensor *ph__tensor_alias(ph__spare_tensors *spares, const ph_tensor *like, int *ahead)
{
    ph__storage *storage = like->storage;
    if (__builtin_expect(ph__quarantine_is_on(storage->backend), 0))
        return ph__tensor_make(storage, like->dtype, &like->shape, like->stride,
                               like->count ? (size_t)(like->data - storage->data) : 0);
    bool used;
    fresh *both = acquire_record(spares, &used);
    if (!both)
        return NULL;
    ph_tensor *x = &both->tensor;
    ph__tensor_renew(x, like->data);
    x->dtype = like->dtype;
    x->shape = like->shape;
    memcpy(x->stride, like->stride, sizeof x->stride);
    x->count = like->count;
    x->contiguous = like->contiguous;
    x->storage = storage;
    ph__reference_give(&storage->references, ahead);
    x->in_block = false;
    x->lone = true;
    return x;
}
