/* SPDX-License-Identifier: MIT */
/* tests/cli/dump_malformed.c: `phonograph dump` on files that are no records: each is refused,
 * and the place in it named. */
#include "support/command.h"
#include "support/support.h"
#include "support/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PHONOGRAPH T_PROGRAM("phonograph")

/* Two nodes, one edge; the tests change one place each. */
static const char good[] = "{\"format\":\"phonograph.record\",\"version\":1,\"node_count\":2,"
                           "\"edge_count\":1,\"nodes\":[\n"
                           "{\"index\":0,\"kind\":\"kernel\",\"name\":\"first\",\"grid\":[4,1,1],"
                           "\"block\":[64,1,1],\"shared_"
                           "bytes\":0,\"args_size\":8,"
                           "\"args\":\"0000000000000000\",\"dependencies\":[],\"dependents\":[1],"
                           "\"words\":[{\"name\":\"x\","
                           "\"offset\":0,"
                           "\"kind\":\"proved\",\"value\":\"0x7f00\",\"internal\":true,"
                           "\"allocation\":{\"base\":\"0x7e00\","
                           "\"bytes\":512,\"offset\":256,"
                           "\"generation\":7,\"pool\":[3,0],\"pinned\":false}}]},\n"
                           "{\"index\":1,\"kind\":\"memset\",\"name\":\"memset\",\"dst\":"
                           "\"0x7f00\",\"value\":5,\"value_size\":4,"
                           "\"bytes\":16,"
                           "\"dependencies\":[0],\"dependents\":[],\"words\":[]}]}\n";

#define SNOW "\u2603\u2603\u2603\u2603\u2603\u2603\u2603\u2603\u2603\u2603"

FIXTURE(setup)
{
    t_folder_create();
    return 0;
}

FIXTURE(teardown)
{
    t_folder_remove();
    return 0;
}

static void expect_text(const char *text, int status, const char *out, const char *err)
{
    const char *path = t_path("record.json");
    t_write(path, text, strlen(text));
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", path, "--verbose"}}, status, out, err);
}

/* The good file with the n-th `from` replaced. */
static char *changed(const char *from, int nth, const char *to)
{
    const char *at = strstr(good, from);
    for (; nth > 1 && at; nth--)
        at = strstr(at + 1, from);
    assert_non_null(at);
    size_t size = strlen(good) + strlen(to) + 1;
    char *text = malloc(size);
    assert_non_null(text);
    (void)snprintf(text, size, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
    return text;
}

TEST(test_the_good_one)
{
    expect_text(good, 0, "0: kernel first  grid 4x1x1, block 64x1x1  before 1\n", NULL);
    expect_text(
        good, 0,
        "x = 0x7f00, proved: +256 in 512 bytes at 0x7e00 (internal, pool 3.0, generation 7)\n",
        NULL);
    expect_text(good, 0, "1: memset  16 bytes of 0x5  after 0\n", NULL);
}

TEST(test_changed_fields)
{
    static const struct {
        const char *from;
        int nth;
        const char *to, *message;
    } cases[] = {
        {"phonograph.record", 1, "phonograph.snapshot", "format: is \"phonograph.snapshot\""},
        {"\"phonograph.record\"", 1, "7", "record.json: format: is no string"},
        {"\"version\":1", 1, "\"version\":2", "a record of version 2"},
        {"\"version\":1,", 1, "", "version: is missing"},
        {"\"node_count\":2", 1, "\"node_count\":3", "node_count: is 3, but there are 2 nodes"},
        {"\"node_count\":2", 1, "\"node_count\":99999999999", "node_count: is 99999999999"},
        {"\"node_count\":2", 1, "\"node_count\":2.5", "node_count: is no whole number"},
        {"\"edge_count\":1", 1, "\"edge_count\":2", "edge_count: is 2, but there is 1 edge\n"},
        {"\"index\":1", 1, "\"index\":0", "nodes[1].index: is 0"},
        {"\"kind\":\"kernel\"", 1, "\"kind\":\"kernal\"",
         "nodes[0].kind: is \"kernal\", which is no kind of node"},
        {"\"name\":\"first\"", 1, "\"name\":null", "nodes[0].name: is no string"},
        {"[4,1,1]", 1, "[4,1]", "nodes[0].grid: has 2 elements, expected 3"},
        {"[4,1,1]", 1, "[4,1,4294967296]", "nodes[0].grid[2]: is 4294967296"},
        {"[4,1,1]", 1, "[-1,1,1]", "nodes[0].grid[0]: is -1"},
        {"\"dependencies\":[0]", 1, "\"dependencies\":[1]",
         "nodes[1].dependencies[0]: is 1, but a node depends only on nodes before it (this is node "
         "1)\n"},
        {"\"dependencies\":[0]", 1, "\"dependencies\":[5]",
         "nodes[1].dependencies[0]: is 5, but there are 2 nodes\n"},
        {"\"dependencies\":[0]", 1, "\"dependencies\":[-1]",
         "nodes[1].dependencies[0]: is -1, but there are 2 nodes\n"},
        {"\"dependencies\":[0]", 1, "\"dependencies\":[\"0\"]",
         "nodes[1].dependencies[0]: is no whole number\n"},
        {"\"dependencies\":[0]", 1, "\"dependencies\":[0,0]",
         "nodes[1].dependencies[1]: is 0, not above the one before it"},
        {"\"dependencies\":[0]", 1, "\"dependencies\":[]",
         "nodes[0].dependents: disagrees with node 1"},
        {"\"dependents\":[1]", 1, "\"dependents\":[]",
         "nodes[1].dependencies: disagrees with node 0"},
        {"\"dependents\":[1]", 1, "\"dependents\":[0]",
         "nodes[0].dependents[0]: is 0, but only nodes behind a node depend on it (this is node "
         "0)\n"},
        {"\"dst\":\"0x7f00\"", 1, "\"dst\":\"7f00\"", "nodes[1].dst: is \"7f00\""},
        {"\"dst\":\"0x7f00\"", 1, "\"dst\":\"0x11112222333344445\"", "nodes[1].dst: is \"0x1111"},
        {"\"kind\":\"proved\"", 1, "\"kind\":\"sure\"", "nodes[0].words[0].kind: is \"sure\""},
        {"\"internal\":true", 1, "\"internal\":1", "nodes[0].words[0].internal: is neither"},
        {"\"generation\":7", 1, "\"generation\":-7",
         "nodes[0].words[0].allocation.generation: is -7"},
        {"\"pinned\":false", 1, "\"pin\":false", "nodes[0].words[0].allocation.pinned: is missing"},
        {"\"name\":\"first\"", 1, "\"name\":\"first\",\"demangled\":1",
         "nodes[0].demangled: is no string"},
        {"\"pinned\":false", 1, "\"pinned\":false,\"foreign\":0",
         "nodes[0].words[0].allocation.foreign: is neither"},
        {"memset\"", 1, "graph\",\"body\":{}", "record.json: nodes[1].body.format: is missing"},
        {"\"words\":[]", 1, "\"words\":[[]]", "nodes[1].words[0]: is no object"},
        {"\"words\":[]", 1, "\"words\":[],\"body\":{}", "nodes[1].body: belongs to a graph node"},
        {"\"words\":[]", 1, "\"words\":[],\"words\":[]",
         "cannot be read as JSON: duplicate object key"},
        {"\"index\":1", 1, "\"index\":1e999", "line 3, column"},
        {"\"index\":1", 1, "\"index\":99999999999999999999",
         "cannot be read as JSON: too big integer"},
        /* cut between characters: a snowman has three bytes */
        {"\"kind\":\"kernel\"", 1, "\"kind\":\"" SNOW SNOW SNOW "\"",
         "nodes[0].kind: is \"" SNOW SNOW "...\", which is no kind of node\n"},
        {"\"kind\":\"kernel\"", 1, "\"kind\":\"a" SNOW SNOW SNOW "\"",
         "\u2603...\", which is no kind of node\n"},
        {"\"first\"", 1, "\"\xff\"", "line 2, column"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = changed(cases[i].from, cases[i].nth, cases[i].to);
        expect_text(text, 1, NULL, cases[i].message);
        free(text);
    }
}

TEST(test_memory_of_other_code)
{
    char *text = changed("\"pool\":[3,0],\"pinned\":false", 1,
                         "\"pool\":[0,0],\"pinned\":true,\"foreign\":true");
    expect_text(text, 0, "+256 in 512 pinned bytes at 0x7e00 (other code's, buffer 7)", NULL);
    free(text);
}

TEST(test_readable_names)
{
    char *text =
        changed("\"name\":\"first\"", 1, "\"name\":\"_Z1fi\",\"demangled\":\"f(int)\\u001b\"");
    expect_text(text, 0, "0: kernel f(int)\\x1b  grid", NULL);
    expect_text(text, 0, "      name: _Z1fi\n", NULL);
    free(text);
}

/* Names are somebody else's: they must not steer the terminal or end a label. */
TEST(test_hostile_names)
{
    const char *path = t_path("record.json");
    char *text = changed("\"first\"", 1, "\"\\u001b[2J\\n\\\"]; evil\\\\\"");
    expect_text(text, 0, "kernel \\x1b[2J\\x0a\"]; evil\\", NULL);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", path, "--dot"}}, 0,
             "label=\"0:  [2J \\\"]; evil\\\\\"", NULL);
    free(text);
}

/* Not those that only some terminals obey, nor what turns the direction of the line; and DEL, of
 * which DOT's readers know as little. */
TEST(test_names_that_would_not_be_seen)
{
    const char *path = t_path("record.json");
    char *text = changed("\"first\"", 1, "\"a\\u009b2J\\u007f\\u202eb\\u2028\\u00e9\"");
    expect_text(text, 0, "kernel a\\u009b2J\\x7f\\u202eb\\u2028\xc3\xa9  grid", NULL);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", path, "--dot"}}, 0,
             "label=\"0: a 2J  b \xc3\xa9\"", NULL);
    free(text);
    text = changed("\"kind\":\"kernel\"", 1, "\"kind\":\"\\u009b\\u202e\"");
    expect_text(text, 1, NULL, "nodes[0].kind: is \"  \", which is no kind of node\n");
    free(text);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", path, "\x1b[2J\xc2\x9b\xff"}}, 2, NULL,
             "there is '\\x1b[2J\\u009b\\xff' too\n");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "\x1b[2J"}}, 2, NULL,
             "there is no command '\\x1b[2J'\n");
}

static char *nested(size_t depth)
{
    static const char before[] =
        "{\"format\":\"phonograph.record\",\"version\":1,\"node_count\":1,\"edge_count\":0,"
        "\"nodes\":[{"
        "\"index\":0,\"kind\":\"graph\",\"name\":\"graph\",\"dependencies\":[],\"dependents\":[],"
        "\"words\":[],\"body\":";
    static const char inner[] = "{\"format\":\"phonograph.record\",\"version\":1,\"node_count\":0,"
                                "\"edge_count\":0,\"nodes\":[]}";
    size_t size = depth * (sizeof before + 3) + sizeof inner;
    char *text = calloc(1, size);
    assert_non_null(text);
    for (size_t i = 0; i < depth; i++)
        (void)strcat(text, before);
    (void)strcat(text, inner);
    for (size_t i = 0; i < depth; i++)
        (void)strcat(text, "}]}");
    return text;
}

TEST(test_nested_bodies)
{
    const char *path = t_path("record.json");
    char *text = nested(31);
    expect_text(text, 0, "0 nodes, 0 edges", NULL);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", path, "--dot"}}, 0, "label=\"body of 0\"",
             NULL);
    free(text);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "diff", path, path}}, 0, "1 of 1", NULL);
    text = nested(32);
    expect_text(text, 1, NULL,
                "record.json: nodes[0].body.nodes[0].body.nodes[0] ... "
                "nodes[0].body.nodes[0].body.nodes[0].body.nodes[0].body: bodies are nested deeper "
                "than 31");
    free(text);
    text = nested(1000);
    expect_text(text, 1, NULL, "record.json");
    free(text);
}

/* What one command refuses, all refuse, and with the same words. */
TEST(test_all_commands_read_alike)
{
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"\"offset\":0", "\"offset\":99999",
         "nodes[0].words[0].offset: is 99999, but there are 8 bytes of parameters\n"},
        {"\"args_size\":8", "\"args_size\":1099511627776",
         "nodes[0].args_size: is 1099511627776, expected 0 to 1048576\n"},
        {"\"args\":\"0000000000000000\"", "\"args\":\"00000000zz000000\"",
         "nodes[0].args: is no hexadecimal number from character 8 on\n"},
        {"\"args\":\"0000000000000000\"", "\"args\":\"00\"",
         "nodes[0].args: has 2 digits, but there are 8 bytes of parameters, two digits each\n"},
        {"\"value_size\":4", "\"value_size\":3", "nodes[1].value_size: is 3, expected 1, 2 or 4\n"},
        {"\"words\":[]", "\"words\":[],\"profile\":{\"start_ns\":-5}",
         "nodes[1].profile.start_ns: is -5"},
        {"\"nodes\"", "\"profile\":{\"critical_path\":[0,2]},\"nodes\"",
         "profile.critical_path[1]: is 2, but there are 2 nodes\n"},
        {"\"nodes\"", "\"profile\":{\"critical_path\":[1,0]},\"nodes\"",
         "profile.critical_path[1]: is 0, not above the one before it\n"},
        {"\"nodes\"", "\"blocks\":[{\"base\":\"0x\"}],\"nodes\"",
         "blocks[0].base: is \"0x\", expected an address"},
        {"\"name\":\"x\",\"offset\":0,", "\"name\":\"x\",\"offset\":8,",
         "words[0].offset: is 8, but there are 8"},
    };
    const char *path = t_path("record.json");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = changed(cases[i].from, 1, cases[i].to);
        expect_text(text, 1, NULL, cases[i].message);
        free(text);
        t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", path, "--dot"}}, 1, NULL,
                 cases[i].message);
        t_expect(&(t_command){.argv = {PHONOGRAPH, "diff", path, path}}, 2, NULL, cases[i].message);
        t_result r = t_run(&(t_command){.argv = {PHONOGRAPH, "view", path, "-o", "-"}});
        assert_int_equal(r.status, 1);
        assert_true(strstr(r.err, cases[i].message) || strstr(r.err, "node-d3"));
        t_result_free(&r);
    }
}

TEST(test_no_json)
{
    expect_text("", 1, NULL, "record.json: empty\n");
    expect_text("[]", 1, NULL, "record.json is no phonograph record: it is no object\n");
    expect_text("nonsense", 1, NULL, "line 1, column");
    expect_text("{\"format\":\"phonograph.record\"", 1, NULL, "truncated: ");
    expect_text("\xef\xbb\xbf{}", 1, NULL,
                "record.json: begins with a byte order mark, which JSON has not; save it as UTF-8 "
                "without one\n");
    expect_text("\xff\xfe{", 1, NULL, "begins with a byte order mark");
    expect_text(
        "{\"traceEvents\":[]}", 1, NULL,
        "record.json is no phonograph record: it looks like ph_profile_dump_trace's, a trace for "
        "Perfetto; this "
        "command wants ph_profile_dump_record's\n");
    expect_text("{}", 1, NULL, "record.json is no phonograph record: it has no \"format\"\n");
    char *deep = malloc(100001);
    assert_non_null(deep);
    memset(deep, '[', 100000);
    deep[100000] = '\0';
    expect_text(deep, 1, NULL, "cannot be read as JSON: maximum parsing depth");
    free(deep);
}

TEST(test_standard_input)
{
    const char *path = t_path("record.json");
    t_command dump = {.argv = {PHONOGRAPH, "dump", "-"}, .input = path};
    static const struct {
        const char *text;
        int status;
        const char *out, *err;
    } cases[] = {
        {good, 0, "2 nodes, 1 edge\n", NULL},
        {"", 1, NULL, "phonograph: standard input: empty\n"},
        {"{}", 1, NULL,
         "phonograph: standard input is no phonograph record: it has no \"format\"\n"},
        {"{\"format\":7}", 1, NULL, "phonograph: standard input: format: is no string\n"},
        {"nonsense", 1, NULL, "phonograph: standard input, line 1, column"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        t_write(path, cases[i].text, strlen(cases[i].text));
        t_expect(&dump, cases[i].status, cases[i].out, cases[i].err);
    }
}

TEST(test_no_file)
{
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", t_path("missing.json")}}, 1, NULL,
             "No such file or directory");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", t_path("")}}, 1, NULL, "Is a directory");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", "/dev/zero"}}, 1, NULL,
             "/dev/zero, line 1, column 1: cannot be read as JSON: a zero byte");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_good_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_changed_fields, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_of_other_code, setup, teardown),
        cmocka_unit_test_setup_teardown(test_readable_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_that_would_not_be_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nested_bodies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_commands_read_alike, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_json, setup, teardown),
        cmocka_unit_test_setup_teardown(test_standard_input, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_file, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
