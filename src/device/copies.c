/* SPDX-License-Identifier: MIT */
/* device/copies.c: copies, fills and host functions on streams, checked as the driver does not. */
#include "device/copies.h"
#include "device/capture/culprit.h"
#include "device/capture/outside.h"
#include "device/capture/submit.h"
#include "device/handles/captures.h"
#include "device/handles/device.h"
#include "device/handles/failed.h"

/* One side of a copy or fill: what kind of memory it is in, and how far that reaches. */
typedef struct place {
    ph__memory_kind kind;
    /* bytes from the address to the end of its allocation; SIZE_MAX for pageable memory */
    size_t room;
} place;

static ph_status find_memory_place(place *out, ph_device *device, const void *address,
                                   const char *call)
{
    ph__drv_pointer where;
    int result = device->driver->pointer_info(&where, device->handle, address);
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_POINTER_GET_ATTRIBUTE, "%s: address %p", call,
                               address);
    out->kind = where.kind;
    out->room = where.kind == PH__MEMORY_PAGEABLE ? SIZE_MAX
                                                  : where.size - ((uintptr_t)address - where.base);
    for (int slot = 0; slot < PH__ATTACH_COUNT; slot++) {
        ph_allocation allocation;
        ph__attachment *attachment = ph__device_attached(device, slot);
        if (!attachment || !attachment->find || !attachment->find(attachment, &allocation, address))
            continue;
        /* Segments of a pool's own functions are the device's, though its driver does not know
         * them. */
        out->kind = allocation.pinned ? PH__MEMORY_PINNED : PH__MEMORY_DEVICE;
        size_t offset = (uintptr_t)address - (uintptr_t)allocation.base;
        out->room = offset < allocation.requested ? allocation.requested - offset : 0;
    }
    return PH_OK;
}

/* Refuses a range that leaves the allocation that it starts in. */
static ph_status check_range(const place *where, const void *address, size_t bytes,
                             const char *side, const char *driver_call, const char *call)
{
    if (bytes <= where->room)
        return PH_OK;
    return ph__fail_native(
        PH_ERROR_SIZE, PH__R_INVALID_VALUE, driver_call,
        "%s: %zu bytes at %s %p leave the allocation it points into, which ends %zu bytes after it",
        call, bytes, side, address, where->room);
}

static ph_status fail_pageable(const ph_device *device, const ph__drv_memcpy *copy, bool is_dst,
                               const char *call)
{
    const char *side = is_dst ? "dst" : "src";
    const void *address = is_dst ? copy->dst : copy->src;
    const char *whose = ph__device_others_have(device, address)
                            ? "memory of another device, which is pageable here,"
                            : "pageable host memory";
    if (is_dst)
        return ph__fail_native(
            PH_ERROR_UNPINNED, PH__R_CAPTURE_UNSUPPORTED, PH__NAME_MEMCPY_ASYNC,
            "%s: cannot copy between %s (%s %p) and a device in a capture, as replays would write "
            "over whatever is there then; refused before it could harm the capture; use memory "
            "from ph_malloc_pinned, or copy outside the capture",
            call, whose, side, address);
    return ph__fail_native(
        PH_ERROR_UNPINNED, PH__R_CAPTURE_UNSUPPORTED, PH__NAME_MEMCPY_ASYNC,
        "%s: cannot copy between %s (%s %p) and a device in a capture, as replays would read "
        "whatever is there then; refused before it could harm the capture; use memory from "
        "ph_malloc_pinned, or copy outside the capture",
        call, whose, side, address);
}

ph_status ph__copy_check(bool *pageable, ph_device *device, const ph__drv_memcpy *copy,
                         const char *call)
{
    place dst, src;
    if (!copy->dst)
        return ph__fail_null(call, "dst");
    if (!copy->src)
        return ph__fail_null(call, "src");
    uintptr_t d = (uintptr_t)copy->dst, s = (uintptr_t)copy->src;
    if (copy->bytes > UINTPTR_MAX - d || copy->bytes > UINTPTR_MAX - s)
        return ph__fail_native(PH_ERROR_SIZE, PH__R_INVALID_VALUE, PH__NAME_MEMCPY_ASYNC,
                               "%s: %zu bytes run beyond the end of the address space", call,
                               copy->bytes);
    PH_TRY(find_memory_place(&dst, device, copy->dst, call));
    PH_TRY(find_memory_place(&src, device, copy->src, call));
    PH_TRY(check_range(&dst, copy->dst, copy->bytes, "dst", PH__NAME_MEMCPY_ASYNC, call));
    PH_TRY(check_range(&src, copy->src, copy->bytes, "src", PH__NAME_MEMCPY_ASYNC, call));
    if (d < s + copy->bytes && s < d + copy->bytes)
        return ph__fail_native(PH_ERROR_ARGUMENT, PH__R_INVALID_VALUE, PH__NAME_MEMCPY_ASYNC,
                               "%s: dst %p and src %p overlap within %zu bytes", call, copy->dst,
                               copy->src, copy->bytes);
    bool found = dst.kind == PH__MEMORY_PAGEABLE || src.kind == PH__MEMORY_PAGEABLE;
    if (found && !pageable)
        return fail_pageable(device, copy, dst.kind == PH__MEMORY_PAGEABLE, call);
    if (pageable)
        *pageable = found;
    return PH_OK;
}

/* A capture that is just beginning has its pool when is_open returns. */
static void report_copy(ph_device *device, uint64_t capture_id, const ph__drv_memcpy *copy)
{
    (void)ph__capture_is_open(device, capture_id);
    for (int slot = 0; slot < PH__ATTACH_COUNT; slot++) {
        ph__attachment *attachment = ph__device_attached(device, slot);
        if (attachment && attachment->copy_captured)
            attachment->copy_captured(attachment, capture_id, copy->dst, copy->src);
    }
}

static ph_status fail_copy(int result, const ph_stream *stream, const ph__drv_memcpy *copy,
                           const char *call)
{
    if (result == PH__R_OUT_OF_MEMORY)
        return ph__fail_host_memory(call, "the copy");
    return ph__stream_fail(result, stream, PH__NAME_MEMCPY_ASYNC, "%s: %zu bytes", call,
                           copy->bytes);
}

/* Between memory that captures may copy. Whether one did is what the driver says: one may begin
 * on another thread meanwhile. */
static ph_status submit_copy(ph_stream *stream, const ph__drv_memcpy *copy, const char *call)
{
    bool held;
    uint64_t capture_id = 0;
    PH_TRY(ph__submit_enter(&held, stream, PH__RULE_COPY_LEGACY_BLOCKING, call));
    int result = stream->device->driver->copy(stream->handle, copy, &capture_id);
    ph__submit_leave(held, stream);
    if (capture_id != 0)
        report_copy(stream->device, capture_id, copy);
    else if (result == PH__R_OK)
        ph__outside_note(stream, call);
    return result == PH__R_OK ? PH_OK : fail_copy(result, stream, copy, call);
}

/* A copy to pageable memory waits for the stream: the default stream is only checked, and
 * nothing keeps a capture with blocking streams from beginning meanwhile. */
static ph_status submit_pageable_legacy(ph_stream *stream, const ph__drv_memcpy *copy,
                                        const char *call)
{
    place dst;
    PH_TRY(find_memory_place(&dst, stream->device, copy->dst, call));
    if (dst.kind != PH__MEMORY_PAGEABLE)
        return submit_copy(stream, copy, call);
    PH_TRY(ph__legacy_check(stream, PH__RULE_COPY_LEGACY_BLOCKING));
    ph__outside_note(stream, call);
    int result = stream->device->driver->copy(stream->handle, copy, NULL);
    return result == PH__R_OK ? PH_OK : fail_copy(result, stream, copy, call);
}

/* While stream->asks is shared no capture of this library begins here; the driver says whether
 * one of other code did. */
static ph_status submit_pageable_asked(ph_stream *stream, const ph__drv_memcpy *copy,
                                       const char *call)
{
    uint64_t capture_id, recorded = 0;
    place dst;
    PH_TRY(find_memory_place(&dst, stream->device, copy->dst, call));
    PH_TRY(ph__stream_find_capture(&capture_id, stream, call));
    if (capture_id != 0)
        return fail_pageable(stream->device, copy, dst.kind == PH__MEMORY_PAGEABLE, call);
    ph__outside_note(stream, call);
    int result = stream->device->driver->copy(stream->handle, copy, &recorded);
    if (result != PH__R_OK)
        return fail_copy(result, stream, copy, call);
    if (recorded == 0 || !ph__capture_is_foreign(stream, recorded))
        return PH_OK;
    return ph__fail_native(
        PH_ERROR_UNPINNED, PH__R_CAPTURE_UNSUPPORTED, PH__NAME_MEMCPY_ASYNC,
        "%s: other code began a capture (id %llu) on the stream during the call, which may have "
        "recorded the "
        "copy of pageable memory (dst %p, src %p): drop that capture, and order the two",
        call, (unsigned long long)recorded, copy->dst, copy->src);
}

static ph_status submit_pageable(ph_stream *stream, const ph__drv_memcpy *copy, const char *call)
{
    if (stream->is_default)
        return submit_pageable_legacy(stream, copy, call);
    ph__shared_lock(&stream->asks);
    ph_status status = submit_pageable_asked(stream, copy, call);
    ph__shared_unlock(&stream->asks);
    return status;
}

/* A copy to pageable memory has waited for the work before it, as synchronizing does. */
static ph_status check_read_back(ph_device *device, const void *dst, const char *call)
{
    place where;
    if (atomic_load_explicit(&device->failed_count, memory_order_acquire) == 0)
        return PH_OK;
    PH_TRY(find_memory_place(&where, device, dst, call));
    return where.kind == PH__MEMORY_PAGEABLE ? ph__failed_check(device, call) : PH_OK;
}

ph_status ph_memcpy(void *dst, const void *src, size_t bytes, ph_stream *stream)
{
    static const char call[] = "ph_memcpy";
    PH_TRY(ph__stream_check(stream, call));
    if (bytes == 0)
        return PH_OK;
    const ph__drv_memcpy copy = {dst, src, bytes};
    bool pageable;
    PH_TRY(ph__copy_check(&pageable, stream->device, &copy, call));
    if (!pageable)
        return submit_copy(stream, &copy, call);
    PH_TRY(submit_pageable(stream, &copy, call));
    return check_read_back(stream->device, dst, call);
}

static ph_status fail_fill_pageable(const ph_device *device, const void *dst, const char *call)
{
    if (ph__device_others_have(device, dst))
        return ph__fail_native(
            PH_ERROR_ARGUMENT, PH__R_INVALID_VALUE, PH__NAME_MEMSET_ASYNC,
            "%s: dst %p is memory of another device than the stream's (%s); every "
            "ph_device_open makes a device of its own: use memory of this one",
            call, dst, device->name);
    return ph__fail_native(
        PH_ERROR_ARGUMENT, PH__R_INVALID_VALUE, PH__NAME_MEMSET_ASYNC,
        "%s: dst %p is neither device nor pinned memory of the stream's device (%s)", call, dst,
        device->name);
}

ph_status ph__fill_check(ph_device *device, const ph__drv_memset *fill, const char *call)
{
    place where;
    size_t bytes;
    if (!fill->dst)
        return ph__fail_null(call, "dst");
    if (__builtin_mul_overflow(fill->count, (size_t)fill->value_size, &bytes))
        return ph__fail_native(PH_ERROR_SIZE, PH__R_INVALID_VALUE, PH__NAME_MEMSET_ASYNC,
                               "%s: %zu elements of %u bytes overflow", call, fill->count,
                               (unsigned)fill->value_size);
    if ((uintptr_t)fill->dst % fill->value_size != 0)
        return ph__fail_native(PH_ERROR_ARGUMENT, PH__R_INVALID_VALUE, PH__NAME_MEMSET_ASYNC,
                               "%s: dst %p is not aligned to its %u-byte elements", call, fill->dst,
                               (unsigned)fill->value_size);
    PH_TRY(find_memory_place(&where, device, fill->dst, call));
    if (where.kind == PH__MEMORY_PAGEABLE)
        return fail_fill_pageable(device, fill->dst, call);
    return check_range(&where, fill->dst, bytes, "dst", PH__NAME_MEMSET_ASYNC, call);
}

ph_status ph__memory_check(ph_device *device, const void *address, size_t bytes, const char *side,
                           const char *call)
{
    place where;
    if (bytes > UINTPTR_MAX - (uintptr_t)address)
        return ph_fail(PH_ERROR_SIZE, "%s: %zu bytes at %s %p run beyond the address space", call,
                       bytes, side, address);
    PH_TRY(find_memory_place(&where, device, address, call));
    if (where.kind == PH__MEMORY_PAGEABLE)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: %s %p is neither device nor pinned memory of the communicator's device "
                       "(%s)",
                       call, side, address, device->name);
    return check_range(&where, address, bytes, side, "", call);
}

static ph_status submit_fill(ph_stream *stream, const ph__drv_memset *fill, const char *call)
{
    PH_TRY(ph__stream_check(stream, call));
    if (fill->count == 0)
        return PH_OK;
    PH_TRY(ph__fill_check(stream->device, fill, call));
    bool held;
    ph__outside_note(stream, call);
    PH_TRY(ph__submit_enter(&held, stream, PH__RULE_FILL_LEGACY_BLOCKING, call));
    int result = stream->device->driver->fill(stream->handle, fill);
    ph__submit_leave(held, stream);
    if (result == PH__R_OUT_OF_MEMORY)
        return ph__fail_host_memory(call, "the fill");
    return result == PH__R_OK ? PH_OK
                              : ph__stream_fail(result, stream, PH__NAME_MEMSET_ASYNC, "%s", call);
}

ph_status ph_memset(void *dst, uint8_t value, size_t bytes, ph_stream *stream)
{
    ph__drv_memset what = {dst, value, 1, bytes};
    return submit_fill(stream, &what, "ph_memset");
}

ph_status ph_memset_u32(void *dst, uint32_t value, size_t count, ph_stream *stream)
{
    ph__drv_memset what = {dst, value, 4, count};
    return submit_fill(stream, &what, "ph_memset_u32");
}

/* The function may have the last reference to the device, and be done before the call is: the
 * caller keeps one. */
static ph_status submit_host(int *result, ph_stream *stream, const ph__drv_host *host,
                             const char *call)
{
    bool held;
    PH_TRY(ph__submit_enter(&held, stream, PH__RULE_HOST_LEGACY_BLOCKING, call));
    *result = stream->device->driver->host(stream->handle, host);
    ph__submit_leave(held, stream);
    if (atomic_load_explicit(&stream->device->open_captures, memory_order_relaxed))
        atomic_fetch_add_explicit(&stream->device->captured_calls, 1, memory_order_relaxed);
    return PH_OK;
}

ph_status ph_launch_host(ph_stream *stream, ph_host_fn fn, void *user)
{
    static const char call[] = "ph_launch_host";
    PH_TRY(ph__stream_check(stream, call));
    if (!fn)
        return ph__fail_null(call, "fn");
    ph__outside_note(stream, call);
    ph_device *device = ph_device_retain(stream->device);
    int result;
    ph_status status = submit_host(&result, stream, &(ph__drv_host){fn, user}, call);
    ph_device_release(device);
    PH_TRY(status);
    if (result == PH__R_OUT_OF_MEMORY)
        return ph__fail_host_memory(call, "the host function");
    return result == PH__R_OK
               ? PH_OK
               : ph__stream_fail(result, stream, PH__NAME_LAUNCH_HOST_FUNC, "%s", call);
}
