/* SPDX-License-Identifier: MIT */
/* cache/follows.h: whether a word that moved as far as pointers did can be an address of theirs. */
#ifndef PH_CACHE_FOLLOWS_H
#define PH_CACHE_FOLLOWS_H
#include "cache/lesson.h"

/* An engine's offsets, lengths and packed numbers may move as far as a pointer. A word of the
 * captured graph follows the pointers of a group only where it lies in memory that the library or
 * the driver knows, or, as they do, in memory that neither knows, and near one of them. */
bool ph__lesson_may_follow(const ph__lesson *l, const ph_word *word, uint32_t group);
#endif
