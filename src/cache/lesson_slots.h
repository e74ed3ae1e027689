/* SPDX-License-Identifier: MIT */
/* cache/lesson_slots.h: slots of what a comparison found. */
#ifndef PH_CACHE_LESSON_SLOTS_H
#define PH_CACHE_LESSON_SLOTS_H
#include "cache/lesson.h"

/* Makes the slots of the graph anew, of the words and places that the comparison found. */
ph_status ph__lesson_make_slots(ph__lesson *lesson, const char *call);
#endif
