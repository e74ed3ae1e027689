/* SPDX-License-Identifier: MIT */
/* graph/capture/debug.c: captures of a program that was not changed, with what PH_DEBUG switches
 * on, and their records in files. */
#include "graph/capture/debug.h"
#include "base/debug.h"
#include "base/line.h"
#include "base/log.h"
#include "base/status.h"
#include "graph/object/graph.h"
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <unistd.h>

ph_status ph__debug_options(const ph_capture_options **out, ph_capture_options *room,
                            const ph_capture_options *options, bool imported, const char *call)
{
    const ph__debug *debug = ph__debug_switches();
    *out = options;
    PH_TRY(ph__debug_check(call));
    if (!(debug->liveness || debug->annotations || debug->strict))
        return PH_OK;
    *room = *options;
    room->check_input_liveness |= debug->liveness;
    room->strict |= debug->strict;
    room->enable_annotations |= debug->annotations && !imported;
    room->breadcrumbs |= debug->breadcrumbs && !imported && !options->compared;
    *out = room;
    return PH_OK;
}

void ph__debug_record(ph_graph *graph, const char *call)
{
    static atomic_uint number;
    const char *folder = ph__debug_switches()->record;
    char path[PATH_MAX];
    if (!folder)
        return;
    unsigned n = atomic_fetch_add_explicit(&number, 1, memory_order_relaxed);
    ph__line_format(path, sizeof path, "%s/%s-%ld-%u.json", folder, program_invocation_short_name,
                    (long)getpid(), n);
    ph_error before;
    ph__error_save(&before);
    if (ph_record_dump(graph->record, path) != PH_OK)
        ph__log(PH_LOG_WARNING, "%s: PH_DEBUG_RECORD: %s", call, ph_error_last()->message);
    ph__error_restore(&before);
}
