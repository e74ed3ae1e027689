/* SPDX-License-Identifier: MIT */
/* tests/graph/slots.c: slots: finding and declaring them, replays with other addresses and
 * values, and what instantiating, updating, nesting and resetting the graph does to them. */
#include "support/support.h"

#include "base/alloc.h"
#include "support/test.h"
#include <string.h>

enum {
    N = 512,
    BYTES = N * sizeof(int32_t),
    ADD = 0, /* node 0: y = x + 1; offsets of struct t_add_i32 */
    COPY = 1,
    FILL = 2
};
static t_world world;
static ph_graph *graph;
static int32_t *x, *y, *z, *w; /* captured with */
static int32_t *other[3];      /* 10, 20, 30 */

static int32_t *filled(int32_t value)
{
    int32_t *made;
    assert_ok(PH_NEW(&made, N, world.stream));
    assert_ok(t_fill(&world, world.stream, made, N, value));
    return made;
}

FIXTURE(open_world)
{
    ph_graph_options options = {.keep_graph = true};
    t_open(&world, NULL);
    x = filled(1);
    y = filled(0);
    z = filled(0);
    w = filled(0);
    for (int i = 0; i < 3; i++)
        other[i] = filled(10 * (i + 1));
    assert_ok(ph_graph_create(&graph, &options));
    return 0;
}

FIXTURE(close_world)
{
    ph_graph_destroy(graph);
    int32_t *all[] = {x, y, z, w, other[0], other[1], other[2]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ph_free(all[i], world.stream);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

/* y = x + 1; z[0..N-1) = x[1..N); w[8..N) = 7 */
static ph_status body(ph_stream *stream, void *user)
{
    const int32_t *from = user ? user : x;
    PH_TRY(t_add(&world, stream, from, y, N, 1));
    PH_TRY(ph_memcpy(z, from + 1, BYTES - sizeof *z, stream));
    return ph_memset_u32(w + 8, 7, N - 8, stream);
}

static void capture(void)
{
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
}

static size_t find(const char *name, const int32_t *base)
{
    size_t slot;
    assert_ok(ph_graph_slot_find(&slot, graph, name, base, BYTES, NULL));
    return slot;
}

static ph_status with(size_t slot, const void *value)
{
    return ph_graph_replay_with(graph, world.stream, &(ph_slot_value){slot, value}, 1);
}

/* y and z, of an x that was `value`. */
static void check(int32_t value)
{
    t_all(y, N, value + 1, world.stream);
    t_all(z, N - 1, value, world.stream);
}

static ph_slot_info info_of(size_t slot)
{
    ph_slot_info info;
    assert_ok(ph_graph_slot_get(&info, graph, slot));
    return info;
}

/* ---- finding ---- */
TEST(test_found_in_every_kind_of_node)
{
    ph_slot_place place;
    capture();
    assert_int_equal(ph_graph_slot_count(graph), 0);
    size_t in = find("in", x), out = find(NULL, w);
    assert_int_equal(in, 0);
    assert_int_equal(out, 1);
    assert_int_equal(ph_graph_slot_count(graph), 2);
    ph_slot_info info = info_of(in);
    assert_string_equal(info.name, "in");
    assert_true(info.address);
    assert_int_equal(info.bytes, BYTES);
    assert_int_equal(info.alignment, 256);
    assert_int_equal(info.uses, 2);
    assert_ptr_equal(info.current, x);
    assert_ok(ph_graph_slot_place_at(&place, graph, in, 0));
    assert_int_equal(place.node, ADD);
    assert_int_equal(place.offset, offsetof(struct t_add_i32, x));
    assert_ok(ph_graph_slot_place_at(&place, graph, in, 1));
    assert_int_equal(place.node, COPY);
    assert_int_equal(place.offset, 8);
    assert_string_equal(info_of(out).name, "slot 1");
    assert_ok(ph_graph_slot_place_at(&place, graph, out, 0));
    assert_int_equal(place.node, FILL);
    assert_int_equal(place.offset, 0);
    for (int i = 0; i < 3; i++) {
        assert_ok(with(in, other[i]));
        check(10 * (i + 1));
    }
    t_all(w + 8, N - 8, 7, world.stream);
    t_all(w, 8, 0, world.stream);
    assert_ok(ph_graph_replay_with(graph, world.stream, &(ph_slot_value){out, other[1]}, 1));
    t_all(other[1] + 8, N - 8, 7, world.stream);
    t_all(other[1], 8, 20, world.stream);
    assert_ptr_equal(info_of(out).current, other[1]);
}

TEST(test_values_stay)
{
    capture();
    size_t in = find("in", x);
    assert_ok(with(in, other[1]));
    check(20);
    assert_ok(t_fill(&world, world.stream, other[1], N, 21));
    assert_ok(ph_graph_replay(graph, world.stream));
    check(21);
    assert_ok(ph_graph_replay_with(graph, world.stream, NULL, 0));
    check(21);
    assert_ok(with(in, x));
    check(1);
}

/* A part of an allocation, and spans that lie in one. */
TEST(test_parts_of_allocations)
{
    int32_t *large;
    size_t in;
    assert_ok(PH_NEW(&large, 4 * N, world.stream));
    for (int i = 0; i < 4; i++)
        assert_ok(t_fill(&world, world.stream, large + i * N, N, 100 * (i + 1)));
    capture();
    assert_ok(ph_graph_slot_find(&in, graph, "in", x, BYTES, &(ph_slot_options){.alignment = 4}));
    for (size_t i = 0; i < 4; i++) {
        assert_ok(with(in, large + i * N));
        check(100 * ((int32_t)i + 1));
    }
    assert_ok(with(in, large + 1));
    assert_error(with(in, large + 3 * N + 1), PH_ERROR_ARGUMENT, "ends after 2044 bytes");
    ph_free(large, world.stream);
}

static ph_status from_pinned(ph_stream *stream, void *user)
{
    return ph_memcpy(y, user, BYTES, stream);
}

static int32_t *pinned_filled(int32_t value)
{
    int32_t *made;
    assert_ok(ph_malloc_pinned(&made, N, sizeof *made, world.stream));
    for (int i = 0; i < N; i++)
        made[i] = value;
    return made;
}

/* Kernels read it where they read the device's; copies stay copies of pinned memory. What they
 * read is not reused. */
TEST(test_pinned_memory)
{
    int32_t *first = pinned_filled(5), *second = pinned_filled(6);
    size_t in;
    const ph_slot_place add = {ADD, offsetof(struct t_add_i32, x)};
    capture();
    assert_ok(ph_graph_slot_declare_address(&in, graph, "in", x, BYTES, &add, 1, NULL));
    assert_ok(with(in, first));
    t_all(y, N, 6, world.stream);
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, from_pinned, first));
    assert_ok(ph_graph_slot_find(&in, graph, "in", first, BYTES, NULL));
    assert_ok(with(in, second));
    t_all(y, N, 6, world.stream);
    assert_error(with(in, other[0]), PH_ERROR_ARGUMENT, "captured with pinned memory");
    ph_free_pinned(second, world.stream);
    int32_t *third = pinned_filled(7);
    assert_ptr_not_equal(third, second);
    ph_free_pinned(first, world.stream);
    ph_free_pinned(third, world.stream);
}

/* ---- declaring ---- */
TEST(declared_slots_set_addresses_and_scalars)
{
    size_t in, value;
    const ph_slot_place places[] = {{ADD, offsetof(struct t_add_i32, x)}, {COPY, 8}};
    const ph_slot_place scalar = {ADD, offsetof(struct t_add_i32, value)};
    const int32_t five = 5;
    capture();
    assert_ok(ph_graph_slot_declare_address(&in, graph, "in", x, BYTES, places, 2, NULL));
    assert_ok(ph_graph_slot_declare_scalar(&value, graph, "value", &(int32_t){1}, sizeof five,
                                           &scalar, 1));
    ph_slot_info info = info_of(value);
    assert_false(info.address);
    assert_int_equal(info.bytes, 4);
    assert_int_equal(info.alignment, 0);
    assert_int_equal(*(const int32_t *)info.current, 1);
    assert_ok(with(value, &five));
    t_all(y, N, 6, world.stream);
    assert_int_equal(*(const int32_t *)info_of(value).current, 5);
    const ph_slot_value both[] = {{value, &(int32_t){-3}}, {in, other[0]}};
    assert_ok(ph_graph_replay_with(graph, world.stream, both, 2));
    t_all(y, N, 7, world.stream);
    t_all(z, N - 1, 10, world.stream);
}

/* What one slot gives a node stays when another one of it is set. */
TEST(test_two_slots_of_one_node)
{
    capture();
    size_t in = find("in", x), out = find("out", y);
    assert_ok(with(in, other[0]));
    assert_ok(with(out, w));
    t_all(w, 8, 11, world.stream);
    t_all(y, N, 11, world.stream);
    assert_ok(with(in, other[1]));
    t_all(w, 8, 21, world.stream);
    t_all(y, N, 11, world.stream);
}

/* ---- replays in flight ---- */
TEST(test_in_flight)
{
    t_gate gate = {0};
    capture();
    size_t out = find("out", y);
    assert_ok(ph_graph_instantiate(graph));
    assert_ok(t_gate_wait_guarded(&gate, world.stream));
    for (int i = 0; i < 3; i++)
        assert_ok(with(out, other[i]));
    if (t_gate_held(&gate))
        assert_ptr_equal(info_of(out).current, other[2]);
    t_gate_open(&gate);
    for (int i = 0; i < 3; i++)
        t_all(other[i], N, 2, world.stream);
    t_all(y, N, 0, world.stream);
}

/* ---- the graph's life ---- */
TEST(test_instantiate_and_replay)
{
    capture();
    size_t in = find("in", x);
    assert_ok(with(in, other[0]));
    check(10);
    assert_ok(ph_graph_instantiate(graph));
    assert_ok(ph_graph_replay(graph, world.stream));
    check(10);
    assert_ok(ph_graph_instantiate(graph));
    assert_ok(with(in, other[0]));
    check(10);
    assert_ok(ph_graph_instantiate(graph));
    assert_ok(with(in, other[1]));
    check(20);
}

static ph_graph *captured(int32_t *from)
{
    ph_graph *made;
    assert_ok(ph_graph_create(&made, NULL));
    assert_ok(ph_graph_capture(made, world.stream, NULL, body, from));
    return made;
}

TEST(an_update_keeps_the_slots_that_were_set)
{
    ph_graph *from = captured(other[1]);
    capture();
    size_t in = find("in", x), out = find("out", y);
    /* the one that is set stays so, the other one has what the update brings */
    assert_ok(with(out, w));
    assert_ok(ph_graph_update(graph, from, NULL));
    ph_graph_destroy(from);
    assert_ptr_equal(info_of(in).current, other[1]);
    assert_ptr_equal(info_of(out).current, w);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(w, 8, 21, world.stream);
    assert_ok(with(in, other[0]));
    t_all(w, 8, 11, world.stream);
    assert_ok(with(in, other[1]));
    t_all(w, 8, 21, world.stream);
    size_t slot;
    const ph_slot_place place = {ADD, offsetof(struct t_add_i32, value)};
    assert_error(ph_graph_slot_declare_scalar(&slot, graph, NULL, &(int32_t){1}, 4, &place, 1),
                 PH_ERROR_STATE, "ph_graph_update");
    assert_ok(ph_graph_update(graph, graph, NULL));
    assert_ok(ph_graph_slot_declare_scalar(&slot, graph, NULL, &(int32_t){1}, 4, &place, 1));
    assert_ok(with(slot, &(int32_t){9}));
    t_all(w, 8, 29, world.stream);
}

static ph_status lopsided(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_add(&world, stream, other[0], y, N, 1));
    PH_TRY(ph_memcpy(z, other[1] + 1, BYTES - sizeof *z, stream));
    return ph_memset_u32(w + 8, 7, N - 8, stream);
}

TEST(test_update_that_does_not_fit)
{
    ph_graph *from;
    ph_update_result result;
    assert_ok(ph_graph_create(&from, NULL));
    assert_ok(ph_graph_capture(from, world.stream, NULL, lopsided, NULL));
    capture();
    size_t in = find("in", x);
    assert_ok(with(in, other[2]));
    assert_error(ph_graph_update(graph, from, &result), PH_ERROR_MISMATCH,
                 "slot 0 (in) have other distances");
    assert_int_equal(result.reason, PH_UPDATE_UNSUPPORTED);
    assert_ok(ph_graph_replay(graph, world.stream));
    check(30);
    ph_graph_destroy(from);
}

static ph_status nested(ph_stream *stream, void *user)
{
    (void)user;
    return ph_graph_replay(graph, stream);
}

/* What becomes a part of another graph is as it was captured. */
TEST(test_into_a_capture)
{
    ph_graph *outer;
    capture();
    size_t in = find("in", x);
    assert_ok(with(in, other[0]));
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_capture_begin(outer, world.stream, NULL));
    assert_error(with(in, other[1]), PH_ERROR_STATE, "the stream is capturing");
    assert_ok(nested(world.stream, NULL));
    assert_ok(ph_graph_capture_end(outer, PH_OK));
    assert_ok(ph_graph_replay(outer, world.stream));
    check(1);
    assert_ok(ph_graph_replay(graph, world.stream));
    check(10);
    ph_graph_destroy(outer);
}

TEST(a_reset_graph_has_no_slots)
{
    ph_slot_info info;
    capture();
    size_t in = find("in", x);
    assert_ok(with(in, other[0]));
    assert_ok(ph_graph_reset(graph));
    assert_int_equal(ph_graph_slot_count(graph), 0);
    assert_error(ph_graph_slot_get(&info, graph, in), PH_ERROR_STATE, "preceding");
    capture();
    assert_error(with(in, other[0]), PH_ERROR_NOT_FOUND,
                 "slot 0 does not exist; the graph has 0, numbered from 0: a reset");
    assert_ok(ph_graph_replay(graph, world.stream));
    check(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_found_in_every_kind_of_node),
        IN_WORLD(test_values_stay),
        IN_WORLD(test_parts_of_allocations),
        IN_WORLD(test_pinned_memory),
        IN_WORLD(declared_slots_set_addresses_and_scalars),
        IN_WORLD(test_two_slots_of_one_node),
        IN_WORLD(test_in_flight),
        IN_WORLD(test_instantiate_and_replay),
        IN_WORLD(an_update_keeps_the_slots_that_were_set),
        IN_WORLD(test_update_that_does_not_fit),
        IN_WORLD(test_into_a_capture),
        IN_WORLD(a_reset_graph_has_no_slots),
    };
    return cmocka_run_group_tests_name("graph.slots", tests, NULL, NULL);
}
