/* SPDX-License-Identifier: MIT */
/* inspect/verify_find.c: what a verification finds: equal or not, and then why, and the node. */
#include "inspect/verify.h"
#include <string.h>

/* ---- bisection ---- the node at which something shows: *shows tells whether it does after the first `count` nodes; after none it does not, after all
 * it does, or the last one is it. */
typedef ph_status probe(bool *shows, ph__difference *difference, ph__verify *verify, size_t count);

static ph_status bisect(size_t *node, ph__difference *difference, ph__verify *verify, probe *ask)
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
static ph_status both_poisons(bool *shows, ph__difference *difference, ph__verify *verify, size_t count,
                              bool rest, unsigned how)
{
    PH_TRY(ph__verify_part(verify, &verify->switches, count, rest, PH__POISON_NAN, &verify->replay));
    PH_TRY(ph__verify_part(verify, &verify->switches, count, rest, PH__POISON_NUMBER, &verify->other));
    *shows =
        ph__verify_compare(difference, verify, &verify->replay, &verify->other, how | PH__COMPARE_POISONS);
    return PH_OK;
}

static ph_status poison_shows(bool *shows, ph__difference *difference, ph__verify *verify, size_t count)
{
    return both_poisons(shows, difference, verify, count, false, PH__COMPARE_BYTES);
}

/* One after another where that can be, so that no race is taken for it. */
static ph_status judge_poison(bool *done, ph__verify *verify, bool serial)
{
    static const ph__verify_words words = {"reads memory of the capture that nothing has written before",
                                           "with poison that is not a number", "with poison that is one"};
    ph__difference difference, first;
    size_t node = SIZE_MAX;
    PH_TRY(both_poisons(done, &difference, verify, serial ? 0 : verify->switches.count, serial, 0));
    if (!*done)
        return PH_OK;
    PH_TRY(bisect(&node, &first, verify, poison_shows));
    verify->out->compared = difference.compared;
    ph__verify_say(verify, PH_VERIFY_POISON, node, node == SIZE_MAX ? &difference : &first, &words);
    return PH_OK;
}

/* ---- order ---- */
enum {
    TRIES = 3 /* of what goes wrong at times */
};
static ph_status at_once_differs(bool *shows, ph__difference *difference, ph__verify *verify, size_t count)
{
    *shows = false;
    for (int i = 0; i < TRIES && !*shows; i++) {
        PH_TRY(ph__verify_part(verify, &verify->switches, count, true, PH__POISON_NAN, &verify->replay));
        *shows = ph__verify_compare(difference, verify, &verify->replay, &verify->eager, 0);
    }
    return PH_OK;
}

static ph_status judge_order(bool *done, ph__verify *verify, const ph__difference *seen)
{
    static const ph__verify_words words = {"gives another result together with those before it than after "
                                           "them: it lacks a dependency on one of them, or they on it",
                                           "at once", "one after another, as an eager run"};
    ph__difference difference;
    size_t node = SIZE_MAX;
    PH_TRY(ph__verify_part(verify, &verify->switches, 0, true, PH__POISON_NAN, &verify->replay));
    *done = !ph__verify_compare(&difference, verify, &verify->replay, &verify->eager, 0);
    if (!*done)
        return PH_OK;
    PH_TRY(bisect(&node, &difference, verify, at_once_differs));
    ph__verify_say(verify, PH_VERIFY_ORDER, node, node == SIZE_MAX ? seen : &difference, &words);
    return PH_OK;
}

/* ---- the second capture ---- */
static ph_status captures_differ(bool *shows, ph__difference *difference, ph__verify *verify, size_t count)
{
    PH_TRY(ph__verify_part(verify, &verify->switches, count, false, PH__POISON_NAN, &verify->replay));
    PH_TRY(ph__verify_part(verify, &verify->second_switches, count, false, PH__POISON_NAN, &verify->other));
    *shows = ph__verify_compare(difference, verify, &verify->replay, &verify->other, PH__COMPARE_BYTES);
    return PH_OK;
}

static ph_status judge_capture(bool *done, ph__verify *verify, const ph__difference *seen)
{
    static const ph__verify_words words = {"is the first whose result differs", "in the graph",
                                           "in a capture made now"};
    ph__difference difference;
    size_t node = SIZE_MAX, changed;
    bool same;
    changed = ph__verify_first_change(&same, verify);
    if (!same || changed != SIZE_MAX) {
        *done = true;
        ph__verify_say_capture(verify, changed, seen);
        return PH_OK;
    }
    PH_TRY(captures_differ(done, &difference, verify, verify->switches.count));
    if (!*done)
        return PH_OK;
    PH_TRY(bisect(&node, &difference, verify, captures_differ));
    ph__verify_say(verify, PH_VERIFY_NODE_DIFFERS, node, node == SIZE_MAX ? seen : &difference, &words);
    if (node != SIZE_MAX)
        ph__verify_add_change(verify, node);
    return PH_OK;
}

/* ---- body ---- both captures agree: the node is the last that changes the number there. */
static bool is_final(const ph__verify *verify, const ph__difference *seen)
{
    size_t at = seen->kept->at + (seen->address - seen->kept->base);
    return memcmp(verify->replay.bytes + at, verify->other.bytes + at, seen->size) == 0;
}

static ph_status judge_body(ph__verify *verify, const ph__difference *seen)
{
    static const ph__verify_words words = {"is the last that changes what differs",
                                           "in the graph, as in a capture made now", "in an eager run"};
    size_t without = 0, with = verify->switches.count;
    PH_TRY(ph__verify_part(verify, &verify->switches, with, false, PH__POISON_NAN, &verify->other));
    PH_TRY(ph__verify_part(verify, &verify->switches, 0, false, PH__POISON_NAN, &verify->replay));
    bool untouched = is_final(verify, seen);
    while (!untouched && with - without > 1) {
        size_t middle = without + (with - without) / 2;
        PH_TRY(ph__verify_part(verify, &verify->switches, middle, false, PH__POISON_NAN, &verify->replay));
        *(is_final(verify, seen) ? &with : &without) = middle;
    }
    ph__verify_say(verify, PH_VERIFY_BODY_DIFFERS, untouched || with == 0 ? SIZE_MAX : with - 1, seen,
                   &words);
    return PH_OK;
}

/* ---- the whole ---- */
static ph_status make_switches(ph__verify *verify)
{
    PH_TRY(ph__switches_make(&verify->switches, verify->graph, verify->call));
    PH_TRY(ph__switches_make(&verify->second_switches, verify->second, verify->call));
    bool hosts = verify->switches.hosts && verify->second_switches.hosts;
    verify->switches.hosts = verify->second_switches.hosts = hosts;
    return PH_OK;
}

/* differs: the replay from the eager run; else two replays, with different poison, from one another. */
static ph_status explain(ph__verify *verify, const ph__difference *seen, bool differs, bool poison)
{
    static const ph__verify_words replays = {"", "in one replay", "in another one from the same contents"};
    bool done = false;
    PH_TRY(make_switches(verify));
    bool serial = verify->prepared && verify->switches.hosts;
    if (poison)
        PH_TRY(judge_poison(&done, verify, serial));
    if (!done && serial)
        PH_TRY(judge_order(&done, verify, seen));
    if (!done && !differs) {
        ph__verify_say(verify, PH_VERIFY_ORDER, SIZE_MAX, seen, &replays);
        return PH_OK;
    }
    if (!done)
        PH_TRY(judge_capture(&done, verify, seen));
    return done ? PH_OK : judge_body(verify, seen);
}

ph_status ph__verify_judge(ph__verify *verify)
{
    ph__difference seen, with_poison;
    bool poison = false;
    PH_TRY(ph__verify_eager(verify));
    PH_TRY(ph__verify_replay(verify, &verify->replay, PH__POISON_NAN));
    bool differs = ph__verify_compare(&seen, verify, &verify->replay, &verify->eager, 0);
    if (verify->prepared) {
        PH_TRY(ph__verify_replay(verify, &verify->other, PH__POISON_NUMBER));
        poison =
            ph__verify_compare(&with_poison, verify, &verify->replay, &verify->other, PH__COMPARE_POISONS);
    }
    if (!differs && !poison) {
        ph__verify_say_equal(verify, &seen);
        return PH_OK;
    }
    verify->out->different = differs ? seen.different : with_poison.different;
    verify->out->compared = seen.compared;
    PH_TRY(explain(verify, differs ? &seen : &with_poison, differs, poison));
    ph__verify_add_hints(verify);
    return PH_OK;
}
