/* SPDX-License-Identifier: MIT */
/* bench/annotate.h: the shapes of scopes that both annotation benchmarks capture. */
#ifndef BENCH_ANNOTATE_H
#define BENCH_ANNOTATE_H
#include <phonograph/phonograph.h>
#include <stdio.h>

enum {
    ANNOTATE_NODES = 1000,
    ANNOTATE_DEPTH = 10 /* of the nested ones */
};
typedef enum annotate_shape {
    ANNOTATE_ONE_SCOPE, /* around all nodes */
    /* 100 scopes: ten towers of ten, a node at each step up and down, the rest at the top */
    ANNOTATE_NESTED,
    /* 100 scopes of ten nodes, one after the other, each with a name and a number */
    ANNOTATE_SEQUENTIAL,
    ANNOTATE_SHAPES
} annotate_shape;
static const char *const annotate_names[ANNOTATE_SHAPES] = {"1 scope", "100 nested",
                                                            "100 in a row"};

typedef ph_status annotate_launch_fn(void *user, int i);

static inline ph_status annotate_tower(ph_stream *stream, annotate_launch_fn *launch, void *user,
                                       int from, int nodes)
{
    int next = from;
    for (int level = 0; level < ANNOTATE_DEPTH; level++) {
        PH_TRY(ph_annotation_push(stream, "level", NULL));
        PH_TRY(launch(user, next++));
    }
    while (next < from + nodes - ANNOTATE_DEPTH)
        PH_TRY(launch(user, next++));
    for (int level = 0; level < ANNOTATE_DEPTH; level++) {
        PH_TRY(launch(user, next++));
        PH_TRY(ph_annotation_pop(stream));
    }
    return PH_OK;
}

static inline ph_status annotate_row(ph_stream *stream, annotate_launch_fn *launch, void *user,
                                     int from, int nodes)
{
    const ph_annotation_pair layer = {
        .key = "layer", .type = PH_ANNOTATION_INTEGER, .integer = from / nodes};
    const ph_annotation_options options = {.pairs = &layer, .count = 1};
    PH_TRY(ph_annotation_push(stream, "layer", &options));
    for (int i = from; i < from + nodes; i++)
        PH_TRY(launch(user, i));
    return ph_annotation_pop(stream);
}

static inline ph_status annotate_work(ph_stream *stream, annotate_shape shape,
                                      annotate_launch_fn *launch, void *user)
{
    if (shape == ANNOTATE_ONE_SCOPE)
        return annotate_row(stream, launch, user, 0, ANNOTATE_NODES);
    int each = shape == ANNOTATE_NESTED ? ANNOTATE_NODES / 10 : ANNOTATE_NODES / 100;
    for (int from = 0; from < ANNOTATE_NODES; from += each)
        PH_TRY(shape == ANNOTATE_NESTED ? annotate_tower(stream, launch, user, from, each)
                                        : annotate_row(stream, launch, user, from, each));
    return PH_OK;
}
#endif
