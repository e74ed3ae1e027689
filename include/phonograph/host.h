/* SPDX-License-Identifier: MIT */
/* phonograph/host.h: handles of the host device, as cuda.h has CUDA's, and calls that read them. On
 * other devices ph_graph_host and ph_graph_exec_host return UNSUPPORTED, after the same checks of
 * state. */
#ifndef PHONOGRAPH_HOST_H
#define PHONOGRAPH_HOST_H
#include <phonograph/inspect/record.h>

PH_BEGIN_DECLS
typedef struct ph_host_graph ph_host_graph;
typedef struct ph_host_node ph_host_node;
typedef struct ph_host_exec ph_host_exec; /* opaque: no call takes one */

/* ph_graph_host needs keep_graph, or a capture-end hook. ph_graph_exec_host needs an executable.
 * Borrowed, until the next instantiate or reset. */
PH_CALL ph_graph_host(ph_host_graph **out, ph_graph *graph);
PH_CALL ph_graph_exec_host(ph_host_exec **out, ph_graph *graph);

/* As cuGraphGetNodes: sets *count to the number of nodes, and writes at most capacity of them, in
 * order of creation. nodes may be NULL for capacity 0. Nodes are borrowed, and live as long as the
 * raw graph. ARGUMENT: a NULL handle. Thread-safe, legal in a capture. */
PH_CALL ph_host_graph_nodes(ph_host_node **nodes, size_t capacity, size_t *count,
                            ph_host_graph *graph);
PH_CALL ph_host_node_kind(ph_node_kind *out, ph_host_node *node);
PH_CALL ph_host_node_dependencies(ph_host_node **nodes, size_t capacity, size_t *count,
                                  ph_host_node *node);
PH_END_DECLS
#endif
