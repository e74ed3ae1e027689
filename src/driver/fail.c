/* SPDX-License-Identifier: MIT */
/* driver/fail.c: the error record of a driver call that has failed. */
#include "driver/fail.h"
#include "base/line.h"
#include "base/status.h"
#include "driver/reason.h"
#include "driver/result.h"
#include <stdarg.h>
#include <string.h>

/* Out of memory is the host's for all entries but those that take memory of the device
 * (driver.h). */
static ph_status status_of_call(int result, const char *driver_call)
{
    bool device = strcmp(driver_call, "cuMemCreate") == 0 || strcmp(driver_call, "cuMemAlloc") == 0;
    return ph__result_is_host_memory(result) && !device ? PH_ERROR_HOST_MEMORY
                                                        : ph__status_of_result(result);
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
    const char *reason = ph__driver_reason();
    ph_status status = ph__fail_native(status_of_call(result, driver_call), result, driver_call,
                                       "%s: %s gave %d (%s: %s)%s%s%s", what, driver_call, result,
                                       ph__result_name(result), ph__result_text(result),
                                       ph__result_lost(result), *reason ? ": " : "", reason);
    ph__driver_clear_reason();
    return status;
}
