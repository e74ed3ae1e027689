/* SPDX-License-Identifier: MIT */
/* cache/run.c: one call of a cache: its work on the device is done exactly once, whatever fails. */
#include "base/alloc.h"
#include "base/unwind.h"
#include "cache/captures.h"
#include "cache/check.h"
#include "cache/entry.h"
#include "cache/hit.h"
#include "cache/serve.h"
#include "device/handles/device.h"
#include "device/handles/stream.h"
#include "graph/object/segments.h"
#include <string.h>

static void end_visit(void *visit)
{
    ph__visit_end(visit);
}

static ph_status run_body(ph__visit *visit, ph_graph_cache_path path)
{
    visit->result->path = path;
    visit->result->graph = NULL;
    return visit->call->body(visit->stream, visit->call->user);
}

/* A child graph has the parameters of the template. */
static bool nest_graph(ph_status *status, ph__visit *visit)
{
    ph__cache_entry *entry = visit->entry;
    ph__visit_lock(visit);
    bool nested = entry->graph && !entry->apart && !entry->graph->segments && !entry->capturing &&
                  ph__learned_is_first(entry->learned, visit->call) &&
                  ph__serve_may_nest(status, visit, entry->graph);
    if (nested && *status == PH_OK) {
        *status = ph_graph_replay(entry->graph, visit->stream);
        visit->result->path = PH_CACHE_NESTED;
        visit->result->graph = entry->graph;
    }
    ph__visit_unlock(visit);
    return nested;
}

static ph_status run_visit(ph__visit *visit, ph__served served, ph_status status)
{
    if (served == PH__MISSED)
        served = ph__serve_replay(&status, visit);
    if (served == PH__CAPTURE)
        served = ph__serve_capture(&status, visit);
    ph__visit_do_rest(visit);
    if (served == PH__SERVED || (served == PH__RECORD && nest_graph(&status, visit)))
        return status;
    return run_body(visit, served == PH__RECORD ? PH_CACHE_RECORDED : PH_CACHE_EAGER);
}

static inline bool captures_may_be_open(const ph_device *device)
{
    return atomic_load_explicit(&device->open_captures, memory_order_relaxed) ||
           atomic_load_explicit(&device->foreign, memory_order_relaxed);
}

/* The room of the reason is left as it is. */
static void clear_result(ph_graph_cache_result *result)
{
    result->path = 0;
    result->graph = NULL;
    result->epoch = 0;
    result->reason[0] = '\0';
    memset(result->reserved, 0, sizeof result->reserved);
}

/* The entry of a call that was not a hit. */
static ph_status enter_entry(ph__visit *visit, const char *name)
{
    PH_TRY(ph__cache_check(visit->cache, visit->stream, name));
    PH_TRY(ph__cache_check_call(visit->call, name));
    visit->asks = captures_may_be_open(visit->cache->device);
    visit->entry = ph__entry_enter(visit->cache, visit->call);
    return visit->entry ? PH_OK : ph__fail_host_memory(name, "the key");
}

/* A call that was not over at once. Locked: the entry, where there is one. */
__attribute__((noinline)) static ph_status run_on(ph__cache_entry *entry, ph_status status,
                                                  ph_graph_cache *cache, ph_stream *stream,
                                                  const ph_graph_cache_call *call,
                                                  ph_graph_cache_result *result)
{
    static const char name[] = "ph_graph_cache_run";
    ph__visit visit;
    ph__visit_begin(&visit, cache, stream, call, result, true);
    ph__served served = ph__serve_hit(&status, &visit, entry);
    if (served == PH__SERVED && !visit.entry)
        return status;
    if (served == PH__MISSED)
        PH_TRY(enter_entry(&visit, name));
    PH__UNWIND unwind = {end_visit, &visit};
    if (served == PH__MISSED)
        status = ph__cache_check_entry(visit.entry, call, name);
    if (served != PH__MISSED || status == PH_OK)
        status = run_visit(&visit, served, status);
    unwind.undo = NULL;
    ph__visit_end(&visit);
    return status;
}

ph_status ph_graph_cache_run(ph_graph_cache *cache, ph_stream *stream,
                             const ph_graph_cache_call *call, ph_graph_cache_result *out)
{
    ph_graph_cache_result room, *result = out ? out : &room;
    ph__cache_entry *entry;
    ph_status status = PH_OK;
    clear_result(result);
    return ph__hit_at_once(&status, &entry, cache, stream, call, result)
               ? PH_OK
               : run_on(entry, status, cache, stream, call, result);
}

ph_status ph_graph_cache_drop(ph_graph_cache *cache, const void *key, size_t key_bytes)
{
    static const char name[] = "ph_graph_cache_drop";
    PH_TRY(ph__cache_check_there(cache, name));
    PH_TRY(ph__cache_check_key(key, key_bytes, name));
    return ph__entry_drop(cache, key, key_bytes)
               ? PH_OK
               : ph_fail(PH_ERROR_NOT_FOUND, "%s: no call had this key of %zu bytes", name,
                         key_bytes);
}
