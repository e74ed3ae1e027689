/* SPDX-License-Identifier: MIT */
/* driver/host/stream/queue.c: a stream's queue of commands, and the thread that runs it. */
#include "driver/host/stream/queue.h"
#include "driver/callback.h"
#include "driver/host/stream/chaos.h"
#include <limits.h>

/* ---- running ---- */

/* Under the stream's lock: the whole queue. */
static ph__host_command *acquire_all_commands(ph__host_stream *stream)
{
    ph__host_command *first = atomic_load_explicit(&stream->head, memory_order_relaxed);
    atomic_store_explicit(&stream->head, NULL, memory_order_relaxed);
    stream->tail = NULL;
    return first;
}

static void run_command(ph__host_stream *stream, ph__host_command *command)
{
    if (command->run) {
        command->run(command);
        return;
    }
    if (command->wait) {
        ph__host_marker_wait(command->wait);
        ph__host_marker_release(command->wait);
    } else {
        ph__host_marker_signal(command->signal);
        ph__host_marker_release(command->signal);
    }
    ph__host_command_finish(stream, command);
}

/* The count and the look for waiters are one order for all threads, as are a waiter's entry and
 * its look at the count: one of the two sees the other. Nobody is woken before the first number
 * that is waited for: a wake is a call of the system, and its cost would be each command's. */
static void publish_done(ph__host_stream *stream)
{
    const unsigned done = atomic_fetch_add(&stream->completed, 1) + 1;
    if (atomic_load(&stream->waiters) != 0 && (int)(done - atomic_load(&stream->awaited)) >= 0)
        ph__futex_wake(&stream->completed, INT_MAX);
}

/* The right to run is given up before the last command is reported done, so that who waited for
 * it finds the stream idle. */
static void run_all(ph__host_stream *stream, ph__host_command *command)
{
    while (command) {
        ph__host_command *next = command->next;
        run_command(stream, command);
        if (!next) {
            ph__spin_lock(&stream->lock);
            ph__host_commands_give_finished(stream);
            next = acquire_all_commands(stream);
            stream->running = next != NULL;
            ph__spin_unlock(&stream->lock);
        }
        publish_done(stream);
        command = next;
    }
}

/* More spinning threads than processors would only keep each other from working. */
static void spin_for_work(ph__host_stream *stream)
{
    ph__host_device *device = stream->device;
    if (atomic_fetch_add_explicit(&device->spinning, 1, memory_order_relaxed) <
        device->processors) {
        for (unsigned i = 0; i < device->spins; i++) {
            if (atomic_load_explicit(&stream->head, memory_order_relaxed) ||
                atomic_load_explicit(&stream->stopping, memory_order_relaxed))
                break;
            ph__pause();
        }
    }
    atomic_fetch_sub_explicit(&device->spinning, 1, memory_order_relaxed);
}

/* The next commands to run, the right to run taken; NULL when the stream is over. */
static ph__host_command *await_commands(ph__host_stream *stream)
{
    for (;;) {
        spin_for_work(stream);
        ph__spin_lock(&stream->lock);
        ph__host_command *first = stream->running ? NULL : acquire_all_commands(stream);
        if (first)
            stream->running = true;
        else if (!stream->running && atomic_load_explicit(&stream->stopping, memory_order_relaxed))
            stream->exited = true;
        else
            atomic_store_explicit(&stream->sleeping, 1, memory_order_relaxed);
        bool over = stream->exited;
        ph__spin_unlock(&stream->lock);
        if (first || over)
            return first;
        while (atomic_load_explicit(&stream->sleeping, memory_order_acquire) == 1)
            ph__futex_wait(&stream->sleeping, 1, -1);
    }
}

static void *stream_main(void *argument)
{
    ph__host_stream *stream = argument;
    for (ph__host_command *first; (first = await_commands(stream));) {
        ph__driver_callbacks_begin();
        run_all(stream, first);
        ph__driver_callbacks_end();
    }
    return NULL;
}

/* Under streams_lock. */
int ph__host_queue_start(ph__host_stream *stream)
{
    if (stream->device->chaos || atomic_load_explicit(&stream->has_thread, memory_order_relaxed))
        return 0;
    if (!ph__thread_start(&stream->thread, "ph-stream", stream_main, stream)) {
        ph__driver_set_reason("the system refused a thread for the stream");
        return PH__R_OUT_OF_MEMORY;
    }
    atomic_store_explicit(&stream->has_thread, true, memory_order_release);
    return 0;
}

int ph__host_queue_ensure_thread(ph__host_stream *stream)
{
    if (stream->device->chaos || atomic_load_explicit(&stream->has_thread, memory_order_acquire))
        return 0;
    pthread_mutex_lock(&stream->device->streams_lock);
    int result = ph__host_queue_start(stream);
    pthread_mutex_unlock(&stream->device->streams_lock);
    return result;
}

/* ---- submitting ---- */

/* Under the stream's lock: true when its thread must be woken. */
bool ph__host_queue_claim_wake(ph__host_stream *stream)
{
    if (atomic_load_explicit(&stream->sleeping, memory_order_relaxed) == 0 || stream->running)
        return false;
    atomic_store_explicit(&stream->sleeping, 0, memory_order_release);
    return true;
}

void ph__host_queue_appended(ph__host_stream *stream, bool wake)
{
    if (wake)
        ph__futex_wake(&stream->sleeping, 1);
    if (stream->device->chaos)
        ph__host_chaos_submitted(stream->device->chaos);
}

/* Under the stream's lock. */
unsigned ph__host_queue_append(ph__host_stream *stream, ph__host_command *command)
{
    command->next = NULL;
    if (stream->tail)
        stream->tail->next = command;
    else
        atomic_store_explicit(&stream->head, command, memory_order_relaxed);
    stream->tail = command;
    return atomic_fetch_add_explicit(&stream->submitted, 1, memory_order_release) + 1;
}

unsigned ph__host_stream_submit(ph__host_stream *stream, ph__host_command *command)
{
    ph__spin_lock(&stream->lock);
    unsigned number = ph__host_queue_append(stream, command);
    bool wake = ph__host_queue_claim_wake(stream);
    ph__spin_unlock(&stream->lock);
    ph__host_queue_appended(stream, wake);
    return number;
}

ph__host_command *ph__host_queue_marker_command(ph__host_stream *stream, ph__host_marker *wait,
                                                ph__host_marker *signal)
{
    ph__host_command *command = ph__host_command_acquire(stream);
    if (command)
        *command = (ph__host_command){.wait = wait, .signal = signal};
    return command;
}

int ph__host_stream_wait_marker(ph__host_stream *stream, ph__host_marker *marker)
{
    if (ph__host_marker_done(marker))
        return 0;
    int result = ph__host_queue_ensure_thread(stream);
    if (result)
        return result;
    ph__host_command *command = ph__host_queue_marker_command(stream, marker, NULL);
    if (!command)
        return PH__R_OUT_OF_MEMORY;
    ph__host_marker_retain(marker);
    ph__host_stream_submit(stream, command);
    return 0;
}

int ph__host_stream_signal_marker(ph__host_stream *stream, ph__host_marker *marker)
{
    if (ph__host_stream_try_inline(stream)) {
        ph__host_marker_signal(marker);
        ph__host_stream_leave_inline(stream);
        return 0;
    }
    int result = ph__host_queue_ensure_thread(stream);
    if (result)
        return result;
    ph__host_command *command = ph__host_queue_marker_command(stream, NULL, marker);
    if (!command)
        return PH__R_OUT_OF_MEMORY;
    ph__host_marker_retain(marker);
    ph__host_stream_submit(stream, command);
    return 0;
}

void ph__host_stream_leave_inline(ph__host_stream *stream)
{
    ph__spin_lock(&stream->lock);
    stream->running = false;
    bool wanted = atomic_load_explicit(&stream->head, memory_order_relaxed) ||
                  atomic_load_explicit(&stream->stopping, memory_order_relaxed);
    bool wake = wanted && ph__host_queue_claim_wake(stream);
    ph__spin_unlock(&stream->lock);
    publish_done(stream);
    if (wake)
        ph__futex_wake(&stream->sleeping, 1);
}

/* ---- chaos ---- */

bool ph__host_stream_runnable(ph__host_stream *stream)
{
    ph__spin_lock(&stream->lock);
    const ph__host_command *first = atomic_load_explicit(&stream->head, memory_order_relaxed);
    bool runnable = first && !stream->running &&
                    (first->run || !first->wait || ph__host_marker_done(first->wait));
    ph__spin_unlock(&stream->lock);
    return runnable;
}

void ph__host_stream_run_one(ph__host_stream *stream)
{
    ph__spin_lock(&stream->lock);
    ph__host_command *first = atomic_load_explicit(&stream->head, memory_order_relaxed);
    atomic_store_explicit(&stream->head, first->next, memory_order_relaxed);
    if (!first->next)
        stream->tail = NULL;
    stream->running = true;
    ph__spin_unlock(&stream->lock);
    ph__driver_callbacks_begin();
    run_command(stream, first);
    ph__driver_callbacks_end();
    ph__spin_lock(&stream->lock);
    ph__host_commands_give_finished(stream);
    stream->running = false;
    ph__spin_unlock(&stream->lock);
    publish_done(stream);
}

/* ---- the end of a stream ---- */

void ph__host_stream_stop(ph__host_stream *stream)
{
    ph__spin_lock(&stream->lock);
    atomic_store_explicit(&stream->stopping, true, memory_order_relaxed);
    if (!atomic_load_explicit(&stream->has_thread, memory_order_acquire) && !stream->device->chaos)
        stream->exited = true;
    bool wake = ph__host_queue_claim_wake(stream);
    ph__spin_unlock(&stream->lock);
    if (wake)
        ph__futex_wake(&stream->sleeping, 1);
}

static void free_list(ph__host_command *command)
{
    while (command) {
        ph__host_command *next = command->next;
        ph__free(command);
        command = next;
    }
}

void ph__host_stream_free(ph__host_stream *stream)
{
    if (atomic_load_explicit(&stream->has_thread, memory_order_acquire))
        pthread_join(stream->thread, NULL);
    free_list(stream->spare_commands);
    free_list(stream->finished);
    ph__free(stream->scratch); /* one block */
    ph__free(stream);
}
