/* SPDX-License-Identifier: MIT */
/* device/turns.c: calls that ask whether a stream is capturing before they submit, and captures that begin on it or that it joins: they keep out of
 * each other's way. */
#include "base/sync.h"
#include "device/stream.h"
#include <limits.h>

static void wait_for_none(ph_stream *stream, atomic_uint *of)
{
    unsigned count;
    atomic_fetch_add(&stream->ask_waiters, 1);
    while ((count = atomic_load(of)) != 0)
        ph__futex_wait(of, count, -1);
    atomic_fetch_sub(&stream->ask_waiters, 1);
}

void ph__ask_wake(ph_stream *stream)
{
    ph__futex_wake(&stream->asking, INT_MAX);
    ph__futex_wake(&stream->turning, INT_MAX);
}

/* A capture is beginning: it goes first. */
void ph__ask_wait(ph_stream *stream)
{
    do {
        ph__ask_leave(stream);
        wait_for_none(stream, &stream->turning);
        atomic_fetch_add(&stream->asking, 1);
    } while (atomic_load(&stream->turning) != 0);
}

void ph__turn_begin(ph_stream *stream)
{
    unsigned none = 0;
    while (!atomic_compare_exchange_strong(&stream->turning, &none, 1)) {
        wait_for_none(stream, &stream->turning);
        none = 0;
    }
    wait_for_none(stream, &stream->asking);
}

void ph__turn_end(ph_stream *stream)
{
    atomic_store(&stream->turning, 0);
    if (atomic_load(&stream->ask_waiters) != 0)
        ph__ask_wake(stream);
}
