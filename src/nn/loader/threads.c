/* SPDX-License-Identifier: MIT */
/* nn/loader/threads.c: the threads that fetch: each takes the earliest batch that nobody has. */
#include "nn/loader/threads.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/unwind.h"
#include "nn/loader/slots.h"
#include <limits.h>

typedef struct ph__loader_thread {
    ph_data_loader *loader;
    size_t number;
    pthread_t thread;
    bool started;
} ph__loader_thread;

/* Whose fetch function the thread is for. */
static _Thread_local const ph_data_loader *own_loader;

bool ph__loader_is_fetching(const ph_data_loader *loader)
{
    return own_loader == loader;
}

/* ---- waiting ---- */
void ph__loader_wait(ph_data_loader *loader, atomic_uint *for_what)
{
    unsigned seen = atomic_load_explicit(for_what, memory_order_relaxed);
    ph__mutex_unlock(&loader->lock);
    ph__futex_wait(for_what, seen, -1);
    ph__mutex_lock(&loader->lock);
}

void ph__loader_wake(atomic_uint *what)
{
    atomic_fetch_add_explicit(what, 1, memory_order_relaxed);
    ph__futex_wake(what, INT_MAX);
}

/* ---- fetching ---- */
static ph_status call_fetch(ph_data_loader *loader, const ph_fetch_request *request)
{
    (void)ph_error_set(&(ph_error){.status = PH_OK});
    ph_status status = loader->fetch(request, loader->user);
    if (status == PH_OK || ph_error_last()->status == status)
        return status;
    return ph_fail(status, "the fetch function gave %s, without a message (ph_fail)",
                   ph_status_name(status));
}

static ph_status fetch_batch(const ph__loader_thread *self, ph__loader_slot *slot,
                             uint64_t *fetch_ns)
{
    ph_data_loader *loader = self->loader;
    const ph__epoch_order *order = &loader->order;
    ph_fetch_request request = {.epoch = slot->batch / order->batches,
                                .batch = slot->batch % order->batches,
                                .index = slot->index,
                                .data = slot->pinned,
                                .thread = self->number};
    PH_TRY(ph__slot_await_copies(slot));
    slot->rows = ph__epoch_order_batch(slot->index, order, request.epoch, request.batch);
    request.count = slot->rows;
    uint64_t since = ph__now_ns();
    ph_status status = call_fetch(loader, &request);
    *fetch_ns = ph__now_ns() - since;
    return status == PH_OK ? ph__slot_submit(loader, slot) : status;
}

static ph__loader_slot *earliest_open(const ph_data_loader *loader)
{
    ph__loader_slot *earliest = NULL;
    for (size_t i = 0; i < loader->slot_count; i++) {
        ph__loader_slot *slot = &loader->slots[i];
        if (slot->state == PH__BATCH_OPEN && (!earliest || slot->batch < earliest->batch))
            earliest = slot;
    }
    return earliest;
}

static void put_back(const ph__loader_thread *self, ph__loader_slot *slot, ph_status status)
{
    if (status != PH_OK)
        ph__error_save(&slot->error);
    slot->state = status == PH_OK ? PH__BATCH_READY : PH__BATCH_FAILED;
    ph__loader_wake(&self->loader->moved);
}

/* A batch whose fetch function does not return. */
typedef struct left_fetch {
    const ph__loader_thread *self;
    ph__loader_slot *slot;
} left_fetch;

static void end_thread(void *what)
{
    const left_fetch *left = what;
    ph_data_loader *loader = left->self->loader;
    ph__mutex_lock(&loader->lock);
    loader->alive--;
    put_back(left->self, left->slot,
             ph_fail(PH_ERROR_CALLER,
                     "the fetch function did not return: an exception left it, or it ended its "
                     "thread"));
    ph__mutex_unlock(&loader->lock);
}

static void fetch_into(const ph__loader_thread *self, ph__loader_slot *slot)
{
    ph_data_loader *loader = self->loader;
    uint64_t fetch_ns = 0;
    slot->state = PH__BATCH_FETCHING;
    ph__mutex_unlock(&loader->lock);
    left_fetch left = {self, slot};
    PH__UNWIND unwind = {end_thread, &left};
    ph_status status = fetch_batch(self, slot, &fetch_ns);
    unwind.undo = NULL;
    ph__mutex_lock(&loader->lock);
    loader->stats.fetches++;
    loader->stats.fetch_ns += fetch_ns;
    put_back(self, slot, status);
}

/* Waits for copies are allowed beside captures of other threads: nothing that they capture hangs on
 * the loader's stream. */
static void *thread_main(void *argument)
{
    const ph__loader_thread *self = argument;
    ph_data_loader *loader = self->loader;
    ph_capture_mode mode = PH_CAPTURE_RELAXED;
    ph_ignore(ph_thread_exchange_capture_mode(&mode));
    own_loader = loader;
    ph__mutex_lock(&loader->lock);
    while (!loader->stopping) {
        ph__loader_slot *slot = earliest_open(loader);
        if (slot)
            fetch_into(self, slot);
        else
            ph__loader_wait(loader, &loader->opened);
    }
    ph__mutex_unlock(&loader->lock);
    return NULL;
}

/* ---- their beginning and end ---- */
static bool start_thread(ph__loader_thread *thread)
{
    ph_data_loader *loader = thread->loader;
    bool started = ph__thread_start(&thread->thread, "ph-loader", thread_main, thread);
    ph__mutex_lock(&loader->lock);
    loader->alive += started;
    ph__mutex_unlock(&loader->lock);
    return started;
}

ph_status ph__loader_threads_start(ph_data_loader *loader, const char *call)
{
    loader->threads = ph__calloc(loader->thread_count, sizeof *loader->threads);
    if (!loader->threads)
        return ph__fail_host_memory(call, "its threads");
    for (size_t i = 0; i < loader->thread_count; i++) {
        ph__loader_thread *next = &loader->threads[i];
        next->loader = loader;
        next->number = i;
        next->started = start_thread(next);
        if (!next->started)
            return ph_fail(PH_ERROR_HOST_MEMORY,
                           "%s: the system refused thread %zu of %zu; ask for fewer, or raise the "
                           "limit of processes",
                           call, i + 1, loader->thread_count);
    }
    return PH_OK;
}

void ph__loader_threads_stop(ph_data_loader *loader)
{
    ph__mutex_lock(&loader->lock);
    loader->stopping = true;
    ph__loader_wake(&loader->opened);
    ph__loader_wake(&loader->moved);
    while (loader->busy)
        ph__loader_wait(loader, &loader->moved);
    ph__mutex_unlock(&loader->lock);
    for (size_t i = 0; loader->threads && i < loader->thread_count; i++)
        if (loader->threads[i].started)
            pthread_join(loader->threads[i].thread, NULL);
    ph__free(loader->threads);
}
