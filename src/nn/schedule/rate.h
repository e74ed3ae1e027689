/* SPDX-License-Identifier: MIT */
/* nn/schedule/rate.h: the pieces of schedules, and their rates. */
#ifndef PH_NN_SCHEDULE_RATE_H
#define PH_NN_SCHEDULE_RATE_H
#include <phonograph/lr_schedule.h>

/* The piece with its defaults; ARGUMENT where it means nothing. which: its place,
 * for the message. */
ph_status ph__lr_piece_complete(ph_lr_piece *out, const ph_lr_piece *from, size_t which, bool last,
                                const char *call);
/* of the step t of the piece */
double ph__lr_piece_rate(const ph_lr_piece *piece, double base, uint64_t t);
#endif
