/* SPDX-License-Identifier: MIT */
/* cache/breaks.c: replays whose functions may run the cache, or wait for other threads. */
#include "cache/breaks.h"
#include "base/unwind.h"

/* A function of a break has not returned. */
static void leave_break(void *what)
{
    ph__cache_entry *entry = what;
    ph__mutex_lock(&entry->lock);
    entry->in_break = false;
    ph__mutex_unlock(&entry->lock);
}

ph_status ph__visit_replay_breaks(ph__visit *visit, ph_graph *graph)
{
    ph__cache_entry *entry = visit->entry;
    entry->in_break = true;
    ph__mutex_unlock(&entry->lock);
    PH__UNWIND unwind = {leave_break, entry};
    ph_status status = ph_graph_replay(graph, visit->stream);
    unwind.undo = NULL;
    ph__mutex_lock(&entry->lock);
    entry->in_break = false;
    return status;
}
