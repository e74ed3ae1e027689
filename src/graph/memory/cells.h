/* SPDX-License-Identifier: MIT */
/* graph/memory/cells.h: the cells of a graph. cells.c makes them in a capture, cells_replay.c
 * gives them their values. */
#ifndef PH_GRAPH_MEMORY_CELLS_H
#define PH_GRAPH_MEMORY_CELLS_H
#include "graph/object/graph.h"
#include "record/words.h"

enum {
    PH__CELL_BYTES = 512 /* a block of the allocator */
};

/* A node of the template that nothing comes before, and that writes some of the cells. */
typedef struct ph__cells_root {
    ph__drv_node *node;
    ph__drv_cells *args; /* of the next replay; its cells stay where they are */
    size_t index;        /* in the record */
    bool due;            /* the executable has not got them yet */
} ph__cells_root;

/* Until the capture's end under the device's capture_lock. The first PH__CELLS_FEW cells belong
 * to the first root, each further PH__CELLS_MANY to the next. */
struct ph__cells {
    PH__VEC(ph_cells_source) sources; /* their cells follow one another */
    PH__VEC(ph__cells_root) roots;
    size_t count; /* cells */
    /* id of a stream -> as many roots, from the first on, does its work come after */
    ph__map ordered;
    ph__drv_event *given; /* behind all that used their memory before; NULL: not yet */
};

static inline unsigned ph__cells_room(size_t root)
{
    return root == 0 ? PH__CELLS_FEW : PH__CELLS_MANY;
}
/* How many roots so many cells take. */
static inline size_t ph__cells_roots(size_t count)
{
    if (count <= PH__CELLS_FEW)
        return count > 0;
    return 1 + (count - PH__CELLS_FEW + PH__CELLS_MANY - 1) / PH__CELLS_MANY;
}
static inline ph__drv_cell *ph__cells_at(const ph__cells *cells, size_t cell)
{
    if (cell < PH__CELLS_FEW)
        return &cells->roots.at[0].args->cells[cell];
    size_t beyond = cell - PH__CELLS_FEW;
    return &cells->roots.at[1 + beyond / PH__CELLS_MANY].args->cells[beyond % PH__CELLS_MANY];
}
void ph__cells_launch(ph__drv_launch *out, const ph__drv_cells *args);

/* Before the driver's end of the capture. */
void ph__cells_join(ph_graph *graph);
/* The cells are the graph's own memory. false: no host memory. */
bool ph__cells_add_ranges(ph__ranges *ranges, const ph_graph *graph);
/* The record has the addresses that the template has not. */
void ph__cells_record(ph_graph *graph, const ph__own_memory *own);
bool ph__cells_meet(const ph_graph *graph, const void *address, size_t bytes);
bool ph__cells_are_written_by(const ph_graph *graph, size_t node);
size_t ph__cells_bytes(const ph_graph *graph);
/* Gives the memory back and releases the sources. */
void ph__cells_drop(ph_graph *graph);
#endif
