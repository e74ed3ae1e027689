/* SPDX-License-Identifier: MIT */
/* cache/buckets.h: the sizes that came, and the ladder that they are padded to. */
#ifndef PH_CACHE_BUCKETS_H
#define PH_CACHE_BUCKETS_H

typedef struct ph__buckets ph__buckets;

ph__buckets *ph__buckets_create(void); /* NULL: no host memory */
void ph__buckets_destroy(ph__buckets *buckets);
#endif
