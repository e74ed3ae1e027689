/* SPDX-License-Identifier: MIT */
/* inspect/verify/body.c: an eager run does what neither capture does: the node whose result it
 * changes. */
#include "inspect/verify/body.h"
#include "inspect/verify/race.h"
#include "inspect/verify/run.h"
#include "inspect/verify/say.h"
#include <string.h>

/* Both captures agree: the node is the last that changes the number there. */
static bool is_final(const ph__verify *verify, const ph__difference *seen)
{
    size_t at = seen->kept->at + (seen->address - seen->kept->base);
    return memcmp(verify->replay.bytes + at, verify->other.bytes + at, seen->size) == 0;
}

static ph_status find_last_change(size_t *node, ph__verify *verify, const ph__difference *seen)
{
    size_t without = 0, with = verify->switches.count;
    PH_TRY(ph__verify_part(verify, &verify->switches, with, false, PH__POISON_NAN, &verify->other));
    PH_TRY(ph__verify_part(verify, &verify->switches, 0, false, PH__POISON_NAN, &verify->replay));
    bool untouched = is_final(verify, seen);
    while (!untouched && with - without > 1) {
        size_t middle = without + (with - without) / 2;
        PH_TRY(ph__verify_part(verify, &verify->switches, middle, false, PH__POISON_NAN,
                               &verify->replay));
        *(is_final(verify, seen) ? &with : &without) = middle;
    }
    *node = untouched || with == 0 ? SIZE_MAX : with - 1;
    return PH_OK;
}

/* A race that was proved comes first, though each way of running went the same each time. */
ph_status ph__verify_judge_body(ph__verify *verify, const ph__difference *seen)
{
    static const ph__verify_words body = {"is the last that changes what differs",
                                          "in the graph, as in a capture made now",
                                          "in an eager run"},
                                  race_words = {"a replay and an eager run differ", "in the graph",
                                                "in an eager run"};
    ph__race race;
    size_t node = SIZE_MAX;
    PH_TRY(ph__verify_find_race(&race, verify, seen->address));
    if (race.proved) {
        ph__verify_say_unsteady(verify, &race, seen, &race_words);
        return PH_OK;
    }
    PH_TRY(find_last_change(&node, verify, seen));
    ph__verify_say(verify, PH_VERIFY_BODY_DIFFERS, node, seen, &body);
    ph__verify_add(verify, "; body does work that no capture sees: submit it to the capture's "
                           "stream also while that captures, or as ph_launch_host, or do it beside "
                           "each replay");
    ph__verify_add_race(verify, &race);
    return PH_OK;
}
