/* SPDX-License-Identifier: MIT */
/* base/status.c: the error record of the thread, and the names of the statuses. */
#include "base/status.h"
#include "base/line.h"
#include <errno.h>
#include <string.h>

/* A prefix longer than this is cut, so that it cannot push the cause out of the record. */
enum {
    PREFIX_BYTES = 160
};

static _Thread_local ph_error record;

const ph_error *ph_error_last(void)
{
    return &record;
}

/* Built aside and then copied: the arguments may point into the record itself. */
ph_status ph__vfail(ph_status status, int native, const char *native_call, const char *format, va_list args)
{
    int saved_errno = errno;
    ph_error fresh = {.status = status, .native_code = native};
    ph__line_vformat(fresh.message, sizeof fresh.message, format, args);
    ph__line_format(fresh.native_call, sizeof fresh.native_call, "%s", native_call ? native_call : "");
    record = fresh;
    errno = saved_errno;
    return status;
}

ph_status ph__fail_native(ph_status status, int native, const char *native_call, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ph__vfail(status, native, native_call, format, args);
    va_end(args);
    return status;
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

void ph__error_prefix(const char *format, ...)
{
    int saved_errno = errno;
    char prefix[PREFIX_BYTES], message[sizeof record.message];
    va_list args;
    va_start(args, format);
    ph__line_vformat(prefix, sizeof prefix, format, args);
    va_end(args);
    ph__line_format(message, sizeof message, "%s: %s", prefix, record.message);
    memcpy(record.message, message, strlen(message) + 1);
    errno = saved_errno;
}

void ph__error_suffix(const char *text)
{
    size_t used = strlen(record.message), more = strlen(text);
    if (more < sizeof record.message - used)
        memcpy(record.message + used, text, more + 1);
}

void ph__error_save(ph_error *out)
{
    *out = record;
}

void ph__error_restore(const ph_error *saved)
{
    record = *saved;
}

ph_status ph__fail_null(const char *call, const char *argument)
{
    return ph_fail(PH_ERROR_ARGUMENT, "%s: %s is NULL, and must not be", call, argument);
}

ph_status ph__fail_reserved(const char *call, const char *options)
{
    return ph_fail(PH_ERROR_ARGUMENT,
                   "%s: a reserved word of %s is not 0; zero the whole struct before setting its members",
                   call, options);
}

ph_status ph__fail_host_memory(const char *call, const char *what_for)
{
    return ph_fail(PH_ERROR_HOST_MEMORY,
                   "%s: no host memory for %s; nothing was changed, free some and call again", call,
                   what_for);
}

/* No default: the compiler names a status that is missing here. */
const char *ph_status_name(ph_status status)
{
#define NAME(s)                                                                                              \
    case s:                                                                                                  \
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
        NAME(PH_ERROR_CALLER);
    }
#undef NAME
    return "unknown status";
}
