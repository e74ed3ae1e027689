/* SPDX-License-Identifier: MIT */
/* tests/support/annotated.h: captures with annotations of what a tape does, and what their nodes
 * got. */
#ifndef PH_TESTS_ANNOTATED_H
#define PH_TESTS_ANNOTATED_H
#include "support/grads.h"
#include "support/sweep.h"
#include <inttypes.h>
#include <stdio.h>

/* ---- scopes ---- of the calling thread, on the tape's stream. */
static inline void t_begin(ph_tape *tape, const char *name)
{
    assert_ok(ph_annotation_push(ph_tape_stream(tape), name, NULL));
}

static inline void t_end(ph_tape *tape)
{
    assert_ok(ph_annotation_pop(ph_tape_stream(tape)));
}

#define T_TEXT(k, v)                                                                               \
    {                                                                                              \
        .key = (k), .type = PH_ANNOTATION_TEXT, .text = (v)                                        \
    }
#define T_INTEGER(k, v)                                                                            \
    {                                                                                              \
        .key = (k), .type = PH_ANNOTATION_INTEGER, .integer = (v)                                  \
    }
#define T_BOOL(k, v)                                                                               \
    {                                                                                              \
        .key = (k), .type = PH_ANNOTATION_BOOL, .boolean = (v)                                     \
    }
#define t_begin_with(tape, name, ...)                                                              \
    t_begin_pairs((tape), (name), (const ph_annotation_pair[]){__VA_ARGS__},                       \
                  sizeof((const ph_annotation_pair[]){__VA_ARGS__}) / sizeof(ph_annotation_pair),  \
                  false)
static inline void t_begin_pairs(ph_tape *tape, const char *name, const ph_annotation_pair *pairs,
                                 size_t count, bool forward_only)
{
    ph_annotation_options options = {.pairs = pairs, .count = count, .forward_only = forward_only};
    assert_ok(ph_annotation_push(ph_tape_stream(tape), name, &options));
}

/* ---- what nodes got ---- as text: "layer=3 name=forward", in order of the keys; "" of a node
 * in no scope. */
static inline int t_compare_texts(const void *a, const void *b)
{
    return strcmp(a, b);
}

static inline void t_pair_text(char *out, size_t size, const ph_annotation_pair *pair)
{
    if (pair->type == PH_ANNOTATION_TEXT)
        (void)snprintf(out, size, "%s=%s", pair->key, pair->text);
    else if (pair->type == PH_ANNOTATION_INTEGER)
        (void)snprintf(out, size, "%s=%" PRId64, pair->key, pair->integer);
    else if (pair->type == PH_ANNOTATION_REAL)
        (void)snprintf(out, size, "%s=%g", pair->key, pair->real);
    else
        (void)snprintf(out, size, "%s=%s", pair->key, pair->boolean ? "true" : "false");
}

static inline void t_annotation_text(char *out, size_t size, const ph_record *record, size_t node)
{
    const ph_annotation_pair *pairs;
    char texts[8][64];
    size_t count, used = 0;
    assert_ok(ph_record_annotation(&pairs, &count, record, node));
    assert_in_range(count, 0, 8);
    for (size_t i = 0; i < count; i++)
        t_pair_text(texts[i], sizeof texts[i], &pairs[i]);
    qsort(texts, count, sizeof texts[0], t_compare_texts);
    out[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? " " : "", texts[i]);
}

static inline size_t t_annotated_nodes(ph_graph *graph, const char *text)
{
    const ph_record *record;
    char have[256];
    size_t found = 0;
    assert_ok(ph_graph_record(&record, graph));
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        t_annotation_text(have, sizeof have, record, i);
        found += strcmp(have, text) == 0;
    }
    return found;
}

/* What the nodes of backward have in front of the pairs of their scope, in the order above. */
#define BACKWARD "autograd_phase=backward "

/* Exactly these annotations are there, each on so many nodes; AT_LEAST_ONE: on one or more. ""
 * only where it is asked for. */
enum {
    AT_LEAST_ONE = -1
};
typedef struct t_wanted {
    const char *text;
    int nodes;
} t_wanted;

static inline void t_expect_listed(const ph_record *record, const t_wanted *wanted, size_t count)
{
    char have[256];
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        bool listed = false;
        t_annotation_text(have, sizeof have, record, i);
        for (size_t k = 0; k < count && !listed; k++)
            listed = strcmp(have, wanted[k].text) == 0;
        if (!listed && have[0])
            fail_msg("node %zu has the annotation '%s', which none should have", i, have);
    }
}

static inline void t_expect_annotations_of(ph_graph *graph, const t_wanted *wanted, size_t count)
{
    const ph_record *record;
    assert_ok(ph_graph_record(&record, graph));
    t_expect_listed(record, wanted, count);
    for (size_t i = 0; i < count; i++) {
        size_t found = t_annotated_nodes(graph, wanted[i].text);
        if (wanted[i].nodes == AT_LEAST_ONE ? found == 0 : found != (size_t)wanted[i].nodes)
            fail_msg("%zu nodes have the annotation '%s', expected %d", found, wanted[i].text,
                     wanted[i].nodes);
    }
}
#define t_expect_annotations(graph, ...)                                                           \
    t_expect_annotations_of((graph), (const t_wanted[]){__VA_ARGS__},                              \
                            sizeof((const t_wanted[]){__VA_ARGS__}) / sizeof(t_wanted))

/* Of all graphs that there are. */
static inline size_t t_all_annotations(void)
{
    size_t count;
    assert_ok(ph_get_kernel_annotations(NULL, 0, &count));
    return count;
}

/* ---- captures ---- */
typedef struct t_annotated t_annotated;
typedef void (*t_annotated_fn)(t_annotated *a);
struct t_annotated {
    t_scene s;
    ph_tape *tape; /* the scene's */
    ph_tensor *x;  /* a leaf of 8 elements that requires a gradient */
    ph_graph *graph;
    t_annotated_fn body;
    t_annotated_fn check; /* of a sweep */
    bool keep_history;    /* after the capture: the test clears the tape */
    void *user;
};

static inline void t_annotated_open(t_annotated *a)
{
    *a = (t_annotated){.user = NULL};
    t_scene_open(&a->s);
    a->tape = a->s.tape;
    a->x = t_leaf(&a->s, PH_SHAPE(8), 0, 1, 2, 3, 4, 5, 6, 7);
}

static inline void t_annotated_close(t_annotated *a)
{
    assert_int_equal(ph_annotation_depth(), 0);
    assert_ok(ph_tape_clear(a->tape));
    ph_graph_destroy(a->graph);
    ph_tensor_release(a->x);
    t_scene_close(&a->s);
}

static inline ph_status t_annotated_body(ph_stream *stream, void *user)
{
    t_annotated *a = user;
    (void)stream;
    a->body(a);
    return a->keep_history ? ph_tape_status(a->tape) : ph_tape_clear(a->tape);
}

static inline ph_status t_capture_into(ph_graph *graph, t_annotated *a, t_annotated_fn body,
                                       bool annotated, ph_pool *pool)
{
    a->body = body;
    return ph_graph_capture(graph, a->s.stream,
                            &(ph_capture_options){.enable_annotations = annotated, .pool = pool},
                            t_annotated_body, a);
}

/* For bodies: the gradient of y's sum for x, without accumulation. */
static inline void t_grad_of(t_annotated *a, ph_tensor *y)
{
    ph_tensor *grad, *loss = ph_sum(a->tape, y);
    ph_grad(a->tape, &grad, &a->x, 1, &loss, NULL, 1, NULL);
}

/* Into a->graph, which replaces the one before. */
static inline void t_annotate(t_annotated *a, t_annotated_fn body)
{
    ph_graph_destroy(a->graph);
    assert_ok(ph_graph_create(&a->graph, NULL));
    assert_ok(t_capture_into(a->graph, a, body, true, NULL));
    assert_int_equal(ph_annotation_depth(), 0);
}

/* ---- sweeps ---- of captures of one body into a->graph, when what is made once is there. A
 * capture that succeeds is given to `check`, and none, failed or not, leaves a scope open. */
static inline ph_status t_annotated_run(void *user)
{
    t_annotated *a = user;
    return t_capture_into(a->graph, a, a->body, true, NULL);
}

static inline void t_annotated_reset(ph_status status, void *user)
{
    t_annotated *a = user;
    assert_int_equal(ph_annotation_depth(), 0);
    if (status == PH_OK)
        a->check(a);
    ph_ignore(ph_tape_clear(a->tape));
    assert_ok(ph_graph_reset(a->graph));
}

static inline t_faults t_sweep_annotated(t_annotated *a, t_annotated_fn body, t_annotated_fn check,
                                         const t_fault *fault)
{
    const t_swept swept = {
        .name = "annotations", .run = t_annotated_run, .reset = t_annotated_reset, .user = a};
    t_annotate(a, body);
    a->check = check;
    t_annotated_reset(PH_OK, a);
    return t_sweep(&swept, fault);
}
#endif
