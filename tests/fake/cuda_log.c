/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_log.c: the log of failing calls of the software libcuda. */
#include "cuda_inside.h"
#include <stdio.h>
#include <string.h>

enum {
    LOGS = 8
};
struct CUlogsCallbackEntry_st {
    _Atomic(ph__cu_log_fn) fn;
    void *user;
};
static struct CUlogsCallbackEntry_st logs[LOGS];
static pthread_mutex_t logs_lock = PTHREAD_MUTEX_INITIALIZER;

FAKE(LogsRegisterCallback, (ph__cu_log_fn fn, void *user, ph__cu_logs *handle), (fn, user, handle))
{
    int result = fn ? PH__R_OUT_OF_MEMORY : PH__R_INVALID_VALUE;
    pthread_mutex_lock(&logs_lock);
    for (int i = 0; i < LOGS && result == PH__R_OUT_OF_MEMORY; i++) {
        if (atomic_load(&logs[i].fn))
            continue;
        logs[i].user = user;
        atomic_store(&logs[i].fn, fn);
        if (handle)
            *handle = &logs[i];
        result = 0;
    }
    pthread_mutex_unlock(&logs_lock);
    return result;
}

FAKE(LogsUnregisterCallback, (ph__cu_logs handle), (handle))
{
    if (handle < logs || handle >= logs + LOGS)
        return PH__R_INVALID_VALUE;
    atomic_store(&handle->fn, NULL);
    return 0;
}

/* The log names what is exported, and that has the version of its form. */
static const char *suffix_of(fake_call call)
{
    switch (call) {
    case FAKE_CALL_CtxPushCurrent:
    case FAKE_CALL_CtxPopCurrent:
    case FAKE_CALL_DevicePrimaryCtxRelease:
    case FAKE_CALL_MemGetInfo:
    case FAKE_CALL_MemAlloc:
    case FAKE_CALL_MemFree:
    case FAKE_CALL_StreamDestroy:
    case FAKE_CALL_EventDestroy:
    case FAKE_CALL_StreamBeginCapture:
    case FAKE_CALL_StreamUpdateCaptureDependencies:
    case FAKE_CALL_GraphNodeGetDependencies:
    case FAKE_CALL_GraphKernelNodeGetParams:
    case FAKE_CALL_GraphExecUpdate:
    case FAKE_CALL_GraphExecKernelNodeSetParams:
        return "_v2";
    case FAKE_CALL_StreamGetCaptureInfo:
        return "_v3";
    default:
        return "";
    }
}

static void log_line(const char *text)
{
    char line[512];
    (void)snprintf(line, sizeof line, "%s", text);
    for (int i = 0; i < LOGS; i++) {
        ph__cu_log_fn fn = atomic_load(&logs[i].fn);
        if (fn)
            fn(logs[i].user, 0, line, strlen(line));
    }
}

int fake_leave(fake_call call, int result)
{
    char line[160];
    if (result == 0 || result == PH__R_NOT_READY || fake_version() < 12090)
        return result;
    if (ph__driver_reason()[0])
        log_line(ph__driver_reason());
    (void)snprintf(line, sizeof line, "Returning %d (%s) from %s%s", result,
                   ph__result_name(result), fake_name(call), suffix_of(call));
    log_line(line);
    return result;
}
