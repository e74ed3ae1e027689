/* SPDX-License-Identifier: MIT */
/* base/alloc.h: every host allocation of the library goes through here, so that tests can make
 * the n-th one fail. */
#ifndef PH_BASE_ALLOC_H
#define PH_BASE_ALLOC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All return NULL on failure and set nothing: the caller knows what it wanted the memory for and
 * says so. Thread-safe. */
void *ph__alloc(size_t bytes);
void *ph__calloc(size_t count, size_t size); /* zeroed; NULL when count * size overflows */
void *ph__realloc(void *old, size_t bytes);  /* old stays valid on failure */
void ph__free(void *pointer);
/* A block that its owner keeps for its own next use: set aside it counts as released. Used again
 * it counts as allocated, and false says that this failed, as an allocation does when tests ask.
 * drop: releases one that is set aside. */
void ph__alloc_set_aside(void);
void ph__alloc_drop(void *pointer); /* takes NULL */
/* The same for an owner that one thread at a time works with: counted in numbers of its own, which
 * costs no locked instruction. claim: NULL where all are claimed; give_back, and the others: take
 * NULL, and count with everybody. */
typedef struct ph__alloc_tally ph__alloc_tally;
ph__alloc_tally *ph__alloc_tally_claim(void);
void ph__alloc_tally_give_back(ph__alloc_tally *tally);
void ph__alloc_set_aside_by(ph__alloc_tally *tally);
bool ph__alloc_reuse_by(ph__alloc_tally *tally);
char *ph__strdup(const char *text); /* takes NULL, gives NULL */

/* For tests. fail_after(n): the n-th allocation from now on (0 is the next) fails, and each
 * after it too until fail_after(PH__ALLOC_NEVER). live(): allocations not yet freed. count():
 * allocations made so far in the process, reallocations included, failed ones not. */
#define PH__ALLOC_NEVER INT64_MAX
void ph__alloc_fail_after(int64_t n);
int64_t ph__alloc_live(void);
int64_t ph__alloc_count(void);
#endif
