/* SPDX-License-Identifier: MIT */
/* tensor/core/tensor.c: handles: making them around memory, keeping them, looking at them. */
#include "tensor/core/tensor.h"
#include "base/alloc.h"
#include "base/status.h"
#include "tensor/backend/backend.h"
#include "tensor/core/dtype.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/released.h"
#include "tensor/core/relied.h"
#include "tensor/core/shape.h"
#include "tensor/core/storage.h"
#include <string.h>

static bool is_contiguous(const ph_tensor *x)
{
    int64_t step = 1;
    for (size_t i = x->shape.rank; i-- > 0;) {
        if (x->shape.dim[i] != 1 && x->stride[i] != step)
            return false;
        step *= x->shape.dim[i];
    }
    return true;
}

/* Takes over one reference to the storage. */
static void init_contiguous(ph_tensor *x, ph__storage *storage, ph_dtype dtype,
                            const ph_shape *shape, size_t offset)
{
    int64_t step = 1, count = 1;
    *x = (ph_tensor){.dtype = dtype, .storage = storage, .contiguous = true};
    atomic_init(&x->references, 1);
    x->shape.rank = shape->rank;
    for (size_t i = shape->rank; i-- > 0;) {
        int64_t dim = shape->dim[i];
        x->shape.dim[i] = dim;
        x->stride[i] = step;
        step *= dim > 1 ? dim : 1;
        count *= dim;
    }
    x->count = count;
    x->data = count == 0 ? NULL : storage->data + offset;
}

static void init_handle(ph_tensor *x, ph__storage *storage, ph_dtype dtype, const ph_shape *shape,
                        const int64_t *strides, size_t offset)
{
    init_contiguous(x, storage, dtype, shape, offset);
    if (!strides)
        return;
    for (size_t i = 0; i < shape->rank; i++)
        x->stride[i] = strides[i];
    x->contiguous = x->count == 0 || is_contiguous(x);
}

void ph__tensor_init(ph_tensor *x, ph__storage *storage, ph_dtype dtype, const ph_shape *shape)
{
    init_contiguous(x, storage, dtype, shape, 0);
    x->in_block = true;
}

ph_tensor *ph__tensor_make(ph__storage *storage, ph_dtype dtype, const ph_shape *shape,
                           const int64_t *strides, size_t offset)
{
    bool tracked = ph__quarantine_is_on(storage->backend);
    ph_tensor *x = tracked ? ph__quarantine_alloc() : ph__alloc(sizeof *x);
    if (!x)
        return NULL;
    init_handle(x, ph__storage_retain(storage), dtype, shape, strides, offset);
    x->tracked = tracked;
    return x;
}

void ph__tensor_move(ph_tensor *x, const ph__storage *from, char *to)
{
    if (!x || x->storage != from || !x->data)
        return;
    uintptr_t offset = (uintptr_t)x->data - (uintptr_t)from->data;
    if (offset >= from->bytes)
        return;
    x->data = to + offset;
    ph__tensor_altered(x);
}

/* Takes the reference to storage over, also on failure. */
static ph_status hand_out(ph_tensor **out, ph__storage *storage, ph_dtype dtype,
                          const ph_shape *shape, const int64_t *strides, const char *call)
{
    *out = ph__tensor_make(storage, dtype, shape, strides, 0);
    ph__storage_release(storage);
    if (*out && (*out)->tracked)
        ph__quarantine_name(*out, call);
    return *out ? PH_OK : ph__fail_host_memory(call, "a tensor");
}

typedef ph_status storage_fn(ph__storage **out, ph__backend *backend, size_t bytes);

static ph_status create_cached(ph__storage **out, ph__backend *backend, size_t bytes)
{
    return ph__storage_create(out, backend, bytes, NULL, 0);
}

static ph_status create_tensor(ph_tensor **out, ph_device *device, ph_dtype dtype,
                               const ph_shape *shape, storage_fn *make, const char *call)
{
    size_t bytes;
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!device)
        return ph__fail_null(call, "device");
    PH_TRY(ph__shape_check(&bytes, dtype, shape, call));
    ph__backend *backend;
    PH_TRY(ph__backend_of(&backend, device, call));
    ph__storage *storage;
    ph_status status = make(&storage, backend, bytes);
    ph__backend_release(backend);
    return status == PH_OK ? hand_out(out, storage, dtype, shape, NULL, call) : status;
}

ph_status ph_tensor_create(ph_tensor **out, ph_device *device, ph_dtype dtype, ph_shape shape)
{
    return create_tensor(out, device, dtype, &shape, create_cached, "ph_tensor_create");
}

ph_status ph_tensor_create_pinned(ph_tensor **out, ph_device *device, ph_dtype dtype,
                                  ph_shape shape)
{
    return create_tensor(out, device, dtype, &shape, ph__storage_create_pinned,
                         "ph_tensor_create_pinned");
}

/* bytes: from the first element to the last. */
static ph_status check_strides(size_t *bytes, ph_dtype dtype, const ph_shape *shape,
                               const int64_t *strides, const char *call)
{
    int64_t extent = ph__shape_extent(shape, strides);
    size_t size = ph_dtype_size(dtype);
    for (size_t i = 0; i < shape->rank; i++)
        if (strides[i] < 0)
            return ph_fail(PH_ERROR_ARGUMENT, "%s: stride %zu is negative (%lld)", call, i,
                           (long long)strides[i]);
    if (extent < 0 || (uint64_t)extent > (uint64_t)PTRDIFF_MAX / size)
        return ph_fail(PH_ERROR_SIZE, "%s: the strides go beyond any memory", call);
    *bytes = (size_t)extent * size;
    return PH_OK;
}

ph_status ph__tensor_around(ph_tensor **out, ph__backend *backend, ph_dtype dtype,
                            const ph_shape *shape, const int64_t *strides, void *data,
                            const char *call)
{
    size_t bytes;
    PH_TRY(ph__shape_check(&bytes, dtype, shape, call));
    if (strides)
        PH_TRY(check_strides(&bytes, dtype, shape, strides, call));
    if (bytes > 0 && !data)
        return ph__fail_null(call, "data");
    if (bytes > 0 && (uintptr_t)data % ph_dtype_size(dtype) != 0)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: data %p is not aligned to the %zu bytes of %s", call,
                       data, ph_dtype_size(dtype), ph_dtype_name(dtype));
    if (bytes > UINTPTR_MAX - (uintptr_t)data)
        return ph_fail(PH_ERROR_SIZE, "%s: %zu bytes at %p run beyond the end of the address space",
                       call, bytes, data);
    ph__storage *storage;
    PH_TRY(ph__storage_wrap(&storage, backend, data, bytes, NULL, NULL));
    return hand_out(out, storage, dtype, shape, strides, call);
}

ph_status ph_tensor_wrap(ph_tensor **out, ph_device *device, ph_dtype dtype, ph_shape shape,
                         const int64_t *strides, void *data, ph_tensor_release_fn release,
                         void *user)
{
    static const char call[] = "ph_tensor_wrap";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!device)
        return ph__fail_null(call, "device");
    ph__backend *backend;
    PH_TRY(ph__backend_of(&backend, device, call));
    ph_status status = ph__tensor_around(out, backend, dtype, &shape, strides, data, call);
    ph__backend_release(backend);
    if (status == PH_OK) {
        (*out)->storage->release = release;
        (*out)->storage->user = user;
    }
    return status;
}

ph_tensor *ph_tensor_retain(ph_tensor *x)
{
    if (!ph__tensor_is_there(x, "ph_tensor_retain"))
        return NULL;
    atomic_fetch_add_explicit(&x->references, 1, memory_order_relaxed);
    return x;
}

/* ---- looking ---- */
ph_device *ph_tensor_device(const ph_tensor *x)
{
    return ph__tensor_is_there(x, "ph_tensor_device") ? ph__tensor_backend(x)->device : NULL;
}

ph_dtype ph_tensor_dtype(const ph_tensor *x)
{
    return ph__tensor_is_there(x, "ph_tensor_dtype") ? x->dtype : (ph_dtype)0;
}

ph_shape ph_tensor_shape(const ph_tensor *x)
{
    return ph__tensor_is_there(x, "ph_tensor_shape") ? x->shape : (ph_shape){0};
}

size_t ph_tensor_rank(const ph_tensor *x)
{
    return ph__tensor_is_there(x, "ph_tensor_rank") ? x->shape.rank : 0;
}

int64_t ph_tensor_dim(const ph_tensor *x, int axis)
{
    int at = ph__tensor_is_there(x, "ph_tensor_dim") ? ph__axis(axis, x->shape.rank) : -1;
    return at < 0 ? 0 : x->shape.dim[at];
}

int64_t ph_tensor_stride(const ph_tensor *x, int axis)
{
    int at = ph__tensor_is_there(x, "ph_tensor_stride") ? ph__axis(axis, x->shape.rank) : -1;
    return at < 0 ? 0 : x->stride[at];
}

int64_t ph_tensor_count(const ph_tensor *x)
{
    return ph__tensor_is_there(x, "ph_tensor_count") ? x->count : 0;
}

size_t ph_tensor_bytes(const ph_tensor *x)
{
    return ph__tensor_is_there(x, "ph_tensor_bytes") ? (size_t)x->count * ph_dtype_size(x->dtype)
                                                     : 0;
}

void *ph_tensor_data(const ph_tensor *x)
{
    return ph__tensor_is_there(x, "ph_tensor_data") ? ph__tensor_show(x) : NULL;
}

bool ph_tensor_is_contiguous(const ph_tensor *x)
{
    return ph__tensor_is_there(x, "ph_tensor_is_contiguous") && x->contiguous;
}

bool ph_tensor_is_pinned(const ph_tensor *x)
{
    return ph__tensor_is_there(x, "ph_tensor_is_pinned") && x->storage->kind == PH__STORAGE_PINNED;
}

uint64_t ph_tensor_version(const ph_tensor *x)
{
    if (!ph__tensor_is_there(x, "ph_tensor_version"))
        return 0;
    return atomic_load_explicit(&x->storage->version, memory_order_relaxed);
}

bool ph__tensors_overlap(const ph_tensor *a, const ph_tensor *b)
{
    int64_t m = ph__shape_extent(&a->shape, a->stride), n = ph__shape_extent(&b->shape, b->stride);
    if (m <= 0 || n <= 0)
        return false;
    uintptr_t p = (uintptr_t)a->data, q = (uintptr_t)b->data;
    return p < q + (uintptr_t)n * ph_dtype_size(b->dtype) &&
           q < p + (uintptr_t)m * ph_dtype_size(a->dtype);
}
