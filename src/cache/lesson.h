/* SPDX-License-Identifier: MIT */
/* cache/lesson.h: one comparison of two captures, as its files share it. */
#ifndef PH_CACHE_LESSON_H
#define PH_CACHE_LESSON_H
#include "cache/partition.h"

typedef struct ph__lesson {
    const ph__learned *learned;
    ph_graph *graph, *other;
    const ph_graph_cache_call *call;
    ph__partition parts;
    ph__moved_words words;
    ph__value_places places;
    ph__value_slots value_slots;
    uint64_t changed;   /* the values that differ in this capture */
    size_t word, place; /* the next one of those that are known */
    char *reason;
    size_t size;
    bool no_memory;
} ph__lesson;

#endif
