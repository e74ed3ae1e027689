/* SPDX-License-Identifier: MIT */
/* cache/serve.c: doing a call with the graphs of its key. Nothing here runs the body outside of a
 * capture, and nothing launches before all that can fail is done: so a call that is not served can
 * still run as it is. */
#include "cache/serve.h"
#include "base/line.h"
#include "base/unwind.h"
#include "cache/breaks.h"
#include "cache/budget.h"
#include "cache/check.h"
#include "cache/entry.h"
#include "cache/learn.h"
#include "device/handles/stream.h"
#include "graph/object/graph.h"
#include "graph/object/segments.h"
#include <string.h>

static void note_reason(ph__visit *visit, const char *reason)
{
    ph__line_format(visit->result->reason, sizeof visit->result->reason, "%s", reason);
    ph__line_format(visit->entry->reason, sizeof visit->entry->reason, "%s", reason);
}

static void repeat_reason(ph__visit *visit)
{
    memcpy(visit->result->reason, visit->entry->reason, sizeof visit->result->reason);
}

static void refuse_key(ph__visit *visit)
{
    visit->entry->refused = true;
    ph__mutex_lock(&visit->cache->lock);
    visit->cache->refused++;
    ph__mutex_unlock(&visit->cache->lock);
    ph__cache_report(visit->cache, PH_CACHE_REFUSED, visit->entry, visit->entry->reason);
}

void ph__visit_end(ph__visit *visit)
{
    if (visit->capturing) {
        ph__mutex_lock(&visit->entry->lock);
        visit->entry->capturing = false;
        ph__mutex_unlock(&visit->entry->lock);
        atomic_store(&visit->cache->capturing, false);
        visit->capturing = false;
    }
    ph__entry_leave(visit->cache, visit->entry, visit->launch ? visit->result->path : 0,
                    visit->result);
}

/* ---- replays ---- the entry is locked. */
static ph_status replay_graph(ph__visit *visit, ph_graph *graph, const ph_slot_value *values,
                              size_t count)
{
    if (!visit->launch)
        return PH_OK;
    ph_status status = ph__replay_calls_functions(graph)
                           ? ph__visit_replay_apart(visit, graph, values, count)
                       : count ? ph_graph_replay_with(graph, visit->stream, values, count)
                               : ph_graph_replay(graph, visit->stream);
    if (status == PH_OK) {
        visit->result->graph = graph;
        visit->result->epoch = ph_graph_epoch(graph);
    }
    return status;
}

/* DEVICE: it may have begun. */
ph__served ph__served_or_dropped(ph_status *status, ph__visit *visit, const ph_graph *graph)
{
    ph__cache_entry *entry = visit->entry;
    bool begun = graph->segments && graph->segments->launched > 0;
    if (*status == PH_OK || *status == PH_ERROR_DEVICE || begun)
        return PH__SERVED;
    note_reason(visit, ph_error_last()->message);
    ph__entry_clear(entry);
    ph__entry_account(visit->cache, entry);
    if (++entry->refusals >= PH__CACHE_ATTEMPTS)
        refuse_key(visit);
    return PH__EAGER;
}

static ph__served replay_learned(ph_status *status, ph__visit *visit)
{
    ph__learned *learned = visit->entry->learned;
    if (!visit->launch)
        return PH__SERVED;
    *status = replay_graph(visit, visit->entry->graph, learned->due.at, learned->due.count);
    if (*status == PH_OK && learned->differs)
        ph__learned_was_set(learned, visit->call);
    else if (*status != PH_OK && learned->due.count) /* some slots may have the call's values */
        learned->all_due = true;
    return ph__served_or_dropped(status, visit, visit->entry->graph);
}

static bool may_capture(ph__visit *visit)
{
    ph__cache_entry *entry = visit->entry;
    bool busy = atomic_exchange(&visit->cache->capturing, true);
    if (busy) {
        ph__line_format(visit->result->reason, sizeof visit->result->reason,
                        "another capture of the cache is open");
        return false;
    }
    visit->capturing = entry->capturing = true;
    return true;
}

static bool is_spent(const ph__visit *visit)
{
    return visit->entry->unlearned >= PH__CACHE_ATTEMPTS &&
           visit->cache->fallback == PH_CACHE_FALLBACK_EAGER;
}

/* Whether the stream is capturing costs a call of the driver where other code may capture. */
static bool is_outside_captures(ph_status *status, const ph__visit *visit)
{
    uint64_t capture = 0;
    if (visit->asks)
        *status = ph__stream_find_capture(&capture, visit->stream, "ph_graph_cache_run");
    return *status == PH_OK && capture == 0;
}

/* An executable that nothing was ever set in is as its template: on a capturing stream it becomes a
 * child graph, which no epoch counts. */
static ph__served replay_as_captured(ph_status *status, ph__visit *visit)
{
    ph_graph *graph = visit->entry->graph;
    uint64_t epoch = ph_graph_epoch(graph);
    visit->result->path = PH_CACHE_REPLAYED;
    ph__served served = replay_learned(status, visit);
    if (*status == PH_OK && visit->launch && ph_graph_epoch(graph) == epoch)
        visit->result->path = PH_CACHE_NESTED;
    return served;
}

/* A graph with breaks is replayed as it was captured, or not at all. */
static ph__served serve_breaks(ph_status *status, ph__visit *visit, bool known)
{
    if (!is_outside_captures(status, visit))
        return *status == PH_OK ? PH__RECORD : PH__SERVED;
    if (known) {
        visit->result->path = PH_CACHE_REPLAYED;
        return replay_learned(status, visit);
    }
    note_reason(visit, "the body has breaks, and what moves is not learned across segments; a key "
                       "that has the pointers and values is replayed");
    return PH__EAGER;
}

static ph__served serve_graph(ph_status *status, ph__visit *visit)
{
    ph__cache_entry *entry = visit->entry;
    ph_graph_cache_result *result = visit->result;
    bool known =
        ph__learned_match(entry->learned, visit->call, result->reason, sizeof result->reason);
    if (entry->graph->segments)
        return serve_breaks(status, visit, known);
    if (known && ph_graph_slot_count(entry->graph) == 0)
        return replay_as_captured(status, visit);
    if (!is_outside_captures(status, visit))
        return *status == PH_OK ? PH__RECORD : PH__SERVED;
    if (known) {
        result->path = PH_CACHE_REPLAYED;
        return replay_learned(status, visit);
    }
    if (is_spent(visit)) {
        repeat_reason(visit);
        return PH__EAGER;
    }
    return may_capture(visit) ? PH__CAPTURE : PH__EAGER;
}

static ph__served serve_locked(ph_status *status, ph__visit *visit)
{
    ph__cache_entry *entry = visit->entry;
    if (entry->apart) {
        ph__line_format(visit->result->reason, sizeof visit->result->reason,
                        "another call of the key is in a replay with %s",
                        entry->graph && entry->graph->segments ? "breaks" : "hooks");
        return is_outside_captures(status, visit) ? PH__EAGER
               : *status == PH_OK                 ? PH__RECORD
                                                  : PH__SERVED;
    }
    if (entry->graph)
        return serve_graph(status, visit);
    if (!is_outside_captures(status, visit))
        return *status == PH_OK ? PH__RECORD : PH__SERVED;
    if (entry->refused) {
        repeat_reason(visit);
        return PH__EAGER;
    }
    if (visit->launch && entry->seen < visit->cache->after) {
        entry->seen++;
        return PH__EAGER;
    }
    return may_capture(visit) ? PH__CAPTURE : PH__EAGER;
}

ph__served ph__serve_replay(ph_status *status, ph__visit *visit)
{
    ph__mutex_lock(&visit->entry->lock);
    ph__served served = serve_locked(status, visit);
    ph__mutex_unlock(&visit->entry->lock);
    return served;
}

/* ---- captures ---- no lock is held while the body runs. */
static void destroy_graph(void *graph)
{
    ph_graph_destroy(graph);
}

static ph_status capture_body(ph_graph **out, const ph__visit *visit, bool keep)
{
    ph_capture_options options = visit->cache->capture;
    ph_graph *graph;
    options.plan = options.plan && !keep; /* its memory does not stay */
    PH_TRY(ph_graph_create(&graph, &(ph_graph_options){.keep_graph = keep}));
    PH__UNWIND unwind = {destroy_graph, graph};
    ph_status status =
        ph_graph_capture(graph, visit->stream, &options, visit->call->body, visit->call->user);
    unwind.undo = NULL;
    if (status == PH_OK)
        *out = graph;
    else
        ph_graph_destroy(graph);
    return status;
}

/* A body fails with CALLER for reasons of its own. */
static ph__served failed_capture(const ph_status *status, ph__visit *visit, bool first)
{
    if (*status == PH_ERROR_CALLER)
        return PH__SERVED;
    note_reason(visit, ph_error_last()->message);
    if (first && *status != PH_ERROR_POOL_BUSY)
        refuse_key(visit);
    else if (!first)
        visit->entry->unlearned++;
    return PH__EAGER;
}

/* Memory of a pool goes when no graph holds it. Where others held it too, the key may fit without
 * them later. */
static ph__served give_up_room(ph__visit *visit, bool alone)
{
    ph__cache_entry *entry = visit->entry;
    ph__entry_clear(entry);
    ph__entry_account(visit->cache, entry);
    entry->seen = 0;
    entry->needs_pool = !alone;
    (void)ph__entry_make_room(visit->cache, NULL, 0);
    note_reason(visit, alone ? "the graph alone is beyond the budget"
                             : "the graph and what others left in the pool are beyond the budget");
    if (alone)
        refuse_key(visit);
    return PH__EAGER;
}

static ph__served keep_first(ph_status *status, ph__visit *visit, ph_graph *graph, bool alone)
{
    ph__cache_entry *entry = visit->entry;
    entry->learned = ph__learned_create(visit->call);
    if (!entry->learned) {
        ph_graph_destroy(graph);
        note_reason(visit, "no host memory for what the key's captures show");
        return PH__EAGER;
    }
    entry->graph = graph;
    ph__entry_account(visit->cache, entry);
    if (!ph__entry_make_room(visit->cache, entry, 0))
        return give_up_room(visit, alone);
    visit->result->path = PH_CACHE_CAPTURED;
    *status = replay_graph(visit, graph, NULL, 0);
    return ph__served_or_dropped(status, visit, graph);
}

static ph__served capture_first(ph_status *status, ph__visit *visit)
{
    ph_graph *graph = NULL;
    const char *why = ph__cache_no_plan_now(visit->cache);
    if (!why && visit->entry->needs_pool)
        ph__entry_empty_pool(visit->cache);
    if (!why && !ph__entry_make_room(visit->cache, visit->entry, 1))
        why = "the budget is exceeded, and no graph is left to evict";
    if (why) {
        note_reason(visit, why);
        return PH__EAGER;
    }
    bool alone = ph__entry_is_pool_empty(visit->cache);
    *status = capture_body(&graph, visit, false);
    ph__mutex_lock(&visit->entry->lock);
    ph__served served =
        graph ? keep_first(status, visit, graph, alone) : failed_capture(status, visit, true);
    ph__mutex_unlock(&visit->entry->lock);
    return served;
}

/* ---- updates ---- */
static bool update_variant(ph__visit *visit, ph_graph *from)
{
    ph__cache_entry *entry = visit->entry;
    ph_error before;
    ph__error_save(&before);
    for (size_t i = 0; i < PH__CACHE_VARIANTS && entry->variants[i]; i++) {
        if (ph_graph_update(entry->variants[i], from, NULL) != PH_OK)
            continue;
        ph__entry_use_variant(entry, i);
        return true;
    }
    ph__error_restore(&before);
    return false;
}

/* Takes the capture over as one more executable; the one that was used longest ago makes room. */
static ph_status add_variant(ph__visit *visit, ph_graph **from)
{
    ph__cache_entry *entry = visit->entry;
    PH_TRY(ph_graph_instantiate(*from));
    ph_graph_destroy(entry->variants[PH__CACHE_VARIANTS - 1]);
    entry->variants[PH__CACHE_VARIANTS - 1] = *from;
    ph__entry_use_variant(entry, PH__CACHE_VARIANTS - 1);
    *from = NULL;
    ph__entry_account(visit->cache, entry);
    return PH_OK;
}

static ph__served serve_update(ph_status *status, ph__visit *visit, ph_graph **from)
{
    if (!update_variant(visit, *from)) {
        *status = add_variant(visit, from);
        if (*status != PH_OK) {
            note_reason(visit, ph_error_last()->message);
            return PH__EAGER;
        }
    }
    visit->result->path = PH_CACHE_UPDATED;
    ph_graph *used = visit->entry->variants[0];
    *status = replay_graph(visit, used, NULL, 0);
    return ph__served_or_dropped(status, visit, used);
}

/* ---- learning ---- */
static ph__served learn_from(ph_status *status, ph__visit *visit, ph_graph **other)
{
    ph__cache_entry *entry = visit->entry;
    char reason[sizeof visit->result->reason] = "";
    bool learned_it = false;
    if (entry->graph && (entry->graph->segments || (*other)->segments)) {
        note_reason(visit, "the body has breaks at some calls, which nothing is learned from");
        entry->unlearned = PH__CACHE_ATTEMPTS;
        return PH__EAGER;
    }
    if (!entry->graph) { /* dropped or evicted meanwhile */
        note_reason(visit, "the key's graph was evicted while it was captured to learn from");
        return PH__EAGER;
    }
    *status = ph__learned_compare(&learned_it, entry->learned, entry->graph, *other, visit->call,
                                  reason, sizeof reason);
    if (*status != PH_OK)
        ph__line_format(reason, sizeof reason, "%s", ph_error_last()->message);
    else if (learned_it && ph__learned_match(entry->learned, visit->call, reason, sizeof reason)) {
        visit->result->path = PH_CACHE_LEARNED;
        return replay_learned(status, visit);
    }
    note_reason(visit, reason);
    if (++entry->unlearned == PH__CACHE_ATTEMPTS)
        ph__cache_report(visit->cache, PH_CACHE_REFUSED, entry, entry->reason);
    return visit->cache->fallback == PH_CACHE_FALLBACK_UPDATE && visit->launch
               ? serve_update(status, visit, other)
               : PH__EAGER;
}

static ph__served capture_another(ph_status *status, ph__visit *visit)
{
    ph_graph *other = NULL;
    ph__served served;
    *status = capture_body(&other, visit, true);
    ph__mutex_lock(&visit->entry->lock);
    if (!other)
        served = failed_capture(status, visit, false);
    else if (visit->entry->apart) /* without the lock, and its graphs are in use */
        served = PH__EAGER;
    else if (visit->entry->unlearned >= PH__CACHE_ATTEMPTS)
        served = serve_update(status, visit, &other);
    else
        served = learn_from(status, visit, &other);
    ph__mutex_unlock(&visit->entry->lock);
    ph_graph_destroy(other);
    return served;
}

ph__served ph__serve_capture(ph_status *status, ph__visit *visit)
{
    ph__mutex_lock(&visit->entry->lock);
    bool first = visit->entry->graph == NULL;
    ph__mutex_unlock(&visit->entry->lock);
    return first ? capture_first(status, visit) : capture_another(status, visit);
}
