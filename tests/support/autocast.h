/* SPDX-License-Identifier: MIT */
/* tests/support/autocast.h: a tape with autocast to f16, a weight on it, and how many casts of
 * it operators leave. */
#ifndef PH_TESTS_AUTOCAST_H
#define PH_TESTS_AUTOCAST_H
#include "support/grads.h"

static const ph_autocast off = {0}, to_f16 = {.dtype = PH_DTYPE_F16},
                         uncached = {.dtype = PH_DTYPE_F16, .no_cache = true};

/* A weight [2, 2], the identity times 2, and x = (1, 3); all numbers are exact in f16. */
typedef struct world {
    t_scene s;
    ph_tensor *w, *x, *y; /* y [2]: what captures write */
} world;

static inline void open_world(world *w)
{
    t_scene_open(&w->s);
    w->w = t_leaf(&w->s, PH_SHAPE(2, 2), 2, 0, 0, 2);
    w->x = t_leaf(&w->s, PH_SHAPE(2), 1, 3);
    assert_ok(ph_tensor_set_requires_grad(w->x, false));
    w->y = t_leaf(&w->s, PH_SHAPE(2), 0, 0);
    assert_ok(ph_tensor_set_requires_grad(w->y, false));
    (void)ph_tape_set_autocast(w->s.tape, to_f16);
}

static inline void close_world(world *w)
{
    ph_tensor_release(w->w);
    ph_tensor_release(w->x);
    ph_tensor_release(w->y);
    t_scene_close(&w->s);
}

static inline ph_tensor *product(const world *w)
{
    return ph_linear(w->s.tape, w->x, w->w, NULL);
}

static inline ph_tensor *in_f32(const world *w, ph_tensor *x)
{
    return ph_cast(w->s.tape, x, PH_DTYPE_F32);
}

#define expect_product(w, ...)                                                                     \
    t_expect_values((w)->s.tape, in_f32((w), product(w)), PH_SHAPE(2), __VA_ARGS__)

static inline void scale_weight(const world *w, double factor)
{
    bool enabled = ph_tape_set_grad_enabled(w->s.tape, false);
    ph_tensor_scale(w->s.tape, w->w, factor);
    (void)ph_tape_set_grad_enabled(w->s.tape, enabled);
}

/* Nodes that n products leave: one each, and one for each cast of the weight. */
static inline size_t casts_of(const world *w, size_t products)
{
    size_t before = t_info(&w->s).nodes;
    for (size_t i = 0; i < products; i++)
        assert_non_null(product(w));
    return t_info(&w->s).nodes - before - products;
}
#endif
