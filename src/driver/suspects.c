/* SPDX-License-Identifier: MIT */
/* driver/suspects.c: the ring of driver calls that failed while a capture was open, who is to
 * blame, and his words. */
#include "driver/suspects.h"
#include "base/backtrace.h"
#include "base/fork.h"
#include "base/line.h"
#include "base/sync.h"
#include "driver/frames.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

enum {
    SUSPECT_WORDS = sizeof(ph__suspect) / sizeof(uint64_t),
    NOTING_FRAMES = 8, /* more than lie between backtrace() and who notes */
    TRACE_BYTES = 4096
};
_Static_assert(sizeof(ph__suspect) % sizeof(uint64_t) == 0, "a note is copied in words");

/* A note is written and read in words, so that readers need no lock: state is twice its number
 * when it is whole, one less while it is being written; what was read is whole when the state is
 * the same before and after. */
typedef struct slot {
    atomic_uint_least64_t state;
    atomic_uint_least64_t words[SUSPECT_WORDS];
} slot;

static slot ring[PH__SUSPECTS];
static atomic_uint_least64_t next_number = 1;
static atomic_uint open_captures;

/* The parent's are not open here. */
static void forget_captures(void)
{
    atomic_store(&open_captures, 0);
}
PH__FORK_PART(.order = PH__FORK_DRIVERS, .child = forget_captures)

/* The first backtrace of a process loads and allocates. */
static void first_backtrace(void)
{
    void *frame;
    (void)ph__backtrace(&frame, 1);
}

void ph__suspects_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, first_backtrace);
}

void ph__suspects_open(void)
{
    ph__suspects_prepare();
    atomic_fetch_add(&open_captures, 1);
}

void ph__suspects_close(void)
{
    atomic_fetch_sub(&open_captures, 1);
}

uint64_t ph__suspects_next(void)
{
    return atomic_load(&next_number);
}

/* ---- writing ---- */

/* Never waits: where a newer note has come first, or a thread has not got on with its own for a
 * whole round, this one is lost. */
static void store_suspect(ph__suspect *note)
{
    uint64_t number = atomic_fetch_add(&next_number, 1);
    slot *at = &ring[number % PH__SUSPECTS];
    uint64_t state = atomic_load_explicit(&at->state, memory_order_relaxed);
    do {
        if (state % 2 != 0 || state > number * 2)
            return;
    } while (!atomic_compare_exchange_weak_explicit(&at->state, &state, number * 2 - 1,
                                                    memory_order_acq_rel, memory_order_relaxed));
    note->sequence = number;
    for (size_t i = 0; i < SUSPECT_WORDS; i++) {
        uint64_t word;
        memcpy(&word, (const char *)note + i * sizeof word, sizeof word);
        atomic_store_explicit(&at->words[i], word, memory_order_release); /* not before the state */
    }
    atomic_store_explicit(&at->state, number * 2, memory_order_release);
}

/* caller: where the noting was called from. */
static void capture_frames(ph__suspect *note, const void *caller)
{
    void *frames[PH__SUSPECT_FRAMES + NOTING_FRAMES];
    int count = ph__backtrace(frames, PH__SUSPECT_FRAMES + NOTING_FRAMES), first = 0;
    if (count == 0) { /* no backtraces here */
        memcpy(&frames[0], &caller, sizeof caller);
        count = 1;
    }
    while (first < count && frames[first] != caller)
        first++;
    if (first == count)
        first = 0; /* the caller was not found: rather too many frames than none */
    note->frame_count = count - first < PH__SUSPECT_FRAMES ? count - first : PH__SUSPECT_FRAMES;
    memcpy(note->frames, frames + first, (size_t)note->frame_count * sizeof frames[0]);
}

__attribute__((noinline)) void ph__suspect_note(uint64_t capture_id, const char *call, int result,
                                                const char *text)
{
    if (atomic_load_explicit(&open_captures, memory_order_acquire) == 0)
        return;
    int saved_errno = errno;
    ph__suspect note;
    memset(&note, 0, sizeof note);
    note.capture_id = capture_id;
    note.thread = ph__thread_id();
    (void)prctl(PR_GET_NAME, note.thread_name);
    note.result = result;
    ph__line_format(note.call, sizeof note.call, "%s", call);
    ph__line_format(note.text, sizeof note.text, "%s", text ? text : "");
    capture_frames(&note, __builtin_return_address(0));
    store_suspect(&note);
    errno = saved_errno;
}

/* ---- reading ---- */

static bool load_suspect(ph__suspect *out, uint64_t number)
{
    slot *at = &ring[number % PH__SUSPECTS];
    if (atomic_load_explicit(&at->state, memory_order_acquire) != number * 2)
        return false;
    for (size_t i = 0; i < SUSPECT_WORDS; i++) {
        /* the state after it */
        uint64_t word = atomic_load_explicit(&at->words[i], memory_order_acquire);
        memcpy((char *)out + i * sizeof word, &word, sizeof word);
    }
    return atomic_load_explicit(&at->state, memory_order_relaxed) == number * 2;
}

/* The first number that may still be in the ring. */
static uint64_t oldest_in_ring(uint64_t since, uint64_t next)
{
    uint64_t first = next > PH__SUSPECTS ? next - PH__SUSPECTS : 1;
    return since > first ? since : first;
}

size_t ph__suspects_read(ph__suspect *out, size_t capacity, uint64_t since)
{
    uint64_t next = ph__suspects_next();
    size_t count = 0;
    for (uint64_t number = oldest_in_ring(since, next); number < next && count < capacity; number++)
        count += load_suspect(&out[count], number);
    return count;
}

static bool is_invalidating(int result)
{
    return result == PH__R_CAPTURE_UNSUPPORTED ||
           (result >= PH__R_CAPTURE_MERGE && result <= PH__R_CAPTURED_EVENT);
}

/* The lower the more likely; 0: it was another capture's. */
static int rank_suspect(const ph__suspect *note, uint64_t capture_id, uint64_t owner_thread)
{
    if (note->capture_id != 0)
        return note->capture_id == capture_id ? 1 : 0;
    if (is_invalidating(note->result))
        return note->thread == owner_thread ? 2 : 3;
    return 4;
}

bool ph__suspects_blame(ph__suspect *out, uint64_t since, uint64_t capture_id,
                        uint64_t owner_thread)
{
    uint64_t next = ph__suspects_next();
    int best = 0;
    for (uint64_t number = oldest_in_ring(since, next); number < next && best != 1; number++) {
        ph__suspect note;
        int likely =
            load_suspect(&note, number) ? rank_suspect(&note, capture_id, owner_thread) : 0;
        if (likely != 0 && (best == 0 || likely < best)) {
            best = likely;
            *out = note;
        }
    }
    return best != 0;
}

/* ---- words ---- */

/* The driver's own words, where they say more than its number does. */
static bool has_explanation(const ph__suspect *suspect)
{
    return suspect->text[0] && strcmp(suspect->text, ph__result_text(suspect->result)) != 0;
}

size_t ph__suspect_describe(char *out, size_t size, const ph__suspect *suspect, int frames)
{
    char trace[TRACE_BYTES];
    ph__line_buffer to = {.out = out, .size = size};
    ph__line_add(&to, "%s (%d, %s%s%s) on ", suspect->call, suspect->result,
                 ph__result_name(suspect->result), has_explanation(suspect) ? ": " : "",
                 has_explanation(suspect) ? suspect->text : "");
    if (suspect->thread == ph__thread_id())
        ph__line_add(&to, "this thread");
    else if (suspect->thread_name[0])
        ph__line_add(&to, "thread \"%s\"", suspect->thread_name);
    else
        ph__line_add(&to, "thread %llu", (unsigned long long)suspect->thread);
    if (ph__frames_describe(trace, sizeof trace, suspect->frames, suspect->frame_count, frames,
                            true) > 0)
        ph__line_add(&to, ", from %s", trace);
    return to.length;
}
