/* SPDX-License-Identifier: MIT */
/* nn/graphed/output_sets.h: the output sets of replays, and which graph overwrites them. */
#ifndef PH_NN_GRAPHED_OUTPUT_SETS_H
#define PH_NN_GRAPHED_OUTPUT_SETS_H
#include "base/map.h"
#include "base/sync.h"
#include "base/vec.h"
#include "tensor/core/overwrite_tag.h"
#include <phonograph/phonograph.h>

typedef struct ph__shared_pool ph__shared_pool;

/* The tensors that one replay leaves for others to read: the outputs of a forward, its saved
 * values, the gradients of a backward. */
typedef struct ph__output_set {
    ph__overwrite_tag overwrite_tag; /* first: handles are marked with it */
    ph__shared_pool *shared;         /* retained */
    struct ph__output_set *next;     /* of the pool, under its lock, as are the next four */
    struct {
        uintptr_t begin, end;
    } * ranges;
    size_t range_count;
    PH__VEC(ph__storage *) lent; /* readers.h: retained; none once its callable has gone */
    char owner[48];              /* the callable's name */
    /* whose replay wrote it last, which of its calls, and whether that was a backward */
    char by[48];
    uint64_t by_call;
    bool by_backward;
    const char *what;   /* "an output", "the saved values", "a gradient": static */
    const char *advice; /* the remedy: static */
} ph__output_set;

/* An output set that a graph's replays may overwrite. */
typedef struct ph__overwritten {
    ph__output_set *output_set;
    uint64_t switches; /* of what it lends, added up, when the graph last waited for its readers */
} ph__overwritten;

/* A graph of a callable, with the output sets that its replays may overwrite. */
typedef struct ph__callable_graph {
    struct ph__callable_graph *next; /* of the pool, under its lock, as are the overwritten sets */
    ph_graph *graph;
    ph_graph *first; /* its first segment, which has the slots; NULL: it has no breaks */
    char name[48];
    bool backward;
    bool gone;      /* the program has reset or destroyed the graph; replay.h */
    ph_hook *hook;  /* sets it */
    uint64_t calls; /* replays */
    uint64_t last;  /* ph__replays with the last of them */
    PH__VEC(ph__overwritten) overwritten;
    uint64_t switches;  /* ph__lent_switches when it last waited for readers; readers.h */
    ph__ranges touched; /* memory from outside of its captures that it may write */
} ph__callable_graph;
/* Whether it may write there, outside of what its captures were given. */
static inline bool ph__callable_graph_touches(const ph__callable_graph *callable_graph,
                                              const void *address, size_t bytes)
{
    const ph__ranges *touched = &callable_graph->touched;
    const uintptr_t begin = (uintptr_t)address, end = begin + bytes;
    if (touched->count == 0 || end <= touched->at[0].base)
        return false;
    const ph__range *from = ph__ranges_from(touched, begin);
    return from && from->base < end;
}

/* The sets of all graphed callables whose captures use one pool. */
ph_status ph__shared_pool_get(ph__shared_pool **out, const ph_pool *pool, const char *call);
void ph__shared_pool_release(ph__shared_pool *shared); /* takes NULL */
/* The stream of all captures into that pool which were given none; lives as long as it. */
ph_status ph__shared_pool_stream(ph_stream **out, ph__shared_pool *shared, ph_device *device,
                                 const char *call);
/* Of its sets and graphs. */
void ph__shared_pool_lock(ph__shared_pool *shared);
void ph__shared_pool_unlock(ph__shared_pool *shared);
/* One capture into it at a time, of those that calls make: false: another thread makes one. */
bool ph__shared_pool_enter(ph__shared_pool *shared);
void ph__shared_pool_leave(ph__shared_pool *shared);
/* A reference for the caller. ranges: taken over, also on failure; 2 words each. */
typedef PH__VEC(uintptr_t) ph__spans;
ph_status ph__output_set_make(ph__output_set **out, ph__shared_pool *shared, const char *owner,
                              const char *what, const char *advice, ph__spans *ranges,
                              const char *call);
void ph__output_set_release(ph__output_set *values); /* by its callable: takes NULL */
/* Joins the pool's callable graphs: finds out what it may write. own: sets that are its own in any
 * case (NULL entries are skipped). */
ph_status ph__callable_graph_join(ph__callable_graph *callable_graph, ph__shared_pool *shared,
                                  ph__output_set *const *own, size_t own_count, const char *call);
void ph__callable_graph_leave(ph__callable_graph *callable_graph, ph__shared_pool *shared);
/* The set was replayed: memory that it may write is of this call now. Gives the number of that
 * event. */
uint64_t ph__callable_graph_replayed(ph__callable_graph *callable_graph, ph__shared_pool *shared);
/* A forward with breaks replays, from begin to end: the functions of its breaks may replay nothing
 * of the pool, as its later segments read memory that all share. running: it; NULL: none. */
void ph__shared_pool_begin(ph__shared_pool *shared, const ph__callable_graph *callable_graph);
void ph__shared_pool_end(ph__shared_pool *shared);
const ph__callable_graph *ph__shared_pool_running(const ph__shared_pool *shared);
/* replayed: whether there was a replay after `stamp` (ph__storage.stamp). wrote: whether one may
 * have written there, in memory that the captures were given: by gets "call 3 of 'f'". */
bool ph__shared_pool_replayed(const ph__shared_pool *shared, uint64_t stamp);
bool ph__shared_pool_wrote(char *by, size_t size, ph__shared_pool *shared, uint64_t stamp,
                           const void *address, size_t bytes);
static inline uint64_t ph__output_set_now(const ph__output_set *values)
{
    return atomic_load_explicit(&values->overwrite_tag.now, memory_order_relaxed);
}
#endif
