/* SPDX-License-Identifier: MIT */
/* tensor/tape/tape_error.c: the first error of a tape, and who has been told of it. */
#include "tensor/tape/tape_error.h"
#include "base/ended.h"
#include "base/status.h"
#include "tensor/tape/deferred_failure.h"
#include "tensor/tape/tape.h"
#include <string.h>

ph_status ph_tape_status(const ph_tape *tape)
{
    if (!tape)
        return ph__fail_null("ph_tape_status", "tape");
    return ph__tape_failed(tape) ? ph__tape_report(tape, ph_error_set(&tape->error)) : PH_OK;
}

ph_status ph__tape_refuse(const ph_tape *tape, const char *call)
{
    if (!ph__tape_failed(tape))
        return PH_OK;
    if (!tape->backend)
        return ph__fail_ended(call, "the tape");
    ph__error_restore(&tape->error);
    ph__error_prefix("%s: the tape failed before this call", call);
    if (!strstr(tape->error.message, "ph_tape_clear"))
        ph__error_suffix("; ph_tape_clear starts anew");
    return ph__tape_report(tape, tape->error.status);
}

ph_status ph__tape_report(const ph_tape *tape, ph_status status)
{
    if (status != PH_OK)
        ph__deferred_failure_set_reported(tape->deferred);
    return status;
}

void ph__tape_add_to_error(ph_tape *tape, const char *text)
{
    ph_error before;
    ph__error_save(&before);
    ph__error_restore(&tape->error);
    ph__error_suffix(text);
    ph__error_save(&tape->error);
    ph__error_restore(&before);
    ph__deferred_failure_update(tape->deferred, &tape->error);
}

void ph__tape_skip(const ph_tape *tape)
{
    ph__deferred_failure_watch(tape->deferred, tape->stream, true);
}

void ph__tape_fail_recorded(ph_tape *tape)
{
    if (ph__tape_failed(tape))
        return;
    ph__error_save(&tape->error);
    tape->deferred = ph__deferred_failure_make(&tape->error);
    ph__deferred_failure_watch(tape->deferred, tape->stream, false);
}

void ph__tape_fail_host_memory(ph_tape *tape, const char *call, const char *what_for)
{
    if (ph__tape_failed(tape))
        return;
    ph_ignore(ph_fail(PH_ERROR_HOST_MEMORY, "%s: no host memory for %s", call, what_for));
    ph__tape_fail_recorded(tape);
}

void ph_tape_fail(ph_tape *tape, ph_status status, const char *format, ...)
{
    if (!tape || status == PH_OK || ph__tape_failed(tape))
        return;
    va_list args;
    va_start(args, format);
    ph_ignore(ph__vfail(status, 0, NULL, format, args));
    va_end(args);
    ph__tape_fail_recorded(tape);
}

void ph_tape_check(ph_tape *tape, ph_status status)
{
    if (!tape || status == PH_OK || ph__tape_failed(tape))
        return;
    if (ph_error_last()->status != status)
        ph_ignore(ph_fail(status, "a call gave %s, and left no record of it in this thread",
                          ph_status_name(status)));
    ph__tape_fail_recorded(tape);
}

void ph__tape_forgive(ph_tape *tape)
{
    tape->error = (ph_error){0};
    tape->placed = false;
    ph__deferred_failure_set_reported(tape->deferred);
    ph__deferred_failure_release(tape->deferred);
    tape->deferred = NULL;
}
