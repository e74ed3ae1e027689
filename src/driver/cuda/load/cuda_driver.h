/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/cuda_driver.h: what the files of the CUDA driver share: the loaded functions and
 * the objects behind the handles. */
#ifndef PH_CUDA_DRIVER_H
#define PH_CUDA_DRIVER_H
#include "base/map.h"
#include "base/sync.h"
#include "base/vec.h"
#include "driver/cuda/load/abi.h"
#include "driver/driver.h"

/* ---- cuda_load.c ---- the driver's functions, all there once ph__cuda_load has answered 0;
 * OPTIONAL ones may be NULL. */
typedef struct ph__cuda_functions {
#define PH__CU(name, version, need, parameters) int(*name) parameters;
#include "driver/cuda/load/symbols.def"
#undef PH__CU
} ph__cuda_functions;
extern ph__cuda_functions ph__cu;

/* Loads libcuda and initialises it, once in the process; later calls answer what the first did,
 * and a failed one sets the reason again (driver_set_reason): no library, which symbol is
 * missing and which driver it needs, cuInit's answer. Loads nothing else. */
int ph__cuda_load(void);
/* The driver's version as cuDriverGetVersion counts (13000); 0 before a load. */
int ph__cuda_version(void);

/* ---- cuda_device.c ---- */
typedef struct ph__cuda_capture ph__cuda_capture; /* cuda_capture.c */

struct ph__drv_stream {
    ph__drv_device *device;
    ph__cu_stream handle; /* NULL: the legacy default stream */
    bool owned;           /* by this library: destroyed with it */
    /* the capture that it was last seen in: the driver does not tell once one is invalidated */
    _Atomic uint64_t capture_id;
    /* by calls on the stream; alone: a capture begins there, or takes it in */
    ph__shared_mutex calls;
    /* of a user's stream that was destroyed: behind its work; else NULL */
    ph__cu_event last;
    ph__drv_stream *next_leaving; /* destroyed, and its work not over yet */
    ph__drv_stream *next, **link; /* in the device's list; link NULL: in none */
};
struct ph__drv_event {
    ph__drv_device *device;
    ph__cu_event handle;
    /* last recorded in a capture: a stream that waits for it joins that one */
    atomic_bool captured;
};
struct ph__drv_device {
    uint32_t ordinal;
    ph__cu_device number;
    ph__cu_context context; /* the primary one, retained */
    ph__drv_stream legacy;
    ph__cu_stream upload; /* non-blocking: executables are uploaded over it */
    int capability;       /* 90 for 9.0 */
    uint32_t processors;
    size_t granularity;
    size_t shared_limit; /* dynamic shared memory that a block can opt into */
    /* Around whatever reads or changes a capture, while captures are open: what the driver lends
     * of a stream's place in it is valid until the stream's next call only, and adding a child
     * graph is no part of what CUDA makes safe against other threads that capture into the same
     * graph. ph__cuda_order_enter. */
    ph__spinlock order;
    /* `captures`, and what is known of the nodes of every graph; taken last of all locks */
    ph__spinlock pictures;
    /* by waits for the whole context; alone: a capture begins. As stream->calls */
    ph__shared_mutex idle;
    PH__VEC(ph__cuda_capture *) captures; /* that began here and have not ended */
    atomic_uint open_captures;            /* their number, readable without the lock */
    pthread_mutex_t lock;                 /* the members below */
    ph__map functions;                    /* CUfunction -> ph__drv_kernel of ours */
    /* destroyed kernels whose code is still loaded (cuda_kernel.c) */
    ph__drv_kernel *retired;
    _Atomic(struct ph__cuda_core *) core; /* cuda_core.c: made at the first use */
    /* not destroyed, but the legacy one; under the order, whether captures are open or not */
    ph__drv_stream *streams;
    ph__drv_stream *leaving; /* streams that were destroyed before their work was over */
};

/* Makes the device's context current where it is not, and puts back what was current. Around
 * every entry that needs one: all but those on an explicit stream (docs/guide/cuda.md says which).
 * enter: CUDA's number. */
typedef struct ph__cuda_scope {
    bool pushed;
} ph__cuda_scope;
static inline int ph__cuda_enter(ph__cuda_scope *scope, const ph__drv_device *device)
{
    ph__cu_context current;
    scope->pushed = false;
    int result = ph__cu.CtxGetCurrent(&current);
    if (result != PH__R_OK || current == device->context)
        return result;
    result = ph__cu.CtxPushCurrent(device->context);
    scope->pushed = result == PH__R_OK;
    return result;
}
static inline void ph__cuda_leave(const ph__cuda_scope *scope)
{
    ph__cu_context mine;
    if (scope->pushed)
        (void)ph__cu.CtxPopCurrent(&mine);
}

/* The thread's mode becomes relaxed around calls that are potentially unsafe and must not fail
 * for it. */
static inline int ph__cuda_relax(void)
{
    int mode = PH_CAPTURE_RELAXED;
    (void)ph__cu.ThreadExchangeStreamCaptureMode(&mode);
    return mode;
}
static inline void ph__cuda_unrelax(int mode)
{
    (void)ph__cu.ThreadExchangeStreamCaptureMode(&mode);
}

/* CUDA's own 2 means the GPU's memory as a rule; without words it would read as the host's. */
static inline int ph__cuda_tell_memory(int result)
{
    if (result == PH__R_OUT_OF_MEMORY)
        ph__driver_set_reason("the GPU has no memory left for it");
    return result;
}

/* ---- cuda_memory.c ---- what the driver's virtual memory calls want to know of memory of this
 * GPU. */
static inline ph__cu_allocation ph__cuda_allocation(const ph__drv_device *device)
{
    ph__cu_allocation what = {.type = PH__CU_ALLOCATION_TYPE_PINNED};
    what.location.type = PH__CU_LOCATION_TYPE_DEVICE;
    what.location.id = device->number;
    return what;
}

/* ---- cuda_stream.c ---- waits for the streams that are leaving, as the device closes. Under
 * its context, in relaxed mode. */
void ph__cuda_streams_close(ph__drv_device *device);

/* ---- cuda_kernel.c, cuda_unload.c ---- CUDA does not promise that cuModuleUnload waits for
 * launches in flight, so a destroyed kernel's code stays loaded until the device was idle once
 * after that (ph__cuda_synchronize), and a kept one's until the device closes. */
enum {
    PH__CUDA_LISTED_PARAMS = 16
};
struct ph__drv_kernel {
    ph__drv_device *device;
    ph__cu_module module; /* NULL: the user's function */
    ph__cu_function function;
    char *name;
    size_t args_size; /* of the argument struct, padding included */
    /* and where each begins in the struct, up to a number: changing a node by a list is cheaper */
    size_t param_count;
    uint16_t offsets[PH__CUDA_LISTED_PARAMS];
    size_t args_end;      /* where the last parameter ends: what a launch must name exactly */
    size_t shared_static; /* shared memory that its own variables take */
    /* dynamic shared memory that the function is set up for; at first what 48 KiB leave */
    atomic_size_t shared_set;
    atomic_bool keep;
    ph__drv_kernel *next; /* an older one of the same function, or the next retired one */
};
/* Makes room for a launch with that much dynamic shared memory; before every launch. Legal in a
 * capture. 1: more than the GPU has. */
int ph__cuda_kernel_prepare(ph__drv_kernel *kernel, size_t shared_bytes);
int ph__cuda_kernel_register(ph__drv_kernel *kernel); /* for kernel_of; 2 */
/* of one that is not registered and has no code */
void ph__cuda_kernel_free(ph__drv_kernel *kernel);
/* Of one that is not registered, so nothing ever ran it: its code goes at once, or with that of
 * destroyed ones while a capture is open, as tools that watch unloading (memcheck) do then what
 * invalidates a capture. Under the device's context, in relaxed mode. */
void ph__cuda_kernel_discard(ph__drv_kernel *kernel);
/* The kernel behind a function (the newest, where it was wrapped twice), or NULL. */
ph__drv_kernel *ph__cuda_kernel_of(ph__drv_device *device, ph__cu_function function);
/* Waits for all work of the context, as cuCtxSynchronize, and then unloads the kernels that had
 * been destroyed before and are not kept. */
int ph__cuda_synchronize(ph__drv_device *device);
/* When the device closes, idle: unloads what is left. */
void ph__cuda_kernels_close(ph__drv_device *device);

/* ---- cuda_core.c ---- the kernels of the library itself, from committed PTX (core_kernels.cu
 * is their source). fill: count elements of 1 or 4 bytes; args is what its node's parameters
 * hold. */
typedef struct ph__cuda_fill_args {
    uint64_t dst;
    uint32_t value, value_size; /* value of 1-byte elements: the byte */
    uint64_t count;
} ph__cuda_fill_args;
enum {
    PH__CUDA_FILL_LIMIT = 4096
}; /* bytes up to which a captured fill is a kernel: docs/guide/cuda.md says why */
/* The functions, loaded at the first use: that which fills, and those which write cells. */
int ph__cuda_core_fill(ph__cu_function *out, ph__drv_device *device);
int ph__cuda_core_cells(ph__cu_function *out, ph__drv_device *device, unsigned room);
int ph__cuda_core_watch(ph__cu_function *out, ph__drv_device *device, ph__watch_kernel which);
/* When the device opens. */
void ph__cuda_core_load(ph__drv_device *device);
/* Without loading: NULL when that failed. */
ph__cu_function ph__cuda_core_fill_if_loaded(ph__drv_device *device);
void ph__cuda_fill_dimensions(unsigned *grid, unsigned *block, const ph__cuda_fill_args *args);
void ph__cuda_core_close(ph__drv_device *device);

/* ---- cuda_graph.c ---- a captured or imported graph, or one under construction, with what is
 * known of its nodes: its picture. Nodes that this library submitted are noted as they are made;
 * others are read back when they are first asked for. All of a picture lies in blocks that go
 * with the graph. Functions with _locked want the device's `pictures` held. */
/* A kernel that was read back: what the driver calls it, and the places of its parameters in one
 * flat buffer. */
typedef struct ph__cuda_layout {
    ph__cu_function function; /* NULL: a kernel that belongs to no context */
    ph__cu_kernel kernel;
    ph__cu_context context;
    const char *name;
    size_t count, bytes; /* of parameters; where the last one ends */
    struct ph__cuda_param {
        size_t offset, bytes;
    } at[];
} ph__cuda_layout;
struct ph__drv_node {
    ph__drv_graph *graph;
    ph__drv_node *self; /* itself: the list of dependencies of whoever depends on this node alone */
    ph__cu_node handle;
    size_t index;        /* in the graph's list, once listed */
    atomic_bool decoded; /* what follows is whole and stays */
    /* a launch of the core's fill kernel, which stands for a memset */
    bool is_core_fill;
    bool is_plain_copy;            /* contiguous, between addresses */
    bool is_rows_fill;             /* a memset of several rows, which only other code captures */
    int src_type, dst_type;        /* of plain copies: PH__CU_MEMORY_* */
    const ph__cuda_layout *layout; /* kernels that were read back; in the picture's blocks */
    ph__drv_node_info info;
};
struct ph__drv_graph {
    ph__drv_device *device;
    ph__cu_graph handle;
    /* destroyed with it; false for bodies and for graphs under construction */
    bool owned;
    bool capturing;                /* under construction: the driver's list grows */
    bool listed;                   /* `nodes` is the driver's list */
    ph__map by_handle;             /* CUgraphNode -> ph__drv_node */
    ph__drv_node *last;            /* that was looked up: mostly what the next one depends on */
    PH__VEC(ph__drv_node *) notes; /* of nodes submitted by this library, in order */
    bool notes_lost;               /* one could not be kept */
    bool unmapped;                 /* listed nodes are not in by_handle yet */
    /* cuda_position.c: where in `fronts` each position begins; settled: how many nodes had been
     * made there. fronts: what streams stood behind. Under the order while the capture is open,
     * then as the rest. */
    bool settled;
    PH__VEC(size_t) positions;
    PH__VEC(ph__cu_node) fronts;
    PH__VEC(ph__drv_node *) nodes;   /* in the driver's order */
    PH__VEC(ph__drv_graph *) bodies; /* of child graphs: go with it */
    ph__drv_node *const *lent;       /* what capture_get gave out last where it was more than one */
    size_t lent_count;
    ph__map layouts; /* CUfunction or CUkernel -> ph__cuda_layout, for the time of reading back */
    struct ph__cuda_block *blocks;
    size_t block_bytes; /* of all blocks */
};
/* NULL: no host memory. The CUgraph stays the caller's then. */
ph__drv_graph *ph__cuda_graph_create(ph__drv_device *device, ph__cu_graph handle, bool owned);
/* The node of a handle, or NULL: it was never met. */
ph__drv_node *ph__cuda_graph_find_locked(ph__drv_graph *graph, ph__cu_node handle);
/* The node of a handle, made when it was not met before; NULL: no host memory. */
ph__drv_node *ph__cuda_graph_node_locked(ph__drv_graph *graph, ph__cu_node handle);
/* cuda_list.c: fills `nodes`; CUDA's number. */
int ph__cuda_graph_list(ph__drv_graph *graph);
/* Memory that lives as long as the picture, aligned for any type; NULL: none. */
void *ph__cuda_graph_room_locked(ph__drv_graph *graph, size_t bytes);
void *ph__cuda_graph_room(ph__drv_graph *graph, size_t bytes);

/* What a node depends on, as the driver has it. */
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

/* ---- cuda_decode.c ---- reads a node back from the driver, if it is not decoded yet. CUDA's
 * number. */
int ph__cuda_decode(ph__drv_node *node);

/* ---- cuda_exec.c ---- */
struct ph__drv_exec {
    ph__drv_device *device;
    ph__cu_exec handle;
    bool deferred;        /* not uploaded yet */
    ph__drv_graph *graph; /* its template */
    ph__drv_memory memory;
    /* by index of the template's node: what each runs since an update brought others; NULL: the
     * template's */
    ph__drv_kernel **kernels;
    ph__cuda_layout **layouts; /* likewise, copies: of kernels that this library did not load */
    /* NULL, or `handle` is of a copy of the template, and these are its nodes
     * (cuda_profile_events.c) */
    ph__cu_node *copies;
};
/* What the driver calls a node of the template, where it is about the executable. */
static inline ph__cu_node ph__cuda_exec_node(const ph__drv_exec *exec, const ph__drv_node *node)
{
    return exec->copies ? exec->copies[node->index] : node->handle;
}

void ph__cuda_exec_drop_layouts(ph__drv_exec *exec); /* cuda_update.c */

/* ---- cuda_capture.c ---- */
struct ph__cuda_capture {
    uint64_t id;
    ph__drv_stream *origin;
    ph__drv_graph *graph;       /* what is known of it so far */
    PH__VEC(ph__cu_node) roots; /* that write cells; under the order */
};
/* CUDA 13 crashes when a capture begins on a stream, ends, or takes the stream in, while another
 * thread is inside any call on that stream, a question included (docs/guide/cuda.md). So every call
 * on an explicit stream shares stream->calls; begin and join hold it alone. While captures are
 * open, calls that read or change one hold device->order too: a stream's place that
 * GetCaptureInfo lends stays valid, and no capture ends meanwhile. Nothing that blocks may stand
 * inside. */
static inline bool ph__cuda_order_enter(ph__drv_stream *stream)
{
    ph__shared_lock(&stream->calls);
    bool open = atomic_load_explicit(&stream->device->open_captures, memory_order_relaxed) != 0;
    if (open)
        ph__spin_lock(&stream->device->order);
    return open;
}
static inline void ph__cuda_order_leave(ph__drv_stream *stream, bool entered)
{
    if (entered)
        ph__spin_unlock(&stream->device->order);
    ph__shared_unlock(&stream->calls);
}
/* The capture of that id, of those that began here, or NULL. */
ph__cuda_capture *ph__cuda_capture_find_locked(const ph__drv_device *device, uint64_t id);

/* Under the order: whether the stream's next node depends on a root of its capture. */
bool ph__cuda_follows_root(ph__drv_stream *stream);

/* ---- cuda_note.c ---- around the submission of one node's work by this library, so that its
 * node need not be read back later. begin looks whether the stream is capturing; end keeps
 * `node`'s info (dependencies apart) and the bytes of its arguments. What cannot be kept for
 * want of memory is read back later. Cheap while no capture is open. One of keep, launch and
 * leave must follow. */
typedef struct ph__cuda_note {
    bool capturing; /* the stream is in an active capture; the order is held until the end */
    uint64_t id;
    int result; /* what CUDA answered to the question whether it is capturing */
} ph__cuda_note;
void ph__cuda_note_look(ph__cuda_note *note, ph__drv_stream *stream);
void ph__cuda_note_keep(ph__cuda_note *note, ph__drv_stream *stream, const ph__drv_node *node,
                        int result);
/* The same for a launch. */
void ph__cuda_note_launch(ph__cuda_note *note, ph__drv_stream *stream, ph__drv_kernel *kernel,
                          const ph__drv_launch *launch, int result);
/* The note alone, under the order: of a node that stays to be read back, where kind is all that
 * is given. */
void ph__cuda_note_add(ph__drv_device *device, uint64_t id, const ph__drv_node *node);
static inline void ph__cuda_note_begin(ph__cuda_note *note, ph__drv_stream *stream)
{
    note->capturing = false;
    note->id = 0;
    note->result = PH__R_OK;
    if (!stream->handle)
        return;
    ph__shared_lock(&stream->calls);
    if (atomic_load_explicit(&stream->device->open_captures, memory_order_relaxed) != 0)
        ph__cuda_note_look(note, stream);
}
/* Nothing to note. */
static inline void ph__cuda_note_leave(const ph__cuda_note *note, ph__drv_stream *stream)
{
    if (!stream->handle)
        return;
    if (note->capturing)
        ph__spin_unlock(&stream->device->order);
    ph__shared_unlock(&stream->calls);
}

/* ---- cuda_fills.c ---- small memset nodes as launches of the core's fill kernel. */
/* A contiguous memset of at most PH__CUDA_FILL_LIMIT bytes that is a memset node still; decoded. */
bool ph__cuda_fill_is_small(const ph__drv_node *node);
/* For an update: mine is a launch of the fill kernel, theirs a memset node that could be one. */
bool ph__cuda_fill_takes_clone(const ph__drv_node *mine, const ph__drv_node *theirs);
/* A clone of the graph in which each memset node is a kernel whose counterpart of the same index
 * in `like` is one. *out: NULL where there are none; else the caller destroys it. CUDA's number. */
int ph__cuda_graph_lowered_clone(ph__cu_graph *out, const ph__drv_graph *graph,
                                 const ph__drv_graph *like);

/* ---- cuda_update.c ---- the start of a message: "node 3 (kernel add)". */
void ph__cuda_node_words(char out[128], const ph__drv_node *node);

/* ---- cuda_logs.c ---- the driver's own reports of failing calls, for ph__suspect_note; counted
 * by open captures. Nothing where the driver has no log callback and CUPTI was not asked for. */
void ph__cuda_logs_begin(void);
void ph__cuda_logs_end(void);

/* ---- cuda_cupti.c ---- the library, loaded for good; NULL: there is none. ours: the library
 * itself is CUPTI's one subscriber. */
void *ph__cuda_cupti_open(void);
bool ph__cuda_cupti_is_ours(void);

/* ---- cuda_activity.c ---- CUPTI's records, one user at a time. open: false, and why. read:
 * appends the spans of what ran since the last read; CUDA's number. */
typedef PH__VEC(ph__drv_span) ph__cuda_spans;
typedef struct ph__cuda_activity ph__cuda_activity;
bool ph__cuda_activity_open(ph__cuda_activity **out, const ph__drv_exec *exec, char why[256]);
int ph__cuda_activity_read(ph__cuda_activity *activity, ph__cuda_spans *spans);
void ph__cuda_activity_close(ph__cuda_activity *activity); /* takes NULL */

/* ---- cuda_profile_events.c ---- a copy of the executable's graph with an event behind each
 * node, in the executable's place until close. CUDA's numbers. */
typedef struct ph__cuda_clone ph__cuda_clone;
int ph__cuda_clone_open(ph__cuda_clone **out, ph__drv_exec *exec);
int ph__cuda_clone_read(ph__cuda_clone *copy, ph__cuda_spans *spans);
void ph__cuda_clone_close(ph__cuda_clone *copy); /* takes NULL */

/* ---- the entries ---- see driver.def */
#define PH__ENTRY(type, name, parameters) type ph__cuda_##name parameters;
#include "driver/driver.def"
#endif
