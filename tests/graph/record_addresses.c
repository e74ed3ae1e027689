/* SPDX-License-Identifier: MIT */
/* tests/graph/record_addresses.c: ph_record_next_address finds the words that ph_record_word shows
 * with a base, in their order: of copies, of kernels of this library, and of others. */
#include "inputs.h"
#include "support/fault.h"
#include "support/others.h"
#include "support/test.h"

#include <string.h>

static int32_t *other;
static ph__drv_kernel *loaded_by_others;

static int open_others(void **state)
{
    int result = open_world(state);
    other = other_new();
    loaded_by_others = t_others_kernel(world.device, T_KERNEL_IGNORE_WORDS);
    return result;
}

static int close_others(void **state)
{
    ph_graph_destroy(graph);
    graph = NULL;
    world.device->driver->kernel_destroy(loaded_by_others);
    other_free(other);
    return close_world(state);
}

/* Three whole words and a half. */
static void launch_others(uint64_t first, uint64_t second, uint64_t third)
{
    const uint64_t words[4] = {first, second, third, 7};
    t_others_launch(world.stream, loaded_by_others, 1, words);
}

static uint64_t at(const void *address)
{
    return (uintptr_t)address;
}

static void expect_word(const ph_word *got, const ph_record *record, size_t node, size_t w)
{
    ph_word want;
    assert_ok(ph_record_word(&want, record, node, w));
    assert_int_equal(got->kind, want.kind);
    assert_string_equal(got->name, want.name);
    assert_true(got->offset == want.offset && got->value == want.value && got->base == want.base);
    assert_int_equal(got->allocation_bytes, want.allocation_bytes);
    assert_true(got->internal == want.internal && got->foreign == want.foreign);
}

/* How many it finds, from each word on. */
static size_t check_node(const ph_record *record, size_t node)
{
    size_t found = 0;
    ph_node_info info;
    assert_ok(ph_record_node(&info, record, node));
    for (size_t from = 0; from <= info.word_count; from++) {
        ph_word got, word = {0};
        size_t w = from, want = from;
        while (want < info.word_count) {
            assert_ok(ph_record_word(&word, record, node, want));
            if (word.base)
                break;
            want++;
        }
        assert_ok(ph_record_next_address(&got, &w, record, node));
        assert_int_equal(w, want);
        if (want < info.word_count)
            expect_word(&got, record, node, want);
        else
            assert_null(got.base);
        found += want == from && want < info.word_count;
    }
    return found;
}

TEST(it_finds_what_a_look_at_each_word_finds)
{
    const ph_record *record;
    begin(NULL);
    assert_ok(t_add(&world, world.stream, x, y, N, 1));
    assert_ok(ph_memcpy(y, x, 16, world.stream));
    launch_others(5, at(x + 3), 6);
    launch_others(at(y), 0x20000, at(x));
    launch_others(0, 1, 2);
    launch_others(at(other), 9, at(y)); /* memory that the driver knows */
    launch_others(3, at(other + 4), at(other));
    end();
    assert_ok(ph_graph_record(&record, graph));
    static const size_t found[] = {2, 2, 1, 2, 0, 2, 2};
    assert_int_equal(ph_record_node_count(record), 7);
    for (size_t node = 0; node < 7; node++)
        assert_int_equal(check_node(record, node), found[node]);
}

/* Without memory of others. */
TEST(it_goes_from_address_to_address)
{
    const ph_record *record;
    begin(NULL);
    launch_others(5, at(x + 3), 6);
    launch_others(at(y), 4, at(x));
    launch_others(0, 1, 2);
    end();
    assert_ok(ph_graph_record(&record, graph));
    static const size_t found[] = {1, 2, 0};
    for (size_t node = 0; node < 3; node++)
        assert_int_equal(check_node(record, node), found[node]);
}

TEST(misuse_is_refused_and_changes_nothing)
{
    const ph_record *record;
    ph_word word;
    size_t w = 0;
    begin(NULL);
    launch_others(5, at(x + 3), 6);
    end();
    assert_ok(ph_graph_record(&record, graph));
    assert_error(ph_record_next_address(NULL, &w, record, 0), PH_ERROR_ARGUMENT,
                 "ph_record_next_address: out");
    assert_error(ph_record_next_address(&word, NULL, record, 0), PH_ERROR_ARGUMENT,
                 "ph_record_next_address: word");
    assert_error(ph_record_next_address(&word, &w, NULL, 0), PH_ERROR_ARGUMENT, "record");
    assert_error(ph_record_next_address(&word, &w, record, 1), PH_ERROR_NOT_FOUND,
                 "node 1 does not exist");
    w = SIZE_MAX;
    assert_ok(ph_record_next_address(&word, &w, record, 0));
    assert_int_equal(w, 4);
    assert_null(word.base);
}

#define WITH_OTHERS(name) cmocka_unit_test_setup_teardown(name, open_others, close_others)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_OTHERS(it_finds_what_a_look_at_each_word_finds),
        WITH_OTHERS(it_goes_from_address_to_address),
        WITH_OTHERS(misuse_is_refused_and_changes_nothing),
    };
    return cmocka_run_group_tests_name("graph.record_addresses", tests, NULL, NULL);
}
