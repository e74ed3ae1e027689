/* SPDX-License-Identifier: MIT */
/* tests/graph/slots_live.c: the memory behind slots: whether it lives, what a graph writes, and
 * each failure of a host allocation or a driver call. */
#include "support/fault.h"
#include "support/sweep.h"

#include "base/alloc.h"
#include "driver/driver.h"
#include "support/test.h"
#include <string.h>

enum {
    N = 512,
    BYTES = N * sizeof(int32_t)
};
static t_world world;
static ph_graph *graph, *shifted;
static int32_t *x, *y, *z;
static void *far_block; /* what another capture's input lies in */
static const ph_capture_options checked = {.check_input_liveness = true};

static int32_t *filled(int32_t value)
{
    int32_t *made;
    assert_ok(PH_NEW(&made, N, world.stream));
    assert_ok(t_fill(&world, world.stream, made, N, value));
    return made;
}

FIXTURE(start)
{
    t_open(&world, NULL);
    x = filled(1);
    y = filled(0);
    z = filled(5);
    assert_ok(ph_malloc(&far_block, 8192 + BYTES, 1, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    return 0;
}

FIXTURE(stop)
{
    ph_free(x, world.stream);
    ph_free(y, world.stream);
    ph_free(z, world.stream);
    ph_free(far_block, world.stream);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

static int open_world(void **state)
{
    (void)start(state);
    assert_ok(ph_graph_create(&graph, NULL));
    return 0;
}

static int close_world(void **state)
{
    ph_graph_destroy(graph);
    graph = NULL;
    return stop(state);
}

/* y = x + 2, by way of memory of the capture; y's second half = x's */
static ph_status body(ph_stream *stream, void *user)
{
    int32_t *temporary;
    const int32_t *from = user ? user : x;
    PH_TRY(PH_NEW(&temporary, N, stream));
    ph_status status = t_add(&world, stream, from, temporary, N, 1);
    if (status == PH_OK)
        status = t_add(&world, stream, temporary, y, N, 1);
    if (status == PH_OK)
        status = ph_memcpy(y + N / 2, from, BYTES / 2, stream);
    ph_free(temporary, stream);
    return status;
}

static ph_status with(const void *value)
{
    return ph_graph_replay_with(graph, world.stream, &(ph_slot_value){0, value}, 1);
}

static void check(int32_t value)
{
    t_all(y, N / 2, value + 2, world.stream);
    t_all(y + N / 2, N / 2, value, world.stream);
}

static void capture(const ph_capture_options *options)
{
    size_t slot;
    assert_ok(ph_graph_capture(graph, world.stream, options, body, NULL));
    assert_ok(ph_graph_slot_find(&slot, graph, "in", x, BYTES, NULL));
}

/* ---- liveness ---- */
TEST(test_captured_address_is_not_needed_any_more)
{
    capture(&checked);
    ph_free(x, world.stream);
    x = NULL;
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT, "node 0 (add_i32) x");
    assert_ok(with(z));
    check(5);
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_check_inputs(graph));
}

TEST(test_freed_value)
{
    for (int liveness = 0; liveness < 2; liveness++) {
        int32_t *other = filled(9);
        capture(liveness ? &checked : NULL);
        assert_ok(with(other));
        check(9);
        assert_ok(ph_graph_check_inputs(graph));
        ph_free(other, world.stream);
        assert_error(ph_graph_check_inputs(graph), PH_ERROR_STALE_INPUT, "slot in = 0x");
        assert_error(with(other), PH_ERROR_ARGUMENT, "nothing is allocated there");
        if (liveness)
            assert_status(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT);
        other = filled(8); /* at the old address, perhaps */
        assert_ok(with(other));
        check(8);
        assert_ok(ph_graph_check_inputs(graph));
        assert_ok(with(x));
        ph_free(other, world.stream); /* no slot has it any more */
        assert_ok(ph_graph_replay(graph, world.stream));
        assert_ok(ph_graph_check_inputs(graph));
        check(1);
        assert_ok(ph_graph_reset(graph));
    }
}

/* Another input is gone: the values that came with the refused replay are not taken. */
TEST(test_refused_for_another_input)
{
    ph_slot_info info;
    int32_t *old = y;
    capture(&checked);
    y = filled(0);
    ph_free(old, world.stream);
    assert_error(with(z), PH_ERROR_STALE_INPUT, "1 dead input: ");
    assert_ok(ph_graph_slot_get(&info, graph, 0));
    assert_ptr_equal(info.current, x);
    size_t slot;
    assert_ok(ph_graph_slot_find(&slot, graph, "out", old, BYTES, NULL));
    const ph_slot_value both[] = {{0, z}, {1, y}};
    assert_ok(ph_graph_replay_with(graph, world.stream, both, 2));
    check(5);
}

TEST(test_frees_of_many_values)
{
    capture(&checked);
    for (int i = 0; i < 50; i++) {
        int32_t *other = filled(i);
        assert_ok(with(other));
        check(i);
        ph_free(other, world.stream);
    }
    assert_status(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT);
    assert_ok(with(x));
}

/* What becomes a part of another graph reads what was captured, which must live then. */
TEST(test_into_a_capture)
{
    ph_graph *outer;
    capture(&checked);
    assert_ok(with(z));
    ph_free(x, world.stream);
    x = NULL;
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_capture_begin(outer, world.stream, NULL));
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT, "node 0 (add_i32) x");
    ph_graph_capture_abort(outer);
    assert_ok(ph_graph_replay(graph, world.stream));
    ph_graph_destroy(outer);
}

/* ---- what is written ---- */
static ph_status give_temporary(ph_stream *stream, void *user)
{
    int32_t **out = user;
    PH_TRY(PH_NEW(out, N, stream));
    return t_add(&world, stream, x, *out, N, 1);
}

TEST(a_graph_writes_its_pool_memory_and_nothing_else)
{
    int32_t *own;
    bool writes = true;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, give_temporary, &own));
    const struct {
        const void *at;
        size_t bytes;
        bool writes;
    } rows[] = {{own, BYTES, true}, {own + N - 1, 1, true},     {own + 3, 0, false},
                {x, BYTES, false},  {(char *)own - 1, 2, true}, {&writes, 1, false},
                {NULL, 16, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_ok(ph_graph_writes(&writes, graph, rows[i].at, rows[i].bytes));
        assert_int_equal(writes, rows[i].writes);
    }
    assert_error(ph_graph_writes(NULL, graph, own, 1), PH_ERROR_ARGUMENT, "out is NULL");
    assert_error(ph_graph_writes(&writes, graph, own, SIZE_MAX), PH_ERROR_ARGUMENT,
                 "address space");
    ph_free(own, world.stream); /* the capture was given it all the same */
    assert_ok(ph_graph_writes(&writes, graph, own, BYTES));
    assert_true(writes);
}

/* ---- failures ---- */
static ph_status everything(void *user)
{
    const ph_slot_place value = {1, offsetof(struct t_add_i32, value)};
    size_t slot;
    ph_slot_proof proof;
    const void *far_away = t_opposite(far_block, x);
    const ph_slot_span span = {.base = x, .shifted = &far_away, .bytes = BYTES};
    (void)user;
    PH_TRY(ph_graph_create(&graph, NULL));
    PH_TRY(ph_graph_create(&shifted, NULL));
    PH_TRY(ph_graph_capture(graph, world.stream, &checked, body, NULL));
    PH_TRY(ph_graph_capture(shifted, world.stream, NULL, body, (void *)(uintptr_t)far_away));
    PH_TRY(ph_graph_slot_prove(&proof, graph, &shifted, 1, &span, 1));
    PH_TRY(ph_graph_slot_declare_scalar(&slot, graph, "value", &(int32_t){1}, 4, &value, 1));
    PH_TRY(ph_graph_slot_find(&slot, graph, "out", y, BYTES, NULL));
    const ph_slot_value values[] = {{0, z}, {1, &(int32_t){3}}, {2, y}};
    ph_status status = ph_graph_replay_with(graph, world.stream, values, 3);
    if (status != PH_OK) { /* the next one has it all */
        ph_error failure = *ph_error_last();
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        ph__driver_fail_after(-1, 0);
        assert_ok(ph_graph_replay_with(graph, world.stream, values, 3));
        t_all(y, N / 2, 9, world.stream);
        t_all(y + N / 2, N / 2, 5, world.stream);
        return ph_fail(failure.status, "%s", failure.message);
    }
    PH_TRY(ph_graph_update(graph, shifted, NULL));
    PH_TRY(ph_graph_replay(graph, world.stream));
    return ph_stream_synchronize(world.stream);
}

static void reset(ph_status status, void *user)
{
    (void)user;
    if (status == PH_OK)
        t_all(y, N / 2, 9, world.stream);
    ph_graph_destroy(graph);
    ph_graph_destroy(shifted);
    graph = shifted = NULL;
    assert_ok(ph_device_synchronize(world.device));
}

static const t_swept swept = {
    .name = "slots", .open = start, .close = stop, .run = everything, .reset = reset};

TEST(test_host_allocations)
{
    t_sweep_host_memory(&swept, 20);
}

TEST(test_driver_calls)
{
    t_sweep_driver(&swept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_captured_address_is_not_needed_any_more),
        IN_WORLD(test_freed_value),
        IN_WORLD(test_refused_for_another_input),
        IN_WORLD(test_frees_of_many_values),
        IN_WORLD(test_into_a_capture),
        IN_WORLD(a_graph_writes_its_pool_memory_and_nothing_else),
        cmocka_unit_test(test_host_allocations),
        cmocka_unit_test(test_driver_calls),
    };
    return cmocka_run_group_tests_name("graph.slots_live", tests, NULL, NULL);
}
