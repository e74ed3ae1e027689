/* SPDX-License-Identifier: MIT */
/* driver/host/plan/workers.c: starting workers lazily, handing them a job, waiting for them. */
#include "driver/host/plan/workers.h"
#include "base/alloc.h"
#include "base/sync.h"
#include "driver/callback.h"
#include <limits.h>
#include <stdalign.h>
#include <stdio.h>

enum {
    CACHE_LINE = 64,
    SPINS = 1000, /* pauses between jobs; a wake costs more than they do */
    ASLEEP = 1,   /* in worker.order: nobody reads it before a futex wake */
    ORDER_STEP = 2
};
#define CALLER_ASLEEP (1u << 31) /* in ph__workers.pending */

/* order: counts jobs given to this worker in steps of two; the lowest bit says that the worker
 * sleeps. One exchange gives a job and learns whether a wake is needed. */
typedef struct worker {
    alignas(CACHE_LINE) atomic_uint order;
    unsigned lane;
    ph__workers *team;
    pthread_t thread;
} worker;

struct ph__workers {
    unsigned threads, spins;
    atomic_uint started; /* workers with a thread; grows only while busy is held */
    void *memory;        /* the memory to free: the struct is aligned by hand */
    atomic_bool stopping;
    void (*job)(void *context, unsigned lane);
    void *context;
    alignas(CACHE_LINE) atomic_bool busy;
    alignas(CACHE_LINE) atomic_uint pending; /* workers that have not returned from the job */
    alignas(CACHE_LINE) worker workers[];
};

/* Waits for a new order, spinning first. */
static void await_order(worker *self, unsigned seen)
{
    for (unsigned i = 0; i < self->team->spins; i++) {
        if (atomic_load_explicit(&self->order, memory_order_acquire) != seen)
            return;
        ph__pause();
    }
    unsigned expected = seen;
    if (!atomic_compare_exchange_strong_explicit(&self->order, &expected, seen | ASLEEP,
                                                 memory_order_acq_rel, memory_order_acquire))
        return;
    while (atomic_load_explicit(&self->order, memory_order_acquire) == (seen | ASLEEP))
        ph__futex_wait(&self->order, seen | ASLEEP, -1);
}

/* The team may be destroyed only after the thread was joined, so waking a caller that has gone
 * on is harmless. */
static void report_done(ph__workers *team)
{
    unsigned before = atomic_fetch_sub_explicit(&team->pending, 1, memory_order_acq_rel);
    if (before == (CALLER_ASLEEP | 1))
        ph__futex_wake(&team->pending, 1);
}

static void *worker_main(void *argument)
{
    worker *self = argument;
    unsigned seen = 0;
    ph__driver_callbacks_begin();
    for (;;) {
        await_order(self, seen);
        seen += ORDER_STEP;
        if (atomic_load_explicit(&self->team->stopping, memory_order_relaxed))
            break;
        self->team->job(self->team->context, self->lane);
        report_done(self->team);
    }
    ph__driver_callbacks_end();
    return NULL;
}

static void give_order(worker *to)
{
    unsigned before = atomic_load_explicit(&to->order, memory_order_relaxed);
    unsigned next;
    do
        next = (before & ~(unsigned)ASLEEP) + ORDER_STEP;
    while (!atomic_compare_exchange_weak_explicit(&to->order, &before, next, memory_order_acq_rel,
                                                  memory_order_relaxed));
    if (before & ASLEEP)
        ph__futex_wake(&to->order, 1);
}

static void await_workers(ph__workers *team)
{
    for (unsigned i = 0; i < team->spins; i++) {
        if (atomic_load_explicit(&team->pending, memory_order_acquire) == 0)
            return;
        ph__pause();
    }
    unsigned left = atomic_fetch_or_explicit(&team->pending, CALLER_ASLEEP, memory_order_acq_rel) |
                    CALLER_ASLEEP;
    while (left != CALLER_ASLEEP) {
        ph__futex_wait(&team->pending, left, -1);
        left = atomic_load_explicit(&team->pending, memory_order_acquire);
    }
}

static bool start_up_to(ph__workers *team, unsigned workers)
{
    unsigned started = atomic_load_explicit(&team->started, memory_order_relaxed);
    for (; started < workers; started++) {
        worker *next = &team->workers[started];
        char name[16];
        (void)snprintf(name, sizeof name, "ph-worker-%u", next->lane % 10000);
        if (!ph__thread_start(&next->thread, name, worker_main, next))
            return false;
        atomic_store_explicit(&team->started, started + 1, memory_order_relaxed);
    }
    return true;
}

ph__workers *ph__workers_create(unsigned threads)
{
    if (threads == 0)
        threads = 1;
    if (threads > INT_MAX / sizeof(worker))
        return NULL;
    void *memory = ph__calloc(1, sizeof(ph__workers) + (threads - 1) * sizeof(worker) + CACHE_LINE);
    if (!memory)
        return NULL;
    uintptr_t past = (uintptr_t)memory % CACHE_LINE;
    ph__workers *team = (ph__workers *)(void *)((char *)memory + (past ? CACHE_LINE - past : 0));
    team->memory = memory;
    team->threads = threads;
    team->spins = threads <= ph__cpu_count() ? SPINS : 0;
    for (unsigned i = 0; i + 1 < threads; i++) {
        team->workers[i].lane = i + 1;
        team->workers[i].team = team;
    }
    return team;
}

void ph__workers_destroy(ph__workers *workers)
{
    if (!workers)
        return;
    atomic_store_explicit(&workers->stopping, true, memory_order_relaxed);
    unsigned started = atomic_load_explicit(&workers->started, memory_order_relaxed);
    for (unsigned i = 0; i < started; i++)
        give_order(&workers->workers[i]);
    for (unsigned i = 0; i < started; i++)
        pthread_join(workers->workers[i].thread, NULL);
    ph__free(workers->memory);
}

unsigned ph__workers_count(const ph__workers *workers)
{
    return workers ? workers->threads : 1;
}

bool ph__workers_run(ph__workers *workers, unsigned lanes,
                     void (*job)(void *context, unsigned lane), void *context)
{
    if (lanes <= 1) {
        job(context, 0);
        return true;
    }
    if (lanes > ph__workers_count(workers) ||
        atomic_exchange_explicit(&workers->busy, true, memory_order_acquire))
        return false;
    bool ready = start_up_to(workers, lanes - 1);
    if (ready) {
        workers->job = job;
        workers->context = context;
        atomic_store_explicit(&workers->pending, lanes - 1, memory_order_relaxed);
        for (unsigned i = 0; i + 1 < lanes; i++)
            give_order(&workers->workers[i]);
        job(context, 0);
        await_workers(workers);
    }
    atomic_store_explicit(&workers->busy, false, memory_order_release);
    return ready;
}

/* Everything is read without the lock: a guess that is out of date costs a decision, not
 * correctness. */
bool ph__workers_awake(const ph__workers *workers, unsigned lanes)
{
    if (!workers || atomic_load_explicit(&workers->busy, memory_order_relaxed) ||
        atomic_load_explicit(&workers->started, memory_order_relaxed) + 1 < lanes)
        return false;
    for (unsigned i = 0; i + 1 < lanes; i++)
        if (atomic_load_explicit(&workers->workers[i].order, memory_order_relaxed) & ASLEEP)
            return false;
    return true;
}
