/* SPDX-License-Identifier: MIT */
/* phonograph/inspect/changes.h: how often an executable was changed, and which of its nodes that
 * made slower. */
#ifndef PHONOGRAPH_INSPECT_CHANGES_H
#define PHONOGRAPH_INSPECT_CHANGES_H
#include <phonograph/graph.h>

PH_BEGIN_DECLS

/* Of the graph's present executable, since it was made. */
typedef struct ph_graph_changes {
    /* by its making, ph_graph_upload, the first replay, or the first change where none of these
     * came before; counted on the host device, too, which uploads nothing */
    uint64_t uploads;
    uint64_t updates; /* by ph_graph_update, where it succeeded */
    uint64_t sets;    /* launches by ph_graph_node_set_launch */
    /* Kernel nodes whose grid or block an update or ph_graph_node_set_launch changed. A GPU replays
     * such an executable slower for good, as measured on an H200 (docs/guide/cuda.md). A new
     * ph_graph_instantiate, or a new capture, makes it fast again. */
    size_t demoted;
    /* Further kernel nodes for which this is not known: two updates followed one another, and
     * nobody asked after the first one. For kernels that this library loaded it is always known. */
    size_t untold;
    uint64_t reserved[4];
} ph_graph_changes;

/* Reads the changes, of the graph's own nodes: not of those in child graphs.
 * - Reads grids and blocks of the last update back from the driver, where they are not known yet.
 *   Ask after each update for exact numbers.
 * - All 0 where there is no executable yet (ENDED).
 * - ARGUMENT: NULL. STATE: nothing was captured, or the capture is open. FAILED: the capture's own
 *   status and message. DEVICE: the driver does not show a node.
 * - Never disturbs a capture. */
PH_CALL ph_graph_get_changes(ph_graph_changes *out, ph_graph *graph);

PH_END_DECLS
#endif
