/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/hooks.c: the registries of hooks, and running them with no lock held. */
#include "graph/lifecycle/hooks.h"
#include "base/alloc.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/unwind.h"
#include "graph/lifecycle/graph.h"
#include "graph/object/graph.h"
#include <pthread.h>

struct ph_hook {
    ph__hook_set *set; /* NULL once the graph is gone; under the lock */
    ph_graph_hook_point point;
    ph_graph_hook_fn fn;
    void *user;
    atomic_bool removed;
    int references; /* the handle's and its list's; under the lock */
};

/* Never changed while someone else reads it: an addition makes a new list then, and where there
 * is no room; a removal marks the hook. Marked hooks are taken out when they are half of a list
 * that nobody reads, so that an addition or a removal costs the same however many there are. */
struct ph__hook_list {
    int readers;
    size_t count, capacity, marked;
    ph_hook *at[];
};

ph__hook_set ph__process_hooks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
PH__FORK_LOCK(PH__FORK_HOOKS, lock)

static void drop_reference(ph_hook *hook)
{
    if (--hook->references == 0)
        ph__free(hook);
}

/* Takes the removed hooks out of a list that nobody reads. */
static void compact_hooks(ph__hook_set *set)
{
    ph__hook_list *list = set->list;
    size_t kept = 0;
    if (list == NULL || list->readers || list->marked * 2 < list->count)
        return;
    for (size_t i = 0; i < list->count; i++)
        if (atomic_load(&list->at[i]->removed))
            drop_reference(list->at[i]);
        else
            list->at[kept++] = list->at[i];
    list->count = kept;
    list->marked = 0;
    if (kept == 0) {
        ph__free(list);
        set->list = NULL;
    }
}

/* A list that is being read, and has been replaced, is freed by its last reader. */
static void end_reading(ph__hook_set *set, ph__hook_list *list)
{
    if (--list->readers)
        return;
    if (set->list == list) {
        compact_hooks(set);
        return;
    }
    for (size_t i = 0; i < list->count; i++)
        drop_reference(list->at[i]);
    ph__free(list);
}

/* A new list in the place of the set's, with room for more hooks than there are. */
static bool replace_hook_list(ph__hook_set *set)
{
    ph__hook_list *old = set->list;
    size_t count = old ? old->count - old->marked : 0, capacity = 2 * count + 2;
    ph__hook_list *list = ph__calloc(1, sizeof *list + capacity * sizeof *list->at);
    if (list == NULL)
        return false;
    list->capacity = capacity;
    for (size_t i = 0; old && i < old->count; i++)
        if (!atomic_load(&old->at[i]->removed)) {
            list->at[list->count++] = old->at[i];
            old->at[i]->references++;
        }
    set->list = list;
    if (old) { /* as a reader that is done: its references go with the last one */
        old->readers++;
        end_reading(set, old);
    }
    return true;
}

static bool append_hook(ph__hook_set *set, ph_hook *hook)
{
    compact_hooks(set);
    ph__hook_list *list = set->list;
    if ((list == NULL || list->readers || list->count == list->capacity) && !replace_hook_list(set))
        return false;
    set->list->at[set->list->count++] = hook;
    hook->references++;
    atomic_fetch_add(&set->counts[hook->point], 1);
    return true;
}

ph_status ph_graph_hook_add(ph_hook **out, ph_graph *graph, ph_graph_hook_point point,
                            ph_graph_hook_fn fn, void *user)
{
    static const char call[] = "ph_graph_hook_add";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (fn == NULL)
        return ph__fail_null(call, "fn");
    if (point < PH_HOOK_CAPTURE_START || point > PH_HOOK_CAPTURE_PREPARE)
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: %d is no hook point; use one of PH_HOOK_CAPTURE_START to PH_HOOK_CAPTURE_PREPARE",
            call, (int)point);
    if (graph)
        PH_TRY(ph__graph_check(graph, PH__CALL_HOOK_ADD));
    ph_hook *hook = ph__calloc(1, sizeof *hook);
    if (hook == NULL)
        return ph__fail_host_memory(call, "the hook");
    hook->set = graph ? &graph->hooks : &ph__process_hooks;
    hook->point = point;
    hook->fn = fn;
    hook->user = user;
    hook->references = 1;
    pthread_mutex_lock(&lock);
    bool added = append_hook(hook->set, hook);
    pthread_mutex_unlock(&lock);
    if (!added) {
        ph__free(hook);
        return ph__fail_host_memory(call, "the list of hooks");
    }
    *out = hook;
    return PH_OK;
}

void ph_graph_hook_remove(ph_hook *hook)
{
    if (hook == NULL)
        return;
    pthread_mutex_lock(&lock);
    atomic_store(&hook->removed, true);
    if (hook->set) {
        atomic_fetch_sub(&hook->set->counts[hook->point], 1);
        hook->set->list->marked++;
        compact_hooks(hook->set);
    }
    drop_reference(hook);
    pthread_mutex_unlock(&lock);
}

void ph__hooks_detach(ph__hook_set *set)
{
    pthread_mutex_lock(&lock);
    ph__hook_list *list = set->list;
    set->list = NULL;
    for (size_t i = 0; list && i < list->count; i++) {
        list->at[i]->set = NULL;
        drop_reference(list->at[i]);
    }
    ph__free(list);
    pthread_mutex_unlock(&lock);
}

/* ---- running ---- */
static bool only_logged(const ph__hook_set *set, ph_graph_hook_point point)
{
    return set == &ph__process_hooks || point == PH_HOOK_REPLAY_END || point == PH_HOOK_DESTROY;
}

static ph_status call_hook(const ph_hook *hook, const ph_graph_hook_info *info)
{
    ph_status status = hook->fn(info, hook->user);
    if (status != PH_OK && ph_error_last()->status != status)
        ph__fail_given(status, "a hook of the graph");
    return status;
}

typedef struct reading {
    ph__hook_set *set;
    ph__hook_list *list;
} reading;

static void stop_reading(void *what)
{
    const reading *r = what;
    pthread_mutex_lock(&lock);
    end_reading(r->set, r->list);
    pthread_mutex_unlock(&lock);
}

static ph_status run_set(ph__hook_set *set, const ph_graph_hook_info *info)
{
    ph_status status = PH_OK;
    pthread_mutex_lock(&lock);
    ph__hook_list *list = set->list;
    if (list)
        list->readers++;
    pthread_mutex_unlock(&lock);
    if (list == NULL)
        return PH_OK;
    reading r = {set, list};
    PH__UNWIND unwind = {stop_reading, &r};
    for (size_t i = 0; i < list->count && status == PH_OK; i++) {
        const ph_hook *hook = list->at[i];
        if (hook->point != info->point || atomic_load(&hook->removed))
            continue;
        ph_error before;
        ph__error_save(&before);
        status = call_hook(hook, info);
        if (status != PH_OK && only_logged(set, info->point)) {
            ph__log(PH_LOG_WARNING, "a hook of graph %llu failed (ignored): %s",
                    (unsigned long long)info->graph->id, ph_error_last()->message);
            ph__error_restore(&before);
            status = PH_OK;
        }
    }
    unwind.undo = NULL;
    stop_reading(&r);
    return status;
}

/* A hook was left without a return. */
static void abandon_hooks(void *what)
{
    const ph_graph_hook_info *info = what;
    info->graph->busy--;
    ph__graph_abandon(info->graph, info->point);
}

ph_status ph__hooks_run(ph_graph *graph, ph_graph_hook_point point, ph_stream *stream,
                        uint64_t exec_id)
{
    ph_graph_hook_info info = {
        .point = point, .graph = graph, .stream = stream, .exec_id = exec_id};
    if (!ph__hooks_any(&graph->hooks, point))
        return PH_OK;
    graph->busy++;
    PH__UNWIND unwind = {abandon_hooks, &info};
    ph_status status = run_set(&ph__process_hooks, &info);
    if (status == PH_OK)
        status = run_set(&graph->hooks, &info);
    unwind.undo = NULL;
    graph->busy--;
    if (status == PH_OK && graph->doomed && point != PH_HOOK_REPLAY_END && point != PH_HOOK_DESTROY)
        status = ph_fail(PH_ERROR_STATE, "the graph was destroyed by one of its own hooks");
    return status;
}
