/* SPDX-License-Identifier: MIT */
/* cache/renewal.c: making an executable anew in the background. A thread lives for one of them. It
 * has the capture for itself, takes no lock of the cache but that of the renewal, and calls no
 * function of the user's: hooks are told by the call that puts the executable into its place. */
#include "cache/renewal.h"
#include "base/line.h"
#include "base/log.h"
#include "base/unwind.h"
#include "cache/budget.h"
#include "cache/executables.h"
#include "cache/renewal_end.h"
#include "cache/report.h"
#include "device/handles/device.h"
#include "graph/change/carried.h"
#include "graph/change/changes.h"
#include "graph/lifecycle/instantiate.h"
#include "graph/object/deferred_record.h"
#include "graph/object/graph.h"
#include <phonograph/inspect/changes.h>
#include <string.h>

enum {
    OTHERS = 4
};
static const char name[] = "ph_graph_cache_run";

/* ---- what is told ---- */
/* Once of a key: it keeps the executables that it has until they go. Told by the event, or else by
 * the log. */
static void keep_slower(ph__visit *visit, const char *why)
{
    char reason[sizeof "the slower executable stays: " + sizeof((ph_error *)0)->message];
    ph__line_format(reason, sizeof reason, "the slower executable stays: %s", why);
    visit->entry->keeps = true;
    ph__visit_report(visit, PH_CACHE_KEPT, reason);
    if (!visit->cache->event)
        ph__log(PH_LOG_WARNING, "graph cache: updates changed grids, and %s", reason);
}

/* ---- the thread ---- */
static size_t bytes_of(const ph_graph *graph)
{
    ph__drv_memory memory = {0};
    graph->device->driver->exec_memory(&memory, graph->exec);
    return memory.device_bytes;
}

/* No capture of this library begins while the executable is made. Others that nobody has announced
 * survive: the thread's capture mode is relaxed. */
static void *make_executable(void *argument)
{
    ph__renewal *r = &((ph_graph_cache *)argument)->renewal;
    ph_device *device = ((ph_graph_cache *)argument)->device;
    ph_capture_mode mode = PH_CAPTURE_RELAXED;
    ph__renewal_state state = PH__RENEWAL_DELAYED;
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    ph__shared_lock(&device->syncs);
    if (atomic_load(&device->open_captures) == 0)
        state = ph__graph_make_exec_ahead(r->graph, name) == PH_OK ? PH__RENEWAL_MADE
                                                                   : PH__RENEWAL_FAILED;
    ph__shared_unlock(&device->syncs);
    size_t bytes = state == PH__RENEWAL_MADE ? bytes_of(r->graph) : 0;
    ph__mutex_lock(&r->lock);
    if (state == PH__RENEWAL_FAILED)
        ph__cache_reason(r->reason, sizeof r->reason, ph_error_last()->message);
    r->bytes = bytes;
    r->state = state;
    ph__mutex_unlock(&r->lock);
    return NULL;
}

/* Under the renewal's lock, which the thread wants at its end: false where there is none. */
static bool start_locked(ph_graph_cache *cache)
{
    ph__renewal *r = &cache->renewal;
    r->has_thread = ph__thread_start(&r->thread, "ph-renewal", make_executable, cache);
    if (r->has_thread)
        r->state = PH__RENEWAL_RUNNING;
    return r->has_thread;
}

/* Of the graph with that id: what is delayed stays so while a capture is open. Calls of other keys
 * may have let go of it meanwhile. */
static void begin_renewal(ph__visit *visit, uint64_t of)
{
    ph__renewal *r = &visit->cache->renewal;
    ph__renewed before = {0}, unused = {0};
    bool refused = false;
    if (atomic_load(&visit->cache->device->open_captures) != 0)
        return;
    ph__mutex_lock(&r->lock);
    if (r->state == PH__RENEWAL_DELAYED && !r->abandoned && r->of == of) {
        before = (ph__renewed){NULL, r->thread, r->has_thread};
        refused = !start_locked(visit->cache);
        if (refused)
            unused = ph__renewal_acquire_locked(r);
    }
    ph__mutex_unlock(&r->lock);
    ph__renewal_join(&before);
    if (!refused)
        return;
    ph__renewal_destroy(unused.graph);
    keep_slower(visit, "the system refused a thread; raise the limit of processes");
}

/* ---- its beginning ---- */
/* The grids have stayed as they are for some calls: else the next one makes it slower again. */
static bool is_due(const ph_graph_cache *cache, ph_graph *used)
{
    ph_graph_changes changes;
    uint64_t calm = ph__changes_calm(used);
    if (cache->renew_after == 0 || calm == 0 || calm % cache->renew_after != 0)
        return false;
    return ph_graph_get_changes(&changes, used) == PH_OK && changes.demoted > 0 &&
           ph__changes_calm(used) > 0;
}

/* One whose key does not come any more goes when others have waited long enough. */
static bool claim_renewal(ph__renewal *r, const ph_graph *used)
{
    ph__mutex_lock(&r->lock);
    bool free = r->state == PH__RENEWAL_NONE;
    if (free)
        r->state = PH__RENEWAL_CLAIMED;
    else if (ph__renewal_is_over(r) && r->of != used->id && ++r->others >= OTHERS)
        r->abandoned = true;
    ph__mutex_unlock(&r->lock);
    return free;
}

/* The executable in use was updated from the capture, and may be asked about its nodes while the
 * thread has them: what is known of all of them the driver is not asked again. */
static const char *why_not(ph_graph_cache *cache, ph_graph *used, ph_graph *from)
{
    const char *why;
    if (ph__graph_not_carried(&why, used, from, name) != PH_OK ||
        (!why && ph__graph_need_record(from, name) != PH_OK))
        return ph_error_last()->message;
    if (!why && ph__cache_is_over(cache, ph__graph_exec_bytes(used)))
        return "the budget has no room for one more";
    return why;
}

void ph__renewal_consider(ph__visit *visit, ph_graph *used, ph_graph **from)
{
    ph__renewal *r = &visit->cache->renewal;
    ph_error before;
    ph__error_save(&before);
    if (visit->entry->keeps || !is_due(visit->cache, used) || !claim_renewal(r, used)) {
        ph__error_restore(&before);
        return;
    }
    const char *why = why_not(visit->cache, used, *from);
    ph__mutex_lock(&r->lock);
    r->state = why ? PH__RENEWAL_NONE : PH__RENEWAL_DELAYED;
    r->of = used->id;
    r->graph = why ? NULL : *from;
    ph__mutex_unlock(&r->lock);
    if (why) {
        keep_slower(visit, why);
    } else {
        *from = NULL;
        begin_renewal(visit, used->id);
    }
    ph__error_restore(&before);
}

/* ---- its place ---- */
static bool find_place(size_t *at, const ph__cache_entry *entry, uint64_t id)
{
    for (*at = 0; *at < PH__CACHE_VARIANTS && entry->variants[*at]; ++*at)
        if (entry->variants[*at]->id == id)
            return true;
    return false;
}

static void destroy_graph(void *graph)
{
    ph_graph_destroy(graph);
}

/* Hooks are told, and may not return. */
static ph_status report_executable(ph_graph *made)
{
    PH__UNWIND unwind = {destroy_graph, made};
    ph_status status = ph__graph_exec_ready(made);
    unwind.undo = NULL;
    return status;
}

static void replace_slower(ph__visit *visit, size_t at, ph_graph *made)
{
    ph_graph_cache *cache = visit->cache;
    ph_graph *slower = visit->entry->variants[at];
    const char *why;
    if (ph__graph_not_carried(&why, slower, made, name) != PH_OK)
        why = ph_error_last()->message;
    if (why) {
        keep_slower(visit, why);
        ph__renewal_destroy(made);
        return;
    }
    if (report_executable(made) != PH_OK) {
        keep_slower(visit, ph_error_last()->message);
        ph_graph_destroy(made);
        return;
    }
    ph__mutex_lock(&visit->entry->lock);
    visit->entry->variants[at] = made;
    ph__mutex_unlock(&visit->entry->lock);
    ph__renewal_retire(cache, slower);
    ph__entry_account(cache, visit->entry);
    ph__mutex_lock(&cache->lock);
    cache->renewed++;
    ph__mutex_unlock(&cache->lock);
    ph__visit_report(visit, PH_CACHE_RENEWED, "");
}

/* A renewal that is the entry's stays so while the visit has its graphs, but that calls of other
 * keys may let go of it. */
void ph__renewal_place(ph__visit *visit)
{
    ph__renewal *r = &visit->cache->renewal;
    char reason[sizeof r->reason];
    ph__renewed had = {0};
    size_t at = 0;
    ph__renewal_reap(visit->cache);
    ph__mutex_lock(&r->lock);
    ph__renewal_state state = r->state;
    bool its = ph__renewal_is_over(r) && !r->abandoned && find_place(&at, visit->entry, r->of);
    if (its && state != PH__RENEWAL_DELAYED) {
        memcpy(reason, r->reason, sizeof reason);
        had = ph__renewal_acquire_locked(r);
    }
    ph__mutex_unlock(&r->lock);
    if (!its)
        return;
    ph_error before;
    ph__error_save(&before);
    ph__renewal_join(&had);
    if (state == PH__RENEWAL_DELAYED) {
        begin_renewal(visit, visit->entry->variants[at]->id);
    } else if (state == PH__RENEWAL_MADE) {
        replace_slower(visit, at, had.graph);
    } else {
        ph__renewal_destroy(had.graph);
        keep_slower(visit, reason);
    }
    ph__error_restore(&before);
}
