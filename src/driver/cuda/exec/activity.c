/* SPDX-License-Identifier: MIT */
/* driver/cuda/exec/activity.c: when the nodes of a launched executable ran, by CUPTI's activity
 * records. CUPTI has one user in a process, who says so by subscribing; here that is one profile
 * at a time. */
#include "driver/cuda/exec/activity.h"
#include "base/fork.h"
#include "base/line.h"
#include "base/map.h"
#include "driver/cuda/capture/cupti.h"
#include "driver/cuda/exec/exec.h"
#include "driver/cuda/load/abi_cupti.h"
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

enum {
    BUFFER_BYTES = 256 << 10
};

typedef struct cupti {
    int (*subscribe)(ph__cupti_subscriber *subscriber, ph__cupti_callback callback, void *user);
    int (*unsubscribe)(ph__cupti_subscriber subscriber);
    int (*register_callbacks)(ph__cupti_room_fn room, ph__cupti_full_fn full);
    int (*enable)(int kind);
    int (*disable)(int kind);
    int (*flush)(uint32_t flags);
    int (*next)(uint8_t *buffer, size_t used, ph__cupti_record **record);
    int (*node_id)(ph__cu_node node, uint64_t *id);
    int (*exec_id)(ph__cu_exec exec, uint32_t *id);
} cupti;

/* A node that ran, by what CUPTI calls it: the id of a graph in the upper half, of a node in the
 * lower. */
typedef struct activity_record {
    uint64_t node_id, start_ns, end_ns;
} activity_record;

struct ph__cuda_activity {
    const ph__drv_exec *exec;
    ph__cupti_subscriber subscriber; /* NULL: the library has subscribed for good */
    unsigned enabled;                /* of the kinds, in order */
    /* lower half of the id, plus 1 -> ph__drv_node of the template */
    ph__map nodes;
    uint32_t exec_id, graph_id; /* upper halves that are ours */
    /* the one node that has a body; NULL: there is none, or several */
    ph__drv_node *only_body;
};

static const int kinds[] = {PH__CUPTI_CONCURRENT_KERNEL, PH__CUPTI_MEMCPY, PH__CUPTI_MEMSET};

/* CUPTI's callbacks say nothing of whom they are for. */
static struct {
    pthread_mutex_t lock;
    bool loaded, in_use;
    cupti call;
    PH__VEC(activity_record) records; /* since the last read */
    atomic_bool lost;                 /* one could not be kept */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};
PH__FORK_LOCK(PH__FORK_CUDA_ACTIVITY, state.lock)

/* ---- buffers ---- on any thread */

/* CUPTI may keep an empty one for good: they are pages of the system, not memory of the library. */
static void give_room(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    void *pages =
        mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool there = pages != MAP_FAILED;
    if (!there)
        atomic_store(&state.lost, true);
    *most_records = 0;
    *buffer = there ? pages : NULL;
    *bytes = there ? BUFFER_BYTES : 0;
}

/* Of nodes of graphs; a time of 0 was not measured. */
static bool read_record(activity_record *out, const ph__cupti_record *record)
{
    if (record->kind == PH__CUPTI_CONCURRENT_KERNEL) {
        const ph__cupti_kernel *kernel = (const void *)record;
        *out = (activity_record){kernel->graph_node, kernel->start, kernel->end};
    } else if (record->kind == PH__CUPTI_MEMCPY || record->kind == PH__CUPTI_MEMSET) {
        const ph__cupti_transfer *transfer = (const void *)record;
        *out = (activity_record){transfer->graph_node, transfer->start, transfer->end};
    } else {
        return false;
    }
    return out->node_id && out->start_ns && out->end_ns;
}

/* CUPTI may hold locks of its own meanwhile, so that none of ours is held around calls of it. */
static void keep_activity(const activity_record *record)
{
    pthread_mutex_lock(&state.lock);
    if (state.in_use && !ph__vec_push(&state.records, *record))
        atomic_store(&state.lost, true);
    pthread_mutex_unlock(&state.lock);
}

static void read_buffer(ph__cu_context context, uint32_t stream, uint8_t *buffer, size_t bytes,
                        size_t used)
{
    ph__cupti_record *record = NULL;
    (void)context;
    (void)stream;
    (void)bytes;
    while (used > 0 && state.call.next(buffer, used, &record) == 0) {
        activity_record one;
        if (read_record(&one, record))
            keep_activity(&one);
    }
    (void)munmap(buffer, BUFFER_BYTES);
}

/* A subscriber needs one. */
static void on_nothing(void *user, int domain, uint32_t function_id, const void *call)
{
    (void)user;
    (void)domain;
    (void)function_id;
    (void)call;
}

/* ---- the library ---- */

static bool find_function(void *library, const char *name, void *into)
{
    void *found = dlsym(library, name);
    memcpy(into, &found, sizeof found);
    return found != NULL;
}

static bool load_locked(char why[256])
{
    cupti c;
    if (state.loaded)
        return true;
    void *library = ph__cuda_cupti_open();
    if (!library) {
        ph__line_format(why, 256,
                        "libcupti.so, a part of the CUDA toolkit, cannot be loaded: put its folder "
                        "into LD_LIBRARY_PATH");
        return false;
    }
    (void)find_function(library, "cuptiGetGraphExecId", &c.exec_id);
    if (!find_function(library, "cuptiSubscribe", &c.subscribe) ||
        !find_function(library, "cuptiUnsubscribe", &c.unsubscribe) ||
        !find_function(library, "cuptiActivityRegisterCallbacks", &c.register_callbacks) ||
        !find_function(library, "cuptiActivityEnable", &c.enable) ||
        !find_function(library, "cuptiActivityDisable", &c.disable) ||
        !find_function(library, "cuptiActivityFlushAll", &c.flush) ||
        !find_function(library, "cuptiActivityGetNextRecord", &c.next) ||
        !find_function(library, "cuptiGetGraphNodeId", &c.node_id)) {
        ph__line_format(why, 256, "the libcupti.so that was found lacks functions");
        (void)dlclose(library);
        return false;
    }
    state.call = c;
    state.loaded = true;
    return true;
}

static bool begin_use(char why[256])
{
    pthread_mutex_lock(&state.lock);
    bool begun = false;
    if (state.in_use)
        ph__line_format(why, 256, "another profile of this process uses CUPTI just now");
    else
        begun = load_locked(why);
    if (begun) {
        state.in_use = true;
        atomic_store(&state.lost, false);
    }
    pthread_mutex_unlock(&state.lock);
    return begun;
}

static void end_use(void)
{
    pthread_mutex_lock(&state.lock);
    ph__vec_free(&state.records);
    state.in_use = false;
    pthread_mutex_unlock(&state.lock);
}

/* ---- nodes ---- An executable's nodes keep the lower half of their template's ids; the upper
 * one is that of the executable's graph. */

static bool find_node_ids(ph__cuda_activity *activity, char why[256])
{
    const ph__drv_graph *graph = activity->exec->graph;
    size_t bodies = 0;
    if (!ph__map_reserve(&activity->nodes, graph->nodes.count)) {
        ph__line_format(why, 256, "there is no host memory");
        return false;
    }
    for (size_t i = 0; i < graph->nodes.count; i++) {
        ph__drv_node *node = graph->nodes.at[i];
        uint64_t id = 0;
        int result = state.call.node_id(node->handle, &id);
        if (result != 0) {
            ph__line_format(
                why, 256,
                "CUPTI does not report its numbers of the nodes (cuptiGetGraphNodeId gave %d)",
                result);
            return false;
        }
        activity->graph_id = (uint32_t)(id >> 32);
        (void)ph__map_put(&activity->nodes, (uint64_t)(uint32_t)id + 1, node);
        if (node->info.kind == PH_NODE_GRAPH || node->info.kind == PH_NODE_CONDITIONAL) {
            activity->only_body = node;
            bodies++;
        }
    }
    if (bodies != 1)
        activity->only_body = NULL;
    if (!state.call.exec_id || state.call.exec_id(activity->exec->handle, &activity->exec_id) != 0)
        activity->exec_id = activity->graph_id;
    return true;
}

/* ---- open, close ---- */

static bool subscribe_to_cupti(ph__cuda_activity *activity, char why[256])
{
    if (ph__cuda_cupti_is_ours())
        return true;
    int result = state.call.subscribe(&activity->subscriber, on_nothing, NULL);
    if (result == 0)
        return true;
    activity->subscriber = NULL;
    if (result == PH__CUPTI_R_OTHER_SUBSCRIBER)
        ph__line_format(why, 256, "a profiler or debugger uses CUPTI already (39)");
    else
        ph__line_format(why, 256, "CUPTI cannot be used (cuptiSubscribe gave %d)", result);
    return false;
}

static bool enable_activity(ph__cuda_activity *activity, char why[256])
{
    int result = state.call.register_callbacks(give_room, read_buffer);
    while (result == 0 && activity->enabled < sizeof kinds / sizeof kinds[0]) {
        result = state.call.enable(kinds[activity->enabled]);
        activity->enabled += result == 0;
    }
    if (result != 0)
        ph__line_format(why, 256, "CUPTI gives no activity records here (%d)", result);
    return result == 0;
}

void ph__cuda_activity_close(ph__cuda_activity *activity)
{
    if (!activity)
        return;
    bool on = activity->enabled > 0;
    while (activity->enabled > 0)
        (void)state.call.disable(kinds[--activity->enabled]);
    if (on)
        (void)state.call.flush(PH__CUPTI_FLUSH_FORCED);
    if (activity->subscriber)
        (void)state.call.unsubscribe(activity->subscriber);
    end_use();
    ph__map_free(&activity->nodes);
    ph__free(activity);
}

bool ph__cuda_activity_open(ph__cuda_activity **out, const ph__drv_exec *exec, char why[256])
{
    ph__cuda_activity *activity = NULL;
    if (!begin_use(why))
        return false;
    activity = ph__calloc(1, sizeof *activity);
    if (!activity) {
        ph__line_format(why, 256, "there is no host memory");
        end_use();
        return false;
    }
    activity->exec = exec;
    if (subscribe_to_cupti(activity, why) && enable_activity(activity, why) &&
        find_node_ids(activity, why)) {
        *out = activity;
        return true;
    }
    ph__cuda_activity_close(activity);
    return false;
}

/* ---- reading ---- */

static ph__drv_node *node_of(const ph__cuda_activity *activity, uint64_t node_id)
{
    uint32_t graph = (uint32_t)(node_id >> 32);
    if (graph != activity->exec_id && graph != activity->graph_id)
        return NULL;
    ph__drv_node *node = ph__map_get(&activity->nodes, (uint64_t)(uint32_t)node_id + 1);
    return node ? node : activity->only_body;
}

/* A node with several records, as that with a body, spans them all. */
static bool add_span(ph__cuda_spans *spans, ph__map *where, ph__drv_node *node,
                     const activity_record *record)
{
    uintptr_t at = (uintptr_t)ph__map_get(where, (uintptr_t)node);
    if (at) {
        ph__drv_span *span = &spans->at[at - 1];
        span->start_ns = record->start_ns < span->start_ns ? record->start_ns : span->start_ns;
        span->end_ns = record->end_ns > span->end_ns ? record->end_ns : span->end_ns;
        return true;
    }
    return ph__vec_push(spans, ((ph__drv_span){node, record->start_ns, record->end_ns})) &&
           ph__map_put(where, (uintptr_t)node, (void *)(uintptr_t)spans->count);
}

int ph__cuda_activity_read(ph__cuda_activity *activity, ph__cuda_spans *spans)
{
    ph__map where = {0};
    (void)state.call.flush(PH__CUPTI_FLUSH_FORCED);
    pthread_mutex_lock(&state.lock);
    bool kept = !atomic_exchange(&state.lost, false);
    for (size_t i = 0; kept && i < state.records.count; i++) {
        ph__drv_node *node = node_of(activity, state.records.at[i].node_id);
        kept = !node || add_span(spans, &where, node, &state.records.at[i]);
    }
    ph__vec_clear(&state.records);
    pthread_mutex_unlock(&state.lock);
    ph__map_free(&where);
    return kept ? PH__R_OK : PH__R_OUT_OF_MEMORY;
}
