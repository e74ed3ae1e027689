/* SPDX-License-Identifier: MIT */
/* base/sync.c: the slow side of the spin lock, futexes, threads. */
#include "base/sync.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SPINS_BEFORE_YIELDING = 100,
    YIELDS_BEFORE_SLEEPING = 64,
    SLEEP_NS = 20000
};

_Static_assert(sizeof(atomic_uint) == 4, "the kernel waits on 32-bit words");

static bool try_lock(ph__spinlock *lock)
{
    unsigned expected = 0;
    return atomic_load_explicit(&lock->held, memory_order_relaxed) == 0 &&
           atomic_compare_exchange_weak_explicit(&lock->held, &expected, 1, memory_order_acquire,
                                                 memory_order_relaxed);
}

void ph__spin_lock_slow(ph__spinlock *lock)
{
    for (unsigned round = 0; !try_lock(lock);)
        ph__back_off(&round, SPINS_BEFORE_YIELDING);
}

void ph__back_off(unsigned *round, unsigned spins)
{
    unsigned now = *round;
    if (now < spins + YIELDS_BEFORE_SLEEPING)
        ++*round;
    if (now < spins) {
        ph__pause();
    } else if (now < spins + YIELDS_BEFORE_SLEEPING) {
        sched_yield();
    } else {
        int saved_errno = errno;
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
        errno = saved_errno;
    }
}

void ph__futex_wait(atomic_uint *word, unsigned expected, int64_t timeout_ns)
{
    int saved_errno = errno;
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000),
                               .tv_nsec = (long)(timeout_ns % 1000000000)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout_ns < 0 ? NULL : &timeout, NULL,
            0);
    errno = saved_errno;
}

/* Who has once waited leaves 2 behind, as others may still sleep. */
void ph__mutex_lock_slow(ph__mutex *mutex)
{
    while (atomic_exchange_explicit(&mutex->state, 2, memory_order_acquire) != 0)
        ph__futex_wait(&mutex->state, 2, -1);
}

void ph__mutex_wake(ph__mutex *mutex)
{
    ph__futex_wake(&mutex->state, 1);
}

/* The kernel wakes one waiter even when asked for none. */
void ph__futex_wake(atomic_uint *word, int count)
{
    if (count <= 0)
        return;
    int saved_errno = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
    errno = saved_errno;
}

/* Signals that a thread brings upon itself stay open: blocked, they would kill the process past
 * the user's crash handler. */
static void fill_blocked(sigset_t *set)
{
    static const int own_fault[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigfillset(set);
    for (size_t i = 0; i < sizeof own_fault / sizeof own_fault[0]; i++)
        sigdelset(set, own_fault[i]);
}

static atomic_int_fast64_t starts_left = INT64_MAX;

void ph__thread_fail_after(int64_t n)
{
    atomic_store(&starts_left, n);
}

bool ph__thread_start(pthread_t *out, const char *name, void *(*body)(void *), void *argument)
{
    sigset_t blocked, before;
    if (atomic_fetch_sub_explicit(&starts_left, 1, memory_order_relaxed) <= 0)
        return false;
    fill_blocked(&blocked);
    if (pthread_sigmask(SIG_SETMASK, &blocked, &before) != 0)
        return false;
    pthread_t thread;
    int failure = pthread_create(&thread, NULL, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure != 0)
        return false;
    if (name) {
        char fitting[16];
        (void)snprintf(fitting, sizeof fitting, "%.15s", name);
        pthread_setname_np(thread, fitting);
    }
    *out = thread;
    return true;
}

uint64_t ph__thread_id(void)
{
    static atomic_uint_least64_t last;
    static _Thread_local uint64_t id;
    if (id == 0)
        id = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    return id;
}

/* The affinity of the calling thread is what the threads that it starts inherit. Several sets in
 * a row are one larger set: the kernel refuses one that is smaller than its own. */
unsigned ph__cpu_count(void)
{
    int saved_errno = errno;
    cpu_set_t sets[16];
    long count = 0;
    CPU_ZERO_S(sizeof sets, sets);
    if (sched_getaffinity(0, sizeof sets, sets) == 0)
        count = CPU_COUNT_S(sizeof sets, sets);
    if (count < 1)
        count = sysconf(_SC_NPROCESSORS_ONLN);
    errno = saved_errno;
    return count < 1 ? 1 : (unsigned)count;
}

/* ---- shared mutex ---- */

static void wait_for_none(ph__shared_mutex *mutex, atomic_uint *of)
{
    unsigned count;
    atomic_fetch_add(&mutex->waiters, 1);
    while ((count = atomic_load(of)) != 0)
        ph__futex_wait(of, count, -1);
    atomic_fetch_sub(&mutex->waiters, 1);
}

void ph__shared_wake(ph__shared_mutex *mutex)
{
    ph__futex_wake(&mutex->shared, INT_MAX);
    ph__futex_wake(&mutex->alone, INT_MAX);
}

void ph__shared_wait(ph__shared_mutex *mutex)
{
    do {
        ph__shared_unlock(mutex);
        wait_for_none(mutex, &mutex->alone);
        atomic_fetch_add(&mutex->shared, 1);
    } while (atomic_load(&mutex->alone) != 0);
}

void ph__alone_lock(ph__shared_mutex *mutex)
{
    unsigned none = 0;
    while (!atomic_compare_exchange_strong(&mutex->alone, &none, 1)) {
        wait_for_none(mutex, &mutex->alone);
        none = 0;
    }
    wait_for_none(mutex, &mutex->shared);
}

void ph__alone_unlock(ph__shared_mutex *mutex)
{
    atomic_store(&mutex->alone, 0);
    if (atomic_load(&mutex->waiters) != 0)
        ph__shared_wake(mutex);
}
