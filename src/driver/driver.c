/* SPDX-License-Identifier: MIT */
/* driver/driver.c: the list of drivers, the words behind their numbers, and turning numbers into statuses. */
#include "driver/driver.h"
#include "base/line.h"
#include "base/status.h"
#include <stdio.h>
#include <string.h>

const ph__driver *const ph__drivers[] = {&ph__driver_host, NULL};

static _Thread_local char reason[256];

const char *ph__driver_reason(void)
{
    return reason;
}

void ph__driver_set_reason(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ph__line_vformat(reason, sizeof reason, format, args);
    va_end(args);
}

void ph__driver_clear_reason(void)
{
    reason[0] = '\0';
}

typedef struct result_words {
    int number;
    const char *name, *text;
} result_words;

static const result_words words[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "the driver is not initialised"},
    {4, "CUDA_ERROR_DEINITIALIZED", "the driver is shutting down"},
    {100, "CUDA_ERROR_NO_DEVICE", "there is no such device"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "no device has this number"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "the code has no form for this device"},
    {218, "CUDA_ERROR_INVALID_PTX", "the PTX text does not compile"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {401, "CUDA_ERROR_ILLEGAL_STATE", "not possible in the present state"},
    {500, "CUDA_ERROR_NOT_FOUND", "no symbol of that name"},
    {600, "CUDA_ERROR_NOT_READY", "not finished yet"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an address that is not valid on the device was accessed"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "the launch needs more resources than there are"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the kernel ran too long and was stopped"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "a kernel or host function failed"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "an earlier error has invalidated the capture"},
    {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "it would merge two independent captures"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "the capture did not begin on this stream"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "a stream that was forked into the capture was not joined"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "it would depend on work that is not in the capture"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "the legacy default stream would depend on a blocking stream that is capturing"},
    {907, "CUDA_ERROR_CAPTURED_EVENT", "the event was last recorded in a capture"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "the capture began on another thread"},
    {909, "CUDA_ERROR_TIMEOUT", "the wait has timed out"},
    {910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the new graph differs in what an update cannot change"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static const result_words *find_words(int result)
{
    static const result_words none = {-1, "unknown number", "no meaning known"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].number == result)
            return &words[i];
    return &none;
}

const char *ph__result_name(int result)
{
    return find_words(result)->name;
}

const char *ph__result_text(int result)
{
    return find_words(result)->text;
}

ph_status ph__status_of_result(int result)
{
    if (result >= PH__R_CAPTURE_UNSUPPORTED && result <= PH__R_CAPTURE_WRONG_THREAD)
        return PH_ERROR_CAPTURE;
    switch (result) {
    case PH__R_OK:
        return PH_OK;
    case PH__R_INVALID_VALUE:
        return PH_ERROR_ARGUMENT;
    case PH__R_OUT_OF_MEMORY:
        return PH_ERROR_DEVICE_MEMORY;
    case PH__R_NO_DEVICE:
    case PH__R_INVALID_DEVICE:
        return PH_ERROR_NOT_FOUND;
    case PH__R_ILLEGAL_STATE:
        return PH_ERROR_STATE;
    case PH__R_NOT_SUPPORTED:
        return PH_ERROR_UNSUPPORTED;
    case PH__R_UPDATE_FAILURE:
        return PH_ERROR_MISMATCH;
    default:
        return PH_ERROR_DEVICE;
    }
}

/* Out of memory is the host's for all entries but those that take memory of the device (driver.h). */
static ph_status status_of_call(int result, const char *driver_call)
{
    bool device = strcmp(driver_call, "cuMemCreate") == 0 || strcmp(driver_call, "cuMemAlloc") == 0;
    return result == PH__R_OUT_OF_MEMORY && !device ? PH_ERROR_HOST_MEMORY : ph__status_of_result(result);
}

/* The reason is used up: it must not stand behind a later failure that has none. */
ph_status ph__driver_fail(int result, const char *driver_call, const char *format, ...)
{
    if (result == PH__R_OK)
        return PH_OK;
    char what[sizeof((ph_error *)0)->message];
    va_list args;
    va_start(args, format);
    ph__line_vformat(what, sizeof what, format, args);
    va_end(args);
    ph_status status = ph__fail_native(
        status_of_call(result, driver_call), result, driver_call, "%s: %s gave %d (%s: %s)%s%s", what,
        driver_call, result, ph__result_name(result), ph__result_text(result), reason[0] ? ": " : "", reason);
    ph__driver_clear_reason();
    return status;
}
