/* SPDX-License-Identifier: MIT */
/* tests/support/programs_make.c: makes random stream programs, and simulates them. */
#include "base/rng.h"
#include "support/programs.h"
#include <stdlib.h>
#include <string.h>

/* What has to be ordered against what: operations are numbered per stream, from 1; clocks say up
 * to which operation of each stream a stream, or an event, is known to come after. */
typedef struct clocks {
    int seen[T_STREAMS];
} clocks;

typedef struct maker {
    t_program *program;
    ph__rng rng;
    clocks stream[T_STREAMS]; /* its own entry: operations submitted */
    struct {
        int stream; /* -1: not recorded */
        clocks clock;
    } event[T_EVENTS];
    struct {
        bool live;
        int home; /* the stream that a temporary was allocated on */
        int writer, written;
        int read[T_STREAMS];
    } slot[T_SLOTS];
} maker;

static int pick(maker *m, int n)
{
    return (int)ph__rng_below(&m->rng, (uint64_t)n);
}

static t_step *add(maker *m, t_step_kind kind, int stream)
{
    t_step *step = &m->program->steps[m->program->count++];
    memset(step, 0, sizeof *step);
    step->kind = kind;
    step->stream = stream;
    step->value = (uint32_t)ph__rng_next(&m->rng);
    step->shift = (uint32_t)ph__rng_below(&m->rng, 1000);
    return step;
}

static void merge(clocks *into, const clocks *from)
{
    for (int t = 0; t < T_STREAMS; t++)
        if (from->seen[t] > into->seen[t])
            into->seen[t] = from->seen[t];
}

static void record(maker *m, int event, int stream)
{
    add(m, T_RECORD, stream)->event = event;
    m->event[event].stream = stream;
    m->event[event].clock = m->stream[stream];
}

static void wait_for(maker *m, int stream, int event)
{
    add(m, T_WAIT, stream)->event = event;
    merge(&m->stream[stream], &m->event[event].clock);
}

/* Puts `stream` behind operation `number` of stream `other`, in one of the ways there are. */
static void order(maker *m, int stream, int other, int number)
{
    if (stream == other || m->stream[stream].seen[other] >= number)
        return;
    for (int e = 0; e < T_EVENTS; e++)
        if (m->event[e].stream >= 0 && m->event[e].clock.seen[other] >= number && pick(m, 3)) {
            wait_for(m, stream, e);
            return;
        }
    if (pick(m, 2)) {
        add(m, T_WAIT_STREAM, stream)->other = other;
        merge(&m->stream[stream], &m->stream[other]);
        return;
    }
    int event = pick(m, T_EVENTS);
    record(m, event, other);
    wait_for(m, stream, event);
}

static void order_reading(maker *m, int stream, int slot)
{
    order(m, stream, m->slot[slot].writer, m->slot[slot].written);
}

static void order_writing(maker *m, int stream, int slot)
{
    order_reading(m, stream, slot);
    for (int t = 0; t < T_STREAMS; t++)
        order(m, stream, t, m->slot[slot].read[t]);
}

static void note_write(maker *m, int stream, int slot)
{
    m->slot[slot].writer = stream;
    m->slot[slot].written = m->stream[stream].seen[stream];
    memset(m->slot[slot].read, 0, sizeof m->slot[slot].read);
}

/* One operation on dst and, unless src is negative, src: ordered, added, noted. */
static void operate(maker *m, t_step_kind kind, int stream, int dst, int src)
{
    order_writing(m, stream, dst);
    if (src >= 0)
        order_reading(m, stream, src);
    t_step *step = add(m, kind, stream);
    step->dst = dst;
    step->src = src;
    int number = ++m->stream[stream].seen[stream];
    note_write(m, stream, dst);
    if (src >= 0)
        m->slot[src].read[stream] = number;
    if (pick(m, 3) == 0)
        record(m, pick(m, T_EVENTS), stream);
}

static int pick_live(maker *m, int not_this, bool kernels_only)
{
    for (;;) {
        int slot = pick(m, kernels_only ? T_DEVICE_SLOTS : T_SLOTS);
        if (slot != not_this && m->slot[slot].live)
            return slot;
    }
}

static bool on_device(int slot)
{
    return slot < T_DEVICE_SLOTS || slot >= T_FIXED_SLOTS;
}

static void allocate(maker *m, int stream, int slot)
{
    add(m, T_ALLOC, stream)->dst = slot;
    m->slot[slot].live = true;
    m->slot[slot].home = stream;
    m->stream[stream].seen[stream]++;
    note_write(m, stream, slot);
    if (pick(m, 2))
        operate(m, T_SET, stream, slot, -1);
    else
        operate(m, T_COPY, stream, slot, pick_live(m, slot, false));
}

/* Either the home stream waits for every other user, or the allocator is told of them. */
static void release(maker *m, int slot)
{
    int home = m->slot[slot].home;
    bool tell = pick(m, 2) != 0;
    for (int t = 0; t < T_STREAMS; t++) {
        int last = m->slot[slot].read[t];
        if (m->slot[slot].writer == t && m->slot[slot].written > last)
            last = m->slot[slot].written;
        if (t == home || last == 0 || m->stream[home].seen[t] >= last)
            continue;
        if (tell)
            add(m, T_USED_BY, t)->dst = slot;
        else
            order(m, home, t, last);
    }
    /* A writer of long ago is behind its successors, as they are ordered after it; the last ones
     * are handled above. */
    add(m, T_FREE, home)->dst = slot;
    m->slot[slot].live = false;
}

static void random_operation(maker *m, bool kernels_only)
{
    int stream = pick(m, T_STREAMS);
    if (!kernels_only && pick(m, 4) == 0) {
        int slot = T_FIXED_SLOTS + pick(m, T_TEMPORARIES);
        if (m->slot[slot].live)
            release(m, slot);
        else
            allocate(m, stream, slot);
        return;
    }
    int dst = pick_live(m, -1, kernels_only), src = pick_live(m, dst, kernels_only),
        what = pick(m, 8);
    if (kernels_only || (on_device(dst) && on_device(src) && what < 5))
        operate(m, T_MIX, stream, dst, src);
    else if (!on_device(dst) && what < 4)
        operate(m, T_HOST, stream, dst, -1);
    else if (what < 7)
        operate(m, T_COPY, stream, dst, src);
    else
        operate(m, T_SET, stream, dst, -1);
}

void t_program_make(t_program *program, uint64_t seed, size_t operations, bool kernels_only)
{
    maker m;
    memset(&m, 0, sizeof m);
    memset(program, 0, sizeof *program);
    m.program = program;
    m.rng.state = seed;
    program->n = 64 + ph__rng_below(&m.rng, 700);
    for (int e = 0; e < T_EVENTS; e++)
        m.event[e].stream = -1;
    for (int slot = 0; slot < T_FIXED_SLOTS; slot++)
        m.slot[slot].live = true;
    /* An operation adds at most 2 T_STREAMS orderings of two steps, itself and a record. */
    for (size_t i = 0; i < operations && program->count + 60 < T_STEPS; i++)
        random_operation(&m, kernels_only);
    for (int slot = T_FIXED_SLOTS; slot < T_SLOTS; slot++)
        if (m.slot[slot].live)
            release(&m, slot);
}

bool t_program_drop_wait(t_program *program, size_t k)
{
    for (size_t i = 0; i < program->count; i++) {
        t_step_kind kind = program->steps[i].kind;
        if ((kind != T_WAIT && kind != T_WAIT_STREAM) || k-- != 0)
            continue;
        program->count--;
        memmove(&program->steps[i], &program->steps[i + 1],
                (program->count - i) * sizeof program->steps[0]);
        return true;
    }
    return false;
}

/* ---- simulation ---- */
static void simulate(uint32_t *const *slot, const t_step *step, size_t n)
{
    uint32_t *dst = slot[step->dst];
    for (size_t i = 0; i < n; i++)
        switch (step->kind) {
        case T_MIX:
            dst[i] = 31 * dst[i] + slot[step->src][(i + step->shift) % n] + step->value;
            break;
        case T_COPY:
            dst[i] = slot[step->src][i];
            break;
        case T_SET:
            dst[i] = step->value;
            break;
        case T_HOST:
            dst[i] = 17 * dst[i] + step->value;
            break;
        default:
            return;
        }
}

void t_contents_make(t_contents *contents, const t_program *program, int runs)
{
    uint32_t *slot[T_SLOTS];
    for (int s = 0; s < T_SLOTS; s++) {
        slot[s] = calloc(program->n, sizeof **slot);
        assert_non_null(slot[s]);
        for (size_t i = 0; i < program->n; i++)
            slot[s][i] = (uint32_t)s + 1;
    }
    for (int run = 0; run < runs; run++)
        for (size_t i = 0; i < program->count; i++)
            simulate(slot, &program->steps[i], program->n);
    memcpy(contents->slot, slot, sizeof contents->slot);
    for (int s = T_FIXED_SLOTS; s < T_SLOTS; s++)
        free(slot[s]);
}

void t_contents_free(t_contents *contents)
{
    for (int s = 0; s < T_FIXED_SLOTS; s++)
        free(contents->slot[s]);
    memset(contents, 0, sizeof *contents);
}
