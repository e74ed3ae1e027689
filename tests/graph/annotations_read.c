/* SPDX-License-Identifier: MIT */
/* tests/graph/annotations_read.c: reading annotations: JSON, DOT, the list of all annotated
 * nodes; refusals, and failures at every step. */
#include "support/annotations.h"
#include "support/sweep.h"

#include "device/annotate/annotation.h"
#include "device/handles/device.h"
#include "support/fixture.h"
#include <stdio.h>
#include <string.h>

enum {
    N = 64
};
static t_world world;
static int32_t *x;

WORLD(world, .arrays = {{&x, N}});

static ph_status kernel(ph_stream *stream)
{
    return t_fill(&world, stream, x, N, 1);
}

/* user: the scope's name, of two kernels; one comes before. */
static ph_status three(ph_stream *stream, void *user)
{
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_push(stream, user, NULL));
    PH_TRY(kernel(stream));
    PH_TRY(kernel(stream));
    return ph_annotation_pop(stream);
}

static ph_graph *captured(const char *name, bool keep)
{
    ph_graph *graph;
    ph_graph_options options = {.keep_graph = keep};
    assert_ok(ph_graph_create(&graph, &options));
    t_capture_annotated(graph, world.stream, three, (void *)(uintptr_t)name);
    return graph;
}

/* ---- texts ---- */
static ph_status odd_body(ph_stream *stream, void *user)
{
    (void)user;
    const ph_annotation_pair pairs[] = {
        t_text("a \"key\"\n", "</script>\\ \x01 \xff"),
        t_integer("integer", INT64_MIN),
        {.key = "real", .type = PH_ANNOTATION_REAL, .real = 0.25},
        {.key = "nan", .type = PH_ANNOTATION_REAL, .real = __builtin_nan("")},
        {.key = "bool", .type = PH_ANNOTATION_BOOL},
        t_text("empty", ""),
    };
    const ph_annotation_options options = {.pairs = pairs, .count = 6};
    PH_TRY(ph_annotation_push(stream, "odd \"one\"", &options));
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_pop(stream));
    return kernel(stream);
}

TEST(annotations_are_in_json_and_dot_escaped)
{
    ph_graph *graph;
    const ph_record *record;
    char *text;
    assert_ok(ph_graph_create(&graph, NULL));
    t_capture_annotated(graph, world.stream, odd_body, NULL);
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_json(&text, record));
    const char *at = strstr(text, "\"annotation\":{");
    assert_non_null(at);
    assert_null(strstr(at + 1, "\"annotation\"")); /* the other node has none */
    assert_non_null(strstr(
        text, "\"annotation\":{\"name\":\"odd \\\"one\\\"\",\"a \\\"key\\\"\\n\":\"</script>\\\\ "
              "\\u0001 \\ufffd\",\"integer\":-9223372036854775808,\"real\":0.25,\"nan\":null,"
              "\"bool\":false,\"empty\":\"\"}"));
    ph_string_free(text);
    assert_ok(ph_record_dot(&text, record, false));
    assert_non_null(strstr(text, "subgraph cluster_scope_n0 {"));
    assert_non_null(strstr(text, "label=\"odd \\\"one\\\", a \\\"key\\\" =</script>\\\\"));
    assert_non_null(strstr(text, "bool=false, empty=\";\n"));
    assert_null(strstr(text, "cluster_scope_n1"));
    ph_string_free(text);
    ph_graph_destroy(graph);
}

static ph_status boxes_body(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(three(stream, "first"));
    PH_TRY(three(stream, "second"));
    return PH_OK;
}

TEST(test_dot_has_a_box_for_each_run)
{
    ph_graph *graph;
    const ph_record *record;
    char *text;
    assert_ok(ph_graph_create(&graph, NULL));
    t_capture_annotated(graph, world.stream, boxes_body, NULL);
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_dot(&text, record, false));
    size_t open = 0, closed = 0;
    for (const char *c = text; *c; c++) {
        open += *c == '{';
        closed += *c == '}';
    }
    assert_int_equal(open, closed);
    assert_int_equal(open, 3);
    const char *first = strstr(text, "label=\"first\""), *second = strstr(text, "label=\"second\"");
    assert_true(first && second && first < second);
    assert_true(strstr(text, "n0 -> n1") > second); /* edges come behind all boxes */
    ph_string_free(text);
    ph_graph_destroy(graph);
}

/* ---- the list ---- */
TEST(test_the_list_follows_the_graphs)
{
    ph_kernel_annotation all[8];
    size_t count;
    ph_graph *never;
    assert_int_equal(t_annotated(), 0);
    ph_graph *a = captured("a", false), *b = captured("b", true);
    assert_ok(ph_get_kernel_annotations(all, 8, &count));
    assert_int_equal(count, 4);
    assert_ptr_equal(all[0].graph, a);
    assert_int_equal(all[0].node, 1);
    assert_int_equal(all[1].node, 2);
    assert_int_equal(all[0].exec_id, all[1].exec_id);
    assert_true(all[0].exec_id != 0);
    assert_ptr_equal(all[2].graph, b);
    assert_int_equal(all[2].exec_id, 0);
    assert_string_equal(all[3].pairs[0].text, "b");

    assert_ok(ph_graph_instantiate(b));
    assert_ok(ph_get_kernel_annotations(all, 3, &count)); /* one too few */
    assert_int_equal(count, 4);
    uint64_t first = all[2].exec_id;
    assert_true(first > all[0].exec_id);
    assert_ok(ph_graph_instantiate(b));
    assert_ok(ph_get_kernel_annotations(all, 8, &count));
    uint64_t second = all[2].exec_id;
    assert_true(second > first);
    assert_int_equal(all[3].exec_id, second);

    assert_ok(ph_graph_create(&never, NULL)); /* a graph that nobody captured has no nodes there */
    assert_ok(ph_graph_reset(never));
    ph_graph_destroy(never);
    ph_graph_destroy(NULL);
    assert_int_equal(t_annotated(), 4);
    assert_ok(ph_graph_reset(a));
    assert_ok(ph_get_kernel_annotations(all, 8, &count));
    assert_int_equal(count, 2);
    assert_ptr_equal(all[0].graph, b);
    assert_true(all[0].exec_id == second && all[1].exec_id == second);
    t_capture_annotated(a, world.stream, three, "again");
    assert_int_equal(t_annotated_so("{name=again}"), 2);
    assert_int_equal(t_annotated_so("{name=b}"), 2);
    ph_graph_destroy(b);
    assert_int_equal(t_annotated(), 2);
    ph_graph_destroy(a);
    assert_int_equal(t_annotated(), 0);
}

static void *list_all(void *counted)
{
    size_t *count = counted;
    if (ph_get_kernel_annotations(NULL, 0, count) != PH_OK)
        *count = SIZE_MAX;
    return NULL;
}

/* Whoever asks first makes the records. */
TEST(threads_list_graphs_whose_records_were_not_made)
{
    enum {
        THREADS = 3,
        GRAPHS = 4
    };
    ph_graph *graphs[GRAPHS];
    pthread_t threads[THREADS];
    size_t counts[THREADS];
    for (int i = 0; i < GRAPHS; i++)
        graphs[i] = captured("many", i % 2);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, list_all, &counts[i]), 0);
    for (int i = 0; i < GRAPHS; i++) {
        const ph_record *record;
        assert_ok(ph_graph_record(&record, graphs[i]));
        assert_int_equal(ph_record_node_count(record), 3);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(counts[i], 2 * GRAPHS);
    }
    for (int i = 0; i < GRAPHS; i++)
        ph_graph_destroy(graphs[i]);
}

/* What tools call nodes may cost a search for a library each time that it is asked for in vain. */
static struct {
    size_t asked;
    uint64_t answer;
} tools;

static void tell_tools_id(uint64_t *out, ph__drv_exec *exec, ph__drv_node *node)
{
    (void)exec;
    (void)node;
    tools.asked++;
    *out = tools.answer;
}

TEST(test_ids_are_asked_for_in_vain_once_for_a_graph)
{
    const ph__driver *driver = world.device->driver;
    ph__driver counting = *driver;
    ph_kernel_annotation all[8];
    size_t count;
    ph_graph *a = captured("a", false), *b = captured("b", false);
    counting.exec_tools_id = tell_tools_id;
    world.device->driver = &counting;
    tools.asked = 0;
    assert_ok(ph_get_kernel_annotations(all, 8, &count));
    assert_int_equal(count, 4);
    assert_int_equal(tools.asked, 2);
    tools.answer = 7;
    assert_ok(ph_get_kernel_annotations(all, 8, &count));
    assert_int_equal(tools.asked, 6);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(all[i].tools_id, 7);
    world.device->driver = driver;
    ph_graph_destroy(a);
    ph_graph_destroy(b);
}

TEST(clearing_empties_the_list_and_leaves_records)
{
    ph_graph *a = captured("a", true), *b = captured("b", false);
    assert_int_equal(t_annotated(), 4);
    ph_clear_kernel_annotations();
    ph_clear_kernel_annotations();
    assert_int_equal(t_annotated(), 0);
    t_expect_annotations(a, "{}{name=a}{name=a}"); /* records stay as they are */
    assert_ok(ph_graph_instantiate(a));
    assert_int_equal(t_annotated(), 0);
    ph_graph *c = captured("c", false);
    assert_int_equal(t_annotated(), 2);
    ph_graph_destroy(a);
    ph_graph_destroy(b);
    assert_int_equal(t_annotated(), 2);
    ph_graph_destroy(c);
}

static ph_status refuses(const ph_graph_hook_info *info, void *user)
{
    (void)info;
    (void)user;
    return ph_fail(PH_ERROR_ARGUMENT, "refused");
}

TEST(test_a_graph_that_fails_leaves_the_list)
{
    ph_graph *graph;
    ph_hook *hook;
    ph_capture_options options = {.enable_annotations = true};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_hook_add(&hook, graph, PH_HOOK_CAPTURE_END, refuses, NULL));
    assert_status(ph_graph_capture(graph, world.stream, &options, three, "x"), PH_ERROR_ARGUMENT);
    assert_int_equal(t_annotated(), 0);
    ph_graph_hook_remove(hook);
    ph_graph_destroy(graph);
}

/* ---- refusals ---- */
static void refuse_pairs(const ph_annotation_pair *pairs, size_t count, const char *name,
                         const char *part)
{
    const ph_annotation_options options = {.pairs = pairs, .count = count};
    assert_error(ph_annotation_push(world.stream, name, &options), PH_ERROR_ARGUMENT, part);
    assert_int_equal(ph_annotation_depth(), 0);
}

TEST(test_refusals_of_scopes)
{
    const ph_annotation_pair no_key = {.text = "x"}, empty_key = t_text("", "x"),
                             no_text = {.key = "k"}, name = t_text("name", "x"),
                             odd = {.key = "k", .type = (ph_annotation_type)4};
    const ph_annotation_pair twice[] = {t_integer("k", 1), t_integer("other", 2), t_text("k", "1")};
    const ph_annotation_options reserved = {.reserved = {0, 1}};
    refuse_pairs(NULL, 0, NULL, "neither a name nor pairs");
    refuse_pairs(NULL, 1, "x", "pairs");
    refuse_pairs(&no_key, 1, "x", "pair 0 has no key");
    refuse_pairs(&empty_key, 1, "x", "pair 0 has no key");
    refuse_pairs(&no_text, 1, "x", "its text is NULL");
    refuse_pairs(&odd, 1, "x", "type 4");
    refuse_pairs(&name, 1, "x", "\"name\" is given twice");
    refuse_pairs(twice, 3, NULL, "\"k\" is given twice");
    assert_error(ph_annotation_push(NULL, "x", NULL), PH_ERROR_ARGUMENT, "stream");
    assert_error(ph_annotation_push(world.stream, "x", &reserved), PH_ERROR_ARGUMENT, "reserved");
    assert_error(ph_annotation_pop(world.stream), PH_ERROR_STATE, "has no scope open");
    assert_error(ph_annotation_pop(NULL), PH_ERROR_ARGUMENT, "stream");
    assert_error(ph_annotation_resume(NULL, NULL, NULL, 0), PH_ERROR_ARGUMENT, "stream");
    assert_error(ph_annotation_resume(world.stream, NULL, NULL, 1), PH_ERROR_ARGUMENT, "pairs");
    assert_error(ph_annotation_resume(world.stream, NULL, &no_key, 1), PH_ERROR_ARGUMENT, "no key");
    assert_int_equal(ph_annotation_depth(), 0);
    uint32_t lane = 1;
    assert_error(ph_stream_lane(NULL, world.stream), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_stream_lane(&lane, NULL), PH_ERROR_ARGUMENT, "stream");
    assert_int_equal(lane, 0);
}

/* A graph that was replayed on it keeps the object. */
TEST(test_refusal_of_a_stream_that_is_gone)
{
    ph_stream *gone;
    ph_graph *graph = captured("a", false);
    assert_ok(ph_stream_create(&gone, world.device, NULL));
    assert_ok(ph_graph_replay(graph, gone));
    assert_ok(ph_annotation_push(gone, "open", NULL));
    ph_stream_destroy(gone);
    assert_error(ph_annotation_push(gone, "x", NULL), PH_ERROR_ARGUMENT,
                 "the stream was destroyed");
    assert_error(ph_annotation_resume(gone, NULL, NULL, 0), PH_ERROR_ARGUMENT,
                 "the stream was destroyed");
    assert_int_equal(ph_annotation_depth(), 1);
    assert_ok(ph_annotation_pop(gone)); /* what is open can be ended all the same */
    ph_graph_destroy(graph);
}

TEST(test_refusals_of_readers)
{
    const ph_annotation_pair *pairs;
    const ph_record *record;
    size_t count = 1;
    ph_graph *graph = captured("a", false);
    assert_ok(ph_graph_record(&record, graph));
    assert_error(ph_record_annotation(&pairs, &count, record, 3), PH_ERROR_NOT_FOUND,
                 "has 3 nodes");
    assert_int_equal(count, 0);
    assert_error(ph_record_annotation(NULL, &count, record, 0), PH_ERROR_ARGUMENT, "pairs");
    assert_error(ph_record_annotation(&pairs, NULL, record, 0), PH_ERROR_ARGUMENT, "count");
    assert_error(ph_record_annotation(&pairs, &count, NULL, 0), PH_ERROR_ARGUMENT, "record");
    assert_error(ph_get_kernel_annotations(NULL, 0, NULL), PH_ERROR_ARGUMENT, "count");
    assert_error(ph_get_kernel_annotations(NULL, 1, &count), PH_ERROR_ARGUMENT, "out");
    ph_graph_destroy(graph);
}

TEST(test_breadcrumbs_need_annotations)
{
    ph_graph *graph;
    ph_capture_options options = {.breadcrumbs = true};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_capture_begin(graph, world.stream, &options), PH_ERROR_ARGUMENT,
                 "set enable_annotations too");
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    ph_graph_destroy(graph);
}

/* ---- failures ---- */
static ph_graph *nested, *graph;

static ph_status scopes(ph_stream *stream, void *user)
{
    (void)user;
    const ph_annotation_pair pair = t_integer("layer", 1);
    const ph_annotation_options options = {.pairs = &pair, .count = 1, .lane = true};
    PH_TRY(three(stream, "first"));
    PH_TRY(ph_annotation_push(stream, "second", &options));
    PH_TRY(ph_graph_replay(nested, stream));
    ph_annotation_scope *mark = ph_annotation_current();
    ph_status status = ph_annotation_resume(stream, mark, &pair, 1);
    ph_annotation_release(mark);
    PH_TRY(status);
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_pop(stream));
    return ph_annotation_pop(stream);
}

static ph_status everything(void *user)
{
    ph_capture_options options = {.enable_annotations = true};
    const ph_record *record;
    char *text = NULL;
    (void)user;
    PH_TRY(ph_graph_create(&nested, NULL));
    PH_TRY(ph_graph_create(&graph, NULL));
    PH_TRY(ph_graph_capture(nested, world.stream, &options, three, "part"));
    PH_TRY(ph_graph_capture(graph, world.stream, &options, scopes, NULL));
    PH_TRY(ph_graph_record(&record, graph));
    PH_TRY(ph_record_json(&text, record));
    ph_string_free(text);
    PH_TRY(ph_record_dot(&text, record, true));
    ph_string_free(text);
    PH_TRY(ph_graph_replay(graph, world.stream));
    return ph_stream_synchronize(world.stream);
}

static void check_annotations(void)
{
    char text[T_PAIRS_TEXT], want[T_PAIRS_TEXT];
    const ph_record *record;
    uint32_t lane;
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_stream_lane(&lane, world.stream));
    t_annotations_of(text, record);
    (void)snprintf(want, sizeof want,
                   "{}{name=first}{name=first}{name=second, layer=1, stream=%u}"
                   "({name=second, layer=1, stream=%u}{name=part, layer=1, stream=%u}{name=part, "
                   "layer=1, stream=%u})"
                   "{name=second, layer=1, stream=%u}",
                   lane, lane, lane, lane, lane);
    assert_string_equal(text, want);
}

static void reset(ph_status status, void *user)
{
    (void)user;
    if (status == PH_OK)
        check_annotations();
    ph_annotation_unwind(0);
    ph_graph_destroy(graph);
    ph_graph_destroy(nested);
    graph = nested = NULL;
    assert_ok(ph_device_synchronize(world.device));
    assert_false(ph_stream_is_capturing(world.stream));
}

/* What cannot be asked of the driver leaves the nodes of a nested graph with the annotation of
 * those around it. */
static const t_swept swept = {
    .name = "annotations", .run = everything, .reset = reset, .may_do_less = true};

TEST(test_host_memory_fails_anywhere)
{
    t_sweep_host_memory(&swept, 20);
}

TEST(test_driver_calls_fail_anywhere)
{
    t_faults faults = t_sweep(&swept, t_driver_fault(PH__R_LAUNCH_FAILED));
    assert_true(faults.reached > 20);
    assert_true(faults.failures > faults.reached / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(annotations_are_in_json_and_dot_escaped),
        cmocka_unit_test(test_dot_has_a_box_for_each_run),
        cmocka_unit_test(test_the_list_follows_the_graphs),
        cmocka_unit_test(threads_list_graphs_whose_records_were_not_made),
        cmocka_unit_test(test_ids_are_asked_for_in_vain_once_for_a_graph),
        cmocka_unit_test(clearing_empties_the_list_and_leaves_records),
        cmocka_unit_test(test_a_graph_that_fails_leaves_the_list),
        cmocka_unit_test(test_refusals_of_scopes),
        cmocka_unit_test(test_refusal_of_a_stream_that_is_gone),
        cmocka_unit_test(test_refusals_of_readers),
        cmocka_unit_test(test_breadcrumbs_need_annotations),
        cmocka_unit_test(test_host_memory_fails_anywhere),
        cmocka_unit_test(test_driver_calls_fail_anywhere),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
