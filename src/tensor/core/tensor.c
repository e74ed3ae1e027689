/* SPDX-License-Identifier: MIT */
/* tensor/core/tensor.c: handles: making them around memory, keeping them, looking at them, their
 * gradients. */
#include "base/alloc.h"
#include "base/status.h"
#include "tensor/autograd/tape.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/written.h"
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
static void init(ph_tensor *x, ph__storage *storage, ph_dtype dtype, const ph_shape *shape,
                 const int64_t *strides, size_t offset)
{
    *x = (ph_tensor){.dtype = dtype, .storage = storage};
    atomic_init(&x->references, 1);
    x->shape.rank = shape->rank;
    x->count = 1;
    for (size_t i = 0; i < shape->rank; i++) {
        x->shape.dim[i] = shape->dim[i];
        x->count *= shape->dim[i];
    }
    x->contiguous = true;
    if (strides) {
        for (size_t i = 0; i < shape->rank; i++)
            x->stride[i] = strides[i];
        x->contiguous = x->count == 0 || is_contiguous(x);
    } else {
        ph__shape_strides(x->stride, shape);
    }
    x->data = x->count == 0 ? NULL : storage->data + offset;
}

ph_tensor *ph__tensor_make(ph__storage *storage, ph_dtype dtype, const ph_shape *shape,
                           const int64_t *strides, size_t offset)
{
    bool tracked = ph__quarantine_is_on(storage->backend);
    ph_tensor *x = tracked ? ph__quarantine_alloc() : ph__alloc(sizeof *x);
    if (!x)
        return NULL;
    init(x, ph__storage_retain(storage), dtype, shape, strides, offset);
    x->tracked = tracked;
    return x;
}

void ph__tensor_move(ph_tensor *x, const ph__storage *from, char *to)
{
    if (!x || x->storage != from || !x->data)
        return;
    uintptr_t offset = (uintptr_t)x->data - (uintptr_t)from->data;
    if (offset < from->bytes)
        x->data = to + offset;
}

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

/* A handle that is to be kept has a host allocation of its own. */
ph_status ph__tensor_fresh(ph_tensor **out, ph__backend *backend, ph_dtype dtype,
                           const ph_shape *shape, size_t bytes, ph_stream *stream, uint64_t key)
{
    *out = NULL;
    if (__builtin_expect(ph__quarantine_is_on(backend), 0))
        return make_apart(out, backend, dtype, shape, bytes, stream, key);
    fresh *both = ph__alloc(sizeof *both);
    if (!both)
        return ph__fail_host_memory("a tensor", "its note");
    ph_status status = ph__storage_init(&both->storage, both, backend, bytes, stream, key);
    if (status != PH_OK) {
        ph__free(both);
        return status;
    }
    init(&both->tensor, &both->storage, dtype, shape, NULL, 0);
    both->tensor.in_block = true;
    *out = &both->tensor;
    return PH_OK;
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

static ph_status cached(ph__storage **out, ph__backend *backend, size_t bytes)
{
    return ph__storage_create(out, backend, bytes, NULL, 0);
}

static ph_status create(ph_tensor **out, ph_device *device, ph_dtype dtype, const ph_shape *shape,
                        storage_fn *make, const char *call)
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
    return create(out, device, dtype, &shape, cached, "ph_tensor_create");
}

ph_status ph_tensor_create_pinned(ph_tensor **out, ph_device *device, ph_dtype dtype,
                                  ph_shape shape)
{
    return create(out, device, dtype, &shape, ph__storage_create_pinned, "ph_tensor_create_pinned");
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

/* A handle that is gone is as NULL to calls without a status; the thread's record says so. */
static inline bool is_there(const ph_tensor *x, const char *call)
{
    return x && ph__tensor_check_there(x, call, "the tensor") == PH_OK;
}

ph_tensor *ph_tensor_retain(ph_tensor *x)
{
    if (!is_there(x, "ph_tensor_retain"))
        return NULL;
    atomic_fetch_add_explicit(&x->references, 1, memory_order_relaxed);
    return x;
}

static void leaf_release(ph__leaf *leaf)
{
    ph__hooks_release(leaf->hooks);
    ph_tensor_release(leaf->grad);
    ph__free(leaf);
}

/* The storage goes last: x may be in its block. Gives it. */
static ph__storage *dissolve(ph_tensor *x, ph__going going)
{
    ph__storage *storage = x->storage;
    if (x->leaf)
        leaf_release(x->leaf);
    if (x->node)
        ph__node_release(x->node);
    if (x->written)
        ph__written_release(x->written);
    if (__builtin_expect(x->tracked, 0))
        ph__quarantine_put(storage->backend, x, going);
    else if (!x->in_block)
        ph__free(x);
    return storage;
}

void ph_tensor_release(ph_tensor *x)
{
    if (is_there(x, "ph_tensor_release") && ph__drop_reference(&x->references))
        ph__storage_release(dissolve(x, PH__GOING_RELEASED));
}

void ph__tensor_release_on(ph_tensor *x, ph_tape *tape)
{
    if (__builtin_expect(x->gone, 0))
        ph_tape_check(tape,
                      ph__quarantine_fail(x, "tape", "a tensor of the tape, released too often,"));
    else if (ph__drop_reference(&x->references))
        ph__storage_release_on(dissolve(x, tape->going), tape->stream, tape->key);
}

/* ---- looking ---- */
ph_device *ph_tensor_device(const ph_tensor *x)
{
    return is_there(x, "ph_tensor_device") ? ph__tensor_backend(x)->device : NULL;
}

ph_dtype ph_tensor_dtype(const ph_tensor *x)
{
    return is_there(x, "ph_tensor_dtype") ? x->dtype : (ph_dtype)0;
}

ph_shape ph_tensor_shape(const ph_tensor *x)
{
    return is_there(x, "ph_tensor_shape") ? x->shape : (ph_shape){0};
}

size_t ph_tensor_rank(const ph_tensor *x)
{
    return is_there(x, "ph_tensor_rank") ? x->shape.rank : 0;
}

int64_t ph_tensor_dim(const ph_tensor *x, int axis)
{
    int at = is_there(x, "ph_tensor_dim") ? ph__axis(axis, x->shape.rank) : -1;
    return at < 0 ? 0 : x->shape.dim[at];
}

int64_t ph_tensor_stride(const ph_tensor *x, int axis)
{
    int at = is_there(x, "ph_tensor_stride") ? ph__axis(axis, x->shape.rank) : -1;
    return at < 0 ? 0 : x->stride[at];
}

int64_t ph_tensor_count(const ph_tensor *x)
{
    return is_there(x, "ph_tensor_count") ? x->count : 0;
}

size_t ph_tensor_bytes(const ph_tensor *x)
{
    return is_there(x, "ph_tensor_bytes") ? (size_t)x->count * ph_dtype_size(x->dtype) : 0;
}

void *ph_tensor_data(const ph_tensor *x)
{
    return is_there(x, "ph_tensor_data") ? x->data : NULL;
}

bool ph_tensor_is_contiguous(const ph_tensor *x)
{
    return is_there(x, "ph_tensor_is_contiguous") && x->contiguous;
}

bool ph_tensor_is_pinned(const ph_tensor *x)
{
    return is_there(x, "ph_tensor_is_pinned") && x->storage->kind == PH__STORAGE_PINNED;
}

uint64_t ph_tensor_version(const ph_tensor *x)
{
    if (!is_there(x, "ph_tensor_version"))
        return 0;
    return atomic_load_explicit(&x->storage->version, memory_order_relaxed);
}

/* ---- gradients ---- */
bool ph_tensor_requires_grad(const ph_tensor *x)
{
    return is_there(x, "ph_tensor_requires_grad") &&
           (x->requires_grad || ph__node_is_alive(x->node));
}

bool ph_tensor_is_leaf(const ph_tensor *x)
{
    return is_there(x, "ph_tensor_is_leaf") && !ph__node_is_alive(x->node);
}

ph_status ph_tensor_set_requires_grad(ph_tensor *x, bool requires_grad)
{
    static const char call[] = "ph_tensor_set_requires_grad";
    char text[PH__DESCRIBE];
    if (!x)
        return ph__fail_null(call, "x");
    PH_TRY(ph__tensor_check_there(x, call, "the tensor"));
    if (ph__node_is_alive(x->node))
        return ph_fail(PH_ERROR_STATE,
                       "%s: %s was made by an operator, and is no leaf; ph_detach gives one", call,
                       ph__describe(text, x));
    if (requires_grad && !ph_dtype_is_floating(x->dtype))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %s has no gradient: its dtype is not a floating one",
                       call, ph__describe(text, x));
    /* Made now, while nobody else uses x: tapes of several threads may read a parameter. */
    if (requires_grad && !ph__tensor_leaf(x))
        return ph__fail_host_memory(call, "the gradient of a tensor");
    ph__node_release(x->node);
    x->node = NULL;
    x->output = 0;
    x->requires_grad = requires_grad;
    return PH_OK;
}

ph_tensor *ph_tensor_grad(const ph_tensor *x)
{
    return is_there(x, "ph_tensor_grad") && x->leaf ? x->leaf->grad : NULL;
}

ph__leaf *ph__tensor_leaf(ph_tensor *x)
{
    if (!x->leaf)
        x->leaf = ph__calloc(1, sizeof *x->leaf);
    return x->leaf;
}

ph_status ph__tensor_check_grad(const ph_tensor *x, const ph_tensor *grad, const char *call)
{
    char a[PH__DESCRIBE], b[PH__DESCRIBE];
    PH_TRY(ph__tensor_check_there(x, call, "the tensor"));
    PH_TRY(ph__tensor_check_there(grad, call, "the gradient"));
    if (grad->dtype != x->dtype || !ph_shape_equal(&grad->shape, &x->shape))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: the gradient is %s, and must be %s as the tensor is",
                       call, ph__describe(a, grad), ph__describe(b, x));
    if (ph_tensor_device(grad) != ph_tensor_device(x))
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: the gradient %s is on another device than the tensor", call,
                       ph__describe(a, grad));
    return PH_OK;
}

ph_status ph_tensor_set_grad(ph_tensor *x, ph_tensor *grad)
{
    static const char call[] = "ph_tensor_set_grad";
    if (!x)
        return ph__fail_null(call, "x");
    PH_TRY(ph__tensor_check_there(x, call, "the tensor"));
    if (!grad && !x->leaf)
        return PH_OK;
    if (grad == x)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: a tensor cannot be its own gradient", call);
    if (grad)
        PH_TRY(ph__tensor_check_grad(x, grad, call));
    ph__leaf *leaf = ph__tensor_leaf(x);
    if (!leaf)
        return ph__fail_host_memory(call, "the gradient of a tensor");
    ph_tensor *old = leaf->grad;
    leaf->grad = ph_tensor_retain(grad);
    ph_tensor_release(old);
    return PH_OK;
}
