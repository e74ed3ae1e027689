/* SPDX-License-Identifier: MIT */
/* cache/visit.c: what a call has of its key, and what is done when no lock is held. */
#include "cache/visit.h"
#include "base/line.h"
#include "base/status.h"
#include "cache/budget.h"
#include "cache/entry.h"

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
    ph__line_format(visit->result->reason, sizeof visit->result->reason, "%s", reason);
    ph__line_format(visit->entry->reason, sizeof visit->entry->reason, "%s", reason);
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

void ph__visit_report_refusal(ph__visit *visit)
{
    ph__line_format(visit->refusals[visit->refusal_count], sizeof visit->refusals[0], "%s",
                    visit->entry->reason);
    visit->refusal_count++;
}

void ph__visit_refuse(ph__visit *visit)
{
    visit->entry->refused = true;
    ph__mutex_lock(&visit->cache->lock);
    visit->cache->refused++;
    ph__mutex_unlock(&visit->cache->lock);
    ph__visit_report_refusal(visit);
}

/* ---- the end ---- */
/* One by one, as a function of the user's may not return. */
void ph__visit_do_rest(ph__visit *visit)
{
    ph_error before;
    if (visit->gone_count == 0 && visit->refusal_count == 0)
        return;
    ph__error_save(&before);
    while (visit->gone_count)
        ph_graph_destroy(visit->gone[--visit->gone_count]);
    unsigned count = visit->refusal_count;
    visit->refusal_count = 0;
    for (unsigned i = 0; i < count; i++)
        ph__cache_report(visit->cache, PH_CACHE_REFUSED, visit->entry, visit->refusals[i]);
    ph__error_restore(&before);
}

void ph__visit_end(ph__visit *visit)
{
    if (visit->capturing || visit->apart) {
        ph__mutex_lock(&visit->entry->lock);
        visit->entry->capturing = visit->entry->capturing && !visit->capturing;
        visit->entry->apart = visit->entry->apart && !visit->apart;
        ph__mutex_unlock(&visit->entry->lock);
    }
    if (visit->capturing)
        atomic_store(&visit->cache->capturing, false);
    visit->capturing = visit->apart = false;
    ph__visit_do_rest(visit);
    ph__entry_leave(visit->cache, visit->entry, visit->launch ? visit->result->path : 0,
                    visit->result);
}
