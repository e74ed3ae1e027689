/* SPDX-License-Identifier: MIT */
/* driver/host/plan/choice.c: lanes or not, decided from measured times and checked against them
 * ever after. */
#include "driver/host/plan/choice.h"
#include <string.h>

#define START_AWAKE_NS  500.0   /* a job handed to spinning workers and back */
#define START_ASLEEP_NS 40000.0 /* the same with a wake in between */
#define WORTH           0.85    /* of the serial time: more is not worth the second processor */
#define KEEP            0.9
#define DOUBTED         1.25 /* of the predicted time: the schedule may be of wrong costs */
#define MOST_WAKE_PRICE 5e6  /* a wake in vain costs some hundredth of that */
#define OUTLIER         2.5 /* of the usual time: more was an interruption, and counts as so much */
#define LONG_NS         5e6 /* of a profile */

enum {
    PROFILES = 3,
    TIMED_EVERY = 32, /* serial runs, one of which is timed */
    /* runs in lanes for each lane, after which the serial time is looked at again */
    SERIAL_EVERY = 128,
    /* the same while lanes take far longer than was predicted: something is wrong, perhaps the
     * serial time */
    SERIAL_SOON = 16,
    TRIALS = 4,
    FIRST_RETRY = 64,
    LAST_RETRY = 16384,
    SURPRISES = 3
};

static uint64_t next_retry(uint64_t after)
{
    return after < LAST_RETRY ? after * 2 : after;
}

void ph__choice_init(ph__choice *choice, bool lanes_possible)
{
    memset(choice, 0, sizeof *choice);
    choice->profiles = choice->profiles_left = lanes_possible ? PROFILES : 0;
    choice->wake_price = START_ASLEEP_NS;
    choice->retry_after = choice->check_after = FIRST_RETRY;
}

static void measure_again(ph__choice *choice, uint32_t profiles)
{
    if (choice->profiles_left < profiles)
        choice->profiles_left = profiles;
    choice->serial_known = choice->have_lanes = choice->rejected = false;
    choice->profile_ns = 0;
    choice->surprises = choice->trials_left = 0;
}

void ph__choice_forget(ph__choice *choice, bool once)
{
    measure_again(choice, once && choice->profiles > 1 ? 1 : choice->profiles);
    choice->retry_after = choice->check_after = FIRST_RETRY;
}

/* The profiles that a decision was made of may have been disturbed in some nodes, by so little that
 * no later run surprises: lanes were rejected, or take longer than was predicted. Both may be
 * right, too: each check comes after twice as many runs as the one before. It takes as many
 * profiles as the first, since nothing shows which of the old costs still hold. */
static bool checks_again(ph__choice *choice, bool awake)
{
    const double start = awake ? START_AWAKE_NS : START_ASLEEP_NS;
    const bool doubted =
        choice->rejected ||
        (choice->have_lanes && choice->lanes_ns[awake] > DOUBTED * (choice->predicted_ns + start));
    if (!doubted || ++choice->doubted_runs < choice->check_after)
        return false;
    choice->check_after = next_retry(choice->check_after);
    measure_again(choice, choice->profiles);
    return true;
}

/* Serial because the workers sleep: what is lost by that pays for waking them, sooner or later. */
static bool worth_waking(ph__choice *choice)
{
    if (choice->lanes_ns[1] >= choice->serial_ns * KEEP)
        return false;
    choice->credit += choice->serial_ns - choice->lanes_ns[1];
    if (choice->credit < choice->wake_price)
        return false;
    choice->credit = 0;
    choice->woke = true;
    return true;
}

static bool lanes_pay(ph__choice *choice, bool awake)
{
    if (choice->woke) {
        choice->woke = false;
        if (awake)
            choice->wake_price = START_ASLEEP_NS;
        else if (choice->wake_price < MOST_WAKE_PRICE)
            choice->wake_price *= 2;
    }
    if (choice->trials_left > 0)
        return true;
    if (choice->lanes_ns[awake] < choice->serial_ns * KEEP)
        return true;
    if (choice->since_lanes >= choice->retry_after) {
        choice->retry_after = next_retry(choice->retry_after);
        choice->trials_left = TRIALS;
        return true;
    }
    return !awake && worth_waking(choice);
}

ph__choice_run ph__choice_next(ph__choice *choice, bool awake)
{
    if (choice->profiles_left > 0 || checks_again(choice, awake))
        return PH__RUN_PROFILE;
    if (!choice->serial_known)
        return PH__RUN_TIMED;
    bool far = choice->lanes_ns[awake] > 2 * (choice->predicted_ns + START_AWAKE_NS);
    bool due = choice->have_lanes &&
               choice->lane_runs >= (uint64_t)(far ? SERIAL_SOON : SERIAL_EVERY) * choice->lanes;
    if (choice->have_lanes && !due && lanes_pay(choice, awake)) {
        choice->lane_runs++;
        choice->since_lanes = 0;
        return PH__RUN_LANES;
    }
    choice->since_lanes++;
    return due || ++choice->serial_runs >= TIMED_EVERY ? PH__RUN_TIMED : PH__RUN_SERIAL;
}

void ph__choice_profile_measured(ph__choice *choice, double ns)
{
    choice->profiles_left--;
    if (choice->profile_ns == 0 || ns < choice->profile_ns)
        choice->profile_ns = ns;
    if (ns < LONG_NS)
        return;
    choice->profiles_left = 0;
    ph__choice_serial_measured(choice, ns);
}

/* One run that took much longer was interrupted; several in a row mean that the bodies have
 * changed. One that took much shorter says so at once, or that what is known was interrupted:
 * nothing makes a run shorter than it is. */
void ph__choice_serial_measured(ph__choice *choice, double ns)
{
    choice->serial_runs = choice->lane_runs = 0;
    if (!choice->serial_known) {
        choice->serial_known = true;
        choice->serial_ns =
            choice->profile_ns > 0 && choice->profile_ns < ns ? choice->profile_ns : ns;
        return;
    }
    if (ns < choice->serial_ns / 1.5 - 100) {
        ph__choice_forget(choice, false);
        return;
    }
    if (ns > choice->serial_ns * 1.5 + 100) {
        if (++choice->surprises >= SURPRISES)
            ph__choice_forget(choice, false);
        return;
    }
    choice->surprises = 0;
    choice->serial_ns += (ns - choice->serial_ns) / 8;
}

void ph__choice_lanes_measured(ph__choice *choice, double ns, bool awake)
{
    double *known = &choice->lanes_ns[awake];
    if (choice->trials_left > 0) {
        *known = choice->trials_left == TRIALS || ns < *known ? ns : *known;
        choice->trials_left--;
        return;
    }
    if (ns > OUTLIER * *known)
        ns = OUTLIER * *known;
    *known += (ns - *known) / 8;
    if (*known < choice->serial_ns * WORTH && ns < choice->serial_ns * WORTH)
        choice->retry_after = FIRST_RETRY;
}

bool ph__choice_worth(const ph__choice *choice, double predicted_ns)
{
    return predicted_ns + START_AWAKE_NS < choice->serial_ns * WORTH;
}

void ph__choice_scheduled(ph__choice *choice, unsigned lanes, double predicted_ns)
{
    choice->have_lanes = lanes > 1;
    choice->rejected = false;
    choice->lanes = lanes;
    choice->predicted_ns = predicted_ns;
    choice->lanes_ns[0] = predicted_ns + START_ASLEEP_NS;
    choice->lanes_ns[1] = predicted_ns + START_AWAKE_NS;
    choice->lane_runs = choice->since_lanes = choice->doubted_runs = 0;
    choice->credit = 0;
}

void ph__choice_rejected(ph__choice *choice)
{
    ph__choice_scheduled(choice, 1, 0);
    choice->rejected = true;
}
