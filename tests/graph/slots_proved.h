/* SPDX-License-Identifier: MIT */
/* tests/graph/slots_proved.h: two captures of one body on other inputs, of which slots are proved. */
#ifndef PH_TESTS_GRAPH_SLOTS_PROVED_H
#define PH_TESTS_GRAPH_SLOTS_PROVED_H
#include "support/support.h"

#include "base/alloc.h"

enum {
    N = 256,
    BYTES = N * sizeof(int32_t),
    INPUTS = 4
};
static t_world world;
static ph_kernel *copy_first; /* untyped */
static ph_graph *graph, *shifted;
/* What captures read, what the shifted ones read, what slots are given; and what they write. */
static int32_t *base[INPUTS], *moved[INPUTS], *fresh[INPUTS], *out;

static inline int32_t *filled(int32_t value)
{
    int32_t *made;
    assert_ok(PH_NEW(&made, N, world.stream));
    assert_ok(t_fill(&world, world.stream, made, N, value));
    return made;
}

/* Inputs of base hold their number, those of fresh 100 more, those of moved 0. */
static inline int open_world(void **state)
{
    (void)state;
    t_open(&world, NULL);
    assert_ok(ph_kernel_create(&copy_first, world.device, &t_kernel_sources[T_KERNEL_COPY_FIRST]));
    /* of sizes that differ, so that no two inputs move by the same distance */
    for (int i = 0; i < INPUTS; i++)
        base[i] = filled(i);
    for (int i = 0; i < INPUTS; i++) {
        assert_ok(PH_NEW(&moved[i], N + 1000 * (size_t)i, world.stream));
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
    for (int i = 0; i < INPUTS; i++) {
        ph_free(base[i], world.stream);
        ph_free(moved[i], world.stream);
        ph_free(fresh[i], world.stream);
    }
    ph_free(out, world.stream);
    ph_kernel_release(copy_first);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

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
