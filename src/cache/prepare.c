/* SPDX-License-Identifier: MIT */
/* cache/prepare.c: captures ahead of calls. */
#include "base/alloc.h"
#include "base/unwind.h"
#include "cache/captures.h"
#include "cache/check.h"
#include "cache/entry.h"
#include "device/capture/capture.h"

static void end_visit(void *visit)
{
    ph__visit_end(visit);
}

/* CALLER and DEVICE end the preparation; what a capture was refused for stands in the entry. */
static ph_status prepare_call(ph_graph_cache *cache, ph_stream *stream,
                              const ph_graph_cache_call *call, const char *name)
{
    ph_graph_cache_result room = {0};
    ph__visit visit;
    ph__visit_begin(&visit, cache, stream, call, &room, false);
    ph_status status = PH_OK;
    visit.entry = ph__entry_enter(cache, call);
    if (!visit.entry)
        return ph__fail_host_memory(name, "the key");
    PH__UNWIND unwind = {end_visit, &visit};
    status = ph__cache_check_entry(visit.entry, call, name);
    if (status == PH_OK && ph__serve_replay(&status, &visit) == PH__CAPTURE &&
        ph__serve_capture(&status, &visit) != PH__SERVED)
        status = PH_OK;
    unwind.undo = NULL;
    ph__visit_end(&visit);
    return status;
}

ph_status ph_graph_cache_prepare(ph_graph_cache *cache, ph_stream *stream,
                                 const ph_graph_cache_call *calls, size_t count,
                                 ph_graph_cache_progress_fn progress, void *user)
{
    static const char name[] = "ph_graph_cache_prepare";
    PH_TRY(ph__cache_check(cache, stream, name));
    if (count && !calls)
        return ph__fail_null(name, "calls");
    for (size_t i = 0; i < count; i++)
        PH_TRY(ph__cache_check_call(&calls[i], name));
    PH_TRY(ph__capture_check_free(stream, name));
    for (size_t i = 0; i < count; i++) {
        PH_TRY(prepare_call(cache, stream, &calls[i], name));
        if (progress && !progress(i + 1, count, user))
            return PH_OK;
    }
    return PH_OK;
}
