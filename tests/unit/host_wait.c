/* SPDX-License-Identifier: MIT */
/* tests/unit/host_wait.c: threads that wait for a stream of the host device: who is woken, and
 * when. */
#include "driver/host/stream/stream.h"
#include "support/host_trace.h"
#include "support/test.h"
#include <sys/resource.h>
#include <time.h>

enum {
    COMMANDS = 200
};

static world w;

FIXTURE(open_world)
{
    world_open(&w, 0);
    return 0;
}

FIXTURE(close_world)
{
    world_close(&w);
    return 0;
}

typedef struct waiter {
    pthread_t thread;
    atomic_bool over;
    long switches; /* how often it went to sleep */
} waiter;

static long times_asleep(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
    return usage.ru_nvcsw;
}

static void *await_stream(void *argument)
{
    waiter *self = argument;
    const long before = times_asleep();
    assert_int_equal(drv->stream_synchronize(w.a), 0);
    self->switches = times_asleep() - before;
    atomic_store(&self->over, true);
    return NULL;
}

/* Comes back when `count` threads wait for all that w.a has. */
static void start_waiter(waiter *fresh, unsigned count)
{
    const ph__host_stream *stream = (const ph__host_stream *)w.a;
    assert_int_equal(pthread_create(&fresh->thread, NULL, await_stream, fresh), 0);
    while (atomic_load(&stream->waiters) != count)
        sched_yield();
}

static void await_end(const waiter *of)
{
    while (!atomic_load(&of->over))
        sched_yield();
}

/* Time enough for a thread that was woken to go to sleep again. */
static void short_work(void *user)
{
    (void)user;
    const struct timespec pause = {.tv_nsec = 50000};
    (void)nanosleep(&pause, NULL);
}

TEST(a_waiter_sleeps_until_its_work_is_done)
{
    gate g = {0};
    waiter one = {0};
    const ph__drv_host work = {.fn = short_work};
    assert_int_equal(gate_wait(&g, w.a), 0);
    for (int i = 0; i < COMMANDS; i++)
        assert_int_equal(drv->host(w.a, &work), 0);
    start_waiter(&one, 1);
    atomic_store(&g.open, true);
    pthread_join(one.thread, NULL);
    assert_in_range(one.switches, 0, COMMANDS / 10);
}

TEST(each_waiter_is_woken_for_its_own_work)
{
    gate g[3] = {{0}};
    waiter each[3] = {{0}};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(gate_wait(&g[i], w.a), 0);
        start_waiter(&each[i], i + 1);
    }
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned k = i; k < 3; k++)
            assert_false(atomic_load(&each[k].over));
        atomic_store(&g[i].open, true);
        await_end(&each[i]);
        pthread_join(each[i].thread, NULL);
    }
}

/* Of threads that come and go: none is left asleep. */
static void *submit_and_wait(void *argument)
{
    const submitter *self = argument;
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(launch_add(self->w, self->w->a, self->slot, 1, 1), 0);
        if (i % 3 != self->slot % 3)
            assert_int_equal(drv->stream_synchronize(self->w->a), 0);
    }
    assert_int_equal(drv->stream_synchronize(self->w->a), 0);
    return NULL;
}

TEST(no_waiter_is_forgotten)
{
    run_submitters(&w, 6, submit_and_wait);
    for (int i = 0; i < 6; i++)
        assert_int_equal(w.words[i], 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_waiter_sleeps_until_its_work_is_done, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(each_waiter_is_woken_for_its_own_work, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(no_waiter_is_forgotten, open_world, close_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
