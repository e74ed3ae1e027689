/* SPDX-License-Identifier: MIT */
/* graph/capture/options.c: the options that a capture and an import share. */
#include "graph/capture/options.h"
#include "base/option.h"
#include "graph/object/graph.h"

ph_status ph__graph_check_options(const ph_capture_options *options, const char *call)
{
    if (!PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_capture_options");
    PH_TRY(ph__option_named((unsigned)options->mode, "mode", call));
    if ((unsigned)options->mode > PH_CAPTURE_RELAXED)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: %d is no capture mode; use PH_CAPTURE_GLOBAL, PH_CAPTURE_THREAD_LOCAL "
                       "or PH_CAPTURE_RELAXED",
                       call, (int)options->mode);
    if (options->breadcrumbs && !options->enable_annotations)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: breadcrumbs are left at the scopes of annotated captures; set "
                       "enable_annotations too",
                       call);
    if (options->check_foreign_every && !options->check_input_liveness)
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: check_foreign_every (%u) says how often check_input_liveness asks the driver; set "
            "check_input_liveness too",
            call, (unsigned)options->check_foreign_every);
    if (options->defer_breaks && !options->allow_breaks)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: defer_breaks says when the functions of breaks are called; set "
                       "allow_breaks too",
                       call);
    return ph__option_no_zero(options->check_foreign_every, "check_foreign_every", call);
}
