/* SPDX-License-Identifier: MIT */
/* tests/unit/base_sync.c: the spin lock, futexes, threads and their ids, the clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/sync.h"
#include "support/test.h"
#include <cmocka.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    THREADS = 4
};

static long rounds(void)
{
    const char *tier = getenv("PH_TEST_TIER");
    return tier && strcmp(tier, "nightly") == 0 ? 1000000 : 20000;
}

static void run_threads(void *(*body)(void *), void *arguments, size_t size)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_true(ph__thread_start(&threads[i], "ph-test", body, (char *)arguments + i * size));
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* first and second are plain: without the lock, sums are lost and TSan speaks. */
typedef struct counter {
    ph__spinlock lock;
    long first, second;
} counter;
static counter shared;

static void *count_up(void *torn)
{
    for (long i = 0; i < rounds(); i++) {
        ph__spin_lock(&shared.lock);
        *(bool *)torn = *(bool *)torn || shared.first != shared.second;
        shared.first++;
        /* Now and then the owner goes away with the lock, so that the others come to yield. */
        if (i % 512 == 0)
            sched_yield();
        shared.second++;
        ph__spin_unlock(&shared.lock);
    }
    return NULL;
}

TEST(test_spinlock_excludes)
{
    bool torn[THREADS] = {false};
    run_threads(count_up, torn, sizeof torn[0]);
    for (size_t i = 0; i < THREADS; i++)
        assert_false(torn[i]);
    assert_int_equal(shared.first, THREADS * rounds());
    assert_int_equal(shared.second, THREADS * rounds());
    assert_int_equal(atomic_load(&shared.lock.held), 0);
}

/* ---- shared mutex ---- writers' sums are whole for readers, and no reader is inside with a
 * writer. */
static struct {
    ph__shared_mutex mutex;
    long first, second;
    atomic_int readers, most;
} both;

static void note_readers(int now)
{
    int most = atomic_load(&both.most);
    while (now > most && !atomic_compare_exchange_weak(&both.most, &most, now))
        ;
}

static void *read_and_write(void *torn)
{
    for (long i = 0; i < rounds(); i++) {
        bool writes = i % 16 == 0;
        if (writes)
            ph__alone_lock(&both.mutex);
        else
            ph__shared_lock(&both.mutex);
        note_readers(writes ? 0 : atomic_fetch_add(&both.readers, 1) + 1);
        if (writes && atomic_load(&both.readers) != 0)
            *(bool *)torn = true;
        *(bool *)torn = *(bool *)torn || both.first != both.second;
        if (writes) {
            both.first++;
            sched_yield();
            both.second++;
            ph__alone_unlock(&both.mutex);
        } else {
            if (i % 64 == 1)
                sched_yield();
            atomic_fetch_sub(&both.readers, 1);
            ph__shared_unlock(&both.mutex);
        }
    }
    return NULL;
}

TEST(test_shared_mutex_excludes)
{
    bool torn[THREADS] = {false};
    run_threads(read_and_write, torn, sizeof torn[0]);
    for (size_t i = 0; i < THREADS; i++)
        assert_false(torn[i]);
    assert_int_equal(both.first, THREADS * ((rounds() + 15) / 16));
    assert_int_equal(both.second, both.first);
    assert_true(atomic_load(&both.most) > 1);
    assert_int_equal(atomic_load(&both.mutex.shared), 0);
    assert_int_equal(atomic_load(&both.mutex.alone), 0);
    assert_int_equal(atomic_load(&both.mutex.waiters), 0);
}

/* A shared hold that comes after a waiter for the mutex alone waits behind it. */
static atomic_int order_of_events, alone_at, shared_at;

static void *take_alone(void *unused)
{
    (void)unused;
    ph__alone_lock(&both.mutex);
    atomic_store(&alone_at, atomic_fetch_add(&order_of_events, 1) + 1);
    ph__alone_unlock(&both.mutex);
    return NULL;
}

static void *take_shared(void *unused)
{
    (void)unused;
    ph__shared_lock(&both.mutex);
    atomic_store(&shared_at, atomic_fetch_add(&order_of_events, 1) + 1);
    ph__shared_unlock(&both.mutex);
    return NULL;
}

TEST(test_shared_mutex_prefers_the_exclusive_waiter)
{
    pthread_t lonely, late;
    ph__shared_lock(&both.mutex);
    assert_true(ph__thread_start(&lonely, "ph-test", take_alone, NULL));
    while (atomic_load(&both.mutex.alone) == 0)
        sched_yield();
    assert_true(ph__thread_start(&late, "ph-test", take_shared, NULL));
    while (atomic_load(&both.mutex.waiters) < 2)
        sched_yield();
    assert_int_equal(atomic_load(&order_of_events), 0);
    ph__shared_unlock(&both.mutex);
    assert_int_equal(pthread_join(lonely, NULL), 0);
    assert_int_equal(pthread_join(late, NULL), 0);
    assert_int_equal(atomic_load(&alone_at), 1);
    assert_int_equal(atomic_load(&shared_at), 2);
}

/* A thread that waits for a lock, and how often the kernel has seen it sleep. */
typedef struct waiter {
    ph__spinlock lock;
    atomic_int thread, done;
} waiter;

static void *wait_for_lock(void *argument)
{
    waiter *me = argument;
    atomic_store(&me->thread, (int)gettid());
    ph__spin_lock(&me->lock);
    ph__spin_unlock(&me->lock);
    atomic_store(&me->done, 1);
    return NULL;
}

/* Of a thread of this process; yields do not count. -1: not to be read. */
static long sleeps_of(int thread)
{
    char path[64], line[128];
    long sleeps = -1;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", thread);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "voluntary_ctxt_switches:", 24) == 0)
            sleeps = strtol(line + 24, NULL, 10);
    if (file)
        (void)fclose(file);
    return sleeps;
}

/* The owner may be a thread of lower priority on the waiter's own processor: yields alone would
 * never let it run. */
TEST(test_a_waiter_for_the_spinlock_sleeps)
{
    enum {
        LOOKS = 20000
    };
    waiter one = {.thread = 0};
    pthread_t thread;
    long first = 0, last = 0;
    ph__spin_lock(&one.lock);
    assert_true(ph__thread_start(&thread, "ph-test", wait_for_lock, &one));
    while (atomic_load(&one.thread) == 0)
        sched_yield();
    first = sleeps_of(atomic_load(&one.thread));
    for (int look = 0; look < LOOKS && last < first + 3; look++) {
        ph__sleep_ns(100000);
        last = sleeps_of(atomic_load(&one.thread));
    }
    int done = atomic_load(&one.done);
    ph__spin_unlock(&one.lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(done, 0);
    assert_true(first >= 0);
    assert_true(last >= first + 3);
}

static void *take_ids(void *argument)
{
    uint64_t *id = argument;
    *id = ph__thread_id();
    if (ph__thread_id() != *id)
        *id = 0;
    return NULL;
}

TEST(test_thread_ids_are_unique_and_never_reused)
{
    enum {
        TIMES = 8
    };
    uint64_t ids[TIMES * THREADS + 1];
    ids[TIMES * THREADS] = ph__thread_id();
    for (size_t i = 0; i < TIMES; i++)
        run_threads(take_ids, &ids[i * THREADS], sizeof ids[0]);
    assert_int_equal(ph__thread_id(), ids[TIMES * THREADS]);
    for (size_t i = 0; i <= TIMES * THREADS; i++) {
        assert_true(ids[i] != 0);
        for (size_t k = 0; k < i; k++)
            assert_true(ids[i] != ids[k]);
    }
}

static atomic_uint baton;

/* Thread k waits for the baton to be k modulo THREADS, and hands it on. */
static void *pass_baton(void *argument)
{
    unsigned mine = *(unsigned *)argument;
    for (int turn = 0; turn < 200; turn++) {
        unsigned now;
        while ((now = atomic_load(&baton)) % THREADS != mine)
            ph__futex_wait(&baton, now, -1);
        atomic_store(&baton, now + 1);
        ph__futex_wake(&baton, THREADS);
    }
    return NULL;
}

TEST(test_futex_hands_on)
{
    unsigned numbers[THREADS] = {0, 1, 2, 3};
    run_threads(pass_baton, numbers, sizeof numbers[0]);
    assert_int_equal(atomic_load(&baton), 200 * THREADS);
}

TEST(test_futex_returns_at_once_or_after_the_timeout)
{
    atomic_uint word = 5;
    errno = ENXIO;
    ph__futex_wait(&word, 4, -1);
    ph__futex_wait(&word, 5, 1000);
    ph__futex_wait(&word, 5, 0);
    ph__futex_wake(&word, 1);
    ph__futex_wake(&word, 0);
    assert_int_equal(errno, ENXIO);
}

typedef struct seen {
    atomic_uint go;
    bool usr1_blocked, term_blocked, segv_blocked;
} seen;

static void *look_around(void *argument)
{
    seen *me = argument;
    sigset_t set;
    while (atomic_load(&me->go) == 0)
        ph__futex_wait(&me->go, 0, -1);
    if (pthread_sigmask(SIG_SETMASK, NULL, &set) == 0) {
        me->usr1_blocked = sigismember(&set, SIGUSR1) == 1;
        me->term_blocked = sigismember(&set, SIGTERM) == 1;
        me->segv_blocked = sigismember(&set, SIGSEGV) == 1;
    }
    return NULL;
}

TEST(test_thread_name_and_signals)
{
    seen other = {.segv_blocked = true};
    pthread_t thread;
    char name[32] = "";
    sigset_t before, after;
    sigemptyset(&before);
    sigaddset(&before, SIGUSR2);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    assert_true(ph__thread_start(&thread, "a-name-that-is-too-long", look_around, &other));
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    int got = pthread_getname_np(thread, name, sizeof name);
    atomic_store(&other.go, 1);
    ph__futex_wake(&other.go, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(got, 0);
    assert_string_equal(name, "a-name-that-is-");
    assert_true(other.usr1_blocked);
    assert_true(other.term_blocked);
    assert_false(other.segv_blocked);
    for (int i = 1; i < 32; i++)
        assert_int_equal(sigismember(&before, i), sigismember(&after, i));
}

TEST(test_cpu_count_follows_affinity)
{
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(ph__cpu_count(), CPU_COUNT(&before));
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &before))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    unsigned alone = ph__cpu_count();
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(alone, 1);
}

/* What the clock promises, however slow the machine: it never goes back, and a sleep is never
 * shorter than asked. */
TEST(test_clock_and_sleep)
{
    uint64_t last = ph__now_ns();
    for (int i = 0; i < 1000; i++) {
        uint64_t now = ph__now_ns();
        assert_true(now >= last);
        last = now;
    }
    ph__sleep_ns(0);
    ph__sleep_ns(2000000);
    assert_true(ph__now_ns() - last >= 2000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spinlock_excludes),
        cmocka_unit_test(test_shared_mutex_excludes),
        cmocka_unit_test(test_shared_mutex_prefers_the_exclusive_waiter),
        cmocka_unit_test(test_a_waiter_for_the_spinlock_sleeps),
        cmocka_unit_test(test_thread_ids_are_unique_and_never_reused),
        cmocka_unit_test(test_futex_hands_on),
        cmocka_unit_test(test_futex_returns_at_once_or_after_the_timeout),
        cmocka_unit_test(test_thread_name_and_signals),
        cmocka_unit_test(test_cpu_count_follows_affinity),
        cmocka_unit_test(test_clock_and_sleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
