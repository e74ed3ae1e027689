/* SPDX-License-Identifier: MIT */
/* phonograph/graph_cache.h: graphs by key, for engines whose work comes in a few shapes
 * (docs/reference/graph-cache.md). */
#ifndef PHONOGRAPH_GRAPH_CACHE_H
#define PHONOGRAPH_GRAPH_CACHE_H
#include <phonograph/graph.h>

PH_BEGIN_DECLS

/* A cache runs a body by a key.
 * - The first calls of a key run the body as it is. Then the body is captured, and later calls
 *   replay the graph.
 * - Pointers and values that differ from the captured ones are set in the graph. Their places in
 *   the nodes are learned from a further capture. Trusted is what is equal in both by chance
 *   (docs/reference/graph-cache.md).
 * - Whatever fails, the body's work on the device is done exactly once, in order of the stream.
 *
 * What belongs into the key: all that decides which kernels are launched, how often, with which
 * grids, in which order. Two captures cannot show a grid that depends on a value and happens to be
 * equal in both. */
typedef struct ph_graph_cache ph_graph_cache;

/* How a call was done. Events tell PH_CACHE_CAPTURED, PH_CACHE_LEARNED and those that are of events
 * alone; the others are of results alone. */
typedef enum ph_graph_cache_path {
    PH_CACHE_EAGER = 1,    /* the body ran as it is */
    PH_CACHE_CAPTURED = 2, /* the body was captured, and its graph replayed */
    PH_CACHE_REPLAYED = 3, /* the graph of an earlier call was set, where needed, and replayed */
    /* the body was captured to learn places; then the earlier graph was set and replayed */
    PH_CACHE_LEARNED = 4,
    PH_CACHE_UPDATED = 5,  /* the body was captured, an executable updated from it and replayed */
    PH_CACHE_NESTED = 6,   /* on a capturing stream: the graph became a child graph there */
    PH_CACHE_RECORDED = 7, /* on a capturing stream: the body became a part of that capture */
    PH_CACHE_EVICTED = 8,  /* of events alone: a graph went, for the budget or for max_graphs */
    PH_CACHE_REFUSED = 9,  /* of events alone: a key will not be captured, or not be learned */
    PH_CACHE_BEYOND = 10,  /* of events alone: a size above the largest bucket; no key */
    /* of events alone: an executable that was made anew has taken the place of a slower one */
    PH_CACHE_RENEWED = 11,
    PH_CACHE_KEPT = 12 /* of events alone: it could not, and the slower one stays; once of a key */
} ph_graph_cache_path;

/* Told on the calling thread, with no lock held, before the call returns.
 * - PH_CACHE_CAPTURED and PH_CACHE_LEARNED: behind the replay, or of a call of
 *   ph_graph_cache_prepare, which replays nothing.
 * - The callback may call the cache, as may the log's callback, hooks and released objects: calls
 *   of the key that is worked on run as they are, or replay. */
typedef struct ph_graph_cache_event {
    ph_graph_cache_path what;
    const void *key; /* borrowed for the call */
    size_t key_bytes;
    const char *reason; /* "": there is none */
    uint64_t reserved[4];
} ph_graph_cache_event;
typedef void (*ph_graph_cache_event_fn)(const ph_graph_cache_event *event, void *user);

typedef enum ph_graph_cache_fallback {
    PH_CACHE_FALLBACK_EAGER = 0, /* calls that cannot be learned run as they are */
    /* Calls that cannot be learned are captured each time. An executable of the same topology is
     * updated; the key keeps the four that were used last. The host must run ahead of the device
     * for a gain. */
    PH_CACHE_FALLBACK_UPDATE = 1
} ph_graph_cache_fallback;

typedef struct ph_graph_cache_options {
    /* Bytes of the device for executables and for the memory of the pool; 0: no limit. Graphs go in
     * order of their last use. A graph that does not fit alone is not kept: its key runs as it
     * is. */
    size_t budget;
    size_t max_graphs; /* 0: 64 */
    uint32_t after;    /* calls of a key that run eagerly first; 0: 2; PH_ZERO: none */
    ph_graph_cache_fallback fallback;
    ph_pool *pool; /* of all captures; retained; NULL: one of the cache's own */
    /* Of all captures; NULL: defaults, in the mode PH_CAPTURE_THREAD_LOCAL, as other threads go on
     * meanwhile.
     * - ARGUMENT: pool, prepare, breadcrumbs, compared, record_at_end or defer_breaks are set.
     * - plan: the first capture of a key is planned; those that learn, or are for
     *   PH_CACHE_FALLBACK_UPDATE, are not. Graphs of the cache take what the largest takes:
     *   prepare that key first. ARGUMENT with allow_breaks.
     * - A planned capture waits for the device, as prepare does. While a capture of this library is
     *   open there a call runs as it is; captures of other code must not be open.
     * - allow_breaks: bodies may call ph_break. Its functions are called once in each call: by the
     *   body that runs as it is, or by the replay, never by a capture. A replay whose function
     *   fails is over, and its failure is that of the call. Pointers and values that move are not
     *   learned across breaks: such calls run as they are.
     * - While a replay with breaks is not over, calls of any key run as they are, also those of its
     *   functions, as its memory lives in the pool of all. So does a call with breaks while another
     *   one launches. */
    const ph_capture_options *capture;
    ph_graph_cache_event_fn event;
    void *user; /* of event */
    /* With PH_CACHE_FALLBACK_UPDATE: an update that changes a grid makes the executable slower for
     * good (inspect/changes.h). After so many further calls that change none, a thread makes a new
     * one of the last call's capture; it takes the place at a later call.
     * - 0: 16; PH_ZERO: never. ARGUMENT: a number with another fallback, where nothing is updated.
     * - Nothing is made while a capture of this library, or an announced one (foreign.h), is open
     *   on the device; one that is to begin waits until it is made.
     * - The slower one stays where nodes are switched off, hooks were added, or the like, and where
     *   memory or budget does not suffice for one more: an event says so (PH_CACHE_KEPT), or the
     *   log where there is no `event`.
     * - The old one goes when its last replay has ended. */
    size_t renew_after;
    uint64_t reserved[3];
} ph_graph_cache_options;

/* Makes a cache of graphs of the device, which it retains. options may be NULL: the defaults; what
 * they point to is copied or retained. ARGUMENT: an option is none of its values, or does not go
 * with another; the message names it. */
PH_CALL ph_graph_cache_create(ph_graph_cache **out, ph_device *device,
                              const ph_graph_cache_options *options);
/* Drops all graphs; waits for the thread that makes an executable anew. No call of the cache may be
 * running, or come later, but those of objects that the graphs release. Takes NULL. */
PH_API void ph_graph_cache_destroy(ph_graph_cache *cache);

typedef struct ph_graph_cache_value {
    const void *data; /* read during the call, and by the body */
    size_t bytes;     /* 1 to 256 */
} ph_graph_cache_value;

/* One call.
 * - The key is compared whole. Body, and the numbers of pointers and values, follow from it.
 * - The body gets the stream and user, as in ph_graph_capture, submits to that stream, and gives
 *   the pointers and values of this call to its kernels. It is called once or twice, with plan up
 *   to four times: its effects on the host may be repeated, those on the device come once.
 * - The body fails with CALLER for reasons of its own: that is returned, and it is not called
 *   again. After any other failure inside a capture it runs eagerly.
 * - pointers are addresses of the device that the body uses, in an order that the key fixes. Memory
 *   that the body allocates on the stream needs no pointer. */
typedef struct ph_graph_cache_call {
    const void *key;
    size_t key_bytes; /* 1 to 4096 */
    ph_capture_fn body;
    void *user;
    const void *const *pointers;
    const char *const *pointer_names; /* of messages; NULL: "pointer N" */
    size_t pointer_count;             /* at most 65536 */
    const ph_graph_cache_value *values;
    size_t value_count; /* at most 64 */
    uint64_t reserved[4];
} ph_graph_cache_call;

typedef struct ph_graph_cache_result {
    ph_graph_cache_path path;
    /* The graph that was replayed; NULL: none was, or callbacks of this call made it go, as by
     * dropping the key. Borrowed until the next call of the cache. With epoch it tells whether an
     * output was overwritten since (ph_graph_check_output). */
    ph_graph *graph;
    uint64_t epoch;
    char reason[240]; /* why the body ran, where its key has been captured before; "": none */
    uint64_t reserved[4];
} ph_graph_cache_result;

/* Runs a call. out may be NULL.
 * - Errors: what the body returns; DEVICE and others of a replay that may have begun. Failures of
 *   the capture, of memory and of the executable are no errors: the body runs eagerly.
 * - A key whose capture failed is not captured again before it is dropped (its text is in the
 *   entry). So is one whose capture is empty: the body submitted nothing to the stream, but perhaps
 *   to another one, where its work was done during the capture. It is not called again for that
 *   call, but where the capture met ph_break.
 * - Legal in a capture: a hit with the captured pointers and values becomes a child graph there,
 *   other calls record the body; nothing is captured for the cache, or evicted.
 * - Threads: thread-safe. A call whose key another thread is capturing runs eagerly. With
 *   allow_breaks calls of all keys do, while another call is in a replay with breaks.
 * - Graphs of one cache share its pool: replays of two are ordered, also across streams, and one
 *   overwrites the other's memory. Outputs belong into memory of the caller's. */
PH_CALL ph_graph_cache_run(ph_graph_cache *cache, ph_stream *stream,
                           const ph_graph_cache_call *call, ph_graph_cache_result *out);

/* Captures calls that are not there yet, in their order, without running them: the first of a key
 * is captured, further ones teach places. progress may be NULL; done counts calls; false ends with
 * PH_OK. A failure to capture one is told in its entry; the others go on. STATE: the stream is
 * capturing. */
typedef bool (*ph_graph_cache_progress_fn)(size_t done, size_t count, void *user);
PH_CALL ph_graph_cache_prepare(ph_graph_cache *cache, ph_stream *stream,
                               const ph_graph_cache_call *calls, size_t count,
                               ph_graph_cache_progress_fn progress, void *user);
/* The key is as if it had never come. NOT_FOUND: it has not. */
PH_CALL ph_graph_cache_drop(ph_graph_cache *cache, const void *key, size_t key_bytes);

PH_END_DECLS
#endif
