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
    ROUNDS = 7,
    WARM = 3, /* calls one behind the other */
    /* the same for what takes a millisecond or more, which differs less from call to call */
    LONG_ROUNDS = 3,
    LONG_WARM = 1,
    FRONT_BYTES = 64 << 20
};
static const float long_ms = 1;
/* Another proposal is taken where it needs less than this of the first one's time: so that noise
 * does not choose. */
static const float clearly = 0.98F;

/* A proposal comes behind a memset that is long enough for the stream to be full when it ends, so
 * that no submission is timed, and large enough that a GPU's cache holds no operands. The calls
 * behind that one find some of them there. In a program it is something in between: a product's
 * operand that was just made is there, its weight is not. So both count. Where there is no memory
 * for it the memset is left out. */
typedef struct timer {
    ph_stream *stream;
    ph_event *event[3]; /* before the first call, behind it, behind the last */
    void *front;
    int warm; /* calls behind the first */
} timer;

static ph_status open_timer(timer *t, ph_stream *stream)
{
    const ph_event_options options = {.timing = true};
    *t = (timer){.stream = stream, .warm = WARM};
    for (int i = 0; i < 3; i++)
        PH_TRY(ph_event_create(&t->event[i], ph_stream_device(stream), &options));
    t->front = ph__benchmark_memory(stream, FRONT_BYTES);
    return PH_OK;
}

static void close_timer(const timer *t)
{
    ph__benchmark_release(t->front, t->stream);
    for (int i = 0; i < 3; i++)
        ph_event_destroy(t->event[i]);
}

static ph_status submit_all(bool *done, const timer *t, int i, ph__benchmark_submit submit,
                            void *user)
{
    if (t->front)
        PH_TRY(ph_memset(t->front, 0, FRONT_BYTES, t->stream));
    PH_TRY(ph_event_record(t->event[0], t->stream));
    *done = submit(user, i);
    PH_TRY(ph_event_record(t->event[1], t->stream));
    for (int call = 0; call < t->warm && *done; call++)
        *done = submit(user, i);
    PH_TRY(ph_event_record(t->event[2], t->stream));
    return ph_event_synchronize(t->event[2]);
}

/* *done false: the proposal cannot be done. */
static ph_status time_proposal(float times[2], bool *done, const timer *t, int i,
                               ph__benchmark_submit submit, void *user)
{
    PH_TRY(submit_all(done, t, i, submit, user));
    PH_TRY(ph_event_elapsed(&times[0], t->event[0], t->event[1]));
    return ph_event_elapsed(&times[1], t->event[1], t->event[2]);
}

/* ---- the contest ---- */
typedef struct score {
    float least[2]; /* milliseconds of the first call, and of those behind it */
    bool competes;
} score;

static float smaller_time(float a, float b)
{
    return b < a ? b : a;
}

/* Each proposal once; the round of number -1 is not counted, as it loads code. */
static ph_status run_round(score *scores, const timer *t, int count, int round,
                           ph__benchmark_submit submit, void *user)
{
    for (int i = 0; i < count; i++) {
        score *s = &scores[i];
        float ms[2];
        if (!s->competes)
            continue;
        PH_TRY(time_proposal(ms, &s->competes, t, i, submit, user));
        if (round < 0)
            continue;
        s->least[0] = smaller_time(s->least[0], ms[0]);
        s->least[1] = smaller_time(s->least[1], ms[1] / (float)t->warm);
    }
    return PH_OK;
}

static float time_of_first(const score *scores, int count)
{
    for (int i = 0; i < count; i++)
        if (scores[i].competes)
            return scores[i].least[0];
    return 0;
}

static ph_status run_rounds(score *scores, timer *t, int count, ph__benchmark_submit submit,
                            void *user)
{
    int rounds = ROUNDS;
    for (int i = 0; i < count; i++)
        scores[i] = (score){{INFINITY, INFINITY}, true};
    for (int round = -1; round < rounds; round++) {
        PH_TRY(run_round(scores, t, count, round, submit, user));
        if (round == 0 && time_of_first(scores, count) >= long_ms) {
            rounds = LONG_ROUNDS;
            t->warm = LONG_WARM;
        }
    }
    return PH_OK;
}

static float time_of_score(const score *s)
{
    return s->competes ? s->least[0] + s->least[1] : INFINITY;
}

static int best_of(const score *scores, int count)
{
    int best = 0;
    for (int i = 1; i < count; i++)
        if (time_of_score(&scores[i]) < time_of_score(&scores[best]))
            best = i;
    if (!(time_of_score(&scores[best]) < clearly * time_of_score(&scores[0])))
        best = 0;
    return scores[best].competes ? best : -1;
}

int ph__benchmark_fastest(ph_stream *stream, int count, ph__benchmark_submit submit, void *user)
{
    score scores[PH__BENCHMARK_MOST];
    timer t;
    ph_error saved;
    ph__error_save(&saved);
    bool timed =
        open_timer(&t, stream) == PH_OK && run_rounds(scores, &t, count, submit, user) == PH_OK;
    close_timer(&t);
    ph__error_restore(&saved);
    return timed ? best_of(scores, count) : -1;
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
