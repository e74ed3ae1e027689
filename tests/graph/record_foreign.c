/* SPDX-License-Identifier: MIT */
/* tests/graph/record_foreign.c: memory of other code's in the record: words, JSON, DOT,
 * differences; asked for once, and not at the capture. */
#include "inputs.h"
#include "support/fault.h"
#include "support/test.h"

#include <phonograph/inspect/diff.h>
#include <stdio.h>
#include <string.h>

static int32_t *other;

static int open_foreign(void **state)
{
    int result = open_world(state);
    other = other_new();
    return result;
}

static int close_foreign(void **state)
{
    if (other)
        other_free(other);
    return close_world(state);
}

static const ph_record *record(void)
{
    const ph_record *out = NULL;
    assert_ok(ph_graph_record(&out, graph));
    return out;
}

static ph_word word(size_t node, size_t at)
{
    ph_word out;
    assert_ok(ph_record_word(&out, record(), node, at));
    return out;
}

static void check_foreign(const ph_word *at, const void *address)
{
    assert_true(at->foreign);
    assert_false(at->internal);
    assert_true(at->value == (uintptr_t)address);
    assert_ptr_equal(at->base, other);
    assert_int_equal(at->allocation_bytes, BYTES);
    assert_int_not_equal(at->generation, 0);
    assert_int_equal(at->pool.first, 0);
    assert_int_equal(at->pool.second, 0);
}

/* ---- words ---- */
TEST(test_typed_words_and_copies)
{
    begin(NULL);
    assert_ok(t_add(&world, world.stream, other + 3, y, N - 3, 1));
    assert_ok(ph_memcpy(other + 1, x, 16, world.stream));
    assert_ok(ph_memset_u32(other, 0, 4, world.stream));
    end();
    ph_word at = word(0, 1);
    assert_string_equal(at.name, "x");
    assert_int_equal(at.kind, PH_WORD_PROVED);
    check_foreign(&at, other + 3);
    assert_false(at.pinned);
    at = word(0, 2);
    assert_false(at.foreign);
    assert_ptr_equal(at.base, y);
    at = word(1, 0);
    check_foreign(&at, other + 1);
    at = word(1, 1);
    assert_false(at.foreign);
    at = word(2, 0);
    check_foreign(&at, other);
}

/* What no parameter describes is an address where the driver knows it; a number in a typed
 * parameter never is. */
static ph_status launch_pair(ph_kernel *kernel, const void *one, void *two)
{
    struct t_copy_first pair = {one, two};
    return ph_launch(world.stream, kernel, NULL, &pair, sizeof pair);
}

TEST(test_untyped_words)
{
    ph_kernel *kernel, *put;
    assert_ok(ph_kernel_create(&kernel, world.device, &t_kernel_sources[T_KERNEL_COPY_FIRST]));
    assert_ok(ph_kernel_create(&put, world.device, &t_kernel_sources[T_KERNEL_PUT]));
    struct t_put number = {y, (int64_t)(uintptr_t)other};
    begin(NULL);
    assert_ok(launch_pair(kernel, other + 5, y));
    assert_ok(ph_launch(world.stream, put, NULL, &number, sizeof number));
    end();
    ph_word at = word(0, 0);
    assert_int_equal(at.kind, PH_WORD_SUSPECTED);
    check_foreign(&at, other + 5);
    at = word(1, 1);
    assert_int_equal(at.kind, PH_WORD_VALUE);
    assert_false(at.foreign);
    assert_null(at.base);
    ph_kernel_release(kernel);
    ph_kernel_release(put);
}

TEST(test_pinned_memory)
{
    void *pinned = NULL;
    const ph__driver *driver = world.device->driver;
    assert_int_equal(driver->pinned_alloc(&pinned, world.device->handle, 4096), 0);
    begin(NULL);
    assert_ok(ph_memcpy(y, pinned, 64, world.stream));
    end();
    ph_word at = word(0, 1);
    assert_true(at.foreign);
    assert_true(at.pinned);
    assert_ptr_equal(at.base, pinned);
    assert_int_equal(at.allocation_bytes, 4096);
    assert_ok(ph_graph_reset(graph));
    assert_int_equal(driver->pinned_free(world.device->handle, pinned), 0);
}

/* In the bodies of nested graphs, too. */
TEST(test_nested_graphs)
{
    ph_graph *inner;
    assert_ok(ph_graph_create(&inner, NULL));
    assert_ok(ph_graph_capture_begin(inner, world.stream, NULL));
    assert_ok(t_add(&world, world.stream, other, y, N, 1));
    assert_ok(ph_graph_capture_end(inner, PH_OK));
    begin(NULL);
    assert_ok(ph_graph_replay(inner, world.stream));
    end();
    ph_node_info node;
    ph_word at;
    assert_ok(ph_record_node(&node, record(), 0));
    assert_non_null(node.body);
    assert_ok(ph_record_word(&at, node.body, 0, 1));
    check_foreign(&at, other);
    ph_graph_destroy(inner);
}

/* ---- texts ---- */
TEST(foreign_words_are_marked_in_json_and_dot)
{
    char *json, *dot, expected[160];
    begin(NULL);
    assert_ok(t_add(&world, world.stream, other + 2, y, N - 2, 1));
    end();
    ph_word at = word(0, 1);
    assert_ok(ph_record_json(&json, record()));
    (void)snprintf(
        expected, sizeof expected,
        "\"base\":\"0x%llx\",\"bytes\":%d,\"offset\":8,\"generation\":%llu,\"pool\":[0,0],"
        "\"pinned\":false,\"foreign\":true}",
        (unsigned long long)(uintptr_t)other, BYTES, (unsigned long long)at.generation);
    if (!strstr(json, expected))
        fail_msg("%s is not in %s", expected, json);
    const char *first = strstr(json, "\"foreign\":");
    assert_null(strstr(first + 1, "\"foreign\":"));
    assert_ok(ph_record_dot(&dot, record(), true));
    assert_non_null(strstr(dot, "(proved, foreign)"));
    ph_string_free(json);
    ph_string_free(dot);
}

/* Two captures over two allocations of other code's are the same work, as with the library's own.
 */
TEST(two_foreign_allocations_are_alike_to_a_diff)
{
    ph_graph *second;
    ph_diff *diff;
    ph_change change;
    int32_t *others = other_new();
    assert_ok(ph_graph_create(&second, NULL));
    begin(NULL);
    assert_ok(t_add(&world, world.stream, other, y, 8, 1));
    end();
    assert_ok(ph_graph_capture_begin(second, world.stream, NULL));
    assert_ok(t_add(&world, world.stream, others, y, 8, 1));
    assert_ok(ph_graph_capture_end(second, PH_OK));
    assert_ok(ph_graph_diff(&diff, graph, second));
    assert_int_equal(ph_diff_count(diff), 0);
    ph_diff_destroy(diff);
    assert_ok(ph_graph_reset(second));
    assert_ok(ph_graph_capture_begin(second, world.stream, NULL));
    assert_ok(t_add(&world, world.stream, others + 4, y, 8, 1));
    assert_ok(ph_graph_capture_end(second, PH_OK));
    assert_ok(ph_graph_diff(&diff, graph, second));
    assert_int_equal(ph_diff_count(diff), 1);
    assert_ok(ph_diff_at(&change, diff, 0));
    assert_non_null(
        strstr(change.text, "1024-byte foreign allocation +0 -> 1024-byte foreign allocation +16"));
    ph_diff_destroy(diff);
    ph_graph_destroy(second);
    other_free(others);
}

/* ---- when ---- */
TEST(test_asked_once_and_late)
{
    ph_kernel *kernel;
    assert_ok(ph_kernel_create(&kernel, world.device, &t_kernel_sources[T_KERNEL_COPY_FIRST]));
    begin(NULL);
    for (int i = 0; i < 20; i++)
        assert_ok(launch_pair(kernel, other + i % 4, y));
    end();
    int64_t before = ph__driver_calls();
    (void)record();
    /* the list of nodes, each of them, and one question about memory */
    assert_int_equal(ph__driver_calls() - before, 1 + 20 + 1);
    before = ph__driver_calls();
    for (size_t i = 0; i < 20; i++) {
        ph_word at = word(i, 0);
        check_foreign(&at, other + i % 4);
    }
    assert_int_equal(ph__driver_calls() - before, 0);
    ph_kernel_release(kernel);
}

/* Freed before anybody asked: an address of nothing that is known. */
TEST(test_memory_that_has_gone)
{
    begin(NULL);
    assert_ok(t_add(&world, world.stream, other, y, N, 1));
    end();
    other_free(other);
    other = NULL;
    ph_word at = word(0, 1);
    assert_int_equal(at.kind, PH_WORD_PROVED);
    assert_false(at.foreign);
    assert_null(at.base);
}

/* A lost device does not answer: the record is there all the same. No host memory is a failure, and
 * a later call makes it good. */
TEST(a_record_that_failed_is_whole_when_asked_again)
{
    const ph_record *out;
    begin(NULL);
    assert_ok(t_add(&world, world.stream, other, y, N, 1));
    end();
    ph_status status = PH_ERROR_HOST_MEMORY;
    for (int64_t n = 0; status != PH_OK; n++) {
        ph__alloc_fail_after(n);
        status = ph_graph_record(&out, graph);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK) {
            assert_int_equal(status, PH_ERROR_HOST_MEMORY);
            assert_null(out);
        }
    }
    ph_word at = word(0, 1);
    check_foreign(&at, other);
    assert_ok(ph_graph_reset(graph));
    begin(NULL);
    assert_ok(t_add(&world, world.stream, other, y, N, 1));
    end();
    /* Not so where the nodes cannot be read: then there is no record yet. */
    for (int64_t n = 0; n < 2; n++) {
        ph__driver_fail_after(n, PH__R_INVALID_HANDLE);
        status = ph_graph_record(&out, graph);
        ph__driver_fail_after(-1, 0);
        assert_int_equal(status, PH_ERROR_DEVICE);
        assert_null(out);
    }
    ph__driver_fail_after(2, PH__R_ILLEGAL_ADDRESS);
    at = word(0, 1);
    ph__driver_fail_after(-1, 0);
    assert_int_equal(at.kind, PH_WORD_PROVED);
    assert_false(at.foreign);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_foreign, close_foreign)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_typed_words_and_copies),
        CASE(test_untyped_words),
        CASE(test_pinned_memory),
        CASE(test_nested_graphs),
        CASE(foreign_words_are_marked_in_json_and_dot),
        CASE(two_foreign_allocations_are_alike_to_a_diff),
        CASE(test_asked_once_and_late),
        CASE(test_memory_that_has_gone),
        CASE(a_record_that_failed_is_whole_when_asked_again),
    };
    return cmocka_run_group_tests_name("graph.record_foreign", tests, NULL, NULL);
}
