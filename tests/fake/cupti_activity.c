/* SPDX-License-Identifier: MIT */
/* tests/fake/cupti_activity.c: a software libcupti.so.13 beside the software libcuda: one
 * subscriber, and activity records of the nodes of launched executables, as far as the library
 * uses them. The environment says what it plays:
 *
 *   FAKE_CUPTI_TAKEN=1   another tool has subscribed
 *   FAKE_CUPTI_SILENT=1  there are no records */
#include "driver/cuda/load/abi_cupti.h"
#include "fake_cuda.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    INVALID_PARAMETER = 1,
    MOST_KINDS = 16,
    KERNEL_BYTES = 208, /* of the newest versions of the records */
    TRANSFER_BYTES = 96
};

static struct {
    pthread_mutex_t lock;
    bool subscribed, enabled[MOST_KINDS];
    ph__cupti_room_fn room;
    ph__cupti_full_fn full;
    uint8_t *buffer; /* that the user gave and has not got back */
    size_t bytes, used;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && strcmp(value, "0") != 0 && *value;
}

/* ---- subscribing ---- */
EXPORT int cuptiSubscribe(ph__cupti_subscriber *out, ph__cupti_callback callback, void *user);
EXPORT int cuptiUnsubscribe(ph__cupti_subscriber subscriber);

int cuptiSubscribe(ph__cupti_subscriber *out, ph__cupti_callback callback, void *user)
{
    (void)user;
    if (!out || !callback)
        return INVALID_PARAMETER;
    pthread_mutex_lock(&state.lock);
    bool taken = state.subscribed || is_set("FAKE_CUPTI_TAKEN");
    state.subscribed = state.subscribed || !taken;
    pthread_mutex_unlock(&state.lock);
    *out = taken ? NULL : (ph__cupti_subscriber)&state;
    return taken ? PH__CUPTI_R_OTHER_SUBSCRIBER : 0;
}

int cuptiUnsubscribe(ph__cupti_subscriber subscriber)
{
    if (subscriber != (ph__cupti_subscriber)&state)
        return INVALID_PARAMETER;
    pthread_mutex_lock(&state.lock);
    state.subscribed = false;
    pthread_mutex_unlock(&state.lock);
    return 0;
}

/* ---- records ---- */
static size_t bytes_of(int kind)
{
    return kind == PH__CUPTI_CONCURRENT_KERNEL ? KERNEL_BYTES : TRANSFER_BYTES;
}

static void give_back(void)
{
    uint8_t *buffer = state.buffer;
    state.buffer = NULL;
    if (buffer)
        state.full(NULL, 0, buffer, state.bytes, state.used);
}

/* Room for a record, or NULL: it is lost. */
static void *make_room(size_t bytes)
{
    size_t most = 0;
    if (state.buffer && state.bytes - state.used < bytes)
        give_back();
    if (!state.buffer) {
        state.used = 0;
        state.room(&state.buffer, &state.bytes, &most);
    }
    if (!state.buffer)
        return NULL;
    void *at = state.buffer + state.used;
    state.used += bytes;
    return memset(at, 0, bytes);
}

static void on_node(const fake_cuda_node_run *run)
{
    int kind = run->kind == PH_NODE_MEMCPY   ? PH__CUPTI_MEMCPY
               : run->kind == PH_NODE_MEMSET ? PH__CUPTI_MEMSET
                                             : PH__CUPTI_CONCURRENT_KERNEL;
    bool shown = run->kind <= PH_NODE_MEMSET || run->kind == PH_NODE_GRAPH;
    pthread_mutex_lock(&state.lock);
    if (shown && state.enabled[kind] && state.room && !is_set("FAKE_CUPTI_SILENT")) {
        void *room = make_room(bytes_of(kind));
        if (room && kind == PH__CUPTI_CONCURRENT_KERNEL)
            *(ph__cupti_kernel *)room = (ph__cupti_kernel){
                .kind = kind, .start = run->start_ns, .end = run->end_ns, .graph_node = run->id};
        else if (room)
            *(ph__cupti_transfer *)room = (ph__cupti_transfer){
                .kind = kind, .start = run->start_ns, .end = run->end_ns, .graph_node = run->id};
    }
    pthread_mutex_unlock(&state.lock);
}

EXPORT int cuptiActivityRegisterCallbacks(ph__cupti_room_fn room, ph__cupti_full_fn full);
EXPORT int cuptiActivityEnable(int kind);
EXPORT int cuptiActivityDisable(int kind);
EXPORT int cuptiActivityFlushAll(uint32_t flags);
EXPORT int cuptiActivityGetNextRecord(uint8_t *buffer, size_t used, ph__cupti_record **record);

int cuptiActivityRegisterCallbacks(ph__cupti_room_fn room, ph__cupti_full_fn full)
{
    pthread_mutex_lock(&state.lock);
    state.room = room;
    state.full = full;
    pthread_mutex_unlock(&state.lock);
    return room && full ? 0 : INVALID_PARAMETER;
}

static int turn(int kind, bool on)
{
    bool any = false;
    if (kind < 0 || kind >= MOST_KINDS || !fake_cuda())
        return INVALID_PARAMETER;
    pthread_mutex_lock(&state.lock);
    state.enabled[kind] = on;
    for (int k = 0; k < MOST_KINDS; k++)
        any = any || state.enabled[k];
    pthread_mutex_unlock(&state.lock);
    fake_cuda()->watch_nodes(any ? on_node : NULL);
    return 0;
}

int cuptiActivityEnable(int kind)
{
    return turn(kind, true);
}

int cuptiActivityDisable(int kind)
{
    return turn(kind, false);
}

int cuptiActivityFlushAll(uint32_t flags)
{
    (void)flags;
    pthread_mutex_lock(&state.lock);
    give_back();
    pthread_mutex_unlock(&state.lock);
    return 0;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t used, ph__cupti_record **record)
{
    if (!buffer || !record)
        return INVALID_PARAMETER;
    uint8_t *next = *record ? (uint8_t *)*record + bytes_of((*record)->kind) : buffer;
    if (next >= buffer + used)
        return PH__CUPTI_R_MAX_LIMIT_REACHED;
    *record = (ph__cupti_record *)(void *)next;
    return 0;
}

/* ---- names ---- */
EXPORT int cuptiGetGraphNodeId(ph__cu_node node, uint64_t *id);
EXPORT int cuptiGetGraphExecId(ph__cu_exec exec, uint32_t *id);

int cuptiGetGraphNodeId(ph__cu_node node, uint64_t *id)
{
    if (!node || !id || !fake_cuda())
        return INVALID_PARAMETER;
    *id = fake_cuda()->node_id(node);
    return 0;
}

int cuptiGetGraphExecId(ph__cu_exec exec, uint32_t *id)
{
    if (!exec || !id || !fake_cuda())
        return INVALID_PARAMETER;
    *id = fake_cuda()->exec_id(exec);
    return 0;
}
