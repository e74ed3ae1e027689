/* SPDX-License-Identifier: MIT */
/* tests/graph/slots_lookup.c: slots whose addresses are not looked up (skip_lookup): what is
 * checked of them all the same. */
#include "support/support.h"

#include "support/fixture.h"
#include "support/test.h"

enum {
    N = 512,
    FEWER = N - 8,
    BYTES = N * sizeof(int32_t),
    PAGE = 4096
};
static t_world world;
static ph_graph *graph, *further;
static int32_t *x, *y, *z, *other, *few;

WORLD(world, .graphs = {&graph, &further},
      .arrays = {{&x, N, T_INTS, 1},
                 {&y, N, T_INTS, 0},
                 {&z, N, T_INTS, 0},
                 {&other, N, T_INTS, 10},
                 {&few, FEWER, T_INTS, 20}});

/* y = from + 1 */
static ph_status body(ph_stream *stream, void *from)
{
    return t_add(&world, stream, from, y, N, 1);
}

static ph_status body_with_copy(ph_stream *stream, void *from)
{
    PH_TRY(body(stream, from));
    return ph_memcpy(z, from, BYTES, stream);
}

static size_t find(ph_capture_fn capture, bool skip_lookup)
{
    size_t slot;
    const ph_slot_options options = {.alignment = 16, .skip_lookup = skip_lookup};
    assert_ok(ph_graph_capture(graph, world.stream, NULL, capture, x));
    assert_ok(ph_graph_slot_find(&slot, graph, "x", x, BYTES, &options));
    return slot;
}

static ph_status replay(size_t slot, const void *value)
{
    return ph_graph_replay_with(graph, world.stream, &(ph_slot_value){slot, value}, 1);
}

static bool takes(size_t slot, const void *value)
{
    bool out;
    assert_ok(ph_graph_slot_takes(&out, graph, slot, value));
    return out;
}

TEST(an_allocation_that_is_too_short_is_the_callers_to_answer_for)
{
    size_t slot = find(body, false);
    assert_error(replay(slot, few), PH_ERROR_ARGUMENT,
                 "the allocation there ends after 2016 bytes");
    assert_false(takes(slot, few));
    assert_ok(ph_graph_reset(graph));
    slot = find(body, true);
    assert_true(takes(slot, few));
    assert_ok(replay(slot, few)); /* its block has room for all that is read */
    t_all(y, FEWER, 21, world.stream);
    assert_ok(replay(slot, other));
    t_all(y, N, 11, world.stream);
}

TEST(alignment_is_checked)
{
    size_t slot = find(body, true);
    assert_ok(replay(slot, other));
    assert_error(replay(slot, (char *)other + 8), PH_ERROR_ARGUMENT,
                 "for slot 0 (x) is no multiple of 16");
    assert_false(takes(slot, (char *)other + 8));
    assert_ok(ph_graph_replay(graph, world.stream)); /* with the value of before */
    t_all(y, N, 11, world.stream);
}

/* What the graph was told nothing of is looked up when somebody asks. */
TEST(inputs_show_what_the_slot_has)
{
    ph_input_info input;
    size_t slot = find(body, true);
    int32_t *mine;
    assert_ok(ph_malloc(&mine, N, sizeof *mine, world.stream));
    assert_ok(replay(slot, mine));
    assert_ok(ph_graph_input(&input, graph, 0));
    assert_true(input.address == (uintptr_t)mine && input.base == mine);
    assert_int_equal(input.bytes, BYTES);
    assert_false(input.foreign);
    assert_int_equal(input.state, PH_INPUT_LIVE);
    ph_free(mine, world.stream);
    assert_ok(ph_stream_synchronize(world.stream));
    assert_ok(ph_graph_input(&input, graph, 0));
    assert_int_equal(input.state, PH_INPUT_FREED);
    assert_false(input.foreign);
}

TEST(a_slot_of_a_copy_is_looked_up)
{
    size_t slot = find(body_with_copy, true);
    assert_error(replay(slot, few), PH_ERROR_ARGUMENT,
                 "the allocation there ends after 2016 bytes");
    assert_false(takes(slot, few));
    assert_ok(replay(slot, other));
    t_all(z, N, 10, world.stream);
}

/* The addresses differ in all bits that a slot accepts. */
TEST(a_proved_slot_skips_the_lookup_too)
{
    ph_slot_proof proof;
    char *room;
    assert_ok(ph_malloc(&room, 4 * PAGE, 1, world.stream));
    char *base = room + (-(uintptr_t)room & (PAGE - 1)), *shifted = base + 2 * PAGE - 256;
    const void *const all_shifted[] = {shifted};
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, base));
    assert_ok(ph_graph_capture(further, world.stream, NULL, body, shifted));
    const ph_slot_span span = {
        .name = "x", .base = base, .shifted = all_shifted, .bytes = BYTES, .skip_lookup = true};
    assert_ok(ph_graph_slot_prove(&proof, graph, &further, 1, &span, 1));
    assert_string_equal(proof.reason, "");
    assert_ok(replay(proof.slot, few));
    t_all(y, FEWER, 21, world.stream);
    ph_free(room, world.stream);
}

/* As most steps of a training: nothing but the launch is done, and all is refused that was. */
TEST(values_that_are_there_are_replayed_and_misuse_of_them_is_refused)
{
    const ph_slot_place place = {0, offsetof(struct t_add_i32, value)};
    const int32_t five = 5, also_five = 5, six = 6;
    size_t in = find(body, true), value;
    assert_ok(ph_graph_slot_declare_scalar(&value, graph, "value", &(int32_t){1}, sizeof five,
                                           &place, 1));
    const ph_slot_value rows[][2] = {{{in, other}, {value, &five}},
                                     {{in, other}, {value, &five}},
                                     {{value, &also_five}, {in, other}},
                                     {{in, other}, {value, &six}},
                                     {{in, x}, {value, &six}}};
    static const int32_t expected[] = {15, 15, 15, 16, 7};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_ok(t_fill(&world, world.stream, y, N, 0));
        assert_ok(ph_graph_replay_with(graph, world.stream, rows[i], 2));
        t_all(y, N, expected[i], world.stream);
    }
    const ph_slot_value twice[] = {{in, x}, {value, &six}, {in, x}},
                        none[] = {{in, x}, {value, NULL}}, beyond[] = {{in, x}, {2, x}};
    assert_error(ph_graph_replay_with(graph, world.stream, twice, 3), PH_ERROR_ARGUMENT,
                 "slot 0 (x) is named twice");
    assert_error(ph_graph_replay_with(graph, world.stream, none, 2), PH_ERROR_ARGUMENT,
                 "the value of slot 1 (value) is NULL");
    assert_error(ph_graph_replay_with(graph, world.stream, beyond, 2), PH_ERROR_NOT_FOUND,
                 "slot 2 does not exist");
    assert_ok(ph_graph_capture_begin(further, world.stream, NULL));
    assert_error(ph_graph_replay_with(graph, world.stream, rows[4], 2), PH_ERROR_STATE,
                 "the stream is capturing");
    ph_ignore(ph_graph_capture_end(further, PH_OK));
    assert_ok(ph_graph_replay_with(graph, world.stream, rows[4], 2));
    t_all(y, N, 7, world.stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(an_allocation_that_is_too_short_is_the_callers_to_answer_for),
        IN_WORLD(alignment_is_checked),
        IN_WORLD(inputs_show_what_the_slot_has),
        IN_WORLD(a_slot_of_a_copy_is_looked_up),
        IN_WORLD(a_proved_slot_skips_the_lookup_too),
        IN_WORLD(values_that_are_there_are_replayed_and_misuse_of_them_is_refused),
    };
    return cmocka_run_group_tests_name("graph.slots_lookup", tests, NULL, NULL);
}
