/* SPDX-License-Identifier: MIT */
/* tensor/core/storage.h: the memory behind tensors, which several handles may share. */
#ifndef PH_TENSOR_CORE_STORAGE_H
#define PH_TENSOR_CORE_STORAGE_H
#include "tensor/backend/backend.h"
#include <phonograph/operators.h>

typedef enum ph__storage_kind {
    PH__STORAGE_CACHED = 0, /* of the device's caching allocator */
    PH__STORAGE_PINNED = 1,
    PH__STORAGE_FOREIGN = 2 /* the user's, or another library's */
} ph__storage_kind;
typedef struct ph__tensor_batch ph__tensor_batch; /* batch.h */
typedef struct ph__storage {
    atomic_int references;
    ph__storage_kind kind;
    ph__backend *backend; /* retained; by the batch, where there is one */
    char *data;
    size_t bytes;
    /* Of the tapes (ph__tape_key) that it was allocated for and that used it last: another one
     * first tells the allocator (ph_record_stream). 0: the device's default stream. */
    uint64_t key;
    atomic_uint_fast64_t last_key; /* a cache: two threads may use one storage at once */
    atomic_uint_fast64_t switches; /* how often last_key changed */
    /* key 0: a tape of another stream has waited for what the default stream had to do in this
     * memory before */
    atomic_bool ordered;
    atomic_uint_fast64_t version; /* in-place changes */
    atomic_uint_fast64_t stamp;   /* ph__replays when it was made, or last changed in place */
    /* The tape (ph__tape_key) that made the last of them in a capture: replays make it again,
     * and count nothing. 0: none was captured. */
    atomic_uint_fast64_t captured_key;
    atomic_bool relied_on; /* relied.h: changes of last_key are counted */
    atomic_bool lent;      /* changes of last_key are counted in ph__lent_switches, too */
    bool read_only;
    bool stands_in; /* for what calls of a graph bring: captures address it, and nothing is there */
    atomic_bool shown; /* stands_in, and code outside of the library was given its address */
    ph_tensor_release_fn release; /* foreign */
    void *user;
    void *block; /* the host allocation that it is in: freed with it */
    /* has the memory and the host allocation; retained; NULL: both are the storage's own */
    ph__tensor_batch *batch;
    /* the zones around data, while ph__storage_debug is on; else NULL */
    struct ph__guarded *guarded;
} ph__storage;

/* Uninitialised memory for a tape's tensors (stream, key), or stream NULL:
 * ph_memory_stream, and key 0 for the device's default one, else PH__NO_TAPE. */
#define PH__NO_TAPE UINT64_MAX
ph_status ph__storage_create(ph__storage **out, ph__backend *backend, size_t bytes,
                             ph_stream *stream, uint64_t key);
/* see ph__tensor_release_on. The block that it was in, which is the caller's to free, where that
 * was the last reference; else NULL. */
void *ph__storage_release_on(ph__storage *storage, ph_stream *stream, uint64_t key);
ph_status ph__storage_create_pinned(ph__storage **out, ph__backend *backend, size_t bytes);
ph_status ph__storage_wrap(ph__storage **out, ph__backend *backend, void *data, size_t bytes,
                           ph_tensor_release_fn release, void *user);
ph__storage *ph__storage_retain(ph__storage *storage);
void ph__storage_release(ph__storage *storage);
/* Replays of graphs of callables so far, in the process: what has an older stamp than a replay was
 * there before it. */
extern atomic_uint_fast64_t ph__replays;
/* How often last_key of lent memory changed, in the process: replays write over such memory, and
 * look for its readers when this has grown. */
extern atomic_uint_fast64_t ph__lent_switches;
/* An in-place change is submitted by the tape of that key; capture: that it is a part of, 0:
 * none. */
static inline void ph__storage_changed(ph__storage *storage, uint64_t capture, uint64_t key)
{
    atomic_fetch_add_explicit(&storage->version, 1, memory_order_relaxed);
    atomic_store_explicit(&storage->stamp, atomic_load_explicit(&ph__replays, memory_order_relaxed),
                          memory_order_relaxed);
    if (capture != 0)
        atomic_store_explicit(&storage->captured_key, key, memory_order_relaxed);
}
static inline bool ph__storage_changed_by_graphs(const ph__storage *storage)
{
    return atomic_load_explicit(&storage->captured_key, memory_order_relaxed) != 0;
}
/* Whether it was the last one. The owner of the only reference need not fear others. */
static inline bool ph__drop_reference(atomic_int *references)
{
    return atomic_load_explicit(references, memory_order_acquire) == 1 ||
           atomic_fetch_sub_explicit(references, 1, memory_order_acq_rel) == 1;
}
/* References that an owner takes ahead of need, many at once, and gives away one by one: that costs
 * no locked instruction. One thread's at a time. ahead: those that it has not given away, which it
 * returns while it still has one of its own. */
enum {
    PH__REFERENCES_AHEAD = 1024
};
static inline void ph__reference_give(atomic_int *references, int *ahead)
{
    if (__builtin_expect(*ahead == 0, 0)) {
        atomic_fetch_add_explicit(references, PH__REFERENCES_AHEAD, memory_order_relaxed);
        *ahead = PH__REFERENCES_AHEAD;
    }
    --*ahead;
}
static inline void ph__references_return(atomic_int *references, int *ahead)
{
    if (*ahead > 0)
        atomic_fetch_sub_explicit(references, *ahead, memory_order_acq_rel);
    *ahead = 0;
}
static inline bool ph__storage_is_shown(const ph__storage *storage)
{
    return atomic_load_explicit(&storage->shown, memory_order_relaxed);
}
/* A tape's stream is about to use it: one compare in the usual case. */
ph_status ph__storage_use(ph__storage *storage, ph_stream *stream, uint64_t key);
/* a stream that no tape of ours has */
ph_status ph__storage_record(ph__storage *storage, ph_stream *stream);
#endif
