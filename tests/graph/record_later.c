/* SPDX-License-Identifier: MIT */
/* tests/graph/record_later.c: records and inputs that are asked for long after the capture say what
 * they would have said at its end. */
#include "support/support.h"

#include "base/alloc.h"
#include "support/test.h"
#include <stdlib.h>
#include <string.h>

enum {
    N = 1000
};
static t_world world;
static int32_t *x, *y, *z, *host;

FIXTURE(open_world)
{
    t_open(&world, NULL);
    int32_t **all[] = {&x, &y, &z};
    for (int i = 0; i < 3; i++) {
        assert_ok(PH_NEW(all[i], N, world.stream));
        assert_ok(t_fill(&world, world.stream, *all[i], N, 0));
    }
    assert_ok(ph_malloc_pinned(&host, N, sizeof *host, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    return 0;
}

FIXTURE(close_world)
{
    ph_free(x, world.stream);
    ph_free(y, world.stream);
    ph_free(z, world.stream);
    ph_free_pinned(host, world.stream);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

/* y = x + 1; host = y; x = 0; behind a graph that does no more than the first. */
static ph_status work(ph_stream *stream, void *user)
{
    if (user)
        PH_TRY(ph_graph_replay(user, stream));
    PH_TRY(t_add(&world, stream, x, y, N, 1));
    PH_TRY(ph_memcpy(host, y, N * sizeof *y, stream));
    return ph_memset(x, 0, N * sizeof *x, stream);
}

static ph_status inner(ph_stream *stream, void *user)
{
    (void)user;
    return t_add(&world, stream, x, y, N, 5);
}

static ph_graph *captured(ph_capture_fn body, void *user, const ph_capture_options *options)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, options, body, user));
    return graph;
}

/* But for which graph it is, and when it was read. */
static void leave_origin_out(char *text)
{
    char *from = strstr(text, "\"origin\":{"), *to = from ? strchr(from, '}') : NULL;
    assert_non_null(to);
    memmove(from, to + 2, strlen(to + 2) + 1);
}

static char *text_of(ph_graph *graph)
{
    const ph_record *record;
    char *text;
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_json(&text, record));
    leave_origin_out(text);
    return text;
}

/* In the place of memory that is freed comes other memory of the same size. */
static void replace(int32_t **memory)
{
    ph_free(*memory, world.stream);
    assert_ok(PH_NEW(memory, N, world.stream));
}

static void replace_pinned(void)
{
    ph_free_pinned(host, world.stream);
    assert_ok(ph_malloc_pinned(&host, N, sizeof *host, world.stream));
}

TEST(test_memory_that_was_freed)
{
    ph_graph *nested = captured(inner, NULL, NULL);
    ph_graph *now = captured(work, nested, NULL), *later = captured(work, nested, NULL);
    char *expected = text_of(now);
    for (int i = 0; i < 3; i++) {
        replace(&x);
        replace(&y);
        replace_pinned();
        ph_graph *between = captured(work, NULL, NULL); /* of which nobody asks */
        replace(&z);
        if (i == 1)
            ph_graph_destroy(nested);
        ph_graph_destroy(between);
    }
    char *text = text_of(later);
    assert_string_equal(text, expected);
    ph_string_free(text);
    text = text_of(now);
    assert_string_equal(text, expected);
    ph_string_free(text);
    ph_string_free(expected);
    ph_graph_destroy(now);
    ph_graph_destroy(later);
}

/* Younger memory in an old place is none of the capture's. */
TEST(test_memory_that_came_later)
{
    int32_t *gone;
    const ph_record *record;
    ph_word word;
    assert_ok(PH_NEW(&gone, N, world.stream));
    ph_free(gone, world.stream);
    int32_t *mine = x;
    x = gone; /* nobody's at the capture's end */
    ph_graph *graph = captured(inner, NULL, NULL);
    x = mine;
    int32_t *young;
    assert_ok(PH_NEW(&young, N, world.stream));
    assert_ptr_equal(young, gone);
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_word(&word, record, 0, 1));
    assert_int_equal(word.value, (uintptr_t)gone);
    assert_null(word.base);
    ph_free(young, world.stream);
    ph_graph_destroy(graph);
}

static bool has_input(ph_graph *graph, const void *base)
{
    size_t count;
    ph_input_info input;
    bool found = false;
    assert_ok(ph_graph_input_count(&count, graph));
    for (size_t i = 0; i < count; i++) {
        assert_ok(ph_graph_input(&input, graph, i));
        found = found || input.base == base;
    }
    return found;
}

static ph_status other_inner(ph_stream *stream, void *user)
{
    (void)user;
    return t_add(&world, stream, z, y, N, 7);
}

/* What an update brought is told after the other graph has gone, by graphs that check and by those
 * that do not; the record stays that of the graph's own capture. */
TEST(an_update_changes_the_inputs_and_keeps_the_record)
{
    for (int checks = 0; checks < 2; checks++) {
        const ph_capture_options options = {.check_input_liveness = checks};
        ph_graph *graph = captured(inner, NULL, &options), *last = NULL;
        ph_graph *same = captured(inner, NULL, NULL);
        char *expected = text_of(same), *text;
        for (int i = 0; i < 3; i++) {
            ph_graph *from = captured(i == 2 ? inner : other_inner, NULL, NULL);
            assert_ok(ph_graph_update(graph, from, NULL));
            if (last)
                ph_graph_destroy(last);
            last = from;
        }
        ph_graph *from = captured(other_inner, NULL, NULL);
        assert_ok(ph_graph_update(graph, from, NULL));
        ph_graph_destroy(from);
        ph_graph_destroy(last);
        assert_true(has_input(graph, z));
        assert_false(has_input(graph, x));
        text = text_of(graph);
        assert_string_equal(text, expected);
        ph_string_free(text);
        assert_ok(t_fill(&world, world.stream, z, N, 10));
        assert_ok(ph_graph_replay(graph, world.stream));
        t_all(y, N, 17, world.stream);
        /* the graph's own parameters again */
        assert_ok(ph_graph_update(graph, graph, NULL));
        assert_true(has_input(graph, x));
        assert_false(has_input(graph, z));
        ph_string_free(expected);
        ph_graph_destroy(same);
        ph_graph_destroy(graph);
    }
}

/* Nodes that are set after an update that nobody has read. */
TEST(test_nodes_after_an_update)
{
    ph_graph *graph = captured(inner, NULL, NULL), *from = captured(other_inner, NULL, NULL);
    const struct t_add_i32 args = {N, x, y, 3};
    const ph_launch_config config = t_config(N);
    assert_ok(ph_graph_update(graph, from, NULL));
    ph_graph_destroy(from);
    assert_ok(t_fill(&world, world.stream, x, N, 20));
    assert_ok(ph_graph_node_set_launch(graph, 0, &config, &args, sizeof args));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 23, world.stream);
    assert_true(has_input(graph, x));
    assert_false(has_input(graph, z));
    ph_graph_destroy(graph);
}

/* A refused update names the nodes, though neither capture was read before. */
TEST(test_an_update_that_is_refused)
{
    ph_update_result result;
    const ph_diff *diff;
    ph_graph *graph = captured(inner, NULL, NULL), *from = captured(work, NULL, NULL);
    assert_error(ph_graph_update(graph, from, &result), PH_ERROR_MISMATCH, "new capture 3");
    assert_ok(ph_graph_update_diff(&diff, graph));
    assert_true(has_input(graph, x));
    ph_graph_destroy(from);
    ph_graph_destroy(graph);
}

/* Without host memory a question fails, and a later one is answered. */
TEST(test_no_host_memory)
{
    const ph_record *record;
    ph_graph *graph = captured(work, NULL, NULL), *now = captured(work, NULL, NULL);
    char *expected = text_of(now), *text;
    ph_status status = PH_ERROR_HOST_MEMORY;
    replace(&x);
    for (int64_t n = 0; status != PH_OK; n++) {
        ph__alloc_fail_after(n);
        status = ph_graph_record(&record, graph);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK)
            assert_int_equal(status, PH_ERROR_HOST_MEMORY);
    }
    text = text_of(graph);
    assert_string_equal(text, expected);
    ph_string_free(text);
    ph_string_free(expected);
    ph_graph_destroy(now);
    /* what dies while there is none is lost, and the record says so */
    ph_graph_destroy(graph);
    graph = captured(work, NULL, NULL);
    ph__alloc_fail_after(0);
    ph_free(x, world.stream);
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_error(ph_graph_record(&record, graph), PH_ERROR_HOST_MEMORY, "at its end");
    ph_graph_destroy(graph);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_memory_that_was_freed),
        CASE(test_memory_that_came_later),
        CASE(an_update_changes_the_inputs_and_keeps_the_record),
        CASE(test_nodes_after_an_update),
        CASE(test_an_update_that_is_refused),
        CASE(test_no_host_memory),
    };
    return cmocka_run_group_tests_name("graph.record_later", tests, NULL, NULL);
}
