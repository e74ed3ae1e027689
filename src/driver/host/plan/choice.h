/* SPDX-License-Identifier: MIT */
/* driver/host/plan/choice.h: when a plan runs in lanes: what was measured, and what follows from
 * it. Data only, nothing runs. */
#ifndef PH_DRIVER_HOST_PLAN_CHOICE_H
#define PH_DRIVER_HOST_PLAN_CHOICE_H
#include <stdbool.h>
#include <stdint.h>

typedef enum ph__choice_run {
    PH__RUN_PROFILE, /* serially, each node timed */
    PH__RUN_TIMED,   /* serially, timed as a whole */
    PH__RUN_SERIAL,  /* serially, no clock read */
    PH__RUN_LANES    /* timed as a whole */
} ph__choice_run;

typedef struct ph__choice {
    /* how many runs are timed node by node before a decision; 0 when lanes are out of the
     * question */
    uint32_t profiles;
    uint32_t profiles_left;
    bool serial_known, have_lanes;
    bool rejected;         /* lanes were thought of, and none was worth it */
    double profile_ns;     /* the shortest profile, which no serial run is longer than; 0: none */
    double predicted_ns;   /* of the schedule */
    double serial_ns;      /* a serial run as a whole, without the cost of timing */
    double lanes_ns[2];    /* a run in lanes; [1]: with the workers awake */
    uint32_t surprises;    /* serial runs in a row that took much longer or shorter than known */
    uint64_t serial_runs;  /* since one was timed */
    uint64_t lane_runs;    /* since a serial run was timed */
    uint64_t since_lanes;  /* serial runs since the last run in lanes ... */
    uint64_t retry_after;  /* ... after which lanes that did not pay are tried again */
    uint64_t doubted_runs; /* since the decision, which is made anew ... */
    uint64_t check_after;  /* ... after so many */
    uint32_t trials_left;
    /* Waking sleeping workers pays only when the next run comes while they are awake. */
    double credit, wake_price;
    bool woke;
    unsigned lanes;
} ph__choice;

void ph__choice_init(ph__choice *choice, bool lanes_possible);
/* The measurements no longer hold: measure again. once: one run is enough, since only a few
 * nodes have changed. */
void ph__choice_forget(ph__choice *choice, bool once);
ph__choice_run ph__choice_next(ph__choice *choice, bool awake);

/* Reports the duration of a run. One profile is enough, and counts as a timed run too, when it took
 * milliseconds. */
void ph__choice_profile_measured(ph__choice *choice, double ns);
void ph__choice_serial_measured(ph__choice *choice, double ns);
void ph__choice_lanes_measured(ph__choice *choice, double ns, bool awake);
/* A schedule was made: lanes 0 or 1 when none is possible. Where it takes longer than was
 * predicted, and where schedules were made and rejected, ph__choice_next asks for new profiles
 * and another decision: after 64 runs, and then twice as many each time, up to 16,384. */
void ph__choice_scheduled(ph__choice *choice, unsigned lanes, double predicted_ns);
void ph__choice_rejected(ph__choice *choice);
/* Whether a schedule that takes so long on `lanes` lanes is worth trying against the serial run. */
bool ph__choice_worth(const ph__choice *choice, double predicted_ns);
#endif
