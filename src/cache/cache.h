/* SPDX-License-Identifier: MIT */
/* cache/cache.h: the cache and its entries. */
#ifndef PH_CACHE_CACHE_H
#define PH_CACHE_CACHE_H
#include "base/map.h"
#include "base/sync.h"
#include "cache/learned.h"
#include <phonograph/graph_cache.h>
#include <phonograph/graph_cache_stats.h>

enum {
    PH__CACHE_VARIANTS = 4,  /* executables of a key that are updated */
    PH__CACHE_ATTEMPTS = 3,  /* replays refused, and captures that taught nothing */
    PH__CACHE_KEY_ROOM = 64, /* bytes of a key that lies in its entry */
    PH__CACHE_INSIDE = -1
};

/* One lives as long as the cache, and is another key's when its own has gone: so a hit may look at
 * the last one with no lock of the cache's. Its own lock is taken before the cache's, and tried
 * alone under that. */
typedef struct ph__cache_entry ph__cache_entry;
struct ph__cache_entry {
    /* Under its own lock. What a hit reads stands together. */
    ph__mutex lock;
    bool refused; /* the key is not captured (again) */
    bool capturing;
    /* a call has its graphs and calls functions of the user's: the lock is free meanwhile */
    bool apart;
    bool keeps; /* no executable of the key is made anew: why not was told */
    /* no longer in the table: goes with its last user; changed under the cache's lock */
    atomic_bool dropped;
    ph_graph *graph; /* NULL: not captured */
    ph__learned *learned;
    _Atomic uint64_t replays; /* hits that the cache's lock has not seen; read without it too */
    /* Of the key; changed while it is in no table */
    void *key; /* `room`, or an allocation */
    size_t key_bytes, pointer_count, value_count;
    unsigned char room[PH__CACHE_KEY_ROOM];
    _Atomic uint64_t tag; /* of the key; read without a lock */
    /* Under the cache's lock. */
    ph__cache_entry *newer, *older, *next; /* by last use; of the same hash, or spare */
    uint64_t hash;
    unsigned users; /* calls that are running; one that has none may go */
    bool has_graphs;
    size_t bytes;                 /* of the device, of its executables */
    uint64_t uses, hits, counted; /* counted: of `replays`, in the cache's numbers */
    /* Under its own lock, of calls that are no hits. */
    bool needs_pool; /* true: fits only in a pool that no other graph has memory in */
    uint32_t seen;   /* eager calls before the capture */
    unsigned refusals, unlearned;
    ph_graph *variants[PH__CACHE_VARIANTS]; /* the last used one first; NULL: none */
    char reason[sizeof((ph_graph_cache_result *)0)->reason]; /* why it is refused, or was last */
    ph_status status; /* and of which failure; PH_OK: of none */
    int native_code;
    size_t demoted; /* nodes that updates made slower, when its graphs were last no call's alone */
    uint16_t value_sizes[64]; /* as pointer_count */
};

typedef struct ph__buckets ph__buckets; /* buckets.h */

/* An executable that is made anew in the background: see renewal.h. One at a time. */
typedef enum ph__renewal_state {
    PH__RENEWAL_NONE,
    PH__RENEWAL_CLAIMED, /* a call prepares one */
    PH__RENEWAL_DELAYED, /* begun when no capture is open */
    PH__RENEWAL_RUNNING, /* the graph is the thread's */
    PH__RENEWAL_MADE,
    PH__RENEWAL_FAILED /* for the reason */
} ph__renewal_state;
typedef struct ph__renewal {
    ph__mutex lock; /* of all; nothing else is taken under it */
    ph__renewal_state state;
    bool abandoned;  /* nobody waits for it any more */
    unsigned others; /* calls of other keys that could not have one meanwhile */
    bool has_thread; /* to be joined */
    pthread_t thread;
    ph_graph *graph;   /* a capture that the graph `of` was updated from */
    uint64_t of;       /* its id */
    size_t bytes;      /* of its executable */
    ph_graph *retired; /* one whose place was taken, in flight still; NULL: there is none */
    size_t retired_bytes;
    char reason[240];
} ph__renewal;

struct ph_graph_cache {
    ph_device *device; /* retained */
    ph_pool *pool;     /* retained */
    size_t budget, max_graphs, max_keys;
    uint32_t after;
    ph_graph_cache_fallback fallback;
    size_t renew_after; /* 0: never */
    ph__renewal renewal;
    ph_capture_options capture;
    ph_graph_cache_event_fn event;
    void *user;
    /* the thread of a call that captures, until its end; 0: there is none. One capture at a time
     * records to the pool */
    _Atomic uint64_t capturing;
    /* with allow_breaks: calls that launch a graph; PH__CACHE_INSIDE: one is between segments,
     * whose memory the graphs of others would overwrite */
    _Atomic int launches;
    _Atomic(ph__cache_entry *) last; /* the newest one; read without a lock */
    ph__mutex lock;                  /* of what follows */
    ph__map entries;                 /* by hash, lists */
    ph__cache_entry *newest, *oldest;
    ph__cache_entry *spare; /* entries of no key */
    size_t keys, graphs;    /* graphs: entries that have some */
    size_t bytes;           /* of their executables */
    /* Calls by how they were done; at 0 uses that were none. */
    uint64_t paths[PH_CACHE_BEYOND + 1];
    uint64_t evicted, refused, beyond, renewed;
    ph__buckets *buckets;
};
#endif
