/* SPDX-License-Identifier: MIT */
/* phonograph/host.h: the host device's raw handles: what ph_graph_raw gives there can be read
 * with these. */
#ifndef PHONOGRAPH_HOST_H
#define PHONOGRAPH_HOST_H
#include <phonograph/record.h>

PH_BEGIN_DECLS
typedef struct ph_host_graph ph_host_graph;
typedef struct ph_host_node ph_host_node;

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
