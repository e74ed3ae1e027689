/* SPDX-License-Identifier: MIT */
/* tensor/core/overwrite_tag.h: the guard against reading memory that a later replay has
 * overwritten. */
#ifndef PH_TENSOR_CORE_OVERWRITE_TAG_H
#define PH_TENSOR_CORE_OVERWRITE_TAG_H
#include "tensor/core/tensor.h"

/* Memory that one replay of a graph leaves behind until another replay writes it. Owned by
 * whoever replays; retained by every handle that was marked. Each event that writes the memory
 * has a number, which `now` then gets. */
struct ph__overwrite_tag {
    atomic_int references;
    atomic_uint_fast64_t now; /* number of the last event that wrote it */
    /* Text for a handle that was marked with (sequence, call): what it was, and who wrote over
     * it. Always terminated. Called without a lock, on any thread, as long as there is a
     * reference. */
    void (*describe)(const ph__overwrite_tag *tag, uint64_t sequence, uint64_t call, char *text,
                     size_t size);
    void (*destroy)(ph__overwrite_tag *tag); /* with the last reference */
};

ph__overwrite_tag *ph__overwrite_tag_retain(ph__overwrite_tag *tag);
void ph__overwrite_tag_release(ph__overwrite_tag *tag); /* takes NULL */

/* x holds what the event `sequence` left there; retains the tag. One that x had before goes.
 * NULL: none from now on. While nobody else uses x. Handles that are made around x's memory
 * later carry the mark on. */
void ph__tensor_tag(ph_tensor *x, ph__overwrite_tag *tag, uint64_t sequence, uint64_t call);
/* The same for x that was made just now, and a tag whose owner has taken references ahead
 * (ph__reference_give). */
static inline void ph__tensor_tag_new(ph_tensor *x, ph__overwrite_tag *tag, int *ahead,
                                      uint64_t sequence, uint64_t call)
{
    ph__reference_give(&tag->references, ahead);
    x->overwrite_tag = tag;
    x->sequence = sequence;
    x->call = call;
}
/* to, a new handle on the memory of from, gets its mark. */
static inline void ph__tensor_tag_like(ph_tensor *to, const ph_tensor *from)
{
    if (__builtin_expect(from->overwrite_tag != NULL, 0))
        ph__tensor_tag(to, from->overwrite_tag, from->sequence, from->call);
}
static inline bool ph__tensor_is_overwritten(const ph_tensor *x)
{
    return __builtin_expect(x->overwrite_tag != NULL, 0) &&
           atomic_load_explicit(&x->overwrite_tag->now, memory_order_relaxed) != x->sequence;
}

/* OVERWRITTEN, in the name of call, about `what` ("operand 1", "the tensor"): "<call>: operand 1
 * (f32[4, 8]) was overwritten: <describe's text>". */
ph_status ph__fail_overwritten(const ph_tensor *x, const char *call, const char *what);
#endif
