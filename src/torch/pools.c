/* SPDX-License-Identifier: MIT */
/* torch/pools.c: torch's pools, and which of them a request is for. While any pool is begun one
 * thread at a time is routed; without one a request takes no lock here. */
#include "torch/pools.h"
#include "base/alloc.h"
#include "base/fork.h"
#include "torch/filter.h"
#include <phonograph/foreign.h>
#include <phonograph/graph.h>
#include <pthread.h>
#include <stdatomic.h>

typedef struct torch_pool {
    struct torch_pool *next;
    ph__pool_name name;
    ph_device *device; /* borrowed: it stays open */
    ph_pool *pool;
    size_t uses; /* begins that were not released */
    bool begun;
    ph__filter filter;
    uint64_t capture; /* the one that the pool records; 0: none */
    size_t captures;  /* ended ones that were not released */
} torch_pool;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
PH__FORK_LOCK(PH__FORK_TORCH_POOLS, lock)
static torch_pool *pools;
static torch_pool *leaving; /* nobody's any more, and not let go yet */
static atomic_size_t begun;

/* Filters throw. */
static void unlock_pools(pthread_mutex_t **held)
{
    pthread_mutex_unlock(*held);
}
#define HOLD_LOCK()                                                                                \
    __attribute__((cleanup(unlock_pools), unused)) pthread_mutex_t *held_lock = &lock;             \
    pthread_mutex_lock(&lock)

/* Lock held. */
static torch_pool **find_pool(const ph__pool_name *name)
{
    torch_pool **at = &pools;
    while (*at && ((*at)->name.device != name->device || (*at)->name.first != name->first ||
                   (*at)->name.second != name->second))
        at = &(*at)->next;
    return at;
}

static ph_status fail_pool(const ph__pool_name *name, const char *call, const char *why)
{
    return ph_fail(PH_ERROR_STATE, "%s: pool (%llu, %llu) of GPU %d %s", call,
                   (unsigned long long)name->first, (unsigned long long)name->second, name->device,
                   why);
}

/* Lock held. */
static ph_status make_pool(torch_pool **out, const ph__pool_name *name, ph_device *device)
{
    torch_pool *made = ph__calloc(1, sizeof *made);
    if (made == NULL)
        return ph_fail(PH_ERROR_HOST_MEMORY, "begin_pool: no host memory for the pool");
    ph_status status = ph_pool_create(&made->pool, device, NULL);
    if (status != PH_OK) {
        ph__free(made);
        return status;
    }
    made->name = *name;
    made->device = device;
    made->next = pools;
    pools = *out = made;
    return PH_OK;
}

ph_status ph__torch_pool_begin(const ph__pool_name *name, ph_device *device, const void *filter)
{
    static const char call[] = "begin_pool";
    HOLD_LOCK();
    torch_pool *pool = *find_pool(name);
    if (pool && pool->begun)
        return fail_pool(name, call, "is begun already; end it first");
    if (pool == NULL)
        PH_TRY(make_pool(&pool, name, device));
    ph__filter_copy(&pool->filter, filter);
    pool->begun = true;
    pool->uses++;
    atomic_fetch_add(&begun, 1);
    return PH_OK;
}

ph_status ph__torch_pool_end(const ph__pool_name *name)
{
    ph_status status = PH_OK;
    HOLD_LOCK();
    torch_pool *pool = *find_pool(name);
    if (pool == NULL || !pool->begun)
        return fail_pool(name, "end_pool", "is not begun");
    pool->begun = false;
    atomic_fetch_sub(&begun, 1);
    ph__filter_destroy(&pool->filter);
    if (pool->capture) {
        pool->capture = 0;
        pool->captures++;
        status = ph_pool_capture_end(pool->pool);
    }
    return status;
}

/* Memory of the pool goes back to the device: nothing may use it any more. To wait for the device
 * would kill a capture, and torch captures while a pool is begun alone. No lock held. */
static bool let_go(torch_pool *pool)
{
    if (atomic_load(&begun) > 0 || ph_device_synchronize(pool->device) != PH_OK)
        return false;
    while (pool->captures > 0 && ph_pool_capture_release(pool->pool) == PH_OK)
        pool->captures--;
    ph_pool_release(pool->pool);
    ph__free(pool);
    return true;
}

static void put_off(torch_pool *pool)
{
    HOLD_LOCK();
    pool->next = leaving;
    leaving = pool;
}

static torch_pool *detach_leaving(void)
{
    HOLD_LOCK();
    torch_pool *all = leaving;
    leaving = NULL;
    return all;
}

void ph__torch_pools_release_deferred(void)
{
    for (torch_pool *pool = detach_leaving(), *next; pool; pool = next) {
        next = pool->next;
        if (!let_go(pool))
            put_off(pool);
    }
}

static ph_status release_use(torch_pool **last, const ph__pool_name *name)
{
    HOLD_LOCK();
    torch_pool **at = find_pool(name), *pool = *at;
    *last = NULL;
    if (pool == NULL || pool->uses <= (pool->begun ? 1 : 0))
        return fail_pool(name, "release_pool", "was released as often as it was ended");
    if (--pool->uses > 0)
        return PH_OK;
    *at = pool->next;
    *last = pool;
    return PH_OK;
}

ph_status ph__torch_pool_release(const ph__pool_name *name)
{
    torch_pool *last;
    PH_TRY(release_use(&last, name));
    if (last && !let_go(last))
        put_off(last);
    return PH_OK;
}

/* Lock held. */
static torch_pool *find_route(int device, void *native)
{
    torch_pool *pool = pools;
    while (pool && !(pool->begun && pool->name.device == device &&
                     ph__filter_accepts(&pool->filter, native)))
        pool = pool->next;
    return pool;
}

/* The pool records the capture of other code that the stream is in. Lock held. */
static ph_status record_capture(torch_pool *pool, ph_stream *stream, uint64_t capture)
{
    if (pool->capture == capture)
        return PH_OK;
    if (pool->capture)
        return fail_pool(&pool->name, "malloc", "records another capture");
    PH_TRY(ph_pool_capture_begin(pool->pool, stream));
    pool->capture = capture;
    return PH_OK;
}

static ph_status malloc_in(void **out, torch_pool *pool, size_t bytes, ph_stream *stream)
{
    PH_TRY(ph_pool_begin(pool->pool));
    ph_status status = ph_malloc(out, 1, bytes, stream);
    ph_error failed = *ph_error_last();
    ph_status ended = ph_pool_end(pool->pool);
    if (status != PH_OK)
        return ph_fail(failed.status, "%s", failed.message);
    return ended;
}

ph_status ph__torch_pools_malloc(void **out, size_t bytes, int device, ph_stream *stream,
                                 void *native)
{
    ph_capture_info capture;
    *out = NULL;
    if (atomic_load_explicit(&begun, memory_order_acquire) == 0)
        return ph_malloc(out, 1, bytes, stream);
    HOLD_LOCK();
    torch_pool *pool = find_route(device, native);
    if (pool == NULL)
        return ph_malloc(out, 1, bytes, stream);
    PH_TRY(ph_stream_get_capture_info(&capture, stream));
    if (capture.status == PH_CAPTURE_NONE)
        return malloc_in(out, pool, bytes, stream);
    PH_TRY(record_capture(pool, stream, capture.id));
    return ph_malloc(out, 1, bytes, stream);
}

bool ph__torch_pool_find(ph__pool_name *out, const ph_pool_id *id)
{
    HOLD_LOCK();
    for (const torch_pool *pool = pools; pool; pool = pool->next) {
        ph_pool_id its = ph_pool_get_id(pool->pool);
        if (its.first == id->first && its.second == id->second) {
            *out = pool->name;
            return true;
        }
    }
    return false;
}
