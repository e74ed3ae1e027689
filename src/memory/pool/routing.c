/* SPDX-License-Identifier: MIT */
/* memory/pool/routing.c: which pool a request goes to: captures by stream, then the thread's
 * scopes, then the default pool. */
#include "memory/state.h"
#include <pthread.h>
#include <stdlib.h>

/* The calling thread's innermost scope, of whatever device. */
static _Thread_local ph_pool *scope_top;

ph_pool *ph__scope_innermost(const ph__memory *memory)
{
    for (ph_pool *pool = scope_top; pool; pool = pool->outer_scope)
        if (pool->memory == memory)
            return pool;
    return NULL;
}

/* Kept, since another thread may end the capture meanwhile. */
static ph_pool *pool_of_capture(ph__memory *memory, uint64_t capture_id)
{
    ph__spin_lock(&memory->lock);
    ph_pool *pool = memory->routes;
    while (pool && pool->capture_id != capture_id)
        pool = pool->next_route;
    if (pool)
        pool->keeps++;
    ph__spin_unlock(&memory->lock);
    return pool;
}

/* A capture that is only beginning has no id yet. */
static ph_stream *own_capture_stream(ph_device *device)
{
    ph_stream *stream = NULL;
    uint64_t thread = ph__thread_id();
    size_t open = 0;
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count; i++) {
        const ph__capture *capture = device->captures.at[i];
        if (capture->id == 0 || capture->owner_thread != thread)
            continue;
        stream = capture->stream;
        open++;
    }
    pthread_mutex_unlock(&device->capture_lock);
    return open == 1 ? stream : NULL;
}

ph_stream *ph_memory_stream(ph_device *device)
{
    if (!device)
        return NULL;
    ph_stream *own = atomic_load_explicit(&device->open_captures, memory_order_acquire)
                         ? own_capture_stream(device)
                         : NULL;
    return own ? own : &device->default_stream;
}

/* Its graph could be replayed long after the memory has gone to somebody else, and nothing here
 * would know. */
static ph_status fail_foreign(const ph__request *request, uint64_t capture_id)
{
    return ph__fail_native(
        PH_ERROR_CAPTURE, PH__R_CAPTURE_UNSUPPORTED, PH__NAME_MEM_CREATE,
        "%s: the stream is in a capture that this library did not begin (id %llu), so that no "
        "pool keeps the memory for its graph; the call did not touch that capture; capture with "
        "ph_graph_capture, or allocate before the capture begins",
        request->call, (unsigned long long)capture_id);
}

ph_status ph__route(ph__memory *memory, ph__request *request)
{
    uint64_t capture_id;
    request->pool = &memory->default_pool;
    request->capture_id = 0;
    if (!ph__sees(memory, PH__SEE_SCOPES | PH__SEE_ROUTES) &&
        !atomic_load(&memory->device->foreign))
        return PH_OK;
    PH_TRY(ph__stream_find_capture(&capture_id, request->stream, request->call));
    ph_pool *pool = capture_id ? pool_of_capture(memory, capture_id) : ph__scope_innermost(memory);
    if (!pool && ph__capture_is_foreign(request->stream, capture_id))
        return fail_foreign(request, capture_id);
    /* that looked at the list of captures: one that was just beginning has its pool now */
    if (!pool && capture_id)
        pool = pool_of_capture(memory, capture_id);
    if (!pool)
        return PH_OK;
    request->pool = pool;
    request->capture_id = capture_id;
    return PH_OK;
}

void ph__unroute(ph__memory *memory, const ph__request *request)
{
    ph_pool *dead = NULL;
    if (request->capture_id == 0)
        return;
    ph__spin_lock(&memory->lock);
    ph__pool_unkeep(request->pool, &dead);
    ph__spin_unlock(&memory->lock);
    ph__pool_bury(dead);
}

/* ---- scopes ---- */

ph_status ph__fail_busy(const char *call, const ph_pool *pool, ph__recording by)
{
    return ph__fail_native(
        PH_ERROR_POOL_BUSY, 0, NULL,
        "%s: pool {%llu, %llu} is being recorded to by %s; end that first, or use another pool",
        call, (unsigned long long)pool->id.first, (unsigned long long)pool->id.second,
        by == PH__IN_SCOPE ? "an open scope (ph_pool_begin)" : "a capture");
}

/* Sets the recording and retains the pool; returns what was in the way. */
static ph__recording start_scope(ph_pool *pool)
{
    ph__memory *memory = pool->memory;
    ph__spin_lock(&memory->lock);
    ph__recording before = pool->recording;
    if (before == PH__IDLE) {
        pool->recording = PH__IN_SCOPE;
        ph__pool_hold(pool);
        if (memory->scopes++ == 0)
            ph__see(memory, PH__SEE_SCOPES, true);
    }
    ph__spin_unlock(&memory->lock);
    return before;
}

static ph__recording start_capture(ph_pool *pool)
{
    ph__memory *all = ph__memories_lock();
    ph__recording before = pool->recording;
    if (before == PH__IDLE) {
        pool->recording = PH__IN_CAPTURE;
        ph__pool_hold(pool);
        pool->graphs++;
        pool->begun = ++pool->memory->begun;
        ph__born_begin(pool, all);
    }
    ph__memories_unlock();
    return before;
}

static void stop(ph_pool *pool);

/* ---- threads that end inside of scopes ---- */
static pthread_key_t leftovers;
static pthread_once_t leftovers_once = PTHREAD_ONCE_INIT;

static void on_thread_end(void *unused)
{
    (void)unused;
    while (scope_top) {
        ph_pool *pool = scope_top;
        scope_top = pool->outer_scope;
        stop(pool);
    }
}

static void make_leftovers(void)
{
    (void)pthread_key_create(&leftovers, on_thread_end);
}

/* Again for each scope: a destructor of another library's that runs when the thread ends may open
 * one. */
static void watch_thread_end(void)
{
    (void)pthread_once(&leftovers_once, make_leftovers);
    (void)pthread_setspecific(leftovers, &scope_top);
}

ph_status ph_pool_begin(ph_pool *pool)
{
    static const char call[] = "ph_pool_begin";
    PH_TRY(ph__pool_check(pool, call));
    ph__recording by = start_scope(pool);
    if (by != PH__IDLE)
        return ph__fail_busy(call, pool, by);
    if (!scope_top)
        watch_thread_end();
    pool->outer_scope = scope_top;
    scope_top = pool;
    return PH_OK;
}

static void stop(ph_pool *pool)
{
    ph__memory *memory = pool->memory;
    ph__spin_lock(&memory->lock);
    pool->outer_scope = NULL;
    pool->recording = PH__IDLE;
    if (--memory->scopes == 0)
        ph__see(memory, PH__SEE_SCOPES, false);
    ph__spin_unlock(&memory->lock);
    ph__pool_drop(pool, false);
}

ph_status ph_pool_end(ph_pool *pool)
{
    static const char call[] = "ph_pool_end";
    if (!pool)
        return ph__fail_null(call, "pool");
    if (ph__pool_is_forked(pool))
        return ph__fail_forked(pool->memory->device, call);
    if (scope_top != pool)
        return ph__fail_native(
            PH_ERROR_STATE, 0, NULL,
            "%s: the pool is not this thread's innermost scope; scopes end in the reverse "
            "order of their begins, on the same thread",
            call);
    scope_top = pool->outer_scope;
    stop(pool);
    return PH_OK;
}

void ph__pool_leave(ph_pool *pool)
{
    ph_pool **link = &scope_top;
    while (*link && *link != pool)
        link = &(*link)->outer_scope;
    if (!*link)
        return;
    *link = pool->outer_scope;
    stop(pool);
}

/* ---- captures ---- */

ph_status ph__pool_record_begin(ph_pool *pool, ph_device *device, const char *call)
{
    PH_TRY(ph__pool_check(pool, call));
    if (pool->memory->device != device)
        return ph__fail_devices(call, "the pool", pool->memory->device, "the capture", device);
    ph__recording by = start_capture(pool);
    return by == PH__IDLE ? PH_OK : ph__fail_busy(call, pool, by);
}

void ph__pool_record_publish(ph_pool *pool, uint64_t capture_id)
{
    ph__memory *memory = pool->memory;
    ph__spin_lock(&memory->lock);
    pool->capture_id = capture_id;
    pool->next_route = memory->routes;
    memory->routes = pool;
    ph__see(memory, PH__SEE_ROUTES, true);
    ph__spin_unlock(&memory->lock);
}

void ph__pool_record_end(ph_pool *pool, uint64_t capture_id)
{
    ph__memory *memory = pool->memory, *unsettled = ph__born_end(pool);
    ph__spin_lock(&memory->lock);
    if (capture_id != 0 && pool->capture_id == capture_id)
        for (ph_pool **at = &memory->routes; *at; at = &(*at)->next_route)
            if (*at == pool) {
                *at = pool->next_route;
                break;
            }
    ph__see(memory, PH__SEE_ROUTES, memory->routes != NULL);
    ph__walk *walks = ph__walks_end(memory, pool);
    ph__layout layout = pool->layout;
    pool->layout = (ph__layout){0};
    pool->capture_id = 0;
    pool->recording = PH__IDLE;
    pool->given.count = pool->given_merged = 0;
    bool spent = memory->spare == NULL;
    ph__spin_unlock(&memory->lock);
    ph__walks_free(walks);
    ph__layout_free(&layout);
    ph__born_settle(unsettled);
    if (!spent)
        return;
    ph__uses *spare = ph__uses_create();
    ph__spin_lock(&memory->lock);
    if (!memory->spare) {
        memory->spare = spare;
        spare = NULL;
    }
    ph__spin_unlock(&memory->lock);
    ph__uses_destroy(memory, spare);
}

/* ---- what a capture was given ---- */

static int by_base(const void *a, const void *b)
{
    const ph__span *x = a, *y = b;
    return x->base < y->base ? -1 : x->base > y->base;
}

static void merge_given(ph_pool *pool)
{
    size_t count = 0;
    ph__span *at = pool->given.at;
    if (pool->given.count > 1)
        qsort(at, pool->given.count, sizeof *at, by_base);
    for (size_t i = 0; i < pool->given.count; i++) {
        if (count > 0 && at[i].base <= at[count - 1].base + at[count - 1].size) {
            uintptr_t end = at[i].base + at[i].size;
            if (end > at[count - 1].base + at[count - 1].size)
                at[count - 1].size = end - at[count - 1].base;
        } else {
            at[count++] = at[i];
        }
    }
    pool->given.count = pool->given_merged = count;
}

bool ph__given_reserve(ph_pool *pool)
{
    if (pool->given.count < pool->given.capacity)
        return true;
    if (pool->given.count >= 2 * pool->given_merged + 64)
        merge_given(pool);
    return ph__vec_reserve(&pool->given, 1);
}

void ph__given_note(ph_pool *pool, uint64_t capture_id, const ph__block *block)
{
    const ph__placing placing = {.stream = block->segment->stream,
                                 .address = block->address,
                                 .requested = block->requested,
                                 .size = block->size,
                                 .generation = block->generation};
    ph__mseg_of(block)->captured = true;
    ph__born_work(pool);
    ph__layout_note(pool, capture_id, &placing);
    /* Work that goes from one buffer to another is given the same two in turn. */
    size_t count = pool->given.count;
    for (size_t i = count; i > 0 && i + 2 > count; i--)
        if (pool->given.at[i - 1].base == block->address &&
            pool->given.at[i - 1].size == block->size)
            return;
    pool->given.at[pool->given.count++] = (ph__span){block->address, block->size};
}

/* Room is made outside the lock; the spans may grow in number meanwhile, by other threads'
 * requests. */
ph_status ph__pool_record_ranges(ph__ranges *out, ph_pool *pool, uint64_t capture_id)
{
    ph__memory *memory = pool->memory;
    PH__VEC(ph__span) copy = {0};
    bool fits = false;
    *out = (ph__ranges){0};
    while (!fits) {
        ph__spin_lock(&memory->lock);
        merge_given(pool);
        size_t count = pool->capture_id == capture_id ? pool->given.count : 0;
        fits = count <= copy.capacity;
        if (fits && count > 0)
            for (copy.count = 0; copy.count < count; copy.count++)
                copy.at[copy.count] = pool->given.at[copy.count];
        ph__spin_unlock(&memory->lock);
        if (!fits && !ph__vec_reserve(&copy, count))
            return ph__fail_host_memory("ph_graph_capture_end", "the ranges of the capture");
    }
    ph_status status = PH_OK;
    for (size_t i = 0; i < copy.count && status == PH_OK; i++)
        if (!ph__ranges_add(out, copy.at[i].base, copy.at[i].size, memory))
            status = ph__fail_host_memory("ph_graph_capture_end", "the ranges of the capture");
    ph__vec_free(&copy);
    if (status != PH_OK)
        ph__ranges_free(out);
    return status;
}
