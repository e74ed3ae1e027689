/* SPDX-License-Identifier: MIT */
/* inspect/verify/say.h: the words of a verification. */
#ifndef PH_INSPECT_VERIFY_SAY_H
#define PH_INSPECT_VERIFY_SAY_H
#include "inspect/verify/race.h"
#include "inspect/verify/verify.h"
#include "inspect/verify/written.h"

/* Adds to the message. */
void ph__verify_add(const ph__verify *verify, const char *format, ...) PH_PRINTF(2, 3);
void ph__verify_say_equal(const ph__verify *verify, const ph__difference *difference,
                          const ph__written *written);
/* node SIZE_MAX: none; lead: what is so, as "is the first whose result differs". one, two: what
 * the values are of. */
typedef struct ph__verify_words {
    const char *lead, *one, *two;
} ph__verify_words;
void ph__verify_say(const ph__verify *verify, ph_verify_verdict verdict, size_t node,
                    const ph__difference *difference, const ph__verify_words *words);
/* Runs that should be alike differ, and race, which may have none, is what was found of why.
 * lead: which are not the same. */
void ph__verify_say_unsteady(const ph__verify *verify, const ph__race *race,
                             const ph__difference *difference, const ph__verify_words *words);
/* Without runs; by runs in both orders. */
void ph__verify_say_certain(const ph__verify *verify, const ph_race *race);
void ph__verify_say_proved(const ph__verify *verify, const ph__race *race);
void ph__verify_add_race(const ph__verify *verify, const ph__race *race);
/* The graph gives what an eager run gives, and the second capture does not. difference: from the
 * eager run; NULL: the node is told already. */
void ph__verify_say_alternating(const ph__verify *verify, const ph__difference *difference);
void ph__verify_add_hints(const ph__verify *verify);
void ph__verify_say_capture(const ph__verify *verify, size_t node,
                            const ph__difference *difference);
#endif
