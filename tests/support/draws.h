/* SPDX-License-Identifier: MIT */
/* tests/support/draws.h: scenes with a generator of their own, captures of functions of a tape,
 * and tensors compared to the bit. */
#ifndef PH_TESTS_DRAWS_H
#define PH_TESTS_DRAWS_H
#include "support/grads.h"

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
    assert_ok(ph_graph_capture(graph, scene->stream,
                               &(ph_capture_options){.mode = PH_CAPTURE_RELAXED}, t_captured_body,
                               &c));
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
    assert_ok(ph_tensor_read(scene->tape, x, bytes, ph_tensor_bytes(x)));
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
/* Of operators that draw for each element of x. */
typedef ph_tensor *(*t_drawing_fn)(ph_tape *tape, ph_tensor *x);

/* A turned x is copied, but for the call alone: it is one node, and what stays is as much as of
 * a dense x. kept: bytes of history, of 256 KiB. */
static inline void t_expect_turned_is_not_kept(t_drawing_fn draw, size_t kept)
{
    const size_t bytes = 256 << 10;
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = ph_tensor_retain(ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(256, 256)));
    for (size_t grad = 0; grad < 2; grad++) {
        assert_ok(ph_tape_clear(s.tape));
        assert_ok(ph_tensor_set_requires_grad(x, grad));
        ph_tensor *turned = ph_transpose(s.tape, x, 0, 1);
        const size_t base = t_allocated(&s), nodes = t_info(&s).nodes;
        assert_non_null(draw(s.tape, turned));
        assert_int_equal(t_allocated(&s) - base, bytes + grad * kept);
        assert_int_equal(t_info(&s).nodes - nodes, grad);
        assert_int_equal(t_info(&s).saved, grad);
    }
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* The n-th host allocation fails, of two of them and their gradients. */
static inline void t_expect_shortages(t_drawing_fn draw)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2, 2), 1, -2, 3, -4), *dx = NULL;
    bool failed = true;
    for (int64_t n = 0; failed; n++) {
        assert_true(n < 200);
        ph__alloc_fail_after(n);
        ph_tensor *y = draw(s.tape, ph_transpose(s.tape, draw(s.tape, x), 0, 1)),
                  *dy = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(2, 2), 1);
        ph_grad(s.tape, &dx, &x, 1, &y, &dy, 1, NULL);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        ph_status status = ph_tape_clear(s.tape);
        failed = status != PH_OK;
        assert_true(!failed || status == PH_ERROR_HOST_MEMORY);
    }
    ph_tensor_release(x);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}
#endif
