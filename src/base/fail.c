/* SPDX-License-Identifier: MIT */
/* base/fail.c: how the library's own code fails. It keeps nothing: each of the two libraries has
 * this file, over the one record that status.c keeps. */
#include "base/line.h"
#include "base/status.h"
#include <errno.h>
#include <string.h>

/* A prefix longer than this is cut, so that it cannot push the cause out of the record. */
enum {
    PREFIX_BYTES = 160
};

/* Built aside and then copied: the arguments may point into the record itself. */
ph_status ph__vfail(ph_status status, int native, const char *native_call, const char *format,
                    va_list args)
{
    int saved_errno = errno;
    ph_error fresh = {.status = status, .native_code = native};
    ph__line_vformat(fresh.message, sizeof fresh.message, format, args);
    ph__line_format(fresh.native_call, sizeof fresh.native_call, "%s",
                    native_call ? native_call : "");
    ph_ignore(ph_error_set(&fresh));
    errno = saved_errno;
    return status;
}

ph_status ph__fail_native(ph_status status, int native, const char *native_call, const char *format,
                          ...)
{
    va_list args;
    va_start(args, format);
    ph__vfail(status, native, native_call, format, args);
    va_end(args);
    return status;
}

void ph__error_prefix(const char *format, ...)
{
    int saved_errno = errno;
    ph_error longer = *ph_error_last();
    char prefix[PREFIX_BYTES];
    va_list args;
    va_start(args, format);
    ph__line_vformat(prefix, sizeof prefix, format, args);
    va_end(args);
    ph__line_format(longer.message, sizeof longer.message, "%s: %s", prefix,
                    ph_error_last()->message);
    ph_ignore(ph_error_set(&longer));
    errno = saved_errno;
}

void ph__error_suffix(const char *text)
{
    ph_error longer = *ph_error_last();
    size_t used = strlen(longer.message), more;
    text += text[0] == ';' && used > 0 && longer.message[used - 1] == '?';
    more = strlen(text);
    if (more >= sizeof longer.message - used)
        return;
    memcpy(longer.message + used, text, more + 1);
    ph_ignore(ph_error_set(&longer));
}

void ph__error_save(ph_error *out)
{
    *out = *ph_error_last();
}

void ph__error_restore(const ph_error *saved)
{
    ph_ignore(ph_error_set(saved));
}

ph_status ph__fail_null(const char *call, const char *argument)
{
    return ph_fail(PH_ERROR_ARGUMENT, "%s: %s is NULL, and must not be", call, argument);
}

ph_status ph__fail_reserved(const char *call, const char *options)
{
    return ph_fail(
        PH_ERROR_ARGUMENT,
        "%s: a reserved word of %s is not 0; zero the whole struct before setting its members",
        call, options);
}

ph_status ph__fail_host_memory(const char *call, const char *what_for)
{
    return ph_fail(PH_ERROR_HOST_MEMORY,
                   "%s: no host memory for %s; nothing was changed, free some and call again", call,
                   what_for);
}

ph_status ph__fail_given(ph_status status, const char *format, ...)
{
    const ph_error before = *ph_error_last();
    const char *name = ph_status_name(status);
    char what[160], last[280];
    va_list args;
    va_start(args, format);
    ph__line_vformat(what, sizeof what, format, args);
    va_end(args);
    if (strncmp(name, "PH_", 3) != 0)
        ph_fail(status,
                "%s failed with %d, which is none of the statuses (a || b gives 1); return what a "
                "call gave, as PH_TRY does",
                what, (int)status);
    else
        ph_fail(status, "%s failed with %s, and no message was given", what, name);
    if (before.status == PH_OK || before.message[0] == '\0')
        return status;
    ph__line_format(last, sizeof last, "; the thread's last failure before was: %s",
                    before.message);
    ph__error_suffix(last);
    return status;
}
