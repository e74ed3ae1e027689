/* SPDX-License-Identifier: MIT */
/* tests/graph/slots_many.c: more slots than addresses are looked up at once, of both kinds and
 * in any order: what is set, refused, and noticed to be gone. */
#include "support/support.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "memory/observe/lookup.h"
#include "support/test.h"
#include <stdio.h>
#include <string.h>

enum {
    N = 64,
    BYTES = N * sizeof(int32_t),
    MANY = 75,
    ROUNDS = 12
};
_Static_assert(MANY > 2 * PH__FIND_MOST, "three parts and more are looked up");

static t_world world;
static ph_graph *graph;
static int32_t *x[MANY], *z[MANY]; /* i and 1000 + i */
static int32_t *y;                 /* part i = x[i] + 1 */
static ph__rng rng;

/* Two values for each i, its address and its addend, and what part i of y becomes by them. */
typedef struct choice {
    ph_slot_value values[2 * MANY];
    int32_t add[MANY], want[MANY];
} choice;

static int32_t *filled(size_t n, int32_t value)
{
    int32_t *made;
    assert_ok(PH_NEW(&made, n, world.stream));
    assert_ok(t_fill(&world, world.stream, made, n, value));
    return made;
}

FIXTURE(open_world)
{
    t_open(&world, NULL);
    for (int i = 0; i < MANY; i++) {
        x[i] = filled(N, i);
        z[i] = filled(N, 1000 + i);
    }
    y = filled(MANY * N, 0);
    rng = (ph__rng){3};
    assert_ok(ph_graph_create(&graph, NULL));
    return 0;
}

FIXTURE(close_world)
{
    ph_graph_destroy(graph);
    for (int i = 0; i < MANY; i++) {
        ph_free(x[i], world.stream);
        ph_free(z[i], world.stream);
    }
    ph_free(y, world.stream);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

static ph_status body(ph_stream *stream, void *user)
{
    (void)user;
    for (int i = 0; i < MANY; i++)
        PH_TRY(t_add(&world, stream, x[i], y + i * N, N, 1));
    return PH_OK;
}

/* Slot 2 i: the address of node i, slot 2 i + 1: its addend. */
static void capture(bool liveness)
{
    assert_ok(ph_graph_capture(
        graph, world.stream, &(ph_capture_options){.check_input_liveness = liveness}, body, NULL));
    for (size_t i = 0; i < MANY; i++) {
        const ph_slot_place place = {i, offsetof(struct t_add_i32, value)};
        char name[16];
        size_t slot;
        (void)snprintf(name, sizeof name, "x%zu", i);
        assert_ok(ph_graph_slot_find(&slot, graph, name, x[i], BYTES, NULL));
        assert_int_equal(slot, 2 * i);
        assert_ok(ph_graph_slot_declare_scalar(&slot, graph, "add", &(int32_t){1}, sizeof(int32_t),
                                               &place, 1));
        assert_int_equal(slot, 2 * i + 1);
    }
}

/* In any order; many as they were, and no address twice. */
static void choose(choice *c)
{
    const size_t from = ph__rng_below(&rng, MANY);
    for (size_t i = 0; i < MANY; i++) {
        const size_t other = (7 * i + from) % MANY;
        const bool same = ph__rng_below(&rng, 3) == 0;
        c->add[i] = (int32_t)ph__rng_below(&rng, 3);
        c->want[i] = (int32_t)(same ? i : 1000 + other) + c->add[i];
        c->values[2 * i] = (ph_slot_value){2 * i, same ? x[i] : z[other]};
        c->values[2 * i + 1] = (ph_slot_value){2 * i + 1, &c->add[i]};
    }
    for (size_t i = 2 * MANY; i-- > 1;) {
        const size_t k = ph__rng_below(&rng, i + 1);
        const ph_slot_value value = c->values[i];
        c->values[i] = c->values[k];
        c->values[k] = value;
    }
}

/* Any one of the addresses. */
static ph_slot_value *any(choice *c)
{
    size_t k = ph__rng_below(&rng, 2 * MANY);
    while (c->values[k].slot % 2)
        k = (k + 1) % (2 * MANY);
    return &c->values[k];
}

static ph_status with(const choice *c)
{
    return ph_graph_replay_with(graph, world.stream, c->values, 2 * MANY);
}

static void expect(const choice *c)
{
    static int32_t got[MANY * N];
    t_read(got, y, sizeof got, world.stream);
    for (int i = 0; i < MANY * N; i++)
        assert_int_equal(got[i], c->want[i / N]);
    assert_ok(t_fill(&world, world.stream, y, MANY * N, -1));
}

/* It is this slot, and no other one, that it says so of. */
static void refused(const choice *c, const ph_slot_value *value, const char *why)
{
    char part[64];
    (void)snprintf(part, sizeof part, "%p for slot %zu (x%zu)", value->value, value->slot,
                   value->slot / 2);
    assert_error(with(c), PH_ERROR_ARGUMENT, part);
    assert_non_null(strstr(ph_error_last()->message, why));
}

TEST(test_set_in_any_order)
{
    static choice c;
    for (int liveness = 0; liveness < 2; liveness++) {
        capture(liveness);
        for (int round = 0; round < ROUNDS; round++) {
            choose(&c);
            assert_ok(with(&c));
            expect(&c);
            assert_ok(with(&c));
            expect(&c);
            for (size_t i = 0; i < 2 * MANY; i++) {
                ph_slot_info info;
                assert_ok(ph_graph_slot_get(&info, graph, c.values[i].slot));
                if (info.address)
                    assert_ptr_equal(info.current, c.values[i].value);
            }
        }
        assert_ok(ph_graph_reset(graph));
    }
}

/* One of them is no good: all stay as they were. */
TEST(test_one_bad)
{
    static choice now, next;
    int32_t *small = filled(N / 2, 0), *gone = filled(16 * BYTES, 0);
    ph_free(gone, world.stream);
    const struct {
        const int32_t *value;
        const char *why;
    } bad[] = {{small + 1, "is no multiple of 256"},
               {small, "ends after 128 bytes"},
               {gone, "nothing is allocated there"}};
    for (int liveness = 0; liveness < 2; liveness++) {
        capture(liveness);
        choose(&now);
        assert_ok(with(&now));
        expect(&now);
        for (int round = 0; round < ROUNDS; round++) {
            choose(&next);
            ph_slot_value *value = any(&next);
            const void *good = value->value;
            value->value = bad[round % 3].value;
            refused(&next, value, bad[round % 3].why);
            assert_ok(ph_graph_replay(graph, world.stream));
            expect(&now);
            value->value = good;
            assert_ok(with(&next));
            expect(&next);
            choose(&now);
            assert_ok(with(&now));
            expect(&now);
        }
        assert_ok(ph_graph_reset(graph));
    }
    ph_free(small, world.stream);
}

/* The memory of one of them goes, and comes again, at the old address perhaps. */
TEST(test_one_dies)
{
    static choice c;
    for (int liveness = 0; liveness < 2; liveness++) {
        capture(liveness);
        for (int round = 0; round < ROUNDS; round++) {
            char part[32];
            size_t k = 0;
            choose(&c);
            assert_ok(with(&c));
            expect(&c);
            ph_slot_value *value = any(&c);
            while (k < 2 * MANY && (k < MANY ? x[k] : z[k - MANY]) != value->value)
                k++;
            assert_true(k < 2 * MANY);
            int32_t **dies = k < MANY ? &x[k] : &z[k - MANY];
            ph_free(*dies, world.stream);
            refused(&c, value, "nothing is allocated there");
            (void)snprintf(part, sizeof part, "slot x%zu = 0x", value->slot / 2);
            assert_error(ph_graph_check_inputs(graph), PH_ERROR_STALE_INPUT, part);
            if (liveness)
                assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT, part);
            *dies = filled(N, k < MANY ? (int32_t)k : 1000 + (int32_t)k - MANY);
            value->value = *dies;
            assert_ok(with(&c));
            expect(&c);
            assert_ok(ph_graph_check_inputs(graph));
        }
        assert_ok(ph_graph_reset(graph));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_set_in_any_order),
        IN_WORLD(test_one_bad),
        IN_WORLD(test_one_dies),
    };
    return cmocka_run_group_tests_name("graph.slots_many", tests, NULL, NULL);
}
