/* SPDX-License-Identifier: MIT */
/* tests/graph/same_addresses.c: ph_graph_same_addresses: true only where each node of two captures
 * addresses the same memory of what was there before; it asks the driver nothing. */
#include "inputs.h"
#include "support/fault.h"
#include "support/others.h"
#include "support/test.h"

#include <phonograph/inspect/diff.h>

static ph__drv_kernel *loaded_by_others;
static int32_t *foreign;
static ph_graph *second;

static int open_others(void **state)
{
    int result = open_world(state);
    foreign = other_new();
    assert_ok(ph_graph_create(&second, NULL));
    loaded_by_others = t_others_kernel(world.device, T_KERNEL_IGNORE_WORDS);
    return result;
}

static int close_others(void **state)
{
    ph_graph_destroy(graph);
    ph_graph_destroy(second);
    graph = NULL;
    world.device->driver->kernel_destroy(loaded_by_others);
    other_free(foreign);
    return close_world(state);
}

/* What a capture submits. */
typedef struct work {
    int32_t *copied_from;
    uint64_t words[3]; /* of a kernel that others loaded; 0, 0, 0: there is none */
    int32_t *added;    /* by a kernel of the library; NULL: there is none */
    bool allocates;    /* before all else, so that other blocks lie elsewhere */
    int32_t *copied_to;
} work;

static ph_status submit(ph_stream *stream, void *user)
{
    const work *w = user;
    int32_t *padding = NULL, *block;
    if (w->allocates)
        PH_TRY(PH_NEW(&padding, 64 * N, stream));
    PH_TRY(PH_NEW(&block, N, stream));
    PH_TRY(ph_memcpy(block, w->copied_from, 16, stream));
    if (w->words[0] | w->words[1] | w->words[2]) {
        const uint64_t words[4] = {w->words[0], w->words[1], w->words[2], 7};
        t_others_launch(stream, loaded_by_others, 1, words);
    }
    if (w->added)
        PH_TRY(t_add(&world, stream, w->added, block, N, 1));
    PH_TRY(ph_memcpy(w->copied_to ? w->copied_to : y, block, 16, stream));
    ph_free(block, stream);
    if (padding)
        ph_free(padding, stream);
    return PH_OK;
}

static uint64_t at(const void *address)
{
    return (uintptr_t)address;
}

static uint64_t generation_of(const void *address)
{
    ph_allocation found;
    assert_ok(ph_memory_lookup(&found, world.device, address));
    return found.generation;
}

static bool compare(const work *a, const work *b, uint64_t generation)
{
    bool same = true, reverse;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, submit, (void *)(uintptr_t)a));
    assert_ok(ph_graph_capture(second, world.stream, NULL, submit, (void *)(uintptr_t)b));
    assert_ok(ph_graph_same_addresses(&same, graph, second, generation));
    assert_ok(ph_graph_same_addresses(&reverse, second, graph, generation));
    assert_int_equal(same, reverse);
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_reset(second));
    return same;
}

/* Blocks of the captures are no memory of before. */
TEST(captures_in_memory_of_their_own)
{
    const uint64_t all = generation_of(y);
    const work one = {.copied_from = x, .added = x, .words = {5, at(x), 0x20000}};
    work moved = one;
    assert_true(compare(&one, &one, all));
    moved.allocates = true;
    assert_true(compare(&one, &moved, all));
}

TEST(one_address_that_differs)
{
    const uint64_t all = generation_of(y);
    const work one = {.copied_from = x, .added = x, .words = {5, at(x), 6}};
    work differs = one;
    differs.copied_from = y;
    assert_false(compare(&one, &differs, all));
    differs = one;
    differs.added = x + 4; /* the same allocation */
    assert_false(compare(&one, &differs, all));
    differs = one;
    differs.words[1] = at(y);
    assert_false(compare(&one, &differs, all));
    differs.words[1] = 0;
    assert_false(compare(&one, &differs, all));
    differs = one;
    differs.words[0] = at(y);
    assert_false(compare(&one, &differs, all));
    differs = one;
    differs.copied_to = x;
    assert_false(compare(&one, &differs, all));
    differs = one;
    differs.words[2] = 7; /* a number */
    assert_true(compare(&one, &differs, all));
}

/* Memory that came later than the generation does not count. */
TEST(later_memory_does_not_count)
{
    int32_t *late;
    const uint64_t before = generation_of(y);
    assert_ok(PH_NEW(&late, N, world.stream));
    const work one = {.copied_from = x}, other = {.copied_from = late};
    const work late_too = {.copied_from = late + 4};
    assert_false(compare(&one, &other, before));
    assert_true(compare(&other, &late_too, before));
    assert_false(compare(&other, &late_too, generation_of(late)));
    ph_free(late, world.stream);
}

/* ---- memory of other code's ---- */
static const ph__driver *below;
static int64_t asked;

static int counted_pointer_info(ph__drv_pointer *out, ph__drv_device *device, const void *address)
{
    asked++;
    return below->pointer_info(out, device, address);
}

/* A word that somebody else's kernel has may be a number: alone it tells nothing. An address that
 * is one for sure would have to be asked for, and nothing is shown then. */
TEST(the_driver_is_not_asked)
{
    ph__driver counting = *world.device->driver;
    const uint64_t all = generation_of(y);
    const work suspected = {.copied_from = x, .words = {5, at(foreign), 6}};
    const work suspected_too = {.copied_from = x, .words = {5, at(foreign + 1), 6}};
    const work proved = {.copied_from = x, .added = foreign};
    below = world.device->driver;
    counting.pointer_info = counted_pointer_info;
    for (int round = 0; round < 3; round++) {
        const work *a = round == 2 ? &proved : &suspected, *b = round == 0   ? &suspected
                                                                : round == 1 ? &suspected_too
                                                                             : &proved;
        bool same = false;
        assert_ok(ph_graph_capture(graph, world.stream, NULL, submit, (void *)(uintptr_t)a));
        assert_ok(ph_graph_capture(second, world.stream, NULL, submit, (void *)(uintptr_t)b));
        world.device->driver = &counting;
        asked = 0;
        assert_ok(ph_graph_same_addresses(&same, graph, second, all));
        world.device->driver = below;
        assert_int_equal(asked, 0);
        assert_int_equal(same, round != 2);
        assert_ok(ph_graph_reset(graph));
        assert_ok(ph_graph_reset(second));
    }
}

/* Nothing proves such a word; whoever knows of the memory tells it from another one. */
TEST(announced_memory_counts_in_words_that_nothing_proves)
{
    int32_t *others[2] = {other_new(), other_new()};
    const uint64_t all = generation_of(y);
    for (int i = 0; i < 2; i++)
        assert_ok(ph_foreign_announce(
            NULL, world.device,
            &(ph_foreign_block){.address = others[i], .bytes = N * sizeof *others[i]}));
    const work one = {.copied_from = x, .words = {5, at(others[0]), 6}},
               other = {.copied_from = x, .words = {5, at(others[1]), 6}};
    assert_true(compare(&one, &one, all));
    assert_false(compare(&one, &other, all));
    for (int i = 0; i < 2; i++) {
        assert_ok(ph_foreign_end(world.device, others[i], 0, NULL));
        other_free(others[i]);
    }
}

TEST(an_address_at_another_place_is_another)
{
    const uint64_t all = generation_of(y);
    const work one = {.copied_from = x, .words = {at(x), 5, 6}},
               other = {.copied_from = x, .words = {5, at(x), 6}};
    assert_true(compare(&one, &one, all));
    assert_false(compare(&one, &other, all));
}

TEST(misuse_is_refused)
{
    bool same = true;
    const work one = {.copied_from = x};
    assert_ok(ph_graph_capture(graph, world.stream, NULL, submit, (void *)(uintptr_t)&one));
    assert_error(ph_graph_same_addresses(NULL, graph, graph, 0), PH_ERROR_ARGUMENT, "out is NULL");
    assert_error(ph_graph_same_addresses(&same, graph, NULL, 0), PH_ERROR_ARGUMENT, "b is NULL");
    assert_false(same);
    assert_error(ph_graph_same_addresses(&same, NULL, graph, 0), PH_ERROR_ARGUMENT, "a is NULL");
    assert_error(ph_graph_same_addresses(&same, graph, second, 0), PH_ERROR_STATE,
                 "the graph given as b");
}

#define WITH_OTHERS(name) cmocka_unit_test_setup_teardown(name, open_others, close_others)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_OTHERS(captures_in_memory_of_their_own),
        WITH_OTHERS(one_address_that_differs),
        WITH_OTHERS(later_memory_does_not_count),
        WITH_OTHERS(the_driver_is_not_asked),
        WITH_OTHERS(announced_memory_counts_in_words_that_nothing_proves),
        WITH_OTHERS(an_address_at_another_place_is_another),
        WITH_OTHERS(misuse_is_refused),
    };
    return cmocka_run_group_tests_name("graph.same_addresses", tests, NULL, NULL);
}
