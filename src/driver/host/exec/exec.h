/* SPDX-License-Identifier: MIT */
/* driver/host/exec/exec.h: executables of the host device. For the executable files alone.
 *
 * Two sets of parameters: the front is what the API has set; an image has a compiled plan and
 * the parameters that its last launch ran with. Setting changes the front and notes the node. A
 * launch hands what changed to the image: at once when nothing is in flight, else as patches
 * that it carries and applies when its turn comes. So launches in flight keep what they had, and
 * a change costs what it changes. What an image cannot take in place (more argument bytes or
 * shared memory, another event) gets a new image; the old one goes with its last launch. */
#ifndef PH_DRIVER_HOST_EXEC_EXEC_H
#define PH_DRIVER_HOST_EXEC_EXEC_H
#include "driver/host/capture/graph.h"

typedef struct ph__exec_slot {
    uint32_t index;
    ph_node_kind kind;
    bool enabled;
    bool brief; /* ph__plan_node.brief */
    bool dirty; /* front: noted in exec->dirty */
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
    size_t shared_max; /* that the plan has room for; under the executable's lock */
} ph__exec_image;

typedef struct ph__exec_launch ph__exec_launch;
struct ph__exec_launch {
    ph__host_command command; /* first */
    ph__exec_launch *next;    /* spare ones */
    ph__host_exec *exec;
    ph__exec_image *image;
    ph__host_stream *stream;
    /* signalled at the end; only when another stream's launch waits for this one */
    ph__host_marker *marker;
    ph__exec_slot *patches;             /* their arguments lie behind them */
    size_t patch_count, patch_capacity; /* capacity in bytes */
    /* of the event nodes, in order: bound at the launch, as CUDA does */
    ph__host_marker *markers[];
};

struct ph__host_exec {
    ph__host_device *device;
    /* the template, which names the nodes; not touched once the executable was destroyed */
    ph__host_graph *graph;
    pthread_mutex_t lock; /* before a stream's; not held while the plan runs */
    ph__exec_params *front;
    ph__exec_image *image; /* of the next launch */
    uint32_t *dirty;       /* slots of the front that differ from what the newest launch has */
    size_t dirty_count;
    ph__exec_launch *last; /* the newest launch while it is in flight; NULL: none is */
    size_t in_flight;
    ph__exec_launch *spare;
    size_t launch_bytes; /* of all launches, spare or in flight */
    bool destroyed;
};

/* ---- parameters (host_params.c) ---- */
/* What a node of a template is as the slot of that number; args are borrowed from the node. A
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
bool ph__exec_slot_takes(const ph__exec_slot *to, const ph__exec_slot *from);
void ph__exec_slot_assign(ph__exec_slot *to,
                          /* what it takes; index, enabled, dirty, arena stay */
                          const ph__exec_slot *from);

/* ---- images (host_params.c) ---- */
ph__exec_image *ph__exec_image_create(const ph__host_exec *exec,
                                      /* one reference; NULL: out of memory */
                                      const ph__exec_params *params);
void ph__exec_image_free(ph__exec_image *image); /* takes NULL */
/* Brings one slot up to date for later runs. False: out of memory. */
bool ph__exec_image_apply(ph__exec_image *image, const ph__exec_slot *from);

/* ---- the event nodes of a launch (host_event_node.c) ---- under the executable's lock ---- */
/* Binds what the launch waits for and makes what it will signal: 0, or 2 and nothing is held. */
int ph__exec_take_markers(ph__exec_launch *launch, ph__host_stream *stream);
void ph__exec_drop_markers(ph__exec_launch *launch);
/* From now on the events stand for this launch. */
void ph__exec_install_records(const ph__exec_launch *launch);

/* ---- the executable (host_exec.c) ---- */
/* The front's slot of that index has changed. */
void ph__exec_note(ph__host_exec *exec, size_t index);
/* Puts another image and front in place; what they replace is freed, an image in flight by its
 * last launch. */
void ph__exec_replace(ph__host_exec *exec, ph__exec_params *front, ph__exec_image *image);
#endif
