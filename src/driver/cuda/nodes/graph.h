/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/graph.h: the node cache of a graph.
 *
 * It keeps what is known of the nodes of a captured or imported graph, or of one under
 * construction. Nodes that this library submitted are kept as they are made; others are read
 * back when they are first asked for. All of a cache lies in blocks that go with the graph.
 * Functions with _locked want the device's `cache_lock` held. */
#ifndef PH_DRIVER_CUDA_NODES_GRAPH_H
#define PH_DRIVER_CUDA_NODES_GRAPH_H
#include "base/map.h"
#include "base/vec.h"
#include "driver/cuda/load/device.h"
#include "driver/cuda/load/layouts.h"
#include "driver/driver.h"

/* A submission of this library to a capture: a launch, of which a node is made where somebody asks
 * for it, or the node of anything else. */
typedef struct ph__cuda_submitted {
    ph__drv_node *node; /* NULL: not made yet */
    ph__drv_kernel *kernel;
    size_t shared_bytes;
    uint32_t grid[3], block[3];
    _Alignas(max_align_t) unsigned char args[]; /* kernel->args_size */
} ph__cuda_submitted;
struct ph__drv_node {
    ph__drv_graph *graph;
    ph__drv_node *self; /* itself: the list of dependencies of whoever depends on this node alone */
    ph__cu_node handle;
    size_t index;   /* in the graph's list, once listed */
    bool has_kind;  /* info.kind is known */
    bool has_links; /* its dependencies were read of it alone, before the graph was linked */
    /* the members below are complete and final: in a graph under construction all, in others but
     * for what it depends on, which is read of all nodes at once (list.h) */
    atomic_bool decoded;
    /* a launch of the core's fill kernel, which stands for a memset */
    bool is_core_fill;
    bool is_lowered;               /* a memset node in the capture, and is_core_fill since */
    bool is_plain_copy;            /* contiguous, between addresses */
    bool is_rows_fill;             /* a memset of several rows, which only other code captures */
    int src_type, dst_type;        /* of plain copies: PH__CU_MEMORY_* */
    const ph__cuda_layout *layout; /* kernels that were read back; among the cache's layouts */
    ph__drv_node_info info;
};
struct ph__drv_graph {
    ph__drv_device *device;
    ph__cu_graph handle;
    /* destroyed with it; false for bodies and for graphs under construction */
    bool owned;
    bool capturing; /* under construction: the driver's list grows */
    /* handles.h: the driver's list; kinds: of each, ph_node_kind, NULL: not asked yet. submitted:
     * each of them is the submission of that index. */
    bool read, submitted;
    ph__cu_node *handles;
    size_t handle_count;
    unsigned char *kinds;
    bool copies;              /* some of them are copies, fills or child graphs */
    atomic_bool listed;       /* `nodes` has the node of each handle */
    atomic_bool linked;       /* each of `nodes` has its kind and its dependencies */
    atomic_bool has_launches; /* the parameters of a kernel were read back */
    /* how many kernels the device had when the list was read; later ones are of no node here */
    uint64_t kernels;
    ph__map by_handle;  /* CUgraphNode -> ph__drv_node */
    ph__drv_node *last; /* the node of the last look-up, mostly a dependency of the next one */
    PH__VEC(ph__cuda_submitted *) submissions; /* in order */
    bool submissions_lost;                     /* one could not be kept */
    bool unmapped; /* nodes are put into by_handle when all are listed */
    /* capture/position.c, nodes/positions.c: where in `frontiers` each position begins; resolved:
     * how many nodes had been made there. frontiers: what streams stood behind. Under the order
     * while the capture is open, then as the rest. */
    bool resolved;
    PH__VEC(size_t) positions;
    PH__VEC(ph__cu_node) frontiers;
    PH__VEC(ph__drv_node *) nodes;   /* in the driver's order */
    PH__VEC(ph__drv_graph *) bodies; /* of child graphs: go with it */
    /* the dependencies that capture_get returned last, where there was more than one */
    ph__drv_node *const *lent;
    size_t lent_count;
    ph__map layouts; /* CUfunction or CUkernel -> ph__cuda_layout, retained */
    struct ph__cuda_block *blocks;
    size_t block_bytes; /* of all blocks */
};
/* NULL: no host memory. The CUgraph stays the caller's then. */
ph__drv_graph *ph__cuda_graph_create(ph__drv_device *device, ph__cu_graph handle, bool owned);
/* The node of a handle, or NULL: it was never met. */
ph__drv_node *ph__cuda_graph_find_locked(ph__drv_graph *graph, ph__cu_node handle);
/* The node of a handle, made when it was not met before; NULL: no host memory. */
ph__drv_node *ph__cuda_graph_node_locked(ph__drv_graph *graph, ph__cu_node handle);

/* Memory that lives as long as the node cache, aligned for any type; NULL: none. */
void *ph__cuda_graph_room_locked(ph__drv_graph *graph, size_t bytes);
void *ph__cuda_graph_room(ph__drv_graph *graph, size_t bytes);

/* The dependencies of a node, as the driver has them. */
typedef struct ph__cuda_links {
    size_t count;
    ph__cu_node *nodes; /* in `few` or in `more` */
    ph__cu_edge *edges; /* NULL: all plain */
    ph__cu_node few[4];
    ph__cu_edge few_edges[4];
    void *more;
} ph__cuda_links;
/* Reads a node's edges; on success `links` is to be freed. CUDA's number. */
int ph__cuda_links_read(ph__cuda_links *links, ph__cu_node node);
void ph__cuda_links_free(ph__cuda_links *links);
/* Puts them into info's dependencies; false: no host memory. */
bool ph__cuda_graph_link_locked(ph__drv_graph *graph, ph__drv_node_info *info,
                                const ph__cuda_links *links);
#endif
