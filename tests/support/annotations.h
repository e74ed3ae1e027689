/* SPDX-License-Identifier: MIT */
/* tests/support/annotations.h: what a graph's nodes are annotated with, as a text to compare. */
#ifndef PH_TESTS_ANNOTATIONS_H
#define PH_TESTS_ANNOTATIONS_H
#include "support/support.h"

enum {
    T_PAIRS_TEXT = 4096
};

/* "{name=a, layer=3}", "{}" for a node outside all scopes. */
void t_pairs(char out[T_PAIRS_TEXT], const ph_annotation_pair *pairs, size_t count);
/* Those of all nodes of the record in order, "{name=a}{name=a}{}"; bodies behind their node in
 * parentheses. */
void t_annotations_of(char out[T_PAIRS_TEXT], const ph_record *record);
/* Fails unless they are that. */
void t_expect_annotations(ph_graph *graph, const char *want);

/* How many entries ph_get_kernel_annotations has; and how many of them are these pairs. */
size_t t_annotated(void);
size_t t_annotated_so(const char *pairs);

/* An annotated capture of the function. */
void t_capture_annotated(ph_graph *graph, ph_stream *stream, ph_capture_fn body, void *user);

static inline ph_annotation_pair t_text(const char *key, const char *text)
{
    return (ph_annotation_pair){.key = key, .type = PH_ANNOTATION_TEXT, .text = text};
}
static inline ph_annotation_pair t_integer(const char *key, int64_t value)
{
    return (ph_annotation_pair){.key = key, .type = PH_ANNOTATION_INTEGER, .integer = value};
}
#endif
