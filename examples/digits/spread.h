/* SPDX-License-Identifier: MIT */
/* digits/spread.h: a number that was measured several times: its median, and how far it went. */
#ifndef DIGITS_SPREAD_H
#define DIGITS_SPREAD_H
#include <stdbool.h>
#include <stddef.h>

typedef struct spread {
    size_t rounds;
    double median, lowest, highest;
} spread;

/* Sorts the values, of which there is at least one. */
spread spread_of(double *values, size_t rounds);

/* Of a ratio: whether all rounds, as they are printed, say which of the two is larger. A round of
 * 1.004 is printed as 1.00, and says nothing. */
bool spread_tells(const spread *ratio);

/* Of eager times divided by replayed ones: "1.62x, in 11 rounds 1.55x to 1.70x", or, where 1 lies
 * among the rounds, that no difference can be told, and what the rounds were. */
enum {
    SPREAD_TEXT = 160
};
const char *spread_text(char room[SPREAD_TEXT], const spread *ratio);
#endif
