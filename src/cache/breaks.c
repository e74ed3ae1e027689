/* SPDX-License-Identifier: MIT */
/* cache/breaks.c: replays whose functions may run the cache, or wait for other threads. */
#include "cache/breaks.h"
#include "base/unwind.h"

/* A function has not returned. */
static void leave_apart(void *what)
{
    ph__cache_entry *entry = what;
    ph__mutex_lock(&entry->lock);
    entry->apart = false;
    ph__mutex_unlock(&entry->lock);
}

ph_status ph__visit_replay_apart(ph__visit *visit, ph_graph *graph, const ph_slot_value *values,
                                 size_t count)
{
    ph__cache_entry *entry = visit->entry;
    entry->apart = true;
    ph__mutex_unlock(&entry->lock);
    PH__UNWIND unwind = {leave_apart, entry};
    ph_status status = count ? ph_graph_replay_with(graph, visit->stream, values, count)
                             : ph_graph_replay(graph, visit->stream);
    unwind.undo = NULL;
    ph__mutex_lock(&entry->lock);
    entry->apart = false;
    return status;
}
