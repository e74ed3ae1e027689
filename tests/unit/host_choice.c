/* SPDX-License-Identifier: MIT */
/* tests/unit/host_choice.c: when a plan runs in lanes, fed with made-up times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/host/plan/choice.h"
#include "support/test.h"
#include <cmocka.h>

/* A machine: what a serial run and a run in lanes take on it, and whether workers are still
 * awake at the next run. */
typedef struct machine {
    double serial, lanes_awake, lanes_asleep;
    bool stays_awake, awake;
    uint64_t runs[4];
} machine;

static ph__choice_run run(ph__choice *c, machine *m)
{
    ph__choice_run how = ph__choice_next(c, m->awake);
    m->runs[how]++;
    bool was_awake = m->awake;
    m->awake = how == PH__RUN_LANES ? m->stays_awake : m->awake && m->stays_awake;
    if (how == PH__RUN_PROFILE)
        ph__choice_profile_measured(c, m->serial);
    else if (how == PH__RUN_TIMED)
        ph__choice_serial_measured(c, m->serial);
    else if (how == PH__RUN_LANES)
        ph__choice_lanes_measured(c, was_awake ? m->lanes_awake : m->lanes_asleep, was_awake);
    return how;
}

static void run_many(ph__choice *c, machine *m, int count)
{
    for (int i = 0; i < 4; i++)
        m->runs[i] = 0;
    for (int i = 0; i < count; i++)
        run(c, m);
}

/* Measured, and a schedule made that is said to take `predicted`. */
static void measured(ph__choice *c, machine *m, double predicted)
{
    ph__choice_init(c, true);
    while (!c->serial_known)
        run(c, m);
    assert_true(ph__choice_worth(c, predicted));
    ph__choice_scheduled(c, 2, predicted);
}

/* What a plan does with a choice: the first `disturbed` decisions are made of wrong costs. */
typedef struct decisions {
    double predicted[2], lanes[2]; /* of a schedule of wrong costs, and of right ones */
    unsigned disturbed, made;
    bool decided;
} decisions;

static void run_deciding(ph__choice *c, machine *m, decisions *d, int count)
{
    for (int i = 0; i < 4; i++)
        m->runs[i] = 0;
    for (int i = 0; i < count; i++) {
        if (!d->decided && c->serial_known) {
            const bool right = d->made++ >= d->disturbed;
            d->decided = true;
            m->lanes_awake = m->lanes_asleep = d->lanes[right];
            if (ph__choice_worth(c, d->predicted[right]))
                ph__choice_scheduled(c, 2, d->predicted[right]);
            else
                ph__choice_rejected(c);
        }
        if (run(c, m) == PH__RUN_PROFILE)
            d->decided = false;
    }
}

TEST(test_measures_first)
{
    ph__choice c;
    machine m = {.serial = 1e5};
    ph__choice_init(&c, true);
    for (int i = 0; i < 3; i++)
        assert_int_equal(run(&c, &m), PH__RUN_PROFILE);
    assert_int_equal(run(&c, &m), PH__RUN_TIMED);
    assert_true(c.serial_known);
    assert_int_equal(run(&c, &m), PH__RUN_SERIAL);
    assert_false(ph__choice_worth(&c, 99e3));
    assert_true(ph__choice_worth(&c, 50e3));
    ph__choice_init(&c, false); /* no workers: only the whole is timed */
    assert_int_equal(run(&c, &m), PH__RUN_TIMED);
    assert_int_equal(run(&c, &m), PH__RUN_SERIAL);
    m.serial = 1e8; /* long: one look is enough */
    ph__choice_init(&c, true);
    assert_int_equal(run(&c, &m), PH__RUN_PROFILE);
    assert_true(c.serial_known);
}

TEST(test_lanes_that_pay_are_kept)
{
    ph__choice c;
    machine m = {.serial = 1e6, .lanes_awake = 6e5, .lanes_asleep = 65e4, .stays_awake = true};
    measured(&c, &m, 5e5);
    run_many(&c, &m, 10000);
    assert_true(m.runs[PH__RUN_LANES] > 9900);
    assert_in_range(m.runs[PH__RUN_TIMED], 10, 100); /* the serial time is looked at now and then */
    assert_int_equal(m.runs[PH__RUN_PROFILE], 0);
}

TEST(test_lanes_that_do_not_pay_are_left)
{
    ph__choice c;
    machine m = {.serial = 1e6, .stays_awake = true};
    decisions d = {.predicted = {5e5, 5e5}, .lanes = {2e6, 2e6}};
    ph__choice_init(&c, true);
    run_deciding(&c, &m, &d, 100000);
    assert_in_range(m.runs[PH__RUN_LANES], 1, 100);
    m.lanes_awake = m.lanes_asleep = d.lanes[1] = 6e5; /* the other processor is free again */
    run_deciding(&c, &m, &d, 100000);
    assert_true(m.runs[PH__RUN_LANES] > 80000);
}

TEST(test_wakes_only_for_what_follows)
{
    ph__choice c;
    machine m = {.serial = 3e4, .lanes_awake = 16e3, .lanes_asleep = 56e3, .stays_awake = true};
    measured(&c, &m, 15e3);
    run_many(&c, &m, 1000); /* one after the other: woken once, then awake */
    assert_true(m.runs[PH__RUN_LANES] > 950);
    m.stays_awake = m.awake = false; /* with pauses between: a wake is never worth it */
    measured(&c, &m, 15e3);
    run_many(&c, &m, 10000);
    assert_true(m.runs[PH__RUN_LANES] < 60);
}

/* A run in lanes that another program interrupted says nothing of the next ones. */
TEST(lanes_are_kept_when_one_run_is_interrupted)
{
    ph__choice c;
    machine m = {.serial = 58e3, .lanes_awake = 4e4, .lanes_asleep = 4e4, .stays_awake = true},
            interrupted = m;
    interrupted.lanes_awake = interrupted.lanes_asleep = 1e6;
    measured(&c, &m, 36e3);
    run_many(&c, &m, 100);
    uint64_t lanes = 0;
    for (int i = 0; i < 20; i++) {
        interrupted.awake = true;
        run(&c, &interrupted);
        run_many(&c, &m, 100);
        lanes += m.runs[PH__RUN_LANES];
    }
    assert_true(lanes > 1950);
}

/* Pauses that end: that wakes were in vain for long does not keep lanes from what follows. */
TEST(wakes_are_tried_again_when_they_were_in_vain)
{
    ph__choice c;
    machine m = {.serial = 58e3, .lanes_awake = 4e4, .lanes_asleep = 9e4};
    measured(&c, &m, 36e3);
    run_many(&c, &m, 20000);
    m.stays_awake = true;
    run_many(&c, &m, 2000);
    assert_true(m.runs[PH__RUN_LANES] > 1500);
}

TEST(test_changed_bodies_are_noticed)
{
    ph__choice c;
    machine m = {.serial = 1e6, .lanes_awake = 6e5, .lanes_asleep = 65e4, .stays_awake = true};
    measured(&c, &m, 5e5);
    run_many(&c, &m, 100);
    m.serial = 1e5;
    m.lanes_awake = m.lanes_asleep = 3e5;
    run_many(&c, &m, 5000);
    assert_true(m.runs[PH__RUN_PROFILE] > 0);
    assert_false(c.have_lanes);
    assert_true(c.serial_ns < 2e5);
}

TEST(test_one_interruption_is_not_a_change)
{
    ph__choice c;
    machine m = {.serial = 1e5};
    ph__choice_init(&c, true);
    run_many(&c, &m, 100);
    for (int i = 0; i < 50; i++) {
        ph__choice_serial_measured(&c, 1e7);
        ph__choice_serial_measured(&c, 1e5);
    }
    assert_true(c.serial_known);
    assert_true(c.serial_ns < 2e5);
}

/* Of another program on its processor. Nothing makes a run shorter than it is. */
TEST(a_first_serial_run_that_was_interrupted_does_not_keep_lanes)
{
    for (int profiles_too = 0; profiles_too < 2; profiles_too++) {
        ph__choice c;
        machine busy = {.serial = profiles_too ? 1e6 : 1e5},
                m = {.serial = 1e5, .lanes_awake = 3e5, .lanes_asleep = 3e5, .stays_awake = true};
        ph__choice_init(&c, true);
        for (int i = 0; i < 3; i++)
            assert_int_equal(run(&c, &busy), PH__RUN_PROFILE);
        busy.serial = 1e6;
        assert_int_equal(run(&c, &busy), PH__RUN_TIMED);
        assert_true(ph__choice_worth(&c, 6e4));
        ph__choice_scheduled(&c, 2, 6e4);
        run_many(&c, &m, 1000);
        assert_true(m.runs[PH__RUN_LANES] < 100);
        assert_true(c.serial_ns < 12e4);
    }
}

/* ---- decisions that are made anew ---- */
TEST(lanes_that_were_rejected_are_thought_of_again)
{
    ph__choice c;
    machine m = {.serial = 1e6, .stays_awake = true};
    decisions d = {.predicted = {95e4, 5e5}, .lanes = {95e4, 55e4}, .disturbed = 1};
    ph__choice_init(&c, true);
    run_deciding(&c, &m, &d, 100);
    assert_int_equal(d.made, 2);
    assert_int_equal(m.runs[PH__RUN_PROFILE], 6);
    run_deciding(&c, &m, &d, 10000);
    assert_true(m.runs[PH__RUN_LANES] > 9900);
    assert_int_equal(m.runs[PH__RUN_PROFILE], 0); /* as was predicted */
}

TEST(schedules_of_wrong_costs_are_made_again)
{
    ph__choice c;
    machine m = {.serial = 1e6, .stays_awake = true};
    decisions d = {.predicted = {5e5, 5e5}, .lanes = {97e4, 55e4}, .disturbed = 2};
    ph__choice_init(&c, true);
    run_deciding(&c, &m, &d, 500);
    assert_int_equal(d.made, 3);
    run_deciding(&c, &m, &d, 10000);
    assert_true(m.runs[PH__RUN_LANES] > 9900);
    assert_int_equal(m.runs[PH__RUN_PROFILE], 0);
}

/* Of a graph whose nodes follow each other, and of lanes that hinder each other. */
TEST(decisions_that_stay_cost_little)
{
    const decisions kinds[] = {{.predicted = {1e6, 1e6}, .lanes = {1e6, 1e6}},
                               {.predicted = {5e5, 5e5}, .lanes = {8e5, 8e5}},
                               {.predicted = {5e5, 5e5}, .lanes = {2e6, 2e6}}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        ph__choice c;
        machine m = {.serial = 1e6, .stays_awake = true};
        decisions d = kinds[i];
        ph__choice_init(&c, true);
        run_deciding(&c, &m, &d, 100000);
        assert_in_range(d.made, 1 + 8, 1 + 14);
        assert_int_equal(m.runs[PH__RUN_PROFILE], 3 * d.made);
        if (i == 1)
            assert_true(m.runs[PH__RUN_LANES] > 95000);
        else
            assert_true(m.runs[PH__RUN_LANES] < 200);
    }
}

TEST(a_choice_that_was_forgotten_is_measured_again)
{
    ph__choice c;
    machine m = {.serial = 1e6, .lanes_awake = 5e5, .lanes_asleep = 5e5};
    measured(&c, &m, 5e5);
    ph__choice_forget(&c, true);
    assert_false(c.have_lanes);
    assert_int_equal(run(&c, &m), PH__RUN_PROFILE);
    assert_int_equal(run(&c, &m), PH__RUN_TIMED);
    assert_int_equal(run(&c, &m), PH__RUN_SERIAL);
    ph__choice_init(&c, false);
    ph__choice_forget(&c, false);
    assert_int_equal(run(&c, &m), PH__RUN_TIMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_measures_first),
        cmocka_unit_test(test_lanes_that_pay_are_kept),
        cmocka_unit_test(test_lanes_that_do_not_pay_are_left),
        cmocka_unit_test(test_wakes_only_for_what_follows),
        cmocka_unit_test(lanes_are_kept_when_one_run_is_interrupted),
        cmocka_unit_test(wakes_are_tried_again_when_they_were_in_vain),
        cmocka_unit_test(test_changed_bodies_are_noticed),
        cmocka_unit_test(test_one_interruption_is_not_a_change),
        cmocka_unit_test(a_first_serial_run_that_was_interrupted_does_not_keep_lanes),
        cmocka_unit_test(lanes_that_were_rejected_are_thought_of_again),
        cmocka_unit_test(schedules_of_wrong_costs_are_made_again),
        cmocka_unit_test(decisions_that_stay_cost_little),
        cmocka_unit_test(a_choice_that_was_forgotten_is_measured_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
