/* SPDX-License-Identifier: MIT */
/* memory/streams/waits.c: blocks and memory that wait for work on streams: a line for each
 * stream, in the order in which its events were recorded. Of a line only the first is asked for,
 * so that what waits behind a busy stream costs nothing. */
#include "memory/streams/waits.h"
#include "memory/state/memory_state.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"
#include "memory/streams/events.h"

/* Lock held, as for the next one. */
static void append_use(ph__memory *memory, ph__use *use)
{
    ph__stream_replays *line = &use->stream->replays;
    use->next = NULL;
    if (line->last_use) {
        line->last_use->next = use;
        line->last_use = use;
        return;
    }
    line->first_use = line->last_use = use;
    line->next_awaited = NULL;
    line->previous_awaited = memory->last_awaited;
    if (memory->last_awaited)
        memory->last_awaited->replays.next_awaited = use->stream;
    else
        memory->first_awaited = use->stream;
    memory->last_awaited = use->stream;
    memory->awaited_streams++;
}

static void remove_first(ph__memory *memory, ph_stream *stream)
{
    ph__stream_replays *line = &stream->replays;
    line->first_use = line->first_use->next;
    if (line->first_use)
        return;
    line->last_use = NULL;
    if (line->previous_awaited)
        line->previous_awaited->replays.next_awaited = line->next_awaited;
    else
        memory->first_awaited = line->next_awaited;
    if (line->next_awaited)
        line->next_awaited->replays.previous_awaited = line->previous_awaited;
    else
        memory->last_awaited = line->previous_awaited;
    memory->awaited_streams--;
}

void ph__waits_begin(ph__memory *memory, ph__waiter *waiter, ph__use *uses, size_t count,
                     int *failure)
{
    for (size_t i = 0; i < count; i++) {
        uses[i].of = waiter;
        /* else when its turn has come */
        uses[i].event = ph__mark_stream(memory, uses[i].stream, failure);
    }
    ph__memory_lock(memory);
    waiter->left = count;
    for (size_t i = 0; i < count; i++)
        append_use(memory, &uses[i]);
    ph__set_slow_path(memory, PH__SLOW_PENDING, true);
    ph__spin_unlock(&memory->lock);
}

static bool is_use_over(ph__memory *memory, ph__use *use, bool wait, int *failure)
{
    ph__step(memory);
    if (!use->event)
        use->event = ph__mark_stream(memory, use->stream, failure);
    if (!use->event || !ph__mark_done(memory, use->event, wait, failure))
        return false;
    ph__mark_recycle(memory, use->event);
    use->event = NULL;
    return true;
}

static void process_line(ph__memory *memory, ph_stream *stream, bool wait, int *failure,
                         ph__leaving_batch **done)
{
    for (;;) {
        ph__memory_lock(memory);
        ph__use *use = stream->replays.first_use;
        ph__spin_unlock(&memory->lock);
        if (!use || !is_use_over(memory, use, wait, failure))
            return;
        ph__memory_lock(memory);
        remove_first(memory, stream);
        bool last = --use->of->left == 0;
        ph__spin_unlock(&memory->lock);
        if (last)
            use->of->finish(memory, use->of, done);
    }
}

/* The first of the streams, which goes to the end; retained. */
static ph_stream *next_stream(ph__memory *memory)
{
    ph__memory_lock(memory);
    ph_stream *stream = memory->first_awaited;
    if (stream && stream != memory->last_awaited) {
        ph__stream_replays *line = &stream->replays;
        memory->first_awaited = line->next_awaited;
        line->next_awaited->replays.previous_awaited = NULL;
        line->next_awaited = NULL;
        line->previous_awaited = memory->last_awaited;
        memory->last_awaited->replays.next_awaited = stream;
        memory->last_awaited = stream;
    }
    if (stream)
        (void)ph__stream_retain(stream);
    ph__spin_unlock(&memory->lock);
    return stream;
}

void ph__waits_process(ph__memory *memory, bool wait, int *failure, ph__leaving_batch **done)
{
    ph__memory_lock(memory);
    size_t count = memory->awaited_streams;
    ph__spin_unlock(&memory->lock);
    for (; count > 0; count--) {
        ph_stream *stream = next_stream(memory);
        if (!stream)
            break;
        process_line(memory, stream, wait, failure, done);
        ph__stream_release(stream);
    }
    ph__memory_lock(memory);
    ph__set_slow_path(memory, PH__SLOW_PENDING, memory->awaited_streams > 0);
    ph__spin_unlock(&memory->lock);
}
