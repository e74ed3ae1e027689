/* SPDX-License-Identifier: MIT */
/* digits/spread.c: medians of measurements, with the lowest and the highest. */
#include "spread.h"
#include <stdio.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

spread spread_of(double *values, size_t rounds)
{
    size_t middle = rounds / 2;
    qsort(values, rounds, sizeof *values, by_value);
    return (spread){.rounds = rounds,
                    .median =
                        rounds % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2,
                    .lowest = values[0],
                    .highest = values[rounds - 1]};
}

static double as_printed(double value)
{
    char text[SPREAD_TEXT];
    (void)snprintf(text, sizeof text, "%.2f", value);
    return strtod(text, NULL);
}

bool spread_tells(const spread *ratio)
{
    return as_printed(ratio->lowest) > 1 || as_printed(ratio->highest) < 1;
}

const char *spread_text(char room[SPREAD_TEXT], const spread *ratio)
{
    if (spread_tells(ratio))
        (void)snprintf(room, SPREAD_TEXT, "%.2fx, in %zu rounds %.2fx to %.2fx", ratio->median,
                       ratio->rounds, ratio->lowest, ratio->highest);
    else
        (void)snprintf(room, SPREAD_TEXT,
                       "the difference cannot be told on this machine: %.2fx to %.2fx in %zu "
                       "rounds",
                       ratio->lowest, ratio->highest, ratio->rounds);
    return room;
}
