/* SPDX-License-Identifier: MIT */
/* base/sync.h: locks, waiting and threads. */
#ifndef PH_BASE_SYNC_H
#define PH_BASE_SYNC_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A short lock for the allocation path: spins, then yields, then sleeps, so that it is cheap
 * when uncontended (one exchange) and harmless when the owner is descheduled, also by the waiter
 * itself: a real-time thread yields only to its like, and an owner of lower priority on the same
 * processor runs while it sleeps. Hold it for tens of nanoseconds, never across a call that may
 * block. TSan understands it. */
typedef struct ph__spinlock {
    atomic_uint held;
} ph__spinlock;
void ph__spin_lock_slow(ph__spinlock *lock);
static inline void ph__spin_lock(ph__spinlock *lock)
{
    unsigned expected = 0;
    if (!atomic_compare_exchange_weak_explicit(&lock->held, &expected, 1, memory_order_acquire,
                                               memory_order_relaxed))
        ph__spin_lock_slow(lock);
}
static inline void ph__spin_unlock(ph__spinlock *lock)
{
    atomic_store_explicit(&lock->held, 0, memory_order_release);
}

/* A lock that may be held across calls that block: sleeps when it must wait, and costs two
 * exchanges, inline, when it need not. States as in Drepper, "Futexes are tricky" (2011), mutex
 * 2: 0 free, 1 held, 2 held and somebody may sleep. Zero is free. */
typedef struct ph__mutex {
    atomic_uint state;
} ph__mutex;
void ph__mutex_lock_slow(ph__mutex *mutex);
void ph__mutex_wake(ph__mutex *mutex);
static inline void ph__mutex_lock(ph__mutex *mutex)
{
    unsigned expected = 0;
    if (!atomic_compare_exchange_strong_explicit(&mutex->state, &expected, 1, memory_order_acquire,
                                                 memory_order_relaxed))
        ph__mutex_lock_slow(mutex);
}
static inline bool ph__mutex_try(ph__mutex *mutex)
{
    unsigned expected = 0;
    return atomic_compare_exchange_strong_explicit(&mutex->state, &expected, 1,
                                                   memory_order_acquire, memory_order_relaxed);
}
static inline void ph__mutex_unlock(ph__mutex *mutex)
{
    if (atomic_exchange_explicit(&mutex->state, 0, memory_order_release) == 2)
        ph__mutex_wake(mutex);
}

/* A lock that many hold shared, or one alone: a shared hold costs two exchanges, inline, when
 * nobody wants it alone. Whoever waits for it alone goes first: shared holds that come later
 * wait. Both sleep when they must wait. Neither kind may be taken again by the thread that has
 * it. Zero is free. */
typedef struct ph__shared_mutex {
    atomic_uint shared;  /* holds */
    atomic_uint alone;   /* 0 or 1: held or wanted alone */
    atomic_uint waiters; /* for either */
} ph__shared_mutex;
void ph__shared_wait(ph__shared_mutex *mutex);
void ph__shared_wake(ph__shared_mutex *mutex);
static inline void ph__shared_lock(ph__shared_mutex *mutex)
{
    atomic_fetch_add(&mutex->shared, 1);
    if (atomic_load(&mutex->alone) != 0)
        ph__shared_wait(mutex);
}
static inline void ph__shared_unlock(ph__shared_mutex *mutex)
{
    atomic_fetch_sub(&mutex->shared, 1);
    if (atomic_load(&mutex->waiters) != 0)
        ph__shared_wake(mutex);
}
void ph__alone_lock(ph__shared_mutex *mutex);
void ph__alone_unlock(ph__shared_mutex *mutex);

static inline void ph__pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* One step of a wait for another thread that nobody ends by a wake: a pause of the processor in
 * the first `spins` rounds, then a yield, then a short sleep. *round counts the steps, from 0. */
void ph__back_off(unsigned *round, unsigned spins);

/* Waits while *word == expected (spurious returns allowed); timeout_ns < 0 waits for ever. Wakes
 * at most count waiters. */
void ph__futex_wait(atomic_uint *word, unsigned expected, int64_t timeout_ns);
void ph__futex_wake(atomic_uint *word, int count);

/* pthread_create with all signals but its own faults (SIGSEGV and the like) blocked in the new
 * thread, and a name of at most 15 characters; false on failure. */
bool ph__thread_start(pthread_t *out, const char *name, void *(*body)(void *), void *argument);
/* For tests: the n-th start from now on (0 is the next) fails, and each after it too until
 * INT64_MAX. */
void ph__thread_fail_after(int64_t n);

/* A process-unique small id of the calling thread, never reused, and never 0. */
uint64_t ph__thread_id(void);

/* Processors that this process may run on; at least 1. */
unsigned ph__cpu_count(void);
#endif
