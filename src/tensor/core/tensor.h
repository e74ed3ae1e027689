/* SPDX-License-Identifier: MIT */
/* tensor/core/tensor.h: the tensor and the storage behind it, as the files of this library share
 * them. */
#ifndef PH_TENSOR_CORE_TENSOR_H
#define PH_TENSOR_CORE_TENSOR_H
#include "tensor/backend/backend.h"
#include <phonograph/operators.h>

typedef struct ph__node ph__node;       /* tape.h */
typedef struct ph__leaf ph__leaf;       /* tape.h */
typedef struct ph__written ph__written; /* written.h */

typedef enum ph__storage_kind {
    PH__STORAGE_CACHED = 0, /* of the device's caching allocator */
    PH__STORAGE_PINNED = 1,
    PH__STORAGE_FOREIGN = 2 /* the user's, or another library's */
} ph__storage_kind;
typedef struct ph__storage {
    atomic_int references;
    ph__storage_kind kind;
    ph__backend *backend; /* retained */
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
    bool read_only;
    bool stands_in; /* for what calls of a graph bring: captures address it, and nothing is there */
    ph_tensor_release_fn release; /* foreign */
    void *user;
    void *block; /* the host allocation that it is in: freed with it */
    /* the zones around data, while ph__storage_debug is on; else NULL */
    struct ph__guarded *guarded;
} ph__storage;

struct ph_tensor {
    atomic_int references;
    ph_dtype dtype;
    ph_shape shape;
    int64_t stride[PH_MAX_RANK]; /* in elements */
    int64_t count;
    bool contiguous;
    bool requires_grad; /* a leaf's own; of others: node is not NULL and alive */
    bool kept;          /* by the scope of its tape that is ending */
    bool in_block;      /* in one host allocation with its storage, which frees it */
    bool tracked, gone; /* quarantine.h: it will be kept after its last reference; it is kept so */
    char *data;         /* of its first element */
    ph__storage *storage; /* retained */
    /* tells whether the memory has been overwritten since it was marked, retained; NULL: nobody
     * does that */
    ph__written *written;
    /* that made it, retained; NULL for leaves. Dead once its tape was cleared: then this is a
     * leaf too */
    ph__node *node;
    uint32_t output;         /* which of the node's */
    ph__leaf *leaf;          /* gradient and hooks; NULL until there is one */
    ph_tape *tape;           /* that owns a reference; NULL: none */
    uint64_t sequence, call; /* that it was marked with */
};

/* ---- storage.c ---- uninitialised memory for a tape's tensors (stream, key), or stream NULL:
 * ph_memory_stream, and key 0 for the device's default one, else PH__NO_TAPE. */
#define PH__NO_TAPE UINT64_MAX
ph_status ph__storage_create(ph__storage **out, ph__backend *backend, size_t bytes,
                             ph_stream *stream, uint64_t key);
/* In place, as a part of block, which is the caller's still when it fails. */
ph_status ph__storage_init(ph__storage *storage, void *block, ph__backend *backend, size_t bytes,
                           ph_stream *stream, uint64_t key);
/* see ph__tensor_release_on */
void ph__storage_release_on(ph__storage *storage, ph_stream *stream, uint64_t key);
ph_status ph__storage_create_pinned(ph__storage **out, ph__backend *backend, size_t bytes);
ph_status ph__storage_wrap(ph__storage **out, ph__backend *backend, void *data, size_t bytes,
                           ph_tensor_release_fn release, void *user);
ph__storage *ph__storage_retain(ph__storage *storage);
void ph__storage_release(ph__storage *storage);
/* tape.c: *out: a tape that made it, changed it in a capture or used it last is in a capture
 * now, so what it holds may not be what was submitted. */
ph_status ph__storage_captured(bool *out, ph__storage *storage);
/* Replays of graphs of callables so far, in the process: what has an older stamp than a replay was
 * there before it. */
extern atomic_uint_fast64_t ph__replays;
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
/* A tape's stream is about to use it: one compare in the usual case. */
ph_status ph__storage_use(ph__storage *storage, ph_stream *stream, uint64_t key);
/* a stream that no tape of ours has */
ph_status ph__storage_record(ph__storage *storage, ph_stream *stream);

/* guard.c: for tests. While on, every new cached storage gets guard zones of 256 bytes on both
 * sides and is poisoned (0xFF: NaN) before its first use, and what is released is kept until
 * check. That waits for the device, gives back what was kept, and is false when a guard zone was
 * written or a device call failed: the thread's error record says where. */
void ph__storage_debug(bool on);
bool ph__storage_debug_check(ph_device *device);

/* ---- tensor.c ---- a handle around a storage (retained); strides NULL: contiguous; offset in
 * bytes. One reference, the caller's. NULL: no host memory. */
ph_tensor *ph__tensor_make(ph__storage *storage, ph_dtype dtype, const ph_shape *shape,
                           const int64_t *strides, size_t offset);
/* A new contiguous one with memory of its own, for a tape's stream: cheaper than the two steps.
 * bytes: of its elements, which the caller has checked. */
ph_status ph__tensor_fresh(ph_tensor **out, ph__backend *backend, ph_dtype dtype,
                           const ph_shape *shape, size_t bytes, ph_stream *stream, uint64_t key);
/* As ph_tensor_release, by the tape, with its stream and key: cheaper where the memory is its
 * own. */
void ph__tensor_release_on(ph_tensor *x, ph_tape *tape);
/* A handle on `from` is, from now on, as far behind `to` as it was behind that storage's memory,
 * which does not overlap `to`: a second time does nothing. Other handles, and NULL, are left
 * alone. */
void ph__tensor_move(ph_tensor *x, const ph__storage *from, char *to);
static inline ph__backend *ph__tensor_backend(const ph_tensor *x)
{
    return x->storage->backend;
}
/* Checked, over memory that is not ours. Only the caller's next steps give the storage what it
 * calls at its end: a failed call never calls it. */
ph_status ph__tensor_around(ph_tensor **out, ph__backend *backend, ph_dtype dtype,
                            const ph_shape *shape, const int64_t *strides, void *data,
                            const char *call);
/* ARGUMENT, named after call, unless data of x can be the gradient's: same shape, dtype, device. */
ph_status ph__tensor_check_grad(const ph_tensor *x, const ph_tensor *grad, const char *call);

/* ---- transfer.c ---- dst, contiguous, of the tape, takes what src, contiguous, of another
 * device or pinned, has: of the same dtype and count. */
ph_status ph__tensor_take(ph_tape *tape, ph_tensor *dst, const ph_tensor *src, const char *call);
/* ph_tensor_write in the name of call; x is the tape's to use. A failure is the tape's, and
 * nobody has been told of it. */
ph_status ph__tensor_write(ph_tape *tape, ph_tensor *x, const void *data, size_t bytes,
                           const char *call);
/* CAPTURE, 900, when the tape's stream is in a capture: for calls that wait for it. */
ph_status ph__refuse_in_capture(const ph_tape *tape, const char *call);

/* ---- shape.c ---- all with checked arithmetic. check: ARGUMENT or SIZE, named after call,
 * unless a tensor of that dtype and shape can be; bytes: of its elements. */
ph_status ph__shape_check(size_t *bytes, ph_dtype dtype, const ph_shape *shape, const char *call);
/* Elements from the first to behind the last one; 0 when empty; -1: a negative stride, or an
 * overflow. */
int64_t ph__shape_extent(const ph_shape *shape, const int64_t *strides);
void ph__shape_strides(int64_t strides[PH_MAX_RANK], const ph_shape *shape);
/* False: they do not broadcast. */
bool ph__shape_broadcast(ph_shape *out, const ph_shape *a, const ph_shape *b);
/* 0..rank-1 (negative ones count from the end), or -1: no such axis. */
int ph__axis(int axis, size_t rank);
/* "f32[2, 3]" into a buffer of at least PH__DESCRIBE bytes; NULL: "NULL". Gives text. */
enum {
    PH__DESCRIBE = 256
};
const char *ph__describe(char text[PH__DESCRIBE], const ph_tensor *x);
/* of at most PH_MAX_RANK dimensions */
const char *ph__describe_shape(char text[PH__DESCRIBE], ph_dtype dtype, const ph_shape *shape);
/* Whether the bytes from the first to the last element of the two overlap; false when one is
 * empty. */
bool ph__tensors_overlap(const ph_tensor *a, const ph_tensor *b);
/* Merges neighbouring dimensions that all operands step through alike, and drops those of 1:
 * fewer, larger loops. strides[o][axis] in elements (stride 0: broadcast); gives the new rank
 * (at least 1 for count > 0). */
size_t ph__shape_coalesce(int64_t dims[PH_MAX_RANK], int64_t (*strides)[PH_MAX_RANK],
                          size_t operands, size_t rank);
#endif
