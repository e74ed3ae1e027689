/* SPDX-License-Identifier: MIT */
/* tests/support/annotations.c: what a graph's nodes are annotated with, as a text. */
#include "support/annotations.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add(char out[T_PAIRS_TEXT], const char *format, ...) PH_PRINTF(2, 3);
static void add(char out[T_PAIRS_TEXT], const char *format, ...)
{
    size_t length = strlen(out);
    va_list args;
    va_start(args, format);
    int more = vsnprintf(out + length, T_PAIRS_TEXT - length, format, args);
    va_end(args);
    assert_true(more >= 0 && length + (size_t)more < T_PAIRS_TEXT);
}

static void add_pairs(char out[T_PAIRS_TEXT], const ph_annotation_pair *pairs, size_t count)
{
    add(out, "{");
    for (size_t i = 0; i < count; i++) {
        add(out, "%s%s=", i ? ", " : "", pairs[i].key);
        switch (pairs[i].type) {
        case PH_ANNOTATION_TEXT:
            add(out, "%s", pairs[i].text);
            break;
        case PH_ANNOTATION_INTEGER:
            add(out, "%" PRId64, pairs[i].integer);
            break;
        case PH_ANNOTATION_REAL:
            add(out, "%g", pairs[i].real);
            break;
        case PH_ANNOTATION_BOOL:
            add(out, "%s", pairs[i].boolean ? "true" : "false");
            break;
        }
    }
    add(out, "}");
}

void t_pairs(char out[T_PAIRS_TEXT], const ph_annotation_pair *pairs, size_t count)
{
    out[0] = 0;
    add_pairs(out, pairs, count);
}

static void add_record(char out[T_PAIRS_TEXT], const ph_record *record)
{
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        const ph_annotation_pair *pairs;
        size_t count;
        ph_node_info info;
        assert_ok(ph_record_annotation(&pairs, &count, record, i));
        assert_int_equal(pairs == NULL, count == 0);
        assert_ok(ph_record_node(&info, record, i));
        add_pairs(out, pairs, count);
        if (!info.body)
            continue;
        add(out, "(");
        add_record(out, info.body);
        add(out, ")");
    }
}

void t_annotations_of(char out[T_PAIRS_TEXT], const ph_record *record)
{
    out[0] = 0;
    add_record(out, record);
}

void t_expect_annotations(ph_graph *graph, const char *want)
{
    char text[T_PAIRS_TEXT];
    const ph_record *record;
    assert_ok(ph_graph_record(&record, graph));
    t_annotations_of(text, record);
    assert_string_equal(text, want);
}

enum {
    MOST = 512
};

size_t t_annotated(void)
{
    size_t count;
    assert_ok(ph_get_kernel_annotations(NULL, 0, &count));
    return count;
}

size_t t_annotated_so(const char *pairs)
{
    static ph_kernel_annotation all[MOST];
    char text[T_PAIRS_TEXT];
    size_t count, same = 0;
    assert_ok(ph_get_kernel_annotations(all, MOST, &count));
    assert_true(count <= MOST);
    for (size_t i = 0; i < count; i++) {
        t_pairs(text, all[i].pairs, all[i].count);
        same += strcmp(text, pairs) == 0;
    }
    return same;
}

void t_capture_annotated(ph_graph *graph, ph_stream *stream, ph_capture_fn body, void *user)
{
    ph_capture_options options = {.enable_annotations = true};
    assert_ok(ph_graph_capture(graph, stream, &options, body, user));
}
