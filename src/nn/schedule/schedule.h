/* SPDX-License-Identifier: MIT */
/* nn/schedule/schedule.h: schedules of learning rates as their files share them. */
#ifndef PH_NN_SCHEDULE_SCHEDULE_H
#define PH_NN_SCHEDULE_SCHEDULE_H
#include <phonograph/lr_schedule.h>

struct ph_lr_schedule {
    ph_optimizer *optimizer; /* retained */
    double *base;            /* of each group */
    size_t groups;
    uint64_t steps;
    size_t count;
    ph_lr_piece piece[]; /* every default in place */
};

/* Whether load would take the values; the schedule is left alone. */
ph_status ph__lr_schedule_check(const ph_lr_schedule *schedule, const ph_values *values);
#endif
