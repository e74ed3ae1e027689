/* SPDX-License-Identifier: MIT */
/* tests/inspect/profile_trace.c: the trace for Perfetto, and the record with its times. */
#include "inspect/profile/make.h"
#include "inspect/profile/profile.h"
#include "profiled.h"
#include "support/test.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static profiled p;
static char folder[] = "/tmp/phonograph-trace-XXXXXX";

FIXTURE(open_it)
{
    profiled_open(&p);
    return 0;
}

FIXTURE(close_it)
{
    profiled_close(&p);
    return 0;
}

static const char *path_of(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static ph_status marked(ph_stream *stream, const char *name, int64_t layer, size_t spins,
                        const profiled *q)
{
    const ph_annotation_pair pair = {
        .key = "layer", .type = PH_ANNOTATION_INTEGER, .integer = layer};
    const ph_annotation_options options = {.pairs = &pair, .count = 1};
    PH_TRY(ph_annotation_push(stream, name, &options));
    ph_status status = PH_OK;
    for (size_t i = 0; i < spins && status == PH_OK; i++)
        status = profiled_spin(q, stream, SHORT_NS, i);
    PH_TRY(ph_annotation_pop(stream));
    return status;
}

/* One node without, then "a\"b" with two layers of two nodes each, then another name. */
static ph_status annotated(ph_stream *stream, void *user)
{
    PH_TRY(profiled_spin(user, stream, SHORT_NS, 9));
    PH_TRY(marked(stream, "a\"b\n\xff", 0, 2, user));
    PH_TRY(marked(stream, "a\"b\n\xff", 1, 2, user));
    return marked(stream, "second", 1, 1, user);
}

static ph_profile *profile_annotated(void)
{
    ph_profile *profile;
    const ph_capture_options options = {.enable_annotations = true};
    assert_ok(ph_graph_capture(p.graph, p.a, &options, annotated, &p));
    assert_ok(ph_graph_profile(&profile, p.graph, p.a, NULL));
    return profile;
}

static json_t *parse(const char *text)
{
    json_error_t error;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!json)
        print_error("line %d: %s\n", error.line, error.text);
    assert_non_null(json);
    return json;
}

static const char *string_of(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    assert_non_null(value);
    return value;
}

static json_int_t integer_of(const json_t *object, const char *key)
{
    assert_true(json_is_integer(json_object_get(object, key)));
    return json_integer_value(json_object_get(object, key));
}

/* Microseconds, as nanoseconds. */
static uint64_t time_of(const json_t *object, const char *key)
{
    assert_true(json_is_real(json_object_get(object, key)));
    return (uint64_t)(json_real_value(json_object_get(object, key)) * 1000 + 0.5);
}

/* ---- the trace ---- */

typedef struct slice {
    const json_t *event;
    uint64_t start, end;
    json_int_t row;
} slice;

static size_t slices_of(slice *out, size_t room, const json_t *trace, bool annotations)
{
    size_t count = 0, index;
    json_t *event;
    json_array_foreach(json_object_get(trace, "traceEvents"), index, event)
    {
        if (strcmp(string_of(event, "ph"), "X") != 0 ||
            (strcmp(string_of(event, "cat"), "annotation") == 0) != annotations)
            continue;
        assert_true(count < room);
        uint64_t start = time_of(event, "ts");
        out[count++] =
            (slice){event, start, start + time_of(event, "dur"), integer_of(event, "tid")};
    }
    return count;
}

TEST(each_node_stands_once)
{
    char *text;
    slice nodes[16];
    bool seen[6] = {false};
    ph_profile *profile = profile_annotated();
    assert_ok(ph_profile_trace(&text, profile));
    json_t *trace = parse(text);
    ph_string_free(text);
    assert_int_equal(slices_of(nodes, 16, trace, false), 6);
    for (size_t i = 0; i < 6; i++) {
        const json_t *args = json_object_get(nodes[i].event, "args");
        size_t n = (size_t)integer_of(args, "node");
        assert_true(n < 6 && !seen[n]);
        seen[n] = true;
        ph_profile_node node = profiled_node(profile, n);
        assert_int_equal(nodes[i].start, node.start_ns);
        assert_int_equal(time_of(args, "median_us"), node.median_ns);
        assert_int_equal(time_of(args, "slack_us"), node.slack_ns);
        assert_int_equal(json_is_true(json_object_get(args, "critical")), node.critical);
        assert_string_equal(string_of(nodes[i].event, "name"), "spin");
        assert_string_equal(string_of(nodes[i].event, "cat"), "kernel");
        const json_t *annotation = json_object_get(args, "annotation");
        assert_int_equal(annotation != NULL, n > 0);
        if (n == 5)
            assert_string_equal(string_of(annotation, "name"), "second");
        if (n > 0)
            assert_int_equal(integer_of(annotation, "layer"), n > 2);
    }
    json_decref(trace);
    ph_profile_destroy(profile);
}

/* Two slices of one row are apart, or one contains the other: else viewers draw them wrong. Each
 * row has a name, of its own. */
static void check_rows(const ph_profile *profile)
{
    enum {
        ROOM = 64
    };
    char *text;
    slice all[ROOM];
    assert_ok(ph_profile_trace(&text, profile));
    json_t *trace = parse(text);
    ph_string_free(text);
    size_t count = slices_of(all, ROOM, trace, false), named = 0, index;
    count += slices_of(all + count, ROOM - count, trace, true);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++) {
            const slice *a = &all[i], *b = &all[j];
            bool apart = a->end <= b->start || b->end <= a->start;
            bool inside = (a->start <= b->start && b->end <= a->end) ||
                          (b->start <= a->start && a->end <= b->end);
            assert_true(a->row != b->row || apart || inside);
        }
    json_t *event;
    json_array_foreach(json_object_get(trace, "traceEvents"), index, event)
    {
        if (strcmp(string_of(event, "ph"), "M") != 0 ||
            strcmp(string_of(event, "name"), "thread_name") != 0)
            continue;
        char name[64];
        json_int_t row = integer_of(event, "tid");
        (void)snprintf(name, sizeof name, "%slane %d", row % 2 ? "annotations of " : "",
                       (int)(row - 1) / 2);
        assert_string_equal(string_of(json_object_get(event, "args"), "name"), name);
        named++;
        bool used = false;
        for (size_t i = 0; i < count; i++)
            used = used || all[i].row == row;
        assert_true(used);
    }
    assert_true(named >= profiled_summary(profile).lane_count);
    json_decref(trace);
}

TEST(rows_of_a_trace_nest_as_scopes_do)
{
    ph_profile *profile = profile_annotated();
    check_rows(profile);
    ph_profile_destroy(profile);
}

/* Annotations of nodes that overlap stand in rows of their own. */
TEST(lanes_have_rows)
{
    const ph_record *record;
    ph_profile *profile;
    ph__profile_time at[] = {{100, 400}, {150, 250}, {160, 270},
                             {250, 500}, {300, 310}, {410, 450}};
    const ph__profile_times times = {.replays = 1, .nodes = 6, .at = at};
    const ph_capture_options options = {.enable_annotations = true};
    assert_ok(ph_graph_capture(p.graph, p.a, &options, annotated, &p));
    assert_ok(ph_graph_record(&record, p.graph));
    assert_ok(ph__profile_make(&profile, record, &times, PH_PROFILE_DEVICE, "test"));
    assert_int_equal(profiled_summary(profile).lane_count, 3);
    check_rows(profile);
    ph_profile_destroy(profile);
}

static ph_status on_lanes(ph_stream *stream, void *user)
{
    const ph_annotation_options lane = {.lane = true};
    PH_TRY(ph_annotation_push(stream, "main", &lane));
    ph_status status = profiled_spin(user, stream, SHORT_NS, 0);
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(status);
    PH_TRY(ph_event_record(p.fork, stream));
    PH_TRY(ph_stream_wait_event(p.b, p.fork));
    PH_TRY(ph_annotation_push(p.b, "side", &lane));
    status = profiled_spin(user, p.b, SHORT_NS, 1);
    PH_TRY(ph_annotation_pop(p.b));
    PH_TRY(status);
    PH_TRY(ph_event_record(p.join, p.b));
    PH_TRY(ph_stream_wait_event(stream, p.join));
    return profiled_spin(user, stream, SHORT_NS, 2);
}

/* Nodes whose marks have a lane stand in the row of that stream, whether or not they overlap. */
TEST(streams_that_were_marked)
{
    char *text, name[64];
    uint32_t a, b;
    ph_profile *profile;
    const ph_capture_options options = {.enable_annotations = true};
    assert_ok(ph_stream_lane(&a, p.a));
    assert_ok(ph_stream_lane(&b, p.b));
    assert_ok(ph_graph_capture(p.graph, p.a, &options, on_lanes, &p));
    assert_ok(ph_graph_profile(&profile, p.graph, p.a, NULL));
    assert_ok(ph_profile_trace(&text, profile));
    json_t *trace = parse(text);
    slice nodes[4];
    assert_int_equal(slices_of(nodes, 4, trace, false), 3);
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(nodes[i].row, nodes[j].row);
    (void)snprintf(name, sizeof name, "\"name\":\"stream %u\"", (unsigned)a);
    assert_non_null(strstr(text, name));
    (void)snprintf(name, sizeof name, "\"name\":\"annotations of stream %u\"", (unsigned)b);
    assert_non_null(strstr(text, name));
    assert_non_null(strstr(text, "\"name\":\"lane 0\""));
    assert_null(strstr(text, "annotations of lane"));
    ph_string_free(text);
    json_decref(trace);
    ph_profile_destroy(profile);
}

/* A slice for each run of neighbours that begin with the same pairs: the outer name, its two
 * layers, and the second name and layer. */
TEST(annotations_are_rows_above)
{
    static const char *const names[] = {"a\"b\n\xef\xbf\xbd", "layer=0", "layer=1", "second",
                                        "layer=1"};
    char *text;
    slice found[8];
    bool used[8] = {false};
    ph_profile *profile = profile_annotated();
    assert_ok(ph_profile_trace(&text, profile));
    json_t *trace = parse(text);
    ph_string_free(text);
    size_t count = slices_of(found, 8, trace, true);
    assert_int_equal(count, 5);
    for (size_t i = 0; i < 5; i++) {
        size_t at = 0;
        /* Newlines become spaces in names; the arguments have the value itself. */
        while (at < count &&
               (used[at] || (i == 0 ? string_of(found[at].event, "name")[0] != 'a'
                                    : strcmp(string_of(found[at].event, "name"), names[i]) != 0)))
            at++;
        assert_true(at < count);
        used[at] = true;
        assert_int_equal(found[at].row, 1);
        if (i == 0) {
            assert_string_equal(string_of(json_object_get(found[at].event, "args"), "name"),
                                names[0]);
            assert_int_equal(found[at].start, profiled_node(profile, 1).start_ns);
        }
    }
    json_decref(trace);
    ph_profile_destroy(profile);
}

static char *read_file(const char *path)
{
    static char text[1 << 16];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    return text;
}

TEST(into_a_file)
{
    char *text;
    ph_profile *profile = profile_annotated();
    assert_ok(ph_profile_trace(&text, profile));
    assert_ok(ph_profile_dump_trace(profile, path_of("trace.json")));
    char *written = read_file(path_of("trace.json"));
    size_t length = strlen(text);
    assert_memory_equal(written, text, length);
    assert_string_equal(written + length, "\n");
    ph_string_free(text);
    assert_error(ph_profile_dump_trace(profile, path_of("missing/trace.json")), PH_ERROR_IO,
                 "ph_profile_dump_trace");
    assert_int_equal(unlink(path_of("trace.json")), 0);
    ph_profile_destroy(profile);
}

/* ---- the record with its times ---- */

TEST(the_record_has_the_times)
{
    ph_profile *profile = profile_annotated();
    assert_ok(ph_graph_node_set_enabled(p.graph, 5, false));
    ph_profile_destroy(profile);
    assert_ok(ph_graph_profile(&profile, p.graph, p.a, NULL));
    assert_ok(ph_profile_dump_record(profile, p.graph, path_of("record.json")));
    json_t *record = parse(read_file(path_of("record.json")));
    assert_int_equal(unlink(path_of("record.json")), 0);
    assert_string_equal(string_of(record, "format"), "phonograph.record");
    ph_profile_summary summary = profiled_summary(profile);
    const json_t *top = json_object_get(record, "profile");
    static const char *const sources[] = {"auto", "device", "cupti", "events"};
    assert_string_equal(string_of(top, "source"), sources[summary.source]);
    assert_int_equal(integer_of(top, "replays"), summary.replays);
    assert_int_equal(integer_of(top, "lane_count"), summary.lane_count);
    assert_int_equal(integer_of(top, "replay_ns"), summary.replay_ns);
    assert_int_equal(integer_of(top, "busy_ns"), summary.busy_ns);
    assert_int_equal(integer_of(top, "idle_ns"), summary.idle_ns);
    assert_int_equal(integer_of(top, "work_ns"), summary.work_ns);
    assert_int_equal(integer_of(top, "critical_ns"), summary.critical_ns);
    assert_int_equal(json_array_size(json_object_get(top, "critical_path")),
                     summary.critical_count);
    for (size_t n = 0; n < 6; n++) {
        const json_t *times =
            json_object_get(json_array_get(json_object_get(record, "nodes"), n), "profile");
        ph_profile_node node = profiled_node(profile, n);
        assert_int_equal(times != NULL, node.measured);
        assert_int_equal(node.measured, n != 5);
        if (!times)
            continue;
        assert_int_equal(integer_of(times, "start_ns"), node.start_ns);
        assert_int_equal(integer_of(times, "median_ns"), node.median_ns);
        assert_int_equal(integer_of(times, "least_ns"), node.least_ns);
        assert_int_equal(integer_of(times, "most_ns"), node.most_ns);
        assert_int_equal(integer_of(times, "lane"), node.lane);
        assert_int_equal(integer_of(times, "slack_ns"), node.slack_ns);
        assert_int_equal(json_is_true(json_object_get(times, "critical")), node.critical);
        assert_true(integer_of(times, "run_ns") >= (json_int_t)node.least_ns);
    }
    json_decref(record);
    ph_profile_destroy(profile);
}

/* The last verdict about the capture, and none about another one. */
TEST(the_record_has_the_verdict)
{
    ph_verdict verdict;
    ph_profile *profile = profile_annotated();
    assert_ok(ph_graph_verdict(&verdict, p.graph, p.a, annotated, &p,
                               &(ph_verdict_options){.rounds = 2}));
    assert_ok(ph_profile_dump_record(profile, p.graph, path_of("record.json")));
    json_t *record = parse(read_file(path_of("record.json")));
    const json_t *told = json_object_get(record, "verdict");
    assert_string_equal(string_of(told, "sentence"), verdict.sentence);
    assert_int_equal(json_is_true(json_object_get(told, "worth")), verdict.worth);
    assert_int_equal(integer_of(told, "eager_ns"), verdict.eager_ns);
    assert_int_equal(integer_of(told, "replay_ns"), verdict.replay_ns);
    assert_int_equal(integer_of(told, "device_ns"), verdict.device_ns);
    assert_int_equal(integer_of(told, "bytes"), verdict.bytes);
    json_decref(record);
    ph_profile_destroy(profile);
    assert_ok(ph_graph_reset(p.graph));
    profile = profile_annotated(); /* captured again */
    assert_ok(ph_profile_dump_record(profile, p.graph, path_of("record.json")));
    assert_null(strstr(read_file(path_of("record.json")), "\"verdict\""));
    assert_int_equal(unlink(path_of("record.json")), 0);
    ph_profile_destroy(profile);
}

/* The plain record has none of it, and a profile of another capture is refused. */
TEST(of_this_capture_alone)
{
    char *text;
    const ph_record *record;
    ph_profile *profile = profile_annotated();
    assert_ok(ph_graph_record(&record, p.graph));
    assert_ok(ph_record_json(&text, record));
    assert_null(strstr(text, "\"profile\""));
    ph_string_free(text);
    assert_error(ph_profile_dump_record(profile, p.graph, path_of("missing/record.json")),
                 PH_ERROR_IO, "ph_profile_dump_record");
    assert_ok(ph_graph_reset(p.graph));
    assert_error(ph_profile_dump_record(profile, p.graph, path_of("record.json")), PH_ERROR_STATE,
                 "ph_profile_dump_record");
    assert_ok(ph_graph_capture(p.graph, p.a, NULL, annotated, &p));
    assert_error(ph_profile_dump_record(profile, p.graph, path_of("record.json")), PH_ERROR_STATE,
                 "another capture");
    struct stat there;
    assert_int_not_equal(stat(path_of("record.json"), &there), 0);
    ph_profile_destroy(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_node_stands_once, open_it, close_it),
        cmocka_unit_test_setup_teardown(rows_of_a_trace_nest_as_scopes_do, open_it, close_it),
        cmocka_unit_test_setup_teardown(lanes_have_rows, open_it, close_it),
        cmocka_unit_test_setup_teardown(streams_that_were_marked, open_it, close_it),
        cmocka_unit_test_setup_teardown(annotations_are_rows_above, open_it, close_it),
        cmocka_unit_test_setup_teardown(into_a_file, open_it, close_it),
        cmocka_unit_test_setup_teardown(the_record_has_the_times, open_it, close_it),
        cmocka_unit_test_setup_teardown(the_record_has_the_verdict, open_it, close_it),
        cmocka_unit_test_setup_teardown(of_this_capture_alone, open_it, close_it),
    };
    if (!mkdtemp(folder))
        return 1;
    int failed = cmocka_run_group_tests_name("inspect.profile_trace", tests, NULL, NULL);
    (void)rmdir(folder);
    return failed;
}
