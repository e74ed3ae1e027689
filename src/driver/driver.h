/* SPDX-License-Identifier: MIT */
/* driver/driver.h: the one interface below which devices differ: a table of functions that
 * behave as CUDA's driver API does, with its numbers. Nothing above knows which driver it talks
 * to. A driver is a folder with one `const ph__driver`.
 *
 * Contract of every entry:
 * - Returns CUDA's number (0 is success); outputs are written on success only. Leaves the
 *   calling thread's CUDA context as it was. Which entry is legal in which capture is the driver
 *   column of rules.def; an illegal one returns its number and invalidates the captures that it
 *   offends, as CUDA does.
 * - Thread-safe. Holds no lock of the layers above. `destroy` entries take NULL, are legal in
 *   every capture, and never fail.
 * - Does not touch the error record. For a failure whose number says too little,
 *   ph__driver_reason() has words, per thread.
 * - Allocates host memory only through base/alloc.h and answers 2 when there is none. */
#ifndef PH_DRIVER_DRIVER_H
#define PH_DRIVER_DRIVER_H
#include "driver/fail.h"
#include "driver/names.h"
#include "driver/reason.h"
#include "driver/result.h"
#include <phonograph/device.h>
#include <phonograph/profile.h>
#include <phonograph/record.h>
#include <stdatomic.h>

/* Handles. Each driver gives them its own meaning; NULL stands for none. ph__drv_node is owned
 * by its graph. */
typedef struct ph__drv_device ph__drv_device;
typedef struct ph__drv_stream ph__drv_stream;
typedef struct ph__drv_event ph__drv_event;
typedef struct ph__drv_kernel ph__drv_kernel;
typedef struct ph__drv_graph ph__drv_graph;
typedef struct ph__drv_node ph__drv_node;
typedef struct ph__drv_exec ph__drv_exec;
typedef struct ph__drv_profile ph__drv_profile;

typedef struct ph__drv_device_options {
    uint32_t threads;
    uint64_t chaos_seed;
    uint64_t memory_bytes;
} ph__drv_device_options;

typedef struct ph__drv_device_info {
    ph_device_kind kind;
    char description[128];
    uint64_t memory_total, memory_free;
    uint32_t threads;
    int priority_lowest, priority_highest;        /* as CUDA: 0 and a negative number */
    size_t segment_granularity;                   /* segments are multiples of this, 2 MiB */
    uint32_t multiprocessors, compute_capability; /* as in ph_device_info */
    size_t shared_bytes_per_block_max;
} ph__drv_device_info;

enum {
    PH__STREAM_BLOCKING = 0,
    PH__STREAM_NON_BLOCKING = 1
}; /* CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING */
enum {
    PH__EVENT_TIMING = 0,
    PH__EVENT_DISABLE_TIMING = 2
}; /* CU_EVENT_DEFAULT, CU_EVENT_DISABLE_TIMING */
enum {
    PH__EVENT_RECORD_DEFAULT = 0,
    PH__EVENT_RECORD_EXTERNAL = 1
}; /* also for waits */

/* Where an address points. base/size: the driver's own range around it (a segment, a pinned
 * allocation); buffer_id: unique for that allocation in the life of the process. */
typedef enum ph__memory_kind {
    PH__MEMORY_PAGEABLE = 0,
    PH__MEMORY_PINNED = 1,
    PH__MEMORY_DEVICE = 2
} ph__memory_kind;
typedef struct ph__drv_pointer {
    ph__memory_kind kind;
    uintptr_t base;
    size_t size;
    uint64_t buffer_id;
} ph__drv_pointer;

typedef struct ph__drv_launch {
    uint32_t grid[3], block[3]; /* no zeros */
    size_t shared_bytes;
    const void *args; /* kernel's args_size bytes, copied */
    /* It may begin before the kernel before it on the stream has ended: it waits by itself. A
     * hint: a driver may order it fully. No part of exec_set_kernel. */
    bool programmatic;
    /* launch alone: NULL, or where the id of the capture goes that recorded it; left alone when
     * none did. Where a capture began on another thread during the call, it may be told though
     * it did not. */
    uint64_t *capture_id;
} ph__drv_launch;
typedef struct ph__drv_memcpy {
    void *dst;
    const void *src;
    size_t bytes;
} ph__drv_memcpy;
typedef struct ph__drv_memset {
    void *dst;
    uint32_t value, value_size; /* element and its bytes: 1 or 4 */
    size_t count;               /* elements */
} ph__drv_memset;
typedef struct ph__drv_host {
    ph_host_fn fn;
    void *user;
} ph__drv_host;

/* What a root node of a capture with cells is launched with: at replay count words are written,
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

/* The library's own kernels that watch replays, and their arguments. They write pinned host
 * memory, in words that are read while they run; where the arguments name none they do nothing.
 * A tick is a number that is greater than all that were taken before on the device; never 0. */
typedef enum ph__watch_kernel {
    PH__WATCH_CRUMB = 0, /* one thread: table[number] = a tick */
    /* any grid of blocks of PH__FINITE_BLOCK threads: each block has a part, whose tick is
     * written last */
    PH__WATCH_FINITE = 1
} ph__watch_kernel;
enum {
    PH__WATCH_KERNELS = 2,
    PH__FINITE_BLOCK = 1024,
    PH__FINITE_PARTS = 128 /* blocks, at most: each goes on after them */
};
typedef struct ph__drv_crumb {
    uint64_t *table;
    uint64_t number;
} ph__drv_crumb;
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
    /* what of a copy or fill no update can change, beyond what is told here: equal words for
     * equal things; NULL: nothing, or not known. Static */
    const char *form;
    bool strided; /* copies and fills: rows, planes or an array, so that no exec_set_* takes it */
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

/* What an executable takes: of the device measured around its making, and around exec_upload, so
 * that other allocations of that moment may be in it. */
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
    /* what the next node on this stream would depend on; borrowed until the stream's next call */
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

typedef struct ph__driver {
    const char *name;

    /* What the driver is, before any device: "" or the reason why it cannot be used. Creates
     * nothing. */
    void (*describe)(char version[48], uint32_t *device_count, char reason[256]);

    /* ---- device ---- close: every stream, event, graph and kernel of it was destroyed; waits
     * for work in flight. */
    int (*device_open)(ph__drv_device **out, uint32_t ordinal,
                       const ph__drv_device_options *options);
    void (*device_close)(ph__drv_device *device);
    int (*device_info)(ph__drv_device_info *out, ph__drv_device *device);
    int (*device_synchronize)(ph__drv_device *device);
    /* The calling thread's capture interaction mode for this driver; *mode is exchanged. Legal
     * always, and cannot fail for a mode that there is; keeps the reason of the call before;
     * device may be NULL. */
    int (*thread_exchange_mode)(ph__drv_device *device, ph_capture_mode *mode);
    /* The device's context is current on the calling thread until the pop. Legal always; pop
     * cannot fail. 801: this driver has none. */
    int (*context_push)(ph__drv_device *device);
    void (*context_pop)(ph__drv_device *device);

    /* ---- streams ---- default: the legacy default stream, lives as long as the device.
     * destroy: submitted work completes. */
    ph__drv_stream *(*stream_default)(ph__drv_device *device);
    int (*stream_create)(ph__drv_stream **out, ph__drv_device *device, int flags, int priority);
    void (*stream_destroy)(ph__drv_stream *stream);
    int (*stream_synchronize)(ph__drv_stream *stream);
    /* The same, but a stream that is capturing answers 900 and its capture goes on; one that
     * begins on the stream meanwhile neither waits nor is harmed. Not of the legacy stream, nor
     * for other code's captures. */
    int (*stream_wait)(ph__drv_stream *stream);
    int (*stream_query)(ph__drv_stream *stream); /* 0 or 600 */
    int (*stream_wait_event)(ph__drv_stream *stream, ph__drv_event *event, int flags);
    /* A stream that the user owns: destroy leaves it alone. native: the driver's own handle
     * (CUstream). 801: this driver has none; 201: it is of another context than the device's;
     * 400: no stream. ordinal: of the GPU that a native stream is of. */
    int (*stream_wrap)(ph__drv_stream **out, ph__drv_device *device, void *native, int *priority,
                       int *flags);
    int (*stream_ordinal)(uint32_t *ordinal, void *native);
    void *(*stream_native)(
        ph__drv_stream *stream); /* the entry is NULL where the driver's handles are not CUDA's */

    /* ---- events ---- */
    int (*event_create)(ph__drv_event **out, ph__drv_device *device, int flags);
    void (*event_destroy)(ph__drv_event *event);
    int (*event_record)(ph__drv_event *event, ph__drv_stream *stream, int flags);
    int (*event_query)(ph__drv_event *event); /* 0 or 600 */
    int (*event_synchronize)(ph__drv_event *event);
    int (*event_elapsed)(float *milliseconds, ph__drv_event *start, ph__drv_event *end);

    /* ---- memory ---- segments: address space and memory taken and given back in any capture;
     * bytes a multiple of the granularity; destroy requires that no work uses it. plain_*: as
     * cuMemAlloc, cuMemFree. */
    int (*segment_create)(void **out, ph__drv_device *device, size_t bytes);
    void (*segment_destroy)(ph__drv_device *device, void *address, size_t bytes);
    int (*plain_alloc)(void **out, ph__drv_device *device, size_t bytes);
    int (*plain_free)(ph__drv_device *device, void *address);
    int (*pinned_alloc)(void **out, ph__drv_device *device, size_t bytes);
    int (*pinned_free)(ph__drv_device *device, void *address);
    int (*pointer_info)(ph__drv_pointer *out, ph__drv_device *device,
                        const void *address); /* unknown addresses are PAGEABLE */
    /* Of device memory that pointer_info knows: the part of its range around the address that one
     * piece of memory stands behind. Virtual memory has several, or gaps. */
    int (*pointer_mapped)(uintptr_t *base, size_t *bytes, ph__drv_device *device,
                          const void *address);

    /* ---- kernels ---- destroy: submitted launches and graphs keep what they need. */
    int (*kernel_create)(ph__drv_kernel **out, ph__drv_device *device,
                         const ph_kernel_source *source);
    void (*kernel_destroy)(ph__drv_kernel *kernel);
    /* A function that the user loaded (CUfunction), which must outlive the kernel. args_size:
     * bytes of its parameters, the struct's padding included; name: the driver's, borrowed for
     * the kernel's life. 801: this driver has none. */
    int (*kernel_wrap)(ph__drv_kernel **out, ph__drv_device *device, void *native,
                       size_t *args_size, const char **name);
    /* The library's own kernel that writes cells, with room for so many (PH__CELLS_FEW or
     * PH__CELLS_MANY): its arguments are ph__drv_cells. Legal in every capture. */
    int (*kernel_cells)(ph__drv_kernel **out, ph__drv_device *device, unsigned room);
    /* Likewise that which watches replays: its arguments are ph__drv_crumb or ph__drv_finite. */
    int (*kernel_watch)(ph__drv_kernel **out, ph__drv_device *device, ph__watch_kernel which);
    /* Its code stays loaded until the device closes: for launches recorded where no one keeps
     * it. */
    void (*kernel_keep)(ph__drv_kernel *kernel);

    /* ---- work ---- recorded when the stream is capturing. memcpy as cuMemcpyAsync: a pageable
     * source is read before it returns, a pageable destination is written before it returns. */
    int (*launch)(ph__drv_stream *stream, ph__drv_kernel *kernel, const ph__drv_launch *launch);
    /* capture_id: NULL, or where the id of the capture goes that recorded it, as launch has it. */
    int (*copy)(ph__drv_stream *stream, const ph__drv_memcpy *copy, uint64_t *capture_id);
    int (*fill)(ph__drv_stream *stream, const ph__drv_memset *fill);
    int (*host)(ph__drv_stream *stream, const ph__drv_host *host);
    int (*copy_sync)(ph__drv_device *device,
                     const ph__drv_memcpy *copy); /* as cuMemcpy: over the legacy default stream */
    /* On a capturing stream only (401 otherwise): a node that runs a copy of the graph, which is
     * made now. */
    int (*child)(ph__drv_stream *stream, ph__drv_graph *graph);
    /* On a capturing stream only: a kernel's node that depends on nothing, and that nothing
     * depends on yet; no part of the stream's order. It lives as long as the graph that the
     * capture becomes. */
    int (*capture_root)(ph__drv_node **out, ph__drv_stream *stream, ph__drv_kernel *kernel,
                        const ph__drv_launch *launch);
    /* Likewise: the stream's next node depends on that one too, with a full edge, also a launch
     * that is programmatic. Nothing when it does already. */
    int (*capture_depend)(ph__drv_stream *stream, ph__drv_node *node);

    /* ---- capture ---- end: *graph is the caller's. get: never disturbs. */
    int (*capture_begin)(ph__drv_stream *stream, ph_capture_mode mode);
    int (*capture_end)(ph__drv_graph **graph, ph__drv_stream *stream);
    int (*capture_get)(ph__drv_capture *out, ph__drv_stream *stream);
    int (*capture_id)(uint64_t *id,
                      /* the id alone, of any capture, also an invalidated one; 0: none. Cheap */
                      ph__drv_stream *stream);
    /* Where the stream's capture stands: ascending, and the same again where nothing was added
     * meanwhile. graph_position says what it means when the capture is over. 401: the stream is
     * in none, 901: in an invalidated one. */
    int (*capture_position)(uint64_t *position, ph__drv_stream *stream);
    /* Ends the capture that began on this stream for good, from any thread, whatever its state,
     * and destroys its graph; nothing when there is none. For aborts, which must not fail. */
    void (*capture_drop)(ph__drv_stream *stream);

    /* ---- graphs ---- nodes in order of creation, borrowed until the graph changes. */
    void (*graph_destroy)(ph__drv_graph *graph);
    /* Takes the driver's own graph (CUgraph) over: destroy destroys it. 801: this driver has
     * none. disown undoes that: instead of a destroy, the native graph being the user's again
     * (NULL where import answers 801). native: what ph_graph_raw gives. host_bytes: what the
     * picture of it takes on the host, as far as the driver can tell. */
    int (*graph_import)(ph__drv_graph **out, ph__drv_device *device, void *native);
    void (*graph_disown)(ph__drv_graph *graph);
    void *(*graph_native)(ph__drv_graph *graph);
    size_t (*graph_host_bytes)(ph__drv_graph *graph);
    /* Another picture of the same graph, which somebody may have changed meanwhile; it is
     * still `graph` that destroys the driver's graph, until hand_over. 801: nobody can change
     * one, and the other two entries are NULL. native: the node's own handle, the same in both. */
    int (*graph_look_again)(ph__drv_graph **out, ph__drv_graph *graph);
    void (*graph_hand_over)(ph__drv_graph *to, ph__drv_graph *from);
    const void *(*node_native)(const ph__drv_node *node);
    /* After graph_nodes, of the graph that a capture became: how many of the nodes had been made
     * at that position of the capture. Nodes that other code makes on a stream which this
     * library does not know count as made where a stream that it knows comes behind them. */
    size_t (*graph_position)(ph__drv_graph *graph, uint64_t position);
    int (*graph_nodes)(ph__drv_node *const **nodes, size_t *count, ph__drv_graph *graph);
    /* After graph_nodes, before any executable: puts cheaper nodes in the place of those for which
     * the driver knows such; what nodes and node_info tell stays, but for the form. Nobody else may
     * hold the graph's handle or those of its nodes. After a failure the graph must not be used. */
    int (*graph_lower)(ph__drv_graph *graph);
    int (*node_info)(ph__drv_node_info *out, ph__drv_node *node);

    /* ---- executables ---- names nodes by those of the template that it was made of (which must
     * live as long); failed: the node to blame or NULL. instantiate uploads it as well, and it
     * is there when that returns, unless flags defer that. upload: behind the stream's work,
     * asynchronously; a launch on another stream comes after it only where an event orders it
     * so; what it takes of the device is added to exec_memory. Launches of one executable are
     * serialised. set_* and set_enabled apply to later launches; update: 910 and *out on a
     * mismatch, nothing changed. */
    int (*instantiate)(ph__drv_exec **out, ph__drv_graph *graph, int flags, ph__drv_node **failed);
    void (*exec_destroy)(ph__drv_exec *exec);
    void *(*exec_native)(ph__drv_exec *exec);
    void (*exec_memory)(ph__drv_memory *out, ph__drv_exec *exec);
    /* What the vendor's tools call the executable's node in their traces; 0 where that cannot be
     * told. */
    void (*exec_tools_id)(uint64_t *out, ph__drv_exec *exec, ph__drv_node *node);
    int (*exec_upload)(ph__drv_exec *exec, ph__drv_stream *stream);
    int (*exec_launch)(ph__drv_exec *exec, ph__drv_stream *stream);
    int (*exec_update)(ph__drv_exec *exec, ph__drv_graph *graph, ph__drv_update *out);
    int (*exec_set_kernel)(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_launch *launch);
    /* The same for a node of any kernel, also one that this library did not load: args are laid
     * out as node_info lays them out, and args_size is what it says there, or what it says of
     * the graph that an update brought. Grid, block and shared bytes are to be those which the
     * executable has. */
    int (*exec_set_args)(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_launch *launch,
                         size_t args_size);
    int (*exec_set_copy)(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_memcpy *copy);
    int (*exec_set_fill)(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_memset *fill);
    int (*exec_set_host)(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_host *host);
    int (*exec_set_enabled)(ph__drv_exec *exec, ph__drv_node *node, bool enabled);
    int (*exec_get_enabled)(bool *out, ph__drv_exec *exec, ph__drv_node *node);

    /* ---- profiles ---- launches of the executable are measured from open to close, node by
     * node. open: none of them is in flight, and there is no other profile of it; *source: which
     * one is wanted (AUTO: the first that works), which one it is. 801 with a reason: not that
     * source, not here, not now. EVENTS launches a copy of what was instantiated, with the nodes
     * that are disabled: what exec_set_* and exec_update gave the executable before open it does
     * not have, and what they give while it is open the executable does not get. read: of the
     * last launch, which is over; nodes of the template that the source does not tell are not
     * among the spans, and a child graph's node stands for its body; borrowed until the next
     * launch. close: takes NULL; may wait for a launch in flight. */
    int (*profile_open)(ph__drv_profile **out, ph__drv_exec *exec, ph_profile_source *source);
    int (*profile_read)(const ph__drv_span **spans, size_t *count, ph__drv_profile *profile);
    void (*profile_close)(ph__drv_profile *profile);
} ph__driver;

/* The implementations. The list of them is device/drivers.h. */
extern const ph__driver ph__driver_cuda, ph__driver_host;

/* In a child of fork(), the driver of what its parent opened (forked.c): no entry of it looks at a
 * handle. */
extern const ph__driver ph__driver_forked;
extern const char ph__driver_forked_words[];

#endif
