/* SPDX-License-Identifier: MIT */
/* driver/host/stream/marker.c: markers: points of a stream's work that others wait for, and their
 * recycling. */
#include "driver/host/stream/marker.h"
#include "base/clock.h"
#include "driver/host/stream/chaos.h"
#include <limits.h>

enum {
    PENDING,
    AWAITED,
    DONE
};
enum {
    SPARE_MARKERS = 4096
};

struct ph__host_marker {
    atomic_uint state; /* AWAITED: pending, and somebody sleeps on it */
    atomic_int references;
    uint64_t time;           /* written before DONE */
    ph__host_device *device; /* while pending */
    ph__host_marker_pool *pool;
    ph__host_marker *next; /* while recycled */
};

struct ph__host_marker_pool {
    ph__spinlock lock;
    ph__host_marker *spare;
    unsigned spare_count;
    size_t live; /* markers that somebody holds */
    bool closed;
};

ph__host_marker_pool *ph__host_marker_pool_create(void)
{
    return ph__calloc(1, sizeof(ph__host_marker_pool));
}

static void free_list(ph__host_marker *marker)
{
    while (marker) {
        ph__host_marker *next = marker->next;
        ph__free(marker);
        marker = next;
    }
}

void ph__host_marker_pool_close(ph__host_marker_pool *pool)
{
    if (!pool)
        return;
    ph__spin_lock(&pool->lock);
    ph__host_marker *spare = pool->spare;
    pool->spare = NULL;
    pool->closed = true;
    bool over = pool->live == 0;
    ph__spin_unlock(&pool->lock);
    free_list(spare);
    if (over)
        ph__free(pool);
}

static ph__host_marker *acquire_spare(ph__host_marker_pool *pool)
{
    ph__spin_lock(&pool->lock);
    ph__host_marker *marker = pool->spare;
    if (marker) {
        pool->spare = marker->next;
        pool->spare_count--;
    }
    pool->live++;
    ph__spin_unlock(&pool->lock);
    return marker;
}

static void give_back(ph__host_marker_pool *pool, ph__host_marker *marker)
{
    ph__spin_lock(&pool->lock);
    bool keep = marker && !pool->closed && pool->spare_count < SPARE_MARKERS;
    if (keep) {
        marker->next = pool->spare;
        pool->spare = marker;
        pool->spare_count++;
    }
    bool over = --pool->live == 0 && pool->closed;
    ph__spin_unlock(&pool->lock);
    if (!keep)
        ph__free(marker);
    if (over)
        ph__free(pool);
}

ph__host_marker *ph__host_marker_create(ph__host_device *device)
{
    ph__host_marker *marker = acquire_spare(device->markers);
    if (!marker)
        marker = ph__alloc(sizeof *marker);
    if (!marker) {
        give_back(device->markers, NULL);
        return NULL;
    }
    atomic_init(&marker->state, PENDING);
    atomic_init(&marker->references, 1);
    marker->time = 0;
    marker->device = device;
    marker->pool = device->markers;
    return marker;
}

ph__host_marker *ph__host_marker_retain(ph__host_marker *marker)
{
    atomic_fetch_add_explicit(&marker->references, 1, memory_order_relaxed);
    return marker;
}

void ph__host_marker_release(ph__host_marker *marker)
{
    if (marker && atomic_fetch_sub_explicit(&marker->references, 1, memory_order_acq_rel) == 1)
        give_back(marker->pool, marker);
}

/* Nobody may touch the marker after DONE is seen but who holds a reference; a wake that reaches
 * its next life is a spurious one there. */
void ph__host_marker_signal(ph__host_marker *marker)
{
    marker->time = ph__now_ns();
    if (atomic_exchange_explicit(&marker->state, DONE, memory_order_acq_rel) == AWAITED)
        ph__futex_wake(&marker->state, INT_MAX);
}

bool ph__host_marker_done(const ph__host_marker *marker)
{
    return atomic_load_explicit(&marker->state, memory_order_acquire) == DONE;
}

uint64_t ph__host_marker_time(const ph__host_marker *marker)
{
    return marker->time;
}

static bool is_done(void *marker)
{
    return ph__host_marker_done(marker);
}

static void sleep_until_done(ph__host_marker *marker)
{
    unsigned state = PENDING;
    atomic_compare_exchange_strong_explicit(&marker->state, &state, AWAITED, memory_order_acq_rel,
                                            memory_order_acquire);
    while (!ph__host_marker_done(marker))
        ph__futex_wait(&marker->state, AWAITED, -1);
}

void ph__host_marker_wait(ph__host_marker *marker)
{
    if (ph__host_marker_done(marker))
        return;
    if (marker->device->chaos) {
        ph__host_chaos_wait(marker->device->chaos, is_done, marker);
        return;
    }
    for (unsigned i = 0; i < marker->device->spins; i++) {
        if (ph__host_marker_done(marker))
            return;
        ph__pause();
    }
    sleep_until_done(marker);
}
