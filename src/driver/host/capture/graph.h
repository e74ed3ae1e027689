/* SPDX-License-Identifier: MIT */
/* driver/host/capture/graph.h: template graphs of the host device: nodes, node sets. For the
 * capture, graph and executable files alone. */
#ifndef PH_DRIVER_HOST_CAPTURE_GRAPH_H
#define PH_DRIVER_HOST_CAPTURE_GRAPH_H
#include "driver/host/resource/event.h"
#include "driver/host/resource/kernel.h"

typedef struct ph__host_graph ph__host_graph;
typedef struct ph__host_node ph__host_node;

/* The parameters of event nodes. marker: what an EVENT_RECORD signals, or an EVENT_WAIT waits
 * for (NULL: nothing); the launch binds it and puts it there when its turn comes; the node
 * releases it. */
typedef struct ph__host_event_args {
    ph__host_event *event;
    ph__host_marker *marker;
} ph__host_event_args;

/* The work of a node, in one shape for all kinds: args are a kernel's bytes, or the struct of the
 * kind (ph__drv_memcpy, ph__drv_memset, ph__drv_host, ph__host_event_args). */
typedef struct ph__host_work {
    ph_node_kind kind;
    ph__host_kernel *kernel; /* kernels */
    ph__host_graph *body;    /* child graphs: the node's own copy, finished */
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    const void *args;
    size_t args_size;
    bool dst_on_device, src_on_device; /* memcpy: what an update must not change */
} ph__host_work;

/* Immutable once it is in its graph, but for mark and has_dependents. In an executable a node
 * has one slot; a child graph's has one before those of its body and one after, which is this
 * one. */
struct ph__host_node {
    ph__host_graph *graph;
    ph__drv_node *self; /* the array of the set that holds this node alone */
    size_t index;
    size_t slot;         /* counted from the first of its graph */
    bool has_dependents; /* under capture_lock while the graph is capturing */
    uint64_t mark;       /* visited by the walk of this number; under capture_lock */
    /* of a set, that it was put into last, and where there; NULL: into none */
    struct ph__host_set_block *put_into;
    size_t put_at;
    ph__host_work work; /* args point behind the node */
    ph__drv_node *const *dependencies;
    size_t dependency_count;
};

struct ph__host_graph {
    ph__host_device *device;
    bool capturing;          /* under construction: belongs to its capture; under capture_lock */
    ph__host_node_set nodes; /* in order of creation, which is topological */
    struct ph__host_set_block *blocks;
    uint64_t last_mark;
    size_t slot_count;
    size_t bytes; /* of host memory, bodies included; under capture_lock while capturing */
};

static inline ph__host_node *ph__host_node_of(ph__drv_node *node)
{
    return (ph__host_node *)node;
}
static inline ph__host_graph *ph__host_graph_of(ph__drv_graph *graph)
{
    return (ph__host_graph *)graph;
}

/* NULL when out of memory. */
ph__host_graph *ph__host_graph_create(ph__host_device *device);
bool ph__host_graph_is_capturing(ph__host_graph *graph); /* takes capture_lock */
/* Appends a node; copies the parameters, retains kernel or event, takes the body over. NULL when
 * out of memory; the graph is as it was. While capturing under capture_lock. */
ph__host_node *ph__host_graph_add(ph__host_graph *graph, const ph__host_work *work,
                                  const ph__host_node_set *dependencies);
/* The set of one node: needs no memory. */
ph__host_node_set ph__host_set_of(ph__host_node *node);
/* The nodes of graph that have the indices of those of another's. False when out of memory. */
bool ph__host_set_translate(ph__host_graph *graph, ph__host_node_set *out,
                            ph__drv_node *const *from, size_t count);
/* Adds what is not in it yet. False when out of memory; the set is as it was. Under
 * capture_lock. */
bool ph__host_set_unite(ph__host_graph *graph, ph__host_node_set *set,
                        const ph__host_node_set *other);
/* Marks a set's nodes and all that they depend on; *mark is what node->mark then is. Allocates
 * nothing. Under capture_lock. */
uint64_t ph__host_graph_mark_ancestors(ph__host_graph *graph, const ph__host_node_set *set);

#endif
