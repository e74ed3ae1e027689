/* SPDX-License-Identifier: MIT */
/* comm/object/log.h: the logs on the board: what the ranks of one machine have submitted. */
#ifndef PH_COMM_OBJECT_LOG_H
#define PH_COMM_OBJECT_LOG_H
#include "comm/object/board.h"

/* One thread at a time writes the own log; the operation gets its number. */
void ph__board_log(ph__board *board, ph__operation *operation);
/* The last one was not submitted. */
void ph__board_unlog(ph__board *board);
uint64_t ph__board_logged(const ph__board *board);
/* "all_reduce of ..., number 7": the own last one. Returns text. */
const char *ph__board_last(const ph__board *board, char text[200]);
/* A rank whose log ends before the own one, in words; false: none is known. */
bool ph__board_find_behind(ph__board *board, char text[240]);
/* Whether a log differs from the own one, as far as both reach: the words for that, the same on
 * every pair of ranks. Costs little where nothing is new. Thread-safe. */
bool ph__board_find_other(ph__board *board, char text[400]);
#endif
