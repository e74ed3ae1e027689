/* SPDX-License-Identifier: MIT */
/* tests/cli/dump.c: `phonograph dump` on records that the library wrote. */
#include "support/command.h"
#include "support/support.h"
#include "support/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PHONOGRAPH T_PROGRAM("phonograph")

/* A fork and a join over every kind of node that a program can capture. */
struct world {
    t_world base;
    ph_stream *side;
    ph_event *fork, *join, *outside;
    ph_graph *graph;
    int32_t *x, *y;
};

static void host_body(void *user)
{
    (void)user;
}

static ph_status body(ph_stream *stream, void *user)
{
    struct world *w = user;
    PH_TRY(ph_memset(w->x, 0, 64 * sizeof *w->x, stream));
    PH_TRY(ph_event_record(w->fork, stream));
    PH_TRY(ph_stream_wait_event(w->side, w->fork));
    PH_TRY(t_add(&w->base, w->side, w->x, w->x, 64, 5));
    PH_TRY(t_fill(&w->base, stream, w->y, 64, 3));
    PH_TRY(ph_launch_host(stream, host_body, NULL));
    PH_TRY(ph_event_record(w->join, w->side));
    PH_TRY(ph_stream_wait_event(stream, w->join));
    PH_TRY(ph_memcpy(w->y, w->x, 32 * sizeof *w->y, stream));
    return ph_event_record(w->outside, stream);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    *state = w;
    t_folder_create();
    t_open(&w->base, NULL);
    assert_ok(ph_stream_create(&w->side, w->base.device, NULL));
    assert_ok(ph_event_create(&w->fork, w->base.device, NULL));
    assert_ok(ph_event_create(&w->join, w->base.device, NULL));
    assert_ok(ph_event_create(&w->outside, w->base.device, &(ph_event_options){.external = true}));
    assert_ok(PH_NEW(&w->x, 64, w->base.stream));
    assert_ok(PH_NEW(&w->y, 64, w->base.stream));
    assert_ok(ph_graph_create(&w->graph, NULL));
    assert_ok(ph_graph_capture(w->graph, w->base.stream, NULL, body, w));
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    ph_graph_destroy(w->graph);
    ph_free(w->x, w->base.stream);
    ph_free(w->y, w->base.stream);
    ph_event_destroy(w->fork);
    ph_event_destroy(w->join);
    ph_event_destroy(w->outside);
    ph_stream_destroy(w->side);
    t_close(&w->base);
    t_folder_remove();
    free(w);
    return 0;
}

static const ph_record *dump(struct world *w, const char *path)
{
    const ph_record *record;
    assert_ok(ph_graph_record(&record, w->graph));
    assert_ok(ph_record_dump(record, path));
    return record;
}

/* The command draws the file as the library draws the record. */
static void a_dump_as_dot_is_that_of_the_record(void **state)
{
    const char *path = t_path("record.json");
    const ph_record *record = dump(*state, path);
    for (int verbose = 0; verbose < 2; verbose++) {
        char *dot;
        assert_ok(ph_record_dot(&dot, record, verbose));
        t_result r = t_run(&(t_command){
            .argv = {PHONOGRAPH, "dump", path, "--dot", verbose ? "--verbose" : NULL}});
        assert_int_equal(r.status, 0);
        assert_string_equal(r.err, "");
        assert_string_equal(r.out, dot);
        t_result_free(&r);
        ph_string_free(dot);
    }
}

static void a_dump_as_text_lists_every_node(void **state)
{
    const char *path = t_path("record.json");
    const ph_record *record = dump(*state, path);
    char line[160];
    t_result r = t_run(&(t_command){.argv = {PHONOGRAPH, "dump", path}});
    assert_int_equal(r.status, 0);
    (void)snprintf(line, sizeof line, "%zu nodes, %zu edges\n", ph_record_node_count(record),
                   ph_record_edge_count(record));
    assert_non_null(strstr(r.out, line));
    for (size_t n = 0; n < ph_record_node_count(record); n++) {
        ph_node_info info;
        assert_ok(ph_record_node(&info, record, n));
        (void)snprintf(line, sizeof line, "\n%zu: %s%s", n,
                       info.kind == PH_NODE_KERNEL ? "kernel " : "", info.name);
        assert_non_null(strstr(r.out, line));
    }
    assert_null(strstr(r.out, "proved"));
    t_result_free(&r);
}

static void test_text_with_parameters(void **state)
{
    struct world *w = *state;
    const char *path = t_path("record.json");
    char address[64];
    (void)dump(w, path);
    t_result r = t_run(&(t_command){.argv = {PHONOGRAPH, "dump", path, "--text", "--verbose"}});
    assert_int_equal(r.status, 0);
    (void)snprintf(address, sizeof address, "x = 0x%llx, proved: +0 in ",
                   (unsigned long long)(uintptr_t)w->x);
    assert_non_null(strstr(r.out, address));
    (void)snprintf(address, sizeof address, "dst = 0x%llx, proved",
                   (unsigned long long)(uintptr_t)w->y);
    assert_non_null(strstr(r.out, address));
    assert_non_null(strstr(r.out, "value = 0x5\n"));
    t_result_free(&r);
}

static void test_standard_input(void **state)
{
    const char *path = t_path("record.json");
    (void)dump(*state, path);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", "-"}, .input = path}, 0, "edges", NULL);
}

/* Every prefix of a good file, and good files with single bytes changed: an answer, never a
 * crash, and for prefixes the right one. */
static void test_truncated_and_damaged(void **state)
{
    const char *whole = t_path("record.json"), *part = t_path("part.json");
    size_t size, stride = t_nightly() ? 1 : 97;
    (void)dump(*state, whole);
    char *json = t_read_file(whole, &size);
    for (size_t cut = 1; cut + 2 < size; cut += stride) {
        t_write(part, json, cut);
        t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", part}}, 1, NULL, "part.json, line ");
    }
    uint64_t seed = 1;
    for (int i = 0; i < (t_nightly() ? 5000 : 60); i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t at = (size_t)(seed >> 33) % size;
        char kept = json[at];
        json[at] = (char)(seed >> 24);
        t_write(part, json, size);
        t_result r = t_run(&(t_command){.argv = {PHONOGRAPH, "dump", part, "--dot", "--verbose"}});
        assert_true(r.status == 0 || r.status == 1);
        assert_true(r.status == 0 || strstr(r.err, "part.json") != NULL);
        t_result_free(&r);
        json[at] = kept;
    }
    free(json);
}

/* What only graphs of other programs' making have: memory nodes, and dependencies that are not
 * full. */
#define MEMORY_NODES(kinds)                                                                        \
    "{\"format\":\"phonograph.record\",\"version\":1,\"node_count\":2,\"edge_count\":1,\"nodes\":" \
    "["                                                                                            \
    "{\"index\":0,\"kind\":\"mem_alloc\",\"name\":\"mem_alloc\",\"dst\":\"0x1000\",\"bytes\":64,"  \
    "\"dependencies\":[],\"dependents\":[1],\"words\":[]},"                                        \
    "{\"index\":1,\"kind\":\"mem_free\",\"name\":\"mem_free\",\"dst\":\"0x1000\","                 \
    "\"dependencies\":[0],\"dependency_kinds\":" kinds ",\"dependents\":[],\"words\":[]}]}"

TEST(test_memory_nodes_and_edge_kinds)
{
    static const char good[] = MEMORY_NODES("[\"programmatic\"]"),
                      wrong[] = MEMORY_NODES("[\"half\"]"), few[] = MEMORY_NODES("[]");
    const char *path = t_path("record.json");
    t_write(path, good, sizeof good - 1);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", path, "--dot", "--verbose"}}, 0,
             "n0 [shape=cylinder, label=\"0: mem_alloc\\l0x1000\\l64 bytes\\l\"];", NULL);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", path, "--dot"}}, 0,
             "n0 -> n1 [style=dashed];", NULL);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", path}}, 0, "0: mem_alloc  64 bytes", NULL);
    t_write(path, wrong, sizeof wrong - 1);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", path}}, 1, NULL,
             "neither full nor programmatic");
    t_write(path, few, sizeof few - 1);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", path}}, 1, NULL,
             "one entry for each dependency");
}

/* Pairs stand behind the node's parameters. */
TEST(a_dump_shows_annotations_behind_the_parameters)
{
    static const char text[] =
        "{\"format\":\"phonograph.record\",\"version\":1,\"node_count\":1,\"edge_count\":0,"
        "\"nodes\":["
        "{\"index\":0,\"kind\":\"host\",\"name\":\"host\",\"dependencies\":[],\"dependents\":[],"
        "\"words\":[],"
        "\"annotation\":{\"name\":\"la\\u001byer\",\"depth\":3,\"rate\":0.5,\"last\":true}}]}";
    const char *path = t_path("record.json");
    t_write(path, text, sizeof text - 1);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", path, "--verbose"}}, 0,
             "0: host\n      name: la\\x1byer\n      depth: 3\n      rate: 0.5\n      last: true\n",
             NULL);
}

TEST(test_bad_usage)
{
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump"}}, 2, NULL, "which file?");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", "a", "b"}}, 2, NULL, "there is 'b' too");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", "a", "--svg"}}, 2, NULL,
             "unknown option '--svg'");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", "a", "--dot", "--text"}}, 2, NULL,
             "either --text or --dot");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", "--help"}}, 0,
             "a record that ph_record_dump or ph_profile_dump_record wrote", NULL);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", "--help"}}, 0,
             "parameters and annotations of each node", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_dump_as_dot_is_that_of_the_record, setup, teardown),
        cmocka_unit_test_setup_teardown(a_dump_as_text_lists_every_node, setup, teardown),
        cmocka_unit_test_setup_teardown(test_text_with_parameters, setup, teardown),
        cmocka_unit_test_setup_teardown(test_standard_input, setup, teardown),
        cmocka_unit_test_setup_teardown(test_truncated_and_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_nodes_and_edge_kinds, setup, teardown),
        cmocka_unit_test_setup_teardown(a_dump_shows_annotations_behind_the_parameters, setup,
                                        teardown),
        cmocka_unit_test(test_bad_usage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
