/* SPDX-License-Identifier: MIT */
/* phonograph/lr_schedule.h: learning rates that follow a plan, step by step, by the formulas of
 * torch.optim.lr_scheduler. */
#ifndef PHONOGRAPH_LR_SCHEDULE_H
#define PHONOGRAPH_LR_SCHEDULE_H
#include <phonograph/optimizer.h>
#include <phonograph/values.h>

PH_BEGIN_DECLS

/* With the step t of the piece, from 0, and the rate of each parameter group at the creation as its
 * base:
 *
 * - CONSTANT (ConstantLR): base * start_factor before step `steps`, then base;
 * - LINEAR (LinearLR): base times a factor that goes from start_factor to end_factor in `steps`
 *   steps, and stays there: a warm-up;
 * - COSINE (CosineAnnealingLR): from base to eta_min along half a cosine in `steps` steps; behind
 *   them it goes up again;
 * - STEP (StepLR): base * gamma^(t / steps, rounded down);
 * - ONE_CYCLE (OneCycleLR, without momenta): max_lr / div_factor, up to max_lr, and down to the
 *   first rate / final_div_factor, in `steps` steps; base has no part in it. A step behind them
 *   keeps the last rate (PyTorch's goes up again), a second one is refused (STATE). */
typedef enum ph_lr_kind {
    PH_LR_CONSTANT = 1,
    PH_LR_LINEAR = 2,
    PH_LR_COSINE = 3,
    PH_LR_STEP = 4,
    PH_LR_ONE_CYCLE = 5
} ph_lr_kind;

/* 0 is the default of members that a comment gives one, PH_ZERO the number zero. Members that the
 * kind does not name must be 0. Errors: ARGUMENT. */
typedef struct ph_lr_piece {
    ph_lr_kind kind;
    uint64_t steps; /* at least 1 */
    /* steps before the next piece begins, from its own step 0 (SequentialLR's milestones); 0: as
     * `steps` has it; of the last piece 0 */
    uint64_t length;
    double start_factor;                 /* CONSTANT, LINEAR; 0: 1/3 */
    double end_factor;                   /* LINEAR; 0: 1 */
    double eta_min;                      /* COSINE */
    double gamma;                        /* STEP; 0: 0.1 */
    double max_lr;                       /* ONE_CYCLE, like all below; above 0 */
    double pct_start;                    /* the part of the steps that goes up; 0: 0.3 */
    double div_factor, final_div_factor; /* 0: 25, 1e4 */
    bool linear_anneal;                  /* straight lines instead of cosines */
    bool three_phase; /* down to the first rate in as many steps as up, then to the last */
    uint64_t reserved[4];
} ph_lr_piece;

/* One piece, or several behind each other. create sets the rates of all groups to those of step 0,
 * and keeps the optimizer until destroy; it changes nothing when it fails. Externally
 * synchronised. Legal in a capture: a rate is a cell, which the next replay takes. */
typedef struct ph_lr_schedule ph_lr_schedule;
PH_CALL ph_lr_schedule_create(ph_lr_schedule **out, ph_optimizer *optimizer,
                              const ph_lr_piece *pieces, size_t count);
PH_API void ph_lr_schedule_destroy(ph_lr_schedule *schedule); /* takes NULL */
/* After a step of the optimizer, or a replay with one: sets the rate of the next. */
PH_CALL ph_lr_schedule_step(ph_lr_schedule *schedule);
PH_API uint64_t ph_lr_schedule_steps(const ph_lr_schedule *schedule); /* made so far */
/* The rate of any step, from 0: of the last group, as ph_optimizer_lr. */
PH_API double ph_lr_schedule_rate(const ph_lr_schedule *schedule, uint64_t step);

/* "steps" and "base_lr", of other groups than the last "base_lr.0" and so on; the pieces are not in
 * it. load: sets the optimizer's rates too. Changes nothing when it fails: a value that is missing
 * (NOT_FOUND), of another type (MISMATCH), or that this schedule cannot have (ARGUMENT). */
PH_CALL ph_lr_schedule_save(const ph_lr_schedule *schedule, ph_values *values);
PH_CALL ph_lr_schedule_load(ph_lr_schedule *schedule, const ph_values *values);

PH_END_DECLS
#endif
