/* SPDX-License-Identifier: MIT */
/* cache/visit.h: one call of a cache, and what is left to do when no lock is held: functions of the
 * user's, which may call the cache again. */
#ifndef PH_CACHE_VISIT_H
#define PH_CACHE_VISIT_H
#include "base/log.h"
#include "cache/cache.h"

enum {
    PH__VISIT_GONE = PH__CACHE_VARIANTS + 3, /* a key's graphs, one that made room, a capture */
    /* of a capture, or of what cannot be learned; of the key; three of executables made anew; one
     * to spare */
    PH__VISIT_EVENTS = 6
};

typedef struct ph__visit {
    ph_graph_cache *cache;
    ph__cache_entry *entry; /* with this user; NULL: none is needed so far */
    ph_stream *stream;
    const ph_graph_cache_call *call;
    ph_graph_cache_result *result;
    bool capturing; /* the cache's captures are its */
    bool launch;    /* false: everything but replays (ph_graph_cache_prepare) */
    bool asks;      /* the stream may be capturing, which only the driver knows */
    bool apart;     /* the entry's graphs are its, with the lock free */
    bool launching; /* counted in the cache's launches */
    bool kept_out;  /* not so, as another call is between two segments */
    /* Until ph__visit_do_rest: graphs that go, whose ends release objects of the user's, and
     * events. */
    unsigned gone_count, event_count;
    ph_graph *gone[PH__VISIT_GONE];
    struct {
        ph_graph_cache_path what;
        char reason[sizeof((ph_graph_cache_result *)0)->reason];
    } events[PH__VISIT_EVENTS];
    ph__log_held log; /* of the thread, while the entry is locked */
} ph__visit;

/* The rooms stay as they are. */
static inline void ph__visit_begin(ph__visit *visit, ph_graph_cache *cache, ph_stream *stream,
                                   const ph_graph_cache_call *call, ph_graph_cache_result *result,
                                   bool launch)
{
    visit->cache = cache;
    visit->entry = NULL;
    visit->stream = stream;
    visit->call = call;
    visit->result = result;
    visit->capturing = visit->asks = visit->apart = false;
    visit->launching = visit->kept_out = false;
    visit->launch = launch;
    visit->gone_count = visit->event_count = 0;
}

/* The entry's lock. Messages of the thread wait until it is free again. */
void ph__visit_lock(ph__visit *visit);
void ph__visit_unlock(ph__visit *visit);
/* Frees the lock, but not the entry's graphs: calls that come meanwhile leave them alone. Back: the
 * entry is locked, also where a function of the user's did not return. */
void ph__visit_step_aside(ph__visit *visit);
void ph__visit_step_back(ph__visit *visit);

/* With the entry locked. note_error: why a call of the library failed, and with what. A graph goes
 * with the rest; NULL: none does. */
void ph__visit_note(ph__visit *visit, const char *reason);
void ph__visit_note_error(ph__visit *visit);
void ph__visit_let_go(ph__visit *visit, ph_graph *graph);
void ph__visit_clear_entry(ph__visit *visit);
/* The key is not captured (again). */
void ph__visit_refuse(ph__visit *visit);
/* One more capture has taught nothing: after some of them the key is not learned any more. */
void ph__visit_not_learned(ph__visit *visit);
/* An event, told with the rest. */
void ph__visit_report(ph__visit *visit, ph_graph_cache_path what, const char *reason);

/* With no lock held: what is left to do. */
void ph__visit_do_rest(ph__visit *visit);
/* Lets go of what the visit has, also where the body was left by an exception. */
void ph__visit_end(ph__visit *visit);
#endif
