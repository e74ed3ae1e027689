/* SPDX-License-Identifier: MIT */
/* phonograph/host.h: the host device's own handles, as cuda.h has CUDA's, and calls that read
 * them. On other devices ph_graph_host and ph_graph_exec_host answer UNSUPPORTED (after the same
 * checks of state). */
#ifndef PHONOGRAPH_HOST_H
#define PHONOGRAPH_HOST_H
#include <phonograph/inspect/record.h>

PH_BEGIN_DECLS
typedef struct ph_host_graph ph_host_graph;
typedef struct ph_host_node ph_host_node;
typedef struct ph_host_exec ph_host_exec; /* opaque: no call takes one */

/* ph_graph_host needs keep_graph, or to be inside a capture-end hook; ph_graph_exec_host needs an
 * executable. Borrowed, valid until the next instantiate or reset. */
PH_CALL ph_graph_host(ph_host_graph **out, ph_graph *graph);
PH_CALL ph_graph_exec_host(ph_host_exec **out, ph_graph *graph);

/* As cuGraphGetNodes: *count nodes in order of creation; at most capacity written. nodes may be
 * NULL for capacity 0. Nodes are borrowed: they live as long as the raw graph. ARGUMENT for NULL
 * handles. Thread-safe, legal in a capture. */
PH_CALL ph_host_graph_nodes(ph_host_node **nodes, size_t capacity, size_t *count,
                            ph_host_graph *graph);
PH_CALL ph_host_node_kind(ph_node_kind *out, ph_host_node *node);
PH_CALL ph_host_node_dependencies(ph_host_node **nodes, size_t capacity, size_t *count,
                                  ph_host_node *node);
PH_END_DECLS
#endif
