/* SPDX-License-Identifier: MIT */
/* tests/support/overwritten.h: an owner of memory that is written again, and tensors in
 * such memory. */
#ifndef PH_TESTS_OVERWRITTEN_H
#define PH_TESTS_OVERWRITTEN_H
#include "support/grads.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"
#include <stdio.h>

typedef struct t_owner {
    ph__overwrite_tag written;
    int destroyed;
} t_owner;

static inline void t_tell(const ph__overwrite_tag *written, uint64_t sequence, uint64_t call,
                          char *text, size_t size)
{
    (void)snprintf(text, size, "call %d of step %d, by step %d", (int)call, (int)sequence,
                   (int)atomic_load(&written->now));
}

static inline void t_destroy(ph__overwrite_tag *written)
{
    ((t_owner *)written)->destroyed++;
}

static inline void t_owner_open(t_owner *o)
{
    *o = (t_owner){.written = {.describe = t_tell, .destroy = t_destroy}};
    atomic_init(&o->written.references, 1);
    atomic_init(&o->written.now, 3);
}

/* Everything that was marked is gone. */
static inline void t_owner_close(t_owner *o)
{
    assert_int_equal(o->destroyed, 0);
    assert_int_equal(atomic_load(&o->written.references), 1);
    ph__overwrite_tag_release(&o->written);
    assert_int_equal(o->destroyed, 1);
}

static inline void t_overwrite(t_owner *o)
{
    atomic_fetch_add(&o->written.now, 1);
}

/* f32 [2, 2] of 1, 2, 3, 4; the caller's. */
static inline ph_tensor *t_marked_on(t_owner *o, const t_scene *s)
{
    ph_tensor *x;
    assert_ok(ph_tensor_create(&x, s->device, PH_DTYPE_F32, PH_SHAPE(2, 2)));
    assert_ok(ph_tensor_write(s->tape, x, (const float[]){1, 2, 3, 4}, 16));
    assert_ok(ph_stream_synchronize(s->stream));
    ph__tensor_tag(x, &o->written, atomic_load(&o->written.now), 7);
    return x;
}

static inline ph_tensor *t_ones(ph_tape *tape)
{
    return ph_full(tape, PH_DTYPE_F32, PH_SHAPE(2, 2), 1);
}
#endif
