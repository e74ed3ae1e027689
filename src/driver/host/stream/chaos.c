/* SPDX-License-Identifier: MIT */
/* driver/host/stream/chaos.c: one thread that runs all streams in a random legal order. */
#include "driver/host/stream/chaos.h"
#include "base/clock.h"
#include "driver/host/stream/queue.h"
#include <errno.h>
#include <time.h>

enum {
    MOST_STEPS_OF_A_PHASE = 16,
    MOST_STEPS_OF_A_QUERY = 3
};
/* Nothing was submitted and nobody waited for so long: the program may look at memory for
 * results. Far longer than a thread that is submitting is ever kept from going on, so that the
 * order does not depend on it. */
#define QUIET_NS UINT64_C(20000000)
#define QUERY_NS UINT64_C(2000000)
/* Streams that wait for another device's work are looked at so often. */
#define BLOCKED_NS UINT64_C(500000)

typedef struct waiter {
    struct waiter *next;
    bool (*done)(void *context);
    void *context;
    bool satisfied;
} waiter;

struct ph__host_chaos {
    ph__host_device *device;
    pthread_t thread;
    _Atomic uint64_t thread_id;
    pthread_mutex_t lock;
    pthread_cond_t work, progress; /* for the scheduler; for those who wait for it */
    waiter *waiters;
    unsigned steps; /* asked for by queries */
    bool quiet, stopping;
    bool dozing;                   /* the scheduler sleeps until it is called */
    uint64_t submissions, drained; /* drained: their number when nothing could run */
    bool blocked;                  /* something was queued then */
    ph__rng query_rng;             /* under lock; the rest is the scheduler's own */
    ph__rng rng;
    uint64_t salt;
    uint64_t phase_left;
    bool favours;
};

/* ---- picking and running ---- */

static uint64_t rank_of(const ph__host_chaos *chaos, const ph__host_stream *stream)
{
    ph__rng mixed = {stream->id ^ chaos->salt};
    return ph__rng_next(&mixed);
}

/* Phases of a few commands: in some each command is drawn afresh, in others one stream runs
 * ahead of all as long as it can. Both are needed: the first finds what breaks when streams
 * interleave, the second what breaks when one is very late. */
static void begin_phase(ph__host_chaos *chaos)
{
    chaos->phase_left = 1 + ph__rng_below(&chaos->rng, MOST_STEPS_OF_A_PHASE);
    chaos->favours = ph__rng_below(&chaos->rng, 2) == 0;
    chaos->salt = ph__rng_next(&chaos->rng);
}

/* Under streams_lock. */
static bool any_queued(ph__host_device *device)
{
    for (size_t i = 0; i < device->streams.count; i++)
        if (atomic_load_explicit(&device->streams.at[i]->head, memory_order_relaxed))
            return true;
    return false;
}

/* Under streams_lock. */
static ph__host_stream *pick_stream(ph__host_chaos *chaos)
{
    ph__host_device *device = chaos->device;
    ph__host_stream *picked = NULL;
    uint64_t runnable = 0;
    for (size_t i = 0; i < device->streams.count; i++)
        runnable += ph__host_stream_runnable(device->streams.at[i]);
    if (runnable == 0)
        return NULL;
    if (chaos->phase_left == 0)
        begin_phase(chaos);
    chaos->phase_left--;
    uint64_t index = chaos->favours ? 0 : ph__rng_below(&chaos->rng, runnable), seen = 0;
    for (size_t i = 0; i < device->streams.count; i++) {
        ph__host_stream *stream = device->streams.at[i];
        if (!ph__host_stream_runnable(stream))
            continue;
        if (chaos->favours ? !picked || rank_of(chaos, stream) > rank_of(chaos, picked)
                           : seen == index)
            picked = stream;
        seen++;
    }
    return picked;
}

/* Runs one command; false when none can run. On the scheduler's thread, also from inside a
 * command that waits. */
static bool run_one_command(ph__host_chaos *chaos, bool *blocked)
{
    ph__host_device *device = chaos->device;
    pthread_mutex_lock(&device->streams_lock);
    ph__host_stream *stream = pick_stream(chaos);
    if (stream)
        stream->users++;
    else
        *blocked = any_queued(device);
    pthread_mutex_unlock(&device->streams_lock);
    if (!stream)
        return false;
    ph__host_stream_run_one(stream);
    pthread_mutex_lock(&device->streams_lock);
    stream->users--;
    pthread_mutex_unlock(&device->streams_lock);
    return true;
}

/* ---- the scheduler's thread; everything here under the lock ---- */

static void serve_waiters(ph__host_chaos *chaos)
{
    bool any = false;
    for (waiter **at = &chaos->waiters; *at;) {
        waiter *one = *at;
        if (!one->done(one->context)) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        one->satisfied = true;
        any = true;
    }
    if (any)
        pthread_cond_broadcast(&chaos->progress);
}

static bool step_unlocked(ph__host_chaos *chaos)
{
    uint64_t submissions = chaos->submissions;
    bool blocked = false;
    pthread_mutex_unlock(&chaos->lock);
    bool ran = run_one_command(chaos, &blocked);
    pthread_mutex_lock(&chaos->lock);
    if (!ran) {
        chaos->drained = submissions;
        chaos->blocked = blocked;
    }
    serve_waiters(chaos);
    return ran;
}

static struct timespec time_from_now(uint64_t ns)
{
    uint64_t at = ph__now_ns() + ns;
    return (struct timespec){.tv_sec = (time_t)(at / 1000000000),
                             .tv_nsec = (long)(at % 1000000000)};
}

/* Until called, or until another device may have done what a stream waits for. */
static void sleep_until_called(ph__host_chaos *chaos)
{
    chaos->dozing = true;
    if (chaos->blocked) {
        struct timespec until = time_from_now(BLOCKED_NS);
        if (pthread_cond_timedwait(&chaos->work, &chaos->lock, &until) == ETIMEDOUT)
            chaos->drained = chaos->submissions - 1;
    } else {
        pthread_cond_wait(&chaos->work, &chaos->lock);
    }
    chaos->dozing = false;
}

static void await_quiet(ph__host_chaos *chaos)
{
    uint64_t submissions = chaos->submissions;
    struct timespec until = time_from_now(QUIET_NS);
    if (pthread_cond_timedwait(&chaos->work, &chaos->lock, &until) == ETIMEDOUT)
        chaos->quiet = submissions == chaos->submissions;
}

static void *chaos_main(void *argument)
{
    ph__host_chaos *chaos = argument;
    atomic_store(&chaos->thread_id, ph__thread_id());
    pthread_mutex_lock(&chaos->lock);
    while (!chaos->stopping) {
        serve_waiters(chaos);
        if (chaos->drained == chaos->submissions) {
            chaos->quiet = false;
            chaos->steps = 0;
            pthread_cond_broadcast(&chaos->progress);
            sleep_until_called(chaos);
        } else if (!chaos->waiters && !chaos->steps && !chaos->quiet) {
            await_quiet(chaos);
        } else if (step_unlocked(chaos) && chaos->steps > 0 && --chaos->steps == 0) {
            pthread_cond_broadcast(&chaos->progress);
        }
    }
    pthread_mutex_unlock(&chaos->lock);
    return NULL;
}

/* ---- for the other threads ---- */

static bool create_sync(ph__host_chaos *chaos)
{
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic) != 0)
        return false;
    bool mutex = pthread_mutex_init(&chaos->lock, NULL) == 0;
    bool work = mutex && pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0 &&
                pthread_cond_init(&chaos->work, &monotonic) == 0;
    bool progress = work && pthread_cond_init(&chaos->progress, &monotonic) == 0;
    pthread_condattr_destroy(&monotonic);
    if (work && !progress)
        pthread_cond_destroy(&chaos->work);
    if (mutex && !progress)
        pthread_mutex_destroy(&chaos->lock);
    return progress;
}

static void destroy_sync(ph__host_chaos *chaos)
{
    pthread_cond_destroy(&chaos->progress);
    pthread_cond_destroy(&chaos->work);
    pthread_mutex_destroy(&chaos->lock);
}

ph__host_chaos *ph__host_chaos_create(ph__host_device *device, uint64_t seed)
{
    ph__host_chaos *chaos = ph__calloc(1, sizeof *chaos);
    if (!chaos)
        return NULL;
    chaos->device = device;
    chaos->rng.state = seed;
    chaos->query_rng.state = ~seed;
    if (!create_sync(chaos)) {
        ph__free(chaos);
        return NULL;
    }
    if (!ph__thread_start(&chaos->thread, "ph-chaos", chaos_main, chaos)) {
        ph__driver_set_reason("the system refused a thread for the chaos scheduler");
        destroy_sync(chaos);
        ph__free(chaos);
        return NULL;
    }
    return chaos;
}

void ph__host_chaos_destroy(ph__host_chaos *chaos)
{
    if (!chaos)
        return;
    pthread_mutex_lock(&chaos->lock);
    chaos->stopping = true;
    pthread_cond_signal(&chaos->work);
    pthread_mutex_unlock(&chaos->lock);
    pthread_join(chaos->thread, NULL);
    destroy_sync(chaos);
    ph__free(chaos);
}

void ph__host_chaos_submitted(ph__host_chaos *chaos)
{
    pthread_mutex_lock(&chaos->lock);
    chaos->submissions++;
    chaos->quiet = false;
    if (chaos->dozing)
        pthread_cond_signal(&chaos->work);
    pthread_mutex_unlock(&chaos->lock);
}

static void wait_inside_command(ph__host_chaos *chaos, bool (*done)(void *context), void *context)
{
    while (!done(context)) {
        uint64_t submissions = chaos->submissions;
        if (step_unlocked(chaos) || submissions != chaos->submissions || done(context))
            continue;
        chaos->blocked = true; /* this command is */
        sleep_until_called(chaos);
    }
}

static void wait_outside(ph__host_chaos *chaos, bool (*done)(void *context), void *context)
{
    waiter self = {.next = chaos->waiters, .done = done, .context = context};
    chaos->waiters = &self;
    pthread_cond_signal(&chaos->work);
    while (!self.satisfied)
        pthread_cond_wait(&chaos->progress, &chaos->lock);
}

void ph__host_chaos_wait(ph__host_chaos *chaos, bool (*done)(void *context), void *context)
{
    pthread_mutex_lock(&chaos->lock);
    if (atomic_load(&chaos->thread_id) == ph__thread_id())
        wait_inside_command(chaos, done, context);
    else if (!done(context))
        wait_outside(chaos, done, context);
    pthread_mutex_unlock(&chaos->lock);
}

void ph__host_chaos_query(ph__host_chaos *chaos)
{
    struct timespec until = time_from_now(QUERY_NS);
    pthread_mutex_lock(&chaos->lock);
    chaos->steps = (unsigned)ph__rng_below(&chaos->query_rng, MOST_STEPS_OF_A_QUERY + 1);
    if (chaos->steps > 0)
        pthread_cond_signal(&chaos->work);
    while (chaos->steps > 0 && pthread_cond_timedwait(&chaos->progress, &chaos->lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&chaos->lock);
}

ph__rng *ph__host_chaos_rng(ph__host_chaos *chaos)
{
    return &chaos->rng;
}
