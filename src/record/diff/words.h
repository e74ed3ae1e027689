/* SPDX-License-Identifier: MIT */
/* record/diff/words.h: the difference between the words of two nodes. */
#ifndef PH_RECORD_DIFF_WORDS_H
#define PH_RECORD_DIFF_WORDS_H
#include "record/diff/diff.h"

/* Of nodes that are of one kind, and one kernel's. */
void ph__diff_words(ph__differ *d, const ph__diff_level *level, size_t i, size_t j);
#endif
