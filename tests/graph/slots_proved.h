/* SPDX-License-Identifier: MIT */
/* tests/graph/slots_proved.h: two captures of one body on other inputs, of which slots are
 * proved. */
#ifndef PH_TESTS_GRAPH_SLOTS_PROVED_H
#define PH_TESTS_GRAPH_SLOTS_PROVED_H
#include "support/support.h"

#include "base/alloc.h"

enum {
    N = 256,
    BYTES = N * sizeof(int32_t),
    INPUTS = 4,
    PAGE = 4096
};
static t_world world;
static ph_kernel *copy_first; /* untyped */
static ph_graph *graph, *shifted;
/* What captures read, what the shifted ones read, what slots are given; and what they write. */
static int32_t *base[INPUTS], *moved[INPUTS], *fresh[INPUTS], *out;
static void *base_block, *moved_block; /* what the first two lie in */
static const void *moved_at[INPUTS];

static inline int32_t *filled(int32_t value)
{
    int32_t *made;
    assert_ok(PH_NEW(&made, N, world.stream));
    assert_ok(t_fill(&world, world.stream, made, N, value));
    return made;
}

static inline int32_t *at_page(void *block, size_t page)
{
    return (int32_t *)(((uintptr_t)block + PAGE - 1) / PAGE * PAGE + page * PAGE);
}

/* Inputs of base hold their number, those of fresh 100 more, those of moved 0. base has pages'
 * begins and moved ends 4 bytes before one, so that all bits in between differ; no two inputs
 * move by the same distance. */
static inline int open_world(void **state)
{
    (void)state;
    t_open(&world, NULL);
    assert_ok(ph_kernel_create(&copy_first, world.device, &t_kernel_sources[T_KERNEL_COPY_FIRST]));
    assert_ok(ph_malloc(&base_block, (size_t)PAGE * (INPUTS + 1), 1, world.stream));
    assert_ok(ph_malloc(&moved_block, (size_t)PAGE * (3 * INPUTS + 2), 1, world.stream));
    for (int i = 0; i < INPUTS; i++) {
        base[i] = at_page(base_block, (size_t)i);
        moved[i] = at_page(moved_block, (size_t)(3 * i + 1)) - 1;
        moved_at[i] = moved[i];
        assert_ok(t_fill(&world, world.stream, base[i], N, i));
        assert_ok(t_fill(&world, world.stream, moved[i], N, 0));
        fresh[i] = filled(100 + i);
    }
    out = filled(0);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_create(&shifted, NULL));
    return 0;
}

static inline int close_world(void **state)
{
    (void)state;
    ph_graph_destroy(graph);
    ph_graph_destroy(shifted);
    ph_free(base_block, world.stream);
    ph_free(moved_block, world.stream);
    for (int i = 0; i < INPUTS; i++)
        ph_free(fresh[i], world.stream);
    ph_free(out, world.stream);
    ph_kernel_release(copy_first);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

/* The shifted addresses of a span, of one capture. */
#define AT(...) ((const void *const[]){__VA_ARGS__})

static inline void capture(ph_graph *into, ph_capture_fn body, void *user)
{
    assert_ok(ph_graph_capture(into, world.stream, NULL, body, user));
}

/* to[0] = from[0], by the untyped kernel. */
static inline ph_status first(ph_stream *stream, const int32_t *from, int32_t *to)
{
    const struct t_copy_first args = {from, to};
    return ph_launch(stream, copy_first, NULL, &args, sizeof args);
}
#endif
