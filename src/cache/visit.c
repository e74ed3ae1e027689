/* SPDX-License-Identifier: MIT */
/* cache/visit.c: what a call has of its key, and what is done when no lock is held. */
#include "cache/visit.h"
#include "base/status.h"
#include "cache/breaks.h"
#include "cache/budget.h"
#include "cache/entry.h"
#include "cache/renewal_end.h"
#include "cache/report.h"

/* ---- the lock ---- */
void ph__visit_lock(ph__visit *visit)
{
    ph__mutex_lock(&visit->entry->lock);
    ph__log_hold(&visit->log);
}

void ph__visit_unlock(ph__visit *visit)
{
    ph__mutex_unlock(&visit->entry->lock);
    ph__log_report(&visit->log);
}

void ph__visit_step_aside(ph__visit *visit)
{
    visit->apart = visit->entry->apart = true;
    ph__visit_unlock(visit);
}

void ph__visit_step_back(ph__visit *visit)
{
    ph__visit_lock(visit);
    visit->apart = visit->entry->apart = false;
}

/* ---- notes ---- */
void ph__visit_note(ph__visit *visit, const char *reason)
{
    ph__cache_reason(visit->result->reason, sizeof visit->result->reason, reason);
    ph__cache_reason(visit->entry->reason, sizeof visit->entry->reason, reason);
    visit->entry->status = PH_OK;
    visit->entry->native_code = 0;
}

void ph__visit_note_error(ph__visit *visit)
{
    const ph_error *error = ph_error_last();
    ph__visit_note(visit, error->message);
    visit->entry->status = error->status;
    visit->entry->native_code = error->native_code;
}

void ph__visit_let_go(ph__visit *visit, ph_graph *graph)
{
    if (graph)
        visit->gone[visit->gone_count++] = graph;
}

void ph__visit_clear_entry(ph__visit *visit)
{
    ph__cache_entry had = {0};
    ph__entry_move_graphs(&had, visit->entry);
    ph__visit_let_go(visit, had.graph);
    for (size_t i = 0; i < PH__CACHE_VARIANTS; i++)
        ph__visit_let_go(visit, had.variants[i]);
    ph__learned_destroy(had.learned);
    ph__entry_account(visit->cache, visit->entry);
}

void ph__visit_report(ph__visit *visit, ph_graph_cache_path what, const char *reason)
{
    visit->events[visit->event_count].what = what;
    ph__cache_reason(visit->events[visit->event_count].reason, sizeof visit->events[0].reason,
                     reason);
    visit->event_count++;
}

/* A key is counted once. */
static void count_refused(ph__visit *visit, bool known)
{
    ph__mutex_lock(&visit->cache->lock);
    visit->cache->refused += !known;
    ph__mutex_unlock(&visit->cache->lock);
    ph__visit_report(visit, PH_CACHE_REFUSED, visit->entry->reason);
}

void ph__visit_refuse(ph__visit *visit)
{
    visit->entry->refused = true;
    count_refused(visit, visit->entry->unlearned >= PH__CACHE_ATTEMPTS);
}

void ph__visit_not_learned(ph__visit *visit)
{
    if (++visit->entry->unlearned == PH__CACHE_ATTEMPTS)
        count_refused(visit, false);
}

/* ---- the end ---- */
/* One by one, as a function of the user's may not return. */
void ph__visit_do_rest(ph__visit *visit)
{
    ph_error before;
    if (visit->gone_count == 0 && visit->event_count == 0)
        return;
    ph__error_save(&before);
    while (visit->gone_count) {
        ph_graph *graph = visit->gone[--visit->gone_count];
        ph__renewal_forget(visit->cache, graph);
        ph_graph_destroy(graph);
    }
    unsigned count = visit->event_count;
    visit->event_count = 0;
    for (unsigned i = 0; i < count; i++)
        ph__cache_report(visit->cache, visit->events[i].what, visit->entry,
                         visit->events[i].reason);
    ph__error_restore(&before);
}

/* Functions of the user's, and other threads, may have called the key again: its graphs may be
 * others by now. */
static void check_graph(ph__visit *visit)
{
    ph_graph_cache_result *result = visit->result;
    const ph__cache_entry *entry = visit->entry;
    if (!result->graph)
        return;
    ph__mutex_lock(&visit->entry->lock);
    bool there = entry->graph == result->graph;
    for (size_t i = 0; i < PH__CACHE_VARIANTS; i++)
        there = there || entry->variants[i] == result->graph;
    ph__mutex_unlock(&visit->entry->lock);
    if (there)
        return;
    result->graph = NULL;
    result->epoch = 0;
}

void ph__visit_end(ph__visit *visit)
{
    ph__visit_leave_pool(visit);
    if (visit->capturing || visit->apart) {
        ph__mutex_lock(&visit->entry->lock);
        visit->entry->capturing = visit->entry->capturing && !visit->capturing;
        visit->entry->apart = visit->entry->apart && !visit->apart;
        ph__mutex_unlock(&visit->entry->lock);
    }
    if (visit->capturing)
        atomic_store(&visit->cache->capturing, 0);
    visit->capturing = visit->apart = false;
    ph__visit_do_rest(visit);
    check_graph(visit);
    ph__entry_leave(visit->cache, visit->entry, visit->launch ? visit->result->path : 0,
                    visit->result);
}
