/* SPDX-License-Identifier: MIT */
/* nn/schedule/schedule.c: making schedules, their steps, and their state. */
#include "nn/schedule/schedule.h"
#include "base/alloc.h"
#include "base/status.h"
#include "nn/optimizer/optimizer.h"
#include "nn/schedule/rate.h"
#include <inttypes.h>
#include <math.h>

enum {
    MOST_PIECES = 1024
};

/* The piece of a step; *t: the step in it. */
static const ph_lr_piece *piece_of(const ph_lr_schedule *schedule, uint64_t step, uint64_t *t)
{
    const ph_lr_piece *piece = schedule->piece, *last = piece + schedule->count - 1;
    for (; piece < last && step >= piece->length; piece++)
        step -= piece->length;
    *t = step;
    return piece;
}

static double rate(const ph_lr_schedule *schedule, double base, uint64_t step)
{
    uint64_t t;
    const ph_lr_piece *piece = piece_of(schedule, step, &t);
    return ph__lr_piece_rate(piece, base, t);
}

/* A rate that the optimizer takes. */
static ph_status check_step(const ph_lr_schedule *schedule, double base, uint64_t step,
                            ph_status status, const char *call)
{
    uint64_t t;
    const ph_lr_piece *piece = piece_of(schedule, step, &t);
    double lr = ph__lr_piece_rate(piece, base, t);
    if (piece->kind == PH_LR_ONE_CYCLE && t > piece->steps)
        return ph_fail(status,
                       "%s: step %" PRIu64 " is behind the end of a cycle of %" PRIu64
                       " steps, which has no rate there",
                       call, t, piece->steps);
    if (!(lr >= 0) || !isfinite(lr))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: the rate of step %" PRIu64 " would be %g", call,
                       step, lr);
    return PH_OK;
}

ph_status ph_lr_schedule_create(ph_lr_schedule **out, ph_optimizer *optimizer,
                                const ph_lr_piece *pieces, size_t count)
{
    static const char call[] = "ph_lr_schedule_create";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!optimizer)
        return ph__fail_null(call, "optimizer");
    if (!pieces)
        return ph__fail_null(call, "pieces");
    if (count == 0 || count > MOST_PIECES)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: takes 1 to %d pieces, not %zu", call, MOST_PIECES,
                       count);
    ph_lr_schedule *schedule = ph__calloc(1, sizeof *schedule + count * sizeof *pieces);
    if (!schedule)
        return ph__fail_host_memory(call, "a schedule");
    ph_status status = PH_OK;
    schedule->count = count;
    schedule->base = ph_optimizer_lr(optimizer);
    for (size_t i = 0; i < count && status == PH_OK; i++)
        status = ph__lr_piece_take(&schedule->piece[i], &pieces[i], i, i + 1 == count, call);
    if (status == PH_OK)
        status = check_step(schedule, schedule->base, 0, PH_ERROR_ARGUMENT, call);
    if (status == PH_OK)
        status = ph_optimizer_set_lr(optimizer, rate(schedule, schedule->base, 0));
    if (status != PH_OK) {
        ph__free(schedule);
        return status;
    }
    schedule->optimizer = ph__optimizer_retain(optimizer);
    *out = schedule;
    return PH_OK;
}

void ph_lr_schedule_destroy(ph_lr_schedule *schedule)
{
    if (!schedule)
        return;
    ph_optimizer_destroy(schedule->optimizer);
    ph__free(schedule);
}

ph_status ph_lr_schedule_step(ph_lr_schedule *schedule)
{
    static const char call[] = "ph_lr_schedule_step";
    if (!schedule)
        return ph__fail_null(call, "schedule");
    uint64_t next = schedule->steps + 1;
    PH_TRY(check_step(schedule, schedule->base, next, PH_ERROR_STATE, call));
    PH_TRY(ph_optimizer_set_lr(schedule->optimizer, rate(schedule, schedule->base, next)));
    schedule->steps = next;
    return PH_OK;
}

uint64_t ph_lr_schedule_steps(const ph_lr_schedule *schedule)
{
    return schedule ? schedule->steps : 0;
}

double ph_lr_schedule_rate(const ph_lr_schedule *schedule, uint64_t step)
{
    return schedule ? rate(schedule, schedule->base, step) : 0;
}

/* ---- state ---- */
ph_status ph_lr_schedule_save(const ph_lr_schedule *schedule, ph_values *values)
{
    if (!schedule)
        return ph__fail_null("ph_lr_schedule_save", "schedule");
    PH_TRY(ph_values_set_integer(values, "steps", (int64_t)schedule->steps));
    return ph_values_set_real(values, "base_lr", schedule->base);
}

typedef struct state {
    int64_t steps;
    double base;
} state;

static ph_status read_state(state *s, const ph_lr_schedule *schedule, const ph_values *values)
{
    static const char call[] = "ph_lr_schedule_load";
    if (!schedule)
        return ph__fail_null(call, "schedule");
    PH_TRY(ph_values_get_integer(&s->steps, values, "steps"));
    PH_TRY(ph_values_get_real(&s->base, values, "base_lr"));
    if (s->steps < 0 || !(s->base >= 0) || !isfinite(s->base))
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: steps is %" PRId64 " and base_lr %g; neither can be negative, or "
                       "infinite",
                       call, s->steps, s->base);
    return check_step(schedule, s->base, (uint64_t)s->steps, PH_ERROR_ARGUMENT, call);
}

ph_status ph__lr_schedule_check(const ph_lr_schedule *schedule, const ph_values *values)
{
    state s;
    return read_state(&s, schedule, values);
}

ph_status ph_lr_schedule_load(ph_lr_schedule *schedule, const ph_values *values)
{
    state s;
    PH_TRY(read_state(&s, schedule, values));
    PH_TRY(ph_optimizer_set_lr(schedule->optimizer, rate(schedule, s.base, (uint64_t)s.steps)));
    schedule->base = s.base;
    schedule->steps = (uint64_t)s.steps;
    return PH_OK;
}
