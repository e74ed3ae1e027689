/* SPDX-License-Identifier: MIT */
/* memory/pool/scopes.c: the scopes of a thread: ph_pool_begin and ph_pool_end. */
#include "memory/pool/scopes.h"
#include "memory/pool/pool.h"
#include "memory/reclaim/pool_lifetime.h"
#include "memory/state/memories.h"
#include "memory/state/memory_state.h"
#include "memory/state/pool_state.h"
#include "memory/state/short_cycle.h"
#include <pthread.h>

/* The calling thread's innermost scope, of whatever device. */
static _Thread_local ph_pool *scope_top;

ph_pool *ph__scope_innermost(const ph__memory *memory)
{
    for (ph_pool *pool = scope_top; pool; pool = pool->outer_scope)
        if (pool->memory == memory)
            return pool;
    return NULL;
}

/* ---- scopes ---- */

ph_status ph__fail_busy(const char *call, const ph_pool *pool, bool scope)
{
    return ph__fail_native(
        PH_ERROR_POOL_BUSY, 0, NULL,
        "%s: pool {%llu, %llu} is being recorded to by %s; end that first, or use another pool",
        call, (unsigned long long)pool->id.first, (unsigned long long)pool->id.second,
        scope ? "an open scope (ph_pool_begin)" : "a capture");
}

/* Sets the recording and retains the pool; returns what was in the way. */
static ph__recording start_scope(ph_pool *pool)
{
    ph__memory *memory = pool->memory;
    ph__memory_lock(memory);
    ph__recording before = pool->recording;
    if (before == PH__IDLE) {
        pool->recording = PH__IN_SCOPE;
        ph__pool_hold(pool);
        if (memory->scopes++ == 0)
            ph__set_slow_path(memory, PH__SLOW_SCOPES, true);
    }
    ph__spin_unlock(&memory->lock);
    return before;
}

static void stop_scope(ph_pool *pool);

/* ---- threads that end inside of scopes ---- */
static pthread_key_t leftovers;
static pthread_once_t leftovers_once = PTHREAD_ONCE_INIT;

static void on_thread_end(void *unused)
{
    (void)unused;
    while (scope_top) {
        ph_pool *pool = scope_top;
        scope_top = pool->outer_scope;
        stop_scope(pool);
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
        return ph__fail_busy(call, pool, by == PH__IN_SCOPE);
    if (!scope_top)
        watch_thread_end();
    pool->outer_scope = scope_top;
    scope_top = pool;
    return PH_OK;
}

static void stop_scope(ph_pool *pool)
{
    ph__memory *memory = pool->memory;
    ph__memory_lock(memory);
    pool->outer_scope = NULL;
    pool->recording = PH__IDLE;
    if (--memory->scopes == 0)
        ph__set_slow_path(memory, PH__SLOW_SCOPES, false);
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
    stop_scope(pool);
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
    stop_scope(pool);
}
