/* SPDX-License-Identifier: MIT */
/* tensor/backend/benchmark.c: times proposals by events, where ph_set_benchmark asks for it. */
#include "tensor/backend/benchmark.h"
#include "base/status.h"
#include <math.h>
#include <phonograph/operators.h>
#include <stdatomic.h>

static atomic_bool benchmark;

void ph_set_benchmark(bool on)
{
    atomic_store_explicit(&benchmark, on, memory_order_relaxed);
}

bool ph_benchmark(void)
{
    return atomic_load_explicit(&benchmark, memory_order_relaxed);
}

/* ---- memory ---- */
void *ph__benchmark_memory(ph_stream *stream, size_t bytes)
{
    void *made = NULL;
    ph_error saved;
    ph__error_save(&saved);
    if (ph_malloc(&made, bytes, 1, stream) == PH_OK && ph_memset(made, 0, bytes, stream) != PH_OK) {
        ph_free(made, stream);
        made = NULL;
    }
    ph__error_restore(&saved);
    return made;
}

void ph__benchmark_release(void *memory, ph_stream *stream)
{
    ph_free(memory, stream);
}

/* ---- one measurement ---- */
enum {
    ROUNDS = 5,
    FRONT_BYTES = 64 << 20
};
/* Another proposal is taken where it needs less than this of the first one's time: so that noise
 * does not choose. */
static const float clearly = 0.98F;

/* A proposal comes behind a memset that is long enough for the stream to be full when it ends, and
 * large enough that a GPU's cache holds no operands: so its submission is not timed, and none is at
 * an advantage. Where there is no such memory the memset is left out. */
typedef struct timer {
    ph_stream *stream;
    ph_event *start, *end;
    void *front;
} timer;

static ph_status open_timer(timer *t, ph_stream *stream)
{
    const ph_event_options options = {.timing = true};
    *t = (timer){.stream = stream};
    PH_TRY(ph_event_create(&t->start, ph_stream_device(stream), &options));
    PH_TRY(ph_event_create(&t->end, ph_stream_device(stream), &options));
    t->front = ph__benchmark_memory(stream, FRONT_BYTES);
    return PH_OK;
}

static void close_timer(const timer *t)
{
    ph__benchmark_release(t->front, t->stream);
    ph_event_destroy(t->start);
    ph_event_destroy(t->end);
}

/* *done false: the proposal cannot be done. */
static ph_status time_proposal(float *out, bool *done, const timer *t, int i,
                               ph__benchmark_submit submit, void *user)
{
    if (t->front)
        PH_TRY(ph_memset(t->front, 0, FRONT_BYTES, t->stream));
    PH_TRY(ph_event_record(t->start, t->stream));
    *done = submit(user, i);
    PH_TRY(ph_event_record(t->end, t->stream));
    PH_TRY(ph_event_synchronize(t->end));
    return ph_event_elapsed(out, t->start, t->end);
}

/* ---- the contest ---- */
/* The first round is not counted: it loads code. */
static ph_status run_rounds(float *least, const timer *t, int count, ph__benchmark_submit submit,
                            void *user)
{
    bool competes[PH__BENCHMARK_MOST];
    for (int i = 0; i < count; i++) {
        competes[i] = true;
        least[i] = INFINITY;
    }
    for (int round = -1; round < ROUNDS; round++)
        for (int i = 0; i < count; i++) {
            float ms;
            if (!competes[i])
                continue;
            PH_TRY(time_proposal(&ms, &competes[i], t, i, submit, user));
            if (round >= 0 && ms < least[i])
                least[i] = ms;
            if (!competes[i])
                least[i] = INFINITY;
        }
    return PH_OK;
}

static int least_of(const float *ms, int count)
{
    int best = 0;
    for (int i = 1; i < count; i++)
        if (ms[i] < ms[best])
            best = i;
    if (best > 0 && !(ms[best] < clearly * ms[0]))
        best = 0;
    return ms[best] < INFINITY ? best : -1;
}

int ph__benchmark_fastest(ph_stream *stream, int count, ph__benchmark_submit submit, void *user)
{
    float least[PH__BENCHMARK_MOST];
    timer t;
    ph_error saved;
    ph__error_save(&saved);
    bool timed =
        open_timer(&t, stream) == PH_OK && run_rounds(least, &t, count, submit, user) == PH_OK;
    close_timer(&t);
    ph__error_restore(&saved);
    return timed ? least_of(least, count) : -1;
}

/* ---- when ---- */
/* A question about an event is refused by the same captures as a wait for one. */
static bool waiting_is_legal(ph_device *device)
{
    bool done;
    ph_event *event = NULL;
    ph_error saved;
    ph__error_save(&saved);
    bool legal =
        ph_event_create(&event, device, NULL) == PH_OK && ph_event_query(&done, event) == PH_OK;
    ph_event_destroy(event);
    ph__error_restore(&saved);
    return legal;
}

bool ph__benchmark_wanted(ph_stream *stream)
{
    return ph_benchmark() && !ph_stream_is_capturing(stream) &&
           !ph_device_is_capturing(ph_stream_device(stream)) &&
           waiting_is_legal(ph_stream_device(stream));
}
