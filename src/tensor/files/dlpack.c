/* SPDX-License-Identifier: MIT */
/* tensor/files/dlpack.c: tensors to and from other libraries, without copies. */
#include "base/alloc.h"
#include "base/status.h"
#include "tensor/core/describe.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/files/dlpack_abi.h"
#include "tensor/tape/node.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"

static const struct {
    ph_dtype dtype;
    uint8_t code, bits;
} dtypes[] = {{PH_DTYPE_F32, PH__DL_FLOAT, 32}, {PH_DTYPE_F64, PH__DL_FLOAT, 64},
              {PH_DTYPE_F16, PH__DL_FLOAT, 16}, {PH_DTYPE_BF16, PH__DL_BFLOAT, 16},
              {PH_DTYPE_I32, PH__DL_INT, 32},   {PH_DTYPE_I64, PH__DL_INT, 64},
              {PH_DTYPE_U8, PH__DL_UINT, 8},    {PH_DTYPE_BOOL, PH__DL_BOOL, 8}};
enum {
    DTYPES = sizeof dtypes / sizeof *dtypes
};

/* ---- out ---- */
/* The data that both forms keep until the consumer is done: one allocation. */
typedef struct lent {
    union {
        struct DLManagedTensor plain;
        struct DLManagedTensorVersioned versioned;
    } managed;
    ph_tensor *tensor; /* retained */
    int64_t shape[PH_MAX_RANK], strides[PH_MAX_RANK];
} lent;

static void release_lent(lent *l)
{
    ph_tensor_release(l->tensor);
    ph__free(l);
}

static void delete_plain(struct DLManagedTensor *self)
{
    release_lent(self->context);
}

static void delete_versioned(struct DLManagedTensorVersioned *self)
{
    release_lent(self->context);
}

static void describe_lent(ph__dl_tensor *out, lent *l, const ph_tensor *x)
{
    const ph__backend *backend = ph__tensor_backend(x);
    bool pinned = x->storage->kind == PH__STORAGE_PINNED;
    *out = (ph__dl_tensor){.data = ph__tensor_show(x),
                           .device_type = pinned          ? PH__DL_CUDA_HOST
                                          : backend->cuda ? PH__DL_CUDA
                                                          : PH__DL_CPU,
                           .device_id = pinned ? 0 : backend->ordinal,
                           .ndim = (int32_t)x->shape.rank,
                           .lanes = 1,
                           .shape = l->shape,
                           .strides = l->strides};
    for (size_t i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == x->dtype) {
            out->code = dtypes[i].code;
            out->bits = dtypes[i].bits;
        }
    for (size_t i = 0; i < x->shape.rank; i++) {
        l->shape[i] = x->shape.dim[i];
        l->strides[i] = x->stride[i];
    }
}

/* The consumer's work is ordered behind the tape's work, and the memory is not used anew
 * before that is done. */
static ph_status order_consumer(ph_tape *tape, const ph_tensor *x, ph_stream *consumer)
{
    PH_TRY(ph__storage_use(x->storage, tape->stream, tape->key));
    if (!consumer || consumer == tape->stream)
        return PH_OK;
    PH_TRY(ph_stream_wait_stream(consumer, tape->stream));
    return ph__storage_record(x->storage, consumer);
}

static ph_status lend_tensor(lent **out, ph_tape *tape, ph_tensor *x, ph_stream *consumer,
                             const char *call)
{
    char text[PH__DESCRIBE];
    if (!tape)
        return ph__fail_null(call, "tape");
    PH_TRY(ph__tape_refuse(tape, call));
    if (!x)
        return ph__fail_null(call, "x");
    if (ph__tensor_is_overwritten(x))
        return ph__fail_overwritten(x, call, "the tensor");
    if (x->storage->backend != tape->backend)
        return ph_fail(PH_ERROR_WRONG_DEVICE, "%s: %s is of another device than the tape", call,
                       ph__describe(text, x));
    if (ph__needs_grad(x))
        return ph_fail(PH_ERROR_STATE,
                       "%s: %s requires a gradient, which another library would not know of; "
                       "ph_detach it first",
                       call, ph__describe(text, x));
    lent *l = ph__calloc(1, sizeof *l);
    if (!l)
        return ph__fail_host_memory(call, "what is handed out");
    ph_status status = order_consumer(tape, x, consumer);
    if (status != PH_OK) {
        ph__free(l);
        return status;
    }
    l->tensor = ph_tensor_retain(x);
    *out = l;
    return PH_OK;
}

ph_status ph_tensor_to_dlpack(struct DLManagedTensorVersioned **out, ph_tape *tape, ph_tensor *x,
                              ph_stream *consumer)
{
    static const char call[] = "ph_tensor_to_dlpack";
    lent *l;
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    PH_TRY(lend_tensor(&l, tape, x, consumer, call));
    *out = &l->managed.versioned;
    **out =
        (struct DLManagedTensorVersioned){.major = PH__DL_MAJOR,
                                          .minor = PH__DL_MINOR,
                                          .context = l,
                                          .deleter = delete_versioned,
                                          .flags = x->storage->read_only ? PH__DL_READ_ONLY : 0};
    describe_lent(&(*out)->tensor, l, x);
    return PH_OK;
}

ph_status ph_tensor_to_dlpack_unversioned(struct DLManagedTensor **out, ph_tape *tape, ph_tensor *x,
                                          ph_stream *consumer)
{
    static const char call[] = "ph_tensor_to_dlpack_unversioned";
    lent *l;
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (x && x->storage->read_only)
        return ph_fail(PH_ERROR_STATE,
                       "%s: the memory is read-only, which the form without a version cannot say",
                       call);
    PH_TRY(lend_tensor(&l, tape, x, consumer, call));
    *out = &l->managed.plain;
    **out = (struct DLManagedTensor){.context = l, .deleter = delete_plain};
    describe_lent(&(*out)->tensor, l, x);
    return PH_OK;
}

/* ---- in ---- */
static ph_status find_dtype(ph_dtype *out, const ph__dl_tensor *t, const char *call)
{
    for (size_t i = 0; i < DTYPES; i++)
        if (dtypes[i].code == t->code && dtypes[i].bits == t->bits && t->lanes == 1) {
            *out = dtypes[i].dtype;
            return PH_OK;
        }
    return ph_fail(PH_ERROR_UNSUPPORTED,
                   "%s: there is no dtype of code %d with %d bits in %d lanes here", call, t->code,
                   t->bits, t->lanes);
}

/* Pinned memory can be addressed by every device. */
static ph_status check_device(const ph__backend *backend, const ph__dl_tensor *t, const char *call)
{
    int32_t own = backend->cuda ? PH__DL_CUDA : PH__DL_CPU;
    if (t->device_type == PH__DL_CUDA_HOST)
        return PH_OK;
    if (t->device_type != PH__DL_CPU && t->device_type != PH__DL_CUDA)
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: memory of a device of type %d; 1 (CPU), 2 (CUDA) and 3 (CUDA's pinned) "
                       "are known",
                       call, t->device_type);
    if (t->device_type != own || (backend->cuda && t->device_id != backend->ordinal))
        return ph_fail(PH_ERROR_WRONG_DEVICE,
                       "%s: memory of device type %d, number %d; the tape is of type %d, number %d",
                       call, t->device_type, t->device_id, own, backend->ordinal);
    return PH_OK;
}

static ph_status read_dl_shape(ph_shape *out, const ph__dl_tensor *t, const char *call)
{
    *out = (ph_shape){0};
    if (t->ndim < 0 || (t->ndim > 0 && !t->shape))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %d dimensions, and shape is %p", call, t->ndim,
                       (void *)t->shape);
    if (t->ndim > PH_MAX_RANK)
        return ph_fail(PH_ERROR_UNSUPPORTED, "%s: %d dimensions; at most %d are possible here",
                       call, t->ndim, PH_MAX_RANK);
    out->rank = (size_t)t->ndim;
    for (size_t i = 0; i < out->rank; i++)
        out->dim[i] = t->shape[i];
    return PH_OK;
}

static ph_status borrow_dl_tensor(ph_tensor **out, ph_tape *tape, const ph__dl_tensor *t,
                                  const char *call)
{
    ph_dtype dtype = (ph_dtype)0;
    ph_shape shape;
    PH_TRY(check_device(tape->backend, t, call));
    PH_TRY(find_dtype(&dtype, t, call));
    PH_TRY(read_dl_shape(&shape, t, call));
    char *data = t->data ? (char *)t->data + t->byte_offset : NULL;
    return ph__tensor_around(out, tape->backend, dtype, &shape, t->strides, data, call);
}

static ph_status check_import_call(ph_tensor **out, const ph_tape *tape, const void *managed,
                                   const char *call)
{
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!tape)
        return ph__fail_null(call, "tape");
    if (!managed)
        return ph__fail_null(call, "managed");
    return ph__tape_refuse(tape, call);
}

static void give_back_plain(void *managed_)
{
    struct DLManagedTensor *managed = managed_;
    if (managed->deleter)
        managed->deleter(managed);
}

static void give_back_versioned(void *managed_)
{
    struct DLManagedTensorVersioned *managed = managed_;
    if (managed->deleter)
        managed->deleter(managed);
}

ph_status ph_tensor_from_dlpack(ph_tensor **out, ph_tape *tape,
                                struct DLManagedTensorVersioned *managed)
{
    static const char call[] = "ph_tensor_from_dlpack";
    PH_TRY(check_import_call(out, tape, managed, call));
    /* Of what another major version has, only the deleter may be looked at. */
    if (managed->major != PH__DL_MAJOR)
        return ph_fail(PH_ERROR_UNSUPPORTED, "%s: DLPack version %u.%u; %d is known here", call,
                       managed->major, managed->minor, PH__DL_MAJOR);
    PH_TRY(borrow_dl_tensor(out, tape, &managed->tensor, call));
    ph__storage *storage = (*out)->storage;
    storage->read_only = (managed->flags & PH__DL_READ_ONLY) != 0;
    storage->release = give_back_versioned;
    storage->user = managed;
    return PH_OK;
}

ph_status ph_tensor_from_dlpack_unversioned(ph_tensor **out, ph_tape *tape,
                                            struct DLManagedTensor *managed)
{
    static const char call[] = "ph_tensor_from_dlpack_unversioned";
    PH_TRY(check_import_call(out, tape, managed, call));
    PH_TRY(borrow_dl_tensor(out, tape, &managed->tensor, call));
    ph__storage *storage = (*out)->storage;
    storage->release = give_back_plain;
    storage->user = managed;
    return PH_OK;
}
