/* SPDX-License-Identifier: MIT */
/* base/alloc.c: host allocation with counters and failure injection. */
#include "base/alloc.h"
#include "base/checked.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Relaxed: the counters order nothing, and the countdown is exact because each step is one
 * exchange. live = made - freed, so that an allocation and a release cost one addition each. */
static atomic_int_least64_t made, freed, moved;
static atomic_int_least64_t until_failure = PH__ALLOC_NEVER;

/* Each on a cache line of its own. Written by its owner alone; the next owner counts on. */
struct ph__alloc_tally {
    _Alignas(64) atomic_bool claimed;
    atomic_int_least64_t made, freed;
};
enum {
    TALLIES = 64
};
static ph__alloc_tally tallies[TALLIES];

static bool must_fail(void)
{
    int_least64_t left = atomic_load_explicit(&until_failure, memory_order_relaxed);
    while (left != PH__ALLOC_NEVER) {
        if (left <= 0)
            return true;
        if (atomic_compare_exchange_weak_explicit(&until_failure, &left, left - 1,
                                                  memory_order_relaxed, memory_order_relaxed))
            return false;
    }
    return false;
}

static void *count_allocation(void *pointer)
{
    if (pointer)
        atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
    return pointer;
}

void *ph__alloc(size_t bytes)
{
    return must_fail() ? NULL : count_allocation(malloc(bytes ? bytes : 1));
}

void *ph__calloc(size_t count, size_t size)
{
    size_t bytes;
    if (!ph__mul(count, size, &bytes) || must_fail())
        return NULL;
    return count_allocation(calloc(1, bytes ? bytes : 1));
}

void *ph__realloc(void *old, size_t bytes)
{
    if (!old)
        return ph__alloc(bytes);
    if (must_fail())
        return NULL;
    void *fresh = realloc(old, bytes ? bytes : 1);
    if (fresh)
        atomic_fetch_add_explicit(&moved, 1, memory_order_relaxed);
    return fresh;
}

void ph__free(void *pointer)
{
    if (!pointer)
        return;
    atomic_fetch_add_explicit(&freed, 1, memory_order_relaxed);
    free(pointer);
}

void ph__alloc_set_aside(void)
{
    atomic_fetch_add_explicit(&freed, 1, memory_order_relaxed);
}

/* ---- tallies ---- */
ph__alloc_tally *ph__alloc_tally_claim(void)
{
    for (int i = 0; i < TALLIES; i++)
        if (!atomic_load_explicit(&tallies[i].claimed, memory_order_relaxed) &&
            !atomic_exchange_explicit(&tallies[i].claimed, true, memory_order_acquire))
            return &tallies[i];
    return NULL;
}

void ph__alloc_tally_give_back(ph__alloc_tally *tally)
{
    if (tally)
        atomic_store_explicit(&tally->claimed, false, memory_order_release);
}

static void count_own(atomic_int_least64_t *own)
{
    atomic_store_explicit(own, atomic_load_explicit(own, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

void ph__alloc_set_aside_by(ph__alloc_tally *tally)
{
    if (tally)
        count_own(&tally->freed);
    else
        ph__alloc_set_aside();
}

bool ph__alloc_reuse_by(ph__alloc_tally *tally)
{
    if (must_fail())
        return false;
    if (tally)
        count_own(&tally->made);
    else
        atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
    return true;
}

void ph__alloc_drop(void *pointer)
{
    free(pointer);
}

char *ph__strdup(const char *text)
{
    if (!text)
        return NULL;
    size_t bytes = strlen(text) + 1;
    char *copy = ph__alloc(bytes);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

void ph__alloc_fail_after(int64_t n)
{
    atomic_store_explicit(&until_failure, n, memory_order_relaxed);
}

static int64_t made_by_all(void)
{
    int64_t sum = atomic_load_explicit(&made, memory_order_relaxed);
    for (int i = 0; i < TALLIES; i++)
        sum += atomic_load_explicit(&tallies[i].made, memory_order_relaxed);
    return sum;
}

int64_t ph__alloc_live(void)
{
    int64_t gone = atomic_load_explicit(&freed, memory_order_relaxed);
    for (int i = 0; i < TALLIES; i++)
        gone += atomic_load_explicit(&tallies[i].freed, memory_order_relaxed);
    return made_by_all() - gone;
}

int64_t ph__alloc_count(void)
{
    return made_by_all() + atomic_load_explicit(&moved, memory_order_relaxed);
}
