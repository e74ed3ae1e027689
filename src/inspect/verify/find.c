/* SPDX-License-Identifier: MIT */
/* inspect/verify/find.c: what a verification finds: equal or not, and then why, and the node. */
#include "inspect/verify/find.h"
#include "inspect/verify/body.h"
#include "inspect/verify/change.h"
#include "inspect/verify/compare.h"
#include "inspect/verify/held.h"
#include "inspect/verify/race.h"
#include "inspect/verify/run.h"
#include "inspect/verify/say.h"
#include "inspect/verify/second.h"
#include "inspect/verify/written.h"
#include "record/sparse.h"
#include <string.h>

/* ---- bisection ---- the node at which something shows: *shows tells whether it does after the
 * first `count` nodes; after none it does not, after all it does, or the last one is it. */
typedef ph_status probe(bool *shows, ph__difference *difference, ph__verify *verify, size_t count);

static ph_status bisect_nodes(size_t *node, ph__difference *difference, ph__verify *verify,
                              probe *ask)
{
    size_t without = 0, with = verify->switches.count;
    bool shows = false;
    while (with - without > 1) {
        size_t middle = without + (with - without) / 2;
        PH_TRY(ask(&shows, difference, verify, middle));
        *(shows ? &with : &without) = middle;
    }
    PH_TRY(ask(&shows, difference, verify, with));
    *node = shows ? with - 1 : SIZE_MAX;
    return PH_OK;
}

/* ---- poison ---- */
static ph_status both_poisons(bool *shows, ph__difference *difference, ph__verify *verify,
                              size_t count, bool rest, unsigned how)
{
    PH_TRY(
        ph__verify_part(verify, &verify->switches, count, rest, PH__POISON_NAN, &verify->replay));
    PH_TRY(
        ph__verify_part(verify, &verify->switches, count, rest, PH__POISON_NUMBER, &verify->other));
    *shows = ph__verify_compare(difference, verify, &verify->replay, &verify->other,
                                how | PH__COMPARE_POISONS);
    return PH_OK;
}

static ph_status poison_shows(bool *shows, ph__difference *difference, ph__verify *verify,
                              size_t count)
{
    return both_poisons(shows, difference, verify, count, false, PH__COMPARE_BYTES);
}

/* One after another where that can be, so that no race is taken for it. */
static ph_status judge_poison(bool *done, ph__verify *verify, bool serial)
{
    static const ph__verify_words words = {
        "reads memory of the capture that nothing has written before",
        "with poison that is not a number", "with poison that is one"};
    ph__difference difference, first;
    size_t node = SIZE_MAX;
    PH_TRY(both_poisons(done, &difference, verify, serial ? 0 : verify->switches.count, serial, 0));
    if (!*done)
        return PH_OK;
    PH_TRY(bisect_nodes(&node, &first, verify, poison_shows));
    verify->out->compared = difference.compared;
    ph__verify_say(verify, PH_VERIFY_POISON, node, node == SIZE_MAX ? &difference : &first, &words);
    return PH_OK;
}

/* ---- order ---- */
enum {
    TRIES = 3 /* of what goes wrong at times */
};

static ph_status add_race(ph__verify *verify)
{
    ph__race race;
    PH_TRY(ph__verify_find_race(&race, verify, (uintptr_t)verify->out->address));
    ph__verify_add_race(verify, &race);
    return PH_OK;
}

static ph_status at_once_differs(bool *shows, ph__difference *difference, ph__verify *verify,
                                 size_t count)
{
    *shows = false;
    for (int i = 0; i < TRIES && !*shows; i++) {
        PH_TRY(ph__verify_part(verify, &verify->switches, count, true, PH__POISON_NAN,
                               &verify->replay));
        *shows = ph__verify_compare(difference, verify, &verify->replay, &verify->eager, 0);
    }
    return PH_OK;
}

static ph_status judge_order(bool *done, ph__verify *verify, const ph__difference *seen)
{
    static const ph__verify_words words = {
        "gives another result together with those before it than after "
        "them: it lacks a dependency on one of them, or they on it",
        "at once", "one after another, as an eager run"};
    ph__difference difference;
    size_t node = SIZE_MAX;
    PH_TRY(ph__verify_part(verify, &verify->switches, 0, true, PH__POISON_NAN, &verify->replay));
    *done = !ph__verify_compare(&difference, verify, &verify->replay, &verify->eager, 0);
    if (!*done)
        return PH_OK;
    PH_TRY(bisect_nodes(&node, &difference, verify, at_once_differs));
    ph__verify_say(verify, PH_VERIFY_ORDER, node, node == SIZE_MAX ? seen : &difference, &words);
    return add_race(verify);
}

static ph_status eager_again(bool *differs, ph__difference *difference, ph__verify *verify)
{
    for (int i = 0; i < TRIES && !*differs; i++) {
        PH_TRY(ph__verify_eager(verify, &verify->other));
        *differs = ph__verify_compare(difference, verify, &verify->eager, &verify->other, 0);
    }
    return PH_OK;
}

static ph_status replays_again(bool *differs, ph__difference *difference, ph__verify *verify)
{
    PH_TRY(ph__verify_part(verify, &verify->switches, verify->switches.count, false, PH__POISON_NAN,
                           &verify->replay));
    for (int i = 0; i < TRIES && !*differs; i++) {
        PH_TRY(ph__verify_part(verify, &verify->switches, verify->switches.count, false,
                               PH__POISON_NAN, &verify->other));
        *differs = ph__verify_compare(difference, verify, &verify->replay, &verify->other, 0);
    }
    return PH_OK;
}

/* An eager run races as a replay does. Replays that differ with no race in sight are left to
 * those who look for the node. */
static ph_status judge_steadiness(bool *done, ph__verify *verify)
{
    static const ph__verify_words eager = {"the eager run itself is not the same twice",
                                           "in one run", "in another one from the same contents"},
                                  replays = {"the replay itself is not the same twice",
                                             "in one replay",
                                             "in another one from the same contents"};
    ph__difference difference;
    ph__race race;
    bool eager_differs = false, differs = false;
    *done = false;
    if (verify->steady)
        return PH_OK;
    PH_TRY(eager_again(&eager_differs, &difference, verify));
    if (!eager_differs && verify->prepared)
        PH_TRY(replays_again(&differs, &difference, verify));
    verify->steady = true;
    if (!eager_differs && !differs)
        return PH_OK;
    PH_TRY(ph__verify_find_race(&race, verify, difference.address));
    *done = eager_differs || race.one != SIZE_MAX;
    if (*done)
        ph__verify_say_unsteady(verify, &race, &difference, eager_differs ? &eager : &replays);
    return PH_OK;
}

static bool any_change(const ph__verify *verify)
{
    for (size_t i = 0; i < verify->switches.count; i++)
        if (ph__verify_is_changed(verify, i))
            return true;
    return false;
}

/* ---- the second capture ---- */
static ph_status captures_differ(bool *shows, ph__difference *difference, ph__verify *verify,
                                 size_t count)
{
    PH_TRY(
        ph__verify_part(verify, &verify->switches, count, false, PH__POISON_NAN, &verify->replay));
    PH_TRY(ph__verify_part(verify, &verify->second_switches, count, false, PH__POISON_NAN,
                           &verify->other));
    *shows =
        ph__verify_compare(difference, verify, &verify->replay, &verify->other, PH__COMPARE_BYTES);
    return PH_OK;
}

/* Other nodes, or other edges: no run is needed. */
static bool judge_structure(ph__verify *verify, const ph__difference *seen)
{
    bool same;
    size_t changed = ph__verify_first_change(&same, verify);
    if (same && changed == SIZE_MAX)
        return false;
    ph__verify_say_capture(verify, changed, seen);
    return true;
}

/* The same nodes with the same parameters give different results. */
static ph_status judge_same_nodes(bool *done, ph__verify *verify, const ph__difference *difference)
{
    static const ph__verify_words words = {"replays of the same nodes are not the same each time",
                                           "in one", "in another one from the same contents"};
    ph__race race;
    PH_TRY(judge_steadiness(done, verify));
    if (*done)
        return PH_OK;
    PH_TRY(ph__verify_find_race(&race, verify, difference->address));
    *done = race.one != SIZE_MAX;
    if (*done)
        ph__verify_say_unsteady(verify, &race, difference, &words);
    return PH_OK;
}

static ph_status judge_capture(bool *done, ph__verify *verify, const ph__difference *seen)
{
    static const ph__verify_words words = {"is the first whose result differs", "in the graph",
                                           "in a capture made now"};
    ph__difference difference;
    size_t node = SIZE_MAX;
    PH_TRY(captures_differ(done, &difference, verify, verify->switches.count));
    if (!*done)
        return PH_OK;
    PH_TRY(bisect_nodes(&node, &difference, verify, captures_differ));
    bool explained = node != SIZE_MAX && ph__verify_is_changed(verify, node);
    if (!explained) {
        PH_TRY(judge_same_nodes(done, verify, node == SIZE_MAX ? seen : &difference));
        if (*done)
            return PH_OK;
    }
    *done = true;
    ph__verify_say(verify, PH_VERIFY_NODE_DIFFERS, node, node == SIZE_MAX ? seen : &difference,
                   &words);
    if (node != SIZE_MAX)
        ph__verify_add_change(verify, node);
    return PH_OK;
}

/* ---- the whole ---- */
static ph_status make_switches(ph__verify *verify)
{
    if (verify->switches.graph)
        return PH_OK;
    PH_TRY(ph__switches_make(&verify->switches, verify->graph, verify->call));
    PH_TRY(ph__switches_make(&verify->second_switches, verify->second, verify->call));
    bool hosts = verify->switches.hosts && verify->second_switches.hosts;
    verify->switches.hosts = verify->second_switches.hosts = hosts;
    return PH_OK;
}

/* differs: the replay from the eager run; else two replays, with different poison, from one
 * another. */
static ph_status explain_difference(ph__verify *verify, const ph__difference *seen, bool differs,
                                    bool poison)
{
    static const ph__verify_words replays = {"", "in one replay",
                                             "in another one from the same contents"};
    bool done = false;
    if (differs && judge_structure(verify, seen))
        return PH_OK;
    PH_TRY(make_switches(verify));
    bool serial = verify->prepared && verify->switches.hosts;
    if (poison)
        PH_TRY(judge_poison(&done, verify, serial));
    if (!done && serial)
        PH_TRY(judge_order(&done, verify, seen));
    if (!done && !differs) {
        ph__verify_say(verify, PH_VERIFY_ORDER, SIZE_MAX, seen, &replays);
        return add_race(verify);
    }
    /* A parameter that changed is told as such, also where body counts its runs. */
    if (!done && !any_change(verify))
        PH_TRY(judge_steadiness(&done, verify));
    if (!done)
        PH_TRY(judge_capture(&done, verify, seen));
    if (!done)
        PH_TRY(judge_steadiness(&done, verify));
    return done ? PH_OK : ph__verify_judge_body(verify, seen);
}

/* The replay gives what the eager run gives. Of a capture made now that has other parameters
 * nothing is claimed that its own replay did not show. */
static ph_status judge_equal(ph__verify *verify, const ph__difference *seen,
                             const ph__written *written)
{
    ph__difference of_second;
    bool done = false;
    PH_TRY(ph__verify_try_second(verify, &of_second));
    if (verify->second_gives != PH__SECOND_OTHER || verify->other_nodes) {
        ph__verify_say_equal(verify, seen, written);
        return PH_OK;
    }
    PH_TRY(make_switches(verify));
    PH_TRY(judge_capture(&done, verify, &of_second));
    ph__verify_say_alternating(verify, done ? NULL : &of_second);
    ph__verify_add_hints(verify);
    return PH_OK;
}

/* How much is compared is known when it is known what eager runs write. */
static ph_status collect_written(ph__verify *verify, ph__written *written)
{
    ph__written_free(written);
    ph_status status = ph__verify_written(written, verify);
    verify->out->written = written->bytes;
    return status;
}

/* Possible races come before all comparisons: what races may go well, or wrong anywhere. */
static ph_status judge_races(bool *done, ph__verify *verify)
{
    ph__race race;
    *done = false;
    if (ph_races_count(verify->races, NULL) == 0)
        return PH_OK;
    PH_TRY(make_switches(verify));
    PH_TRY(ph__verify_find_race(&race, verify, 0));
    *done = race.proved;
    if (*done)
        ph__verify_say_proved(verify, &race);
    return ph__switches_restore(&verify->switches, verify->call);
}

static ph_status judge_written(ph__verify *verify, ph__written *written)
{
    ph__difference seen, with_poison;
    bool poison = false, found = false;
    PH_TRY(collect_written(verify, written));
    PH_TRY(judge_races(&found, verify));
    if (found)
        return PH_OK;
    PH_TRY(ph__verify_replay(verify, &verify->replay, PH__POISON_NAN));
    if (verify->options->output_count == 0)
        PH_TRY(ph__verify_inspect_held(verify, &found));
    if (found)
        PH_TRY(collect_written(verify, written));
    bool differs = ph__verify_compare(&seen, verify, &verify->replay, &verify->eager, 0);
    if (verify->prepared) {
        PH_TRY(ph__verify_replay(verify, &verify->other, PH__POISON_NUMBER));
        poison = ph__verify_compare(&with_poison, verify, &verify->replay, &verify->other,
                                    PH__COMPARE_POISONS);
    }
    if (!differs && !poison)
        return judge_equal(verify, &seen, written);
    verify->out->different = differs ? seen.different : with_poison.different;
    verify->out->compared = seen.compared;
    PH_TRY(explain_difference(verify, differs ? &seen : &with_poison, differs, poison));
    if (verify->out->verdict != PH_VERIFY_CAPTURE_DIFFERS && verify->out->node != SIZE_MAX)
        ph__verify_add_changes(verify, verify->out->node);
    ph__verify_add_hints(verify);
    return PH_OK;
}

ph_status ph__verify_judge(ph__verify *verify)
{
    ph__written written = {.bytes = 0};
    PH_TRY(ph__verify_eager(verify, &verify->eager));
    ph__verify_compare_held(verify);
    ph_status status = judge_written(verify, &written);
    ph__written_free(&written);
    return status;
}
