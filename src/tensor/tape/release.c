/* SPDX-License-Identifier: MIT */
/* tensor/tape/release.c: the end of a tensor, and of the history that it has. */
#include "tensor/tape/release.h"
#include "base/alloc.h"
#include "tensor/core/batch.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/released.h"
#include "tensor/core/relied.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/hooks.h"
#include "tensor/tape/leaf.h"
#include "tensor/tape/node.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"

static __attribute__((noinline)) void leaf_release(ph__leaf *leaf)
{
    ph__hooks_release(leaf->hooks);
    ph_tensor_release(leaf->grad);
    ph__free(leaf);
}

/* The storage goes last: x may be in its block. Gives it. spares: for the record; or NULL. */
static inline __attribute__((always_inline)) ph__storage *
dissolve_handle(ph_tensor *x, ph__going going, ph__spare_tensors *spares)
{
    ph__storage *storage = x->storage;
    ph__tensor_altered(x);
    if (x->leaf)
        leaf_release(x->leaf);
    if (x->node)
        ph__node_release_to(x->node, spares);
    if (x->overwrite_tag)
        ph__overwrite_tag_release(x->overwrite_tag);
    if (__builtin_expect(x->tracked, 0)) {
        ph__quarantine_put(storage->backend, x, going);
        return storage;
    }
    x->leaf = NULL;
    x->node = NULL;
    x->overwrite_tag = &ph__released_tag;
    x->sequence = 0;
    x->gone = true;
    if (!x->in_block) {
        x->storage = &ph__storage_gone;
        if (spares && x->lone) {
            x->dtype = (ph_dtype)0; /* so that its next tensor is linked to a storage anew */
            ph__tensor_recycle(spares, x);
        } else {
            ph__released_put(x);
        }
    }
    return storage;
}

void ph_tensor_release(ph_tensor *x)
{
    if (ph__tensor_is_there(x, "ph_tensor_release") && ph__drop_reference(&x->references))
        ph__storage_release(dissolve_handle(x, PH__GOING_RELEASED, NULL));
}

/* ---- many at once ---- */
void ph__releases_end(ph__releases *releases)
{
    if (releases->batch)
        ph__tensor_batch_release_many(releases->batch, releases->count);
    *releases = (ph__releases){0};
}

/* The last handle on a part of a batch, of which nothing else is to go and nobody is to be told. */
static inline bool is_last_of_part(const ph_tensor *x)
{
    return !x->gone && !x->tracked && !x->leaf && !x->node && !x->overwrite_tag && x->in_block &&
           x->storage->batch && !atomic_load_explicit(&x->relied_on, memory_order_relaxed) &&
           atomic_load_explicit(&x->references, memory_order_acquire) == 1 &&
           atomic_load_explicit(&x->storage->references, memory_order_acquire) == 1;
}

/* Functions of the user's may run in the usual release: nothing is left undone then. */
void ph__tensor_release_among(ph_tensor *x, ph__releases *releases)
{
    if (!is_last_of_part(x)) {
        ph__releases_end(releases);
        ph_tensor_release(x);
        return;
    }
    ph__storage *storage = x->storage;
    if (releases->batch != storage->batch) {
        ph__releases_end(releases);
        releases->batch = storage->batch;
    }
    releases->count++;
    x->overwrite_tag = &ph__released_tag;
    x->sequence = 0;
    x->gone = true;
    storage->backend = &ph__backend_gone;
}

void ph__tensor_drop_grad_among(ph_tensor *x, ph__releases *releases)
{
    if (__builtin_expect(x->gone, 0)) {
        ph_ignore(ph_tensor_set_grad(x, NULL));
        return;
    }
    ph_tensor *grad = x->leaf ? x->leaf->grad : NULL;
    if (!grad)
        return;
    x->leaf->grad = NULL;
    ph__tensor_release_among(grad, releases);
}

/* ---- by a tape ---- */
static void release_last(ph_tensor *x, ph_tape *tape)
{
    const bool in_block = x->in_block;
    void *block = ph__storage_release_on(dissolve_handle(x, tape->going, &tape->spares),
                                         tape->stream, tape->key);
    if (block && in_block)
        ph__tensor_recycle(&tape->spares, block);
    else if (block)
        ph__released_put(block);
}

void ph__tensor_release_on(ph_tensor *x, ph_tape *tape)
{
    if (__builtin_expect(x->gone, 0))
        ph_tape_check(tape,
                      ph__quarantine_fail(x, "tape", "a tensor of the tape, released too often,"));
    else if (ph__drop_reference(&x->references))
        release_last(x, tape);
}
