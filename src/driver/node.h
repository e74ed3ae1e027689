/* SPDX-License-Identifier: MIT */
/* driver/node.h: the library's own kernels, and the structs that entries of captures, graphs and
 * executables take. */
#ifndef PH_DRIVER_NODE_H
#define PH_DRIVER_NODE_H
#include "driver/types.h"

/* The arguments of a root node of a capture with cells: at replay count words are written,
 * pair by pair. The struct ends with the last pair that the kernel has room for. */
typedef struct ph__drv_cell {
    uint64_t *at;
    uint64_t value;
} ph__drv_cell;
typedef struct ph__drv_cells {
    uint64_t count;
    ph__drv_cell cells[];
} ph__drv_cells;
/* The writers that there are. */
enum {
    PH__CELLS_FEW = 8,
    PH__CELLS_MANY = 60,
    PH__CELLS_BLOCK = 64 /* threads that each is launched with, in one block */
};
static inline size_t ph__cells_args_size(unsigned room)
{
    return sizeof(ph__drv_cells) + room * sizeof(ph__drv_cell);
}

/* The kernels of probe nodes, and their arguments. They write pinned host
 * memory, in words that are read while they run; where the arguments name none they do nothing.
 * A tick is a number that is greater than all that were taken before on the device; never 0. */
typedef enum ph__probe_kernel {
    PH__PROBE_BREADCRUMB = 0, /* one thread: table[number] = a tick */
    /* any grid of blocks of PH__FINITE_BLOCK threads: each block has a part, whose tick is
     * written last */
    PH__PROBE_FINITE = 1
} ph__probe_kernel;
enum {
    PH__PROBE_KERNELS = 2,
    PH__FINITE_BLOCK = 1024,
    PH__FINITE_PARTS = 128 /* blocks, at most: each goes on after them */
};
typedef struct ph__drv_breadcrumb {
    uint64_t *table;
    uint64_t number;
} ph__drv_breadcrumb;
typedef struct ph__drv_finite_part {
    uint64_t tick, bad, first, bits; /* bits: of the first one */
} ph__drv_finite_part;
typedef struct ph__drv_finite {
    const void *address; /* a multiple of the number's size */
    uint64_t count;
    uint32_t type;   /* ph_number_type */
    uint32_t number; /* of the check, for whoever reads the record */
    ph__drv_finite_part *parts;
} ph__drv_finite;

/* A node as it stands in a template. Pointers are borrowed from the graph. */
typedef struct ph__drv_node_info {
    ph_node_kind kind;
    ph__drv_kernel *kernel; /* of our own loading; NULL for a foreign one */
    const char *kernel_name;
    /* kernels that are not of our loading: what tells them apart, names being no proof */
    const void *code;
    /* kernels; args of args_size bytes: every parameter at its offset, however it was launched */
    ph__drv_launch launch;
    size_t args_size;
    /* parts of a copy or fill that no update can change, beyond the other members: equal words for
     * equal things; NULL: none, or not known. Static */
    const char *form;
    bool strided; /* copies and fills: rows, planes or an array, so that no exec_set_* takes it */
    ph__drv_rows to, from; /* of those */
    /* memory nodes: the address they give or take back, and its bytes (0: not known) */
    void *memory;
    size_t memory_bytes;
    void *const *op_addresses; /* batch memory operations: of each, NULL where it has none */
    size_t op_count;
    ph__drv_memcpy copy;
    ph__drv_memset fill;
    ph__drv_host host;
    ph__drv_event *event; /* event nodes */
    ph__drv_graph *body;  /* child graphs */
    ph__drv_node *const *dependencies;
    const ph_edge_kind *dependency_kinds; /* one for each dependency; NULL: all PH_EDGE_FULL */
    size_t dependency_count;
} ph__drv_node_info;

/* A copy, a fill or a child graph of a template, and what it addresses. */
typedef struct ph__drv_copied {
    bool found; /* false: there are no more */
    ph_node_kind kind;
    const void *dst, *src; /* NULL: none, or an array */
    ph__drv_graph *body;   /* of a child graph */
} ph__drv_copied;

/* The memory of an executable: of the device measured around its making, and around its upload by
 * exec_upload, so that other allocations of that moment may be in it. */
typedef struct ph__drv_memory {
    uint64_t device_bytes, host_bytes;
} ph__drv_memory;

/* When a node ran in one launch. Start and end are nanoseconds of one clock. */
typedef struct ph__drv_span {
    ph__drv_node *node; /* of the template */
    uint64_t start_ns, end_ns;
} ph__drv_span;

typedef struct ph__drv_capture {
    ph_capture_status status;
    uint64_t id;
    ph__drv_graph *graph; /* under construction; borrowed; NULL when not ACTIVE */
    /* the dependencies of the next node on this stream; borrowed until the stream's next call */
    ph__drv_node *const *dependencies;
    size_t dependency_count;
} ph__drv_capture;

typedef struct ph__drv_update {
    ph_update_reason reason;
    ph__drv_node *node,
        /* of the executable's template and of the new graph; NULL when no single one is to blame */
        *from_node;
    char message[256];
} ph__drv_update;

enum {
    PH__INSTANTIATE_AUTO_FREE_ON_LAUNCH = 1,
    PH__INSTANTIATE_USE_NODE_PRIORITY = 8,
    /* no number of CUDA's: exec_upload or the first launch uploads it */
    PH__INSTANTIATE_DEFER_UPLOAD = 1 << 16
};
#endif
