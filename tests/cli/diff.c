/* SPDX-License-Identifier: MIT */
/* tests/cli/diff.c: `phonograph diff`: what it prints of two files, its exit status, and files
 * that are none. */
#include "support/command.h"
#include "support/support.h"
#include "support/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PHONOGRAPH T_PROGRAM("phonograph")

/* A kernel and a memset behind it; the tests change one place. */
static const char good[] =
    "{\"format\":\"phonograph.record\",\"version\":1,\"node_count\":2,\"edge_count\":1,\"nodes\":["
    "\n"
    "{\"index\":0,\"kind\":\"kernel\",\"name\":\"first\",\"grid\":[4,1,1],\"block\":[64,1,1],"
    "\"shared_"
    "bytes\":0,"
    "\"args_size\":16,\"args\":\"00000000000000000000000000000000\",\"dependencies\":[],"
    "\"dependents\":[1],"
    "\"words\":["
    "{\"name\":\"x\",\"offset\":0,\"kind\":\"proved\",\"value\":\"0x7f00\",\"internal\":false,"
    "\"allocation\":"
    "{\"base\":\"0x7e00\",\"bytes\":512,\"offset\":256,\"generation\":7,\"pool\":[3,0],\"pinned\":"
    "false}},"
    "{\"name\":\"n\",\"offset\":8,\"kind\":\"value\",\"value\":\"0x40\",\"internal\":false,"
    "\"allocation\":"
    "null}],"
    "\"annotation\":{\"name\":\"layer\",\"depth\":3,\"rate\":0.5,\"last\":true}},\n"
    "{\"index\":1,\"kind\":\"memset\",\"name\":\"memset\",\"dst\":\"0x7f00\",\"value\":5,\"value_"
    "size\":4,"
    "\"bytes\":16,"
    "\"dependencies\":[0],\"dependents\":[],\"words\":[]}]}\n";

FIXTURE(setup)
{
    t_folder_create();
    t_write(t_path("a.json"), good, sizeof good - 1);
    return 0;
}

FIXTURE(teardown)
{
    t_folder_remove();
    return 0;
}

static char *changed(const char *from, const char *to)
{
    const char *at = strstr(good, from);
    size_t size = strlen(good) + strlen(to) + 1;
    char *text = malloc(size);
    assert_non_null(at);
    assert_non_null(text);
    (void)snprintf(text, size, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
    return text;
}

static void expect_change(const char *from, const char *to, int status, const char *out,
                          const char *err)
{
    char *text = changed(from, to);
    t_write(t_path("b.json"), text, strlen(text));
    t_expect(&(t_command){.argv = {PHONOGRAPH, "diff", t_path("a.json"), t_path("b.json")}}, status,
             out, err);
    free(text);
}

TEST(equal_files_are_alike_and_exit_with_0)
{
    t_expect(&(t_command){.argv = {PHONOGRAPH, "diff", t_path("a.json"), t_path("a.json")}}, 0,
             "2 of 2 nodes are alike; an update is possible\n", NULL);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "diff", "-", t_path("a.json")},
                          .input = t_path("a.json")},
             0, "2 of 2 nodes", NULL);
    expect_change("0x7f00\",\"internal\":false,\"allocation\":{\"base\":\"0x7e00",
                  "0x9f00\",\"internal\":false,\"allocation\":{\"base\":\"0x9e00", 0,
                  "an update is possible\n", NULL); /* the same work in other memory */
}

TEST(different_files_are_reported_change_by_change)
{
    static const struct {
        const char *from, *to, *out;
    } cases[] = {
        {"\"first\"", "\"second\"", "node 0 (first) is: kernel first -> kernel second\n"},
        {"[4,1,1]", "[8,1,1]", "node 0 (first) grid 4x1x1 -> 8x1x1\n"},
        {"[64,1,1],\"shared_bytes\":0", "[32,1,1],\"shared_bytes\":8",
         "node 0 (first) block 64x1x1 -> 32x1x1, shared memory 0 -> 8 bytes\n"},
        {"\"0x40\"", "\"0x4000000000\"", "node 0 (first) n: 64 -> 0x4000000000\n"},
        {"0x7f00\",\"internal\":false,\"allocation\":{\"base\":\"0x7e00\",\"bytes\":512,\"offset\":"
         "256",
         "0x9100\",\"internal\":false,\"allocation\":{\"base\":\"0x9000\",\"bytes\":8192,"
         "\"offset\":256",
         "2 of 2 nodes are alike"},
        {"0x7f00\",\"internal\":false,\"allocation\":{\"base\":\"0x7e00\",\"bytes\":512,\"offset\":"
         "256",
         "0x9110\",\"internal\":false,\"allocation\":{\"base\":\"0x9000\",\"bytes\":8192,"
         "\"offset\":272",
         "node 0 (first) x: 512-byte allocation +256 -> 8192-byte allocation +272\n"},
        {"\"proved\",\"value\":\"0x7f00\"", "\"proved\",\"value\":\"0x0\"",
         "x: 512-byte allocation +256 -> NULL\n"},
        {"\"bytes\":16", "\"bytes\":32", "node 1 (memset) bytes: 16 -> 32\n"},
        {"\"value\":5", "\"value\":6", "node 1 (memset) value: 5 -> 6\n"},
        {"\"value_size\":4", "\"value_size\":1",
         "node 1 (memset) bytes of an element: 4 -> 1 (blocks an update)\n1 of 2 nodes are alike; "
         "an update "
         "is not possible: the element size "
         "of a memset cannot change\n"},
        {"\"depth\":3", "\"depth\":4", "node 0 (first) annotation: {depth: 3} -> {depth: 4}\n"},
        {"\"depth\":3", "\"depth\":\"3\"",
         "node 0 (first) annotation: {depth: 3} -> {depth: \"3\"}\n"},
        {"\"rate\":0.5", "\"rate\":0.25", "{rate: 0.5} -> {rate: 0.25}\n"},
        {"\"last\":true", "\"last\":false", "{last: true} -> {last: false}\n"},
        {",\"annotation\":{\"name\":\"layer\",\"depth\":3,\"rate\":0.5,\"last\":true}", "",
         "{name: \"layer\", depth: 3, rate: 0.5, last: true} -> none\n"},
        {"\"rate\":0.5", "\"rate\":null", "{rate: 0.5} -> {rate: nan}\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_change(cases[i].from, cases[i].to, strstr(cases[i].out, "2 of 2") ? 0 : 1,
                      cases[i].out, NULL);
}

TEST(a_diff_is_written_as_json)
{
    char *text = changed("\"value_size\":4", "\"value_size\":1");
    t_write(t_path("b.json"), text, strlen(text));
    free(text);
    t_result r = t_run(
        &(t_command){.argv = {PHONOGRAPH, "diff", "--json", t_path("a.json"), t_path("b.json")}});
    assert_int_equal(r.status, 1);
    static const char *const parts[] = {
        "\"format\": \"phonograph.diff\"",
        "\"version\": 1",
        "\"update_possible\": false",
        "\"kind\": \"size\"",
        "\"a\": 1",
        "\"b\": 1",
        "\"blocks_update\": true",
        "\"rule\": \"the element size of a memset cannot change\"",
        "\"text\": \"node 1 (memset) bytes of an element: 4 -> 1\""};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        assert_non_null(strstr(r.out, parts[i]));
    t_result_free(&r);
    t_expect(
        &(t_command){.argv = {PHONOGRAPH, "diff", t_path("a.json"), t_path("a.json"), "--json"}}, 0,
        "\"changes\": []", NULL);
}

/* A node of a alone: no number of b's. */
TEST(removed_nodes_are_reported_without_a_number_of_b)
{
    static const char none[] = "{\"format\":\"phonograph.record\",\"version\":1,\"node_count\":0,"
                               "\"edge_count\":0,\"nodes\":[]}";
    t_write(t_path("b.json"), none, sizeof none - 1);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "diff", t_path("a.json"), t_path("b.json")}}, 1,
             "node 0 (first) was removed: grid 4x1x1, block 64x1x1 (blocks an update)\nnode 1 "
             "(memset) was "
             "removed: 16 bytes",
             NULL);
    t_expect(
        &(t_command){.argv = {PHONOGRAPH, "diff", "--json", t_path("a.json"), t_path("b.json")}}, 1,
        "\"b\": null", NULL);
}

/* Names are somebody else's: each change stays one line, and nothing steers the terminal. */
TEST(hostile_names_do_not_steer_the_terminal)
{
    expect_change("\"first\"", "\"\\u001b[2J\\nnode 9 was removed\"", 1,
                  "is: kernel first -> kernel  [2J node 9 was removed\n", NULL);
}

TEST(wrong_files_are_refused_with_the_place)
{
    static const struct {
        const char *from, *to, *err;
    } cases[] = {
        {"\"version\":1", "\"version\":2", "a record of version 2"},
        {"\"args_size\":16", "\"args_size\":99999999999",
         "b.json: nodes[0].args_size: is 99999999999, expected 0 to 1048576"},
        {"\"args_size\":16", "\"args_size\":8",
         "b.json: nodes[0].words[1].offset: is 8, but there are 8 bytes of parameters"},
        {"\"offset\":8", "\"offset\":0",
         "nodes[0].words[1].offset: is 0, not above that of the word before it, 0"},
        {"\"value_size\":4", "\"value_size\":3", "nodes[1].value_size: is 3, expected 1, 2 or 4"},
        {"\"depth\":3", "\"depth\":[3]",
         "nodes[0].annotation: \"depth\" is neither text nor number"},
        {"{\"name\":\"layer\"", "{\"\":\"layer\"", "nodes[0].annotation: has a key without a name"},
        {"\"annotation\":{\"name\":\"layer\",\"depth\":3,\"rate\":0.5,\"last\":true}",
         "\"annotation\":7", "nodes[0].annotation: is no object"},
        {"\"dependencies\":[0]", "\"dependencies\":[1]",
         "nodes[1].dependencies[0]: is 1, but a node depends only on nodes before it (this is node "
         "1)"},
        {"\"nodes\":", "\"nodes\":7,\"others\":", "nodes: is no array"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_change(cases[i].from, cases[i].to, 2, NULL, cases[i].err);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "diff", t_path("a.json"), t_path("missing.json")}},
             2, NULL, "No such file");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "diff", t_path("missing.json"), t_path("a.json")}},
             2, NULL, "No such file");
}

TEST(bad_usage_exits_with_2_and_a_reason)
{
    t_expect(&(t_command){.argv = {PHONOGRAPH, "diff"}}, 2, NULL, "which two files?");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "diff", "a"}}, 2, NULL, "which two files?");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "diff", "a", "b", "c"}}, 2, NULL,
             "there is 'c' too");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "diff", "a", "b", "--dot"}}, 2, NULL,
             "unknown option '--dot'");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "diff", "-", "-"}}, 2, NULL,
             "only one of the files can be standard input");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "diff", "--help"}}, 0, "diff A B [--json]", NULL);
}

TEST(output_that_cannot_be_written)
{
    t_expect(&(t_command){.argv = {PHONOGRAPH, "diff", t_path("a.json"), t_path("a.json")},
                          .output = "/dev/full"},
             2, NULL, "the output cannot be written");
    t_expect(
        &(t_command){.argv = {PHONOGRAPH, "diff", "--json", t_path("a.json"), t_path("a.json")},
                     .output = "/dev/full"},
        2, NULL, "the output cannot be written");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equal_files_are_alike_and_exit_with_0, setup, teardown),
        cmocka_unit_test_setup_teardown(different_files_are_reported_change_by_change, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_diff_is_written_as_json, setup, teardown),
        cmocka_unit_test_setup_teardown(removed_nodes_are_reported_without_a_number_of_b, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(hostile_names_do_not_steer_the_terminal, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_files_are_refused_with_the_place, setup, teardown),
        cmocka_unit_test(bad_usage_exits_with_2_and_a_reason),
        cmocka_unit_test_setup_teardown(output_that_cannot_be_written, setup, teardown),
    };
    return cmocka_run_group_tests_name("cli.diff", tests, NULL, NULL);
}
