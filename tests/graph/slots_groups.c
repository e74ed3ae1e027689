/* SPDX-License-Identifier: MIT */
/* tests/graph/slots_groups.c: inputs that every capture moved by one distance are set by one
 * distance, or not at all. */
#include "slots_proved.h"
#include "support/test.h"

#include <string.h>

enum {
    VIEWS = 2,
    SPAN = 64,   /* bytes */
    CAPTURES = 5 /* places for both views: of the graph, of two further captures, of replays */
};
static void *block;
static int32_t *views[CAPTURES][VIEWS];
static ph_graph *apart; /* a capture in which the views are moved apart */

/* Page i holds 10 i. In captures 0, 1 and 3 the second view lies a page behind the first one. */
static int open_views(void **state)
{
    (void)open_world(state);
    assert_ok(ph_malloc(&block, 20 * (size_t)PAGE, 1, world.stream));
    for (size_t i = 0; i < 18; i++)
        assert_ok(t_fill(&world, world.stream, at_page(block, i), PAGE / 4, 10 * (int32_t)i));
    for (size_t i = 0; i < CAPTURES; i++) {
        views[i][0] = at_page(block, 3 * i);
        views[i][1] = at_page(block, 3 * i + 1 + (i == 2 || i == 4));
    }
    assert_ok(ph_graph_create(&apart, NULL));
    return 0;
}

static int close_views(void **state)
{
    ph_graph_destroy(apart);
    ph_free(block, world.stream);
    return close_world(state);
}

/* Reads both, and the second one once more by way of the first one's address. */
static ph_status read_views(ph_stream *stream, void *user)
{
    int32_t **from = user;
    PH_TRY(first(stream, from[0] + 1, out));
    PH_TRY(first(stream, from[1] + 1, out + 1));
    return first(stream, from[0] + (views[0][1] - views[0][0]), out + 2);
}

static ph_status read_both(ph_stream *stream, void *user)
{
    int32_t **from = user;
    PH_TRY(first(stream, from[0] + 1, out));
    return first(stream, from[1] + 1, out + 1);
}

static void expect(int32_t one, int32_t two)
{
    int32_t host[2];
    t_read(host, out, sizeof host, world.stream);
    assert_int_equal(host[0], one);
    assert_int_equal(host[1], two);
}

static size_t group_of(size_t slot)
{
    ph_slot_info info;
    assert_ok(ph_graph_slot_get(&info, graph, slot));
    return info.group;
}

static void prove_views(ph_slot_proof *proofs, ph_capture_fn body, size_t captures)
{
    ph_graph *const further[] = {shifted, apart};
    const ph_slot_span spans[] = {{.name = "keys",
                                   .base = views[0][0],
                                   .shifted = AT(views[1][0], views[2][0]),
                                   .bytes = SPAN,
                                   .alignment = PAGE},
                                  {.name = "values",
                                   .base = views[0][1],
                                   .shifted = AT(views[1][1], views[2][1]),
                                   .bytes = SPAN,
                                   .alignment = PAGE}};
    capture(graph, body, views[0]);
    capture(shifted, body, views[1]);
    capture(apart, body, views[2]);
    assert_ok(ph_graph_slot_prove(proofs, graph, further, captures, spans, VIEWS));
}

static ph_status replay_at(const int32_t *one, const int32_t *two)
{
    return ph_graph_replay_with(graph, world.stream, (const ph_slot_value[]){{0, one}, {1, two}},
                                VIEWS);
}

TEST(views_that_moved_alike_are_set_by_one_distance)
{
    ph_slot_proof proofs[VIEWS];
    int32_t third;
    prove_views(proofs, read_views, 1);
    for (size_t i = 0; i < VIEWS; i++) {
        assert_int_equal(proofs[i].slot, i);
        assert_int_equal(group_of(i), 1);
    }
    assert_int_equal(proofs[0].uses, 1);
    assert_int_equal(proofs[1].uses, 2); /* one of them is of the first view, which nobody knows */
    assert_ok(replay_at(views[3][0], views[3][1]));
    expect(90, 100);
    t_read(&third, out + 2, sizeof third, world.stream);
    assert_int_equal(third, 100);
    assert_ok(ph_graph_slots_set(graph, (const ph_slot_value[]){{1, views[1][1]}, {0, views[1][0]}},
                                 VIEWS));
    assert_ok(ph_graph_replay(graph, world.stream));
    expect(30, 40);
    assert_ok(replay_at(views[0][0], views[0][1]));
    expect(0, 10);
}

TEST(views_that_part_are_refused_and_nothing_is_set)
{
    ph_slot_proof proofs[VIEWS];
    bool takes;
    prove_views(proofs, read_views, 1);
    assert_ok(replay_at(views[3][0], views[3][1]));
    assert_error(replay_at(views[4][0], views[4][1]), PH_ERROR_ARGUMENT,
                 "slot 0 (keys) would lie 0xc000 from its captured address, slot 1 (values) "
                 "0xd000: every capture");
    assert_error(replay_at(views[4][0], views[4][1]), PH_ERROR_ARGUMENT,
                 "prove with a further capture that moves them apart");
    assert_error(
        ph_graph_replay_with(graph, world.stream, &(ph_slot_value){1, views[1][1]}, 1),
        PH_ERROR_ARGUMENT,
        "slot 1 (values) would lie 0x3000 from its captured address, slot 0 (keys) 0x9000");
    assert_error(ph_graph_slots_set(graph, &(ph_slot_value){0, views[0][0]}, 1), PH_ERROR_ARGUMENT,
                 "slot 0 (keys) would lie 0x0 from its captured address, slot 1 (values) 0x9000");
    assert_ok(ph_graph_slot_takes(&takes, graph, 1, views[4][1]));
    assert_true(takes); /* the memory; the distance is the call's */
    assert_ok(ph_graph_replay(graph, world.stream));
    expect(90, 100);
    /* one of them is where it is already */
    assert_ok(ph_graph_replay_with(graph, world.stream, &(ph_slot_value){1, views[3][1]}, 1));
    assert_ok(replay_at(views[1][0], views[1][1]));
    expect(30, 40);
}

TEST(a_capture_that_moves_them_apart_tells_them_apart)
{
    ph_slot_proof proofs[VIEWS];
    prove_views(proofs, read_both, 2);
    for (size_t i = 0; i < VIEWS; i++) {
        assert_int_equal(proofs[i].slot, i);
        assert_int_equal(proofs[i].uses, 1);
        assert_int_equal(group_of(i), 0);
    }
    assert_ok(replay_at(views[4][0], views[3][1]));
    expect(120, 100);
    assert_ok(ph_graph_replay_with(graph, world.stream, &(ph_slot_value){0, views[1][0]}, 1));
    expect(30, 100);
}

/* It reads one view by the address of the other: no capture explains that. */
TEST(a_word_of_the_other_view_is_found_where_they_part)
{
    ph_slot_proof proofs[VIEWS];
    prove_views(proofs, read_views, 2);
    for (size_t i = 0; i < VIEWS; i++) {
        assert_int_equal(proofs[i].slot, PH_SLOT_NONE);
        assert_non_null(strstr(proofs[i].reason, "which is no input's distance"));
    }
}

TEST(all_of_a_group_are_proved_or_none)
{
    ph_slot_proof proofs[3];
    const ph_slot_span spans[] = {
        {.base = views[0][0], .shifted = AT(views[1][0]), .bytes = SPAN, .alignment = PAGE},
        {.base = base[0], .shifted = AT(moved[0]), .bytes = SPAN},
        {.base = views[0][1], .shifted = AT(views[1][1]), .bytes = SPAN, .alignment = 256}};
    capture(graph, read_both, views[0]);
    capture(shifted, read_both, views[1]);
    assert_ok(ph_graph_slot_prove(proofs, graph, &shifted, 1, spans, 3));
    assert_int_equal(proofs[0].slot, PH_SLOT_NONE);
    assert_non_null(strstr(
        proofs[0].reason, "moved it by the distance of span 2, which is not proved: address bits"));
    assert_int_equal(proofs[2].slot, PH_SLOT_NONE);
    assert_null(strstr(proofs[2].reason, "distance of span"));
    assert_int_equal(proofs[1].slot, 0); /* moves alone, and nothing reads it */
    assert_int_equal(group_of(0), 0);
}

TEST(updates_keep_a_group_together)
{
    ph_slot_proof proofs[VIEWS];
    ph_update_result why;
    prove_views(proofs, read_both, 1);
    assert_ok(ph_graph_update(graph, shifted, NULL)); /* both by one distance */
    assert_ok(ph_graph_replay(graph, world.stream));
    expect(30, 40);
    assert_error(ph_graph_replay_with(graph, world.stream, &(ph_slot_value){0, views[3][0]}, 1),
                 PH_ERROR_ARGUMENT, "slot 1 (values) 0x3000");
    assert_ok(replay_at(views[3][0], views[3][1]));
    expect(90, 100);
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_reset(shifted));
    assert_ok(ph_graph_reset(apart));
    prove_views(proofs, read_both, 1);
    assert_error(ph_graph_update(graph, apart, &why), PH_ERROR_MISMATCH,
                 "slots 0 (keys) and 1 (values), which are set by one distance, would part");
    assert_ok(ph_graph_replay(graph, world.stream));
    expect(0, 10);
    /* values that were set are set again: those of the other capture do not count */
    assert_ok(replay_at(views[3][0], views[3][1]));
    assert_ok(ph_graph_update(graph, apart, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    expect(90, 100);
}

/* One is set where an update has brought both; a new executable has the other one there, too. */
TEST(new_executables_keep_a_group_together)
{
    ph_slot_proof proofs[VIEWS];
    ph_graph_destroy(graph);
    assert_ok(ph_graph_create(&graph, &(ph_graph_options){.keep_graph = true}));
    prove_views(proofs, read_both, 1);
    assert_ok(ph_graph_instantiate(graph));
    assert_ok(ph_graph_update(graph, shifted, NULL));
    assert_ok(ph_graph_replay_with(graph, world.stream, &(ph_slot_value){0, views[1][0]}, 1));
    expect(30, 40);
    assert_ok(ph_graph_instantiate(graph));
    assert_ok(ph_graph_replay(graph, world.stream));
    expect(30, 40);
    assert_ok(ph_graph_update(graph, apart, NULL)); /* both are set: that does not count */
    assert_ok(ph_graph_replay(graph, world.stream));
    expect(30, 40);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_views, close_views)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(views_that_moved_alike_are_set_by_one_distance),
        CASE(views_that_part_are_refused_and_nothing_is_set),
        CASE(a_capture_that_moves_them_apart_tells_them_apart),
        CASE(a_word_of_the_other_view_is_found_where_they_part),
        CASE(all_of_a_group_are_proved_or_none),
        CASE(updates_keep_a_group_together),
        CASE(new_executables_keep_a_group_together),
    };
    return cmocka_run_group_tests_name("graph.slots_groups", tests, NULL, NULL);
}
