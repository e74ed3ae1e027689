/* SPDX-License-Identifier: MIT */
/* tensor/core/tensor.h: the tensor: a handle on a storage. */
#ifndef PH_TENSOR_CORE_TENSOR_H
#define PH_TENSOR_CORE_TENSOR_H
#include "tensor/core/describe.h"
#include "tensor/core/shape.h"
#include "tensor/core/storage.h"

typedef struct ph__node ph__node;                   /* tape/node.h */
typedef struct ph__leaf ph__leaf;                   /* tape/leaf.h */
typedef struct ph__overwrite_tag ph__overwrite_tag; /* overwrite_tag.h */

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
    /* of a record that a tape may use again (fresh.h), while its storage is another's */
    bool lone;
    bool tracked, gone; /* quarantine.h: it will be kept after its last reference; it is kept so */
    atomic_bool relied_on; /* relied.h: its changes are counted */
    char *data;            /* of its first element */
    ph__storage *storage;  /* retained */
    /* tells whether the memory has been overwritten since it was marked, retained; NULL: nobody
     * does that */
    ph__overwrite_tag *overwrite_tag;
    /* the node that made it, retained; NULL for leaves. Dead once its tape was cleared: then this
     * is a leaf too */
    ph__node *node;
    uint32_t output;         /* which of the node's */
    ph__leaf *leaf;          /* gradient and hooks; NULL until there is one */
    ph_tape *tape;           /* the tape that owns a reference; NULL: none */
    uint64_t sequence, call; /* of its overwrite tag */
};

/* A handle around a storage (retained); strides NULL: contiguous; offset in
 * bytes. One reference, the caller's. NULL: no host memory. */
ph_tensor *ph__tensor_make(ph__storage *storage, ph_dtype dtype, const ph_shape *shape,
                           const int64_t *strides, size_t offset);
/* In place, contiguous, at the begin of the storage, whose reference it takes over: both are parts
 * of one host allocation. */
void ph__tensor_init(ph_tensor *x, ph__storage *storage, ph_dtype dtype, const ph_shape *shape);
/* All of a record but its dtype, shape, strides, count and storage, and whether it is contiguous
 * and in a block. */
static inline void ph__tensor_renew(ph_tensor *x, char *data)
{
    atomic_init(&x->references, 1);
    x->requires_grad = x->kept = x->lone = x->tracked = x->gone = false;
    atomic_init(&x->relied_on, false);
    x->data = data;
    x->overwrite_tag = NULL;
    x->node = NULL;
    x->output = 0;
    x->leaf = NULL;
    x->tape = NULL;
    x->sequence = x->call = 0;
}
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
/* Code outside of the library is given its address: what that code makes of a stand-in's, nobody
 * but further captures can tell. */
static inline void *ph__tensor_show(const ph_tensor *x)
{
    if (x->storage->stands_in)
        atomic_store_explicit(&x->storage->shown, true, memory_order_relaxed);
    return x->data;
}
/* Why the tensor cannot be written element by element: several of its elements are one in memory.
 * "is expanded", for example; NULL: each element has a place of its own. */
static inline const char *ph__tensor_shared_elements(const ph_tensor *x)
{
    return x->contiguous ? NULL : ph__shape_shared_elements(&x->shape, x->stride);
}
/* Whether the bytes from the first to the last element of the two overlap; false when one is
 * empty. */
bool ph__tensors_overlap(const ph_tensor *a, const ph_tensor *b);
#endif
