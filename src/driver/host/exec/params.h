/* SPDX-License-Identifier: MIT */
/* driver/host/exec/params.h: the parameters of an executable's nodes, and images of them. */
#ifndef PH_DRIVER_HOST_EXEC_PARAMS_H
#define PH_DRIVER_HOST_EXEC_PARAMS_H
#include "driver/host/capture/graph.h"
#include "driver/host/plan/plan.h"

typedef struct ph__host_exec ph__host_exec; /* exec.h */

typedef struct ph__exec_slot {
    uint32_t index;
    ph_node_kind kind;
    bool enabled;
    bool is_inline; /* ph__plan_node.is_inline */
    bool dirty;     /* params: noted in exec->dirty */
    ph_host_kernel_fn fn;
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    void *args; /* of the kind's struct or the kernel's; in the set's arena */
    size_t args_size, args_capacity;
} ph__exec_slot;

typedef struct ph__exec_params {
    size_t count, event_count; /* slots; those of event nodes */
    size_t bytes;              /* of all this */
    unsigned char *arena;
    ph__exec_slot slots[];
} ph__exec_params;

typedef struct ph__exec_image {
    unsigned references; /* the executable's and one a launch; under the executable's lock */
    /* belong to the running launch; under the lock only sizes and events may be read */
    ph__exec_params *params;
    ph__plan *plan;
    /* the largest shared memory that the plan has room for; under the executable's lock */
    size_t shared_max;
} ph__exec_image;

/* ---- parameters ---- */
/* Describes a node of a template as the slot of that number; args are borrowed from the node. A
 * child graph's node is two slots that do nothing. */
void ph__exec_slot_view(ph__exec_slot *out, const ph__host_node *node, size_t slot);
/* Every slot of a template, those of its child graphs in their place, in order; stops and
 * returns false when visit does. first: 0. */
typedef bool ph__exec_visit(void *context, const ph__host_node *node, size_t slot);
bool ph__exec_each_slot(const ph__host_graph *graph, size_t first, ph__exec_visit *visit,
                        void *context);
ph__exec_params *ph__exec_params_of_graph(const ph__host_graph *graph); /* NULL: out of memory */
ph__exec_params *ph__exec_params_clone(const ph__exec_params *params);
void ph__exec_params_free(ph__exec_params *params); /* takes NULL */
/* its arguments, in place */
bool ph__exec_slot_accepts(const ph__exec_slot *to, const ph__exec_slot *from);
void ph__exec_slot_assign(ph__exec_slot *to,
                          /* the parameters to copy; index, enabled, dirty and arena stay */
                          const ph__exec_slot *from);

/* ---- images ---- */
ph__exec_image *ph__exec_image_create(const ph__host_exec *exec,
                                      /* one reference; NULL: out of memory */
                                      const ph__exec_params *params);
void ph__exec_image_free(ph__exec_image *image); /* takes NULL */
/* Brings one slot up to date for later runs. False: out of memory. */
bool ph__exec_image_apply(ph__exec_image *image, const ph__exec_slot *from);
#endif
