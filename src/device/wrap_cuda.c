/* SPDX-License-Identifier: MIT */
/* device/wrap_cuda.c: handles of CUDA's that programs bring or ask for: streams, kernels,
 * numbers. */
#include "device/wrap_cuda.h"
#include "base/alloc.h"
#include "device/capture/culprit.h"
#include "device/capture/refuse.h"
#include "device/handles/captures.h"
#include "device/handles/device.h"
#include "device/handles/drivers.h"
#include "device/handles/hold.h"
#include "device/handles/kernel.h"
#include <phonograph/cuda.h>
#include <stdio.h>

/* ---- streams ---- */
static ph_status fail_stream(int result, const ph_device *device, const char *driver_call,
                             const char *call)
{
    const char *reason = ph__driver_reason();
    const char *colon = reason[0] ? ": " : "";
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the stream");
    switch (result) {
    case PH__R_INVALID_CONTEXT:
        return ph__fail_native(
            PH_ERROR_WRONG_DEVICE, result, driver_call,
            "%s: the stream is of another context than its GPU's primary one, which this library "
            "and the runtime API use; create it there%s%s",
            call, colon, reason);
    case PH__R_INVALID_HANDLE:
    case PH__R_INVALID_VALUE:
        return ph__fail_native(PH_ERROR_ARGUMENT, result, driver_call,
                               "%s: this is no stream of CUDA's%s%s", call, colon, reason);
    case PH__R_NOT_SUPPORTED:
        return ph__fail_native(PH_ERROR_UNSUPPORTED, result, driver_call,
                               "%s: device %s has no streams of CUDA's%s%s", call,
                               device ? device->name : "", colon, reason);
    default:
        return ph__driver_fail(result, driver_call, "%s", call);
    }
}

static ph_status wrap_stream(ph_stream **out, ph_device *device, void *native, int flags,
                             const char *call)
{
    ph__drv_stream *handle = NULL;
    int priority = 0;
    ph_stream *stream = ph__calloc(1, sizeof *stream);
    if (!stream)
        return ph__fail_host_memory(call, "the stream");
    int result = device->driver->stream_wrap(&handle, device->handle, native, &priority, &flags);
    if (result != PH__R_OK) {
        ph__free(stream);
        return fail_stream(result, device, PH__NAME_STREAM_GET_CTX, call);
    }
    stream->handle = handle;
    stream->wrapped = true;
    stream->priority = priority;
    stream->blocking = flags == PH__STREAM_BLOCKING;
    stream->id = ph__stream_next_id();
    stream->device = device;
    atomic_init(&stream->references, 1);
    atomic_store(&device->foreign, true);
    *out = stream;
    return PH_OK;
}

ph_status ph__stream_wrap(ph_stream **out, ph_device *device, void *native, const char *call)
{
    return wrap_stream(out, device, native, PH__STREAM_NON_BLOCKING, call);
}

ph_status ph__stream_wrap_known(ph_stream **out, ph_device *device, void *native, const char *call)
{
    return wrap_stream(out, device, native, PH__STREAM_NON_BLOCKING | PH__STREAM_KNOWN, call);
}

/* The one whose streams are CUDA's; NULL: this build has none. */
static const ph__driver *find_cuda(void)
{
    size_t i = 0;
    while (ph__drivers[i] && !ph__drivers[i]->stream_native)
        i++;
    return ph__drivers[i];
}

/* The device for a GPU: the oldest that is open, also when another thread opens one at the same
 * time. */
static ph_status device_of(ph_device **out, const ph__driver *driver, uint32_t ordinal,
                           const char *call)
{
    char name[32];
    ph_device *opened = NULL;
    *out = ph__device_find_open(driver, ordinal);
    if (*out)
        return PH_OK;
    (void)snprintf(name, sizeof name, "%s:%u", driver->name, (unsigned)ordinal);
    ph_status status = ph_device_open(&opened, name, NULL);
    if (status != PH_OK) {
        ph__error_prefix("%s", call);
        return status;
    }
    *out = ph__device_find_open(driver, ordinal);
    ph_device_release(opened);
    return PH_OK;
}

enum {
    PER_THREAD = 2 /* CU_STREAM_PER_THREAD; NULL and 1: the legacy default stream */
};

static ph_status fail_default_stream(const void *stream, const char *call)
{
    if ((uintptr_t)stream == PER_THREAD)
        return ph__fail_native(
            PH_ERROR_ARGUMENT, PH__R_INVALID_HANDLE, PH__NAME_STREAM_GET_CTX,
            "%s: %p is CUDA's name for the calling thread's own default stream "
            "(cudaStreamPerThread), which "
            "can capture but is another stream on each thread, while streams of this library are "
            "used by "
            "any; pass one that was created, or give a graph that you captured on it to "
            "ph_graph_import_cuda",
            call, stream);
    return ph__fail_native(
        PH_ERROR_ARGUMENT, PH__R_INVALID_HANDLE, PH__NAME_STREAM_GET_CTX,
        "%s: %p is CUDA's name for the legacy default stream, which cannot capture; pass "
        "one that was created (ph_device_default_stream is the legacy one)",
        call, stream);
}

ph_status ph_stream_wrap_cuda(ph_stream **out, struct CUstream_st *stream)
{
    static const char call[] = "ph_stream_wrap_cuda";
    char version[48], reason[256] = "";
    uint32_t count = 0, ordinal = 0;
    ph_device *device = NULL;
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if ((uintptr_t)stream <= PER_THREAD)
        return fail_default_stream(stream, call);
    const ph__driver *driver = find_cuda();
    if (driver)
        driver->describe(version, &count, reason);
    if (!driver || reason[0] != '\0')
        return ph__fail_native(PH_ERROR_NOT_FOUND, PH__R_NO_DEVICE, PH__NAME_INIT,
                               "%s: CUDA cannot be used: %s", call,
                               driver ? reason : "this build has no driver for it");
    driver = ph__driver_table(driver);
    int result = driver->stream_ordinal(&ordinal, stream);
    if (result != PH__R_OK)
        return fail_stream(result, NULL, PH__NAME_STREAM_GET_CTX, call);
    PH_TRY(device_of(&device, driver, ordinal, call));
    ph_status status = ph__stream_wrap(out, device, stream, call);
    if (status != PH_OK)
        ph_device_release(device);
    return status;
}

ph_status ph_stream_wrap_cuda_on(ph_stream **out, ph_device *device, struct CUstream_st *stream)
{
    static const char call[] = "ph_stream_wrap_cuda_on";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!device)
        return ph__fail_null(call, "device");
    PH_TRY(ph__device_check(device, call));
    if ((uintptr_t)stream <= PER_THREAD)
        return fail_default_stream(stream, call);
    ph_status status = ph__stream_wrap_known(out, ph_device_retain(device), stream, call);
    if (status != PH_OK)
        ph_device_release(device);
    return status;
}

static ph_status find_cuda_stream(struct CUstream_st **out, const ph_stream *stream,
                                  const char *call)
{
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    PH_TRY(ph__stream_check(stream, call));
    if (!stream->device->driver->stream_native)
        return ph__fail_native(PH_ERROR_UNSUPPORTED, 0, NULL,
                               "%s: the stream is of %s, which has no CUDA handles", call,
                               stream->device->name);
    *out = stream->device->driver->stream_native(stream->handle);
    return PH_OK;
}

ph_status ph_stream_cuda(struct CUstream_st **out, const ph_stream *stream)
{
    PH_TRY(find_cuda_stream(out, stream, "ph_stream_cuda"));
    atomic_store(&stream->device->foreign, true);
    return PH_OK;
}

ph_status ph_stream_lend_cuda(struct CUstream_st **out, const ph_stream *stream)
{
    return find_cuda_stream(out, stream, "ph_stream_lend_cuda");
}

/* Puts what comes from now on behind all that was submitted to the user's stream. */
static int order_behind(const ph_device *device, ph__drv_stream *own, ph__drv_stream *theirs)
{
    ph__drv_event *event = NULL;
    int result = device->driver->event_create(&event, device->handle, PH__EVENT_DISABLE_TIMING);
    if (result == PH__R_OK)
        result = device->driver->event_record(event, theirs, PH__EVENT_RECORD_DEFAULT);
    if (result == PH__R_OK)
        result = device->driver->stream_wait_event(own, event, PH__EVENT_RECORD_DEFAULT);
    device->driver->event_destroy(event);
    return result;
}

/* In a capture nothing can be put behind the stream's earlier work, and waiting would kill it.
 * Without a stream of our own the work is waited for, and the default stream stands for it. */
ph__drv_stream *ph__stream_replace(ph_stream *stream)
{
    ph_device *device = stream->device;
    const ph__driver *driver = device->driver;
    ph__drv_stream *theirs = stream->handle, *own = NULL;
    ph_capture_mode mode;
    bool capturing = ph__stream_capture_id(stream) != 0;
    int result =
        driver->stream_create(&own, device->handle, PH__STREAM_NON_BLOCKING, stream->priority);
    if (result == PH__R_OK && !capturing)
        result = order_behind(device, own, theirs);
    if (result != PH__R_OK) {
        driver->stream_destroy(own);
        own = device->default_stream.handle;
        ph__relaxed_begin(device, &mode);
        if (!capturing)
            (void)driver->stream_synchronize(theirs);
        ph__relaxed_end(device, mode);
    }
    pthread_mutex_lock(&device->capture_lock);
    stream->handle = own;
    pthread_mutex_unlock(&device->capture_lock);
    return theirs;
}

/* The event is recorded while the handle is held, and waited for when it is not. */
static bool wait_for_mark(ph_stream *stream)
{
    const ph__driver *driver = stream->device->driver;
    ph__drv_event *event = NULL;
    bool marked = false;
    if (driver->event_create(&event, stream->device->handle, PH__EVENT_DISABLE_TIMING) != PH__R_OK)
        return false;
    ph__stream_hold(stream);
    if (ph__stream_capture_id_locked(stream) == 0)
        marked = driver->event_record(event, stream->handle, PH__EVENT_RECORD_DEFAULT) == PH__R_OK;
    if (marked && ph__stream_capture_id_locked(stream) != 0)
        marked = false; /* the event may be of the capture */
    ph__stream_unhold(stream);
    if (marked)
        (void)driver->event_synchronize(event);
    driver->event_destroy(event);
    return marked;
}

/* A capture may begin on the stream at any moment. */
static bool wait_beside_captures(ph_stream *stream)
{
    const ph__driver *driver = stream->device->driver;
    if (!stream->wrapped && !stream->is_default)
        return driver->stream_wait(stream->handle) != PH__R_CAPTURE_UNSUPPORTED;
    if (stream->wrapped && wait_for_mark(stream))
        return true;
    if (ph__stream_capture_id(stream) != 0)
        return false;
    (void)driver->stream_synchronize(stream->handle);
    return true;
}

bool ph__stream_wait(ph_stream *stream)
{
    ph_capture_mode mode;
    if (ph__capture_is_foreign(stream, ph__stream_capture_id(stream)))
        return true;
    ph__relaxed_begin(stream->device, &mode);
    bool waited = wait_beside_captures(stream);
    ph__relaxed_end(stream->device, mode);
    return waited;
}

/* ---- kernels ---- */
static atomic_bool wraps_kernels;

bool ph__adopt_has_kernels(void)
{
    return atomic_load(&wraps_kernels);
}

ph_status ph_kernel_wrap_cuda(ph_kernel **out, ph_device *device, struct CUfunc_st *function,
                              const ph_param *params, size_t param_count)
{
    static const char call[] = "ph_kernel_wrap_cuda";
    ph_kernel_source source = {.params = params, .param_count = param_count};
    ph__drv_kernel *handle = NULL;
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!device)
        return ph__fail_null(call, "device");
    if (!function)
        return ph__fail_null(call, "function");
    int result = device->driver->kernel_wrap(&handle, device->handle, function, &source.args_size,
                                             &source.name);
    if (result == PH__R_NOT_SUPPORTED)
        return ph__fail_native(PH_ERROR_UNSUPPORTED, result, PH__NAME_FUNC_GET_ATTRIBUTE,
                               "%s: device %s cannot take it%s%s", call, device->name,
                               ph__driver_reason()[0] ? ": " : "", ph__driver_reason());
    if (result == PH__R_INVALID_HANDLE || result == PH__R_INVALID_VALUE)
        return ph__fail_native(PH_ERROR_ARGUMENT, result, PH__NAME_FUNC_GET_ATTRIBUTE,
                               "%s: this is no function of the device's context%s%s", call,
                               ph__driver_reason()[0] ? ": " : "", ph__driver_reason());
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the kernel");
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_FUNC_GET_ATTRIBUTE, "%s", call);
    ph_status status = ph__kernel_check_params(&source, call);
    if (status != PH_OK) {
        device->driver->kernel_destroy(handle);
        return status;
    }
    atomic_store(&wraps_kernels, true);
    return ph__kernel_make(out, device, handle, &source, call);
}

/* ---- contexts ---- */
ph_status ph_context_push_cuda(ph_device *device)
{
    static const char call[] = "ph_context_push_cuda";
    if (!device)
        return ph__fail_null(call, "device");
    int result = device->driver->context_push(device->handle);
    if (result == PH__R_NOT_SUPPORTED)
        return ph__fail_native(PH_ERROR_UNSUPPORTED, result, PH__NAME_CTX_PUSH_CURRENT,
                               "%s: %s is no device of CUDA's", call, device->name);
    return result == PH__R_OK ? PH_OK
                              : ph__driver_fail(result, PH__NAME_CTX_PUSH_CURRENT, "%s", call);
}

void ph_context_pop_cuda(ph_device *device)
{
    if (device)
        device->driver->context_pop(device->handle);
}

/* ---- numbers ---- */
ph_status ph_fail_cuda(int code, const char *call)
{
    if (code == PH__R_OK)
        return PH_OK;
    ph_status status =
        ph__fail_native(ph__status_of_result(code), code, call, "%s gave %d (%s: %s)%s",
                        call && call[0] ? call : "a call of CUDA's", code, ph__result_name(code),
                        ph__result_text(code), ph__result_lost(code));
    ph__error_add_culprit(code == PH__R_CAPTURE_INVALIDATED);
    return status;
}
