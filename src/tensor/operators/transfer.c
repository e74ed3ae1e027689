/* SPDX-License-Identifier: MIT */
/* tensor/operators/transfer.c: contents between tensors and host memory, and between devices. */
#include "tensor/operators/transfer.h"
#include "base/alloc.h"
#include "base/half.h"
#include "base/status.h"
#include "tensor/backend/backend.h"
#include "tensor/core/describe.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/node.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include "tensor/tape/tape_list.h"
#include <string.h>

enum {
    CAPTURE_UNSUPPORTED = 900 /* CUDA's number */
};

ph_status ph__refuse_in_capture(const ph_tape *tape, const char *call)
{
    if (!ph_stream_is_capturing(tape->stream))
        return PH_OK;
    return ph__fail_native(
        PH_ERROR_CAPTURE, CAPTURE_UNSUPPORTED, NULL,
        "%s: waits for the device, which a stream in a capture cannot; refused before it "
        "could harm the capture; "
        "ph_tensor_copy into a pinned tensor (ph_tensor_create_pinned) in the capture, and look "
        "at that one after a replay, or end the capture and replay first",
        call);
}

/* The tape fails with what a call has just failed with. */
static ph_status fail_transfer(ph_tape *tape, ph_status status)
{
    ph_tape_check(tape, status);
    return status;
}

/* The checks that all calls here share. x may be NULL: then that is the failure. */
static ph_status begin_transfer(ph__op *op, ph_tape *tape, const char *call, ph_tensor *const *in)
{
    if (!tape)
        return ph__fail_null(call, "tape");
    PH_TRY(ph__tape_refuse(tape, call));
    return ph__op_begin(op, tape, call, in, 1, 1) ? PH_OK : ph_tape_status(tape);
}

static ph_status check_bytes(const ph_tensor *x, const void *data, size_t bytes, const char *call)
{
    char text[PH__DESCRIBE];
    if (bytes != ph_tensor_bytes(x))
        return ph_fail(PH_ERROR_SIZE, "%s: %zu bytes for %s, which has %zu%s", call, bytes,
                       ph__describe(text, x), ph_tensor_bytes(x),
                       bytes == 2 * ph_tensor_bytes(x) && ph_dtype_size(x->dtype) == 2
                           ? "; its elements have 2 bytes, and those of floats 4: ph_cast converts"
                           : "; ph_tensor_bytes says how many");
    return bytes == 0 || data ? PH_OK : ph__fail_null(call, "data");
}

/* ---- write ---- */
/* The remedy of a copy is the last part of its message: it is of addresses, and this of tensors. */
static void replace_remedy(const char *remedy)
{
    ph_error cause = *ph_error_last();
    char *last = NULL;
    for (char *at = cause.message; (at = strstr(at, "; ")) != NULL; at++)
        last = at;
    if (last)
        *last = '\0';
    ph_ignore(ph_error_set(&cause));
    ph__error_suffix(remedy);
}

static ph_status copy_from_host(const ph_tape *tape, void *to, const void *data, size_t bytes,
                                const char *call)
{
    ph_status status = ph_memcpy(to, data, bytes, tape->stream);
    if (status != PH_OK)
        ph__error_prefix("%s", call);
    if (status == PH_ERROR_UNPINNED)
        replace_remedy("; write before the capture, or from memory of ph_malloc_pinned, or "
                       "ph_tensor_copy from a pinned tensor (ph_tensor_create_pinned) in it");
    return status;
}

/* By way of a contiguous tensor: x's own elements may lie anywhere. */
static ph_status write_spread(ph_tape *tape, ph_tensor *x, const void *data, size_t bytes,
                              const char *call)
{
    bool grad = ph_tape_set_grad_enabled(tape, false);
    size_t mark = ph_tape_scope_begin(tape);
    ph_tensor *aside = ph_empty(tape, x->dtype, x->shape);
    if (aside)
        ph_tape_check(tape, copy_from_host(tape, aside->data, data, bytes, call));
    ph_tensor_copy(tape, x, aside);
    ph_tape_scope_end(tape, mark, NULL, 0);
    (void)ph_tape_set_grad_enabled(tape, grad);
    return ph_tape_status(tape);
}

ph_status ph__tensor_write(ph_tape *tape, ph_tensor *x, const void *data, size_t bytes,
                           const char *call)
{
    ph_status status = check_bytes(x, data, bytes, call);
    if (status != PH_OK)
        return fail_transfer(tape, status);
    if (x->storage->read_only)
        return fail_transfer(tape, ph_fail(PH_ERROR_STATE, "%s: the memory is read-only", call));
    if (tape->grad_enabled && ph__node_is_alive(x->node))
        return fail_transfer(
            tape, ph_fail(PH_ERROR_STATE,
                          "%s: the tensor was made by an operator that backward will come through; "
                          "ph_detach it first",
                          call));
    if (bytes == 0)
        return PH_OK;
    if (!x->contiguous)
        return write_spread(tape, x, data, bytes, call);
    ph_capture_info info;
    status = ph_stream_get_capture_info(&info, tape->stream);
    if (status == PH_OK)
        status = copy_from_host(tape, x->data, data, bytes, call);
    if (status == PH_OK)
        ph__storage_changed(x->storage, info.id, tape->key);
    return fail_transfer(tape, status);
}

ph_status ph_tensor_write(ph_tape *tape, ph_tensor *x, const void *data, size_t bytes)
{
    static const char call[] = "ph_tensor_write";
    ph_tensor *in[] = {x};
    ph__op op;
    PH_TRY(begin_transfer(&op, tape, call, in));
    return ph__tape_report(tape, ph__tensor_write(tape, x, data, bytes, call));
}

/* ---- read ---- */
static ph_status copy_tensor_to_host(void *data, size_t bytes, ph_tape *tape, const ph_tensor *x)
{
    PH_TRY(ph_memcpy(data, x->data, bytes, tape->stream));
    return ph_stream_synchronize(tape->stream);
}

static ph_status read_elements(void *data, size_t bytes, ph_tape *tape, ph_tensor *x)
{
    if (bytes == 0)
        return PH_OK;
    if (x->contiguous)
        return fail_transfer(tape, copy_tensor_to_host(data, bytes, tape, x));
    bool grad = ph_tape_set_grad_enabled(tape, false);
    size_t mark = ph_tape_scope_begin(tape);
    ph_tensor *aside = ph_contiguous(tape, x);
    if (aside)
        ph_tape_check(tape, copy_tensor_to_host(data, bytes, tape, aside));
    ph_tape_scope_end(tape, mark, NULL, 0);
    (void)ph_tape_set_grad_enabled(tape, grad);
    return ph_tape_status(tape);
}

ph_status ph_tensor_read(ph_tape *tape, const ph_tensor *x, void *data, size_t bytes)
{
    static const char call[] = "ph_tensor_read";
    ph_tensor *in[] = {(ph_tensor *)x};
    ph__op op;
    PH_TRY(begin_transfer(&op, tape, call, in));
    ph_status status = ph__refuse_in_capture(tape, call);
    if (status == PH_OK)
        status = check_bytes(x, data, bytes, call);
    status =
        status == PH_OK ? read_elements(data, bytes, tape, in[0]) : fail_transfer(tape, status);
    return ph__tape_report(tape, status);
}

static double number_of_element(const void *data, ph_dtype dtype)
{
    union {
        float f32;
        double f64;
        uint16_t half;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
    } value;
    memcpy(&value, data, ph_dtype_size(dtype));
    switch (dtype) {
    case PH_DTYPE_F32:
        return (double)value.f32;
    case PH_DTYPE_F64:
        return value.f64;
    case PH_DTYPE_F16:
        return (double)ph__f16_get(value.half);
    case PH_DTYPE_BF16:
        return (double)ph__bf16_get(value.half);
    case PH_DTYPE_I32:
        return value.i32;
    case PH_DTYPE_I64:
        return (double)value.i64;
    case PH_DTYPE_U8:
        return value.u8;
    case PH_DTYPE_BOOL:
        return value.u8 != 0;
    }
    return 0;
}

ph_status ph_tensor_item(double *out, ph_tape *tape, const ph_tensor *x)
{
    static const char call[] = "ph_tensor_item";
    ph_tensor *in[] = {(ph_tensor *)x};
    ph__op op;
    uint64_t element = 0;
    PH_TRY(begin_transfer(&op, tape, call, in));
    ph_status status = ph__refuse_in_capture(tape, call);
    if (status == PH_OK && !out)
        status = ph__fail_null(call, "out");
    if (status != PH_OK)
        return ph__tape_report(tape, fail_transfer(tape, status));
    if (x->count != 1) {
        ph__op_fail(&op, PH_ERROR_ARGUMENT, "the tensor must have one element");
        return ph_tape_status(tape);
    }
    PH_TRY(ph__tape_report(tape, read_elements(&element, ph_tensor_bytes(x), tape, in[0])));
    *out = number_of_element(&element, x->dtype);
    return PH_OK;
}

/* ---- between devices ---- */
static ph_status refuse_unpinned(const char *call)
{
    return ph__fail_native(
        PH_ERROR_UNPINNED, CAPTURE_UNSUPPORTED, NULL,
        "%s: cannot copy from another device in a capture, as that goes by way of pageable host "
        "memory, and replays would read whatever is there then; refused before it could harm "
        "the capture; copy from a "
        "pinned tensor of this device (ph_tensor_create_pinned), or outside the capture",
        call);
}

/* Work that a capture of the tensor's own device records has not run, and a copy would have the
 * contents from before. */
static ph_status refuse_captured(const char *call)
{
    return ph__fail_native(PH_ERROR_UNPINNED, CAPTURE_UNSUPPORTED, NULL,
                           "%s: a tape that made, changed or used the tensor is in a capture of "
                           "its own device that has not "
                           "ended, and what was "
                           "captured has "
                           "not run; refused before it could harm the capture; "
                           "ph_tensor_copy into a pinned tensor "
                           "(ph_tensor_create_pinned) in the "
                           "capture, or copy after a replay",
                           call);
}

static ph_status check_between_devices(const ph_tape *tape, const ph_tensor *src, const char *call)
{
    if (ph_stream_is_capturing(tape->stream))
        return refuse_unpinned(call);
    bool captured;
    PH_TRY(ph__storage_captured(&captured, src->storage));
    return captured ? refuse_captured(call) : PH_OK;
}

ph_status ph__tensor_copy_contents(ph_tape *tape, ph_tensor *dst, const ph_tensor *src,
                                   const char *call)
{
    size_t bytes = ph_tensor_bytes(src);
    if (src->storage->backend == tape->backend)
        return bytes == 0 ? PH_OK : ph_memcpy(dst->data, src->data, bytes, tape->stream);
    PH_TRY(check_between_devices(tape, src, call));
    return ph__backend_copy(tape->backend, dst->data, tape->stream, src->storage->backend,
                            src->data, bytes);
}

static void to_device_backward(ph__grad_call *call)
{
    call->in_grads[0] = call->out_grads[0];
}
static const ph__grad_def to_device_grad = {"to_device", 0, to_device_backward, NULL};

static ph_tensor *from_here(ph_tape *tape, ph_tensor *x)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (x->storage->kind == PH__STORAGE_PINNED)
        x = in[0] = ph_contiguous(tape, x);
    if (!ph__op_begin(&op, tape, "to_device", in, 1, 1))
        return NULL;
    if (x->storage->kind != PH__STORAGE_PINNED)
        return x;
    ph_tensor *y = ph__op_output(&op, x->dtype, &x->shape);
    if (!y || !ph__op_check(&op, ph__tensor_copy_contents(tape, y, x, "ph_to_device")))
        return NULL;
    if (op.tracked)
        (void)ph__op_track(&op, &to_device_grad, 0);
    return ph__op_done(&op, y);
}

/* The engine knows one device: a gradient cannot go back to another one. */
static ph_tensor *from_elsewhere(ph_tape *tape, ph_tensor *x)
{
    ph__op op;
    if (!ph__op_begin(&op, tape, "to_device", NULL, 0, 0))
        return NULL;
    if (ph__tensor_is_overwritten(x)) {
        ph_tape_check(tape, ph__fail_overwritten(x, op.name, "operand 0"));
        return NULL;
    }
    if (tape->grad_enabled && ph__needs_grad(x))
        return ph__op_fail(
            &op, PH_ERROR_STATE,
            "the tensor requires a gradient, and that cannot go back to another device; copy it in "
            "no-grad mode, or ph_detach it first");
    if (!ph__op_check(&op, check_between_devices(tape, x, "ph_to_device")))
        return NULL;
    if (!x->contiguous)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT,
                           "the tensor is of another device and not contiguous; ph_contiguous on a "
                           "tape of that one");
    ph_tensor *y = ph__op_output(&op, x->dtype, &x->shape);
    if (!y || !ph__op_check(&op, ph__tensor_copy_contents(tape, y, x, "ph_to_device")))
        return NULL;
    return ph__op_done(&op, y);
}

ph_tensor *ph_to_device(ph_tape *tape, ph_tensor *x)
{
    bool elsewhere = tape && x && x->storage->backend != tape->backend;
    if (elsewhere)
        return from_elsewhere(tape, x);
    ph_tensor *in[] = {x};
    ph__op op;
    return ph__op_begin(&op, tape, "to_device", in, 1, 1) ? from_here(tape, x) : NULL;
}
