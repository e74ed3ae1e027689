/* SPDX-License-Identifier: MIT */
/* base/status.c: the error record of the thread, and the names of the statuses. */
#include "base/status.h"
#include <stdarg.h>
#include <string.h>

static _Thread_local ph_error record;

const ph_error *ph_error_last(void)
{
    return &record;
}

ph_status ph_error_set(const ph_error *error)
{
    record = *error;
    return record.status;
}

/* ---- the mark ---- */
#define MARK_AT (sizeof record.native_call - sizeof(uint32_t))

static bool has_room(void)
{
    return memchr(record.native_call, '\0', MARK_AT) != NULL;
}

uint32_t ph__error_marked(void)
{
    uint32_t mark = 0;
    if (has_room())
        memcpy(&mark, record.native_call + MARK_AT, sizeof mark);
    return mark;
}

uint32_t ph__error_mark(uint32_t mark)
{
    uint32_t before = ph__error_marked();
    if (has_room())
        memcpy(record.native_call + MARK_AT, &mark, sizeof mark);
    return before;
}

ph_status ph_fail(ph_status status, const char *format, ...)
{
    if (status == PH_OK)
        return PH_OK;
    va_list args;
    va_start(args, format);
    ph__vfail(status, 0, NULL, format, args);
    va_end(args);
    return status;
}

/* No default: the compiler names a status that is missing here. */
const char *ph_status_name(ph_status status)
{
#define NAME(s)                                                                                    \
    case s:                                                                                        \
        return #s
    switch (status) {
        NAME(PH_OK);
        NAME(PH_ERROR_ARGUMENT);
        NAME(PH_ERROR_STATE);
        NAME(PH_ERROR_UNSUPPORTED);
        NAME(PH_ERROR_NOT_FOUND);
        NAME(PH_ERROR_SIZE);
        NAME(PH_ERROR_WRONG_DEVICE);
        NAME(PH_ERROR_IO);
        NAME(PH_ERROR_MISMATCH);
        NAME(PH_ERROR_HOST_MEMORY);
        NAME(PH_ERROR_DEVICE_MEMORY);
        NAME(PH_ERROR_POOL_LIMIT);
        NAME(PH_ERROR_DEVICE);
        NAME(PH_ERROR_CAPTURE);
        NAME(PH_ERROR_DEFAULT_STREAM);
        NAME(PH_ERROR_UNPINNED);
        NAME(PH_ERROR_STALE_INPUT);
        NAME(PH_ERROR_OVERWRITTEN);
        NAME(PH_ERROR_POOL_BUSY);
        NAME(PH_ERROR_PEER);
        NAME(PH_ERROR_CALLER);
    }
#undef NAME
    return "unknown status";
}
