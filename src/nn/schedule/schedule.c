/* SPDX-License-Identifier: MIT */
/* nn/schedule/schedule.c: making schedules, their steps, and their state. */
#include "nn/schedule/schedule.h"
#include "base/alloc.h"
#include "base/status.h"
#include "nn/optimizer/optimizer.h"
#include "nn/schedule/rate.h"
#include "nn/values/values.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

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

static double rate_at_step(const ph_lr_schedule *schedule, double base, uint64_t step)
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

static ph_status check_groups(const ph_lr_schedule *schedule, const double *bases, uint64_t step,
                              ph_status status, const char *call)
{
    for (size_t g = 0; g < schedule->groups; g++)
        PH_TRY(check_step(schedule, bases[g], step, status, call));
    return PH_OK;
}

/* Of a step that was checked. */
static ph_status set_rates(const ph_lr_schedule *schedule, const double *bases, uint64_t step)
{
    for (size_t g = 0; g < schedule->groups; g++)
        PH_TRY(ph_optimizer_group_set_lr(schedule->optimizer, g,
                                         rate_at_step(schedule, bases[g], step)));
    return PH_OK;
}

static void drop_schedule(ph_lr_schedule *schedule)
{
    ph_optimizer_destroy(schedule->optimizer);
    ph__free(schedule->base);
    ph__free(schedule);
}

static ph_status read_bases(ph_lr_schedule *schedule, const char *call)
{
    schedule->base = ph__calloc(schedule->groups, sizeof *schedule->base);
    if (!schedule->base)
        return ph__fail_host_memory(call, "a schedule");
    for (size_t g = 0; g < schedule->groups; g++)
        schedule->base[g] = ph_optimizer_group_lr(schedule->optimizer, g);
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
    schedule->count = count;
    schedule->optimizer = ph__optimizer_retain(optimizer);
    schedule->groups = ph_optimizer_group_count(optimizer);
    ph_status status = read_bases(schedule, call);
    for (size_t i = 0; i < count && status == PH_OK; i++)
        status = ph__lr_piece_complete(&schedule->piece[i], &pieces[i], i, i + 1 == count, call);
    if (status == PH_OK)
        status = check_groups(schedule, schedule->base, 0, PH_ERROR_ARGUMENT, call);
    if (status == PH_OK)
        status = set_rates(schedule, schedule->base, 0);
    if (status == PH_OK)
        *out = schedule;
    else
        drop_schedule(schedule);
    return status;
}

void ph_lr_schedule_destroy(ph_lr_schedule *schedule)
{
    if (schedule)
        drop_schedule(schedule);
}

ph_status ph_lr_schedule_step(ph_lr_schedule *schedule)
{
    static const char call[] = "ph_lr_schedule_step";
    if (!schedule)
        return ph__fail_null(call, "schedule");
    uint64_t next = schedule->steps + 1;
    PH_TRY(check_groups(schedule, schedule->base, next, PH_ERROR_STATE, call));
    PH_TRY(set_rates(schedule, schedule->base, next));
    schedule->steps = next;
    return PH_OK;
}

uint64_t ph_lr_schedule_steps(const ph_lr_schedule *schedule)
{
    return schedule ? schedule->steps : 0;
}

double ph_lr_schedule_rate(const ph_lr_schedule *schedule, uint64_t step)
{
    return schedule ? rate_at_step(schedule, schedule->base[schedule->groups - 1], step) : 0;
}

/* ---- state ---- "steps", and the base of the last group as "base_lr"; those of the others as
 * "base_lr.0" and so on. */
static void name_base(char name[32], const ph_lr_schedule *schedule, size_t group)
{
    if (group + 1 == schedule->groups)
        (void)snprintf(name, 32, "base_lr");
    else
        (void)snprintf(name, 32, "base_lr.%zu", group);
}

ph_status ph_lr_schedule_save(const ph_lr_schedule *schedule, ph_values *values)
{
    char name[32];
    if (!schedule)
        return ph__fail_null("ph_lr_schedule_save", "schedule");
    PH_TRY(ph_values_set_integer(values, "steps", (int64_t)schedule->steps));
    for (size_t g = 0; g < schedule->groups; g++) {
        name_base(name, schedule, g);
        PH_TRY(ph_values_set_real(values, name, schedule->base[g]));
    }
    return PH_OK;
}

/* base NULL: the values are checked alone. */
static ph_status read_state(int64_t *steps, double *base, const ph_lr_schedule *schedule,
                            const ph_values *values)
{
    static const char call[] = "ph_lr_schedule_load";
    char name[32];
    if (!schedule)
        return ph__fail_null(call, "schedule");
    PH_TRY(ph_values_get_integer(steps, values, "steps"));
    (void)snprintf(name, sizeof name, "base_lr.%zu", schedule->groups - 1);
    if (ph__values_find(values, name))
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: there is %s: the values are of an optimizer with more groups than %zu",
                       call, name, schedule->groups);
    for (size_t g = 0; g < schedule->groups; g++) {
        double value;
        name_base(name, schedule, g);
        PH_TRY(ph_values_get_real(&value, values, name));
        if (*steps < 0 || !(value >= 0) || !isfinite(value))
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: steps is %" PRId64 " and %s %g; neither can be negative, or "
                           "infinite",
                           call, *steps, name, value);
        PH_TRY(check_step(schedule, value, (uint64_t)*steps, PH_ERROR_ARGUMENT, call));
        if (base)
            base[g] = value;
    }
    return PH_OK;
}

ph_status ph__lr_schedule_check(const ph_lr_schedule *schedule, const ph_values *values)
{
    int64_t steps;
    return read_state(&steps, NULL, schedule, values);
}

/* Checked first: later reads do not fail. */
ph_status ph_lr_schedule_load(ph_lr_schedule *schedule, const ph_values *values)
{
    int64_t steps;
    PH_TRY(read_state(&steps, NULL, schedule, values));
    PH_TRY(read_state(&steps, schedule->base, schedule, values));
    PH_TRY(set_rates(schedule, schedule->base, (uint64_t)steps));
    schedule->steps = (uint64_t)steps;
    return PH_OK;
}
