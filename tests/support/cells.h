/* SPDX-License-Identifier: MIT */
/* tests/support/cells.h: a graph whose body reads the cells of some sources, and what the
 * sources were asked and told. */
#ifndef PH_TESTS_CELLS_H
#define PH_TESTS_CELLS_H
#include "support/support.h"

enum {
    CS_MOST = 100, /* sources */
    CS_BLOCK = 512 /* bytes of memory a cell takes */
};

/* What a source was asked and told. */
typedef struct cs_source {
    uint64_t next; /* value of its first cell; the others follow, 100 apart */
    uint64_t step; /* of next, after each replay that went out */
    size_t count;
    int asked, out, stopped, captured, released;
    ph_status fails;
} cs_source;

typedef struct cs_plan {
    ph_stream *fork;       /* NULL: none */
    bool fork_first;       /* before the first cell; else after */
    bool create_on_fork;   /* the fork makes the cells */
    size_t sources, count; /* cells of each */
} cs_plan;

typedef struct cs_scene {
    t_world world;
    ph_stream *side;
    ph_graph *graph;
    uint64_t *y; /* where a graph puts the cells' values: from the origin, then from the fork */
    cs_source sources[CS_MOST];
    uint64_t *cells[CS_MOST][PH_CELLS_MAX];
} cs_scene;
extern cs_scene cs;

/* Set-up and tear-down of a test: first values are 1000, 2000, and so on, steps 1. */
int cs_open(void **state);
int cs_close(void **state);

ph_status cs_values(uint64_t *values, void *source);
/* The cells of one source; of the plan's sources. */
ph_status cs_make_of(uint64_t **out, ph_stream *stream, cs_source *source);
ph_status cs_make(const cs_plan *plan, ph_stream *stream);
/* The body of a capture: makes the plan's cells and copies each to y. */
ph_status cs_body(ph_stream *stream, void *plan);
/* Fails unless every cell was as its source had it before the last replay. */
void cs_check(const cs_plan *plan, ph_stream *stream, int forks);
#endif
