/* SPDX-License-Identifier: MIT */
/* tests/cli/view.c: `phonograph view` as a command: arguments, errors, what is written and when
 * nothing is. The page itself is looked at in a browser (tests/cli/view/). */
#include "support/command.h"
#include "support/support.h"
#include "support/test.h"
#include <phonograph/annotation.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PHONOGRAPH T_PROGRAM("phonograph")

/* Two annotated nodes with times, one edge; the tests change one place each. */
static const char good[] =
    "{\"format\":\"phonograph.record\",\"version\":1,\"node_count\":2,\"edge_count\":1,\n"
    "\"profile\":{\"source\":\"device\",\"replays\":10,\"lane_count\":1,\"replay_ns\":900,\"busy_"
    "ns\":900,"
    "\"idle_ns\":0,"
    "\"work_ns\":900,\"critical_ns\":900},\"nodes\":[\n"
    "{\"index\":0,\"kind\":\"kernel\",\"name\":\"first</"
    "script>\",\"grid\":[4,1,1],\"block\":[64,1,1],\"shared_bytes\":0,"
    "\"args_size\":8,\"args\":\"0000000000000000\",\"dependencies\":[],\"dependents\":[1],"
    "\"words\":[{"
    "\"name\":\"x\",\"offset\":0,"
    "\"kind\":\"proved\",\"value\":\"0x7f00\",\"internal\":true,\"allocation\":{\"base\":"
    "\"0x7e00\","
    "\"bytes\":512,\"offset\":256,"
    "\"generation\":7,\"pool\":[3,0],\"pinned\":false}}],\"annotation\":{\"name\":\"outer\","
    "\"layer\":3},"
    "\"profile\":{\"start_ns\":0,\"run_ns\":500,\"median_ns\":500,\"least_ns\":400,\"most_ns\":600,"
    "\"lane\":"
    "0,\"critical\":true,"
    "\"slack_ns\":0}},\n"
    "{\"index\":1,\"kind\":\"memset\",\"name\":\"memset\",\"dst\":\"0x7f00\",\"value\":5,\"value_"
    "size\":4,"
    "\"bytes\":16,"
    "\"dependencies\":[0],\"dependents\":[],\"words\":[]}]}\n";

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

/* The good file with the n-th `from` replaced, as record.json. */
static const char *write_changed(const char *from, int nth, const char *to)
{
    const char *at = strstr(good, from), *path = t_path("record.json");
    for (; nth > 1 && at; nth--)
        at = strstr(at + 1, from);
    assert_non_null(at);
    char text[4096];
    (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
    t_write(path, text, strlen(text));
    return path;
}

static const char *write_good(void)
{
    return write_changed("outer", 1, "outer");
}

/* A build without D3 says so, and everything else is then not tested. */
static bool can_view(void)
{
    t_result r =
        t_run(&(t_command){.argv = {PHONOGRAPH, "view", write_good(), "-o", t_path("asked.html")}});
    bool can = strstr(r.err, "node-d3") == NULL;
    if (!can) {
        assert_int_equal(r.status, 1);
        assert_int_equal(t_count_files(), 1);
        print_message("skipped: this build has no D3: nothing is written by phonograph view\n");
    }
    t_result_free(&r);
    (void)unlink(t_path("asked.html"));
    return can;
}

static char *data_of(const char *page)
{
    static const char begin[] = "<script type=\"application/json\" id=\"data\">",
                      end[] = "</script>";
    const char *from = strstr(page, begin);
    assert_non_null(from);
    const char *to = strstr(from + sizeof begin, end);
    assert_non_null(to);
    return strndup(from + sizeof begin - 1, (size_t)(to - from) - sizeof begin + 1);
}

TEST(wrong_arguments_are_refused)
{
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view"}}, 2, NULL, "view: which file?");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", "a.json", "b.json"}}, 2, NULL,
             "there is 'b.json' too");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", "a.json", "--fast"}}, 2, NULL,
             "view: unknown option '--fast'");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", "a.json", "-o"}}, 2, NULL,
             "view: -o wants a file");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", "-"}}, 2, NULL,
             "standard input has no name to make one from");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", "--help"}}, 0, "view FILE [-o FILE.html]",
             NULL);
}

TEST(test_the_page)
{
    if (!can_view())
        return;
    const char *record = write_good();
    char expected[256];
    (void)snprintf(expected, sizeof expected, "%s\n", t_path("record.html"));
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record}}, 0, expected, NULL);
    char *page = t_read_file(t_path("record.html"), NULL), *data = data_of(page);
    assert_ptr_equal(strstr(page, "<!doctype html>"), page);
    assert_non_null(strstr(page, "default-src 'none'; script-src 'sha256-"));
    assert_non_null(strstr(page, "Mike Bostock"));
    assert_null(strstr(page, "src=\"http"));
    assert_null(strstr(page, "@SCRIPT"));
    /* Nothing in the data can end it. */
    assert_null(strpbrk(data, "<>&"));
    assert_non_null(strstr(data, "\"first\\u003c/script\\u003e\""));
    assert_non_null(strstr(data, "[[\"name\",\"outer\"],[\"layer\",3]]"));
    assert_non_null(strstr(data, "\"labels\":[\"outer, layer=3\",\"not annotated\"],\"of\":[0,1]"));
    assert_non_null(strstr(data, "\"t\":[0,500,400,600,0,0,1,500]"));
    assert_non_null(strstr(data, "\"0x7e00\",512,7,\"3.0\",0,0]"));
    free(data);
    free(page);
    /* Memory of other code's is told as such. */
    record = write_changed("\"pool\":[3,0],\"pinned\":false", 1,
                           "\"pool\":[0,0],\"pinned\":false,\"foreign\":true");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record}}, 0, expected, NULL);
    page = t_read_file(t_path("record.html"), NULL);
    data = data_of(page);
    assert_non_null(strstr(data, "\"0x7e00\",512,7,\"0.0\",0,1]"));
    assert_non_null(strstr(page, "other code's memory"));
    free(data);
    free(page);
}

/* What a library added by itself is a group of its own, called by its reason. */
TEST(reasons_of_nodes_are_on_the_page)
{
    if (!can_view())
        return;
    const char *record =
        write_changed("\"name\":\"memset\"", 1, "\"name\":\"memset\",\"made_for\":\"clear of x\"");
    t_result r = t_run(&(t_command){.argv = {PHONOGRAPH, "view", record, "-o", "-"}});
    assert_int_equal(r.status, 0);
    char *data = data_of(r.out);
    assert_non_null(strstr(data, "\"labels\":[\"outer, layer=3\",\"clear of x\"],\"of\":[0,1]"));
    free(data);
    t_result_free(&r);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", record, "--verbose"}}, 0,
             "made for: clear of x", NULL);
    record = write_changed("\"name\":\"memset\"", 1, "\"name\":\"memset\",\"made_for\":7");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record}}, 1, NULL,
             "nodes[1].made_for: is no string");
}

/* Where and when it was made: on the page and in the text, and nothing that differs. */
TEST(origins_are_shown_and_not_compared)
{
    if (!can_view())
        return;
    const char *record =
        write_changed("\"nodes\":[", 1,
                      "\"origin\":{\"program\":\"train<b>\",\"graph\":\"graph "
                      "7\",\"date\":\"2026-01-02T03:04:05Z\","
                      "\"device\":\"cuda:0\",\"driver_version\":\"13.0\"},\"nodes\":[");
    t_result r = t_run(&(t_command){.argv = {PHONOGRAPH, "view", record, "-o", "-"}});
    assert_int_equal(r.status, 0);
    char *data = data_of(r.out);
    assert_non_null(strstr(data,
                           "\"origin\":{\"program\":\"train\\u003cb\\u003e\",\"graph\":\"graph 7\","
                           "\"date\":\"2026-01-02T03:04:05Z\",\"device\":\"cuda:0\","));
    free(data);
    t_result_free(&r);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", record, "--verbose"}}, 0,
             "graph: graph 7\ndate: 2026-01-02T03:04:05Z\ndevice: cuda:0\ndriver version: 13.0\n",
             NULL);
    const char *plain = t_path("plain.json");
    t_write(plain, good, strlen(good));
    t_expect(&(t_command){.argv = {PHONOGRAPH, "diff", plain, record}}, 0, "2 nodes are alike",
             NULL);
    record = write_changed("\"nodes\":[", 1, "\"verdict\":{\"worth\":true},\"nodes\":[");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record}}, 1, NULL,
             "verdict.sentence: is missing");
    record = write_changed("\"nodes\":[", 1,
                           "\"verdict\":{\"worth\":true,\"sentence\":\"good\"},\"nodes\":[");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", record, "--verbose"}}, 0, "verdict: good\n",
             NULL);
    record = write_changed("\"nodes\":[", 1,
                           "\"races\":{\"certain\":1,\"possible\":0,\"found\":1,\"list\":[{"
                           "\"certain\":true,\"first\":0,\"second\":1,\"text\":\"a race: here\"}]},"
                           "\"nodes\":[");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", record}}, 0,
             "a race: here\nraces: 1 certain, 0 possible\n", NULL);
    record =
        write_changed("\"nodes\":[", 1,
                      "\"races\":{\"certain\":1,\"possible\":0,\"found\":1,\"list\":[{"
                      "\"certain\":true,\"first\":0,\"second\":2,\"text\":\"\"}]},\"nodes\":[");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record}}, 1, NULL,
             "races.list[0].second: is 2");
    record = write_changed("\"nodes\":[", 1, "\"origin\":{\"date\":7},\"nodes\":[");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record}}, 1, NULL,
             "origin.date: is no string");
    record = write_changed("\"nodes\":[", 1, "\"origin\":7,\"nodes\":[");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record}}, 1, NULL, "origin: is no object");
}

/* Names are told as the other commands tell them: what would not be seen is written out. */
TEST(test_names_that_would_not_be_seen)
{
    if (!can_view())
        return;
    const char *record = write_changed("outer", 1, "\\u001b\\u009b\\u202egnp.exe\\u2029\\u00e9");
    t_result r = t_run(&(t_command){.argv = {PHONOGRAPH, "view", record, "-o", "-"}});
    assert_int_equal(r.status, 0);
    char *data = data_of(r.out);
    assert_non_null(strstr(data, "\\u005cx1b\\u005cu009b\\u005cu202egnp.exe\\u005cu2029\xc3\xa9"));
    for (const char *at = data; *at; at++)
        assert_true(*at == '\n' || ((unsigned char)*at >= ' ' && *at != 0x7f));
    assert_null(strstr(data, "\xc2\x9b"));
    assert_null(strstr(data, "\xe2\x80"));
    free(data);
    t_result_free(&r);
}

TEST(test_where_it_goes)
{
    if (!can_view())
        return;
    const char *record = write_good(), *page = t_path("page.html");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record, "-o", page}}, 0, "", NULL);
    char *in_file = t_read_file(page, NULL);
    t_result r =
        t_run(&(t_command){.argv = {PHONOGRAPH, "view", "-", "--output", "-"}, .input = record});
    assert_int_equal(r.status, 0);
    char *from_file = data_of(in_file), *from_pipe = data_of(r.out);
    assert_non_null(strstr(from_file, "{\"file\":\"record.json\""));
    assert_non_null(strstr(from_pipe, "{\"file\":\"standard input\""));
    assert_string_equal(strchr(from_file, ','), strchr(from_pipe, ','));
    free(from_file);
    free(from_pipe);
    free(in_file);
    t_result_free(&r);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record, "-o", "-"}, .output = "/dev/full"},
             1, NULL, "No space left on device");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record, "-o", "/dev/full"}}, 1, NULL,
             "No space left on device");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record, "-o", "/dev/null"}}, 0, "", NULL);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record, "-o", t_path("none/page.html")}}, 1,
             NULL, "No such file or directory");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record, "-o", t_path("")}}, 1, NULL,
             "Is a directory");
    assert_int_equal(t_count_files(), 2);
}

/* A disk that is full in the middle: the file that was there stays, with its rights, and nothing
 * is left beside it. */
TEST(test_all_or_nothing)
{
    if (!can_view())
        return;
    const char *record = write_good(), *page = t_path("page.html");
    t_write(page, "what was there", 14);
    assert_int_equal(chmod(page, 0640), 0);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record, "-o", page}, .file_limit = 8192}, 1,
             NULL, "File too large");
    t_expect(
        &(t_command){.argv = {PHONOGRAPH, "view", write_changed("900}", 1, "-1}"), "-o", page}}, 1,
        NULL, "profile.critical_ns: is -1");
    char *text = t_read_file(page, NULL);
    assert_string_equal(text, "what was there");
    free(text);
    assert_int_equal(t_count_files(), 2);

    /* Through a link it is the file that is replaced, and the link stays. */
    const char *link = t_path("link.html");
    struct stat at;
    assert_int_equal(symlink(page, link), 0);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", write_good(), "-o", link}}, 0, "", NULL);
    assert_int_equal(lstat(link, &at), 0);
    assert_true(S_ISLNK(at.st_mode));
    assert_int_equal(stat(page, &at), 0);
    assert_int_equal(at.st_mode & 0777, 0640);
    assert_true(at.st_size > 100000);

    /* So it is where there is no file yet. */
    assert_int_equal(unlink(page), 0);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", write_good(), "-o", link}}, 0, "", NULL);
    assert_int_equal(lstat(link, &at), 0);
    assert_true(S_ISLNK(at.st_mode));
    assert_int_equal(stat(page, &at), 0);
    assert_true(at.st_size > 100000);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("loop.html", t_path("loop.html")), 0);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", write_good(), "-o", t_path("loop.html")}}, 1,
             NULL, "Too many levels of symbolic links");
    assert_int_equal(lstat(t_path("loop.html"), &at), 0);
    assert_true(S_ISLNK(at.st_mode));
    assert_int_equal(unlink(t_path("loop.html")), 0);
}

static char *path_copy(const char *name)
{
    char *copy = strdup(t_path(name));
    assert_non_null(copy);
    return copy;
}

/* By its own name, by another one, and as standard input: the record stays what it is. */
TEST(test_the_record_is_not_overwritten)
{
    if (!can_view())
        return;
    char *record = path_copy("record.json"), *soft = path_copy("soft.html"),
         *hard = path_copy("hard.html");
    char message[700];
    (void)write_good();
    assert_int_equal(symlink(record, soft), 0);
    assert_int_equal(link(record, hard), 0);
    (void)snprintf(
        message, sizeof message,
        "phonograph: view: -o names the record itself (%s); give another name, such as %s\n",
        record, t_path("record.html"));
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record, "-o", record}}, 2, NULL, message);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record, "-o", soft}}, 2, NULL, message);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record, "-o", hard}}, 2, NULL, message);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", soft, "-o", record}}, 2, NULL,
             "names the record itself");
    t_expect(
        &(t_command){.argv = {PHONOGRAPH, "view", "-", "-o", record}, .input = record}, 2, NULL,
        "-o names the record itself (standard input); give another name, such as graph.html\n");
    char *beside = path_copy("record.html");
    assert_int_equal(symlink(record, beside), 0); /* the name that the command would make */
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record}}, 2, NULL,
             "record.html names the record itself");
    char *text = t_read_file(record, NULL);
    assert_string_equal(text, good);
    free(text);
    free(beside);
    free(record);
    free(soft);
    free(hard);
}

/* A page of ours is replaced; what else has the name that nobody gave is not. */
TEST(test_files_of_others_stay)
{
    if (!can_view())
        return;
    char *record = path_copy("record.json"), *page = path_copy("record.html");
    (void)write_good();
    t_write(page, "<!doctype html>mine", 19);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record}}, 1, NULL,
             "record.html: is there already, and is no page that phonograph wrote; it stays as it "
             "is: -o ");
    char *text = t_read_file(page, NULL);
    assert_string_equal(text, "<!doctype html>mine");
    free(text);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record, "-o", page}}, 0, "", NULL);
    (void)write_changed("\"layer\":3", 1, "\"layer\":44");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", record}}, 0, "record.html\n", NULL);
    text = t_read_file(page, NULL);
    assert_non_null(strstr(text, "[\"layer\",44]"));
    free(text);
    free(page);
    free(record);
}

TEST(test_what_is_no_record)
{
    if (!can_view())
        return;
    static const struct {
        const char *from;
        int nth;
        const char *to, *message;
    } cases[] = {
        {"\"version\":1", 1, "\"version\":2", "a record of version 2"},
        {"\"nodes\":[", 1, "\"nodes\":7,\"x\":[", "nodes: is no array"},
        {"{\"source\"", 1, "7,\"x\":{\"source\"", "profile: is no object"},
        {"\"device\"", 1, "7", "profile.source: is no string"},
        {"\"replay_ns\":900", 1, "\"replay_ns\":9007199254740992",
         "profile.replay_ns: is 9007199254740992"},
        {"\"replay_ns\":900", 1, "\"replay_ns\":1e3", "profile.replay_ns: is no whole number"},
        {"{\"start_ns\"", 1, "[],\"x\":{\"start_ns\"", "nodes[0].profile: is no object"},
        {"\"start_ns\":0,", 1, "", "nodes[0].profile.start_ns: is missing"},
        {"\"lane\":0", 1, "\"lane\":4294967296", "nodes[0].profile.lane: is 4294967296"},
        {"\"critical\":true", 1, "\"critical\":1", "nodes[0].profile.critical: is neither"},
        {"{\"name\":\"outer\"", 1, "7,\"x\":{\"name\":\"outer\"",
         "nodes[0].annotation: is no object"},
        {"\"layer\":3", 1, "\"layer\":[3]", "nodes[0].annotation: \"layer\" is neither"},
        {"\"profile\":{", 1, "\"blocks\":{},\"profile\":{", "blocks: is no array"},
        {"\"profile\":{", 1, "\"blocks\":[7],\"profile\":{", "blocks[0]: is no object"},
        {"\"profile\":{", 1, "\"blocks\":[{\"base\":7}],\"profile\":{",
         "blocks[0].base: is no string"},
        {"\"profile\":{", 1, "\"blocks\":[{\"base\":\"0x7\",\"bytes\":-1}],\"profile\":{",
         "blocks[0].bytes: is -1"},
        {"\"bytes\":16", 1, "\"bytes\":16.5", "nodes[1].bytes: is no whole number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        t_expect(&(t_command){.argv = {PHONOGRAPH, "view",
                                       write_changed(cases[i].from, cases[i].nth, cases[i].to)}},
                 1, NULL, cases[i].message);
    const char *path = t_path("record.json");
    for (size_t length = 0; length < sizeof good - 2; length += 37) { /* cut anywhere */
        t_write(path, good, length);
        t_expect(&(t_command){.argv = {PHONOGRAPH, "view", path}}, 1, NULL,
                 length ? "truncated" : "empty");
    }
    char *deep = malloc(200000);
    assert_non_null(deep);
    memset(deep, '[', 200000);
    t_write(path, deep, 200000);
    free(deep);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", path}}, 1, NULL, "maximum parsing depth");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", "/dev/zero", "-o", t_path("zero.html")}}, 1,
             NULL, "a zero byte");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", t_path("missing.json")}}, 1, NULL,
             "No such file or directory");
    assert_int_equal(t_count_files(), 1);
}

/* The groups of a grouping, taken as nodes, form no cycle: a, b, a are three groups, and so are
 * a, b, a beside each other as far as one needs the other. */
TEST(test_groups_form_no_cycle)
{
    if (!can_view())
        return;
    static const char *const names[] = {"a", "b", "a", "b", "a"};
    static const char *const dependencies[] = {"", "0", "", "1", "3"}, *const dependents[] = {
                                                                           "1", "3", "", "4", ""};
    char text[4096] = "{\"format\":\"phonograph.record\",\"version\":1,\"node_count\":5,\"edge_"
                      "count\":3,\"nodes\":[";
    for (size_t i = 0; i < 5; i++) {
        size_t used = strlen(text);
        (void)snprintf(
            text + used, sizeof text - used,
            "%s{\"index\":%zu,\"kind\":\"empty\",\"name\":\"empty\",\"dependencies\":[%s],"
            "\"dependents\":[%s],\"words\":[],"
            "\"annotation\":{\"name\":\"%s\"}}",
            i ? "," : "", i, dependencies[i], dependents[i], names[i]);
    }
    (void)strcat(text, "]}");
    t_write(t_path("groups.json"), text, strlen(text));
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", t_path("groups.json"), "-o", "-"}}, 0,
             "\"labels\":[\"a\",\"b\",\"a\"],\"of\":[0,1,0,1,2]", NULL);
}

/* ---- a graph that the library captured ---- */

struct world {
    t_world base;
    ph_graph *graph;
    int32_t *x;
};

static ph_status body(ph_stream *stream, void *user)
{
    struct world *w = user;
    int32_t *own;
    PH_TRY(ph_annotation_push(stream, "prepare", NULL));
    PH_TRY(PH_NEW(&own, 1024, stream));
    PH_TRY(ph_memset(own, 0, 1024 * sizeof *own, stream));
    PH_TRY(t_add(&w->base, stream, own, own, 1024, 5));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(ph_memcpy(w->x, own, 1024 * sizeof *own, stream));
    ph_free(own, stream);
    return PH_OK;
}

TEST(test_a_captured_graph)
{
    if (!can_view())
        return;
    struct world w = {.graph = NULL};
    const ph_record *record;
    t_open(&w.base, NULL);
    assert_ok(PH_NEW(&w.x, 1024, w.base.stream));
    assert_ok(ph_graph_create(&w.graph, NULL));
    ph_capture_options options = {.enable_annotations = true};
    assert_ok(ph_graph_capture(w.graph, w.base.stream, &options, body, &w));
    assert_ok(ph_graph_record(&record, w.graph));
    assert_ok(ph_record_dump(record, t_path("captured.json")));
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", t_path("captured.json")}}, 0,
             "captured.html", NULL);
    char *page = t_read_file(t_path("captured.html"), NULL), *data = data_of(page);
    assert_non_null(strstr(data, "\"outer\":3,\"edges\":2"));
    assert_non_null(strstr(data, "\"labels\":[\"prepare\",\"not annotated\"],\"of\":[0,0,1]"));
    char *blocks = strstr(data, "\"blocks\":[[\"0x"), *end = blocks ? strchr(blocks, ']') : NULL;
    assert_non_null(end); /* freed in the capture: of the word there is the address alone */
    assert_memory_equal(end - 5, ",4096", 5);
    free(data);
    free(page);
    ph_graph_destroy(w.graph);
    ph_free(w.x, w.base.stream);
    t_close(&w.base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test_setup_teardown(test_the_page, setup, teardown),
        cmocka_unit_test_setup_teardown(reasons_of_nodes_are_on_the_page, setup, teardown),
        cmocka_unit_test_setup_teardown(origins_are_shown_and_not_compared, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_that_would_not_be_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_where_it_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_or_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_record_is_not_overwritten, setup, teardown),
        cmocka_unit_test_setup_teardown(test_files_of_others_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_no_record, setup, teardown),
        cmocka_unit_test_setup_teardown(test_groups_form_no_cycle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_captured_graph, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
