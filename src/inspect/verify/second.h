/* SPDX-License-Identifier: MIT */
/* inspect/verify/second.h: what a replay of the second capture gives. */
#ifndef PH_INSPECT_VERIFY_SECOND_H
#define PH_INSPECT_VERIFY_SECOND_H
#include "inspect/verify/verify.h"

/* Sets other_nodes and other_parameters. Where the second capture has such: replays it, and sets
 * second_gives.
 * *difference: from the eager run. Changes `other`. */
ph_status ph__verify_try_second(ph__verify *verify, ph__difference *difference);
#endif
