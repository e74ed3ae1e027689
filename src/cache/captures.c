/* SPDX-License-Identifier: MIT */
/* cache/captures.c: captures of bodies, what is learned or updated from them, and the replay that
 * follows. No lock is held while functions of the user's run. Nothing launches before all that can
 * fail is done. */
#include "cache/captures.h"
#include "base/line.h"
#include "base/unwind.h"
#include "cache/budget.h"
#include "cache/check.h"
#include "cache/entry.h"
#include "cache/learn.h"
#include "cache/renewal.h"
#include "cache/variants.h"
#include "graph/object/graph.h"

static void destroy_graph(void *graph)
{
    ph_graph_destroy(graph);
}

static void destroy_other(void *other)
{
    ph_graph_destroy(*(ph_graph **)other);
}

/* One capture. empty: nothing was submitted to the stream, and `graph` is NULL. done:
 * so the body's work is done, as it went elsewhere, or there is none; but a capture calls no
 * functions of breaks. */
typedef struct captured {
    ph_graph *graph;
    bool empty, done;
} captured;

static void note_empty(captured *out, const ph_graph *graph, const ph_capture_options *options,
                       ph_status status)
{
    bool breaks = status == PH_OK ? graph->segments != NULL : options->allow_breaks;
    out->empty = graph->empty;
    out->done = graph->empty && !breaks;
}

static ph_status capture_body(captured *out, const ph__visit *visit, bool keep)
{
    ph_capture_options options = visit->cache->capture;
    ph_graph *graph;
    options.plan = options.plan && !keep; /* its memory does not stay */
    PH_TRY(ph_graph_create(&graph, &(ph_graph_options){.keep_graph = keep}));
    PH__UNWIND unwind = {destroy_graph, graph};
    ph_status status =
        ph_graph_capture(graph, visit->stream, &options, visit->call->body, visit->call->user);
    unwind.undo = NULL;
    note_empty(out, graph, &options, status);
    if (status == PH_OK && !out->empty)
        out->graph = graph;
    else
        ph_graph_destroy(graph);
    return status;
}

/* Replays of nothing would lose the work. A body that has none needs no graph. */
static ph__served refuse_empty(ph_status *status, ph__visit *visit, bool first, bool done)
{
    ph__visit_note(visit, "the capture is empty: the body submitted nothing to the stream that it "
                          "was given; wrong stream or device? Submit to that stream, and drop the "
                          "key");
    visit->entry->status = PH_ERROR_STATE;
    if (first)
        ph__visit_refuse(visit);
    else
        ph__visit_not_learned(visit);
    if (!done)
        return PH__EAGER;
    *status = PH_OK;
    visit->result->path = PH_CACHE_EAGER;
    return PH__SERVED;
}

/* A body fails with CALLER for reasons of its own. */
static ph__served failed_capture(const ph_status *status, ph__visit *visit, bool first)
{
    if (*status == PH_ERROR_CALLER)
        return PH__SERVED;
    ph__visit_note_error(visit);
    if (first && *status != PH_ERROR_POOL_BUSY)
        ph__visit_refuse(visit);
    else if (!first)
        ph__visit_not_learned(visit);
    return PH__EAGER;
}

/* Memory of a pool goes when no graph holds it. Where others held it too, the key may fit without
 * them later. */
static void give_up_room(ph__visit *visit, bool alone)
{
    ph__cache_entry *entry = visit->entry;
    ph__visit_clear_entry(visit);
    entry->seen = 0;
    entry->needs_pool = !alone;
    ph__visit_note(visit, alone
                              ? "the graph alone is beyond the budget"
                              : "the graph and what others left in the pool are beyond the budget");
    if (alone)
        ph__visit_refuse(visit);
}

/* Locked. True: the entry has the graph. */
static bool acquire_first(ph__visit *visit, ph_graph *graph)
{
    visit->entry->learned = ph__learned_create(visit->call);
    if (!visit->entry->learned) {
        ph__visit_let_go(visit, graph);
        ph__visit_note(visit, "no host memory for what the key's captures show");
        return false;
    }
    visit->entry->graph = graph;
    ph__entry_account(visit->cache, visit->entry);
    return true;
}

/* Locked. Other graphs make room for it while the lock is free. */
static ph__served keep_first(ph_status *status, ph__visit *visit, ph_graph *graph, bool alone)
{
    if (!acquire_first(visit, graph))
        return PH__EAGER;
    ph__visit_step_aside(visit);
    bool fits = ph__entry_make_room(visit->cache, visit->entry, 0);
    ph__visit_step_back(visit);
    if (!fits) {
        give_up_room(visit, alone);
        return PH__EAGER;
    }
    visit->result->path = PH_CACHE_CAPTURED;
    *status = ph__serve_graph(visit, graph, NULL, 0);
    return ph__served_or_dropped(status, visit, graph);
}

static const char *make_room(ph__visit *visit)
{
    const char *why = ph__cache_no_plan_now(visit->cache);
    if (!why && visit->entry->needs_pool)
        ph__entry_empty_pool(visit->cache);
    if (!why && !ph__entry_make_room(visit->cache, visit->entry, 1))
        why = "the budget is exceeded, and no graph is left to evict";
    return why;
}

/* Locked. */
static ph__served use_first(ph_status *status, ph__visit *visit, const captured *c, bool alone)
{
    return c->empty   ? refuse_empty(status, visit, true, c->done)
           : c->graph ? keep_first(status, visit, c->graph, alone)
                      : failed_capture(status, visit, true);
}

static ph__served capture_first(ph_status *status, ph__visit *visit)
{
    captured c = {0};
    const char *why = make_room(visit);
    if (why) {
        ph__visit_lock(visit);
        ph__visit_note(visit, why);
        ph__visit_unlock(visit);
        return PH__EAGER;
    }
    bool alone = ph__entry_is_pool_empty(visit->cache);
    *status = capture_body(&c, visit, false);
    ph__visit_lock(visit);
    ph__served served = use_first(status, visit, &c, alone);
    bool given_up = c.graph && !visit->entry->graph;
    ph__visit_unlock(visit);
    ph__visit_do_rest(visit);
    if (given_up)
        (void)ph__entry_make_room(visit->cache, NULL, 0);
    return served;
}

/* ---- updates ---- while the lock is free, as hooks see executables that are made, and objects of
 * the user's may go with what was updated. */
static bool update_apart(ph_status *status, ph__visit *visit, ph_graph *from)
{
    ph__visit_step_aside(visit);
    ph__renewal_place(visit);
    bool updated = ph__variants_update(visit, from);
    *status = updated ? PH_OK : ph_graph_instantiate(from);
    ph__visit_step_back(visit);
    return updated;
}

/* Locked. */
static ph__served serve_update(ph_status *status, ph__visit *visit, ph_graph **from)
{
    bool updated = update_apart(status, visit, *from);
    if (*status != PH_OK) {
        ph__visit_note_error(visit);
        return PH__EAGER;
    }
    if (!updated) {
        ph__variants_add(visit, *from);
        *from = NULL;
    }
    visit->result->path = PH_CACHE_UPDATED;
    ph_graph *used = visit->entry->variants[0];
    *status = ph__serve_graph(visit, used, NULL, 0);
    if (updated && *status == PH_OK) {
        ph__visit_step_aside(visit);
        ph__renewal_consider(visit, used, from);
        ph__visit_step_back(visit);
    }
    return ph__served_or_dropped(status, visit, used);
}

/* ---- learning ---- */
static ph__served learn_from(ph_status *status, ph__visit *visit, ph_graph **other)
{
    ph__cache_entry *entry = visit->entry;
    char reason[sizeof((ph_error *)0)->message] = "";
    bool learned_it = false;
    if (entry->graph && (entry->graph->segments || (*other)->segments)) {
        ph__visit_note(visit, "the body has breaks at some calls, which nothing is learned from");
        entry->unlearned = PH__CACHE_ATTEMPTS - 1;
        ph__visit_not_learned(visit);
        return PH__EAGER;
    }
    if (!entry->graph) { /* dropped or evicted meanwhile */
        ph__visit_note(visit, "the key's graph was evicted while it was captured to learn from");
        return PH__EAGER;
    }
    *status = ph__learned_compare(&learned_it, entry->learned, entry->graph, *other, visit->call,
                                  reason, sizeof reason);
    if (*status == PH_OK && learned_it &&
        ph__learned_match(entry->learned, visit->call, reason, sizeof reason)) {
        visit->result->path = PH_CACHE_LEARNED;
        return ph__serve_learned(status, visit);
    }
    if (*status == PH_OK)
        ph__visit_note(visit, reason);
    else
        ph__visit_note_error(visit);
    ph__visit_not_learned(visit);
    return visit->cache->fallback == PH_CACHE_FALLBACK_UPDATE && visit->launch
               ? serve_update(status, visit, other)
               : PH__EAGER;
}

/* Locked. */
static ph__served use_another(ph_status *status, ph__visit *visit, captured *c)
{
    ph__cache_entry *entry = visit->entry;
    if (c->empty)
        return refuse_empty(status, visit, false, c->done);
    if (!c->graph)
        return failed_capture(status, visit, false);
    if (entry->apart) /* without the lock, and its graphs are in use */
        return PH__EAGER;
    return entry->unlearned >= PH__CACHE_ATTEMPTS ? serve_update(status, visit, &c->graph)
                                                  : learn_from(status, visit, &c->graph);
}

static ph__served capture_another(ph_status *status, ph__visit *visit)
{
    captured c = {0};
    *status = capture_body(&c, visit, true);
    PH__UNWIND unwind = {destroy_other, &c.graph};
    ph__visit_lock(visit);
    ph__served served = use_another(status, visit, &c);
    ph__visit_unlock(visit);
    return served;
}

static void report_capture(ph__visit *visit)
{
    ph_graph_cache_path path = visit->result->path;
    if (path == PH_CACHE_CAPTURED || path == PH_CACHE_LEARNED)
        ph__visit_report(visit, path, "");
}

ph__served ph__serve_capture(ph_status *status, ph__visit *visit)
{
    ph__mutex_lock(&visit->entry->lock);
    bool first = visit->entry->graph == NULL;
    ph__mutex_unlock(&visit->entry->lock);
    ph__served served = first ? capture_first(status, visit) : capture_another(status, visit);
    if ((served == PH__SERVED && *status == PH_OK) || visit->kept_out)
        report_capture(visit);
    return served;
}
