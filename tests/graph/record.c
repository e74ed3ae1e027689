/* SPDX-License-Identifier: MIT */
/* tests/graph/record.c: the record of a captured graph: nodes, words, dependencies, and its JSON
 * and DOT. */
#include "support/fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    N = 256
};
static t_world world;
static ph_graph *graph;
static int32_t *x, *inside;
static const ph_record *record;

WORLD(world, .graphs = {&graph}, .arrays = {{&x, N}});

static void nothing(void *user)
{
    (void)user;
}

/* 0 add on the stream; 1 memset and 2 memcpy on a fork; 3 a host function after the join. */
static ph_status diamond(ph_stream *stream, void *user)
{
    ph_stream *side = user;
    PH_TRY(PH_NEW(&inside, N, stream));
    PH_TRY(t_add(&world, stream, x, inside, N, 3));
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(ph_memset_u32(x, 0x01020304, N, stream));
    PH_TRY(ph_memcpy(x, inside, 16, side));
    PH_TRY(ph_stream_wait_stream(stream, side));
    PH_TRY(ph_launch_host(stream, nothing, NULL));
    ph_free(inside, stream);
    return PH_OK;
}

static void capture_diamond(void)
{
    ph_stream *side;
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, diamond, side));
    ph_stream_destroy(side);
    assert_ok(ph_graph_record(&record, graph));
}

static ph_node_info node(size_t index)
{
    ph_node_info info;
    assert_ok(ph_record_node(&info, record, index));
    assert_int_equal(info.index, index);
    return info;
}

static ph_word word(size_t index, size_t which)
{
    ph_word out;
    assert_ok(ph_record_word(&out, record, index, which));
    return out;
}

TEST(each_node_has_its_kind_and_parameters)
{
    capture_diamond();
    assert_int_equal(ph_record_node_count(record), 4);
    assert_int_equal(ph_record_edge_count(record), 4);
    ph_node_info kernel = node(0), set = node(1), copy = node(2), host = node(3);
    assert_int_equal(kernel.kind, PH_NODE_KERNEL);
    assert_string_equal(kernel.name, "add_i32");
    assert_true(kernel.grid[0] == 1 && kernel.grid[1] == 1 && kernel.block[0] == 256 &&
                kernel.block[2] == 1);
    assert_int_equal(kernel.args_size, sizeof(struct t_add_i32));
    const struct t_add_i32 *args = kernel.args;
    assert_true(args->n == N && args->x == x && args->y == inside && args->value == 3);
    assert_int_equal(set.kind, PH_NODE_MEMSET);
    assert_true(set.dst == x && set.value == 0x01020304 && set.value_size == 4 &&
                set.bytes == N * 4);
    assert_int_equal(copy.kind, PH_NODE_MEMCPY);
    assert_true(copy.dst == x && copy.src == inside && copy.bytes == 16);
    assert_int_equal(host.kind, PH_NODE_HOST);
    assert_string_equal(host.name, "host");
    ph_node_info none;
    assert_error(ph_record_node(&none, record, 4), PH_ERROR_NOT_FOUND, "node 4 does not exist");
    assert_status(ph_record_node(NULL, record, 0), PH_ERROR_ARGUMENT);
    assert_status(ph_record_node(&none, NULL, 0), PH_ERROR_ARGUMENT);
    assert_int_equal(ph_record_node_count(NULL), 0);
}

TEST(names_are_as_readable_as_they_are)
{
    char name[16] = "before";
    capture_diamond();
    assert_ok(ph_record_readable_name(name, sizeof name, record, 0));
    assert_string_equal(name, "add_i32");
    assert_ok(ph_record_readable_name(name, 4, record, 2));
    assert_string_equal(name, "mem");
    assert_ok(ph_record_readable_name(name, 1, record, 3));
    assert_string_equal(name, "");
    assert_error(ph_record_readable_name(NULL, 8, record, 0), PH_ERROR_ARGUMENT,
                 "ph_record_readable_name: out");
    assert_error(ph_record_readable_name(name, 0, record, 0), PH_ERROR_ARGUMENT,
                 "ph_record_readable_name: size is 0; 1024 bytes hold every readable name");
    assert_error(ph_record_readable_name(name, 8, NULL, 0), PH_ERROR_ARGUMENT, "record");
    assert_error(ph_record_readable_name(name, 8, record, 4), PH_ERROR_NOT_FOUND,
                 "node 4 does not exist");
    assert_string_equal(name, "");
    for (size_t i = 0; i < 5; i++)
        assert_null(ph_record_made_for(record, i));
}

TEST(TestGetGraphData_test_edges)
{
    capture_diamond();
    assert_int_equal(node(0).dependency_count, 0);
    assert_int_equal(node(0).dependent_count, 2);
    assert_int_equal(node(3).dependency_count, 2);
    assert_true(ph_record_dependencies(record, 3)[0] == 1 &&
                ph_record_dependencies(record, 3)[1] == 2);
    size_t edges = 0;
    for (size_t i = 0; i < ph_record_node_count(record); i++)
        for (size_t d = 0; d < node(i).dependency_count; d++, edges++) {
            size_t from = ph_record_dependencies(record, i)[d], found = 0;
            assert_true(from < i);
            for (size_t k = 0; k < node(from).dependent_count; k++)
                found += ph_record_dependents(record, from)[k] == i;
            assert_int_equal(found, 1);
        }
    assert_int_equal(edges, 4);
    assert_int_equal(edges, ph_record_edge_count(record));
    assert_null(ph_record_dependencies(record, 4));
}

TEST(test_typed_words)
{
    ph_pool *pool;
    capture_diamond();
    assert_ok(ph_graph_pool(&pool, graph));
    assert_int_equal(node(0).word_count, 4);
    ph_word n = word(0, 0), from = word(0, 1), to = word(0, 2), value = word(0, 3);
    assert_string_equal(n.name, "n");
    assert_true(n.kind == PH_WORD_VALUE && n.value == N && n.base == NULL);
    assert_string_equal(from.name, "x");
    assert_true(from.kind == PH_WORD_PROVED && from.base == x && from.generation != 0 &&
                !from.internal);
    assert_int_equal(from.offset, offsetof(struct t_add_i32, x));
    assert_true(from.allocation_bytes >= N * sizeof *x);
    assert_true(from.pool.first == 0 && from.pool.second == 0);
    /* Freed in the capture: the ranges know it all the same. */
    assert_true(to.kind == PH_WORD_PROVED && to.internal &&
                to.value == (uint64_t)(uintptr_t)inside);
    assert_true(value.kind == PH_WORD_VALUE && value.value == 3);
    ph_word dst = word(2, 0), src = word(2, 1), out;
    assert_true(dst.kind == PH_WORD_PROVED && dst.base == x && !dst.internal &&
                strcmp(dst.name, "dst") == 0);
    assert_true(src.kind == PH_WORD_PROVED && src.internal && src.offset == 8 &&
                strcmp(src.name, "src") == 0);
    assert_int_equal(node(1).word_count, 1);
    assert_int_equal(node(3).word_count, 0);
    assert_error(ph_record_word(&out, record, 0, 4), PH_ERROR_NOT_FOUND, "no word 4");
}

/* ---- other kernels ---- */
static ph_kernel *make_kernel(t_kernel_id id, const char *name, const ph_param *params,
                              size_t count)
{
    ph_kernel *kernel;
    ph_kernel_source source = t_kernel_sources[id];
    source.name = name ? name : source.name;
    source.params = params;
    source.param_count = count;
    assert_ok(ph_kernel_create(&kernel, world.device, &source));
    return kernel;
}

static void capture_launch(ph_kernel *kernel, const void *args, size_t size)
{
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_launch(world.stream, kernel, NULL, args, size));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_record(&record, graph));
}

TEST(test_untyped_words)
{
    struct {
        uint64_t n;
        int32_t *into;
        uint64_t foreign;
        uint32_t tail[1];
    } args = {77, x + 3, 0x1234567890, {9}};
    ph_kernel *kernel = make_kernel(T_KERNEL_IGNORE_WORDS, NULL, NULL, 0);
    capture_launch(kernel, &args, 28);
    assert_int_equal(node(0).word_count, 4);
    assert_int_equal(word(0, 0).kind, PH_WORD_VALUE);
    assert_string_equal(word(0, 1).name, "+8");
    assert_true(word(0, 1).kind == PH_WORD_SUSPECTED && word(0, 1).base == x);
    assert_int_equal(word(0, 2).kind, PH_WORD_VALUE);
    assert_true(word(0, 3).kind == PH_WORD_VALUE && word(0, 3).value == 9 &&
                word(0, 3).offset == 24);
    ph_kernel_release(kernel);
}

struct __attribute__((packed)) packed {
    char flag;
    int32_t *at;
    uint64_t pair[2];
    int32_t *undeclared;
};

TEST(test_packed_words)
{
    static const ph_param params[] = {PH_PARAM(struct packed, flag, PH_PARAM_VALUE),
                                      PH_PARAM(struct packed, at, PH_PARAM_ADDRESS),
                                      PH_PARAM(struct packed, pair, PH_PARAM_VALUE)};
    struct packed args = {1, x, {(uint64_t)(uintptr_t)x, 5}, x};
    /* Where a compiler sees the name it must be a name. */
    const char *name = t_on_host() ? "packed \"quoted\\\"" : NULL;
    ph_kernel *kernel = make_kernel(T_KERNEL_IGNORE_BYTES, name, params, 3);
    capture_launch(kernel, &args, sizeof args);
    /* what is not declared is not aligned either: no word */
    assert_int_equal(node(0).word_count, 4);
    assert_true(word(0, 1).kind == PH_WORD_PROVED && word(0, 1).offset == 1 &&
                word(0, 1).base == x);
    assert_true(word(0, 2).kind == PH_WORD_VALUE &&
                word(0, 2).base == NULL); /* declared a value: never an address */
    assert_string_equal(word(0, 3).name, "pair+8");
    assert_int_equal(word(0, 3).value, 5);
    char *dot;
    assert_ok(ph_record_dot(&dot, record, true));
    assert_non_null(strstr(dot, name ? "packed \\\"quoted\\\\\\\"" : "ignore_bytes"));
    ph_string_free(dot);
    ph_kernel_release(kernel);
}

/* ---- text ---- */
/* Well formed: strings end, brackets match. */
static void check_json(const char *text)
{
    char stack[64];
    int depth = 0;
    for (const char *p = text; *p; p++) {
        if (*p == '"')
            for (p++; *p != '"'; p++)
                assert_true(*p != 0 && (*p != '\\' || *++p != 0));
        else if (*p == '{' || *p == '[')
            stack[depth++] = *p == '{' ? '}' : ']';
        else if (*p == '}' || *p == ']')
            assert_true(depth > 0 && stack[--depth] == *p);
    }
    assert_int_equal(depth, 0);
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *p = strstr(text, part); p; p = strstr(p + 1, part))
        count++;
    return count;
}

TEST(origin_of_the_record_is_in_its_json)
{
    char *text, part[400];
    ph_device_info info;
    assert_ok(ph_device_get_info(&info, world.device));
    assert_int_equal(setenv("SOURCE_DATE_EPOCH", "1700000000", 1), 0);
    capture_diamond();
    assert_int_equal(unsetenv("SOURCE_DATE_EPOCH"), 0);
    assert_ok(ph_record_json(&text, record));
    check_json(text);
    assert_non_null(strstr(text, "\"date\":\"2023-11-14T22:13:20Z\""));
    (void)snprintf(part, sizeof part, "\"origin\":{\"program\":\"%s\",\"graph\":\"graph ",
                   program_invocation_short_name);
    assert_non_null(strstr(text, part));
    (void)snprintf(part, sizeof part, "\"device\":\"%s\",\"description\":\"%s\",\"driver\":\"%s\"",
                   info.name, info.description, info.driver);
    assert_non_null(strstr(text, part));
    (void)snprintf(part, sizeof part, "\"library\":\"%s\"}", ph_version());
    assert_non_null(strstr(text, part));
    ph_string_free(text);
}

TEST(the_json_holds_nodes_edges_and_words)
{
    char *text;
    capture_diamond();
    assert_ok(ph_record_json(&text, record));
    check_json(text);
    assert_memory_equal(
        text, "{\"format\":\"phonograph.record\",\"version\":1,\"node_count\":4,\"edge_count\":4,",
        64);
    assert_int_equal(count_of(text, "\"index\":"), 4);
    assert_int_equal(
        count_of(text,
                 "\"kind\":\"kernel\",\"name\":\"add_i32\",\"grid\":[1,1,1],\"block\":[256,1,1]"),
        1);
    assert_int_equal(count_of(text, "\"dependencies\":[1,2],\"dependents\":[]"), 1);
    assert_int_equal(count_of(text, "\"kind\":\"proved\""), 5);
    assert_int_equal(count_of(text, "\"value\":16909060,\"value_size\":4,\"bytes\":1024"), 1);
    assert_int_equal(count_of(text, "\"internal\":true"), 2);
    char path[64], *read = calloc(1, strlen(text) + 16);
    snprintf(path, sizeof path, "/tmp/phonograph-record-%d.json", (int)getpid());
    assert_ok(ph_record_dump(record, path));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(read, 1, strlen(text) + 15, file), strlen(text) + 1);
    fclose(file);
    unlink(path);
    assert_memory_equal(read, text, strlen(text));
    assert_status(ph_record_dump(record, "/nonexistent/folder/record.json"), PH_ERROR_IO);
    assert_status(ph_record_dump(record, NULL), PH_ERROR_ARGUMENT);
    assert_status(ph_record_dump(NULL, path), PH_ERROR_ARGUMENT);
    free(read);
    ph_string_free(text);
    assert_status(ph_record_json(&text, NULL), PH_ERROR_ARGUMENT);
    assert_null(text);
}

TEST(the_dot_text_draws_nodes_and_edges)
{
    char *text;
    capture_diamond();
    assert_ok(ph_record_dot(&text, record, false));
    assert_memory_equal(text, "digraph phonograph {", 20);
    assert_int_equal(count_of(text, "label="), 4);
    assert_int_equal(count_of(text, " -> "), 4);
    assert_int_equal(count_of(text, "n0 -> n1;"), 1);
    assert_int_equal(count_of(text, "n2 -> n3;"), 1);
    assert_int_equal(count_of(text, "0x"), 0);
    ph_string_free(text);
    assert_ok(ph_record_dot(&text, record, true));
    assert_int_equal(count_of(text, "<<<1,1,1, 256,1,1>>>"), 1);
    assert_int_equal(count_of(text, "(proved, internal)"), 2);
    ph_string_free(text);
}

TEST(an_empty_graph_is_warned_of_and_has_an_empty_record)
{
    char *text;
    t_log_start();
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_int_equal(t_log_count("the graph is empty"), 1);
    t_log_stop();
    assert_ok(ph_graph_replay(graph, world.stream)); /* harmless */
    assert_ok(ph_stream_synchronize(world.stream));
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), 0);
    assert_ok(ph_record_json(&text, record));
    check_json(text);
    assert_non_null(strstr(text, "\"nodes\":[]"));
    ph_string_free(text);
}

TEST(each_node_kind_has_a_name)
{
    assert_string_equal(ph_node_kind_name(PH_NODE_KERNEL), "kernel");
    assert_string_equal(ph_node_kind_name(PH_NODE_EVENT_RECORD), "event_record");
    assert_string_equal(ph_node_kind_name((ph_node_kind)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(each_node_has_its_kind_and_parameters),
        IN_WORLD(names_are_as_readable_as_they_are),
        IN_WORLD(TestGetGraphData_test_edges),
        IN_WORLD(test_typed_words),
        IN_WORLD(test_untyped_words),
        IN_WORLD(test_packed_words),
        IN_WORLD(the_json_holds_nodes_edges_and_words),
        IN_WORLD(the_dot_text_draws_nodes_and_edges),
        IN_WORLD(an_empty_graph_is_warned_of_and_has_an_empty_record),
        IN_WORLD(each_node_kind_has_a_name),
        IN_WORLD(origin_of_the_record_is_in_its_json),
    };
    return cmocka_run_group_tests_name("graph.record", tests, NULL, NULL);
}
