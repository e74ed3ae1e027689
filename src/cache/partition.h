/* SPDX-License-Identifier: MIT */
/* cache/partition.h: pointers in groups that moved alike. */
#ifndef PH_CACHE_PARTITION_H
#define PH_CACHE_PARTITION_H
#include "cache/learned.h"

/* The groups of pointers, divided by what they moved in one more capture. */
typedef struct ph__partition {
    ph__moved_groups groups; /* words and slots are the caller's to count; group 0 has no move */
    struct ph__divided {
        uint32_t from; /* the group before */
        uint64_t by;   /* the distance */
    } * parts;         /* of each group, ascending */
    uint32_t *group, *members;
} ph__partition;

/* False: no host memory. At most n log n. */
bool ph__partition_divide(ph__partition *out, const ph__learned *learned,
                          const void *const *pointers);
void ph__partition_free(ph__partition *partition);
/* The group of those of `from` that moved by so much; false: there is none. */
bool ph__partition_find(uint32_t *group, const ph__partition *partition, uint32_t from,
                        uint64_t by);
#endif
