/* SPDX-License-Identifier: MIT */
/* tests/support/draws.h: scenes with a generator of their own, captures of functions of a tape, and tensors compared to the bit. */
#ifndef PH_TESTS_DRAWS_H
#define PH_TESTS_DRAWS_H
#include "support/tensors.h"

/* A function of a tape that gives what is kept: the caller releases it. */
typedef ph_tensor *(*t_drawing)(ph_tape *tape, void *user);

typedef struct t_captured {
    t_scene *scene;
    t_drawing fn;
    void *user;
    ph_tensor *out;
} t_captured;

static inline ph_status t_captured_body(ph_stream *stream, void *user)
{
    t_captured *c = user;
    (void)stream;
    c->out = ph_tensor_retain(c->fn(c->scene->tape, c->user));
    return ph_tape_clear(c->scene->tape);
}

/* Captures fn on the scene's stream; its result is the caller's, as the graph. */
static inline ph_graph *t_capture(t_scene *scene, t_drawing fn, void *user, ph_tensor **out)
{
    t_captured c = {.scene = scene, .fn = fn, .user = user};
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, scene->stream, &(ph_capture_options){.mode = PH_CAPTURE_RELAXED},
                               t_captured_body, &c));
    assert_non_null(c.out);
    *out = c.out;
    return graph;
}

/* Its bytes, in the order of its indices; freed with free. */
static inline void *t_bytes(t_scene *scene, const ph_tensor *x)
{
    void *bytes = calloc(1, ph_tensor_bytes(x) + 1);
    assert_non_null(bytes);
    assert_non_null(x);
    assert_ok(ph_tensor_read(bytes, ph_tensor_bytes(x), scene->tape, x));
    return bytes;
}

static inline bool t_same(t_scene *scene, const ph_tensor *a, const ph_tensor *b)
{
    void *x = t_bytes(scene, a), *y = t_bytes(scene, b);
    bool same = ph_tensor_bytes(a) == ph_tensor_bytes(b) && memcmp(x, y, ph_tensor_bytes(a)) == 0;
    free(x);
    free(y);
    return same;
}

/* One behind the other; vectors of f32. */
static inline ph_tensor *t_join(ph_tape *tape, ph_tensor *const *parts, size_t count)
{
    int64_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += ph_tensor_count(parts[i]);
    ph_tensor *all = ph_empty(tape, PH_DTYPE_F32, PH_SHAPE(n));
    n = 0;
    for (size_t i = 0; i < count; n += ph_tensor_count(parts[i]), i++)
        ph_tensor_copy(tape, ph_slice(tape, all, 0, n, n + ph_tensor_count(parts[i])), parts[i]);
    return all;
}

/* Runs fn now; the result is the caller's. */
static inline ph_tensor *t_now(t_scene *scene, t_drawing fn, void *user)
{
    ph_tensor *x = ph_tensor_retain(fn(scene->tape, user));
    assert_ok(ph_tape_clear(scene->tape));
    assert_non_null(x);
    return x;
}

/* The scene's tape draws from a new generator of this seed; the caller's. */
static inline ph_generator *t_generator(t_scene *scene, uint64_t seed)
{
    ph_generator *generator;
    assert_ok(ph_generator_create(&generator, scene->device, seed));
    ph_tape_set_generator(scene->tape, generator);
    return generator;
}

static inline uint64_t t_offset(const ph_generator *generator)
{
    uint64_t offset;
    assert_ok(ph_generator_get_offset(&offset, generator));
    return offset;
}
#endif
