/* SPDX-License-Identifier: MIT */
/* tests/unit/record_create.c: records of what somebody says: a record that was captured, said
 * again, is the same text; what cannot be is refused; and nothing of what was said needs to
 * stay. */
#include "support/support.h"

#include "base/alloc.h"
#include "support/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 64
};

/* ---- a captured record, said again ---- */

static ph_status inner_body(ph_stream *stream, void *user)
{
    t_world *world = user;
    ph_stream *stream_of_world = stream;
    int32_t *x;
    PH_TRY(PH_NEW(&x, N, stream_of_world));
    ph_status status = t_fill(world, stream, x, N, 4);
    ph_free(x, stream);
    return status;
}

typedef struct scene {
    t_world world;
    ph_graph *inner, *outer;
    int32_t *x;
    float *y;
} scene;

static void nothing(void *user)
{
    (void)user;
}

static ph_status outer_body(ph_stream *stream, void *user)
{
    scene *s = user;
    PH_TRY(ph_annotation_push(stream, "layer \"0\"", NULL));
    ph_annotation_pair pairs[] = {{.key = "depth", .type = PH_ANNOTATION_INTEGER, .integer = -3},
                                  {.key = "rate", .type = PH_ANNOTATION_REAL, .real = 0.1},
                                  {.key = "last", .type = PH_ANNOTATION_BOOL, .boolean = true}};
    PH_TRY(t_fill(&s->world, stream, s->x, N, 3));
    PH_TRY(ph_annotation_push(stream, NULL, &(ph_annotation_options){.pairs = pairs, .count = 3}));
    PH_TRY(t_axpy(&s->world, stream, 2.5f, s->y, s->y + 1, 8));
    PH_TRY(ph_memset(s->x, 7, 16, stream));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(ph_graph_replay(s->inner, stream));
    PH_TRY(ph_memcpy(s->x, s->y, 32, stream));
    PH_TRY(ph_annotation_pop(stream));
    return ph_launch_host(stream, nothing, NULL);
}

static void open_scene(scene *s)
{
    t_open(&s->world, "host:threads=1");
    assert_ok(PH_NEW(&s->x, N, s->world.stream));
    assert_ok(PH_NEW(&s->y, N, s->world.stream));
    assert_ok(ph_graph_create(&s->inner, NULL));
    assert_ok(ph_graph_create(&s->outer, NULL));
    assert_ok(ph_graph_capture(s->inner, s->world.stream, NULL, inner_body, &s->world));
    assert_ok(ph_graph_capture(s->outer, s->world.stream,
                               &(ph_capture_options){.enable_annotations = true}, outer_body, s));
}

static void close_scene(scene *s)
{
    ph_graph_destroy(s->outer);
    ph_graph_destroy(s->inner);
    ph_free(s->x, s->world.stream);
    ph_free(s->y, s->world.stream);
    t_close(&s->world);
    assert_int_equal(ph__alloc_live(), 0);
}

static void say_node(ph_record_source_node *to, const ph_record *record, size_t node,
                     ph_word *words, ph_edge_kind *kinds)
{
    assert_ok(ph_record_node(&to->info, record, node));
    to->dependencies = ph_record_dependencies(record, node);
    for (size_t w = 0; w < to->info.word_count; w++)
        assert_ok(ph_record_word(&words[w], record, node, w));
    for (size_t d = 0; d < to->info.dependency_count; d++)
        assert_ok(ph_record_edge(&kinds[d], record, node, d));
    to->words = words;
    to->dependency_kinds = kinds;
    assert_ok(ph_record_annotation(&to->annotation, &to->annotation_count, record, node));
}

enum {
    ROOM = 16
};

/* without_args: the words tell them. */
static ph_record *say(const ph_record *record, const ph_record *body, bool without_args)
{
    static ph_word words[ROOM][ROOM];
    static ph_edge_kind kinds[ROOM][ROOM];
    ph_record_source_node nodes[ROOM] = {0};
    size_t count = ph_record_node_count(record);
    ph_record *made;
    assert_true(count < ROOM);
    for (size_t i = 0; i < count; i++) {
        say_node(&nodes[i], record, i, words[i], kinds[i]);
        if (nodes[i].info.body)
            nodes[i].info.body = body;
        if (without_args)
            nodes[i].info.args = NULL;
    }
    assert_ok(ph_record_create(&made, nodes, count));
    memset(words, 0xab, sizeof words); /* all was copied */
    return made;
}

static const ph_record *body_of(const ph_record *record)
{
    ph_node_info info;
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        assert_ok(ph_record_node(&info, record, i));
        if (info.body)
            return info.body;
    }
    fail_msg("no node has a body");
    return NULL;
}

TEST(a_record_said_again_is_the_same)
{
    scene s;
    const ph_record *record;
    open_scene(&s);
    assert_ok(ph_graph_record(&record, s.outer));
    for (int without_args = 0; without_args < 2; without_args++) {
        char *text, *again;
        ph_record *body = say(body_of(record), NULL, without_args),
                  *made = say(record, body, without_args);
        ph_diff *diff;
        assert_ok(ph_record_diff(&diff, record, made));
        assert_int_equal(ph_diff_count(diff), 0);
        ph_diff_destroy(diff);
        if (without_args) { /* given, they have padding, too, which nothing has written */
            assert_ok(ph_record_json(&text, record));
            assert_ok(ph_record_json(&again, made));
            assert_string_equal(strstr(text, "\"nodes\":"), strstr(again, "\"nodes\":"));
            assert_non_null(strstr(again, "\"depth\":-3"));
            ph_string_free(text);
            ph_string_free(again);
        }
        assert_ok(ph_record_dot(&text, record, true));
        assert_ok(ph_record_dot(&again, made, true));
        assert_string_equal(text, again);
        ph_string_free(text);
        ph_string_free(again);
        assert_int_equal(ph_record_edge_count(made), ph_record_edge_count(record));
        ph_record_destroy(made);
        ph_record_destroy(body);
    }
    close_scene(&s);
}

/* ---- what is refused ---- */

static void expect_refusal(const ph_record_source_node *nodes, size_t count, const char *part)
{
    ph_record *record = (ph_record *)(uintptr_t)nodes;
    assert_error(ph_record_create(&record, nodes, count), PH_ERROR_ARGUMENT, part);
    assert_null(record);
    assert_non_null(strstr(ph_error_last()->message, "ph_record_create"));
}

#define REFUSED(part, ...)                                                                         \
    do {                                                                                           \
        ph_record_source_node nodes[2] = {{.info = {.kind = PH_NODE_EMPTY}}, __VA_ARGS__};         \
        expect_refusal(nodes, 2, part);                                                            \
    } while (0)

TEST(what_cannot_be_is_refused)
{
    static const size_t zero[] = {0}, self[] = {1}, twice[] = {0, 0};
    static const ph_edge_kind half[] = {(ph_edge_kind)2};
    static const ph_word nameless[] = {{.offset = 0}},
                         unkind[] = {{.name = "x", .kind = (ph_word_kind)3}},
                         far[] = {{.name = "x", .offset = 8}},
                         back[] = {{.name = "x", .offset = 8}, {.name = "y", .offset = 0}};
    static const ph_annotation_pair no_key[] = {{.text = "x"}}, no_text[] = {{.key = "x"}},
                                    no_type[] = {{.key = "x", .type = (ph_annotation_type)9}},
                                    two[] = {{.key = "x", .text = "1"}, {.key = "x", .text = "2"}};
    ph_record *record;
    assert_error(ph_record_create(NULL, NULL, 0), PH_ERROR_ARGUMENT, "ph_record_create: out");
    assert_error(ph_record_create(&record, NULL, 1), PH_ERROR_ARGUMENT, "ph_record_create: nodes");
    REFUSED("node 1: kind is 99", {.info = {.kind = (ph_node_kind)99}});
    REFUSED("reserved", {.info = {.reserved = {1}}});
    REFUSED("node 1: dependencies is NULL", {.info = {.dependency_count = 1}});
    REFUSED("depends on node 1, which does not come before it",
            {.info = {.dependency_count = 1}, .dependencies = self});
    REFUSED("do not ascend", {.info = {.dependency_count = 2}, .dependencies = twice});
    REFUSED("none of ph_edge_kind",
            {.info = {.dependency_count = 1}, .dependencies = zero, .dependency_kinds = half});
    REFUSED("words is NULL", {.info = {.word_count = 1}});
    REFUSED("word 0 has no name", {.info = {.word_count = 1, .args_size = 8}, .words = nameless});
    REFUSED("none of ph_word_kind", {.info = {.word_count = 1, .args_size = 8}, .words = unkind});
    REFUSED("word 0 lies behind the 8 bytes",
            {.info = {.word_count = 1, .args_size = 8}, .words = far});
    REFUSED("offsets of its words do not ascend",
            {.info = {.word_count = 2, .args_size = 16}, .words = back});
    REFUSED("is no kernel", {.info = {.kind = PH_NODE_HOST, .args_size = 8}});
    REFUSED("bytes of parameters; at most", {.info = {.args_size = SIZE_MAX / 2}});
    REFUSED("elements of 3 bytes", {.info = {.kind = PH_NODE_MEMSET, .value_size = 3}});
    REFUSED("annotation is NULL", {.annotation_count = 1});
    REFUSED("at most 1000", {.annotation = two, .annotation_count = SIZE_MAX});
    REFUSED("has no key", {.annotation = no_key, .annotation_count = 1});
    REFUSED("its text is NULL", {.annotation = no_text, .annotation_count = 1});
    REFUSED("none of ph_annotation_type", {.annotation = no_type, .annotation_count = 1});
    REFUSED("the same key", {.annotation = two, .annotation_count = 2});
    ph_record_destroy(NULL);
}

/* Each body in the next: readers go down one call for each. */
TEST(bodies_are_limited)
{
    ph_record *records[64];
    size_t count = 0;
    ph_record_source_node node = {.info = {.kind = PH_NODE_GRAPH}};
    ph_status status = PH_OK;
    while (status == PH_OK) {
        assert_true(count < 64);
        status = ph_record_create(&records[count], &node, 1);
        node.info.body = records[count];
        count += status == PH_OK;
    }
    assert_error(status, PH_ERROR_ARGUMENT, "nested deeper than 32");
    ph_diff *diff;
    assert_ok(ph_record_diff(&diff, records[count - 1], records[count - 1]));
    ph_diff_destroy(diff);
    assert_ok(ph_record_diff(&diff, records[count - 1], records[0]));
    ph_diff_destroy(diff);
    node.info.body = records[0];
    node.info.kind = PH_NODE_EMPTY;
    ph_record *bad;
    assert_error(ph_record_create(&bad, &node, 1), PH_ERROR_ARGUMENT, "has a body and is no graph");
    while (count > 0)
        ph_record_destroy(records[--count]);
    assert_int_equal(ph__alloc_live(), 0);
}

/* The same body under both nodes of the next, again and again: a few records of which a reader
 * would never see the end. */
TEST(bodies_are_counted_wherever_they_are)
{
    ph_record *records[32];
    size_t count = 0;
    ph_record_source_node nodes[2] = {{.info = {.kind = PH_NODE_GRAPH}},
                                      {.info = {.kind = PH_NODE_GRAPH}}};
    ph_status status = PH_OK;
    while (status == PH_OK) {
        assert_true(count < 30);
        status = ph_record_create(&records[count], nodes, 2);
        nodes[0].info.body = nodes[1].info.body = records[count];
        count += status == PH_OK;
    }
    assert_error(status, PH_ERROR_ARGUMENT,
                 "node 1: with its body, the nested graphs take more than 4 GiB");
    assert_true(count > 16);
    ph_diff *diff; /* those that are not so many are read */
    assert_ok(ph_record_diff(&diff, records[9], records[9]));
    assert_int_equal(ph_diff_count(diff), 0);
    ph_diff_destroy(diff);
    while (count > 0)
        ph_record_destroy(records[--count]);
    assert_int_equal(ph__alloc_live(), 0);
}

TEST(names_and_nothing)
{
    ph_record *record;
    ph_node_info info;
    char *text;
    assert_ok(ph_record_create(&record, NULL, 0));
    assert_int_equal(ph_record_node_count(record), 0);
    ph_record_destroy(record);
    ph_record_source_node node = {.info = {.kind = PH_NODE_KERNEL, .args_size = 12}};
    assert_ok(ph_record_create(&record, &node, 1));
    assert_ok(ph_record_node(&info, record, 0));
    assert_string_equal(info.name, "kernel"); /* where none is given */
    assert_ok(ph_record_json(&text, record)); /* parameters that nothing is known of are zeros */
    assert_non_null(strstr(text, "\"args\":\"000000000000000000000000\""));
    ph_string_free(text);
    ph_record_destroy(record);
}

/* In no text for people does a name steer a terminal, or turn the line around. */
TEST(names_in_texts)
{
    static const char name[] = "k\x1b[2J\xc2\x9b"
                               "2J\x7f\xe2\x80\xaelenrek\xff",
                      shown[] = "k [2J 2J  lenrek?";
    ph_record_source_node node = {.info = {.name = name, .grid = {1, 1, 1}, .block = {1, 1, 1}}};
    const ph_annotation_pair pair = {.key = name, .text = name};
    ph_record *one, *other;
    ph_diff *diff;
    char *text;
    assert_ok(ph_record_create(&one, &node, 1));
    node.annotation = &pair;
    node.annotation_count = 1;
    assert_ok(ph_record_create(&other, &node, 1));
    assert_ok(ph_record_dot(&text, other, false));
    assert_non_null(strstr(text, "label=\"0: k [2J 2J  lenrek?\""));
    assert_non_null(strstr(text, "label=\"k [2J 2J  lenrek?=k [2J 2J  lenrek?\""));
    ph_string_free(text);
    assert_ok(ph_record_diff(&diff, one, other));
    assert_ok(ph_diff_text(&text, diff));
    assert_non_null(strstr(text, shown));
    assert_null(strstr(text, "\xc2\x9b"));
    assert_null(strpbrk(text, "\x1b\x7f\xff"));
    ph_string_free(text);
    ph_diff_destroy(diff);
    assert_ok(ph_record_json(&text, other));
    assert_non_null(strstr(text, "\"k\\u001b[2J\\u009b2J\\u007f\\u202elenrek\\ufffd\""));
    ph_string_free(text);
    ph_record_destroy(one);
    ph_record_destroy(other);
}

TEST(each_allocation_fails)
{
    ph_annotation_pair pairs[2] = {{.key = "name", .text = "x"}, {.key = "name", .text = "y"}};
    ph_record_source_node nodes[3] = {{.annotation = &pairs[0], .annotation_count = 1},
                                      {.annotation = &pairs[1], .annotation_count = 1},
                                      {.annotation = &pairs[0], .annotation_count = 1}};
    ph_status status;
    int64_t n = 0;
    do {
        ph_record *record;
        ph__alloc_fail_after(n++);
        status = ph_record_create(&record, nodes, 3);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        assert_true(status == PH_OK || status == PH_ERROR_HOST_MEMORY);
        assert_int_equal(record != NULL, status == PH_OK);
        ph_record_destroy(record);
        assert_int_equal(ph__alloc_live(), 0);
    } while (status != PH_OK);
    assert_true(n >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_said_again_is_the_same),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(bodies_are_limited),
        cmocka_unit_test(bodies_are_counted_wherever_they_are),
        cmocka_unit_test(names_and_nothing),
        cmocka_unit_test(names_in_texts),
        cmocka_unit_test(each_allocation_fails),
    };
    return cmocka_run_group_tests_name("unit.record_create", tests, NULL, NULL);
}
